//! Every write, with every step of it failing once: all of it happens or nothing.

use std::path::Path;
use std::sync::Arc;

use memory::access::AgentClass;
use memory::change::{ChangeKind, RootKey};
use memory::command::{Command, Reply};
use memory::path::{Mount, Scope};
use store::backend::Backend;
use store::backend::local::{Anchor, LocalBackend, Privacy};
use store::{Call, Caller, Expected, Memories};
use testkit::{Failure, Faults, FaultyBackend, FaultyState, Plan};

use crate::host::{Host, at, texts};

/// The writes that are tried.
const WRITES: [&str; 10] = [
    "create",
    "create deep",
    "replace",
    "insert",
    "delete",
    "delete folder",
    "rename",
    "rename folder",
    "save",
    "draft",
];

async fn write(memories: &Memories, name: &str) -> bool {
    let path = |text: &str| at(&format!("/memories/global/{text}"));
    let text = |text: &str| text.to_owned();
    let command = match name {
        "create" => Command::Create { path: path("new.md"), file_text: text("new\n") },
        "create deep" => Command::Create { path: path("p/q/new.md"), file_text: text("new\n") },
        "replace" => {
            Command::StrReplace { path: path("a.md"), old_str: text("one"), new_str: text("six") }
        }
        "insert" => {
            Command::Insert { path: path("a.md"), insert_line: 0, insert_text: text("top") }
        }
        "delete" => Command::Delete { path: path("a.md") },
        "delete folder" => Command::Delete { path: path("d") },
        "rename" => Command::Rename { old_path: path("a.md"), new_path: path("z/a.md") },
        "rename folder" => Command::Rename { old_path: path("d"), new_path: path("e") },
        "save" => {
            let (path, call) = (path("s.md"), Call::default());
            return memories.save(&path, "saved\n", Expected::Absent, &call).await.is_ok();
        }
        _ => {
            let mut draft = memories.draft(ChangeKind::Draft, Call::default());
            let edits = [
                Command::Create { path: path("n1.md"), file_text: text("n1\n") },
                Command::Create { path: at("/memories/project/n2.md"), file_text: text("n2\n") },
                Command::StrReplace {
                    path: path("a.md"),
                    old_str: text("one"),
                    new_str: text("ten"),
                },
                Command::Delete { path: path("d/b.md") },
            ];
            for edit in edits {
                if !matches!(draft.apply(edit).await, Ok(Reply::Done { .. })) {
                    return false;
                }
            }
            return draft.commit().await.is_ok();
        }
    };
    matches!(memories.apply(command, &Call::default()).await, Ok(Reply::Done { .. }))
}

type Roots = Vec<(Mount, RootKey, Arc<dyn Backend>)>;

fn roots(host: &Host, plan: &Arc<Plan>) -> Roots {
    let root = |scope, base: &str, names: &[&str]| {
        let anchor = Anchor::new(host.path(base), names, Privacy::Private);
        let lock = host.path(&format!("state/locks/{scope}.lock"));
        let backend = Arc::new(LocalBackend::new(anchor, lock));
        let key = RootKey { identity: format!("{scope}"), place: format!("{scope}") };
        let faulty = FaultyBackend::new(backend, Arc::clone(plan));
        (Mount::Scope(scope), key, Arc::new(faulty) as Arc<dyn Backend>)
    };
    vec![
        root(Scope::Global, "data", &["memory"]),
        root(Scope::Project, "shop", &[".quipu", "memory"]),
    ]
}

fn everything(host: &Host) -> Vec<(String, String)> {
    let in_root = |root: &str, folder: &Path| {
        let named = |(name, text)| (format!("{root}/{name}"), text);
        texts(folder).into_iter().map(named).collect::<Vec<_>>()
    };
    [in_root("global", &host.global("")), in_root("project", &host.project(""))].concat()
}

/// Does one write on a host of its own with one fault; returns whether there was a step to fail.
async fn attempt(name: &str, fault: Fault) -> bool {
    let host = Host::new();
    let plan = Arc::new(Plan::default());
    let sqlite = Arc::new(state::SqliteState::new(host.path("state/quipu.db")));
    let state = Arc::new(FaultyState::new(sqlite));
    let store = host.store_on(Arc::<FaultyState>::clone(&state));
    let caller = || Caller::agent(AgentClass::Exec, "test");
    let memories = store.memories_in(roots(&host, &plan), caller());
    for (path, text) in [("a.md", "one\n"), ("d/b.md", "b\n"), ("d/c.md", "c\n")] {
        let path = at(&format!("/memories/global/{path}"));
        let made = Command::Create { path, file_text: text.to_owned() };
        assert!(matches!(memories.apply(made, &Call::default()).await, Ok(Reply::Done { .. })));
    }
    store.settle().await;
    let before = everything(&host);
    match fault {
        Fault::Backend(step, failure) => plan.set(step, failure),
        Fault::State(step) => state.set(Faults::Call(step)),
        Fault::StateCrash(step) => state.set(Faults::CrashBeforeAnswer(step)),
    }
    let done = write(&memories, name).await;
    let reached = match fault {
        Fault::Backend(step, _) => plan.steps() >= step,
        Fault::State(step) | Fault::StateCrash(step) => state.calls() >= step,
    };
    drop((memories, store));

    // A new process, with nothing failing any more.
    plan.set(0, Failure::Once);
    let store = host.store();
    let memories = store.memories_in(roots(&host, &plan), caller());
    memories.list(None).await.unwrap();
    memories.notice().await.unwrap();
    let after = everything(&host);
    let fresh = {
        let host = Host::new();
        let store = host.store();
        let memories = store.memories_in(roots(&host, &Arc::new(Plan::default())), caller());
        for (path, text) in [("a.md", "one\n"), ("d/b.md", "b\n"), ("d/c.md", "c\n")] {
            let path = at(&format!("/memories/global/{path}"));
            let made = Command::Create { path, file_text: text.to_owned() };
            memories.apply(made, &Call::default()).await.unwrap();
        }
        assert!(write(&memories, name).await);
        everything(&host)
    };
    assert!(after == before || after == fresh, "{name}, {fault:?}: {after:#?}");
    assert!(!done || after == fresh, "{name}, {fault:?}: acknowledged and not there: {after:#?}");
    let changes = store::ChangesQuery { max: 99, ..Default::default() };
    let outside = memories.changes(&changes).await.unwrap();
    assert!(
        outside.iter().all(|change| change.kind != ChangeKind::Outside),
        "{name}, {fault:?}: our own write looks like somebody else's: {outside:#?}"
    );
    assert!(write(&memories, "save").await || name == "save", "{name}, {fault:?}: it goes on");
    reached
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Backend(u64, Failure),
    State(u64),
    StateCrash(u64),
}

async fn every_step(fault: impl Fn(u64) -> Fault) {
    for name in WRITES {
        let mut step = 1;
        while attempt(name, fault(step)).await {
            step += 1;
            assert!(step < 200, "{name} never comes to its end");
        }
        assert!(step > 1, "{name} has no step that could fail");
    }
}

#[tokio::test]
async fn a_step_of_the_files_that_fails_leaves_all_or_nothing() {
    every_step(|step| Fault::Backend(step, Failure::Once)).await;
}

#[tokio::test]
async fn a_process_that_dies_at_any_step_leaves_all_or_nothing() {
    every_step(|step| Fault::Backend(step, Failure::Crash)).await;
}

#[tokio::test]
async fn a_call_of_the_state_that_fails_leaves_all_or_nothing() {
    every_step(Fault::State).await;
    every_step(Fault::StateCrash).await;
}
