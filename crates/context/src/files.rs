//! Context files as they are shown: each between borders that name it, with its imports in their places.
//!
//! Which files there are, and what their imports lead to, was found out before. Two budgets hold. Bytes: where
//! a tree of imports repeats itself, what goes over [`CONTEXT_BYTES_MAX`] fails and says so. Tokens: when all
//! files together are over [`CONTEXT_TOKENS_MAX`], each has an equal share, what short ones leave of theirs
//! goes to longer ones, and a file over its share is cut at the end of a line and says so. So no file pushes
//! another out.

use std::collections::HashSet;

use memory::context_file::{ImportResolution, ImportStyle, LoadedText, ResolvedImport};
use memory::limits::{CONTEXT_BYTES_MAX, CONTEXT_TOKENS_MAX, IMPORT_DEPTH_MAX};
use memory::text::slice;

use crate::{escape, tokens};

/// What stands where a file was cut.
const TRUNCATION_MARK: &str = "[cut here: over its share of the tokens]";

/// A file as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedFile {
    /// Which source it is.
    pub source: usize,
    /// Its bytes, with imports, and with its borders.
    pub bytes: usize,
    /// Its tokens.
    pub tokens: usize,
    /// Whether it was cut to its share of the tokens.
    pub is_cut: bool,
}

/// All context files as they are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RenderedFiles {
    /// The text; empty if there are none.
    pub text: String,
    /// The files, in the order of their load; those that say nothing are left out.
    pub files: Vec<RenderedFile>,
}

/// Returns the text of these files, in their order, each with its imports. A file that was written already, or is
/// one of these, is not written again where it is imported.
pub fn render(sources: &[LoadedText], files: &[usize], style: ImportStyle) -> RenderedFiles {
    let files = match style {
        ImportStyle::Tree => files.to_vec(),
        ImportStyle::Flat => with_imported(sources, files),
    };
    let mut bytes_left = CONTEXT_BYTES_MAX;
    let mut blocks = Vec::new();
    let roots: HashSet<usize> = files.iter().copied().collect();
    let mut written = roots.clone();
    for file in files {
        let room = FileBudget { tokens: usize::MAX, bytes: bytes_left };
        let Some(block) = FileBlock::render(sources, file, style, room, &written) else { continue };
        bytes_left = bytes_left.saturating_sub(block.text.len());
        written.extend(&block.imported);
        blocks.push(block);
    }
    let tokens: Vec<usize> = blocks.iter().map(|block| block.tokens).collect();
    let share = fair_share(&tokens, CONTEXT_TOKENS_MAX);
    let mut written = roots;
    for block in &mut blocks {
        let imported = std::mem::take(&mut block.imported);
        if block.tokens > share {
            let room = FileBudget { tokens: share, bytes: CONTEXT_BYTES_MAX };
            let cut = FileBlock::render(sources, block.source, style, room, &written);
            *block = cut.unwrap_or_else(|| std::mem::take(block));
        }
        written.extend(imported);
    }
    let shown = |block: &FileBlock| RenderedFile {
        source: block.source,
        bytes: block.text.len(),
        tokens: block.tokens,
        is_cut: block.is_cut,
    };
    let shown = blocks.iter().map(shown).collect();
    let texts: Vec<_> = blocks.into_iter().map(|block| block.text).collect();
    RenderedFiles { text: texts.join("\n"), files: shown }
}

/// Returns the files with all that they import right after them, each once.
fn with_imported(sources: &[LoadedText], files: &[usize]) -> Vec<usize> {
    let mut seen: HashSet<usize> = files.iter().copied().collect();
    let mut all = Vec::new();
    for &file in files {
        all.push(file);
        let mut waiting: Vec<(usize, usize)> = imported(sources, file, 0);
        while let Some((next, depth)) = waiting.pop() {
            if depth <= IMPORT_DEPTH_MAX && seen.insert(next) {
                all.push(next);
                waiting.extend(imported(sources, next, depth));
            }
        }
    }
    all
}

/// Returns what a file imports, the last first, and how deep that is.
fn imported(sources: &[LoadedText], file: usize, depth: usize) -> Vec<(usize, usize)> {
    let imports = sources.get(file).map_or(&[][..], |source| &source.imports);
    let target = |import: &ResolvedImport| match import.resolution {
        ImportResolution::Replaced(source) => Some((source, depth + 1)),
        ImportResolution::Failed(_) => None,
    };
    imports.iter().rev().filter_map(target).collect()
}

/// Returns how many tokens each may have so that all together keep to the most.
fn fair_share(tokens: &[usize], most: usize) -> usize {
    if tokens.iter().sum::<usize>() <= most {
        return usize::MAX;
    }
    let mut sorted = tokens.to_vec();
    sorted.sort_unstable();
    let (mut left, mut share) = (most, most);
    for (at, &size) in sorted.iter().enumerate() {
        share = left / (sorted.len() - at);
        if size > share {
            break;
        }
        left -= size;
    }
    share
}

/// One file between its borders.
#[derive(Default)]
struct FileBlock {
    source: usize,
    text: String,
    tokens: usize,
    is_cut: bool,
    /// The files that are written in it whole.
    imported: Vec<usize>,
}

/// How much may be written.
#[derive(Clone, Copy)]
struct FileBudget {
    tokens: usize,
    bytes: usize,
}

