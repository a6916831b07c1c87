//! The lock file of a root: a lock between processes, and a record of the last write.
//!
//! The file is in the state folder, never in a checkout. The operating system releases the lock
//! when its holder dies. The record in the file has three facts for the next holder. The generation
//! tells caches whether they are still valid. A flag tells whether a write was in progress. The
//! last completed change tells recovery where to start; each state database that records the root
//! has one, because it has numbers of its own.

use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory::change::{ChangeId, DatabaseId};
use state::private_files::sync_parent;
use state::{FileLock, FileLockError, FileLockGuard, LockMode};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::time_number;
use crate::backend::{BackendError, LastWrite, RootLock};
use crate::os;

/// The lock file of a root, and a queue for the tasks of this process.
#[derive(Debug)]
pub(super) struct LockFile {
    lock: FileLock,
    /// A fair queue for tasks of this process. The operating system's lock works between processes.
    queue: Arc<Mutex<()>>,
}

impl LockFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { lock: FileLock::with_folder(path), queue: Arc::default() }
    }

    /// Acquires the lock. Waits for at most `wait`.
    pub(super) async fn acquire(
        &self,
        database: DatabaseId,
        wait: Duration,
    ) -> Result<LockFileGuard, BackendError> {
        let acquired = tokio::time::timeout(wait, async {
            let queue_guard = Arc::clone(&self.queue).lock_owned().await;
            self.lock
                .acquire(LockMode::Exclusive)
                .await
                .map(|guard| LockFileGuard::new(guard, queue_guard, database))
        });
        match acquired.await {
            Ok(guard) => guard.map_err(cannot_open),
            Err(_elapsed) => Err(BackendError::Locked(wait)),
        }
    }

    /// Acquires the lock if it is free.
    pub(super) fn try_acquire(
        &self,
        database: DatabaseId,
    ) -> Result<Option<LockFileGuard>, BackendError> {
        let Ok(queue_guard) = Arc::clone(&self.queue).try_lock_owned() else { return Ok(None) };
        let guard = self.lock.try_acquire(LockMode::Exclusive).map_err(cannot_open)?;
        Ok(guard.map(|guard| LockFileGuard::new(guard, queue_guard, database)))
    }

    /// Returns the state of the last write, without acquiring the lock.
    pub(super) fn last_write(&self) -> LastWrite {
        match LockRecord::load(self.lock.path()) {
            Some(record) if record.is_interrupted() => LastWrite::Interrupted,
            Some(_) => LastWrite::Ended,
            None => LastWrite::Unknown,
        }
    }

    /// Returns the generation, without acquiring the lock. Without a lock file there was no write. During a write it is
    /// unknown, because the generation rises before the change is recorded.
    pub(super) fn write_count(&self) -> Option<u64> {
        match crate::host_fs::open_existing_file(self.lock.path()) {
            Ok(file) => LockRecord::read(&file)
                .filter(|record| !record.writing)
                .map(|record| record.generation),
            Err(error) => (error.kind() == io::ErrorKind::NotFound).then_some(0),
        }
    }

    /// Returns a description of the holder, if the lock is held. An error counts as free, since only people read
    /// this.
    pub(super) fn holder(&self) -> Option<String> {
        if self.queue.try_lock().is_err() {
            return Some(format!("this process (pid {})", std::process::id()));
        }
        self.lock.is_held().is_ok_and(|is_held| is_held).then(|| {
            let pid = LockRecord::load(self.lock.path()).map_or(0, |record| record.pid);
            format!("another process (pid {pid})")
        })
    }
}

fn cannot_open(error: FileLockError) -> BackendError {
    BackendError::from_io("open the lock file of a root", error.source)
}

/// The content of the lock file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LockRecord {
    boot_id: String,
    generation: u64,
    pid: u32,
    writing: bool,
    /// The databases of the last writes, the latest first, each with its last completed change; 0 means none.
    databases: [DatabaseRecord; DATABASES],
}

/// A database, its last completed change, and the beginning of the boot id when it ended its last write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DatabaseRecord {
    database: DatabaseId,
    completed: ChangeId,
    boot: [u8; BOOT_CHARS],
}

/// Number of characters of a boot id that are kept for each database.
const BOOT_CHARS: usize = 8;

impl Default for DatabaseRecord {
    fn default() -> Self {
        Self { database: DatabaseId::NONE, completed: ChangeId(0), boot: NO_BOOT }
    }
}

/// Stands for the boot of a database that ended no write.
const NO_BOOT: [u8; BOOT_CHARS] = [b'.'; BOOT_CHARS];

/// Maximum length of a record, in bytes.
const RECORD_BYTES_MAX: usize = 512;

/// Number of databases in a record. A machine that finds its own no longer in it assumes that its last write may have
/// been interrupted.
const DATABASES: usize = 4;

