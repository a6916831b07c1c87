//! The queue of proposals: changes that a task made and that only a person decides on.
//!
//! A proposal belongs to the roots whose memories it names, and is seen only where all of them are mounted. It is
//! applied to the texts as they are when the person agrees, as one change that also ends its wait: of two who decide
//! at once, one does.

mod record;

pub(crate) use record::{ProposalSource, StoredProposal, new_rows};

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use memory::change::{ChangeId, ChangeKind, Provenance, Trust, unified_diff};
use memory::clock::{Clock, Timestamp};
use memory::command::{CommandError, MemoryCommand, Reply};
use memory::document::{Revision, entries};
use memory::error_code::MemoryErrorCode;
use memory::limits::{PROPOSAL_ATTEMPTS_MAX, PROPOSALS_WAITING_MAX};
use memory::path::MemoryPath;
use memory::proposal::{Proposal, ProposalId, ProposalStatus, ReviewTarget};
use state::{NewProposal, ProposalQuery, ProposalRow, StateError, TaskStore};
use store::{
    CallContext, Draft, FileDiff, Memories, PendingReview, ProposalStatusEvent, Store, StoreError,
};

/// A proposal that waits, with what accepting it would do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingProposal {
    /// Its number.
    pub id: ProposalId,
    /// When it was made.
    pub made_at: Timestamp,
    /// The kind of work that made it: `remember`, `dream`, `review`, ….
    pub origin: String,
    /// The task that made it.
    pub task: Option<String>,
    /// The proposal.
    pub proposal: Proposal,
    /// The reason why it cannot be accepted as the memories are now, in a sentence.
    pub stale: Option<String>,
    /// What it would do to each memory; empty when it is stale.
    pub diffs: Vec<FileDiff>,
}

/// A page of proposals, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingPage {
    /// The proposals.
    pub proposals: Vec<PendingProposal>,
    /// After which one the next page begins; `None` on the last page.
    pub next: Option<ProposalId>,
}

/// A decision about one proposal.
#[derive(Debug)]
pub struct ProposalDecision {
    /// The proposal.
    pub id: ProposalId,
    /// The change that accepting it made, or why nothing was decided. A rejection makes no change.
    pub outcome: Result<Option<ChangeId>, DecisionError>,
}

/// The reason why a proposal was not decided.
#[derive(Debug, thiserror::Error)]
pub enum DecisionError {
    /// None of this number is seen here.
    #[error("there is no proposal {0} for these memories")]
    NotFound(ProposalId),
    /// Another decision came first.
    #[error("the proposal {id} was {status} already")]
    Decided {
        /// The proposal.
        id: ProposalId,
        /// What was decided.
        status: ProposalStatus,
    },
    /// The memories are not as they were when it was made.
    #[error("the proposal {id} is stale: {why}")]
    Stale {
        /// The proposal.
        id: ProposalId,
        /// What changed.
        why: String,
    },
    /// The memories refuse or fail.
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

/// The reason why a proposal cannot be applied to the memories as they are.
#[derive(Debug)]
enum ApplyError {
    /// It does not fit them any more, in a sentence.
    Stale(String),
    /// They cannot be read.
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
    /// Returns the queue that these tasks keep; decisions are announced by the store.
    pub fn new(store: Arc<Store>, tasks: Arc<dyn TaskStore>, clock: Arc<dyn Clock>) -> Self {
        Self { store, tasks, clock }
    }

    /// Counts the proposals that wait about these memories.
    pub async fn count(&self, memories: &Memories) -> Result<u64, StoreError> {
        self.offer_reviews(memories).await?;
        Ok(self.tasks.count_proposals(&memories.roots()).await?)
    }

    /// Returns the proposals that wait about these memories, those after a number, the oldest first.
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
        // One for all of the page, so that a memory is read once.
        let mut texts = memories.draft(ChangeKind::Proposal, CallContext::default());
        let mut proposals = Vec::with_capacity(rows.len());
        for row in &rows {
            let Some(proposal) = decode_or_skip(row, memories) else { continue };
            let texts = &mut texts;
            proposals.push(preview(row, proposal, (memories, &influenced), texts).await?);
        }
        Ok(PendingPage { proposals, next })
    }

    /// Returns a proposal that waits about these memories.
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

