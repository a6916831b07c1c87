//! What is kept of a conversation for its next review: what was said, and how far it was reviewed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use agents::{MessageRole, ReviewTrigger};
use memory::limits::TURN_TEXTS_BYTES_MAX;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::review::{ReviewSpan, TurnReport, message_for_review};

/// What a message takes beside its text, in bytes.
const MESSAGE_OVERHEAD_BYTES: usize = 64;

/// The most that is heard of a conversation while it cannot be written down.
const PENDING_OBSERVATIONS_MAX: usize = 128;

/// What is kept until the next review, in the record of the conversation alone: each process adds what it heard to what is
/// there, so that none of them goes by counts of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ReviewBacklog {
    /// How many turns of a person have ended since it is watched.
    turns: u64,
    /// How many of them were reviewed, or are in a review that was queued.
    reviewed_at_turn: u64,
    /// What was said up to this turn needs no review: it had one, or the model wrote memories itself.
    read_up_to: u64,
    /// The turn in which the model wrote memories last, which may still go on.
    #[serde(skip_serializing_if = "is_zero")]
    wrote_in: u64,
    /// The turn in which a person said something last, which may still go on.
    #[serde(skip_serializing_if = "is_zero")]
    spoke_in: u64,
    /// What was said after that, the oldest first.
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
    /// Notes what was heard. Returns what is to be reviewed now, and why now, if anything is; the mark has moved then. Without an
    /// interval nothing is.
    pub(super) fn observe(
        &mut self,
        heard: &Observation,
        interval: Option<u64>,
    ) -> Option<(ReviewTrigger, ReviewSpan)> {
        match heard {
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
        self.take_if_due(heard.moment(), interval?)
    }

    /// Returns what is to be reviewed at such a moment.
    fn take_if_due(
        &mut self,
        moment: ReviewTrigger,
        interval: u64,
    ) -> Option<(ReviewTrigger, ReviewSpan)> {
        let turns = match moment {
            ReviewTrigger::Turns => interval,
            // Less than half of what is usual is not worth it.
            ReviewTrigger::End => interval.div_ceil(2),
            ReviewTrigger::Compaction => {
                return self.take_all_turns().map(|stretch| (moment, stretch));
            }
        };
        if !self.is_due(turns) {
            return None;
        }
        self.take_stretch().map(|stretch| (moment, stretch))
    }

    /// Notes that a turn has ended. One in which no person said anything does not count.
    fn turn_ended(&mut self, messages: &[(MessageRole, String)], wrote_memory: bool) {
        let turn = self.turns + 1;
        for (role, text) in messages {
            self.add_message(*role, text);
        }
        if self.spoke_in != turn {
            self.said.retain(|said| said.turn < turn);
            return;
        }
        self.turns = turn;
        if wrote_memory || self.wrote_in == turn {
            self.read_up_to = turn;
            self.drop_reviewed();
        }
    }

    /// Tells whether so many turns have passed since the last review.
    const fn is_due(&self, turns: u64) -> bool {
        self.turns.saturating_sub(self.reviewed_at_turn) >= turns
    }

    /// Returns what there is to review, and moves the mark; `None` if nothing was said.
    fn take_stretch(&mut self) -> Option<ReviewSpan> {
        let last = self.turns;
        let is_over = |said: &&BacklogMessage| said.turn <= last;
        let first = self.said.iter().find(is_over).map(|said| said.turn);
        let said = self.said.iter().filter(is_over);
        let said =
            said.filter_map(|said| Some((said.role.parse().ok()?, said.text.clone()))).collect();
        self.reviewed_at_turn = last;
        self.read_up_to = last;
        self.drop_reviewed();
        first.map(|first| ReviewSpan { turns: (first, last), messages: said })
    }

    /// Returns all that there is to review, that of a turn which still goes on too, and moves the mark; `None` if nothing was
    /// said. What is said in that turn from here on is reviewed with the next stretch.
    fn take_all_turns(&mut self) -> Option<ReviewSpan> {
        let stretch = self.take_stretch();
        let ongoing = std::mem::take(&mut self.said);
        let said =
            ongoing.into_iter().filter_map(|said| Some((said.role.parse().ok()?, said.text)));
        let said: Vec<_> = said.collect();
        let ongoing = self.turns + 1;
        match stretch {
            None if said.is_empty() => None,
            None => Some(ReviewSpan { turns: (ongoing, ongoing), messages: said }),
            Some(stretch) if said.is_empty() => Some(stretch),
            Some(ReviewSpan { turns: (first, _), messages: mut all }) => {
                all.extend(said);
                Some(ReviewSpan { turns: (first, ongoing), messages: all })
            }
        }
    }

    /// Notes what was said, as [`Observation`] has it.
    fn add_message(&mut self, role: MessageRole, text: &str) {
        let turn = self.turns + 1;
        let said = BacklogMessage { turn, role: role.as_ref().to_owned(), text: text.to_owned() };
        if role == MessageRole::User {
            self.spoke_in = turn;
            // Some hosts tell a prompt more than once, and once more with the turn.
            if self.said.contains(&said) {
                return;
            }
        }
        self.said.push_back(said);
        trim_to_limit(&mut self.said);
    }

    fn drop_reviewed(&mut self) {
        let read = self.read_up_to;
        self.said.retain(|said| said.turn > read);
    }
}

