//! History and undo, through the whole store.

use std::fs;
use std::sync::Arc;

use lukasa_store::backend::Backend;
use lukasa_store::backend::local::{LocalBackend, Privacy, RootDir};
use lukasa_store::{
    CallContext, Caller, ChangesQuery, DryRun, Memories, Precondition, StoreError, UndoTarget,
};
use memory::change::{Actor, ChangeId, ChangeKind, RootKey};
use memory::command::MemoryCommand;
use memory::document::Revision;
use memory::path::{Mount, Scope};
use serde_json::json;
use testkit::{FaultPlan, FaultyBackend};

use crate::host::{TestHost, at, call, create, delete, rename, replace, table, texts};

fn all() -> ChangesQuery {
    ChangesQuery { max: 99, ..ChangesQuery::default() }
}

async fn last(memories: &lukasa_store::Memories) -> ChangeId {
    memories.changes(&all()).await.unwrap()[0].id
}

#[tokio::test]
async fn every_kind_of_change_can_be_undone() {
    let host = TestHost::new();
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
        let undone = person
            .undo(&UndoTarget::Change(id), DryRun::No, &CallContext::default())
            .await
            .unwrap();
        assert_eq!(undone.undone, [id]);
        assert_eq!(texts(&host.global("")), start, "step {step}");
        // An undo is a change itself, so it can be undone, and that one again.
        let again = UndoTarget::Change(undone.change.unwrap());
        let back = person.undo(&again, DryRun::No, &CallContext::default()).await.unwrap();
        person
            .undo(&UndoTarget::Change(back.change.unwrap()), DryRun::No, &CallContext::default())
            .await
            .unwrap();
        assert_eq!(texts(&host.global("")), start, "step {step}, twice");
    }
}

#[tokio::test]
async fn an_undo_refuses_and_shows_what_changed_since() {
    let host = TestHost::new();
    let store = host.store();
    let agent = host.agent(&store);
    create(&agent, "/memories/global/a.md", "one\n").await;
    replace(&agent, "/memories/global/a.md", "one", "two").await;
    let id = last(&agent).await;
    fs::write(host.global("a.md"), "three\n").unwrap();
    let refused = host
        .person(&store)
        .undo(&UndoTarget::Change(id), DryRun::No, &CallContext::default())
        .await;
    let Err(StoreError::UndoBlocked(blocked)) = refused else { panic!("{refused:?}") };
    assert!(blocked[0].diff.contains("-two\n+three"), "{}", blocked[0].diff);
    assert_eq!(texts(&host.global("")), table(&[("a.md", "three\n")]));
}

#[tokio::test]
async fn undoing_a_task_never_loses_edits_in_between() {
    let host = TestHost::new();
    let store = host.store();
    let agent = host.agent(&store);
    let path = "/memories/global/a.md";
    create(&agent, path, "R0\n").await;
    let task = CallContext { task: Some("t".to_owned()), ..CallContext::default() };
    for (old, new, call) in
        [("R0", "R1", &task), ("R1", "R2", &CallContext::default()), ("R2", "R3", &task)]
    {
        let command = memory::command::MemoryCommand::StrReplace {
            path: at(path),
            old_str: old.to_owned(),
            new_str: new.to_owned(),
        };
        agent.apply(command, call).await.unwrap();
    }
    let person = host.person(&store);
    let refused =
        person.undo(&UndoTarget::Task("t".to_owned()), DryRun::No, &CallContext::default()).await;
    assert!(matches!(refused, Err(StoreError::UndoBlocked(_))), "{refused:?}");
    assert_eq!(texts(&host.global("")), table(&[("a.md", "R3\n")]));
}

#[tokio::test]
async fn a_task_and_a_span_are_undone_as_one() {
    let host = TestHost::new();
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
    let dry = person.undo(&span, DryRun::Yes, &CallContext::default()).await.unwrap();
    assert_eq!((dry.change, dry.undone.len()), (None, 3));
    person.undo(&span, DryRun::No, &CallContext::default()).await.unwrap();
    assert_eq!(texts(&host.global("")), table(&[("keep.md", "keep\n")]));
    assert_eq!(texts(&host.project("")), []);
    assert_eq!(person.changes(&all()).await.unwrap()[0].kind, ChangeKind::Undo);
}

