//! Processes that are killed, and machines that lose power.

use std::fs;
use std::sync::Arc;

use lukasa_store::backend::Backend;
use lukasa_store::backend::local::{LocalBackend, Privacy, RootDir};
use lukasa_store::{CallContext, Caller, ChangesQuery, Depth, Store};
use memory::access::AgentClass;
use memory::change::{ChangeKind, RootKey};
use memory::command::MemoryCommand;
use memory::path::{Mount, Scope};
use testkit::{Failure, FaultPlan, Faults, FaultyBackend, FaultyState};

use crate::host::{TestHost, at, create, delete, files, rename, replace, restart, table, texts};
use crate::process::Process;

/// Ends a store as `kill -9` does: buffered data is lost, files stay as they are.
fn kill(store: Arc<Store>) {
    drop(store);
}

/// Creates a memory, and dies while replacing `one` by `two` in `a.md`: the record becomes durable, and its answer
/// never arrives.
async fn create_and_die_replacing(host: &TestHost, path: &str, text: &str) {
    let state =
        Arc::new(FaultyState::new(Arc::new(state::SqliteState::new(host.path("state/lukasa.db")))));
    let store = host.store_on(Arc::<FaultyState>::clone(&state));
    let agent = host.agent(&store);
    create(&agent, path, text).await;
    state.set(Faults::CrashBeforeAnswer(1));
    let command = MemoryCommand::StrReplace {
        path: at("/memories/global/a.md"),
        old_str: "one".to_owned(),
        new_str: "two".to_owned(),
    };
    assert!(agent.apply(command, &CallContext::default()).await.is_err());
    kill(store);
}

#[tokio::test]
async fn a_recorded_but_unfinished_write_is_completed_at_the_next_start() {
    let host = TestHost::new();
    let store = host.store();
    let agent = host.agent(&store);
    create(&agent, "/memories/global/a.md", "one\n").await;
    create(&agent, "/memories/global/b.md", "keep\n").await;
    store.close().await;

    // The record becomes durable and its answer never arrives, so no file is touched.
    create_and_die_replacing(&host, "/memories/global/c.md", "c\n").await;

    let store = host.store();
    let agent = host.agent(&store);
    let listed = agent.list(None).await.unwrap().memories.len();
    assert_eq!(listed, 3);
    assert_eq!(
        texts(&host.global("")),
        table(&[("a.md", "two\n"), ("b.md", "keep\n"), ("c.md", "c\n")])
    );
}

#[tokio::test]
async fn every_acknowledged_write_is_complete_after_a_power_cut() {
    for damage in 0..4 {
        let host = TestHost::new();
        let store = host.store();
        let agent = host.agent(&store);
        create(&agent, "/memories/global/settled.md", "before\n").await;
        store.checkpoint().await;
        create(&agent, "/memories/global/a.md", "one two three\n").await;
        create(&agent, "/memories/global/d/b.md", "four\n").await;
        replace(&agent, "/memories/global/settled.md", "before", "after").await;
        create(&agent, "/memories/global/gone.md", "gone\n").await;
        delete(&agent, "/memories/global/gone.md").await;
        let whole = texts(&host.global(""));
        kill(store);
        restart(&host);
        for name in ["a.md", "settled.md"] {
            let bytes = fs::read(host.global(name)).unwrap();
            let torn = match damage {
                0 => Vec::new(),
                1 => bytes[..3].to_vec(),
                2 => vec![0; bytes.len()],
                _ => [&bytes[..2], &vec![0; bytes.len() - 2][..]].concat(),
            };
            fs::write(host.global(name), torn).unwrap();
        }
        // Names that never reached the disk: the new folder is gone, and the deleted file is back.
        fs::remove_dir_all(host.global("d")).unwrap();
        fs::write(host.global("gone.md"), "gone\n").unwrap();

        let store = host.store();
        host.agent(&store).list(None).await.unwrap();
        assert_eq!(texts(&host.global("")), whole, "damage {damage}");
        assert_eq!(host.person(&store).record_external_edits().await.unwrap(), 0);
    }
}

