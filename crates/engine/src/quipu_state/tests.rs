//! Tests of reading a Quipu database: trust, reviews, pins, and what happens if it cannot be read.

use std::sync::Arc;

use testkit::conformance::state::{path, time, write};

use super::*;

#[tokio::test]
async fn a_copy_of_the_state_yields_trust_reviews_and_pins() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("quipu.db");
    let state = Arc::new(SqliteState::new(database.clone()));
    for (at, text, trust, influenced) in [
        ("person.md", "by a person", Trust::Person, false),
        ("agent.md", "by an agent", Trust::Agent, false),
        ("outside.md", "from outside", Trust::Outside, false),
        ("waits.md", "carried on", Trust::Outside, true),
        ("review.md", "by a review", Trust::Background, true),
    ] {
        let mut change = write("one", at, text).build();
        for file in &mut change.files {
            file.change.trust = trust;
            file.influenced = influenced;
        }
        state.record(change).await.unwrap();
    }
    let root = testkit::conformance::state::root("one");
    let identity = root.identity.as_str();
    state.set_pin((identity, &path("agent.md")), true, time(7)).await.unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let copy = scratch.path().join("copy.db");
    // The writer is still there.
    let old = read_state(&database, &copy, &[identity.to_owned()]).await.unwrap();
    let records = old.scope(identity);
    let marks: Vec<_> =
        records.marks().iter().map(|mark| (mark.path.as_str(), mark.pinned)).collect();
    assert_eq!(marks, [("agent.md", true)]);
    for (text, own, of_repository) in [
        ("by a person", (Trust::Imported, false), (Trust::Imported, false)),
        ("by an agent", (Trust::Imported, false), (Trust::Imported, false)),
        ("from outside", (Trust::Imported, false), (Trust::Outside, false)),
        ("never seen", (Trust::Imported, false), (Trust::Outside, false)),
        ("carried on", (Trust::Outside, true), (Trust::Outside, true)),
        ("by a review", (Trust::Background, true), (Trust::Background, true)),
    ] {
        assert_eq!(records.trust(text.as_bytes(), false), own, "{text}");
        assert_eq!(records.trust(text.as_bytes(), true), of_repository, "{text}");
    }
    assert!(old.scope("project:other").marks().is_empty());
    assert_eq!(old.unfinished_tasks, 0);
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the test creates the database")]
async fn an_unreadable_database_is_reported_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("quipu.db");
    let read = async || {
        let scratch = tempfile::tempdir().unwrap();
        read_state(&database, &scratch.path().join("copy.db"), &["global".to_owned()]).await
    };
    assert!(matches!(read().await, Err(UnreadState::Unreadable(_))));
    for bytes in [&b"no database"[..], &[7; 9_000]] {
        std::fs::write(&database, bytes).unwrap();
        assert!(matches!(read().await, Err(UnreadState::Damaged(_))));
        assert_eq!(std::fs::read(&database).unwrap(), bytes);
    }
    // An empty file is what a program that died at once leaves.
    std::fs::write(&database, "").unwrap();
    assert!(read().await.unwrap().scope("global").marks().is_empty());
}
