//! Tests of writing and renaming.

use std::sync::Arc;

use store::backend::{Expect, Stamp};

use super::harness::{Harness, outcome_word, path};

pub(super) async fn check_all(make: &impl Fn() -> Harness) {
    staged_bytes_are_invisible_until_they_are_published(&make()).await;
    a_dropped_write_leaves_no_trace(&make()).await;
    a_folder_in_use_outlives_a_dropped_write(&make()).await;
    a_write_requires_its_precondition(&make()).await;
    an_external_edit_at_the_last_moment_stays(&make()).await;
    nothing_is_written_through_a_link_or_a_file(&make()).await;
    a_rename_needs_a_source_and_a_free_target(&make()).await;
    a_folder_moves_with_its_content(&make()).await;
    if !make().holds_only_files {
        nothing_is_renamed_through_a_link(&make()).await;
    }
}

async fn staged_bytes_are_invisible_until_they_are_published(harness: &Harness) {
    harness.write_text("d/a.md", "old").await;
    let expect = Expect::File(harness.stamp("d/a.md").await);
    let new = harness.backend.stage(&path("d/a.md"), Arc::from(*b"new")).await.unwrap();
    let shown = harness.expected(&["1 temporary", "d/", "d/a.md=old"]);
    assert_eq!(harness.shown().await, shown);
    new.publish(expect).await.unwrap();
    assert_eq!(harness.shown().await, ["d/", "d/a.md=new"]);
}

async fn a_dropped_write_leaves_no_trace(harness: &Harness) {
    harness.write_text("d/a.md", "old").await;
    for name in ["d/a.md", "d/b.md", "e/f/g.md", "d/h/i.md"] {
        drop(harness.backend.stage(&path(name), Arc::from(*b"new")).await.unwrap());
        assert_eq!(harness.shown().await, ["d/", "d/a.md=old"], "{name}");
    }
    let staged = harness.backend.stage(&path("e/f/a.md"), Arc::from(*b"new")).await.unwrap();
    let expect = Expect::File(harness.stamp("d/a.md").await);
    assert_eq!(outcome_word(staged.publish(expect).await), "changed");
    assert_eq!(harness.shown().await, ["d/", "d/a.md=old"]);
}

async fn a_folder_in_use_outlives_a_dropped_write(harness: &Harness) {
    let staged = harness.backend.stage(&path("d/e/a.md"), Arc::from(*b"new")).await.unwrap();
    harness.external_writer.write(&path("d/theirs.md"), b"theirs");
    drop(staged);
    assert_eq!(harness.shown().await, ["d/", "d/theirs.md=theirs"]);
}

async fn a_write_requires_its_precondition(harness: &Harness) {
    harness.write_text("a.md", "old").await;
    harness.write_text("d/b.md", "b").await;
    harness.link("link");
    harness.pipe("pipe");
    let stale = Stamp([u64::MAX; 4]);
    for (name, expect, expected) in [
        ("a.md", Expect::Absent, "occupied"),
        ("d", Expect::Absent, "occupied"),
        ("link", Expect::Absent, "occupied"),
        ("pipe", Expect::Absent, "occupied"),
        ("a.md", Expect::File(stale), "changed"),
        ("new.md", Expect::File(stale), "changed"),
        ("d", Expect::File(stale), "changed"),
        ("link", Expect::File(stale), "changed"),
        ("pipe", Expect::File(stale), "changed"),
    ] {
        if !harness.can_hold(name) {
            continue;
        }
        let staged = harness.backend.stage(&path(name), Arc::from(*b"new")).await.unwrap();
        assert_eq!(outcome_word(staged.publish(expect).await), expected, "{name} {expect:?}");
        assert_eq!(harness.shown().await, ["a.md=old", "d/", "d/b.md=b"], "{name} {expect:?}");
    }
}

async fn an_external_edit_at_the_last_moment_stays(harness: &Harness) {
    harness.write_text("a.md", "old").await;
    let expect = Expect::File(harness.stamp("a.md").await);
    let staged = harness.backend.stage(&path("a.md"), Arc::from(*b"ours")).await.unwrap();
    harness.external_writer.write(&path("a.md"), b"theirs");
    assert_eq!(outcome_word(staged.publish(expect).await), "changed");
    assert_eq!(harness.shown().await, ["a.md=theirs"]);
    let staged = harness.backend.stage(&path("b.md"), Arc::from(*b"ours")).await.unwrap();
    harness.external_writer.write(&path("b.md"), b"theirs");
    assert_eq!(outcome_word(staged.publish(Expect::Absent).await), "occupied");
    let expect = Expect::File(harness.stamp("b.md").await);
    let staged = harness.backend.stage(&path("b.md"), Arc::from(*b"ours")).await.unwrap();
    harness.external_writer.remove(&path("b.md"));
    assert_eq!(outcome_word(staged.publish(expect).await), "changed");
    assert_eq!(harness.shown().await, ["a.md=theirs"]);
}