/// Drops the oldest while there is too much. A person's words are the only evidence, so what a model said goes first.
fn trim_to_limit(said: &mut VecDeque<BacklogMessage>) {
    let size = |said: &BacklogMessage| said.text.len() + MESSAGE_OVERHEAD_BYTES;
    let mut bytes: usize = said.iter().map(size).sum();
    while bytes > TURN_TEXTS_BYTES_MAX {
        let is_of_model = |said: &BacklogMessage| said.role != MessageRole::User.as_ref();
        let oldest = said.iter().position(is_of_model).unwrap_or(0);
        let Some(gone) = said.remove(oldest) else { return };
        bytes -= size(&gone);
    }
}

/// What a conversation heard of its host, as it may be kept until its review.
#[derive(Clone, Debug)]
pub(super) enum Observation {
    /// A person's prompt.
    Prompt(String),
    /// The end of a turn, what was said in it, and whether the model wrote memories in it.
    TurnEnded { messages: Vec<(MessageRole, String)>, wrote_memory: bool },
    /// The model wrote memories, in a turn that goes on.
    MemoryWritten,
    /// A review is wanted before enough turns have passed.
    ReviewRequested(ReviewTrigger),
}

impl Observation {
    /// Returns a prompt; `None` if nothing of it may be kept.
    pub(super) fn prompt(text: &str) -> Option<Self> {
        message_for_review(MessageRole::User, text).map(Self::Prompt)
    }

    /// Returns the end of a turn, with as much of what was said in it as may be kept.
    pub(super) fn turn_ended(told: &TurnReport) -> Self {
        let mut left = TURN_TEXTS_BYTES_MAX;
        let mut chosen: BTreeMap<usize, (MessageRole, String)> = BTreeMap::new();
        // The newest, and a person's words first: what is dropped in the end is not looked through for secrets.
        for wanted in [MessageRole::User, MessageRole::Assistant] {
            let messages = told.messages.iter().enumerate().rev();
            for (at, (role, text)) in messages.filter(|(_, (role, _))| *role == wanted) {
                let Some(text) = message_for_review(*role, text) else { continue };
                let Some(rest) = left.checked_sub(text.len() + MESSAGE_OVERHEAD_BYTES) else {
                    break;
                };
                left = rest;
                chosen.insert(at, (*role, text));
            }
        }
        let messages = chosen.into_values().collect();
        Self::TurnEnded { messages, wrote_memory: told.wrote_memory }
    }

    const fn moment(&self) -> ReviewTrigger {
        match self {
            Self::ReviewRequested(moment) => *moment,
            Self::Prompt(_) | Self::TurnEnded { .. } | Self::MemoryWritten => ReviewTrigger::Turns,
        }
    }
}

/// What a conversation heard and nobody wrote down yet, in its order. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct PendingObservations(Arc<Mutex<VecDeque<Observation>>>);

impl PendingObservations {
    /// Adds what was heard last.
    pub(super) fn push(&self, heard: Observation) {
        let mut all = self.0.lock();
        while all.len() >= PENDING_OBSERVATIONS_MAX {
            all.pop_front();
        }
        all.push_back(heard);
    }

    /// Takes all out.
    pub(super) fn drain(&self) -> VecDeque<Observation> {
        std::mem::take(&mut *self.0.lock())
    }

    /// Puts back what could not be written, before what was heard since.
    pub(super) fn put_back(&self, mut heard: VecDeque<Observation>) {
        let mut all = self.0.lock();
        heard.append(&mut all);
        let excess = heard.len().saturating_sub(PENDING_OBSERVATIONS_MAX);
        heard.drain(..excess);
        *all = heard;
    }

    /// Tells whether both are the same.
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

    fn prompt(watched: &mut ReviewBacklog, said: &str) {
        assert_eq!(watched.observe(&Observation::prompt(said).unwrap(), Some(1)), None);
    }

    fn turn(watched: &mut ReviewBacklog, said: &str) {
        prompt(watched, said);
        assert_eq!(
            watched.observe(&turn_ended(&[(MessageRole::Assistant, "Done.")], false), NEVER),
            None
        );
    }

