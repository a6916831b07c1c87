//! Rendering of context files: each between borders that name it, with its imports in place.
//!
//! The caller has already found the files and resolved their imports. Two limits apply, and no file displaces another:
//! - Bytes: an import that would exceed [`CONTEXT_BYTES_MAX`] is replaced by an error. A tree of repeated imports could
//!   grow without bound otherwise.
//! - Tokens: if all files together exceed [`CONTEXT_TOKENS_MAX`], or the bytes that the host accepts, each has an equal
//!   share, and longer files use what shorter ones leave. A file over its share is cut at the end of a paragraph and says
//!   where the rest is.

use std::collections::HashSet;

use memory::context_file::{ImportResolution, ImportStyle, LoadedText, ResolvedImport};
use memory::limits::{CONTEXT_BYTES_MAX, CONTEXT_TOKENS_MAX, IMPORT_DEPTH_MAX};
use memory::text::slice;

use crate::{escape, tokens};

/// The smallest beginning of a file, in bytes, that is worth its borders; a smaller one is left out.
const BEGINNING_BYTES_MIN: usize = 200;

/// A rendered file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedFile {
    /// Index of its source.
    pub source: usize,
    /// Its size in bytes, with imports and borders.
    pub bytes: usize,
    /// Its tokens.
    pub tokens: usize,
    /// Whether it was cut to its share.
    pub is_cut: bool,
}

/// All rendered context files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RenderedFiles {
    /// The text; empty if there are none.
    pub text: String,
    /// The files in load order, without empty ones and those in `dropped`.
    pub files: Vec<RenderedFile>,
    /// The sources of which not even the beginning fits.
    pub dropped: Vec<usize>,
}

/// Renders these files in order, each with its imports, in at most `bytes_max` bytes. An imported file that is one of
/// them, or was written before, is not repeated.
pub fn render(
    sources: &[LoadedText],
    files: &[usize],
    style: ImportStyle,
    bytes_max: usize,
) -> RenderedFiles {
    let files = match style {
        ImportStyle::Tree => files.to_vec(),
        ImportStyle::Flat => with_imported(sources, files),
    };
    let mut bytes_left = CONTEXT_BYTES_MAX;
    let mut blocks = Vec::new();
    let roots: HashSet<usize> = files.iter().copied().collect();
    let mut written = roots.clone();
    for file in files {
        let budget = FileBudget { tokens: usize::MAX, imports: bytes_left, bytes: usize::MAX };
        let Some(block) = FileBlock::render(sources, file, style, budget, &written) else {
            continue;
        };
        bytes_left = bytes_left.saturating_sub(block.text.len());
        written.extend(&block.imported);
        blocks.push(block);
    }
    let tokens: Vec<usize> = blocks.iter().map(|block| block.tokens).collect();
    let share = fair_share(&tokens, CONTEXT_TOKENS_MAX);
    // One byte more for the blank line before the next file.
    let bytes: Vec<usize> = blocks.iter().map(|block| block.text.len() + 1).collect();
    let bytes_share = fair_share(&bytes, bytes_max);
    let mut written = roots;
    let (mut fitting, mut dropped) = (Vec::new(), Vec::new());
    for mut block in blocks {
        let imported = std::mem::take(&mut block.imported);
        if block.tokens > share || block.text.len() >= bytes_share {
            let budget = FileBudget {
                tokens: share,
                imports: CONTEXT_BYTES_MAX,
                bytes: bytes_share.saturating_sub(1),
            };
            let cut = FileBlock::render(sources, block.source, style, budget, &written);
            let Some(cut) = cut.filter(|cut| cut.text.len() < bytes_share) else {
                // Files after it may import it.
                written.remove(&block.source);
                dropped.push(block.source);
                continue;
            };
            block = cut;
        }
        written.extend(imported);
        fitting.push(block);
    }
    let blocks = fitting;
    let rendered = |block: &FileBlock| RenderedFile {
        source: block.source,
        bytes: block.text.len(),
        tokens: block.tokens,
        is_cut: block.is_cut,
    };
    let rendered = blocks.iter().map(rendered).collect();
    let texts: Vec<_> = blocks.into_iter().map(|block| block.text).collect();
    RenderedFiles { text: texts.join("\n"), files: rendered, dropped }
}

/// Returns the files, each followed by all files that it imports, without repetition.
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

/// Returns the imports of a file with their depth, last one first.
fn imported(sources: &[LoadedText], file: usize, depth: usize) -> Vec<(usize, usize)> {
    let imports = sources.get(file).map_or(&[][..], |source| &source.imports);
    let target = |import: &ResolvedImport| match import.resolution {
        ImportResolution::Replaced(source) => Some((source, depth + 1)),
        ImportResolution::Failed(_) => None,
    };
    imports.iter().rev().filter_map(target).collect()
}

