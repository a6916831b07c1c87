//! Writes conversations down, behind the answers that were given.
//!
//! One task writes, one conversation after the other, each as it is by then: what changes again while it waits
//! is written once. When somebody else has written to the same conversation, what they kept is taken in first.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use memory::clock::Clock;
use memory::limits::{CONVERSATION_WRITES_MAX, REVIEWS_UNFINISHED_MAX};
use parking_lot::{Mutex, MutexGuard};
use state::{ConversationRow, SegmentRow, StateError, TaskStore};
use tokio::sync::Notify;

use super::record::{ConversationId, PersistedConversation, SegmentRecord};
use super::review_backlog::{Observation, PendingObservations};
use crate::review::ReviewScheduler;

/// Where conversations are reviewed.
#[derive(Debug)]
pub(crate) enum ReviewMode {
    /// Nowhere. What an earlier setting had kept for that goes.
    Off,
    /// In another process.
    OtherProcess,
    /// In this one.
    ThisProcess(ReviewScheduler),
}

/// Writes conversations down.
#[derive(Debug)]
pub(super) struct ConversationWriter {
    tasks: Arc<dyn TaskStore>,
    clock: Arc<dyn Clock>,
    review_mode: ReviewMode,
    queue: Mutex<WriteQueue>,
    /// Told each time that nothing waits any more.
    idle: Notify,
}

#[derive(Debug, Default)]
struct WriteQueue {
    rows: BTreeMap<ConversationId, QueuedConversation>,
    segments: BTreeMap<ConversationId, SegmentRecord>,
    /// Whether a task writes.
    is_running: bool,
}

/// A conversation to write: what is kept of it, and what was heard of it since it was written last.
#[derive(Debug)]
struct QueuedConversation {
    workspace: String,
    persisted: PersistedConversation,
    pending: PendingObservations,
}

/// What is written next.
enum QueuedWrite {
    Conversation(ConversationId, QueuedConversation),
    Segment(ConversationId, SegmentRecord),
}

impl ConversationWriter {
    pub(super) fn new(
        tasks: Arc<dyn TaskStore>,
        clock: Arc<dyn Clock>,
        reviewing: ReviewMode,
    ) -> Self {
        Self { tasks, clock, review_mode: reviewing, queue: Mutex::default(), idle: Notify::new() }
    }

    /// Returns what reviews the conversations of a workspace, if they are reviewed.
    pub(super) fn reviews(&self, workspace: &str) -> Option<&ReviewScheduler> {
        match &self.review_mode {
            ReviewMode::ThisProcess(reviews) => {
                Some(reviews).filter(|one| one.is_enabled(workspace))
            }
            ReviewMode::Off | ReviewMode::OtherProcess => None,
        }
    }

    /// Has a conversation written down soon, with what was heard of it.
    pub(super) fn write(
        self: &Arc<Self>,
        id: &ConversationId,
        workspace: &str,
        (kept, unwritten): (&PersistedConversation, &PendingObservations),
    ) {
        let mut waiting = self.queue.lock();
        let (kept, unwritten) = (kept.clone(), unwritten.clone());
        let row = QueuedConversation {
            workspace: workspace.to_owned(),
            persisted: kept,
            pending: unwritten,
        };
        // It was let go and opened again before it was written: what was heard before is not lost.
        if let Some(before) = waiting.rows.remove(id)
            && !before.pending.is_same(&row.pending)
        {
            row.pending.put_back(before.pending.drain());
        }
        waiting.rows.insert(id.clone(), row);
        self.ensure_running(waiting);
    }

    /// Has what a conversation was given written down soon.
    pub(super) fn write_segment(self: &Arc<Self>, id: &ConversationId, given: &SegmentRecord) {
        let mut waiting = self.queue.lock();
        waiting.segments.insert(id.clone(), given.clone());
        self.ensure_running(waiting);
    }

    fn ensure_running(self: &Arc<Self>, mut waiting: MutexGuard<'_, WriteQueue>) {
        if !waiting.is_running {
            waiting.is_running = true;
            tokio::spawn(Arc::clone(self).run());
        }
    }

    /// Waits until all is written that there was to write.
    pub(super) async fn flush(&self) {
        loop {
            let mut idle = std::pin::pin!(self.idle.notified());
            // Told of it from here on, also if it happens before it is waited for.
            idle.as_mut().enable();
            if !self.queue.lock().is_running {
                return;
            }
            idle.await;
        }
    }

