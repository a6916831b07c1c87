//! Conversations of a host's model with a user: which memories were shown, and which are to be shown next.
//!
//! A host reports events: a prompt, a tool result, the end of a turn. Recall runs in the background
//! ([`Retriever`]). A prompt or a tool result returns without waiting, with the memories that are
//! ready. A result is shown once, and never for another prompt. An entry that the model has in its
//! context is not shown again. A compaction starts a new segment, in which nothing counts as shown.
//!
//! ```
//! # async fn example(engine: lukasa_engine::Engine, memories: lukasa_engine::Memories) -> Result<(), Box<dyn std::error::Error>> {
//! # use tokio_util::sync::CancellationToken;
//! let conversations = engine.conversations(engine.recaller());
//! let opened = conversations.open(&"talk-1".parse()?, "my-app", &memories).await?;
//! let turn = CancellationToken::new();
//! let beside_prompt = opened.conversation.prompt("how are the tests run?", None, &turn);
//! // ... a tool was called, and has answered:
//! let behind_results = opened.conversation.tool_result(None);
//! for shown in [beside_prompt, behind_results].into_iter().flatten() {
//!     println!("{}", shown.block);
//! }
//! opened.conversation.turn_ended(None);
//! # Ok(())
//! # }
//! ```
//!
//! The state records what a conversation was shown, so that nothing is shown twice after a restart.
//! It is written in the background: no call waits for the database. The record also collects
//! the turns that a background review reads ([`review_backlog`]).

mod changes;

mod record;

mod registry;

mod review_backlog;

mod writer;

use std::sync::Arc;

use agents::ReviewTrigger;
use memory::clock::Clock;
use memory::context_file::ImportStyle;
use memory::document::Revision;
use parking_lot::Mutex;
use state::TaskStore;
use store::Memories;
use tokio_util::sync::CancellationToken;

use self::changes::ChangeScan;
pub use self::changes::{ContextSegment, SegmentRequest};
pub use self::record::{BadConversationId, ConversationId};
use self::record::{PersistedConversation, SegmentRecord};
pub use self::registry::{ConversationError, Conversations, OpenedConversation};
use self::review_backlog::{Observation, PendingObservations};
use self::writer::ConversationWriter;
pub(crate) use self::writer::ReviewMode;
use crate::prefetch::{Prefetch, TakeOutcome};
use crate::retriever::{
    RecallBlock, RecallOrigin, RecallQuery, RetrieveError, RetrievedMemory, Retriever,
};
use crate::review::TurnReport;

/// A conversation of one host in one workspace.
#[derive(Debug)]
pub struct Conversation {
    id: ConversationId,
    workspace: String,
    memories: Memories,
    retriever: Arc<dyn Retriever>,
    writer: Arc<ConversationWriter>,
    tasks: Arc<dyn TaskStore>,
    clock: Arc<dyn Clock>,
    start: StartSettings,
    state: Mutex<ConversationState>,
    pending: PendingObservations,
}

/// The settings of the context at the start of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StartSettings {
    /// The style in which imports of context files are shown.
    pub(crate) imports: ImportStyle,
    /// The most tokens of the facts of a store that is given whole.
    pub(crate) tokens_max: usize,
}

/// The part of a conversation that its calls change.
#[derive(Debug)]
struct ConversationState {
    persisted: PersistedConversation,
    /// The recall for the last prompt. The call that takes its result shows it.
    prefetch: Option<Prefetch<Vec<RetrievedMemory>>>,
    /// Digest of that prompt, until its turn has ended.
    prompt: Option<Revision>,
    /// Cancelled when nothing more may be shown for that prompt.
    cancelled: CancellationToken,
    /// The context given at the start of the current segment, or of an earlier one.
    segment_record: Option<SegmentRecord>,
    /// A scan for changes since then.
    change_scan: Option<Prefetch<Option<ChangeScan>>>,
}

impl ConversationState {
    /// Ends the turn of the last prompt and drops its recall.
    fn drop_prompt(&mut self) {
        self.prefetch = None;
        self.prompt = None;
    }
}

