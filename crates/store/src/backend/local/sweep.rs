//! Clearing away what interrupted writes left, and nothing that a person wrote.

use cap_fs_ext::DirExt as _;
use cap_std::fs::Dir;
use memory::limits::{HISTORY_FILE_BYTES_MAX, PATH_SEGMENTS_MAX};
use memory::path::RelativePath;

use super::read_in;
use super::root_dir::RootDir;
use super::temp_name::{TempKind, kind_of, restore_hidden};
use super::write::remove_tree;
use crate::backend::{BackendError, IsReferenced, SweepReport};

/// Sweeps everything below the root.
pub(super) fn sweep(
    anchor: &RootDir,
    in_history: &IsReferenced,
) -> Result<SweepReport, BackendError> {
    sweep_levels(anchor, in_history, PATH_SEGMENTS_MAX)
}

/// Sweeps what lies at the top of the root, and nothing in folders there.
pub(super) fn sweep_top(
    anchor: &RootDir,
    in_history: &IsReferenced,
) -> Result<SweepReport, BackendError> {
    sweep_levels(anchor, in_history, 0)
}

fn sweep_levels(
    anchor: &RootDir,
    in_history: &IsReferenced,
    levels: usize,
) -> Result<SweepReport, BackendError> {
    let mut sweep = Sweep { is_referenced: in_history, levels, report: SweepReport::default() };
    if let Some(root) = anchor.open()? {
        sweep.folder(&root, None, 0);
    }
    Ok(sweep.report)
}

struct Sweep<'a> {
    is_referenced: &'a IsReferenced,
    /// How many levels of folders are looked into.
    levels: usize,
    report: SweepReport,
}

impl Sweep<'_> {
    /// Sweeps what can be read; a folder that cannot must not keep anybody from writing elsewhere.
    /// A folder that no path names has no `at`.
    fn folder(&mut self, folder: &Dir, at: Option<&RelativePath>, depth: usize) {
        let Ok(entries) = folder.entries() else { return };
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let os_name = entry.file_name();
            let Some(name) = os_name.to_str() else { continue };
            match kind_of(name) {
                Some(TempKind::Partial) => {
                    let removed = if kind.is_dir() {
                        remove_tree(folder, name)
                    } else {
                        folder.remove_file(name)
                    };
                    self.report.removed += usize::from(removed.is_ok());
                }
                Some(TempKind::Backup(place)) => {
                    let path = place.and_then(|place| child_path(at, depth, place));
                    self.sweep_backup(folder, name, (place, path.as_ref()));
                }
                None if kind.is_dir() && depth < self.levels => {
                    if let Ok(next) = folder.open_dir_nofollow(name) {
                        self.folder(&next, child_path(at, depth, name).as_ref(), depth + 1);
                    }
                }
                None => {}
            }
        }
    }

    /// Removes what is in history of what a write took out of its place, and brings the rest back.
    fn sweep_backup(
        &mut self,
        folder: &Dir,
        name: &str,
        (place, path): (Option<&str>, Option<&RelativePath>),
    ) {
        if self.is_disposable(folder, name, path) {
            let removed = match folder.symlink_metadata(name) {
                Ok(facts) if facts.is_dir() => remove_tree(folder, name),
                Ok(_) | Err(_) => folder.remove_file(name),
            };
            self.report.removed += usize::from(removed.is_ok());
            return;
        }
        match restore_hidden(folder, name, place) {
            Ok(shown) => {
                let above = path.and_then(RelativePath::parent);
                let shown = above.map_or(shown.clone(), |above| format!("{above}/{shown}"));
                self.report.restored.push(shown);
            }
            Err(error) => {
                tracing::warn!(%error, "what an interrupted write took away cannot be brought back");
            }
        }
    }

    /// Returns whether nobody would miss this file, or anything in this folder.
    fn is_disposable(&self, folder: &Dir, name: &str, path: Option<&RelativePath>) -> bool {
        let Ok(facts) = folder.symlink_metadata(name) else { return false };
        if facts.is_file() {
            let Ok(read) = read_in(folder, name, HISTORY_FILE_BYTES_MAX) else { return false };
            let known = |path| (self.is_referenced)(path, &read.bytes);
            return read.bytes.is_empty() || read.is_whole() && path.is_some_and(known);
        }
        if !facts.is_dir() {
            // A link, pipe or device holds no text, and a write takes none of them away alone.
            return true;
        }
        let Ok(inner) = folder.open_dir_nofollow(name) else { return false };
        let Ok(entries) = inner.entries() else { return false };
        entries.flatten().all(|entry| {
            let os_name = entry.file_name();
            let Some(name) = os_name.to_str() else { return false };
            // Each level is a segment of the path, so a path that ends ends this too.
            let path = path.and_then(|path| path.child(name).ok());
            path.is_some_and(|path| self.is_disposable(&inner, name, Some(&path)))
        })
    }
}

fn child_path(at: Option<&RelativePath>, depth: usize, name: &str) -> Option<RelativePath> {
    match at {
        Some(at) => at.child(name).ok(),
        None if depth == 0 => RelativePath::parse(name).ok(),
        None => None,
    }
}
