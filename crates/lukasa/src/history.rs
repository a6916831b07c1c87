//! History and proposals: listing changes, undoing them, and deciding on proposals.

use engine::{
    CallContext, ChangesQuery, DryRun, FileDiff, PendingProposal, TaskId, UndoReport, UndoTarget,
};
use memory::change::{Actor, ChangeId, ChangeKind};
use memory::clock::Timestamp;
use memory::path::MemoryPath;
use memory::proposal::ProposalId;

use crate::Result;
use crate::memories::{IntoMemoryPath, Memories};

/// Maximum number of changes or proposals that one call returns.
const PAGE_MAX: usize = 1_000;

/// A recorded change of one or more memories.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// Its number. Later changes have higher numbers.
    pub id: ChangeId,
    /// Time of recording, by the clock of the home.
    pub at: Timestamp,
    /// The kind of operation.
    pub kind: ChangeKind,
    /// The author.
    pub by: Actor,
    /// The program that made it, as the [`Caller`](crate::Caller) named it.
    pub origin: String,
    /// The agent's session, if it named one.
    pub session: Option<String>,
    /// The task that it belongs to.
    pub task: Option<TaskId>,
    /// The change that it undoes, if it is an undo.
    pub undoes: Option<ChangeId>,
    /// The changed memories that are mounted here, by their paths before the change.
    pub memories: Vec<MemoryPath>,
}

/// The result of an undo.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Undo {
    /// The new change that undoes the others. Undoing it brings their changes back.
    pub change: Option<ChangeId>,
    /// The undone changes, newest first.
    pub undone: Vec<ChangeId>,
    /// The changed memories.
    pub memories: Vec<MemoryPath>,
    /// Changes of the same task in other workspaces; they are not undone.
    pub remaining: Vec<ChangeId>,
}

/// A change that a task was not sure of, for a person to decide.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Proposal {
    /// Its number.
    pub id: ProposalId,
    /// Time of its creation.
    pub made_at: Timestamp,
    /// The reason, as a sentence for people. It may quote memories.
    pub reason: String,
    /// The reason that it can no longer be accepted; `None` if it can.
    pub stale: Option<String>,
    /// The effect on each memory if it is accepted.
    pub diffs: Vec<FileDiff>,
}

impl Memories {
    /// Returns the latest changes of these memories, newest first, at most `max` of them. Records external edits first,
    /// so that they are included.
    pub async fn history(&self, max: usize) -> Result<Vec<Change>> {
        self.changes(ChangesQuery { max, ..ChangesQuery::default() }).await
    }

    /// Returns the latest changes of a memory, or of all memories in a folder.
    pub async fn history_of(&self, path: impl IntoMemoryPath, max: usize) -> Result<Vec<Change>> {
        let path = Some(self.path(path)?);
        self.changes(ChangesQuery { path, max, ..ChangesQuery::default() }).await
    }

    async fn changes(&self, query: ChangesQuery) -> Result<Vec<Change>> {
        let _call = self.begin()?;
        let query = ChangesQuery { max: query.max.min(PAGE_MAX), ..query };
        let changes = self.inner.changes(&query).await?;
        Ok(changes.into_iter().map(|change| self.convert_change(change)).collect())
    }

    fn convert_change(&self, change: memory::change::MemoryChange) -> Change {
        let files = change.files.iter();
        Change {
            memories: files
                .filter_map(|file| self.inner.virtual_path(&file.root, &file.path))
                .collect(),
            id: change.id,
            at: change.at,
            kind: change.kind,
            by: change.provenance.actor,
            origin: change.provenance.origin,
            session: change.provenance.session,
            task: change.provenance.task.and_then(|task| task.parse().ok()),
            undoes: change.undoes,
        }
    }

    /// Returns the effect of a change on each memory, as texts with a unified diff.
    pub async fn diff(&self, change: ChangeId) -> Result<Vec<FileDiff>> {
        let _call = self.begin()?;
        let change = self.inner.change(change).await?;
        Ok(self.inner.diffs(&change).await?)
    }

    /// Undoes a change, as a new change.
    ///
    /// If any of its memories changed later, nothing happens. The error is a [`Conflict`](crate::ErrorKind::Conflict)
    /// that [names](crate::Error::blocked) these memories.
    ///
    /// ```
    /// # async fn example(memories: lukasa::Memories) -> Result<(), lukasa::Error> {
    /// let receipt = memories.create("global/tea.md", "- Assam\n").await?;
    /// if let Some(change) = receipt.change {
    ///     let undo = memories.undo(change).await?;
    ///     assert_eq!(undo.undone, [change]);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn undo(&self, change: ChangeId) -> Result<Undo> {
        self.undo_target(&UndoTarget::Change(change)).await
    }

    /// Undoes all changes of a task, as one new change.
    pub async fn undo_task(&self, task: &TaskId) -> Result<Undo> {
        self.undo_target(&UndoTarget::Task(task.to_string())).await
    }

    async fn undo_target(&self, target: &UndoTarget) -> Result<Undo> {
        let _call = self.begin()?;
        let report = self.inner.undo(target, DryRun::No, &CallContext::default()).await?;
        let UndoReport { change, undone, paths, warnings: _, elsewhere: remaining } = report;
        let remaining = remaining.into_iter().map(|other| other.change).collect();
        Ok(Undo { change, undone, memories: paths, remaining })
    }

    /// Returns the waiting proposals about these memories, oldest first.
    pub async fn proposals(&self) -> Result<Vec<Proposal>> {
        let _call = self.begin()?;
        let page = self.lukasa.engine().proposal_queue().list(&self.inner, None, PAGE_MAX).await?;
        let proposal = |PendingProposal { id, made_at, proposal, stale, diffs, .. }| Proposal {
            id,
            made_at,
            reason: proposal.reason,
            stale,
            diffs,
        };
        Ok(page.proposals.into_iter().map(proposal).collect())
    }

    /// Applies a proposal. Only a person may decide. Returns the change, for [`undo`](Self::undo).
    pub async fn accept_proposal(&self, id: ProposalId) -> Result<ChangeId> {
        let _call = self.begin()?;
        let queue = self.lukasa.engine().proposal_queue();
        Ok(queue.accept_one(&self.inner, id, &CallContext::default()).await?)
    }

    /// Rejects a proposal; the same one is not made again. Only a person may decide.
    pub async fn reject_proposal(&self, id: ProposalId) -> Result<()> {
        let _call = self.begin()?;
        Ok(self.lukasa.engine().proposal_queue().reject_one(&self.inner, id).await?)
    }
}
