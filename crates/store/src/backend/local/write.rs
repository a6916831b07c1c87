//! Atomic writes, removals and renames of files in a root, and their synchronization.
//!
//! New bytes are staged in a temporary file and swapped with the old file in one step. The old file
//! is checked after the swap and swapped back if it is not the expected one, so an external edit is
//! never lost. A file or folder is removed in the same manner: it is moved aside, checked, and then
//! deleted or moved back. Left-overs of a crash are cleaned up in `sweep`.

use std::io::{self, Write as _};

use async_trait::async_trait;
use cap_fs_ext::{DirExt as _, FollowSymlinks, OpenOptionsFollowExt as _};
use cap_std::fs::{Dir, File, OpenOptions};
use memory::clock::Timestamp;
use memory::limits::{OUTSIDE_RACE_RETRIES, PATH_SEGMENTS_MAX};
use memory::path::RelativePath;

use super::root_dir::{Privacy, RootDir};
use super::temp_name::{backup_name, restore_hidden, temporary_name};
use super::{blocking, open_file, stamp_of, walk};
use crate::backend::{BackendError, Expect, Extent, Staged, Stamp};
use crate::os::{self, EntryKind};

/// New bytes in a temporary file beside their path. Dropping it removes the file, and the folders that were created
/// for it.
#[derive(Debug)]
pub(super) struct StagedFile {
    folder: Dir,
    temporary: String,
    name: String,
    created_folders: Vec<(Dir, String)>,
    /// Modification time of a text that was written elsewhere before.
    modified_at: Option<Timestamp>,
    /// Whether the temporary name still belongs to a file of this write.
    is_pending: bool,
}

/// Writes `bytes` to a temporary file beside `path`.
pub(super) fn stage(
    root_dir: &RootDir,
    path: &RelativePath,
    bytes: &[u8],
) -> Result<StagedFile, BackendError> {
    let (folder, created_folders) = root_dir.create_parent(path)?;
    let (mut file, temporary) = match create_temporary(&folder, root_dir.privacy()) {
        Ok(created) => created,
        Err(error) => {
            remove_created_folders(created_folders);
            return Err(error);
        }
    };
    let staged = StagedFile {
        temporary,
        name: path.file_name().to_owned(),
        folder,
        created_folders,
        modified_at: None,
        // From here on, an early return removes the temporary file.
        is_pending: true,
    };
    let to_error = |error| BackendError::from_write("write a memory", error);
    file.write_all(bytes).map_err(to_error)?;
    if let Ok(metadata) = staged.folder.symlink_metadata(&staged.name)
        && metadata.is_file()
    {
        os::copy_permissions(&metadata, &file).map_err(to_error)?;
    }
    Ok(staged)
}

fn create_temporary(folder: &Dir, privacy: Privacy) -> Result<(File, String), BackendError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).follow(FollowSymlinks::No);
    if privacy == Privacy::Private {
        os::private_file(&mut options);
    }
    loop {
        let name = temporary_name();
        match folder.open_with(&name, &options) {
            Ok(file) => return Ok((file, name)),
            // A dead process had the same process number; the next name is free.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(BackendError::from_write("write a memory", error)),
        }
    }
}

#[async_trait]
impl Staged for StagedFile {
    fn set_modified(&mut self, at: Timestamp) {
        self.modified_at = Some(at);
    }

    async fn publish(mut self: Box<Self>, expect: Expect) -> Result<(), BackendError> {
        blocking(move || self.publish_blocking(expect)).await
    }
}

impl StagedFile {
    /// Makes the new bytes durable; for a write without a redo record.
    pub(super) fn sync(&self) -> Result<(), BackendError> {
        let (file, _) = open_file(&self.folder, &self.temporary)?;
        file.sync_all().map_err(|error| BackendError::from_write("synchronize a file", error))
    }

    fn publish_blocking(&mut self, expect: Expect) -> Result<(), BackendError> {
        if let Some(at) = self.modified_at {
            self.date(at);
        }
        match expect {
            Expect::Absent => {
                rename_noreplace(&self.folder, &self.temporary, &self.folder, &self.name)
                    .map_err(|error| BackendError::from_write("put a memory in place", error))?;
            }
            Expect::File(stamp) => self.replace(stamp)?,
        }
        self.is_pending = false;
        self.created_folders.clear();
        Ok(())
    }

