//! Commands of a model and the replies to them, case by case.

use std::fs;

use lukasa_store::{Caller, Memories};
use memory::access::AgentClass;
use serde_json::{Value, json};

use crate::host::{TestHost, answer, at, call, create, delete, rename, replace};

const GLOBAL: &str = "/memories/global";

async fn check(memories: &Memories, rows: &[(Value, Option<&str>, &str)]) {
    for (arguments, code, text) in rows {
        let (reply, actual_code) = answer(memories, arguments.clone()).await;
        assert_eq!(actual_code.as_deref(), *code, "{arguments}: {reply}");
        assert!(reply.contains(text), "{arguments}: `{reply}` does not hold `{text}`");
    }
}

#[tokio::test]
async fn a_memory_is_written_to_the_root_of_its_scope() {
    let host = TestHost::new();
    let store = host.store();
    let agent = host.agent(&store);
    for (path, file) in [
        ("/memories/global/prefs.md", host.global("prefs.md")),
        ("/memories/global/notes/deep/topic.md", host.global("notes/deep/topic.md")),
        ("/memories/project/conventions.md", host.project("conventions.md")),
        ("/memories/workspace/scratch.md", host.path("state/workspaces/ws-42/memory/scratch.md")),
    ] {
        let reply = create(&agent, path, "- fact\n").await;
        assert_eq!(reply, format!("File created successfully at: {path}"));
        assert_eq!(fs::read_to_string(file).unwrap(), "- fact\n");
    }
}

/// Commands that are refused because of a memory's old or new text.
fn edits() -> Vec<(Value, Option<&'static str>, &'static str)> {
    let a = format!("{GLOBAL}/a.md");
    let long = "x".repeat(102_401);
    let rows = [
        (
            json!({"command": "create", "path": a, "file_text": "x"}),
            "already_exists",
            "already exists",
        ),
        (
            json!({"command": "create", "path": "/memories/global/f", "file_text": "x"}),
            "already_exists",
            "already exists",
        ),
        (
            json!({"command": "create", "path": "/memories/global/A.md", "file_text": "x"}),
            "already_exists",
            "only in case",
        ),
        (
            json!({"command": "create", "path": "/memories/global/a.md/x.md", "file_text": "x"}),
            "already_exists",
            "is a file",
        ),
        (
            json!({"command": "create", "path": "/memories/global/n.md", "file_text": long}),
            "too_large",
            "limited",
        ),
        (
            json!({"command": "str_replace", "path": a, "old_str": "six", "new_str": "x"}),
            "text_not_found",
            "did not appear verbatim",
        ),
        (
            json!({"command": "str_replace", "path": a, "old_str": "one", "new_str": "x"}),
            "text_not_unique",
            "lines: 1, 3",
        ),
        (
            json!({"command": "str_replace", "path": "/memories/global/f", "old_str": "b", "new_str": "x"}),
            "not_a_file",
            "is not a file",
        ),
        (
            json!({"command": "insert", "path": a, "insert_line": 9, "insert_text": "x"}),
            "invalid_range",
            "[0, 3]",
        ),
    ];
    rows.into_iter().map(|(call, code, text)| (call, Some(code), text)).collect()
}

/// Commands that are refused because of their paths.
fn places() -> Vec<(Value, Option<&'static str>, &'static str)> {
    let a = format!("{GLOBAL}/a.md");
    let of = |command: &str, path: &str| json!({"command": command, "path": path});
    let rows = [
        (
            of("delete", GLOBAL),
            "invalid_path",
            "Cannot delete the /memories/global directory itself",
        ),
        (of("delete", "/memories"), "invalid_path", "Cannot delete the /memories directory itself"),
        (
            of("delete", "/memories/global/no.md"),
            "not_found",
            "The path /memories/global/no.md does not exist",
        ),
        (of("view", "/memories/global/no.md"), "not_found", "Please provide a valid path."),
        (of("view", "/memories/global/a.md/no.md"), "not_found", "Please provide a valid path."),
        (
            json!({"command": "rename", "old_path": a, "new_path": "/memories/global/f/b.md"}),
            "already_exists",
            "The destination",
        ),
        (
            json!({"command": "rename", "old_path": a, "new_path": "/memories/project/a.md"}),
            "invalid_path",
            "target scope",
        ),
        (
            json!({"command": "rename", "old_path": "/memories/global/f", "new_path": "/memories/global/f/g"}),
            "invalid_path",
            "into itself",
        ),
        (
            json!({"command": "rename", "old_path": GLOBAL, "new_path": "/memories/global/x"}),
            "invalid_path",
            "Cannot rename",
        ),
        (
            json!({"command": "create", "path": "/memories/global/../x.md", "file_text": "x"}),
            "invalid_path",
            "would escape /memories directory",
        ),
    ];
    rows.into_iter().map(|(call, code, text)| (call, Some(code), text)).collect()
}

#[tokio::test]
async fn every_refusal_gives_its_reason_and_changes_nothing() {
    let host = TestHost::new();
    let store = host.store();
    let agent = host.agent(&store);
    create(&agent, "/memories/global/a.md", "one\ntwo\none\n").await;
    create(&agent, "/memories/global/f/b.md", "b\n").await;
    let before = crate::host::files(&host.global(""));
    check(&agent, &edits()).await;
    check(&agent, &places()).await;
    assert_eq!(crate::host::files(&host.global("")), before);
    assert_eq!(
        agent.list(None).await.unwrap().memories.iter().map(|one| one.usage.uses).sum::<u64>(),
        2
    );
}

