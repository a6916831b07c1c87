//! Uses of memories, and subscriptions to changes.

use lukasa_store::{CallContext, ChangeEvent, ChangesQuery, Memories, Precondition};
use memory::change::{Actor, ChangeKind, Trust};
use memory::command::{MemoryCommand, ViewRange};
use memory::usage::Usage;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::TryRecvError;

use crate::host::{TestHost, answer, at, create};

const PATH: &str = "/memories/global/a.md";

async fn usage(memories: &Memories, path: &str) -> Usage {
    let listed = memories.list(None).await.unwrap().memories;
    listed.iter().find(|one| one.path == at(path)).map(|one| one.usage).unwrap_or_default()
}

#[tokio::test]
async fn only_a_successful_command_on_a_file_counts_as_a_use() {
    let host = TestHost::in_fast_storage();
    let store = host.store();
    let agent = host.agent(&store);
    create(&agent, PATH, "one\n").await;
    let rows: [(Value, u64); 11] = [
        (json!({"command": "view", "path": PATH}), 1),
        (json!({"command": "view", "path": PATH, "offset": 1, "limit": 1}), 1),
        (json!({"command": "view", "path": PATH, "offset": 99}), 0),
        (json!({"command": "view", "path": "/memories/global"}), 0),
        (json!({"command": "view", "path": "/memories"}), 0),
        (json!({"command": "create", "path": PATH, "file_text": "x"}), 0),
        (json!({"command": "str_replace", "path": PATH, "old_str": "one", "new_str": "1"}), 1),
        (json!({"command": "str_replace", "path": PATH, "old_str": "two", "new_str": "2"}), 0),
        (json!({"command": "insert", "path": PATH, "insert_line": 0, "insert_text": "x"}), 1),
        (json!({"command": "insert", "path": PATH, "insert_line": 9, "insert_text": "x"}), 0),
        (json!({"command": "view", "path": "/memories/global/none.md"}), 0),
    ];
    for (command, more) in rows {
        let before = usage(&agent, PATH).await.uses;
        answer(&agent, command.clone()).await;
        assert_eq!(usage(&agent, PATH).await.uses, before + more, "{command}");
    }
    let person = host.person(&store);
    let before = usage(&agent, PATH).await.uses;
    let text = person.read(&at(PATH)).await.unwrap();
    let view = MemoryCommand::View { path: at(PATH), lines: ViewRange::Whole };
    person.apply(view, &CallContext::default()).await.unwrap();
    assert_eq!(usage(&agent, PATH).await.uses, before, "a person's view is no use");
    let expected = Precondition::from(text.revision);
    person.save(&at(PATH), "saved\n", expected, &CallContext::default()).await.unwrap();
    assert_eq!(usage(&agent, PATH).await.uses, before + 1, "a person's save is one");
    assert!(person.set_pin(&at(PATH), true).await.unwrap());
    assert!(!person.set_pin(&at(PATH), true).await.unwrap());
    assert!(person.set_pin(&at(PATH), false).await.unwrap());
    assert_eq!(usage(&agent, PATH).await.uses, before + 2, "a pin is one, unpinning none");
}

#[tokio::test]
async fn views_and_writes_count_as_uses() {
    let host = TestHost::in_fast_storage();
    std::fs::create_dir_all(host.global("")).unwrap();
    std::fs::write(host.global("a.md"), "one\n").unwrap();
    let store = host.store();
    let agent = host.agent(&store);
    assert_eq!(usage(&agent, PATH).await, Usage::default());
    let first = memory::clock::Clock::now(&*host.clock);
    answer(&agent, json!({"command": "view", "path": PATH})).await;
    let seen = Usage { uses: 1, last_used_at: Some(first), last_written_at: None };
    assert_eq!(usage(&agent, PATH).await, seen);
    host.clock.advance(std::time::Duration::from_mins(1));
    let later = memory::clock::Clock::now(&*host.clock);
    let insert = json!({"command": "insert", "path": PATH, "insert_line": 1, "insert_text": "x"});
    answer(&agent, insert).await;
    let wrote = Usage { uses: 2, last_used_at: Some(later), last_written_at: Some(later) };
    assert_eq!(usage(&agent, PATH).await, wrote);
    // Another process sees the same.
    store.close().await;
    assert_eq!(usage(&host.agent(&host.store()), PATH).await, wrote);
}