/// States in which the first power cut of a root may leave its lock file.
#[tokio::test]
async fn a_power_cut_after_the_creation_of_a_root_loses_nothing() {
    for left in
        [None, Some(String::new()), Some("\0".repeat(110)), Some("lukasa3 0b6c3a".to_owned())]
    {
        for is_held_first in [false, true] {
            let host = TestHost::new();
            let store = host.store();
            let agent = host.agent(&store);
            for name in ["a.md", "b.md", "d/c.md"] {
                create(&agent, &format!("/memories/global/{name}"), &format!("the {name}\n")).await;
            }
            let whole = texts(&host.global(""));
            kill(store);
            for entry in fs::read_dir(host.path("state/locks")).unwrap() {
                let lock = entry.unwrap().path();
                match &left {
                    Some(text) => fs::write(lock, text).unwrap(),
                    None => fs::remove_file(lock).unwrap(),
                }
            }
            fs::write(host.global("a.md"), "").unwrap();
            fs::write(host.global("b.md"), "\0\0\0").unwrap();
            fs::remove_dir_all(host.global("d")).unwrap();

            let store = host.store();
            let person = host.person(&store);
            if is_held_first {
                assert_eq!(person.record_external_edits().await.unwrap(), 0, "{left:?}");
            } else {
                person.list(None).await.unwrap();
            }
            assert_eq!(texts(&host.global("")), whole, "{left:?}");
            assert_eq!(person.record_external_edits().await.unwrap(), 0, "{left:?}");
        }
    }
}

#[tokio::test]
async fn change_numbers_are_not_reused_after_the_state_was_lost() {
    for written_again in ["global", "project"] {
        let host = TestHost::new();
        let store = host.store();
        let agent = host.agent(&store);
        for number in 0..5 {
            create(&agent, &format!("/memories/global/{number}.md"), "text\n").await;
        }
        let query = ChangesQuery { max: 1, ..ChangesQuery::default() };
        let last = host.person(&store).changes(&query).await.unwrap()[0].id;
        store.close().await;
        for entry in fs::read_dir(host.path("state")).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                fs::remove_file(path).unwrap();
            }
        }
        let store = host.store();
        create(&host.agent(&store), &format!("/memories/{written_again}/new.md"), "text\n").await;
        let changes =
            host.person(&store).changes(&ChangesQuery { max: 99, ..query }).await.unwrap();
        assert!(changes.iter().all(|change| change.id > last), "{changes:#?}");
        assert_eq!(texts(&host.global("")).len() + texts(&host.project("")).len(), 6);
    }
}

#[tokio::test]
async fn reading_does_not_wait_for_a_suspended_writer() {
    let host = TestHost::new();
    let store = host.store();
    create(&host.agent(&store), "/memories/global/a.md", "one\n").await;
    store.close().await;
    // Another process starts a write, and is suspended.
    let lock = fs::read_dir(host.path("state/locks")).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&lock).unwrap();
    fs::write(&lock, text.replace("resting", "writing")).unwrap();
    let stopped = fs::File::open(&lock).unwrap();
    stopped.lock().unwrap();
    let begun = std::time::Instant::now();
    let store = host.store();
    let (agent, person) = (host.agent(&store), host.person(&store));
    assert_eq!(person.list(None).await.unwrap().memories.len(), 1);
    assert_eq!(person.read(&at("/memories/global/a.md")).await.unwrap().text, "one\n");
    // Writes to other roots do not wait either.
    assert!(create(&agent, "/memories/project/b.md", "b\n").await.starts_with("File created"));
    assert!(begun.elapsed() < std::time::Duration::from_secs(5), "{:?}", begun.elapsed());
    stopped.unlock().unwrap();
    assert!(create(&agent, "/memories/global/c.md", "c\n").await.starts_with("File created"));
}

