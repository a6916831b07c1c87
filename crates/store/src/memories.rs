//! The memories one caller may touch.

use std::collections::HashMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures_util::FutureExt as _;
use memory::access::{Access, AgentClass, access};
use memory::change::{Actor, ChangeId, ChangeKind, FileChange, Provenance, RootKey};
use memory::clock::{Clock, Timestamp};
use memory::command::{CommandError, Warning};
use memory::document::Revision;
use memory::feature::{Feature, Features};
use memory::limits::{
    CHANGES_BUFFERED, HISTORY_AGE_DEFAULT, HISTORY_BYTES_DEFAULT, OPEN_CHANGES_MAX,
    OPEN_CHANGES_SETTLE, PRUNE_INTERVAL, SCOPE_FILES_DEFAULT, SCOPE_FILES_MAX, SETTLE_DELAY,
    USAGE_FLUSH_DELAY, USAGE_PENDING_MAX,
};
use memory::path::{Layout, MemoryPath, Mount, RelativePath, Scope};
use memory::proposal::{ProposalId, ProposalStatus};
use memory::screen::{Screen, UnknownRule, rule_or_family};
use memory::usage::Usage;
use state::{Pruned, Retention, State, StateError, Use};
use tokio::sync::broadcast;
use tokio::task::JoinHandle;

use crate::backend::local::{LocalBackend, highest_completed};
use crate::backend::{Backend, Stamp};
use crate::binding::{Binding, Folders, RootPlan};
use crate::error::StoreError;
use crate::root::Root;
use crate::unreviewed::OutsideRead;

/// What is being worked out for a caller.
///
/// The body of an `async fn` is compiled into every crate that awaits it, with all that it awaits in turn: what is large
/// and awaited in several crates is handed out so, and stands in the program once.
pub type Answering<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Who asks, and what they may do.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The class of agent; a person is always [`AgentClass::Exec`].
    pub class: AgentClass,
    /// What a change by this caller says about itself; the tool call is added per call.
    pub provenance: Provenance,
    /// What the caller's session has read that nobody here reviewed. Clones share it, so one caller, cloned for each
    /// call, is one session.
    pub outside_read: OutsideRead,
}

impl Caller {
    /// Returns a caller of this class, at the beginning of a session.
    pub fn new(class: AgentClass, provenance: Provenance) -> Self {
        Self { class, provenance, outside_read: OutsideRead::default() }
    }

    /// Returns a person who came in by `origin`; nothing is closed to them.
    pub fn person(origin: &str) -> Self {
        Self::new(AgentClass::Exec, Provenance::person(origin))
    }

    /// Returns an agent that came in by `origin`, at the beginning of a session.
    pub fn agent(class: AgentClass, origin: &str) -> Self {
        Self::new(class, Provenance::agent(origin))
    }
}

/// What is particular to one call.
#[derive(Clone, Debug, Default)]
pub struct Call {
    /// The model's tool call id.
    pub tool_call: Option<String>,
    /// The task it belongs to.
    pub task: Option<String>,
    /// Which attempt at that makes it: a change that an attempt makes after another one was begun, or
    /// after the task ended, does not happen.
    pub attempt: Option<u32>,
    /// The proposal that it accepts: a change does not happen unless that one still waits, and ends its wait.
    pub proposal: Option<ProposalId>,
}

/// What a write finds, or else it does not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Nothing: the memory must not exist.
    Absent,
    /// Something, whatever it is.
    Present,
    /// Exactly one of these revisions.
    OneOf(Vec<Revision>),
    /// Nothing, or none of these revisions.
    NoneOf(Vec<Revision>),
    /// What both say.
    Both(Box<[Self; 2]>),
}

impl Expected {
    /// Tells whether what is there is as expected: this revision, or nothing.
    pub fn allows(&self, current: Option<Revision>) -> bool {
        match self {
            Self::Absent => current.is_none(),
            Self::Present => current.is_some(),
            Self::OneOf(these) => current.is_some_and(|current| these.contains(&current)),
            Self::NoneOf(these) => current.is_none_or(|current| !these.contains(&current)),
            Self::Both(both) => both.iter().all(|one| one.allows(current)),
        }
    }
}

impl From<Revision> for Expected {
    /// Expects exactly this revision.
    fn from(revision: Revision) -> Self {
        Self::OneOf(vec![revision])
    }
}

/// A memory as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryText {
    /// Its text.
    pub text: String,
    /// The digest of its bytes.
    pub revision: Revision,
    /// When its file was last modified.
    pub modified_at: Timestamp,
}

