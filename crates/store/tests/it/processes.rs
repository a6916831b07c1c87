//! Several processes on one root: every write is kept exactly once, and each process sees those of
//! the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use lukasa_store::backend::Backend;
use lukasa_store::{Caller, ChangesQuery, Memories};
use memory::access::AgentClass;
use memory::change::RootKey;
use memory::path::{Mount, RelativePath, Scope};
use serde_json::{Value, json};
use testkit::MemoryBackend;

use crate::host::{TestHost, answer, create, replace, texts};

const LINES: usize = 40;

/// Adds lines to one file from several processes at once.
async fn write_concurrently(processes: Vec<Memories>, path: &'static str) {
    assert!(create(&processes[0], path, "start\n").await.starts_with("File created"));
    let writers = processes.into_iter().enumerate().map(|(process, memories)| {
        tokio::spawn(async move {
            for line in 0..LINES {
                let new = format!("start\n{process}/{line}");
                let reply = replace(&memories, path, "start", &new).await;
                assert!(reply.starts_with("The memory file has been edited"), "{reply}");
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
}

fn check(text: &str, processes: usize) {
    let mut lines: Vec<_> = text.lines().skip(1).collect();
    lines.sort_unstable();
    let mut expected: Vec<_> = (0..processes)
        .flat_map(|process| (0..LINES).map(move |line| format!("{process}/{line}")))
        .collect();
    expected.sort_unstable();
    assert_eq!(lines, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_write_of_any_process_is_lost() {
    let host = TestHost::in_fast_storage();
    let stores: Vec<_> = (0..4).map(|_| host.store()).collect();
    let processes = stores.iter().map(|store| host.agent(store)).collect();
    write_concurrently(processes, "/memories/global/a.md").await;
    let [(_, text)] = &texts(&host.global(""))[..] else { panic!("one file") };
    check(text, 4);
    let query = ChangesQuery { max: 999, ..ChangesQuery::default() };
    let changes = host.agent(&stores[0]).changes(&query).await.unwrap();
    assert_eq!(changes.len(), 4 * LINES + 1);
    assert!(changes.iter().all(|change| change.kind.as_ref() != "outside"));
}

/// Opens two stores on one root in memory.
fn in_memory(host: &TestHost, root: &MemoryBackend) -> [Memories; 2] {
    [0, 1].map(|_| {
        let key = RootKey { identity: "global".to_owned(), place: "global".to_owned() };
        let backend: Arc<dyn Backend> = Arc::new(root.clone());
        let roots = vec![(Mount::Scope(Scope::Global), key, backend)];
        host.store().memories_in(roots, Caller::agent(AgentClass::Exec, "test"))
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_write_is_lost_on_a_backend_without_a_folder() {
    let (host, root) = (TestHost::in_fast_storage(), MemoryBackend::new());
    write_concurrently(in_memory(&host, &root).into(), "/memories/global/a.md").await;
    let files = root.files();
    let [(_, bytes)] = &files[..] else { panic!("one file, not {files:?}") };
    check(std::str::from_utf8(bytes).unwrap(), 2);
    assert_eq!(root.temporaries(), 0);
}

/// Commands by two processes in turn, and edits by an editor, with the reply to each.
#[tokio::test]
async fn the_cache_of_one_process_never_hides_changes_of_another_or_an_editor() {
    let (host, root) = (TestHost::in_fast_storage(), MemoryBackend::new());
    let [one, two] = in_memory(&host, &root);
    let path = |name: &str| format!("/memories/global/{name}");
    let make = |name: &str| json!({"command": "create", "path": path(name), "file_text": "x\n"});
    let remove = |name: &str| json!({"command": "delete", "path": path(name)});
    let view = |name: &str| json!({"command": "view", "path": path(name)});
    let rename = |from: &str, to: &str| json!({"command": "rename", "old_path": path(from), "new_path": path(to)});
    let rows: Vec<(&Memories, Value, Option<&str>)> = vec![
        (&one, make("d/a.md"), None),
        (&two, make("d/a.md"), Some("already_exists")),
        (&two, make("D/a.md"), Some("already_exists")),
        (&two, remove("d"), None),
        (&one, view("d/a.md"), Some("not_found")),
        (&one, make("D/a.md"), None),
        (&two, rename("D", "e"), None),
        (&one, rename("D", "f"), Some("not_found")),
        (&one, make("d/b.md"), None),
        (&two, rename("e/a.md", "d/b.md"), Some("already_exists")),
        (&two, remove("d/b.md"), None),
        (&one, rename("e/a.md", "d/b.md"), None),
        (&two, view("d/b.md"), None),
    ];
    for (memories, command, expected) in rows {
        let (reply, code) = answer(memories, command.clone()).await;
        assert_eq!(code.as_deref(), expected, "{command}: {reply}");
    }
    root.outside_write(&RelativePath::parse("d/c.md").unwrap(), b"theirs\n");
    for memories in [&one, &two] {
        assert_eq!(answer(memories, make("d/c.md")).await.1.as_deref(), Some("already_exists"));
    }
    root.outside_remove(&RelativePath::parse("d").unwrap());
    for memories in [&one, &two] {
        assert_eq!(answer(memories, view("d/b.md")).await.1.as_deref(), Some("not_found"));
    }
    assert_eq!(answer(&two, make("d")).await.1, None);
    let files: BTreeMap<_, _> = root.files().into_iter().collect();
    assert_eq!(files, BTreeMap::from([("d".to_owned(), b"x\n".to_vec())]));
}

#[tokio::test]
async fn the_next_process_completes_a_write_that_a_restart_interrupted() {
    let (host, root) = (TestHost::in_fast_storage(), MemoryBackend::new());
    let [one, two] = in_memory(&host, &root);
    create(&one, "/memories/global/a.md", "one and more\n").await;
    root.outside_write(&RelativePath::parse("a.md").unwrap(), b"one");
    root.outside_temporary(&RelativePath::parse("any").unwrap());
    root.restart_machine();
    let listed = two.list(None).await.unwrap().memories.len();
    assert_eq!((listed, root.temporaries()), (1, 0));
    assert_eq!(root.files(), [("a.md".to_owned(), b"one and more\n".to_vec())]);
    assert_eq!(two.record_external_edits().await.unwrap(), 0);
}
