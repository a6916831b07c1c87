//! Conversations: what a host's model is shown of memories while it talks with a person.
//!
//! A host says what happens - a prompt, the result of a tool, the end of a turn - and is answered at once with
//! what there is to show. What fits a prompt is looked for beside the turn ([`Select`]); it is handed over at
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

mod watched;

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

use self::changes::Looked;
pub use self::changes::{Beginning, Begun};
pub use self::record::{BadConversationId, ConversationId};
use self::record::{Given, Kept};
pub use self::registry::{ConversationError, Conversations, Opened};
use self::watched::{Heard, Unwritten};
pub(crate) use self::writer::Reviewing;
use self::writer::Writer;
use crate::prefetch::{Prefetch, Taken};
use crate::review::TurnTold;
use crate::select::{Recalled, Select, SelectError, Selected, Selecting};

/// One conversation.
#[derive(Debug)]
pub struct Conversation {
    id: ConversationId,
    workspace: String,
    memories: Memories,
    select: Arc<dyn Select>,
    writer: Arc<Writer>,
    tasks: Arc<dyn TaskStore>,
    clock: Arc<dyn Clock>,
    /// How the imports of context files are shown.
    imports: ImportStyle,
    now: Mutex<Now>,
    unwritten: Unwritten,
}

/// How a conversation is.
#[derive(Debug)]
struct Now {
    kept: Kept,
    /// What is looked for, for the last prompt. Whoever takes it out is the one who shows it.
    prefetch: Option<Prefetch<Vec<Selected>>>,
    /// The digest of that prompt, until its turn has ended.
    prompt: Option<Revision>,
    /// Cancelled when nothing more is to be shown for it.
    cancelled: CancellationToken,
    /// What the model was given at the beginning of a segment, this one or one before.
    given: Option<Given>,
    /// A look at what changed since.
    look: Option<Prefetch<Option<Looked>>>,
}

