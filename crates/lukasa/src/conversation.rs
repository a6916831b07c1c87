//! Conversations: what a model is shown of memories while it talks with a person.

use std::fmt;
use std::sync::Arc;

use engine::{ConversationId, MessageRole, TurnReport};
use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::Result;
use crate::memories::{Memories, ModelContext, Recall};

/// A conversation of a model with a person.
///
/// Tell it of prompts, tool results and ends of turns. Each call answers at once with what there is to show: a
/// turn never waits for a disk or a model. What fits a prompt is looked for beside the turn and handed over
/// once, at the first call at which it is there; no memory is shown twice, unless it changed.
///
/// What was shown is kept in the home, so a conversation of the same id goes on after a restart.
///
/// ```
/// # async fn example(memories: lukasa::Memories) -> Result<(), lukasa::Error> {
/// use lukasa::Turn;
///
/// let conversation = memories.conversation("talk-1").await?;
/// let context = conversation.context().await?; // goes before everything else
/// if let Some(recall) = conversation.prompt("how are the tests run?") {
///     println!("{}", recall.block); // goes beside the prompt
/// }
/// // ... the model called a tool, which has answered:
/// if let Some(recall) = conversation.tool_result() {
///     println!("{}", recall.block); // goes behind the result
/// }
/// conversation.turn_ended(Turn::new().assistant("With `cargo nextest run`."));
/// conversation.close().await?;
/// # Ok(())
/// # }
/// ```
pub struct Conversation {
    memories: Memories,
    inner: Arc<engine::Conversation>,
    /// Ends what is looked for, for the last prompt, when it is replaced.
    turn: Mutex<Option<DropGuard>>,
}

/// What was said in a turn that has ended. It is kept only where conversations are
/// [reviewed](crate::Builder::review_every), without secrets, until its review has ended.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Turn(TurnReport);

impl Turn {
    /// Returns a turn in which nothing was said but the prompt.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds what the person said, beside the prompt.
    pub fn person(mut self, text: &str) -> Self {
        self.0.messages.push((MessageRole::User, text.to_owned()));
        self
    }

    /// Adds what the model said.
    pub fn assistant(mut self, text: &str) -> Self {
        self.0.messages.push((MessageRole::Assistant, text.to_owned()));
        self
    }

    /// Notes that the model wrote memories by itself in this turn, so that it needs no review.
    pub fn wrote_memory(mut self) -> Self {
        self.0.wrote_memory = true;
        self
    }
}

impl Memories {
    /// Begins a conversation, or goes on with the one of this id. An id is 1 to 128 letters, digits, `.`, `_`,
    /// `:` or `-`.
    pub async fn conversation(&self, id: &str) -> Result<Conversation> {
        let _call = self.begin()?;
        let id: ConversationId = id.parse()?;
        let serving = &self.lukasa.0.services;
        // Its lane has to be known for its turns to be reviewed.
        serving.lanes.register(&self.workspace);
        let opened = serving.conversations.open(&id, &self.workspace.id, &self.inner).await?;
        Ok(Conversation {
            memories: self.clone(),
            inner: opened.conversation,
            turn: Mutex::default(),
        })
    }
}

impl Conversation {
    /// Returns its id.
    pub fn id(&self) -> &str {
        self.inner.id().as_str()
    }

    /// Returns what the model begins with; see [`Memories::context`]. The bytes stay the same until
    /// [`compacted`](Self::compacted), whatever is written meanwhile.
    pub async fn context(&self) -> Result<ModelContext> {
        let _call = self.memories.begin()?;
        let files = self.memories.context_files();
        let begun = self.inner.context(&files).await?;
        Ok(ModelContext { text: begun.segment.text().to_owned(), tokens: begun.segment.tokens() })
    }

    /// Returns what changed in the memories since the model was told which there are, as a short text for the
    /// end of the conversation; `None` if nothing did.
    pub async fn changes(&self) -> Result<Option<String>> {
        let _call = self.memories.begin()?;
        Ok(self.inner.scan_changes().await.map(|part| part.text))
    }

    /// Tells that a person asked something, and begins to look for what fits it. Returns what is found already,
    /// to be shown beside the prompt.
    pub fn prompt(&self, text: &str) -> Option<Recall> {
        let _call = self.memories.begin().ok()?;
        let cancelled = CancellationToken::new();
        let recalled = self.inner.prompt(text, None, &cancelled);
        *self.turn.lock() = Some(cancelled.drop_guard());
        recalled.map(Recall::from)
    }

    /// Tells that a tool has answered. Returns what was found since, to be shown behind its result; never
    /// waits.
    pub fn tool_result(&self) -> Option<Recall> {
        let _call = self.memories.begin().ok()?;
        self.inner.tool_result(None).map(Recall::from)
    }

    /// Tells that the model has answered, and that nothing more is shown for its prompt. Returns how many turns
    /// there were.
    pub fn turn_ended(&self, turn: Turn) -> u64 {
        let Turn(told) = turn;
        let turns = self.inner.turn_ended_with_report(None, &told);
        self.cancel();
        turns
    }

    /// Stops looking for what fits the last prompt: the person interrupted the turn.
    pub fn cancel(&self) {
        self.inner.reset();
        self.turn.lock().take();
    }

    /// Tells that the host compacted what the model knows. The next [`context`](Self::context) is gathered
    /// again; memories that were shown are not shown again.
    pub fn compacted(&self) {
        self.inner.compacted(None);
    }

    /// Ends the conversation for now, and waits until all is kept that was shown.
    pub async fn close(self) -> Result<()> {
        let _call = self.memories.begin()?;
        self.memories.lukasa.0.services.conversations.close(self.inner.id()).await;
        Ok(())
    }
}

impl fmt::Debug for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversation").field("id", &self.id()).finish_non_exhaustive()
    }
}
