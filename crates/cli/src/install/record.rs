//! The record of `lukasa install`, from which `uninstall` restores the exact bytes of an agent's files.
//!
//! It holds no copies of files, since such files may hold keys. It holds digests, the few bytes that were replaced, the
//! prior values of switches, and the folders that were created.

use std::path::{Path, PathBuf};

use memory::document::Revision;
use serde::{Deserialize, Serialize};

/// The records of all written files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InstallRecord {
    files: Vec<FileRecord>,
}

/// The record of a written file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileRecord {
    /// The path of the file.
    pub(crate) file: PathBuf,
    /// Whether `install` created it.
    pub(crate) made: bool,
    /// The folders that `install` created for it, deepest first.
    #[serde(default)]
    pub(crate) folders: Vec<PathBuf>,
    /// The digest of the text that was written.
    pub(crate) revision: String,
    /// The bytes that were replaced, last edit first; `None` if the file was edited between two installations.
    pub(crate) replaced: Option<Vec<Replacement>>,
    /// The changed settings of the agent's own.
    #[serde(default)]
    pub(crate) settings: Vec<PriorSetting>,
}

/// A replaced part of a text: its offset and length in the new text, and the bytes before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Replacement {
    at: usize,
    bytes: usize,
    before: String,
}

/// A switch of an agent with its value before `install`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PriorSetting {
    /// The names of the members that lead to it.
    pub(crate) at: Vec<String>,
    /// The value before; `None` if it was not set.
    pub(crate) value: Option<bool>,
}

/// The state of a file before `install` wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PriorText {
    /// The file did not exist.
    Absent,
    /// The file had this text.
    Text(String),
    /// The earlier text cannot be restored, since the file was edited.
    Unknown,
}

impl PriorSetting {
    /// Creates the record of a setting.
    pub(super) fn new(at: &[&str], value: Option<bool>) -> Self {
        Self { at: at.iter().map(|name| (*name).to_owned()).collect(), value }
    }
}

impl Replacement {
    /// Returns the smallest part in which two texts differ.
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

    /// Removes the record of a file.
    pub(crate) fn remove(&mut self, file: &Path) {
        self.files.retain(|record| record.file != file);
    }

    /// Adds the record of a file that is about to be written, merged with its earlier record.
    pub(crate) fn insert(&mut self, mut new: FileRecord, before: Option<&str>) {
        if let Some(old) = self.file_record(&new.file).filter(|_| before.is_some()) {
            let unchanged = before.is_some_and(|text| old.revision == digest(text));
            let earlier = old.replaced.clone().filter(|_| unchanged);
            new.replaced = new.replaced.zip(earlier).map(|(new, old)| [new, old].concat());
            new.made = old.made;
            new.folders.clone_from(&old.folders);
            // For a setting that was changed twice, the first prior value counts.
            new.settings.retain(|new| old.settings.iter().all(|old| old.at != new.at));
            new.settings.extend(old.settings.iter().cloned());
        }
        self.remove(&new.file.clone());
        self.files.push(new);
    }

    /// Checks whether there are no records.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

impl FileRecord {
    /// Returns the state of the file before `install`, if it was not edited since.
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

/// Returns the digest by which an unchanged text is recognized.
pub(crate) fn digest(text: &str) -> String {
    Revision::digest(text.as_bytes()).to_string()
}
