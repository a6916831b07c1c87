//! Notifications to a client that a memory, or the list of memories, changed.
//!
//! Changes by this client, other processes and editors are all reported. The file watch starts with the first
//! subscription, so that a start without one costs nothing. Clients of older revisions subscribe to one memory after
//! the other and are notified over their connection; clients of the newest revision open a stream per subscription.
//! Both are served by a [`ChangeListener`].

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

/// The memories of a subscription, each with the URI as the client wrote it.
pub(super) type Subscriptions = BTreeMap<MemoryPath, String>;

/// The source of external edits.
#[derive(Clone, Debug, Default)]
pub(super) enum WatchSource {
    /// A file watch per client, which ends with it.
    #[default]
    PerClient,
    /// The feed of a workspace, shared by all its clients, because the number of file watches of a machine is limited.
    Feed(Arc<Feeds>, String),
}

/// The watch and the subscriptions of one connection.
#[derive(Debug, Default)]
pub(super) struct Changes {
    watch_source: WatchSource,
    /// The client's memories, which map a change to a memory path.
    bound: Arc<Mutex<Option<BoundWorkspace>>>,
    /// The watch over them. Locked while a watch starts, so that other requests wait for it.
    watch: tokio::sync::Mutex<Option<ActiveWatch>>,
    /// Whether notifications to a client of an older revision have started.
    is_notifying: AtomicBool,
    /// The subscriptions of a client of an older revision.
    subscribed: Arc<Mutex<Subscriptions>>,
    /// The task that sends these notifications, and those that start a watch for a list; all end with the connection.
    tasks: Mutex<JoinSet<()>>,
    /// The receivers of streams that are about to be opened. Each is created before the client gets the confirmation of
    /// its subscription, so that no change is lost in between.
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
    /// `None` if the feed watches, or if the watch failed to start. In the latter case only changes of this process are
    /// reported.
    _own: Option<Watch>,
}

impl Changes {
    /// Creates the state of a connection with this source of external edits.
    pub(super) fn with_source(watch_source: WatchSource) -> Self {
        Self { watch_source, ..Self::default() }
    }

    /// Watches these memories, in place of those of another project.
    ///
    /// Returns when later external edits are certain to be detected. Earlier ones are found by the scan with which a
    /// watch starts.
    pub(super) async fn watch(&self, bound: BoundWorkspace) {
        let BoundWorkspace { project, memories } = bound.clone();
        *self.bound.lock() = Some(bound);
        let mut watch = self.watch.lock().await;
        if watch.as_ref().is_some_and(|active| active.project == project) {
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
                    tracing::warn!(
                        error = error_chain(error),
                        "file watch failed; external edits are not reported"
                    );
                })
                .ok(),
        };
        *watch = Some(ActiveWatch { project, _own: own });
    }

    /// Starts [`Self::watch`] in the background.
    pub(super) fn spawn_watch(self: &Arc<Self>, bound: BoundWorkspace) {
        if self.bound.lock().as_ref().is_some_and(|current| current.project == bound.project) {
            return;
        }
        let this = Arc::clone(self);
        self.tasks.lock().spawn(async move { this.watch(bound).await });
    }

    /// Returns whether anything is watched, so that a change of the project requires a new watch.
    pub(super) fn is_watching(&self) -> bool {
        self.bound.lock().is_some()
    }

    /// Starts notifications of list changes and of subscriptions to a client of an older revision. Later calls do
    /// nothing.
    pub(super) fn start_notifications(
        &self,
        peer: &Peer<RoleServer>,
        notices: impl FnOnce() -> Receiver<ChangeEvent>,
    ) {
        if !self.is_notifying.swap(true, Ordering::Relaxed) {
            let subscriber = Subscriber::Connection(peer.clone(), Arc::clone(&self.subscribed));
            let listener =
                ChangeListener { notices: notices(), bound: Arc::clone(&self.bound), subscriber };
            self.tasks.lock().spawn(listener.listen());
        }
    }

    /// Adds a subscription of a client of an older revision.
    pub(super) fn subscribe(&self, path: MemoryPath, uri: String) {
        self.subscribed.lock().insert(path, uri);
    }

    /// Removes a subscription of a client of an older revision.
    pub(super) fn unsubscribe(&self, path: &MemoryPath) {
        self.subscribed.lock().remove(path);
    }

    /// Stores the receiver for the stream that is opened next.
    pub(super) fn prepare_stream(&self, notices: Receiver<ChangeEvent>) {
        self.stream_receivers.lock().push_back(notices);
    }

    /// Sends notifications over a stream until the client disconnects.
    pub(super) async fn stream(
        &self,
        sink: SubscriptionSink,
        subscribed: Subscriptions,
        notices: impl FnOnce() -> Receiver<ChangeEvent>,
    ) {
        let notices = self.stream_receivers.lock().pop_front().unwrap_or_else(notices);
        let listener = ChangeListener {
            notices,
            bound: Arc::clone(&self.bound),
            subscriber: Subscriber::Stream(sink, subscribed),
        };
        listener.listen().await;
    }
}

