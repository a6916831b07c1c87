//! The changes of tasks and sessions, grouped into runs from history. Tasks themselves are deleted
//! some time after their end.

use std::collections::BTreeSet;

use memory::change::{Actor, ChangeId, MemoryChange};
use memory::clock::Timestamp;
use memory::path::MemoryPath;
use store::{ChangesQuery, Memories, StoreError};

/// Maximum number of changes read for one page of runs.
const CHANGES_READ_MAX: usize = 2_000;

/// Number of changes read at a time.
const RUN_CHANGES_AT_ONCE: usize = 500;

/// The origin of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RunSource {
    /// The task with this id.
    Task(String),
    /// The session with this name, given by a host or program.
    Session(String),
}

/// The changes of one task or one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRun {
    /// The task or session.
    pub source: RunSource,
    /// The actor of the changes.
    pub actor: Actor,
    /// The name of the calling program.
    pub client: Option<String>,
    /// The model that requested the last change, if known.
    pub model: Option<String>,
    /// Time of the first change.
    pub started_at: Timestamp,
    /// Time of the last change.
    pub ended_at: Timestamp,
    /// The changes, newest first.
    pub changes: Vec<ChangeId>,
    /// The memories in them.
    pub memories: BTreeSet<MemoryPath>,
}

/// A page of runs, ordered by their last change, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPage {
    /// The runs. A run with changes on the next page appears there again, with those changes.
    pub runs: Vec<HistoryRun>,
    /// The change below which the next page starts; `None` on the last page.
    pub next: Option<ChangeId>,
}

/// Returns the runs among the changes before `before`, about `max` of them.
pub async fn runs(
    memories: &Memories,
    before: Option<ChangeId>,
    max: usize,
) -> Result<RunPage, StoreError> {
    let mut page = RunPage { runs: Vec::new(), next: before };
    for _ in 0..CHANGES_READ_MAX / RUN_CHANGES_AT_ONCE {
        let query =
            ChangesQuery { before: page.next, max: RUN_CHANGES_AT_ONCE, ..Default::default() };
        let changes = memories.changes(&query).await?;
        let is_last = changes.len() < RUN_CHANGES_AT_ONCE;
        for change in &changes {
            page.add(change, memories);
        }
        page.next = changes.last().map(|oldest| oldest.id).filter(|_| !is_last);
        if page.next.is_none() || page.runs.len() >= max {
            break;
        }
    }
    Ok(page)
}

impl RunPage {
    /// Adds a change, which must be older than all changes added before.
    fn add(&mut self, change: &MemoryChange, memories: &Memories) {
        let provenance = &change.provenance;
        let source = match (&provenance.task, &provenance.session) {
            (Some(task), _) => RunSource::Task(task.clone()),
            (None, Some(session)) => RunSource::Session(session.clone()),
            (None, None) => return,
        };
        let same = |run: &HistoryRun| run.source == source && run.client == provenance.client;
        let index = self.runs.iter().position(same).unwrap_or_else(|| {
            self.runs.push(HistoryRun {
                source: source.clone(),
                actor: provenance.actor,
                client: provenance.client.clone(),
                model: provenance.model.clone(),
                started_at: change.at,
                ended_at: change.at,
                changes: Vec::new(),
                memories: BTreeSet::new(),
            });
            self.runs.len() - 1
        });
        let run = &mut self.runs[index];
        run.started_at = change.at;
        run.changes.push(change.id);
        for file in &change.files {
            let path = file.moved_to.as_ref().unwrap_or(&file.path);
            run.memories.extend(memories.virtual_path(&file.root, path));
        }
    }
}