#[tokio::test]
async fn transient_left_overs_of_a_live_writer_are_no_finding() {
    let host = TestHost::new();
    let Process { store, agent, plan } = &Process::start(&host);
    create(agent, "/memories/global/a.md", "one\n").await;
    store.checkpoint().await;
    let person = agent.for_caller(Caller::person("test"));
    let names = [".lukasa-1-0.tmp", ".lukasa-1-1.tmp"].map(|name| host.global(name));
    for name in &names {
        fs::write(name, "half").unwrap();
    }
    // A file that was written just now is read by each scan, so the number of steps would depend on the time.
    let memory = fs::File::options().append(true).open(host.global("a.md")).unwrap();
    memory.set_modified(std::time::SystemTime::now() - std::time::Duration::from_hours(1)).unwrap();
    // The first scan has an additional step, which fills the cache.
    for _ in 0..2 {
        plan.set(0, Failure::Once);
        person.examine(Depth::Thorough).await.unwrap();
    }
    let steps_of_a_look = plan.steps();
    // The file is removed between the first check and the second.
    let passing = names[0].clone();
    plan.run_before(steps_of_a_look + 1, move || fs::remove_file(passing).unwrap());
    let findings = person.health(Depth::Thorough).await.unwrap().findings;
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert!(findings[0].subject.ends_with(".lukasa-1-1.tmp"), "{findings:#?}");
}

#[tokio::test]
async fn recovery_keeps_later_external_edits() {
    let host = TestHost::new();
    let store = host.store();
    let agent = host.agent(&store);
    create(&agent, "/memories/global/a.md", "one\n").await;
    create(&agent, "/memories/global/b.md", "one\n").await;
    let mut draft = agent.draft(ChangeKind::Draft, CallContext::default());
    for (path, text) in [("/memories/global/x.md", "x\n"), ("/memories/project/y.md", "y\n")] {
        draft
            .apply(MemoryCommand::Create { path: at(path), file_text: text.to_owned() })
            .await
            .unwrap();
    }
    draft.commit().await.unwrap();
    delete(&agent, "/memories/global/x.md").await;
    // External edits, one that is detected and one that is not.
    fs::remove_file(host.global("a.md")).unwrap();
    agent.record_external_edits().await.unwrap();
    fs::write(host.global("b.md"), "by hand, and longer than it was\n").unwrap();
    let expected = texts(&host.global(""));
    kill(store);
    restart(&host);
    let store = host.store();
    let person = host.person(&store);
    person.list(None).await.unwrap();
    assert_eq!(texts(&host.global("")), expected);
    person.repair().await.unwrap();
    assert_eq!(texts(&host.global("")), expected);
    assert_eq!(texts(&host.project("")), table(&[("y.md", "y\n")]));
}

#[tokio::test]
async fn an_external_truncation_without_a_restart_is_no_power_cut() {
    let host = TestHost::new();
    let store = host.store();
    let agent = host.agent(&store);
    create(&agent, "/memories/global/a.md", "one\ntwo\n").await;
    fs::write(host.global("a.md"), "one\n").unwrap();
    kill(store);
    let store = host.store();
    host.person(&store).repair().await.unwrap();
    assert_eq!(texts(&host.global("")), table(&[("a.md", "one\n")]));
}

#[tokio::test]
async fn a_repair_does_not_restore_a_file_that_was_just_removed() {
    let host = TestHost::new();
    let store = host.store();
    create(&host.agent(&store), "/memories/global/a.md", "one\n").await;
    fs::remove_file(host.global("a.md")).unwrap();
    host.person(&store).repair().await.unwrap();
    assert_eq!(texts(&host.global("")), []);
}

#[tokio::test]
async fn left_overs_of_an_interrupted_write_are_swept() {
    let host = TestHost::new();
    let store = host.store();
    let agent = host.agent(&store);
    create(&agent, "/memories/global/d/a.md", "one\n").await;
    store.close().await;
    fs::write(host.global("d/.lukasa-1f-0.tmp"), "half").unwrap();
    fs::create_dir_all(host.global(".lukasa-1f-1.tmp/x")).unwrap();
    let store = host.store();
    let person = host.person(&store);
    let health = person.health(lukasa_store::Depth::Quick).await.unwrap();
    assert!(health.findings.iter().any(|found| found.kind.as_str() == "left-over-temporary"));
    person.repair().await.unwrap();
    assert_eq!(texts(&host.global("")), table(&[("d/a.md", "one\n")]));
}

