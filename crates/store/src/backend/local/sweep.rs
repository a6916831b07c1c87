//! Sweeps: removes left-overs of interrupted writes, and nothing that a person wrote.
//!
//! A sweep walks the folders of a root and handles the names that `temp_name` defines. A temporary
//! file is removed. A backup, which a write moved aside, is removed only if history has its bytes;
//! otherwise it is renamed back. A sweep may run only while the root is locked.

use cap_fs_ext::DirExt as _;
use cap_std::fs::Dir;
use memory::limits::{HISTORY_FILE_BYTES_MAX, PATH_SEGMENTS_MAX};
use memory::path::RelativePath;

use super::read_in;
use super::root_dir::RootDir;
use super::temp_name::{TempKind, kind_of, restore_hidden};
use super::write::remove_tree;
use crate::backend::{BackendError, IsReferenced, SweepReport};

/// Sweeps the whole root.
pub(super) fn sweep(
    root_dir: &RootDir,
    in_history: &IsReferenced,
) -> Result<SweepReport, BackendError> {
    sweep_levels(root_dir, in_history, PATH_SEGMENTS_MAX)
}

/// Sweeps the top of the root, without its folders.
pub(super) fn sweep_top(
    root_dir: &RootDir,
    in_history: &IsReferenced,
) -> Result<SweepReport, BackendError> {
    sweep_levels(root_dir, in_history, 0)
}

fn sweep_levels(
    root_dir: &RootDir,
    in_history: &IsReferenced,
    levels: usize,
) -> Result<SweepReport, BackendError> {
    let mut sweep = Sweep { is_referenced: in_history, levels, report: SweepReport::default() };
    if let Some(root) = root_dir.open()? {
        sweep.folder(&root, None, 0);
    }
    Ok(sweep.report)
}

struct Sweep<'a> {
    is_referenced: &'a IsReferenced,
    /// Maximum depth of folders that are swept.
    levels: usize,
    report: SweepReport,
}

impl Sweep<'_> {
    /// Sweeps one folder. A folder that cannot be read is skipped, so that it does not block writes elsewhere.
    /// `folder_path` is `None` at the root, and for a folder without a valid path.
    fn folder(&mut self, folder: &Dir, folder_path: Option<&RelativePath>, depth: usize) {
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
                Some(TempKind::Backup(original_name)) => {
                    let path = original_name
                        .and_then(|original_name| child_path(folder_path, depth, original_name));
                    self.sweep_backup(folder, name, (original_name, path.as_ref()));
                }
                None if kind.is_dir() && depth < self.levels => {
                    if let Ok(next) = folder.open_dir_nofollow(name) {
                        self.folder(
                            &next,
                            child_path(folder_path, depth, name).as_ref(),
                            depth + 1,
                        );
                    }
                }
                None => {}
            }
        }
    }

    /// Removes a backup if history has its content, and otherwise restores it.
    fn sweep_backup(
        &mut self,
        folder: &Dir,
        name: &str,
        (original_name, path): (Option<&str>, Option<&RelativePath>),
    ) {
        let Some(is_disposable) = self.is_disposable(folder, name, path) else { return };
        if is_disposable {
            let removed = match folder.symlink_metadata(name) {
                Ok(metadata) if metadata.is_dir() => remove_tree(folder, name),
                Ok(_) | Err(_) => folder.remove_file(name),
            };
            self.report.removed += usize::from(removed.is_ok());
            return;
        }
        match restore_hidden(folder, name, original_name) {
            Ok(restored_name) => {
                let parent = path.and_then(RelativePath::parent);
                let restored_name = parent
                    .map_or(restored_name.clone(), |parent| format!("{parent}/{restored_name}"));
                self.report.restored.push(restored_name);
            }
            Err(error) => {
                tracing::warn!(%error, "restoring the backup of an interrupted write failed");
            }
        }
    }

    /// Checks whether history has this file, or all files in this folder, or there is nothing to lose. Returns `None` if
    /// that is unknown now.
    fn is_disposable(&self, folder: &Dir, name: &str, path: Option<&RelativePath>) -> Option<bool> {
        let Ok(metadata) = folder.symlink_metadata(name) else { return Some(false) };
        if metadata.is_file() {
            let Ok(read) = read_in(folder, name, HISTORY_FILE_BYTES_MAX) else {
                return Some(false);
            };
            return match path {
                _ if read.bytes.is_empty() => Some(true),
                Some(path) if read.is_whole() => (self.is_referenced)(path, &read.bytes),
                _ => Some(false),
            };
        }
        if !metadata.is_dir() {
            // A link, pipe or device has no text, and a write never moves one aside by itself.
            return Some(true);
        }
        let Ok(inner) = folder.open_dir_nofollow(name) else { return Some(false) };
        let Ok(entries) = inner.entries() else { return Some(false) };
        for entry in entries.flatten() {
            let os_name = entry.file_name();
            // Each level is a segment of the path, so the recursion ends when the path has its maximum depth.
            let inner_path = |name: &str| path.and_then(|path| path.child(name).ok());
            let named = os_name.to_str().and_then(|name| Some((name, inner_path(name)?)));
            let Some((name, path)) = named else { return Some(false) };
            if !self.is_disposable(&inner, name, Some(&path))? {
                return Some(false);
            }
        }
        Some(true)
    }
}

fn child_path(folder: Option<&RelativePath>, depth: usize, name: &str) -> Option<RelativePath> {
    match folder {
        Some(folder) => folder.child(name).ok(),
        None if depth == 0 => RelativePath::parse(name).ok(),
        None => None,
    }
}
