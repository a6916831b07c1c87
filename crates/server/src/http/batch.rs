//! Batches of deletes and moves, and the text of earlier revisions.
//!
//! A batch is one draft: all its steps become one change, which one undo reverts, or none is done. Revisions come
//! from history and are gone when history is pruned.

use axum::Json;
use engine::{CallContext, Memories};
use memory::change::{ChangeKind, unified_diff};
use memory::command::{CommandError, MemoryCommand, Reply};
use memory::document::Revision;
use protocol::error::ErrorCode;
use protocol::memories::{BatchRequest, BatchResponse, BatchStep, RevisionText};
use serde::Deserialize;
use utoipa::IntoParams;

use super::app_state::{PersonRequest, PersonRequestWithBody};
use super::request::{Path, WorkspaceQuery, memory_path};
use super::routes::{Routes, routes};
use crate::error::ErrorResponse;
use crate::limits::HTTP_BATCH_MAX;

pub(super) fn routes() -> Routes {
    Routes::new().add(routes!(batch: MEMORY)).add(routes!(revision: MEMORY))
}

/// Delete or move several memories, all of them or none, as one change.
#[utoipa::path(
    post,
    path = "/v1/batch",
    tag = "memories",
    params(WorkspaceQuery),
    request_body = BatchRequest,
    responses(
        (status = 200, description = "All steps were done", body = BatchResponse),
        ErrorResponse,
    ),
)]
async fn batch(
    PersonRequestWithBody { memories, body: BatchRequest { steps }, .. }: PersonRequestWithBody<
        BatchRequest,
    >,
) -> Result<Json<BatchResponse>, ErrorResponse> {
    if steps.len() > HTTP_BATCH_MAX {
        let message = format!(
            "there are {} steps, and at most {HTTP_BATCH_MAX} are done at once",
            steps.len()
        );
        return Err(ErrorResponse::from(ErrorCode::InvalidArguments).with_message(message));
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

/// Returns the command of a step. A delete with another revision than the current one is a conflict.
async fn command(memories: &Memories, step: BatchStep) -> Result<MemoryCommand, ErrorResponse> {
    match step {
        BatchStep::Delete { path, revision } => {
            let path = memory_path(memories, &path)?;
            let expected = revision.map(|text| text.parse::<Revision>()).transpose();
            let expected = expected.map_err(|_| {
                ErrorResponse::from(ErrorCode::InvalidArguments)
                    .with_message("a revision is 64 hex digits".to_owned())
            })?;
            if let Some(expected) = expected {
                let current = memories.read(&path).await?.revision;
                if current != expected {
                    return Err(CommandError::Conflict { path, current: Some(current) }.into());
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

/// The query of a revision.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct RevisionParams {
    /// An earlier revision to compare with: the answer then has a diff.
    against: Option<String>,
}

/// Read the text of a revision, optionally with a diff against another one.
///
/// Only revisions that history still keeps, of memories that this workspace has or had.
#[utoipa::path(
    get,
    path = "/v1/revisions/{revision}",
    tag = "history",
    params(("revision" = String, Path, description = "64 hex digits"), WorkspaceQuery, RevisionParams),
    responses(
        (status = 200, description = "The text", body = RevisionText),
        ErrorResponse,
    ),
)]
async fn revision(
    Path(name): Path<String>,
    PersonRequest { memories, query: RevisionParams { against } }: PersonRequest<RevisionParams>,
) -> Result<Json<RevisionText>, ErrorResponse> {
    let not_kept = || {
        ErrorResponse::from(ErrorCode::NotFound)
            .with_message("history keeps no such revision of these memories".to_owned())
    };
    let text_of = async |name: &str| {
        let revision: Revision = name.parse().map_err(|_| not_kept())?;
        let bytes = memories.content(&revision).await?.ok_or_else(not_kept)?;
        Ok::<_, ErrorResponse>((revision, String::from_utf8_lossy(&bytes).into_owned()))
    };
    let (revision, text) = text_of(&name).await?;
    let diff = match against {
        Some(against) => {
            let (other, before) = text_of(&against).await?;
            Some(unified_diff((&other.to_string(), &before), (&revision.to_string(), &text)))
        }
        None => None,
    };
    Ok(Json(RevisionText { revision: revision.to_string(), text, diff }))
}
