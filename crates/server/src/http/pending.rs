//! Proposals: what waits for a person, and what the person decides.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use engine::{CallContext, DecisionError};
use memory::proposal::ProposalId;
use protocol::error::ErrorBody;
use protocol::pending::{Decisions, PendingPage, PendingProposal, ProposalIds};
use serde::Deserialize;
use utoipa::IntoParams;

use super::app_state::{PersonRequest, PersonRequestWithBody, SharedState};
use super::request::{Path, WorkspaceQuery, page_start};
use super::routes::{Routes, routes};
use crate::error::{ErrorResponse, wire_code};
use crate::limits::{HTTP_PAGE_DEFAULT, HTTP_PAGE_MAX};
use crate::to_wire;

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list: MEMORY))
        .routes(routes!(show: MEMORY))
        .routes(routes!(accept: MEMORY))
        .routes(routes!(reject: MEMORY))
}

/// Which proposals to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ProposalListParams {
    /// What the page before ended with.
    cursor: Option<String>,
    /// At most so many on a page.
    max: Option<usize>,
}

/// List the proposals that wait for a person, the oldest first.
///
/// A proposal is listed where all memories that it names are.
#[utoipa::path(
    get,
    path = "/v1/pending",
    operation_id = "list_pending",
    tag = "pending",
    params(WorkspaceQuery, ProposalListParams),
    responses(
        (status = 200, description = "A page of them", body = PendingPage),
        (status = "4XX", description = "They cannot be listed", body = ErrorBody),
        (status = "5XX", description = "They cannot be listed", body = ErrorBody),
    ),
)]
async fn list(
    State(daemon): State<SharedState>,
    PersonRequest { memories, query: wanted }: PersonRequest<ProposalListParams>,
) -> Result<Json<PendingPage>, ErrorResponse> {
    let after = page_start(wanted.cursor.as_deref())?.map(ProposalId);
    let max = wanted.max.unwrap_or(HTTP_PAGE_DEFAULT).clamp(1, HTTP_PAGE_MAX);
    let pending = daemon.engine.proposal_queue();
    let page = pending.list(&memories, after, max).await?;
    Ok(Json(PendingPage {
        next_cursor: page.next.map(|id| id.to_string()),
        waiting: pending.count(&memories).await?,
        proposals: page.proposals.into_iter().map(to_wire::proposal).collect(),
    }))
}

/// Show a proposal that waits, with what it would do to each memory now.
#[utoipa::path(
    get,
    path = "/v1/pending/{id}",
    operation_id = "show_pending",
    tag = "pending",
    params(("id" = i64, Path, description = "Its number"), WorkspaceQuery),
    responses(
        (status = 200, description = "The proposal", body = PendingProposal),
        (status = "4XX", description = "It cannot be shown", body = ErrorBody),
        (status = "5XX", description = "It cannot be shown", body = ErrorBody),
    ),
)]
async fn show(
    State(daemon): State<SharedState>,
    Path(id): Path<String>,
    PersonRequest { memories, .. }: PersonRequest,
) -> Result<Json<PendingProposal>, ErrorResponse> {
    let id = id
        .parse()
        .map_err(|_| ErrorResponse::invalid_arguments("a proposal is named by its number"))?;
    let shown = daemon.engine.proposal_queue().get(&memories, ProposalId(id)).await?;
    Ok(Json(to_wire::proposal(shown)))
}

/// Make the changes that are proposed, each on its own.
///
/// Each is a change of its own, made to the memories as they are now; an undo takes it back. One that is stale, was
/// decided before, or may not be made stays as it is; the answer says which and why.
#[utoipa::path(
    post,
    path = "/v1/pending/accept",
    operation_id = "accept_pending",
    tag = "pending",
    params(WorkspaceQuery),
    request_body = ProposalIds,
    responses(
        (status = 200, description = "What became of each", body = Decisions),
        (status = "4XX", description = "Nothing was decided", body = ErrorBody),
        (status = "5XX", description = "Nothing was decided", body = ErrorBody),
    ),
)]
async fn accept(
    State(daemon): State<SharedState>,
    PersonRequestWithBody { memories, body, .. }: PersonRequestWithBody<ProposalIds>,
) -> Result<Json<Decisions>, ErrorResponse> {
    let ids = parse_ids(body)?;
    let decisions =
        daemon.engine.proposal_queue().accept(&memories, &ids, &CallContext::default()).await;
    Ok(Json(to_wire::decisions(&decisions)))
}

/// Say no to changes that are proposed, each on its own.
///
/// The same change of the same entries is not proposed again.
#[utoipa::path(
    post,
    path = "/v1/pending/reject",
    operation_id = "reject_pending",
    tag = "pending",
    params(WorkspaceQuery),
    request_body = ProposalIds,
    responses(
        (status = 200, description = "What became of each", body = Decisions),
        (status = "4XX", description = "Nothing was decided", body = ErrorBody),
        (status = "5XX", description = "Nothing was decided", body = ErrorBody),
    ),
)]
async fn reject(
    State(daemon): State<SharedState>,
    PersonRequestWithBody { memories, body, .. }: PersonRequestWithBody<ProposalIds>,
) -> Result<Json<Decisions>, ErrorResponse> {
    let ids = parse_ids(body)?;
    let decisions = daemon.engine.proposal_queue().reject(&memories, &ids).await;
    Ok(Json(to_wire::decisions(&decisions)))
}

/// Returns the proposals that are decided, unless there are too many.
fn parse_ids(ProposalIds { ids }: ProposalIds) -> Result<Vec<ProposalId>, ErrorResponse> {
    if ids.len() > HTTP_PAGE_MAX {
        let count = ids.len();
        return Err(ErrorResponse::invalid_arguments(format!(
            "{count} ids; {HTTP_PAGE_MAX} at most are decided at once"
        )));
    }
    Ok(ids.into_iter().map(ProposalId).collect())
}

impl From<DecisionError> for ErrorResponse {
    fn from(error: DecisionError) -> Self {
        match error {
            DecisionError::Store(error) => error.into(),
            DecisionError::NotFound(_) => {
                Self::from(wire_code(error.code())).with_message(error.to_string())
            }
            // The request named no precondition that could have failed.
            DecisionError::Decided { .. } | DecisionError::Stale { .. } => {
                Self::from(wire_code(error.code()))
                    .with_status(StatusCode::CONFLICT)
                    .with_message(error.to_string())
            }
        }
    }
}
