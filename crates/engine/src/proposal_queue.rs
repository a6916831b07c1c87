//! The queue of proposals: changes that a task suggests and a person decides on.
//!
//! A proposal belongs to the roots of the memories that it names, and is visible only where all of
//! them are mounted. Accepting it applies it to the current texts, in one change that also marks it
//! as accepted. Of two concurrent decisions, one wins.

mod record;

pub(crate) use record::{ProposalSource, StoredProposal, new_rows};

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use agents::rules::{ParsedText, refresh_frontmatter};
use memory::change::{ChangeId, ChangeKind, Provenance, Trust, unified_diff};
use memory::clock::{Clock, Timestamp};
use memory::command::{CommandError, MemoryCommand, Reply};
use memory::document::{Revision, entries};
use memory::error_code::MemoryErrorCode;
use memory::limits::{PROPOSAL_ATTEMPTS_MAX, PROPOSALS_WAITING_MAX};
use memory::path::MemoryPath;
use memory::proposal::{Proposal, ProposalId, ProposalStatus, ReviewTarget};
use state::{
    Announcement, NewProposal, ProposalQuery, ProposalRow, ProposalStatusEvent, StateError,
    TaskStore,
};
use store::{CallContext, Draft, FileDiff, Memories, PendingReview, Store, StoreError};

/// A waiting proposal, with a preview of accepting it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingProposal {
    /// Number of the proposal.
    pub id: ProposalId,
    /// Time at which it was made.
    pub made_at: Timestamp,
    /// The kind of work that made it: `remember`, `dream`, `review`, ….
    pub origin: String,
    /// The task that made it, if any.
    pub task: Option<String>,
    /// The proposal.
    pub proposal: Proposal,
    /// The reason why it cannot be accepted now, as a sentence.
    pub stale: Option<String>,
    /// The changes that it would make to each memory; empty if it is stale.
    pub diffs: Vec<FileDiff>,
}

/// A page of proposals, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingPage {
    /// The proposals.
    pub proposals: Vec<PendingProposal>,
    /// Number of the proposal behind which the next page starts; `None` on the last page.
    pub next: Option<ProposalId>,
}

/// A decision about one proposal.
#[derive(Debug)]
pub struct ProposalDecision {
    /// The proposal.
    pub id: ProposalId,
    /// The change made by accepting it, or the reason why nothing was decided. A rejection makes no
    /// change.
    pub outcome: Result<Option<ChangeId>, DecisionError>,
}

/// The reason why a proposal was not decided.
#[derive(Debug, thiserror::Error)]
pub enum DecisionError {
    /// No proposal with this number is visible with these memories.
    #[error("there is no proposal {0} for these memories")]
    NotFound(ProposalId),
    /// Another decision came first.
    #[error("the proposal {id} was {status} already")]
    Decided {
        /// The proposal.
        id: ProposalId,
        /// The earlier decision.
        status: ProposalStatus,
    },
    /// The memories have changed since it was made.
    #[error("the proposal {id} is stale: {why}")]
    Stale {
        /// The proposal.
        id: ProposalId,
        /// The reason why it no longer applies.
        why: String,
    },
    /// The memories refused the change, or the store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl DecisionError {
    /// Returns the stable public code.
    pub fn code(&self) -> MemoryErrorCode {
        match self {
            Self::NotFound(_) => MemoryErrorCode::NotFound,
            Self::Decided { .. } | Self::Stale { .. } => MemoryErrorCode::Conflict,
            Self::Store(error) => error.code(),
        }
    }
}

impl From<StateError> for DecisionError {
    fn from(error: StateError) -> Self {
        Self::Store(error.into())
    }
}

/// The reason why a proposal cannot be applied to the current memories.
#[derive(Debug)]
enum ApplyError {
    /// It no longer fits them; the text is a sentence.
    Stale(String),
    /// The memories cannot be read.
    Store(StoreError),
}

impl From<StoreError> for ApplyError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl ApplyError {
    fn into_decision_error(self, id: ProposalId) -> DecisionError {
        match self {
            Self::Stale(why) => DecisionError::Stale { id, why },
            Self::Store(error) => error.into(),
        }
    }
}