/// The receiver of notifications.
enum Subscriber {
    /// A client of an older revision, over its connection.
    Connection(Peer<RoleServer>, Arc<Mutex<Subscriptions>>),
    /// One subscription of the newest revision.
    Stream(SubscriptionSink, Subscriptions),
}

/// The client has disconnected.
struct Disconnected;

/// A loop that reads changes and notifies one subscriber.
struct ChangeListener {
    notices: Receiver<ChangeEvent>,
    bound: Arc<Mutex<Option<BoundWorkspace>>>,
    subscriber: Subscriber,
}

impl ChangeListener {
    async fn listen(mut self) {
        loop {
            let pending = match self.notices.recv().await {
                Ok(first) => self.collect(&first),
                Err(RecvError::Lagged(_)) => PendingNotifications::all_changed(),
                Err(RecvError::Closed) => return,
            };
            if self.subscriber.notify(&pending).await.is_err() {
                return;
            }
        }
    }

    /// Collects all changes that are already queued, so that a burst is one notification.
    fn collect(&mut self, first: &ChangeEvent) -> PendingNotifications {
        let Some(BoundWorkspace { memories, .. }) = self.bound.lock().clone() else {
            return PendingNotifications::all_changed();
        };
        let mut pending = PendingNotifications::default();
        pending.add(first, &memories);
        loop {
            match self.notices.try_recv() {
                Ok(notice) => pending.add(&notice, &memories),
                Err(TryRecvError::Lagged(_)) => return PendingNotifications::all_changed(),
                Err(TryRecvError::Empty | TryRecvError::Closed) => return pending,
            }
        }
    }
}

/// The notifications to send.
#[derive(Debug, Default, PartialEq, Eq)]
struct PendingNotifications {
    /// Whether memories may have been added or removed.
    list_changed: bool,
    changed: ChangedPaths,
}

/// The changed memories.
#[derive(Debug, PartialEq, Eq)]
enum ChangedPaths {
    Listed(Vec<MemoryPath>),
    /// Any memory: changes were lost because the receiver lagged, or the memories are not bound yet.
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
            // A file without a path in the client's mounts belongs to another project.
            let Some(path) = path_of(&file.root, &file.path) else { continue };
            self.list_changed |= affects_list(notice.kind);
            if let ChangedPaths::Listed(paths) = &mut self.changed {
                paths.push(path);
                paths.extend(file.moved_to.as_ref().and_then(|to| path_of(&file.root, to)));
            }
        }
    }
}

/// Returns whether a change of this kind can add or remove a memory.
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
    /// Returns the URIs of the subscriptions that changed.
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
    async fn notify(&self, pending: &PendingNotifications) -> Result<(), Disconnected> {
        match self {
            Self::Connection(peer, subscribed) => {
                let uris = pending.changed.uris(&subscribed.lock());
                for uri in uris {
                    let updated = ResourceUpdatedNotificationParam::new(uri);
                    peer.notify_resource_updated(updated).await.map_err(|_| Disconnected)?;
                }
                if pending.list_changed {
                    peer.notify_resource_list_changed().await.map_err(|_| Disconnected)?;
                }
            }
            Self::Stream(sink, subscribed) => {
                for uri in pending.changed.uris(subscribed) {
                    sink.notify_resource_updated(uri).await.map_err(|_| Disconnected)?;
                }
                if pending.list_changed && sink.accepted().resources_list_changed == Some(true) {
                    sink.notify_resource_list_changed().await.map_err(|_| Disconnected)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
