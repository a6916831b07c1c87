//! Conversion of the public wire's values to those of the engine.
//!
//! Bounds of input that the wire's types do not express, such as the number of paths, are checked here.

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

/// Converts the kind of a task.
pub(crate) const fn task_kind(kind: task::TaskKind) -> TaskKind {
    match kind {
        task::TaskKind::Remember => TaskKind::Remember,
        task::TaskKind::Forget => TaskKind::Forget,
        task::TaskKind::Dream => TaskKind::Dream,
    }
}

/// Parses the request of a task of this kind.
pub(crate) fn request(
    kind: task::TaskKind,
    fields: &Map<String, Value>,
) -> Result<CuratorRequest, ErrorCode> {
    Ok(match kind {
        task::TaskKind::Remember => {
            let request = task::RememberRequest::read(fields)?;
            CuratorRequest::Remember(RememberRequest {
                content: request.content,
                context_mode: request.context_mode.map_or(ContextMode::Workspace, Twin::twin),
                scope: request.scope.map(scope),
            })
        }
        task::TaskKind::Forget => {
            let request = task::ForgetRequest::read(fields)?;
            CuratorRequest::Forget(ForgetRequest {
                query: request.query,
                scope: request.scope.map(scope),
                file: request.file_path.map(|path| file(&path)).transpose()?,
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

/// Converts the scope of a context file.
pub(crate) const fn context_scope(scope: context_files::ContextScope) -> ContextScope {
    match scope {
        context_files::ContextScope::Global => ContextScope::Global,
        context_files::ContextScope::Workspace => ContextScope::Project,
    }
}

/// The most folders, and the most files, of one request.
const PATHS_MAX: usize = 64;

/// Checks the options for loading context files. The error is a message for the caller.
///
/// Only Markdown files can be named: the token of a daemon must not give access to every file of this user.
pub(crate) fn load_options(options: &context_files::LoadOptions) -> Result<LoadOptions, String> {
    let paths = |field: &str, paths: &[String], rule: &str, is_valid: fn(&Path) -> bool| {
        if paths.len() > PATHS_MAX {
            return Err(format!("`{field}` has more than {PATHS_MAX} paths"));
        }
        let paths = paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        match paths.iter().find(|path| !path.is_absolute() || !is_valid(path)) {
            None => Ok(paths),
            Some(path) => Err(format!("`{field}` has `{}`; {rule}", path.display())),
        }
    };
    let is_markdown =
        |path: &Path| path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("md"));
    Ok(LoadOptions {
        included: paths(
            "includeFolders",
            &options.include_folders,
            "a folder has an absolute path",
            |_| true,
        )?,
        files: paths(
            "extensionFiles",
            &options.extension_files,
            "a file has an absolute path that ends with `.md`",
            is_markdown,
        )?,
        trusted: options.folder_trust,
        imports: options.import_format.map(Twin::twin),
    })
}

/// Parses the name of a scope, or of the single root of a flat layout.
pub(crate) fn mount(word: &str, layout: Layout) -> Option<Mount> {
    Mount::from_word(word).filter(|mount| (*mount == Mount::Flat) == (layout == Layout::Flat))
}
