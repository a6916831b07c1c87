//! Tests of pins and usage.

use std::sync::Arc;

use memory::change::ChangeKind;
use memory::usage::Usage;
use state::{HistoryStore, UsageRow, UseEvent};

use super::builders::{
    ChangeBuilder, IDENTITY, edit, files, outside, path, remove, rename, time, write,
};
use super::history::record;

pub(super) async fn check_all(make: &impl AsyncFn() -> Arc<dyn HistoryStore>) {
    uses_are_counted(&*make().await).await;
    a_pin_is_one_use_and_pinning_again_changes_nothing(&*make().await).await;
    merged_marks_raise_existing_ones(&*make().await).await;
    the_usage_of_removed_memories_can_be_dropped(&*make().await).await;
    for (builder, expected) in usage_cases() {
        usage_follows(&*make().await, &builder, &expected).await;
    }
    an_externally_removed_memory_loses_its_usage_unless_another_worktree_has_it(&*make().await)
        .await;
    other_identities_are_never_changed(&*make().await).await;
}

pub(super) fn use_of(at: &str, seconds: i64, wrote: bool) -> UseEvent {
    UseEvent { identity: IDENTITY.to_owned(), path: path(at), at: time(seconds), is_write: wrote }
}

async fn uses_are_counted(state: &dyn HistoryStore) {
    let uses = [
        use_of("a.md", 5, false),
        use_of("a.md", 9, true),
        use_of("b.md", 7, false),
        // A clock that went backwards does not change the last use.
        use_of("a.md", 3, false),
    ];
    state.add_uses(&uses).await.unwrap();
    state.add_uses(&[]).await.unwrap();
    record(state, &edit("one", "b.md", ("a", "b")).at(2).uses("b.md")).await;
    state.add_uses(&[use_of("a.md", 4, true)]).await.unwrap();
    let mark = |at: &str, uses, used, written| UsageRow {
        path: path(at),
        pinned: false,
        usage: Usage { uses, last_used_at: Some(time(used)), last_written_at: Some(time(written)) },
    };
    let expected = [mark("a.md", 4, 9, 9), mark("b.md", 2, 7, 2)];
    assert_eq!(state.usage_rows(IDENTITY).await.unwrap(), expected);
}

async fn a_pin_is_one_use_and_pinning_again_changes_nothing(state: &dyn HistoryStore) {
    let a = path("a.md");
    let pin =
        async |pinned, seconds| state.set_pin((IDENTITY, &a), pinned, time(seconds)).await.unwrap();
    let marks = async || state.usage_rows(IDENTITY).await.unwrap();
    let mark = |pinned, uses, used| UsageRow {
        path: path("a.md"),
        pinned,
        usage: Usage { uses, last_used_at: Some(time(used)), last_written_at: None },
    };
    assert!(!pin(false, 1).await);
    assert_eq!(marks().await, []);
    assert!(pin(true, 2).await);
    assert!(!pin(true, 3).await);
    assert_eq!(marks().await, [mark(true, 1, 2)]);
    assert!(pin(false, 4).await);
    assert!(!pin(false, 5).await);
    assert_eq!(marks().await, [mark(false, 1, 2)]);
    assert!(pin(true, 6).await);
    assert_eq!(marks().await, [mark(true, 2, 6)]);
}

async fn merged_marks_raise_existing_ones(state: &dyn HistoryStore) {
    let mark = |at: &str, pinned, uses, used: Option<i64>, written: Option<i64>| UsageRow {
        path: path(at),
        pinned,
        usage: Usage { uses, last_used_at: used.map(time), last_written_at: written.map(time) },
    };
    state.add_uses(&[use_of("a.md", 5, false), use_of("b.md", 9, true)]).await.unwrap();
    assert!(state.set_pin((IDENTITY, &path("b.md")), true, time(9)).await.unwrap());
    let merged = [
        mark("a.md", true, 7, Some(3), Some(2)),
        mark("b.md", false, 1, Some(12), None),
        mark("c.md", true, 1, None, None),
    ];
    for _ in 0..2 {
        state.merge_marks(IDENTITY, &merged).await.unwrap();
        state.merge_marks(IDENTITY, &[]).await.unwrap();
        let expected = [
            mark("a.md", true, 7, Some(5), Some(2)),
            mark("b.md", true, 2, Some(12), Some(9)),
            mark("c.md", true, 1, None, None),
        ];
        assert_eq!(state.usage_rows(IDENTITY).await.unwrap(), expected);
    }
    // More than are sent in one message.
    let many: Vec<_> =
        (0..200).map(|n| mark(&format!("{n:03}.md"), false, n, Some(1), None)).collect();
    state.merge_marks("other", &many).await.unwrap();
    assert_eq!(state.usage_rows("other").await.unwrap(), many);
}

/// Returns the paths with their uses; pinned ones with a star.
async fn shown(state: &dyn HistoryStore, identity: &str) -> Vec<String> {
    let marks = state.usage_rows(identity).await.unwrap();
    let show = |mark: UsageRow| {
        let star = if mark.pinned { "*" } else { "" };
        format!("{}={}{star}", mark.path, mark.usage.uses)
    };
    marks.into_iter().map(show).collect()
}

async fn prepare(state: &dyn HistoryStore, counts: &[(&str, usize)]) {
    for (at, count) in counts {
        state.add_uses(&vec![use_of(at, 1, false); *count]).await.unwrap();
    }
}

