//! The context of a conversation: the parts given at the start of a segment, and the changes
//! appended while it lasts.
//!
//! The bytes that were given stay the same, in this process and in the state. Changes to memories
//! since then are detected in the background and shown once, at the first call after the scan has
//! finished.

use std::sync::Arc;

use context::segment::{ContextPart, PartKind, Segment};
use memory::document;
use memory::limits::DELTA_BYTES_MAX;
use memory::path::MemoryPath;
use store::{ContextFiles, StoreError};
use tokio_util::sync::CancellationToken;

use super::record::{MissingFiles, SegmentRecord};
use super::{Conversation, ConversationState};
use crate::prefetch::{Prefetch, TakeOutcome};
use crate::segment::{self, CurrentIndex, SegmentLimits};

/// The context that a model is given at the start of a segment, or again within it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextSegment {
    /// The text given at the start; the same bytes as long as the segment lasts.
    pub segment: Arc<Segment>,
    /// Whether it was given before. [`Conversation::take_changes`] returns the changes since then.
    pub is_repeated: bool,
}

/// The host's limits and intent when a conversation starts or resumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRequest {
    /// Maximum size in bytes of the text that the host accepts at once.
    pub bytes_max: usize,
    /// Whether the model has lost the context given before, so that a new segment starts.
    pub starts_new: bool,
}

/// Maximum size in bytes of the changes since the segment started, with their frame.
const CHANGES_BYTES_MAX: usize = DELTA_BYTES_MAX + 512;

/// A scan of the current memories, with the record that it compares them to; another process may
/// have written that.
#[derive(Clone, Debug)]
pub(super) struct ChangeScan {
    segment_record: SegmentRecord,
    index: CurrentIndex,
    /// The project's context files, if the model was not shown them and their machine is back.
    project_files: Option<String>,
}

impl Conversation {
    /// Returns the context of the current segment. It is gathered once; the bytes then stay the
    /// same until the next compaction, whatever is written and whichever process is called.
    pub async fn context(&self, files: &ContextFiles) -> Result<ContextSegment, StoreError> {
        self.context_within(files, usize::MAX).await
    }

    /// Returns the context within the host's limits, and the changes since it was given if there is
    /// room for both. Without room, the changes wait for the next prompt.
    pub async fn begin(
        &self,
        files: &ContextFiles,
        request: SegmentRequest,
    ) -> Result<(ContextSegment, Option<ContextPart>), StoreError> {
        if request.starts_new {
            self.start_new_segment().await;
        }
        let context = self.context_within(files, request.bytes_max).await?;
        let room = request.bytes_max.saturating_sub(context.segment.text().len());
        let has_room = context.is_repeated && room >= CHANGES_BYTES_MAX;
        let changes = if has_room { self.scan_changes_within(files, room).await } else { None };
        Ok((context, changes))
    }

    /// Does the same as [`context`](Self::context), in at most `bytes_max` bytes if it is gathered
    /// now; see [`Engine::segment_within`](crate::Engine::segment_within).
    pub async fn context_within(
        &self,
        files: &ContextFiles,
        bytes_max: usize,
    ) -> Result<ContextSegment, StoreError> {
        if let Some(record) = self.load_segment_record().await {
            return Ok(ContextSegment { segment: record.segment, is_repeated: true });
        }
        let (segment_number, limits) = {
            let state = self.state.lock();
            let limits = SegmentLimits {
                bytes_max,
                start_tokens_max: self.start.tokens_max,
                previous_size: state.segment_record.as_ref().map(|record| record.size),
            };
            (state.persisted.segment, limits)
        };
        let (imports, now) = (self.start.imports, self.clock.now());
        let report = segment::gather(&self.memories, files, imports, limits, now).await?;
        let mut state = self.state.lock();
        // Concurrent callers get the segment of the first one.
        if let Some(record) = state.segment_record_of(segment_number) {
            return Ok(ContextSegment { segment: Arc::clone(&record.segment), is_repeated: true });
        }
        // What the model has in full need not be recalled.
        if !report.digests.is_empty() && state.persisted.segment == segment_number {
            state.persisted.mark_resident(report.digests);
            self.persist(&state);
        }
        let version = state.segment_record.as_ref().map_or(0, |record| record.version) + 1;
        let segment = Arc::new(report.segment);
        let record = SegmentRecord {
            segment_number,
            version,
            segment: Arc::clone(&segment),
            size: report.size,
            shown_index: report.shown_index,
            missing_files: report
                .lacks_project_files
                .then(|| MissingFiles { bytes_max, host_loaded: files.host_loaded().to_vec() }),
        };
        self.writer.write_segment(&self.id, &record);
        state.segment_record = Some(record);
        Ok(ContextSegment { segment, is_repeated: false })
    }

