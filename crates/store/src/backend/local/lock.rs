//! The lock file of a root: who may write, and what the last writer left behind.
//!
//! The file lies in the state folder, never in a checkout. The operating system's lock on it dies
//! with its holder. Its few bytes tell the next holder what happened since: a count of writes, so
//! that caches know whether they are still right, whether a write was under way, and which change was the
//! last to be carried out.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use memory::change::ChangeId;
use state::private_files::sync_parent;
use state::{FileLock, FileLockError, FileLockGuard, LockMode};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::backend::{BackendError, LastWrite, RootLock};

/// A root's lock file, and the queue of this process before it.
#[derive(Debug)]
pub(super) struct LockFile {
    lock: FileLock,
    /// Fair between the tasks of this process; the operating system's lock is between processes.
    queue: Arc<Mutex<()>>,
}

impl LockFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { lock: FileLock::with_folder(path), queue: Arc::default() }
    }

    /// Acquires the lock; waits at most so long.
    pub(super) async fn acquire(&self, wait: Duration) -> Result<LockFileGuard, BackendError> {
        let acquired = tokio::time::timeout(wait, async {
            let turn = Arc::clone(&self.queue).lock_owned().await;
            self.lock
                .acquire(LockMode::Exclusive)
                .await
                .map(|guard| LockFileGuard::new(guard, turn))
        });
        match acquired.await {
            Ok(held) => held.map_err(cannot_open),
            Err(_elapsed) => Err(BackendError::Locked(wait)),
        }
    }

    /// Acquires the lock if it is free.
    pub(super) fn try_acquire(&self) -> Result<Option<LockFileGuard>, BackendError> {
        let Ok(turn) = Arc::clone(&self.queue).try_lock_owned() else { return Ok(None) };
        let guard = self.lock.try_acquire(LockMode::Exclusive).map_err(cannot_open)?;
        Ok(guard.map(|guard| LockFileGuard::new(guard, turn)))
    }

    /// Returns what the file says of its last writer, without taking the lock.
    pub(super) fn last_write(&self) -> LastWrite {
        match LockRecord::load(self.lock.path()) {
            Some(record) if record.is_interrupted() => LastWrite::Interrupted,
            Some(_) => LastWrite::Ended,
            None => LastWrite::Unknown,
        }
    }

    /// Returns who holds the lock, if it is held. An error counts as free: only people are told.
    pub(super) fn holder(&self) -> Option<String> {
        if self.queue.try_lock().is_err() {
            return Some(format!("this process (pid {})", std::process::id()));
        }
        self.lock.is_held().is_ok_and(|held| held).then(|| {
            let pid = LockRecord::load(self.lock.path()).map_or(0, |record| record.pid);
            format!("another process (pid {pid})")
        })
    }
}

fn cannot_open(error: FileLockError) -> BackendError {
    BackendError::from_io("open the lock file of a root", error.source)
}

/// What the lock file says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LockRecord {
    boot_id: String,
    generation: u64,
    completed: Option<ChangeId>,
    pid: u32,
    writing: bool,
}

impl LockRecord {
    /// One line of fixed width, so that every write replaces the whole of it.
    fn encode(&self) -> String {
        let writing = if self.writing { "writing" } else { "resting" };
        let (boot, generation, pid) = (&self.boot_id, self.generation, self.pid);
        // No change has the number 0.
        let completed = self.completed.map_or(0, |change| change.0);
        format!("lukasa2 {boot:36.36} {generation:020} {completed:020} {pid:010} {writing}\n")
    }

    fn decode(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        if words.next() != Some("lukasa2") {
            return None;
        }
        let record = Self {
            boot_id: words.next()?.to_owned(),
            generation: words.next()?.parse().ok()?,
            completed: match words.next()?.parse().ok()? {
                0 => None,
                number => Some(ChangeId(number)),
            },
            pid: words.next()?.parse().ok()?,
            writing: match words.next()? {
                "writing" => true,
                "resting" => false,
                _ => return None,
            },
        };
        words.next().is_none().then_some(record)
    }

    /// Returns whether the last writer, or the machine, died in the middle of a write.
    fn is_interrupted(&self) -> bool {
        self.writing || self.boot_id != boot_id()
    }

    /// Returns whether the machine may have been started anew since, when it is now in its start
    /// called `boot`. Where starts have no names, a write that did not end may have met either a kill
    /// or a power cut, and the worse of the two is assumed.
    fn rebooted_since(&self, boot: &str) -> bool {
        self.boot_id != boot || self.writing && boot == UNKNOWN_BOOT_ID
    }

