//! How a command ends: the exit statuses, and what went wrong with what to do about it.
//!
//! One table maps the stable codes to exit statuses; [`help`] and the generated reference tell
//! people the same. Printing a failure is [`render`](crate::render)'s.

use std::io;

use engine::{ContextFileError, EngineError, StateError, StoreError, TrustError};
use memory::command::CommandError;
use memory::error_code::MemoryErrorCode;
use protocol::client::ClientError;
use strum::VariantArray;

/// How a command ended, as a shell sees it: by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantArray)]
#[repr(u8)]
pub(crate) enum Status {
    /// It was done.
    Done = 0,
    /// It cannot be done as asked: nothing there, no match, something needs attention.
    Refused = 1,
    /// The command line, a path or a setting is wrong.
    Usage = 2,
    /// Somebody else got there first.
    Conflict = 3,
    /// It is not allowed.
    Forbidden = 4,
    /// A limit is reached.
    Limit = 5,
    /// The machine failed.
    Fault = 6,
    /// Another process is at it; the same command may succeed later. `EX_TEMPFAIL` of sysexits.h, which scripts and
    /// mailers know.
    TryAgain = 75,
    /// A person pressed Ctrl-C. 128 and the number of SIGINT, as shells count.
    Interrupted = 130,
    /// The system, or a closed terminal, asked to end.
    Terminated = 143,
}

impl Status {
    /// Returns what it says, for help and reference.
    pub(crate) const fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "it cannot be done as asked, nothing matched, or attention is needed",
            Self::Usage => "the command line, a path or a setting is wrong",
            Self::Conflict => "somebody else got there first",
            Self::Forbidden => "not allowed",
            Self::Limit => "a limit is reached",
            Self::Fault => "the machine failed",
            Self::TryAgain => "another process holds the memories; try again",
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
            MemoryErrorCode::Locked => Self::TryAgain,
        }
    }
}

impl From<Status> for std::process::ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status as u8)
    }
}

/// Returns the statuses as they stand at the end of the long help.
pub(crate) fn help() -> String {
    let line = |status: &Status| format!("\n{:>5}  {}", *status as u8, status.meaning());
    let lines: String = Status::VARIANTS.iter().map(line).collect();
    format!("Exit status:{lines}")
}

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something to tell the person.
    Message(Box<ErrorMessage>),
    /// Whoever read our output has enough of it. Nothing to tell.
    PipeClosed,
    /// A signal ended it; nothing to tell.
    Interrupted(Status),
}

/// What went wrong and what to do about it.
#[derive(Debug)]
pub(crate) struct ErrorMessage {
    /// The stable code; it decides the exit status.
    pub(crate) code: MemoryErrorCode,
    /// What went wrong, without a full stop where we word it ourselves.
    pub(crate) message: String,
    /// What to do.
    pub(crate) help: Option<String>,
    /// Differences that explain it, each with a title.
    pub(crate) differences: Vec<Mismatch>,
}

/// A difference that stands in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mismatch {
    /// The memory.
    pub(crate) path: String,
    /// Why it stands in the way.
    pub(crate) why: String,
    /// As a unified diff.
    pub(crate) diff: String,
}

impl Failure {
    /// Says what went wrong.
    pub(crate) fn new(code: MemoryErrorCode, what: impl Into<String>) -> Self {
        Self::Message(Box::new(ErrorMessage {
            code,
            message: what.into(),
            help: None,
            differences: Vec::new(),
        }))
    }

