//! Import from the auto memory of Qwen Code: `~/.qwen/memories/`,
//! `~/.qwen/projects/<project>/memory/`, and `.qwen/memory/` or `.qwen/team-memory/` of a checkout.
//!
//! The source has topic files of the types user, feedback, project and reference, possibly in
//! folders of those names, and an index that its curator writes. Bookkeeping files of the curator
//! are skipped.

use std::ffi::OsStr;
use std::path::Path;

use super::planner::Planner;
use super::{SourceFile, indexed};

/// Files of the curator beside a memory folder.
const BOOKKEEPING: [&str; 3] = ["meta.json", "extract-cursor.json", "consolidation.lock"];

/// Text of a topic file before its first entry.
const PLACEHOLDER: &str = "_No entries yet._";

/// Checks whether a part of the source is specific to Qwen Code.
pub(super) fn is_source(from: &Path, files: &[SourceFile]) -> bool {
    let is_qwen = |part: &str| matches!(part, ".qwen" | "memories" | "team-memory");
    let is_at_home = || {
        from.components().any(|part| part.as_os_str() == ".qwen")
            || from.file_name().and_then(OsStr::to_str).is_some_and(is_qwen)
    };
    let has_own = |file: &SourceFile| {
        let folders = file.path.strip_suffix(file.name()).unwrap_or_default();
        folders.split('/').any(is_qwen) || file.name() == "extract-cursor.json"
    };
    indexed::has_index(files) && (is_at_home() || files.iter().any(has_own))
}

/// Plans the topic files, and the text of the index beyond links to them.
pub(super) fn plan(files: Vec<SourceFile>, planner: &mut Planner) {
    let (bookkeeping, files): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|file| BOOKKEEPING.contains(&file.name()));
    for file in bookkeeping {
        planner.skip(&file.path, "is bookkeeping of Qwen Code");
    }
    indexed::plan(&files, is_placeholder, planner);
}

/// Checks whether a topic file contains only the placeholder for an empty one.
fn is_placeholder(text: &str) -> bool {
    let body = memory::document::body(text);
    body.contains(PLACEHOLDER)
        && body
            .lines()
            .map(str::trim)
            .all(|line| line.is_empty() || line.starts_with('#') || line == PLACEHOLDER)
}
