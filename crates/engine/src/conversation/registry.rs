//! The conversations of a process.

use std::sync::Arc;

use memory::cache::Cache;
use memory::clock::Clock;
use memory::context_file::ImportStyle;
use memory::limits::CONVERSATIONS_OPEN_MAX;
use parking_lot::Mutex;
use state::{StateError, TaskStore};
use store::Memories;
use tokio_util::sync::CancellationToken;

use super::record::{ConversationId, PersistedConversation};
use super::review_backlog::PendingObservations;
use super::writer::{ConversationWriter, ReviewMode};
use super::{Conversation, ConversationState};
use crate::retriever::Retriever;

/// Conversations, those under way and those that went on before this process.
#[derive(Debug)]
pub struct Conversations {
    tasks: Arc<dyn TaskStore>,
    retriever: Arc<dyn Retriever>,
    writer: Arc<ConversationWriter>,
    clock: Arc<dyn Clock>,
    imports: ImportStyle,
    /// Those under way. One that is evicted goes on from the state, but for what is looked for at that moment.
    open: Mutex<Cache<ConversationId, Arc<Conversation>, CONVERSATIONS_OPEN_MAX>>,
}

/// Why there is no conversation.
#[derive(Debug, thiserror::Error)]
pub enum ConversationError {
    /// It goes on in another workspace.
    #[error("there is a conversation of this id in another workspace")]
    OtherWorkspace,
    /// The state cannot be read.
    #[error("the conversation cannot be looked for")]
    State(#[from] StateError),
}

/// A conversation that was begun, or goes on.
#[derive(Clone, Debug)]
pub struct OpenedConversation {
    /// The conversation.
    pub conversation: Arc<Conversation>,
    /// Whether it was there before.
    pub resumed: bool,
}

impl Conversations {
    /// Returns the conversations that are kept in `tasks`, whose memories are found by `select`. Another process reviews
    /// them, if any.
    pub fn new(
        tasks: Arc<dyn TaskStore>,
        select: Arc<dyn Retriever>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self::with_review_mode(tasks, select, clock, ReviewMode::OtherProcess)
    }

    /// Returns the same conversations, reviewed as is said.
    pub(crate) fn with_review_mode(
        tasks: Arc<dyn TaskStore>,
        select: Arc<dyn Retriever>,
        clock: Arc<dyn Clock>,
        reviewing: ReviewMode,
    ) -> Self {
        let writer =
            Arc::new(ConversationWriter::new(Arc::clone(&tasks), Arc::clone(&clock), reviewing));
        let imports = ImportStyle::default();
        Self { tasks, retriever: select, writer, clock, imports, open: Mutex::default() }
    }

    /// Returns the same conversations with imports of context files shown in this way.
    #[must_use]
    pub(crate) fn with_imports(self, imports: ImportStyle) -> Self {
        Self { imports, ..self }
    }

    /// Begins a conversation in a workspace, or goes on with the one of this id, as the caller of these
    /// memories.
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
        let kept = row.as_ref().and_then(PersistedConversation::from_row);
        let resumed = kept.is_some();
        let new = Arc::new(Conversation {
            id: id.clone(),
            workspace: workspace.to_owned(),
            memories: memories.clone(),
            retriever: Arc::clone(&self.retriever),
            writer: Arc::clone(&self.writer),
            tasks: Arc::clone(&self.tasks),
            clock: Arc::clone(&self.clock),
            imports: self.imports,
            state: Mutex::new(ConversationState {
                persisted: kept.unwrap_or_else(PersistedConversation::default),
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
            // Another caller may have opened it meanwhile.
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

    /// Returns a conversation that is under way; [`open`](Self::open) also finds one of before.
    pub fn get_open(&self, id: &ConversationId) -> Option<Arc<Conversation>> {
        self.open.lock().get(id).map(Arc::clone)
    }

    /// Returns the id of the workspace of a conversation, at hand or not.
    pub async fn workspace_of(&self, id: &ConversationId) -> Result<Option<String>, StateError> {
        if let Some(conversation) = self.get_open(id) {
            return Ok(Some(conversation.workspace.clone()));
        }
        Ok(self.tasks.conversation(id.as_str()).await?.map(|row| row.workspace))
    }

    /// Lets a conversation go: what is looked for is dropped. What it was shown stays known, so that it may go
    /// on some day. Returns whether it was at hand.
    pub async fn close(&self, id: &ConversationId) -> bool {
        let open = self.open.lock().remove(id);
        if let Some(conversation) = &open {
            conversation.reset();
            conversation.ended();
        }
        self.flush().await;
        open.is_some()
    }

    /// Waits until all is kept that was shown until now.
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