    /// Sees to it that the memories that wait for a review are those that have a proposal, and returns them. Which do wait is
    /// known from history alone, so none is lost.
    async fn offer_reviews(&self, memories: &Memories) -> Result<Vec<PendingReview>, StoreError> {
        let influenced = memories.pending_reviews().await?;
        let waits: HashSet<_> = influenced.iter().map(|one| (&one.path, one.revision)).collect();
        let all =
            ProposalQuery { roots: memories.roots(), after: None, max: PROPOSALS_WAITING_MAX };
        let mut over = Vec::new();
        for row in self.tasks.proposals(&all).await? {
            let review =
                record::decode_proposal(&row, memories).and_then(|proposal| proposal.review);
            if review.is_some_and(|review| !waits.contains(&(&review.path, review.revision))) {
                over.push(row.id);
            }
        }
        self.tasks.withdraw_proposals(&over).await?;
        let mut by_writer: Vec<(Provenance, Vec<NewProposal>)> = Vec::new();
        for waiting in &influenced {
            let Some(new) = record::new_review(waiting, memories) else { continue };
            let by = &waiting.change.provenance;
            match by_writer.iter_mut().find(|(known, _)| known == by) {
                Some((_, group)) => group.push(new),
                None => by_writer.push((by.clone(), vec![new])),
            }
        }
        for (by, group) in by_writer {
            self.add(&group, &by).await?;
        }
        Ok(influenced)
    }

    /// Accepts proposals, each on its own: one change for each, which an undo takes back.
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

    /// Rejects proposals, each on its own: the same are not made again.
    pub async fn reject(&self, memories: &Memories, ids: &[ProposalId]) -> Vec<ProposalDecision> {
        let mut decisions = Vec::with_capacity(ids.len());
        for &id in ids {
            let outcome = self.reject_one(memories, id).await.map(|()| None);
            decisions.push(ProposalDecision { id, outcome });
        }
        decisions
    }

    /// Accepts a proposal, as one change, which an undo takes back.
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
                    self.announce(memories, &row, ProposalStatus::Accepted, Some(change));
                    return Ok(change);
                }
                Err(DecisionError::Store(StoreError::Refused(CommandError::Conflict {
                    ..
                }))) if attempt < PROPOSAL_ATTEMPTS_MAX => {}
                // The record of a change refuses a proposal that does not wait any more.
                Err(DecisionError::Store(error @ StoreError::State(_))) => {
                    self.find_waiting(memories, id).await?;
                    return Err(error.into());
                }
                Err(error) => return Err(error),
            }
        }
        let why = "its memories changed again and again meanwhile".to_owned();
        Err(DecisionError::Stale { id, why })
    }

    /// Rejects a proposal: the same is not made again.
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
        self.announce(memories, &row, ProposalStatus::Rejected, None);
        Ok(())
    }

    /// Returns a proposal that waits and that is seen through these memories.
    async fn find_waiting(
        &self,
        memories: &Memories,
        id: ProposalId,
    ) -> Result<(ProposalRow, Proposal), DecisionError> {
        let here = memories.roots();
        self.offer_reviews(memories).await?;
        let is_seen = |row: &ProposalRow| row.new.roots.iter().all(|root| here.contains(root));
        let row = self.tasks.proposal(id).await?.filter(is_seen);
        let row = row.ok_or(DecisionError::NotFound(id))?;
        if row.status != ProposalStatus::Waiting {
            return Err(DecisionError::Decided { id, status: row.status });
        }
        let proposal = decode_or_skip(&row, memories).ok_or(DecisionError::NotFound(id))?;
        Ok((row, proposal))
    }

    /// Adds proposals that a task made, and announces them. Returns how many are new.
    pub(crate) async fn add(
        &self,
        new: &[NewProposal],
        by: &Provenance,
    ) -> Result<usize, StateError> {
        let mut groups: BTreeMap<_, Vec<NewProposal>> = BTreeMap::new();
        for one in new {
            groups.entry(&one.roots).or_default().push(one.clone());
        }
        let mut made = 0;
        for (roots, group) in groups {
            let added = self.tasks.add_proposals(&group).await?;
            if added.left_out > 0 {
                let left_out = added.left_out;
                tracing::warn!(left_out, "as many proposals wait as may; see `lukasa pending`");
            }
            made += added.ids.len();
            if let Some(first) = group.first().filter(|_| !added.ids.is_empty()) {
                self.store.publish_proposals(ProposalStatusEvent {
                    ids: added.ids,
                    status: ProposalStatus::Waiting,
                    roots: roots.clone(),
                    task: first.task.clone(),
                    change: None,
                    provenance: by.clone(),
                });
            }
        }
        Ok(made)
    }

    fn announce(
        &self,
        memories: &Memories,
        row: &ProposalRow,
        status: ProposalStatus,
        change: Option<ChangeId>,
    ) {
        self.store.publish_proposals(ProposalStatusEvent {
            ids: vec![row.id],
            status,
            roots: row.new.roots.clone(),
            task: row.new.task.clone(),
            change,
            provenance: memories.caller().provenance.clone(),
        });
    }
}

