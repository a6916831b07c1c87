//! What every backend promises: bytes under paths, changed in one step or not at all.

use std::sync::Arc;
use std::time::Duration;

use memory::path::RelativePath;
use store::backend::{Backend, BackendError, Expect, Extent, Kind, Stamp, Walk};

const WAIT: Duration = Duration::from_secs(10);

/// Runs the suite; `make` returns an empty root, a new one each time.
pub async fn run(make: impl AsyncFn() -> Arc<dyn Backend>) {
    a_missing_root_reads_as_empty(&*make().await).await;
    bytes_come_back_as_they_were_put(&*make().await).await;
    a_write_that_expects_something_else_changes_nothing(&*make().await).await;
    staged_bytes_are_seen_by_nobody(&*make().await).await;
    a_removal_takes_what_was_expected(&*make().await).await;
    a_folder_goes_only_if_it_holds_what_is_known(&*make().await).await;
    a_rename_needs_a_free_path(&*make().await).await;
    a_walk_keeps_the_first_and_counts_all(&*make().await).await;
    empty_folders_can_be_removed(&*make().await).await;
    a_held_root_counts_writes_and_remembers_a_death(&*make().await).await;
}

fn path(text: &str) -> RelativePath {
    #[expect(clippy::expect_used, reason = "the suite's own paths are within the grammar")]
    RelativePath::parse(text).expect("a path of the suite")
}

/// Puts bytes at a path that must be free, and returns the version that is there afterwards.
async fn put(backend: &dyn Backend, at: &str, text: &str) -> Stamp {
    let staged = backend.stage(&path(at), Arc::from(text.as_bytes())).await;
    let published = match staged {
        Ok(staged) => staged.publish(Expect::Absent).await,
        Err(error) => Err(error),
    };
    assert!(published.is_ok(), "{at}: {published:?}");
    stamp(backend, at).await
}

async fn stamp(backend: &dyn Backend, at: &str) -> Stamp {
    let read = backend.read(&path(at), 1_000).await;
    assert!(read.is_ok(), "{at}: {read:?}");
    read.map(|read| read.stat.stamp).unwrap_or_default()
}

async fn text(backend: &dyn Backend, at: &str) -> Option<String> {
    let read = backend.read(&path(at), 1_000).await.ok()?;
    String::from_utf8(read.bytes).ok()
}

async fn walk(backend: &dyn Backend, from: Option<&str>, extent: Extent) -> Walk {
    let from = from.map(path);
    let walk = backend.walk(from.as_ref(), extent).await;
    assert!(walk.is_ok(), "{walk:?}");
    walk.unwrap_or_default()
}

fn names(walk: &Walk) -> Vec<&str> {
    walk.files.iter().map(|file| file.path.as_str()).collect()
}

async fn a_missing_root_reads_as_empty(backend: &dyn Backend) {
    assert_eq!(walk(backend, None, Extent::ALL).await, Walk::default());
    assert!(matches!(backend.kind(&path("a.md")).await, Ok(None)));
    assert!(matches!(backend.read(&path("a.md"), 9).await, Err(BackendError::NotFound)));
    assert!(matches!(backend.exists().await, Ok(false)), "reading makes nothing");
}

async fn bytes_come_back_as_they_were_put(backend: &dyn Backend) {
    put(backend, "d/e/a.md", "one\n").await;
    assert_eq!(text(backend, "d/e/a.md").await.as_deref(), Some("one\n"));
    assert!(matches!(backend.kind(&path("d/e")).await, Ok(Some(Kind::Folder))));
    assert!(matches!(backend.kind(&path("d/e/a.md")).await, Ok(Some(Kind::File))));
    let part = backend.read(&path("d/e/a.md"), 2).await;
    assert!(part.is_ok_and(|read| read.bytes == b"on" && !read.is_whole()));
    let folder = backend.read(&path("d/e"), 9).await;
    assert!(matches!(folder, Err(BackendError::WrongKind)), "{folder:?}");
    assert!(matches!(backend.exists().await, Ok(true)));
}

async fn a_write_that_expects_something_else_changes_nothing(backend: &dyn Backend) {
    let first = put(backend, "a.md", "one\n").await;
    for expect in [Expect::Absent, Expect::File(Stamp([1, 2, 3, 4]))] {
        let staged = backend.stage(&path("a.md"), Arc::from(&b"two\n"[..])).await;
        assert!(staged.is_ok());
        if let Ok(staged) = staged {
            let refused = staged.publish(expect).await;
            assert!(
                matches!(refused, Err(BackendError::Changed | BackendError::Occupied)),
                "{refused:?}"
            );
        }
        assert_eq!(text(backend, "a.md").await.as_deref(), Some("one\n"));
    }
    if let Ok(staged) = backend.stage(&path("a.md"), Arc::from(&b"two\n"[..])).await {
        assert!(staged.publish(Expect::File(first)).await.is_ok());
    }
    assert_eq!(text(backend, "a.md").await.as_deref(), Some("two\n"));
    assert_ne!(stamp(backend, "a.md").await, first, "another version has another stamp");
}