/// The queue of proposals of this host. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ProposalQueue {
    store: Arc<Store>,
    tasks: Arc<dyn TaskStore>,
    clock: Arc<dyn Clock>,
}

impl ProposalQueue {
    /// Returns the queue stored in `tasks`. Decisions are published through `store`.
    pub fn new(store: Arc<Store>, tasks: Arc<dyn TaskStore>, clock: Arc<dyn Clock>) -> Self {
        Self { store, tasks, clock }
    }

    /// Counts the waiting proposals about these memories.
    pub async fn count(&self, memories: &Memories) -> Result<u64, StoreError> {
        self.offer_reviews(memories).await?;
        Ok(self.tasks.count_proposals(&memories.roots()).await?)
    }

    /// Returns the waiting proposals about these memories with a number above `after`, oldest
    /// first.
    pub async fn list(
        &self,
        memories: &Memories,
        after: Option<ProposalId>,
        max: usize,
    ) -> Result<PendingPage, StoreError> {
        let influenced = self.offer_reviews(memories).await?;
        let query = ProposalQuery { roots: memories.roots(), after, max };
        let rows = self.tasks.proposals(&query).await?;
        let next = rows.last().filter(|_| rows.len() == max).map(|row| row.id);
        // Shared by the whole page, so that each memory is read once.
        let mut texts = memories.draft(ChangeKind::Proposal, CallContext::default());
        let mut proposals = Vec::with_capacity(rows.len());
        for row in &rows {
            let Some(proposal) = decode_or_skip(row, memories) else { continue };
            let texts = &mut texts;
            proposals.push(preview(row, proposal, (memories, &influenced), texts).await?);
        }
        Ok(PendingPage { proposals, next })
    }

    /// Returns a waiting proposal about these memories.
    pub async fn get(
        &self,
        memories: &Memories,
        id: ProposalId,
    ) -> Result<PendingProposal, DecisionError> {
        let (row, proposal) = self.find_waiting(memories, id).await?;
        let mut texts = memories.draft(ChangeKind::Proposal, CallContext::default());
        let influenced = memories.pending_reviews().await?;
        Ok(preview(&row, proposal, (memories, &influenced), &mut texts).await?)
    }

    /// Synchronizes the proposals for reviews with the memories that wait for one, and returns
    /// those memories. History alone says which memories wait, so none is lost.
    async fn offer_reviews(&self, memories: &Memories) -> Result<Vec<PendingReview>, StoreError> {
        let influenced = memories.pending_reviews().await?;
        let waiting_keys: HashSet<_> =
            influenced.iter().map(|review| (&review.path, review.revision)).collect();
        let all =
            ProposalQuery { roots: memories.roots(), after: None, max: PROPOSALS_WAITING_MAX };
        let mut obsolete = Vec::new();
        for row in self.tasks.proposals(&all).await? {
            let review =
                record::decode_proposal(&row, memories).and_then(|proposal| proposal.review);
            if review.is_some_and(|review| !waiting_keys.contains(&(&review.path, review.revision)))
            {
                obsolete.push(row.id);
            }
        }
        self.tasks.withdraw_proposals(&obsolete).await?;
        let mut by_writer: Vec<(Provenance, Vec<NewProposal>)> = Vec::new();
        for pending in &influenced {
            let Some(new) = record::new_review(pending, memories) else { continue };
            let writer = &pending.change.provenance;
            match by_writer.iter_mut().find(|(other, _)| other == writer) {
                Some((_, group)) => group.push(new),
                None => by_writer.push((writer.clone(), vec![new])),
            }
        }
        for (writer, group) in by_writer {
            self.add(&group, &writer).await?;
        }
        Ok(influenced)
    }

    /// Accepts proposals independently: each is one change, which can be undone.
    pub async fn accept(
        &self,
        memories: &Memories,
        ids: &[ProposalId],
        call: &CallContext,
    ) -> Vec<ProposalDecision> {
        let mut decisions = Vec::with_capacity(ids.len());
        for &id in ids {
            let outcome = self.accept_one(memories, id, call).await.map(Some);
            decisions.push(ProposalDecision { id, outcome });
        }
        decisions
    }

