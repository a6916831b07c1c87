//! What a process remembers of a root between commands.
//!
//! Nothing remembered is the truth. Heads and names are used only while the root is held and the count of writes
//! says that no other process wrote. What is derived from a file is used only for the version it was derived from.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use memory::cache::Cache;
use memory::change::ChangeId;
use memory::clock::Timestamp;
use memory::command::Warning;
use memory::document::{self, Revision};
use memory::limits::{HEAD_BYTES_MAX, SCOPE_FILES_MAX};
use memory::path::RelativePath;
use state::Head;

use crate::backend::Stamp;

/// Values derived from files, each for one version of its file: at most as many as a root may have files.
#[derive(Debug)]
pub(crate) struct FileCache<T>(Cache<RelativePath, (Stamp, T), SCOPE_FILES_MAX>);

impl<T> Default for FileCache<T> {
    fn default() -> Self {
        Self(Cache::default())
    }
}

impl<T: Clone> FileCache<T> {
    /// Returns the value for this version of a file.
    pub(crate) fn get(&mut self, path: &RelativePath, stamp: Stamp) -> Option<T> {
        self.0.get(path).filter(|(of, _)| *of == stamp).map(|(_, value)| value.clone())
    }

    pub(crate) fn insert(&mut self, path: &RelativePath, stamp: Stamp, value: T) {
        self.0.insert(path.clone(), (stamp, value));
    }
}

/// What the beginning of a file says.
#[derive(Clone, Debug)]
pub(crate) struct FileSummary {
    pub(crate) head: document::MemoryHeader,
    /// Whether it is a listing that Lukasa generated.
    pub(crate) generated: bool,
    /// Whether it is text at all, as far as it was read.
    pub(crate) is_text: bool,
}

impl FileSummary {
    /// Reads the first bytes of a file, at most [`HEAD_BYTES_MAX`].
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let text = str::from_utf8(trim_partial_character(bytes, bytes.len() < HEAD_BYTES_MAX));
        Self {
            head: document::parse_header(bytes),
            generated: text.is_ok_and(document::is_generated_list),
            is_text: text.is_ok_and(|text| !text.contains('\0')),
        }
    }
}

/// Returns the bytes without a character that was cut at their end.
pub(crate) fn trim_partial_character(bytes: &[u8], whole: bool) -> &[u8] {
    match str::from_utf8(bytes) {
        Err(error) if !whole && error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

/// What a process remembers of a root between commands.
#[derive(Debug, Default)]
pub(crate) struct RootCache {
    /// The count of writes up to which `heads` and `census` are right.
    pub(crate) generation: Option<u64>,
    /// The last change in `heads`.
    pub(crate) last_change: ChangeId,
    /// The change up to which those who listen need not be told of others' changes: they were, or nobody
    /// had looked yet.
    pub(crate) announced_through: Option<ChangeId>,
    /// What was last recorded of each memory.
    pub(crate) heads: HashMap<RelativePath, Head>,
    pub(crate) name_index: Option<NameIndex>,
    /// Frontmatter and first lines.
    pub(crate) documents: FileCache<Arc<FileSummary>>,
    /// What screening objects to.
    pub(crate) warnings: FileCache<Arc<[Warning]>>,
    pub(crate) revisions: FileCache<Option<Revision>>,
}

/// The names in a root, for what only a look at all of them can tell.
#[derive(Debug)]
pub(crate) struct NameIndex {
    pub(crate) built_at: Timestamp,
    /// How long it may be believed: counting may take a fiftieth of the time at most.
    pub(crate) max_age: Duration,
    /// Every file and folder by its case-folded path.
    pub(crate) folded: HashMap<String, RelativePath>,
}

impl NameIndex {
    pub(crate) fn is_fresh(&self, now: Timestamp) -> bool {
        let age = now.duration_since(self.built_at);
        !age.is_negative() && age.unsigned_abs() < self.max_age
    }

    pub(crate) fn add(&mut self, path: &RelativePath) {
        let mut at = Some(path.clone());
        while let Some(path) = at {
            at = path.parent();
            self.folded.entry(path.case_folded()).or_insert(path);
        }
    }

    pub(crate) fn remove(&mut self, path: &RelativePath) {
        self.folded.remove(&path.case_folded());
    }

    /// Returns a path that differs from `path`, or from a folder on its way, only in case and does not leave.
    pub(crate) fn case_variant(
        &self,
        path: &RelativePath,
        leaving: &[&RelativePath],
    ) -> Option<RelativePath> {
        let mut above = std::iter::successors(Some(path.clone()), RelativePath::parent);
        above.find_map(|path| {
            let other = self.folded.get(&path.case_folded())?;
            (*other != path && !self.is_emptied(other, leaving)).then(|| other.clone())
        })
    }

    /// Returns whether everything at or below `path` leaves: each file itself, each folder with a file in it.
    fn is_emptied(&self, path: &RelativePath, leaving: &[&RelativePath]) -> bool {
        let mut below = self.folded.values().filter(|known| known.is_within(path));
        below.all(|known| leaving.iter().any(|left| known.is_within(left) || left.is_within(known)))
    }
}

impl RootCache {
    pub(crate) fn insert_head(&mut self, head: Head) {
        self.last_change = self.last_change.max(head.change);
        let known = self.heads.get(&head.path);
        if known.is_some_and(|known| known.change > head.change) {
            return;
        }
        let was_there = known.is_some_and(|known| known.revision.is_some());
        if let Some(census) = &mut self.name_index {
            match (&head.revision, was_there) {
                (Some(_), false) => {
                    if census.folded.get(&head.path.case_folded()) != Some(&head.path) {
                        census.add(&head.path);
                    }
                }
                (None, _) => census.remove(&head.path),
                (Some(_), true) => {}
            }
        }
        self.heads.insert(head.path.clone(), head);
    }

    /// Returns every memory that was last recorded as being there.
    pub(crate) fn present_heads(&self) -> impl Iterator<Item = &Head> {
        self.heads.values().filter(|head| head.revision.is_some())
    }

    /// Returns what was last recorded of a memory, be it there or gone.
    pub(crate) fn head(&self, path: &RelativePath) -> Option<&Head> {
        self.heads.get(path)
    }
}
