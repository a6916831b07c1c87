//! What a conversation is given at the beginning of a segment, and what is told at its tail while it lasts.
//!
//! The bytes that were given stay as they are, here and in the state. What changed since is looked at beside the
//! turn, and told once, at the first moment at which it is there.

use std::sync::Arc;

use context::segment::{ContextPart, Segment};
use memory::limits::DELTA_BYTES_MAX;
use store::{ContextFiles, StoreError};
use tokio_util::sync::CancellationToken;

use super::record::SegmentRecord;
use super::{Conversation, ConversationState};
use crate::prefetch::{Prefetch, TakeOutcome};
use crate::segment::{self, CurrentIndex};

/// What a model is given at the beginning of a segment, or again within it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextSegment {
    /// What it was given at the beginning; the same bytes as long as the segment lasts.
    pub segment: Arc<Segment>,
    /// Whether it was given before: [`Conversation::take_changes`] says what changed since.
    pub is_repeated: bool,
}

/// How a conversation wants to begin, or to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRequest {
    /// The most bytes of text that the host takes at once.
    pub bytes_max: usize,
    /// Whether the model knows nothing of what it was given before, so that a new segment begins.
    pub starts_new: bool,
}

/// What changed since a session began, with its frame, in bytes.
const CHANGES_BYTES_MAX: usize = DELTA_BYTES_MAX + 512;

/// What was seen of memories, and what was known of them by what another process kept.
#[derive(Clone, Debug)]
pub(super) struct ChangeScan {
    segment_record: SegmentRecord,
    index: CurrentIndex,
}

impl Conversation {
    /// Returns what the model is given at the beginning of the segment that the conversation is in: gathered once,
    /// and the same bytes until the next compaction, whatever is written meanwhile and whichever process is asked.
    pub async fn context(&self, files: &ContextFiles) -> Result<ContextSegment, StoreError> {
        self.context_within(files, usize::MAX).await
    }

    /// The same as the host wants it, with what changed since it was given, where there is room for both. Without
    /// room that waits for the next prompt.
    pub async fn begin(
        &self,
        files: &ContextFiles,
        beginning: SegmentRequest,
    ) -> Result<(ContextSegment, Option<ContextPart>), StoreError> {
        if beginning.starts_new {
            self.start_new_segment().await;
        }
        let begun = self.context_within(files, beginning.bytes_max).await?;
        let room = beginning.bytes_max.saturating_sub(begun.segment.text().len());
        let is_told = begun.is_repeated && room >= CHANGES_BYTES_MAX;
        let changes = if is_told { self.scan_changes().await } else { None };
        Ok((begun, changes))
    }

    /// The same in at most so many bytes, if it is gathered now; see
    /// [`Engine::segment_within`](crate::Engine::segment_within).
    pub async fn context_within(
        &self,
        files: &ContextFiles,
        bytes_max: usize,
    ) -> Result<ContextSegment, StoreError> {
        if let Some(given) = self.load_segment_record().await {
            return Ok(ContextSegment { segment: given.segment, is_repeated: true });
        }
        let of = self.state.lock().persisted.segment;
        let (limits, now) = ((self.imports, bytes_max), self.clock.now());
        let showing = segment::gather(&self.memories, files, limits, now).await?;
        let mut now = self.state.lock();
        // Whoever was first is whom the others are given.
        if let Some(given) = now.segment_record_of(of) {
            return Ok(ContextSegment { segment: Arc::clone(&given.segment), is_repeated: true });
        }
        // What the model has whole is not recalled beside a prompt.
        let mut whole =
            showing.hot.iter().filter_map(|hot| Some((&hot.path, hot.full_revision?))).peekable();
        if whole.peek().is_some() {
            whole.for_each(|(path, revision)| now.persisted.mark_shown(path, &revision));
            self.persist(&now);
        }
        let version = now.segment_record.as_ref().map_or(0, |given| given.version) + 1;
        let segment = Arc::new(showing.segment);
        let given = SegmentRecord {
            segment_number: of,
            version,
            segment: Arc::clone(&segment),
            shown_index: showing.shown_index,
        };
        self.writer.write_segment(&self.id, &given);
        now.segment_record = Some(given);
        Ok(ContextSegment { segment, is_repeated: false })
    }

    /// Says that the model knows nothing of what it was given any more: if it was given anything in this segment,
    /// a new one begins.
    pub async fn start_new_segment(&self) {
        if self.load_segment_record().await.is_some() {
            self.compacted(None);
        }
    }