impl LockRecord {
    /// Encodes the record as one line of fixed width, so that every write replaces all of it.
    fn encode(&self) -> String {
        let writing = if self.writing { "writing" } else { "resting" };
        let (boot, generation, pid) = (&self.boot_id, self.generation, self.pid);
        let mut line = format!("lukasa3 {boot:36.36} {generation:020} {pid:010} {writing}");
        for of in &self.databases {
            let boot = String::from_utf8_lossy(&of.boot);
            write!(line, " {:016x} {:020} {boot}", of.database.0, of.completed.0)
                .expect("a text can be appended to");
        }
        line.push('\n');
        line
    }

    fn decode(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        if words.next() != Some("lukasa3") {
            return None;
        }
        let mut record = Self {
            boot_id: words.next()?.to_owned(),
            generation: words.next()?.parse().ok()?,
            pid: words.next()?.parse().ok()?,
            writing: match words.next()? {
                "writing" => true,
                "resting" => false,
                _ => return None,
            },
            databases: Default::default(),
        };
        for of in &mut record.databases {
            of.database = DatabaseId(u64::from_str_radix(words.next()?, 16).ok()?);
            of.completed = ChangeId(words.next()?.parse().ok().filter(|number| *number >= 0)?);
            of.boot = words.next()?.as_bytes().try_into().ok()?;
        }
        words.next().is_none().then_some(record)
    }

    /// Returns the last completed change of a database.
    fn completed(&self, database: DatabaseId) -> Option<ChangeId> {
        let of = self.databases.iter().find(|of| of.database == database)?;
        // No change has the number 0.
        (of.completed != ChangeId(0)).then_some(of.completed)
    }

    /// Makes a database the latest, at the start of a write.
    fn set_latest(&mut self, database: DatabaseId) {
        let known = self.databases.iter().position(|of| of.database == database);
        self.databases[..=known.unwrap_or(DATABASES - 1)].rotate_right(1);
        if known.is_none() {
            self.databases[0] = DatabaseRecord { database, ..DatabaseRecord::default() };
        }
    }

    /// Checks whether the machine may have restarted since the last write of a database.
    fn restarted_since_write_of(&self, database: DatabaseId) -> bool {
        let of = self.databases.iter().find(|of| of.database == database);
        of.is_none_or(|of| of.boot != current_boot())
    }

    /// Checks whether the last writer, or the machine, died in the middle of a write.
    fn is_interrupted(&self) -> bool {
        self.writing || self.boot_id != boot_id()
    }

    /// Checks whether the machine may have restarted since, if `boot` is its current boot id. Without boot ids, a
    /// write that did not end may have met a kill or a power cut. The latter, which is worse, is assumed.
    fn rebooted_since(&self, boot: &str) -> bool {
        self.boot_id != boot || self.writing && boot == UNKNOWN_BOOT_ID
    }

    /// Reads the record of the lock file at a path.
    fn load(path: &Path) -> Option<Self> {
        Self::read(&crate::host_fs::open_existing_file(path).ok()?)
    }

    fn read(file: &File) -> Option<Self> {
        // A record this short is read and written in one piece.
        let mut bytes = [0; RECORD_BYTES_MAX];
        let count = os::read_at(file, &mut bytes, 0).ok()?;
        Self::decode(std::str::from_utf8(bytes.get(..count)?).ok()?)
    }

    fn write(&self, file: &File) -> io::Result<()> {
        os::write_all_at(file, self.encode().as_bytes(), 0)
    }
}

/// Returns the highest number of a completed change in the lock files of a folder.
pub(crate) fn highest_completed(folder: &Path) -> Option<ChangeId> {
    let names = crate::host_fs::list_names(folder);
    let records = names.iter().filter_map(|name| LockRecord::load(&folder.join(name)));
    let numbers = records.flat_map(|record| record.databases).map(|of| of.completed);
    numbers.filter(|number| *number != ChangeId(0)).max()
}

/// Boot id of a machine that has none.
const UNKNOWN_BOOT_ID: &str = "------------------------------------";

/// Returns the boot id, which differs after each start of the machine. It distinguishes a write that a power cut
/// interrupted from one that a kill interrupted.
fn boot_id() -> &'static str {
    static BOOT: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
        os::boot_id()
            .map(|text| text.trim().to_owned())
            .filter(|text| text.len() == 36)
            .unwrap_or_else(|| UNKNOWN_BOOT_ID.to_owned())
    });
    &BOOT
}

/// Returns the beginning of the current boot id.
fn current_boot() -> [u8; BOOT_CHARS] {
    boot_id().as_bytes().first_chunk().copied().unwrap_or(NO_BOOT)
}