async fn the_usage_of_removed_memories_can_be_dropped(state: &dyn HistoryStore) {
    prepare(state, &[("a.md", 1), ("b.md", 2), ("a.md/x", 3), ("c.md", 4)]).await;
    state.drop_usage(IDENTITY, Some(&[])).await.unwrap();
    state.drop_usage("other", None).await.unwrap();
    state.drop_usage(IDENTITY, Some(&[path("a.md"), path("c.md"), path("z.md")])).await.unwrap();
    assert_eq!(shown(state, IDENTITY).await, ["a.md/x=3", "b.md=2"]);
    state.drop_usage(IDENTITY, None).await.unwrap();
    assert_eq!(shown(state, IDENTITY).await, [] as [String; 0]);
}

/// The usage before each case.
const BEFORE: [(&str, usize); 9] = [
    ("a.md", 1),
    ("n_tes/x.md", 8),
    ("notes-2.md", 2),
    ("notes.md", 3),
    ("notes/a.md", 4),
    ("notes/deep/b.md", 5),
    ("notes0/a.md", 6),
    ("notes2/a.md", 7),
    ("stale/a.md", 9),
];

/// Removed and added lines.
type UsageDifference = (Vec<&'static str>, Vec<&'static str>);

/// Changes, with their effect on the usage before.
fn usage_cases() -> Vec<(ChangeBuilder, UsageDifference)> {
    let folder = |kind, from, to| files(kind, Vec::new()).folder("one", from, to);
    let listed =
        rename("one", ("notes/a.md", "kept/a.md"), "x").folder("one", "notes", Some("kept"));
    vec![
        (edit("one", "a.md", ("a", "b")), (vec![], vec![])),
        (remove("one", "a.md", "a"), (vec!["a.md=1"], vec![])),
        (remove("one", "a.md", "a").kind(ChangeKind::Draft), (vec!["a.md=1"], vec![])),
        (remove("one", "a.md", "a").kind(ChangeKind::Undo), (vec!["a.md=1"], vec![])),
        (rename("one", ("a.md", "z.md"), "a"), (vec!["a.md=1"], vec!["z.md=1"])),
        (rename("one", ("a.md", "z.md"), "a").uses("z.md"), (vec!["a.md=1"], vec!["z.md=2"])),
        (
            rename("one", ("a.md", "stale/a.md"), "a"),
            (vec!["a.md=1", "stale/a.md=9"], vec!["stale/a.md=1"]),
        ),
        (rename("one", ("unused.md", "stale/a.md"), "a"), (vec!["stale/a.md=9"], vec![])),
        (
            folder(ChangeKind::Delete, "notes", None),
            (vec!["notes/a.md=4", "notes/deep/b.md=5"], vec![]),
        ),
        (folder(ChangeKind::Delete, "n_tes", None), (vec!["n_tes/x.md=8"], vec![])),
        (
            folder(ChangeKind::Rename, "notes", Some("kept")),
            (vec!["notes/a.md=4", "notes/deep/b.md=5"], vec!["kept/a.md=4", "kept/deep/b.md=5"]),
        ),
        (
            listed,
            (vec!["notes/a.md=4", "notes/deep/b.md=5"], vec!["kept/a.md=4", "kept/deep/b.md=5"]),
        ),
        (
            folder(ChangeKind::Rename, "notes", Some("stale")),
            (
                vec!["notes/a.md=4", "notes/deep/b.md=5", "stale/a.md=9"],
                vec!["stale/a.md=4", "stale/deep/b.md=5"],
            ),
        ),
        (
            folder(ChangeKind::Rename, "notes/deep", Some("notes")),
            (vec!["notes/a.md=4", "notes/deep/b.md=5"], vec!["notes/b.md=5"]),
        ),
        (folder(ChangeKind::Outside, "notes", None), (vec![], vec![])),
    ]
}

async fn usage_follows(
    state: &dyn HistoryStore,
    builder: &ChangeBuilder,
    changed: &UsageDifference,
) {
    prepare(state, &BEFORE).await;
    let (gone, added) = changed;
    let mut expected: Vec<String> =
        BEFORE.iter().map(|(at, count)| format!("{at}={count}")).collect();
    expected.retain(|line| !gone.contains(&line.as_str()));
    expected.extend(added.iter().map(|&line| line.to_owned()));
    expected.sort();
    record(state, builder).await;
    let mut found = shown(state, IDENTITY).await;
    found.sort();
    assert_eq!(found, expected, "{builder:?}");
}

async fn an_externally_removed_memory_loses_its_usage_unless_another_worktree_has_it(
    state: &dyn HistoryStore,
) {
    prepare(state, &[("a.md", 1), ("b.md", 2)]).await;
    record(state, &write("one", "a.md", "a").merge(write("one", "b.md", "b"))).await;
    record(state, &write("two", "a.md", "a")).await;
    record(state, &outside("one", "b.md", "b").merge(outside("one", "a.md", "a"))).await;
    assert_eq!(shown(state, IDENTITY).await, ["a.md=1"]);
    record(state, &outside("two", "a.md", "a")).await;
    assert_eq!(shown(state, IDENTITY).await, [] as [String; 0]);
}

async fn other_identities_are_never_changed(state: &dyn HistoryStore) {
    let other = |at: &str| UseEvent { identity: "global".to_owned(), ..use_of(at, 1, false) };
    prepare(state, &[("notes/a.md", 1)]).await;
    state.add_uses(&[other("notes/a.md"), other("kept/a.md")]).await.unwrap();
    let moved = files(ChangeKind::Rename, Vec::new()).folder("one", "notes", Some("kept"));
    record(state, &moved).await;
    record(state, &remove("one", "kept/a.md", "a")).await;
    assert_eq!(shown(state, IDENTITY).await, [] as [String; 0]);
    assert_eq!(shown(state, "global").await, ["kept/a.md=1", "notes/a.md=1"]);
}