impl FileBlock {
    /// Returns the block of a file that keeps to the room; `None` if it says nothing. What was written elsewhere
    /// is not written in it.
    fn render(
        sources: &[LoadedText],
        file: usize,
        style: ImportStyle,
        room: FileBudget,
        elsewhere: &HashSet<usize>,
    ) -> Option<Self> {
        let source = sources.get(file)?;
        if trimmed_range(&source.text).is_empty() {
            return None;
        }
        let path = escape::path(&source.display_path);
        let (begin, end) = (
            format!("--- Context from: {path} ---\n"),
            format!("\n--- End of Context from: {path} ---\n"),
        );
        let frame = tokens::count(&begin) + tokens::count(&end);
        let mut writing = BlockRenderer {
            sources,
            style,
            text: begin,
            tokens_left: room.tokens.saturating_sub(frame + tokens::count(TRUNCATION_MARK)),
            bytes_max: room.bytes,
            chain: vec![file],
            other_blocks: elsewhere,
            imported: Vec::new(),
            is_cut: false,
        };
        writing.push_source(source);
        let BlockRenderer { mut text, is_cut, imported, .. } = writing;
        text.push_str(&end);
        Some(Self { source: file, tokens: tokens::count(&text), text, is_cut, imported })
    }
}

/// A block on its way.
struct BlockRenderer<'a> {
    sources: &'a [LoadedText],
    style: ImportStyle,
    text: String,
    tokens_left: usize,
    bytes_max: usize,
    /// The file, what it imports, and so on, down to the one that is written.
    chain: Vec<usize>,
    /// The files that are written in other blocks.
    other_blocks: &'a HashSet<usize>,
    /// The files that were written in this one.
    imported: Vec<usize>,
    /// Whether something did not fit. Nothing more is written then but the end of what was begun.
    is_cut: bool,
}

impl BlockRenderer<'_> {
    fn push_source(&mut self, source: &LoadedText) {
        let body = trimmed_range(&source.text);
        let mut at = body.start;
        let imports = match self.style {
            ImportStyle::Tree if self.chain.len() <= IMPORT_DEPTH_MAX => source.imports.as_slice(),
            ImportStyle::Tree | ImportStyle::Flat => &[],
        };
        for import in imports {
            self.push_fitting(slice(&source.text, at..import.range.start));
            self.push_import(import);
            at = import.range.end;
        }
        self.push_fitting(slice(&source.text, at..body.end));
    }

    fn push_import(&mut self, import: &ResolvedImport) {
        let path = escape::path(&import.path);
        let target = match &import.resolution {
            ImportResolution::Failed(why) => {
                self.push_whole(&format!("<!-- Import failed: {path} - {} -->", escape::path(why)));
                return;
            }
            ImportResolution::Replaced(target) => *target,
        };
        if [&self.chain, &self.imported].iter().any(|files| files.contains(&target))
            || self.other_blocks.contains(&target)
        {
            self.push_whole(&format!("<!-- File already processed: {path} -->"));
            return;
        }
        let Some(source) = self.sources.get(target) else { return };
        if self.text.len().saturating_add(source.text.len()) > self.bytes_max {
            let why = "all context files together are too large";
            self.push_whole(&format!("<!-- Import failed: {path} - {why} -->"));
            return;
        }
        let begin = format!("<imported from=\"{}\">\n", escape::path(&source.display_path));
        let end = "\n</imported>";
        // Both, or neither: what is begun is ended, whatever is cut in between.
        let frame = tokens::count(&begin) + tokens::count(end);
        if self.is_cut || frame > self.tokens_left {
            self.mark_cut();
            return;
        }
        self.tokens_left -= frame;
        self.text.push_str(&begin);
        self.chain.push(target);
        self.push_source(source);
        self.chain.pop();
        if !self.is_cut {
            self.imported.push(target);
        }
        self.text.push_str(end);
    }

    /// Writes text of a file: what fits of it.
    fn push_fitting(&mut self, text: &str) {
        if text.is_empty() || self.is_cut {
            return;
        }
        let text = escape::data(text);
        let count = tokens::count(&text);
        if count <= self.tokens_left {
            self.tokens_left -= count;
            self.text.push_str(&text);
            return;
        }
        for line in text.split_inclusive('\n') {
            let count = tokens::count(line);
            if count > self.tokens_left {
                break;
            }
            self.tokens_left -= count;
            self.text.push_str(line);
        }
        self.mark_cut();
    }

    /// Writes what is ours, all of it or nothing.
    fn push_whole(&mut self, text: &str) {
        let count = tokens::count(text);
        if self.is_cut || count > self.tokens_left {
            self.mark_cut();
            return;
        }
        self.tokens_left -= count;
        self.text.push_str(text);
    }

    fn mark_cut(&mut self) {
        if !self.is_cut {
            self.is_cut = true;
            self.text.push_str(TRUNCATION_MARK);
        }
    }
}

/// Returns where a text begins and ends that says something.
fn trimmed_range(text: &str) -> std::ops::Range<usize> {
    let is_blank = |c: char| c.is_whitespace() || c == '\u{feff}';
    let end = text.trim_end_matches(is_blank).len();
    let start = text.len() - text.trim_start_matches(is_blank).len();
    start.min(end)..end
}

#[cfg(test)]
mod tests;
