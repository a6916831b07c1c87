//! Editors, git and other processes beside this one: none of their writes is lost.

use std::fs;
use std::time::Duration;

use lukasa_store::{CallContext, ChangesQuery, Precondition, StoreError};
use memory::command::CommandError;
use memory::document::Revision;

use crate::host::{TestHost, at, create, rename, replace, table, texts};

const PATH: &str = "/memories/global/a.md";

#[tokio::test]
async fn an_external_edit_is_recorded_before_the_next_write() {
    let host = TestHost::new();
    let store = host.store();
    let agent = host.agent(&store);
    create(&agent, PATH, "one\n").await;
    fs::write(host.global("a.md"), "one\nby hand\n").unwrap();
    replace(&agent, PATH, "one", "two").await;
    assert_eq!(texts(&host.global("")), table(&[("a.md", "two\nby hand\n")]));
    let query = ChangesQuery { max: 9, ..ChangesQuery::default() };
    let changes = agent.changes(&query).await.unwrap();
    let kinds: Vec<_> = changes.iter().map(|change| change.kind.as_ref()).collect();
    assert_eq!(kinds, ["edit", "outside", "create"]);
    let outside = agent.content(&Revision::digest(b"one\nby hand\n")).await.unwrap();
    assert_eq!(outside.as_deref(), Some(&b"one\nby hand\n"[..]));
}

#[tokio::test]
async fn a_conflicting_save_changes_nothing_and_names_the_revision() {
    let host = TestHost::new();
    let store = host.store();
    let person = host.person(&store);
    let saved = person
        .save(&at(PATH), "one\n", Precondition::Absent, &CallContext::default())
        .await
        .unwrap();
    fs::write(host.global("a.md"), "theirs\n").unwrap();
    for expected in [Precondition::from(saved.revision), Precondition::Absent] {
        let refused = person.save(&at(PATH), "mine\n", expected, &CallContext::default()).await;
        let Err(StoreError::Refused(CommandError::Conflict { current, .. })) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(current, Some(Revision::digest(b"theirs\n")));
    }
    assert_eq!(texts(&host.global("")), table(&[("a.md", "theirs\n")]));
    let now = Precondition::from(Revision::digest(b"theirs\n"));
    person.save(&at(PATH), "mine\n", now, &CallContext::default()).await.unwrap();
    assert_eq!(texts(&host.global("")), table(&[("a.md", "mine\n")]));
}

#[tokio::test]
async fn a_save_succeeds_only_if_its_precondition_holds() {
    let host = TestHost::new();
    let store = host.store();
    let person = host.person(&store);
    let (one, other) = (Revision::digest(b"one\n"), Revision::digest(b"other\n"));
    let both = |a, b| Precondition::Both(Box::new([a, b]));
    // The precondition, the text before, and whether a save of `new` succeeds.
    let rows = [
        (Precondition::Present, None, false),
        (Precondition::Present, Some("one\n"), true),
        (Precondition::OneOf(vec![]), Some("one\n"), false),
        (Precondition::OneOf(vec![other, one]), Some("one\n"), true),
        (Precondition::OneOf(vec![other, one]), None, false),
        (Precondition::NoneOf(vec![one]), Some("one\n"), false),
        (Precondition::NoneOf(vec![other]), Some("one\n"), true),
        (Precondition::NoneOf(vec![one]), None, true),
        (both(Precondition::Present, Precondition::NoneOf(vec![other])), Some("one\n"), true),
        (both(Precondition::Present, Precondition::Absent), Some("one\n"), false),
    ];
    for (expected, existing, happens) in rows {
        let file = host.global("a.md");
        fs::create_dir_all(host.global("")).unwrap();
        match existing {
            Some(text) => fs::write(&file, text).unwrap(),
            None => fs::remove_file(&file).unwrap_or_default(),
        }
        let saved =
            person.save(&at(PATH), "new\n", expected.clone(), &CallContext::default()).await;
        let after = fs::read_to_string(&file).ok();
        if happens {
            assert_eq!(saved.unwrap().created, existing.is_none(), "{expected:?}");
            assert_eq!(after.as_deref(), Some("new\n"), "{expected:?}");
        } else {
            let Err(StoreError::Refused(CommandError::Conflict { current, .. })) = saved else {
                panic!("{expected:?}: {saved:?}")
            };
            assert_eq!(current, existing.map(|text| Revision::digest(text.as_bytes())));
            assert_eq!(after.as_deref(), existing, "{expected:?}");
        }
    }
}

#[tokio::test]
async fn a_removed_and_recreated_memory_has_no_old_facts() {
    let host = TestHost::new();
    let store = host.store();
    let person = host.person(&store);
    create(&host.agent(&store), PATH, "one\n").await;
    person.set_pin(&at(PATH), true).await.unwrap();
    fs::remove_file(host.global("a.md")).unwrap();
    assert_eq!(person.record_external_edits().await.unwrap(), 1);
    fs::write(host.global("a.md"), "one\n").unwrap();
    person.record_external_edits().await.unwrap();
    let listed = person.list(None).await.unwrap().memories;
    assert_eq!((listed[0].pinned, listed[0].usage.uses), (false, 0));
}

#[tokio::test]
async fn two_stores_on_one_folder_see_each_other() {
    let host = TestHost::new();
    let (one, two) = (host.store(), host.store());
    let (first, second) = (host.agent(&one), host.agent(&two));
    for round in 0..20 {
        let (writer, reader) = if round % 2 == 0 { (&first, &second) } else { (&second, &first) };
        let path = format!("/memories/global/n{round}.md");
        assert!(create(writer, &path, "x\n").await.starts_with("File created"));
        assert!(create(reader, &path, "x\n").await.contains("already exists"));
        let upper = format!("/memories/global/N{round}.md");
        assert!(create(reader, &upper, "x\n").await.contains("only in case"));
    }
    let query = ChangesQuery { max: 99, ..ChangesQuery::default() };
    let changes = second.changes(&query).await.unwrap();
    assert_eq!(changes.len(), 20);
    assert!(changes.iter().all(|change| change.kind.as_ref() == "create"));
}

