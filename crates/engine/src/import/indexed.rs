//! Import from folders of topic files, each with a `MEMORY.md`: the auto memories of Claude Code
//! and Qwen Code.
//!
//! Claude Code writes one fact or topic per file below `~/.claude/projects/<project>/memory/`. The
//! frontmatter has `name`, `description` and a type, at the top or below `metadata`. Lukasa reads
//! both, so nothing is rewritten. The source is the folder of one project or of several.
//!
//! The topic files are the memories. The index is derived from them, and Lukasa generates its own.
//! Of the source's index, only text beyond links to topic files is imported.

use std::collections::{BTreeSet, HashSet};

use memory::document::{entries, is_generated_list};

use super::SourceFile;
use super::planner::{MEMORY_NOTES, Planner};

const INDEX: &str = "MEMORY.md";

/// Start of the notice that the curator of Qwen Code puts below an index that it had to cut.
const CUT_NOTICE: &str = "> WARNING: MEMORY.md is too large";

/// Checks whether there is an index that another tool wrote.
pub(super) fn has_index(files: &[SourceFile]) -> bool {
    files
        .iter()
        .any(|file| is_index(file) && !str::from_utf8(&file.bytes).is_ok_and(is_generated_list))
}

/// Plans the topic files of all folders with an index. `is_placeholder` recognizes texts without
/// facts. The tools write the index last, so without one every file still counts as a memory.
pub(super) fn plan(files: &[SourceFile], is_placeholder: fn(&str) -> bool, planner: &mut Planner) {
    if !has_index(files) {
        return planner.add_tree(files);
    }
    let folders = folders(files);
    let mut topics: Vec<(&SourceFile, &str, &str)> = Vec::new();
    for file in files {
        let Some(base) = folders.iter().find(|base| file.path.starts_with(&***base)) else {
            planner.skip(&file.path, "is not in a folder with a MEMORY.md");
            continue;
        };
        let below = file.path.strip_prefix(&**base).unwrap_or(&file.path);
        match file.text_below(below) {
            Ok(text) if is_placeholder(text) => planner.skip(&file.path, "holds no entries"),
            Ok(text) => topics.push((file, base, text)),
            Err(none) => planner.report_no_text(&file.path, &none),
        }
    }
    let paths: HashSet<&str> = topics.iter().map(|(file, ..)| &*file.path).collect();
    for (file, base, text) in topics {
        let wanted = target(file, base, folders.len());
        if !is_index(file) {
            planner.add(&wanted, text, &file.path);
        } else if let Some(rest) = text_without_links(text, file, &paths) {
            let folder = wanted.rsplit_once('/').map_or("", |(folder, _)| folder);
            planner.add(&join_path(folder, MEMORY_NOTES), &rest, &file.path);
        } else {
            planner.skip(&file.path, "only lists the other files; Lukasa lists them itself");
        }
    }
}

/// Returns the outermost folders with an index, each empty or with a slash at the end.
fn folders(files: &[SourceFile]) -> Vec<String> {
    let all: BTreeSet<&str> = files
        .iter()
        .filter(|file| is_index(file))
        .map(|file| file.path.strip_suffix(file.name()).unwrap_or_default())
        .collect();
    let mut outermost: Vec<String> = Vec::new();
    for folder in all {
        if !outermost.iter().any(|outer| folder.starts_with(&**outer)) {
            outermost.push(folder.to_owned());
        }
    }
    outermost
}

/// Returns the target path of a file: relative to its folder if there is only one, else below the
/// folder's name.
fn target(file: &SourceFile, base: &str, folders: usize) -> String {
    let below = file.path.strip_prefix(base).unwrap_or(&file.path);
    if folders == 1 {
        return below.to_owned();
    }
    // `<project>/memory/` and `projects/<project>/memory/` are named after the project.
    let parts: Vec<&str> = base
        .split('/')
        .filter(|part| !part.is_empty() && !part.starts_with('.'))
        .filter(|part| !matches!(*part, "projects" | "memory"))
        .collect();
    join_path(&parts.join("/"), below)
}

fn join_path(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

fn is_index(file: &SourceFile) -> bool {
    file.name().eq_ignore_ascii_case(INDEX)
}

/// Reason why the range of an entry is valid in its text.
const CHAR_BOUNDARY_REASON: &str = "entries follow each other and end between characters";

/// Returns the text of an index without the entries that only link to files of the source; `None`
/// if nothing else is left.
fn text_without_links(text: &str, index: &SourceFile, paths: &HashSet<&str>) -> Option<String> {
    let folder = index.path.strip_suffix(index.name()).unwrap_or_default();
    let is_link = |line: &str| {
        line.starts_with(CUT_NOTICE)
            || link_target(line).is_some_and(|target| paths.contains(&*format!("{folder}{target}")))
    };
    let mut rest = String::new();
    let mut end = 0;
    let mut left = 0;
    for entry in entries(text) {
        let lines = text.get(entry.range.clone()).expect(CHAR_BOUNDARY_REASON).lines();
        if lines.map(str::trim).filter(|line| !line.is_empty()).all(is_link) {
            rest.push_str(text.get(end..entry.range.start).expect(CHAR_BOUNDARY_REASON));
            end = entry.range.end;
        } else {
            left += 1;
        }
    }
    rest.push_str(text.get(end..).expect(CHAR_BOUNDARY_REASON));
    (left > 0).then_some(rest)
}

/// Returns the file that a line links to, if it starts with a link; a bullet and bold marks are
/// skipped.
fn link_target(line: &str) -> Option<String> {
    let line = line.trim_start_matches(|c: char| "-+*_ \t".contains(c) || c.is_ascii_digit());
    let line = line.trim_start_matches(['.', ')', ' ', '*', '_']);
    let (_, rest) = line.strip_prefix('[')?.split_once("](")?;
    let target = match rest.strip_prefix('<') {
        Some(pointed) => pointed.split_once(">)")?.0,
        None => rest.split_once(')')?.0,
    };
    let target = target.split('#').next().unwrap_or_default().replace("%20", " ");
    Some(target.strip_prefix("./").unwrap_or(&target).to_owned())
}