    /// Reports that the model has lost the context given before. Starts a new segment if this one
    /// was given any.
    pub async fn start_new_segment(&self) {
        let has_context = self.load_segment_record().await.is_some();
        if has_context || !self.state.lock().persisted.resident().is_empty() {
            self.compacted(None);
        }
    }

    /// Reports that the model changed memories at or below `paths`, and that `written` is the text it wrote. The
    /// conversation is not told of its own change, and the entries that it wrote are not shown to it again.
    pub async fn changed_memories(&self, paths: &[MemoryPath], written: &str) {
        if let Some(path) = paths.first() {
            let mut state = self.state.lock();
            let entries = document::entries(written).into_iter();
            state.persisted.mark_resident(entries.map(|entry| entry.digest(path, written)));
            self.persist(&state);
        }
        let Some(record) = self.load_segment_record().await else { return };
        let index = match CurrentIndex::new(&self.memories, &record.shown_index).await {
            Ok(index) => index,
            Err(error) => {
                tracing::warn!(%error, "error while listing memories; a change is announced to the conversation that made it");
                return;
            }
        };
        let mut state = self.state.lock();
        // It may be from before the change.
        state.change_scan = None;
        let segment_number = state.persisted.segment;
        let current = state.segment_record.as_mut();
        if let Some(record) = current.filter(|record| record.segment_number == segment_number) {
            index.adopt(&mut record.shown_index, paths);
            record.version += 1;
            self.writer.write_segment(&self.id, record);
        }
    }

    /// Waits until everything shown so far is written.
    pub async fn flush(&self) {
        self.writer.flush().await;
    }

    /// Starts a background scan for changes since the model was shown the index. `files` are the context files of the
    /// workspace.
    pub fn start_change_scan(&self, files: &ContextFiles) {
        let mut state = self.state.lock();
        if state.change_scan.is_none() {
            let scan = self.scan(&state, files, usize::MAX);
            state.change_scan = Some(Prefetch::spawn(&CancellationToken::new(), |_| scan));
        }
    }

    /// Takes the changes found by the scan, to be appended, and records them as shown. `None` if
    /// nothing changed, the scan is still running, or the model was shown no index.
    pub fn take_changes(&self) -> Option<ContextPart> {
        let mut state = self.state.lock();
        match state.change_scan.take()?.take() {
            TakeOutcome::Ready(scan) => self.take_delta(&mut state, scan?),
            TakeOutcome::Pending(scan) => {
                state.change_scan = Some(scan);
                None
            }
            TakeOutcome::Ended => None,
        }
    }

    /// Scans now, and returns the same as [`take_changes`](Self::take_changes).
    pub async fn scan_changes(&self, files: &ContextFiles) -> Option<ContextPart> {
        self.scan_changes_within(files, usize::MAX).await
    }

    async fn scan_changes_within(
        &self,
        files: &ContextFiles,
        bytes_max: usize,
    ) -> Option<ContextPart> {
        let pending = self.scan(&self.state.lock(), files, bytes_max);
        let scan = pending.await?;
        self.take_delta(&mut self.state.lock(), scan)
    }

