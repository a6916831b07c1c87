//! The in-memory cache of one root between commands.
//!
//! Files and state are authoritative, the cache is not. Heads and the name index are used only
//! while the root is locked and its generation shows that no other process wrote. A value that was
//! derived from a file is used only for the stamp that it was derived from. The cache is never
//! written to disk.

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

use crate::backend::{ListVersion, Stamp};

/// Values derived from files, each for one stamp of its file. Bounded by the maximum number of files in a root.
#[derive(Debug)]
pub(crate) struct FileCache<T>(Cache<RelativePath, (Stamp, T), SCOPE_FILES_MAX>);

impl<T> Default for FileCache<T> {
    fn default() -> Self {
        Self(Cache::default())
    }
}

impl<T: Clone> FileCache<T> {
    /// Returns the value for this stamp of a file.
    pub(crate) fn get(&mut self, path: &RelativePath, stamp: Stamp) -> Option<T> {
        self.0.get(path).filter(|(of, _)| *of == stamp).map(|(_, value)| value.clone())
    }

    pub(crate) fn insert(&mut self, path: &RelativePath, stamp: Stamp, value: T) {
        self.0.insert(path.clone(), (stamp, value));
    }
}

/// Maximum size of the cached texts of a root, in bytes.
const CACHED_TEXT_BYTES_MAX: usize = 16 << 20;

/// Texts of files, each for one stamp of its file.
#[derive(Debug, Default)]
pub(crate) struct TextCache(Cache<RelativePath, (Stamp, Arc<str>), CACHED_TEXT_BYTES_MAX>);

impl TextCache {
    /// Returns the text for this stamp of a file.
    pub(crate) fn get(&mut self, path: &RelativePath, stamp: Stamp) -> Option<Arc<str>> {
        self.0.get(path).filter(|(of, _)| *of == stamp).map(|(_, text)| Arc::clone(text))
    }

    /// Inserts a text if there is room. A search reads all texts in order: if each evicted the oldest one, a root that
    /// does not fit would be read whole each time.
    pub(crate) fn insert(&mut self, path: &RelativePath, stamp: Stamp, text: Arc<str>) {
        self.0.remove(path);
        let bytes = text.len() + path.as_str().len() + size_of::<(RelativePath, Stamp, Arc<str>)>();
        if self.0.has_room(bytes) {
            self.0.insert_weighted(path.clone(), (stamp, text), bytes);
        }
    }
}

/// The header of a memory, read from the start of its file.
#[derive(Clone, Debug)]
pub(crate) struct FileSummary {
    pub(crate) head: document::MemoryHeader,
    pub(crate) generated: bool,
    /// Whether the bytes that were read are text.
    pub(crate) is_text: bool,
    /// Whether the bytes that were read have an unresolved merge conflict.
    pub(crate) in_conflict: bool,
}

impl FileSummary {
    /// Reads the first bytes of a file, at most [`HEAD_BYTES_MAX`].
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let text = str::from_utf8(trim_partial_character(bytes, bytes.len() < HEAD_BYTES_MAX));
        Self {
            head: document::parse_header(bytes),
            generated: text.is_ok_and(document::is_generated_list),
            is_text: text.is_ok_and(|text| !text.contains('\0')),
            in_conflict: text.is_ok_and(|text| document::conflict_line(text).is_some()),
        }
    }
}

/// Returns the bytes without an incomplete character at the end of a partial read.
pub(crate) fn trim_partial_character(bytes: &[u8], whole: bool) -> &[u8] {
    match str::from_utf8(bytes) {
        Err(error) if !whole && error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

/// The findings in the text of a memory.
#[derive(Clone, Debug, Default)]
pub struct TextFindings {
    /// The screening rules that it violates, each once.
    pub warnings: Arc<[Warning]>,
    /// Whether it has an unresolved merge conflict.
    pub in_conflict: bool,
}

/// The cached facts about one root.
#[derive(Debug, Default)]
pub(crate) struct RootCache {
    /// The generation of the root for which `heads` and `name_index` are valid.
    pub(crate) generation: Option<u64>,
    pub(crate) last_change: ChangeId,
    /// The last change by other processes that needs no publishing any more: it was published, or happened before
    /// this process first loaded the heads.
    pub(crate) published_through: Option<ChangeId>,
    /// The list of files whose contents are all recorded.
    pub(crate) recorded_list: Option<ListVersion>,
    /// The last recorded head of each memory.
    pub(crate) heads: HashMap<RelativePath, Head>,
    pub(crate) name_index: Option<NameIndex>,
    /// Frontmatter and first lines.
    pub(crate) documents: FileCache<Arc<FileSummary>>,
    pub(crate) findings: FileCache<TextFindings>,
    pub(crate) revisions: FileCache<Option<Revision>>,
    pub(crate) texts: TextCache,
}

/// Case-folded paths of all files and folders in a root, to find paths that differ only in case.
#[derive(Debug)]
pub(crate) struct NameIndex {
    pub(crate) built_at: Timestamp,
    /// Maximum age. Building the index may take at most a fiftieth of the time.
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
        let mut current = Some(path.clone());
        while let Some(path) = current {
            current = path.parent();
            self.folded.entry(path.case_folded()).or_insert(path);
        }
    }

    pub(crate) fn remove(&mut self, path: &RelativePath) {
        self.folded.remove(&path.case_folded());
    }

    /// Returns a path that differs from `path`, or from one of its parents, only in case, and that does not leave.
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

    /// Checks whether everything at or below `path` leaves: the file itself, or every file in the folder.
    fn is_emptied(&self, path: &RelativePath, leaving: &[&RelativePath]) -> bool {
        let mut below = self.folded.values().filter(|inner| inner.is_within(path));
        below.all(|inner| {
            leaving
                .iter()
                .any(|leaving_path| inner.is_within(leaving_path) || leaving_path.is_within(inner))
        })
    }
}

impl RootCache {
    pub(crate) fn insert_head(&mut self, head: Head) {
        self.last_change = self.last_change.max(head.change);
        let previous = self.heads.get(&head.path);
        if previous.is_some_and(|previous| previous.change > head.change) {
            return;
        }
        let existed = previous.is_some_and(|previous| previous.revision.is_some());
        if let Some(index) = &mut self.name_index {
            match (&head.revision, existed) {
                (Some(_), false) => {
                    if index.folded.get(&head.path.case_folded()) != Some(&head.path) {
                        index.add(&head.path);
                    }
                }
                (None, _) => index.remove(&head.path),
                (Some(_), true) => {}
            }
        }
        self.heads.insert(head.path.clone(), head);
    }

    /// Returns the heads of all memories that were last recorded as existing.
    pub(crate) fn present_heads(&self) -> impl Iterator<Item = &Head> {
        self.heads.values().filter(|head| head.revision.is_some())
    }

    /// Returns the recorded head of a memory, whether it exists or was removed.
    pub(crate) fn head(&self, path: &RelativePath) -> Option<&Head> {
        self.heads.get(path)
    }
}
