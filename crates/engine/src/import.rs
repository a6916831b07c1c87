//! Plans an import from another tool: turns the files of a source into memories to create.
//!
//! Pure: the caller reads the source, and creates the planned memories through the store, which screens them like any
//! write. Texts stay byte for byte, frontmatter included. A text is changed only if Lukasa could not read or store it
//! otherwise; a note then says so. Each skipped file is listed with the reason.

mod indexed;
mod planner;
mod quipu;
mod qwen;
mod server_memory;
mod slug;
mod split;

#[cfg(test)]
mod tests;

use std::path::Path;

use self::planner::Planner;

/// One file of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Path below the imported folder, with `/` between the parts.
    pub path: String,
    /// Contents of the file.
    pub bytes: Vec<u8>,
}

/// The layout of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Any tree of Markdown or text files; also what Lukasa exports.
    Folder,
    /// The auto memory of Claude Code: topic files beside a `MEMORY.md` that links to them.
    ClaudeCode,
    /// The auto memory of Qwen Code: the same, with the bookkeeping of its own curator.
    Qwen,
    /// Memories of Quipu, the earlier name of this product: one folder of them.
    Quipu,
    /// The knowledge graph of the MCP reference memory server: one JSON object a line.
    ServerMemory,
}

/// One memory to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedMemory {
    /// Path below the target root. Valid for a memory, and unique in the plan.
    pub path: String,
    /// Text of the memory, within the size limit of a memory.
    pub text: String,
    /// The file that it comes from, with the line where that helps.
    pub source: String,
    /// Changes made by the import, one sentence each; empty when path and text are unchanged.
    pub notes: Vec<String>,
}

/// A part of the source that is not imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedSource {
    /// The file, with the line where that helps.
    pub source: String,
    /// The reason, as the end of a sentence about the source.
    pub reason: String,
    /// Whether it contains, or may contain, a fact that the user wanted to keep.
    pub is_loss: bool,
}

/// The plan of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportPlan {
    /// The memories to create, in the order of the source paths.
    pub memories: Vec<PlannedMemory>,
    /// The skipped parts, in the order of the source paths.
    pub skipped: Vec<SkippedSource>,
}

impl Format {
    /// Recognizes the format of a source by its files and by `from`, the path that they were read from;
    /// what is nothing else is a [`Format::Folder`]. It never returns [`Format::Quipu`]: what tells a Quipu home lies
    /// outside of its folders of memories, so the caller looks for it before it reads any.
    pub fn detect(from: &Path, files: &[SourceFile]) -> Self {
        if qwen::is_source(from, files) {
            Self::Qwen
        } else if indexed::has_index(files) {
            Self::ClaudeCode
        } else if server_memory::is_source(files) {
            Self::ServerMemory
        } else {
            Self::Folder
        }
    }
}

/// Works out what to create from the files of a source. The order of the files does not matter.
pub fn plan(format: Format, mut files: Vec<SourceFile>) -> ImportPlan {
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let mut planner = Planner::default();
    match format {
        Format::Folder => planner.add_tree(&files),
        Format::ClaudeCode => indexed::plan(&files, |_| false, &mut planner),
        Format::Quipu => quipu::plan(&files, &mut planner),
        Format::Qwen => qwen::plan(files, &mut planner),
        Format::ServerMemory => server_memory::plan(&files, &mut planner),
    }
    planner.into_plan()
}

/// The reason why a file has no text for a memory.
struct NoText {
    reason: &'static str,
    is_loss: bool,
}

impl NoText {
    const fn harmless(why: &'static str) -> Self {
        Self { reason: why, is_loss: false }
    }

    const fn loss(why: &'static str) -> Self {
        Self { reason: why, is_loss: true }
    }
}

impl SourceFile {
    /// Returns the last part of the path.
    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Returns the part of the name after the last dot, in lower case.
    fn extension(&self) -> String {
        self.name().rsplit_once('.').map_or_else(String::new, |(_, end)| end.to_lowercase())
    }

    /// Returns the text of a file that may be a memory; `below` is its path below the source's
    /// folder.
    fn text_below(&self, below: &str) -> Result<&str, NoText> {
        if below.split('/').any(|part| part.starts_with('.') && !matches!(part, "." | "..")) {
            return Err(NoText::harmless("is hidden"));
        }
        if !matches!(&*self.extension(), "md" | "markdown" | "txt") {
            return Err(NoText::harmless("is not Markdown"));
        }
        self.text()
    }

    /// Returns the contents, if they are text that a memory may hold.
    fn text(&self) -> Result<&str, NoText> {
        match str::from_utf8(&self.bytes) {
            Ok(text) if text.contains('\0') => {
                Err(NoText::loss("holds NUL bytes, so it is not text"))
            }
            Ok(text) if text.trim().is_empty() => Err(NoText::harmless("is empty")),
            Ok(text) => Ok(text),
            Err(_) => Err(NoText::loss("is not UTF-8 text")),
        }
    }
}