    async fn run(self: Arc<Self>) {
        while let Some(next) = self.pop_next() {
            let (id, kept) = match next {
                QueuedWrite::Conversation(id, row) => {
                    let kept = self.persist(&id, row).await;
                    (id, kept)
                }
                QueuedWrite::Segment(id, given) => {
                    let kept = self.persist_segment(&id, &given).await;
                    (id, kept)
                }
            };
            if let Err(error) = kept {
                tracing::warn!(conversation = %id, %error, "what was shown is not kept");
            }
        }
        self.idle.notify_waiters();
    }

    fn pop_next(&self) -> Option<QueuedWrite> {
        let mut waiting = self.queue.lock();
        let next = match waiting.rows.pop_first() {
            Some((id, row)) => Some(QueuedWrite::Conversation(id, row)),
            None => waiting.segments.pop_first().map(|(id, given)| QueuedWrite::Segment(id, given)),
        };
        waiting.is_running = next.is_some();
        next
    }

    /// Writes a conversation, once for each review that is due.
    async fn persist(
        &self,
        id: &ConversationId,
        row: QueuedConversation,
    ) -> Result<(), StateError> {
        let QueuedConversation { workspace, persisted: mut kept, pending: unwritten } = row;
        let mut heard = unwritten.drain();
        if self.reviews(&workspace).is_none() {
            heard.clear();
        }
        loop {
            let written = self.persist_next((id, &workspace), &mut kept, &mut heard).await;
            if let Ok(true) = written
                && !heard.is_empty()
            {
                continue;
            }
            unwritten.put_back(heard);
            return written.map(drop);
        }
    }

    /// Writes a conversation with what was heard of it, up to the first review that is due; that goes out of `heard`. Returns
    /// whether it is written.
    async fn persist_next(
        &self,
        (id, workspace): (&ConversationId, &str),
        kept: &mut PersistedConversation,
        heard: &mut VecDeque<Observation>,
    ) -> Result<bool, StateError> {
        let reviews = self.reviews(workspace);
        let mut may_review = true;
        for _ in 0..CONVERSATION_WRITES_MAX {
            let there = self.tasks.conversation(id.as_str()).await?;
            if there.as_ref().is_some_and(|row| row.workspace != workspace) {
                // What was said in one workspace is never read in another.
                tracing::warn!(conversation = %id, "it goes on in another workspace; nothing is kept of it here");
                heard.clear();
                return Ok(true);
            }
            let version = there.as_ref().map_or(0, |row| row.version) + 1;
            kept.watched = None;
            if let Some(there) = there.as_ref().and_then(PersistedConversation::from_row) {
                kept.merge(there);
            }
            let row = |kept: &PersistedConversation| ConversationRow {
                id: id.to_string(),
                workspace: workspace.to_owned(),
                version,
                last_seen_at: self.clock.now(),
                data: kept.to_json(),
            };
            let Some(reviews) = reviews else {
                if !matches!(self.review_mode, ReviewMode::OtherProcess) {
                    kept.watched = None;
                }
                if self.tasks.save_conversation(row(kept)).await? {
                    return Ok(true);
                }
                continue;
            };
            let interval = Some(reviews.settings.interval).filter(|_| may_review);
            let mut now = kept.clone();
            let (count, due) = now.observe(heard, interval);
            let Some((moment, stretch)) = due else {
                if self.tasks.save_conversation(row(&now)).await? {
                    heard.drain(..count);
                    return Ok(true);
                }
                continue;
            };
            if !reviews.is_within_budget().await? {
                may_review = false;
                continue;
            }
            let task =
                ReviewScheduler::task((id.as_str(), workspace), stretch, moment, self.clock.now());
            let max = REVIEWS_UNFINISHED_MAX;
            if self.tasks.save_conversation_and_queue(row(&now), task, max).await? {
                reviews.lanes.wake_known(workspace);
                heard.drain(..count);
                return Ok(true);
            }
            // Somebody else wrote meanwhile, or enough reviews wait: then what was said stays for the next one.
            may_review =
                self.tasks.conversation(id.as_str()).await?.map_or(0, |row| row.version) >= version;
        }
        tracing::warn!(conversation = %id, "too many write to one conversation; what was shown is not kept");
        Ok(false)
    }

    /// Writes what was given; when somebody else wrote since it was read, theirs stays.
    async fn persist_segment(
        &self,
        id: &ConversationId,
        given: &SegmentRecord,
    ) -> Result<(), StateError> {
        let row = SegmentRow {
            conversation: id.to_string(),
            segment: given.segment_number,
            version: given.version,
            updated_at: self.clock.now(),
            data: given.to_json(),
        };
        let version = self.tasks.segment(id.as_str()).await?.map_or(0, |row| row.version) + 1;
        if given.version >= version {
            self.tasks.save_segment(SegmentRow { version, ..row }).await?;
        }
        Ok(())
    }
}
