//! What is kept of a conversation, and how it is written down.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use memory::document::Revision;
use memory::limits::{CONVERSATION_EVENTS_KEPT, CONVERSATION_SHOWN_MAX};
use memory::path::MemoryPath;
use serde::{Deserialize, Serialize};

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

    /// Takes in what somebody else kept of the same conversation meanwhile.
    pub(super) fn merge(&mut self, other: Self) {
        self.segment = self.segment.max(other.segment);
        self.turns = self.turns.max(other.turns);
        for mark in other.shown {
            if !self.shown.contains(&mark) {
                push(&mut self.shown, mark, CONVERSATION_SHOWN_MAX);
            }
        }
        for mark in other.events {
            if !self.events.contains(&mark) {
                push(&mut self.events, mark, CONVERSATION_EVENTS_KEPT);
            }
        }
    }
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