    #[test]
    fn every_third_turn_is_due_and_what_was_said_is_taken_once() {
        let mut watched = ReviewBacklog::default();
        let mut taken = Vec::new();
        for number in 1..=7 {
            prompt(&mut watched, &format!("prompt {number}"));
            if let Some((moment, stretch)) =
                watched.observe(&turn_ended(&[(MessageRole::Assistant, "Done.")], false), Some(3))
            {
                taken.push((moment, stretch.turns, stretch.messages.len()));
            }
        }
        assert_eq!(taken, [(ReviewTrigger::Turns, (1, 3), 6), (ReviewTrigger::Turns, (4, 6), 6)]);
    }

    #[test]
    fn an_end_that_is_told_twice_and_a_turn_without_a_person_do_not_count() {
        let mut watched = ReviewBacklog::default();
        turn(&mut watched, "prompt");
        for _ in 0..3 {
            watched.observe(&turn_ended(&[(MessageRole::Assistant, "Still there.")], false), NEVER);
        }
        assert!(watched.is_due(1) && !watched.is_due(2));
        assert_eq!(watched.take_stretch().unwrap().messages.len(), 2);
    }

    #[test]
    fn a_prompt_that_is_told_again_with_its_turn_is_kept_once() {
        let mut watched = ReviewBacklog::default();
        prompt(&mut watched, "I prefer tabs");
        let messages = [(MessageRole::User, "I prefer tabs"), (MessageRole::Assistant, "Fine.")];
        watched.observe(&turn_ended(&messages, false), NEVER);
        assert_eq!(watched.take_stretch().unwrap().messages.len(), 2);
    }

    #[test]
    fn a_prompt_of_a_turn_that_goes_on_waits_for_its_end() {
        let mut watched = ReviewBacklog::default();
        turn(&mut watched, "one");
        prompt(&mut watched, "two");
        assert_eq!(watched.take_stretch().unwrap().turns, (1, 1));
        let (_, stretch) = watched.observe(&turn_ended(&[], false), Some(1)).unwrap();
        assert_eq!(
            (stretch.turns, stretch.messages),
            ((2, 2), vec![(MessageRole::User, "two".to_owned())])
        );
    }

    #[test]
    fn a_turn_that_goes_on_is_reviewed_before_each_compaction_without_what_was_reviewed() {
        let mut watched = ReviewBacklog::default();
        turn(&mut watched, "one");
        prompt(&mut watched, "two");
        let compaction = Observation::ReviewRequested(ReviewTrigger::Compaction);
        let (_, stretch) = watched.observe(&compaction, Some(9)).unwrap();
        assert_eq!((stretch.turns, stretch.messages.len()), ((1, 2), 3));
        assert_eq!(watched.observe(&compaction, Some(9)), None);
        prompt(&mut watched, "and this");
        let (_, stretch) = watched.observe(&compaction, Some(9)).unwrap();
        assert_eq!((stretch.turns, stretch.messages.len()), ((2, 2), 1));
        assert!(!watched.is_due(1));
        watched.observe(&turn_ended(&[], false), Some(9));
        assert!(watched.is_due(1));
    }

    #[test]
    fn what_the_model_saved_itself_is_not_reviewed() {
        for in_turn in [true, false] {
            let mut watched = ReviewBacklog::default();
            turn(&mut watched, "remember that I prefer tabs");
            prompt(&mut watched, "and spaces in YAML");
            if in_turn {
                watched.observe(&Observation::MemoryWritten, NEVER);
            }
            watched.observe(&turn_ended(&[], !in_turn), NEVER);
            assert!(watched.is_due(2));
            assert_eq!(watched.take_stretch(), None);
            assert!(!watched.is_due(1));
        }
    }

    #[test]
    fn the_oldest_goes_when_there_is_too_much() {
        let mut watched = ReviewBacklog::default();
        for number in 0..20 {
            turn(&mut watched, &format!("{number} {}", "x".repeat(10_000)));
        }
        let said = watched.take_stretch().unwrap().messages;
        assert!(said.iter().map(|(_, text)| text.len()).sum::<usize>() <= TURN_TEXTS_BYTES_MAX);
        assert!(said.iter().any(|(_, text)| text.starts_with("19 ")));
        assert!(!said.iter().any(|(_, text)| text.starts_with("0 ")));
    }

    #[test]
    fn what_the_person_said_stays_however_much_the_model_says() {
        let mut watched = ReviewBacklog::default();
        prompt(&mut watched, "I prefer tabs");
        let long = "x".repeat(1_500);
        let (_, stretch) = watched
            .observe(&turn_ended(&[(MessageRole::Assistant, &*long); 200], false), Some(1))
            .unwrap();
        assert_eq!(stretch.messages[0], (MessageRole::User, "I prefer tabs".to_owned()));
    }

    #[test]
    fn what_cannot_be_written_is_kept_in_its_order() {
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