    /// Sets the modification time of the new file. A failure is logged only: the text is complete without its time.
    fn date(&self, at: Timestamp) {
        if let Err(error) = os::set_modified(&self.folder, &self.temporary, at) {
            tracing::debug!(%error, "failed to set the modification time of an imported memory");
        }
    }

    /// Swaps the new file with the current one and checks the latter. If it is not the expected one, swaps back, so
    /// that an external edit is never lost.
    fn replace(&mut self, expected: Stamp) -> Result<(), BackendError> {
        let to_error = |error| BackendError::from_write("put a memory in place", error);
        let own_inode = os::stat_in(&self.folder, &self.temporary).map_err(to_error)?.inode;
        match self.swap() {
            Ok(()) => {}
            Err(error) if os::is_unsupported(&error) => return self.replace_by_rename(expected),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(BackendError::Changed);
            }
            Err(error) => return Err(to_error(error)),
        }
        if has_stamp(&self.folder, &self.temporary, expected) {
            // The new bytes are in place. If the old file cannot be removed, a sweep removes it later.
            remove_soon(&self.folder, &self.temporary);
            return Ok(());
        }
        self.swap_back(own_inode)
    }

    /// Swaps the new file with the current one. The unchecked old file gets a backup name, which names its path.
    /// After a crash, a sweep must not take it for a file of this write.
    fn swap(&mut self) -> io::Result<()> {
        let backup = backup_name(&self.name);
        self.folder.rename(&self.temporary, &self.folder, &backup)?;
        self.temporary = backup;
        os::exchange_names(&self.folder, &self.temporary, &self.name)
    }

    /// Swaps back until the temporary name has the file of this write. An external writer may put yet another file
    /// in place between the swaps.
    fn swap_back(&mut self, own_inode: u64) -> Result<(), BackendError> {
        for _ in 0..OUTSIDE_RACE_RETRIES {
            if os::exchange_names(&self.folder, &self.temporary, &self.name).is_err() {
                break;
            }
            match os::stat_in(&self.folder, &self.temporary) {
                Ok(metadata) if metadata.inode == own_inode => return Err(BackendError::Changed),
                Ok(_) | Err(_) => {}
            }
        }
        // The external file has the temporary name. It must neither be deleted with it nor stay hidden.
        self.is_pending = false;
        restore_hidden(&self.folder, &self.temporary, Some(&self.name))
            .map_err(|error| BackendError::from_write("put a memory back", error))?;
        Err(BackendError::Changed)
    }

    /// Replaces a file without a swap, where the file system has none: checks, then renames.
    fn replace_by_rename(&self, expected: Stamp) -> Result<(), BackendError> {
        if !has_stamp(&self.folder, &self.name, expected) {
            return Err(BackendError::Changed);
        }
        self.folder
            .rename(&self.temporary, &self.folder, &self.name)
            .map_err(|error| BackendError::from_write("put a memory in place", error))
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        if self.is_pending {
            // A sweep removes it later if this fails; `drop` cannot report an error.
            drop(self.folder.remove_file(&self.temporary));
        }
        remove_created_folders(std::mem::take(&mut self.created_folders));
    }
}

/// Removes folders that were created for a failed write, unless they are in use.
fn remove_created_folders(created: Vec<(Dir, String)>) {
    for (folder, name) in created.into_iter().rev() {
        // Fails if the folder is not empty.
        drop(folder.remove_dir(name));
    }
}

/// Compares a file with a stamp, but for the change time of its metadata: a swap of two names updates that time.
fn has_stamp(folder: &Dir, name: &str, expected: Stamp) -> bool {
    let Ok(metadata) = os::stat_in(folder, name) else { return false };
    let (Stamp([inode, bytes, _, modified]), Stamp(actual)) = (expected, stamp_of(&metadata));
    let is_equal = [inode, bytes, modified] == [actual[0], actual[1], actual[3]];
    metadata.kind == EntryKind::File && is_equal
}

