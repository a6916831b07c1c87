//! Attempts at tasks that somebody else commits: what is decided here is handed over as data, and what was decided
//! elsewhere is entered into a draft as if it had been decided here.
//!
//! Whoever enters edits believes nothing about them: each says which text it builds on, and goes through the same
//! checks as any other. Nothing here queues, commits or publishes.

use std::collections::HashSet;

use memory::command::{Command, Reply};
use memory::document::Revision;
use memory::path::{Layout, MemoryPath, Mount};
use store::{Draft, DraftedEdit};

use crate::runner::RunError;
use crate::task::{Request, TaskError, TaskErrorCode, TaskKind, TaskResult};

/// What an attempt came to that is not committed here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staged {
    /// What it would report.
    pub result: TaskResult,
    /// What it would change.
    pub edits: Vec<DraftedEdit>,
    /// The model that decided on it, if one did.
    pub model: Option<String>,
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
pub async fn enter_staged(
    draft: &mut Draft,
    (request, layout): (&Request, Layout),
    edits: &[StagedEdit],
) -> Result<Vec<MemoryPath>, RunError> {
    let kind = request.kind();
    let mut paths = Vec::with_capacity(edits.len());
    let mut seen = HashSet::new();
    for StagedEdit { path: named, base, text } in edits {
        let path = inside(named, layout).ok_or_else(|| escape(kind))?;
        check_asked(request, &path, text.is_none())?;
        if !seen.insert(path.clone()) || (base.is_none() && text.is_none()) {
            return Err(malformed(kind));
        }
        let refused = |error| RunError::of(kind, &error);
        let there = draft.text_of(&path).await.map_err(refused)?;
        if there.map(|text| Revision::of(text.as_bytes())) != *base {
            return Err(RunError::Conflict);
        }
        if let Some(text) = text {
            draft.put(&path, text).await.map_err(refused)?;
        } else {
            let delete = Command::Delete { path: path.clone() };
            if let Reply::Refused(refusal) = draft.apply(delete).await.map_err(refused)? {
                return Err(RunError::of(kind, &refusal.into()));
            }
        }
        paths.push(path);
    }
    Ok(paths)
}

/// Reads the path of a memory; `None` for whatever is none.
pub fn inside(named: &str, layout: Layout) -> Option<MemoryPath> {
    MemoryPath::parse(named, layout).ok().filter(|path| path.relative().is_some())
}

/// Returns why an edit that names something outside of the memories ends a task.
pub fn escape(kind: TaskKind) -> RunError {
    let code = match kind {
        TaskKind::Remember => TaskErrorCode::RememberPathEscape,
        TaskKind::Forget | TaskKind::Dream => TaskErrorCode::failed(kind),
    };
    TaskError::new(code).with_details("an edit names a path outside of the memories").into()
}

fn malformed(kind: TaskKind) -> RunError {
    TaskError::new(TaskErrorCode::failed(kind))
        .with_details("the edits contradict each other")
        .into()
}

/// Checks that an edit is of a kind that the request asks for: where it may write, and whether memories may go.
fn check_asked(request: &Request, path: &MemoryPath, removes: bool) -> Result<(), RunError> {
    let (kind, scope) = match request {
        Request::Remember(asked) => (TaskKind::Remember, asked.scope),
        Request::Forget(asked) => (TaskKind::Forget, asked.scope),
        Request::Dream => (TaskKind::Dream, None),
    };
    let is_elsewhere = match (scope, path.mount()) {
        (Some(wanted), Some(Mount::Scope(scope))) => scope != wanted,
        _ => false,
    };
    if is_elsewhere {
        let code = match kind {
            TaskKind::Remember => TaskErrorCode::RememberScopeMismatch,
            TaskKind::Forget | TaskKind::Dream => TaskErrorCode::failed(kind),
        };
        let error = TaskError::new(code);
        return Err(error.with_details("an edit is in another scope than was asked for").into());
    }
    if removes && kind == TaskKind::Remember {
        let error = TaskError::new(TaskErrorCode::RememberFailed);
        return Err(error.with_details("an edit would remove a memory").into());
    }
    Ok(())
}
