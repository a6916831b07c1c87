//! Limits, exact to the byte and to the file.

use std::fs;

use lukasa_store::{CallContext, Memories, Precondition, StoreError};
use memory::change::ChangeKind;
use memory::command::MemoryCommand;
use memory::limits::{LISTED_PATHS_MAX, MEMORY_BYTES_MAX, SCOPE_FILES_DEFAULT};
use serde_json::{Value, json};

use crate::host::{TestHost, answer, at, call, create};

const PATH: &str = "/memories/global/a.md";

async fn code(memories: &Memories, arguments: Value) -> Option<String> {
    answer(memories, arguments).await.1
}

/// Grows a memory from `before` to `after` bytes with `write`, which gets the bytes to add.
async fn check(before: usize, after: usize, write: impl Fn(usize) -> Value) -> Option<String> {
    let host = TestHost::in_fast_storage();
    let store = host.store();
    let agent = host.agent(&store);
    if before > 0 {
        let text = format!("x{}\n", "-".repeat(before - 2));
        assert!(create(&agent, PATH, &text).await.starts_with("File created"));
    }
    let was = fs::read(host.global("a.md")).ok();
    let code = code(&agent, write(after - before)).await;
    let now = fs::read(host.global("a.md")).ok();
    match code {
        None => assert_eq!(now.unwrap().len(), after),
        Some(_) => assert_eq!(now, was, "a refusal changes nothing"),
    }
    code
}

#[tokio::test]
async fn a_memory_may_have_exactly_its_size_limit() {
    let create =
        |more: usize| json!({"command": "create", "path": PATH, "file_text": "x".repeat(more)});
    let replace = |more: usize| {
        let new = "y".repeat(more + 1);
        json!({"command": "str_replace", "path": PATH, "old_str": "x", "new_str": new})
    };
    let insert = |more: usize| {
        let text = "y".repeat(more - 1);
        json!({"command": "insert", "path": PATH, "insert_line": 1, "insert_text": text})
    };
    let too_large = Some("too_large".to_owned());
    assert_eq!(check(0, MEMORY_BYTES_MAX, create).await, None);
    assert_eq!(check(0, MEMORY_BYTES_MAX + 1, create).await, too_large);
    assert_eq!(check(100, MEMORY_BYTES_MAX, replace).await, None);
    assert_eq!(check(100, MEMORY_BYTES_MAX + 1, replace).await, too_large);
    assert_eq!(check(MEMORY_BYTES_MAX - 2, MEMORY_BYTES_MAX, insert).await, None);
    assert_eq!(check(MEMORY_BYTES_MAX - 2, MEMORY_BYTES_MAX + 1, insert).await, too_large);
}

#[tokio::test]
async fn saves_and_drafts_have_the_same_limit() {
    let host = TestHost::in_fast_storage();
    let store = host.store();
    let person = host.person(&store);
    let call = CallContext::default();
    // Two bytes for each letter: the limit counts bytes.
    let (most, more) = ("é".repeat(MEMORY_BYTES_MAX / 2), "é".repeat(MEMORY_BYTES_MAX / 2) + "\n");
    let refused = person.save(&at(PATH), &more, Precondition::Absent, &call).await.unwrap_err();
    assert_eq!(refused.code().as_ref(), "too_large", "an oversized save is no conflict");
    person.save(&at(PATH), &most, Precondition::Absent, &call).await.unwrap();
    let mut draft = person.draft(ChangeKind::Draft, call);
    let refused = draft.set_text(&at("/memories/global/b.md"), &more).await.unwrap_err();
    assert_eq!(refused.code().as_ref(), "too_large");
    draft.set_text(&at("/memories/global/b.md"), &most).await.unwrap();
    draft.commit().await.unwrap();
    assert_eq!(fs::read(host.global("b.md")).unwrap(), most.as_bytes());
}

#[tokio::test]
async fn a_file_over_the_limit_can_be_viewed_in_part_moved_and_removed_but_not_edited() {
    let host = TestHost::in_fast_storage();
    let store = host.store();
    let agent = host.agent(&store);
    create(&agent, PATH, "one\n").await;
    let grown = format!("first\nsecond\n{}", "x".repeat(MEMORY_BYTES_MAX));
    fs::write(host.global("a.md"), &grown).unwrap();
    let too_large = Some("too_large".to_owned());
    let edit =
        |old: &str| json!({"command": "str_replace", "path": PATH, "old_str": old, "new_str": ""});
    assert_eq!(code(&agent, edit("first")).await, too_large);
    assert_eq!(code(&agent, json!({"command": "view", "path": PATH})).await, too_large);
    let part =
        call(&agent, json!({"command": "view", "path": PATH, "offset": 2, "limit": 1})).await;
    assert!(part.ends_with("\n     2\tsecond"), "{part}");
    let moved = json!({"command": "rename", "old_path": PATH, "new_path": "/memories/global/b.md"});
    assert_eq!(code(&agent, moved).await, None);
    assert_eq!(fs::read_to_string(host.global("b.md")).unwrap(), grown);
    let gone = json!({"command": "delete", "path": "/memories/global/b.md"});
    assert_eq!(code(&agent, gone).await, None);
    assert!(!host.global("b.md").exists());
}