#[tokio::test]
async fn the_history_of_another_project_is_not_visible() {
    let host = TestHost::new();
    let store = host.store();
    create(&host.agent(&store), "/memories/project/a.md", "theirs\n").await;
    let id = last(&host.agent(&store)).await;
    let other = other_project(&host, &store);
    assert_eq!(other.changes(&all()).await.unwrap(), []);
    assert!(matches!(other.change(id).await, Err(StoreError::NoSuchChange(_))));
    let undo = other.undo(&UndoTarget::Change(id), DryRun::No, &CallContext::default()).await;
    assert!(matches!(undo, Err(StoreError::NoSuchChange(_))));
    // The content is not available by its digest either.
    let revision = Revision::digest(b"theirs\n");
    assert_eq!(other.content(&revision).await.unwrap(), None);
    let own = host.agent(&store).content(&revision).await.unwrap();
    assert_eq!(own.as_deref(), Some(&b"theirs\n"[..]));
}

/// Returns the memories of another project on this host.
fn other_project(
    host: &TestHost,
    store: &std::sync::Arc<lukasa_store::Store>,
) -> lukasa_store::Memories {
    fs::create_dir_all(host.path("other/.git")).unwrap();
    let request = lukasa_store::BindingRequest {
        project: Some(host.path("other").into()),
        ..Default::default()
    };
    let folders = lukasa_store::BaseFolders { data: host.path("data"), state: host.path("state") };
    store.memories(
        lukasa_store::Binding::resolve(&request, &folders),
        lukasa_store::Caller::person("test"),
    )
}

#[tokio::test]
async fn undoing_a_task_reports_its_changes_in_other_roots() {
    let host = TestHost::new();
    let store = host.store();
    let (agent, other) = (host.agent(&store), other_project(&host, &store));
    let task = CallContext { task: Some("t".to_owned()), ..CallContext::default() };
    let make = |path: &str| MemoryCommand::Create { path: at(path), file_text: "x\n".to_owned() };
    agent.apply(make("/memories/project/a.md"), &task).await.unwrap();
    let other_change = last(&agent).await;
    let target = UndoTarget::Task("t".to_owned());
    let nothing_here = other.undo(&target, DryRun::No, &CallContext::default()).await.unwrap_err();
    assert!(nothing_here.to_string().contains("project:shop-"), "{nothing_here}");
    other.apply(make("/memories/project/b.md"), &task).await.unwrap();
    for dry in [DryRun::Yes, DryRun::No] {
        let undone = other.undo(&target, dry, &CallContext::default()).await.unwrap();
        assert_eq!(undone.paths, [at("/memories/project/b.md")]);
        let left: Vec<_> = undone.elsewhere.iter().map(|left| left.change).collect();
        assert_eq!(left, [other_change]);
        assert!(undone.elsewhere[0].identity.starts_with("project:shop-"));
    }
    assert_eq!(texts(&host.project("")), table(&[("a.md", "x\n")]));
    let rest =
        host.person(&store).undo(&target, DryRun::No, &CallContext::default()).await.unwrap();
    assert_eq!(rest.paths, [at("/memories/project/a.md")]);
    assert_eq!(texts(&host.project("")), []);
}

