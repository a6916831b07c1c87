//! Proposals: changes that wait for a person, and what the person decides.

use super::call::ApiCall;
use super::{Client, ClientError};
use crate::pending::{Decisions, PendingPage, PendingProposal, ProposalIds};

/// Which proposals to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingQuery {
    /// What the page before ended with: [`PendingPage::next_cursor`].
    pub cursor: Option<String>,
    /// At most so many on a page.
    pub max: Option<usize>,
}

impl Client {
    /// Lists the proposals that wait, the oldest first, one page of them.
    pub async fn pending(&self, query: &PendingQuery) -> Result<PendingPage, ClientError> {
        let call = ApiCall::get("/v1/pending")
            .query("cursor", query.cursor.as_deref())
            .query("max", query.max);
        self.value(self.workspace_call(call)).await
    }

    /// Shows a proposal that waits, with what it would do to each memory now.
    ///
    /// # Errors
    ///
    /// [`ClientError::Conflict`] when it was accepted or rejected already.
    pub async fn proposal(&self, id: i64) -> Result<PendingProposal, ClientError> {
        self.value(self.workspace_call(ApiCall::get(&format!("/v1/pending/{id}")))).await
    }

    /// Accepts proposals, each on its own: the answer says which were accepted, and why the others were not.
    pub async fn accept(&self, ids: &[i64]) -> Result<Decisions, ClientError> {
        self.decide("/v1/pending/accept", ids).await
    }

    /// Rejects proposals, each on its own: the same are not made again.
    pub async fn reject(&self, ids: &[i64]) -> Result<Decisions, ClientError> {
        self.decide("/v1/pending/reject", ids).await
    }

    async fn decide(&self, path: &str, ids: &[i64]) -> Result<Decisions, ClientError> {
        let call = ApiCall::post(path).json(&ProposalIds { ids: ids.to_vec() })?;
        self.value(self.workspace_call(call)).await
    }
}
