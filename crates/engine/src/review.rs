//! Background reviews: after every few turns, a bounded agent reads the conversation for facts
//! worth saving.
//!
//! The record of a conversation holds the messages since its last review, and the turn up to which
//! it was reviewed. When a review is due, that turn advances and a task is queued in one
//! transaction, so that each review is queued once, even after a crash. The lane runs it like any
//! other task, when no other task waits.

use std::time::Duration;

use agents::{MessageRole, ReviewMessage, ReviewRequest, ReviewTrigger};
use context::escape::TAGS;
use memory::change::Trust;
use memory::clock::Timestamp;
use memory::feature::Feature;
use memory::limits::{REPLY_BYTES_MAX, REVIEW_WAIT_DEFAULT, USER_MESSAGE_BYTES_MAX};
use state::{NewTask, StateError};

use crate::lane::Lanes;
use crate::task::{CuratorRequest, Requester, TaskId, TaskKind, record, without_secrets};

/// The origin recorded for changes by reviews.
const ORIGIN: &str = "background_review";

/// Appended to a text that was cut.
const TRUNCATION_MARK: &str = " […]";

/// Size in bytes of a secret that may extend beyond a cut.
const SECRET_BYTES_MAX: usize = 8 * 1024;

/// The settings of background reviews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReviewSettings {
    /// Number of user turns between reviews; 0 disables them.
    pub interval: u64,
    /// Time limit of a review.
    pub wait: Duration,
    /// Whether the user is notified of saved memories.
    pub verbose: bool,
}

impl Default for ReviewSettings {
    fn default() -> Self {
        Self { interval: 0, wait: REVIEW_WAIT_DEFAULT, verbose: false }
    }
}

/// A host's report of a finished turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnReport {
    /// The messages of the turn, in order. User messages may be missing if they were reported as
    /// prompts.
    pub messages: Vec<(MessageRole, String)>,
    /// Whether the model wrote memories in it. The messages until then need no review.
    pub wrote_memory: bool,
}

/// The messages of a range of turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReviewSpan {
    /// First and last turn, counted from 1.
    pub(crate) turns: (u64, u64),
    /// The messages, oldest first.
    pub(crate) messages: Vec<(MessageRole, String)>,
}

/// Queues reviews of the conversations of a process.
#[derive(Clone, Debug)]
pub(crate) struct ReviewScheduler {
    pub(crate) lanes: Lanes,
    pub(crate) settings: ReviewSettings,
    /// Whether a model runs the review, so that it counts as unrequested work.
    pub(crate) by_model: bool,
}

impl ReviewScheduler {
    /// Checks whether conversations of a workspace are reviewed.
    pub(crate) fn is_enabled(&self, workspace: &str) -> bool {
        self.settings.interval > 0 && self.lanes.may_review(workspace)
    }

    /// Checks whether the token budget of models allows a review now. If not, the messages stay for
    /// a later one.
    pub(crate) async fn is_within_budget(&self) -> Result<bool, StateError> {
        if !self.by_model || !self.lanes.is_over_budget().await? {
            return Ok(true);
        }
        tracing::info!(
            "a review is postponed: models used the tokens that `models.background_tokens` allows"
        );
        Ok(false)
    }

    /// Checks whether conversations are also reviewed before a compaction.
    pub(crate) fn reviews_before_compaction(&self, workspace: &str) -> bool {
        self.lanes.has_feature(workspace, Feature::Harvest)
    }

    /// Returns the task of a review.
    pub(crate) fn task(
        (session, workspace): (&str, &str),
        span: ReviewSpan,
        trigger: ReviewTrigger,
        at: Timestamp,
    ) -> NewTask {
        let ReviewSpan { turns, messages } = span;
        let messages = messages.into_iter().enumerate();
        let message = |(index, (role, text)): (usize, (MessageRole, String))| ReviewMessage {
            id: format!("m{}", index + 1),
            role,
            text,
        };
        let request = CuratorRequest::Review(ReviewRequest {
            session: session.to_owned(),
            turns,
            trigger,
            messages: messages.map(message).collect(),
        });
        NewTask {
            id: TaskId::new(TaskKind::Review).to_string(),
            workspace: workspace.to_owned(),
            kind: TaskKind::Review,
            client: None,
            request: record::request_text(&request, &reviewer(), None),
            at,
        }
    }
}

/// Returns the requester of background reviews.
fn reviewer() -> Requester {
    Requester { client: None, trust: Trust::Background, origin: ORIGIN.to_owned() }
}

/// Checks whether a task is a background review.
pub(crate) fn is_review(requester: &Requester) -> bool {
    requester.origin == ORIGIN
}