/// The guard of a locked root.
#[derive(Debug)]
pub(super) struct LockFileGuard {
    // Field order: this lock is released before the queue guard.
    lock: FileLockGuard,
    database: DatabaseId,
    record: LockRecord,
    /// Whether the file already had a record, which is therefore on the disk.
    is_synced: bool,
    last_write: LastWriteFacts,
    _queue_guard: OwnedMutexGuard<()>,
}

/// The known facts about the last write before this holder's own.
#[derive(Clone, Copy, Debug)]
struct LastWriteFacts {
    interrupted: bool,
    restarted: bool,
    is_uncertain: bool,
}

#[async_trait]
impl RootLock for LockFileGuard {
    fn generation(&self) -> u64 {
        self.record.generation
    }

    fn was_interrupted(&self) -> bool {
        self.last_write.interrupted
    }

    fn machine_restarted(&self) -> bool {
        self.last_write.restarted
    }

    fn is_uncertain(&self) -> bool {
        self.last_write.is_uncertain
    }

    fn completed(&self) -> Option<ChangeId> {
        self.record.completed(self.database)
    }

    async fn begin(&mut self) -> Result<(), BackendError> {
        self.record.writing = true;
        self.record.generation += 1;
        self.record.set_latest(self.database);
        self.write_record()
    }

    async fn end(&mut self, completed: Option<ChangeId>) -> Result<(), BackendError> {
        self.record.writing = false;
        self.record.set_latest(self.database);
        let latest = &mut self.record.databases[0];
        latest.completed = completed.unwrap_or(latest.completed);
        latest.boot = current_boot();
        self.last_write.interrupted = false;
        self.last_write.is_uncertain = false;
        self.write_record()
    }
}

impl LockFileGuard {
    fn new(lock: FileLockGuard, queue_guard: OwnedMutexGuard<()>, database: DatabaseId) -> Self {
        let previous = LockRecord::read(lock.file());
        // A file without a record is new, or a power cut lost its content or the file itself. The worse case is
        // assumed: one unneeded query of the state costs little.
        let interrupted = previous.as_ref().is_none_or(LockRecord::is_interrupted);
        let restarted = previous.as_ref().is_none_or(|record| {
            record.rebooted_since(boot_id()) || record.restarted_since_write_of(database)
        });
        // Without a record the generation continues from the time, so that it differs from all earlier ones, which
        // processes may have cached.
        let generation =
            previous.as_ref().map_or_else(|| changed_at(lock.file()), |record| record.generation);
        let is_synced = previous.is_some();
        let databases = previous.map(|record| record.databases).unwrap_or_default();
        let is_uncertain = databases[0].database != database;
        let record = LockRecord {
            boot_id: boot_id().to_owned(),
            generation,
            pid: std::process::id(),
            writing: false,
            databases,
        };
        let last_write = LastWriteFacts { interrupted, restarted, is_uncertain };
        Self { lock, database, record, is_synced, last_write, _queue_guard: queue_guard }
    }

    fn write_record(&mut self) -> Result<(), BackendError> {
        let cannot = |error| BackendError::from_io("write the lock file of a root", error);
        self.record.write(self.lock.file()).map_err(cannot)?;
        if !self.is_synced {
            // Done once: the boot id must survive a power cut before any write is acknowledged.
            self.lock.file().sync_all().map_err(cannot)?;
            sync_parent(self.lock.path()).map_err(cannot)?;
            self.is_synced = true;
        }
        Ok(())
    }
}