/// What a save left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The memory's revision afterwards.
    pub revision: Revision,
    /// The change recorded; `None` when the bytes were already these.
    pub change: Option<ChangeId>,
    /// Whether nothing was there before.
    pub made: bool,
    /// What screening warned of.
    pub warnings: Vec<Warning>,
}

/// A memory in a listing.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// Its path.
    pub path: MemoryPath,
    /// Its size.
    pub bytes: u64,
    /// When its file was last modified.
    pub modified_at: Timestamp,
    /// Its one-line description, or its first heading or line when it has none; empty when it has neither.
    pub description: String,
    /// Whether the description is its own.
    pub is_described: bool,
    /// Its `name`, if it has one.
    pub name: Option<String>,
    /// Its `type`, if it has one.
    pub kind: Option<String>,
    /// Whether a person pinned it.
    pub pinned: bool,
    /// How often it was used on this host.
    pub usage: Usage,
}

/// A listing of memories.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    /// The memories, scope by scope, in byte order of their paths.
    pub memories: Vec<Listed>,
    /// How many more there are.
    pub left_out: usize,
    /// The mounts of which not all is listed: they are unavailable, or hold too much.
    pub not_whole: Vec<Mount>,
}

/// A memory that a survey came across.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surveyed {
    /// Its path.
    pub path: MemoryPath,
    /// Which version its file is; `None` if another write, of as many bytes, could leave the same stamp.
    pub stamp: Option<Stamp>,
    /// When its file was last modified.
    pub modified_at: Timestamp,
    /// Whether a person pinned it.
    pub pinned: bool,
    /// How often it was used.
    pub uses: u64,
    /// Whether it is not to be read: so much came with a repository that nobody trusts, and nobody here ever reviewed it.
    pub is_too_much: bool,
}

/// One mount of a binding and what can be done with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountState {
    /// Which.
    pub mount: Mount,
    /// Why it is unavailable, in a sentence for people and models; `None` when it is available.
    pub unavailable: Option<String>,
    /// What this caller may do there.
    pub access: Access,
    /// The folder, for people; never shown to a model.
    pub folder: Option<PathBuf>,
    /// Its key in history.
    pub key: Option<RootKey>,
    /// How many memories it may hold.
    pub files_max: usize,
}

/// A change happened: sent to subscribers after it is durable, once however many memories it touched.
///
/// What another process changed in several roots is announced root by root, as each is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
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
pub struct PinNotice {
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
pub struct ProposalNotice {
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
pub struct Settings {
    /// How many memories a scope may hold, up to [`SCOPE_FILES_MAX`].
    pub files_max: usize,
    /// How much history to keep.
    pub retention: Retention,
    /// Whether global, workspace and host-local project roots carry a generated `MEMORY.md`.
    pub memory_list: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            files_max: SCOPE_FILES_DEFAULT,
            retention: Retention { age: HISTORY_AGE_DEFAULT, bytes: HISTORY_BYTES_DEFAULT },
            memory_list: true,
        }
    }
}

/// All memories of this host: opens roots, keeps what they share, and hands out [`Memories`].
///
/// Uses tokio: commands and the work behind them run on the runtime that they are awaited in.
#[derive(Debug)]
pub struct Store {
    pub(crate) state: Arc<dyn State>,
    pub(crate) folders: Folders,
    pub(crate) screen: Screen,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Settings,
    roots: Mutex<HashMap<RootKey, Arc<Root>>>,
    uses: Mutex<Vec<Use>>,
    after: After,
    notices: broadcast::Sender<Notice>,
    pins: broadcast::Sender<PinNotice>,
    proposals: broadcast::Sender<ProposalNotice>,
}