#[tokio::test]
async fn each_change_is_published_once_and_refusals_never() {
    let host = TestHost::in_fast_storage();
    let store = host.store();
    let agent = host.agent(&store);
    let mut events = store.subscribe();
    create(&agent, "/memories/workspace/plan.md", "one\n").await;
    let event = events.try_recv().unwrap();
    assert_eq!((event.kind, event.provenance.actor), (ChangeKind::Create, Actor::Agent));
    assert_eq!(event_paths(&event), [("workspace:ws-42", "plan.md")]);
    for refused in [
        json!({"command": "delete", "path": "/memories/workspace/none.md"}),
        json!({"command": "create", "path": "/memories/workspace/plan.md", "file_text": "x"}),
        json!({"command": "view", "path": "/memories/workspace/plan.md"}),
    ] {
        answer(&agent, refused).await;
    }
    let mut dropped = agent.draft(ChangeKind::Draft, CallContext::default());
    dropped.set_text(&at(PATH), "never\n").await.unwrap();
    drop(dropped);
    assert_eq!(events.try_recv().unwrap_err(), TryRecvError::Empty);
    let mut draft = agent.draft(ChangeKind::Draft, CallContext::default());
    draft.set_text(&at(PATH), "a\n").await.unwrap();
    draft.set_text(&at("/memories/workspace/plan.md"), "two\n").await.unwrap();
    let change = draft.commit().await.unwrap().unwrap();
    let event = events.try_recv().unwrap();
    assert_eq!(event.change, change);
    assert_eq!(event_paths(&event), [("global", "a.md"), ("workspace:ws-42", "plan.md")]);
    assert_eq!(events.try_recv().unwrap_err(), TryRecvError::Empty, "one event for both");
}

/// Returns the memories in an event.
fn event_paths(event: &ChangeEvent) -> Vec<(&str, &str)> {
    event.files.iter().map(|file| (file.root.identity.as_str(), file.path.as_str())).collect()
}

#[tokio::test]
async fn a_pin_may_be_the_first_state_on_a_host() {
    let host = TestHost::in_fast_storage();
    std::fs::create_dir_all(host.project("")).unwrap();
    std::fs::write(host.project("a.md"), "came with the checkout\n").unwrap();
    let store = host.store();
    let person = host.person(&store);
    let path = at("/memories/project/a.md");
    assert!(person.set_pin(&path, true).await.unwrap());
    store.close().await;
    let listed = host.person(&host.store()).list(None).await.unwrap().memories;
    let listed: Vec<_> = listed.into_iter().map(|one| (one.path, one.pinned)).collect();
    assert_eq!(listed, [(path, true)]);
    let files = crate::host::files(&host.project(""));
    assert_eq!(files, [("a.md".to_owned(), b"came with the checkout\n".to_vec())]);
}

#[tokio::test]
async fn no_memory_can_set_its_own_pin_uses_or_trust() {
    let host = TestHost::in_fast_storage();
    std::fs::create_dir_all(host.global("")).unwrap();
    let text = "---\npinned: true\npin: true\nuses: 99\ntrust: person\n---\n- a fact\n";
    std::fs::write(host.global("a.md"), text).unwrap();
    let store = host.store();
    let agent = host.agent(&store);
    let listed = agent.list(None).await.unwrap().memories;
    let listed: Vec<_> = listed.into_iter().map(|one| (one.path, one.pinned, one.usage)).collect();
    assert_eq!(listed, [(at(PATH), false, Usage::default())]);
    // An edit has the trust of the earlier text, which is that of an external text.
    let insert = json!({"command": "insert", "path": PATH, "insert_line": 0, "insert_text": "x"});
    answer(&agent, insert).await;
    let all = ChangesQuery { max: 9, ..ChangesQuery::default() };
    let changes = agent.changes(&all).await.unwrap();
    let trusts: Vec<_> = changes.iter().map(|change| change.files[0].trust).collect();
    assert_eq!(trusts, [Trust::Outside]);
}
