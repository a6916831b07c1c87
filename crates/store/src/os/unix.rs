//! The calls that every Unix offers.

#[cfg(any(test, not(target_os = "linux")))]
pub(super) mod fallback;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use cap_fs_ext::OpenOptionsSyncExt as _;
use cap_std::fs::{
    Dir, DirBuilder, DirBuilderExt as _, File, Metadata, MetadataExt as _, OpenOptions,
    OpenOptionsExt as _, Permissions, PermissionsExt as _,
};
use memory::clock::Timestamp as Moment;
use rustix::fs::{Access, AtFlags, DirEntry, FileType, Mode, OFlags, Stat, Timespec, Timestamps};
use rustix::time::{ClockId, clock_gettime};

/// The mode bits that say who may read, write and execute. A hostile checkout may set others, such as setuid.
const PERMISSION_BITS: u32 = 0o777;

/// The kind of an entry of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A pipe, socket or device.
    Special,
}

impl From<FileType> for EntryKind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Folder,
            FileType::Symlink => Self::Link,
            _ => Self::Special,
        }
    }
}

/// Metadata of a file. Times are seconds since 1970 and nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileMeta {
    pub(crate) kind: EntryKind,
    /// The number of the file in its file system.
    pub(crate) inode: u64,
    pub(crate) bytes: u64,
    pub(crate) modified: (i64, i64),
    /// Time of the last change of the metadata.
    pub(crate) changed: (i64, i64),
}

