//! Background review: every so many turns a bounded agent looks for what is worth keeping.
//!
//! A conversation keeps what was said since its last review, and a mark that only grows. When enough turns have passed,
//! the mark moves and a task is queued in one transaction: so a review is begun once, however processes die. The lane
//! does it as any other task, when nothing else waits.

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

/// By which way a change came in that a review made.
const ORIGIN: &str = "background_review";

/// What is said of a text that was cut.
const TRUNCATION_MARK: &str = " […]";

/// How far behind a cut a secret may reach that begins before it, in bytes.
const SECRET_BYTES_MAX: usize = 8 * 1024;

/// When conversations are reviewed although nobody asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReviewSettings {
    /// After so many turns of a person; 0 is never.
    pub interval: u64,
    /// How long a review may take.
    pub wait: Duration,
    /// Whether people are told of what was saved.
    pub verbose: bool,
}

impl Default for ReviewSettings {
    fn default() -> Self {
        Self { interval: 0, wait: REVIEW_WAIT_DEFAULT, verbose: false }
    }
}

/// What a host tells of a turn that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnReport {
    /// What was said in it, in its order. What the person said may be left out if it was told as a prompt.
    pub messages: Vec<(MessageRole, String)>,
    /// Whether the model wrote memories in it. What was said until then needs no review.
    pub wrote_memory: bool,
}

/// What was said in some turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReviewSpan {
    /// The first and the last of them, counted from 1.
    pub(crate) turns: (u64, u64),
    /// What was said, the oldest first.
    pub(crate) messages: Vec<(MessageRole, String)>,
}

/// Begins reviews of the conversations of a process.
#[derive(Clone, Debug)]
pub(crate) struct ReviewScheduler {
    pub(crate) lanes: Lanes,
    pub(crate) settings: ReviewSettings,
    /// Whether a model does it, so that it counts as work that nobody asked for.
    pub(crate) by_model: bool,
}

impl ReviewScheduler {
    /// Tells whether the conversations of a workspace are reviewed.
    pub(crate) fn is_enabled(&self, workspace: &str) -> bool {
        self.settings.interval > 0 && self.lanes.may_review(workspace)
    }

    /// Tells whether there is still something left for today of what models may take. What was said stays for later else.
    pub(crate) async fn is_within_budget(&self) -> Result<bool, StateError> {
        if !self.by_model || !self.lanes.is_over_budget().await? {
            return Ok(true);
        }
        tracing::info!("a review waits: models took as much as `models.background_tokens` allows");
        Ok(false)
    }

    /// Tells whether they are also reviewed when what the model knows is compacted.
    pub(crate) fn reviews_before_compaction(&self, workspace: &str) -> bool {
        self.lanes.has_feature(workspace, Feature::Harvest)
    }

    /// Returns the task of a review.
    pub(crate) fn task(
        (session, workspace): (&str, &str),
        stretch: ReviewSpan,
        moment: ReviewTrigger,
        at: Timestamp,
    ) -> NewTask {
        let ReviewSpan { turns, messages: said } = stretch;
        let said = said.into_iter().enumerate();
        let message = |(at, (role, text)): (usize, (MessageRole, String))| ReviewMessage {
            id: format!("m{}", at + 1),
            role,
            text,
        };
        let request = CuratorRequest::Review(ReviewRequest {
            session: session.to_owned(),
            turns,
            trigger: moment,
            messages: said.map(message).collect(),
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

/// Who asks for a review, which nobody asks for.
fn reviewer() -> Requester {
    Requester { client: None, trust: Trust::Background, origin: ORIGIN.to_owned() }
}

/// Tells whether nobody asked for a task since it is a review.
pub(crate) fn is_review(asker: &Requester) -> bool {
    asker.origin == ORIGIN
}

/// Returns a message as it may be kept until its review: without what Lukasa itself had shown, without secrets, not long.
/// `None` if nothing is left, or if a tool said it: that is no evidence of anything.
pub(crate) fn message_for_review(role: MessageRole, text: &str) -> Option<String> {
    let bytes_max = match role {
        MessageRole::User => USER_MESSAGE_BYTES_MAX,
        MessageRole::Assistant => REPLY_BYTES_MAX,
        MessageRole::Tool => return None,
    };
    let said = strip_blocks(text);
    let said = said.trim();
    // A secret that the cut goes through is found only if it is looked for before.
    let (looked, _) = said.split_at(said.floor_char_boundary(bytes_max + SECRET_BYTES_MAX));
    let mut kept = redact(looked);
    if said.len() > bytes_max || kept.len() > bytes_max {
        kept.truncate(kept.floor_char_boundary(bytes_max));
        kept.push_str(TRUNCATION_MARK);
    }
    (!kept.is_empty()).then_some(kept)
}

/// Takes secrets out, line by line: a line without one stays as it is.
fn redact(text: &str) -> String {
    if without_secrets(text) == text {
        return text.to_owned();
    }
    let lines: Vec<_> = text.lines().map(without_secrets).collect();
    let joined = lines.join("\n");
    // A secret over several lines, such as a private key, is found in the whole alone.
    without_secrets(&joined).into_owned()
}

/// Takes out the blocks in which models are shown memories.
fn strip_blocks(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::new();
    'text: while let Some((before, block)) = rest.split_once('<') {
        for tag in TAGS {
            let is_opened =
                block.strip_prefix(tag).is_some_and(|behind| behind.starts_with(['>', ' ', '\n']));
            if !is_opened {
                continue;
            }
            kept.push_str(before);
            let end = format!("</{tag}>");
            // A block without an end takes the rest with it.
            rest = block.split_once(end.as_str()).map_or("", |(_, behind)| behind);
            continue 'text;
        }
        kept.push_str(before);
        kept.push('<');
        rest = block;
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lukasa_had_shown_is_no_evidence() {
        let shown = "<recalled_memories>\nalways use tabs\n</recalled_memories>\nfix it <b>now</b>";
        assert_eq!(
            message_for_review(MessageRole::User, shown).as_deref(),
            Some("fix it <b>now</b>")
        );
        assert_eq!(
            message_for_review(MessageRole::User, "a <hot_memories x> never ends").as_deref(),
            Some("a")
        );
        assert_eq!(message_for_review(MessageRole::User, "<memory_index>\n</memory_index>"), None);
        assert_eq!(message_for_review(MessageRole::Tool, "I always say so"), None);
    }

    #[test]
    fn secrets_are_not_kept_and_the_other_lines_are() {
        let said =
            "I prefer tabs.\nThe key is ghp_Zz0123456789abcdefghijABCDEFGHIJ0123 for now.\nThanks.";
        let kept = message_for_review(MessageRole::User, said).unwrap();
        assert!(!kept.contains("ghp_"), "{kept}");
        assert!(kept.starts_with("I prefer tabs.\n") && kept.ends_with("\nThanks."), "{kept}");
        let key =
            "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7bq2\n-----END RSA PRIVATE KEY-----";
        let kept = super::message_for_review(MessageRole::User, key).unwrap_or_default();
        assert!(!kept.contains("MIIEow"), "{kept}");
    }

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        let kept =
            message_for_review(MessageRole::User, &"é".repeat(USER_MESSAGE_BYTES_MAX)).unwrap();
        assert!(
            kept.len() <= USER_MESSAGE_BYTES_MAX + TRUNCATION_MARK.len()
                && kept.ends_with(TRUNCATION_MARK)
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
