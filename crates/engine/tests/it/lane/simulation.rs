//! A seeded simulator of lanes on one shared home. Processes crash or stall between any two steps
//! of a task, are drained and restarted, and cancel each other's tasks. Meanwhile a person writes,
//! the clock jumps and the lock file is removed.
//!
//! A seed decides the actions but not the scheduling of the processes, so a failing seed may have
//! to run more than once. `LUKASA_SIM_SECONDS` sets how long to search (a few seeds when unset),
//! and `LUKASA_SIM_SEED` runs one seed again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lukasa_engine::{
    CallContext, Caller, CuratorRequest, ForgetRequest, LaneSettings, Requester, StoreError, Task,
    TaskFilter, TaskId, TaskState, Viewer,
};
use memory::command::{CommandError, MemoryCommand, Reply};
use state::{QueueLimits, SqliteState};
use store::Binding;
use testkit::simulation::run_seeds;
use testkit::{Faults, FaultyState, FaultyTasks, Random};

use super::host::{LaneHost, LaneProcess, at, client, quick, remember};

/// Number of processes at a time.
const PROCESSES: usize = 3;

/// Number of actions in one run.
const STEPS: usize = 40;

/// Number of state calls: more than one task makes, fewer than two tasks.
const CRASH_CALLS: usize = 16;

/// The files that tasks write to.
const FILES: [&str; 2] = ["project/a.md", "global/b.md"];

/// A process that can crash.
struct SimulatedProcess {
    process: LaneProcess,
    state: Arc<FaultyState>,
    /// Whether it stalls at one of its next calls.
    paused: bool,
}

impl SimulatedProcess {
    async fn start(host: &LaneHost) -> Self {
        let sqlite = Arc::new(SqliteState::new(host.folders.state.join("lukasa.db")));
        let state = Arc::new(FaultyState::new(Arc::clone(&sqlite) as _));
        let tasks = Arc::new(FaultyTasks::sharing(sqlite, &state));
        // No task expires, however far the clock jumps.
        let limits =
            QueueLimits { finished_max_age: Duration::from_hours(10_000), ..quick().limits };
        let process = host.process_on(Arc::clone(&state) as _, tasks);
        // The runner's panic is printed first, which may take long.
        let stop_wait = Duration::from_secs(20);
        let process = process.with(LaneSettings { limits, stop_wait, ..quick() });
        process.lanes().resume(&[host.workspace("shop")]).await.unwrap();
        Self { process, state, paused: false }
    }

    /// Ends a stall.
    fn resume(&mut self) {
        if std::mem::take(&mut self.paused) {
            self.state.set(Faults::Never);
        }
    }

    async fn end(self, wait: Duration) {
        self.process.lanes().drain(wait).await;
        let mut published = self.process.feed.tasks();
        let all = published.len();
        published.sort();
        published.dedup();
        assert_eq!(published.len(), all, "an end was published twice");
        self.process.store.close().await;
    }
}

struct LaneSimulation {
    host: LaneHost,
    processes: Vec<SimulatedProcess>,
    random: Random,
    /// The acknowledged tasks.
    taken: Vec<TaskId>,
    /// The requested texts, by the name of the client: a finished task does not keep its text.
    contents: Vec<String>,
    words: usize,
    /// Whether the lock file of the lane was removed.
    is_partitioned: bool,
}

impl LaneSimulation {
    async fn new(seed: u64) -> Self {
        let host = LaneHost::new();
        let mut processes = Vec::new();
        for _ in 0..PROCESSES {
            processes.push(SimulatedProcess::start(&host).await);
        }
        let random = Random::new(seed);
        let (taken, contents) = (Vec::new(), Vec::new());
        Self { host, processes, random, taken, contents, words: 0, is_partitioned: false }
    }

    fn word(&mut self, kind: char) -> String {
        self.words += 1;
        format!("{kind}{}", self.words)
    }

    fn request(&mut self) -> CuratorRequest {
        let word = self.word('w');
        match self.random.below(8) {
            0 => CuratorRequest::Dream,
            1 => CuratorRequest::Forget(ForgetRequest { query: word, scope: None, file: None }),
            2 => remember(&format!("add project/a.md {word} panic")),
            3 => remember(&format!("add global/b.md {word} secret")),
            4 => remember(&format!("add project/a.md {word} conflict")),
            5 => remember(&format!("add project/a.md {word}")),
            _ => remember(&format!("add project/a.md {word} add global/b.md {word}")),
        }
    }