async fn staged_bytes_are_seen_by_nobody(backend: &dyn Backend) {
    put(backend, "a.md", "one\n").await;
    let staged = backend.stage(&path("n/b.md"), Arc::from(&b"two\n"[..])).await;
    assert_eq!(names(&walk(backend, None, Extent::ALL).await), ["a.md"]);
    drop(staged);
    assert!(matches!(backend.kind(&path("n")).await, Ok(None)), "nor is its folder left over");
}

async fn a_removal_takes_what_was_expected(backend: &dyn Backend) {
    let stamp = put(backend, "a.md", "one\n").await;
    let refused = backend.remove_file(&path("a.md"), Stamp([1, 2, 3, 4])).await;
    assert!(matches!(refused, Err(BackendError::Changed)), "{refused:?}");
    assert_eq!(text(backend, "a.md").await.as_deref(), Some("one\n"));
    assert!(backend.remove_file(&path("a.md"), stamp).await.is_ok());
    assert_eq!(text(backend, "a.md").await, None);
    assert!(matches!(backend.remove_file(&path("a.md"), stamp).await, Err(BackendError::NotFound)));
}

async fn a_folder_goes_only_if_it_holds_what_is_known(backend: &dyn Backend) {
    let known = vec![(path("d/a.md"), put(backend, "d/a.md", "one\n").await)];
    put(backend, "d/e/b.md", "two\n").await;
    let refused = backend.remove_folder(&path("d"), &known).await;
    assert!(matches!(refused, Err(BackendError::Changed)), "{refused:?}");
    assert_eq!(text(backend, "d/e/b.md").await.as_deref(), Some("two\n"));
    let all = [known, vec![(path("d/e/b.md"), stamp(backend, "d/e/b.md").await)]].concat();
    assert!(backend.remove_folder(&path("d"), &all).await.is_ok());
    assert!(matches!(backend.kind(&path("d")).await, Ok(None)));
}

async fn a_rename_needs_a_free_path(backend: &dyn Backend) {
    put(backend, "d/a.md", "one\n").await;
    put(backend, "b.md", "two\n").await;
    let refused = backend.rename(&path("b.md"), &path("d/a.md")).await;
    assert!(matches!(refused, Err(BackendError::Occupied)), "{refused:?}");
    assert!(backend.rename(&path("d"), &path("x/y")).await.is_ok());
    assert!(backend.rename(&path("b.md"), &path("x/b.md")).await.is_ok());
    assert_eq!(names(&walk(backend, None, Extent::ALL).await), ["x/b.md", "x/y/a.md"]);
    let gone = backend.rename(&path("d"), &path("z")).await;
    assert!(matches!(gone, Err(BackendError::NotFound)), "{gone:?}");
}

async fn a_walk_keeps_the_first_and_counts_all(backend: &dyn Backend) {
    for name in ["a/x.md", "a.md", "a-b.md", "a/y/z.md", "b.md"] {
        put(backend, name, "1234").await;
    }
    let all = walk(backend, None, Extent::ALL).await;
    assert_eq!(names(&all), ["a-b.md", "a.md", "a/x.md", "a/y/z.md", "b.md"]);
    let folders: Vec<_> = all.folders.iter().map(|one| (one.path.as_str(), one.bytes)).collect();
    assert_eq!(folders, [("a", 8), ("a/y", 4)]);
    let first = walk(backend, None, Extent { max: 2, levels: 1 }).await;
    assert_eq!(names(&first), ["a-b.md", "a.md"]);
    assert_eq!((first.files_total, first.bytes_total, first.in_reach), (5, 20, 4));
    let below = walk(backend, Some("a"), Extent::ALL).await;
    assert_eq!(names(&below), ["a/x.md", "a/y/z.md"]);
}

async fn empty_folders_can_be_removed(backend: &dyn Backend) {
    let stamp = put(backend, "d/e/f/a.md", "one\n").await;
    put(backend, "d/b.md", "two\n").await;
    assert!(backend.remove_file(&path("d/e/f/a.md"), stamp).await.is_ok());
    assert!(backend.remove_empty(&path("d")).await.is_ok());
    assert!(matches!(backend.kind(&path("d/e")).await, Ok(None)));
    assert_eq!(text(backend, "d/b.md").await.as_deref(), Some("two\n"));
    assert!(backend.sync(&[path("d/b.md"), path("d/e/f/a.md")]).await.is_ok());
    assert!(matches!(backend.sweep().await, Ok(0)));
}

async fn a_held_root_counts_writes_and_remembers_a_death(backend: &dyn Backend) {
    let held = backend.lock(WAIT).await;
    assert!(held.is_ok(), "{held:?}");
    let Ok(mut held) = held else { return };
    let busy = backend.lock(Duration::from_millis(20)).await;
    assert!(matches!(busy, Err(BackendError::Locked(_))), "{busy:?}");
    assert!(held.begin().is_ok() && held.end().is_ok());
    let counted = held.generation();
    drop(held);
    let Ok(mut held) = backend.lock(WAIT).await else { return };
    assert_eq!((held.generation(), held.was_interrupted()), (counted, false));
    assert!(held.begin().is_ok());
    drop(held);
    assert!(backend.is_interrupted().await);
    let Ok(held) = backend.lock(WAIT).await else { return };
    assert!(held.was_interrupted() && held.generation() > counted);
    assert!(!held.machine_restarted());
}
