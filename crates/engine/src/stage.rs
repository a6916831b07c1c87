//! Drafts of edits that no curator of this process decided: attempts at tasks that another process commits, planned
//! imports, deletions with a precondition.
//!
//! Nothing is believed about edits from outside: each says which text it builds on, and goes through the same checks as
//! any other. Nothing here queues or publishes.

use std::collections::HashSet;

use memory::change::{ChangeId, ChangeKind};
use memory::command::{CommandError, MemoryCommand, Reply};
use memory::document::Revision;
use memory::error_code::MemoryErrorCode;
use memory::limits::OUTSIDE_RACE_RETRIES;
use memory::path::{Layout, MemoryPath, Mount, RelativePath};
use store::{CallContext, Draft, DraftEdit, Memories, Precondition, StoreError, Unreviewed};

use crate::import::PlannedMemory;
use crate::runner::RunError;
use crate::task::{CuratorRequest, TaskError, TaskErrorCode, TaskKind, TaskResult};

/// What an attempt came to that is not committed here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedAttempt {
    /// What it would report.
    pub result: TaskResult,
    /// What it would change.
    pub edits: Vec<DraftEdit>,
    /// The model that decided on it, if one did.
    pub model: Option<String>,
    /// What the edits go back to, if that is said.
    pub reason: Option<String>,
}

/// An edit as somebody outside names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedEdit {
    /// The memory, by its virtual path. Nothing is known of it.
    pub path: String,
    /// The revision of the text that it builds on; `None` if nothing was there.
    pub base: Option<Revision>,
    /// The text that it is to have; `None` if it is to go.
    pub text: Option<String>,
}

/// Enters edits that were decided on elsewhere, each if the memory is still as whoever decided knew it. Returns the
/// memories, in the order of the edits. If one cannot be entered, nothing of the draft may be committed.
pub async fn apply_staged_edits(
    (memories, draft): (&Memories, &mut Draft),
    request: &CuratorRequest,
    edits: &[StagedEdit],
) -> Result<Vec<MemoryPath>, RunError> {
    let kind = request.kind();
    let pinned = pinned_memories(memories, kind, edits).await?;
    let by_reviews = memories_by_reviews(memories, kind).await?;
    let mut paths = Vec::with_capacity(edits.len());
    let mut seen = HashSet::new();
    for StagedEdit { path: named, base, text } in edits {
        let path =
            parse_memory_path(named, memories.layout()).ok_or_else(|| path_escape_error(kind))?;
        check_allowed(request, &path, (base.is_some(), text.is_some()))?;
        if pinned.contains(&path) && (text.is_none() || kind == TaskKind::Forget) {
            return Err(refused_error(
                TaskErrorCode::failed(kind),
                "an edit would remove what is pinned",
            ));
        }
        if kind == TaskKind::Review && base.is_some() && !by_reviews.contains(&path) {
            let why = "an edit would change a memory that no review wrote";
            return Err(refused_error(TaskErrorCode::failed(kind), why));
        }
        if !seen.insert(path.clone()) || (base.is_none() && text.is_none()) {
            return Err(contradiction_error(kind));
        }
        let refused = |error| RunError::from_store(kind, &error);
        let there = draft.text_of(&path).await.map_err(refused)?;
        if there.map(|text| Revision::digest(text.as_bytes())) != *base {
            return Err(RunError::Conflict);
        }
        if let Some(text) = text {
            draft.set_text(&path, text).await.map_err(refused)?;
        } else {
            let delete = MemoryCommand::Delete { path: path.clone() };
            if let Reply::Refused(refusal) = draft.apply(delete).await.map_err(refused)? {
                return Err(RunError::from_store(kind, &refusal.into()));
            }
        }
        paths.push(path);
    }
    Ok(paths)
}

/// Reads the path of a memory; `None` for whatever is none.
pub fn parse_memory_path(named: &str, layout: Layout) -> Option<MemoryPath> {
    MemoryPath::parse(named, layout).ok().filter(|path| path.relative().is_some())
}

/// Returns why an edit that names something outside of the memories ends a task.
pub fn path_escape_error(kind: TaskKind) -> RunError {
    let code = match kind {
        TaskKind::Remember => TaskErrorCode::RememberPathEscape,
        TaskKind::Forget | TaskKind::Dream | TaskKind::Review => TaskErrorCode::failed(kind),
    };
    refused_error(code, "an edit names a path outside of the memories")
}

fn contradiction_error(kind: TaskKind) -> RunError {
    refused_error(TaskErrorCode::failed(kind), "the edits contradict each other")
}

fn refused_error(code: TaskErrorCode, why: &str) -> RunError {
    TaskError::new(code).with_details(why).into()
}

/// Returns the memories that are pinned, if that matters for some of the edits: what is pinned is never deleted by an
/// agent, and nothing of it is forgotten.
async fn pinned_memories(
    memories: &Memories,
    kind: TaskKind,
    edits: &[StagedEdit],
) -> Result<HashSet<MemoryPath>, RunError> {
    let may_remove = |edit: &StagedEdit| edit.text.is_none() || kind == TaskKind::Forget;
    if !edits.iter().any(may_remove) {
        return Ok(HashSet::new());
    }
    let surveyed =
        memories.scan_roots().await.map_err(|error| RunError::from_store(kind, &error))?;
    Ok(surveyed.into_iter().filter(|one| one.pinned).map(|one| one.path).collect())
}

