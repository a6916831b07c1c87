//! Routes of conversations: a host reports prompts, tool results and turns, and gets back context for its model.
//!
//! No answer waits for a search. A prompt starts a recall in the background; its result is returned with that
//! answer if it is ready, else with the next tool result. Segments, recall and reviews are the engine's
//! (`engine::Conversation`); this module translates between them and the wire.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use engine::{
    BadConversationId, ContextPart, ConversationError, ConversationId, Memories,
    OpenedConversation, RecallBlock, Segment, SegmentRequest, TurnReport, Workspace,
};
use protocol::conversation::{
    ChangedMemories, CompactionRequest, ContextUpdate, Conversation, EndTurnRequest,
    OpenConversation, PromptRequest, RecalledBlock, RecalledMemory, SegmentContext, SegmentPart,
    ToolResultRequest,
};
use protocol::error::ErrorCode;
use tokio_util::sync::CancellationToken;

use super::app_state::{AppState, SharedState};
use super::body;
use super::connection_state::ConnectionState;
use super::context_files::with_options;
use super::request::Path;
use super::routes::{Routes, routes};
use crate::error::ErrorResponse;
use crate::to_wire;
use crate::twins::Twin;

pub(super) fn routes() -> Routes {
    Routes::new()
        .add(routes!(open: MEMORY))
        .add(routes!(prompt: MEMORY))
        .add(routes!(tool_result: MEMORY))
        .add(routes!(turn: MEMORY))
        .add(routes!(compaction: MEMORY))
        .add(routes!(reset: MEMORY))
        .add(routes!(close: MEMORY))
}

impl From<ConversationError> for ErrorResponse {
    fn from(error: ConversationError) -> Self {
        match error {
            ConversationError::OtherWorkspace => ErrorCode::WorkspaceMismatch.into(),
            ConversationError::State(error) => error.into(),
        }
    }
}

impl AppState {
    async fn open(
        &self,
        workspace: &Workspace,
        id: &ConversationId,
        headers: &HeaderMap,
    ) -> Result<OpenedConversation, ErrorResponse> {
        let memories = self.agent_memories(Some(&workspace.id), headers).await?;
        let opened = self.serving.conversations.open(id, &workspace.id, &memories).await?;
        self.warm_up(&workspace.id, &memories);
        Ok(opened)
    }

    /// Loads the recall corpus and starts the file watch in the background, so that the first prompt does not wait.
    fn warm_up(&self, workspace: &str, memories: &Memories) {
        let (feeds, recaller) =
            (Arc::clone(&self.serving.feeds), Arc::clone(&self.serving.recaller));
        let (workspace, memories) = (workspace.to_owned(), memories.clone());
        tokio::spawn(async move {
            feeds.ensure_watching(&workspace).await;
            if let Err(error) = recaller.prepare(&memories).await {
                tracing::warn!(%error, "recall warm-up failed");
            }
        });
    }

    /// Returns the state of a conversation, with the context of its segment if the request asks for it.
    async fn answer(
        &self,
        conversation: &engine::Conversation,
        state: Conversation,
        (options, headers): (&OpenConversation, &HeaderMap),
    ) -> Result<Json<Conversation>, ErrorResponse> {
        if !options.context {
            return Ok(Json(state));
        }
        let workspace = self.trusted_workspace(Some(conversation.workspace())).await?;
        let client = self.client_id(&workspace, headers).await?;
        let files = self.context_files(&workspace, headers, client.as_ref());
        let loaded: Vec<&str> = options.context_files_loaded.iter().map(String::as_str).collect();
        let files = files.without_host_loaded(&loaded);
        let files = match &options.context_options {
            Some(load) => with_options(files, load)?,
            None => files,
        };
        let bytes_max = options.context_bytes_max.unwrap_or(usize::MAX);
        let request = SegmentRequest { bytes_max, starts_new: options.anew };
        let (report, changes) = conversation.begin(&files, request).await?;
        Ok(Json(Conversation {
            context: Some(context_to_wire(&report.segment)),
            context_repeated: report.is_repeated,
            changes: changes.map(changes_to_wire),
            ..state
        }))
    }

    /// Returns the conversation with this id. One from before this daemon started is reopened.
    async fn conversation(
        &self,
        id: &str,
        headers: &HeaderMap,
    ) -> Result<Arc<engine::Conversation>, ErrorResponse> {
        let id: ConversationId = id.parse().map_err(|_| ErrorCode::SessionNotFound)?;
        if let Some(conversation) = self.serving.conversations.get_open(&id) {
            return Ok(conversation);
        }
        let workspace = self.serving.conversations.workspace_of(&id).await?;
        let workspace = workspace.ok_or(ErrorCode::SessionNotFound)?;
        let workspace = self.trusted_workspace(Some(&workspace)).await?;
        Ok(self.open(&workspace, &id, headers).await?.conversation)
    }
}

