//! The record of `lukasa install`: what it needs to give an agent's files their exact bytes back.
//!
//! It holds no copy of a file, since such files hold keys: only digests, the few bytes that were replaced, the prior
//! values of switches, and folders that were made.

use std::path::{Path, PathBuf};

use memory::document::Revision;
use serde::{Deserialize, Serialize};

/// The files that were written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InstallRecord {
    files: Vec<FileRecord>,
}

/// A file that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileRecord {
    /// The file.
    pub(crate) file: PathBuf,
    /// Whether `install` made it.
    pub(crate) made: bool,
    /// The folders that `install` made for it, the deepest first.
    #[serde(default)]
    pub(crate) folders: Vec<PathBuf>,
    /// The digest of the text that was written.
    pub(crate) revision: String,
    /// The bytes that were replaced, the last ones first; `None` if the file was edited between two installations.
    pub(crate) replaced: Option<Vec<Replacement>>,
    /// Settings of the agent's own that were changed.
    #[serde(default)]
    pub(crate) settings: Vec<PriorSetting>,
}

/// A stretch of a text that took the place of another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Replacement {
    at: usize,
    bytes: usize,
    before: String,
}

/// A switch of an agent, and its value before; `None` if it was not set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PriorSetting {
    /// The names on the way to it.
    pub(crate) at: Vec<String>,
    /// The value.
    pub(crate) value: Option<bool>,
}

/// A file before `install` wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PriorText {
    /// There was none.
    Absent,
    /// Its text.
    Text(String),
    /// It was edited since.
    Unknown,
}

impl PriorSetting {
    /// Returns the prior value of a setting.
    pub(super) fn new(at: &[&str], value: Option<bool>) -> Self {
        Self { at: at.iter().map(|name| (*name).to_owned()).collect(), value }
    }
}

impl Replacement {
    /// Returns the one stretch in which two texts differ.
    pub(super) fn between(before: &str, after: &str) -> Self {
        let pairs = before.chars().zip(after.chars());
        let at: usize = pairs.take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
        let rest = |text: &str| text.split_at(at).1.to_owned();
        let (before, after) = (rest(before), rest(after));
        let pairs = before.chars().rev().zip(after.chars().rev());
        let end: usize = pairs.take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
        let before = before.split_at(before.len() - end).0.to_owned();
        Self { at, bytes: after.len() - end, before }
    }

    fn revert(&self, text: &str) -> Option<String> {
        let (head, rest) = text.split_at_checked(self.at)?;
        let (_, tail) = rest.split_at_checked(self.bytes)?;
        Some([head, &self.before, tail].concat())
    }
}

impl InstallRecord {
    /// Returns the record of a file.
    pub(crate) fn file_record(&self, file: &Path) -> Option<&FileRecord> {
        self.files.iter().find(|record| record.file == file)
    }

    /// Forgets a file.
    pub(crate) fn remove(&mut self, file: &Path) {
        self.files.retain(|record| record.file != file);
    }

    /// Notes down a file that is about to be written, with what was known of it.
    pub(crate) fn insert(&mut self, mut new: FileRecord, before: Option<&str>) {
        if let Some(old) = self.file_record(&new.file).filter(|_| before.is_some()) {
            let unchanged = before.is_some_and(|text| old.revision == digest(text));
            let earlier = old.replaced.clone().filter(|_| unchanged);
            new.replaced = new.replaced.zip(earlier).map(|(new, old)| [new, old].concat());
            new.made = old.made;
            new.folders.clone_from(&old.folders);
            // A setting that was changed twice gets its first value back.
            new.settings.retain(|new| old.settings.iter().all(|old| old.at != new.at));
            new.settings.extend(old.settings.iter().cloned());
        }
        self.remove(&new.file.clone());
        self.files.push(new);
    }

    /// Tells whether it has no file.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

impl FileRecord {
    /// Returns the file as it was before `install`, if it was not edited since.
    pub(crate) fn before(&self, text: &str) -> PriorText {
        if self.revision != digest(text) {
            return PriorText::Unknown;
        }
        if self.made {
            return PriorText::Absent;
        }
        let undo = |text: String, replaced: &Replacement| replaced.revert(&text);
        let replaced = self.replaced.as_ref();
        let before = replaced.and_then(|all| all.iter().try_fold(text.to_owned(), undo));
        before.map_or(PriorText::Unknown, PriorText::Text)
    }
}

/// Returns the digest by which a text is known again.
pub(crate) fn digest(text: &str) -> String {
    Revision::digest(text.as_bytes()).to_string()
}
