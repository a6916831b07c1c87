//! What tasks and sessions did, each as one, from history: tasks themselves are forgotten soon after their end.

use std::collections::BTreeSet;

use memory::change::{Actor, ChangeId, MemoryChange};
use memory::clock::Timestamp;
use memory::path::MemoryPath;
use store::{ChangesQuery, Memories, StoreError};

/// Changes that are looked through for one page of runs.
const CHANGES_READ_MAX: usize = 2_000;

/// Changes that are read at once.
const RUN_CHANGES_AT_ONCE: usize = 500;

/// What a run was.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RunSource {
    /// The task of this id.
    Task(String),
    /// The session that a host or a program called so.
    Session(String),
}

/// What one task or one session changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRun {
    /// Which.
    pub source: RunSource,
    /// Who it was.
    pub actor: Actor,
    /// The program that called, as it named itself.
    pub client: Option<String>,
    /// The model that asked for the last of the changes, if one did and said so.
    pub model: Option<String>,
    /// When the first change was made.
    pub started_at: Timestamp,
    /// When the last one was.
    pub ended_at: Timestamp,
    /// The changes, newest first.
    pub changes: Vec<ChangeId>,
    /// The memories in them.
    pub memories: BTreeSet<MemoryPath>,
}

/// Runs, the one that changed something last first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPage {
    /// The runs. One that goes on in changes of the next page is on that page too, with those.
    pub runs: Vec<HistoryRun>,
    /// The next page begins before this change; `None` on the last.
    pub next: Option<ChangeId>,
}

/// Returns the runs among the changes before this one, about `max` of them.
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
    /// Counts a change that is older than all before it.
    fn add(&mut self, change: &MemoryChange, memories: &Memories) {
        let said = &change.provenance;
        let of = match (&said.task, &said.session) {
            (Some(task), _) => RunSource::Task(task.clone()),
            (None, Some(session)) => RunSource::Session(session.clone()),
            (None, None) => return,
        };
        let same = |run: &HistoryRun| run.source == of && run.client == said.client;
        let at = self.runs.iter().position(same).unwrap_or_else(|| {
            self.runs.push(HistoryRun {
                source: of.clone(),
                actor: said.actor,
                client: said.client.clone(),
                model: said.model.clone(),
                started_at: change.at,
                ended_at: change.at,
                changes: Vec::new(),
                memories: BTreeSet::new(),
            });
            self.runs.len() - 1
        });
        let run = &mut self.runs[at];
        run.started_at = change.at;
        run.changes.push(change.id);
        for file in &change.files {
            let path = file.moved_to.as_ref().unwrap_or(&file.path);
            run.memories.extend(memories.virtual_path(&file.root, path));
        }
    }
}
