//! Several memories at once, as one change that one undo takes back; and what one was before.

use axum::Json;
use engine::{CallContext, Memories};
use memory::change::{ChangeKind, unified_diff};
use memory::command::{CommandError, MemoryCommand, Reply};
use memory::document::Revision;
use protocol::error::{ErrorBody, ErrorCode};
use protocol::memories::{BatchRequest, BatchResponse, BatchStep, RevisionText};
use serde::Deserialize;
use utoipa::IntoParams;

use super::app_state::{PersonRequest, PersonRequestWithBody};
use super::request::{Path, WorkspaceQuery, memory_path};
use super::routes::{Routes, routes};
use crate::error::ErrorResponse;
use crate::limits::HTTP_BATCH_MAX;

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(batch: MEMORY)).routes(routes!(revision: MEMORY))
}

/// Delete or move several memories, all of them or none, as one change.
#[utoipa::path(
    post,
    path = "/v1/batch",
    tag = "memories",
    params(WorkspaceQuery),
    request_body = BatchRequest,
    responses(
        (status = 200, description = "All is done", body = BatchResponse),
        (status = "4XX", description = "Nothing is done", body = ErrorBody),
        (status = "5XX", description = "Nothing is done", body = ErrorBody),
    ),
)]
async fn batch(
    PersonRequestWithBody { memories, body: BatchRequest { steps }, .. }: PersonRequestWithBody<
        BatchRequest,
    >,
) -> Result<Json<BatchResponse>, ErrorResponse> {
    if steps.len() > HTTP_BATCH_MAX {
        let what = format!(
            "there are {} steps, and at most {HTTP_BATCH_MAX} are done at once",
            steps.len()
        );
        return Err(ErrorResponse::from(ErrorCode::InvalidArguments).with_message(what));
    }
    let mut draft = memories.draft(ChangeKind::Draft, CallContext::default());
    for step in steps {
        let command = command(&memories, step).await?;
        if let Reply::Refused(refusal) = draft.apply(command).await? {
            return Err(refusal.into());
        }
    }
    Ok(Json(BatchResponse { change: draft.commit().await?.map(|id| id.0) }))
}

/// Returns the command of a step, if what it is about is as its caller saw it.
async fn command(memories: &Memories, step: BatchStep) -> Result<MemoryCommand, ErrorResponse> {
    match step {
        BatchStep::Delete { path, revision } => {
            let path = memory_path(memories, &path)?;
            let wanted = revision.map(|text| text.parse::<Revision>()).transpose();
            let wanted = wanted.map_err(|_| {
                ErrorResponse::from(ErrorCode::InvalidArguments)
                    .with_message("a revision is 64 hex digits".to_owned())
            })?;
            if let Some(wanted) = wanted {
                let now = memories.read(&path).await?.revision;
                if now != wanted {
                    return Err(CommandError::Conflict { path, current: Some(now) }.into());
                }
            }
            Ok(MemoryCommand::Delete { path })
        }
        BatchStep::Move { from, to } => Ok(MemoryCommand::Rename {
            old_path: memory_path(memories, &from)?,
            new_path: memory_path(memories, &to)?,
        }),
    }
}

/// Which other revision to compare with.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct RevisionParams {
    /// An earlier revision: how the text differs from it is told too.
    against: Option<String>,
}

/// Read what a memory said at a revision, and how that differs from another one, as long as history keeps them.
///
/// Only of memories that this workspace has or had.
#[utoipa::path(
    get,
    path = "/v1/revisions/{revision}",
    tag = "history",
    params(("revision" = String, Path, description = "64 hex digits"), WorkspaceQuery, RevisionParams),
    responses(
        (status = 200, description = "The text", body = RevisionText),
        (status = "4XX", description = "It is not kept, or never was one of these memories", body = ErrorBody),
        (status = "5XX", description = "The machine failed", body = ErrorBody),
    ),
)]
async fn revision(
    Path(wanted): Path<String>,
    PersonRequest { memories, query: RevisionParams { against } }: PersonRequest<RevisionParams>,
) -> Result<Json<RevisionText>, ErrorResponse> {
    let not_kept = || {
        ErrorResponse::from(ErrorCode::NotFound)
            .with_message("history keeps no such revision of these memories".to_owned())
    };
    let text_of = async |wanted: &str| {
        let revision: Revision = wanted.parse().map_err(|_| not_kept())?;
        let bytes = memories.content(&revision).await?.ok_or_else(not_kept)?;
        Ok::<_, ErrorResponse>((revision, String::from_utf8_lossy(&bytes).into_owned()))
    };
    let (revision, text) = text_of(&wanted).await?;
    let diff = match against {
        Some(against) => {
            let (other, before) = text_of(&against).await?;
            Some(unified_diff((&other.to_string(), &before), (&revision.to_string(), &text)))
        }
        None => None,
    };
    Ok(Json(RevisionText { revision: revision.to_string(), text, diff }))
}