#[tokio::test]
async fn a_refused_secret_is_reported_by_rule_and_not_by_value() {
    let host = TestHost::new();
    let store = host.store();
    let agent = host.agent(&store);
    let secret = format!("{}{}", "AKIA", "QYXWVUTSRQPON7LM");
    let (reply, code) = answer(
        &agent,
        json!({"command": "create", "path": "/memories/global/k.md", "file_text": format!("key {secret}\n")}),
    )
    .await;
    assert_eq!(code.as_deref(), Some("screened"));
    assert!(reply.contains("secrets.") && !reply.contains(&secret), "{reply}");
    assert!(!host.global("k.md").exists());
}

#[tokio::test]
async fn a_folder_view_has_two_levels_and_no_hidden_files() {
    let host = TestHost::new();
    let store = host.store();
    let agent = host.agent(&store);
    create(&agent, "/memories/global/top.md", "12345").await;
    create(&agent, "/memories/global/sub/inner.md", "1").await;
    create(&agent, "/memories/global/sub/deep/below.md", "22").await;
    fs::write(host.global(".hidden"), "x").unwrap();
    insta::assert_snapshot!(call(&agent, json!({"command": "view", "path": GLOBAL})).await, @r"
    Here're the files and directories up to 2 levels deep in /memories/global, excluding hidden items:
    8B	/memories/global
    3B	/memories/global/sub/
    2B	/memories/global/sub/deep/
    1B	/memories/global/sub/inner.md
    5B	/memories/global/top.md
    ");
}

#[tokio::test]
async fn every_command_follows_the_access_matrix_of_classes_and_scopes() {
    let host = TestHost::new();
    let store = host.store();
    let exec = host.agent(&store);
    for scope in ["global", "project", "workspace"] {
        create(&exec, &format!("/memories/{scope}/a.md"), "one\n").await;
    }
    for (class, writable) in [
        (AgentClass::Exec, [true, true, true]),
        (AgentClass::Plan, [true, false, true]),
        (AgentClass::Explore, [false, false, false]),
    ] {
        let agent = host.memories(&store, Caller::agent(class, "test"));
        for (scope, writable) in ["global", "project", "workspace"].iter().zip(writable) {
            let root = format!("/memories/{scope}");
            let calls = [
                json!({"command": "create", "path": format!("{root}/n.md"), "file_text": "n\n"}),
                json!({"command": "str_replace", "path": format!("{root}/n.md"), "old_str": "n", "new_str": "m"}),
                json!({"command": "insert", "path": format!("{root}/n.md"), "insert_line": 0, "insert_text": "m"}),
                json!({"command": "rename", "old_path": format!("{root}/n.md"), "new_path": format!("{root}/o.md")}),
                json!({"command": "delete", "path": format!("{root}/o.md")}),
            ];
            for arguments in calls {
                let (reply, code) = answer(&agent, arguments).await;
                let expected = if writable { None } else { Some("read_only") };
                assert_eq!(code.as_deref(), expected, "{class:?} {scope}: {reply}");
            }
            let (reply, code) = answer(&agent, json!({"command": "view", "path": root})).await;
            assert_eq!(code, None, "{reply}");
        }
    }
}

#[tokio::test]
async fn uses_follow_a_renamed_memory_and_end_with_its_deletion() {
    let host = TestHost::new();
    let store = host.store();
    let agent = host.agent(&store);
    create(&agent, "/memories/global/old.md", "one\n").await;
    call(&agent, json!({"command": "view", "path": "/memories/global/old.md"})).await;
    call(&agent, json!({"command": "view", "path": GLOBAL})).await;
    replace(&agent, "/memories/global/old.md", "one", "two").await;
    let person = host.person(&store);
    assert!(person.set_pin(&at("/memories/global/old.md"), true).await.unwrap());
    rename(&agent, "/memories/global/old.md", "/memories/global/sub/new.md").await;
    let listed = agent.list(None).await.unwrap().memories;
    let listed: Vec<_> =
        listed.iter().map(|one| (one.path.to_string(), one.usage.uses, one.pinned)).collect();
    assert_eq!(listed, [("/memories/global/sub/new.md".to_owned(), 5, true)]);
    delete(&agent, "/memories/global/sub").await;
    create(&agent, "/memories/global/sub/new.md", "again\n").await;
    let listed = agent.list(None).await.unwrap().memories;
    assert_eq!((listed[0].usage.uses, listed[0].pinned), (1, false));
    assert!(agent.set_pin(&at("/memories/global/sub/new.md"), true).await.is_err());
}

#[tokio::test]
async fn a_full_scope_refuses_new_memories() {
    let mut host = TestHost::new();
    host.settings.files_max = 3;
    let store = host.store();
    let agent = host.agent(&store);
    for name in ["a", "b", "c"] {
        create(&agent, &format!("/memories/global/{name}.md"), "x\n").await;
    }
    let full = create(&agent, "/memories/global/d.md", "x\n").await;
    assert!(full.contains("limited to 3 files"), "{full}");
    // An external removal makes room at once.
    fs::remove_file(host.global("a.md")).unwrap();
    assert!(create(&agent, "/memories/global/d.md", "x\n").await.starts_with("File created"));
}
