//! Writes conversations to the state in the background, after their calls have returned.
//!
//! One tokio task writes all conversations, one after the other, in their latest form. Several
//! changes to a queued conversation therefore cost one write. Rows carry a version: if another
//! process has written the same conversation, its data is merged first.
//!
//! Writing is also the moment at which due reviews are queued, in the same transaction as the
//! record.

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

/// The process that reviews conversations, if any.
#[derive(Debug)]
pub(crate) enum ReviewMode {
    /// None. Messages stored under an earlier setting are deleted.
    Off,
    /// Another process.
    OtherProcess,
    /// This process.
    ThisProcess(ReviewScheduler),
}

/// The queue of unwritten conversations, and the task that writes them.
#[derive(Debug)]
pub(super) struct ConversationWriter {
    tasks: Arc<dyn TaskStore>,
    clock: Arc<dyn Clock>,
    review_mode: ReviewMode,
    queue: Mutex<WriteQueue>,
    /// Notified each time the queue runs empty.
    idle: Notify,
}

#[derive(Debug, Default)]
struct WriteQueue {
    rows: BTreeMap<ConversationId, QueuedConversation>,
    segments: BTreeMap<ConversationId, SegmentRecord>,
    /// Whether a tokio task is writing.
    is_running: bool,
}

/// A conversation to write: its record, and the observations since the last write.
#[derive(Debug)]
struct QueuedConversation {
    workspace: String,
    persisted: PersistedConversation,
    pending: PendingObservations,
}

/// The next item to write.
enum QueuedWrite {
    Conversation(ConversationId, QueuedConversation),
    Segment(ConversationId, SegmentRecord),
}

impl ConversationWriter {
    pub(super) fn new(
        tasks: Arc<dyn TaskStore>,
        clock: Arc<dyn Clock>,
        review_mode: ReviewMode,
    ) -> Self {
        Self { tasks, clock, review_mode, queue: Mutex::default(), idle: Notify::new() }
    }

    /// Returns the review scheduler for a workspace, if this process reviews it.
    pub(super) fn reviews(&self, workspace: &str) -> Option<&ReviewScheduler> {
        match &self.review_mode {
            ReviewMode::ThisProcess(reviews) => {
                Some(reviews).filter(|reviews| reviews.is_enabled(workspace))
            }
            ReviewMode::Off | ReviewMode::OtherProcess => None,
        }
    }

    /// Queues a conversation to be written, with its pending observations.
    pub(super) fn write(
        self: &Arc<Self>,
        id: &ConversationId,
        workspace: &str,
        (persisted, pending): (&PersistedConversation, &PendingObservations),
    ) {
        let mut queue = self.queue.lock();
        let (persisted, pending) = (persisted.clone(), pending.clone());
        let row = QueuedConversation { workspace: workspace.to_owned(), persisted, pending };
        // The conversation was closed and opened again before it was written; its earlier
        // observations must not be lost.
        if let Some(earlier) = queue.rows.remove(id)
            && !earlier.pending.is_same(&row.pending)
        {
            row.pending.put_back(earlier.pending.drain());
        }
        queue.rows.insert(id.clone(), row);
        self.ensure_running(queue);
    }

    /// Queues the context record of a conversation to be written.
    pub(super) fn write_segment(self: &Arc<Self>, id: &ConversationId, record: &SegmentRecord) {
        let mut queue = self.queue.lock();
        queue.segments.insert(id.clone(), record.clone());
        self.ensure_running(queue);
    }

    fn ensure_running(self: &Arc<Self>, mut queue: MutexGuard<'_, WriteQueue>) {
        if !queue.is_running {
            queue.is_running = true;
            tokio::spawn(Arc::clone(self).run());
        }
    }

    /// Waits until the queue is empty.
    pub(super) async fn flush(&self) {
        loop {
            let mut idle = std::pin::pin!(self.idle.notified());
            // Registers before the check, so that a notification in between is not missed.
            idle.as_mut().enable();
            if !self.queue.lock().is_running {
                return;
            }
            idle.await;
        }
    }

    async fn run(self: Arc<Self>) {
        while let Some(next) = self.pop_next() {
            let (id, written) = match next {
                QueuedWrite::Conversation(id, row) => {
                    let written = self.persist(&id, row).await;
                    (id, written)
                }
                QueuedWrite::Segment(id, record) => {
                    let written = self.persist_segment(&id, &record).await;
                    (id, written)
                }
            };
            if let Err(error) = written {
                tracing::warn!(conversation = %id, %error, "error while writing a conversation; what it was shown is not recorded");
            }
        }
        self.idle.notify_waiters();
    }

