//! The messages of a conversation that wait for its next review, and the turn up to which it was
//! reviewed.
//!
//! Calls produce [`Observation`]s, already bounded and without secrets. The writer applies them to
//! the [`ReviewBacklog`] in the stored record and queues a review when one is due. Nothing here
//! talks to a model.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use agents::{MessageRole, ReviewTrigger};
use memory::limits::TURN_TEXTS_BYTES_MAX;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::review::{ReviewSpan, TurnReport, message_for_review};

/// Size in bytes counted per message beside its text.
const MESSAGE_OVERHEAD_BYTES: usize = 64;

/// Maximum number of observations held in memory while the state cannot be written.
const PENDING_OBSERVATIONS_MAX: usize = 128;

/// The backlog for the next review. It lives only in the stored record of the conversation: each
/// process adds its observations there, so that none relies on counts of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ReviewBacklog {
    /// Number of user turns that have ended since reviews were enabled.
    turns: u64,
    /// Number of those that were reviewed, or are in a queued review.
    reviewed_at_turn: u64,
    /// The last turn whose messages need no review: they had one, or the model wrote memories
    /// itself.
    read_up_to: u64,
    /// The last turn in which the model wrote memories; it may still be running.
    #[serde(skip_serializing_if = "is_zero")]
    wrote_in: u64,
    /// The last turn in which the user said something; it may still be running.
    #[serde(skip_serializing_if = "is_zero")]
    spoke_in: u64,
    /// The messages after that, oldest first.
    said: VecDeque<BacklogMessage>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct BacklogMessage {
    turn: u64,
    role: String,
    text: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl ReviewBacklog {
    /// Records an observation. Returns the messages to review and the trigger if a review is due,
    /// and marks them as reviewed. Without an interval no review is due.
    pub(super) fn observe(
        &mut self,
        observation: &Observation,
        interval: Option<u64>,
    ) -> Option<(ReviewTrigger, ReviewSpan)> {
        match observation {
            Observation::Prompt(text) => {
                self.add_message(MessageRole::User, text);
                return None;
            }
            Observation::MemoryWritten => {
                self.wrote_in = self.turns + 1;
                return None;
            }
            Observation::TurnEnded { messages, wrote_memory } => {
                self.turn_ended(messages, *wrote_memory);
            }
            Observation::ReviewRequested(_) => {}
        }
        self.take_if_due(observation.moment(), interval?)
    }

    /// Returns the messages to review for a trigger, if a review is due.
    fn take_if_due(
        &mut self,
        trigger: ReviewTrigger,
        interval: u64,
    ) -> Option<(ReviewTrigger, ReviewSpan)> {
        let turns = match trigger {
            ReviewTrigger::Turns => interval,
            // A review of less than half the interval is not worth its cost.
            ReviewTrigger::End => interval.div_ceil(2),
            ReviewTrigger::Compaction => {
                return self.take_all_turns().map(|span| (trigger, span));
            }
        };
        if !self.is_due(turns) {
            return None;
        }
        self.take_stretch().map(|span| (trigger, span))
    }

    /// Records the end of a turn. A turn without a user message does not count.
    fn turn_ended(&mut self, messages: &[(MessageRole, String)], wrote_memory: bool) {
        let turn = self.turns + 1;
        for (role, text) in messages {
            self.add_message(*role, text);
        }
        if self.spoke_in != turn {
            self.said.retain(|message| message.turn < turn);
            return;
        }
        self.turns = turn;
        if wrote_memory || self.wrote_in == turn {
            self.read_up_to = turn;
            self.drop_reviewed();
        }
    }

    /// Checks whether `turns` turns have passed since the last review.
    const fn is_due(&self, turns: u64) -> bool {
        self.turns.saturating_sub(self.reviewed_at_turn) >= turns
    }

    /// Takes the messages of finished turns and marks them as reviewed; `None` if there are none.
    fn take_stretch(&mut self) -> Option<ReviewSpan> {
        let last = self.turns;
        let is_over = |message: &&BacklogMessage| message.turn <= last;
        let first = self.said.iter().find(is_over).map(|message| message.turn);
        let messages = self.said.iter().filter(is_over);
        let messages = messages
            .filter_map(|message| Some((message.role.parse().ok()?, message.text.clone())))
            .collect();
        self.reviewed_at_turn = last;
        self.read_up_to = last;
        self.drop_reviewed();
        first.map(|first| ReviewSpan { turns: (first, last), messages })
    }

    /// Takes all messages, including those of a running turn, and marks them as reviewed; `None` if
    /// there are none. Later messages of that turn go to the next review.
    fn take_all_turns(&mut self) -> Option<ReviewSpan> {
        let span = self.take_stretch();
        let ongoing = std::mem::take(&mut self.said);
        let messages = ongoing
            .into_iter()
            .filter_map(|message| Some((message.role.parse().ok()?, message.text)));
        let messages: Vec<_> = messages.collect();
        let ongoing = self.turns + 1;
        match span {
            None if messages.is_empty() => None,
            None => Some(ReviewSpan { turns: (ongoing, ongoing), messages }),
            Some(span) if messages.is_empty() => Some(span),
            Some(ReviewSpan { turns: (first, _), messages: mut all }) => {
                all.extend(messages);
                Some(ReviewSpan { turns: (first, ongoing), messages: all })
            }
        }
    }

    fn add_message(&mut self, role: MessageRole, text: &str) {
        let turn = self.turns + 1;
        let message =
            BacklogMessage { turn, role: role.as_ref().to_owned(), text: text.to_owned() };
        if role == MessageRole::User {
            self.spoke_in = turn;
            // Some hosts report a prompt more than once, and once more with the turn.
            if self.said.contains(&message) {
                return;
            }
        }
        self.said.push_back(message);
        trim_to_limit(&mut self.said);
    }

    fn drop_reviewed(&mut self) {
        let read = self.read_up_to;
        self.said.retain(|message| message.turn > read);
    }
}

/// Drops the oldest messages above the limit. Those of the model go first, because only the user's
/// words are evidence.
fn trim_to_limit(messages: &mut VecDeque<BacklogMessage>) {
    let size = |message: &BacklogMessage| message.text.len() + MESSAGE_OVERHEAD_BYTES;
    let mut bytes: usize = messages.iter().map(size).sum();
    while bytes > TURN_TEXTS_BYTES_MAX {
        let is_of_model = |message: &BacklogMessage| message.role != MessageRole::User.as_ref();
        let oldest = messages.iter().position(is_of_model).unwrap_or(0);
        let Some(dropped) = messages.remove(oldest) else { return };
        bytes -= size(&dropped);
    }
}

/// An event of a conversation that matters to its review, as it may be stored.
#[derive(Clone, Debug)]
pub(super) enum Observation {
    /// A person's prompt.
    Prompt(String),
    /// The end of a turn, with its messages, and whether the model wrote memories in it.
    TurnEnded { messages: Vec<(MessageRole, String)>, wrote_memory: bool },
    /// The model wrote memories, in a turn that is still running.
    MemoryWritten,
    /// A review is requested before the interval has passed.
    ReviewRequested(ReviewTrigger),
}

impl Observation {
    /// Returns a prompt; `None` if none of its text may be stored.
    pub(super) fn prompt(text: &str) -> Option<Self> {
        message_for_review(MessageRole::User, text).map(Self::Prompt)
    }

    /// Returns the end of a turn, with as much of its messages as may be stored.
    pub(super) fn turn_ended(report: &TurnReport) -> Self {
        let mut left = TURN_TEXTS_BYTES_MAX;
        let mut chosen: BTreeMap<usize, (MessageRole, String)> = BTreeMap::new();
        // Newest first, and the user's messages first. Messages beyond the limit are not even
        // screened for secrets.
        for wanted_role in [MessageRole::User, MessageRole::Assistant] {
            let messages = report.messages.iter().enumerate().rev();
            for (index, (role, text)) in messages.filter(|(_, (role, _))| *role == wanted_role) {
                let Some(text) = message_for_review(*role, text) else { continue };
                let Some(rest) = left.checked_sub(text.len() + MESSAGE_OVERHEAD_BYTES) else {
                    break;
                };
                left = rest;
                chosen.insert(index, (*role, text));
            }
        }
        let messages = chosen.into_values().collect();
        Self::TurnEnded { messages, wrote_memory: report.wrote_memory }
    }

    const fn moment(&self) -> ReviewTrigger {
        match self {
            Self::ReviewRequested(moment) => *moment,
            Self::Prompt(_) | Self::TurnEnded { .. } | Self::MemoryWritten => ReviewTrigger::Turns,
        }
    }
}

/// Observations that are not written yet, in order. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct PendingObservations(Arc<Mutex<VecDeque<Observation>>>);

impl PendingObservations {
    /// Appends an observation.
    pub(super) fn push(&self, observation: Observation) {
        let mut all = self.0.lock();
        while all.len() >= PENDING_OBSERVATIONS_MAX {
            all.pop_front();
        }
        all.push_back(observation);
    }

    /// Takes all observations.
    pub(super) fn drain(&self) -> VecDeque<Observation> {
        std::mem::take(&mut *self.0.lock())
    }

    /// Puts back observations that could not be written, before newer ones.
    pub(super) fn put_back(&self, mut observations: VecDeque<Observation>) {
        let mut all = self.0.lock();
        observations.append(&mut all);
        let excess = observations.len().saturating_sub(PENDING_OBSERVATIONS_MAX);
        observations.drain(..excess);
        *all = observations;
    }

    /// Checks whether both share the same observations.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: Option<u64> = None;

    fn turn_ended(messages: &[(MessageRole, &str)], wrote_memory: bool) -> Observation {
        let messages = messages.iter().map(|(role, text)| (*role, (*text).to_owned())).collect();
        Observation::turn_ended(&TurnReport { messages, wrote_memory })
    }

    fn prompt(backlog: &mut ReviewBacklog, said: &str) {
        assert_eq!(backlog.observe(&Observation::prompt(said).unwrap(), Some(1)), None);
    }

    fn turn(backlog: &mut ReviewBacklog, said: &str) {
        prompt(backlog, said);
        assert_eq!(
            backlog.observe(&turn_ended(&[(MessageRole::Assistant, "Done.")], false), NEVER),
            None
        );
    }

    #[test]
    fn every_third_turn_is_due_and_each_message_is_taken_once() {
        let mut backlog = ReviewBacklog::default();
        let mut taken = Vec::new();
        for number in 1..=7 {
            prompt(&mut backlog, &format!("prompt {number}"));
            if let Some((trigger, span)) =
                backlog.observe(&turn_ended(&[(MessageRole::Assistant, "Done.")], false), Some(3))
            {
                taken.push((trigger, span.turns, span.messages.len()));
            }
        }
        assert_eq!(taken, [(ReviewTrigger::Turns, (1, 3), 6), (ReviewTrigger::Turns, (4, 6), 6)]);
    }

    #[test]
    fn repeated_ends_and_turns_without_a_user_message_do_not_count() {
        let mut backlog = ReviewBacklog::default();
        turn(&mut backlog, "prompt");
        for _ in 0..3 {
            backlog.observe(&turn_ended(&[(MessageRole::Assistant, "Still there.")], false), NEVER);
        }
        assert!(backlog.is_due(1) && !backlog.is_due(2));
        assert_eq!(backlog.take_stretch().unwrap().messages.len(), 2);
    }

    #[test]
    fn a_prompt_repeated_in_its_turn_is_stored_once() {
        let mut backlog = ReviewBacklog::default();
        prompt(&mut backlog, "I prefer tabs");
        let messages = [(MessageRole::User, "I prefer tabs"), (MessageRole::Assistant, "Fine.")];
        backlog.observe(&turn_ended(&messages, false), NEVER);
        assert_eq!(backlog.take_stretch().unwrap().messages.len(), 2);
    }

    #[test]
    fn a_prompt_of_a_running_turn_waits_for_its_end() {
        let mut backlog = ReviewBacklog::default();
        turn(&mut backlog, "one");
        prompt(&mut backlog, "two");
        assert_eq!(backlog.take_stretch().unwrap().turns, (1, 1));
        let (_, span) = backlog.observe(&turn_ended(&[], false), Some(1)).unwrap();
        assert_eq!(
            (span.turns, span.messages),
            ((2, 2), vec![(MessageRole::User, "two".to_owned())])
        );
    }

    #[test]
    fn a_running_turn_is_reviewed_at_each_compaction_without_earlier_reviewed_messages() {
        let mut backlog = ReviewBacklog::default();
        turn(&mut backlog, "one");
        prompt(&mut backlog, "two");
        let compaction = Observation::ReviewRequested(ReviewTrigger::Compaction);
        let (_, span) = backlog.observe(&compaction, Some(9)).unwrap();
        assert_eq!((span.turns, span.messages.len()), ((1, 2), 3));
        assert_eq!(backlog.observe(&compaction, Some(9)), None);
        prompt(&mut backlog, "and this");
        let (_, span) = backlog.observe(&compaction, Some(9)).unwrap();
        assert_eq!((span.turns, span.messages.len()), ((2, 2), 1));
        assert!(!backlog.is_due(1));
        backlog.observe(&turn_ended(&[], false), Some(9));
        assert!(backlog.is_due(1));
    }

    #[test]
    fn turns_in_which_the_model_wrote_memories_are_not_reviewed() {
        for in_turn in [true, false] {
            let mut backlog = ReviewBacklog::default();
            turn(&mut backlog, "remember that I prefer tabs");
            prompt(&mut backlog, "and spaces in YAML");
            if in_turn {
                backlog.observe(&Observation::MemoryWritten, NEVER);
            }
            backlog.observe(&turn_ended(&[], !in_turn), NEVER);
            assert!(backlog.is_due(2));
            assert_eq!(backlog.take_stretch(), None);
            assert!(!backlog.is_due(1));
        }
    }

    #[test]
    fn the_oldest_messages_are_dropped_above_the_limit() {
        let mut backlog = ReviewBacklog::default();
        for number in 0..20 {
            turn(&mut backlog, &format!("{number} {}", "x".repeat(10_000)));
        }
        let messages = backlog.take_stretch().unwrap().messages;
        assert!(messages.iter().map(|(_, text)| text.len()).sum::<usize>() <= TURN_TEXTS_BYTES_MAX);
        assert!(messages.iter().any(|(_, text)| text.starts_with("19 ")));
        assert!(!messages.iter().any(|(_, text)| text.starts_with("0 ")));
    }

    #[test]
    fn user_messages_outlast_long_answers() {
        let mut backlog = ReviewBacklog::default();
        prompt(&mut backlog, "I prefer tabs");
        let long = "x".repeat(1_500);
        let (_, span) = backlog
            .observe(&turn_ended(&[(MessageRole::Assistant, &*long); 200], false), Some(1))
            .unwrap();
        assert_eq!(span.messages[0], (MessageRole::User, "I prefer tabs".to_owned()));
    }

    #[test]
    fn unwritten_observations_keep_their_order() {
        let unwritten = PendingObservations::default();
        unwritten.push(Observation::Prompt("one".to_owned()));
        let first = unwritten.drain();
        unwritten.push(Observation::Prompt("two".to_owned()));
        unwritten.put_back(first);
        for number in 0..PENDING_OBSERVATIONS_MAX - 1 {
            unwritten.push(Observation::Prompt(number.to_string()));
        }
        let all = unwritten.drain();
        assert_eq!(all.len(), PENDING_OBSERVATIONS_MAX);
        assert!(matches!(&all[0], Observation::Prompt(text) if text == "two"));
    }
}
