//! Records of a conversation in the state: its id, its counters, the memories it was shown, and the
//! context it was given.
//!
//! The given context is stored byte for byte, so that a conversation that resumes in another
//! process gets the same text.

use std::cmp::Ordering;
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
use crate::retriever::ResidentEntries;
use crate::review::ReviewSpan;
use crate::segment::StoreSize;

/// The name of a conversation, as its host has it: letters, digits, `.`, `_`, `:` and `-`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConversationId(String);

/// A text that names no conversation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a conversation id must have 1 to {CONVERSATION_ID_CHARS_MAX} letters, digits, `.`, `_`, `:` or `-`"
)]
pub struct BadConversationId;

impl ConversationId {
    /// Returns a unique random name.
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

/// The stored record of a conversation. Its JSON is the row's data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct PersistedConversation {
    /// Number of compactions.
    pub(super) segment: u64,
    /// Number of turns that have ended.
    pub(super) turns: u64,
    /// Digests of the entries that the model was shown in this segment, latest last.
    #[serde(default)]
    resident: VecDeque<u64>,
    /// Digests of the host's event ids, latest last.
    events: VecDeque<u64>,
    /// Messages for the next review, if conversations are reviewed. Held only in the stored record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) watched: Option<ReviewBacklog>,
}

impl PersistedConversation {
    /// Returns the entries that the model has in its context.
    pub(super) fn resident(&self) -> ResidentEntries {
        ResidentEntries::from_digests(self.resident.iter().copied())
    }

    /// Records that the model was shown entries.
    pub(super) fn mark_resident(&mut self, digests: impl IntoIterator<Item = u64>) {
        for digest in digests {
            if self.resident.contains(&digest) {
                continue;
            }
            push_bounded(&mut self.resident, digest, CONVERSATION_SHOWN_MAX);
        }
    }

    /// Begins a segment: the model has lost what it was shown.
    pub(super) fn begin_segment(&mut self, segment: u64) {
        self.segment = segment;
        self.resident.clear();
    }

    /// Records an event. Returns `false` if it is a repetition; an event without an id is always
    /// new.
    pub(super) fn note_event(&mut self, event: Option<&str>) -> bool {
        let Some(event) = event else { return true };
        let mark = Revision::digest(event.as_bytes()).first_bits();
        let is_new = !self.events.contains(&mark);
        if is_new {
            push_bounded(&mut self.events, mark, CONVERSATION_EVENTS_KEPT);
        }
        is_new
    }

    /// Records observations up to the first one that makes a review due; without an interval none
    /// is. Returns how many it took.
    pub(super) fn observe(
        &mut self,
        observations: &VecDeque<Observation>,
        interval: Option<u64>,
    ) -> (usize, Option<(ReviewTrigger, ReviewSpan)>) {
        for (index, observation) in observations.iter().enumerate() {
            let due = self.watched.get_or_insert_default().observe(observation, interval);
            if due.is_some() {
                return (index + 1, due);
            }
        }
        (observations.len(), None)
    }

    /// Merges the record that another process wrote. The review backlog is taken from the stored
    /// one.
    pub(super) fn merge(&mut self, other: Self) {
        // What was shown in an earlier segment is lost with it.
        match other.segment.cmp(&self.segment) {
            Ordering::Greater => self.resident = other.resident,
            Ordering::Equal => {
                self.resident =
                    merge_digests(other.resident, &self.resident, CONVERSATION_SHOWN_MAX);
            }
            Ordering::Less => {}
        }
        self.segment = self.segment.max(other.segment);
        self.turns = self.turns.max(other.turns);
        self.watched = other.watched;
        self.events = merge_digests(other.events, &self.events, CONVERSATION_EVENTS_KEPT);
    }
}

/// Merges two lists of digests, those only in `other` before ours. Above the limit, the oldest are
/// dropped, and those of `other` before ours.
fn merge_digests(mut other: VecDeque<u64>, ours: &VecDeque<u64>, max: usize) -> VecDeque<u64> {
    let known: HashSet<u64> = ours.iter().copied().collect();
    other.retain(|mark| !known.contains(mark));
    other.extend(ours);
    while other.len() > max {
        other.pop_front();
    }
    other
}

fn push_bounded(marks: &mut VecDeque<u64>, mark: u64, max: usize) {
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
                tracing::warn!(conversation = row.id, %error, "error while reading a conversation record");
            })
            .ok()
    }

    /// Encodes the record as the data of a row.
    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers and texts become JSON")
    }
}

