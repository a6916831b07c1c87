//! Tests of reading a root: walks, kinds, reads.

use std::sync::Arc;

use store::backend::{Extent, FileKind, SkipReason, Stamp, SweepReport, Walk};

use super::harness::{Harness, WalkSummary, outcome_word, path, rows};

pub(super) async fn check_all(make: &impl Fn() -> Harness) {
    a_missing_root_is_empty_and_reading_does_not_create_it(&make()).await;
    a_walk_is_in_byte_order_of_the_full_paths(&make()).await;
    a_walk_returns_the_first_entries_and_counts_all(&make()).await;
    a_walk_of_a_folder_returns_only_that_folder(&make()).await;
    a_walk_of_anything_but_a_folder_is_an_error(&make()).await;
    if !make().holds_only_files {
        entries_that_are_no_memories_are_skipped_and_listed(&make()).await;
    }
    a_kind_does_not_follow_links(&make()).await;
    a_read_is_limited_and_reports_whether_it_is_whole(&make()).await;
    nothing_is_read_through_a_link(&make()).await;
    a_stamp_changes_with_the_version_and_only_then(&make()).await;
}

async fn walk(harness: &Harness, from: Option<&str>, extent: Extent) -> WalkSummary {
    let from = from.map(path);
    WalkSummary::from_walk(harness.backend.walk(from.as_ref(), extent).await.unwrap())
}

async fn a_missing_root_is_empty_and_reading_does_not_create_it(harness: &Harness) {
    let backend = &harness.backend;
    assert_eq!(backend.walk(None, Extent::ALL).await.unwrap(), Walk::default());
    assert_eq!(backend.walk(Some(&path("d")), Extent::ALL).await.unwrap(), Walk::default());
    assert_eq!(backend.kind(&path("d/a.md")).await.unwrap(), None);
    assert_eq!(outcome_word(backend.read(&path("a.md"), 9).await), "not found");
    assert_eq!(
        outcome_word(backend.remove_file(&path("a.md"), Stamp::default()).await),
        "not found"
    );
    assert_eq!(outcome_word(backend.remove_folder(&path("d"), &[]).await), "not found");
    assert_eq!(backend.sweep(Arc::new(|_, _| Some(false))).await.unwrap(), SweepReport::default());
    backend.remove_empty(&path("d")).await.unwrap();
    backend.sync(&[path("a.md"), path("d/b.md")]).await.unwrap();
    assert!(!backend.exists().await.unwrap());
    harness.write_text("a.md", "").await;
    assert!(backend.exists().await.unwrap());
}

async fn a_walk_is_in_byte_order_of_the_full_paths(harness: &Harness) {
    for name in ["a/x.md", "a.md", "a-b.md", "B.md", "a/x/y.md", "é.md", "a b/c.md", "a/x-.md"] {
        harness.write_text(name, "12").await;
    }
    let summary = walk(harness, None, Extent::ALL).await;
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
    assert_eq!(summary, expected);
}

async fn a_walk_returns_the_first_entries_and_counts_all(harness: &Harness) {
    for name in ["d/e/f/4.md", "d/e/3.md", "d/2.md", "2.md", "1.md", "g/1.md"] {
        harness.write_text(name, name).await;
    }
    let all = walk(harness, None, Extent { max: 2, levels: 9 }).await;
    let expected = WalkSummary {
        files: rows(&[("1.md", 4), ("2.md", 4)]),
        folders: rows(&[("d", 24), ("d/e", 18)]),
        in_reach: 10,
        totals: (6, 4, 38),
        ..WalkSummary::default()
    };
    assert_eq!(all, expected);
    let near = walk(harness, None, Extent { max: 9, levels: 2 }).await;
    let expected = WalkSummary {
        files: rows(&[("1.md", 4), ("2.md", 4), ("d/2.md", 6), ("g/1.md", 6)]),
        folders: rows(&[("d", 24), ("d/e", 18), ("g", 6)]),
        in_reach: 7,
        totals: (6, 4, 38),
        ..WalkSummary::default()
    };
    assert_eq!(near, expected);
    let counted = walk(harness, None, Extent { max: 0, levels: 9 }).await;
    assert_eq!(counted, WalkSummary { in_reach: 10, totals: (6, 4, 38), ..WalkSummary::default() });
}

async fn a_walk_of_a_folder_returns_only_that_folder(harness: &Harness) {
    for name in ["a/b/c.md", "a/b.md", "a-b/c.md", "ab.md"] {
        harness.write_text(name, "1").await;
    }
    let expected = WalkSummary {
        files: rows(&[("a/b.md", 1)]),
        folders: rows(&[("a/b", 1)]),
        in_reach: 2,
        totals: (2, 1, 2),
        ..WalkSummary::default()
    };
    assert_eq!(walk(harness, Some("a"), Extent { max: 9, levels: 1 }).await, expected);
    assert_eq!(walk(harness, Some("nowhere/at/all"), Extent::ALL).await, WalkSummary::default());
}

