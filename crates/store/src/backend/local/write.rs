//! Putting bytes in place in one step, and taking them away again.

use std::io::{self, Write as _};

use async_trait::async_trait;
use cap_fs_ext::{DirExt as _, FollowSymlinks, OpenOptionsFollowExt as _, OpenOptionsSyncExt as _};
use cap_std::fs::{
    Dir, File, MetadataExt as _, OpenOptions, OpenOptionsExt as _, Permissions, PermissionsExt as _,
};
use memory::clock::Timestamp;
use memory::limits::{OUTSIDE_RACE_RETRIES, PATH_SEGMENTS_MAX};
use memory::path::RelativePath;

use super::root_dir::{Privacy, RootDir};
use super::temp_name::{backup_name, restore_hidden, temporary_name};
use super::{FileMeta, blocking, open_file, walk};
use crate::backend::{BackendError, Expect, Extent, Staged, Stamp};

/// New bytes beside their place. Dropping them removes them, and the folders made for them.
#[derive(Debug)]
pub(super) struct StagedFile {
    folder: Dir,
    temporary: String,
    name: String,
    created_folders: Vec<(Dir, String)>,
    /// When the bytes were last modified, if that was before they were staged.
    modified_at: Option<Timestamp>,
    /// Whether the temporary name still stands for something of ours.
    is_pending: bool,
}

/// Writes `bytes` beside the place of `path`.
pub(super) fn stage(
    anchor: &RootDir,
    path: &RelativePath,
    bytes: &[u8],
) -> Result<StagedFile, BackendError> {
    let (folder, folders_made) = anchor.create_parent(path)?;
    let (mut file, temporary) = match create_temporary(&folder, anchor.privacy()) {
        Ok(created) => created,
        Err(error) => {
            remove_created_folders(folders_made);
            return Err(error);
        }
    };
    let new = StagedFile {
        temporary,
        name: path.file_name().to_owned(),
        folder,
        created_folders: folders_made,
        modified_at: None,
        // From here on an early return removes what was begun.
        is_pending: true,
    };
    let cannot = |error| BackendError::from_write("write a memory", error);
    file.write_all(bytes).map_err(cannot)?;
    if let Ok(facts) = new.folder.symlink_metadata(&new.name)
        && facts.is_file()
    {
        // Who may read and write stays as it was; what else a hostile file may claim does not.
        let mode = facts.permissions().mode() & 0o777;
        if file.metadata().map_err(cannot)?.permissions().mode() & 0o777 != mode {
            file.set_permissions(Permissions::from_mode(mode)).map_err(cannot)?;
        }
    }
    Ok(new)
}

fn create_temporary(folder: &Dir, privacy: Privacy) -> Result<(File, String), BackendError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).follow(FollowSymlinks::No);
    if privacy == Privacy::Private {
        options.mode(0o600);
    }
    loop {
        let name = temporary_name();
        match folder.open_with(&name, &options) {
            Ok(file) => return Ok((file, name)),
            // A process that died had our number; the next name is free.
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
    /// Returns once the new bytes are safe on the disk: for a write that no redo record stands in for.
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

    /// Dates the new bytes. A file system that keeps no such time does not stop the write: the time is of the text, and
    /// nothing is lost with it.
    fn date(&self, at: Timestamp) {
        use rustix::fs::{AtFlags, Timespec, Timestamps, utimensat};
        let time = Timespec { tv_sec: at.as_second(), tv_nsec: at.subsec_nanosecond().into() };
        let times = Timestamps { last_access: time, last_modification: time };
        let dated = utimensat(&self.folder, &self.temporary, &times, AtFlags::SYMLINK_NOFOLLOW);
        if let Err(error) = dated {
            tracing::debug!(%error, "a memory cannot have the time at which it was written before");
        }
    }

    /// Swaps the new bytes with what is there, looks at what was there, and swaps back if that is
    /// not what was expected: an edit made outside in between is never lost.
    fn replace(&mut self, expected: Stamp) -> Result<(), BackendError> {
        let cannot = |error| BackendError::from_write("put a memory in place", error);
        let ours = self.folder.symlink_metadata(&self.temporary).map_err(cannot)?.ino();
        match self.swap() {
            Ok(()) => {}
            Err(error) if is_unsupported(&error) => return self.replace_by_rename(expected),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(BackendError::Changed);
            }
            Err(error) => return Err(cannot(error)),
        }
        if has_stamp(&self.folder, &self.temporary, expected) {
            // The new bytes are in place. What cannot be removed is swept later.
            remove_soon(&self.folder, &self.temporary);
            return Ok(());
        }
        self.swap_back(ours)
    }

    /// Swaps the new bytes with what is there. From then on nobody has looked at what waits under the
    /// other name, so that name says whose it was: dying here must not let a sweep take it for ours.
    fn swap(&mut self) -> io::Result<()> {
        let aside = backup_name(&self.name);
        self.folder.rename(&self.temporary, &self.folder, &aside)?;
        self.temporary = aside;
        exchange(&self.folder, &self.temporary, &self.name)
    }

    /// Swaps back until it is our own bytes that are at the temporary name: whoever writes outside at
    /// this moment may put yet another file in place.
    fn swap_back(&mut self, ours: u64) -> Result<(), BackendError> {
        for _ in 0..OUTSIDE_RACE_RETRIES {
            if exchange(&self.folder, &self.temporary, &self.name).is_err() {
                break;
            }
            match self.folder.symlink_metadata(&self.temporary) {
                Ok(facts) if facts.ino() == ours => return Err(BackendError::Changed),
                Ok(_) | Err(_) => {}
            }
        }
        // Theirs is at the temporary name: it must neither be discarded with it nor stay unseen.
        self.is_pending = false;
        restore_hidden(&self.folder, &self.temporary, Some(&self.name))
            .map_err(|error| BackendError::from_write("put a memory back", error))?;
        Err(BackendError::Changed)
    }

    /// Replaces where the file system cannot swap: looks, then renames.
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
            // What cannot be removed is swept later; there is nobody to tell here.
            drop(self.folder.remove_file(&self.temporary));
        }
        remove_created_folders(std::mem::take(&mut self.created_folders));
    }
}

