//! Routes of proposals: list those that wait for a person, show one, accept or reject several.
//!
//! Each id of an accept or reject is decided on its own: some may succeed and others fail. The answer has the outcome
//! of each. The rules are those of `engine::ProposalQueue`.

use axum::http::StatusCode;
use axum::{Extension, Json};
use engine::{CallContext, DecisionError};
use memory::proposal::ProposalId;
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
        .add(routes!(list: MEMORY))
        .add(routes!(show: MEMORY))
        .add(routes!(accept: MEMORY))
        .add(routes!(reject: MEMORY))
}

/// The query of a list of proposals.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ProposalListParams {
    /// The `nextCursor` of the previous page.
    cursor: Option<String>,
    /// The most proposals on a page.
    max: Option<usize>,
}

/// List the proposals that wait for a person, oldest first.
///
/// A proposal is listed in each workspace that has all memories that it names.
#[utoipa::path(
    get,
    path = "/v1/pending",
    operation_id = "list_pending",
    tag = "pending",
    params(WorkspaceQuery, ProposalListParams),
    responses(
        (status = 200, description = "A page of proposals", body = PendingPage),
        ErrorResponse,
    ),
)]
async fn list(
    Extension(daemon): Extension<SharedState>,
    PersonRequest { memories, query: params }: PersonRequest<ProposalListParams>,
) -> Result<Json<PendingPage>, ErrorResponse> {
    let after = page_start(params.cursor.as_deref())?.map(ProposalId);
    let max = params.max.unwrap_or(HTTP_PAGE_DEFAULT).clamp(1, HTTP_PAGE_MAX);
    let pending = daemon.engine.proposal_queue();
    let page = pending.list(&memories, after, max).await?;
    Ok(Json(PendingPage {
        next_cursor: page.next.map(|id| id.to_string()),
        waiting: pending.count(&memories).await?,
        proposals: page.proposals.into_iter().map(to_wire::proposal).collect(),
    }))
}

/// Show a waiting proposal, with a diff of each memory as it would be changed now.
#[utoipa::path(
    get,
    path = "/v1/pending/{id}",
    operation_id = "show_pending",
    tag = "pending",
    params(("id" = i64, Path, description = "The number of the proposal"), WorkspaceQuery),
    responses(
        (status = 200, description = "The proposal", body = PendingProposal),
        ErrorResponse,
    ),
)]
async fn show(
    Extension(daemon): Extension<SharedState>,
    Path(id): Path<String>,
    PersonRequest { memories, .. }: PersonRequest,
) -> Result<Json<PendingProposal>, ErrorResponse> {
    let id = id
        .parse()
        .map_err(|_| ErrorResponse::invalid_arguments("a proposal is named by its number"))?;
    let shown = daemon.engine.proposal_queue().get(&memories, ProposalId(id)).await?;
    Ok(Json(to_wire::proposal(shown)))
}

/// Accept proposals.
///
/// Each becomes a change of its own to the memories as they are now, and can be undone. A proposal that is stale,
/// was decided before, or may not be applied stays as it is; the answer has the reason.
#[utoipa::path(
    post,
    path = "/v1/pending/accept",
    operation_id = "accept_pending",
    tag = "pending",
    params(WorkspaceQuery),
    request_body = ProposalIds,
    responses(
        (status = 200, description = "The outcome of each proposal", body = Decisions),
        ErrorResponse,
    ),
)]
async fn accept(
    Extension(daemon): Extension<SharedState>,
    PersonRequestWithBody { memories, body, .. }: PersonRequestWithBody<ProposalIds>,
) -> Result<Json<Decisions>, ErrorResponse> {
    let ids = parse_ids(body)?;
    let decisions =
        daemon.engine.proposal_queue().accept(&memories, &ids, &CallContext::default()).await;
    Ok(Json(to_wire::decisions(&decisions)))
}

/// Reject proposals.
///
/// The same change to the same entries is not proposed again.
#[utoipa::path(
    post,
    path = "/v1/pending/reject",
    operation_id = "reject_pending",
    tag = "pending",
    params(WorkspaceQuery),
    request_body = ProposalIds,
    responses(
        (status = 200, description = "The outcome of each proposal", body = Decisions),
        ErrorResponse,
    ),
)]
async fn reject(
    Extension(daemon): Extension<SharedState>,
    PersonRequestWithBody { memories, body, .. }: PersonRequestWithBody<ProposalIds>,
) -> Result<Json<Decisions>, ErrorResponse> {
    let ids = parse_ids(body)?;
    let decisions = daemon.engine.proposal_queue().reject(&memories, &ids).await;
    Ok(Json(to_wire::decisions(&decisions)))
}

/// Returns the ids of a body, or an error if there are too many.
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
            // 409, not 412 as a conflict has elsewhere: the request named no precondition that could have failed.
            DecisionError::Decided { .. } | DecisionError::Stale { .. } => {
                Self::from(wire_code(error.code()))
                    .with_status(StatusCode::CONFLICT)
                    .with_message(error.to_string())
            }
        }
    }
}
