//! Drafts of texts that were written in another home, and the pins and usage that come with them.

use std::fs;
use std::time::SystemTime;

use lukasa_store::{CallContext, Caller, DryRun, Memories, TextOrigin, UndoTarget, Unreviewed};
use memory::access::AgentClass;
use memory::change::{Actor, ChangeKind, Provenance, Trust};
use memory::clock::Timestamp;
use memory::usage::Usage;
use state::UsageRow;

use crate::host::{TestHost, at, create};

fn time(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

/// Returns the memories of a person who imports.
fn importing(host: &TestHost) -> Memories {
    let provenance = Provenance::new(Actor::Person, Trust::Imported, "import:test");
    host.memories(&host.store(), Caller::new(AgentClass::Exec, provenance))
}

async fn import(memories: &Memories, files: &[(&str, Option<TextOrigin>)]) {
    let mut draft = memories.draft(ChangeKind::Import, CallContext::default());
    for (path, origin) in files {
        draft.set_text(&at(path), &format!("{path}\n")).await.unwrap();
        if let Some(origin) = origin {
            draft.set_origin(&at(path), *origin).await.unwrap();
        }
    }
    draft.commit().await.unwrap();
}

fn origin(trust: Trust, needs_review: bool, modified_at: Option<Timestamp>) -> TextOrigin {
    TextOrigin { trust, needs_review, modified_at }
}

#[tokio::test]
async fn a_text_is_trusted_as_its_origin_says_and_never_more_than_its_writer() {
    let host = TestHost::new();
    let memories = importing(&host);
    let [none, person, outside, waits, review] = [
        "/memories/global/none.md",
        "/memories/global/person.md",
        "/memories/global/outside.md",
        "/memories/global/waits.md",
        "/memories/global/review.md",
    ];
    let files = [
        (none, None),
        (person, Some(origin(Trust::Person, false, None))),
        (outside, Some(origin(Trust::Outside, false, None))),
        (waits, Some(origin(Trust::Outside, true, None))),
        (review, Some(origin(Trust::Background, true, None))),
    ];
    import(&memories, &files).await;
    let paths = [none, person, outside, waits, review].map(at);
    let mut texts = Vec::new();
    for path in &paths {
        texts.push((path, memories.read(path).await.unwrap().revision));
    }
    let imported = Trust::Imported;
    let expected = [imported, imported, Trust::Outside, Trust::Outside, Trust::Background];
    assert_eq!(memories.trust_levels(&texts).await.unwrap(), expected);
    let waiting = memories.pending_reviews().await.unwrap();
    let waiting: Vec<_> = waiting.iter().map(|one| (one.path.to_string(), one.reason)).collect();
    // Outside of a repository, text with trust `outside` awaits a review too.
    let expected = [
        (outside.to_owned(), Unreviewed::Influenced),
        (review.to_owned(), Unreviewed::Background),
        (waits.to_owned(), Unreviewed::Influenced),
    ];
    assert_eq!(waiting, expected);
}

#[tokio::test]
async fn a_file_has_the_time_at_which_its_text_was_written() {
    let host = TestHost::new();
    let memories = importing(&host);
    let [old, new] = ["/memories/global/deep/old.md", "/memories/global/new.md"];
    let files = [
        (old, Some(origin(Trust::Imported, false, Some(time(1_000_000))))),
        (new, Some(origin(Trust::Imported, false, None))),
    ];
    let begun = SystemTime::now();
    import(&memories, &files).await;
    assert_eq!(memories.read(&at(old)).await.unwrap().modified_at, time(1_000_000));
    let facts = fs::metadata(host.global("new.md")).unwrap();
    assert!(facts.modified().unwrap() + std::time::Duration::from_secs(1) > begun);
    // An edit is of the time at which it is made.
    let mut draft = memories.draft(ChangeKind::Edit, CallContext::default());
    draft.set_text(&at(old), "other\n").await.unwrap();
    draft.commit().await.unwrap();
    assert!(memories.read(&at(old)).await.unwrap().modified_at > time(1_000_000));
}

#[tokio::test]
async fn marks_from_elsewhere_are_added_once_and_go_with_the_memory() {
    let host = TestHost::new();
    let memories = importing(&host);
    let [a, b] = ["/memories/global/a.md", "/memories/project/b.md"];
    import(&memories, &[(a, None), (b, None)]).await;
    let mark = |path: &str, pinned, uses| {
        let usage = Usage { uses, last_used_at: Some(time(5)), last_written_at: None };
        let path = at(path);
        let relative = path.relative().unwrap().clone();
        (path, UsageRow { path: relative, pinned, usage })
    };
    let marks = [mark(a, true, 4), mark(b, false, 2)];
    let planned = memories.merge_marks(&marks, DryRun::Yes).await.unwrap();
    assert_eq!(planned, marks);
    let shown = async || {
        let listed = memories.list(None).await.unwrap().memories;
        let shown = listed.iter().map(|one| (one.path.to_string(), one.pinned, one.usage.uses));
        shown.collect::<Vec<_>>()
    };
    let without = [(a.to_owned(), false, 0), (b.to_owned(), false, 0)];
    assert_eq!(shown().await, without);
    assert_eq!(memories.merge_marks(&marks, DryRun::No).await.unwrap(), marks);
    let with = [(a.to_owned(), true, 4), (b.to_owned(), false, 2)];
    assert_eq!(shown().await, with);
    assert_eq!(memories.merge_marks(&marks, DryRun::No).await.unwrap(), []);
    assert_eq!(shown().await, with);
    let last = memories.changes(&lukasa_store::ChangesQuery { max: 1, ..Default::default() }).await;
    let target = UndoTarget::Change(last.unwrap().remove(0).id);
    memories.undo(&target, DryRun::No, &CallContext::default()).await.unwrap();
    import(&memories, &[(a, None), (b, None)]).await;
    assert_eq!(shown().await, without);
    // Pins are a person's.
    let agent = host.agent(&host.store());
    create(&agent, "/memories/global/c.md", "c\n").await;
    agent.merge_marks(&marks, DryRun::No).await.unwrap_err();
}
