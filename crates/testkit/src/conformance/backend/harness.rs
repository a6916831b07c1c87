//! The harness of the backend suite: a root with all its writers, and helpers for assertions.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use memory::path::RelativePath;
use store::backend::{Backend, BackendError, Expect, Extent, SkipReason, Stamp, Stat, Walk};

use crate::MemoryBackend;

/// External edits of a root, as by an editor, git or a hostile checkout. They take no lock.
pub trait ExternalWriter: Debug {
    /// Writes a file, and creates its folders.
    fn write(&self, path: &RelativePath, bytes: &[u8]);

    /// Removes a file or folder.
    fn remove(&self, path: &RelativePath);

    /// Creates a link that points to a folder outside of the root with a file `a.md` in it.
    fn link(&self, path: &RelativePath);

    /// Creates a pipe.
    fn pipe(&self, path: &RelativePath);

    /// Leaves a temporary file of this backend in the folder of a path.
    fn temporary(&self, path: &RelativePath);
}

impl ExternalWriter for MemoryBackend {
    fn write(&self, path: &RelativePath, bytes: &[u8]) {
        self.outside_write(path, bytes);
    }

    fn remove(&self, path: &RelativePath) {
        self.outside_remove(path);
    }

    fn link(&self, path: &RelativePath) {
        self.outside_link(path);
    }

    fn pipe(&self, path: &RelativePath) {
        self.outside_pipe(path);
    }

    fn temporary(&self, path: &RelativePath) {
        self.outside_temporary(path);
    }
}

/// A root with all its writers.
#[derive(Debug)]
pub struct Harness {
    /// The backend of this process.
    pub backend: Arc<dyn Backend>,
    /// The backend of another process on the same root.
    pub peer: Arc<dyn Backend>,
    /// An external writer on the same root.
    pub external_writer: Box<dyn ExternalWriter>,
    /// Whether the root can hold nothing but files and folders: no links, pipes or temporary files.
    pub holds_only_files: bool,
    /// Values that must live as long as the others, such as a temporary folder.
    pub keep_alive: Box<dyn Any + Send>,
}

impl Harness {
    /// Returns a root in memory.
    pub fn in_memory() -> Self {
        let backend = MemoryBackend::new();
        Self {
            backend: Arc::new(backend.clone()),
            peer: Arc::new(backend.clone()),
            external_writer: Box::new(backend),
            holds_only_files: false,
            keep_alive: Box::new(()),
        }
    }
}

/// Time limit for a lock that a test must get.
pub(super) const WAIT: Duration = Duration::from_secs(30);

pub(super) fn path(text: &str) -> RelativePath {
    RelativePath::parse(text).unwrap()
}

impl Harness {
    /// Creates a link, if the root can hold one.
    pub(super) fn link(&self, name: &str) {
        if !self.holds_only_files {
            self.external_writer.link(&path(name));
        }
    }

    /// Creates a pipe, if the root can hold one.
    pub(super) fn pipe(&self, name: &str) {
        if !self.holds_only_files {
            self.external_writer.pipe(&path(name));
        }
    }

    /// Leaves a temporary file in the folder of a path, if the root can hold one.
    pub(super) fn temporary(&self, name: &str) {
        if !self.holds_only_files {
            self.external_writer.temporary(&path(name));
        }
    }

    /// Returns whether the root can hold an entry that a test shows: a link or a pipe has that word in its path, and a
    /// folder `g` holds only links.
    pub(super) fn can_hold(&self, shown: &str) -> bool {
        let is_other = ["link", "pipe", "temporary", "g/"].iter().any(|word| shown.contains(word));
        !self.holds_only_files || !is_other
    }

    /// Returns those of the shown entries that the root can hold.
    pub(super) fn expected(&self, shown: &[&str]) -> Vec<String> {
        shown.iter().filter(|shown| self.can_hold(shown)).map(|&shown| shown.to_owned()).collect()
    }

    pub(super) async fn write_text(&self, name: &str, text: &str) {
        let staged = self.backend.stage(&path(name), Arc::from(text.as_bytes())).await.unwrap();
        staged.publish(Expect::Absent).await.unwrap();
    }

    /// Returns the stamp of a file.
    pub(super) async fn stamp(&self, name: &str) -> Stamp {
        self.backend.read(&path(name), 0).await.unwrap().stat.stamp
    }

    /// Returns all files and folders: folders end with a slash, files are followed by their text.
    pub(super) async fn shown(&self) -> Vec<String> {
        let walk = self.backend.walk(None, Extent::ALL).await.unwrap();
        let mut shown: Vec<_> =
            walk.folders.iter().map(|folder| format!("{}/", folder.path)).collect();
        for file in &walk.files {
            let read = self.backend.read(&file.path, usize::MAX).await.unwrap();
            // `recent` may differ: time passes between the walk and the read.
            let walked = Stat { recent: read.stat.recent, ..file.stat };
            assert_eq!(read.stat, walked, "a walk and a read agree on {}", file.path);
            shown.push(format!("{}={}", file.path, String::from_utf8(read.bytes).unwrap()));
        }
        let temporaries =
            walk.skipped.iter().filter(|entry| entry.reason == SkipReason::Temporary).count();
        shown.extend((temporaries > 0).then(|| format!("{temporaries} temporary")));
        shown.sort();
        shown
    }
}

/// A walk without details that differ between implementations: stamps, times, and names of temporary files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WalkSummary {
    pub(super) files: Vec<(String, u64)>,
    pub(super) folders: Vec<(String, u64)>,
    pub(super) in_reach: usize,
    pub(super) totals: (usize, usize, u64),
    pub(super) skipped: Vec<(String, SkipReason)>,
    pub(super) incomplete: bool,
}

impl WalkSummary {
    pub(super) fn from_walk(walk: Walk) -> Self {
        let mut skipped: Vec<_> =
            walk.skipped.into_iter().map(|entry| (entry.name, entry.reason)).collect();
        for (name, reason) in &mut skipped {
            if *reason == SkipReason::Temporary {
                let folder = name.rsplit_once('/').map(|(folder, _)| format!("{folder}/"));
                *name = folder.unwrap_or_default() + "*";
            }
        }
        Self {
            files: walk.files.iter().map(|file| (file.path.to_string(), file.stat.bytes)).collect(),
            folders: walk
                .folders
                .iter()
                .map(|folder| (folder.path.to_string(), folder.bytes))
                .collect(),
            in_reach: walk.in_reach,
            totals: (walk.files_total, walk.folders_total, walk.bytes_total),
            skipped,
            incomplete: walk.incomplete,
        }
    }
}

pub(super) fn rows<T: Copy>(rows: &[(&str, T)]) -> Vec<(String, T)> {
    rows.iter().map(|&(name, value)| (name.to_owned(), value)).collect()
}

/// Returns a result as a word.
pub(super) fn outcome_word<T>(outcome: Result<T, BackendError>) -> &'static str {
    match outcome.err() {
        None => "ok",
        Some(BackendError::NotFound) => "not found",
        Some(BackendError::Occupied) => "occupied",
        Some(BackendError::WrongKind) => "wrong kind",
        Some(BackendError::Changed) => "changed",
        Some(BackendError::Escapes(_)) => "escapes",
        Some(BackendError::Full(_)) => "full",
        Some(BackendError::NotWritable(_)) => "not writable",
        Some(BackendError::Locked(_)) => "locked",
        Some(BackendError::Unreachable(_) | BackendError::StateUnreachable(_)) => "unreachable",
        Some(BackendError::Io { .. }) => "io",
    }
}