    /// Rejects proposals independently; the same proposals are not made again.
    pub async fn reject(&self, memories: &Memories, ids: &[ProposalId]) -> Vec<ProposalDecision> {
        let mut decisions = Vec::with_capacity(ids.len());
        for &id in ids {
            let outcome = self.reject_one(memories, id).await.map(|()| None);
            decisions.push(ProposalDecision { id, outcome });
        }
        decisions
    }

    /// Accepts a proposal in one change, which can be undone.
    pub async fn accept_one(
        &self,
        memories: &Memories,
        id: ProposalId,
        call: &CallContext,
    ) -> Result<ChangeId, DecisionError> {
        for attempt in 1..=PROPOSAL_ATTEMPTS_MAX {
            let (row, proposal) = self.find_waiting(memories, id).await?;
            memories.check_person(&row.new.roots)?;
            let call = CallContext { proposal: Some(id), ..call.clone() };
            let applied = if let Some(review) = &proposal.review {
                accept_review(id, review, memories, &call).await
            } else {
                let draft = memories.draft(ChangeKind::Proposal, call);
                apply(&row, &proposal, memories, draft).await
            };
            match applied {
                Ok(change) => {
                    self.announce(memories, &row, ProposalStatus::Accepted, Some(change)).await;
                    return Ok(change);
                }
                Err(DecisionError::Store(StoreError::Refused(CommandError::Conflict {
                    ..
                }))) if attempt < PROPOSAL_ATTEMPTS_MAX => {}
                // The state rejects the change if the proposal was decided in the meantime.
                Err(DecisionError::Store(error @ StoreError::State(_))) => {
                    self.find_waiting(memories, id).await?;
                    return Err(error.into());
                }
                Err(error) => return Err(error),
            }
        }
        let why = "its memories kept changing while it was applied".to_owned();
        Err(DecisionError::Stale { id, why })
    }

    /// Rejects a proposal; the same proposal is not made again.
    pub async fn reject_one(
        &self,
        memories: &Memories,
        id: ProposalId,
    ) -> Result<(), DecisionError> {
        let (row, _) = self.find_waiting(memories, id).await?;
        memories.check_person(&row.new.roots)?;
        if !self.tasks.reject_proposal(id, self.clock.now()).await? {
            self.find_waiting(memories, id).await?;
            return Err(DecisionError::NotFound(id));
        }
        self.announce(memories, &row, ProposalStatus::Rejected, None).await;
        Ok(())
    }

    /// Returns a waiting proposal that is visible with these memories.
    async fn find_waiting(
        &self,
        memories: &Memories,
        id: ProposalId,
    ) -> Result<(ProposalRow, Proposal), DecisionError> {
        let roots = memories.roots();
        self.offer_reviews(memories).await?;
        let is_visible = |row: &ProposalRow| row.new.roots.iter().all(|root| roots.contains(root));
        let row = self.tasks.proposal(id).await?.filter(is_visible);
        let row = row.ok_or(DecisionError::NotFound(id))?;
        if row.status != ProposalStatus::Waiting {
            return Err(DecisionError::Decided { id, status: row.status });
        }
        let proposal = decode_or_skip(&row, memories).ok_or(DecisionError::NotFound(id))?;
        Ok((row, proposal))
    }

    /// Adds proposals of a task and publishes the new ones. Returns the number of new proposals.
    pub(crate) async fn add(
        &self,
        new: &[NewProposal],
        by: &Provenance,
    ) -> Result<usize, StateError> {
        let mut groups: BTreeMap<_, Vec<NewProposal>> = BTreeMap::new();
        for proposal in new {
            groups.entry(&proposal.roots).or_default().push(proposal.clone());
        }
        let mut count = 0;
        for (roots, group) in groups {
            let added = self.tasks.add_proposals(&group).await?;
            if added.left_out > 0 {
                let left_out = added.left_out;
                tracing::warn!(
                    left_out,
                    "the maximum of proposals is waiting, so new ones were dropped; decide some with `lukasa pending`"
                );
            }
            count += added.ids.len();
            if let Some(first) = group.first().filter(|_| !added.ids.is_empty()) {
                let made = ProposalStatusEvent {
                    ids: added.ids,
                    status: ProposalStatus::Waiting,
                    roots: roots.clone(),
                    task: first.task.clone(),
                    change: None,
                    provenance: by.clone(),
                };
                self.store.announce(Announcement::Proposals(made)).await;
            }
        }
        Ok(count)
    }

