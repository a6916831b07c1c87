//! What can go wrong with the state, by what a caller can do about it.
//!
//! Every error names the database and what was wanted of it. Inside the crate a [`Fault`] says what
//! happened; at the boundary it becomes a [`StateError`].

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use memory::change::ChangeId;
use memory::error_code::MemoryErrorCode;
use memory::proposal::ProposalId;

/// The cause of an error, for the log.
type BoxError = Box<dyn Error + Send + Sync>;

/// Why the state could not do what was wanted.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The database cannot be opened here: no folder, no permission, no file. Nothing was touched.
    #[error(
        "cannot {wanted}: the state `{path}` cannot be opened; check its folder and permissions"
    )]
    Unavailable {
        /// What was wanted.
        wanted: &'static str,
        /// The database.
        path: PathBuf,
        /// What was found.
        source: BoxError,
    },
    /// The disk or the quota is full. Nothing was changed.
    #[error("cannot {wanted}: no room to write the state `{path}`; free some space")]
    Full {
        /// What was wanted.
        wanted: &'static str,
        /// The database.
        path: PathBuf,
        /// What was found.
        source: BoxError,
    },
    /// The database is damaged in a way that was not repaired by itself.
    #[error("cannot {wanted}: the state `{path}` is damaged; run `lukasa doctor --fix`")]
    Damaged {
        /// What was wanted.
        wanted: &'static str,
        /// The database.
        path: PathBuf,
        /// What was found.
        source: BoxError,
    },
    /// Other processes kept the database for longer than a command waits.
    #[error("cannot {wanted}: another process keeps the state `{path}` busy; try again")]
    Busy {
        /// What was wanted.
        wanted: &'static str,
        /// The database.
        path: PathBuf,
        /// What was found.
        source: BoxError,
    },
    /// A later Lukasa wrote the database. Nothing was touched.
    #[error(
        "cannot {wanted}: the state `{path}` has schema {found} and this program knows {known}; update lukasa"
    )]
    Newer {
        /// What was wanted.
        wanted: &'static str,
        /// The database.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The latest schema of this program.
        known: i64,
    },
    /// Anything else. Nothing was changed.
    #[error("cannot {wanted} in the state `{path}`; `lukasa doctor` may tell more")]
    Failed {
        /// What was wanted.
        wanted: &'static str,
        /// The database.
        path: PathBuf,
        /// What was found.
        source: BoxError,
    },
}

impl StateError {
    /// Returns the stable public code.
    pub fn code(&self) -> MemoryErrorCode {
        match self {
            Self::Full { .. } => MemoryErrorCode::StorageFull,
            Self::Busy { .. } => MemoryErrorCode::Locked,
            Self::Unavailable { .. }
            | Self::Damaged { .. }
            | Self::Newer { .. }
            | Self::Failed { .. } => MemoryErrorCode::StorageFailed,
        }
    }

    /// Says of a fault what was wanted, and of which database.
    pub(crate) fn new(wanted: &'static str, path: &Path, fault: Fault) -> Self {
        let path = path.to_owned();
        match (fault.class(), fault) {
            (_, Fault::Newer { found, known }) => Self::Newer { wanted, path, found, known },
            (Class::Unavailable, fault) => {
                Self::Unavailable { wanted, path, source: fault.into_cause() }
            }
            (Class::Full, fault) => Self::Full { wanted, path, source: fault.into_cause() },
            (Class::Damaged, fault) => Self::Damaged { wanted, path, source: fault.into_cause() },
            (Class::Busy, fault) => Self::Busy { wanted, path, source: fault.into_cause() },
            (Class::Failed, fault) => Self::Failed { wanted, path, source: fault.into_cause() },
        }
    }
}

/// What happened, before it is said what was wanted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// SQLite, or the library that speaks to it.
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    /// The file system, beside SQLite.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The lock file stayed taken.
    #[error("the lock beside the database stays taken")]
    Locked,
    /// The schema is later than this program's.
    #[error("schema {found} is later than {known}")]
    Newer {
        /// Its schema.
        found: i64,
        /// The latest schema of this program.
        known: i64,
    },
    /// The database answers, but not with a state.
    #[error("{0}")]
    Damaged(String),
    /// A kept content does not have its digest.
    #[error("the kept content {0} does not have its digest")]
    Digest(String),
    /// The caller handed over bytes that are not those of the revision.
    #[error("the bytes handed over for {0} are not those of their revision")]
    WrongBytes(String),
    /// The change is settled.
    #[error("change {0} is not open")]
    NotOpen(ChangeId),
    /// The proposal is not there, or a person decided already.
    #[error("the proposal {0} does not wait")]
    ProposalDecided(ProposalId),
    /// The row of a task that was begun holds what cannot be. It runs until it is failed.
    #[error("a task that was begun cannot be read")]
    UnreadableTask,
    /// Somebody else has the task, or it is over, or was done already.
    #[error("this attempt at the task `{0}` has nothing more to change")]
    StaleAttempt(String),
}

/// What a caller can do about a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Unavailable,
    Full,
    Damaged,
    Busy,
    Failed,
}

impl Fault {
    /// Returns whether the database as a whole is damaged, and not one kept content.
    pub(crate) fn is_damage(&self) -> bool {
        self.class() == Class::Damaged && !matches!(self, Self::Digest(_))
    }

    /// Tells whether SQLite could not make the files beside the database, or not write to them.
    pub(crate) fn is_unwritable(&self) -> bool {
        let Self::Sql(sqlx::Error::Database(error)) = self else { return false };
        let code = error.code().and_then(|code| code.parse::<i32>().ok());
        // SQLITE_CANTOPEN and SQLITE_READONLY, with all that extends them (<https://sqlite.org/rescode.html>).
        code.is_some_and(|code| [14, 8].contains(&(code & 0xff)))
    }

