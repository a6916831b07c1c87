//! A tree of Markdown or text files, as people and most tools keep notes.

use super::planner::Planner;
use super::{NoText, SourceFile};

/// Plans every text file of the tree under its own path.
pub(super) fn plan(files: Vec<SourceFile>, planner: &mut Planner) {
    for file in files {
        match text_of(&file, &file.path) {
            Ok(text) => planner.add(&file.path, text, &file.path),
            Err(none) => planner.leave(&file.path, &none),
        }
    }
}

/// The text of a file that may be a memory; `below` is its path below the folder that counts.
pub(super) fn text_of<'a>(file: &'a SourceFile, below: &str) -> Result<&'a str, NoText> {
    if below.split('/').any(|part| part.starts_with('.') && !matches!(part, "." | "..")) {
        return Err(NoText::harmless("is hidden"));
    }
    if !matches!(&*file.extension(), "md" | "markdown" | "txt") {
        return Err(NoText::harmless("is not Markdown"));
    }
    file.text()
}
