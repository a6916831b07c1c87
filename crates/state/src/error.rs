//! Errors of the state, classified by what a caller can do about them.
//!
//! Inside an adapter, a [`Fault`] is the raw cause. At the boundary it becomes a [`StateError`], which names the
//! operation and the database and says what to do.

use std::error::Error;
use std::io;
use std::path::Path;

use memory::change::ChangeId;
use memory::error_code::MemoryErrorCode;
use memory::proposal::ProposalId;

/// The cause of an error, for the log.
type BoxError = Box<dyn Error + Send + Sync>;

/// An error of the state.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The database cannot be opened: no folder, no permission, no file. Nothing was changed.
    #[error(
        "cannot {operation}: the state `{database}` cannot be opened; check its folder and permissions"
    )]
    Unavailable {
        /// The operation that failed.
        operation: &'static str,
        /// The database.
        database: String,
        /// The cause.
        source: BoxError,
    },
    /// The disk or the quota is full. Nothing was changed.
    #[error("cannot {operation}: no room to write the state `{database}`; free some space")]
    Full {
        /// The operation that failed.
        operation: &'static str,
        /// The database.
        database: String,
        /// The cause.
        source: BoxError,
    },
    /// The database is damaged, and the automatic repair did not help.
    #[error("cannot {operation}: the state `{database}` is damaged; run `lukasa doctor --fix`")]
    Damaged {
        /// The operation that failed.
        operation: &'static str,
        /// The database.
        database: String,
        /// The cause.
        source: BoxError,
    },
    /// Other processes held the database for longer than a command waits.
    #[error("cannot {operation}: another process keeps the state `{database}` busy; try again")]
    Busy {
        /// The operation that failed.
        operation: &'static str,
        /// The database.
        database: String,
        /// The cause.
        source: BoxError,
    },
    /// The server of the database refuses: no such database, no permission, a wrong password. Nothing was changed.
    #[error(
        "cannot {operation}: the server refuses the database `{database}`; check its name, the user and the password"
    )]
    Refused {
        /// The operation that failed.
        operation: &'static str,
        /// The database.
        database: String,
        /// The cause.
        source: BoxError,
    },
    /// The server of the database cannot be reached, or the connection was lost. What was requested may have been done.
    #[error("cannot {operation}: the database `{database}` cannot be reached; try again")]
    Unreachable {
        /// The operation that failed.
        operation: &'static str,
        /// The database.
        database: String,
        /// The cause.
        source: BoxError,
    },
    /// A later version of Lukasa wrote the database. Nothing was changed.
    #[error(
        "cannot {operation}: the state `{database}` has schema {found} and this program knows {known}; update lukasa"
    )]
    Newer {
        /// The operation that failed.
        operation: &'static str,
        /// The database.
        database: String,
        /// The schema of the database.
        found: i64,
        /// The latest schema of this program.
        known: i64,
    },
    /// Anything else. Nothing was changed.
    #[error("cannot {operation} in the state `{database}`; `lukasa doctor` may tell more")]
    Failed {
        /// The operation that failed.
        operation: &'static str,
        /// The database.
        database: String,
        /// The cause.
        source: BoxError,
    },
}

impl StateError {
    /// Returns the stable public code.
    pub fn code(&self) -> MemoryErrorCode {
        match self {
            Self::Full { .. } => MemoryErrorCode::StorageFull,
            Self::Busy { .. } => MemoryErrorCode::Locked,
            Self::Unreachable { .. } => MemoryErrorCode::StorageUnavailable,
            Self::Unavailable { .. }
            | Self::Refused { .. }
            | Self::Damaged { .. }
            | Self::Newer { .. }
            | Self::Failed { .. } => MemoryErrorCode::StorageFailed,
        }
    }

    /// Adds the operation and the database to a fault. The database is a path or an address without a password.
    pub fn new(operation: &'static str, database: impl Into<String>, fault: Fault) -> Self {
        let database = database.into();
        if let Fault::Newer { found, known } = fault {
            return Self::Newer { operation, database, found, known };
        }
        let class = fault.class();
        let source = fault.into_cause();
        match class {
            FaultClass::Unavailable => Self::Unavailable { operation, database, source },
            FaultClass::Refused => Self::Refused { operation, database, source },
            FaultClass::Full => Self::Full { operation, database, source },
            FaultClass::Damaged => Self::Damaged { operation, database, source },
            FaultClass::Busy => Self::Busy { operation, database, source },
            FaultClass::Unreachable => Self::Unreachable { operation, database, source },
            FaultClass::Failed => Self::Failed { operation, database, source },
        }
    }

    /// Adds the operation and the file to a fault.
    pub(crate) fn of_file(operation: &'static str, path: &Path, fault: Fault) -> Self {
        Self::new(operation, path.display().to_string(), fault)
    }
}