    /// Tells whether the same may succeed a little later.
    pub(crate) fn is_busy(&self) -> bool {
        self.class() == Class::Busy
    }

    fn class(&self) -> Class {
        match self {
            Self::Sql(sqlx::Error::Database(error)) if is_damage_message(error.message()) => {
                Class::Damaged
            }
            Self::Sql(sqlx::Error::Database(error)) => {
                error.code().and_then(|code| code.parse().ok()).map_or(Class::Failed, class_of_code)
            }
            Self::Sql(sqlx::Error::Io(error)) | Self::Io(error) => class_of_io(error.kind()),
            Self::Locked => Class::Busy,
            Self::Damaged(_) | Self::Digest(_) => Class::Damaged,
            Self::Sql(_)
            | Self::Newer { .. }
            | Self::WrongBytes(_)
            | Self::NotOpen(_)
            | Self::ProposalDecided(_)
            | Self::UnreadableTask
            | Self::StaleAttempt(_) => Class::Failed,
        }
    }

    fn into_cause(self) -> BoxError {
        match self {
            Self::Sql(error) => Box::new(error),
            Self::Io(error) => Box::new(error),
            other => Box::new(other),
        }
    }
}

/// Tells whether SQLite, which has no code of its own for it, says that a byte was flipped: where a file says
/// which format it has, or in the name of a table or a column. All statements are ours and name what is there.
fn is_damage_message(message: &str) -> bool {
    message == "unsupported file format"
        || message.starts_with("no such column: ")
        || message.starts_with("no such table: ")
}

fn class_of_io(kind: io::ErrorKind) -> Class {
    match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Class::Full,
        io::ErrorKind::NotFound
        | io::ErrorKind::PermissionDenied
        | io::ErrorKind::ReadOnlyFilesystem
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::IsADirectory
        | io::ErrorKind::InvalidData => Class::Unavailable,
        _ => Class::Failed,
    }
}

/// Sorts SQLite's extended result codes (<https://www.sqlite.org/rescode.html>).
fn class_of_code(code: i32) -> Class {
    const IOERR_SHMSIZE: i32 = 4874; // the shared memory could not grow: the disk is full
    const IOERR_CORRUPTFS: i32 = 8458;
    match (code, code & 0xff) {
        (IOERR_SHMSIZE, _) | (_, 13) => Class::Full,
        (IOERR_CORRUPTFS, _) | (_, 11 | 26) => Class::Damaged,
        (_, 5 | 6) => Class::Busy,
        // Permission, read-only, cannot open, not authorized.
        (_, 3 | 8 | 14 | 23) => Class::Unavailable,
        _ => Class::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(fault: Fault, code: MemoryErrorCode, message: &str) {
        let error = StateError::new("count uses", Path::new("/s/state.db"), fault);
        assert_eq!((error.code(), error.to_string().as_str()), (code, message));
    }

    #[test]
    fn every_fault_says_what_was_wanted_and_what_to_do() {
        check(
            Fault::Io(io::ErrorKind::PermissionDenied.into()),
            MemoryErrorCode::StorageFailed,
            "cannot count uses: the state `/s/state.db` cannot be opened; check its folder and permissions",
        );
        check(
            Fault::Io(io::ErrorKind::StorageFull.into()),
            MemoryErrorCode::StorageFull,
            "cannot count uses: no room to write the state `/s/state.db`; free some space",
        );
        check(
            Fault::Digest("00".to_owned()),
            MemoryErrorCode::StorageFailed,
            "cannot count uses: the state `/s/state.db` is damaged; run `lukasa doctor --fix`",
        );
        check(
            Fault::Locked,
            MemoryErrorCode::Locked,
            "cannot count uses: another process keeps the state `/s/state.db` busy; try again",
        );
        check(
            Fault::Newer { found: 7, known: 1 },
            MemoryErrorCode::StorageFailed,
            "cannot count uses: the state `/s/state.db` has schema 7 and this program knows 1; update lukasa",
        );
        check(
            Fault::StaleAttempt("remember-1".to_owned()),
            MemoryErrorCode::StorageFailed,
            "cannot count uses in the state `/s/state.db`; `lukasa doctor` may tell more",
        );
        check(
            Fault::NotOpen(ChangeId(3)),
            MemoryErrorCode::StorageFailed,
            "cannot count uses in the state `/s/state.db`; `lukasa doctor` may tell more",
        );
    }

    #[test]
    fn sqlite_codes_are_sorted_by_what_can_be_done() {
        use Class::{Busy, Damaged, Failed, Full, Unavailable};
        let classes = [5, 261, 13, 4874, 11, 267, 26, 14, 1288, 10, 522, 1, 19].map(class_of_code);
        assert_eq!(
            classes,
            [
                Busy,
                Busy,
                Full,
                Full,
                Damaged,
                Damaged,
                Damaged,
                Unavailable,
                Unavailable,
                Failed,
                Failed,
                Failed,
                Failed,
            ]
        );
    }

    #[test]
    fn only_a_damaged_database_is_replaced_by_a_new_one() {
        assert!(Fault::Damaged("no tables".to_owned()).is_damage());
        assert!(!Fault::Digest("00".to_owned()).is_damage());
        assert!(!Fault::Io(io::ErrorKind::PermissionDenied.into()).is_damage());
        assert!(!Fault::Newer { found: 2, known: 1 }.is_damage());
    }
}
