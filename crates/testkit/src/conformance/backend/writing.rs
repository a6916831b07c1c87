//! Claims about putting bytes in place and giving files other paths.

use std::sync::Arc;

use store::backend::{Expect, Stamp};

use super::harness::{Harness, outcome_word, path};

pub(super) async fn check_all(make: &impl Fn() -> Harness) {
    staged_bytes_are_nowhere_until_they_are_published(&make()).await;
    what_is_dropped_leaves_no_trace(&make()).await;
    a_folder_that_somebody_uses_outlives_a_dropped_write(&make()).await;
    a_write_happens_only_if_what_is_there_is_as_expected(&make()).await;
    an_edit_from_outside_at_the_last_moment_stays(&make()).await;
    nothing_is_written_through_what_is_no_folder(&make()).await;
    a_rename_needs_a_source_and_a_free_target(&make()).await;
    a_folder_moves_with_all_that_is_in_it(&make()).await;
    nothing_is_renamed_through_a_link(&make()).await;
}

async fn staged_bytes_are_nowhere_until_they_are_published(rig: &Harness) {
    rig.write_text("d/a.md", "old").await;
    let expect = Expect::File(rig.stamp("d/a.md").await);
    let new = rig.backend.stage(&path("d/a.md"), Arc::from(*b"new")).await.unwrap();
    assert_eq!(rig.shown().await, ["1 temporary", "d/", "d/a.md=old"]);
    new.publish(expect).await.unwrap();
    assert_eq!(rig.shown().await, ["d/", "d/a.md=new"]);
}

async fn what_is_dropped_leaves_no_trace(rig: &Harness) {
    rig.write_text("d/a.md", "old").await;
    for at in ["d/a.md", "d/b.md", "e/f/g.md", "d/h/i.md"] {
        drop(rig.backend.stage(&path(at), Arc::from(*b"new")).await.unwrap());
        assert_eq!(rig.shown().await, ["d/", "d/a.md=old"], "{at}");
    }
    let staged = rig.backend.stage(&path("e/f/a.md"), Arc::from(*b"new")).await.unwrap();
    let expect = Expect::File(rig.stamp("d/a.md").await);
    assert_eq!(outcome_word(staged.publish(expect).await), "changed");
    assert_eq!(rig.shown().await, ["d/", "d/a.md=old"]);
}

async fn a_folder_that_somebody_uses_outlives_a_dropped_write(rig: &Harness) {
    let staged = rig.backend.stage(&path("d/e/a.md"), Arc::from(*b"new")).await.unwrap();
    rig.external_writer.write(&path("d/theirs.md"), b"theirs");
    drop(staged);
    assert_eq!(rig.shown().await, ["d/", "d/theirs.md=theirs"]);
}

async fn a_write_happens_only_if_what_is_there_is_as_expected(rig: &Harness) {
    rig.write_text("a.md", "old").await;
    rig.write_text("d/b.md", "b").await;
    rig.external_writer.link(&path("link"));
    rig.external_writer.pipe(&path("pipe"));
    let stale = Stamp([u64::MAX; 4]);
    for (at, expect, expected) in [
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
        let staged = rig.backend.stage(&path(at), Arc::from(*b"new")).await.unwrap();
        assert_eq!(outcome_word(staged.publish(expect).await), expected, "{at} {expect:?}");
        assert_eq!(rig.shown().await, ["a.md=old", "d/", "d/b.md=b"], "{at} {expect:?}");
    }
}

