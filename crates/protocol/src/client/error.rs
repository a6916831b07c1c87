//! Errors of client calls, grouped by the caller's possible reaction.
//!
//! A caller can distinguish errors that may pass on a retry ([`ClientError::is_temporary`]), conflicts with a newer
//! revision, and refusals with an error code.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::{ErrorBody, ErrorCode};
use crate::sse::FrameTooLong;
use crate::task::Task;

/// The reason why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No daemon accepts connections at the endpoint. Nothing was sent.
    #[error("the daemon cannot be reached")]
    Unreachable(#[source] std::io::Error),
    /// The connection ended, or the peer does not speak HTTP. The request may have been carried out.
    #[error("the connection to the daemon broke")]
    Broken(#[from] hyper::Error),
    /// No response arrived in time. The request may have been carried out.
    #[error("the daemon did not answer within {0:?}")]
    TimedOut(Duration),
    /// A value has characters that a header, path or query cannot have.
    #[error("{0} has invalid characters for HTTP")]
    Unsendable(&'static str),
    /// A failed precondition: the memory is not at the revision that the write replaces. Nothing was changed.
    #[error("the memory was changed meanwhile: {}", .0.sentence)]
    Conflict(Box<Conflict>),
    /// The daemon refused the request. Nothing was changed.
    #[error("the daemon refused: {}", .0.sentence)]
    Refused(Box<Refusal>),
    /// The task failed or was cancelled. It changed nothing.
    #[error("the task failed{}", reason(.0))]
    TaskFailed(Box<Task>),
    /// The task has not ended in time. It continues.
    #[error("the task has not ended within {patience:?}")]
    TaskUnfinished {
        /// The time that the caller waited.
        patience: Duration,
        /// The last known state of the task.
        task: Box<Task>,
    },
    /// The response is not the JSON that this version expects.
    #[error("the daemon's response cannot be decoded")]
    Unreadable(#[from] serde_json::Error),
    /// An error status without an error body of this API.
    #[error("unexpected HTTP status {0} from the daemon")]
    Unexpected(u16),
    /// The response is larger than this number of bytes and was not read. The request was carried out.
    #[error("the daemon's response is larger than {0} bytes")]
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

/// The facts of a failed precondition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The current revision of the memory; none if it does not exist.
    pub revision: Option<String>,
    /// The daemon's message.
    pub sentence: String,
}

/// An error response of the daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The error code, for programs.
    pub code: ErrorCode,
    /// The error message, for people.
    pub sentence: String,
    /// Further fields that belong to the code, such as `rule` with `screened`.
    pub facts: Map<String, Value>,
    /// The delay before a retry, if the daemon sent one.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// Returns the memories that prevent an undo, for [`ErrorCode::Conflict`].
    pub fn blocked(&self) -> Vec<Blocked> {
        let blocked = self.facts.get("blocked").cloned().unwrap_or_default();
        serde_json::from_value(blocked).unwrap_or_default()
    }
}

/// A memory that was changed after the change to undo.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Blocked {
    /// The path of the memory.
    pub path: String,
    /// The reason why it prevents the undo.
    pub why: String,
    /// The later changes, as a unified diff.
    pub diff: String,
}

impl ClientError {
    /// Returns the daemon's error code; none if the error did not come from the daemon.
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

    /// Checks whether a retry may succeed: the daemon is unreachable, busy or full.
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

    /// Returns the delay before a retry, if the daemon sent one.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(refusal) => refusal.retry_after,
            _ => None,
        }
    }

    /// Decodes an error response.
    pub(super) fn from_response(status: u16, body: &[u8], retry_after: Option<Duration>) -> Self {
        let Ok(ErrorBody { error: sentence, code, facts }) = serde_json::from_slice(body) else {
            return Self::Unexpected(status);
        };
        // A blocked undo is no failed precondition of a write: it stays a refusal, which keeps its diffs.
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
    fn a_conflict_carries_the_current_revision() {
        let check = |body, expected: Option<&str>| {
            let ClientError::Conflict(conflict) = of(412, body) else { panic!("{body}") };
            assert_eq!(conflict.revision.as_deref(), expected);
        };
        check(r#"{"error":"x","code":"conflict","revision":"abc"}"#, Some("abc"));
        check(r#"{"error":"x","code":"conflict"}"#, None);
    }

    #[test]
    fn a_refusal_says_whether_and_when_to_retry() {
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
    fn an_unknown_error_body_is_reported_by_its_status() {
        for body in ["", "<html>", "{}", "[1]"] {
            assert!(matches!(of(502, body), ClientError::Unexpected(502)), "{body}");
        }
        assert!(of(502, "").is_temporary());
        assert!(!of(404, "").is_temporary());
    }

    #[test]
    fn the_memories_that_block_an_undo_are_decoded() {
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
