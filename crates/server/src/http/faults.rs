//! From what goes wrong below to what is answered.
//!
//! What the caller can mend is answered with its sentence. What the machine failed at is answered
//! with what its code means and no more, for causes name folders; the log gets all of them.

use axum::extract::rejection::QueryRejection;
use axum::http::StatusCode;
use engine::{BackendError, ContextFileError, StateError, StoreError};
use memory::code::Code;
use memory::command::CommandError;
use memory::feature::Feature;
use memory::limits::HTTP_RETRY_AFTER_SECONDS;
use protocol::error::ErrorCode;
use serde_json::json;

use super::refused::Refused;
use crate::chain;

/// Returns the code of the wire that says the same.
fn code(code: Code) -> ErrorCode {
    ErrorCode::read(code.as_str())
}

/// Logs a failure, which goes no further, and answers with its code.
pub(super) fn fault(error: &(dyn std::error::Error + 'static), code: Code) -> Refused {
    tracing::error!(%code, error = chain(error), "the machine failed");
    let refused = Refused::from(self::code(code));
    match code {
        Code::Locked => refused.retry_after(HTTP_RETRY_AFTER_SECONDS),
        _ => refused,
    }
}

/// Says that a feature is switched off.
pub(super) fn off(feature: Feature) -> Refused {
    CommandError::FeatureDisabled { feature }.into()
}

impl From<CommandError> for Refused {
    fn from(refusal: CommandError) -> Self {
        let refused = Self::from(code(refusal.code())).saying(refusal.to_string());
        match refusal {
            CommandError::Conflict { current: Some(revision), .. } => {
                refused.with("revision", revision.to_string())
            }
            CommandError::FeatureDisabled { feature } => refused.with("feature", feature.as_str()),
            CommandError::Screened { rule, line, .. } => {
                refused.with("rule", rule).with("line", line)
            }
            _ => refused,
        }
    }
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Refused(refusal) => refusal.into(),
            StoreError::UndoBlocked(ref blocked) => {
                let blocked: Vec<_> = blocked
                    .iter()
                    .map(|one| {
                        json!({ "path": one.path.to_string(), "why": one.why, "diff": one.diff })
                    })
                    .collect();
                // The request named no precondition that could have failed.
                Self::from(code(error.code()))
                    .with_status(StatusCode::CONFLICT)
                    .saying(error.to_string())
                    .with("blocked", blocked)
            }
            StoreError::NoSuchChange(_)
            | StoreError::UndoElsewhere(_)
            | StoreError::NothingToUndo(_) => {
                Self::from(code(error.code())).saying(error.to_string())
            }
            StoreError::Backend { .. } | StoreError::State(_) => fault(&error, error.code()),
        }
    }
}

impl From<ContextFileError> for Refused {
    fn from(error: ContextFileError) -> Self {
        match error {
            ContextFileError::Screened(refusal) => refusal.into(),
            ContextFileError::Backend { ref source, .. } if is_fault(source) => {
                fault(&error, error.code())
            }
            _ => {
                let refused = Self::from(code(error.code())).saying(chain(&error));
                match error {
                    ContextFileError::Conflict { current: Some(revision), .. } => {
                        refused.with("revision", revision.to_string())
                    }
                    _ => refused,
                }
            }
        }
    }
}

/// Tells whether it is the machine that failed.
const fn is_fault(error: &BackendError) -> bool {
    use BackendError as E;
    match error {
        E::Full(_) | E::Locked(_) | E::Io { .. } => true,
        E::NotFound
        | E::Occupied
        | E::WrongKind
        | E::Changed
        | E::Escapes(_)
        | E::NotWritable(_) => false,
    }
}

impl From<StateError> for Refused {
    fn from(error: StateError) -> Self {
        fault(&error, error.code())
    }
}

impl From<QueryRejection> for Refused {
    fn from(rejected: QueryRejection) -> Self {
        Self::from(ErrorCode::InvalidArguments).saying(rejected.body_text())
    }
}