/// Returns the share of tokens for each file, so that all together stay within `max`.
fn fair_share(tokens: &[usize], max: usize) -> usize {
    if tokens.iter().sum::<usize>() <= max {
        return usize::MAX;
    }
    let mut sorted = tokens.to_vec();
    sorted.sort_unstable();
    let (mut left, mut share) = (max, max);
    for (index, &size) in sorted.iter().enumerate() {
        share = left / (sorted.len() - index);
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
    /// The files that are written in it in full.
    imported: Vec<usize>,
}

/// The size limits of a block.
#[derive(Clone, Copy)]
struct FileBudget {
    tokens: usize,
    /// The most bytes with imports; an import beyond that is replaced by an error.
    imports: usize,
    /// The most bytes, with borders.
    bytes: usize,
}

impl FileBlock {
    /// Renders the block of a file within the budget; `None` if the file is empty, or if only a few bytes of it fit.
    /// Files in `other_blocks` are not repeated in it.
    fn render(
        sources: &[LoadedText],
        file: usize,
        style: ImportStyle,
        budget: FileBudget,
        other_blocks: &HashSet<usize>,
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
        let cut_mark = format!("[cut here; the rest is in {path}]");
        let frame = [begin.as_str(), &end, &cut_mark];
        let frame_bytes: usize = frame.iter().map(|text| text.len()).sum();
        let frame_tokens: usize = frame.iter().map(|text| tokens::count(text)).sum();
        if budget.bytes < frame_bytes + BEGINNING_BYTES_MIN {
            return None;
        }
        let mut renderer = BlockRenderer {
            sources,
            style,
            text: begin,
            cut_mark,
            tokens_left: budget.tokens.saturating_sub(frame_tokens),
            bytes_left: budget.bytes - frame_bytes,
            bytes_max: budget.imports,
            chain: vec![file],
            other_blocks,
            imported: Vec::new(),
            is_cut: false,
        };
        renderer.push_source(source);
        let BlockRenderer { mut text, is_cut, imported, .. } = renderer;
        text.push_str(&end);
        Some(Self { source: file, tokens: tokens::count(&text), text, is_cut, imported })
    }
}

/// A block that is being rendered.
struct BlockRenderer<'a> {
    sources: &'a [LoadedText],
    style: ImportStyle,
    text: String,
    /// The note at the end of a cut file.
    cut_mark: String,
    tokens_left: usize,
    bytes_left: usize,
    bytes_max: usize,
    /// The path of imports from the file of the block to the one that is being written.
    chain: Vec<usize>,
    /// Files that are written in other blocks.
    other_blocks: &'a HashSet<usize>,
    /// Files that were written in this block.
    imported: Vec<usize>,
    /// Whether something did not fit. After that, only open tags are closed.
    is_cut: bool,
}

impl BlockRenderer<'_> {
    fn push_source(&mut self, source: &LoadedText) {
        let body = trimmed_range(&source.text);
        let mut position = body.start;
        let imports = match self.style {
            ImportStyle::Tree if self.chain.len() <= IMPORT_DEPTH_MAX => source.imports.as_slice(),
            ImportStyle::Tree | ImportStyle::Flat => &[],
        };
        for import in imports {
            self.push_fitting(slice(&source.text, position..import.range.start));
            self.push_import(import);
            position = import.range.end;
        }
        self.push_fitting(slice(&source.text, position..body.end));
    }

    fn push_import(&mut self, import: &ResolvedImport) {
        let path = escape::path(&import.path);
        let target = match &import.resolution {
            ImportResolution::Failed(reason) => {
                self.push_whole(&format!(
                    "<!-- Import failed: {path} - {} -->",
                    escape::path(reason)
                ));
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
            let reason = "all context files together are too large";
            self.push_whole(&format!("<!-- Import failed: {path} - {reason} -->"));
            return;
        }
        let begin = format!("<imported from=\"{}\">\n", escape::path(&source.display_path));
        let end = "\n</imported>";
        // Writes both tags or neither, so that an open tag is always closed.
        let frame = tokens::count(&begin) + tokens::count(end);
        if self.is_cut || !self.try_take(frame, begin.len() + end.len()) {
            self.mark_cut();
            return;
        }
        self.text.push_str(&begin);
        self.chain.push(target);
        self.push_source(source);
        self.chain.pop();
        if !self.is_cut {
            self.imported.push(target);
        }
        self.text.push_str(end);
    }

    /// Writes text of a file, up to the last paragraph that fits; of a first paragraph that does not fit, its lines.
    fn push_fitting(&mut self, text: &str) {
        if text.is_empty() || self.is_cut {
            return;
        }
        let text = escape::data(text);
        if self.try_take(tokens::count(&text), text.len()) {
            self.text.push_str(&text);
            return;
        }
        let start = self.text.len();
        let mut paragraph_end = None;
        for line in text.split_inclusive('\n') {
            if !self.try_take(tokens::count(line), line.len()) {
                break;
            }
            self.text.push_str(line);
            if line.trim().is_empty() {
                paragraph_end = Some(self.text.len());
            }
        }
        let end = paragraph_end.filter(|end| slice(&self.text, start..*end).trim() != "");
        self.text.truncate(end.unwrap_or(self.text.len()));
        self.mark_cut();
    }

    /// Writes Lukasa's own text in full or not at all.
    fn push_whole(&mut self, text: &str) {
        if self.is_cut || !self.try_take(tokens::count(text), text.len()) {
            self.mark_cut();
            return;
        }
        self.text.push_str(text);
    }

    /// Subtracts a text from the room. Returns whether it fits; if not, nothing is subtracted.
    fn try_take(&mut self, tokens: usize, bytes: usize) -> bool {
        let left = (self.tokens_left.checked_sub(tokens), self.bytes_left.checked_sub(bytes));
        let (Some(tokens), Some(bytes)) = left else { return false };
        (self.tokens_left, self.bytes_left) = (tokens, bytes);
        true
    }

    fn mark_cut(&mut self) {
        if !self.is_cut {
            self.is_cut = true;
            self.text.push_str(&self.cut_mark);
        }
    }
}

/// Returns the range of a text without surrounding white space.
fn trimmed_range(text: &str) -> std::ops::Range<usize> {
    let is_blank = |c: char| c.is_whitespace() || c == '\u{feff}';
    let end = text.trim_end_matches(is_blank).len();
    let start = text.len() - text.trim_start_matches(is_blank).len();
    start.min(end)..end
}

#[cfg(test)]
mod tests;
