//! From the public wire to the engine's values.

use std::path::{Path, PathBuf};

use engine::{
    ContextMode, ContextScope, CuratorRequest, ForgetRequest, LoadOptions, RememberRequest,
    TaskKind,
};
use memory::path::{Layout, MemoryPath, Mount, Scope};
use protocol::error::ErrorCode;
use protocol::{context_files, task};
use serde_json::{Map, Value};

use crate::twins::Twin;

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
) -> Result<CuratorRequest, ErrorCode> {
    Ok(match kind {
        task::TaskKind::Remember => {
            let asked = task::RememberRequest::read(fields)?;
            CuratorRequest::Remember(RememberRequest {
                content: asked.content,
                context_mode: asked.context_mode.map_or(ContextMode::Workspace, Twin::twin),
                scope: asked.scope.map(scope),
            })
        }
        task::TaskKind::Forget => {
            let asked = task::ForgetRequest::read(fields)?;
            CuratorRequest::Forget(ForgetRequest {
                query: asked.query,
                scope: asked.scope.map(scope),
                file: asked.file_path.map(|path| file(&path)).transpose()?,
            })
        }
        task::TaskKind::Dream => CuratorRequest::Dream,
    })
}

fn file(path: &str) -> Result<MemoryPath, ErrorCode> {
    let parsed = [Layout::Scoped, Layout::Flat].into_iter().find_map(|layout| {
        MemoryPath::parse(path, layout).ok().filter(|path| path.relative().is_some())
    });
    parsed.ok_or(ErrorCode::InvalidPath)
}

/// Returns whose a context file is.
pub(crate) const fn context_scope(scope: context_files::ContextScope) -> ContextScope {
    match scope {
        context_files::ContextScope::Global => ContextScope::Global,
        context_files::ContextScope::Workspace => ContextScope::Project,
    }
}

/// The most folders, and the most files, that one call may name.
const PATHS_MAX: usize = 64;

/// Reads what context files are loaded with. A sentence says what is wrong.
///
/// Only Markdown files can be named: the token of a daemon must not open every file of this person.
pub(crate) fn load_options(asked: &context_files::LoadOptions) -> Result<LoadOptions, String> {
    let paths = |field: &str, paths: &[String], wanted: &str, is_fit: fn(&Path) -> bool| {
        if paths.len() > PATHS_MAX {
            return Err(format!("`{field}` has more than {PATHS_MAX} paths"));
        }
        let paths = paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        match paths.iter().find(|path| !path.is_absolute() || !is_fit(path)) {
            None => Ok(paths),
            Some(path) => Err(format!("`{field}` has `{}`; {wanted}", path.display())),
        }
    };
    let is_markdown =
        |path: &Path| path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("md"));
    Ok(LoadOptions {
        included: paths(
            "includeFolders",
            &asked.include_folders,
            "a folder has an absolute path",
            |_| true,
        )?,
        files: paths(
            "extensionFiles",
            &asked.extension_files,
            "a file has an absolute path that ends with `.md`",
            is_markdown,
        )?,
        trusted: asked.folder_trust,
        imports: asked.import_format.map(Twin::twin),
    })
}

/// Reads the name of a scope, or of the one root of a flat layout.
pub(crate) fn mount(word: &str, layout: Layout) -> Option<Mount> {
    match layout {
        Layout::Scoped => word.parse().ok().map(Mount::Scope),
        Layout::Flat => (word == "flat").then_some(Mount::Flat),
    }
}
