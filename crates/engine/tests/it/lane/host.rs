//! A host for lane tests: a home, processes that share it, and a runner scripted by the tasks'
//! texts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lukasa_engine::{
    BaseFolders, BindingRequest, Caller, ChangesQuery, ClientId, CuratorRequest, Draft, Feed,
    FeedError, Job, LaneDeps, LaneSettings, Lanes, ManagedChange, Memories, ProposalQueue,
    RememberRequest, Requester, RunError, Runner, Task, TaskDetails, TaskError, TaskErrorCode,
    TaskResult, TaskState, Workspace,
};
use memory::path::{Layout, MemoryPath, Mount, Scope};
use memory::proposal::{EntryChange, Proposal, ProposalKind};
use memory::screen::Screen;
use state::{FileLock, HistoryStore, SqliteState, TaskStore};
use store::{Binding, Store, StoreSettings};
use tempfile::TempDir;
use testkit::ManualClock;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// A home with two checkouts.
pub(crate) struct LaneHost {
    home: TempDir,
    pub(crate) folders: BaseFolders,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) runner: Arc<ScriptedRunner>,
}

impl LaneHost {
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        for checkout in ["shop", "mill"] {
            fs::create_dir_all(home.path().join(checkout).join(".git")).unwrap();
        }
        let folders =
            BaseFolders { data: home.path().join("data"), state: home.path().join("state") };
        Self { home, folders, clock: Arc::default(), runner: Arc::default() }
    }

    /// Returns the workspace of a checkout.
    pub(crate) fn workspace(&self, checkout: &str) -> Workspace {
        let folder = self.home.path().join(checkout);
        let binding =
            BindingRequest { project: Some(folder.clone().into()), ..BindingRequest::default() };
        Workspace::new(folder, binding)
    }

    /// Returns the lock of the lane of a workspace.
    pub(crate) fn lock(&self, workspace: &Workspace) -> FileLock {
        self.folders.lock(&format!("lane-{}", workspace.id))
    }

    /// Removes the lock file of the lane of a workspace, as a cleanup tool might.
    pub(crate) fn remove_lock(&self, workspace: &Workspace) {
        let name = format!("lane-{}.lock", workspace.id);
        // The file may not exist yet.
        fs::remove_file(self.folders.state.join("locks").join(name)).unwrap_or_default();
    }

    /// Starts a process.
    pub(crate) fn process(&self) -> LaneProcess {
        let state = Arc::new(SqliteState::new(self.folders.state.join("lukasa.db")));
        self.process_on(Arc::clone(&state) as _, state)
    }

    /// Starts a process on test doubles of the state.
    pub(crate) fn process_on(
        &self,
        state: Arc<dyn HistoryStore>,
        tasks: Arc<dyn TaskStore>,
    ) -> LaneProcess {
        self.process_with(state, tasks, Arc::clone(&self.runner) as _)
    }

    /// Starts a process with another runner.
    pub(crate) fn process_with(
        &self,
        state: Arc<dyn HistoryStore>,
        tasks: Arc<dyn TaskStore>,
        runner: Arc<dyn Runner>,
    ) -> LaneProcess {
        let clock = Arc::clone(&self.clock);
        let settings = StoreSettings { memory_list: false, ..StoreSettings::default() };
        let store = Store::new(state, self.folders.clone(), Screen::default(), clock, settings);
        let feed = Arc::new(RecordingFeed::default());
        let deps = LaneDeps {
            switches: lukasa_engine::FeatureSwitches::default(),
            store: Arc::clone(&store),
            folders: self.folders.clone(),
            tasks: Arc::clone(&tasks),
            locks: Arc::new(self.folders.clone()),
            clock: Arc::clone(&self.clock) as _,
            screen: Screen::default(),
            runner,
            feed: Arc::clone(&feed) as _,
            process_slots: None,
        };
        LaneProcess { deps, store, tasks, feed, lanes: None, workspace: self.workspace("shop") }
            .with(quick())
    }
}

