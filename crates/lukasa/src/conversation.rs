//! Conversations: showing a model the right memories while it talks with a person.
//!
//! A [`Conversation`] remembers what it has shown, and runs recall in the background of a turn. The engine does the
//! work; this module maps its calls to the facade.

use std::fmt;
use std::sync::Arc;

use engine::{ConversationId, MessageRole, TurnReport};
use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::Result;
use crate::memories::{IntoMemoryPath, Memories, ModelContext, Recall};

/// A conversation between a model and a person.
///
/// The caller reports prompts, tool results and ends of turns. Each report returns at once with the memories to show: a
/// turn never waits for a disk or a model. A prompt starts a recall in the background. Its result is returned once, by
/// the first report after it is ready. No fact is shown twice between two compactions.
///
/// Shown memories are recorded in the home, so a conversation continues after a restart under the same id.
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
    /// Cancels the recall of the last prompt when it is replaced.
    turn: Mutex<Option<DropGuard>>,
}

/// The messages of a turn that has ended.
///
/// They are stored only if [background reviews](crate::Builder::review_every) are on. They are stored without secrets,
/// until the background review of the turn has ended.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Turn(TurnReport);

impl Turn {
    /// Returns a turn without messages beside the prompt.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a message of the person, beside the prompt.
    pub fn person(mut self, text: &str) -> Self {
        self.0.messages.push((MessageRole::User, text.to_owned()));
        self
    }

    /// Adds a message of the model.
    pub fn assistant(mut self, text: &str) -> Self {
        self.0.messages.push((MessageRole::Assistant, text.to_owned()));
        self
    }

    /// Marks the turn as one in which the model wrote memories itself, so that it needs no review.
    pub fn wrote_memory(mut self) -> Self {
        self.0.wrote_memory = true;
        self
    }
}

impl Memories {
    /// Begins a conversation, or continues the one with this id. An id has 1 to 128 letters, digits, `.`, `_`, `:` or
    /// `-`.
    pub async fn conversation(&self, id: &str) -> Result<Conversation> {
        let _call = self.begin()?;
        let id: ConversationId = id.parse()?;
        let services = &self.lukasa.0.services;
        // Its turns are reviewed only if the lane is registered.
        services.lanes.register(&self.workspace);
        let opened = services.conversations.open(&id, &self.workspace.id, &self.inner).await?;
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

    /// Returns the text that the model begins with; see [`Memories::context`]. The bytes stay the same until
    /// [`compacted`](Self::compacted), even if memories change.
    pub async fn context(&self) -> Result<ModelContext> {
        let _call = self.memories.begin()?;
        let files = self.memories.context_files();
        let begun = self.inner.context(&files).await?;
        Ok(ModelContext { text: begun.segment.text().to_owned(), tokens: begun.segment.tokens() })
    }

    /// Returns the changes of memories since the model was last shown them, as a short text for the end of the
    /// conversation; `None` if there are none.
    pub async fn changes(&self) -> Result<Option<String>> {
        let _call = self.memories.begin()?;
        let files = self.memories.context_files();
        Ok(self.inner.scan_changes(&files).await.map(|part| part.text))
    }

    /// Reports that the model itself changed or removed the memory at this path, and wrote this text. Then
    /// [`changes`](Self::changes) does not name the change, and recall does not show what the model wrote.
    pub async fn changed_memory(&self, path: impl IntoMemoryPath, written: &str) -> Result<()> {
        let _call = self.memories.begin()?;
        let path = self.memories.path(path)?;
        self.inner.changed_memories(&[path], written).await;
        Ok(())
    }

    /// Reports a prompt of the person, and starts recall for it. Returns the result if there is one already, to be
    /// shown beside the prompt.
    pub fn prompt(&self, text: &str) -> Option<Recall> {
        let _call = self.memories.begin().ok()?;
        let cancelled = CancellationToken::new();
        let recalled = self.inner.prompt(text, None, &cancelled);
        *self.turn.lock() = Some(cancelled.drop_guard());
        recalled.map(Recall::from)
    }

    /// Reports that a tool returned. Returns the memories recalled since, to be shown after the tool's result. Never
    /// waits.
    pub fn tool_result(&self) -> Option<Recall> {
        let _call = self.memories.begin().ok()?;
        self.inner.tool_result(None).map(Recall::from)
    }

    /// Reports that the model answered, which ends recall for the prompt. Returns the number of turns so far.
    pub fn turn_ended(&self, turn: Turn) -> u64 {
        let Turn(report) = turn;
        let turns = self.inner.turn_ended_with_report(None, &report);
        self.cancel();
        turns
    }

    /// Cancels recall for the last prompt, because the person interrupted the turn.
    pub fn cancel(&self) {
        self.inner.reset();
        self.turn.lock().take();
    }

    /// Reports that the agent compacted or cleared the model's context. The next [`context`](Self::context) is gathered
    /// again, and recall may show everything again.
    pub fn compacted(&self) {
        self.inner.compacted(None);
    }

    /// Ends the conversation for now, and waits until the shown memories are recorded.
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
