//! Conversations: what a host's model is shown of memories while it talks with a person.
//!
//! A host says what happens - a prompt, the result of a tool, the end of a turn - and is answered at once with
//! what there is to show. What fits a prompt is looked for beside the turn ([`Retriever`]); it is handed over at
//! the first moment at which it is there, once, and never for another prompt.
//!
//! ```
//! # async fn example(engine: lukasa_engine::Engine, memories: lukasa_engine::Memories) -> Result<(), Box<dyn std::error::Error>> {
//! # use tokio_util::sync::CancellationToken;
//! let conversations = engine.conversations(engine.recaller());
//! let opened = conversations.open(&"talk-1".parse()?, "my-app", &memories).await?;
//! let turn = CancellationToken::new();
//! let mut beside_prompt = opened.conversation.prompt("how are the tests run?", None, &turn);
//! // ... a tool was called, and has answered:
//! let behind_results = opened.conversation.tool_result(None);
//! for shown in beside_prompt.take().into_iter().chain(behind_results) {
//!     println!("{}", shown.block);
//! }
//! opened.conversation.turn_ended(None);
//! # Ok(())
//! # }
//! ```
//!
//! What a conversation was shown is kept in the state, so that nothing is shown twice after a restart. It is
//! written behind the answer: a turn does not wait for a database.

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
use crate::retriever::{RecallBlock, RecallQuery, RetrieveError, RetrievedMemory, Retriever};
use crate::review::TurnReport;

/// One conversation.
#[derive(Debug)]
pub struct Conversation {
    id: ConversationId,
    workspace: String,
    memories: Memories,
    retriever: Arc<dyn Retriever>,
    writer: Arc<ConversationWriter>,
    tasks: Arc<dyn TaskStore>,
    clock: Arc<dyn Clock>,
    /// How the imports of context files are shown.
    imports: ImportStyle,
    state: Mutex<ConversationState>,
    pending: PendingObservations,
}

/// How a conversation is.
#[derive(Debug)]
struct ConversationState {
    persisted: PersistedConversation,
    /// What is looked for, for the last prompt. Whoever takes it out is the one who shows it.
    prefetch: Option<Prefetch<Vec<RetrievedMemory>>>,
    /// The digest of that prompt, until its turn has ended.
    prompt: Option<Revision>,
    /// Cancelled when nothing more is to be shown for it.
    cancelled: CancellationToken,
    /// What the model was given at the beginning of a segment, this one or one before.
    segment_record: Option<SegmentRecord>,
    /// A look at what changed since.
    change_scan: Option<Prefetch<Option<ChangeScan>>>,
}

impl ConversationState {
    /// Ends the turn of the last prompt: what is looked for is dropped.
    fn drop_prompt(&mut self) {
        self.prefetch = None;
        self.prompt = None;
    }
}

impl Conversation {
    /// Returns its id.
    pub fn id(&self) -> &ConversationId {
        &self.id
    }

    /// Returns its workspace.
    pub fn workspace(&self) -> &str {
        &self.workspace
    }

    /// Returns the memories that it may see.
    pub fn memories(&self) -> &Memories {
        &self.memories
    }

    /// Returns how many turns have ended, and how often what the model knew was compacted.
    pub fn counts(&self) -> (u64, u64) {
        let now = self.state.lock();
        (now.persisted.turns, now.persisted.segment)
    }

    /// Says that a person asked something. What was looked for until now is dropped; what fits this is looked
    /// for from now on, until `cancelled` is. Returns what is there already: it leads what is shown beside
    /// the prompt.
    ///
    /// Said twice with one event id, it is done once, and answered with nothing the second time. The same text
    /// again before the turn has ended is the same prompt, which some hosts send once more behind each tool
    /// result: it is answered as [`tool_result`](Self::tool_result) is.
    pub fn prompt(
        &self,
        text: &str,
        event: Option<&str>,
        cancelled: &CancellationToken,
    ) -> Option<RecallBlock> {
        let mut now = self.state.lock();
        if !now.persisted.note_event(event) {
            return None;
        }
        let prompt = Revision::digest(text.as_bytes());
        if now.cancelled.is_cancelled() {
            // The host asks once more, over another connection.
            now.drop_prompt();
        }
        if now.prompt != Some(prompt) {
            // Dropped first: two are never under way.
            now.drop_prompt();
            now.prefetch = Some(self.start_retrieval(text, &now.persisted, cancelled));
            now.prompt = Some(prompt);
            now.cancelled = cancelled.clone();
            self.record(|| Observation::prompt(text));
        }
        let found = self.take_recalled(&mut now);
        self.persist(&now);
        found
    }

    /// Says the same for a process that ends with the answer: waits for what fits, and returns it.
    pub async fn prompt_and_wait(&self, text: &str) -> Result<Option<RecallBlock>, RetrieveError> {
        let asked = self.recall_query(text, &self.state.lock().persisted);
        let found = self.retriever.retrieve(asked, CancellationToken::new()).await?;
        let mut now = self.state.lock();
        now.prefetch = Some(Prefetch::ready(found));
        now.prompt = Some(Revision::digest(text.as_bytes()));
        now.cancelled = CancellationToken::new();
        self.record(|| Observation::prompt(text));
        let found = self.take_recalled(&mut now);
        self.persist(&now);
        Ok(found)
    }

