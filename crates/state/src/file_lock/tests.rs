//! Claims about lock files: between open files of one process, and between two processes.
#![expect(clippy::disallowed_methods, reason = "lock files are removed and replaced by hand")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::pin::pin;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::*;

use LockMode::{Exclusive, Shared};

fn lock(home: &tempfile::TempDir) -> FileLock {
    FileLock::with_folder(home.path().join("locks").join("a.lock"))
}

/// Polls a future for a short time; returns whether it is still pending.
async fn is_waiting(future: &mut (impl Future + Unpin)) -> bool {
    tokio::time::timeout(Duration::from_millis(20), future).await.is_err()
}

#[test]
fn a_lock_is_free_again_when_its_guard_is_dropped() {
    let home = tempfile::tempdir().unwrap();
    let (one, two) = (lock(&home), lock(&home));
    let guard = one.try_acquire(Exclusive).unwrap().unwrap();
    assert!(one.try_acquire(Exclusive).unwrap().is_none(), "the same value excludes itself too");
    assert!(two.try_acquire(Exclusive).unwrap().is_none());
    assert!(two.try_acquire(Shared).unwrap().is_none());
    assert!(two.is_held().unwrap());
    drop(guard);
    assert!(!two.is_held().unwrap());
    assert!(two.try_acquire(Exclusive).unwrap().is_some());
}

#[test]
fn a_lock_file_may_be_a_link() {
    let home = tempfile::tempdir().unwrap();
    let real = home.path().join("real.lock");
    let link = home.path().join("link.lock");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let (by_link, by_path) = (FileLock::new(link), FileLock::new(real));
    let guard = by_link.try_acquire(Exclusive).unwrap().unwrap();
    assert!(guard.is_current());
    assert!(by_path.try_acquire(Exclusive).unwrap().is_none(), "it is the same file");
    drop(guard);
    assert!(by_path.try_acquire(Exclusive).unwrap().is_some());
}

#[test]
fn shared_holders_exclude_an_exclusive_one_until_the_last_has_gone() {
    let home = tempfile::tempdir().unwrap();
    let lock = lock(&home);
    let (first, second) = (lock.try_acquire(Shared).unwrap(), lock.try_acquire(Shared).unwrap());
    assert!(first.is_some() && second.is_some());
    assert!(!lock.is_held().unwrap(), "not exclusively");
    drop(first);
    assert!(lock.try_acquire(Exclusive).unwrap().is_none());
    drop(second);
    assert!(lock.try_acquire(Exclusive).unwrap().is_some());
}

#[tokio::test]
async fn a_waiting_caller_acquires_the_lock_when_it_is_released() {
    let home = tempfile::tempdir().unwrap();
    for mode in [Shared, Exclusive] {
        let guard = lock(&home).acquire(Exclusive).await.unwrap();
        let waiting = lock(&home);
        let mut waiting = pin!(waiting.acquire(mode));
        assert!(is_waiting(&mut waiting).await);
        drop(guard);
        assert!(waiting.await.unwrap().is_current());
    }
}

#[tokio::test]
async fn a_caller_that_stopped_waiting_never_holds_the_lock() {
    let home = tempfile::tempdir().unwrap();
    let lock = lock(&home);
    let guard = lock.acquire(Exclusive).await.unwrap();
    for _ in 0..4 {
        let mut abandoned = Box::pin(lock.acquire(Exclusive));
        assert!(is_waiting(&mut abandoned).await);
    }
    drop(guard);
    // The threads of abandoned callers still acquire and release the lock.
    for _ in 0..64 {
        let _held = lock.acquire(Exclusive).await.unwrap();
        assert!(lock.try_acquire(Shared).unwrap().is_none());
    }
}

#[tokio::test]
async fn a_removed_or_replaced_lock_file_is_detected() {
    let home = tempfile::tempdir().unwrap();
    let lock = lock(&home);
    let first = lock.acquire(Exclusive).await.unwrap();
    assert!(first.is_current());
    fs::remove_file(lock.path()).unwrap();
    assert!(!first.is_current());
    let second = lock.acquire(Exclusive).await.unwrap();
    assert!(second.is_current());
    fs::write(home.path().join("other"), "").unwrap();
    fs::rename(home.path().join("other"), lock.path()).unwrap();
    assert!(!first.is_current() && !second.is_current());
    assert!(lock.try_acquire(Exclusive).unwrap().unwrap().is_current());
}

#[tokio::test]
async fn a_waiting_caller_locks_the_new_file_if_the_old_one_was_replaced() {
    let home = tempfile::tempdir().unwrap();
    let lock = lock(&home);
    let old = lock.acquire(Exclusive).await.unwrap();
    let mut waiting = Box::pin(lock.acquire(Exclusive));
    assert!(is_waiting(&mut waiting).await);
    fs::remove_file(lock.path()).unwrap();
    drop(old);
    let new = waiting.await.unwrap();
    assert!(new.is_current());
    assert!(lock.try_acquire(Shared).unwrap().is_none());
}

#[test]
fn a_lock_file_is_private_and_keeps_its_content() {
    let home = tempfile::tempdir().unwrap();
    let lock = lock(&home);
    drop(lock.try_acquire(Exclusive).unwrap());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(lock.path()), 0o600);
    assert_eq!(mode(lock.path().parent().unwrap()), 0o700);
    fs::write(lock.path(), "who").unwrap();
    drop(lock.try_acquire(Exclusive).unwrap());
    assert_eq!(fs::read_to_string(lock.path()).unwrap(), "who");
}

#[tokio::test]
async fn a_lock_file_that_cannot_be_opened_is_named_in_the_error() {
    let home = tempfile::tempdir().unwrap();
    let missing = home.path().join("missing/a.lock");
    let beside = FileLock::new(missing.clone());
    assert!(!beside.is_held().unwrap());
    for error in
        [beside.try_acquire(Exclusive).unwrap_err(), beside.acquire(Shared).await.unwrap_err()]
    {
        assert_eq!((&error.path, error.source.kind()), (&missing, io::ErrorKind::NotFound));
    }
    assert!(!home.path().join("missing").exists());
    let path = PathBuf::from("/dev/null/state/a.lock");
    let error = FileLock::with_folder(path.clone()).acquire(Exclusive).await.unwrap_err();
    assert_eq!(error.path, path);
    assert_eq!(error.to_string(), "cannot lock `/dev/null/state/a.lock`");
    // Root may write everywhere, so a folder serves as a path that cannot be written.
    let error = FileLock::new(home.path().to_owned()).try_acquire(Exclusive).unwrap_err();
    assert_eq!(error.source.kind(), io::ErrorKind::IsADirectory);
}

#[test]
fn another_process_holds_the_lock_until_it_dies() {
    let home = tempfile::tempdir().unwrap();
    let lock = lock(&home);
    drop(lock.try_acquire(Exclusive).unwrap());
    let mut child = Command::new("flock")
        .args(["--exclusive", "--no-fork"])
        .arg(lock.path())
        .args(["sh", "-c", "echo held; exec cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = [0; 5];
    io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut output).unwrap();
    assert_eq!(&output, b"held\n");
    assert!(lock.is_held().unwrap());
    assert!(lock.try_acquire(Shared).unwrap().is_none());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(lock.try_acquire(Exclusive).unwrap().is_some());
}
