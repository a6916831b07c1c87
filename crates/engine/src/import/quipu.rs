//! The memories of Quipu, the earlier name of this product.
//!
//! A Quipu home has the layout of a Lukasa home under other names: `memory/` for the global memories,
//! `projects/<project>/memory/`, `state/workspaces/<workspace>/memory/`, and `state/quipu.db` for pins, usage and
//! history. A checkout has `.quipu/memory/`. The caller passes the files of one such folder at a
//! time. Every file there is a memory, whatever its extension, since Quipu had the same rules for paths.

use super::planner::Planner;
use super::{NoText, SourceFile};

#[cfg(test)]
mod tests;

/// Name of the index that Quipu generated in its folders.
const LIST_NAME: &str = "MEMORY.md";

/// First line of the index that Quipu generated in its folders.
const LIST_MARK: &str =
    "<!-- Written by Quipu from the memories in this folder. Changes made here are lost. -->";

/// Plans the files of one folder of memories.
pub(super) fn plan(files: &[SourceFile], planner: &mut Planner) {
    for file in files {
        match text_of(file) {
            Ok(text) if file.path == LIST_NAME && is_list(text) => {
                planner.skip(&file.path, "is a listing that Quipu wrote by itself");
            }
            Ok(text) => planner.add(&file.path, text, &file.path),
            Err(none) => planner.report_no_text(&file.path, &none),
        }
    }
}

fn text_of(file: &SourceFile) -> Result<&str, NoText> {
    if file.path.split('/').any(|part| part.starts_with('.')) {
        return Err(NoText::harmless("is hidden"));
    }
    file.text()
}

fn is_list(text: &str) -> bool {
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    text.lines().next() == Some(LIST_MARK)
}
