//! From the public wire to the engine's values.

use engine::feed::ContextWrite;
use engine::{ContextMode, ContextScope, ForgetRequest, Order, RememberRequest, Request, TaskKind};
use memory::path::{Layout, Mount, Scope};
use protocol::error::ErrorCode;
use protocol::{context_files, memories, task};
use serde_json::{Map, Value};

const fn scope(scope: task::TargetScope) -> Scope {
    match scope {
        task::TargetScope::Project => Scope::Project,
        task::TargetScope::User => Scope::Global,
    }
}

/// Returns the kind of a task.
pub(crate) const fn task_kind(kind: task::TaskKind) -> TaskKind {
    match kind {
        task::TaskKind::Remember => TaskKind::Remember,
        task::TaskKind::Forget => TaskKind::Forget,
        task::TaskKind::Dream => TaskKind::Dream,
    }
}

/// Reads what a task of this kind is asked to do.
pub(crate) fn request(
    kind: task::TaskKind,
    fields: &Map<String, Value>,
) -> Result<Request, ErrorCode> {
    Ok(match kind {
        task::TaskKind::Remember => {
            let asked = task::RememberRequest::read(fields)?;
            Request::Remember(RememberRequest {
                content: asked.content,
                context_mode: match asked.context_mode {
                    None | Some(task::ContextMode::Workspace) => ContextMode::Workspace,
                    Some(task::ContextMode::Clean) => ContextMode::Clean,
                },
                scope: asked.scope.map(scope),
            })
        }
        task::TaskKind::Forget => {
            let asked = task::ForgetRequest::read(fields)?;
            Request::Forget(ForgetRequest { query: asked.query, scope: asked.scope.map(scope) })
        }
        task::TaskKind::Dream => Request::Dream,
    })
}

/// Returns whose a context file is.
pub(crate) const fn context_scope(scope: context_files::ContextScope) -> ContextScope {
    match scope {
        context_files::ContextScope::Global => ContextScope::Global,
        context_files::ContextScope::Workspace => ContextScope::Project,
    }
}

/// Returns what is done to a context file.
pub(crate) const fn context_write(mode: context_files::WriteMode) -> ContextWrite {
    match mode {
        context_files::WriteMode::Append => ContextWrite::Append,
        context_files::WriteMode::Replace => ContextWrite::Replace,
    }
}

/// Reads the name of a scope, or of the one root of a flat layout.
pub(crate) fn mount(word: &str, layout: Layout) -> Option<Mount> {
    match layout {
        Layout::Scoped => {
            Scope::ALL.into_iter().find(|scope| scope.as_str() == word).map(Mount::Scope)
        }
        Layout::Flat => (word == "flat").then_some(Mount::Flat),
    }
}

/// Returns the order in which memories are listed.
pub(crate) const fn order(sort: memories::Sort) -> Order {
    match sort {
        memories::Sort::Path => Order::Path,
        memories::Sort::Modified => Order::Modified,
        memories::Sort::Uses => Order::Uses,
        memories::Sort::Bytes => Order::Bytes,
    }
}

/// Returns how far a task is.
pub(crate) const fn status(status: task::TaskStatus) -> engine::Status {
    match status {
        task::TaskStatus::Queued => engine::Status::Queued,
        task::TaskStatus::Running => engine::Status::Running,
        task::TaskStatus::Completed => engine::Status::Completed,
        task::TaskStatus::Failed => engine::Status::Failed,
    }
}
