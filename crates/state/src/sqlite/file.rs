//! Access to the database file beside SQLite: its identity, its lock file and the renames that set a damaged one aside.
//!
//! Nothing here opens the database itself: closing any descriptor of it would drop SQLite's own locks in this process.
#![expect(
    clippy::disallowed_methods,
    reason = "SQLite opens its file by path, so setting a damaged one aside needs paths too"
)]

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use memory::limits::LOCK_WAIT;

use crate::error::Fault;
use crate::file_lock::{FileLock, FileLockGuard, LockMode};
use crate::private_files::sync_parent;

/// Poll interval for a held lock: short for a waiting person, long compared to a write.
const LOCK_POLL: Duration = Duration::from_millis(5);

/// The smallest page of SQLite, and so its smallest file.
const DATABASE_BYTES_MIN: u64 = 512;

/// The suffix of a damaged database that was set aside; a number follows it.
const SET_ASIDE_SUFFIX: &str = ".damaged-";

/// The identity of the file at a path, to detect that it was replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

/// Returns the identity of the file at `path`, `None` if there is none.
///
/// Costs one `stat`, about a microsecond, so it runs before every use of an open connection.
pub(super) fn file_id(path: &Path) -> Result<Option<FileId>, Fault> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            Err(io::Error::from(io::ErrorKind::IsADirectory).into())
        }
        Ok(metadata) => Ok(Some(FileId { device: metadata.dev(), inode: metadata.ino() })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Refuses a file that is too short for a database but not empty: SQLite would treat it as new and overwrite it.
pub(super) fn refuse_stub(path: &Path) -> Result<(), Fault> {
    match fs::metadata(path) {
        Ok(metadata) if (1..DATABASE_BYTES_MIN).contains(&metadata.len()) => {
            Err(Fault::Damaged("the file is too short for a database".to_owned()))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Returns the bytes of the database on the disk, its log included.
pub(super) fn bytes_on_disk(path: &Path) -> u64 {
    [path.to_owned(), with_suffix(path, "-wal")]
        .iter()
        .filter_map(|path| fs::metadata(path).ok())
        .map(|metadata| metadata.len())
        .sum()
}

/// Returns whether a log beside the database may hold data that is not in the database yet.
pub(super) fn has_log(path: &Path) -> bool {
    match fs::metadata(with_suffix(path, "-wal")) {
        Ok(metadata) => metadata.len() > 0,
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// Acquires the lock file beside a database; waits at most [`LOCK_WAIT`].
///
/// Every write holds the lock shared; creating, migrating and repairing hold it exclusively. So no write goes to a file
/// that is set aside, and only one process repairs. Acquired by polling: writers hold the lock only briefly, and a
/// caller that gives up leaves no thread behind.
pub(super) async fn lock(database: &Path, mode: LockMode) -> Result<FileLockGuard, Fault> {
    let lock = FileLock::new(with_suffix(database, ".lock"));
    let mut waited = Duration::ZERO;
    loop {
        if let Some(guard) = lock.try_acquire(mode).map_err(|error| error.source)? {
            return Ok(guard);
        }
        if waited >= LOCK_WAIT {
            return Err(Fault::Locked);
        }
        tokio::time::sleep(LOCK_POLL).await;
        waited += LOCK_POLL;
    }
}

/// Renames a database and its companion files to an unused name, and returns that.
pub(super) fn set_aside(path: &Path) -> Result<PathBuf, Fault> {
    let aside = set_aside_path(path, last_set_aside(path)? + 1);
    fs::rename(path, &aside)?;
    move_companions(path, &aside)?;
    sync_parent(path)?;
    Ok(aside)
}

/// Moves away the log of a database that no longer exists: its process died while setting it aside, or a person removed
/// it. SQLite would apply the log to the next database.
pub(super) fn finish_set_aside(path: &Path) -> Result<(), Fault> {
    if has_log(path) && file_id(path)?.is_none() {
        let last = last_set_aside(path)?;
        let is_of_last = last > 0 && !has_log(&set_aside_path(path, last));
        move_companions(path, &set_aside_path(path, if is_of_last { last } else { last + 1 }))?;
        sync_parent(path)?;
    }
    Ok(())
}

/// Returns the damaged databases that were set aside from `path`, oldest first.
pub fn set_aside_databases(path: &Path) -> io::Result<Vec<PathBuf>> {
    let files = set_aside_files(path)?.into_iter();
    Ok(files
        .filter(|(number, path_aside)| {
            path_aside.file_name() == set_aside_path(path, *number).file_name()
        })
        .map(|(_, path_aside)| path_aside)
        .collect())
}

/// Returns the files of databases that were set aside from `path`, with the numbers of the databases.
fn set_aside_files(path: &Path) -> io::Result<Vec<(u32, PathBuf)>> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(Vec::new());
    };
    let prefix = format!("{}{SET_ASIDE_SUFFIX}", name.to_string_lossy());
    let mut files = Vec::new();
    for entry in fs::read_dir(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })?
    {
        let entry = entry?;
        let name = entry.file_name();
        // Companion files have a suffix behind the number of their database.
        let number = name
            .to_str()
            .and_then(|name| name.strip_prefix(&prefix))
            .map(|rest| rest.split_once('-').map_or(rest, |(number, _)| number).parse());
        if let Some(Ok(number)) = number {
            files.push((number, entry.path()));
        }
    }
    files.sort();
    Ok(files)
}

/// Returns the highest number of a set-aside database; 0 if there is none.
pub(super) fn last_set_aside(path: &Path) -> io::Result<u32> {
    Ok(set_aside_files(path)?.last().map_or(0, |(number, _)| *number))
}

fn set_aside_path(path: &Path, number: u32) -> PathBuf {
    with_suffix(path, &format!("{SET_ASIDE_SUFFIX}{number}"))
}

fn move_companions(from: &Path, to: &Path) -> Result<(), Fault> {
    for suffix in ["-wal", "-shm", "-journal"] {
        match fs::rename(with_suffix(from, suffix), with_suffix(to, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}
