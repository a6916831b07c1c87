//! What is kept of a conversation, and how it is written down.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use agents::Moment;
use memory::document::Revision;
use memory::limits::{CONVERSATION_EVENTS_KEPT, CONVERSATION_SHOWN_MAX};
use memory::path::MemoryPath;
use serde::{Deserialize, Serialize};

use super::watched::{Heard, Stretch, Watched};

/// What a conversation was shown: memories, each as it was then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown(Arc<HashSet<Mark>>);

/// A text in short: 64 bits of its digest.
type Mark = u64;

impl Shown {
    /// Tells whether a memory was shown as it is in this revision.
    pub fn has(&self, path: &MemoryPath, revision: &Revision) -> bool {
        self.0.contains(&mark_of(path, revision))
    }
}

/// What is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Kept {
    /// How often what the model knew was compacted.
    pub(super) segment: u64,
    /// How many turns have ended.
    pub(super) turns: u64,
    /// What was shown, the latest last.
    shown: VecDeque<Mark>,
    /// What the host said it did, the latest last.
    events: VecDeque<Mark>,
    /// What is kept for the next review, where conversations are reviewed. In the record alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) watched: Option<Watched>,
}

impl Kept {
    /// Returns what was shown.
    pub(super) fn shown(&self) -> Shown {
        Shown(Arc::new(self.shown.iter().copied().collect()))
    }

    /// Notes that a memory is shown.
    pub(super) fn show(&mut self, path: &MemoryPath, revision: &Revision) {
        push(&mut self.shown, mark_of(path, revision), CONVERSATION_SHOWN_MAX);
    }

    /// Notes an event; `false` if it is noted already. One without an id is new.
    pub(super) fn is_new(&mut self, event: Option<&str>) -> bool {
        let Some(event) = event else { return true };
        let mark = mark(event.as_bytes());
        let is_new = !self.events.contains(&mark);
        if is_new {
            push(&mut self.events, mark, CONVERSATION_EVENTS_KEPT);
        }
        is_new
    }

    /// Notes what was heard, up to the first review that is due then; without an interval none is. Returns how much of it that is.
    pub(super) fn hear(
        &mut self,
        heard: &VecDeque<Heard>,
        interval: Option<u64>,
    ) -> (usize, Option<(Moment, Stretch)>) {
        for (at, one) in heard.iter().enumerate() {
            let due = self.watched.get_or_insert_default().hear(one, interval);
            if due.is_some() {
                return (at + 1, due);
            }
        }
        (heard.len(), None)
    }

    /// Takes in what somebody else kept of the same conversation meanwhile. What waits for a review is in the record alone.
    pub(super) fn merge(&mut self, other: Self) {
        self.segment = self.segment.max(other.segment);
        self.turns = self.turns.max(other.turns);
        self.watched = other.watched;
        self.shown = united(other.shown, &self.shown, CONVERSATION_SHOWN_MAX);
        self.events = united(other.events, &self.events, CONVERSATION_EVENTS_KEPT);
    }
}

/// Returns the marks of both, those that only the other has before ours: where there is no room for all, the oldest go, and
/// none of ours before those.
fn united(mut other: VecDeque<Mark>, ours: &VecDeque<Mark>, max: usize) -> VecDeque<Mark> {
    let known: HashSet<Mark> = ours.iter().copied().collect();
    other.retain(|mark| !known.contains(mark));
    other.extend(ours);
    while other.len() > max {
        other.pop_front();
    }
    other
}

fn push(marks: &mut VecDeque<Mark>, mark: Mark, max: usize) {
    while marks.len() >= max {
        marks.pop_front();
    }
    marks.push_back(mark);
}

fn mark_of(path: &MemoryPath, revision: &Revision) -> Mark {
    mark(format!("{path}\0{revision}").as_bytes())
}

fn mark(bytes: &[u8]) -> Mark {
    let digest = Revision::of(bytes);
    let first = digest.as_bytes().first_chunk().copied().unwrap_or_default();
    Mark::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_event_is_known_however_often_what_is_kept_is_united() {
        let mut stored = Kept::default();
        let mut at_hand = Kept::default();
        for number in 0..3 * CONVERSATION_EVENTS_KEPT {
            assert!(at_hand.is_new(Some(&format!("event {number}"))));
            at_hand.merge(stored.clone());
            stored = at_hand.clone();
            assert!(!stored.is_new(Some(&format!("event {number}"))), "{number}");
            assert!(stored.events.len() <= CONVERSATION_EVENTS_KEPT);
        }
    }
}
