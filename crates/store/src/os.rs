//! The parts of the crate that differ between operating systems. The rest is the same on all of them.
//!
//! `unix` has the calls that every Unix offers, and `linux` those of Linux alone. For each of the latter,
//! `unix::fallback` has a function of the same name, which says that the system cannot do it. Its callers have another
//! way then. The fallback is compiled for the tests on Linux, too. A port to another system is another module beside
//! these.

#[cfg(target_os = "linux")]
mod linux;
mod unix;

use std::io;

use cap_std::fs::Dir;

pub(crate) use self::system::{
    FolderNotices, boot_id, exchange_names, has_no_links, hold_file, rename_to_free,
    rename_to_free_path, sync_file_system,
};
pub(crate) use self::unix::{
    EntryKind, FileMeta, FolderEntries, FolderEntry, available_bytes, changed_at, copy_permissions,
    file_time_now, folder_identity, is_writable, open_without_blocking, path_bytes,
    path_from_bytes, private_file, private_folder, read_at, set_modified, stat_in, stat_path,
    stat_path_itself, sync_folder, touch, write_all_at,
};
#[cfg(target_os = "linux")]
use linux as system;
#[cfg(not(target_os = "linux"))]
use unix::fallback as system;

/// A queue of notices about changes in folders.
///
/// A notice must be in the queue before the call that makes the change returns. Then every change that ended before a
/// read of the queue is known after it. A system whose notices come later must not have such a queue.
pub(crate) trait NoticeQueue: Sized {
    /// Opens a queue; `None` if the system has none.
    fn open() -> Option<Self>;

    /// Watches an open folder, whatever is at its path by now. Returns the number of the watch; `None` if the folder
    /// cannot be watched, or may be changed without a notice.
    fn watch(&self, folder: &Dir) -> Option<i32>;

    /// Stops a watch.
    fn unwatch(&self, watch: i32);

    /// Reads the queue until it is empty.
    fn read(&self, on_notice: impl FnMut(Notice<'_>));
}

/// A change in a watched folder.
pub(crate) enum Notice<'n> {
    /// The watched folder itself changed, or a folder of this name in it. What changed below it is unknown.
    Folder { watch: i32, name: Option<&'n str> },
    /// A file of this name in it.
    File { watch: i32, name: &'n str },
    /// Notices were lost.
    Lost,
}

/// Lets this thread yield the processors to others. A system that cannot do so for one thread does nothing. An error is
/// logged: the thread then runs as before.
pub fn lower_thread_priority() {
    if let Err(error) = system::lower_thread_priority() {
        tracing::debug!(%error, "error while lowering the priority of a thread");
    }
}

/// Checks whether a call failed because the system, or the file system, does not have it.
pub(crate) fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput)
}

#[cfg(test)]
mod tests;
