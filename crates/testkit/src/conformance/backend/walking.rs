//! Claims about looking: walks, kinds, reads.

use std::sync::Arc;

use store::backend::{Extent, FileKind, SkipReason, Stamp, SweepReport, Walk};

use super::harness::{Harness, WalkSummary, outcome_word, path, rows};

pub(super) async fn check_all(make: &impl Fn() -> Harness) {
    a_missing_root_is_empty_and_looking_does_not_make_it(&make()).await;
    a_walk_is_in_byte_order_of_the_full_paths(&make()).await;
    a_walk_hands_back_the_first_and_counts_the_rest(&make()).await;
    a_walk_of_a_folder_sees_that_folder_alone(&make()).await;
    a_walk_of_what_is_no_folder_says_so(&make()).await;
    what_is_no_memory_is_passed_over_and_named(&make()).await;
    a_kind_is_told_without_following(&make()).await;
    a_read_takes_the_first_bytes_and_says_whether_that_is_all(&make()).await;
    nothing_is_read_through_a_link(&make()).await;
    a_version_has_one_stamp_and_a_new_version_another(&make()).await;
}

async fn walk(rig: &Harness, from: Option<&str>, extent: Extent) -> WalkSummary {
    let from = from.map(path);
    WalkSummary::from_walk(rig.backend.walk(from.as_ref(), extent).await.unwrap())
}

async fn a_missing_root_is_empty_and_looking_does_not_make_it(rig: &Harness) {
    let backend = &rig.backend;
    assert_eq!(backend.walk(None, Extent::ALL).await.unwrap(), Walk::default());
    assert_eq!(backend.walk(Some(&path("d")), Extent::ALL).await.unwrap(), Walk::default());
    assert_eq!(backend.kind(&path("d/a.md")).await.unwrap(), None);
    assert_eq!(outcome_word(backend.read(&path("a.md"), 9).await), "not found");
    assert_eq!(
        outcome_word(backend.remove_file(&path("a.md"), Stamp::default()).await),
        "not found"
    );
    assert_eq!(outcome_word(backend.remove_folder(&path("d"), &[]).await), "not found");
    assert_eq!(backend.sweep(Arc::new(|_, _| false)).await.unwrap(), SweepReport::default());
    backend.remove_empty(&path("d")).await.unwrap();
    backend.sync(&[path("a.md"), path("d/b.md")]).await.unwrap();
    assert!(!backend.exists().await.unwrap());
    rig.write_text("a.md", "").await;
    assert!(backend.exists().await.unwrap());
}

async fn a_walk_is_in_byte_order_of_the_full_paths(rig: &Harness) {
    for at in ["a/x.md", "a.md", "a-b.md", "B.md", "a/x/y.md", "é.md", "a b/c.md", "a/x-.md"] {
        rig.write_text(at, "12").await;
    }
    let seen = walk(rig, None, Extent::ALL).await;
    let expected = WalkSummary {
        files: rows(&[
            ("B.md", 2),
            ("a b/c.md", 2),
            ("a-b.md", 2),
            ("a.md", 2),
            ("a/x-.md", 2),
            ("a/x.md", 2),
            ("a/x/y.md", 2),
            ("é.md", 2),
        ]),
        folders: rows(&[("a", 6), ("a b", 2), ("a/x", 2)]),
        in_reach: 11,
        totals: (8, 3, 16),
        ..WalkSummary::default()
    };
    assert_eq!(seen, expected);
}

async fn a_walk_hands_back_the_first_and_counts_the_rest(rig: &Harness) {
    for at in ["d/e/f/4.md", "d/e/3.md", "d/2.md", "2.md", "1.md", "g/1.md"] {
        rig.write_text(at, at).await;
    }
    let all = walk(rig, None, Extent { max: 2, levels: 9 }).await;
    let expected = WalkSummary {
        files: rows(&[("1.md", 4), ("2.md", 4)]),
        folders: rows(&[("d", 24), ("d/e", 18)]),
        in_reach: 10,
        totals: (6, 4, 38),
        ..WalkSummary::default()
    };
    assert_eq!(all, expected);
    let near = walk(rig, None, Extent { max: 9, levels: 2 }).await;
    let expected = WalkSummary {
        files: rows(&[("1.md", 4), ("2.md", 4), ("d/2.md", 6), ("g/1.md", 6)]),
        folders: rows(&[("d", 24), ("d/e", 18), ("g", 6)]),
        in_reach: 7,
        totals: (6, 4, 38),
        ..WalkSummary::default()
    };
    assert_eq!(near, expected);
    let counted = walk(rig, None, Extent { max: 0, levels: 9 }).await;
    assert_eq!(counted, WalkSummary { in_reach: 10, totals: (6, 4, 38), ..WalkSummary::default() });
}

async fn a_walk_of_a_folder_sees_that_folder_alone(rig: &Harness) {
    for at in ["a/b/c.md", "a/b.md", "a-b/c.md", "ab.md"] {
        rig.write_text(at, "1").await;
    }
    let expected = WalkSummary {
        files: rows(&[("a/b.md", 1)]),
        folders: rows(&[("a/b", 1)]),
        in_reach: 2,
        totals: (2, 1, 2),
        ..WalkSummary::default()
    };
    assert_eq!(walk(rig, Some("a"), Extent { max: 9, levels: 1 }).await, expected);
    assert_eq!(walk(rig, Some("nowhere/at/all"), Extent::ALL).await, WalkSummary::default());
}

