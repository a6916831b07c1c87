//! The store of one host: settings, shared state of the roots, and subscriptions.
//!
//! [`Store`] is created once for a process and shared. It opens roots when they are first needed,
//! buffers uses, runs checkpoints in the background, and publishes changes, pins and proposals to
//! subscribers. It does not run commands: [`Memories`](crate::Memories) does.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use memory::change::{ChangeId, ChangeKind, DatabaseId, FileChange, Provenance, RootKey};
use memory::clock::{Clock, Timestamp};
use memory::limits::{
    CHANGES_BUFFERED, HISTORY_AGE_DEFAULT, HISTORY_BYTES_DEFAULT, SCOPE_FILES_DEFAULT,
    SCOPE_FILES_MAX,
};
use memory::screen::Screen;
use parking_lot::Mutex;
use state::{Announcement, EventLog, HistoryStore, Retention, StateError, UseEvent};
use tokio::sync::{OnceCell, broadcast};
use tokio::task::JoinHandle;

use crate::backend::HostedRoots;
use crate::backend::local::{Observer, highest_completed};
use crate::backend::remote::{Link, SshConnect, SshSettings};
use crate::binding::BaseFolders;
use crate::remote_folder::RemoteHost;
use crate::root::Root;

/// A recorded change. It is published once, after it is durable, however many memories it touched.
///
/// A change by another process in several roots is published once for each root, when that root is next locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeEvent {
    /// Number of the change.
    pub change: ChangeId,
    /// Kind of the change.
    pub kind: ChangeKind,
    /// Provenance of the change.
    pub provenance: Provenance,
    /// Effects on each memory, in the order of the change.
    pub files: Arc<[FileChange]>,
}

/// Settings of a store.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// Maximum number of memories in a scope, up to [`SCOPE_FILES_MAX`].
    pub files_max: usize,
    /// Age and size of the history that is kept.
    pub retention: Retention,
    /// Whether global, workspace and host-local project roots carry a generated `MEMORY.md`.
    pub memory_list: bool,
    /// Settings for reaching other machines.
    pub ssh: SshSettings,
    /// The roots that belong to no checkout, if they are not folders of this host.
    pub hosted: Option<Arc<dyn HostedRoots>>,
    /// The log that gets the announcements, if several daemons share one.
    pub events: Option<Arc<dyn EventLog>>,
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            files_max: SCOPE_FILES_DEFAULT,
            retention: Retention { age: HISTORY_AGE_DEFAULT, bytes: HISTORY_BYTES_DEFAULT },
            memory_list: true,
            ssh: SshSettings::default(),
            hosted: None,
            events: None,
        }
    }
}

/// The memories of this host: opens roots, keeps what they share, and hands out [`Memories`](crate::Memories).
///
/// Requires tokio: background work is spawned on the runtime that a command is awaited in.
#[derive(Debug)]
pub struct Store {
    pub(crate) state: Arc<dyn HistoryStore>,
    /// The identity of the database, once it was needed.
    database_id: OnceCell<DatabaseId>,
    pub(crate) folders: BaseFolders,
    pub(crate) screen: Screen,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: StoreSettings,
    pub(crate) roots: Mutex<HashMap<RootKey, Arc<Root>>>,
    /// Notices about changed files, for all roots.
    pub(crate) observer: Arc<Observer>,
    /// The links to other machines.
    links: Mutex<HashMap<RemoteHost, Arc<Link>>>,
    /// Uses that are not stored yet.
    pub(crate) uses: Mutex<Vec<UseEvent>>,
    /// Number of times that uses were buffered. Tells whether a count of uses may be out of date.
    pub(crate) uses_noted: AtomicU64,
    pub(crate) background: Background,
    change_events: broadcast::Sender<ChangeEvent>,
    announcements: broadcast::Sender<Announcement>,
}

/// Work that is left to do after writes.
#[derive(Debug, Default)]
pub(crate) struct Background {
    /// Roots with open changes, and the number of writes since the last checkpoint.
    pub(crate) dirty: Mutex<(Vec<Arc<Root>>, usize)>,
    /// Held during a checkpoint, so that closing the store waits for it.
    pub(crate) checkpoint_lock: tokio::sync::Mutex<()>,
    /// The task that flushes uses and runs checkpoints; started by the first use or write.
    pub(crate) task: Mutex<Option<JoinHandle<()>>>,
    pub(crate) pruned_at: Mutex<Option<Timestamp>>,
}

