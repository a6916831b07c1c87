//! The error type of the library: its kind, its stable code and its cause.
//!
//! Errors of the layers below are converted here. The kind is derived from their codes, so that callers can decide
//! without matching on messages.

use std::fmt;

use engine::feed::SubscribeError;
use engine::{
    BadConversationId, ConversationError, DecisionError, EngineError, InvalidWorkspaceId,
    StateError, StoreError, SubmitError, TaskError, TaskErrorCode, TaskId, TaskPreviewError,
    TrustError,
};
use memory::command::CommandError;
use memory::document::Revision;
use memory::error_code::MemoryErrorCode;
use memory::path::{MemoryPath, PathError};

/// The error of a refused or failed call.
///
/// [`kind`](Self::kind) says what the caller can do. [`code`](Self::code) is a stable word for logs and programs, the
/// same as over HTTP and on the command line. The message is a sentence that names the expected and the actual state.
/// The causes are in [`source`](std::error::Error::source).
///
/// ```
/// # async fn example(memories: lukasa::Memories) {
/// use lukasa::ErrorKind;
///
/// if let Err(error) = memories.create("global/tea.md", "- Darjeeling\n").await {
///     match error.kind() {
///         ErrorKind::Conflict => println!("another writer was first: {error}"),
///         ErrorKind::Busy => println!("try again later: {}", error.code()),
///         _ => println!("{error}"),
///     }
/// }
/// # }
/// ```
pub struct Error(Box<ErrorCause>);

/// A group of errors, by what the caller can do about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The arguments are invalid. Change them; the message says how.
    Invalid,
    /// No memory has this path, or no object has this id.
    NotFound,
    /// The memories are not in the state that the call expects. Read them again, then decide.
    Conflict,
    /// The text looks like a secret, or like an attack on a model. Remove that part, or let a person decide.
    Screened,
    /// The caller lacks the permission here, or a person disabled the feature. Use another caller, workspace or
    /// setting.
    Denied,
    /// A limit is reached. Make room first.
    Full,
    /// Another process or task is in the way. Retry later.
    Busy,
    /// The task was cancelled.
    Cancelled,
    /// The home was closed with [`Lukasa::close`](crate::Lukasa::close). Open it again.
    Closed,
    /// The machine or a model failed. The source has the cause; a person must act.
    Fault,
}

/// The cause of an [`Error`].
#[derive(Debug, thiserror::Error)]
pub(crate) enum ErrorCause {
    #[error(transparent)]
    Open(EngineError),
    #[error(transparent)]
    Store(StoreError),
    #[error(transparent)]
    Submit(SubmitError),
    #[error("{}", with_details(.0))]
    Task(TaskError),
    #[error(transparent)]
    Decision(DecisionError),
    #[error(transparent)]
    Conversation(ConversationError),
    #[error(transparent)]
    ConversationId(BadConversationId),
    #[error(transparent)]
    WorkspaceId(InvalidWorkspaceId),
    #[error(transparent)]
    Events(SubscribeError),
    #[error(transparent)]
    Trust(TrustError),
    #[error(
        "an agent of the class `{0}` may not start tasks, because they may write in every scope"
    )]
    TasksDenied(&'static str),
    #[error(
        "the text of a task must not be blank and may have at most {max} bytes; this one has {bytes}"
    )]
    TaskText { code: &'static str, bytes: usize, max: usize },
    #[error("there is no task `{0}` in this workspace")]
    UnknownTask(TaskId),
    #[error("this workspace has no project to trust")]
    NoProject,
    #[error("this home is closed; open it again")]
    Closed,
}

fn with_details(error: &TaskError) -> String {
    let sentence = error.code.message().trim_end_matches('.');
    error.details().map_or_else(|| sentence.to_owned(), |details| format!("{sentence}: {details}"))
}

impl Error {
    /// Returns the group of the error, which says what the caller can do.
    pub fn kind(&self) -> ErrorKind {
        match &*self.0 {
            ErrorCause::Open(EngineError::Screening(_))
            | ErrorCause::ConversationId(_)
            | ErrorCause::WorkspaceId(_)
            | ErrorCause::TaskText { .. }
            | ErrorCause::NoProject => ErrorKind::Invalid,
            ErrorCause::Store(error) => kind_of_code(error.code()),
            ErrorCause::Submit(error) => kind_of_submit(error),
            ErrorCause::Task(error) => kind_of_task(error),
            ErrorCause::Decision(error) => kind_of_code(error.code()),
            ErrorCause::Conversation(ConversationError::OtherWorkspace) => ErrorKind::Conflict,
            ErrorCause::Conversation(ConversationError::State(error))
            | ErrorCause::Events(SubscribeError::Log(error)) => kind_of_code(error.code()),
            ErrorCause::Events(SubscribeError::Full | SubscribeError::Behind) => ErrorKind::Full,
            ErrorCause::Events(SubscribeError::Closed) | ErrorCause::Closed => ErrorKind::Closed,
            ErrorCause::Trust(error) => kind_of_code(error.code()),
            ErrorCause::TasksDenied(_) => ErrorKind::Denied,
            ErrorCause::UnknownTask(_) => ErrorKind::NotFound,
        }
    }

