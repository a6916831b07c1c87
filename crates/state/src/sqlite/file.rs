//! The few things that are asked of the file system beside SQLite.
//!
//! Never opens the database itself: closing any descriptor of it would drop SQLite's own locks in
//! this process. What is here is naming: which file stands at the path, its lock file, and the
//! renames that set a damaged one aside.
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

/// How often a taken lock is asked for again: short beside a person's patience, long beside a write.
const LOCK_POLL: Duration = Duration::from_millis(5);

/// The smallest page of SQLite, and so its smallest file.
const DATABASE_BYTES_MIN: u64 = 512;

/// The suffix of a damaged database that was set aside; a number follows it.
const SET_ASIDE_SUFFIX: &str = ".damaged-";

/// Which file stands at a path, so that one that was put in its place is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

/// Returns which file stands at `path`, `None` if nothing does.
///
/// One `stat`: about a microsecond, so it is asked before every use of an open connection.
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

/// Refuses a file that is too short for a database and yet not empty: SQLite would take it for a new
/// one and write over it.
pub(super) fn refuse_stub(path: &Path) -> Result<(), Fault> {
    match fs::metadata(path) {
        Ok(metadata) if (1..DATABASE_BYTES_MIN).contains(&metadata.len()) => {
            Err(Fault::Damaged("the file is too short for a database".to_owned()))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Returns the bytes that the database takes on the disk, with what it has not written back yet.
pub(super) fn bytes_on_disk(path: &Path) -> u64 {
    [path.to_owned(), with_suffix(path, "-wal")]
        .iter()
        .filter_map(|path| fs::metadata(path).ok())
        .map(|metadata| metadata.len())
        .sum()
}

/// Tells whether a log beside the database may hold what is not in the database yet.
pub(super) fn has_log(path: &Path) -> bool {
    match fs::metadata(with_suffix(path, "-wal")) {
        Ok(metadata) => metadata.len() > 0,
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// Acquires the lock file beside a database; waits at most [`LOCK_WAIT`].
///
/// Every write holds it shared; who creates, migrates or repairs holds it alone. So no write goes to a file that
/// is set aside, and only one process repairs. Asked again and again, since no writer waits for long here, and a caller
/// that gives up leaves no thread behind.
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

/// Sets a database aside with its companions, under a name that nothing has, and returns that.
pub(super) fn set_aside(path: &Path) -> Result<PathBuf, Fault> {
    let aside = set_aside_path(path, last_set_aside(path)? + 1);
    fs::rename(path, &aside)?;
    move_companions(path, &aside)?;
    sync_parent(path)?;
    Ok(aside)
}

/// Moves the log of a database away that is not there: it was set aside when the process died, or a person removed
/// it. SQLite would take the log for that of the next database.
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
    let found = set_aside_files(path)?.into_iter();
    Ok(found
        .filter(|(number, found)| found.file_name() == set_aside_path(path, *number).file_name())
        .map(|(_, found)| found)
        .collect())
}

/// Returns the files of databases that were set aside from `path`, with the numbers of these.
fn set_aside_files(path: &Path) -> io::Result<Vec<(u32, PathBuf)>> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(Vec::new());
    };
    let prefix = format!("{}{SET_ASIDE_SUFFIX}", name.to_string_lossy());
    let mut found = Vec::new();
    for entry in fs::read_dir(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })?
    {
        let entry = entry?;
        let name = entry.file_name();
        // Companions have the number of their database and more behind it.
        let number = name
            .to_str()
            .and_then(|name| name.strip_prefix(&prefix))
            .map(|rest| rest.split_once('-').map_or(rest, |(number, _)| number).parse());
        if let Some(Ok(number)) = number {
            found.push((number, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the number of the database that was set aside last; 0 if none was.
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
