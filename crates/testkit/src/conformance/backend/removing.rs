//! Claims about taking files and folders away.

use std::sync::Arc;

use store::backend::{Extent, Stamp, SweepReport};

use super::harness::{Harness, outcome_word, path};

pub(super) async fn check_all(make: &impl Fn() -> Harness) {
    a_file_is_removed_only_if_it_is_as_expected(&make()).await;
    a_folder_is_removed_only_if_its_memories_are_as_expected(&make()).await;
    a_folder_takes_links_and_pipes_with_it_and_nothing_behind_them(&make()).await;
    only_what_is_empty_is_removed_as_empty(&make()).await;
    a_sweep_takes_what_was_left_over_and_nothing_else(&make()).await;
}

async fn a_file_is_removed_only_if_it_is_as_expected(rig: &Harness) {
    rig.write_text("d/a.md", "a").await;
    rig.external_writer.link(&path("link"));
    rig.external_writer.pipe(&path("pipe"));
    let (stamp, stale) = (rig.stamp("d/a.md").await, Stamp([u64::MAX; 4]));
    for (at, expect, expected) in [
        ("d/a.md", stale, "changed"),
        ("d", stamp, "changed"),
        ("link", stamp, "changed"),
        ("pipe", stamp, "changed"),
        ("d/b.md", stamp, "not found"),
        ("e/f.md", stamp, "not found"),
        ("link/a.md", stamp, "escapes"),
        ("d/a.md/b.md", stamp, "wrong kind"),
    ] {
        let removed = rig.backend.remove_file(&path(at), expect).await;
        assert_eq!(outcome_word(removed), expected, "{at}");
        assert_eq!(rig.shown().await, ["d/", "d/a.md=a"], "{at}");
    }
    rig.external_writer.write(&path("d/a.md"), b"theirs");
    assert_eq!(outcome_word(rig.backend.remove_file(&path("d/a.md"), stamp).await), "changed");
    assert_eq!(rig.shown().await, ["d/", "d/a.md=theirs"]);
    let stamp = rig.stamp("d/a.md").await;
    rig.backend.remove_file(&path("d/a.md"), stamp).await.unwrap();
    assert_eq!(rig.shown().await, ["d/"]);
}

async fn a_folder_is_removed_only_if_its_memories_are_as_expected(rig: &Harness) {
    rig.write_text("d/a.md", "a").await;
    rig.write_text("d/e/b.md", "b").await;
    rig.write_text("d-e.md", "c").await;
    let walk = rig.backend.walk(Some(&path("d")), Extent::ALL).await.unwrap();
    let all: Vec<_> = walk.files.into_iter().map(|file| (file.path, file.stat.stamp)).collect();
    let before = ["d-e.md=c", "d/", "d/a.md=a", "d/e/", "d/e/b.md=b"];
    let stale: Vec<_> = all.iter().map(|(path, _)| (path.clone(), Stamp([0; 4]))).collect();
    let more = [all.clone(), vec![(path("d/c.md"), Stamp([0; 4]))]].concat();
    for (name, expect) in
        [("none", &[][..]), ("fewer", &all[..1]), ("more", &more), ("stale", &stale)]
    {
        let removed = rig.backend.remove_folder(&path("d"), expect).await;
        assert_eq!(outcome_word(removed), "changed", "{name}");
        assert_eq!(rig.shown().await, before, "{name}");
    }
    for (at, expected) in
        [("d-e.md", "wrong kind"), ("none", "not found"), ("d/a.md/x", "wrong kind")]
    {
        assert_eq!(
            outcome_word(rig.backend.remove_folder(&path(at), &all).await),
            expected,
            "{at}"
        );
    }
    let reversed: Vec<_> = all.into_iter().rev().collect();
    rig.backend.remove_folder(&path("d"), &reversed).await.unwrap();
    assert_eq!(rig.shown().await, ["d-e.md=c"]);
}

async fn a_folder_takes_links_and_pipes_with_it_and_nothing_behind_them(rig: &Harness) {
    rig.write_text("d/a.md", "a").await;
    rig.external_writer.link(&path("d/e/link"));
    rig.external_writer.pipe(&path("d/pipe"));
    rig.external_writer.link(&path("link"));
    let stamp = rig.stamp("d/a.md").await;
    assert_eq!(outcome_word(rig.backend.remove_folder(&path("link"), &[]).await), "wrong kind");
    assert_eq!(outcome_word(rig.backend.remove_folder(&path("link/d"), &[]).await), "escapes");
    rig.backend.remove_folder(&path("d"), &[(path("d/a.md"), stamp)]).await.unwrap();
    assert_eq!(rig.shown().await, [""; 0]);
}

async fn only_what_is_empty_is_removed_as_empty(rig: &Harness) {
    rig.write_text("d/e/a.md", "a").await;
    rig.write_text("d/f/b.md", "b").await;
    rig.external_writer.link(&path("g/link"));
    let stamp = rig.stamp("d/f/b.md").await;
    rig.backend.remove_file(&path("d/f/b.md"), stamp).await.unwrap();
    for at in ["d", "g", "d/e/a.md", "none", "g/link"] {
        rig.backend.remove_empty(&path(at)).await.unwrap();
    }
    assert_eq!(rig.shown().await, ["d/", "d/e/", "d/e/a.md=a", "g/"]);
    rig.external_writer.remove(&path("d/e/a.md"));
    rig.backend.remove_empty(&path("d")).await.unwrap();
    assert_eq!(rig.shown().await, ["g/"]);
}

async fn a_sweep_takes_what_was_left_over_and_nothing_else(rig: &Harness) {
    rig.write_text("d/a.md", "a").await;
    rig.external_writer.link(&path("link"));
    for at in ["x", "d/x", "d/e/x"] {
        rig.external_writer.temporary(&path(at));
    }
    assert_eq!(rig.shown().await, ["3 temporary", "d/", "d/a.md=a", "d/e/"]);
    let swept = |removed| SweepReport { removed, ..SweepReport::default() };
    assert_eq!(rig.backend.sweep(Arc::new(|_, _| false)).await.unwrap(), swept(3));
    assert_eq!(rig.backend.sweep(Arc::new(|_, _| false)).await.unwrap(), swept(0));
    assert_eq!(rig.shown().await, ["d/", "d/a.md=a", "d/e/"]);
}