    async fn announce(
        &self,
        memories: &Memories,
        row: &ProposalRow,
        status: ProposalStatus,
        change: Option<ChangeId>,
    ) {
        let decided = ProposalStatusEvent {
            ids: vec![row.id],
            status,
            roots: row.new.roots.clone(),
            task: row.new.task.clone(),
            change,
            provenance: memories.caller().provenance.clone(),
        };
        self.store.announce(Announcement::Proposals(decided)).await;
    }
}

/// Decodes a row, or logs an error and returns `None` if it is corrupt.
fn decode_or_skip(row: &ProposalRow, memories: &Memories) -> Option<Proposal> {
    let proposal = record::decode_proposal(row, memories);
    if proposal.is_none() {
        tracing::warn!(proposal = %row.id, "error while decoding a proposal; it is skipped");
    }
    proposal
}

/// Computes the effect that accepting a proposal would have now.
async fn preview(
    row: &ProposalRow,
    proposal: Proposal,
    (memories, influenced): (&Memories, &[PendingReview]),
    texts: &mut Draft,
) -> Result<PendingProposal, StoreError> {
    let outcome = if let Some(review) = &proposal.review {
        reviewed_diffs(review, memories, influenced, texts).await
    } else {
        let edits = plan_edits(&proposal, texts).await;
        edits.map(|edits| edits.iter().map(|(path, edit)| edit.diff(path)).collect())
    };
    let (stale, diffs) = match outcome {
        Ok(diffs) => (None, diffs),
        Err(ApplyError::Stale(why)) => (Some(why), Vec::new()),
        Err(ApplyError::Store(error)) => return Err(error),
    };
    Ok(PendingProposal {
        id: row.id,
        made_at: row.new.made_at,
        origin: row.new.origin.clone(),
        task: row.new.task.clone(),
        proposal,
        stale,
        diffs,
    })
}