/// Removes a file name if possible; otherwise a sweep does. The file's blocks are freed on another thread: on ext4
/// removing the name takes about 20 µs, and freeing, which happens when the last handle is closed, about 180 µs.
fn remove_soon(folder: &Dir, name: &str) {
    let handle = os::hold_file(folder, name);
    drop(folder.remove_file(name));
    if let (Some(handle), Ok(runtime)) = (handle, tokio::runtime::Handle::try_current()) {
        drop(runtime.spawn_blocking(move || drop(handle)));
    }
}

/// Renames a file or folder to a name that must be free, atomically where the system can do that.
pub(super) fn rename_noreplace(from: &Dir, name: &str, to: &Dir, new_name: &str) -> io::Result<()> {
    match os::rename_to_free(from, name, to, new_name) {
        Err(error) if os::is_unsupported(&error) => rename_in_two_steps(from, name, to, new_name),
        result => result,
    }
}

/// Does the same where the system cannot do it in one step.
fn rename_in_two_steps(from: &Dir, name: &str, to: &Dir, new_name: &str) -> io::Result<()> {
    // A hard link fails if the new name exists. Folders cannot have hard links, so for them check and rename are
    // two steps.
    if from.symlink_metadata(name)?.is_dir() {
        if to.symlink_metadata(new_name).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        return from.rename(name, to, new_name);
    }
    from.hard_link(name, to, new_name)?;
    from.remove_file(name)
}

/// Removes a file: moves it aside, checks it, and then deletes it or moves it back.
pub(super) fn remove_file(
    root_dir: &RootDir,
    path: &RelativePath,
    expected: Stamp,
) -> Result<(), BackendError> {
    let folder = root_dir.open_parent(path)?.ok_or(BackendError::NotFound)?;
    let to_error = |error| BackendError::from_write("remove a memory", error);
    let backup = backup_name(path.file_name());
    rename_noreplace(&folder, path.file_name(), &folder, &backup).map_err(to_error)?;
    if has_stamp(&folder, &backup, expected) {
        // The file is hidden and counts as removed. If it cannot be deleted, a sweep does that later.
        remove_soon(&folder, &backup);
        return Ok(());
    }
    restore_hidden(&folder, &backup, Some(path.file_name())).map_err(to_error)?;
    Err(BackendError::Changed)
}

/// Removes a folder: moves it aside, checks its memories, and then deletes all of it or moves it back. Links in it
/// are removed as links.
pub(super) fn remove_folder(
    root_dir: &RootDir,
    path: &RelativePath,
    mut expected: Vec<(RelativePath, Stamp)>,
) -> Result<(), BackendError> {
    let folder = root_dir.open_parent(path)?.ok_or(BackendError::NotFound)?;
    let to_error = |error| BackendError::from_write("remove a folder", error);
    if !folder.symlink_metadata(path.file_name()).map_err(to_error)?.is_dir() {
        return Err(BackendError::WrongKind);
    }
    let backup = backup_name(path.file_name());
    rename_noreplace(&folder, path.file_name(), &folder, &backup).map_err(to_error)?;
    expected.sort();
    let memories = memories_in(&folder, &backup, path);
    if !matches!(&memories, Ok(memories) if *memories == expected) {
        // A folder that cannot be read is moved back too: hidden, it would be lost to its owner.
        restore_hidden(&folder, &backup, Some(path.file_name())).map_err(to_error)?;
        return memories.and(Err(BackendError::Changed));
    }
    // The content is checked, so a sweep may delete the folder, too, if this fails.
    let temporary = temporary_name();
    folder.rename(&backup, &folder, &temporary).map_err(to_error)?;
    if let Err(error) = remove_tree(&folder, &temporary) {
        // The folder is hidden and counts as removed. The next sweep tries again.
        tracing::warn!(%error, "deleting a removed folder failed; retry at the next sweep");
    }
    Ok(())
}