#[tokio::test]
async fn an_undo_restores_a_file_replaced_by_a_folder_and_vice_versa() {
    let host = TestHost::new();
    let store = host.store();
    let (agent, person) = (host.agent(&store), host.person(&store));
    let task = |name: &str| CallContext { task: Some(name.to_owned()), ..CallContext::default() };
    let path = |name: &str| at(&format!("/memories/global/{name}"));
    let remove = |name: &str| MemoryCommand::Delete { path: path(name) };
    let make = |name: &str| MemoryCommand::Create { path: path(name), file_text: "x\n".to_owned() };
    let carry =
        |from: &str, to: &str| MemoryCommand::Rename { old_path: path(from), new_path: path(to) };
    create(&agent, "/memories/global/a.md", "a\n").await;
    create(&agent, "/memories/global/d/b.md", "b\n").await;
    let start = texts(&host.global(""));
    for (name, commands) in
        [("one", [remove("a.md"), make("a.md/b/c.md")]), ("two", [remove("d"), make("d")])]
    {
        for command in commands {
            agent.apply(command, &task(name)).await.unwrap();
        }
        assert_ne!(texts(&host.global("")), start, "{name}");
        let target = UndoTarget::Task(name.to_owned());
        if name == "one" {
            fs::write(host.global("a.md/theirs.md"), "theirs\n").unwrap();
            let refused = person.undo(&target, DryRun::No, &CallContext::default()).await;
            let Err(StoreError::UndoBlocked(blocked)) = refused else { panic!("{refused:?}") };
            assert!(blocked[0].reason.contains("move that away"), "{blocked:?}");
            fs::remove_file(host.global("a.md/theirs.md")).unwrap();
        }
        let undone = person.undo(&target, DryRun::No, &CallContext::default()).await.unwrap();
        assert_eq!(texts(&host.global("")), start, "{name}");
        // An undo of the undo swaps file and folder again.
        let back = UndoTarget::Change(undone.change.unwrap());
        let again = person.undo(&back, DryRun::No, &CallContext::default()).await.unwrap();
        assert_ne!(texts(&host.global("")), start, "{name}");
        let back = UndoTarget::Change(again.change.unwrap());
        person.undo(&back, DryRun::No, &CallContext::default()).await.unwrap();
        assert_eq!(texts(&host.global("")), start, "{name}");
    }
    // The same, one change at a time: the newer undo leaves an empty folder.
    agent.apply(remove("a.md"), &CallContext::default()).await.unwrap();
    let removed = last(&person).await;
    agent.apply(make("a.md/c.md"), &CallContext::default()).await.unwrap();
    for id in [last(&person).await, removed] {
        person.undo(&UndoTarget::Change(id), DryRun::No, &CallContext::default()).await.unwrap();
    }
    assert_eq!(texts(&host.global("")), start);
    // The same for renames: the newer undo leaves an empty folder at the path to which the older one returns the
    // memory.
    agent.apply(carry("a.md", "moved.md"), &CallContext::default()).await.unwrap();
    let moved = last(&person).await;
    agent.apply(carry("moved.md", "a.md/moved.md"), &CallContext::default()).await.unwrap();
    for id in [last(&person).await, moved] {
        person.undo(&UndoTarget::Change(id), DryRun::No, &CallContext::default()).await.unwrap();
    }
    assert_eq!(texts(&host.global("")), start);
}

#[tokio::test]
async fn only_a_person_may_restore_text_that_screening_refuses() {
    let host = TestHost::new();
    let store = host.store();
    let (agent, person) = (host.agent(&store), host.person(&store));
    let text = format!("key {}{}\n", "AKIA", "QYXWVUTSRQPON7LM");
    fs::create_dir_all(host.global("")).unwrap();
    fs::write(host.global("k.md"), &text).unwrap();
    agent.record_external_edits().await.unwrap();
    delete(&agent, "/memories/global/k.md").await;
    let target = UndoTarget::Change(last(&agent).await);
    for dry in [DryRun::Yes, DryRun::No] {
        let refused = agent.undo(&target, dry, &CallContext::default()).await.unwrap_err();
        assert_eq!(refused.code().as_ref(), "screened");
    }
    assert_eq!(texts(&host.global("")), []);
    let undone = person.undo(&target, DryRun::No, &CallContext::default()).await.unwrap();
    assert_eq!(undone.warnings.len(), 1);
    assert_eq!(texts(&host.global("")), table(&[("k.md", &text)]));
}

#[tokio::test]
async fn an_undo_respects_the_limits_and_names_of_a_scope() {
    let mut host = TestHost::new();
    host.settings.files_max = 2;
    let store = host.store();
    let (agent, person) = (host.agent(&store), host.person(&store));
    create(&agent, "/memories/global/a.md", "a\n").await;
    create(&agent, "/memories/global/b.md", "b\n").await;
    delete(&agent, "/memories/global/a.md").await;
    let target = UndoTarget::Change(last(&agent).await);
    create(&agent, "/memories/global/A.md", "c\n").await;
    let undo = async || person.undo(&target, DryRun::No, &CallContext::default()).await;
    assert_eq!(undo().await.unwrap_err().code().as_ref(), "already_exists");
    rename(&agent, "/memories/global/A.md", "/memories/global/c.md").await;
    assert_eq!(undo().await.unwrap_err().code().as_ref(), "scope_full");
    delete(&agent, "/memories/global/c.md").await;
    undo().await.unwrap();
    assert_eq!(texts(&host.global("")), table(&[("a.md", "a\n"), ("b.md", "b\n")]));
}