/// Creates `count` memories by hand.
fn fill(host: &TestHost, count: usize) {
    fs::create_dir_all(host.global("many")).unwrap();
    for number in 0..count {
        fs::write(host.global(&format!("many/n{number:05}.md")), "x\n").unwrap();
    }
}

#[tokio::test]
async fn a_scope_holds_a_thousand_memories_by_default() {
    let mut host = TestHost::in_fast_storage();
    fill(&host, SCOPE_FILES_DEFAULT - 1);
    let store = host.store();
    let agent = host.agent(&store);
    assert!(create(&agent, PATH, "the last\n").await.starts_with("File created"));
    let b = json!({"command": "create", "path": "/memories/global/b.md", "file_text": "x"});
    assert_eq!(code(&agent, b.clone()).await.as_deref(), Some("scope_full"));
    let saved = at("/memories/global/b.md");
    let refused =
        host.person(&store).save(&saved, "x", Precondition::Absent, &CallContext::default()).await;
    assert!(matches!(&refused, Err(error) if error.code().as_ref() == "scope_full"), "{refused:?}");
    // A full scope affects no other scope, and only new memories are refused.
    assert!(create(&agent, "/memories/project/b.md", "x").await.starts_with("File created"));
    let moved = json!({"command": "rename", "old_path": PATH, "new_path": "/memories/global/c.md"});
    assert_eq!(code(&agent, moved).await, None);
    drop((agent, store));
    host.settings.files_max = SCOPE_FILES_DEFAULT + 1;
    let store = host.store();
    let agent = host.agent(&store);
    assert_eq!(code(&agent, b).await, None);
    let d = json!({"command": "create", "path": "/memories/global/d.md", "file_text": "x"});
    assert_eq!(code(&agent, d).await.as_deref(), Some("scope_full"));
}

#[tokio::test]
async fn external_memories_count_at_once() {
    let mut host = TestHost::in_fast_storage();
    host.settings.files_max = 20;
    let store = host.store();
    let agent = host.agent(&store);
    assert!(create(&agent, PATH, "the first\n").await.starts_with("File created"));
    store.checkpoint().await;
    fill(&host, 19);
    let b = json!({"command": "create", "path": "/memories/global/b.md", "file_text": "x"});
    assert_eq!(code(&agent, b.clone()).await.as_deref(), Some("scope_full"));
    fs::remove_file(host.global("many/n00000.md")).unwrap();
    assert_eq!(code(&agent, b).await, None);
}

#[tokio::test]
async fn a_draft_offsets_new_memories_by_removed_ones() {
    let mut host = TestHost::in_fast_storage();
    host.settings.files_max = 2;
    let store = host.store();
    let agent = host.agent(&store);
    for name in ["a", "b"] {
        create(&agent, &format!("/memories/global/{name}.md"), "x\n").await;
    }
    let new = |name: &str| MemoryCommand::Create { path: at(name), file_text: "y\n".to_owned() };
    let mut swap = agent.draft(ChangeKind::Draft, CallContext::default());
    swap.apply(new("/memories/global/c.md")).await.unwrap();
    swap.apply(MemoryCommand::Delete { path: at(PATH) }).await.unwrap();
    assert!(swap.commit().await.unwrap().is_some());
    let mut more = agent.draft(ChangeKind::Draft, CallContext::default());
    more.apply(new("/memories/global/d.md")).await.unwrap();
    let refused = more.commit().await;
    assert!(
        matches!(&refused, Err(StoreError::Refused(why)) if why.code().as_ref() == "scope_full"),
        "{refused:?}"
    );
    assert!(!host.global("d.md").exists());
}

#[tokio::test]
async fn an_overfull_tree_lists_its_first_thousand_in_byte_order() {
    let host = TestHost::in_fast_storage();
    fill(&host, LISTED_PATHS_MAX + 50);
    for name in ["many-b.md", "many.md", "zzz.md", "A.md"] {
        fs::write(host.global(name), "x\n").unwrap();
    }
    let store = host.store();
    let agent = host.agent(&store);
    let shown = call(&agent, json!({"command": "view", "path": "/memories/global"})).await;
    let paths: Vec<&str> =
        shown.lines().skip(2).filter_map(|line| Some(line.split_once('\t')?.1)).collect();
    assert_eq!(paths.len(), LISTED_PATHS_MAX);
    let first: Vec<_> = paths.iter().copied().take(5).collect();
    assert_eq!(
        first,
        [
            "/memories/global/A.md",
            "/memories/global/many-b.md",
            "/memories/global/many.md",
            "/memories/global/many/",
            "/memories/global/many/n00000.md",
        ]
    );
    assert!(paths.is_sorted(), "byte order of the full paths");
    // 1,054 files and one folder, of which 1,000 are shown.
    assert!(shown.ends_with("\n(55 more not shown; view a subfolder)"), "{shown:.200}");
    // A listing for programs has all files.
    assert_eq!(agent.list(None).await.unwrap().memories.len(), LISTED_PATHS_MAX + 54);
}