/// Settings with short delays.
pub(crate) fn quick() -> LaneSettings {
    LaneSettings {
        concurrent_max: 4,
        stop_wait: Duration::from_millis(20),
        retry_delay: Duration::from_millis(5),
        cache_trim_delay: Duration::from_millis(5),
        ..LaneSettings::default()
    }
}

/// A process: a store and lanes on the home's files and state.
pub(crate) struct LaneProcess {
    deps: LaneDeps,
    pub(crate) store: Arc<Store>,
    pub(crate) tasks: Arc<dyn TaskStore>,
    pub(crate) feed: Arc<RecordingFeed>,
    lanes: Option<Lanes>,
    pub(crate) workspace: Workspace,
}

impl LaneProcess {
    /// Replaces the lanes with ones of these settings.
    pub(crate) fn with(mut self, settings: LaneSettings) -> Self {
        self.lanes = Some(Lanes::new(self.deps.clone(), settings));
        self
    }

    pub(crate) fn pending(&self) -> ProposalQueue {
        let LaneDeps { store, tasks, clock, .. } = &self.deps;
        ProposalQueue::new(Arc::clone(store), Arc::clone(tasks), Arc::clone(clock))
    }

    pub(crate) const fn folders(&self) -> &BaseFolders {
        &self.deps.folders
    }

    pub(crate) fn lanes(&self) -> &Lanes {
        self.lanes.as_ref().unwrap()
    }

    /// Submits a task whose runner follows the words of `content`.
    pub(crate) async fn submit(&self, content: &str) -> Task {
        let request = remember(content);
        self.lanes().submit(&self.workspace, request, anonymous_requester()).await.unwrap()
    }

    /// Waits for the end of a task.
    pub(crate) async fn wait_for_end(&self, task: &Task) -> Task {
        self.lanes().wait(&self.workspace, &task.id).await.unwrap().unwrap()
    }

    /// Submits a task and waits for its end.
    pub(crate) async fn submit_and_wait(&self, content: &str) -> Task {
        let task = self.submit(content).await;
        self.wait_for_end(&task).await
    }

    /// Returns the text of a memory.
    pub(crate) async fn text(&self, path: &str) -> Option<String> {
        let binding = Binding::resolve(&self.workspace.binding, &self.deps.folders);
        let memories = self.store.memories(binding, Caller::person("test"));
        memories.read(&at(path)).await.ok().map(|read| read.text)
    }

    /// Detects external edits.
    pub(crate) async fn notice(&self) {
        let binding = Binding::resolve(&self.workspace.binding, &self.deps.folders);
        let memories = self.store.memories(binding, Caller::person("test"));
        memories.record_external_edits().await.unwrap();
    }

    /// Returns the number of changes of a task in history.
    pub(crate) async fn changes_of(&self, task: &Task) -> usize {
        let binding = Binding::resolve(&self.workspace.binding, &self.deps.folders);
        let memories = self.store.memories(binding, Caller::person("test"));
        let query =
            ChangesQuery { task: Some(task.id.to_string()), max: 9, ..ChangesQuery::default() };
        memories.changes(&query).await.unwrap().len()
    }

    /// Ends the process like a daemon.
    pub(crate) async fn close(self) {
        self.lanes().drain(Duration::from_secs(5)).await;
        self.store.close().await;
    }
}

pub(crate) fn at(path: &str) -> MemoryPath {
    MemoryPath::parse(&format!("/memories/{path}"), Layout::Scoped).unwrap()
}

pub(crate) fn remember(content: &str) -> CuratorRequest {
    CuratorRequest::Remember(RememberRequest {
        content: content.to_owned(),
        context_mode: lukasa_engine::ContextMode::Workspace,
        scope: None,
    })
}

pub(crate) fn anonymous_requester() -> Requester {
    Requester::client("test", None)
}

pub(crate) fn client(name: &str) -> ClientId {
    name.parse().unwrap()
}

