//! The record of a conversation in the state: its id, what it was shown, and what it was given.
//!
//! The bytes that were given are kept as they are, so that a conversation that goes on in another process is given
//! the same.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use agents::ReviewTrigger;
use context::segment::{ContextPart, Segment, ShownIndex};
use memory::clock::Timestamp;
use memory::document::Revision;
use memory::limits::{CONVERSATION_EVENTS_KEPT, CONVERSATION_ID_CHARS_MAX, CONVERSATION_SHOWN_MAX};
use memory::path::{Layout, MemoryPath};
use serde::{Deserialize, Serialize};
use state::{ConversationRow, SegmentRow};
use uuid::Uuid;

use super::review_backlog::{Observation, ReviewBacklog};
use crate::retriever::{ShortDigest, ShownSet, short_digest, shown_key};
use crate::review::ReviewSpan;

/// The name of a conversation, as its host has it: letters, digits, `.`, `_`, `:` and `-`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConversationId(String);

/// A text that names no conversation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a conversation's id has 1 to {CONVERSATION_ID_CHARS_MAX} letters, digits, `.`, `_`, `:` or `-`"
)]
pub struct BadConversationId;

impl ConversationId {
    /// Returns a name that nobody else has.
    pub fn random() -> Self {
        Self(Uuid::new_v4().to_string())
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for ConversationId {
    type Err = BadConversationId;

    fn from_str(text: &str) -> Result<Self, BadConversationId> {
        let may_be = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
        let is_one = (1..=CONVERSATION_ID_CHARS_MAX).contains(&text.len());
        if is_one && text.chars().all(may_be) {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadConversationId)
        }
    }
}

/// What is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct PersistedConversation {
    /// How often what the model knew was compacted.
    pub(super) segment: u64,
    /// How many turns have ended.
    pub(super) turns: u64,
    /// What was shown, the latest last.
    shown: VecDeque<ShortDigest>,
    /// What the host said it did, the latest last.
    events: VecDeque<ShortDigest>,
    /// What is kept for the next review, where conversations are reviewed. In the record alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) watched: Option<ReviewBacklog>,
}

impl PersistedConversation {
    /// Returns what was shown.
    pub(super) fn shown(&self) -> ShownSet {
        ShownSet::from_digests(self.shown.iter().copied())
    }

    /// Notes that a memory is shown.
    pub(super) fn mark_shown(&mut self, path: &MemoryPath, revision: &Revision) {
        push_bounded(&mut self.shown, shown_key(path, revision), CONVERSATION_SHOWN_MAX);
    }

    /// Notes an event; `false` if it is noted already. One without an id is new.
    pub(super) fn note_event(&mut self, event: Option<&str>) -> bool {
        let Some(event) = event else { return true };
        let mark = short_digest(event.as_bytes());
        let is_new = !self.events.contains(&mark);
        if is_new {
            push_bounded(&mut self.events, mark, CONVERSATION_EVENTS_KEPT);
        }
        is_new
    }

    /// Notes what was heard, up to the first review that is due then; without an interval none is. Returns how much of it that is.
    pub(super) fn observe(
        &mut self,
        heard: &VecDeque<Observation>,
        interval: Option<u64>,
    ) -> (usize, Option<(ReviewTrigger, ReviewSpan)>) {
        for (at, one) in heard.iter().enumerate() {
            let due = self.watched.get_or_insert_default().observe(one, interval);
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
        self.shown = merge_digests(other.shown, &self.shown, CONVERSATION_SHOWN_MAX);
        self.events = merge_digests(other.events, &self.events, CONVERSATION_EVENTS_KEPT);
    }
}

/// Returns the marks of both, those that only the other has before ours: where there is no room for all, the oldest go, and
/// none of ours before those.
fn merge_digests(
    mut other: VecDeque<ShortDigest>,
    ours: &VecDeque<ShortDigest>,
    max: usize,
) -> VecDeque<ShortDigest> {
    let known: HashSet<ShortDigest> = ours.iter().copied().collect();
    other.retain(|mark| !known.contains(mark));
    other.extend(ours);
    while other.len() > max {
        other.pop_front();
    }
    other
}

fn push_bounded(marks: &mut VecDeque<ShortDigest>, mark: ShortDigest, max: usize) {
    while marks.len() >= max {
        marks.pop_front();
    }
    marks.push_back(mark);
}

impl PersistedConversation {
    /// Decodes a row, or returns `None` if it is corrupt.
    pub(super) fn from_row(row: &ConversationRow) -> Option<Self> {
        serde_json::from_str(&row.data)
            .inspect_err(|error| {
                tracing::warn!(conversation = row.id, %error, "what was kept cannot be read");
            })
            .ok()
    }

    /// Returns what stands in the data of a row.
    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers and texts become JSON")
    }
}

/// What was given and what was told since.
#[derive(Clone, Debug)]
pub(super) struct SegmentRecord {
    /// Of which segment.
    pub(super) segment_number: u64,
    /// How often it was written.
    pub(super) version: u64,
    /// What was given.
    pub(super) segment: Arc<Segment>,
    /// What is known by that, and by what was told since, of which memories there are.
    pub(super) shown_index: ShownIndex,
}

#[derive(Serialize, Deserialize)]
struct SegmentData {
    parts: Vec<(String, String)>,
    /// Path, bytes, nanoseconds since 1970.
    told: Vec<(String, u64, i64)>,
}

impl SegmentRecord {
    /// Returns what stands in the data of a row.
    pub(super) fn to_json(&self) -> String {
        let parts = self.segment.parts().iter();
        let told = self.shown_index.memories().map(|(path, bytes, modified_at)| {
            let nanoseconds = i64::try_from(modified_at.as_nanosecond()).unwrap_or_default();
            (path.to_string(), bytes, nanoseconds)
        });
        let written = SegmentData {
            parts: parts.map(|part| (part.kind.as_ref().to_owned(), part.text.clone())).collect(),
            told: told.collect(),
        };
        serde_json::to_string(&written).expect("numbers and texts become JSON")
    }

    /// Reads a row; what cannot be read is as good as nothing.
    pub(super) fn from_row(row: &SegmentRow, layout: Layout) -> Option<Self> {
        let SegmentData { parts, told } = serde_json::from_str(&row.data)
            .inspect_err(|error| {
                let id = &row.conversation;
                tracing::warn!(conversation = id, %error, "what was given cannot be read");
            })
            .ok()?;
        let part = |(kind, text): (String, String)| ContextPart::new(kind.parse().ok()?, text);
        // What cannot be named any more is told as new.
        let told = told.into_iter().filter_map(|(path, bytes, nanoseconds)| {
            let path = MemoryPath::parse(&path, layout).ok()?;
            Some((path, bytes, Timestamp::from_nanosecond(nanoseconds.into()).ok()?))
        });
        Some(Self {
            segment_number: row.segment,
            version: row.version,
            segment: Arc::new(Segment::from_parts(
                parts.into_iter().map(part).collect::<Option<_>>()?,
            )),
            shown_index: ShownIndex::from_parts(told),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_event_is_known_however_often_what_is_kept_is_united() {
        let mut stored = PersistedConversation::default();
        let mut at_hand = PersistedConversation::default();
        for number in 0..3 * CONVERSATION_EVENTS_KEPT {
            assert!(at_hand.note_event(Some(&format!("event {number}"))));
            at_hand.merge(stored.clone());
            stored = at_hand.clone();
            assert!(!stored.note_event(Some(&format!("event {number}"))), "{number}");
            assert!(stored.events.len() <= CONVERSATION_EVENTS_KEPT);
        }
    }
}