impl Now {
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
        let now = self.now.lock();
        (now.kept.turns, now.kept.segment)
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
    ) -> Option<Recalled> {
        let mut now = self.now.lock();
        if !now.kept.is_new(event) {
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
            now.prefetch = Some(self.look(text, &now.kept, cancelled));
            now.prompt = Some(prompt);
            now.cancelled = cancelled.clone();
            self.hear(|| Heard::prompt(text));
        }
        let found = self.take(&mut now);
        self.keep(&now);
        found
    }

    /// Says the same for a process that ends with the answer: waits for what fits, and returns it.
    pub async fn prompt_and_wait(&self, text: &str) -> Result<Option<Recalled>, SelectError> {
        let asked = self.asked(text, &self.now.lock().kept);
        let found = self.select.select(asked, CancellationToken::new()).await?;
        let mut now = self.now.lock();
        now.prefetch = Some(Prefetch::settled(found));
        now.prompt = Some(Revision::digest(text.as_bytes()));
        now.cancelled = CancellationToken::new();
        self.hear(|| Heard::prompt(text));
        let found = self.take(&mut now);
        self.keep(&now);
        Ok(found)
    }

    /// Says that a tool has answered. Returns what was found since, to be shown behind the results of all
    /// tools that were called together; nothing if it was shown before or is still looked for.
    pub fn tool_result(&self, event: Option<&str>) -> Option<Recalled> {
        let mut now = self.now.lock();
        if !now.kept.is_new(event) {
            return None;
        }
        let found = self.take(&mut now);
        if event.is_some() || found.is_some() {
            self.keep(&now);
        }
        found
    }

    /// Says that the model has answered a prompt, and that nothing more will be shown beside it. Returns how
    /// many turns there were.
    pub fn turn_ended(&self, event: Option<&str>) -> u64 {
        self.turn_ended_with(event, &TurnTold::default())
    }

    /// Says the same, with what was said in the turn. Where conversations are reviewed it is kept until its review has ended,
    /// bounded and without secrets; [`written`](Self::written) tells when. Else it is dropped.
    pub fn turn_ended_with(&self, event: Option<&str>, told: &TurnTold) -> u64 {
        let mut now = self.now.lock();
        if now.kept.is_new(event) {
            now.drop_prompt();
            now.kept.turns += 1;
            self.hear(|| Some(Heard::turn_ended(told)));
            self.keep(&now);
        }
        now.kept.turns
    }

    /// Says that the model wrote memories with a tool. What was said until now needs no review then.
    pub fn wrote_memory(&self) {
        self.hear_and_keep(Heard::MemoryWritten);
    }

    /// Says that the conversation has ended for now: if much of it was not reviewed, that is done.
    pub fn ended(&self) {
        self.hear_and_keep(Heard::Wanted(ReviewTrigger::End));
    }

    /// Tells whether turns are kept until they are reviewed.
    pub fn is_reviewed(&self) -> bool {
        self.writer.reviews(&self.workspace).is_some()
    }

    fn hear_and_keep(&self, heard: Heard) {
        if self.is_reviewed() {
            let now = self.now.lock();
            self.unwritten.push(heard);
            self.keep(&now);
        }
    }

    /// Has what was heard written down with what is kept next, where conversations are reviewed.
    fn hear(&self, heard: impl FnOnce() -> Option<Heard>) {
        if self.is_reviewed()
            && let Some(heard) = heard()
        {
            self.unwritten.push(heard);
        }
    }

    /// Says that what the model knew was compacted: a new segment begins. What is looked for is dropped; what
    /// was shown is not shown again.
    ///
    /// Where conversations are reviewed, what was not reviewed yet is reviewed now: the model is about to lose it.
    pub fn compacted(&self, event: Option<&str>) {
        let mut now = self.now.lock();
        if now.kept.is_new(event) {
            now.drop_prompt();
            now.look = None;
            now.kept.segment += 1;
            if self
                .writer
                .reviews(&self.workspace)
                .is_some_and(|one| one.before_compaction(&self.workspace))
            {
                self.unwritten.push(Heard::Wanted(ReviewTrigger::Compaction));
            }
            self.keep(&now);
        }
    }

    /// Drops what is looked for: the turn was stopped, or all was cleared.
    pub fn reset(&self) {
        self.now.lock().drop_prompt();
    }

    fn look(
        &self,
        text: &str,
        kept: &Kept,
        cancelled: &CancellationToken,
    ) -> Prefetch<Vec<Selected>> {
        let asked = self.asked(text, kept);
        if let Some(found) = self.select.at_once(&asked) {
            return Prefetch::settled(found);
        }
        let (select, id) = (Arc::clone(&self.select), self.id.clone());
        Prefetch::begin(cancelled, |stop| async move {
            select.select(asked, stop).await.unwrap_or_else(|error| {
                tracing::warn!(conversation = %id, %error, "nothing is recalled");
                Vec::new()
            })
        })
    }

    fn asked(&self, text: &str, kept: &Kept) -> Selecting {
        Selecting {
            workspace: Arc::from(self.workspace.as_str()),
            memories: self.memories.clone(),
            prompt: Arc::from(text),
            except: kept.shown(),
        }
    }

    /// Takes what is settled, as much of it as may be shown. What was shown meanwhile, for an earlier prompt,
    /// is left out.
    fn take(&self, now: &mut Now) -> Option<Recalled> {
        let prefetch = now.prefetch.take()?;
        if now.cancelled.is_cancelled() {
            return None;
        }
        let mut found = match prefetch.take() {
            Taken::Settled(found) => found,
            Taken::NotYet(prefetch) => {
                now.prefetch = Some(prefetch);
                return None;
            }
            Taken::Nothing => return None,
        };
        let shown = now.kept.shown();
        found.retain(|found| !shown.has(&found.path, &found.revision));
        let recalled = Recalled::of(&found, self.clock.now())?;
        for memory in &recalled.memories {
            now.kept.show(&memory.path, &memory.revision);
        }
        Some(recalled)
    }

    fn keep(&self, now: &Now) {
        self.writer.write(&self.id, &self.workspace, (&now.kept, &self.unwritten));
    }
}