impl Store {
    /// Creates a store. Opens nothing: roots and state are opened when they are first needed.
    pub fn new(
        state: Arc<dyn HistoryStore>,
        folders: BaseFolders,
        screen: Screen,
        clock: Arc<dyn Clock>,
        settings: StoreSettings,
    ) -> Arc<Self> {
        let settings =
            StoreSettings { files_max: settings.files_max.clamp(1, SCOPE_FILES_MAX), ..settings };
        Arc::new(Self {
            state,
            database_id: OnceCell::new(),
            folders,
            screen,
            clock,
            settings,
            roots: Mutex::default(),
            observer: Arc::default(),
            links: Mutex::default(),
            uses: Mutex::default(),
            uses_noted: AtomicU64::new(0),
            background: Background::default(),
            change_events: broadcast::Sender::new(CHANGES_BUFFERED),
            announcements: broadcast::Sender::new(CHANGES_BUFFERED),
        })
    }

    /// Returns the link to a machine. All its roots share it.
    pub(crate) fn link(&self, host: &RemoteHost) -> Arc<Link> {
        let mut links = self.links.lock();
        let link = links.entry(host.clone()).or_insert_with(|| {
            let ssh = self.settings.ssh.clone();
            let wait_max = ssh.wait_max;
            Link::new(Box::new(SshConnect::new(ssh, host.clone())), wait_max)
        });
        Arc::clone(link)
    }

    /// Returns the identity of the state database.
    pub(crate) async fn database_id(&self) -> Result<DatabaseId, StateError> {
        self.database_id.get_or_try_init(|| self.state.database_id()).await.copied()
    }

    /// Returns the highest number of a change that was completed in any root, as their lock files say.
    pub(crate) async fn highest_completed(&self) -> Option<ChangeId> {
        let folder = self.folders.locks_folder();
        let highest = tokio::task::spawn_blocking(move || highest_completed(&folder));
        highest.await.ok().flatten()
    }

    /// Subscribes to changes from now on: those of this process, and those of others that a watch detects. A
    /// subscriber that lags more than [`CHANGES_BUFFERED`] events behind gets an error and has to list again.
    pub fn subscribe(&self) -> broadcast::Receiver<ChangeEvent> {
        self.change_events.subscribe()
    }

    /// Subscribes to pins and proposals that this process stores from now on. Those go to the log instead if there is
    /// one.
    pub fn subscribe_to_announcements(&self) -> broadcast::Receiver<Announcement> {
        self.announcements.subscribe()
    }

    /// Publishes a pin or proposals that were stored: in the log that several daemons share, or to subscribers in this
    /// process. What is stored stays if that fails, so a failure is only logged.
    pub async fn announce(&self, announcement: Announcement) {
        match &self.settings.events {
            Some(events) => {
                if let Err(error) = events.append(&announcement).await {
                    tracing::warn!(%error, "subscribers are not notified of a pin or a proposal");
                }
            }
            // A send without receivers is no error.
            None => drop(self.announcements.send(announcement)),
        }
    }

    /// Returns the roots that this process has opened.
    pub(crate) fn known_roots(&self) -> Vec<Arc<Root>> {
        self.roots.lock().values().cloned().collect()
    }

    /// Checks whether changes have subscribers.
    pub(crate) fn has_subscribers(&self) -> bool {
        self.change_events.receiver_count() > 0
    }

    /// Publishes a recorded change to subscribers.
    pub(crate) fn publish_change(
        &self,
        change: ChangeId,
        kind: ChangeKind,
        provenance: &Provenance,
        files: &[FileChange],
    ) {
        if self.has_subscribers() {
            let (provenance, files) = (provenance.clone(), Arc::from(files));
            // A send without receivers is no error.
            drop(self.change_events.send(ChangeEvent { change, kind, provenance, files }));
        }
    }
}