async fn a_walk_of_anything_but_a_folder_is_an_error(harness: &Harness) {
    harness.write_text("a.md", "1").await;
    harness.link("link");
    harness.pipe("pipe");
    for (from, expected) in [
        ("a.md", "wrong kind"),
        ("a.md/below", "wrong kind"),
        ("pipe", "wrong kind"),
        ("link", "escapes"),
        ("link/below", "escapes"),
    ] {
        if harness.can_hold(from) {
            let walked = harness.backend.walk(Some(&path(from)), Extent::ALL).await;
            assert_eq!(outcome_word(walked), expected, "{from}");
        }
    }
}

async fn entries_that_are_no_memories_are_skipped_and_listed(harness: &Harness) {
    harness.write_text("d/a.md", "1").await;
    harness.link("d/link.md");
    harness.pipe("pipe.md");
    harness.temporary("d/any");
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
    assert_eq!(walk(harness, None, Extent::ALL).await, expected);
}

/// Creates an entry of each kind.
async fn one_of_everything(harness: &Harness) {
    harness.write_text("d/a.md", "text").await;
    harness.link("link");
    harness.pipe("pipe");
}

async fn a_kind_does_not_follow_links(harness: &Harness) {
    one_of_everything(harness).await;
    let kind = async |name: &str| harness.backend.kind(&path(name)).await;
    assert_eq!(kind("d").await.unwrap(), Some(FileKind::Folder));
    assert_eq!(kind("d/a.md").await.unwrap(), Some(FileKind::File));
    assert_eq!(kind("d/b.md").await.unwrap(), None);
    assert_eq!(kind("e/f/g.md").await.unwrap(), None);
    assert_eq!(outcome_word(kind("d/a.md/x.md").await), "wrong kind");
    if harness.holds_only_files {
        return;
    }
    assert_eq!(kind("link").await.unwrap(), Some(FileKind::Other));
    assert_eq!(kind("pipe").await.unwrap(), Some(FileKind::Other));
    assert_eq!(outcome_word(kind("pipe/x.md").await), "wrong kind");
    assert_eq!(outcome_word(kind("link/a.md").await), "escapes");
}

async fn a_read_is_limited_and_reports_whether_it_is_whole(harness: &Harness) {
    harness.write_text("a.md", "12345").await;
    for (max, text, whole) in
        [(0, "", false), (4, "1234", false), (5, "12345", true), (usize::MAX, "12345", true)]
    {
        let read = harness.backend.read(&path("a.md"), max).await.unwrap();
        let summary = (read.bytes.as_slice(), read.stat.bytes, read.is_whole());
        assert_eq!(summary, (text.as_bytes(), 5, whole), "{max}");
    }
    harness.write_text("empty.md", "").await;
    let read = harness.backend.read(&path("empty.md"), 0).await.unwrap();
    assert_eq!((read.bytes.len(), read.stat.bytes, read.is_whole()), (0, 0, true));
}

async fn nothing_is_read_through_a_link(harness: &Harness) {
    one_of_everything(harness).await;
    let mut refused = vec![
        ("link", "wrong kind"),
        ("pipe", "wrong kind"),
        ("d", "wrong kind"),
        ("link/a.md", "escapes"),
        ("pipe/a.md", "wrong kind"),
        ("d/a.md/b.md", "wrong kind"),
        ("d/b.md", "not found"),
        ("e/f.md", "not found"),
    ];
    refused.retain(|(name, _)| harness.can_hold(name));
    for (name, expected) in refused.iter().copied() {
        assert_eq!(outcome_word(harness.backend.read(&path(name), 99).await), expected, "{name}");
    }
    // If several files are read at once, one error does not hide the others.
    let mut paths: Vec<_> = refused.iter().map(|(name, _)| path(name)).collect();
    paths.push(path("d/a.md"));
    let mut read = harness.backend.read_many(&paths, 3).await;
    assert_eq!(read.pop().unwrap().unwrap().bytes, b"tex");
    let words: Vec<_> = read.into_iter().map(outcome_word).collect();
    let expected: Vec<_> = refused.iter().map(|(_, expected)| *expected).collect();
    assert_eq!(words, expected);
    assert!(harness.backend.read_many(&[], 3).await.is_empty());
}

async fn a_stamp_changes_with_the_version_and_only_then(harness: &Harness) {
    harness.write_text("a.md", "one").await;
    harness.write_text("b.md", "one").await;
    let first = harness.stamp("a.md").await;
    assert_eq!(harness.stamp("a.md").await, first);
    assert_ne!(harness.stamp("b.md").await, first);
    let by_peer = harness.peer.read(&path("a.md"), 0).await.unwrap().stat.stamp;
    assert_eq!(by_peer, first);
    harness.external_writer.write(&path("a.md"), b"one, and more");
    assert_ne!(harness.stamp("a.md").await, first);
    let changed = path("a.md");
    let walked = harness.backend.walk(None, Extent::ALL).await.unwrap();
    let walked = walked.files.iter().find(|file| file.path == changed).map(|file| file.stat.stamp);
    assert_eq!(walked, Some(harness.stamp("a.md").await));
}