/// The context given in a segment, with the changes shown since.
#[derive(Clone, Debug)]
pub(super) struct SegmentRecord {
    /// The segment that it belongs to.
    pub(super) segment_number: u64,
    /// Number of times it was written.
    pub(super) version: u64,
    /// The context as given.
    pub(super) segment: Arc<Segment>,
    /// The size of the store at that time.
    pub(super) size: StoreSize,
    /// The memories that the model knows from it and from later changes.
    pub(super) shown_index: ShownIndex,
    /// Set as long as the model was not shown the project's context files, because their machine was out of reach.
    pub(super) missing_files: Option<MissingFiles>,
}

/// Context files that are to be shown later, as the host wanted them at the start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct MissingFiles {
    /// Maximum size in bytes of the text that the host accepts at once.
    pub(super) bytes_max: usize,
    /// Names of files that the host itself shows to its model.
    pub(super) host_loaded: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct PersistedSegment {
    parts: Vec<(String, String)>,
    #[serde(default = "large")]
    size: StoreSize,
    /// Path, bytes, nanoseconds since 1970.
    told: Vec<(String, u64, i64)>,
    #[serde(default)]
    missing_files: Option<MissingFiles>,
}

/// Records without a size are from a version that gave an index.
const fn large() -> StoreSize {
    StoreSize::Large
}

impl SegmentRecord {
    /// Encodes the record as the data of a row.
    pub(super) fn to_json(&self) -> String {
        let parts = self.segment.parts().iter();
        let shown = self.shown_index.memories().map(|(path, bytes, modified_at)| {
            let nanoseconds = i64::try_from(modified_at.as_nanosecond()).unwrap_or_default();
            (path.to_string(), bytes, nanoseconds)
        });
        let written = PersistedSegment {
            parts: parts.map(|part| (part.kind.as_ref().to_owned(), part.text.clone())).collect(),
            size: self.size,
            told: shown.collect(),
            missing_files: self.missing_files.clone(),
        };
        serde_json::to_string(&written).expect("numbers and texts become JSON")
    }

    /// Decodes a row, or returns `None` if it is corrupt.
    pub(super) fn from_row(row: &SegmentRow, layout: Layout) -> Option<Self> {
        let PersistedSegment { parts, size, told, missing_files } = serde_json::from_str(&row.data)
            .inspect_err(|error| {
                let id = &row.conversation;
                tracing::warn!(conversation = id, %error, "error while reading a segment record");
            })
            .ok()?;
        let part = |(kind, text): (String, String)| ContextPart::new(kind.parse().ok()?, text);
        // A memory whose path is no longer valid is shown as new.
        let shown = told.into_iter().filter_map(|(path, bytes, nanoseconds)| {
            let path = MemoryPath::parse(&path, layout).ok()?;
            Some((path, bytes, Timestamp::from_nanosecond(nanoseconds.into()).ok()?))
        });
        Some(Self {
            segment_number: row.segment,
            version: row.version,
            segment: Arc::new(Segment::from_parts(
                parts.into_iter().map(part).collect::<Option<_>>()?,
            )),
            size,
            shown_index: ShownIndex::from_parts(shown),
            missing_files,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compaction_in_another_process_empties_what_was_shown_before() {
        let mut earlier = PersistedConversation::default();
        earlier.mark_resident([1, 2]);
        let mut later = earlier.clone();
        later.begin_segment(1);
        later.mark_resident([3]);
        for (mut ours, theirs) in [(earlier.clone(), later.clone()), (later, earlier)] {
            ours.merge(theirs);
            assert_eq!(Vec::from(ours.resident), [3]);
        }
    }

    #[test]
    fn the_latest_event_is_known_after_any_number_of_merges() {
        let mut stored = PersistedConversation::default();
        let mut in_memory = PersistedConversation::default();
        for number in 0..3 * CONVERSATION_EVENTS_KEPT {
            assert!(in_memory.note_event(Some(&format!("event {number}"))));
            in_memory.merge(stored.clone());
            stored = in_memory.clone();
            assert!(!stored.note_event(Some(&format!("event {number}"))), "{number}");
            assert!(stored.events.len() <= CONVERSATION_EVENTS_KEPT);
        }
    }
}
