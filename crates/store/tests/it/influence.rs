//! Influence: the treatment of texts that an agent writes after it has read unreviewed text.

use std::fs;
use std::sync::Arc;

use lukasa_store::{
    CallContext, ChangesQuery, DryRun, Memories, Precondition, Store, StoreError, UndoTarget,
    Unreviewed,
};
use memory::change::{ChangeKind, Trust};
use memory::command::CommandError;
use memory::document::Revision;
use serde_json::json;

use crate::host::{TestHost, at, call, create, delete, rename, replace};

const PLANTED: &str = "/memories/project/planted.md";

/// A checkout that brings a memory, and an agent that has read it.
async fn read_planted(host: &TestHost) -> (Arc<Store>, Memories) {
    fs::create_dir_all(host.project("")).unwrap();
    fs::write(host.project("planted.md"), "planted\n").unwrap();
    let store = host.store();
    let agent = host.agent(&store);
    agent.record_external_edits().await.unwrap();
    view(&agent, PLANTED).await;
    (store, agent)
}

async fn view(memories: &Memories, path: &str) -> String {
    call(memories, json!({"command": "view", "path": path})).await
}

async fn waiting(memories: &Memories) -> Vec<String> {
    let waiting = memories.pending_reviews().await.unwrap();
    waiting.iter().map(|one| one.path.to_string()).collect()
}

async fn last(memories: &Memories) -> memory::change::MemoryChange {
    let query = ChangesQuery { max: 1, ..ChangesQuery::default() };
    memories.changes(&query).await.unwrap().remove(0)
}

async fn undo_last(memories: &Memories) {
    let target = UndoTarget::Change(last(memories).await.id);
    memories.undo(&target, DryRun::No, &CallContext::default()).await.unwrap();
}

#[tokio::test]
async fn text_written_after_unreviewed_reads_waits_for_a_review() {
    let host = TestHost::new();
    let (store, agent) = read_planted(&host).await;
    let person = host.person(&store);
    create(&agent, "/memories/global/a.md", "a\n").await;
    assert_eq!(last(&agent).await.files[0].trust, Trust::Outside);
    // In the same root too: otherwise it would be shown where the unreviewed text is not.
    let reply = create(&agent, "/memories/project/own.md", "own\n").await;
    assert!(reply.contains("this waits for the person"), "{reply}");
    create(&agent, "/memories/workspace/w.md", "w\n").await;
    create(&agent, "/memories/global/empty.md", "").await;
    let all = ["/memories/global/a.md", "/memories/project/own.md", "/memories/workspace/w.md"];
    assert_eq!(waiting(&person).await, all);
    for path in all {
        let unreviewed = person.unreviewed(&[(&at(path), None)]).await;
        assert_eq!(unreviewed.get(&at(path)), Some(&Unreviewed::Influenced), "{path}");
    }
    // Another session has read no unreviewed text.
    let other = host.agent(&store);
    let reply = create(&other, "/memories/global/clean.md", "clean\n").await;
    assert!(!reply.contains("waits"), "{reply}");
    assert_eq!(waiting(&person).await, all);
    // The next process loads it from the state.
    store.close().await;
    let store = host.store();
    assert_eq!(waiting(&host.person(&store)).await, all);
}

#[tokio::test]
async fn influenced_text_stays_influenced_when_copied_twice() {
    let host = TestHost::new();
    let (store, first) = read_planted(&host).await;
    let person = host.person(&store);
    // The same bytes at another path of the same root: the original stays unreviewed.
    create(&first, "/memories/project/copy.md", "planted\n").await;
    assert_eq!(person.unreviewed(&[(&at(PLANTED), None)]).await.len(), 1);
    create(&first, "/memories/global/a.md", "a\n").await;
    // A second session reads the text of the first one, and writes another memory.
    let second = host.agent(&store);
    view(&second, "/memories/global/a.md").await;
    create(&second, "/memories/global/b.md", "b\n").await;
    let third = host.agent(&store);
    view(&third, "/memories/project/copy.md").await;
    create(&third, "/memories/global/c.md", "c\n").await;
    let waiting = waiting(&person).await;
    for path in ["/memories/global/b.md", "/memories/global/c.md"] {
        assert!(waiting.iter().any(|pending| pending == path), "{path}: {waiting:?}");
    }
}

#[tokio::test]
async fn text_that_git_brings_counts_when_an_edit_shows_it() {
    let host = TestHost::new();
    let store = host.store();
    fs::create_dir_all(host.project("")).unwrap();
    create(&host.agent(&store), "/memories/project/notes.md", "- mine\n").await;
    fs::write(host.project("notes.md"), "- mine\n- planted\n").unwrap();
    let agent = host.agent(&store);
    let shown = replace(&agent, "/memories/project/notes.md", "- mine", "- mine too").await;
    assert!(shown.contains("planted"), "{shown}");
    create(&agent, "/memories/global/a.md", "a\n").await;
    let waiting = waiting(&host.person(&store)).await;
    assert!(waiting.contains(&"/memories/global/a.md".to_owned()), "{waiting:?}");
}

