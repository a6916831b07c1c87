//! The auto memory of Claude Code: `~/.claude/projects/<project>/memory/`.
//!
//! One fact or topic a file, with `name`, `description` and a type in the frontmatter, at the top
//! or below `metadata`; Quipu reads both, so nothing is rewritten. `MEMORY.md` has one line a file,
//! and in older folders facts of its own. Given the folder of one project or several of them.

use super::planner::Planner;
use super::{SourceFile, folder, indexed};

/// Plans the topic files, and what the index says beyond linking to them.
pub(super) fn plan(files: Vec<SourceFile>, planner: &mut Planner) {
    if indexed::has_index(&files) {
        indexed::plan(&files, |_| false, planner);
    } else {
        // Claude Code writes the index last; without one every file is still a memory.
        folder::plan(files, planner);
    }
}
