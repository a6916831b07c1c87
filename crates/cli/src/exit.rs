//! Exit statuses of commands, and the failures behind them: an error message with a hint how to correct it.
//!
//! One table maps the stable error codes to exit statuses; [`help`] and the generated reference print
//! the same table. Errors of the engine and the client are converted to [`Failure`] here.
//! [`render`](crate::render) prints failures.

use std::io;

use engine::{ContextFileError, EngineError, StateError, StoreError, TrustError};
use memory::command::CommandError;
use memory::error_code::MemoryErrorCode;
use protocol::client::ClientError;
use strum::VariantArray;

/// The exit status of a command. The number is part of the interface for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantArray)]
#[repr(u8)]
pub(crate) enum Status {
    /// Success.
    Done = 0,
    /// The request cannot be fulfilled: not found, no match, or something needs attention.
    Refused = 1,
    /// The command line, a path or a setting is wrong.
    Usage = 2,
    /// The memory was changed in the meantime, or exists already.
    Conflict = 3,
    /// The request is not allowed.
    Forbidden = 4,
    /// A limit is reached.
    Limit = 5,
    /// The machine failed.
    Fault = 6,
    /// Another process holds the lock; the same command may succeed later. `EX_TEMPFAIL` of sysexits.h, which scripts
    /// and mailers treat as temporary.
    TryAgain = 75,
    /// A person pressed Ctrl-C. 128 plus the number of SIGINT, as shells count.
    Interrupted = 130,
    /// The system sent SIGTERM, or the terminal was closed.
    Terminated = 143,
}

impl Status {
    /// Returns the meaning of the status, for help and reference.
    pub(crate) const fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => {
                "the request cannot be fulfilled, nothing matched, or attention is needed"
            }
            Self::Usage => "the command line, a path or a setting is wrong",
            Self::Conflict => "a memory was changed in the meantime or exists already",
            Self::Forbidden => "not allowed",
            Self::Limit => "a limit is reached",
            Self::Fault => "the machine failed",
            Self::TryAgain => "another process has locked the memories; try again",
            Self::Interrupted => "interrupted by Ctrl-C",
            Self::Terminated => "ended by a signal",
        }
    }

    /// Returns the status of a code.
    pub(crate) const fn from_code(code: MemoryErrorCode) -> Self {
        match code {
            MemoryErrorCode::NotFound
            | MemoryErrorCode::NotAFile
            | MemoryErrorCode::NotText
            | MemoryErrorCode::TextNotFound
            | MemoryErrorCode::TextNotUnique
            | MemoryErrorCode::InvalidRange => Self::Refused,
            MemoryErrorCode::InvalidPath | MemoryErrorCode::InvalidArguments => Self::Usage,
            MemoryErrorCode::Conflict | MemoryErrorCode::AlreadyExists => Self::Conflict,
            MemoryErrorCode::ReadOnly
            | MemoryErrorCode::Screened
            | MemoryErrorCode::EscapesRoot
            | MemoryErrorCode::ScopeUnavailable
            | MemoryErrorCode::FeatureDisabled => Self::Forbidden,
            MemoryErrorCode::TooLarge | MemoryErrorCode::ScopeFull => Self::Limit,
            MemoryErrorCode::StorageFull | MemoryErrorCode::StorageFailed => Self::Fault,
            MemoryErrorCode::StorageUnavailable | MemoryErrorCode::Locked => Self::TryAgain,
        }
    }
}

impl From<Status> for std::process::ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status as u8)
    }
}

/// Returns the table of exit statuses at the end of the long help.
pub(crate) fn help() -> String {
    let line = |status: &Status| format!("\n{:>5}  {}", *status as u8, status.meaning());
    let lines: String = Status::VARIANTS.iter().map(line).collect();
    format!("Exit status:{lines}")
}

/// The reason why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error to print.
    Message(Box<ErrorMessage>),
    /// The reader of the output closed the pipe. Nothing is printed, and the exit status is 0.
    PipeClosed,
    /// A signal ended the command. Nothing is printed.
    Interrupted(Status),
}