/// Returns a message as it may be stored until its review: without blocks that Lukasa inserted,
/// without secrets, cut to its limit. `None` if no text remains, or for a tool's message, which is
/// no evidence.
pub(crate) fn message_for_review(role: MessageRole, text: &str) -> Option<String> {
    let bytes_max = match role {
        MessageRole::User => USER_MESSAGE_BYTES_MAX,
        MessageRole::Assistant => REPLY_BYTES_MAX,
        MessageRole::Tool => return None,
    };
    let message = strip_blocks(text);
    let message = message.trim();
    // A secret that spans the cut is only found in the uncut text.
    let (scanned, _) = message.split_at(message.floor_char_boundary(bytes_max + SECRET_BYTES_MAX));
    let mut stored = redact(scanned);
    if message.len() > bytes_max || stored.len() > bytes_max {
        stored.truncate(stored.floor_char_boundary(bytes_max));
        stored.push_str(TRUNCATION_MARK);
    }
    (!stored.is_empty()).then_some(stored)
}

/// Removes secrets line by line; a line without one stays unchanged.
fn redact(text: &str) -> String {
    if without_secrets(text) == text {
        return text.to_owned();
    }
    let lines: Vec<_> = text.lines().map(without_secrets).collect();
    let joined = lines.join("\n");
    // A secret over several lines, such as a private key, is only found in the whole text.
    without_secrets(&joined).into_owned()
}

/// Removes the blocks in which models are shown memories.
fn strip_blocks(text: &str) -> String {
    let mut rest = text;
    let mut remaining = String::new();
    'text: while let Some((before, block)) = rest.split_once('<') {
        for tag in TAGS {
            let is_opened =
                block.strip_prefix(tag).is_some_and(|behind| behind.starts_with(['>', ' ', '\n']));
            if !is_opened {
                continue;
            }
            remaining.push_str(before);
            let end = format!("</{tag}>");
            // A block without an end tag extends to the end of the text.
            rest = block.split_once(end.as_str()).map_or("", |(_, behind)| behind);
            continue 'text;
        }
        remaining.push_str(before);
        remaining.push('<');
        rest = block;
    }
    remaining.push_str(rest);
    remaining
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_inserted_by_lukasa_are_removed() {
        let shown = "<recalled_memories>\nalways use tabs\n</recalled_memories>\nfix it <b>now</b>";
        assert_eq!(
            message_for_review(MessageRole::User, shown).as_deref(),
            Some("fix it <b>now</b>")
        );
        assert_eq!(
            message_for_review(MessageRole::User, "a <long_term_memory x> never ends").as_deref(),
            Some("a")
        );
        assert_eq!(
            message_for_review(MessageRole::User, "<long_term_memory>\n</long_term_memory>"),
            None
        );
        assert_eq!(message_for_review(MessageRole::Tool, "I always say so"), None);
    }

    #[test]
    fn secrets_are_removed_and_other_lines_stay() {
        let message =
            "I prefer tabs.\nThe key is ghp_Zz0123456789abcdefghijABCDEFGHIJ0123 for now.\nThanks.";
        let stored = message_for_review(MessageRole::User, message).unwrap();
        assert!(!stored.contains("ghp_"), "{stored}");
        assert!(
            stored.starts_with("I prefer tabs.\n") && stored.ends_with("\nThanks."),
            "{stored}"
        );
        let key =
            "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7bq2\n-----END RSA PRIVATE KEY-----";
        let stored = super::message_for_review(MessageRole::User, key).unwrap_or_default();
        assert!(!stored.contains("MIIEow"), "{stored}");
    }

    #[test]
    fn a_long_message_is_cut_at_a_character_boundary() {
        let stored =
            message_for_review(MessageRole::User, &"é".repeat(USER_MESSAGE_BYTES_MAX)).unwrap();
        assert!(
            stored.len() <= USER_MESSAGE_BYTES_MAX + TRUNCATION_MARK.len()
                && stored.ends_with(TRUNCATION_MARK)
        );
        for behind in 0..40 {
            let said = format!(
                "{} ghp_Zz0123456789abcdefghijABCDEFGHIJ0123",
                "x".repeat(REPLY_BYTES_MAX - behind)
            );
            let answer = super::message_for_review(MessageRole::Assistant, &said).unwrap();
            assert!(!answer.contains("ghp"), "{behind}");
        }
        let answer =
            super::message_for_review(MessageRole::Assistant, &"a".repeat(REPLY_BYTES_MAX + 1))
                .unwrap();
        assert_eq!(answer.len(), REPLY_BYTES_MAX + TRUNCATION_MARK.len());
    }
}