/// Returns the code of a task that failed.
pub(crate) fn code(task: &Task) -> Option<TaskErrorCode> {
    match &task.state {
        TaskState::Failed(error) => Some(error.code),
        TaskState::Queued | TaskState::Running | TaskState::Completed(_) => None,
    }
}

/// A feed that records its events.
#[derive(Debug, Default)]
pub(crate) struct RecordingFeed {
    pub(crate) changes: Mutex<Vec<ManagedChange>>,
    pub(crate) fails: AtomicBool,
}

impl RecordingFeed {
    pub(crate) fn tasks(&self) -> Vec<String> {
        self.changes.lock().unwrap().iter().map(|change| change.task.to_string()).collect()
    }
}

#[async_trait]
impl Feed for RecordingFeed {
    async fn publish(&self, change: ManagedChange) -> Result<(), FeedError> {
        self.changes.lock().unwrap().push(change);
        if self.fails.load(Ordering::SeqCst) { Err(FeedError("deaf".to_owned())) } else { Ok(()) }
    }
}

/// A runner that follows the words of a remember's text; a forget and a dream do nothing.
///
/// `add PATH WORD` appends a line to a memory. `propose WORD PATH` proposes to remove an entry.
/// `wait` waits for a permit, `hang` never ends, and `heed` waits for the stop signal. `panic`
/// panics. `conflict` reports one conflict and `always-conflict` one each time. `secret` fails with
/// a key in its details.
#[derive(Debug)]
pub(crate) struct ScriptedRunner {
    /// Permits for `wait`.
    pub(crate) gate: Semaphore,
    /// Number of running tasks, and the maximum so far.
    active: AtomicUsize,
    pub(crate) active_max: AtomicUsize,
    /// The started tasks, in order.
    pub(crate) begun: Mutex<Vec<String>>,
    conflicts: AtomicUsize,
    pub(crate) available: Mutex<Availability>,
    pub(crate) dreams_fail: AtomicBool,
    /// The proposals of the next task.
    pub(crate) proposals: Mutex<Vec<Proposal>>,
    /// Number of cache trims.
    pub(crate) cache_trims: AtomicUsize,
}

/// The answer to an availability check.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Availability {
    #[default]
    Yes,
    No,
    Fails,
    Panics,
    Hangs,
    /// Yes, after a permit.
    Waits,
    /// No, after a permit.
    WaitsThenNo,
}

impl Default for ScriptedRunner {
    fn default() -> Self {
        Self {
            gate: Semaphore::new(0),
            active: AtomicUsize::new(0),
            active_max: AtomicUsize::new(0),
            begun: Mutex::default(),
            conflicts: AtomicUsize::new(0),
            available: Mutex::default(),
            dreams_fail: AtomicBool::new(false),
            proposals: Mutex::default(),
            cache_trims: AtomicUsize::new(0),
        }
    }
}

struct ActiveGuard<'r>(&'r AtomicUsize);

