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

use super::record::{ConversationId, Given, Kept};
use super::watched::{Heard, Unwritten};
use crate::review::Reviews;

/// Where conversations are reviewed.
#[derive(Debug)]
pub(crate) enum Reviewing {
    /// Nowhere. What an earlier setting had kept for that goes.
    Nowhere,
    /// In another process.
    Elsewhere,
    /// In this one.
    Here(Reviews),
}

/// Writes conversations down.
#[derive(Debug)]
pub(super) struct Writer {
    tasks: Arc<dyn TaskStore>,
    clock: Arc<dyn Clock>,
    reviewing: Reviewing,
    waiting: Mutex<Waiting>,
    /// Told each time that nothing waits any more.
    idle: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    rows: BTreeMap<ConversationId, Row>,
    segments: BTreeMap<ConversationId, Given>,
    /// Whether a task writes.
    is_written: bool,
}

/// A conversation to write: what is kept of it, and what was heard of it since it was written last.
#[derive(Debug)]
struct Row {
    workspace: String,
    kept: Kept,
    unwritten: Unwritten,
}

/// What is written next.
enum Next {
    Conversation(ConversationId, Row),
    Given(ConversationId, Given),
}

impl Writer {
    pub(super) fn new(
        tasks: Arc<dyn TaskStore>,
        clock: Arc<dyn Clock>,
        reviewing: Reviewing,
    ) -> Self {
        Self { tasks, clock, reviewing, waiting: Mutex::default(), idle: Notify::new() }
    }

    /// Returns what reviews the conversations of a workspace, if they are reviewed.
    pub(super) fn reviews(&self, workspace: &str) -> Option<&Reviews> {
        match &self.reviewing {
            Reviewing::Here(reviews) => Some(reviews).filter(|one| one.are_on(workspace)),
            Reviewing::Nowhere | Reviewing::Elsewhere => None,
        }
    }

    /// Has a conversation written down soon, with what was heard of it.
    pub(super) fn write(
        self: &Arc<Self>,
        id: &ConversationId,
        workspace: &str,
        (kept, unwritten): (&Kept, &Unwritten),
    ) {
        let mut waiting = self.waiting.lock();
        let (kept, unwritten) = (kept.clone(), unwritten.clone());
        let row = Row { workspace: workspace.to_owned(), kept, unwritten };
        // It was let go and opened again before it was written: what was heard before is not lost.
        if let Some(before) = waiting.rows.remove(id)
            && !before.unwritten.is_same(&row.unwritten)
        {
            row.unwritten.put_back(before.unwritten.take());
        }
        waiting.rows.insert(id.clone(), row);
        self.see_to_it(waiting);
    }

    /// Has what a conversation was given written down soon.
    pub(super) fn write_given(self: &Arc<Self>, id: &ConversationId, given: &Given) {
        let mut waiting = self.waiting.lock();
        waiting.segments.insert(id.clone(), given.clone());
        self.see_to_it(waiting);
    }

    fn see_to_it(self: &Arc<Self>, mut waiting: MutexGuard<'_, Waiting>) {
        if !waiting.is_written {
            waiting.is_written = true;
            tokio::spawn(Arc::clone(self).work());
        }
    }

    /// Waits until all is written that there was to write.
    pub(super) async fn written(&self) {
        loop {
            let mut idle = std::pin::pin!(self.idle.notified());
            // Told of it from here on, also if it happens before it is waited for.
            idle.as_mut().enable();
            if !self.waiting.lock().is_written {
                return;
            }
            idle.await;
        }
    }

    async fn work(self: Arc<Self>) {
        while let Some(next) = self.next() {
            let (id, kept) = match next {
                Next::Conversation(id, row) => {
                    let kept = self.keep(&id, row).await;
                    (id, kept)
                }
                Next::Given(id, given) => {
                    let kept = self.keep_given(&id, &given).await;
                    (id, kept)
                }
            };
            if let Err(error) = kept {
                tracing::warn!(conversation = %id, %error, "what was shown is not kept");
            }
        }
        self.idle.notify_waiters();
    }

    fn next(&self) -> Option<Next> {
        let mut waiting = self.waiting.lock();
        let next = match waiting.rows.pop_first() {
            Some((id, row)) => Some(Next::Conversation(id, row)),
            None => waiting.segments.pop_first().map(|(id, given)| Next::Given(id, given)),
        };
        waiting.is_written = next.is_some();
        next
    }

    /// Writes a conversation, once for each review that is due.
    async fn keep(&self, id: &ConversationId, row: Row) -> Result<(), StateError> {
        let Row { workspace, mut kept, unwritten } = row;
        let mut heard = unwritten.take();
        if self.reviews(&workspace).is_none() {
            heard.clear();
        }
        loop {
            let written = self.keep_next((id, &workspace), &mut kept, &mut heard).await;
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
    async fn keep_next(
        &self,
        (id, workspace): (&ConversationId, &str),
        kept: &mut Kept,
        heard: &mut VecDeque<Heard>,
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
            if let Some(there) = there.as_ref().and_then(Kept::read) {
                kept.merge(there);
            }
            let row = |kept: &Kept| ConversationRow {
                id: id.to_string(),
                workspace: workspace.to_owned(),
                version,
                last_seen_at: self.clock.now(),
                data: kept.data(),
            };
            let Some(reviews) = reviews else {
                if !matches!(self.reviewing, Reviewing::Elsewhere) {
                    kept.watched = None;
                }
                if self.tasks.save_conversation(row(kept)).await? {
                    return Ok(true);
                }
                continue;
            };
            let interval = Some(reviews.settings.interval).filter(|_| may_review);
            let mut now = kept.clone();
            let (count, due) = now.hear(heard, interval);
            let Some((moment, stretch)) = due else {
                if self.tasks.save_conversation(row(&now)).await? {
                    heard.drain(..count);
                    return Ok(true);
                }
                continue;
            };
            if !reviews.may_spend().await? {
                may_review = false;
                continue;
            }
            let task = Reviews::task((id.as_str(), workspace), stretch, moment, self.clock.now());
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
    async fn keep_given(&self, id: &ConversationId, given: &Given) -> Result<(), StateError> {
        let row = SegmentRow {
            conversation: id.to_string(),
            segment: given.of,
            version: given.version,
            updated_at: self.clock.now(),
            data: given.data(),
        };
        let version = self.tasks.segment(id.as_str()).await?.map_or(0, |row| row.version) + 1;
        if given.version >= version {
            self.tasks.save_segment(SegmentRow { version, ..row }).await?;
        }
        Ok(())
    }
}
