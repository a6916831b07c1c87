//! Why a task was given up: a code of a closed list, its sentence, and what may be told beside it.

use agents::{AgentError, RememberError};
use memory::error_code::MemoryErrorCode;

use super::TaskKind;
use super::redaction::redact_for_display;

/// Why a task was given up, in one word that programs may rely on.
#[derive(strum::Display, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TaskErrorCode {
    /// Memory is off for the workspace.
    ManagedMemoryUnavailable,
    /// An edit named something outside of the memories.
    RememberPathEscape,
    /// Remembering failed.
    RememberFailed,
    /// The scope that was asked for cannot be written.
    RememberScopeMismatch,
    /// Forgetting failed.
    ForgetFailed,
    /// Dreaming failed.
    DreamFailed,
    /// Reviewing failed.
    ReviewFailed,
    /// It took too long.
    Timeout,
    /// Somebody took it back.
    Cancelled,
    /// The workspace is gone.
    WorkspaceRemoved,
    /// The model that was to do it cannot be reached.
    ModelUnavailable,
    /// The text is one that may not become a memory.
    Screened,
}

impl TaskErrorCode {
    /// Returns the code for a task of this kind that failed for no reason with a code of its own.
    pub const fn failed(kind: TaskKind) -> Self {
        match kind {
            TaskKind::Remember => Self::RememberFailed,
            TaskKind::Forget => Self::ForgetFailed,
            TaskKind::Dream => Self::DreamFailed,
            TaskKind::Review => Self::ReviewFailed,
        }
    }

    /// Returns the public word.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns the public sentence.
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

/// Why a task was given up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .code.message())]
pub struct TaskError {
    /// The code.
    pub code: TaskErrorCode,
    /// What the store says went wrong, if that is why.
    pub cause: Option<MemoryErrorCode>,
    /// More, cleaned: no credentials, no control characters, not long.
    details: Option<String>,
}

impl TaskError {
    /// Returns an error that says no more than its code.
    pub const fn new(code: TaskErrorCode) -> Self {
        Self { code, cause: None, details: None }
    }

    /// Returns the error with what the store says went wrong.
    #[must_use]
    pub const fn caused_by(mut self, cause: MemoryErrorCode) -> Self {
        self.cause = Some(cause);
        self
    }

    /// Returns the error with more to tell. Credentials, control characters and what is too long are
    /// taken out of it.
    #[must_use]
    pub fn with_details(mut self, details: &str) -> Self {
        self.details = redact_for_display(details);
        self
    }

    /// Says why a model did not do a task of this kind.
    pub(crate) fn from_agent(kind: TaskKind, error: &AgentError) -> Self {
        let code = match error {
            AgentError::Deadline(_) => TaskErrorCode::Timeout,
            error if error.is_unavailable() => TaskErrorCode::ModelUnavailable,
            _ => TaskErrorCode::failed(kind),
        };
        Self::new(code).with_details(&error.to_string())
    }

    /// Returns what is known beside the code.
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
