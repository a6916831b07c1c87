//! Telling a client that a memory, or the list of memories, changed.
//!
//! Whoever changed it: this client, another process, an editor. The folders are watched from the
//! first time that somebody can be told on, so that a start costs nothing. The older revisions
//! subscribe one memory after the other and get their notices over the connection; the newest one
//! opens a stream per subscription. Both are [`Listener`]s here.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::{ChangeEvent, Feeds, Memories, Watch};
use memory::change::ChangeKind;
use memory::path::MemoryPath;
use parking_lot::Mutex;
use rmcp::RoleServer;
use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::{Peer, SubscriptionSink};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::task::JoinSet;

use super::roots::ClientProject;
use crate::error_chain;

/// The memories that somebody wants to hear of, each with the URI as the client wrote it.
pub(super) type Subscriptions = BTreeMap<MemoryPath, String>;

/// Who watches the folders for edits from outside.
#[derive(Clone, Debug, Default)]
pub(super) enum WatchSource {
    /// Each client has a watch of its own, which ends with it.
    #[default]
    PerClient,
    /// The feed of a workspace does, once for all its clients: a machine has few watches to give.
    Feed(Arc<Feeds>, String),
}

/// What one connection listens to.
#[derive(Debug, Default)]
pub(super) struct Changes {
    watch_source: WatchSource,
    /// The client's memories, by which a notice becomes a path.
    bound: Arc<Mutex<Option<BoundWorkspace>>>,
    /// The watch over them. Held while one is started, so that others wait for it.
    watch: tokio::sync::Mutex<Option<ActiveWatch>>,
    /// Whether a client of an older revision is told of changes.
    is_notifying: AtomicBool,
    /// What it subscribed to.
    subscribed: Arc<Mutex<Subscriptions>>,
    /// The task that tells of that, and the one that starts a watch for a list; both end with the
    /// connection.
    tasks: Mutex<JoinSet<()>>,
    /// Where streams begin to read that are about to be opened: before the client hears that it
    /// is subscribed, so that nothing is lost in between.
    stream_receivers: Mutex<VecDeque<Receiver<ChangeEvent>>>,
}

/// The memories of the project that a client works in.
#[derive(Clone, Debug)]
pub(super) struct BoundWorkspace {
    pub(super) project: ClientProject,
    pub(super) memories: Memories,
}

/// A watch over the memories of a project.
#[derive(Debug)]
struct ActiveWatch {
    project: ClientProject,
    /// `None` when another has it, or when the machine refuses: then only what this process changes is
    /// told.
    _own: Option<Watch>,
}

impl Changes {
    /// Returns changes of which nobody is told yet.
    pub(super) fn with_source(watcher: WatchSource) -> Self {
        Self { watch_source: watcher, ..Self::default() }
    }

    /// Watches these memories, if that is not done already, instead of those of another project.
    ///
    /// Returns when an edit from outside cannot go unnoticed any more. What was edited shortly
    /// before is found by the look with which a watch begins.
    pub(super) async fn watch(&self, bound: BoundWorkspace) {
        let BoundWorkspace { project, memories } = bound.clone();
        *self.bound.lock() = Some(bound);
        let mut watch = self.watch.lock().await;
        if watch.as_ref().is_some_and(|watched| watched.project == project) {
            return;
        }
        let own = match &self.watch_source {
            WatchSource::Feed(feeds, workspace) => {
                feeds.ensure_watching(workspace).await;
                None
            }
            WatchSource::PerClient => memories
                .watch()
                .await
                .inspect_err(|error| {
                    tracing::warn!(error = error_chain(error), "edits from outside go unnoticed");
                })
                .ok(),
        };
        *watch = Some(ActiveWatch { project, _own: own });
    }

    /// Watches these memories without anybody waiting for it.
    pub(super) fn spawn_watch(self: &Arc<Self>, bound: BoundWorkspace) {
        if self.bound.lock().as_ref().is_some_and(|known| known.project == bound.project) {
            return;
        }
        let this = Arc::clone(self);
        self.tasks.lock().spawn(async move { this.watch(bound).await });
    }

    /// Returns whether anything is watched, so that a change of project matters.
    pub(super) fn is_watching(&self) -> bool {
        self.bound.lock().is_some()
    }

    /// Begins to tell an older client of changes, once: of the list, and of what it subscribes to.
    pub(super) fn start_notifications(
        &self,
        peer: &Peer<RoleServer>,
        notices: impl FnOnce() -> Receiver<ChangeEvent>,
    ) {
        if !self.is_notifying.swap(true, Ordering::Relaxed) {
            let ear = Subscriber::Connection(peer.clone(), Arc::clone(&self.subscribed));
            let listener = ChangeListener {
                notices: notices(),
                bound: Arc::clone(&self.bound),
                subscriber: ear,
            };
            self.tasks.lock().spawn(listener.listen());
        }
    }

    /// Adds a memory that an older client wants to hear of.
    pub(super) fn subscribe(&self, path: MemoryPath, uri: String) {
        self.subscribed.lock().insert(path, uri);
    }

    /// Takes it out again.
    pub(super) fn unsubscribe(&self, path: &MemoryPath) {
        self.subscribed.lock().remove(path);
    }

    /// Notes where a stream begins that will be opened next.
    pub(super) fn prepare_stream(&self, notices: Receiver<ChangeEvent>) {
        self.stream_receivers.lock().push_back(notices);
    }

