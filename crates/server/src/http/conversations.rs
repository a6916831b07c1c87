//! Conversations: a host says what happens, and is answered at once with what there is to show.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use engine::{
    BadConversationId, ContextPart, ConversationError, ConversationId, Memories,
    OpenedConversation, RecallBlock, Segment, SegmentRequest, TurnReport, Workspace,
};
use protocol::conversation::{
    ChangedMemories, CompactionRequest, ContextUpdate, Conversation, EndTurnRequest,
    OpenConversation, PromptRequest, RecalledBlock, RecalledMemory, SegmentContext, SegmentPart,
    ToolResultRequest,
};
use protocol::error::{ErrorBody, ErrorCode};
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
        .routes(routes!(open: MEMORY))
        .routes(routes!(prompt: MEMORY))
        .routes(routes!(tool_result: MEMORY))
        .routes(routes!(turn: MEMORY))
        .routes(routes!(compaction: MEMORY))
        .routes(routes!(reset: MEMORY))
        .routes(routes!(close: MEMORY))
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

    /// Sees to it, beside the answer, that prompts are answered at once: memories are looked at, and what
    /// changes in them is heard of.
    fn warm_up(&self, workspace: &str, memories: &Memories) {
        let (feeds, recaller) =
            (Arc::clone(&self.serving.feeds), Arc::clone(&self.serving.recaller));
        let (workspace, memories) = (workspace.to_owned(), memories.clone());
        tokio::spawn(async move {
            feeds.ensure_watching(&workspace).await;
            if let Err(error) = recaller.prepare(&memories).await {
                tracing::warn!(%error, "memories cannot be looked at ahead");
            }
        });
    }

    /// Answers how a conversation is, with what its segment begins with where that is wanted.
    async fn answer(
        &self,
        conversation: &engine::Conversation,
        state: Conversation,
        (wanted, headers): (&OpenConversation, &HeaderMap),
    ) -> Result<Json<Conversation>, ErrorResponse> {
        if !wanted.context {
            return Ok(Json(state));
        }
        let workspace = self.trusted_workspace(Some(conversation.workspace()))?;
        let client = self.client_id(workspace, headers).await?;
        let files = self.context_files(workspace, headers, client.as_ref());
        let loaded: Vec<&str> = wanted.context_files_loaded.iter().map(String::as_str).collect();
        let files = files.without_host_loaded(&loaded);
        let files = match &wanted.context_options {
            Some(asked) => with_options(files, asked)?,
            None => files,
        };
        let bytes_max = wanted.context_bytes_max.unwrap_or(usize::MAX);
        let beginning = SegmentRequest { bytes_max, starts_new: wanted.anew };
        let (begun, changes) = conversation.begin(&files, beginning).await?;
        Ok(Json(Conversation {
            context: Some(context_to_wire(&begun.segment)),
            context_repeated: begun.is_repeated,
            changes: changes.map(changes_to_wire),
            ..state
        }))
    }

    /// Returns the conversation of this id; one that went on before this daemon is taken up again.
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
        let workspace = self.trusted_workspace(Some(&workspace))?;
        Ok(self.open(workspace, &id, headers).await?.conversation)
    }
}

/// Open a conversation, or go on with one.
///
/// From then on the host says what happens in it, and shows its model what it is answered with. No answer
/// waits for a search: what fits a prompt is looked for beside the turn, and handed over once, with the prompt
/// or with the first tool result at which it is there.
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
        (status = 200, description = "It is open", body = Conversation),
        (status = "4XX", description = "It is not", body = ErrorBody),
        (status = "5XX", description = "It is not", body = ErrorBody),
    ),
)]
async fn open(
    State(daemon): State<SharedState>,
    request: Request,
) -> Result<Json<Conversation>, ErrorResponse> {
    let headers = request.headers().clone();
    let wanted: OpenConversation = body::value(request).await?;
    let workspace = match (&wanted.workspace_id, &wanted.cwd) {
        (None, Some(cwd)) => {
            daemon.trusted_workspace(Some(&daemon.workspace_of_folder(cwd)?.id))?
        }
        (named, _) => daemon.trusted_workspace(named.as_deref())?,
    };
    let id = match &wanted.session_id {
        Some(id) => id.parse().map_err(|error| invalid_id_error(&error))?,
        None => ConversationId::random(),
    };
    let OpenedConversation { conversation, resumed } =
        daemon.open(workspace, &id, &headers).await?;
    let state = Conversation { resumed, ..state_to_wire(&conversation) };
    daemon.answer(&conversation, state, (&wanted, &headers)).await
}

