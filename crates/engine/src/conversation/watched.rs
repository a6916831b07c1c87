//! What is kept of a conversation for its next review: what was said, and how far it was reviewed.

use std::collections::VecDeque;

use agents::Role;
use memory::limits::TURN_TEXTS_BYTES_MAX;
use serde::{Deserialize, Serialize};

use crate::review::{TurnTold, kept};

/// What was said in some turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// The first and the last of them, counted from 1.
    pub(crate) turns: (u64, u64),
    /// What was said, the oldest first.
    pub(crate) said: Vec<(Role, String)>,
}

/// What is kept until the next review. The counts only grow, so that of two that were kept the larger one holds.
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
    /// Notes a person's prompt.
    pub(super) fn prompted(&mut self, text: &str) {
        self.say(Role::User, text);
    }

    /// Notes that the model wrote memories.
    pub(super) const fn wrote_memory(&mut self) {
        self.wrote_in = self.turns + 1;
    }

    /// Notes that a turn has ended. One in which no person said anything does not count.
    pub(super) fn turn_ended(&mut self, told: &TurnTold) {
        let turn = self.turns + 1;
        for (role, text) in &told.messages {
            self.say(*role, text);
        }
        let is_of_person = |said: &Said| said.turn == turn && said.role == Role::User.as_str();
        if !self.said.iter().any(is_of_person) {
            self.said.retain(|said| said.turn < turn);
            return;
        }
        self.turns = turn;
        if told.wrote_memory || self.wrote_in == turn {
            self.read_up_to = turn;
            self.drop_read();
        }
    }

    /// Tells whether so many turns have passed since the last review.
    pub(super) const fn is_due(&self, turns: u64) -> bool {
        self.turns - self.reviewed_at_turn >= turns
    }

    /// Returns what there is to review, and moves the mark; `None` if nothing was said.
    pub(super) fn take(&mut self) -> Option<Stretch> {
        let last = self.turns;
        let is_over = |said: &&Said| said.turn <= last;
        let first = self.said.iter().find(is_over).map(|said| said.turn);
        let said = self.said.iter().filter(is_over);
        let said =
            said.filter_map(|said| Some((Role::of(&said.role)?, said.text.clone()))).collect();
        self.reviewed_at_turn = last;
        self.read_up_to = last;
        self.drop_read();
        first.map(|first| Stretch { turns: (first, last), said })
    }

    /// Returns all that there is to review, that of a turn which still goes on too, and moves the mark; `None` if nothing was
    /// said.
    pub(super) fn take_all(&mut self) -> Option<Stretch> {
        let ongoing: Vec<Said> =
            self.said.iter().filter(|said| said.turn > self.turns).cloned().collect();
        let stretch = self.take();
        let said =
            ongoing.iter().filter_map(|said| Some((Role::of(&said.role)?, said.text.clone())));
        let said: Vec<_> = said.collect();
        match stretch {
            None if said.is_empty() => None,
            None => Some(Stretch { turns: (self.turns + 1, self.turns + 1), said }),
            Some(Stretch { turns, said: mut all }) => {
                all.extend(said);
                Some(Stretch { turns, said: all })
            }
        }
    }

    /// Takes in what somebody else kept of the same conversation meanwhile.
    pub(super) fn merge(&mut self, other: Self) {
        self.turns = self.turns.max(other.turns);
        self.reviewed_at_turn = self.reviewed_at_turn.max(other.reviewed_at_turn);
        self.read_up_to = self.read_up_to.max(other.read_up_to);
        self.wrote_in = self.wrote_in.max(other.wrote_in);
        let mut all: Vec<Said> = other.said.into();
        let ours: Vec<Said> = self.said.drain(..).filter(|said| !all.contains(said)).collect();
        all.extend(ours);
        all.sort_by_key(|said| said.turn);
        self.said = all.into();
        self.drop_read();
        self.keep_within_bounds();
    }

    fn say(&mut self, role: Role, text: &str) {
        let Some(text) = kept(role, text) else { return };
        let said = Said { turn: self.turns + 1, role: role.as_str().to_owned(), text };
        // Some hosts tell a prompt more than once, and once more with the turn.
        if role != Role::User || !self.said.contains(&said) {
            self.said.push_back(said);
            self.keep_within_bounds();
        }
    }

    fn drop_read(&mut self) {
        let read = self.read_up_to;
        self.said.retain(|said| said.turn > read);
    }

    fn keep_within_bounds(&mut self) {
        let mut bytes: usize = self.said.iter().map(|said| said.text.len()).sum();
        while bytes > TURN_TEXTS_BYTES_MAX
            && let Some(oldest) = self.said.pop_front()
        {
            bytes -= oldest.text.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(watched: &mut Watched, said: &str) {
        watched.prompted(said);
        let messages = vec![(Role::Assistant, "Done.".to_owned())];
        watched.turn_ended(&TurnTold { messages, wrote_memory: false });
    }

    #[test]
    fn every_third_turn_is_due_and_what_was_said_is_taken_once() {
        let mut watched = Watched::default();
        let mut taken = Vec::new();
        for number in 1..=7 {
            turn(&mut watched, &format!("prompt {number}"));
            if watched.is_due(3) {
                let stretch = watched.take().unwrap();
                taken.push((stretch.turns, stretch.said.len()));
            }
        }
        assert_eq!(taken, [((1, 3), 6), ((4, 6), 6)]);
        assert!(!watched.is_due(3) && watched.is_due(1));
    }

    #[test]
    fn an_end_that_is_told_twice_and_a_turn_without_a_person_do_not_count() {
        let mut watched = Watched::default();
        turn(&mut watched, "prompt");
        for _ in 0..3 {
            let messages = vec![(Role::Assistant, "Still there.".to_owned())];
            watched.turn_ended(&TurnTold { messages, wrote_memory: false });
        }
        assert!(watched.is_due(1) && !watched.is_due(2));
        assert_eq!(watched.take().unwrap().said.len(), 2);
    }

    #[test]
    fn a_prompt_that_is_told_again_with_its_turn_is_kept_once() {
        let mut watched = Watched::default();
        watched.prompted("I prefer tabs");
        let messages =
            vec![(Role::User, "I prefer tabs".to_owned()), (Role::Assistant, "Fine.".to_owned())];
        watched.turn_ended(&TurnTold { messages, wrote_memory: false });
        assert_eq!(watched.take().unwrap().said.len(), 2);
    }

    #[test]
    fn a_prompt_of_a_turn_that_goes_on_waits_for_its_end() {
        let mut watched = Watched::default();
        turn(&mut watched, "one");
        watched.prompted("two");
        assert_eq!(watched.take().unwrap().turns, (1, 1));
        watched.turn_ended(&TurnTold::default());
        let stretch = watched.take().unwrap();
        assert_eq!((stretch.turns, stretch.said), ((2, 2), vec![(Role::User, "two".to_owned())]));
    }

    #[test]
    fn what_the_model_saved_itself_is_not_reviewed_also_where_another_process_still_has_it() {
        let mut watched = Watched::default();
        turn(&mut watched, "remember that I prefer tabs");
        let elsewhere = watched.clone();
        watched.prompted("and spaces in YAML");
        watched.turn_ended(&TurnTold { wrote_memory: true, ..TurnTold::default() });
        watched.merge(elsewhere);
        assert!(watched.is_due(2));
        assert_eq!(watched.take(), None);
        assert!(!watched.is_due(1));
    }

    #[test]
    fn two_processes_lose_nothing_of_each_other_and_review_nothing_twice() {
        let mut one = Watched::default();
        turn(&mut one, "one");
        let mut other = one.clone();
        turn(&mut other, "two");
        one.prompted("three");
        let mut kept = one.clone();
        kept.merge(other.clone());
        assert_eq!(kept.clone().take().unwrap().turns, (1, 2));
        assert!(other.take().is_some());
        kept.merge(other);
        assert_eq!(kept.take(), None);
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
}