    async fn step(&mut self) {
        let index = self.random.below(PROCESSES);
        self.processes[index].resume();
        match self.random.below(16) {
            0..=5 => {
                let request = self.request();
                let LaneProcess { workspace, .. } = &self.processes[index].process;
                let lanes = self.processes[index].process.lanes();
                let requester =
                    Requester::client("sim", Some(client(&self.contents.len().to_string())));
                self.contents.push(content(&request));
                if let Ok(task) = lanes.submit(workspace, request, requester).await {
                    self.taken.push(task.id);
                }
            }
            6 if !self.taken.is_empty() => {
                let id = self.taken[self.random.below(self.taken.len())].clone();
                let LaneProcess { workspace, .. } = &self.processes[index].process;
                let lanes = self.processes[index].process.lanes();
                // A process with a crashed state cancels nothing.
                drop(lanes.cancel(workspace, &id, Viewer::Person).await);
            }
            7 => {
                let call = u64::try_from(self.random.below(CRASH_CALLS)).unwrap();
                let faults = match self.random.below(3) {
                    0 => Faults::Call(call),
                    1 => Faults::CrashAfter(call),
                    _ => Faults::CrashBeforeAnswer(call),
                };
                self.processes[index].state.set(faults);
            }
            8 | 9 => {
                let wait = Duration::from_millis([0, 30][self.random.below(2)]);
                self.replace(index, wait).await;
            }
            10 => {
                let minutes = Duration::from_mins(self.random.below(60).try_into().unwrap());
                let now = memory::clock::Clock::now(&*self.host.clock);
                self.host.clock.set(if self.random.below(2) == 0 {
                    now + minutes
                } else {
                    now - minutes
                });
            }
            11 => self.write_by_hand(index).await,
            12 => {
                self.host.remove_lock(&self.processes[index].process.workspace);
                self.is_partitioned = true;
            }
            13 => {
                let call = u64::try_from(self.random.below(CRASH_CALLS)).unwrap();
                self.processes[index].state.set(Faults::Pause(call + 1));
                self.processes[index].paused = true;
            }
            _ => {
                // Gives other tasks time to run.
                let pauses = self.random.below(200);
                for _ in 0..pauses {
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    /// Ends all stalls, because a stalled process may hold a root that others wait for.
    fn resume_all(&mut self) {
        self.processes.iter_mut().for_each(SimulatedProcess::resume);
    }

    async fn replace(&mut self, index: usize, wait: Duration) {
        self.resume_all();
        let next = SimulatedProcess::start(&self.host).await;
        std::mem::replace(&mut self.processes[index], next).end(wait).await;
    }

    /// Has a person add a line at the top, possibly while a task is being decided.
    async fn write_by_hand(&mut self, index: usize) {
        self.resume_all();
        let word = self.word('p');
        let LaneProcess { store, workspace, .. } = &self.processes[index].process;
        let binding = Binding::resolve(&workspace.binding, &self.host.folders);
        let memories = store.memories(binding, Caller::person("sim"));
        let (path, insert_text) = (at(FILES[0]), format!("- {word}"));
        let insert = MemoryCommand::Insert { path: path.clone(), insert_line: 0, insert_text };
        match memories.apply(insert, &CallContext::default()).await {
            Ok(Reply::Refused(CommandError::NotFound { .. })) => {
                let create = MemoryCommand::Create { path, file_text: format!("- {word}\n") };
                drop(memories.apply(create, &CallContext::default()).await);
            }
            Ok(_) | Err(StoreError::State(_) | StoreError::Backend { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }

    fn content(&self, task: &Task) -> &str {
        let number = task.requester.client.as_ref().unwrap().as_str();
        &self.contents[number.parse::<usize>().unwrap()]
    }

    fn files(&self, task: &Task) -> Vec<&'static str> {
        FILES.into_iter().filter(|file| self.content(task).contains(file)).collect()
    }

    /// Waits for the end of all tasks, and compares the result with the requests.
    async fn check(mut self) {
        for index in 0..PROCESSES {
            self.replace(index, Duration::ZERO).await;
        }
        let process = &self.processes[0].process;
        let workspace = &process.workspace;
        let listed = process.lanes().list(workspace, TaskFilter::default(), Viewer::Person).await;
        // The list includes tasks whose acknowledgement was lost.
        let mut tasks = listed.unwrap();
        tasks.reverse();
        for id in &self.taken {
            assert!(tasks.iter().any(|task| task.id == *id), "{id} is lost");
        }
        let mut texts = BTreeMap::new();
        let mut ended = Vec::new();
        for task in &tasks {
            ended.push(process.wait_for_end(task).await);
        }
        for file in FILES {
            texts.insert(file, process.text(file).await.unwrap_or_default());
        }
        for task in &ended {
            let expected = usize::from(is_completed(task) && !self.files(task).is_empty());
            assert_eq!(process.changes_of(task).await, expected, "{task:?}");
        }
        for (file, text) in texts {
            let found: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("- w")).collect();
            let expected: Vec<_> = ended
                .iter()
                .filter(|task| is_completed(task) && self.files(task).contains(&file))
                .map(|task| word_of(self.content(task)))
                .collect();
            assert_eq!(found, expected, "{file}: each task once, in order: {ended:#?}");
        }
        // Without the lock file, two processes may decide at once; only one of them has an effect.
        let at_once = self.host.runner.active_max.load(Ordering::SeqCst);
        assert!(at_once <= 1 || self.is_partitioned, "{at_once} at once");
        for process in self.processes {
            process.end(Duration::from_secs(5)).await;
        }
    }
}

fn is_completed(task: &Task) -> bool {
    matches!(task.state, TaskState::Completed(_))
}

fn content(request: &CuratorRequest) -> String {
    match request {
        CuratorRequest::Remember(request) => request.content.clone(),
        CuratorRequest::Forget(_) | CuratorRequest::Dream | CuratorRequest::Review(_) => {
            String::new()
        }
    }
}

/// Returns the number of the word that a task writes.
fn word_of(content: &str) -> &str {
    content.split_whitespace().nth(2).unwrap().strip_prefix('w').unwrap()
}

async fn run(seed: u64) {
    let mut world = LaneSimulation::new(seed).await;
    for _ in 0..STEPS {
        world.step().await;
    }
    world.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lanes_with_crashes_and_drains_run_each_task_once_in_order() {
    run_seeds(8, run).await;
}
