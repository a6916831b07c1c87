//! Failures of the server, classified by what can be done about them.

use sqlx::postgres::PgDatabaseError;
use state::rows::InvalidValue;
use state::{Fault, FaultClass};

/// The index that permits one running task in a lane.
const RUNNING_INDEX: &str = "tasks_running";

/// A failed attempt at a call.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The server aborted the transaction because of another one. Nothing was done, and it may be repeated.
    #[error("transactions were in each other's way: {0}")]
    Conflict(#[source] sqlx::Error),
    /// A connection could not begin a transaction. Nothing was done.
    #[error("no transaction could begin: {0}")]
    NotBegun(#[source] sqlx::Error),
    /// Any other failure of the server or of the connection.
    #[error(transparent)]
    Sql(sqlx::Error),
    /// A refusal, or data that this program did not write.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl From<sqlx::Error> for CallError {
    fn from(error: sqlx::Error) -> Self {
        if is_conflict(&error) { Self::Conflict(error) } else { Self::Sql(error) }
    }
}

impl From<InvalidValue> for CallError {
    fn from(invalid: InvalidValue) -> Self {
        Self::Fault(invalid.into())
    }
}

impl From<CallError> for Fault {
    fn from(failure: CallError) -> Self {
        let (class, error) = match failure {
            CallError::Fault(fault) => return fault,
            CallError::Conflict(error) => (FaultClass::Busy, error),
            CallError::Sql(error) | CallError::NotBegun(error) => (class(&error), error),
        };
        Self::Database { class, source: Box::new(error) }
    }
}

fn server_error(error: &sqlx::Error) -> Option<&PgDatabaseError> {
    match error {
        sqlx::Error::Database(error) => error.try_downcast_ref(),
        _ => None,
    }
}

/// Returns whether the whole transaction may be repeated: a failed serialization, a deadlock, or two daemons that began
/// a task of the same lane.
fn is_conflict(error: &sqlx::Error) -> bool {
    server_error(error).is_some_and(|error| match error.code() {
        "40001" | "40P01" => true,
        "23505" => error.constraint() == Some(RUNNING_INDEX),
        _ => false,
    })
}

/// Returns whether the server cannot be reached or closed the connection.
pub(crate) fn is_unreachable(error: &sqlx::Error) -> bool {
    class(error) == FaultClass::Unreachable
}

/// Maps an error to a class by its SQLSTATE
/// (<https://www.postgresql.org/docs/current/errcodes-appendix.html>).
fn class(error: &sqlx::Error) -> FaultClass {
    let Some(server) = server_error(error) else {
        return match error {
            sqlx::Error::Configuration(_) => FaultClass::Unavailable,
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::BeginFailed
            | sqlx::Error::WorkerCrashed => FaultClass::Unreachable,
            _ => FaultClass::Failed,
        };
    };
    class_of_code(server.code())
}

fn class_of_code(code: &str) -> FaultClass {
    match code {
        // Shutting down, crashed, starting, a standby, or too many connections.
        "57P01" | "57P02" | "57P03" | "25006" | "53300" => FaultClass::Unreachable,
        "53100" => FaultClass::Full,
        // A lock or a statement took too long, or the server has no memory.
        "55P03" | "57014" | "25P03" | "53200" => FaultClass::Busy,
        // No such database, or no permission.
        "3D000" | "42501" => FaultClass::Refused,
        "XX001" | "XX002" => FaultClass::Damaged,
        _ if code.starts_with("08") => FaultClass::Unreachable,
        _ if code.starts_with("28") => FaultClass::Refused,
        _ => FaultClass::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_mapped_to_classes() {
        use FaultClass::{Busy, Damaged, Failed, Full, Refused, Unreachable};
        let codes =
            ["57P01", "25006", "08006", "53100", "55P03", "28P01", "3D000", "XX001", "23505"];
        assert_eq!(
            codes.map(class_of_code),
            [Unreachable, Unreachable, Unreachable, Full, Busy, Refused, Refused, Damaged, Failed,]
        );
    }

    #[test]
    fn a_lost_connection_means_that_the_server_cannot_be_reached() {
        let lost = sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into());
        assert_eq!(Fault::from(CallError::from(lost)).class(), FaultClass::Unreachable);
    }
}