/// The cause of an error, before the operation is added.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// An error of SQLite or of the SQLite library.
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    /// An error of another database, classified by its adapter.
    #[error("{source}")]
    Database {
        /// The remedy that a caller has.
        class: FaultClass,
        /// The cause.
        source: BoxError,
    },
    /// An error of the file system outside of SQLite.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The lock file stayed locked by other processes.
    #[error("the lock file of the database is held by another process")]
    Locked,
    /// The schema is later than the latest that this program knows.
    #[error("schema {found} is later than {known}")]
    Newer {
        /// Its schema.
        found: i64,
        /// The latest schema of this program.
        known: i64,
    },
    /// The database opens, but its content is invalid.
    #[error("{0}")]
    Damaged(String),
    /// The bytes of a stored content do not match its digest.
    #[error("the stored bytes of revision {0} do not match their digest")]
    Digest(String),
    /// The caller passed bytes that do not match their revision.
    #[error("the bytes passed for revision {0} do not match it")]
    WrongBytes(String),
    /// The change is no longer open.
    #[error("change {0} is not open")]
    NotOpen(ChangeId),
    /// The proposal does not exist or is already decided.
    #[error("proposal {0} is not waiting")]
    ProposalDecided(ProposalId),
    /// The writer no longer holds the lock of this place.
    #[error("another process took the lock of `{0}`, which was not renewed in time")]
    LockLost(String),
    /// A task was begun whose row cannot be decoded. It runs until it is failed.
    #[error("the row of a running task cannot be decoded")]
    UnreadableTask,
    /// Another attempt took over the task, or the task has ended or already has a change.
    #[error("this attempt at the task `{0}` is no longer the running one")]
    StaleAttempt(String),
}

/// The class of a fault, by what a caller can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultClass {
    /// The database cannot be opened until its configuration is corrected.
    Unavailable,
    /// The server refuses the database, the user or the password.
    Refused,
    /// The disk or a quota is full.
    Full,
    /// The database is damaged.
    Damaged,
    /// Other processes are in the way; a later call may succeed.
    Busy,
    /// The server cannot be reached; a later call may succeed.
    Unreachable,
    /// Anything else.
    Failed,
}

impl Fault {
    /// Returns whether the database as a whole is damaged, not only one stored content.
    pub(crate) fn is_damage(&self) -> bool {
        self.class() == FaultClass::Damaged && !matches!(self, Self::Digest(_))
    }

    /// Returns whether SQLite could not create or write the files beside the database.
    pub(crate) fn is_unwritable(&self) -> bool {
        let Self::Sql(sqlx::Error::Database(error)) = self else { return false };
        let code = error.code().and_then(|code| code.parse::<i32>().ok());
        // SQLITE_CANTOPEN and SQLITE_READONLY, with all their extended codes (<https://sqlite.org/rescode.html>).
        code.is_some_and(|code| [14, 8].contains(&(code & 0xff)))
    }

    /// Returns whether a retry a little later may succeed.
    pub(crate) fn is_busy(&self) -> bool {
        self.class() == FaultClass::Busy
    }

    /// Returns the class of the fault.
    pub fn class(&self) -> FaultClass {
        match self {
            Self::Database { class, .. } => *class,
            Self::Sql(sqlx::Error::Database(error)) if is_damage_message(error.message()) => {
                FaultClass::Damaged
            }
            Self::Sql(sqlx::Error::Database(error)) => error
                .code()
                .and_then(|code| code.parse().ok())
                .map_or(FaultClass::Failed, class_of_code),
            Self::Sql(sqlx::Error::Io(error)) | Self::Io(error) => class_of_io(error.kind()),
            Self::Locked | Self::LockLost(_) => FaultClass::Busy,
            Self::Damaged(_) | Self::Digest(_) => FaultClass::Damaged,
            Self::Sql(_)
            | Self::Newer { .. }
            | Self::WrongBytes(_)
            | Self::NotOpen(_)
            | Self::ProposalDecided(_)
            | Self::UnreadableTask
            | Self::StaleAttempt(_) => FaultClass::Failed,
        }
    }

    fn into_cause(self) -> BoxError {
        match self {
            Self::Sql(error) => Box::new(error),
            Self::Io(error) => Box::new(error),
            Self::Database { source, .. } => source,
            other => Box::new(other),
        }
    }
}

/// Returns whether SQLite's message means a flipped byte, in a file's format number or in the name of a table or
/// column. SQLite has no result code for that. All statements are our own and name only tables and columns that exist.
fn is_damage_message(message: &str) -> bool {
    message == "unsupported file format"
        || message.starts_with("no such column: ")
        || message.starts_with("no such table: ")
}

fn class_of_io(kind: io::ErrorKind) -> FaultClass {
    match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FaultClass::Full,
        io::ErrorKind::NotFound
        | io::ErrorKind::PermissionDenied
        | io::ErrorKind::ReadOnlyFilesystem
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::IsADirectory
        | io::ErrorKind::InvalidData => FaultClass::Unavailable,
        _ => FaultClass::Failed,
    }
}

/// Maps SQLite's extended result codes (<https://www.sqlite.org/rescode.html>) to classes.
fn class_of_code(code: i32) -> FaultClass {
    const IOERR_SHMSIZE: i32 = 4874; // the shared memory could not grow: the disk is full
    const IOERR_CORRUPTFS: i32 = 8458;
    match (code, code & 0xff) {
        (IOERR_SHMSIZE, _) | (_, 13) => FaultClass::Full,
        (IOERR_CORRUPTFS, _) | (_, 11 | 26) => FaultClass::Damaged,
        (_, 5 | 6) => FaultClass::Busy,
        // Permission, read-only, cannot open, not authorized.
        (_, 3 | 8 | 14 | 23) => FaultClass::Unavailable,
        _ => FaultClass::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(fault: Fault, code: MemoryErrorCode, message: &str) {
        let error = StateError::new("count uses", "/s/state.db", fault);
        assert_eq!((error.code(), error.to_string().as_str()), (code, message));
    }

    #[test]
    fn every_error_names_the_operation_and_what_to_do() {
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
            Fault::Database { class: FaultClass::Unreachable, source: "connection refused".into() },
            MemoryErrorCode::StorageUnavailable,
            "cannot count uses: the database `/s/state.db` cannot be reached; try again",
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
    fn sqlite_codes_are_mapped_to_classes() {
        use FaultClass::{Busy, Damaged, Failed, Full, Unavailable};
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