/// Reads a row. One that cannot be read is passed over.
fn decode_or_skip(row: &ProposalRow, memories: &Memories) -> Option<Proposal> {
    let read = record::decode_proposal(row, memories);
    if read.is_none() {
        tracing::warn!(proposal = %row.id, "a proposal cannot be read and is passed over");
    }
    read
}

/// Works out what a proposal would do now.
async fn preview(
    row: &ProposalRow,
    proposal: Proposal,
    (memories, influenced): (&Memories, &[PendingReview]),
    texts: &mut Draft,
) -> Result<PendingProposal, StoreError> {
    let looked = if let Some(review) = &proposal.review {
        reviewed_diffs(review, memories, influenced, texts).await
    } else {
        let edits = plan_edits(&proposal, texts).await;
        edits.map(|edits| edits.iter().map(|(path, edit)| edit.diff(path)).collect())
    };
    let (stale, diffs) = match looked {
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

/// Returns what the change did to a memory that waits for a review, or why nobody has to review it any more.
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
    let Some(waiting) = influenced.iter().find(|waiting| waiting.path == review.path) else {
        return Err(ApplyError::Stale(format!("{}: it was accepted already", review.path)));
    };
    let mut diffs = memories.diffs(&waiting.change).await?;
    diffs.retain(|diff| diff.path == review.path || diff.moved_to.as_ref() == Some(&review.path));
    Ok(diffs)
}

/// Applies a proposal to the memories as they are, in one change.
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
        let why = "the memories are already as it would make them".to_owned();
        DecisionError::Stale { id: row.id, why }
    })
}

/// Returns how far the text that a proposal makes may be trusted: no further than what it was made of.
async fn source_trust(
    row: &ProposalRow,
    proposal: &Proposal,
    memories: &Memories,
    draft: &mut Draft,
) -> Result<Trust, StoreError> {
    let changed = proposal.changes.iter().map(|change| &change.path);
    let named = changed.chain(proposal.relies_on.iter().map(|kept| &kept.path));
    let mut sources = BTreeMap::new();
    for path in named {
        if let Some(text) = draft.text_of(path).await? {
            sources.insert(path, Revision::digest(text.as_bytes()));
        }
    }
    let sources: Vec<_> = sources.into_iter().collect();
    let trusted = memories.trust_levels(&sources).await?;
    Ok(trusted.into_iter().min().map_or(row.new.trust, |least| least.min(row.new.trust)))
}

/// What becomes of one memory.
#[derive(Debug)]
struct MemoryEdit {
    before: Option<String>,
    /// `None` if the memory goes.
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

/// Works out what a proposal makes of each memory, or why it no longer applies.
async fn plan_edits(
    proposal: &Proposal,
    texts: &mut Draft,
) -> Result<BTreeMap<MemoryPath, MemoryEdit>, ApplyError> {
    let mut edits: BTreeMap<MemoryPath, MemoryEdit> = BTreeMap::new();
    for change in &proposal.changes {
        let path = &change.path;
        let edit = match edits.entry(path.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let before = text_of(path, texts).await?;
                new.insert(MemoryEdit { after: before.clone(), before })
            }
        };
        let text = change.apply(edit.after.as_deref().unwrap_or_default());
        edit.after = Some(text.map_err(|stale| ApplyError::Stale(format!("{path}: {stale}")))?);
    }
    for kept in &proposal.relies_on {
        let text = match edits.get(&kept.path) {
            Some(edit) => edit.after.clone(),
            None => text_of(&kept.path, texts).await?,
        };
        kept.check(text.as_deref().unwrap_or_default()).map_err(|stale| {
            ApplyError::Stale(format!("{}: {stale}, and it relies on that", kept.path))
        })?;
    }
    for edit in edits.values_mut() {
        edit.after = edit.after.take().filter(|text| !entries(text).is_empty());
    }
    if edits.values().all(|edit| edit.before == edit.after) {
        let why = "the memories are already as it would make them".to_owned();
        return Err(ApplyError::Stale(why));
    }
    Ok(edits)
}

/// Returns the text of a memory, or why it has none that could be edited.
async fn text_of(path: &MemoryPath, texts: &mut Draft) -> Result<Option<String>, ApplyError> {
    texts.text_of(path).await.map_err(|error| match error {
        StoreError::Refused(refusal) => ApplyError::Stale(refusal.to_string()),
        error => ApplyError::Store(error),
    })
}