    /// Reads the record of the lock file at a path.
    fn load(path: &Path) -> Option<Self> {
        Self::read(&crate::host_fs::open_existing_file(path).ok()?)
    }

    fn read(file: &File) -> Option<Self> {
        // So few bytes are read and written in one piece.
        let mut bytes = [0; 256];
        let count = file.read_at(&mut bytes, 0).ok()?;
        Self::decode(std::str::from_utf8(bytes.get(..count)?).ok()?)
    }

    fn write(&self, file: &File) -> io::Result<()> {
        file.write_all_at(self.encode().as_bytes(), 0)
    }
}

/// Returns the highest number of a change that lock files in a folder say was carried out.
pub(crate) fn highest_completed(folder: &Path) -> Option<ChangeId> {
    let names = crate::host_fs::list_names(folder);
    names.iter().filter_map(|name| LockRecord::load(&folder.join(name))?.completed).max()
}

/// Stands for each start of a machine that does not name them.
const UNKNOWN_BOOT_ID: &str = "------------------------------------";

/// Returns a word that differs after each start of the machine, so that a write that a power cut
/// interrupted is told from one that a kill did.
fn boot_id() -> &'static str {
    static BOOT: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
        crate::host_fs::read_small_file("/proc/sys/kernel/random/boot_id")
            .map(|text| text.trim().to_owned())
            .filter(|text| text.len() == 36)
            .unwrap_or_else(|| UNKNOWN_BOOT_ID.to_owned())
    });
    &BOOT
}

/// A held root.
#[derive(Debug)]
pub(super) struct LockFileGuard {
    // Released before the turn is.
    lock: FileLockGuard,
    record: LockRecord,
    /// Whether the file had said something before, so that it is known to be on the disk.
    is_synced: bool,
    interrupted: bool,
    restarted: bool,
    _queue_guard: OwnedMutexGuard<()>,
}

impl RootLock for LockFileGuard {
    fn generation(&self) -> u64 {
        self.record.generation
    }

    fn was_interrupted(&self) -> bool {
        self.interrupted
    }

    fn machine_restarted(&self) -> bool {
        self.restarted
    }

    fn completed(&self) -> Option<ChangeId> {
        self.record.completed
    }

    fn begin(&mut self) -> Result<(), BackendError> {
        self.record.writing = true;
        self.record.generation += 1;
        self.write_record()
    }

    fn end(&mut self, completed: Option<ChangeId>) -> Result<(), BackendError> {
        self.record.writing = false;
        self.record.completed = completed.or(self.record.completed);
        self.interrupted = false;
        self.write_record()
    }
}

impl LockFileGuard {
    fn new(lock: FileLockGuard, turn: OwnedMutexGuard<()>) -> Self {
        let known = LockRecord::read(lock.file());
        // A file that says nothing is new, or a power cut took away what it said, or it itself, for which the new one
        // stands. The worse is assumed: asking the state once too often costs little.
        let interrupted = known.as_ref().is_none_or(LockRecord::is_interrupted);
        let restarted = known.as_ref().is_none_or(|record| record.rebooted_since(boot_id()));
        // A file that says nothing counts on from the time, so that it meets no count of the one before
        // it, which processes may remember.
        let generation =
            known.as_ref().map_or_else(|| changed_at(lock.file()), |record| record.generation);
        let is_safe = known.is_some();
        let record = LockRecord {
            boot_id: boot_id().to_owned(),
            generation,
            pid: std::process::id(),
            writing: false,
            completed: known.and_then(|record| record.completed),
        };
        Self { lock, record, is_synced: is_safe, interrupted, restarted, _queue_guard: turn }
    }

    fn write_record(&mut self) -> Result<(), BackendError> {
        let cannot = |error| BackendError::from_io("write the lock file of a root", error);
        self.record.write(self.lock.file()).map_err(cannot)?;
        if !self.is_synced {
            // Once: the start of the machine that it names must outlive a power cut before any write is acknowledged.
            self.lock.file().sync_all().map_err(cannot)?;
            sync_parent(self.lock.path()).map_err(cannot)?;
            self.is_synced = true;
        }
        Ok(())
    }
}