    /// Waits until all is kept that was shown and given until now.
    pub async fn flush(&self) {
        self.writer.flush().await;
    }

    /// Begins to look, beside the turn, at what changed since the model was told which memories there are.
    pub fn start_change_scan(&self) {
        let mut now = self.state.lock();
        if now.change_scan.is_none() {
            let looking = self.scan(&now);
            now.change_scan = Some(Prefetch::spawn(&CancellationToken::new(), |_| looking));
        }
    }

    /// Returns what was seen to have changed, for the tail, and takes it for told; `None` if nothing did, or it
    /// is still looked at, or the model was not told of any memories.
    pub fn take_changes(&self) -> Option<ContextPart> {
        let mut now = self.state.lock();
        match now.change_scan.take()?.take() {
            TakeOutcome::Ready(looked) => self.take_delta(&mut now, looked?),
            TakeOutcome::Pending(look) => {
                now.change_scan = Some(look);
                None
            }
            TakeOutcome::Ended => None,
        }
    }

    /// Looks now, and returns what [`take_changes`](Self::take_changes) does.
    pub async fn scan_changes(&self) -> Option<ContextPart> {
        let looking = self.scan(&self.state.lock());
        let looked = looking.await?;
        self.take_delta(&mut self.state.lock(), looked)
    }

    fn take_delta(&self, now: &mut ConversationState, looked: ChangeScan) -> Option<ContextPart> {
        now.adopt_if_newer(looked.segment_record);
        let of = now.persisted.segment;
        let given = now.segment_record.as_mut().filter(|given| given.segment_number == of)?;
        let changes = looked.index.delta(&mut given.shown_index)?;
        given.version += 1;
        self.writer.write_segment(&self.id, given);
        Some(changes)
    }

    /// Returns a look at the memories; `None` comes of it if the model was told of none, or they cannot be
    /// listed.
    fn scan(
        &self,
        now: &ConversationState,
    ) -> impl Future<Output = Option<ChangeScan>> + Send + use<> {
        let known = now.segment_record_of(now.persisted.segment).cloned();
        let (reading, memories) = (self.load_newer_record(now), self.memories.clone());
        async move {
            let given = reading.await.or(known)?;
            match CurrentIndex::new(&memories, &given.shown_index).await {
                Ok(look) => Some(ChangeScan { segment_record: given, index: look }),
                Err(error) => {
                    tracing::warn!(%error, "what changed cannot be looked at");
                    None
                }
            }
        }
    }

    /// Returns what was given in this segment, by whichever process.
    async fn load_segment_record(&self) -> Option<SegmentRecord> {
        let reading = {
            let now = self.state.lock();
            let known = now.segment_record_of(now.persisted.segment);
            if known.is_some() {
                return known.cloned();
            }
            self.load_newer_record(&now)
        };
        let kept = reading.await;
        let mut now = self.state.lock();
        if let Some(kept) = kept {
            now.adopt_if_newer(kept);
        }
        now.segment_record_of(now.persisted.segment).cloned()
    }

    /// Returns what the state has, if it is newer than what is known here; what cannot be read was not given.
    fn load_newer_record(
        &self,
        now: &ConversationState,
    ) -> impl Future<Output = Option<SegmentRecord>> + Send + use<> {
        let known = now.segment_record.as_ref().map(|known| (known.segment_number, known.version));
        let (tasks, id) = (Arc::clone(&self.tasks), self.id.clone());
        let layout = self.memories.layout();
        async move {
            let row = tasks.segment(id.as_str()).await.unwrap_or_else(|error| {
                tracing::warn!(conversation = %id, %error, "what was given cannot be read");
                None
            });
            // To read it takes milliseconds where there are many memories.
            let row = row.filter(|row| known < Some((row.segment, row.version)))?;
            SegmentRecord::from_row(&row, layout)
        }
    }
}

impl ConversationState {
    fn segment_record_of(&self, segment: u64) -> Option<&SegmentRecord> {
        self.segment_record.as_ref().filter(|given| given.segment_number == segment)
    }

    /// Takes in what was kept, if it is newer than what is known here; another process may have begun a segment.
    fn adopt_if_newer(&mut self, kept: SegmentRecord) {
        if self.segment_record.as_ref().is_none_or(|known| kept.is_newer_than(known)) {
            self.persisted.segment = self.persisted.segment.max(kept.segment_number);
            self.segment_record = Some(kept);
        }
    }
}

impl SegmentRecord {
    fn is_newer_than(&self, other: &Self) -> bool {
        (self.segment_number, self.version) > (other.segment_number, other.version)
    }
}
