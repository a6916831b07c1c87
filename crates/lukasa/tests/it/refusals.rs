//! Refusals: each is an error with a kind, a stable code and a message, and changes nothing.

use std::error::Error as _;
use std::fmt::Debug;

use lukasa::{Error, ErrorKind, Lukasa};

use crate::{TestHome, paths, person};

/// Checks the kind and the code of a refused call.
fn check<T: Debug>(call: Result<T, Error>, kind: ErrorKind, code: &str) {
    let error = call.unwrap_err();
    assert_eq!((error.kind(), error.code()), (kind, code), "{error}");
    assert!(!error.to_string().is_empty());
}

#[tokio::test]
async fn every_refusal_is_an_error_with_a_kind_and_a_code() {
    let home = TestHome::new();
    let lukasa = home.open().await;
    let memories = person(&lukasa);
    memories.create("global/a.md", "one\ntwo\ntwo\n").await.unwrap();
    let before = memories.history(9).await.unwrap();

    check(memories.create("global/a.md", "x\n").await, ErrorKind::Conflict, "already_exists");
    check(memories.edit("global/a.md", "ten", "x").await, ErrorKind::Conflict, "text_not_found");
    check(memories.edit("global/a.md", "two", "x").await, ErrorKind::Conflict, "text_not_unique");
    check(memories.insert("global/a.md", 99, "x\n").await, ErrorKind::Invalid, "invalid_range");
    check(memories.delete("global/b.md").await, ErrorKind::NotFound, "not_found");
    check(memories.read("global/b.md").await, ErrorKind::NotFound, "not_found");
    check(memories.view("global/b.md").await, ErrorKind::NotFound, "not_found");
    check(memories.create("global/../b.md", "x\n").await, ErrorKind::Invalid, "invalid_path");
    check(memories.create("elsewhere/b.md", "x\n").await, ErrorKind::Invalid, "invalid_path");
    check(memories.create("project/b.md", "x\n").await, ErrorKind::Denied, "scope_unavailable");
    let into_file = memories.rename("global/a.md", "global/a.md/b.md").await;
    check(into_file, ErrorKind::Conflict, "already_exists");
    let large = "x".repeat(200_000);
    check(memories.create("global/b.md", &large).await, ErrorKind::Invalid, "too_large");
    let secret = format!("- the key is {}{}\n", "AKIA", "QYXWVUTSRQPON7LM");
    check(memories.create("global/b.md", &secret).await, ErrorKind::Screened, "screened");
    check(memories.remember(&secret).await, ErrorKind::Screened, "screened");
    check(memories.remember(" \n").await, ErrorKind::Invalid, "invalid_content");
    check(memories.forget(&large).preview().await, ErrorKind::Invalid, "invalid_query");
    check(memories.undo(lukasa::ChangeId(77)).await, ErrorKind::NotFound, "not_found");
    check(memories.conversation("no spaces").await, ErrorKind::Invalid, "invalid_arguments");
    check(lukasa.global().with_id("no spaces"), ErrorKind::Invalid, "invalid_arguments");

    assert_eq!(memories.history(9).await.unwrap(), before);
    assert_eq!(paths(&memories).await, ["/memories/global/a.md"]);
    lukasa.close().await;
}

#[tokio::test]
async fn a_full_scope_refuses_another_memory() {
    let home = TestHome::new();
    let lukasa = Lukasa::builder(home.path()).files_max(1).open().await.unwrap();
    let memories = person(&lukasa);
    memories.create("global/a.md", "x\n").await.unwrap();
    check(memories.create("global/b.md", "x\n").await, ErrorKind::Full, "scope_full");
    lukasa.close().await;
}

#[tokio::test]
async fn a_stale_revision_is_not_replaced() {
    let home = TestHome::new();
    let lukasa = home.open().await;
    let memories = person(&lukasa);
    memories.create("global/a.md", "one\n").await.unwrap();
    let read = memories.read("global/a.md").await.unwrap();
    let other = memories.edit("global/a.md", "one", "two").await.unwrap();

    let error = memories.replace(&read.path, "three\n", read.revision).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Conflict, "conflict"));
    assert_eq!(error.current_revision(), other.revision);
    let read = memories.read("global/a.md").await.unwrap();
    assert_eq!(read.text, "two\n");

    let receipt = memories.replace(&read.path, "three\n", read.revision).await.unwrap();
    assert_eq!(memories.read("global/a.md").await.unwrap().revision, receipt.revision.unwrap());
    lukasa.close().await;
}

#[tokio::test]
async fn an_undo_names_the_memories_that_block_it() {
    let home = TestHome::new();
    let lukasa = home.open().await;
    let memories = person(&lukasa);
    let made = memories.create("global/a.md", "one\n").await.unwrap().change.unwrap();
    memories.edit("global/a.md", "one", "two").await.unwrap();

    let error = memories.undo(made).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Conflict, "conflict"));
    let blocked: Vec<_> = error.blocked().iter().map(ToString::to_string).collect();
    assert_eq!(blocked, ["/memories/global/a.md"]);
    assert_eq!(memories.read("global/a.md").await.unwrap().text, "two\n");
    lukasa.close().await;
}

#[tokio::test]
async fn a_home_that_cannot_be_used_is_a_fault_with_a_source() {
    let home = TestHome::new();
    let file = home.path().join("file");
    std::fs::write(&file, "not a folder").unwrap();
    let error = Lukasa::open(&file).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (ErrorKind::Fault, "storage_failed"), "{error:?}");
    assert!(error.source().is_some(), "{error:?}");
}

#[tokio::test]
async fn an_unknown_setting_prevents_opening() {
    let home = TestHome::new();
    let builder = Lukasa::builder(home.path()).configure(|config| {
        let policy = lukasa::layers::memory::screen::Policy::Off;
        config.screening.insert("secretz".to_owned(), policy);
    });
    check(builder.open().await, ErrorKind::Invalid, "invalid_arguments");
}
