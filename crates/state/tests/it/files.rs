//! The database file: its creation, its permissions, and folders or disks that refuse it.

use std::fs;
use std::path::Path;
use std::process::Command;

use lukasa_state::{ChangeQuery, HistoryStore, Retention, StateError, Stats, set_aside_databases};
use memory::change::ChangeId;
use memory::error_code::MemoryErrorCode;
use testkit::conformance::state::{edit, path, time, write};

use crate::support::{StateFolder, fill, names, recorded_changes};

const NOTHING: Retention = Retention { age: std::time::Duration::ZERO, bytes: 0 };

#[tokio::test]
async fn reading_and_removing_create_no_file() {
    let place = StateFolder::new();
    let state = place.state();
    assert_eq!(state.usage_rows("global").await.unwrap(), []);
    assert_eq!(state.changes(&ChangeQuery { max: 9, ..ChangeQuery::default() }).await.unwrap(), []);
    assert_eq!(state.open_changes("one").await.unwrap(), []);
    assert_eq!(state.stats().await.unwrap(), Stats::default());
    assert_eq!(state.check().await.unwrap(), [] as [String; 0]);
    assert_eq!(state.repair().await.unwrap(), None);
    state.prune(NOTHING, time(0)).await.unwrap();
    state.mark_durable(&[ChangeId(1)]).await.unwrap();
    state.abort_change(ChangeId(1)).await.unwrap();
    state.drop_usage("global", None).await.unwrap();
    state.set_pin(("global", &path("a.md")), false, time(0)).await.unwrap();
    state.add_uses(&[]).await.unwrap();
    state.close().await;
    assert_eq!(place.names(), [] as [String; 0]);
}