/// Returns the memories that reviews wrote and that wait for a person, which are all that a review may change.
async fn memories_by_reviews(
    memories: &Memories,
    kind: TaskKind,
) -> Result<HashSet<MemoryPath>, RunError> {
    if kind != TaskKind::Review {
        return Ok(HashSet::new());
    }
    let waiting =
        memories.pending_reviews().await.map_err(|error| RunError::from_store(kind, &error))?;
    let by_review = waiting.into_iter().filter(|one| one.reason == Unreviewed::Background);
    Ok(by_review.map(|one| one.path).collect())
}

/// Checks that an edit is of a kind that the request asks for: where it may write, and whether memories may come or go.
fn check_allowed(
    request: &CuratorRequest,
    path: &MemoryPath,
    (was_there, is_kept): (bool, bool),
) -> Result<(), RunError> {
    let (kind, scope) = match request {
        CuratorRequest::Remember(asked) => (TaskKind::Remember, asked.scope),
        CuratorRequest::Forget(asked) => (TaskKind::Forget, asked.scope),
        CuratorRequest::Dream => (TaskKind::Dream, None),
        CuratorRequest::Review(_) => (TaskKind::Review, None),
    };
    let is_elsewhere = match (scope, path.mount()) {
        (Some(wanted), Some(Mount::Scope(scope))) => scope != wanted,
        _ => false,
    };
    let failed = TaskErrorCode::failed(kind);
    if is_elsewhere {
        let code =
            if kind == TaskKind::Remember { TaskErrorCode::RememberScopeMismatch } else { failed };
        return Err(refused_error(code, "an edit is in another scope than was asked for"));
    }
    match kind {
        TaskKind::Remember if !is_kept => {
            Err(refused_error(failed, "an edit would remove a memory"))
        }
        TaskKind::Forget if !was_there && is_kept => {
            Err(refused_error(failed, "an edit would add a memory"))
        }
        _ => Ok(()),
    }
}

/// Why a memory that was planned is not made.
#[derive(Debug, thiserror::Error)]
pub enum ImportRejection {
    /// Its path cannot be one here.
    #[error("{0}")]
    Path(String),
    /// The very same text is there.
    #[error("it is there already")]
    AlreadyExists,
    /// Something else is there.
    #[error("{0} is there with another text")]
    DifferentText(MemoryPath),
    /// It is refused.
    #[error("{0}")]
    Refused(CommandError),
    /// The memories cannot be read or written: no other memory can be entered either.
    #[error(transparent)]
    Store(StoreError),
}

impl From<StoreError> for ImportRejection {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Refused(refusal) => Self::Refused(refusal),
            fault => Self::Store(fault),
        }
    }
}

/// Puts one memory below `target` into the draft; returns where it will be.
pub async fn import_memory(
    memories: &Memories,
    draft: &mut Draft,
    target: &MemoryPath,
    planned: PlannedMemory,
) -> Result<MemoryPath, ImportRejection> {
    let path = join_below(target, &planned.path).map_err(ImportRejection::Path)?;
    match memories.read(&path).await {
        Ok(there) if there.text == planned.text => return Err(ImportRejection::AlreadyExists),
        Ok(_) => return Err(ImportRejection::DifferentText(path)),
        Err(error) if error.code() == MemoryErrorCode::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    let command = MemoryCommand::Create { path: path.clone(), file_text: planned.text };
    match draft.apply(command).await? {
        Reply::Done { .. } => Ok(path),
        Reply::Refused(refusal) => Err(ImportRejection::Refused(refusal)),
    }
}

fn join_below(target: &MemoryPath, relative: &str) -> Result<MemoryPath, String> {
    let relative = RelativePath::parse(relative).map_err(|error| error.to_string())?;
    let mut path = target.clone();
    for segment in relative.segments() {
        path = path.join(segment).map_err(|error| error.to_string())?;
    }
    Ok(path)
}

/// Deletes a memory if it is as expected; otherwise refuses with [`CommandError::Conflict`], which carries the
/// current revision, and changes nothing.
pub async fn delete_if(
    memories: &Memories,
    path: &MemoryPath,
    expected: &Precondition,
    call: CallContext,
) -> Result<Option<ChangeId>, StoreError> {
    for _ in 0..OUTSIDE_RACE_RETRIES {
        let mut draft = memories.draft(ChangeKind::Delete, call.clone());
        let current = draft.text_of(path).await?.map(|text| Revision::digest(text.as_bytes()));
        if !expected.allows(current) {
            return Err(CommandError::Conflict { path: path.clone(), current }.into());
        }
        if let Reply::Refused(refusal) =
            draft.apply(MemoryCommand::Delete { path: path.clone() }).await?
        {
            return Err(refusal.into());
        }
        match draft.commit().await {
            // The draft commits only what is still as it was read, and what is there now may be expected too.
            Err(StoreError::Refused(CommandError::Conflict { .. })) => {}
            committed => return committed,
        }
    }
    Err(CommandError::Conflict { path: path.clone(), current: None }.into())
}