/// Returns the time of the last change of a file, as a number that grows.
fn changed_at(file: &File) -> u64 {
    os::changed_at(file).map_or(0, time_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: DatabaseId = DatabaseId(7);

    fn record(boot_id: String) -> LockRecord {
        LockRecord { boot_id, generation: 1, pid: 1, writing: false, databases: Default::default() }
    }

    #[test]
    fn without_boot_ids_an_interrupted_write_counts_as_a_power_cut() {
        let current = "b".repeat(36);
        for (boot, writing, now, expected) in [
            (&*current, false, &*current, false),
            (&*current, true, &*current, false),
            (&*current, false, "another", true),
            (UNKNOWN_BOOT_ID, false, UNKNOWN_BOOT_ID, false),
            (UNKNOWN_BOOT_ID, true, UNKNOWN_BOOT_ID, true),
        ] {
            let boot = boot.to_owned();
            let record = LockRecord { writing, ..record(boot) };
            assert_eq!(record.rebooted_since(now), expected, "{record:?} {now}");
        }
        assert_eq!(UNKNOWN_BOOT_ID.len(), 36);
    }

    proptest::proptest! {
        #[test]
        fn a_damaged_record_is_rejected_or_round_trips(
            generation in 0..u64::MAX,
            pid in 0..u32::MAX,
            writing in proptest::bool::ANY,
            at in 0_usize..240,
            removed in 0_usize..3,
            inserted in "[0-9a-z +-]{0,2}",
        ) {
            let text = LockRecord { generation, pid, writing, ..record("b".repeat(36)) }.encode();
            let (before, rest) = text.split_at(at.min(text.len()));
            let after: String = rest.chars().skip(removed).collect();
            if let Some(mut record) = LockRecord::decode(&format!("{before}{inserted}{after}")) {
                let again = LockRecord::decode(&record.encode());
                // A longer boot id is truncated; no machine has one.
                record.boot_id.truncate(36);
                proptest::prop_assert_eq!(again, Some(record));
            }
        }

        #[test]
        fn any_record_round_trips(
            generation in 0..u64::MAX,
            pid in 0..u32::MAX,
            numbers in proptest::collection::vec((0..u64::MAX, 0..i64::MAX), DATABASES),
            writing in proptest::bool::ANY,
        ) {
            let mut record = LockRecord { generation, pid, writing, ..record("b".repeat(36)) };
            for (of, (database, completed)) in record.databases.iter_mut().zip(numbers) {
                let (database, completed) = (DatabaseId(database), ChangeId(completed));
                *of = DatabaseRecord { database, completed, boot: *b"0b6c3a12" };
            }
            proptest::prop_assert_eq!(LockRecord::decode(&record.encode()), Some(record));
        }
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "the test removes the lock file by hand")]
    async fn removing_the_lock_file_does_not_admit_two_holders() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.lock");
        let wait = Duration::from_secs(5);
        let [one, two] = [0, 1].map(|_| LockFile::new(path.clone()));
        let mut before = one.acquire(OURS, wait).await.unwrap();
        before.begin().await.unwrap();
        before.end(None).await.unwrap();
        let remembered = before.generation();
        drop(before);
        std::fs::remove_file(&path).unwrap();
        let mut other = two.acquire(OURS, wait).await.unwrap();
        let soon = Duration::from_millis(20);
        assert!(matches!(one.acquire(OURS, soon).await, Err(BackendError::Locked(_))));
        other.begin().await.unwrap();
        other.end(None).await.unwrap();
        let counted = other.generation();
        assert!(counted > remembered + 1, "a new file starts above all generations of the old one");
        drop(other);
        assert_eq!(one.acquire(OURS, wait).await.unwrap().generation(), counted);
    }

    #[test]
    fn a_record_has_a_fixed_width_that_is_read_at_once() {
        let short = record("b".repeat(36));
        let longest = DatabaseRecord {
            database: DatabaseId(u64::MAX),
            completed: ChangeId(i64::MAX),
            boot: *b"ffffffff",
        };
        let long = LockRecord {
            generation: u64::MAX,
            pid: u32::MAX,
            writing: true,
            databases: [longest; DATABASES],
            ..short.clone()
        };
        assert_eq!(long.encode().len(), short.encode().len());
        assert!(long.encode().len() < RECORD_BYTES_MAX);
        for record in [short, long] {
            assert_eq!(LockRecord::decode(&record.encode()), Some(record));
        }
    }

    #[test]
    fn the_databases_of_the_latest_writes_are_kept() {
        let mut record = record(String::new());
        for number in 1..=4 {
            record.set_latest(DatabaseId(number));
            record.databases[0].completed = ChangeId(10);
            record.databases[0].boot = current_boot();
        }
        record.set_latest(DatabaseId(2));
        record.set_latest(DatabaseId(5));
        let kept = record.databases.map(|of| (of.database.0, of.completed.0));
        assert_eq!(kept, [(5, 0), (2, 10), (4, 10), (3, 10)]);
        assert!(!record.restarted_since_write_of(DatabaseId(2)));
        assert!(record.restarted_since_write_of(DatabaseId(5)), "it has ended no write");
        assert!(record.restarted_since_write_of(DatabaseId(1)), "it is not known any more");
        assert_eq!(record.completed(DatabaseId(2)), Some(ChangeId(10)));
        assert_eq!(record.completed(DatabaseId(5)), None);
        assert_eq!(record.completed(DatabaseId(1)), None);
    }

    #[test]
    fn torn_and_foreign_records_are_rejected() {
        let databases = " 1 2 abcdefgh".repeat(DATABASES);
        let whole = format!("lukasa3 b 1 2 writing{databases}");
        assert!(LockRecord::decode(&whole).is_some());
        let foreign = [
            "lukasa2 b 1 2 3 writing".to_owned(),
            format!("{whole} 9"),
            format!("lukasa3 b 1 2 so{databases}"),
            whole.replace(" 2 abc", " -2 abc"),
            whole.replace("abc", "ab"),
        ];
        for text in ["", "lukasa3", "lukasa3 b 1 2 writing 1", "\0\0\0"] {
            assert_eq!(LockRecord::decode(text), None, "{text:?}");
        }
        for text in foreign {
            assert_eq!(LockRecord::decode(&text), None, "{text:?}");
        }
    }
}
