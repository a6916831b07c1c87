//! Drafts of edits that were not decided by a curator of this process: attempts at tasks that
//! another process commits, planned imports, deletions with a precondition.
//!
//! Edits from outside are not trusted. Each names the revision that it builds on, and passes the
//! same checks as any other. Nothing here queues or publishes.

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

/// The result of an attempt that is committed by another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedAttempt {
    /// The result to report once it is committed.
    pub result: TaskResult,
    /// The changes to commit.
    pub edits: Vec<DraftEdit>,
    /// The model that decided them, if any.
    pub model: Option<String>,
    /// The stated reason for the edits, if any.
    pub reason: Option<String>,
}

/// An edit decided outside of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedEdit {
    /// The virtual path of the memory, as received and not yet parsed.
    pub path: String,
    /// The revision of the text that it builds on; `None` if the memory must not exist.
    pub base: Option<Revision>,
    /// The new text; `None` to delete the memory.
    pub text: Option<String>,
}

/// Applies edits that were decided elsewhere to a draft, each only if the memory still has the
/// revision that the edit builds on. Returns the memories, in the order of the edits. After an
/// error, the draft must not be committed.
pub async fn apply_staged_edits(
    (memories, draft): (&Memories, &mut Draft),
    request: &CuratorRequest,
    edits: &[StagedEdit],
) -> Result<Vec<MemoryPath>, RunError> {
    let kind = request.kind();
    let pinned = pinned_memories(memories, kind, edits).await?;
    let by_reviews = memories_by_reviews(memories, kind).await?;
    let mut paths = Vec::with_capacity(edits.len());
    let mut edited = HashSet::new();
    for StagedEdit { path: raw_path, base, text } in edits {
        let path = parse_memory_path(raw_path, memories.layout())
            .ok_or_else(|| path_escape_error(kind))?;
        check_allowed(request, &path, (base.is_some(), text.is_some()))?;
        if pinned.contains(&path) && (text.is_none() || kind == TaskKind::Forget) {
            return Err(refused_error(
                TaskErrorCode::failed(kind),
                "an edit would remove text of a pinned memory",
            ));
        }
        if kind == TaskKind::Review && base.is_some() && !by_reviews.contains(&path) {
            let why = "an edit would change a memory that no review wrote";
            return Err(refused_error(TaskErrorCode::failed(kind), why));
        }
        if !edited.insert(path.clone()) || (base.is_none() && text.is_none()) {
            return Err(contradiction_error(kind));
        }
        let refused = |error| RunError::from_store(kind, &error);
        let current = draft.text_of(&path).await.map_err(refused)?;
        if current.map(|text| Revision::digest(text.as_bytes())) != *base {
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

/// Parses the path of a memory; `None` if it is not one.
pub fn parse_memory_path(text: &str, layout: Layout) -> Option<MemoryPath> {
    MemoryPath::parse(text, layout).ok().filter(|path| path.relative().is_some())
}

/// Returns the error for an edit of a path outside of the memories.
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

/// Returns the pinned memories, if any edit could remove text: an agent never deletes a pinned
/// memory, nor forgets entries of it.
async fn pinned_memories(
    memories: &Memories,
    kind: TaskKind,
    edits: &[StagedEdit],
) -> Result<HashSet<MemoryPath>, RunError> {
    let may_remove = |edit: &StagedEdit| edit.text.is_none() || kind == TaskKind::Forget;
    if !edits.iter().any(may_remove) {
        return Ok(HashSet::new());
    }
    let entries =
        memories.scan_roots().await.map_err(|error| RunError::from_store(kind, &error))?;
    Ok(entries.into_iter().filter(|entry| entry.pinned).map(|entry| entry.path).collect())
}

/// Returns the memories that reviews wrote and that wait for the user's decision. A review may
/// change only these.
async fn memories_by_reviews(
    memories: &Memories,
    kind: TaskKind,
) -> Result<HashSet<MemoryPath>, RunError> {
    if kind != TaskKind::Review {
        return Ok(HashSet::new());
    }
    let pending =
        memories.pending_reviews().await.map_err(|error| RunError::from_store(kind, &error))?;
    let by_review = pending.into_iter().filter(|memory| memory.reason == Unreviewed::Background);
    Ok(by_review.map(|memory| memory.path).collect())
}

/// Checks that the request permits an edit: its scope, and whether it may add or remove a memory.
fn check_allowed(
    request: &CuratorRequest,
    path: &MemoryPath,
    (was_there, is_kept): (bool, bool),
) -> Result<(), RunError> {
    let (kind, scope) = match request {
        CuratorRequest::Remember(request) => (TaskKind::Remember, request.scope),
        CuratorRequest::Forget(request) => (TaskKind::Forget, request.scope),
        CuratorRequest::Dream => (TaskKind::Dream, None),
        CuratorRequest::Review(_) => (TaskKind::Review, None),
    };
    let is_elsewhere = match (scope, path.mount()) {
        (Some(requested), Some(Mount::Scope(scope))) => scope != requested,
        _ => false,
    };
    let failed = TaskErrorCode::failed(kind);
    if is_elsewhere {
        let code =
            if kind == TaskKind::Remember { TaskErrorCode::RememberScopeMismatch } else { failed };
        return Err(refused_error(code, "an edit is in another scope than the requested one"));
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

/// The reason why a planned memory is not imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportRejection {
    /// The path is not valid here.
    #[error("{0}")]
    Path(String),
    /// A memory with the same text exists at the path.
    #[error("it exists already")]
    AlreadyExists(MemoryPath),
    /// A memory with another text exists at the path.
    #[error("{0} exists with another text")]
    DifferentText(MemoryPath),
    /// The write was refused.
    #[error("{0}")]
    Refused(CommandError),
    /// The memories cannot be read or written; importing others would fail too.
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

/// Adds one planned memory below `target` to the draft; returns its path.
pub async fn import_memory(
    memories: &Memories,
    draft: &mut Draft,
    target: &MemoryPath,
    planned: PlannedMemory,
) -> Result<MemoryPath, ImportRejection> {
    let path = join_below(target, &planned.path).map_err(ImportRejection::Path)?;
    match memories.read(&path).await {
        Ok(existing) if existing.text == planned.text => {
            return Err(ImportRejection::AlreadyExists(path));
        }
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

/// Deletes a memory if its revision is the expected one. Otherwise refuses with
/// [`CommandError::Conflict`], which carries the current revision, and changes nothing.
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
            // The file changed since the draft read it. The new revision may be an expected one
            // too, so try again.
            Err(StoreError::Refused(CommandError::Conflict { .. })) => {}
            committed => return committed,
        }
    }
    Err(CommandError::Conflict { path: path.clone(), current: None }.into())
}
