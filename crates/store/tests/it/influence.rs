//! What an agent writes after it has read text that nobody here reviewed.

use std::fs;
use std::sync::Arc;

use memory::change::{ChangeKind, Trust};
use memory::command::CommandError;
use memory::document::Revision;
use serde_json::json;
use store::{
    Call, ChangesQuery, Dry, Expected, Memories, Store, StoreError, UndoTarget, Unreviewed,
};

use crate::host::{Host, at, call, create, delete, rename, replace};

const PLANTED: &str = "/memories/project/planted.md";

/// A checkout that brings a memory, and an agent that reads it.
async fn read_planted(host: &Host) -> (Arc<Store>, Memories) {
    fs::create_dir_all(host.project("")).unwrap();
    fs::write(host.project("planted.md"), "planted\n").unwrap();
    let store = host.store();
    let agent = host.agent(&store);
    agent.notice().await.unwrap();
    view(&agent, PLANTED).await;
    (store, agent)
}

async fn view(memories: &Memories, path: &str) -> String {
    call(memories, json!({"command": "view", "path": path})).await
}

async fn waiting(memories: &Memories) -> Vec<String> {
    let waiting = memories.influenced().await.unwrap();
    waiting.iter().map(|one| one.path.to_string()).collect()
}

async fn last(memories: &Memories) -> memory::change::Change {
    let query = ChangesQuery { max: 1, ..ChangesQuery::default() };
    memories.changes(&query).await.unwrap().remove(0)
}

async fn undo_last(memories: &Memories) {
    let target = UndoTarget::Change(last(memories).await.id);
    memories.undo(&target, Dry::No, &Call::default()).await.unwrap();
}

#[tokio::test]
async fn what_is_written_into_another_root_waits_for_a_review() {
    let host = Host::new();
    let (store, agent) = read_planted(&host).await;
    let person = host.person(&store);
    create(&agent, "/memories/project/own.md", "own\n").await;
    assert_eq!(last(&agent).await.files[0].trust, Trust::Agent, "the same root");
    create(&agent, "/memories/global/a.md", "a\n").await;
    assert_eq!(last(&agent).await.files[0].trust, Trust::Outside);
    create(&agent, "/memories/workspace/w.md", "w\n").await;
    let both = ["/memories/global/a.md", "/memories/workspace/w.md"];
    assert_eq!(waiting(&person).await, both);
    let found = person.unreviewed(&[(&at(both[0]), None)]).await;
    assert_eq!(found.get(&at(both[0])), Some(&Unreviewed::Influenced));
    // Another session has read nothing of the kind.
    let other = host.agent(&store);
    create(&other, "/memories/global/clean.md", "clean\n").await;
    assert_eq!(waiting(&person).await, both);
    // It is known to the next process, too.
    store.close().await;
    let store = host.store();
    assert_eq!(waiting(&host.person(&store)).await, both);
}

#[tokio::test]
async fn it_goes_on_through_edits_and_names_and_who_reads_it() {
    let host = Host::new();
    let (store, agent) = read_planted(&host).await;
    let (person, other) = (host.person(&store), host.agent(&store));
    create(&other, "/memories/global/a.md", "clean\n").await;
    replace(&agent, "/memories/global/a.md", "clean", "carried").await;
    // Somebody who read nothing edits and moves it: the words are still there.
    replace(&other, "/memories/global/a.md", "carried\n", "carried\nmore\n").await;
    rename(&other, "/memories/global/a.md", "/memories/global/b.md").await;
    assert_eq!(waiting(&person).await, ["/memories/global/b.md"]);
    // A person who edits a part of it does not answer for the rest.
    replace(&person, "/memories/global/b.md", "more", "most").await;
    assert_eq!(waiting(&person).await, ["/memories/global/b.md"]);
    // Whoever edits it is shown it, and so has read it.
    let third = host.agent(&store);
    replace(&third, "/memories/global/b.md", "most", "last").await;
    create(&third, "/memories/workspace/c.md", "c\n").await;
    assert_eq!(waiting(&person).await, ["/memories/global/b.md", "/memories/workspace/c.md"]);
    let shown = view(&host.agent(&store), "/memories/global/b.md").await;
    assert!(shown.starts_with("Notice: an agent wrote the memory below after"), "{shown}");
    delete(&agent, "/memories/global/b.md").await;
    assert_eq!(waiting(&person).await, ["/memories/workspace/c.md"]);
    undo_last(&person).await;
    assert_eq!(waiting(&person).await, ["/memories/global/b.md", "/memories/workspace/c.md"]);
}