/// Open or resume a conversation.
///
/// The host then reports prompts, tool results and turns, and shows its model the text of each answer. No answer
/// waits for a search. Memories that fit a prompt are returned once: with the prompt, or with the first tool
/// result after they are found.
#[utoipa::path(
    post,
    path = "/v1/sessions",
    tag = "conversations",
    params(
        ("X-Lukasa-Agent-Class" = Option<String>, Header,
            description = "`exec` (when left out), `plan` or `explore`"),
    ),
    request_body = Option<OpenConversation>,
    responses(
        (status = 200, description = "The conversation was opened", body = Conversation),
        ErrorResponse,
    ),
)]
async fn open(
    Extension(daemon): Extension<SharedState>,
    request: Request,
) -> Result<Json<Conversation>, ErrorResponse> {
    let headers = request.headers().clone();
    let options: OpenConversation = body::value(request).await?;
    let workspace = match (&options.workspace_id, &options.cwd) {
        (None, Some(cwd)) => {
            daemon.trusted_workspace(Some(&daemon.workspace_of_folder(cwd)?.id)).await?
        }
        (named, _) => daemon.trusted_workspace(named.as_deref()).await?,
    };
    let id = match &options.session_id {
        Some(id) => id.parse().map_err(|error| invalid_id_error(&error))?,
        None => ConversationId::random(),
    };
    let OpenedConversation { conversation, resumed } =
        daemon.open(&workspace, &id, &headers).await?;
    let state = Conversation { resumed, ..state_to_wire(&conversation) };
    daemon.answer(&conversation, state, (&options, &headers)).await
}

