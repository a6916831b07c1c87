//! Drafts: no effect before the commit, and all or nothing with it.

use std::fs;
use std::sync::Arc;

use lukasa_store::{CallContext, ChangesQuery, Store, StoreError};
use memory::change::{ChangeKind, Trust};
use memory::command::{CommandError, MemoryCommand, Reply};
use memory::path::Layout;
use memory::tool;
use serde_json::{Value, json};

use crate::host::{TestHost, answer, at, create, files, table, texts};

fn make(path: &str, text: &str) -> MemoryCommand {
    MemoryCommand::Create { path: at(path), file_text: text.to_owned() }
}

fn moved(from: &str, to: &str) -> MemoryCommand {
    MemoryCommand::Rename { old_path: at(from), new_path: at(to) }
}

#[tokio::test]
async fn a_draft_over_two_scopes_is_one_change() {
    let host = TestHost::new();
    let store = host.store();
    let agent = host.agent(&store);
    create(&agent, "/memories/global/old.md", "old\n").await;
    let mut draft = agent.draft(
        ChangeKind::Draft,
        CallContext { task: Some("t1".to_owned()), ..CallContext::default() },
    );
    draft.apply(make("/memories/global/a.md", "a\n")).await.unwrap();
    draft.apply(make("/memories/project/b.md", "b\n")).await.unwrap();
    draft.apply(MemoryCommand::Delete { path: at("/memories/global/old.md") }).await.unwrap();
    assert_eq!(texts(&host.global("")), table(&[("old.md", "old\n")]));
    assert_eq!(draft.changed_paths().len(), 3);
    let id = draft.commit().await.unwrap().unwrap();
    assert_eq!(texts(&host.global("")), table(&[("a.md", "a\n")]));
    assert_eq!(texts(&host.project("")), table(&[("b.md", "b\n")]));
    let change = agent.change(id).await.unwrap();
    assert_eq!((change.files.len(), change.provenance.task.as_deref()), (3, Some("t1")));
}

#[tokio::test]
async fn a_dropped_draft_leaves_no_trace() {
    let host = TestHost::new();
    let store = host.store();
    let agent = host.agent(&store);
    let mut draft = agent.draft(ChangeKind::Draft, CallContext::default());
    draft.apply(make("/memories/global/a.md", "a\n")).await.unwrap();
    drop(draft);
    assert_eq!(files(&host.path("data")), []);
    let all = ChangesQuery { max: 9, ..ChangesQuery::default() };
    assert_eq!(agent.changes(&all).await.unwrap(), []);
}

#[tokio::test]
async fn a_draft_on_a_changed_memory_commits_nothing() {
    let host = TestHost::new();
    let store = host.store();
    let agent = host.agent(&store);
    create(&agent, "/memories/global/a.md", "one\n").await;
    let mut draft = agent.draft(ChangeKind::Draft, CallContext::default());
    draft.apply(make("/memories/global/b.md", "b\n")).await.unwrap();
    draft.set_text(&at("/memories/global/a.md"), "two\n").await.unwrap();
    fs::write(host.global("a.md"), "theirs\n").unwrap();
    let refused = draft.commit().await;
    assert!(
        matches!(refused, Err(StoreError::Refused(CommandError::Conflict { .. }))),
        "{refused:?}"
    );
    assert_eq!(texts(&host.global("")), table(&[("a.md", "theirs\n")]));
}

#[tokio::test]
async fn a_draft_never_removes_a_file_too_large_for_history() {
    let host = TestHost::new();
    let store = host.store();
    let agent = host.agent(&store);
    create(&agent, "/memories/global/a.md", "a\n").await;
    let large = "x".repeat(1_100_000);
    fs::write(host.global("large.md"), &large).unwrap();
    let mut draft = agent.draft(ChangeKind::Draft, CallContext::default());
    let path = at("/memories/global/large.md");
    let refused = draft.apply(make("/memories/global/large.md", "small\n")).await.unwrap();
    assert!(matches!(refused, Reply::Refused(CommandError::AlreadyExists { .. })), "{refused:?}");
    let refused = draft.apply(MemoryCommand::Delete { path: path.clone() }).await.unwrap();
    assert!(matches!(refused, Reply::Refused(CommandError::OutgrewCap { .. })), "{refused:?}");
    let refused =
        draft.apply(moved("/memories/global/large.md", "/memories/global/b.md")).await.unwrap();
    assert!(matches!(refused, Reply::Refused(CommandError::OutgrewCap { .. })), "{refused:?}");
    let refused = draft.set_text(&path, "small\n").await;
    assert!(
        matches!(refused, Err(StoreError::Refused(CommandError::OutgrewCap { .. }))),
        "{refused:?}"
    );
    draft.set_text(&at("/memories/global/a.md"), "b\n").await.unwrap();
    draft.commit().await.unwrap();
    assert_eq!(fs::read_to_string(host.global("large.md")).unwrap(), large);
}

