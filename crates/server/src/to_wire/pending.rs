//! Proposals, and what became of them.

use engine::StoreError;
use memory::proposal::EntryChange;
use protocol::pending;

use super::{diff, time};

/// Returns a proposal that waits.
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

/// Returns what became of proposals that were to be decided. What the machine failed at is told by its code alone, for
/// causes name folders; the log gets all of them.
pub(crate) fn decisions(decisions: &[engine::ProposalDecision]) -> pending::Decisions {
    let decision = |decision: &engine::ProposalDecision| {
        let error = decision.outcome.as_ref().err();
        pending::Decision {
            id: decision.id.0,
            done: error.is_none(),
            change: decision.outcome.as_ref().ok().copied().flatten().map(|change| change.0),
            code: error.map(|error| error.code().as_ref().to_owned()),
            error: error.map(sentence),
        }
    };
    pending::Decisions { decisions: decisions.iter().map(decision).collect() }
}

fn sentence(error: &engine::DecisionError) -> String {
    match error {
        engine::DecisionError::Store(
            fault @ (StoreError::Backend { .. } | StoreError::State(_)),
        ) => {
            tracing::error!(code = %fault.code(), error = crate::error_chain(fault), "the machine failed");
            fault.code().meaning().to_owned()
        }
        refused => refused.to_string(),
    }
}
