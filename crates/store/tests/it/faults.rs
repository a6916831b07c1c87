//! Fault injection for every kind of write, in each of its steps in turn, in files and state.
//!
//! All of a write happens or nothing, history agrees with the files, and the next command works. A
//! step may fail once, be cut short, or have its effect without an answer. It may also be the last
//! one of a process that dies, or the last one before a power cut, after which files come back torn
//! or not at all.

mod writes;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use lukasa_store::backend::Backend;
use lukasa_store::backend::local::{LocalBackend, Privacy, RootDir};
use lukasa_store::{Caller, ChangesQuery, Depth, Memories, Store};
use memory::access::AgentClass;
use memory::change::{ChangeKind, RootKey};
use memory::path::{Mount, Scope};
use state::SqliteState;
use testkit::{Failure, FaultPlan, FaultyBackend, FaultyState};

use self::writes::Write;
use crate::host::{TestHost, create, files, restart};

/// The kind of failure of a step, and its effect on the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepFault {
    /// The process continues.
    Alive(Failure),
    /// The process dies.
    Death,
    /// The machine loses power.
    PowerCut(Damage),
}

/// The state of unsynchronized files after a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    /// They are empty.
    Emptied,
    /// They have their first half.
    CutShort,
    /// All bytes but the first are zeros.
    Zeroed,
    /// The files are as before: no new name reached the disk.
    NamesLost,
    /// They are empty, and so are the lock files.
    AllEmptied,
}

/// The visible state of the memories: each file with its bytes, and each listed memory with its pin and uses.
#[derive(Debug, PartialEq, Eq)]
struct MemorySnapshot {
    files: BTreeMap<String, Vec<u8>>,
    listed: Vec<(String, bool, u64)>,
}

/// A host whose files and state share one plan of failures.
struct Rig {
    host: TestHost,
    plan: Arc<FaultPlan>,
}

impl Rig {
    fn new() -> Self {
        Self { host: TestHost::in_fast_storage(), plan: Arc::default() }
    }

    /// Opens a store as a new process does.
    fn open(&self) -> (Arc<Store>, Memories) {
        let sqlite = Arc::new(SqliteState::new(self.host.path("state/lukasa.db")));
        let state = Arc::new(FaultyState::sharing(sqlite, Arc::clone(&self.plan)));
        let store = self.host.store_on(state);
        let agent = Caller::agent(AgentClass::Exec, "test");
        let memories = store.memories_in(self.roots(), agent);
        (store, memories)
    }

    fn roots(&self) -> Vec<(Mount, RootKey, Arc<dyn Backend>)> {
        let root = |scope, base: &str, names: &[&str]| {
            let anchor = RootDir::new(self.host.path(base), names, Privacy::Private);
            let lock = self.host.path(&format!("state/locks/{scope}.lock"));
            let local = Arc::new(LocalBackend::new(anchor, lock));
            let key = RootKey { identity: format!("{scope}"), place: format!("{scope}") };
            let faulty = FaultyBackend::new(local, Arc::clone(&self.plan));
            (Mount::Scope(scope), key, Arc::new(faulty) as Arc<dyn Backend>)
        };
        vec![
            root(Scope::Global, "data", &["memory"]),
            root(Scope::Project, "shop", &[".lukasa", "memory"]),
        ]
    }

    /// Returns every file in both roots, also temporary ones.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let in_root = |root: &str, folder: &Path| {
            let named = |(name, bytes)| (format!("{root}/{name}"), bytes);
            files(folder).into_iter().map(named).collect::<Vec<_>>()
        };
        let global = in_root("data/memory", &self.host.global(""));
        global.into_iter().chain(in_root("shop/.lukasa/memory", &self.host.project(""))).collect()
    }

    async fn snapshot(&self, memories: &Memories) -> MemorySnapshot {
        let listed = memories.list(None).await.unwrap().memories;
        let listed = listed.iter().map(|one| (one.path.to_string(), one.pinned, one.usage.uses));
        MemorySnapshot { listed: listed.collect(), files: self.files() }
    }

    /// Creates the files that the write needs, and makes them durable.
    async fn prepare(&self, write: Write) -> (Arc<Store>, Memories) {
        let (store, memories) = self.open();
        for (path, text) in [
            ("/memories/global/a.md", "one\ntwo\n"),
            ("/memories/global/d/b.md", "the b\n"),
            ("/memories/global/d/e/c.md", "the c\n"),
            ("/memories/project/p.md", "the p\n"),
        ] {
            assert!(create(&memories, path, text).await.starts_with("File created"));
        }
        writes::prepare(write, &memories).await;
        store.checkpoint().await;
        (store, memories)
    }

    /// Applies a power cut to the files, given the last durable state.
    fn damage(&self, damage: Damage, safe: &BTreeMap<String, Vec<u8>>) {
        if damage == Damage::NamesLost {
            for folder in [self.host.global(""), self.host.project("")] {
                fs::remove_dir_all(folder).unwrap();
            }
            for (name, bytes) in safe {
                let at = self.host.path(name);
                fs::create_dir_all(at.parent().unwrap()).unwrap();
                fs::write(at, bytes).unwrap();
            }
            return;
        }
        for (name, bytes) in self.files() {
            if safe.values().any(|known| *known == bytes) {
                continue;
            }
            let torn = match damage {
                Damage::Emptied | Damage::NamesLost | Damage::AllEmptied => Vec::new(),
                Damage::CutShort => bytes[..bytes.len() / 2].to_vec(),
                Damage::Zeroed => {
                    let first_byte = bytes.iter().copied().take(1);
                    first_byte.chain(std::iter::repeat(0)).take(bytes.len()).collect()
                }
            };
            fs::write(self.host.path(&name), torn).unwrap();
        }
    }
}