impl Drop for ActiveGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Runner for ScriptedRunner {
    fn name(&self) -> &'static str {
        "scripted"
    }

    async fn available(&self, _workspace: &Workspace) -> Result<bool, TaskError> {
        let available = *self.available.lock().unwrap();
        match available {
            Availability::Yes => Ok(true),
            Availability::No => Ok(false),
            Availability::Fails => Err(TaskError::new(TaskErrorCode::ModelUnavailable)),
            Availability::Panics => panic!("the test wants it"),
            Availability::Hangs => std::future::pending().await,
            Availability::Waits => {
                self.gate.acquire().await.unwrap().forget();
                Ok(true)
            }
            Availability::WaitsThenNo => {
                self.gate.acquire().await.unwrap().forget();
                Ok(false)
            }
        }
    }

    async fn run(
        &self,
        job: &Job,
        _memories: &Memories,
        draft: &mut Draft,
        stop: &CancellationToken,
    ) -> Result<TaskResult, RunError> {
        self.begun.lock().unwrap().push(job.task.to_string());
        let active = self.active.fetch_add(1, Ordering::SeqCst) + 1;
        let _at_work = ActiveGuard(&self.active);
        self.active_max.fetch_max(active, Ordering::SeqCst);
        // Gives an overlapping task the chance to run.
        tokio::task::yield_now().await;
        if job.request == CuratorRequest::Dream && self.dreams_fail.load(Ordering::SeqCst) {
            return Err(TaskError::new(TaskErrorCode::DreamFailed).into());
        }
        let CuratorRequest::Remember(request) = &job.request else {
            return Ok(nothing(&job.request));
        };
        let mut words = request.content.split_whitespace();
        let mut touched = BTreeSet::new();
        let mut proposals = std::mem::take(&mut *self.proposals.lock().unwrap());
        while let Some(word) = words.next() {
            match word {
                "add" => {
                    let path = at(words.next().unwrap());
                    let before = draft
                        .text_of(&path)
                        .await
                        .map_err(|error| broken(&error))?
                        .unwrap_or_default();
                    let text = format!("{before}- {}\n", words.next().unwrap());
                    draft.set_text(&path, &text).await.map_err(|error| broken(&error))?;
                    touched.insert(path);
                }
                "propose" => {
                    let old = words.next().unwrap().to_owned();
                    proposals.push(removal(at(words.next().unwrap()), old));
                }
                "wait" => self.gate.acquire().await.unwrap().forget(),
                "hang" => std::future::pending().await,
                "heed" => stop.cancelled().await,
                "panic" => panic!("the test wants it"),
                "conflict" if self.conflicts.fetch_add(1, Ordering::SeqCst) == 0 => {
                    return Err(RunError::Conflict);
                }
                "conflict" => {}
                "always-conflict" => return Err(RunError::Conflict),
                "secret" => {
                    let error = TaskError::new(TaskErrorCode::RememberFailed);
                    let details = "key\nghp_Zz0123456789abcdefghijABCDEFGHIJ0123";
                    return Err(error.with_details(details).into());
                }
                other => panic!("the runner does not know `{other}`"),
            }
        }
        let scopes = touched.iter().filter_map(MemoryPath::mount).collect();
        let files_touched = touched.into_iter().collect();
        Ok(TaskResult {
            summary: "done".to_owned(),
            scopes,
            changes: Vec::new(),
            proposals: proposals.into(),
            details: TaskDetails::Remember { files_touched },
        })
    }

    fn trim_caches(&self) {
        self.cache_trims.fetch_add(1, Ordering::SeqCst);
    }
}

fn broken(error: &lukasa_engine::StoreError) -> RunError {
    TaskError::new(TaskErrorCode::RememberFailed).with_details(&error.to_string()).into()
}

/// Returns a proposal to remove an entry.
pub(crate) fn removal(path: MemoryPath, old: String) -> Proposal {
    Proposal {
        kind: ProposalKind::Expiry,
        reason: format!("`{old}` ended"),
        score: 80,
        changes: vec![EntryChange { path, old: Some(old), new: None }],
        relies_on: Vec::new(),
        review: None,
    }
}

fn nothing(request: &CuratorRequest) -> TaskResult {
    let (topics, files_touched) = (BTreeSet::new(), Vec::new());
    let details = match request {
        CuratorRequest::Forget(_) => {
            TaskDetails::Forget { removed: Vec::new(), topics, candidates: Vec::new() }
        }
        CuratorRequest::Dream => TaskDetails::Dream { topics, deduped: 0 },
        CuratorRequest::Review(_) => {
            TaskDetails::Review { files_touched, skipped: BTreeMap::new() }
        }
        CuratorRequest::Remember(_) => TaskDetails::Remember { files_touched },
    };
    TaskResult {
        summary: "nothing".to_owned(),
        scopes: BTreeSet::new(),
        changes: Vec::new(),
        proposals: Vec::new().into(),
        details,
    }
}

pub(crate) const PROJECT: Mount = Mount::Scope(Scope::Project);
