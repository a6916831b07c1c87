//! History: what changed, and taking it back; proposals, which wait for a person.

use engine::{
    CallContext, ChangesQuery, DryRun, FileDiff, PendingProposal, TaskId, UndoReport, UndoTarget,
};
use memory::change::{Actor, ChangeId, ChangeKind};
use memory::clock::Timestamp;
use memory::path::MemoryPath;
use memory::proposal::ProposalId;

use crate::Result;
use crate::memories::{IntoMemoryPath, Memories};

/// How many changes or proposals one call returns at most.
const PAGE_MAX: usize = 1_000;

/// A recorded change of one or more memories.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// Its number. Later changes have higher numbers.
    pub id: ChangeId,
    /// When it was recorded, by the clock of the home.
    pub at: Timestamp,
    /// What was done.
    pub kind: ChangeKind,
    /// Who did it.
    pub by: Actor,
    /// The program it came in by, as the [`Caller`](crate::Caller) named it.
    pub origin: String,
    /// The host's session, if it named one.
    pub session: Option<String>,
    /// The task it belongs to.
    pub task: Option<TaskId>,
    /// The change that it takes back, if it is an undo.
    pub undoes: Option<ChangeId>,
    /// The memories that it touched, of those that are mounted here, by their paths before it.
    pub memories: Vec<MemoryPath>,
}

/// The proof of an undo.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Undo {
    /// The new change that takes the others back; an undo of it brings them again.
    pub change: Option<ChangeId>,
    /// The changes that were taken back, newest first.
    pub undone: Vec<ChangeId>,
    /// The memories that were touched.
    pub memories: Vec<MemoryPath>,
    /// Changes of the same task in other workspaces, which stay.
    pub remaining: Vec<ChangeId>,
}

/// A change that a task was not sure of, and that a person decides on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Proposal {
    /// Its number.
    pub id: ProposalId,
    /// When it was made.
    pub made_at: Timestamp,
    /// Why, in a sentence for people. It may quote memories.
    pub reason: String,
    /// The reason why it cannot be accepted as the memories are now; `None` if it can.
    pub stale: Option<String>,
    /// What accepting it would do to each memory.
    pub diffs: Vec<FileDiff>,
}

impl Memories {
    /// Returns the latest changes of these memories, newest first, at most so many. Edits made outside of
    /// Lukasa since the last look are recorded before.
    pub async fn history(&self, max: usize) -> Result<Vec<Change>> {
        self.changes(ChangesQuery { max, ..ChangesQuery::default() }).await
    }

    /// Returns the latest changes of a memory, or of all in a folder.
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

    /// Returns what a change did to each memory, as texts with a unified diff.
    pub async fn diff(&self, change: ChangeId) -> Result<Vec<FileDiff>> {
        let _call = self.begin()?;
        let change = self.inner.change(change).await?;
        Ok(self.inner.diffs(&change).await?)
    }

    /// Takes a change back, as a new change.
    ///
    /// If any of its memories changed since, nothing happens, and the error is a
    /// [`Conflict`](crate::ErrorKind::Conflict) that [names](crate::Error::blocked) them.
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

    /// Takes all changes of a task back, as one new change.
    pub async fn undo_task(&self, task: &TaskId) -> Result<Undo> {
        self.undo_target(&UndoTarget::Task(task.to_string())).await
    }

    async fn undo_target(&self, target: &UndoTarget) -> Result<Undo> {
        let _call = self.begin()?;
        let undone = self.inner.undo(target, DryRun::No, &CallContext::default()).await?;
        let UndoReport { change, undone, paths, warnings: _, elsewhere: left } = undone;
        let left = left.into_iter().map(|one| one.change).collect();
        Ok(Undo { change, undone, memories: paths, remaining: left })
    }

    /// Returns the proposals that wait about these memories, the oldest first.
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

    /// Makes the change that was proposed. Only a person decides. Returns the change, which an
    /// [undo](Self::undo) takes back.
    pub async fn accept_proposal(&self, id: ProposalId) -> Result<ChangeId> {
        let _call = self.begin()?;
        let pending = self.lukasa.engine().proposal_queue();
        Ok(pending.accept_one(&self.inner, id, &CallContext::default()).await?)
    }

    /// Rejects a proposal; the same is not made again. Only a person decides.
    pub async fn reject_proposal(&self, id: ProposalId) -> Result<()> {
        let _call = self.begin()?;
        Ok(self.lukasa.engine().proposal_queue().reject_one(&self.inner, id).await?)
    }
}