async fn nothing_is_written_through_a_link_or_a_file(harness: &Harness) {
    harness.write_text("a.md", "old").await;
    harness.link("link");
    harness.pipe("d/pipe");
    for (name, expected) in [
        ("a.md/b.md", "wrong kind"),
        ("d/pipe/b.md", "wrong kind"),
        ("link/new.md", "escapes"),
        ("link/deep/new.md", "escapes"),
    ] {
        if !harness.can_hold(name) {
            continue;
        }
        let written = match harness.backend.stage(&path(name), Arc::from(*b"new")).await {
            Ok(staged) => staged.publish(Expect::Absent).await,
            Err(error) => Err(error),
        };
        assert_eq!(outcome_word(written), expected, "{name}");
        let shown = if harness.holds_only_files { &["a.md=old"][..] } else { &["a.md=old", "d/"] };
        assert_eq!(harness.shown().await, shown, "{name}");
    }
}

async fn a_rename_needs_a_source_and_a_free_target(harness: &Harness) {
    harness.write_text("a.md", "a").await;
    harness.write_text("d/b.md", "b").await;
    let before = ["a.md=a", "d/", "d/b.md=b"];
    for (from, to, expected) in [
        ("a.md", "d/b.md", "occupied"),
        ("a.md", "d", "occupied"),
        ("a.md", "a.md", "occupied"),
        ("d", "a.md", "occupied"),
        ("none.md", "e/f.md", "not found"),
        ("none/at/all.md", "e/f.md", "not found"),
        ("a.md", "d/b.md/c.md", "wrong kind"),
        ("a.md/x.md", "e.md", "wrong kind"),
        ("d", "d/e", "io"),
    ] {
        let renamed = harness.backend.rename(&path(from), &path(to)).await;
        assert_eq!(outcome_word(renamed), expected, "{from} to {to}");
        assert_eq!(harness.shown().await, before, "{from} to {to}");
    }
    let stamp = harness.stamp("a.md").await;
    harness.backend.rename(&path("a.md"), &path("e/f/g.md")).await.unwrap();
    assert_eq!(harness.shown().await, ["d/", "d/b.md=b", "e/", "e/f/", "e/f/g.md=a"]);
    let staged = harness.backend.stage(&path("e/f/g.md"), Arc::from(*b"new")).await.unwrap();
    staged.publish(Expect::File(stamp)).await.unwrap();
    assert_eq!(harness.shown().await, ["d/", "d/b.md=b", "e/", "e/f/", "e/f/g.md=new"]);
}

async fn a_folder_moves_with_its_content(harness: &Harness) {
    harness.write_text("d/a.md", "a").await;
    harness.write_text("d/e/b.md", "b").await;
    harness.write_text("d-x.md", "x").await;
    harness.link("d/link");
    harness.backend.rename(&path("d"), &path("f/g")).await.unwrap();
    let expected = ["d-x.md=x", "f/", "f/g/", "f/g/a.md=a", "f/g/e/", "f/g/e/b.md=b"];
    assert_eq!(harness.shown().await, expected);
    let through_link = harness.backend.read(&path("f/g/link/a.md"), 9).await;
    let expected = if harness.holds_only_files { "not found" } else { "escapes" };
    assert_eq!(outcome_word(through_link), expected);
    harness.write_text("d/a.md", "again").await;
}

async fn nothing_is_renamed_through_a_link(harness: &Harness) {
    harness.write_text("a.md", "a").await;
    harness.link("link");
    for (from, to, expected) in [
        ("link/a.md", "b.md", "escapes"),
        ("a.md", "link/b.md", "escapes"),
        ("a.md", "link/deep/b.md", "escapes"),
        ("a.md", "link", "occupied"),
    ] {
        let renamed = harness.backend.rename(&path(from), &path(to)).await;
        assert_eq!(outcome_word(renamed), expected, "{from} to {to}");
    }
    assert_eq!(harness.shown().await, ["a.md=a"]);
}
