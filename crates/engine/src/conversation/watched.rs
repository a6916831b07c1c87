//! What is kept of a conversation for its next review: what was said, and how far it was reviewed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use agents::{MessageRole, ReviewTrigger};
use memory::limits::TURN_TEXTS_BYTES_MAX;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::review::{Stretch, TurnTold, kept};

/// What a message takes beside its text, in bytes.
const SAID_BYTES_OWN: usize = 64;

/// The most that is heard of a conversation while it cannot be written down.
const UNWRITTEN_MAX: usize = 128;

/// What is kept until the next review, in the record of the conversation alone: each process adds what it heard to what is
/// there, so that none of them goes by counts of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Watched {
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
    said: VecDeque<Said>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Said {
    turn: u64,
    role: String,
    text: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Watched {
    /// Notes what was heard. Returns what is to be reviewed now, and why now, if anything is; the mark has moved then. Without an
    /// interval nothing is.
    pub(super) fn hear(
        &mut self,
        heard: &Heard,
        interval: Option<u64>,
    ) -> Option<(ReviewTrigger, Stretch)> {
        match heard {
            Heard::Prompt(text) => {
                self.say(MessageRole::User, text);
                return None;
            }
            Heard::MemoryWritten => {
                self.wrote_in = self.turns + 1;
                return None;
            }
            Heard::TurnEnded { messages, wrote_memory } => {
                self.turn_ended(messages, *wrote_memory);
            }
            Heard::Wanted(_) => {}
        }
        self.due(heard.moment(), interval?)
    }

    /// Returns what is to be reviewed at such a moment.
    fn due(&mut self, moment: ReviewTrigger, interval: u64) -> Option<(ReviewTrigger, Stretch)> {
        let turns = match moment {
            ReviewTrigger::Turns => interval,
            // Less than half of what is usual is not worth it.
            ReviewTrigger::End => interval.div_ceil(2),
            ReviewTrigger::Compaction => return self.take_all().map(|stretch| (moment, stretch)),
        };
        if !self.is_due(turns) {
            return None;
        }
        self.take().map(|stretch| (moment, stretch))
    }

    /// Notes that a turn has ended. One in which no person said anything does not count.
    fn turn_ended(&mut self, messages: &[(MessageRole, String)], wrote_memory: bool) {
        let turn = self.turns + 1;
        for (role, text) in messages {
            self.say(*role, text);
        }
        if self.spoke_in != turn {
            self.said.retain(|said| said.turn < turn);
            return;
        }
        self.turns = turn;
        if wrote_memory || self.wrote_in == turn {
            self.read_up_to = turn;
            self.drop_read();
        }
    }

    /// Tells whether so many turns have passed since the last review.
    const fn is_due(&self, turns: u64) -> bool {
        self.turns.saturating_sub(self.reviewed_at_turn) >= turns
    }

    /// Returns what there is to review, and moves the mark; `None` if nothing was said.
    fn take(&mut self) -> Option<Stretch> {
        let last = self.turns;
        let is_over = |said: &&Said| said.turn <= last;
        let first = self.said.iter().find(is_over).map(|said| said.turn);
        let said = self.said.iter().filter(is_over);
        let said =
            said.filter_map(|said| Some((said.role.parse().ok()?, said.text.clone()))).collect();
        self.reviewed_at_turn = last;
        self.read_up_to = last;
        self.drop_read();
        first.map(|first| Stretch { turns: (first, last), said })
    }

    /// Returns all that there is to review, that of a turn which still goes on too, and moves the mark; `None` if nothing was
    /// said. What is said in that turn from here on is reviewed with the next stretch.
    fn take_all(&mut self) -> Option<Stretch> {
        let stretch = self.take();
        let ongoing = std::mem::take(&mut self.said);
        let said =
            ongoing.into_iter().filter_map(|said| Some((said.role.parse().ok()?, said.text)));
        let said: Vec<_> = said.collect();
        let ongoing = self.turns + 1;
        match stretch {
            None if said.is_empty() => None,
            None => Some(Stretch { turns: (ongoing, ongoing), said }),
            Some(stretch) if said.is_empty() => Some(stretch),
            Some(Stretch { turns: (first, _), said: mut all }) => {
                all.extend(said);
                Some(Stretch { turns: (first, ongoing), said: all })
            }
        }
    }

    /// Notes what was said, as [`Heard`] has it.
    fn say(&mut self, role: MessageRole, text: &str) {
        let turn = self.turns + 1;
        let said = Said { turn, role: role.as_ref().to_owned(), text: text.to_owned() };
        if role == MessageRole::User {
            self.spoke_in = turn;
            // Some hosts tell a prompt more than once, and once more with the turn.
            if self.said.contains(&said) {
                return;
            }
        }
        self.said.push_back(said);
        keep_within_bounds(&mut self.said);
    }

    fn drop_read(&mut self) {
        let read = self.read_up_to;
        self.said.retain(|said| said.turn > read);
    }
}

/// Drops the oldest while there is too much. A person's words are the only evidence, so what a model said goes first.
fn keep_within_bounds(said: &mut VecDeque<Said>) {
    let size = |said: &Said| said.text.len() + SAID_BYTES_OWN;
    let mut bytes: usize = said.iter().map(size).sum();
    while bytes > TURN_TEXTS_BYTES_MAX {
        let is_of_model = |said: &Said| said.role != MessageRole::User.as_ref();
        let oldest = said.iter().position(is_of_model).unwrap_or(0);
        let Some(gone) = said.remove(oldest) else { return };
        bytes -= size(&gone);
    }
}

/// What a conversation heard of its host, as it may be kept until its review.
#[derive(Clone, Debug)]
pub(super) enum Heard {
    /// A person's prompt.
    Prompt(String),
    /// The end of a turn, what was said in it, and whether the model wrote memories in it.
    TurnEnded { messages: Vec<(MessageRole, String)>, wrote_memory: bool },
    /// The model wrote memories, in a turn that goes on.
    MemoryWritten,
    /// A review is wanted before enough turns have passed.
    Wanted(ReviewTrigger),
}

impl Heard {
    /// Returns a prompt; `None` if nothing of it may be kept.
    pub(super) fn prompt(text: &str) -> Option<Self> {
        kept(MessageRole::User, text).map(Self::Prompt)
    }

    /// Returns the end of a turn, with as much of what was said in it as may be kept.
    pub(super) fn turn_ended(told: &TurnTold) -> Self {
        let mut left = TURN_TEXTS_BYTES_MAX;
        let mut chosen: BTreeMap<usize, (MessageRole, String)> = BTreeMap::new();
        // The newest, and a person's words first: what is dropped in the end is not looked through for secrets.
        for wanted in [MessageRole::User, MessageRole::Assistant] {
            let messages = told.messages.iter().enumerate().rev();
            for (at, (role, text)) in messages.filter(|(_, (role, _))| *role == wanted) {
                let Some(text) = kept(*role, text) else { continue };
                let Some(rest) = left.checked_sub(text.len() + SAID_BYTES_OWN) else { break };
                left = rest;
                chosen.insert(at, (*role, text));
            }
        }
        let messages = chosen.into_values().collect();
        Self::TurnEnded { messages, wrote_memory: told.wrote_memory }
    }

    const fn moment(&self) -> ReviewTrigger {
        match self {
            Self::Wanted(moment) => *moment,
            Self::Prompt(_) | Self::TurnEnded { .. } | Self::MemoryWritten => ReviewTrigger::Turns,
        }
    }
}

/// What a conversation heard and nobody wrote down yet, in its order. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Unwritten(Arc<Mutex<VecDeque<Heard>>>);

impl Unwritten {
    /// Adds what was heard last.
    pub(super) fn push(&self, heard: Heard) {
        let mut all = self.0.lock();
        while all.len() >= UNWRITTEN_MAX {
            all.pop_front();
        }
        all.push_back(heard);
    }

    /// Takes all out.
    pub(super) fn take(&self) -> VecDeque<Heard> {
        std::mem::take(&mut *self.0.lock())
    }

    /// Puts back what could not be written, before what was heard since.
    pub(super) fn put_back(&self, mut heard: VecDeque<Heard>) {
        let mut all = self.0.lock();
        heard.append(&mut all);
        let excess = heard.len().saturating_sub(UNWRITTEN_MAX);
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

    fn ended(messages: &[(MessageRole, &str)], wrote_memory: bool) -> Heard {
        let messages = messages.iter().map(|(role, text)| (*role, (*text).to_owned())).collect();
        Heard::turn_ended(&TurnTold { messages, wrote_memory })
    }

    fn prompt(watched: &mut Watched, said: &str) {
        assert_eq!(watched.hear(&Heard::prompt(said).unwrap(), Some(1)), None);
    }

    fn turn(watched: &mut Watched, said: &str) {
        prompt(watched, said);
        assert_eq!(watched.hear(&ended(&[(MessageRole::Assistant, "Done.")], false), NEVER), None);
    }

    #[test]
    fn every_third_turn_is_due_and_what_was_said_is_taken_once() {
        let mut watched = Watched::default();
        let mut taken = Vec::new();
        for number in 1..=7 {
            prompt(&mut watched, &format!("prompt {number}"));
            if let Some((moment, stretch)) =
                watched.hear(&ended(&[(MessageRole::Assistant, "Done.")], false), Some(3))
            {
                taken.push((moment, stretch.turns, stretch.said.len()));
            }
        }
        assert_eq!(taken, [(ReviewTrigger::Turns, (1, 3), 6), (ReviewTrigger::Turns, (4, 6), 6)]);
    }

    #[test]
    fn an_end_that_is_told_twice_and_a_turn_without_a_person_do_not_count() {
        let mut watched = Watched::default();
        turn(&mut watched, "prompt");
        for _ in 0..3 {
            watched.hear(&ended(&[(MessageRole::Assistant, "Still there.")], false), NEVER);
        }
        assert!(watched.is_due(1) && !watched.is_due(2));
        assert_eq!(watched.take().unwrap().said.len(), 2);
    }

    #[test]
    fn a_prompt_that_is_told_again_with_its_turn_is_kept_once() {
        let mut watched = Watched::default();
        prompt(&mut watched, "I prefer tabs");
        let messages = [(MessageRole::User, "I prefer tabs"), (MessageRole::Assistant, "Fine.")];
        watched.hear(&ended(&messages, false), NEVER);
        assert_eq!(watched.take().unwrap().said.len(), 2);
    }

    #[test]
    fn a_prompt_of_a_turn_that_goes_on_waits_for_its_end() {
        let mut watched = Watched::default();
        turn(&mut watched, "one");
        prompt(&mut watched, "two");
        assert_eq!(watched.take().unwrap().turns, (1, 1));
        let (_, stretch) = watched.hear(&ended(&[], false), Some(1)).unwrap();
        assert_eq!(
            (stretch.turns, stretch.said),
            ((2, 2), vec![(MessageRole::User, "two".to_owned())])
        );
    }

    #[test]
    fn a_turn_that_goes_on_is_reviewed_before_each_compaction_without_what_was_reviewed() {
        let mut watched = Watched::default();
        turn(&mut watched, "one");
        prompt(&mut watched, "two");
        let compaction = Heard::Wanted(ReviewTrigger::Compaction);
        let (_, stretch) = watched.hear(&compaction, Some(9)).unwrap();
        assert_eq!((stretch.turns, stretch.said.len()), ((1, 2), 3));
        assert_eq!(watched.hear(&compaction, Some(9)), None);
        prompt(&mut watched, "and this");
        let (_, stretch) = watched.hear(&compaction, Some(9)).unwrap();
        assert_eq!((stretch.turns, stretch.said.len()), ((2, 2), 1));
        assert!(!watched.is_due(1));
        watched.hear(&ended(&[], false), Some(9));
        assert!(watched.is_due(1));
    }

    #[test]
    fn what_the_model_saved_itself_is_not_reviewed() {
        for in_turn in [true, false] {
            let mut watched = Watched::default();
            turn(&mut watched, "remember that I prefer tabs");
            prompt(&mut watched, "and spaces in YAML");
            if in_turn {
                watched.hear(&Heard::MemoryWritten, NEVER);
            }
            watched.hear(&ended(&[], !in_turn), NEVER);
            assert!(watched.is_due(2));
            assert_eq!(watched.take(), None);
            assert!(!watched.is_due(1));
        }
    }

    #[test]
    fn the_oldest_goes_when_there_is_too_much() {
        let mut watched = Watched::default();
        for number in 0..20 {
            turn(&mut watched, &format!("{number} {}", "x".repeat(10_000)));
        }
        let said = watched.take().unwrap().said;
        assert!(said.iter().map(|(_, text)| text.len()).sum::<usize>() <= TURN_TEXTS_BYTES_MAX);
        assert!(said.iter().any(|(_, text)| text.starts_with("19 ")));
        assert!(!said.iter().any(|(_, text)| text.starts_with("0 ")));
    }

    #[test]
    fn what_the_person_said_stays_however_much_the_model_says() {
        let mut watched = Watched::default();
        prompt(&mut watched, "I prefer tabs");
        let long = "x".repeat(1_500);
        let (_, stretch) =
            watched.hear(&ended(&[(MessageRole::Assistant, &*long); 200], false), Some(1)).unwrap();
        assert_eq!(stretch.said[0], (MessageRole::User, "I prefer tabs".to_owned()));
    }

    #[test]
    fn what_cannot_be_written_is_kept_in_its_order() {
        let unwritten = Unwritten::default();
        unwritten.push(Heard::Prompt("one".to_owned()));
        let first = unwritten.take();
        unwritten.push(Heard::Prompt("two".to_owned()));
        unwritten.put_back(first);
        for number in 0..UNWRITTEN_MAX - 1 {
            unwritten.push(Heard::Prompt(number.to_string()));
        }
        let all = unwritten.take();
        assert_eq!(all.len(), UNWRITTEN_MAX);
        assert!(matches!(&all[0], Heard::Prompt(text) if text == "two"));
    }
}
