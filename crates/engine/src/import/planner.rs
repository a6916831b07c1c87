//! Collects the memories that an import will create, with paths that are valid, unique and not
//! taken, and texts within the size limit.

use std::collections::{HashMap, HashSet};

use memory::document::{is_generated_list, with_frontmatter_repaired};
use memory::limits::MEMORY_BYTES_MAX;

use super::{ImportPlan, NoText, PlannedMemory, SkippedSource, SourceFile, slug, split};

/// New name of a file that has the name of the generated index.
pub(super) const MEMORY_NOTES: &str = "memory-notes.md";

/// An unfinished plan.
#[derive(Default)]
pub(super) struct Planner {
    plan: ImportPlan,
    /// Planned files, in lower case, because names that differ only in case count as one.
    files: HashSet<String>,
    /// Folders of planned files: lower case to the first spelling.
    folders: HashMap<String, String>,
}

impl Planner {
    pub(super) fn into_plan(self) -> ImportPlan {
        self.plan
    }

    /// Reports a skipped part that contains no fact.
    pub(super) fn skip(&mut self, source: &str, why: &str) {
        self.report(source, why, false);
    }

    /// Reports a skipped part that may contain a fact.
    pub(super) fn report_loss(&mut self, source: &str, why: &str) {
        self.report(source, why, true);
    }

    /// Reports a file that has no text for a memory.
    pub(super) fn report_no_text(&mut self, source: &str, none: &NoText) {
        self.report(source, none.reason, none.is_loss);
    }

    fn report(&mut self, source: &str, why: &str, is_loss: bool) {
        let (source, why) = (source.to_owned(), why.to_owned());
        self.plan.skipped.push(SkippedSource { source, reason: why, is_loss });
    }

    /// Plans all text files of a tree under their own paths.
    pub(super) fn add_tree(&mut self, files: &[SourceFile]) {
        for file in files {
            match file.text_below(&file.path) {
                Ok(text) => self.add(&file.path, text, &file.path),
                Err(none) => self.report_no_text(&file.path, &none),
            }
        }
    }

    /// Plans a memory at this path or a similar one, in parts if it is too large.
    pub(super) fn add(&mut self, wanted: &str, text: &str, source: &str) {
        if is_generated_list(text) {
            return self.skip(source, "is a listing that Lukasa writes by itself");
        }
        let mut notes = Vec::new();
        let mended = with_frontmatter_repaired(text);
        if mended.is_some() {
            notes.push("values of the frontmatter were quoted so that it can be read".to_owned());
        }
        let text = mended.as_deref().unwrap_or(text);
        if text.len() <= MEMORY_BYTES_MAX {
            return self.add_planned(wanted, text, source, notes);
        }
        match split::split(text) {
            Ok(parts) => {
                notes.push(format!("cut into {} memories", parts.len()));
                for (at, part) in parts.iter().enumerate() {
                    let wanted = with_suffix(wanted, at + 1);
                    self.add_planned(&wanted, part, source, notes.clone());
                }
            }
            Err(bytes) => {
                let why = format!(
                    "holds one piece of {bytes} bytes, more than the {MEMORY_BYTES_MAX} of a memory"
                );
                self.report_loss(source, &why);
            }
        }
    }

    fn add_planned(&mut self, wanted: &str, text: &str, source: &str, mut notes: Vec<String>) {
        let path = self.free_path(&slug::path(wanted));
        if path != wanted {
            notes.push(format!("stored as `{path}`, since the name could not be kept"));
        }
        let mut folder = String::new();
        for part in folders_of(&path) {
            folder.push_str(part);
            self.folders.insert(folder.to_lowercase(), folder.clone());
            folder.push('/');
        }
        self.files.insert(path.to_lowercase());
        let (text, source) = (text.to_owned(), source.to_owned());
        self.plan.memories.push(PlannedMemory { path, text, source, notes });
    }

    /// Returns a similar path that is not planned yet and that no generated index will use.
    fn free_path(&self, path: &str) -> String {
        let mut near = self.with_planned_spelling(path);
        if near.eq_ignore_ascii_case("MEMORY.md") {
            MEMORY_NOTES.clone_into(&mut near);
        }
        if self.is_below_a_file(&near) {
            near = slug::path(&near.replace('/', "-"));
        }
        let mut free = near.clone();
        let mut suffix = 2;
        while self.files.contains(&free.to_lowercase())
            || self.folders.contains_key(&free.to_lowercase())
        {
            free = with_suffix(&near, suffix);
            suffix += 1;
        }
        free
    }

    fn is_below_a_file(&self, path: &str) -> bool {
        let mut folder = String::new();
        folders_of(path).any(|part| {
            folder.push_str(&part.to_lowercase());
            let is_file = self.files.contains(&folder);
            folder.push('/');
            is_file
        })
    }

    /// Returns the path with its folders in the spelling that is already planned.
    fn with_planned_spelling(&self, path: &str) -> String {
        let mut spelled = String::new();
        for part in folders_of(path) {
            spelled.push_str(part);
            if let Some(known) = self.folders.get(&spelled.to_lowercase()) {
                spelled.clone_from(known);
            }
            spelled.push('/');
        }
        spelled + path.rsplit('/').next().unwrap_or_default()
    }
}

/// Returns the parts of a path without the last.
fn folders_of(path: &str) -> impl Iterator<Item = &str> {
    path.rsplit_once('/').into_iter().flat_map(|(folders, _)| folders.split('/'))
}

/// Appends a number to the name of a path, before the extension.
fn with_suffix(path: &str, number: usize) -> String {
    let name_at = path.rfind('/').map_or(0, |at| at + 1);
    match path.rfind('.').filter(|&dot| dot > name_at) {
        Some(dot) => {
            let (stem, extension) = path.split_at(dot);
            format!("{stem}-{number}{extension}")
        }
        None => format!("{path}-{number}"),
    }
}