/// Removes folders that were made for a write that did not happen, unless somebody uses them.
fn remove_created_folders(made: Vec<(Dir, String)>) {
    for (folder, name) in made.into_iter().rev() {
        // Succeeds only if nobody has put anything into it.
        drop(folder.remove_dir(name));
    }
}

/// Compares a file with a stamp, leaving out the time of the last change of its facts: swapping
/// two names touches that, and nothing else that a writer would.
fn has_stamp(folder: &Dir, name: &str, expected: Stamp) -> bool {
    let Ok(facts) = folder.symlink_metadata(name) else { return false };
    let (Stamp([ino, bytes, _, modified]), Stamp(found)) =
        (expected, FileMeta::from(&facts).stamp());
    facts.is_file() && [ino, bytes, modified] == [found[0], found[1], found[3]]
}

/// Removes the name of a file now, if that can be done, or leaves it to be swept; what the file takes up is given
/// back beside that. On ext4 the name takes some 20 µs and the rest 180, which waits for the last open handle.
fn remove_soon(folder: &Dir, name: &str) {
    #[cfg(target_os = "linux")]
    let handle = {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(folder, name, flags, Mode::empty())
    };
    drop(folder.remove_file(name));
    #[cfg(target_os = "linux")]
    if let (Ok(handle), Ok(runtime)) = (handle, tokio::runtime::Handle::try_current()) {
        drop(runtime.spawn_blocking(move || drop(handle)));
    }
}

#[cfg(target_os = "linux")]
fn exchange(folder: &Dir, a: &str, b: &str) -> io::Result<()> {
    use rustix::fs::RenameFlags;
    Ok(rustix::fs::renameat_with(folder, a, folder, b, RenameFlags::EXCHANGE)?)
}

#[cfg(not(target_os = "linux"))]
fn exchange(_folder: &Dir, _a: &str, _b: &str) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Gives something another name that nothing has, in one step.
pub(super) fn rename_noreplace(from: &Dir, name: &str, to: &Dir, new_name: &str) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::RenameFlags;
        match rustix::fs::renameat_with(from, name, to, new_name, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(()),
            Err(error) if is_unsupported(&error.into()) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // A second name fails when there is a first one; folders have no second names, so for them the
    // look and the step are two.
    if from.symlink_metadata(name)?.is_dir() {
        if to.symlink_metadata(new_name).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        return from.rename(name, to, new_name);
    }
    from.hard_link(name, to, new_name)?;
    from.remove_file(name)
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput)
}

/// Removes a file: out of sight first, then looked at, then gone or put back.
pub(super) fn remove_file(
    anchor: &RootDir,
    path: &RelativePath,
    expected: Stamp,
) -> Result<(), BackendError> {
    let folder = anchor.open_parent(path)?.ok_or(BackendError::NotFound)?;
    let cannot = |error| BackendError::from_write("remove a memory", error);
    let aside = backup_name(path.file_name());
    rename_noreplace(&folder, path.file_name(), &folder, &aside).map_err(cannot)?;
    if has_stamp(&folder, &aside, expected) {
        // It is out of sight, and so removed. What cannot be removed is swept later.
        remove_soon(&folder, &aside);
        return Ok(());
    }
    restore_hidden(&folder, &aside, Some(path.file_name())).map_err(cannot)?;
    Err(BackendError::Changed)
}