#[tokio::test]
async fn an_external_edit_is_no_review() {
    let host = TestHost::new();
    let (store, agent) = read_planted(&host).await;
    let person = host.person(&store);
    create(&agent, "/memories/global/a.md", "a\n").await;
    fs::write(host.global("a.md"), "a\n \n").unwrap();
    let is_held =
        async || person.unreviewed(&[(&at("/memories/global/a.md"), None)]).await.len() == 1;
    assert!(is_held().await, "before it is recorded");
    assert_eq!(waiting(&person).await, ["/memories/global/a.md"]);
    person.record_external_edits().await.unwrap();
    assert!(is_held().await, "and afterwards");
    fs::write(host.global("a.md"), "a\n \n \n").unwrap();
    replace(&host.agent(&store), "/memories/global/a.md", "a\n", "b\n").await;
    assert_eq!(waiting(&person).await, ["/memories/global/a.md"]);
}

#[tokio::test]
async fn influence_persists_through_edits_renames_and_readers() {
    let host = TestHost::new();
    let (store, agent) = read_planted(&host).await;
    let (person, other) = (host.person(&store), host.agent(&store));
    create(&other, "/memories/global/a.md", "clean\n").await;
    replace(&agent, "/memories/global/a.md", "clean", "carried").await;
    // Another agent that has read nothing edits and renames it: the influenced text is still in it.
    replace(&other, "/memories/global/a.md", "carried\n", "carried\nmore\n").await;
    rename(&other, "/memories/global/a.md", "/memories/global/b.md").await;
    assert_eq!(waiting(&person).await, ["/memories/global/b.md"]);
    // A person who edits a part of it does not answer for the rest.
    replace(&person, "/memories/global/b.md", "more", "most").await;
    assert_eq!(waiting(&person).await, ["/memories/global/b.md"]);
    // An agent that edits it is shown it, and so has read it.
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
async fn a_person_ends_influence_by_accepting_saving_or_undoing() {
    let host = TestHost::new();
    let (store, agent) = read_planted(&host).await;
    let person = host.person(&store);
    let call = CallContext::default();
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
    let text = Precondition::Present;
    person.save(&at("/memories/global/saved.md"), "mine\n", text, &call).await.unwrap();
    assert_eq!(waiting(&person).await, ["/memories/global/accepted.md"]);

    let path = at("/memories/global/accepted.md");
    let carried = Revision::digest(b"carried\n");
    let by_agent = agent.accept(&path, carried, &call).await;
    assert!(matches!(by_agent, Err(StoreError::Refused(CommandError::ReadOnly { .. }))));
    let of_another = person.accept(&path, Revision::digest(b"else\n"), &call).await;
    let Err(StoreError::Refused(CommandError::Conflict { current, .. })) = of_another else {
        panic!("{of_another:?}")
    };
    assert_eq!(current, Some(carried));
    let id = person.accept(&path, carried, &call).await.unwrap();
    assert_eq!(waiting(&person).await, [] as [String; 0]);
    let change = last(&person).await;
    assert_eq!((Some(change.id), change.kind), (id, ChangeKind::Accept));
    assert_eq!(change.files[0].trust, Trust::Person);
    assert_eq!(person.unreviewed(&[(&path, None)]).await.len(), 0);
    assert_eq!(
        person.accept(&path, carried, &call).await.unwrap(),
        None,
        "a second acceptance has no effect"
    );
    // After an undo it waits again, and may be accepted again.
    undo_last(&person).await;
    assert_eq!(waiting(&person).await, ["/memories/global/accepted.md"]);
    person.accept(&path, carried, &call).await.unwrap().unwrap();
    assert_eq!(waiting(&person).await, [] as [String; 0]);
    // A person's own new memory is trusted, whatever its text.
    create(&person, "/memories/global/mine.md", "carried\n").await;
    assert_eq!(waiting(&person).await, [] as [String; 0]);
    // If an agent that has read such a text writes the same words again, they wait again.
    delete(&agent, "/memories/global/accepted.md").await;
    create(&agent, "/memories/global/accepted.md", "carried\n").await;
    assert_eq!(waiting(&person).await, ["/memories/global/accepted.md"]);
}

#[tokio::test]
async fn text_that_a_person_wrote_by_hand_is_not_influenced() {
    let host = TestHost::new();
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
async fn a_memory_of_a_clone_can_be_accepted_unchanged() {
    let host = TestHost::new();
    let (store, _) = read_planted(&host).await;
    let (person, path) = (host.person(&store), at(PLANTED));
    assert_eq!(person.unreviewed(&[(&path, None)]).await.len(), 1);
    person.accept(&path, Revision::digest(b"planted\n"), &CallContext::default()).await.unwrap();
    assert_eq!(person.unreviewed(&[(&path, None)]).await.len(), 0);
    assert_eq!(fs::read(host.project("planted.md")).unwrap(), b"planted\n");
    let agent = host.agent(&store);
    view(&agent, PLANTED).await;
    create(&agent, "/memories/global/a.md", "a\n").await;
    assert_eq!(waiting(&person).await, [] as [String; 0]);
    fs::write(host.project("planted.md"), "planted again\n").unwrap();
    person.record_external_edits().await.unwrap();
    assert_eq!(person.unreviewed(&[(&path, None)]).await.len(), 1);
}

#[tokio::test]
async fn history_keeps_pending_text_regardless_of_age() {
    let mut host = TestHost::new();
    host.settings.retention.age = std::time::Duration::ZERO;
    host.settings.retention.bytes = 0;
    let (store, agent) = read_planted(&host).await;
    create(&agent, "/memories/global/a.md", "a\n").await;
    store.checkpoint().await;
    host.clock.advance(std::time::Duration::from_secs(1_000_000));
    store.prune().await.unwrap();
    assert_eq!(waiting(&host.person(&store)).await, ["/memories/global/a.md"]);
}
