//! Conversion of proposals and their decisions to the wire.

use engine::StoreError;
use memory::proposal::EntryChange;
use protocol::pending;

use super::{diff, time};

/// Converts a waiting proposal.
pub(crate) fn proposal(waiting: engine::PendingProposal) -> pending::PendingProposal {
    let engine::PendingProposal { id, made_at, origin, task, proposal, stale, diffs } = waiting;
    let entry = |change: EntryChange| pending::ProposedEntry {
        path: change.path.to_string(),
        old: change.old,
        new: change.new,
    };
    pending::PendingProposal {
        id: id.0,
        kind: proposal.kind.to_string(),
        reason: proposal.reason,
        score: proposal.score.into(),
        origin,
        task,
        made_at: time(made_at),
        stale,
        changes: proposal.changes.into_iter().map(entry).collect(),
        review: proposal.review.map(|review| pending::ReviewItem {
            path: review.path.to_string(),
            revision: review.revision.to_string(),
        }),
        diffs: diffs.into_iter().map(diff).collect(),
    }
}

/// Converts the decisions of proposals. A fault has only the meaning of its code, because its causes name local
/// folders; the log gets the whole chain.
pub(crate) fn decisions(decisions: &[engine::ProposalDecision]) -> pending::Decisions {
    let decision = |decision: &engine::ProposalDecision| {
        let error = decision.outcome.as_ref().err();
        pending::Decision {
            id: decision.id.0,
            done: error.is_none(),
            change: decision.outcome.as_ref().ok().copied().flatten().map(|change| change.0),
            code: error.map(|error| error.code().as_ref().to_owned()),
            error: error.map(message),
        }
    };
    pending::Decisions { decisions: decisions.iter().map(decision).collect() }
}

fn message(error: &engine::DecisionError) -> String {
    match error {
        engine::DecisionError::Store(
            fault @ (StoreError::Backend { .. } | StoreError::State(_)),
        ) => {
            tracing::error!(code = %fault.code(), error = crate::error_chain(fault), "operation failed");
            fault.code().meaning().to_owned()
        }
        refusal => refusal.to_string(),
    }
}