    /// Says that the command line or a setting is wrong.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new(MemoryErrorCode::InvalidArguments, what)
    }

    /// Says what to do about it.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        if let Self::Message(told) = &mut self {
            told.help = Some(help.into());
        }
        self
    }

    /// Says what else to do about it.
    pub(crate) fn more_help(mut self, help: impl Into<String>) -> Self {
        if let Self::Message(told) = &mut self {
            let before = told.help.take().map(|before| format!("{before}\n")).unwrap_or_default();
            told.help = Some(format!("{before}{}", help.into()));
        }
        self
    }

    /// Adds a difference that explains it.
    pub(crate) fn difference(mut self, difference: Mismatch) -> Self {
        if let Self::Message(told) = &mut self {
            told.differences.push(difference);
        }
        self
    }

    /// Says that a file that is not a memory cannot be used.
    pub(crate) fn file(wanted: &str, path: &std::path::Path, source: &io::Error) -> Self {
        let code = match source.kind() {
            io::ErrorKind::NotFound => MemoryErrorCode::NotFound,
            io::ErrorKind::AlreadyExists => MemoryErrorCode::AlreadyExists,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                MemoryErrorCode::StorageFull
            }
            _ => MemoryErrorCode::StorageFailed,
        };
        Self::new(code, format!("cannot {wanted} `{}`: {}", path.display(), reason(source)))
    }

    /// Returns the exit status.
    pub(crate) fn status(&self) -> Status {
        match self {
            Self::Message(told) => Status::from_code(told.code),
            Self::PipeClosed => Status::Done,
            Self::Interrupted(status) => *status,
        }
    }
}

/// Returns what the system says, without the number that it adds.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((reason, _)) => reason.to_lowercase(),
        None => text,
    }
}

impl From<io::Error> for Failure {
    /// What cannot be printed: the pipe was closed, or the disk behind it is full.
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
                "if it is harmless, `--allow {rule}` writes it this once\nto let this very text \
                 pass always, agents included, add \"{}\" to `allowed` under [screening] in \
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
                let failure = blocked.into_iter().fold(Self::new(code, what), |failure, one| {
                    let (path, why) = (one.path.to_string(), one.reason);
                    failure.difference(Mismatch { path, why, diff: one.diff })
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

/// Returns an error with its causes, as a person wants to read them: on one line.
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

/// Returns what a person can do at the command line, where the message itself does not say it.
pub(crate) const fn help_for(code: MemoryErrorCode) -> Option<&'static str> {
    match code {
        MemoryErrorCode::InvalidPath => {
            Some("write `global/prefs.md` or `/memories/global/prefs.md`")
        }
        MemoryErrorCode::NotFound => Some("`lukasa ls` and `lukasa log` show what there is"),
        MemoryErrorCode::AlreadyExists => Some("`lukasa edit` changes it, `lukasa rm` deletes it"),
        MemoryErrorCode::NotAFile => Some("`lukasa ls` shows what is in a folder"),
        MemoryErrorCode::ScopeUnavailable => {
            Some("give `--project DIR` for a project, `--workspace-id ID` for a workspace")
        }
        MemoryErrorCode::TextNotFound => Some("`lukasa view` shows the text as it is"),
        MemoryErrorCode::TextNotUnique => Some("give more of the text around it"),
        MemoryErrorCode::ScopeFull => Some("delete some, or raise `files_max` in config.toml"),
        MemoryErrorCode::Screened => Some("a rule is changed under [screening] in config.toml"),
        MemoryErrorCode::StorageFull => Some("free some space; nothing was changed"),
        MemoryErrorCode::StorageFailed => Some("`lukasa doctor` looks for the cause"),
        MemoryErrorCode::Locked => Some("`lukasa status` shows who holds the memories"),
        MemoryErrorCode::FeatureDisabled => Some("`lukasa features` shows which setting says so"),
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
    fn no_code_means_success() {
        for &code in MemoryErrorCode::VARIANTS {
            assert_ne!(Status::from_code(code), Status::Done, "{code}");
        }
    }

    #[test]
    fn a_closed_pipe_is_no_failure() {
        let closed = io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(Failure::from(closed).status(), Status::Done);
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!(Failure::from(full).status(), Status::Fault);
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named_with_the_reason() {
        let missing = io::Error::from_raw_os_error(2);
        let Failure::Message(told) = Failure::file("read", "a.toml".as_ref(), &missing) else {
            panic!("a missing file is told")
        };
        assert_eq!(told.message, "cannot read `a.toml`: no such file or directory");
        assert_eq!(told.code, MemoryErrorCode::NotFound);
    }
}