    /// Tells of changes over a stream until the client is gone.
    pub(super) async fn stream(
        &self,
        sink: SubscriptionSink,
        subscribed: Subscriptions,
        notices: impl FnOnce() -> Receiver<ChangeEvent>,
    ) {
        let notices = self.stream_receivers.lock().pop_front().unwrap_or_else(notices);
        let ear = Subscriber::Stream(sink, subscribed);
        ChangeListener { notices, bound: Arc::clone(&self.bound), subscriber: ear }.listen().await;
    }
}

/// Who hears of changes.
enum Subscriber {
    /// A client of an older revision, over its connection.
    Connection(Peer<RoleServer>, Arc<Mutex<Subscriptions>>),
    /// One subscription of the newest revision.
    Stream(SubscriptionSink, Subscriptions),
}

/// The client is gone.
struct Disconnected;

/// Reads changes and tells one ear.
struct ChangeListener {
    notices: Receiver<ChangeEvent>,
    bound: Arc<Mutex<Option<BoundWorkspace>>>,
    subscriber: Subscriber,
}

impl ChangeListener {
    async fn listen(mut self) {
        loop {
            let news = match self.notices.recv().await {
                Ok(first) => self.collect(&first),
                Err(RecvError::Lagged(_)) => PendingNotifications::all_changed(),
                Err(RecvError::Closed) => return,
            };
            if self.subscriber.notify(&news).await.is_err() {
                return;
            }
        }
    }

    /// Gathers what happened at about the same time, so that a burst is told of once.
    fn collect(&mut self, first: &ChangeEvent) -> PendingNotifications {
        let Some(BoundWorkspace { memories, .. }) = self.bound.lock().clone() else {
            return PendingNotifications::all_changed();
        };
        let mut news = PendingNotifications::default();
        news.add(first, &memories);
        loop {
            match self.notices.try_recv() {
                Ok(notice) => news.add(&notice, &memories),
                Err(TryRecvError::Lagged(_)) => return PendingNotifications::all_changed(),
                Err(TryRecvError::Empty | TryRecvError::Closed) => return news,
            }
        }
    }
}

/// What there is to tell.
#[derive(Debug, Default, PartialEq, Eq)]
struct PendingNotifications {
    /// Memories came or went, or may have.
    list_changed: bool,
    changed: ChangedPaths,
}

/// Which memories changed.
#[derive(Debug, PartialEq, Eq)]
enum ChangedPaths {
    Listed(Vec<MemoryPath>),
    /// Too much happened to say.
    Any,
}

impl Default for ChangedPaths {
    fn default() -> Self {
        Self::Listed(Vec::new())
    }
}

impl PendingNotifications {
    fn all_changed() -> Self {
        Self { list_changed: true, changed: ChangedPaths::Any }
    }

    fn add(&mut self, notice: &ChangeEvent, memories: &Memories) {
        let path_of = |root, path| memories.virtual_path(root, path);
        for file in notice.files.iter() {
            // Memories of another project than the client's are none of its business.
            let Some(path) = path_of(&file.root, &file.path) else { continue };
            self.list_changed |= affects_list(notice.kind);
            if let ChangedPaths::Listed(paths) = &mut self.changed {
                paths.push(path);
                paths.extend(file.moved_to.as_ref().and_then(|to| path_of(&file.root, to)));
            }
        }
    }
}

/// Returns whether a change may have brought or taken a memory. All but an edit may.
fn affects_list(kind: ChangeKind) -> bool {
    match kind {
        ChangeKind::Edit => false,
        ChangeKind::Create
        | ChangeKind::Save
        | ChangeKind::Delete
        | ChangeKind::Rename
        | ChangeKind::Draft
        | ChangeKind::Import
        | ChangeKind::Undo
        | ChangeKind::Proposal
        | ChangeKind::Accept
        | ChangeKind::Outside => true,
    }
}

impl ChangedPaths {
    /// Returns the URIs to tell, of those that are subscribed to.
    fn uris(&self, subscribed: &Subscriptions) -> Vec<String> {
        match self {
            Self::Any => subscribed.values().cloned().collect(),
            Self::Listed(paths) => {
                let mut uris: Vec<String> =
                    paths.iter().filter_map(|path| subscribed.get(path).cloned()).collect();
                uris.sort_unstable();
                uris.dedup();
                uris
            }
        }
    }
}

impl Subscriber {
    async fn notify(&self, news: &PendingNotifications) -> Result<(), Disconnected> {
        match self {
            Self::Connection(peer, subscribed) => {
                let uris = news.changed.uris(&subscribed.lock());
                for uri in uris {
                    let updated = ResourceUpdatedNotificationParam::new(uri);
                    peer.notify_resource_updated(updated).await.map_err(|_| Disconnected)?;
                }
                if news.list_changed {
                    peer.notify_resource_list_changed().await.map_err(|_| Disconnected)?;
                }
            }
            Self::Stream(sink, subscribed) => {
                for uri in news.changed.uris(subscribed) {
                    sink.notify_resource_updated(uri).await.map_err(|_| Disconnected)?;
                }
                if news.list_changed && sink.accepted().resources_list_changed == Some(true) {
                    sink.notify_resource_list_changed().await.map_err(|_| Disconnected)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
