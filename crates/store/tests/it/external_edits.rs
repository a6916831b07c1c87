//! An editor that saves, removes or creates a file before each step of a command in turn. Text that
//! the editor wrote is never lost, and a file that it removed never comes back.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use lukasa_store::backend::Backend;
use lukasa_store::backend::local::{LocalBackend, Privacy, RootDir};
use lukasa_store::{Caller, Memories};
use memory::access::AgentClass;
use memory::change::RootKey;
use memory::document::Revision;
use memory::path::{Mount, Scope};
use serde_json::{Value, json};
use state::SqliteState;
use testkit::{Failure, FaultPlan, FaultyBackend, FaultyState};

use crate::host::{TestHost, call, create, texts};

const THEIRS: &str = "theirs, by hand\n";

/// An action of the editor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExternalEdit {
    /// Overwrites the file in place.
    Write(&'static str),
    /// Replaces the file by a new one, as careful editors do.
    Replace(&'static str),
    Remove(&'static str),
}

impl ExternalEdit {
    const ALL: [Self; 9] = [
        Self::Write("a.md"),
        Self::Replace("a.md"),
        Self::Remove("a.md"),
        Self::Write("z/new.md"),
        Self::Replace("z/new.md"),
        Self::Write("d/b.md"),
        Self::Replace("d/b.md"),
        Self::Write("d/theirs.md"),
        Self::Remove("d/b.md"),
    ];

    fn act(self, root: &Path) {
        match self {
            Self::Write(name) => {
                let at = root.join(name);
                fs::create_dir_all(at.parent().unwrap()).unwrap();
                fs::write(at, THEIRS).unwrap();
            }
            Self::Replace(name) => {
                let at = root.join(name);
                fs::create_dir_all(at.parent().unwrap()).unwrap();
                let aside = root.join(".editor");
                fs::write(&aside, THEIRS).unwrap();
                fs::rename(aside, at).unwrap();
            }
            // The command may have removed or moved the file already.
            Self::Remove(name) => fs::remove_file(root.join(name)).unwrap_or_default(),
        }
    }
}

fn commands() -> [Value; 7] {
    let path = |name: &str| format!("/memories/global/{name}");
    [
        json!({"command": "create", "path": path("z/new.md"), "file_text": "ours\n"}),
        json!({"command": "str_replace", "path": path("a.md"), "old_str": "one", "new_str": "two"}),
        json!({"command": "insert", "path": path("a.md"), "insert_line": 0, "insert_text": "top"}),
        json!({"command": "delete", "path": path("a.md")}),
        json!({"command": "delete", "path": path("d")}),
        json!({"command": "rename", "old_path": path("a.md"), "new_path": path("z/new.md")}),
        json!({"command": "rename", "old_path": path("d"), "new_path": path("z")}),
    ]
}

struct Rig {
    host: TestHost,
    plan: Arc<FaultPlan>,
    memories: Memories,
}

async fn rig() -> Rig {
    let host = TestHost::in_fast_storage();
    let plan = Arc::<FaultPlan>::default();
    let sqlite = Arc::new(SqliteState::new(host.path("state/lukasa.db")));
    let store = host.store_on(Arc::new(FaultyState::sharing(sqlite, Arc::clone(&plan))));
    let anchor = RootDir::new(host.path("data"), &["memory"], Privacy::Private);
    let local = Arc::new(LocalBackend::new(anchor, host.path("state/locks/global.lock")));
    let key = RootKey { identity: "global".to_owned(), place: "global".to_owned() };
    let faulty: Arc<dyn Backend> = Arc::new(FaultyBackend::new(local, Arc::clone(&plan)));
    let roots = vec![(Mount::Scope(Scope::Global), key, faulty)];
    let memories = store.memories_in(roots, Caller::agent(AgentClass::Exec, "test"));
    for (name, text) in [("a.md", "one\n"), ("d/b.md", "b\n"), ("d/e/c.md", "c\n")] {
        let path = format!("/memories/global/{name}");
        assert!(create(&memories, &path, text).await.starts_with("File created"));
    }
    store.checkpoint().await;
    Rig { host, plan, memories }
}

fn files(host: &TestHost) -> BTreeMap<String, String> {
    texts(&host.global("")).into_iter().collect()
}

/// Returns whether there was such a step.
async fn attempt(command: &Value, meddling: ExternalEdit, step: u64) -> bool {
    let name = format!("{command}, {meddling:?} before step {step}");
    let rig = rig().await;
    let mut untouched = files(&rig.host);
    match meddling {
        ExternalEdit::Write(at) | ExternalEdit::Replace(at) => {
            untouched.insert(at.to_owned(), THEIRS.to_owned());
        }
        ExternalEdit::Remove(at) => {
            untouched.remove(at);
        }
    }
    let root = rig.host.global("");
    rig.plan.run_before(step, move || meddling.act(&root));
    let reply = call(&rig.memories, command.clone()).await;
    let reached = rig.plan.steps() >= step;
    rig.plan.set(0, Failure::Once);
    if !reached {
        return false;
    }
    rig.memories.record_external_edits().await.unwrap();
    let after = files(&rig.host);
    let acknowledged =
        reply.contains("success") || reply.contains("Success") || reply.contains("has been edited");
    if !acknowledged {
        assert_eq!(after, untouched, "{name}: refused with `{reply}`");
    }
    let recorded = rig.memories.content(&Revision::digest(THEIRS.as_bytes())).await.unwrap();
    match meddling {
        ExternalEdit::Write(_) | ExternalEdit::Replace(_) => {
            let is_on_disk = after.values().any(|text| text.contains(THEIRS));
            assert!(
                is_on_disk || recorded.is_some(),
                "{name}: the external text is lost; `{reply}`: {after:#?}"
            );
        }
        ExternalEdit::Remove("a.md") => {
            assert!(
                !after.contains_key("a.md"),
                "{name}: the removed file is back; `{reply}`: {after:#?}"
            );
        }
        ExternalEdit::Remove(_) => {}
    }
    assert!(after.keys().all(|path| !path.contains(".lukasa-")), "{name}: {after:#?}");
    // History has the content of every file.
    assert_eq!(rig.memories.record_external_edits().await.unwrap(), 0, "{name}");
    for (path, text) in &after {
        let recorded = rig.memories.content(&Revision::digest(text.as_bytes())).await.unwrap();
        assert_eq!(recorded.as_deref(), Some(text.as_bytes()), "{name}: {path} is not in history");
    }
    true
}

#[tokio::test]
async fn an_external_edit_during_a_command_is_never_lost() {
    for command in commands() {
        for meddling in ExternalEdit::ALL {
            let mut step = 1;
            while attempt(&command, meddling, step).await {
                step += 1;
                assert!(step < 200, "{command} does not end");
            }
        }
    }
}