#[tokio::test]
async fn a_person_ends_it_by_accepting_saving_or_undoing() {
    let host = Host::new();
    let (store, agent) = read_planted(&host).await;
    let person = host.person(&store);
    let call = Call::default();
    for name in ["accepted", "saved", "undone"] {
        create(&host.agent(&store), &format!("/memories/global/{name}.md"), "clean\n").await;
        replace(&agent, &format!("/memories/global/{name}.md"), "clean", "carried").await;
    }
    assert_eq!(waiting(&person).await.len(), 3);
    undo_last(&person).await;
    assert_eq!(
        waiting(&person).await,
        ["/memories/global/accepted.md", "/memories/global/saved.md"]
    );
    let text = Expected::Present;
    person.save(&at("/memories/global/saved.md"), "mine\n", text, &call).await.unwrap();
    assert_eq!(waiting(&person).await, ["/memories/global/accepted.md"]);

    let path = at("/memories/global/accepted.md");
    let carried = Revision::of(b"carried\n");
    let by_agent = agent.accept(&path, carried, &call).await;
    assert!(matches!(by_agent, Err(StoreError::Refused(CommandError::ReadOnly { .. }))));
    let of_another = person.accept(&path, Revision::of(b"else\n"), &call).await;
    let Err(StoreError::Refused(CommandError::Conflict { current, .. })) = of_another else {
        panic!("{of_another:?}")
    };
    assert_eq!(current, Some(carried));
    let id = person.accept(&path, carried, &call).await.unwrap();
    assert_eq!(waiting(&person).await, [] as [String; 0]);
    let change = last(&person).await;
    assert_eq!((change.id, change.kind), (id, ChangeKind::Accept));
    assert_eq!(change.files[0].trust, Trust::Person);
    assert_eq!(person.unreviewed(&[(&path, None)]).await.len(), 0);
    // Written anew by an agent that has read such a text, the same words wait again.
    delete(&agent, "/memories/global/accepted.md").await;
    create(&agent, "/memories/global/accepted.md", "carried\n").await;
    assert_eq!(waiting(&person).await, ["/memories/global/accepted.md"]);
}

#[tokio::test]
async fn what_a_person_wrote_by_hand_is_no_such_text() {
    let host = Host::new();
    let store = host.store();
    let (agent, person) = (host.agent(&store), host.person(&store));
    create(&agent, "/memories/global/a.md", "a\n").await;
    fs::write(host.global("a.md"), "by hand\n").unwrap();
    view(&agent, "/memories/global/a.md").await;
    replace(&agent, "/memories/global/a.md", "by hand", "by hand and by an agent").await;
    create(&agent, "/memories/workspace/b.md", "b\n").await;
    assert_eq!(waiting(&person).await, [] as [String; 0]);
}

#[tokio::test]
async fn a_memory_of_a_clone_is_reviewed_as_it_is() {
    let host = Host::new();
    let (store, _) = read_planted(&host).await;
    let (person, path) = (host.person(&store), at(PLANTED));
    assert_eq!(person.unreviewed(&[(&path, None)]).await.len(), 1);
    person.accept(&path, Revision::of(b"planted\n"), &Call::default()).await.unwrap();
    assert_eq!(person.unreviewed(&[(&path, None)]).await.len(), 0);
    assert_eq!(fs::read(host.project("planted.md")).unwrap(), b"planted\n");
    let agent = host.agent(&store);
    view(&agent, PLANTED).await;
    create(&agent, "/memories/global/a.md", "a\n").await;
    assert_eq!(waiting(&person).await, [] as [String; 0]);
    fs::write(host.project("planted.md"), "planted anew\n").unwrap();
    person.notice().await.unwrap();
    assert_eq!(person.unreviewed(&[(&path, None)]).await.len(), 1);
}

#[tokio::test]
async fn history_keeps_what_waits_however_old_it_is() {
    let mut host = Host::new();
    host.settings.retention.age = std::time::Duration::ZERO;
    host.settings.retention.bytes = 0;
    let (store, agent) = read_planted(&host).await;
    create(&agent, "/memories/global/a.md", "a\n").await;
    store.settle().await;
    host.clock.advance(std::time::Duration::from_secs(1_000_000));
    store.prune().await.unwrap();
    assert_eq!(waiting(&host.person(&store)).await, ["/memories/global/a.md"]);
}