/// Accepts a memory that waits for a review.
async fn accept_review(
    id: ProposalId,
    review: &ReviewTarget,
    memories: &Memories,
    call: &CallContext,
) -> Result<ChangeId, DecisionError> {
    let mut texts = memories.draft(ChangeKind::Proposal, CallContext::default());
    let influenced = memories.pending_reviews().await?;
    reviewed_diffs(review, memories, &influenced, &mut texts)
        .await
        .map_err(|error| error.into_decision_error(id))?;
    match memories.accept(&review.path, review.revision, call).await {
        Ok(Some(change)) => Ok(change),
        Ok(None) => Err(DecisionError::Stale { id, why: "it was accepted already".to_owned() }),
        Err(StoreError::Refused(refusal)) => {
            Err(DecisionError::Stale { id, why: refusal.to_string() })
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the change to a memory that waits for a review, or the reason why it no longer waits.
async fn reviewed_diffs(
    review: &ReviewTarget,
    memories: &Memories,
    influenced: &[PendingReview],
    texts: &mut Draft,
) -> Result<Vec<FileDiff>, ApplyError> {
    let text = text_of(&review.path, texts).await?;
    if text.is_none_or(|text| Revision::digest(text.as_bytes()) != review.revision) {
        return Err(ApplyError::Stale(format!("{}: it was changed or removed since", review.path)));
    }
    let Some(pending) = influenced.iter().find(|pending| pending.path == review.path) else {
        return Err(ApplyError::Stale(format!("{}: it was accepted already", review.path)));
    };
    let mut diffs = memories.diffs(&pending.change).await?;
    diffs.retain(|diff| diff.path == review.path || diff.moved_to.as_ref() == Some(&review.path));
    Ok(diffs)
}

/// Applies a proposal to the current memories in one change.
async fn apply(
    row: &ProposalRow,
    proposal: &Proposal,
    memories: &Memories,
    mut draft: Draft,
) -> Result<ChangeId, DecisionError> {
    let edits = plan_edits(proposal, &mut draft)
        .await
        .map_err(|error| error.into_decision_error(row.id))?;
    let trust = source_trust(row, proposal, memories, &mut draft).await?;
    draft.limit_trust(trust);
    for (path, edit) in &edits {
        if let Some(text) = &edit.after {
            draft.set_text(path, text).await?;
        } else if let Reply::Refused(refusal) =
            draft.apply(MemoryCommand::Delete { path: path.clone() }).await?
        {
            return Err(StoreError::from(refusal).into());
        }
    }
    let change = draft.commit().await?;
    change.ok_or_else(|| {
        let why = "the memories already have this content".to_owned();
        DecisionError::Stale { id: row.id, why }
    })
}

/// Returns the trust in the text of a proposal: at most that of its sources.
async fn source_trust(
    row: &ProposalRow,
    proposal: &Proposal,
    memories: &Memories,
    draft: &mut Draft,
) -> Result<Trust, StoreError> {
    let changed = proposal.changes.iter().map(|change| &change.path);
    let named = changed.chain(proposal.relies_on.iter().map(|reference| &reference.path));
    let mut sources = BTreeMap::new();
    for path in named {
        if let Some(text) = draft.text_of(path).await? {
            sources.insert(path, Revision::digest(text.as_bytes()));
        }
    }
    let sources: Vec<_> = sources.into_iter().collect();
    let levels = memories.trust_levels(&sources).await?;
    Ok(levels.into_iter().min().map_or(row.new.trust, |least| least.min(row.new.trust)))
}

/// The planned edit of one memory.
#[derive(Debug)]
struct MemoryEdit {
    before: Option<String>,
    /// `None` if the memory is deleted.
    after: Option<String>,
}

impl MemoryEdit {
    fn diff(&self, path: &MemoryPath) -> FileDiff {
        let (before, after) = (self.before.clone(), self.after.clone());
        let name = path.to_string();
        let unified = unified_diff(
            (&name, before.as_deref().unwrap_or_default()),
            (&name, after.as_deref().unwrap_or_default()),
        );
        FileDiff { path: path.clone(), moved_to: None, before, after, unified, is_complete: true }
    }
}

/// Plans the edits that a proposal makes, with the generated names and descriptions that follow from
/// them, or returns the reason why it no longer applies.
async fn plan_edits(
    proposal: &Proposal,
    texts: &mut Draft,
) -> Result<BTreeMap<MemoryPath, MemoryEdit>, ApplyError> {
    let mut edits: BTreeMap<MemoryPath, MemoryEdit> = BTreeMap::new();
    for change in &proposal.changes {
        let path = &change.path;
        let edit = match edits.entry(path.clone()) {
            Entry::Occupied(planned) => planned.into_mut(),
            Entry::Vacant(vacant) => {
                let before = text_of(path, texts).await?;
                vacant.insert(MemoryEdit { after: before.clone(), before })
            }
        };
        let text = change.apply(edit.after.as_deref().unwrap_or_default());
        edit.after = Some(text.map_err(|stale| ApplyError::Stale(format!("{path}: {stale}")))?);
    }
    for reference in &proposal.relies_on {
        let text = match edits.get(&reference.path) {
            Some(edit) => edit.after.clone(),
            None => text_of(&reference.path, texts).await?,
        };
        reference.check(text.as_deref().unwrap_or_default()).map_err(|stale| {
            ApplyError::Stale(format!("{}: {stale}, and the proposal relies on it", reference.path))
        })?;
    }
    for edit in edits.values_mut() {
        let after = edit.after.take().filter(|text| !entries(text).is_empty());
        let before = ParsedText::from(edit.before.as_deref().unwrap_or_default());
        edit.after = after.map(|text| refresh_frontmatter(&before, text));
    }
    if edits.values().all(|edit| edit.before == edit.after) {
        let why = "the memories already have this content".to_owned();
        return Err(ApplyError::Stale(why));
    }
    Ok(edits)
}

/// Returns the text of a memory, or the reason why it cannot be edited.
async fn text_of(path: &MemoryPath, texts: &mut Draft) -> Result<Option<String>, ApplyError> {
    texts.text_of(path).await.map_err(|error| match error {
        StoreError::Refused(refusal) => ApplyError::Stale(refusal.to_string()),
        error => ApplyError::Store(error),
    })
}
