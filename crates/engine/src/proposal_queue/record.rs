//! Proposals as stored in the state: JSON that names a memory by its root and its path below it.
//!
//! A row may be damaged, or written by another version of this program. Rows that cannot be decoded
//! are skipped.

use memory::change::{Actor, RootKey, Trust};
use memory::clock::Timestamp;
use memory::document::Revision;
use memory::path::{MemoryPath, RelativePath};
use memory::proposal::{EntryChange, EntryReference, Proposal, ProposalKind, ReviewTarget};
use serde::{Deserialize, Serialize};
use state::{NewProposal, ProposalRow};
use store::{Memories, PendingReview, Unreviewed};

use crate::task::{Task, TaskKind};

/// The origin of new proposals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProposalSource<'t> {
    pub(crate) origin: &'t str,
    pub(crate) task: Option<&'t str>,
    /// The maximum trust in new text of its proposals.
    pub(crate) trust: Trust,
    pub(crate) at: Timestamp,
}

impl<'t> ProposalSource<'t> {
    /// Returns a task as the source of proposals. New text of a request is trusted like its
    /// requester; that of a dream, like the memories it was made from.
    pub(crate) fn of_task(task: &'t Task, at: Timestamp) -> Self {
        let trust = match task.kind() {
            TaskKind::Remember | TaskKind::Forget => task.requester.trust,
            TaskKind::Dream => Trust::Person,
            TaskKind::Review => Trust::Background,
        };
        Self { origin: task.kind().as_str(), task: Some(task.id.as_str()), trust, at }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProposalRecord {
    kind: String,
    reason: String,
    score: u8,
    changes: Vec<ChangeRecord>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    relies_on: Vec<KeptRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    review: Option<ReviewRecord>,
}

#[derive(Serialize, Deserialize)]
struct ReviewRecord {
    root: usize,
    path: String,
    revision: String,
}

#[derive(Serialize, Deserialize)]
struct ChangeRecord {
    /// Index of its root among those of the row.
    root: usize,
    path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    old: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    new: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct KeptRecord {
    root: usize,
    path: String,
    text: String,
}

/// A new row as it is stored in the prepared outcome of a task, until the task has ended.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredProposal {
    digest: String,
    trust: String,
    roots: Vec<(String, String)>,
    proposal: String,
}

impl StoredProposal {
    /// Encodes a new row.
    pub(crate) fn from_new(new: &NewProposal) -> Self {
        let pair = |root: &RootKey| (root.identity.clone(), root.place.clone());
        Self {
            digest: new.digest.to_string(),
            trust: new.trust.as_ref().to_owned(),
            roots: new.roots.iter().map(pair).collect(),
            proposal: new.proposal.clone(),
        }
    }

    /// Decodes the new row of this task, or returns `None` if it is damaged.
    pub(crate) fn into_new(self, task: &Task) -> Option<NewProposal> {
        let root = |(identity, place)| RootKey { identity, place };
        Some(NewProposal {
            made_at: task.updated_at,
            origin: task.kind().as_str().to_owned(),
            task: Some(task.id.to_string()),
            digest: self.digest.parse().ok()?,
            trust: self.trust.parse().ok()?,
            roots: self.roots.into_iter().map(root).collect(),
            proposal: self.proposal,
        })
    }
}

/// Returns proposals as new rows, most likely first, because the queue drops the last ones when it
/// is full.
pub(crate) fn new_rows(
    mut proposals: Vec<Proposal>,
    memories: &Memories,
    source: ProposalSource<'_>,
) -> Vec<NewProposal> {
    proposals.sort_by_key(|proposal| std::cmp::Reverse(proposal.score));
    let row = |proposal: &Proposal| {
        let row = new_row(proposal, memories, source);
        if row.is_none() {
            tracing::warn!(
                task = source.task,
                "error while encoding a proposal: it names no entry of these memories; it is skipped"
            );
        }
        row
    };
    proposals.iter().filter_map(row).collect()
}

/// Returns the row that asks a person to review a memory.
pub(super) fn new_review(pending: &PendingReview, memories: &Memories) -> Option<NewProposal> {
    let PendingReview { path, revision, reason: why, change } = pending;
    let provenance = &change.provenance;
    let writer = provenance
        .client
        .as_deref()
        .map_or_else(|| "An agent".to_owned(), |name| format!("`{name}`"));
    let why = match why {
        _ if provenance.actor == Actor::Outside => {
            "This was changed outside of Lukasa while it waited for a person to accept it."
                .to_owned()
        }
        Unreviewed::Background => {
            // The note ends with a quotation, so no punctuation follows.
            let note =
                provenance.note.as_deref().map(|note| format!(" {note}")).unwrap_or_default();
            format!("A background review of a conversation wrote this.{note}")
        }
        Unreviewed::Influenced | Unreviewed::Silent | Unreviewed::Marked => format!(
            "{writer} wrote or changed this after it had read memories that came with a repository and were not reviewed \
             here. They may have influenced the text."
        ),
    };
    let proposal = Proposal {
        kind: ProposalKind::Review,
        reason: format!("{why} Accept it if all of it is right; else edit or remove it."),
        score: 100,
        changes: Vec::new(),
        relies_on: Vec::new(),
        review: Some(ReviewTarget { path: path.clone(), revision: *revision }),
    };
    let source = ProposalSource {
        origin: &provenance.origin,
        task: provenance.task.as_deref(),
        trust: provenance.trust,
        at: change.at,
    };
    new_row(&proposal, memories, source)
}

fn new_row(
    proposal: &Proposal,
    memories: &Memories,
    source: ProposalSource<'_>,
) -> Option<NewProposal> {
    let changed = proposal.changes.iter().map(|change| &change.path);
    let references = proposal.relies_on.iter().map(|reference| &reference.path);
    let named = changed.chain(references).chain(proposal.review.iter().map(|review| &review.path));
    let mut roots: Vec<RootKey> =
        named.map(|path| root_of(path, memories)).collect::<Option<_>>()?;
    roots.sort();
    roots.dedup();
    if roots.is_empty() {
        return None;
    }
    let record = encode_proposal(proposal, memories, &roots)?;
    Some(NewProposal {
        made_at: source.at,
        origin: source.origin.to_owned(),
        task: source.task.map(str::to_owned),
        digest: digest(&record, &roots),
        trust: source.trust,
        roots,
        proposal: serde_json::to_string(&record).ok()?,
    })
}

fn root_of(path: &MemoryPath, memories: &Memories) -> Option<RootKey> {
    let mount = path.mount()?;
    memories.mounts().into_iter().find(|state| state.mount == mount)?.key
}

fn encode_proposal(
    proposal: &Proposal,
    memories: &Memories,
    roots: &[RootKey],
) -> Option<ProposalRecord> {
    let locate = |path: &MemoryPath| {
        let key = root_of(path, memories)?;
        let root = roots.iter().position(|root| *root == key)?;
        Some((root, path.relative()?.as_str().to_owned()))
    };
    let change = |change: &EntryChange| {
        let (root, path) = locate(&change.path)?;
        Some(ChangeRecord { root, path, old: change.old.clone(), new: change.new.clone() })
    };
    let reference = |reference: &EntryReference| {
        let (root, path) = locate(&reference.path)?;
        Some(KeptRecord { root, path, text: reference.text.clone() })
    };
    let review = |review: &ReviewTarget| {
        let (root, path) = locate(&review.path)?;
        Some(ReviewRecord { root, path, revision: review.revision.to_string() })
    };
    let review = match &proposal.review {
        Some(target) => Some(review(target)?),
        None => None,
    };
    Some(ProposalRecord {
        review,
        kind: proposal.kind.as_ref().to_owned(),
        reason: proposal.reason.clone(),
        score: proposal.score,
        changes: proposal.changes.iter().map(change).collect::<Option<_>>()?,
        relies_on: proposal.relies_on.iter().map(reference).collect::<Option<_>>()?,
    })
}

/// Returns the digest that identifies equal proposals: of the entries and the identities of their
/// roots, independent of the copy and the reason.
fn digest(record: &ProposalRecord, roots: &[RootKey]) -> Revision {
    let identity = |root: usize| roots.get(root).map(|root| &root.identity);
    let mut entries: Vec<_> = record
        .changes
        .iter()
        .map(|change| (identity(change.root), &change.path, [&change.old, &change.new]))
        .map(|named| serde_json::json!(named).to_string())
        .collect();
    entries.sort();
    let mut references: Vec<_> = record
        .relies_on
        .iter()
        .map(|kept| (identity(kept.root), &kept.path, &kept.text))
        .map(|named| serde_json::json!(named).to_string())
        .collect();
    references.sort();
    let named = match &record.review {
        Some(review) => {
            let review = (identity(review.root), &review.path, &review.revision);
            serde_json::json!([entries, references, review])
        }
        None => serde_json::json!([entries, references]),
    };
    Revision::digest(named.to_string().as_bytes())
}

/// Decodes the proposal of a row, with paths as mounted in these memories.
pub(super) fn decode_proposal(row: &ProposalRow, memories: &Memories) -> Option<Proposal> {
    let record: ProposalRecord = serde_json::from_str(&row.new.proposal).ok()?;
    let path = |root: usize, path: &str| {
        let path = RelativePath::parse(path).ok()?;
        memories.virtual_path(row.new.roots.get(root)?, &path)
    };
    let change = |change: ChangeRecord| {
        let path = path(change.root, &change.path)?;
        Some(EntryChange { path, old: change.old, new: change.new })
    };
    let reference = |reference: KeptRecord| {
        Some(EntryReference { path: path(reference.root, &reference.path)?, text: reference.text })
    };
    let kind: ProposalKind = record.kind.parse().ok()?;
    let changes: Vec<_> = record.changes.into_iter().map(change).collect::<Option<_>>()?;
    let relies_on = record.relies_on.into_iter().map(reference).collect::<Option<_>>()?;
    let review = match record.review {
        Some(review) => Some(ReviewTarget {
            path: path(review.root, &review.path)?,
            revision: review.revision.parse().ok()?,
        }),
        None => None,
    };
    let is_sound = changes.is_empty() == review.is_some() && record.score <= 100;
    is_sound.then_some(Proposal {
        kind,
        reason: record.reason,
        score: record.score,
        changes,
        relies_on,
        review,
    })
}