async fn a_walk_of_what_is_no_folder_says_so(rig: &Harness) {
    rig.write_text("a.md", "1").await;
    rig.external_writer.link(&path("link"));
    rig.external_writer.pipe(&path("pipe"));
    for (from, expected) in [
        ("a.md", "wrong kind"),
        ("a.md/below", "wrong kind"),
        ("pipe", "wrong kind"),
        ("link", "escapes"),
        ("link/below", "escapes"),
    ] {
        let walked = rig.backend.walk(Some(&path(from)), Extent::ALL).await;
        assert_eq!(outcome_word(walked), expected, "{from}");
    }
}

async fn what_is_no_memory_is_passed_over_and_named(rig: &Harness) {
    rig.write_text("d/a.md", "1").await;
    rig.external_writer.link(&path("d/link.md"));
    rig.external_writer.pipe(&path("pipe.md"));
    rig.external_writer.temporary(&path("d/any"));
    let expected = WalkSummary {
        files: rows(&[("d/a.md", 1)]),
        folders: rows(&[("d", 1)]),
        in_reach: 2,
        totals: (1, 1, 1),
        skipped: rows(&[
            ("d/*", SkipReason::Temporary),
            ("d/link.md", SkipReason::Link),
            ("pipe.md", SkipReason::Special),
        ]),
        incomplete: false,
    };
    assert_eq!(walk(rig, None, Extent::ALL).await, expected);
}

/// A root with one of everything in it.
async fn one_of_everything(rig: &Harness) {
    rig.write_text("d/a.md", "text").await;
    rig.external_writer.link(&path("link"));
    rig.external_writer.pipe(&path("pipe"));
}

async fn a_kind_is_told_without_following(rig: &Harness) {
    one_of_everything(rig).await;
    let kind = async |at: &str| rig.backend.kind(&path(at)).await;
    assert_eq!(kind("d").await.unwrap(), Some(FileKind::Folder));
    assert_eq!(kind("d/a.md").await.unwrap(), Some(FileKind::File));
    assert_eq!(kind("link").await.unwrap(), Some(FileKind::Other));
    assert_eq!(kind("pipe").await.unwrap(), Some(FileKind::Other));
    assert_eq!(kind("d/b.md").await.unwrap(), None);
    assert_eq!(kind("e/f/g.md").await.unwrap(), None);
    assert_eq!(outcome_word(kind("d/a.md/x.md").await), "wrong kind");
    assert_eq!(outcome_word(kind("pipe/x.md").await), "wrong kind");
    assert_eq!(outcome_word(kind("link/a.md").await), "escapes");
}

async fn a_read_takes_the_first_bytes_and_says_whether_that_is_all(rig: &Harness) {
    rig.write_text("a.md", "12345").await;
    for (max, text, whole) in
        [(0, "", false), (4, "1234", false), (5, "12345", true), (usize::MAX, "12345", true)]
    {
        let read = rig.backend.read(&path("a.md"), max).await.unwrap();
        let found = (read.bytes.as_slice(), read.stat.bytes, read.is_whole());
        assert_eq!(found, (text.as_bytes(), 5, whole), "{max}");
    }
    rig.write_text("empty.md", "").await;
    let read = rig.backend.read(&path("empty.md"), 0).await.unwrap();
    assert_eq!((read.bytes.len(), read.stat.bytes, read.is_whole()), (0, 0, true));
}

async fn nothing_is_read_through_a_link(rig: &Harness) {
    one_of_everything(rig).await;
    let refused = [
        ("link", "wrong kind"),
        ("pipe", "wrong kind"),
        ("d", "wrong kind"),
        ("link/a.md", "escapes"),
        ("pipe/a.md", "wrong kind"),
        ("d/a.md/b.md", "wrong kind"),
        ("d/b.md", "not found"),
        ("e/f.md", "not found"),
    ];
    for (at, expected) in refused {
        assert_eq!(outcome_word(rig.backend.read(&path(at), 99).await), expected, "{at}");
    }
    // Of several files at once, none of these hides the others.
    let mut paths: Vec<_> = refused.iter().map(|(at, _)| path(at)).collect();
    paths.push(path("d/a.md"));
    let mut read = rig.backend.read_many(&paths, 3).await;
    assert_eq!(read.pop().unwrap().unwrap().bytes, b"tex");
    let words: Vec<_> = read.into_iter().map(outcome_word).collect();
    assert_eq!(words, refused.map(|(_, expected)| expected));
    assert!(rig.backend.read_many(&[], 3).await.is_empty());
}

async fn a_version_has_one_stamp_and_a_new_version_another(rig: &Harness) {
    rig.write_text("a.md", "one").await;
    rig.write_text("b.md", "one").await;
    let first = rig.stamp("a.md").await;
    assert_eq!(rig.stamp("a.md").await, first);
    assert_ne!(rig.stamp("b.md").await, first);
    let by_peer = rig.peer.read(&path("a.md"), 0).await.unwrap().stat.stamp;
    assert_eq!(by_peer, first);
    rig.external_writer.write(&path("a.md"), b"one, and more");
    assert_ne!(rig.stamp("a.md").await, first);
    let at = path("a.md");
    let walked = rig.backend.walk(None, Extent::ALL).await.unwrap();
    let walked = walked.files.iter().find(|file| file.path == at).map(|file| file.stat.stamp);
    assert_eq!(walked, Some(rig.stamp("a.md").await));
}
