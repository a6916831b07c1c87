//! Finding all memories of a root, in bounded memory and without opening one.

use std::collections::BinaryHeap;
use std::io;

use cap_std::fs::{Dir, DirEntry};
use memory::limits::WALKED_ENTRIES_MAX;
use memory::path::RelativePath;

use super::anchor::{Anchor, step};
use super::instant::Instant;
use super::{stat_of, temporary};
use crate::backend::{BackendError, Extent, Found, FoundFolder, SkipReason, Skipped, Walk};

/// How many things that were passed over are named; the rest of a hostile tree is not worth it.
const SKIPPED_MAX: usize = 100;

/// Walks everything below `from` and keeps the first of each kind in byte order.
pub(super) fn walk(
    anchor: &Anchor,
    from: Option<&RelativePath>,
    extent: Extent,
) -> Result<Walk, BackendError> {
    match anchor.folder_at(from)? {
        Some(folder) => walk_in(&folder, from, extent),
        None => Ok(Walk::default()),
    }
}

/// Walks a folder as if it were at `from`, wherever it really is.
pub(super) fn walk_in(
    folder: &Dir,
    from: Option<&RelativePath>,
    extent: Extent,
) -> Result<Walk, BackendError> {
    let mut walker = Walker {
        started: Instant::now(),
        max: extent.max,
        depth_max: from.map_or(0, RelativePath::depth).saturating_add(extent.levels),
        seen: 0,
        files: BinaryHeap::new(),
        folders: BinaryHeap::new(),
        walk: Walk::default(),
    };
    walker.folder(folder, from).map_err(|error| BackendError::from_io("list a folder", error))?;
    let mut walk = walker.walk;
    walk.files = walker.files.into_sorted_vec().into_iter().map(|first| first.0).collect();
    walk.folders = walker.folders.into_sorted_vec().into_iter().map(|first| first.0).collect();
    walk.skipped.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(walk)
}

/// Orders by path alone.
#[derive(Debug)]
struct ByPath<T>(T);

trait HasPath {
    fn path(&self) -> &RelativePath;
}

impl HasPath for Found {
    fn path(&self) -> &RelativePath {
        &self.path
    }
}

impl HasPath for FoundFolder {
    fn path(&self) -> &RelativePath {
        &self.path
    }
}

impl<T: HasPath> PartialEq for ByPath<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0.path() == other.0.path()
    }
}

impl<T: HasPath> Eq for ByPath<T> {}

impl<T: HasPath> PartialOrd for ByPath<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: HasPath> Ord for ByPath<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.path().as_str().cmp(other.0.path().as_str())
    }
}

struct Walker {
    started: Instant,
    max: usize,
    /// How many segments the path of something kept may have.
    depth_max: usize,
    seen: usize,
    files: BinaryHeap<ByPath<Found>>,
    folders: BinaryHeap<ByPath<FoundFolder>>,
    walk: Walk,
}

impl Walker {
    /// Walks one folder; returns the bytes of the memories below it.
    fn folder(&mut self, folder: &Dir, at: Option<&RelativePath>) -> io::Result<u64> {
        let mut bytes = 0_u64;
        for entry in folder.entries()? {
            self.seen += 1;
            if self.seen > WALKED_ENTRIES_MAX {
                self.walk.incomplete = true;
                break;
            }
            bytes += self.entry(folder, &entry?, at);
        }
        Ok(bytes)
    }

    /// Takes one entry in; returns the bytes of the memories in it.
    fn entry(&mut self, folder: &Dir, entry: &DirEntry, at: Option<&RelativePath>) -> u64 {
        let os_name = entry.file_name();
        let Some(name) = os_name.to_str() else {
            return self.skip(at, &os_name.to_string_lossy(), SkipReason::Unaddressable);
        };
        if name.starts_with('.') {
            if temporary::kind_of(name).is_some() {
                self.skip(at, name, SkipReason::Temporary);
            }
            return 0;
        }
        let Ok(kind) = entry.file_type() else {
            return self.skip(at, name, SkipReason::Unreadable);
        };
        if kind.is_symlink() {
            return self.skip(at, name, SkipReason::Link);
        }
        if !kind.is_file() && !kind.is_dir() {
            return self.skip(at, name, SkipReason::Special);
        }
        let path = match at {
            None => RelativePath::parse(name),
            Some(at) => at.child(name),
        };
        let Ok(path) = path else {
            let deep = RelativePath::parse(name).is_ok();
            let reason = if deep { SkipReason::TooDeep } else { SkipReason::Unaddressable };
            return self.skip(at, name, reason);
        };
        if kind.is_dir() { self.subfolder(folder, name, path) } else { self.file(entry, path) }
    }

    fn file(&mut self, entry: &DirEntry, path: RelativePath) -> u64 {
        let Ok(facts) = entry.metadata() else {
            // It was removed since the folder was read, which is no finding.
            return 0;
        };
        let stat = stat_of(&facts, self.started);
        self.walk.files_total += 1;
        self.walk.bytes_total += stat.bytes;
        if path.depth() <= self.depth_max {
            self.walk.in_reach += 1;
            push(&mut self.files, Found { path, stat }, self.max);
        }
        stat.bytes
    }

    fn subfolder(&mut self, folder: &Dir, name: &str, path: RelativePath) -> u64 {
        let opened = match step(folder, name) {
            Ok(Some(opened)) => opened,
            Ok(None) => return 0,
            Err(BackendError::Escapes(_)) => {
                return self.skip(path.parent().as_ref(), name, SkipReason::Link);
            }
            Err(_) => return self.skip(path.parent().as_ref(), name, SkipReason::Unreadable),
        };
        let Ok(bytes) = self.folder(&opened, Some(&path)) else {
            return self.skip(path.parent().as_ref(), name, SkipReason::Unreadable);
        };
        self.walk.folders_total += 1;
        if path.depth() <= self.depth_max {
            self.walk.in_reach += 1;
            push(&mut self.folders, FoundFolder { path, bytes }, self.max);
        }
        bytes
    }

    fn skip(&mut self, at: Option<&RelativePath>, name: &str, reason: SkipReason) -> u64 {
        if self.walk.skipped.len() < SKIPPED_MAX {
            let name = match at {
                None => name.to_owned(),
                Some(at) => format!("{}/{name}", at.as_str()),
            };
            self.walk.skipped.push(Skipped { name, reason });
        }
        0
    }
}

/// Keeps the `max` smallest.
fn push<T: HasPath>(heap: &mut BinaryHeap<ByPath<T>>, item: T, max: usize) {
    if heap.len() < max {
        heap.push(ByPath(item));
    } else if let Some(mut largest) = heap.peek_mut()
        && item.path().as_str() < largest.0.path().as_str()
    {
        *largest = ByPath(item);
    }
}