#[tokio::test]
async fn only_the_owner_may_read_the_database_files() {
    use std::os::unix::fs::PermissionsExt;
    let place = StateFolder::new();
    let state = place.state();
    fill(&state, 1).await;
    let expected = ["state.db", "state.db-shm", "state.db-wal", "state.db.lock"];
    assert_eq!(place.names(), expected);
    for name in expected {
        let mode = fs::metadata(place.path().with_file_name(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    state.close().await;
    assert_eq!(place.names(), ["state.db", "state.db.lock"]);
}

#[tokio::test]
async fn a_second_state_on_the_same_file_reads_the_same() {
    let place = StateFolder::new();
    let first = place.state();
    fill(&first, 3).await;
    let second = place.state();
    let query = ChangeQuery { max: 9, ..ChangeQuery::default() };
    assert_eq!(second.changes(&query).await.unwrap(), first.changes(&query).await.unwrap());
    let heads = first.heads("one", ChangeId(0)).await.unwrap();
    assert_eq!(second.heads("one", ChangeId(0)).await.unwrap(), heads);
    first.close().await;
    drop(first);
    second.close().await;
    assert_eq!(place.state().heads("one", ChangeId(0)).await.unwrap(), heads);
}

#[tokio::test]
async fn acknowledged_changes_survive_a_kill_at_any_moment() {
    let place = StateFolder::new();
    let state = place.state();
    for number in 0..20 {
        fill(&state, 1).await;
        // A killed process leaves its files as they are, without closing them.
        let after = StateFolder::new();
        for name in ["state.db", "state.db-wal"] {
            let from = place.path().with_file_name(name);
            fs::copy(from, after.path().with_file_name(name)).unwrap();
        }
        let copied = after.state();
        assert_eq!(recorded_changes(&copied).await.len(), number + 1);
        assert_eq!(copied.check().await.unwrap(), [] as [String; 0]);
    }
}

#[tokio::test]
async fn a_removed_database_is_created_again() {
    let place = StateFolder::new();
    let state = place.state();
    fill(&state, 2).await;
    for name in ["state.db", "state.db-wal", "state.db-shm"] {
        fs::remove_file(place.path().with_file_name(name)).unwrap();
    }
    assert_eq!(recorded_changes(&state).await, []);
    let ids = fill(&state, 1).await;
    assert_eq!(recorded_changes(&state).await, ids);
    assert_eq!(place.state().check().await.unwrap(), [] as [String; 0]);
}

/// Checks that reading and writing at `file` fail as unavailable, and change nothing.
async fn refuses(file: &Path) {
    let state = lukasa_state::SqliteState::new(file.to_owned());
    let read = state.usage_rows("global").await.unwrap_err();
    let wrote = state.record(write("one", "a.md", "a").build()).await.unwrap_err();
    for error in [read, wrote] {
        assert!(matches!(error, StateError::Unavailable { .. }), "{error:?}");
        assert_eq!(error.code(), MemoryErrorCode::StorageFailed);
    }
    assert_eq!(state.last_repair(), None);
}

#[tokio::test]
async fn a_folder_or_file_in_the_way_is_left_unchanged() {
    let place = StateFolder::new();
    fs::create_dir(place.path()).unwrap();
    refuses(&place.path()).await;
    assert_eq!(place.names(), ["state.db"]);

    let place = StateFolder::new();
    fs::write(place.path(), "not a folder").unwrap();
    refuses(&place.path().join("state.db")).await;
    assert_eq!(fs::read(place.path()).unwrap(), b"not a folder");
}

#[tokio::test]
async fn a_missing_folder_is_not_created() {
    let place = StateFolder::new();
    let state = lukasa_state::SqliteState::new(place.path().join("missing/state.db"));
    fs::create_dir(place.path()).unwrap();
    assert_eq!(state.usage_rows("global").await.unwrap(), []);
    let error = state.record(write("one", "a.md", "a").build()).await.unwrap_err();
    assert!(matches!(error, StateError::Unavailable { .. }), "{error:?}");
    assert_eq!(names(&place.path()), [] as [String; 0]);
    // A failed opening is tried again.
    fs::create_dir(place.path().join("missing")).unwrap();
    fill(&state, 1).await;
}

/// A small file system in memory, unmounted on drop. Needs the right to mount.
struct SmallDisk {
    place: StateFolder,
}

impl SmallDisk {
    fn mounted() -> Self {
        let place = StateFolder::new();
        fs::create_dir(place.path()).unwrap();
        mount(&["-t", "tmpfs", "-o", "size=768k", "tmpfs"], &place.path());
        Self { place }
    }

    fn database(&self) -> std::path::PathBuf {
        self.place.path().join("state.db")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let status = Command::new("umount").arg("-l").arg(self.place.path()).status();
        assert!(status.is_ok_and(|status| status.success()), "cannot unmount");
    }
}

fn mount(options: &[&str], at: &Path) {
    let status = Command::new("mount").args(options).arg(at).status().unwrap();
    assert!(status.success(), "this test needs the right to mount a tmpfs");
}

#[tokio::test]
async fn a_full_disk_refuses_whole_changes_until_there_is_room() {
    let disk = SmallDisk::mounted();
    let state = lukasa_state::SqliteState::new(disk.database());
    let ids = fill(&state, 2).await;
    let ballast = disk.place.path().join("ballast");
    // Fills the disk until the kernel refuses more.
    let written = fs::write(&ballast, vec![0; 1024 * 1024]);
    assert_eq!(written.unwrap_err().kind(), std::io::ErrorKind::StorageFull);

    let large =
        "no line is like another\n".repeat(4) + &format!("{:?}", (0..5000).collect::<Vec<_>>());
    let change = edit("one", "m0.md", (&"text 0\n".repeat(40), &large)).uses("m0.md");
    let mut refused = 0;
    for _ in 0..3 {
        let error = state.record(change.build()).await.unwrap_err();
        assert!(matches!(error, StateError::Full { .. }), "{error:?}");
        assert_eq!(error.code(), MemoryErrorCode::StorageFull);
        refused += 1;
    }
    assert_eq!(refused, 3);
    assert_eq!(recorded_changes(&state).await, ids);

    fs::remove_file(&ballast).unwrap();
    state.record(change.build()).await.unwrap();
    assert_eq!(recorded_changes(&state).await.len(), 3);
    assert_eq!(state.check().await.unwrap(), [] as [String; 0]);
    state.close().await;
}

#[tokio::test]
async fn a_read_only_disk_is_unavailable_for_writing_and_nothing_is_renamed() {
    let disk = SmallDisk::mounted();
    let state = lukasa_state::SqliteState::new(disk.database());
    fill(&state, 2).await;
    state.close().await;
    let before = names(&disk.place.path());
    mount(&["-o", "remount,ro"], &disk.place.path());
    let error = state.record(write("one", "a.md", "a").build()).await.unwrap_err();
    assert!(matches!(error, StateError::Unavailable { .. }), "{error:?}");
    assert_eq!((names(&disk.place.path()), state.last_repair()), (before, None));
}

#[tokio::test]
async fn a_damaged_database_on_a_full_disk_is_replaced_once_there_is_room() {
    let disk = SmallDisk::mounted();
    let damaged = "no database at all".repeat(100);
    fs::write(disk.database(), &damaged).unwrap();
    let state = lukasa_state::SqliteState::new(disk.database());
    let ballast = disk.place.path().join("ballast");
    fs::write(&ballast, vec![0; 1024 * 1024]).unwrap_err();
    for _ in 0..3 {
        let error = state.record(write("one", "a.md", "a").build()).await.unwrap_err();
        assert!(matches!(error, StateError::Full { .. }), "{error:?}");
    }
    fs::remove_file(&ballast).unwrap();
    fill(&state, 1).await;
    let aside = set_aside_databases(&disk.database()).unwrap();
    let [aside] = &aside[..] else { panic!("{aside:?}") };
    assert_eq!(fs::read_to_string(aside).unwrap(), damaged);
    state.close().await;
}

#[tokio::test]
async fn a_damaged_database_on_a_read_only_disk_is_left_unchanged() {
    let disk = SmallDisk::mounted();
    fs::write(disk.database(), "no database at all".repeat(100)).unwrap();
    let before = names(&disk.place.path());
    mount(&["-o", "remount,ro"], &disk.place.path());
    let state = lukasa_state::SqliteState::new(disk.database());
    let read = state.usage_rows("global").await.unwrap_err();
    let wrote = state.record(write("one", "a.md", "a").build()).await.unwrap_err();
    for error in [read, wrote] {
        assert!(matches!(error, StateError::Unavailable { .. }), "{error:?}");
    }
    assert_eq!((names(&disk.place.path()), state.last_repair()), (before, None));
}