/// Returns the memories in the folder `name`, with paths as if it were at `path`, sorted.
fn memories_in(
    folder: &Dir,
    name: &str,
    path: &RelativePath,
) -> Result<Vec<(RelativePath, Stamp)>, BackendError> {
    let inner = folder
        .open_dir_nofollow(name)
        .map_err(|error| BackendError::from_io("look into a folder", error))?;
    let files = walk::walk_in(inner, Some(path), Extent::ALL)?.files;
    let mut memories: Vec<_> = files.into_iter().map(|file| (file.path, file.stat.stamp)).collect();
    memories.sort();
    Ok(memories)
}

/// Removes a folder and its subfolders, as far as they are empty.
pub(super) fn remove_empty(root_dir: &RootDir, path: &RelativePath) -> Result<(), BackendError> {
    let Some(folder) = root_dir.open_parent(path)? else { return Ok(()) };
    remove_empty_in(&folder, path.file_name(), path.depth());
    Ok(())
}

fn remove_empty_in(folder: &Dir, name: &str, depth: usize) {
    if depth <= PATH_SEGMENTS_MAX
        && let Ok(inner) = folder.open_dir_nofollow(name)
        && let Ok(entries) = inner.entries()
    {
        for entry in entries.flatten() {
            if let Some(name) = entry.file_name().to_str() {
                remove_empty_in(&inner, name, depth + 1);
            }
        }
    }
    // Fails for files and for folders that are not empty, which stay.
    drop(folder.remove_dir(name));
}

pub(super) fn remove_tree(folder: &Dir, name: &str) -> io::Result<()> {
    folder.open_dir_nofollow(name)?.remove_open_dir_all()
}

/// Renames a file or folder to a path that must be free.
pub(super) fn rename(
    root_dir: &RootDir,
    from: &RelativePath,
    to: &RelativePath,
) -> Result<(), BackendError> {
    let source = root_dir.open_parent(from)?.ok_or(BackendError::NotFound)?;
    let (target, created_folders) = root_dir.create_parent(to)?;
    let renamed = rename_noreplace(&source, from.file_name(), &target, to.file_name());
    if renamed.is_err() {
        remove_created_folders(created_folders);
    }
    renamed.map_err(|error| BackendError::from_write("rename a memory", error))
}

/// Number of files from which synchronizing the whole file system is cheaper than synchronizing each file.
const SYNC_ALL_FROM: usize = 16;

/// Synchronizes files and all folders above them.
pub(super) fn sync(root_dir: &RootDir, paths: &[RelativePath]) -> Result<(), BackendError> {
    let to_error = |error| BackendError::from_write("synchronize a memory", error);
    if paths.len() >= SYNC_ALL_FROM
        && let Some(root) = root_dir.open()?
        && os::sync_file_system(&root).map_err(to_error)?
    {
        return Ok(());
    }
    let mut parents: Vec<Option<RelativePath>> = Vec::new();
    for path in paths {
        let opened = match root_dir.open_parent(path) {
            Ok(Some(folder)) => open_file(&folder, path.file_name()).map(|(file, _)| Some(file)),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        match opened {
            Ok(Some(file)) => file.sync_all().map_err(to_error)?,
            // The file was removed, or is not a regular file any more: there is nothing to synchronize.
            Ok(None)
            | Err(BackendError::NotFound | BackendError::WrongKind | BackendError::Escapes(_)) => {}
            Err(error) => return Err(error),
        }
        // The name of a new folder is in its parent, so all folders up to the root are synchronized.
        let mut parent = path.parent();
        loop {
            let up = parent.as_ref().map(RelativePath::parent);
            parents.push(parent);
            match up {
                Some(next) => parent = next,
                None => break,
            }
        }
    }
    parents.sort();
    parents.dedup();
    for parent in &parents {
        match root_dir.open_folder(parent.as_ref()) {
            Ok(Some(folder)) => os::sync_folder(&folder).map_err(to_error)?,
            Ok(None) | Err(BackendError::WrongKind | BackendError::Escapes(_)) => {}
            Err(error) => return Err(error),
        }
    }
    for folder in root_dir.open_ancestors()? {
        os::sync_folder(&folder).map_err(to_error)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