    /// Says that a tool has answered. Returns what was found since, to be shown behind the results of all
    /// tools that were called together; nothing if it was shown before or is still looked for.
    pub fn tool_result(&self, event: Option<&str>) -> Option<RecallBlock> {
        let mut now = self.state.lock();
        if !now.persisted.note_event(event) {
            return None;
        }
        let found = self.take_recalled(&mut now);
        if event.is_some() || found.is_some() {
            self.persist(&now);
        }
        found
    }

    /// Says that the model has answered a prompt, and that nothing more will be shown beside it. Returns how
    /// many turns there were.
    pub fn turn_ended(&self, event: Option<&str>) -> u64 {
        self.turn_ended_with_report(event, &TurnReport::default())
    }

    /// Says the same, with what was said in the turn. Where conversations are reviewed it is kept until its review has ended,
    /// bounded and without secrets; [`flush`](Self::flush) tells when. Else it is dropped.
    pub fn turn_ended_with_report(&self, event: Option<&str>, told: &TurnReport) -> u64 {
        let mut now = self.state.lock();
        if now.persisted.note_event(event) {
            now.drop_prompt();
            now.persisted.turns += 1;
            self.record(|| Some(Observation::turn_ended(told)));
            self.persist(&now);
        }
        now.persisted.turns
    }

    /// Says that the model wrote memories with a tool. What was said until now needs no review then.
    pub fn wrote_memory(&self) {
        self.record_and_persist(Observation::MemoryWritten);
    }

    /// Says that the conversation has ended for now: if much of it was not reviewed, that is done.
    pub fn ended(&self) {
        self.record_and_persist(Observation::ReviewRequested(ReviewTrigger::End));
    }

    /// Tells whether turns are kept until they are reviewed.
    pub fn is_reviewed(&self) -> bool {
        self.writer.reviews(&self.workspace).is_some()
    }

    fn record_and_persist(&self, heard: Observation) {
        if self.is_reviewed() {
            let now = self.state.lock();
            self.pending.push(heard);
            self.persist(&now);
        }
    }

    /// Has what was heard written down with what is kept next, where conversations are reviewed.
    fn record(&self, heard: impl FnOnce() -> Option<Observation>) {
        if self.is_reviewed()
            && let Some(heard) = heard()
        {
            self.pending.push(heard);
        }
    }

    /// Says that what the model knew was compacted: a new segment begins. What is looked for is dropped; what
    /// was shown is not shown again.
    ///
    /// Where conversations are reviewed, what was not reviewed yet is reviewed now: the model is about to lose it.
    pub fn compacted(&self, event: Option<&str>) {
        let mut now = self.state.lock();
        if now.persisted.note_event(event) {
            now.drop_prompt();
            now.change_scan = None;
            now.persisted.segment += 1;
            if self
                .writer
                .reviews(&self.workspace)
                .is_some_and(|one| one.reviews_before_compaction(&self.workspace))
            {
                self.pending.push(Observation::ReviewRequested(ReviewTrigger::Compaction));
            }
            self.persist(&now);
        }
    }

    /// Drops what is looked for: the turn was stopped, or all was cleared.
    pub fn reset(&self) {
        self.state.lock().drop_prompt();
    }

    fn start_retrieval(
        &self,
        text: &str,
        kept: &PersistedConversation,
        cancelled: &CancellationToken,
    ) -> Prefetch<Vec<RetrievedMemory>> {
        let asked = self.recall_query(text, kept);
        if let Some(found) = self.retriever.try_retrieve(&asked) {
            return Prefetch::ready(found);
        }
        let (select, id) = (Arc::clone(&self.retriever), self.id.clone());
        Prefetch::spawn(cancelled, |stop| async move {
            select.retrieve(asked, stop).await.unwrap_or_else(|error| {
                tracing::warn!(conversation = %id, %error, "nothing is recalled");
                Vec::new()
            })
        })
    }

    fn recall_query(&self, text: &str, kept: &PersistedConversation) -> RecallQuery {
        RecallQuery {
            workspace: Arc::from(self.workspace.as_str()),
            memories: self.memories.clone(),
            prompt: Arc::from(text),
            except: kept.shown(),
        }
    }

    /// Takes what is settled, as much of it as may be shown. What was shown meanwhile, for an earlier prompt,
    /// is left out.
    fn take_recalled(&self, now: &mut ConversationState) -> Option<RecallBlock> {
        let prefetch = now.prefetch.take()?;
        if now.cancelled.is_cancelled() {
            return None;
        }
        let mut found = match prefetch.take() {
            TakeOutcome::Ready(found) => found,
            TakeOutcome::Pending(prefetch) => {
                now.prefetch = Some(prefetch);
                return None;
            }
            TakeOutcome::Ended => return None,
        };
        let shown = now.persisted.shown();
        found.retain(|found| !shown.contains(&found.path, &found.revision));
        let recalled = RecallBlock::render(&found, self.clock.now())?;
        for memory in &recalled.memories {
            now.persisted.mark_shown(&memory.path, &memory.revision);
        }
        Some(recalled)
    }

    fn persist(&self, now: &ConversationState) {
        self.writer.write(&self.id, &self.workspace, (&now.persisted, &self.pending));
    }
}