#[tokio::test]
async fn a_rename_in_a_draft_keeps_pin_and_trust() {
    let host = TestHost::new();
    let store = host.store();
    let person = host.person(&store);
    fs::create_dir_all(host.global("")).unwrap();
    fs::write(host.global("a.md"), "found\n").unwrap();
    person.record_external_edits().await.unwrap();
    person.set_pin(&at("/memories/global/a.md"), true).await.unwrap();
    let mut draft = host.agent(&store).draft(ChangeKind::Draft, CallContext::default());
    draft.apply(moved("/memories/global/a.md", "/memories/global/z/b.md")).await.unwrap();
    let id = draft.commit().await.unwrap().unwrap();
    assert_eq!(texts(&host.global("")), table(&[("z/b.md", "found\n")]));
    assert!(person.list(None).await.unwrap().memories[0].pinned);
    let trust: Vec<_> =
        person.change(id).await.unwrap().files.iter().map(|file| file.trust).collect();
    assert_eq!(trust, [Trust::Outside]);
}

#[tokio::test]
async fn a_rename_that_is_refused_half_way_moves_nothing() {
    let host = TestHost::new();
    let store = host.store();
    let agent = host.agent(&store);
    create(&agent, "/memories/global/d/a/b/c/x.md", "x\n").await;
    create(&agent, "/memories/global/d/y.md", "y\n").await;
    let before = texts(&host.global(""));
    let deep = format!("/memories/global/{}t", "s/".repeat(12));
    let mut draft = agent.draft(ChangeKind::Draft, CallContext::default());
    let refused = draft.apply(moved("/memories/global/d", &deep)).await.unwrap();
    assert!(matches!(refused, Reply::Refused(CommandError::Path(_))), "{refused:?}");
    assert_eq!(draft.changed_paths(), []);
    assert_eq!(draft.commit().await.unwrap(), None);
    let refused = crate::host::rename(&agent, "/memories/global/d", &deep).await;
    assert!(refused.starts_with("Invalid memory path"), "{refused}");
    assert_eq!(texts(&host.global("")), before);
}

/// Commands on `a.md`, `b.md` and `d/c.md`, including refused ones.
fn commands() -> [Value; 20] {
    let path = |name: &str| format!("/memories/global/{name}");
    let create = |name: &str, text: &str| json!({"command": "create", "path": path(name), "file_text": text});
    let replace = |name: &str, old: &str| json!({"command": "str_replace", "path": path(name), "old_str": old, "new_str": "x"});
    let insert = |name: &str, line: usize| json!({"command": "insert", "path": path(name), "insert_line": line, "insert_text": "x"});
    let delete = |name: &str| json!({"command": "delete", "path": path(name)});
    let rename = |from: &str, to: &str| json!({"command": "rename", "old_path": path(from), "new_path": path(to)});
    [
        create("new.md", "- new\n"),
        create("a.md", "- new\n"),
        create("new.md", "token ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8\n"),
        replace("a.md", "one"),
        replace("a.md", "two"),
        replace("a.md", "nothing"),
        replace("none.md", "one"),
        insert("a.md", 1),
        insert("a.md", 99),
        delete("a.md"),
        delete("none.md"),
        delete("d"),
        rename("a.md", "z.md"),
        rename("a.md", "b.md"),
        rename("none.md", "z.md"),
        create("a.md/new.md", "- new\n"),
        create("d", "- new\n"),
        rename("b.md", "a.md/b.md"),
        rename("a.md", "a.md/b.md"),
        rename("d", "d/e"),
    ]
}

/// Returns a host of a store with three memories.
async fn filled() -> (TestHost, Arc<Store>) {
    let host = TestHost::in_fast_storage();
    let store = host.store();
    for name in ["a.md", "b.md", "d/c.md"] {
        let path = format!("/memories/global/{name}");
        create(&host.agent(&store), &path, "- one\n- two\n- two\n").await;
    }
    (host, store)
}

#[tokio::test]
async fn a_draft_and_a_direct_call_give_each_command_the_same_reply_and_effect() {
    for command in commands() {
        let (called, store) = filled().await;
        let by_call = answer(&called.agent(&store), command.clone()).await;
        let (drafted, store) = filled().await;
        let mut draft = drafted.agent(&store).draft(ChangeKind::Draft, CallContext::default());
        let reply = draft.apply(tool::decode(&command, Layout::Scoped).unwrap()).await.unwrap();
        let reply = tool::render(&reply);
        let code = reply.facts.get("code").and_then(Value::as_str).map(str::to_owned);
        assert_eq!((reply.text, code), by_call, "{command}");
        draft.commit().await.unwrap();
        assert_eq!(texts(&drafted.global("")), texts(&called.global("")), "{command}");
    }
}