/// Returns the state after a write without a failure.
async fn outcome(write: Write) -> MemorySnapshot {
    let rig = Rig::new();
    let (store, memories) = rig.prepare(write).await;
    assert!(writes::execute(write, &memories).await, "{write:?} is a write that succeeds");
    let state = rig.snapshot(&memories).await;
    store.close().await;
    state
}

/// Runs one write with one failing step. Returns whether there was such a step.
async fn attempt(write: Write, fault: StepFault, step: u64, whole: &MemorySnapshot) -> bool {
    let name = format!("{write:?}, {fault:?} at step {step}");
    let rig = Rig::new();
    let (store, memories) = rig.prepare(write).await;
    let before = rig.snapshot(&memories).await;
    let failure = match fault {
        StepFault::Alive(failure) => failure,
        StepFault::Death | StepFault::PowerCut(_) => Failure::Crash,
    };
    rig.plan.set(step, failure);
    let acknowledged = writes::execute(write, &memories).await;
    let reached = rig.plan.steps() >= step;
    let is_all_or_nothing = |state: &MemorySnapshot, who: &str| {
        assert!(*state == before || *state == *whole, "{name}, {who}: {state:#?}");
        assert!(!acknowledged || *state == *whole, "{name}, {who}: lost: {state:#?}");
    };
    if let StepFault::Alive(_) = fault {
        rig.plan.set(0, Failure::Once);
        assert_eq!(memories.record_external_edits().await.unwrap(), 0, "{name}");
        is_all_or_nothing(&rig.snapshot(&memories).await, "the same process");
        let next = create(&memories, "/memories/global/next.md", "next\n").await;
        assert!(next.starts_with("File created"), "{name}: {next}");
        assert!(crate::host::delete(&memories, "/memories/global/next.md").await.starts_with('S'));
    }
    drop((memories, store));
    rig.plan.set(0, Failure::Once);
    if let StepFault::PowerCut(damage) = fault {
        rig.damage(damage, &before.files);
        if damage == Damage::AllEmptied {
            empty_locks(&rig.host);
        } else {
            restart(&rig.host);
        }
    }
    let (store, memories) = rig.open();
    let state = rig.snapshot(&memories).await;
    is_all_or_nothing(&state, "the next process");
    is_consistent(&name, &store, &memories).await;
    reached
}

fn empty_locks(host: &TestHost) {
    for entry in fs::read_dir(host.path("state/locks")).unwrap() {
        fs::write(entry.unwrap().path(), "").unwrap();
    }
}

/// Checks that history agrees with the files, and that the next commands find no problem.
async fn is_consistent(name: &str, store: &Arc<Store>, memories: &Memories) {
    let query = ChangesQuery { max: 99, ..ChangesQuery::default() };
    let changes = memories.changes(&query).await.unwrap();
    assert!(
        changes.iter().all(|change| change.kind != ChangeKind::Outside),
        "{name}: the store's own write is recorded as an external edit: {changes:#?}"
    );
    for path in ["/memories/global/new of all.md", "/memories/project/d/new of all.md"] {
        let next = create(memories, path, "next\n").await;
        assert!(next.starts_with("File created"), "{name}: {next}");
    }
    store.checkpoint().await;
    let health = memories.health(Depth::Thorough).await.unwrap();
    assert_eq!((health.findings, health.state.open), (vec![], 0), "{name}");
}

/// Runs each write with each of its steps failing in turn, until a step does not exist.
async fn every_step(fault: StepFault) {
    for write in Write::ALL {
        let whole = outcome(write).await;
        let mut step = 1;
        while attempt(write, fault, step, &whole).await {
            step += 1;
            assert!(step < 200, "{write:?} does not end");
        }
        let has_steps = fault != StepFault::Alive(Failure::Short) || write.lays_down_bytes();
        assert_eq!(step > 1, has_steps, "{write:?} has steps that could fail");
    }
}

#[tokio::test]
async fn a_step_that_fails_once_leaves_all_or_nothing() {
    every_step(StepFault::Alive(Failure::Once)).await;
}

#[tokio::test]
async fn a_disk_that_is_full_leaves_all_or_nothing() {
    every_step(StepFault::Alive(Failure::Short)).await;
}

#[tokio::test]
async fn a_step_whose_answer_is_lost_leaves_all_or_nothing() {
    every_step(StepFault::Alive(Failure::Unanswered)).await;
}

#[tokio::test]
async fn a_process_that_dies_at_any_step_leaves_all_or_nothing() {
    every_step(StepFault::Death).await;
}

#[tokio::test]
async fn a_power_cut_that_empties_files_loses_nothing() {
    every_step(StepFault::PowerCut(Damage::Emptied)).await;
}

#[tokio::test]
async fn a_power_cut_that_empties_lock_files_too_loses_nothing() {
    every_step(StepFault::PowerCut(Damage::AllEmptied)).await;
}

#[tokio::test]
async fn a_power_cut_that_cuts_files_short_loses_nothing() {
    every_step(StepFault::PowerCut(Damage::CutShort)).await;
}

#[tokio::test]
async fn a_power_cut_that_leaves_zeros_loses_nothing() {
    every_step(StepFault::PowerCut(Damage::Zeroed)).await;
}

#[tokio::test]
async fn a_power_cut_that_takes_names_back_loses_nothing() {
    every_step(StepFault::PowerCut(Damage::NamesLost)).await;
}
