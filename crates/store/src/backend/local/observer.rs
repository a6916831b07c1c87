//! Notices of the kernel about changes in folders.
//!
//! Linux queues a notice (inotify) before the system call that makes the change returns. So once the queue was read,
//! every change that ended before is known. A notice names a file and says nothing about its content, so the file has
//! to be looked at again. Other systems have no such order; there, nothing can be observed.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use cap_std::fs::Dir;
use memory::path::RelativePath;
use parking_lot::Mutex;

use self::inotify::{Notice, Notices};

/// Maximum number of folders that a process observes. The kernel needs about a kilobyte for each.
const OBSERVED_FOLDERS_MAX: usize = 4_096;
/// Maximum number of changed paths that are collected between two calls; a walk is cheaper than more.
const NOTICED_PATHS_MAX: usize = 1_024;

/// The notices of one process. There is one queue for all roots, because the system limits the queues of a user.
#[derive(Debug, Default)]
pub(crate) struct Observer(Mutex<ObserverState>);

#[derive(Debug, Default)]
struct ObserverState {
    /// Opened for the first folder.
    notices: Option<Notices>,
    /// The observed folders by the number of their watch. Two roots may be one folder.
    folders: HashMap<i32, Vec<ObservedFolder>>,
}

#[derive(Debug)]
struct ObservedFolder {
    changes: Arc<PendingChanges>,
    /// Its path in the root; `None` for the root itself.
    path: Option<RelativePath>,
}

/// Changes below one root since they were last taken.
#[derive(Debug, Default)]
pub(super) struct PendingChanges(Mutex<PendingState>);

#[derive(Debug, Default)]
struct PendingState {
    paths: BTreeSet<RelativePath>,
    /// Whether something changed that `paths` does not name.
    is_incomplete: bool,
}

impl Observer {
    /// Collects changes in a folder from now on. Returns `false` if the system cannot observe it.
    pub(super) fn observe(
        &self,
        folder: &Dir,
        path: Option<&RelativePath>,
        changes: &Arc<PendingChanges>,
    ) -> bool {
        let mut state = self.0.lock();
        if state.folders.len() >= OBSERVED_FOLDERS_MAX {
            return false;
        }
        if state.notices.is_none() {
            state.notices = Notices::open();
        }
        let Some(watch) = state.notices.as_ref().and_then(|notices| notices.watch(folder)) else {
            return false;
        };
        let folder = ObservedFolder { changes: Arc::clone(changes), path: path.cloned() };
        state.folders.entry(watch).or_default().push(folder);
        true
    }

    /// Takes the paths of files that changed since the last call. Returns `None` if a folder changed, or notices were
    /// lost; then all folders have to be walked and observed again.
    pub(super) fn take(&self, changes: &PendingChanges) -> Option<BTreeSet<RelativePath>> {
        self.0.lock().read();
        let mut pending = changes.0.lock();
        let paths = std::mem::take(&mut pending.paths);
        (!pending.is_incomplete).then_some(paths)
    }

    /// Returns the number of observed folders.
    #[cfg(test)]
    pub(super) fn folders(&self) -> usize {
        self.0.lock().folders.len()
    }

    /// Stops collecting these changes.
    pub(super) fn forget(&self, changes: &Arc<PendingChanges>) {
        let state = &mut *self.0.lock();
        state.folders.retain(|watch, folders| {
            folders.retain(|folder| !Arc::ptr_eq(&folder.changes, changes));
            if folders.is_empty()
                && let Some(notices) = &state.notices
            {
                notices.unwatch(*watch);
            }
            !folders.is_empty()
        });
    }
}

impl ObserverState {
    /// Reads the queue and hands each notice to the roots that it is about.
    fn read(&mut self) {
        let Self { notices: Some(notices), folders } = self else { return };
        notices.read(|notice| match notice {
            Notice::Lost => {
                for folder in folders.values().flatten() {
                    folder.changes.add(None);
                }
            }
            Notice::Folder { watch, name } => {
                for folder in folders.get(&watch).into_iter().flatten() {
                    // A hidden folder holds no memories.
                    if name.is_none_or(|name| !name.starts_with('.')) {
                        folder.changes.add(None);
                    }
                }
            }
            Notice::File { watch, name } => {
                for folder in folders.get(&watch).into_iter().flatten() {
                    let path = match &folder.path {
                        None => RelativePath::parse(name),
                        Some(folder) => folder.child(name),
                    };
                    // A name that no memory can have, such as a temporary one, is none of a memory.
                    if let Ok(path) = path {
                        folder.changes.add(Some(path));
                    }
                }
            }
        });
    }
}

impl PendingChanges {
    /// Adds a changed file, or a change that cannot be named.
    fn add(&self, path: Option<RelativePath>) {
        let mut state = self.0.lock();
        match path {
            Some(path) if state.paths.len() < NOTICED_PATHS_MAX => {
                state.paths.insert(path);
            }
            _ => state.is_incomplete = true,
        }
    }
}

#[cfg(target_os = "linux")]
mod inotify {
    use std::mem::MaybeUninit;
    use std::os::fd::{AsRawFd as _, OwnedFd};

    use cap_std::fs::Dir;
    use rustix::fs::fstatfs;
    use rustix::fs::inotify::{
        CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init, remove_watch,
    };
    use rustix::io::Errno;

    /// A change in a watched folder.
    pub(super) enum Notice<'n> {
        /// The watched folder itself changed, or a folder of this name in it. What changed below it is unknown.
        Folder { watch: i32, name: Option<&'n str> },
        /// A file of this name in it.
        File { watch: i32, name: &'n str },
        /// The kernel dropped notices.
        Lost,
    }

    /// The queue of a process.
    #[derive(Debug)]
    pub(super) struct Notices(OwnedFd);

    /// Size of the buffer that the queue is read with.
    const BUFFER_BYTES: usize = 4_096;

    /// File systems of this machine, by their numbers in `statfs`: changes by another machine cause no notice, so a
    /// file system that may have some is not observed.
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

    impl Notices {
        pub(super) fn open() -> Option<Self> {
            init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok().map(Self)
        }

        /// Watches an open folder, whatever is at its path by now. Returns the number of the watch.
        pub(super) fn watch(&self, folder: &Dir) -> Option<i32> {
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

        pub(super) fn unwatch(&self, watch: i32) {
            // It fails if the folder is gone, and its watch with it.
            remove_watch(&self.0, watch).unwrap_or_default();
        }

        /// Reads the queue until it is empty.
        pub(super) fn read(&self, mut on_notice: impl FnMut(Notice<'_>)) {
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
}

#[cfg(not(target_os = "linux"))]
mod inotify {
    use cap_std::fs::Dir;

    /// A change in a watched folder.
    pub(super) enum Notice<'n> {
        Folder { watch: i32, name: Option<&'n str> },
        File { watch: i32, name: &'n str },
        Lost,
    }

    /// A system without an ordered queue.
    #[derive(Debug)]
    pub(super) enum Notices {}

    impl Notices {
        pub(super) const fn open() -> Option<Self> {
            None
        }

        pub(super) fn watch(&self, _folder: &Dir) -> Option<i32> {
            match *self {}
        }

        pub(super) fn unwatch(&self, _watch: i32) {
            match *self {}
        }

        pub(super) fn read(&self, _on_notice: impl FnMut(Notice<'_>)) {
            match *self {}
        }
    }
}