#[tokio::test]
async fn external_edits_and_changes_of_other_processes_are_published() {
    let host = TestHost::new();
    let (one, two) = (host.store(), host.store());
    create(&host.agent(&one), PATH, "one\n").await;
    let mut events = one.subscribe();
    let _watch = host.agent(&one).watch().await.unwrap();
    create(&host.agent(&two), "/memories/global/b.md", "b\n").await;
    fs::write(host.global("a.md"), "by hand\n").unwrap();
    let mut paths = std::collections::BTreeSet::new();
    while paths.len() < 2 {
        let event = tokio::time::timeout(Duration::from_secs(30), events.recv()).await;
        let files = event.unwrap().unwrap().files;
        paths.extend(files.iter().map(|file| file.path.to_string()));
    }
    assert_eq!(paths.into_iter().collect::<Vec<_>>(), ["a.md", "b.md"]);
}

#[tokio::test]
async fn the_first_memory_in_a_root_made_by_another_process_is_published() {
    let host = TestHost::new();
    let (one, two) = (host.store(), host.store());
    let mut events = one.subscribe();
    let _watch = host.agent(&one).watch().await.unwrap();
    create(&host.agent(&two), "/memories/project/a.md", "a\n").await;
    let event = tokio::time::timeout(Duration::from_secs(30), events.recv()).await;
    let event = event.unwrap().unwrap();
    let paths: Vec<_> = event.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!((paths, event.kind.as_ref()), (vec!["a.md"], "create"));
}

#[tokio::test]
async fn every_change_of_another_process_is_published() {
    let host = TestHost::new();
    let (one, two) = (host.store(), host.store());
    let (listener, writer) = (host.agent(&one), host.agent(&two));
    create(&writer, PATH, "one\n").await;
    let mut events = one.subscribe();
    listener.record_external_edits().await.unwrap();
    create(&writer, "/memories/global/b.md", "b\n").await;
    replace(&writer, PATH, "one", "two").await;
    replace(&writer, PATH, "two", "three").await;
    crate::host::delete(&writer, "/memories/global/b.md").await;
    for _ in 0..2 {
        listener.record_external_edits().await.unwrap();
    }
    let mut published = Vec::new();
    while let Ok(event) = events.try_recv() {
        published.push(format!("{} {}", event.kind, event.files[0].path));
    }
    assert_eq!(published, ["create b.md", "edit a.md", "edit a.md", "delete b.md"]);
}

#[tokio::test]
async fn a_persons_own_list_file_is_an_ordinary_memory() {
    let mut host = TestHost::new();
    host.settings.memory_list = true;
    let store = host.store();
    let (agent, path) = (host.agent(&store), "/memories/global/MEMORY.md");
    assert!(create(&agent, path, "mine\n").await.contains("is a generated listing"));
    fs::create_dir_all(host.global("")).unwrap();
    fs::write(host.global("MEMORY.md"), "mine\n").unwrap();
    assert!(replace(&agent, path, "mine", "ours").await.contains("has been edited"));
    create(&agent, "/memories/global/a.md", "a\n").await;
    store.checkpoint().await;
    assert_eq!(fs::read_to_string(host.global("MEMORY.md")).unwrap(), "ours\n");
    let renamed = rename(&agent, path, "/memories/global/index.md").await;
    assert!(renamed.starts_with("Successfully"), "{renamed}");
    store.checkpoint().await;
    for refused in [
        replace(&agent, path, "a.md", "b.md").await,
        crate::host::delete(&agent, path).await,
        rename(&agent, "/memories/global/index.md", path).await,
    ] {
        assert!(refused.contains("is a generated listing"), "{refused}");
    }
}

/// Two edits of the same size within one tick of the file system's clock.
#[tokio::test]
async fn an_edit_within_the_tick_of_the_last_scan_is_detected() {
    let host = TestHost::new();
    let store = host.store();
    let person = host.person(&store);
    fs::create_dir_all(host.global("")).unwrap();
    for round in 0..50 {
        let text = |word: &str| format!("---\ndescription: {word} {round:02}\n---\n");
        for word in ["one", "two"] {
            fs::write(host.global("a.md"), text(word)).unwrap();
            let listed = person.list(None).await.unwrap().memories;
            assert_eq!(listed[0].description, format!("{word} {round:02}"));
        }
        fs::write(host.global("a.md"), text("six")).unwrap();
        person.record_external_edits().await.unwrap();
        fs::write(host.global("a.md"), text("ten")).unwrap();
        assert_eq!(person.record_external_edits().await.unwrap(), 1, "round {round}");
    }
}

#[tokio::test]
async fn reading_creates_nothing() {
    let host = TestHost::new();
    let store = host.store();
    let agent = host.agent(&store);
    for path in ["/memories", "/memories/global", "/memories/project", PATH] {
        crate::host::call(&agent, serde_json::json!({"command": "view", "path": path})).await;
    }
    agent.list(None).await.unwrap();
    agent.record_external_edits().await.unwrap();
    agent.health(lukasa_store::Depth::Thorough).await.unwrap();
    store.close().await;
    assert!(!host.path("data").exists() && !host.path("state").exists());
    assert!(!host.path("shop/.lukasa").exists());
}