#[tokio::test]
async fn names_that_differ_only_in_case_are_restored_together() {
    let host = TestHost::new();
    fs::create_dir_all(host.global("n")).unwrap();
    fs::write(host.global("n/A.md"), "one\n").unwrap();
    fs::write(host.global("n/a.md"), "two\n").unwrap();
    let store = host.store();
    let person = host.person(&store);
    person.record_external_edits().await.unwrap();
    let before = texts(&host.global(""));
    delete(&person, "/memories/global/n").await;
    assert_eq!(texts(&host.global("")), table(&[]));
    let target = UndoTarget::Change(last(&person).await);
    person.undo(&target, DryRun::No, &CallContext::default()).await.unwrap();
    assert_eq!(texts(&host.global("")), before);
}

#[tokio::test]
async fn a_change_records_its_provenance() {
    let host = TestHost::new();
    let store = host.store();
    create(&host.agent(&store), "/memories/global/a.md", "a\n").await;
    fs::write(host.global("a.md"), "b\n").unwrap();
    let changes = host.person(&store).changes(&all()).await.unwrap();
    let who: Vec<_> = changes.iter().map(|change| (change.kind, change.provenance.actor)).collect();
    assert_eq!(who, [(ChangeKind::Outside, Actor::Outside), (ChangeKind::Create, Actor::Agent)]);
}

#[tokio::test]
async fn a_restored_text_has_its_earlier_trust() {
    let host = TestHost::new();
    fs::create_dir_all(host.project("")).unwrap();
    fs::write(host.project("a.md"), "planted\n").unwrap();
    let store = host.store();
    let person = host.person(&store);
    let path = at("/memories/project/a.md");
    person.record_external_edits().await.unwrap();
    let planted = person.read(&path).await.unwrap().revision;
    assert!(!person.unreviewed(&[(&path, None)]).await.is_empty());
    // A person saves it and undoes that: the old text is unreviewed again.
    let call = CallContext::default();
    person.save(&path, "mine\n", Precondition::OneOf(vec![planted]), &call).await.unwrap();
    assert!(person.unreviewed(&[(&path, None)]).await.is_empty());
    let undo = async |memories: &lukasa_store::Memories| {
        let query = ChangesQuery { max: 1, ..ChangesQuery::default() };
        let last = memories.changes(&query).await.unwrap()[0].id;
        memories
            .undo(&UndoTarget::Change(last), DryRun::No, &CallContext::default())
            .await
            .unwrap();
    };
    undo(&person).await;
    assert_eq!(person.read(&path).await.unwrap().text, "planted\n");
    assert!(!person.unreviewed(&[(&path, None)]).await.is_empty());
    // After another undo the person's text has the person's trust again, whatever git did in between.
    undo(&person).await;
    assert!(person.unreviewed(&[(&path, None)]).await.is_empty());
    fs::write(host.project("a.md"), "of another branch\n").unwrap();
    person.record_external_edits().await.unwrap();
    assert!(!person.unreviewed(&[(&path, None)]).await.is_empty());
    fs::write(host.project("a.md"), "mine\n").unwrap();
    person.record_external_edits().await.unwrap();
    assert!(person.unreviewed(&[(&path, None)]).await.is_empty());
}

/// The last change is listed, shown and undone, as the command line does it.
#[tokio::test]
async fn an_undo_walks_a_root_once_at_most() {
    let (host, plan, memories) = walk_counting_memories();
    create(&memories, "/memories/global/a.md", "one\n").await;
    create(&memories, "/memories/global/b.md", "two\n").await;
    plan.take_walks();
    let id = last(&memories).await;
    let target = UndoTarget::Change(id);
    memories.undo(&target, DryRun::Yes, &CallContext::default()).await.unwrap();
    memories.undo(&target, DryRun::No, &CallContext::default()).await.unwrap();
    assert_eq!(texts(&host.global("")), table(&[("a.md", "one\n")]));
    assert_eq!(plan.take_walks(), 1);
}

/// Returns memories in one root whose walks are counted.
fn walk_counting_memories() -> (TestHost, Arc<FaultPlan>, Memories) {
    let host = TestHost::in_fast_storage();
    let plan = Arc::<FaultPlan>::default();
    let anchor = RootDir::new(host.path("data"), &["memory"], Privacy::Private);
    let local = Arc::new(LocalBackend::new(anchor, host.path("state/locks/global.lock")));
    let key = RootKey { identity: "global".to_owned(), place: "global".to_owned() };
    let backend: Arc<dyn Backend> = Arc::new(FaultyBackend::new(local, Arc::clone(&plan)));
    let roots = vec![(Mount::Scope(Scope::Global), key, backend)];
    let memories = host.store().memories_in(roots, Caller::person("test"));
    (host, plan, memories)
}