/// What is still to be done after writes.
#[derive(Debug, Default)]
struct After {
    /// Roots with open changes, and how many writes since they were last settled.
    unsettled: Mutex<(Vec<Arc<Root>>, usize)>,
    /// Held while settling, so that closing waits for it.
    settling: tokio::sync::Mutex<()>,
    /// That task; started by the first write.
    task: Mutex<Option<JoinHandle<()>>>,
    /// When history was last pruned.
    pruned_at: Mutex<Option<Timestamp>>,
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Some(task) = lock(&self.after.task).take() {
            task.abort();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store {
    /// Opens nothing yet: roots and state are touched when they are first needed.
    pub fn new(
        state: Arc<dyn State>,
        folders: Folders,
        screen: Screen,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Arc<Self> {
        let settings =
            Settings { files_max: settings.files_max.clamp(1, SCOPE_FILES_MAX), ..settings };
        Arc::new(Self {
            state,
            folders,
            screen,
            clock,
            settings,
            roots: Mutex::default(),
            uses: Mutex::default(),
            after: After::default(),
            notices: broadcast::Sender::new(CHANGES_BUFFERED),
            pins: broadcast::Sender::new(CHANGES_BUFFERED),
            proposals: broadcast::Sender::new(CHANGES_BUFFERED),
        })
    }

    /// Returns the memories that `binding` leads to, as `caller` may touch them.
    pub fn memories(self: &Arc<Self>, binding: Binding, caller: Caller) -> Memories {
        let read_only = binding.read_only;
        let mounts = binding.mounts.into_iter().map(|plan| {
            let access =
                if read_only { Access::ReadOnly } else { access(caller.class, plan.mount) };
            let mount = plan.mount;
            // Only a root in a checkout, or a flat one, never carries a listing.
            let in_checkout =
                mount != Mount::Flat && plan.root.as_ref().is_ok_and(|root| !root.may_have_list);
            let root = plan.root.map(|root| self.local_root(mount, root));
            BoundMount { mount, access, root, in_checkout }
        });
        Memories {
            store: Arc::clone(self),
            layout: binding.layout,
            mounts: mounts.collect(),
            caller,
            answered: Vec::new(),
            features: Features::default(),
        }
    }

    /// Returns the root that a plan leads to; the same one for everybody in this process.
    fn local_root(&self, mount: Mount, plan: RootPlan) -> Arc<Root> {
        let mut roots = lock(&self.roots);
        let root = roots.entry(plan.key.clone()).or_insert_with(|| {
            let name = format!("{}.lock", plan.key.place);
            let lock = self.folders.state.join("locks").join(name);
            let has_list = plan.may_have_list && self.settings.memory_list;
            let backend = Arc::new(LocalBackend::new(plan.anchor, lock));
            Arc::new(Root::new(mount, plan.key, backend, has_list).recording(plan.checkout))
        });
        Arc::clone(root)
    }

    /// Returns the highest number of a change that was carried out in any root, by their lock files.
    pub(crate) async fn highest_completed(&self) -> Option<ChangeId> {
        let folder = self.folders.state.join("locks");
        let found = tokio::task::spawn_blocking(move || highest_completed(&folder));
        found.await.ok().flatten()
    }

    /// Returns the memories of roots that are given as they are; for backends other than folders
    /// of this machine, and for tests.
    pub fn memories_in(
        self: &Arc<Self>,
        roots: Vec<(Mount, RootKey, Arc<dyn Backend>)>,
        caller: Caller,
    ) -> Memories {
        let flat = roots.iter().any(|(mount, ..)| *mount == Mount::Flat);
        let mounts = roots.into_iter().map(|(mount, key, backend)| {
            let mut known = lock(&self.roots);
            let has_list = self.settings.memory_list
                && matches!(mount, Mount::Scope(Scope::Global | Scope::Workspace));
            let root = known
                .entry(key.clone())
                .or_insert_with(|| Arc::new(Root::new(mount, key, backend, has_list)));
            let access = access(caller.class, mount);
            BoundMount { mount, access, root: Ok(Arc::clone(root)), in_checkout: false }
        });
        Memories {
            store: Arc::clone(self),
            layout: if flat { Layout::Flat } else { Layout::Scoped },
            mounts: mounts.collect(),
            caller,
            answered: Vec::new(),
            features: Features::default(),
        }
    }

    /// Returns everything that changes from now on, through this process or seen by a watch. Who
    /// lags more than [`CHANGES_BUFFERED`] behind is told so and lists again.
    pub fn subscribe(&self) -> broadcast::Receiver<Notice> {
        self.notices.subscribe()
    }

    /// Returns the pins that are set and taken away from now on, through this process.
    pub fn subscribe_to_pins(&self) -> broadcast::Receiver<PinNotice> {
        self.pins.subscribe()
    }

    /// Returns the proposals that are made and decided from now on, through this process.
    pub fn subscribe_to_proposals(&self) -> broadcast::Receiver<ProposalNotice> {
        self.proposals.subscribe()
    }

    /// Announces proposals to those who subscribed.
    pub fn announce_proposals(&self, notice: ProposalNotice) {
        // A send without receivers is no error.
        drop(self.proposals.send(notice));
    }

    pub(crate) fn announce_pin(&self, notice: PinNotice) {
        // Nobody listening is no error.
        drop(self.pins.send(notice));
    }

    /// Returns the roots that this process has come across.
    pub(crate) fn known_roots(&self) -> Vec<Arc<Root>> {
        lock(&self.roots).values().cloned().collect()
    }

    /// Returns whether anybody listens.
    pub(crate) fn is_heard(&self) -> bool {
        self.notices.receiver_count() > 0
    }

    pub(crate) fn announce(&self, notice: Notice) {
        // Nobody listening is no error.
        drop(self.notices.send(notice));
    }

    /// Counts a use, soon: a view must not wait for a database.
    pub(crate) async fn count_use(self: &Arc<Self>, used: Use) {
        let full = {
            let mut waiting = lock(&self.uses);
            waiting.push(used);
            waiting.len() >= USAGE_PENDING_MAX
        };
        if full {
            self.store_uses().await;
        } else {
            self.start_after();
        }
    }

    /// Stores the uses that wait. What cannot be stored is lost, and only that.
    pub(crate) async fn store_uses(&self) {
        let uses = std::mem::take(&mut *lock(&self.uses));
        if uses.is_empty() {
            return;
        }
        // A use may be the first thing that this host keeps.
        self.folders.make_state();
        match self.state.add_uses(&uses).await {
            // Reading goes on where nothing may be kept, and says nothing each time.
            Err(error @ StateError::Unavailable { .. }) => {
                tracing::debug!(%error, count = uses.len(), "uses of memories are not counted here");
            }
            Err(error) => {
                tracing::warn!(%error, count = uses.len(), "uses of memories could not be counted");
            }
            Ok(()) => {}
        }
    }

    /// Notes that a root has an open change.
    pub(crate) fn wrote(&self, root: &Arc<Root>) {
        let mut unsettled = lock(&self.after.unsettled);
        if !unsettled.0.iter().any(|known| known.key == root.key) {
            unsettled.0.push(Arc::clone(root));
        }
        unsettled.1 += 1;
    }

    /// Sees to it that what was written is settled: soon, or before this returns when so much is
    /// open that a start after a power cut would be slow.
    pub(crate) async fn see_to_settling(self: &Arc<Self>) {
        let open = lock(&self.after.unsettled).1;
        if open >= OPEN_CHANGES_MAX {
            self.settle().await;
        } else {
            self.start_after();
        }
    }

    fn start_after(self: &Arc<Self>) {
        let mut task = lock(&self.after.task);
        if task.as_ref().is_none_or(JoinHandle::is_finished) {
            *task = Some(tokio::spawn(run_after(Arc::downgrade(self)).boxed()));
        }
    }

    /// Synchronizes what was written and closes its redo records; drops old history now and then.
    pub async fn settle(&self) {
        let _alone = self.after.settling.lock().await;
        let (roots, writes) = lock(&self.after.unsettled).clone();
        if roots.is_empty() {
            return;
        }
        if let Err(error) = crate::settle::settle(self, &roots).await {
            tracing::warn!(%error, "memories could not be synchronized; tried again later");
            return;
        }
        {
            let mut unsettled = lock(&self.after.unsettled);
            unsettled.1 = unsettled.1.saturating_sub(writes);
            if unsettled.1 == 0 {
                unsettled.0.clear();
            }
        }
        self.prune_now_and_then().await;
    }

    async fn prune_now_and_then(&self) {
        let now = self.clock.now();
        {
            let mut last = lock(&self.after.pruned_at);
            if last.is_some_and(|last| now.duration_since(last).unsigned_abs() < PRUNE_INTERVAL) {
                return;
            }
            *last = Some(now);
        }
        if let Err(error) = self.prune().await {
            tracing::warn!(%error, "old history could not be dropped; tried again later");
        }
    }

    /// Drops history beyond what is to be kept.
    pub async fn prune(&self) -> Result<Pruned, StoreError> {
        Ok(self.state.prune(self.settings.retention, self.clock.now()).await?)
    }

    /// Synchronizes files, stores what waits, closes the state.
    pub async fn close(&self) {
        self.store_uses().await;
        self.settle().await;
        let task = lock(&self.after.task).take();
        if let Some(task) = task {
            // It sleeps, or has just found nothing to do: there is nothing to interrupt.
            task.abort();
            drop(task.await);
        }
        self.state.close().await;
    }
}

/// Stores uses and settles writes, each a little after they came, until there is nothing to do.
async fn run_after(store: Weak<Store>) {
    loop {
        tokio::time::sleep(USAGE_FLUSH_DELAY).await;
        let Some(this) = store.upgrade() else { return };
        this.store_uses().await;
        let open = lock(&this.after.unsettled).1;
        if open == 0 {
            let mut task = lock(&this.after.task);
            // Decided under the same lock as starting: nobody waits for a task that is ending.
            if lock(&this.uses).is_empty() && lock(&this.after.unsettled).1 == 0 {
                *task = None;
                return;
            }
            continue;
        }
        if open < OPEN_CHANGES_SETTLE {
            drop(this);
            tokio::time::sleep(SETTLE_DELAY.saturating_sub(USAGE_FLUSH_DELAY)).await;
            let Some(this) = store.upgrade() else { return };
            this.store_uses().await;
            this.settle().await;
        } else {
            this.settle().await;
        }
    }
}

/// One mount of a caller.
#[derive(Clone, Debug)]
pub(crate) struct BoundMount {
    pub(crate) mount: Mount,
    pub(crate) access: Access,
    /// The root, or why there is none.
    pub(crate) root: Result<Arc<Root>, String>,
    /// Whether its memories travel with a repository, so that anybody may have written them.
    pub(crate) in_checkout: bool,
}

/// The memories that one caller may touch. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Memories {
    pub(crate) store: Arc<Store>,
    pub(crate) layout: Layout,
    pub(crate) mounts: Vec<BoundMount>,
    pub(crate) caller: Caller,
    /// Rules and families that only warn this person; see [`Memories::answering_for`].
    pub(crate) answered: Vec<&'static str>,
    pub(crate) features: Features,
}

impl Memories {
    /// Returns how many memories a scope may hold.
    pub fn files_max(&self) -> usize {
        self.store.settings.files_max
    }

    /// Returns the same with only these features. Without memory, no scope is available.
    #[must_use]
    pub fn with_features(mut self, features: Features) -> Self {
        self.features = self.features.and(features);
        if !self.features.has(Feature::Memory) {
            for bound in &mut self.mounts {
                bound.root = Err("memory is switched off".to_owned());
            }
        }
        self
    }

    /// Returns which features are on.
    pub const fn features(&self) -> Features {
        self.features
    }

    /// Refuses if a feature is off.
    pub const fn check_feature(&self, feature: Feature) -> Result<(), CommandError> {
        if self.features.has(feature) {
            Ok(())
        } else {
            Err(CommandError::FeatureDisabled { feature })
        }
    }

    /// Returns what is mounted.
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the mounts of this binding, available or not, in the order of the scopes.
    pub fn mounts(&self) -> Vec<MountState> {
        let state = |bound: &BoundMount| {
            let root = bound.root.as_ref();
            MountState {
                mount: bound.mount,
                unavailable: root.err().cloned(),
                access: bound.access,
                folder: root.ok().and_then(|root| root.backend.folder()),
                key: root.ok().map(|root| root.key.clone()),
                files_max: self.store.settings.files_max,
            }
        };
        self.mounts.iter().map(state).collect()
    }

    /// Returns the keys of the roots that are mounted.
    pub fn roots(&self) -> Vec<RootKey> {
        let roots = self.mounts.iter().filter_map(|bound| bound.root.as_ref().ok());
        roots.map(|root| root.key.clone()).collect()
    }

    /// Returns who asks.
    pub const fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Checks that the caller is a person who may write in these roots, as far as they are mounted.
    pub fn check_person(&self, roots: &[RootKey]) -> Result<(), StoreError> {
        let is_person = self.caller.provenance.actor == Actor::Person;
        let closed = self.mounts.iter().find(|bound| {
            let is_named = bound.root.as_ref().is_ok_and(|root| roots.contains(&root.key));
            is_named && !(is_person && bound.access == Access::ReadWrite)
        });
        match closed {
            Some(bound) => Err(CommandError::ReadOnly { mount: bound.mount }.into()),
            None => Ok(()),
        }
    }

    /// Returns these memories with screening rules, or families of them, that warn where they would
    /// refuse: the person has looked at the text and answers for it. Means nothing for an agent.
    pub fn answering_for(mut self, rules: &[String]) -> Result<Self, UnknownRule> {
        for rule in rules {
            self.answered.push(rule_or_family(rule)?);
        }
        Ok(self)
    }

    /// Returns these memories as another caller may touch them.
    #[must_use]
    pub fn for_caller(&self, caller: Caller) -> Self {
        let mut memories = Self { caller, answered: Vec::new(), ..self.clone() };
        for bound in &mut memories.mounts {
            // A binding that is read-only stays so, whoever calls.
            if bound.access == Access::ReadWrite {
                bound.access = access(memories.caller.class, bound.mount);
            }
        }
        memories
    }
}