    /// Returns the stable code, a word that never changes its meaning.
    pub fn code(&self) -> &'static str {
        match &*self.0 {
            ErrorCause::Open(EngineError::Screening(_))
            | ErrorCause::ConversationId(_)
            | ErrorCause::WorkspaceId(_)
            | ErrorCause::NoProject => MemoryErrorCode::InvalidArguments.into(),
            ErrorCause::Store(error) => error.code().into(),
            ErrorCause::Submit(error) => error.code(),
            ErrorCause::Task(error) => error.code.as_str(),
            ErrorCause::Decision(error) => error.code().into(),
            ErrorCause::Conversation(ConversationError::OtherWorkspace) => {
                MemoryErrorCode::Conflict.into()
            }
            ErrorCause::Conversation(ConversationError::State(error))
            | ErrorCause::Events(SubscribeError::Log(error)) => error.code().into(),
            ErrorCause::Events(SubscribeError::Full | SubscribeError::Behind) => {
                "too_many_subscribers"
            }
            ErrorCause::Events(SubscribeError::Closed) | ErrorCause::Closed => "closed",
            ErrorCause::Trust(error) => error.code().into(),
            ErrorCause::TaskText { code, .. } => code,
            ErrorCause::TasksDenied(_) => MemoryErrorCode::ReadOnly.into(),
            ErrorCause::UnknownTask(_) => MemoryErrorCode::NotFound.into(),
        }
    }

    /// Returns the current revision of the memory, if a [`Conflict`](ErrorKind::Conflict) names one.
    pub fn current_revision(&self) -> Option<Revision> {
        match &*self.0 {
            ErrorCause::Store(StoreError::Refused(CommandError::Conflict { current, .. })) => {
                *current
            }
            _ => None,
        }
    }

    /// Returns the memories that block an undo because they changed later.
    pub fn blocked(&self) -> Vec<MemoryPath> {
        match &*self.0 {
            ErrorCause::Store(StoreError::UndoBlocked(blocked)) => {
                blocked.iter().map(|change| change.path.clone()).collect()
            }
            _ => Vec::new(),
        }
    }
}

const fn kind_of_code(code: MemoryErrorCode) -> ErrorKind {
    match code {
        MemoryErrorCode::InvalidPath
        | MemoryErrorCode::InvalidArguments
        | MemoryErrorCode::NotAFile
        | MemoryErrorCode::NotText
        | MemoryErrorCode::TooLarge
        | MemoryErrorCode::InvalidRange => ErrorKind::Invalid,
        MemoryErrorCode::NotFound => ErrorKind::NotFound,
        MemoryErrorCode::AlreadyExists
        | MemoryErrorCode::Conflict
        | MemoryErrorCode::TextNotFound
        | MemoryErrorCode::TextNotUnique => ErrorKind::Conflict,
        MemoryErrorCode::Screened => ErrorKind::Screened,
        MemoryErrorCode::ScopeUnavailable
        | MemoryErrorCode::ReadOnly
        | MemoryErrorCode::EscapesRoot
        | MemoryErrorCode::FeatureDisabled => ErrorKind::Denied,
        MemoryErrorCode::ScopeFull | MemoryErrorCode::StorageFull => ErrorKind::Full,
        MemoryErrorCode::StorageUnavailable | MemoryErrorCode::Locked => ErrorKind::Busy,
        MemoryErrorCode::StorageFailed => ErrorKind::Fault,
    }
}

fn kind_of_submit(error: &SubmitError) -> ErrorKind {
    match error {
        SubmitError::Untrusted | SubmitError::FeatureDisabled | SubmitError::Unavailable => {
            ErrorKind::Denied
        }
        SubmitError::Full => ErrorKind::Busy,
        SubmitError::Draining => ErrorKind::Closed,
        SubmitError::ProbeFailed => ErrorKind::Fault,
        SubmitError::State(error) => kind_of_code(error.code()),
    }
}

fn kind_of_task(error: &TaskError) -> ErrorKind {
    match error.code {
        TaskErrorCode::Screened => ErrorKind::Screened,
        TaskErrorCode::Cancelled | TaskErrorCode::WorkspaceRemoved => ErrorKind::Cancelled,
        TaskErrorCode::ManagedMemoryUnavailable
        | TaskErrorCode::RememberScopeMismatch
        | TaskErrorCode::RememberPathEscape => ErrorKind::Denied,
        TaskErrorCode::Timeout => ErrorKind::Busy,
        TaskErrorCode::ModelUnavailable => ErrorKind::Fault,
        TaskErrorCode::RememberFailed
        | TaskErrorCode::ForgetFailed
        | TaskErrorCode::DreamFailed
        | TaskErrorCode::ReviewFailed => error.cause.map_or(ErrorKind::Fault, kind_of_code),
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.kind())
            .field("code", &self.code())
            .field("cause", &self.0)
            .finish()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl From<ErrorCause> for Error {
    fn from(cause: ErrorCause) -> Self {
        Self(Box::new(cause))
    }
}

/// Converts errors of the layers below.
macro_rules! from {
    ($($error:ty => $variant:ident,)+) => {
        $(impl From<$error> for Error {
            fn from(error: $error) -> Self {
                ErrorCause::$variant(error.into()).into()
            }
        })+
    };
}

from! {
    EngineError => Open,
    StoreError => Store,
    StateError => Store,
    CommandError => Store,
    SubmitError => Submit,
    TaskError => Task,
    DecisionError => Decision,
    ConversationError => Conversation,
    BadConversationId => ConversationId,
    SubscribeError => Events,
    TrustError => Trust,
}

impl From<TaskPreviewError> for Error {
    fn from(error: TaskPreviewError) -> Self {
        match error {
            TaskPreviewError::Submit(error) => error.into(),
            TaskPreviewError::Task(error) => error.into(),
        }
    }
}

impl From<PathError> for Error {
    fn from(error: PathError) -> Self {
        CommandError::from(error).into()
    }
}