    fn take_delta(&self, state: &mut ConversationState, scan: ChangeScan) -> Option<ContextPart> {
        state.adopt_if_newer(scan.segment_record);
        let segment_number = state.persisted.segment;
        let record = state
            .segment_record
            .as_mut()
            .filter(|record| record.segment_number == segment_number)?;
        let files = scan.project_files.filter(|_| record.missing_files.is_some());
        let resident = state.persisted.resident();
        let changes = scan.index.delta(&mut record.shown_index, resident.digests());
        if files.is_none() && changes.is_none() {
            return None;
        }
        record.missing_files.take_if(|_| files.is_some());
        record.version += 1;
        self.writer.write_segment(&self.id, record);
        if let Some(changes) = &changes {
            state.persisted.mark_resident(changes.digests.iter().copied());
            self.persist(state);
        }
        let texts = files.into_iter().chain(changes.map(|changes| changes.part.text));
        let texts: Vec<_> = texts.filter(|text| !text.is_empty()).collect();
        ContextPart::new(PartKind::Delta, texts.join("\n"))
    }

    /// Returns a scan of the memories, and of the project's context files if they are missing. Such files
    /// stay out while all changes together could be larger than `bytes_max`, or than the host accepts at
    /// once. It yields `None` if the model was shown no index, or if listing fails.
    fn scan(
        &self,
        state: &ConversationState,
        files: &ContextFiles,
        bytes_max: usize,
    ) -> impl Future<Output = Option<ChangeScan>> + Send + use<> {
        let known = state.segment_record_of(state.persisted.segment).cloned();
        let (reading, memories) = (self.load_newer_record(state), self.memories.clone());
        let (files, style) = (files.clone(), self.start.imports);
        async move {
            let record = reading.await.or(known)?;
            let project_files = match &record.missing_files {
                Some(missing) => {
                    let room = missing.bytes_max.min(bytes_max).saturating_sub(CHANGES_BYTES_MAX);
                    let names: Vec<_> = missing.host_loaded.iter().map(String::as_str).collect();
                    let files = files.without_host_loaded(&names);
                    let text = segment::project_files_text(&files, style).await;
                    text.filter(|text| text.len() <= room)
                }
                None => None,
            };
            match CurrentIndex::new(&memories, &record.shown_index).await {
                Ok(index) => Some(ChangeScan { segment_record: record, index, project_files }),
                Err(error) => {
                    tracing::warn!(%error, "error while scanning for changed memories");
                    None
                }
            }
        }
    }

    /// Returns the record of the current segment, whichever process wrote it.
    async fn load_segment_record(&self) -> Option<SegmentRecord> {
        let reading = {
            let state = self.state.lock();
            let known = state.segment_record_of(state.persisted.segment);
            if known.is_some() {
                return known.cloned();
            }
            self.load_newer_record(&state)
        };
        let stored = reading.await;
        let mut state = self.state.lock();
        if let Some(stored) = stored {
            state.adopt_if_newer(stored);
        }
        state.segment_record_of(state.persisted.segment).cloned()
    }

    /// Reads the stored record, if it is newer than the one in memory; an unreadable record counts
    /// as absent.
    fn load_newer_record(
        &self,
        state: &ConversationState,
    ) -> impl Future<Output = Option<SegmentRecord>> + Send + use<> {
        let known =
            state.segment_record.as_ref().map(|known| (known.segment_number, known.version));
        let (tasks, id) = (Arc::clone(&self.tasks), self.id.clone());
        let layout = self.memories.layout();
        async move {
            let row = tasks.segment(id.as_str()).await.unwrap_or_else(|error| {
                tracing::warn!(conversation = %id, %error, "error while reading the segment record");
                None
            });
            // Decoding takes milliseconds with many memories, so it is skipped for a known version.
            let row = row.filter(|row| known < Some((row.segment, row.version)))?;
            SegmentRecord::from_row(&row, layout)
        }
    }
}

impl ConversationState {
    fn segment_record_of(&self, segment: u64) -> Option<&SegmentRecord> {
        self.segment_record.as_ref().filter(|record| record.segment_number == segment)
    }

    /// Adopts a stored record if it is newer; another process may have started a segment.
    fn adopt_if_newer(&mut self, stored: SegmentRecord) {
        if self.segment_record.as_ref().is_none_or(|known| stored.is_newer_than(known)) {
            if stored.segment_number > self.persisted.segment {
                self.drop_prompt();
                self.persisted.begin_segment(stored.segment_number);
            }
            self.segment_record = Some(stored);
        }
    }
}

impl SegmentRecord {
    fn is_newer_than(&self, other: &Self) -> bool {
        (self.segment_number, self.version) > (other.segment_number, other.version)
    }
}
