//! Calls for proposals: list, show, accept and reject.
//!
//! A decision on several proposals succeeds or fails for each one separately.

use super::call::ApiCall;
use super::{Client, ClientError};
use crate::pending::{Decisions, PendingPage, PendingProposal, ProposalIds};

/// A page of proposals to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingQuery {
    /// The [`PendingPage::next_cursor`] of the previous page.
    pub cursor: Option<String>,
    /// The most proposals on a page.
    pub max: Option<usize>,
}

impl Client {
    /// Lists one page of waiting proposals, oldest first.
    pub async fn pending(&self, query: &PendingQuery) -> Result<PendingPage, ClientError> {
        let call = ApiCall::get("/v1/pending")
            .query("cursor", query.cursor.as_deref())
            .query("max", query.max);
        self.value(self.workspace_call(call)).await
    }

    /// Returns a waiting proposal, with its effect on each memory now.
    ///
    /// # Errors
    ///
    /// [`ClientError::Conflict`] if it was already accepted or rejected.
    pub async fn proposal(&self, id: i64) -> Result<PendingProposal, ClientError> {
        self.value(self.workspace_call(ApiCall::get(&format!("/v1/pending/{id}")))).await
    }

    /// Accepts proposals, each on its own: the response has the outcome for each.
    pub async fn accept(&self, ids: &[i64]) -> Result<Decisions, ClientError> {
        self.decide("/v1/pending/accept", ids).await
    }

    /// Rejects proposals, each on its own: the same proposals are not made again.
    pub async fn reject(&self, ids: &[i64]) -> Result<Decisions, ClientError> {
        self.decide("/v1/pending/reject", ids).await
    }

    async fn decide(&self, path: &str, ids: &[i64]) -> Result<Decisions, ClientError> {
        let call = ApiCall::post(path).json(&ProposalIds { ids: ids.to_vec() })?;
        self.value(self.workspace_call(call)).await
    }
}