/// Report a prompt. Starts a recall, and returns what is ready.
///
/// With `cancelWithConnection` the recall is cancelled when the connection of this request ends. Otherwise it
/// runs until the next prompt, the end of the turn, or a reset.
#[utoipa::path(
    post,
    path = "/v1/sessions/{id}/prompts",
    tag = "conversations",
    params(("id" = String, Path, description = "The id of the conversation")),
    request_body = PromptRequest,
    responses(
        (status = 200, description = "The context to show with the prompt", body = ContextUpdate),
        ErrorResponse,
    ),
)]
async fn prompt(
    Extension(daemon): Extension<SharedState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Json<ContextUpdate>, ErrorResponse> {
    let headers = request.headers().clone();
    let connection = request.extensions().get::<ConnectionState>().cloned();
    let PromptRequest { text, event_id, cancel_with_connection } = body::value(request).await?;
    let conversation = daemon.conversation(&id, &headers).await?;
    let workspace = daemon.trusted_workspace(Some(conversation.workspace())).await?;
    let files = daemon.context_files(&workspace, &headers, None);
    let cancelled = match connection {
        Some(connection) if cancel_with_connection => connection.closed().clone(),
        // The recall outlives this request: the next prompt or the end of the turn cancels it.
        _ => CancellationToken::new(),
    };
    let recalled = conversation.prompt(&text, event_id.as_deref(), &cancelled);
    // Taken before the scan starts, so that no change is reported twice: the scan covers later ones.
    let changes = conversation.take_changes();
    conversation.start_change_scan(&files);
    Ok(Json(update_to_wire(recalled, changes)))
}

/// Report tool results. Returns the memories found since the prompt, once.
#[utoipa::path(
    post,
    path = "/v1/sessions/{id}/tool-results",
    tag = "conversations",
    params(("id" = String, Path, description = "The id of the conversation")),
    request_body = Option<ToolResultRequest>,
    responses(
        (status = 200, description = "The context to show after the results", body = ContextUpdate),
        ErrorResponse,
    ),
)]
async fn tool_result(
    Extension(daemon): Extension<SharedState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Json<ContextUpdate>, ErrorResponse> {
    let headers = request.headers().clone();
    let ToolResultRequest { event_id, memory_written, memory_command } =
        body::value(request).await?;
    let conversation = daemon.conversation(&id, &headers).await?;
    if memory_written {
        conversation.wrote_memory();
    }
    // Arguments that the tool would refuse changed nothing.
    let layout = conversation.memories().layout();
    if let Some(Ok(command)) = memory_command.map(|call| memory::tool::decode(&call, layout)) {
        let (paths, written) = command.changes();
        conversation.changed_memories(&paths, written).await;
    }
    let recalled = conversation.tool_result(event_id.as_deref());
    Ok(Json(update_to_wire(recalled, conversation.take_changes())))
}

/// Report the end of a turn. Nothing more is shown for its prompt.
///
/// If turns are reviewed in the background, the turn is stored durably before the answer, so that every Nth turn
/// is reviewed even after a crash.
#[utoipa::path(
    post,
    path = "/v1/sessions/{id}/turns",
    tag = "conversations",
    params(("id" = String, Path, description = "The id of the conversation")),
    request_body = Option<EndTurnRequest>,
    responses(
        (status = 200, description = "The state of the conversation", body = Conversation),
        ErrorResponse,
    ),
)]
async fn turn(
    Extension(daemon): Extension<SharedState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Json<Conversation>, ErrorResponse> {
    let headers = request.headers().clone();
    let EndTurnRequest { event_id, messages, memory_written } = body::value(request).await?;
    let conversation = daemon.conversation(&id, &headers).await?;
    let messages =
        messages.into_iter().map(|message| (message.role.twin(), message.text)).collect();
    let report = TurnReport { messages, wrote_memory: memory_written };
    conversation.turn_ended_with_report(event_id.as_deref(), &report);
    if conversation.is_reviewed() {
        conversation.flush().await;
    }
    Ok(Json(state_to_wire(&conversation)))
}

/// Report that the model's context was compacted or cleared. Starts a new segment, in which everything may be shown again.
#[utoipa::path(
    post,
    path = "/v1/sessions/{id}/compactions",
    tag = "conversations",
    params(("id" = String, Path, description = "The id of the conversation")),
    request_body = Option<CompactionRequest>,
    responses(
        (status = 200, description = "The state of the conversation", body = Conversation),
        ErrorResponse,
    ),
)]
async fn compaction(
    Extension(daemon): Extension<SharedState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Json<Conversation>, ErrorResponse> {
    let headers = request.headers().clone();
    let CompactionRequest { event_id, context, upcoming } = body::value(request).await?;
    let conversation = daemon.conversation(&id, &headers).await?;
    if upcoming {
        conversation.compacting();
    } else {
        conversation.compacted(event_id.as_deref());
    }
    let options = OpenConversation { context, ..OpenConversation::default() };
    daemon.answer(&conversation, state_to_wire(&conversation), (&options, &headers)).await
}

/// Report that the turn was stopped. Cancels a pending recall; the model keeps what it was shown.
#[utoipa::path(
    post,
    path = "/v1/sessions/{id}/resets",
    tag = "conversations",
    params(("id" = String, Path, description = "The id of the conversation")),
    responses(
        (status = 200, description = "The state of the conversation", body = Conversation),
        ErrorResponse,
    ),
)]
async fn reset(
    Extension(daemon): Extension<SharedState>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Conversation>, ErrorResponse> {
    let conversation = daemon.conversation(&id, &headers).await?;
    conversation.reset();
    Ok(Json(state_to_wire(&conversation)))
}

/// Close a conversation. What it was shown is kept, so that it can be resumed later.
#[utoipa::path(
    delete,
    path = "/v1/sessions/{id}",
    tag = "conversations",
    params(("id" = String, Path, description = "The id of the conversation")),
    responses(
        (status = 204, description = "The conversation was closed"),
        ErrorResponse,
    ),
)]
async fn close(
    Extension(daemon): Extension<SharedState>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, ErrorResponse> {
    let conversation = daemon.conversation(&id, &headers).await?;
    daemon.serving.conversations.close(conversation.id()).await;
    Ok(StatusCode::NO_CONTENT)
}

fn state_to_wire(conversation: &engine::Conversation) -> Conversation {
    let (turns, segment) = conversation.counts();
    Conversation {
        session_id: conversation.id().to_string(),
        workspace_id: conversation.workspace().to_owned(),
        resumed: true,
        turns,
        segment,
        context: None,
        context_repeated: false,
        changes: None,
    }
}

fn changes_to_wire(part: ContextPart) -> ChangedMemories {
    ChangedMemories { tokens: to_wire::count(part.tokens), text: part.text }
}

pub(super) fn context_to_wire(segment: &Segment) -> SegmentContext {
    let parts = segment.parts().iter().map(|part| SegmentPart {
        part: part.kind.as_ref().to_owned(),
        revision: part.revision.to_string(),
        bytes: to_wire::count(part.text.len()),
        tokens: to_wire::count(part.tokens),
    });
    SegmentContext {
        text: segment.text().to_owned(),
        revision: segment.revision().to_string(),
        tokens: to_wire::count(segment.tokens()),
        parts: parts.collect(),
    }
}

fn update_to_wire(recalled: Option<RecallBlock>, changes: Option<ContextPart>) -> ContextUpdate {
    ContextUpdate {
        recalled: recalled.map(recalled_to_wire),
        changes: changes.map(changes_to_wire),
    }
}

pub(super) fn recalled_to_wire(recalled: RecallBlock) -> RecalledBlock {
    let memories = recalled.memories.into_iter().map(|memory| RecalledMemory {
        path: memory.path.to_string(),
        title: memory.title,
        modified_at: to_wire::time(memory.modified_at),
        saved_at: memory.saved_at.map(to_wire::time),
        score: memory.score,
        weak: memory.is_weak,
        why: memory.why,
        also_in: memory.also_in.iter().map(|other| other.path.to_string()).collect(),
        unreviewed: memory.mark.map(|mark| mark.to_string()),
    });
    RecalledBlock { text: recalled.block, memories: memories.collect() }
}

fn invalid_id_error(error: &BadConversationId) -> ErrorResponse {
    ErrorResponse::from(ErrorCode::InvalidArguments).with_message(error.to_string())
}
