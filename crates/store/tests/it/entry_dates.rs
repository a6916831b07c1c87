//! Dates of entries in a memory.

use std::fs;

use lukasa_store::{CallContext, ChangesQuery, DryRun, UndoTarget};
use memory::clock::Timestamp;

use crate::host::{TestHost, at, create, delete, rename, replace};

const PATH: &str = "/memories/global/a.md";

fn day(day: u8) -> Timestamp {
    format!("2026-05-{day:02}T10:00:00Z").parse().unwrap()
}

#[tokio::test]
async fn an_entry_is_dated_by_the_change_that_added_it() {
    let host = TestHost::new();
    let store = host.store();
    let agent = host.agent(&store);
    host.clock.set(day(1));
    create(&agent, PATH, "---\nname: a\n---\n- one\n- two\n").await;
    host.clock.set(day(2));
    replace(&agent, PATH, "- two", "- two and more\n- three\n  is long").await;
    host.clock.set(day(3));
    replace(&agent, PATH, "- one", "* one").await;
    host.clock.set(day(4));
    let entries = ["one", "two", "two and more", "three\n  is long", "is long"];
    let came = agent.entry_dates(&at(PATH), &entries).await.unwrap();
    assert_eq!(came, [Some(day(1)), None, Some(day(2)), Some(day(2)), None]);
    // A new wording does not date the fact.
    replace(&agent, PATH, "two and more", "two and less").await;
    assert_eq!(agent.entry_dates(&at(PATH), &["two and less"]).await.unwrap(), [None]);
}

#[tokio::test]
async fn an_entry_without_history_has_no_date() {
    let host = TestHost::new();
    let store = host.store();
    let agent = host.agent(&store);
    // An external edit: it has the file time, as long as no later write came.
    fs::create_dir_all(host.global("")).unwrap();
    fs::write(host.global("a.md"), "- one\n").unwrap();
    let modified_at = agent.read(&at(PATH)).await.unwrap().modified_at;
    host.clock.set(modified_at + std::time::Duration::from_secs(9));
    agent.record_external_edits().await.unwrap();
    assert_eq!(agent.entry_dates(&at(PATH), &["one"]).await.unwrap(), [Some(modified_at)]);
    replace(&agent, PATH, "one\n", "one\n- two\n").await;
    let came = agent.entry_dates(&at(PATH), &["one", "two"]).await.unwrap();
    assert_eq!(came, [None, Some(modified_at + std::time::Duration::from_secs(9))]);
    // After a rename: the entry is older than its path.
    let moved = "/memories/global/b.md";
    rename(&agent, PATH, moved).await;
    assert_eq!(agent.entry_dates(&at(moved), &["two"]).await.unwrap(), [None]);
    // After an undo: the entry is older than the undo.
    delete(&agent, moved).await;
    let query = ChangesQuery { max: 1, ..ChangesQuery::default() };
    let last = agent.changes(&query).await.unwrap()[0].id;
    agent.undo(&UndoTarget::Change(last), DryRun::No, &CallContext::default()).await.unwrap();
    assert_eq!(agent.entry_dates(&at(moved), &["two"]).await.unwrap(), [None]);
}

#[tokio::test]
async fn the_file_time_in_a_checkout_is_ignored() {
    let host = TestHost::new();
    let store = host.store();
    let agent = host.agent(&store);
    fs::create_dir_all(host.project("")).unwrap();
    fs::write(host.project("a.md"), "- one\n").unwrap();
    let path = at("/memories/project/a.md");
    agent.record_external_edits().await.unwrap();
    assert_eq!(agent.entry_dates(&path, &["one"]).await.unwrap(), [None]);
    host.clock.set(day(5));
    replace(&agent, "/memories/project/a.md", "one\n", "one\n- two\n").await;
    assert_eq!(agent.entry_dates(&path, &["one", "two"]).await.unwrap(), [None, Some(day(5))]);
}