/// An error with a hint how to correct it.
#[derive(Debug)]
pub(crate) struct ErrorMessage {
    /// The stable code; it decides the exit status.
    pub(crate) code: MemoryErrorCode,
    /// The error text; without a full stop if it is worded here.
    pub(crate) message: String,
    /// Hints, one per line.
    pub(crate) help: Option<String>,
    /// Differences that explain the error.
    pub(crate) differences: Vec<Mismatch>,
}

/// A difference that blocks a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    /// The short path of the memory.
    pub(crate) path: String,
    /// The reason why it blocks the command.
    pub(crate) why: String,
    /// The difference as a unified diff.
    pub(crate) diff: String,
}

impl Failure {
    /// Creates a failure with an error text.
    pub(crate) fn new(code: MemoryErrorCode, what: impl Into<String>) -> Self {
        Self::Message(Box::new(ErrorMessage {
            code,
            message: what.into(),
            help: None,
            differences: Vec::new(),
        }))
    }

    /// Creates a failure for a wrong command line or setting.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new(MemoryErrorCode::InvalidArguments, what)
    }

    /// Sets the hint.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        if let Self::Message(message) = &mut self {
            message.help = Some(help.into());
        }
        self
    }

    /// Adds a hint below the others.
    pub(crate) fn more_help(mut self, help: impl Into<String>) -> Self {
        if let Self::Message(message) = &mut self {
            let before =
                message.help.take().map(|before| format!("{before}\n")).unwrap_or_default();
            message.help = Some(format!("{before}{}", help.into()));
        }
        self
    }

    /// Adds a difference that explains the error.
    pub(crate) fn difference(mut self, difference: Mismatch) -> Self {
        if let Self::Message(message) = &mut self {
            message.differences.push(difference);
        }
        self
    }

    /// Creates a failure for a file that is not a memory, from an operation such as `read` and the system's error.
    pub(crate) fn file(operation: &str, path: &std::path::Path, source: &io::Error) -> Self {
        let code = match source.kind() {
            io::ErrorKind::NotFound => MemoryErrorCode::NotFound,
            io::ErrorKind::AlreadyExists => MemoryErrorCode::AlreadyExists,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                MemoryErrorCode::StorageFull
            }
            _ => MemoryErrorCode::StorageFailed,
        };
        Self::new(code, format!("cannot {operation} `{}`: {}", path.display(), reason(source)))
    }

    /// Returns the exit status.
    pub(crate) fn status(&self) -> Status {
        match self {
            Self::Message(message) => Status::from_code(message.code),
            Self::PipeClosed => Status::Done,
            Self::Interrupted(status) => *status,
        }
    }
}

/// Returns the text of a system error without its number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((reason, _)) => reason.to_lowercase(),
        None => text,
    }
}

impl From<io::Error> for Failure {
    /// Converts an error of printing; a closed pipe is not reported.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::PipeClosed,
            io::ErrorKind::StorageFull => {
                Self::new(MemoryErrorCode::StorageFull, "cannot print: disk full")
            }
            _ => Self::new(
                MemoryErrorCode::StorageFailed,
                format!("cannot print: {}", reason(&error)),
            ),
        }
    }
}