/// Returns when a file was last changed, as a number that grows.
fn changed_at(file: &File) -> u64 {
    let facts = file.metadata();
    // Seconds since 1970 leave 30 bits free for the nanoseconds.
    facts
        .map_or(0, |facts| facts.ctime().cast_unsigned() << 30 | facts.ctime_nsec().cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_names_of_starts_an_interrupted_write_may_have_met_a_power_cut() {
        let here = "b".repeat(36);
        for (boot, writing, now, expected) in [
            (&*here, false, &*here, false),
            (&*here, true, &*here, false),
            (&*here, false, "another", true),
            (UNKNOWN_BOOT_ID, false, UNKNOWN_BOOT_ID, false),
            (UNKNOWN_BOOT_ID, true, UNKNOWN_BOOT_ID, true),
        ] {
            let boot = boot.to_owned();
            let record =
                LockRecord { boot_id: boot, generation: 1, pid: 1, writing, completed: None };
            assert_eq!(record.rebooted_since(now), expected, "{record:?} {now}");
        }
        assert_eq!(UNKNOWN_BOOT_ID.len(), 36);
    }

    proptest::proptest! {
        #[test]
        fn a_damaged_record_is_none_or_is_written_as_it_was_read(
            generation in 0..u64::MAX,
            pid in 0..u32::MAX,
            writing in proptest::bool::ANY,
            at in 0_usize..110,
            removed in 0_usize..3,
            inserted in "[0-9a-z +-]{0,2}",
        ) {
            let completed = Some(ChangeId(7));
            let text = LockRecord { boot_id: "b".repeat(36), generation, completed, pid, writing }.encode();
            let (before, rest) = text.split_at(at.min(text.len()));
            let after: String = rest.chars().skip(removed).collect();
            if let Some(mut record) = LockRecord::decode(&format!("{before}{inserted}{after}")) {
                let again = LockRecord::decode(&record.encode());
                // A longer name of a start is cut; it is that of no start.
                record.boot_id.truncate(36);
                proptest::prop_assert_eq!(again, Some(record));
            }
        }

        #[test]
        fn a_record_is_read_as_it_was_written(
            generation in 0..u64::MAX,
            pid in 0..u32::MAX,
            completed in 0..i64::MAX,
            writing in proptest::bool::ANY,
        ) {
            let completed = (completed > 0).then_some(ChangeId(completed));
            let record = LockRecord { boot_id: "b".repeat(36), generation, completed, pid, writing };
            proptest::prop_assert_eq!(LockRecord::decode(&record.encode()), Some(record));
        }
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "somebody removes the lock file by hand")]
    async fn a_lock_file_that_was_removed_lets_nobody_hold_beside_another() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.lock");
        let wait = Duration::from_secs(5);
        let [one, two] = [0, 1].map(|_| LockFile::new(path.clone()));
        let mut before = one.acquire(wait).await.unwrap();
        before.begin().unwrap();
        before.end(None).unwrap();
        let remembered = before.generation();
        drop(before);
        std::fs::remove_file(&path).unwrap();
        let mut other = two.acquire(wait).await.unwrap();
        let soon = Duration::from_millis(20);
        assert!(matches!(one.acquire(soon).await, Err(BackendError::Locked(_))));
        other.begin().unwrap();
        other.end(None).unwrap();
        let counted = other.generation();
        assert!(counted > remembered + 1, "a new file meets no count of the old one");
        drop(other);
        assert_eq!(one.acquire(wait).await.unwrap().generation(), counted);
    }

    #[test]
    fn a_record_is_read_back_as_it_was_written() {
        let record = LockRecord {
            boot_id: "b".repeat(36),
            generation: 7,
            pid: 4_000_000,
            writing: true,
            completed: None,
        };
        assert_eq!(LockRecord::decode(&record.encode()), Some(record.clone()));
        let longer = LockRecord {
            generation: u64::MAX,
            pid: u32::MAX,
            writing: false,
            completed: Some(ChangeId(i64::MAX)),
            ..record
        };
        assert_eq!(longer.encode().len(), record_width());
        assert_eq!(LockRecord::decode(&longer.encode()), Some(longer));
    }

    fn record_width() -> usize {
        LockRecord { boot_id: String::new(), generation: 0, pid: 0, writing: true, completed: None }
            .encode()
            .len()
    }

    #[test]
    fn what_is_torn_or_foreign_says_nothing() {
        let torn = ["", "lukasa2", "lukasa2 b 1 2 3", "\0\0\0"];
        let foreign =
            ["lukasa1 b 1 2 writing", "lukasa2 b 1 2 3 writing more", "lukasa2 b 1 2 3 so"];
        for text in torn.into_iter().chain(foreign) {
            assert_eq!(LockRecord::decode(text), None, "{text:?}");
        }
    }
}