impl Conversation {
    /// Returns the id.
    pub fn id(&self) -> &ConversationId {
        &self.id
    }

    /// Returns the id of the workspace.
    pub fn workspace(&self) -> &str {
        &self.workspace
    }

    /// Returns the memories that it may use.
    pub fn memories(&self) -> &Memories {
        &self.memories
    }

    /// Returns the number of turns that have ended, and the number of compactions.
    pub fn counts(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.persisted.turns, state.persisted.segment)
    }

    /// Reports a prompt of the user. Drops the recall of the prompt before it and starts one for
    /// this, which runs until `cancelled` fires. Returns the memories that are ready already; they
    /// precede the prompt's other context.
    ///
    /// A second call with the same event id does nothing and returns nothing. The same text again
    /// before the turn has ended is the same prompt: some hosts send it once more behind each tool
    /// result. It is answered like [`tool_result`](Self::tool_result).
    pub fn prompt(
        &self,
        text: &str,
        event: Option<&str>,
        cancelled: &CancellationToken,
    ) -> Option<RecallBlock> {
        let mut state = self.state.lock();
        if !state.persisted.note_event(event) {
            return None;
        }
        let prompt = Revision::digest(text.as_bytes());
        if state.cancelled.is_cancelled() {
            // The host repeats the prompt over another connection.
            state.drop_prompt();
        }
        if state.prompt != Some(prompt) {
            // Dropped first, so that two recalls never run at once.
            state.drop_prompt();
            state.prefetch = Some(self.start_retrieval(text, &state.persisted, cancelled));
            state.prompt = Some(prompt);
            state.cancelled = cancelled.clone();
            self.record(|| Observation::prompt(text));
        }
        let found = self.take_recalled(&mut state);
        self.persist(&state);
        found
    }

    /// Records a prompt and waits for its recall, for a process that ends with this call, such as a hook. Unlike
    /// [`Self::prompt`], returns the errors of recall.
    pub async fn prompt_and_wait(&self, text: &str) -> Result<Option<RecallBlock>, RetrieveError> {
        let query = self.recall_query(text, &self.state.lock().persisted);
        let found = self.retriever.retrieve(query, CancellationToken::new()).await?;
        let mut state = self.state.lock();
        state.prefetch = Some(Prefetch::ready(found));
        state.prompt = Some(Revision::digest(text.as_bytes()));
        state.cancelled = CancellationToken::new();
        self.record(|| Observation::prompt(text));
        let found = self.take_recalled(&mut state);
        self.persist(&state);
        Ok(found)
    }

    /// Reports that a tool has answered. Returns what recall found since, to be shown behind the
    /// results of all tools that were called together. `None` if it was shown before or is not
    /// ready.
    pub fn tool_result(&self, event: Option<&str>) -> Option<RecallBlock> {
        let mut state = self.state.lock();
        if !state.persisted.note_event(event) {
            return None;
        }
        let found = self.take_recalled(&mut state);
        if event.is_some() || found.is_some() {
            self.persist(&state);
        }
        found
    }

    /// Reports that the model has answered a prompt; nothing more is shown for it. Returns the
    /// number of turns.
    pub fn turn_ended(&self, event: Option<&str>) -> u64 {
        self.turn_ended_with_report(event, &TurnReport::default())
    }

    /// Reports the same, with the messages of the turn. If conversations are reviewed, the messages
    /// are stored until their review has ended, bounded and without secrets. [`flush`](Self::flush)
    /// waits until they are. Otherwise they are dropped.
    pub fn turn_ended_with_report(&self, event: Option<&str>, report: &TurnReport) -> u64 {
        let mut state = self.state.lock();
        if state.persisted.note_event(event) {
            state.drop_prompt();
            state.persisted.turns += 1;
            self.record(|| Some(Observation::turn_ended(report)));
            self.persist(&state);
        }
        state.persisted.turns
    }

    /// Reports that the model wrote memories with a tool. The messages until now then need no
    /// review.
    pub fn wrote_memory(&self) {
        self.record_and_persist(Observation::MemoryWritten);
    }

    /// Reports that the conversation has ended for now. Queues a review if enough turns were not
    /// reviewed.
    pub fn ended(&self) {
        self.record_and_persist(Observation::ReviewRequested(ReviewTrigger::End));
    }

    /// Checks whether turns are stored for a review.
    pub fn is_reviewed(&self) -> bool {
        self.writer.reviews(&self.workspace).is_some()
    }

    fn record_and_persist(&self, observation: Observation) {
        if self.is_reviewed() {
            let state = self.state.lock();
            self.pending.push(observation);
            self.persist(&state);
        }
    }

    /// Queues an observation for the next write, if conversations are reviewed.
    fn record(&self, observation: impl FnOnce() -> Option<Observation>) {
        if self.is_reviewed()
            && let Some(observation) = observation()
        {
            self.pending.push(observation);
        }
    }

    /// Reports that the host compacted or cleared the model's context: a new segment starts, in which everything may be
    /// shown again. Drops the recall under way.
    ///
    /// If conversations are reviewed, the unreviewed messages are reviewed now, because the model has lost them.
    pub fn compacted(&self, event: Option<&str>) {
        let mut state = self.state.lock();
        if state.persisted.note_event(event) {
            state.drop_prompt();
            state.change_scan = None;
            let next = state.persisted.segment + 1;
            state.persisted.begin_segment(next);
            self.request_compaction_review();
            self.persist(&state);
        }
    }

    /// Reports that the host is about to compact the model's context, which it may still give up. The segment goes on.
    /// If conversations are reviewed, the unreviewed messages are reviewed now.
    pub fn compacting(&self) {
        let state = self.state.lock();
        self.request_compaction_review();
        self.persist(&state);
    }

    fn request_compaction_review(&self) {
        let reviews = self.writer.reviews(&self.workspace);
        if reviews.is_some_and(|one| one.reviews_before_compaction(&self.workspace)) {
            self.pending.push(Observation::ReviewRequested(ReviewTrigger::Compaction));
        }
    }

    /// Drops the recall under way, because the turn was stopped. The model keeps its context, so nothing is shown again.
    pub fn reset(&self) {
        self.state.lock().drop_prompt();
    }

    fn start_retrieval(
        &self,
        text: &str,
        persisted: &PersistedConversation,
        cancelled: &CancellationToken,
    ) -> Prefetch<Vec<RetrievedMemory>> {
        let query = self.recall_query(text, persisted);
        if let Some(found) = self.retriever.try_retrieve(&query) {
            return Prefetch::ready(found);
        }
        let (retriever, id) = (Arc::clone(&self.retriever), self.id.clone());
        Prefetch::spawn(cancelled, |stop| async move {
            retriever.retrieve(query, stop).await.unwrap_or_else(|error| {
                tracing::warn!(conversation = %id, %error, "recall failed; no memories are shown");
                Vec::new()
            })
        })
    }

    fn recall_query(&self, text: &str, persisted: &PersistedConversation) -> RecallQuery {
        RecallQuery {
            workspace: Arc::from(self.workspace.as_str()),
            memories: self.memories.clone(),
            prompt: Arc::from(text),
            except: persisted.resident(),
        }
    }

    /// Takes the result of recall, if it is ready, without the entries that were shown in the meantime for an earlier
    /// prompt.
    fn take_recalled(&self, state: &mut ConversationState) -> Option<RecallBlock> {
        let prefetch = state.prefetch.take()?;
        if state.cancelled.is_cancelled() {
            return None;
        }
        let mut found = match prefetch.take() {
            TakeOutcome::Ready(found) => found,
            TakeOutcome::Pending(prefetch) => {
                state.prefetch = Some(prefetch);
                return None;
            }
            TakeOutcome::Ended => return None,
        };
        state.persisted.resident().retain_unknown(&mut found);
        let recalled = RecallBlock::render(&found, RecallOrigin::Unrequested, self.clock.now())?;
        state.persisted.mark_resident(recalled.digests());
        Some(recalled)
    }

    fn persist(&self, state: &ConversationState) {
        self.writer.write(&self.id, &self.workspace, (&state.persisted, &self.pending));
    }
}