/// Say what a person asked. What fits is looked for; what is there at once is answered.
///
/// With `cancelWithConnection` the prompt is cancelled when the connection of this request ends; else what is
/// looked for goes on until the next prompt, the end of the turn, or a reset.
#[utoipa::path(
    post,
    path = "/v1/sessions/{id}/prompts",
    tag = "conversations",
    params(("id" = String, Path, description = "The id of the conversation")),
    request_body = PromptRequest,
    responses(
        (status = 200, description = "What to show beside the prompt", body = ContextUpdate),
        (status = "4XX", description = "There is no such conversation", body = ErrorBody),
        (status = "5XX", description = "The machine failed", body = ErrorBody),
    ),
)]
async fn prompt(
    State(daemon): State<SharedState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Json<ContextUpdate>, ErrorResponse> {
    let headers = request.headers().clone();
    let visitor = request.extensions().get::<ConnectionState>().cloned();
    let PromptRequest { text, event_id, cancel_with_connection } = body::value(request).await?;
    let conversation = daemon.conversation(&id, &headers).await?;
    let cancelled = match visitor {
        Some(visitor) if cancel_with_connection => visitor.closed().clone(),
        // It goes on after this request: the next prompt, or the end of the turn, ends it.
        _ => CancellationToken::new(),
    };
    let recalled = conversation.prompt(&text, event_id.as_deref(), &cancelled);
    // What was seen until now is told; what changes from here on is seen by the look that begins.
    let changes = conversation.take_changes();
    conversation.start_change_scan();
    Ok(Json(update_to_wire(recalled, changes)))
}

/// Say that tools have answered. What was found since the prompt is answered, once.
#[utoipa::path(
    post,
    path = "/v1/sessions/{id}/tool-results",
    tag = "conversations",
    params(("id" = String, Path, description = "The id of the conversation")),
    request_body = Option<ToolResultRequest>,
    responses(
        (status = 200, description = "What to show behind the results", body = ContextUpdate),
        (status = "4XX", description = "There is no such conversation", body = ErrorBody),
        (status = "5XX", description = "The machine failed", body = ErrorBody),
    ),
)]
async fn tool_result(
    State(daemon): State<SharedState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Json<ContextUpdate>, ErrorResponse> {
    let headers = request.headers().clone();
    let ToolResultRequest { event_id, memory_written } = body::value(request).await?;
    let conversation = daemon.conversation(&id, &headers).await?;
    if memory_written {
        conversation.wrote_memory();
    }
    let recalled = conversation.tool_result(event_id.as_deref());
    Ok(Json(update_to_wire(recalled, conversation.take_changes())))
}

/// Say that a turn has ended. Nothing more is shown for its prompt.
///
/// Where turns are reviewed in the background it is kept durably before this is answered, so that every Nth turn has its
/// review.
#[utoipa::path(
    post,
    path = "/v1/sessions/{id}/turns",
    tag = "conversations",
    params(("id" = String, Path, description = "The id of the conversation")),
    request_body = Option<EndTurnRequest>,
    responses(
        (status = 200, description = "How the conversation is", body = Conversation),
        (status = "4XX", description = "There is no such conversation", body = ErrorBody),
        (status = "5XX", description = "The machine failed", body = ErrorBody),
    ),
)]
async fn turn(
    State(daemon): State<SharedState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Json<Conversation>, ErrorResponse> {
    let headers = request.headers().clone();
    let EndTurnRequest { event_id, messages, memory_written } = body::value(request).await?;
    let conversation = daemon.conversation(&id, &headers).await?;
    let messages = messages.into_iter().map(|one| (one.role.twin(), one.text)).collect();
    let told = TurnReport { messages, wrote_memory: memory_written };
    conversation.turn_ended_with_report(event_id.as_deref(), &told);
    if conversation.is_reviewed() {
        conversation.flush().await;
    }
    Ok(Json(state_to_wire(&conversation)))
}

/// Say that what the model knew was compacted: a new segment begins.
#[utoipa::path(
    post,
    path = "/v1/sessions/{id}/compactions",
    tag = "conversations",
    params(("id" = String, Path, description = "The id of the conversation")),
    request_body = Option<CompactionRequest>,
    responses(
        (status = 200, description = "How the conversation is", body = Conversation),
        (status = "4XX", description = "There is no such conversation", body = ErrorBody),
        (status = "5XX", description = "The machine failed", body = ErrorBody),
    ),
)]
async fn compaction(
    State(daemon): State<SharedState>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Json<Conversation>, ErrorResponse> {
    let headers = request.headers().clone();
    let CompactionRequest { event_id, context } = body::value(request).await?;
    let conversation = daemon.conversation(&id, &headers).await?;
    conversation.compacted(event_id.as_deref());
    let wanted = OpenConversation { context, ..OpenConversation::default() };
    daemon.answer(&conversation, state_to_wire(&conversation), (&wanted, &headers)).await
}

/// Say that the turn was stopped, or that all was cleared. What is looked for is dropped.
#[utoipa::path(
    post,
    path = "/v1/sessions/{id}/resets",
    tag = "conversations",
    params(("id" = String, Path, description = "The id of the conversation")),
    responses(
        (status = 200, description = "How the conversation is", body = Conversation),
        (status = "4XX", description = "There is no such conversation", body = ErrorBody),
        (status = "5XX", description = "The machine failed", body = ErrorBody),
    ),
)]
async fn reset(
    State(daemon): State<SharedState>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Conversation>, ErrorResponse> {
    let conversation = daemon.conversation(&id, &headers).await?;
    conversation.reset();
    Ok(Json(state_to_wire(&conversation)))
}

/// Close a conversation. What it was shown stays known, so that it may go on some day.
#[utoipa::path(
    delete,
    path = "/v1/sessions/{id}",
    tag = "conversations",
    params(("id" = String, Path, description = "The id of the conversation")),
    responses(
        (status = 204, description = "It is closed"),
        (status = "4XX", description = "There is no such conversation", body = ErrorBody),
        (status = "5XX", description = "The machine failed", body = ErrorBody),
    ),
)]
async fn close(
    State(daemon): State<SharedState>,
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
        why: memory.why,
        unreviewed: memory.mark.map(|mark| mark.to_string()),
    });
    RecalledBlock { text: recalled.block, memories: memories.collect() }
}

fn invalid_id_error(error: &BadConversationId) -> ErrorResponse {
    ErrorResponse::from(ErrorCode::InvalidArguments).with_message(error.to_string())
}
