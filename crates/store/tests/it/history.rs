//! History and undo.

use std::fs;

use memory::change::{Actor, ChangeId, ChangeKind};
use serde_json::json;
use store::{Call, ChangesQuery, Dry, StoreError, UndoTarget};

use crate::host::{Host, at, call, create, delete, rename, replace, table, texts};

fn all() -> ChangesQuery {
    ChangesQuery { max: 99, ..ChangesQuery::default() }
}

async fn last(memories: &store::Memories) -> ChangeId {
    memories.changes(&all()).await.unwrap()[0].id
}

#[tokio::test]
async fn every_kind_of_change_can_be_taken_back() {
    let host = Host::new();
    let store = host.store();
    let agent = host.agent(&store);
    let person = host.person(&store);
    create(&agent, "/memories/global/n/a.md", "one\n").await;
    create(&agent, "/memories/global/n/b.md", "two\n").await;
    let start = texts(&host.global(""));
    let path = "/memories/global/n/a.md";
    for step in 0..6 {
        match step {
            0 => replace(&agent, path, "one", "six").await,
            1 => call(
                &agent,
                json!({"command": "insert", "path": path, "insert_line": 1, "insert_text": "x"}),
            )
            .await,
            2 => delete(&agent, path).await,
            3 => delete(&agent, "/memories/global/n").await,
            4 => rename(&agent, path, "/memories/global/c.md").await,
            _ => rename(&agent, "/memories/global/n", "/memories/global/m").await,
        };
        assert_ne!(texts(&host.global("")), start, "step {step} changed nothing");
        let id = last(&person).await;
        let undone = person.undo(&UndoTarget::Change(id), Dry::No, &Call::default()).await.unwrap();
        assert_eq!(undone.undone, [id]);
        assert_eq!(texts(&host.global("")), start, "step {step}");
        // An undo is a change itself, so it can be taken back, and that again.
        let again = UndoTarget::Change(undone.change.unwrap());
        let back = person.undo(&again, Dry::No, &Call::default()).await.unwrap();
        person
            .undo(&UndoTarget::Change(back.change.unwrap()), Dry::No, &Call::default())
            .await
            .unwrap();
        assert_eq!(texts(&host.global("")), start, "step {step}, twice");
    }
}

#[tokio::test]
async fn an_undo_refuses_and_shows_what_changed_since() {
    let host = Host::new();
    let store = host.store();
    let agent = host.agent(&store);
    create(&agent, "/memories/global/a.md", "one\n").await;
    replace(&agent, "/memories/global/a.md", "one", "two").await;
    let id = last(&agent).await;
    fs::write(host.global("a.md"), "three\n").unwrap();
    let refused =
        host.person(&store).undo(&UndoTarget::Change(id), Dry::No, &Call::default()).await;
    let Err(StoreError::UndoBlocked(blocked)) = refused else { panic!("{refused:?}") };
    assert!(blocked[0].diff.contains("-two\n+three"), "{}", blocked[0].diff);
    assert_eq!(texts(&host.global("")), table(&[("a.md", "three\n")]));
}

#[tokio::test]
async fn undoing_a_task_never_loses_what_somebody_did_in_between() {
    let host = Host::new();
    let store = host.store();
    let agent = host.agent(&store);
    let path = "/memories/global/a.md";
    create(&agent, path, "R0\n").await;
    let task = Call { task: Some("t".to_owned()), ..Call::default() };
    for (old, new, call) in
        [("R0", "R1", &task), ("R1", "R2", &Call::default()), ("R2", "R3", &task)]
    {
        let command = memory::command::Command::StrReplace {
            path: at(path),
            old_str: old.to_owned(),
            new_str: new.to_owned(),
        };
        agent.apply(command, call).await.unwrap();
    }
    let person = host.person(&store);
    let refused = person.undo(&UndoTarget::Task("t".to_owned()), Dry::No, &Call::default()).await;
    assert!(matches!(refused, Err(StoreError::UndoBlocked(_))), "{refused:?}");
    assert_eq!(texts(&host.global("")), table(&[("a.md", "R3\n")]));
}

#[tokio::test]
async fn a_task_and_a_span_are_undone_as_one() {
    let host = Host::new();
    let store = host.store();
    let agent = host.agent(&store);
    create(&agent, "/memories/global/keep.md", "keep\n").await;
    host.clock.advance(std::time::Duration::from_mins(1));
    let since = memory::clock::Clock::now(&*host.clock);
    create(&agent, "/memories/global/a.md", "a\n").await;
    create(&agent, "/memories/project/b.md", "b\n").await;
    replace(&agent, "/memories/global/a.md", "a", "c").await;
    let person = host.person(&store);
    let span = UndoTarget::Span { since, until: since };
    let dry = person.undo(&span, Dry::Run, &Call::default()).await.unwrap();
    assert_eq!((dry.change, dry.undone.len()), (None, 3));
    person.undo(&span, Dry::No, &Call::default()).await.unwrap();
    assert_eq!(texts(&host.global("")), table(&[("keep.md", "keep\n")]));
    assert_eq!(texts(&host.project("")), []);
    assert_eq!(person.changes(&all()).await.unwrap()[0].kind, ChangeKind::Undo);
}

#[tokio::test]
async fn history_of_another_project_stays_there() {
    let host = Host::new();
    let store = host.store();
    create(&host.agent(&store), "/memories/project/a.md", "theirs\n").await;
    let id = last(&host.agent(&store)).await;
    fs::create_dir_all(host.path("other/.git")).unwrap();
    let request =
        store::BindingRequest { project_dir: Some(host.path("other")), ..Default::default() };
    let folders = store::Folders { data: host.path("data"), state: host.path("state") };
    let other =
        store.memories(store::Binding::resolve(&request, &folders), store::Caller::person("test"));
    assert_eq!(other.changes(&all()).await.unwrap(), []);
    assert!(matches!(other.change(id).await, Err(StoreError::NoSuchChange(_))));
    let undo = other.undo(&UndoTarget::Change(id), Dry::No, &Call::default()).await;
    assert!(matches!(undo, Err(StoreError::NoSuchChange(_))));
}

#[tokio::test]
async fn a_change_says_who_made_it() {
    let host = Host::new();
    let store = host.store();
    create(&host.agent(&store), "/memories/global/a.md", "a\n").await;
    fs::write(host.global("a.md"), "b\n").unwrap();
    let changes = host.person(&store).changes(&all()).await.unwrap();
    let who: Vec<_> = changes.iter().map(|change| (change.kind, change.provenance.actor)).collect();
    assert_eq!(who, [(ChangeKind::Outside, Actor::Outside), (ChangeKind::Create, Actor::Agent)]);
}
