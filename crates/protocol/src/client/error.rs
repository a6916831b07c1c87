//! What can go wrong with a call, by what the caller can do about it.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::{ErrorBody, ErrorCode};
use crate::sse::FrameTooLong;
use crate::task::Task;

/// Why a daemon did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody is there. Nothing was sent.
    #[error("the daemon cannot be reached")]
    Unreachable(#[source] std::io::Error),
    /// It was there, and then it was not, or does not speak HTTP. What was asked may have been done.
    #[error("the connection to the daemon broke")]
    Broken(#[from] hyper::Error),
    /// It did not answer in time. What was asked may have been done.
    #[error("the daemon did not answer within {0:?}")]
    TimedOut(Duration),
    /// What was to be sent has characters that no header, path or query has.
    #[error("{0} cannot be sent")]
    Unsendable(&'static str),
    /// Somebody else was quicker: the memory is not what a write was to replace. Nothing was changed.
    #[error("the memory was changed meanwhile: {}", .0.sentence)]
    Conflict(Box<Conflict>),
    /// It says no, and nothing was changed.
    #[error("the daemon refused: {}", .0.sentence)]
    Refused(Box<Refusal>),
    /// The task was given up. It changed nothing.
    #[error("the task was given up{}", reason(.0))]
    TaskFailed(Box<Task>),
    /// The task has not ended yet. It goes on.
    #[error("the task has not ended within {patience:?}")]
    TaskUnfinished {
        /// How long it was waited for.
        patience: Duration,
        /// How far it was when it was last looked at.
        task: Box<Task>,
    },
    /// It answers with what this version cannot read.
    #[error("the daemon's answer cannot be read")]
    Unreadable(#[from] serde_json::Error),
    /// It answers with a status that is no success, and no error of this API.
    #[error("the daemon answered {0}")]
    Unexpected(u16),
    /// Its answer has more than so many bytes, and was not read. What was asked is done.
    #[error("the daemon's answer is larger than {0} bytes")]
    TooLarge(usize),
    /// A frame of a stream is too long.
    #[error(transparent)]
    TooLong(#[from] FrameTooLong),
}

fn reason(task: &Task) -> String {
    let Some(error) = &task.error else { return String::new() };
    let sentence = error.message.trim_end_matches('.');
    match &error.details {
        Some(details) => format!(": {sentence}: {details}"),
        None => format!(": {sentence}"),
    }
}

/// A write that was not right about what it replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The revision that the memory has; none when it is gone.
    pub revision: Option<String>,
    /// What the daemon says about it.
    pub sentence: String,
}

/// An answer that is no success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// What went wrong, for programs.
    pub code: ErrorCode,
    /// What went wrong, for people.
    pub sentence: String,
    /// What belongs to the code, such as `rule` beside `screened`.
    pub facts: Map<String, Value>,
    /// When it may work, if the daemon knows.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// Returns which memories keep an undo from happening, beside [`ErrorCode::Conflict`].
    pub fn blocked(&self) -> Vec<Blocked> {
        let blocked = self.facts.get("blocked").cloned().unwrap_or_default();
        serde_json::from_value(blocked).unwrap_or_default()
    }
}

/// A memory that was changed after the change that is to be taken back.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Blocked {
    /// The memory.
    pub path: String,
    /// Why it is in the way.
    pub why: String,
    /// What was changed since, as a unified diff.
    pub diff: String,
}

impl ClientError {
    /// Returns the daemon's code; none when it was not the daemon who said no.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Conflict(_) => Some(ErrorCode::Conflict),
            Self::Refused(refusal) => Some(refusal.code),
            Self::Unreachable(_)
            | Self::Broken(_)
            | Self::TimedOut(_)
            | Self::Unsendable(_)
            | Self::TaskFailed(_)
            | Self::TaskUnfinished { .. }
            | Self::Unreadable(_)
            | Self::Unexpected(_)
            | Self::TooLarge(_)
            | Self::TooLong(_) => None,
        }
    }

    /// Tells whether the same call may work a little later: the daemon is away, busy or full.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Broken(_) | Self::TimedOut(_) => true,
            Self::Refused(refusal) => matches!(refusal.status, 408 | 429 | 503),
            Self::Unexpected(status) => matches!(status, 502..=504),
            Self::Conflict(_)
            | Self::Unsendable(_)
            | Self::TaskFailed(_)
            | Self::TaskUnfinished { .. }
            | Self::Unreadable(_)
            | Self::TooLarge(_)
            | Self::TooLong(_) => false,
        }
    }

    /// Returns when the same call may work, if the daemon said so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(refusal) => refusal.retry_after,
            _ => None,
        }
    }

    /// Reads an answer that is no success.
    pub(super) fn from_response(status: u16, body: &[u8], retry_after: Option<Duration>) -> Self {
        let Ok(ErrorBody { error: sentence, code, facts }) = serde_json::from_slice(body) else {
            return Self::Unexpected(status);
        };
        // An undo that is blocked replaces nothing, and its differences are facts.
        if code == ErrorCode::Conflict && !facts.contains_key("blocked") {
            let revision = facts.get("revision").and_then(Value::as_str).map(str::to_owned);
            return Self::Conflict(Box::new(Conflict { revision, sentence }));
        }
        Self::Refused(Box::new(Refusal { status, code, sentence, facts, retry_after }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, body: &str) -> ClientError {
        ClientError::from_response(status, body.as_bytes(), Some(Duration::from_secs(2)))
    }

    #[test]
    fn a_conflict_carries_the_revision_that_won() {
        let check = |body, expected: Option<&str>| {
            let ClientError::Conflict(conflict) = of(412, body) else { panic!("{body}") };
            assert_eq!(conflict.revision.as_deref(), expected);
        };
        check(r#"{"error":"x","code":"conflict","revision":"abc"}"#, Some("abc"));
        check(r#"{"error":"x","code":"conflict"}"#, None);
    }

    #[test]
    fn a_refusal_says_whether_and_when_to_come_again() {
        let check = |status, code: &str, temporary| {
            let error = of(status, &format!(r#"{{"error":"x","code":"{code}","n":1}}"#));
            assert_eq!(error.code(), Some(ErrorCode::read(code)));
            assert_eq!(error.is_temporary(), temporary, "{code}");
            assert_eq!(error.retry_after(), Some(Duration::from_secs(2)));
            assert_eq!(error.to_string(), "the daemon refused: x");
        };
        check(429, "remember_queue_full", true);
        check(503, "locked", true);
        check(404, "not_found", false);
        check(500, "storage_failed", false);
        check(418, "a_later_one", false);
    }

    #[test]
    fn what_is_no_error_of_this_api_is_told_by_its_status() {
        for body in ["", "<html>", "{}", "[1]"] {
            assert!(matches!(of(502, body), ClientError::Unexpected(502)), "{body}");
        }
        assert!(of(502, "").is_temporary());
        assert!(!of(404, "").is_temporary());
    }

    #[test]
    fn what_blocks_an_undo_is_read() {
        let body = r#"{"error":"x","code":"conflict","blocked":[{"path":"/memories/global/a.md","why":"it was changed","diff":"-a\n"}]}"#;
        let ClientError::Refused(refusal) = of(409, body) else { panic!() };
        let [blocked] = &refusal.blocked()[..] else { panic!("{refusal:?}") };
        assert_eq!(blocked.path, "/memories/global/a.md");
        let ClientError::Refused(other) = of(404, r#"{"error":"x","code":"not_found"}"#) else {
            panic!()
        };
        assert_eq!(other.blocked(), []);
    }
}
