//! Tests of removing files and folders.

use std::sync::Arc;

use store::backend::{Extent, Stamp, SweepReport};

use super::harness::{Harness, outcome_word, path};

pub(super) async fn check_all(make: &impl Fn() -> Harness) {
    removing_a_file_requires_its_stamp(&make()).await;
    removing_a_folder_requires_the_stamps_of_its_memories(&make()).await;
    only_empty_folders_are_removed_as_empty(&make()).await;
    if !make().holds_only_files {
        removing_a_folder_removes_links_but_not_their_targets(&make()).await;
        a_sweep_removes_only_leftover_temporary_files(&make()).await;
    }
}

async fn removing_a_file_requires_its_stamp(harness: &Harness) {
    harness.write_text("d/a.md", "a").await;
    harness.link("link");
    harness.pipe("pipe");
    let (stamp, stale) = (harness.stamp("d/a.md").await, Stamp([u64::MAX; 4]));
    for (name, expect, expected) in [
        ("d/a.md", stale, "changed"),
        ("d", stamp, "changed"),
        ("link", stamp, "changed"),
        ("pipe", stamp, "changed"),
        ("d/b.md", stamp, "not found"),
        ("e/f.md", stamp, "not found"),
        ("link/a.md", stamp, "escapes"),
        ("d/a.md/b.md", stamp, "wrong kind"),
    ] {
        if !harness.can_hold(name) {
            continue;
        }
        let removed = harness.backend.remove_file(&path(name), expect).await;
        assert_eq!(outcome_word(removed), expected, "{name}");
        assert_eq!(harness.shown().await, ["d/", "d/a.md=a"], "{name}");
    }
    harness.external_writer.write(&path("d/a.md"), b"theirs");
    assert_eq!(outcome_word(harness.backend.remove_file(&path("d/a.md"), stamp).await), "changed");
    assert_eq!(harness.shown().await, ["d/", "d/a.md=theirs"]);
    let stamp = harness.stamp("d/a.md").await;
    harness.backend.remove_file(&path("d/a.md"), stamp).await.unwrap();
    assert_eq!(harness.shown().await, ["d/"]);
}

async fn removing_a_folder_requires_the_stamps_of_its_memories(harness: &Harness) {
    harness.write_text("d/a.md", "a").await;
    harness.write_text("d/e/b.md", "b").await;
    harness.write_text("d-e.md", "c").await;
    let walk = harness.backend.walk(Some(&path("d")), Extent::ALL).await.unwrap();
    let all: Vec<_> = walk.files.into_iter().map(|file| (file.path, file.stat.stamp)).collect();
    let before = ["d-e.md=c", "d/", "d/a.md=a", "d/e/", "d/e/b.md=b"];
    let stale: Vec<_> = all.iter().map(|(path, _)| (path.clone(), Stamp([0; 4]))).collect();
    let more = [all.clone(), vec![(path("d/c.md"), Stamp([0; 4]))]].concat();
    for (name, expect) in
        [("none", &[][..]), ("fewer", &all[..1]), ("more", &more), ("stale", &stale)]
    {
        let removed = harness.backend.remove_folder(&path("d"), expect).await;
        assert_eq!(outcome_word(removed), "changed", "{name}");
        assert_eq!(harness.shown().await, before, "{name}");
    }
    for (name, expected) in
        [("d-e.md", "wrong kind"), ("none", "not found"), ("d/a.md/x", "wrong kind")]
    {
        assert_eq!(
            outcome_word(harness.backend.remove_folder(&path(name), &all).await),
            expected,
            "{name}"
        );
    }
    let reversed: Vec<_> = all.into_iter().rev().collect();
    harness.backend.remove_folder(&path("d"), &reversed).await.unwrap();
    assert_eq!(harness.shown().await, ["d-e.md=c"]);
}

async fn removing_a_folder_removes_links_but_not_their_targets(harness: &Harness) {
    harness.write_text("d/a.md", "a").await;
    harness.link("d/e/link");
    harness.pipe("d/pipe");
    harness.link("link");
    let stamp = harness.stamp("d/a.md").await;
    assert_eq!(outcome_word(harness.backend.remove_folder(&path("link"), &[]).await), "wrong kind");
    assert_eq!(outcome_word(harness.backend.remove_folder(&path("link/d"), &[]).await), "escapes");
    harness.backend.remove_folder(&path("d"), &[(path("d/a.md"), stamp)]).await.unwrap();
    assert_eq!(harness.shown().await, [""; 0]);
}

async fn only_empty_folders_are_removed_as_empty(harness: &Harness) {
    harness.write_text("d/e/a.md", "a").await;
    harness.write_text("d/f/b.md", "b").await;
    harness.link("g/link");
    let stamp = harness.stamp("d/f/b.md").await;
    harness.backend.remove_file(&path("d/f/b.md"), stamp).await.unwrap();
    for name in ["d", "g", "d/e/a.md", "none", "g/link"] {
        harness.backend.remove_empty(&path(name)).await.unwrap();
    }
    let shown = harness.expected(&["d/", "d/e/", "d/e/a.md=a", "g/"]);
    assert_eq!(harness.shown().await, shown);
    harness.external_writer.remove(&path("d/e/a.md"));
    harness.backend.remove_empty(&path("d")).await.unwrap();
    assert_eq!(harness.shown().await, harness.expected(&["g/"]));
}

async fn a_sweep_removes_only_leftover_temporary_files(harness: &Harness) {
    harness.write_text("d/a.md", "a").await;
    harness.link("link");
    for name in ["x", "d/x", "d/e/x"] {
        harness.temporary(name);
    }
    assert_eq!(harness.shown().await, ["3 temporary", "d/", "d/a.md=a", "d/e/"]);
    let swept = |removed| SweepReport { removed, ..SweepReport::default() };
    assert_eq!(harness.backend.sweep(Arc::new(|_, _| Some(false))).await.unwrap(), swept(3));
    assert_eq!(harness.backend.sweep(Arc::new(|_, _| Some(false))).await.unwrap(), swept(0));
    assert_eq!(harness.shown().await, ["d/", "d/a.md=a", "d/e/"]);
}