/// Kills a process at each step of writing the generated index.
#[tokio::test]
async fn left_overs_of_a_killed_list_refresh_are_swept_by_the_next_reader() {
    let mut steps = 0;
    for step in 1.. {
        let mut host = TestHost::in_fast_storage();
        host.settings.memory_list = true;
        let plan = Arc::<FaultPlan>::default();
        let open = || {
            let anchor = RootDir::new(host.path("data"), &["memory"], Privacy::Private);
            let local = LocalBackend::new(anchor, host.path("state/locks/global.lock"));
            let key = RootKey { identity: "global".to_owned(), place: "global".to_owned() };
            let faulty = FaultyBackend::new(Arc::new(local), Arc::clone(&plan));
            let store = host.store();
            let roots: Vec<(_, _, Arc<dyn Backend>)> =
                vec![(Mount::Scope(Scope::Global), key, Arc::new(faulty))];
            let agent = store.memories_in(roots, Caller::agent(AgentClass::Exec, "test"));
            (store, agent)
        };
        let (store, agent) = open();
        create(&agent, "/memories/global/a.md", "one\n").await;
        plan.set(step, Failure::Crash);
        store.checkpoint().await;
        let reached = plan.steps() >= step;
        kill(store);
        plan.set(0, Failure::Once);
        let left = files(&host.global("")).iter().any(|(name, _)| name.starts_with(".lukasa-"));
        let (_store, agent) = open();
        steps += u64::from(left);
        agent.list(None).await.unwrap();
        let names: Vec<_> = files(&host.global("")).into_iter().map(|(name, _)| name).collect();
        assert!(names.iter().all(|name| !name.starts_with('.')), "step {step}: {names:?}");
        if !reached {
            assert_eq!(names, ["MEMORY.md", "a.md"]);
            break;
        }
    }
    assert!(steps > 0, "no kill left a temporary file");
}

/// An editor saves between the check and the swap, and the process dies before the next check.
#[tokio::test]
async fn recovery_restores_an_external_edit_made_during_the_dead_write() {
    let host = TestHost::new();
    create_and_die_replacing(&host, "/memories/global/a.md", "one\n").await;
    fs::write(host.global("a.md"), "two\n").unwrap();
    fs::write(host.global(".lukasa-1f-0.aside.a.md"), "by hand\n").unwrap();
    fs::write(host.global(".lukasa-1f-1.aside.a.md"), "one\n").unwrap();
    let store = host.store();
    let person = host.person(&store);
    let listed = person.list(None).await.unwrap().memories;
    let listed: Vec<_> = listed.iter().map(|one| one.path.to_string()).collect();
    assert_eq!(listed, ["/memories/global/a.md", "/memories/global/a.outside-1.md"]);
    let expected = table(&[("a.md", "two\n"), ("a.outside-1.md", "by hand\n")]);
    assert_eq!(texts(&host.global("")), expected);
    assert_eq!(person.record_external_edits().await.unwrap(), 1);
}

#[tokio::test]
async fn only_an_interrupted_write_is_reported_as_interrupted() {
    let host = TestHost::new();
    let store = host.store();
    create(&host.agent(&store), "/memories/global/a.md", "one\n").await;
    let open_and_reported = async |store: &Arc<Store>| {
        let health = host.person(store).health(lukasa_store::Depth::Quick).await.unwrap();
        let mut kinds = health.findings.iter().map(|finding| finding.kind.as_str());
        (health.state.open, kinds.any(|kind| kind == "interrupted-commit"))
    };
    assert_eq!(
        open_and_reported(&store).await,
        (1, false),
        "the change is open until the next checkpoint"
    );
    kill(store);
    let store = host.store();
    assert_eq!(open_and_reported(&store).await, (1, false), "its files are complete");
    restart(&host);
    assert_eq!(open_and_reported(&store).await, (1, true));
    host.person(&store).repair().await.unwrap();
    assert_eq!(open_and_reported(&store).await, (0, false));
}

#[tokio::test]
async fn a_renamed_folder_is_not_renamed_again() {
    let host = TestHost::new();
    let store = host.store();
    let agent = host.agent(&store);
    create(&agent, "/memories/global/a/x.md", "x\n").await;
    rename(&agent, "/memories/global/a", "/memories/global/b").await;
    delete(&agent, "/memories/global/b").await;
    create(&agent, "/memories/global/a/y.md", "y\n").await;
    let expected = files(&host.global(""));
    kill(store);
    restart(&host);
    let store = host.store();
    host.person(&store).repair().await.unwrap();
    assert_eq!(files(&host.global("")), expected);
}
