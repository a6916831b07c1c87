//! Errors of tasks: a code from a closed list, its public message, and optional details without
//! secrets.
//!
//! Codes and messages are part of the wire format.

use agents::{AgentError, RememberError};
use memory::error_code::MemoryErrorCode;

use super::TaskKind;
use super::redaction::redact_for_display;

/// A stable error code of a task.
#[derive(strum::Display, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TaskErrorCode {
    /// Memory is off for the workspace.
    ManagedMemoryUnavailable,
    /// An edit named a path outside of the memories.
    RememberPathEscape,
    /// Remembering failed.
    RememberFailed,
    /// The requested scope cannot be written.
    RememberScopeMismatch,
    /// Forgetting failed.
    ForgetFailed,
    /// Dreaming failed.
    DreamFailed,
    /// Reviewing failed.
    ReviewFailed,
    /// The task exceeded its time limit.
    Timeout,
    /// The task was cancelled.
    Cancelled,
    /// The workspace was removed.
    WorkspaceRemoved,
    /// The model for the task cannot be reached.
    ModelUnavailable,
    /// Screening refused the text.
    Screened,
}

impl TaskErrorCode {
    /// Returns the general error code of a task of this kind.
    pub const fn failed(kind: TaskKind) -> Self {
        match kind {
            TaskKind::Remember => Self::RememberFailed,
            TaskKind::Forget => Self::ForgetFailed,
            TaskKind::Dream => Self::DreamFailed,
            TaskKind::Review => Self::ReviewFailed,
        }
    }

    /// Returns the code as text.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns the public message of the code.
    pub const fn message(self) -> &'static str {
        match self {
            Self::ManagedMemoryUnavailable => "Managed memory is off for this workspace.",
            Self::RememberPathEscape => "Remember agent touched a path outside managed memory.",
            Self::RememberFailed => "The text could not be remembered.",
            Self::RememberScopeMismatch => "The requested scope cannot be written here.",
            Self::ForgetFailed => "The entries could not be forgotten.",
            Self::DreamFailed => "The memories could not be tidied up.",
            Self::ReviewFailed => "The conversation could not be reviewed.",
            Self::Timeout => "The task took too long and was given up.",
            Self::Cancelled => "The task was cancelled.",
            Self::WorkspaceRemoved => "The workspace was removed before the task was done.",
            Self::ModelUnavailable => "The model cannot be reached.",
            Self::Screened => "The text looks like a secret or like an attack on a model.",
        }
    }
}

/// The error with which a task failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .code.message())]
pub struct TaskError {
    /// The code.
    pub code: TaskErrorCode,
    /// The error of the store that caused it, if any.
    pub cause: Option<MemoryErrorCode>,
    /// Details without credentials and control characters, cut to a limit.
    details: Option<String>,
}

impl TaskError {
    /// Returns an error without details.
    pub const fn new(code: TaskErrorCode) -> Self {
        Self { code, cause: None, details: None }
    }

    /// Adds the error of the store that caused it.
    #[must_use]
    pub const fn caused_by(mut self, cause: MemoryErrorCode) -> Self {
        self.cause = Some(cause);
        self
    }

    /// Adds details. Credentials and control characters are removed, and long texts are cut.
    #[must_use]
    pub fn with_details(mut self, details: &str) -> Self {
        self.details = redact_for_display(details);
        self
    }

    /// Converts an error of a model into the error of a task of this kind.
    pub(crate) fn from_agent(kind: TaskKind, error: &AgentError) -> Self {
        let code = match error {
            AgentError::Deadline(_) => TaskErrorCode::Timeout,
            error if error.is_unavailable() => TaskErrorCode::ModelUnavailable,
            _ => TaskErrorCode::failed(kind),
        };
        Self::new(code).with_details(&error.to_string())
    }

    /// Returns the details, if any.
    pub fn details(&self) -> Option<&str> {
        self.details.as_deref()
    }
}

impl From<TaskErrorCode> for TaskError {
    fn from(code: TaskErrorCode) -> Self {
        Self::new(code)
    }
}

impl From<&RememberError> for TaskError {
    fn from(refusal: &RememberError) -> Self {
        match refusal {
            RememberError::Screened { .. } => {
                Self::new(TaskErrorCode::Screened).with_details(&refusal.to_string())
            }
            RememberError::ScopeMismatch => Self::new(TaskErrorCode::RememberScopeMismatch),
            RememberError::NoProject => {
                Self::new(TaskErrorCode::RememberScopeMismatch).with_details(&refusal.to_string())
            }
        }
    }
}
