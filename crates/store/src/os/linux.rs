//! The calls of Linux.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::Path;

use cap_std::fs::Dir;
use rustix::fs::inotify::{
    CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init, remove_watch,
};
use rustix::fs::{
    CWD, Mode, OFlags, RenameFlags, ResolveFlags, fstatfs, openat, openat2, renameat_with, syncfs,
};
use rustix::io::Errno;

use super::unix::open_folder_for_reading;
use super::{Notice, NoticeQueue};

/// Swaps two names in a folder in one step.
pub(crate) fn exchange_names(folder: &Dir, a: &str, b: &str) -> io::Result<()> {
    Ok(renameat_with(folder, a, folder, b, RenameFlags::EXCHANGE)?)
}

/// Renames a file or folder in one step, to a name that must be free.
pub(crate) fn rename_to_free(from: &Dir, name: &str, to: &Dir, new_name: &str) -> io::Result<()> {
    rename_without_replacement(from, Path::new(name), to, Path::new(new_name))
}

/// Renames a file or folder in one step, to a path that must be free.
pub(crate) fn rename_to_free_path(from: &Path, to: &Path) -> io::Result<()> {
    rename_without_replacement(CWD, from, CWD, to)
}

fn rename_without_replacement(
    from: impl AsFd,
    path: &Path,
    to: impl AsFd,
    new_path: &Path,
) -> io::Result<()> {
    Ok(renameat_with(from, path, to, new_path, RenameFlags::NOREPLACE)?)
}

/// Opens a file such that its blocks are freed when the returned handle is closed, and not when its name is removed.
/// Returns `None` if that is not possible.
pub(crate) fn hold_file(folder: &Dir, name: &str) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty()).ok()
}

/// Synchronizes the whole file system of a folder. Returns whether the system supports that.
pub(crate) fn sync_file_system(folder: &Dir) -> io::Result<bool> {
    syncfs(open_folder_for_reading(folder)?)?;
    Ok(true)
}

/// Checks with one call whether something is at an absolute path, and none of its components is a link. A system without
/// such a call returns `false`.
pub(crate) fn has_no_links(path: &Path) -> bool {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS).is_ok()
}

/// Returns the boot id, which differs after each start of the machine. Returns `None` if there is none.
pub(crate) fn boot_id() -> Option<String> {
    crate::host_fs::read_small_file("/proc/sys/kernel/random/boot_id")
}

/// Adds 10 to the niceness of this thread.
pub(super) fn lower_thread_priority() -> io::Result<()> {
    // By POSIX the niceness is that of the process, but on Linux each thread has one.
    rustix::process::nice(10)?;
    Ok(())
}

/// The queue of inotify.
#[derive(Debug)]
pub(crate) struct FolderNotices(OwnedFd);

/// Size of the buffer that the queue is read with.
const BUFFER_BYTES: usize = 4_096;

/// File systems of this machine, by their numbers in `statfs`: changes by another machine cause no notice, so a file
/// system that may have some is not observed.
const LOCAL_FILE_SYSTEMS: [u64; 8] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // Btrfs
    0x0102_1994, // tmpfs
    0x794c_7630, // overlayfs
    0xf2f5_2010, // F2FS
    0x2fc1_2fc1, // ZFS
    0xca45_1a4e, // bcachefs
];

impl NoticeQueue for FolderNotices {
    fn open() -> Option<Self> {
        init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok().map(Self)
    }

    fn watch(&self, folder: &Dir) -> Option<i32> {
        let kind = fstatfs(folder).ok()?.f_type;
        if !LOCAL_FILE_SYSTEMS.iter().any(|local| u64::try_from(kind) == Ok(*local)) {
            return None;
        }
        let of_files = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::MODIFY
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::ATTRIB;
        let of_folder = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
        let flags = of_files | of_folder | WatchFlags::ONLYDIR | WatchFlags::EXCL_UNLINK;
        add_watch(&self.0, format!("/proc/self/fd/{}", folder.as_raw_fd()), flags).ok()
    }

    fn unwatch(&self, watch: i32) {
        // It fails if the folder is gone, and its watch with it.
        remove_watch(&self.0, watch).unwrap_or_default();
    }

    fn read(&self, mut on_notice: impl FnMut(Notice<'_>)) {
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        let mut reader = Reader::new(&self.0, &mut buffer);
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => continue,
                // Without the queue nothing is certain any more.
                Err(_) => return on_notice(Notice::Lost),
            };
            let (watch, flags) = (event.wd(), event.events());
            let of_folder = ReadFlags::DELETE_SELF
                | ReadFlags::MOVE_SELF
                | ReadFlags::UNMOUNT
                | ReadFlags::IGNORED;
            // A name that is not UTF-8 is none of a memory, but a folder may be renamed to one.
            let name = event.file_name().and_then(|name| name.to_str().ok());
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                on_notice(Notice::Lost);
            } else if flags.intersects(of_folder | ReadFlags::ISDIR) {
                on_notice(Notice::Folder { watch, name });
            } else if let Some(name) = name {
                on_notice(Notice::File { watch, name });
            }
        }
    }
}