    fn pop_next(&self) -> Option<QueuedWrite> {
        let mut queue = self.queue.lock();
        let next = match queue.rows.pop_first() {
            Some((id, row)) => Some(QueuedWrite::Conversation(id, row)),
            None => queue.segments.pop_first().map(|(id, record)| QueuedWrite::Segment(id, record)),
        };
        queue.is_running = next.is_some();
        next
    }

    /// Writes a conversation, once for each review that is due.
    async fn persist(
        &self,
        id: &ConversationId,
        row: QueuedConversation,
    ) -> Result<(), StateError> {
        let QueuedConversation { workspace, mut persisted, pending } = row;
        let mut observations = pending.drain();
        if self.reviews(&workspace).is_none() {
            observations.clear();
        }
        loop {
            let written =
                self.persist_next((id, &workspace), &mut persisted, &mut observations).await;
            if let Ok(true) = written
                && !observations.is_empty()
            {
                continue;
            }
            pending.put_back(observations);
            return written.map(drop);
        }
    }

    /// Writes a conversation with its observations up to the first review that is due, and drains
    /// those from `observations`. Returns whether it was written.
    async fn persist_next(
        &self,
        (id, workspace): (&ConversationId, &str),
        persisted: &mut PersistedConversation,
        observations: &mut VecDeque<Observation>,
    ) -> Result<bool, StateError> {
        let reviews = self.reviews(workspace);
        let mut may_review = true;
        for _ in 0..CONVERSATION_WRITES_MAX {
            let stored = self.tasks.conversation(id.as_str()).await?;
            if stored.as_ref().is_some_and(|row| row.workspace != workspace) {
                // Messages of one workspace must never be read in another.
                tracing::warn!(conversation = %id, "the conversation belongs to another workspace; it is not recorded here");
                observations.clear();
                return Ok(true);
            }
            let version = stored.as_ref().map_or(0, |row| row.version) + 1;
            persisted.watched = None;
            if let Some(stored) = stored.as_ref().and_then(PersistedConversation::from_row) {
                persisted.merge(stored);
            }
            let row = |persisted: &PersistedConversation| ConversationRow {
                id: id.to_string(),
                workspace: workspace.to_owned(),
                version,
                last_seen_at: self.clock.now(),
                data: persisted.to_json(),
            };
            let Some(reviews) = reviews else {
                if !matches!(self.review_mode, ReviewMode::OtherProcess) {
                    persisted.watched = None;
                }
                if self.tasks.save_conversation(row(persisted)).await? {
                    return Ok(true);
                }
                continue;
            };
            let interval = Some(reviews.settings.interval).filter(|_| may_review);
            let mut observed = persisted.clone();
            let (count, due) = observed.observe(observations, interval);
            let Some((moment, stretch)) = due else {
                if self.tasks.save_conversation(row(&observed)).await? {
                    observations.drain(..count);
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
            if self.tasks.save_conversation_and_queue(row(&observed), task, max).await? {
                reviews.lanes.wake_known(workspace);
                observations.drain(..count);
                return Ok(true);
            }
            // Another process wrote first, or the maximum of reviews is queued. In the second case
            // the messages stay for the next review.
            may_review =
                self.tasks.conversation(id.as_str()).await?.map_or(0, |row| row.version) >= version;
        }
        tracing::warn!(conversation = %id, "too many concurrent writes to one conversation; retries exhausted, what it was shown is not recorded");
        Ok(false)
    }

    /// Writes a context record. If another process wrote a newer version since it was read, that
    /// one stays.
    async fn persist_segment(
        &self,
        id: &ConversationId,
        record: &SegmentRecord,
    ) -> Result<(), StateError> {
        let row = SegmentRow {
            conversation: id.to_string(),
            segment: record.segment_number,
            version: record.version,
            updated_at: self.clock.now(),
            data: record.to_json(),
        };
        let version = self.tasks.segment(id.as_str()).await?.map_or(0, |row| row.version) + 1;
        if record.version >= version {
            self.tasks.save_segment(SegmentRow { version, ..row }).await?;
        }
        Ok(())
    }
}