impl From<CommandError> for Failure {
    fn from(refusal: CommandError) -> Self {
        let code = refusal.code();
        let failure = Self::new(code, refusal.to_string());
        match (refusal, help_for(code)) {
            (CommandError::Screened { rule, digest, .. }, _) => failure.help(format!(
                "if the text is harmless, write it with `--allow {rule}`\nto allow exactly this text \
                 in all writes, also of agents, add \"{}\" to `allowed` under [screening] in \
                 config.toml",
                digest.as_str()
            )),
            (
                CommandError::CannotDeleteRoot { .. }
                | CommandError::CannotRenameRoot { .. }
                | CommandError::IntoItself { .. },
                _,
            )
            | (_, None) => failure,
            (_, Some(help)) => failure.help(help),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let code = error.code();
        let failure = match error {
            StoreError::Refused(refusal) => return refusal.into(),
            StoreError::UndoBlocked(mut blocked) => {
                blocked.sort_by(|a, b| a.path.cmp(&b.path));
                let what = StoreError::UndoBlocked(blocked.clone()).to_string();
                let failure =
                    blocked.into_iter().fold(Self::new(code, what), |failure, blocker| {
                        let (path, why) = (blocker.path.to_string(), blocker.reason);
                        failure.difference(Mismatch { path, why, diff: blocker.diff })
                    });
                return failure.help("undo the later changes first, or edit the memory by hand");
            }
            other => Self::new(code, chain(&other)),
        };
        match help_for(code) {
            Some(help) => failure.help(help),
            None => failure,
        }
    }
}

impl From<ContextFileError> for Failure {
    fn from(error: ContextFileError) -> Self {
        match error {
            ContextFileError::Screened(refusal) => refusal.into(),
            other => Self::new(other.code(), chain(&other)),
        }
    }
}

impl From<TrustError> for Failure {
    fn from(error: TrustError) -> Self {
        Self::new(error.code(), chain(&error))
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Screening(_) => Self::usage(chain(&error)),
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::new(MemoryErrorCode::StorageFailed, chain(&error))
    }
}

impl From<StateError> for Failure {
    fn from(error: StateError) -> Self {
        StoreError::from(error).into()
    }
}

/// Returns an error with its causes on one line. A cause that the text already contains is not repeated.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        let source_text = source.to_string();
        if !text.contains(&source_text) {
            text.push_str(": ");
            text.push_str(&source_text);
        }
        cause = source.source();
    }
    text
}

/// Returns the hint for an error code on the command line, if the message itself does not give one.
pub(crate) const fn help_for(code: MemoryErrorCode) -> Option<&'static str> {
    match code {
        MemoryErrorCode::InvalidPath => {
            Some("write `global/prefs.md` or `/memories/global/prefs.md`")
        }
        MemoryErrorCode::NotFound => Some("`lukasa ls` lists memories, `lukasa log` their changes"),
        MemoryErrorCode::AlreadyExists => Some("`lukasa edit` changes it, `lukasa rm` deletes it"),
        MemoryErrorCode::NotAFile => Some("`lukasa ls` lists the memories of a folder"),
        MemoryErrorCode::ScopeUnavailable => {
            Some("select a project with `--project DIR`, a workspace with `--workspace-id ID`")
        }
        MemoryErrorCode::TextNotFound => Some("`lukasa view` shows the current text"),
        MemoryErrorCode::TextNotUnique => Some("include more of the surrounding text"),
        MemoryErrorCode::ScopeFull => Some("delete memories, or raise `files_max` in config.toml"),
        MemoryErrorCode::Screened => Some("rules are configured under [screening] in config.toml"),
        MemoryErrorCode::StorageFull => Some("free disk space; nothing was changed"),
        MemoryErrorCode::StorageFailed => Some("`lukasa doctor` checks the store for the cause"),
        MemoryErrorCode::StorageUnavailable => Some(
            "check its address and TLS, and that its server runs and accepts connections from here",
        ),
        MemoryErrorCode::Locked => Some("`lukasa status` shows the process that holds the lock"),
        MemoryErrorCode::FeatureDisabled => {
            Some("`lukasa features` shows the setting that turned it off")
        }
        MemoryErrorCode::InvalidArguments
        | MemoryErrorCode::ReadOnly
        | MemoryErrorCode::NotText
        | MemoryErrorCode::TooLarge
        | MemoryErrorCode::InvalidRange
        | MemoryErrorCode::Conflict
        | MemoryErrorCode::EscapesRoot => None,
    }
}

#[cfg(test)]
mod tests {
    use strum::VariantArray as _;

    use super::*;

    #[test]
    fn no_error_code_maps_to_success() {
        for &code in MemoryErrorCode::VARIANTS {
            assert_ne!(Status::from_code(code), Status::Done, "{code}");
        }
    }

    #[test]
    fn a_closed_pipe_exits_with_success() {
        let closed = io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(Failure::from(closed).status(), Status::Done);
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!(Failure::from(full).status(), Status::Fault);
    }

    #[test]
    fn a_file_failure_names_the_file_and_the_reason() {
        let missing = io::Error::from_raw_os_error(2);
        let Failure::Message(message) = Failure::file("read", "a.toml".as_ref(), &missing) else {
            panic!("a missing file has an error message")
        };
        assert_eq!(message.message, "cannot read `a.toml`: no such file or directory");
        assert_eq!(message.code, MemoryErrorCode::NotFound);
    }
}