/// Removes a folder: out of sight in one step, then looked at, then piece by piece or put back.
/// Links in it are removed as links.
pub(super) fn remove_folder(
    anchor: &RootDir,
    path: &RelativePath,
    mut expected: Vec<(RelativePath, Stamp)>,
) -> Result<(), BackendError> {
    let folder = anchor.open_parent(path)?.ok_or(BackendError::NotFound)?;
    let cannot = |error| BackendError::from_write("remove a folder", error);
    if !folder.symlink_metadata(path.file_name()).map_err(cannot)?.is_dir() {
        return Err(BackendError::WrongKind);
    }
    let aside = backup_name(path.file_name());
    rename_noreplace(&folder, path.file_name(), &folder, &aside).map_err(cannot)?;
    expected.sort();
    let found = memories_in(&folder, &aside, path);
    if !matches!(&found, Ok(found) if *found == expected) {
        // What cannot be looked at is put back too: out of sight nobody would find it.
        restore_hidden(&folder, &aside, Some(path.file_name())).map_err(cannot)?;
        return found.and(Err(BackendError::Changed));
    }
    // Looked at, and so ours to clear away, now or by the next sweep.
    let temporary = temporary_name();
    folder.rename(&aside, &folder, &temporary).map_err(cannot)?;
    if let Err(error) = remove_tree(&folder, &temporary) {
        // It is out of sight, and so removed; the next sweep tries again.
        tracing::warn!(%error, "a removed folder could not be cleared away yet");
    }
    Ok(())
}

/// Returns the memories in the folder called `name`, as if it were at `path`, in order.
fn memories_in(
    folder: &Dir,
    name: &str,
    path: &RelativePath,
) -> Result<Vec<(RelativePath, Stamp)>, BackendError> {
    let inner = folder
        .open_dir_nofollow(name)
        .map_err(|error| BackendError::from_io("look into a folder", error))?;
    let files = walk::walk_in(inner, Some(path), Extent::ALL)?.files;
    let mut found: Vec<_> = files.into_iter().map(|file| (file.path, file.stat.stamp)).collect();
    found.sort();
    Ok(found)
}

/// Removes a folder and the folders in it as far as there is nothing in them.
pub(super) fn remove_empty(anchor: &RootDir, path: &RelativePath) -> Result<(), BackendError> {
    let Some(folder) = anchor.open_parent(path)? else { return Ok(()) };
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
    // Fails for whatever is no folder or is not empty, which then stays.
    drop(folder.remove_dir(name));
}

pub(super) fn remove_tree(folder: &Dir, name: &str) -> io::Result<()> {
    folder.open_dir_nofollow(name)?.remove_open_dir_all()
}

/// Gives a file or folder another path, which must be free.
pub(super) fn rename(
    anchor: &RootDir,
    from: &RelativePath,
    to: &RelativePath,
) -> Result<(), BackendError> {
    let source = anchor.open_parent(from)?.ok_or(BackendError::NotFound)?;
    let (target, made) = anchor.create_parent(to)?;
    let moved = rename_noreplace(&source, from.file_name(), &target, to.file_name());
    if moved.is_err() {
        remove_created_folders(made);
    }
    moved.map_err(|error| BackendError::from_write("rename a memory", error))
}

/// From how many files on one request to synchronize everything is cheaper than one for each.
const SYNC_ALL_FROM: usize = 16;

/// Synchronizes files and the folders that hold their names.
pub(super) fn sync(anchor: &RootDir, paths: &[RelativePath]) -> Result<(), BackendError> {
    let cannot = |error| BackendError::from_write("synchronize a memory", error);
    if paths.len() >= SYNC_ALL_FROM
        && let Some(root) = anchor.open()?
        && sync_file_system(&root).map_err(cannot)?
    {
        return Ok(());
    }
    let mut parents: Vec<Option<RelativePath>> = Vec::new();
    for path in paths {
        let opened = match anchor.open_parent(path) {
            Ok(Some(folder)) => open_file(&folder, path.file_name()).map(|(file, _)| Some(file)),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        match opened {
            Ok(Some(file)) => file.sync_all().map_err(cannot)?,
            // It was removed, or something that is not ours to synchronize took its place.
            Ok(None)
            | Err(BackendError::NotFound | BackendError::WrongKind | BackendError::Escapes(_)) => {}
            Err(error) => return Err(error),
        }
        // New folders need their own names synchronized too, so all of them up to the root.
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
        match anchor.open_folder(parent.as_ref()) {
            Ok(Some(folder)) => sync_folder(&folder).map_err(cannot)?,
            Ok(None) | Err(BackendError::WrongKind | BackendError::Escapes(_)) => {}
            Err(error) => return Err(error),
        }
    }
    for folder in anchor.open_ancestors()? {
        sync_folder(&folder).map_err(cannot)?;
    }
    Ok(())
}

/// Synchronizes the whole file system that a folder is on; returns whether that can be done here.
#[cfg(target_os = "linux")]
fn sync_file_system(folder: &Dir) -> io::Result<bool> {
    rustix::fs::syncfs(open_readable(folder)?)?;
    Ok(true)
}

#[cfg(not(target_os = "linux"))]
fn sync_file_system(_folder: &Dir) -> io::Result<bool> {
    Ok(false)
}

/// Opens a folder again for reading: a handle that only names it cannot be synchronized.
fn open_readable(folder: &Dir) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).nonblock(true);
    folder.open_with(".", &options)
}

fn sync_folder(folder: &Dir) -> io::Result<()> {
    open_readable(folder)?.sync_all()
}

#[cfg(test)]
mod tests;
