//! The few things that are asked of the file system beside SQLite.
//!
//! Never opens the database itself: closing any descriptor of it would drop SQLite's own locks in
//! this process. What is here is naming: which file stands at the path, its lock file, its mode, and
//! the renames of healing.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "SQLite opens its file by path, so setting a damaged one aside needs paths too"
)]

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use memory::limits::LOCK_WAIT;

use crate::error::Fault;

/// How often a taken lock is asked for again: short beside a person's patience, long beside a write.
const LOCK_POLL: Duration = Duration::from_millis(5);

/// The smallest page of SQLite, and so its smallest file.
const SHORTEST: u64 = 512;

/// Which file stands at a path, so that one that was put in its place is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

/// Returns which file stands at `path`, `None` if nothing does.
///
/// One `stat`: about a microsecond, so it is asked before every use of an open connection.
pub(super) fn identity(path: &Path) -> Result<Option<FileId>, Fault> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            Err(io::Error::from(io::ErrorKind::IsADirectory).into())
        }
        Ok(metadata) => Ok(Some(id_of(&metadata))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(unix)]
fn id_of(metadata: &fs::Metadata) -> FileId {
    use std::os::unix::fs::MetadataExt;
    FileId { device: metadata.dev(), inode: metadata.ino() }
}

/// Elsewhere an open file cannot be renamed, so whatever stands at the path is the one.
#[cfg(not(unix))]
fn id_of(_metadata: &fs::Metadata) -> FileId {
    FileId { device: 0, inode: 0 }
}

/// Refuses a file that is too short for a database and yet not empty: SQLite would take it for a new
/// one and write over it.
pub(super) fn refuse_stub(path: &Path) -> Result<(), Fault> {
    match fs::metadata(path) {
        Ok(metadata) if (1..SHORTEST).contains(&metadata.len()) => {
            Err(Fault::Damaged("the file is too short for a database".to_owned()))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Lets only the owner read and write a database that was just made; SQLite gives its companions
/// the same mode. By path, for the reason that the module gives.
pub(super) fn make_private(path: &Path) -> Result<(), Fault> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    }
    Ok(())
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

/// The lock file beside a database.
///
/// Every write holds it shared; whoever creates, migrates or heals holds it alone. So no write can
/// go to a file that healing sets aside, and only one process heals.
#[derive(Debug)]
pub(super) struct Gate {
    file: Arc<File>,
}

/// How a gate is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// With other writers.
    Shared,
    /// By nobody else.
    Alone,
}

impl Gate {
    /// Opens the lock file of a database, and makes it if need be.
    pub(super) fn open(database: &Path) -> Result<Self, Fault> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;
            options.mode(0o600);
        }
        Ok(Self { file: Arc::new(options.open(with_suffix(database, ".lock"))?) })
    }

    /// Waits until the gate is held so, at the most [`LOCK_WAIT`].
    pub(super) async fn hold(&self, hold: Hold) -> Result<Held, Fault> {
        let mut waited = Duration::ZERO;
        loop {
            let tried = match hold {
                Hold::Shared => self.file.try_lock_shared(),
                Hold::Alone => self.file.try_lock(),
            };
            match tried {
                Ok(()) => return Ok(Held { file: Arc::clone(&self.file) }),
                Err(TryLockError::Error(error)) => return Err(error.into()),
                Err(TryLockError::WouldBlock) if waited >= LOCK_WAIT => return Err(Fault::Locked),
                Err(TryLockError::WouldBlock) => {
                    tokio::time::sleep(LOCK_POLL).await;
                    waited += LOCK_POLL;
                }
            }
        }
    }
}

/// A gate that is held until this is dropped.
#[derive(Debug)]
pub(super) struct Held {
    file: Arc<File>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Err(error) = self.file.unlock() {
            tracing::warn!(%error, "cannot release the lock of the state");
        }
    }
}

/// Returns where a database is built that is to take the place of a damaged one.
pub(super) fn replacement(path: &Path) -> PathBuf {
    with_suffix(path, ".healing")
}

/// Removes a half-built replacement of a healing that was cut short.
pub(super) fn discard_replacement(path: &Path) -> Result<(), Fault> {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        match fs::remove_file(with_suffix(&replacement(path), suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Puts the replacement in its place if a healing was cut short after it had moved the damaged file
/// away, which it does only when the replacement is complete.
pub(super) fn finish_replacement(path: &Path) -> Result<(), Fault> {
    if identity(path)?.is_none() && identity(&replacement(path))?.is_some() {
        // What still stands here belongs to the damaged one; beside the new one it would be applied.
        let aside =
            (1..=u32::MAX).map(|number| aside(path, number)).take_while(|path| path.exists());
        move_companions(path, &aside.last().unwrap_or_else(|| self::aside(path, 1)))?;
        fs::rename(replacement(path), path)?;
        sync_folder(path)?;
    }
    Ok(())
}

/// Sets the damaged database and its companions aside, puts the complete replacement in its place,
/// and returns the damaged one's path.
pub(super) fn replace_damaged(path: &Path) -> Result<PathBuf, Fault> {
    let aside = (1..=u32::MAX)
        .map(|number| aside(path, number))
        .find(|aside| !aside.exists())
        .ok_or_else(|| io::Error::from(io::ErrorKind::AlreadyExists))?;
    fs::rename(path, &aside)?;
    move_companions(path, &aside)?;
    fs::rename(replacement(path), path)?;
    sync_folder(path)?;
    Ok(aside)
}

fn aside(path: &Path, number: u32) -> PathBuf {
    with_suffix(path, &format!(".damaged-{number}"))
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

/// Makes the renames in the database's folder survive a power cut.
fn sync_folder(path: &Path) -> Result<(), Fault> {
    #[cfg(unix)]
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}
