//! [`Conversations`]: the open conversations of a process, and access to stored ones.
//!
//! Open conversations are cached. An evicted or closed one resumes from its record in the state. An
//! id belongs to one workspace: opening it in another is an error.

use std::sync::Arc;

use memory::cache::Cache;
use memory::clock::Clock;
use memory::context_file::ImportStyle;
use memory::limits::{CONVERSATIONS_OPEN_MAX, START_TOKENS_DEFAULT};
use parking_lot::Mutex;
use state::{StateError, TaskStore};
use store::Memories;
use tokio_util::sync::CancellationToken;

use super::record::{ConversationId, PersistedConversation};
use super::review_backlog::PendingObservations;
use super::writer::{ConversationWriter, ReviewMode};
use super::{Conversation, ConversationState, StartSettings};
use crate::retriever::Retriever;

/// The open conversations of this process; stored ones are resumed on demand.
#[derive(Debug)]
pub struct Conversations {
    tasks: Arc<dyn TaskStore>,
    retriever: Arc<dyn Retriever>,
    writer: Arc<ConversationWriter>,
    clock: Arc<dyn Clock>,
    start: StartSettings,
    /// Open conversations. An evicted one resumes from the state; only the recall under way is
    /// lost.
    open: Mutex<Cache<ConversationId, Arc<Conversation>, CONVERSATIONS_OPEN_MAX>>,
}

/// The reason why a conversation cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ConversationError {
    /// The id belongs to another workspace.
    #[error("a conversation with this id exists in another workspace; use another id")]
    OtherWorkspace,
    /// The state cannot be read.
    #[error("the conversation cannot be read from the state")]
    State(#[from] StateError),
}

/// A conversation that was started or resumed.
#[derive(Clone, Debug)]
pub struct OpenedConversation {
    /// The opened conversation.
    pub conversation: Arc<Conversation>,
    /// Whether it existed before.
    pub resumed: bool,
}

impl Conversations {
    /// Returns the conversations stored in `tasks`, which retrieve memories with `retriever`.
    /// Reviews, if any, are left to another process.
    pub fn new(
        tasks: Arc<dyn TaskStore>,
        retriever: Arc<dyn Retriever>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self::with_review_mode(tasks, retriever, clock, ReviewMode::OtherProcess)
    }

    /// Returns the same conversations with a review mode.
    pub(crate) fn with_review_mode(
        tasks: Arc<dyn TaskStore>,
        retriever: Arc<dyn Retriever>,
        clock: Arc<dyn Clock>,
        review_mode: ReviewMode,
    ) -> Self {
        let writer =
            Arc::new(ConversationWriter::new(Arc::clone(&tasks), Arc::clone(&clock), review_mode));
        let start =
            StartSettings { imports: ImportStyle::default(), tokens_max: START_TOKENS_DEFAULT };
        Self { tasks, retriever, writer, clock, start, open: Mutex::default() }
    }

    /// Returns the same conversations with these settings of their contexts.
    #[must_use]
    pub(crate) fn with_start(self, start: StartSettings) -> Self {
        Self { start, ..self }
    }

    /// Starts a conversation in a workspace, or resumes the one with this id, with the access of
    /// `memories`.
    pub async fn open(
        &self,
        id: &ConversationId,
        workspace: &str,
        memories: &Memories,
    ) -> Result<OpenedConversation, ConversationError> {
        if let Some(conversation) = self.get_open(id) {
            return check_workspace(conversation, workspace);
        }
        let row = self.tasks.conversation(id.as_str()).await?;
        if row.as_ref().is_some_and(|row| row.workspace != workspace) {
            return Err(ConversationError::OtherWorkspace);
        }
        let stored = row.as_ref().and_then(PersistedConversation::from_row);
        let resumed = stored.is_some();
        let new = Arc::new(Conversation {
            id: id.clone(),
            workspace: workspace.to_owned(),
            memories: memories.clone(),
            retriever: Arc::clone(&self.retriever),
            writer: Arc::clone(&self.writer),
            tasks: Arc::clone(&self.tasks),
            clock: Arc::clone(&self.clock),
            start: self.start,
            state: Mutex::new(ConversationState {
                persisted: stored.unwrap_or_else(PersistedConversation::default),
                prefetch: None,
                prompt: None,
                cancelled: CancellationToken::new(),
                segment_record: None,
                change_scan: None,
            }),
            pending: PendingObservations::default(),
        });
        let conversation = {
            let mut open = self.open.lock();
            // Another caller may have opened it in the meantime.
            let known = open.get(id).map(Arc::clone);
            known.unwrap_or_else(|| {
                open.insert(id.clone(), Arc::clone(&new));
                new
            })
        };
        if !resumed {
            conversation.persist(&conversation.state.lock());
        }
        Ok(OpenedConversation { resumed, ..check_workspace(conversation, workspace)? })
    }

    /// Returns a conversation that is open in this process; [`open`](Self::open) also resumes
    /// stored ones.
    pub fn get_open(&self, id: &ConversationId) -> Option<Arc<Conversation>> {
        self.open.lock().get(id).map(Arc::clone)
    }

    /// Returns the id of the workspace of a conversation, open or stored.
    pub async fn workspace_of(&self, id: &ConversationId) -> Result<Option<String>, StateError> {
        if let Some(conversation) = self.get_open(id) {
            return Ok(Some(conversation.workspace.clone()));
        }
        Ok(self.tasks.conversation(id.as_str()).await?.map(|row| row.workspace))
    }

    /// Closes a conversation: drops its recall and requests a review of its end. Its record stays,
    /// so that it can be resumed. Returns whether it was open.
    pub async fn close(&self, id: &ConversationId) -> bool {
        let open = self.open.lock().remove(id);
        if let Some(conversation) = &open {
            conversation.reset();
            conversation.ended();
        }
        self.flush().await;
        open.is_some()
    }

    /// Waits until everything shown so far is written.
    pub async fn flush(&self) {
        self.writer.flush().await;
    }
}

fn check_workspace(
    conversation: Arc<Conversation>,
    workspace: &str,
) -> Result<OpenedConversation, ConversationError> {
    if conversation.workspace == workspace {
        Ok(OpenedConversation { conversation, resumed: true })
    } else {
        Err(ConversationError::OtherWorkspace)
    }
}