impl From<&Metadata> for FileMeta {
    fn from(metadata: &Metadata) -> Self {
        Self {
            kind: FileType::from_raw_mode(metadata.mode()).into(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl From<&Stat> for FileMeta {
    fn from(stat: &Stat) -> Self {
        let nanos = |nanos| i64::try_from(nanos).unwrap_or_default();
        Self {
            kind: FileType::from_raw_mode(stat.st_mode).into(),
            inode: stat.st_ino,
            bytes: u64::try_from(stat.st_size).unwrap_or_default(),
            modified: (stat.st_mtime, nanos(stat.st_mtime_nsec)),
            changed: (stat.st_ctime, nanos(stat.st_ctime_nsec)),
        }
    }
}

/// Returns the metadata of a path, with links followed.
pub(crate) fn stat_path(path: &Path) -> io::Result<FileMeta> {
    Ok((&rustix::fs::stat(path)?).into())
}

/// Returns the metadata of a path, which may be a link itself.
pub(crate) fn stat_path_itself(path: &Path) -> io::Result<FileMeta> {
    Ok((&rustix::fs::lstat(path)?).into())
}

/// Returns the metadata of an entry of a folder, which may be a link itself.
pub(crate) fn stat_in(folder: &Dir, name: &str) -> io::Result<FileMeta> {
    Ok((&rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?).into())
}

/// Returns the device and inode of an open folder.
pub(crate) fn folder_identity(folder: &Dir) -> io::Result<(u64, u64)> {
    let metadata = folder.dir_metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

/// The entries of a folder, in the order of the file system.
pub(crate) struct FolderEntries<'f> {
    folder: &'f Dir,
    entries: rustix::fs::Dir,
}

/// An entry of a folder.
pub(crate) struct FolderEntry<'f> {
    folder: &'f Dir,
    entry: DirEntry,
}

impl<'f> FolderEntries<'f> {
    pub(crate) fn of(folder: &'f Dir) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(folder, ".", flags, Mode::empty())?;
        Ok(Self { folder, entries: rustix::fs::Dir::new(opened)? })
    }
}

impl<'f> Iterator for FolderEntries<'f> {
    type Item = io::Result<FolderEntry<'f>>;

    fn next(&mut self) -> Option<Self::Item> {
        let is_dots = |entry: &DirEntry| [c".", c".."].contains(&entry.file_name());
        let folder = self.folder;
        let mut entries = std::iter::from_fn(|| self.entries.read());
        let entry = entries.find(|entry| !entry.as_ref().is_ok_and(is_dots))?;
        Some(entry.map(|entry| FolderEntry { folder, entry }).map_err(io::Error::from))
    }
}

impl FolderEntry<'_> {
    /// Returns the name. If it is not UTF-8, returns an approximation as an error.
    pub(crate) fn name(&self) -> Result<&str, String> {
        let name = self.entry.file_name();
        name.to_str().map_err(|_| name.to_string_lossy().into_owned())
    }

    /// Returns the kind. Calls `stat` if the file system does not return it with the name.
    pub(crate) fn kind(&self) -> io::Result<EntryKind> {
        let kind = match self.entry.file_type() {
            FileType::Unknown => {
                let name = self.entry.file_name();
                let stat = rustix::fs::statat(self.folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(stat.st_mode)
            }
            kind => kind,
        };
        Ok(kind.into())
    }
}

/// Opens a folder again for reading: a handle that only names it (`O_PATH`) cannot be synchronized.
pub(super) fn open_folder_for_reading(folder: &Dir) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).nonblock(true);
    folder.open_with(".", &options)
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(folder: &Dir) -> io::Result<()> {
    open_folder_for_reading(folder)?.sync_all()
}

/// Opens a file for reading without waiting, as for the writer of a pipe. Fails for a link if none is to be followed.
#[expect(clippy::disallowed_types, reason = "its callers are the places that open such files")]
pub(crate) fn open_without_blocking(path: &Path, follow_link: bool) -> io::Result<fs::File> {
    let no_link = if follow_link { OFlags::empty() } else { OFlags::NOFOLLOW };
    let flags = (OFlags::NONBLOCK | no_link).bits().cast_signed();
    fs::OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Makes a new file one that only its owner may use.
pub(crate) fn private_file(options: &mut OpenOptions) {
    options.mode(0o600);
}

/// Makes a new folder one that only its owner may use.
pub(crate) fn private_folder(builder: &mut DirBuilder) {
    builder.mode(0o700);
}

/// Gives a file the permissions of another.
pub(crate) fn copy_permissions(from: &Metadata, to: &File) -> io::Result<()> {
    let mode = from.permissions().mode() & PERMISSION_BITS;
    if to.metadata()?.permissions().mode() & PERMISSION_BITS == mode {
        return Ok(());
    }
    to.set_permissions(Permissions::from_mode(mode))
}

/// Sets the modification time of a file in a folder.
pub(crate) fn set_modified(folder: &Dir, name: &str, at: Moment) -> io::Result<()> {
    let time = Timespec { tv_sec: at.as_second(), tv_nsec: at.subsec_nanosecond().into() };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(rustix::fs::utimensat(folder, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Sets the times of an open file to the current one.
pub(crate) fn touch(file: &fs::File) -> io::Result<()> {
    let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
    let times = Timestamps { last_access: now, last_modification: now };
    Ok(rustix::fs::futimens(file, &times)?)
}

/// Returns the time of the last change of an open file's metadata.
pub(crate) fn changed_at(file: &fs::File) -> io::Result<(i64, i64)> {
    let metadata = file.metadata()?;
    Ok((metadata.ctime(), metadata.ctime_nsec()))
}

/// Returns the time of the clock that the file system uses: seconds since 1970 and nanoseconds.
pub(crate) fn file_time_now() -> (i64, i64) {
    let now = clock_gettime(ClockId::Realtime);
    (now.tv_sec, now.tv_nsec)
}

/// Checks whether this account may write in an existing folder.
pub(crate) fn is_writable(folder: &Path) -> bool {
    rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

/// Returns the number of bytes that this account may still write to the disk of a path. Returns `None` if the system
/// does not report it.
pub(crate) fn available_bytes(path: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(path).ok()?;
    disk.f_bavail.checked_mul(disk.f_frsize)
}

/// Reads from a place of an open file, and returns the number of bytes that were read.
pub(crate) fn read_at(file: &fs::File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(bytes, offset)
}

/// Writes to a place of an open file.
pub(crate) fn write_all_at(file: &fs::File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)
}

/// Returns the bytes of a path, which may be invalid UTF-8.
pub(crate) fn path_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// Returns the path that consists of these bytes.
pub(crate) fn path_from_bytes(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}