async fn an_edit_from_outside_at_the_last_moment_stays(rig: &Harness) {
    rig.write_text("a.md", "old").await;
    let expect = Expect::File(rig.stamp("a.md").await);
    let staged = rig.backend.stage(&path("a.md"), Arc::from(*b"ours")).await.unwrap();
    rig.external_writer.write(&path("a.md"), b"theirs");
    assert_eq!(outcome_word(staged.publish(expect).await), "changed");
    assert_eq!(rig.shown().await, ["a.md=theirs"]);
    let staged = rig.backend.stage(&path("b.md"), Arc::from(*b"ours")).await.unwrap();
    rig.external_writer.write(&path("b.md"), b"theirs");
    assert_eq!(outcome_word(staged.publish(Expect::Absent).await), "occupied");
    let expect = Expect::File(rig.stamp("b.md").await);
    let staged = rig.backend.stage(&path("b.md"), Arc::from(*b"ours")).await.unwrap();
    rig.external_writer.remove(&path("b.md"));
    assert_eq!(outcome_word(staged.publish(expect).await), "changed");
    assert_eq!(rig.shown().await, ["a.md=theirs"]);
}

async fn nothing_is_written_through_what_is_no_folder(rig: &Harness) {
    rig.write_text("a.md", "old").await;
    rig.external_writer.link(&path("link"));
    rig.external_writer.pipe(&path("d/pipe"));
    for (at, expected) in [
        ("a.md/b.md", "wrong kind"),
        ("d/pipe/b.md", "wrong kind"),
        ("link/new.md", "escapes"),
        ("link/deep/new.md", "escapes"),
    ] {
        let staged = rig.backend.stage(&path(at), Arc::from(*b"new")).await;
        assert_eq!(outcome_word(staged), expected, "{at}");
        assert_eq!(rig.shown().await, ["a.md=old", "d/"], "{at}");
    }
}

async fn a_rename_needs_a_source_and_a_free_target(rig: &Harness) {
    rig.write_text("a.md", "a").await;
    rig.write_text("d/b.md", "b").await;
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
        let renamed = rig.backend.rename(&path(from), &path(to)).await;
        assert_eq!(outcome_word(renamed), expected, "{from} to {to}");
        assert_eq!(rig.shown().await, before, "{from} to {to}");
    }
    let stamp = rig.stamp("a.md").await;
    rig.backend.rename(&path("a.md"), &path("e/f/g.md")).await.unwrap();
    assert_eq!(rig.shown().await, ["d/", "d/b.md=b", "e/", "e/f/", "e/f/g.md=a"]);
    let staged = rig.backend.stage(&path("e/f/g.md"), Arc::from(*b"new")).await.unwrap();
    staged.publish(Expect::File(stamp)).await.unwrap();
    assert_eq!(rig.shown().await, ["d/", "d/b.md=b", "e/", "e/f/", "e/f/g.md=new"]);
}

async fn a_folder_moves_with_all_that_is_in_it(rig: &Harness) {
    rig.write_text("d/a.md", "a").await;
    rig.write_text("d/e/b.md", "b").await;
    rig.write_text("d-x.md", "x").await;
    rig.external_writer.link(&path("d/link"));
    rig.backend.rename(&path("d"), &path("f/g")).await.unwrap();
    let expected = ["d-x.md=x", "f/", "f/g/", "f/g/a.md=a", "f/g/e/", "f/g/e/b.md=b"];
    assert_eq!(rig.shown().await, expected);
    assert_eq!(outcome_word(rig.backend.read(&path("f/g/link/a.md"), 9).await), "escapes");
    rig.write_text("d/a.md", "again").await;
}

async fn nothing_is_renamed_through_a_link(rig: &Harness) {
    rig.write_text("a.md", "a").await;
    rig.external_writer.link(&path("link"));
    for (from, to, expected) in [
        ("link/a.md", "b.md", "escapes"),
        ("a.md", "link/b.md", "escapes"),
        ("a.md", "link/deep/b.md", "escapes"),
        ("a.md", "link", "occupied"),
    ] {
        let renamed = rig.backend.rename(&path(from), &path(to)).await;
        assert_eq!(outcome_word(renamed), expected, "{from} to {to}");
    }
    assert_eq!(rig.shown().await, ["a.md=a"]);
}
