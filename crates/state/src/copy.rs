//! A private copy of a state database that another program may be using.
//!
//! The database is never opened: SQLite would take its locks, make files beside it, and an older one would be
//! migrated. Its file and its write-ahead log are copied as files, and copied again if a write fell in between.
#![expect(clippy::disallowed_methods, reason = "the copy must not open the database with SQLite")]

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::spawn_blocking;

use crate::error::{Fault, StateError};

const OPERATION: &str = "copy the state";

/// Attempts to copy a database that is being written to.
const COPY_ATTEMPTS_MAX: usize = 20;

/// The wait before a copy, during which the files must not change. The clock of the file system moves in ticks, at least 100
/// times a second, and two writes within one tick leave the same time. After the wait, a later write has another time.
const QUIET: Duration = Duration::from_millis(40);

/// Copies the database at `from`, with what is in its log, to `to`, where no file may be.
///
/// The database and the folder that it is in stay as they are, and a process that uses it is not delayed.
///
/// # Errors
///
/// [`StateError::Busy`] if it is written to during each attempt, [`StateError::Unavailable`] if it cannot be read.
pub async fn copy_database(from: &Path, to: &Path) -> Result<(), StateError> {
    let (source, target) = (from.to_owned(), to.to_owned());
    let copied = copy_when_quiet(source, target).await;
    copied.map_err(|fault| StateError::of_file(OPERATION, from, fault))
}

async fn copy_when_quiet(from: PathBuf, to: PathBuf) -> Result<(), Fault> {
    for _ in 0..COPY_ATTEMPTS_MAX {
        let before = Versions::of(&from)?;
        tokio::time::sleep(QUIET).await;
        let (from, to) = (from.clone(), to.clone());
        let copied = spawn_blocking(move || copy_if_still(before, &from, &to)).await;
        if copied.map_err(io::Error::other)?? {
            return Ok(());
        }
    }
    Err(Fault::Locked)
}

/// Versions of a database's files; a write changes at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Versions {
    database: Version,
    log: Option<Version>,
}

impl Versions {
    fn of(database: &Path) -> Result<Self, Fault> {
        let facts = fs::metadata(database)?;
        if facts.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
        }
        if !facts.is_file() {
            return Err(not_a_file(database).into());
        }
        let log = match fs::metadata(log_of(database)) {
            Ok(facts) if facts.is_file() => Some(Version::of(&facts)),
            // Opening a pipe or a device would wait, or copy without end.
            Ok(_) => return Err(not_a_file(&log_of(database)).into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        Ok(Self { database: Version::of(&facts), log })
    }
}

/// The facts of a file that a write changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl Version {
    fn of(facts: &Metadata) -> Self {
        Self {
            inode: facts.ino(),
            bytes: facts.len(),
            modified: (facts.mtime(), facts.mtime_nsec()),
        }
    }
}

/// Copies a database that is still of these versions. Returns whether it was so until the end, so that the copy is of
/// one moment.
fn copy_if_still(before: Versions, from: &Path, to: &Path) -> Result<bool, Fault> {
    if Versions::of(from)? != before {
        return Ok(false);
    }
    copy(from, to)?;
    let log_copy = log_of(to);
    match before.log {
        Some(_) => copy(&log_of(from), &log_copy)?,
        None => remove_if_there(&log_copy)?,
    }
    Ok(Versions::of(from)? == before)
}

/// Copies the bytes of a file and not who may read it, which the folder of the copy decides.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = fs::File::open(from)?;
    let mut target = fs::File::create(to)?;
    io::copy(&mut source, &mut target)?;
    Ok(())
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn not_a_file(path: &Path) -> io::Error {
    io::Error::other(format!("`{}` is not a regular file", path.display()))
}

/// Returns the path of the write-ahead log of a database.
fn log_of(database: &Path) -> PathBuf {
    let mut name = OsString::from(database);
    name.push("-wal");
    PathBuf::from(name)
}
