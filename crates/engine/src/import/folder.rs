//! A tree of Markdown or text files, as people and most tools keep notes.

use super::SourceFile;
use super::planner::Planner;

/// Plans every text file of the tree under its own path.
pub(super) fn plan(files: Vec<SourceFile>, planner: &mut Planner) {
    for file in files {
        match text_of(&file, &file.path) {
            Ok(text) => planner.add(&file.path, text, &file.path),
            Err(why) => planner.skip(&file.path, why),
        }
    }
}

/// The text of a file that may be a memory; `below` is its path below the folder that counts.
pub(super) fn text_of<'a>(file: &'a SourceFile, below: &str) -> Result<&'a str, &'static str> {
    if below.split('/').any(|part| part.starts_with('.') && !matches!(part, "." | "..")) {
        return Err("is hidden");
    }
    if !matches!(&*file.extension(), "md" | "markdown" | "txt") {
        return Err("is not Markdown");
    }
    file.text()
}
