//! All memories of this host: what the roots share, and who hears of changes.

use std::collections::HashMap;
use std::sync::Arc;

use memory::change::{ChangeId, ChangeKind, FileChange, Provenance, RootKey};
use memory::clock::{Clock, Timestamp};
use memory::limits::{
    CHANGES_BUFFERED, HISTORY_AGE_DEFAULT, HISTORY_BYTES_DEFAULT, SCOPE_FILES_DEFAULT,
    SCOPE_FILES_MAX,
};
use memory::path::RelativePath;
use memory::proposal::{ProposalId, ProposalStatus};
use memory::screen::Screen;
use parking_lot::Mutex;
use state::{HistoryStore, Retention, UseEvent};
use tokio::sync::broadcast;
use tokio::task::JoinHandle;

use crate::backend::local::highest_completed;
use crate::binding::BaseFolders;
use crate::root::Root;

/// A change happened: sent to subscribers after it is durable, once however many memories it touched.
///
/// What another process changed in several roots is announced root by root, as each is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeEvent {
    /// The change's number.
    pub change: ChangeId,
    /// What was done.
    pub kind: ChangeKind,
    /// By whom.
    pub provenance: Provenance,
    /// What became of each memory, in the order of the change.
    pub files: Arc<[FileChange]>,
}

/// A memory was pinned or unpinned: sent to subscribers after it is stored. A pin is no change of a text, so
/// history does not have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinEvent {
    /// The root that the memory lies in.
    pub root: RootKey,
    /// Its path there.
    pub path: RelativePath,
    /// Whether it is pinned now.
    pub pinned: bool,
    /// Who pinned it.
    pub provenance: Provenance,
}

/// Proposals were made or decided: sent to subscribers after it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposalStatusEvent {
    /// Their numbers.
    pub ids: Vec<ProposalId>,
    /// How far they are now.
    pub status: ProposalStatus,
    /// The roots that they are about, all of them.
    pub roots: Vec<RootKey>,
    /// The task that made them.
    pub task: Option<String>,
    /// The change that accepting one made.
    pub change: Option<ChangeId>,
    /// Who made or decided them.
    pub provenance: Provenance,
}

/// What a store is set up with.
#[derive(Clone, Copy, Debug)]
pub struct StoreSettings {
    /// How many memories a scope may hold, up to [`SCOPE_FILES_MAX`].
    pub files_max: usize,
    /// How much history to keep.
    pub retention: Retention,
    /// Whether global, workspace and host-local project roots carry a generated `MEMORY.md`.
    pub memory_list: bool,
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            files_max: SCOPE_FILES_DEFAULT,
            retention: Retention { age: HISTORY_AGE_DEFAULT, bytes: HISTORY_BYTES_DEFAULT },
            memory_list: true,
        }
    }
}

/// All memories of this host: opens roots, keeps what they share, and hands out [`Memories`](crate::Memories).
///
/// Uses tokio: commands and the work behind them run on the runtime that they are awaited in.
#[derive(Debug)]
pub struct Store {
    pub(crate) state: Arc<dyn HistoryStore>,
    pub(crate) folders: BaseFolders,
    pub(crate) screen: Screen,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: StoreSettings,
    pub(crate) roots: Mutex<HashMap<RootKey, Arc<Root>>>,
    /// Uses that are not stored yet.
    pub(crate) uses: Mutex<Vec<UseEvent>>,
    pub(crate) background: Background,
    change_events: broadcast::Sender<ChangeEvent>,
    pin_events: broadcast::Sender<PinEvent>,
    proposal_events: broadcast::Sender<ProposalStatusEvent>,
}

/// What is still to be done after writes.
#[derive(Debug, Default)]
pub(crate) struct Background {
    /// Roots with open changes, and how many writes since they were last settled.
    pub(crate) dirty: Mutex<(Vec<Arc<Root>>, usize)>,
    /// Held while settling, so that closing waits for it.
    pub(crate) checkpoint_lock: tokio::sync::Mutex<()>,
    /// The task that stores and settles; started by the first use or write.
    pub(crate) task: Mutex<Option<JoinHandle<()>>>,
    /// When history was last pruned.
    pub(crate) pruned_at: Mutex<Option<Timestamp>>,
}

impl Store {
    /// Opens nothing yet: roots and state are touched when they are first needed.
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
            folders,
            screen,
            clock,
            settings,
            roots: Mutex::default(),
            uses: Mutex::default(),
            background: Background::default(),
            change_events: broadcast::Sender::new(CHANGES_BUFFERED),
            pin_events: broadcast::Sender::new(CHANGES_BUFFERED),
            proposal_events: broadcast::Sender::new(CHANGES_BUFFERED),
        })
    }

    /// Returns the highest number of a change that was carried out in any root, by their lock files.
    pub(crate) async fn highest_completed(&self) -> Option<ChangeId> {
        let folder = self.folders.locks_folder();
        let found = tokio::task::spawn_blocking(move || highest_completed(&folder));
        found.await.ok().flatten()
    }

    /// Returns everything that changes from now on, through this process or seen by a watch. Who
    /// lags more than [`CHANGES_BUFFERED`] behind is told so and lists again.
    pub fn subscribe(&self) -> broadcast::Receiver<ChangeEvent> {
        self.change_events.subscribe()
    }

    /// Returns the pins that are set and taken away from now on, through this process.
    pub fn subscribe_to_pins(&self) -> broadcast::Receiver<PinEvent> {
        self.pin_events.subscribe()
    }

    /// Returns the proposals that are made and decided from now on, through this process.
    pub fn subscribe_to_proposals(&self) -> broadcast::Receiver<ProposalStatusEvent> {
        self.proposal_events.subscribe()
    }

    /// Announces proposals to those who subscribed.
    pub fn publish_proposals(&self, notice: ProposalStatusEvent) {
        // A send without receivers is no error.
        drop(self.proposal_events.send(notice));
    }

    pub(crate) fn publish_pin(&self, notice: PinEvent) {
        // Nobody listening is no error.
        drop(self.pin_events.send(notice));
    }

    /// Returns the roots that this process has come across.
    pub(crate) fn known_roots(&self) -> Vec<Arc<Root>> {
        self.roots.lock().values().cloned().collect()
    }

    /// Returns whether anybody listens.
    pub(crate) fn has_subscribers(&self) -> bool {
        self.change_events.receiver_count() > 0
    }

    /// Announces a recorded change to subscribers.
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
