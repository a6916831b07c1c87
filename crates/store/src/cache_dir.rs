//! Cache folders: files in the state folder that are derived from other data and may be removed at
//! any time.
//!
//! A file is replaced atomically, but not synchronized. After a power cut it may be damaged, so a
//! reader has to verify its content. If two processes write the same file, the later one wins.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use state::private_files::create_private_folder;

use crate::binding::BaseFolders;
use crate::host_fs;

/// Extension of a file that is being written.
const TEMPORARY: &str = "tmp";
/// Maximum duration of a write; an older temporary file was left behind.
const WRITING_MAX: Duration = Duration::from_hours(1);

static WRITES: AtomicU64 = AtomicU64::new(0);

/// Limits of a cache folder.
#[derive(Clone, Copy, Debug)]
pub struct CacheDirLimits {
    /// Maximum size of a file, in bytes.
    pub bytes_max: usize,
    /// Maximum number of files; the oldest are removed first.
    pub files_max: usize,
    /// Time after which a file that no process reads or writes is removed.
    pub max_age: Duration,
}

/// A cache folder in the state folder.
#[derive(Clone, Debug)]
pub struct CacheDir {
    folder: PathBuf,
    limits: CacheDirLimits,
}

impl CacheDir {
    /// Returns the cache folder of this name. Every write there removes files that exceed the limits.
    pub fn new(folders: &BaseFolders, name: &str, limits: CacheDirLimits) -> Self {
        Self { folder: folders.state.join(name), limits }
    }

    /// Returns the bytes of a file, and marks it as used. Returns `None` if there is none, or if it is too large or
    /// cannot be read. Blocks on the disk.
    pub fn read(&self, name: &str) -> Option<Vec<u8>> {
        host_fs::read_and_touch(&self.folder.join(name), self.limits.bytes_max)
    }

    /// Checks whether there is a file. Blocks on the disk.
    pub fn exists(&self, name: &str) -> bool {
        host_fs::symlink_metadata(&self.folder.join(name)).is_some()
    }

    /// Writes or replaces a file, for the person alone. Writes nothing if it is too large. Blocks on the disk.
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() > self.limits.bytes_max {
            return Ok(());
        }
        create_private_folder(&self.folder)?;
        let number = WRITES.fetch_add(1, Ordering::Relaxed);
        let temporary = format!("{name}.{}-{number}.{TEMPORARY}", process::id());
        host_fs::write_private_file(&self.folder, &temporary, name, bytes)?;
        self.sweep(name);
        Ok(())
    }

    /// Evicts files that exceed the limits. The file that was just written gives the current time.
    fn sweep(&self, written: &str) {
        let modified_at = |name: &OsString| {
            let metadata = host_fs::symlink_metadata(&self.folder.join(name))?;
            metadata.is_file().then(|| metadata.modified().ok()).flatten()
        };
        let Some(now) = modified_at(&written.into()) else { return };
        let names = host_fs::list_names(&self.folder).into_iter();
        let mut aged: Vec<(Duration, OsString)> = names
            .filter(|name| name != written)
            .filter_map(|name| {
                Some((now.duration_since(modified_at(&name)?).unwrap_or_default(), name))
            })
            .collect();
        aged.sort_unstable();
        let mut files = 1;
        for (age, name) in aged {
            let is_temporary = name.to_string_lossy().ends_with(TEMPORARY);
            files += usize::from(!is_temporary);
            let age_max = if is_temporary { WRITING_MAX } else { self.limits.max_age };
            if age > age_max || (!is_temporary && files > self.limits.files_max) {
                // Another process may have removed it already.
                host_fs::remove_file(&self.folder.join(name)).unwrap_or_default();
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test reads the real files")]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::time::SystemTime;

    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    fn files(state: &tempfile::TempDir) -> CacheDir {
        let folders =
            BaseFolders { data: state.path().join("data"), state: state.path().to_owned() };
        let limits = CacheDirLimits { bytes_max: 16, files_max: 3, max_age: 30 * DAY };
        CacheDir::new(&folders, "made", limits)
    }

    fn age(state: &tempfile::TempDir, name: &str, age: Duration) {
        let file = File::options().append(true).open(state.path().join("made").join(name)).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
    }

    fn names(state: &tempfile::TempDir) -> Vec<String> {
        let entries = fs::read_dir(state.path().join("made")).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn the_last_write_wins_and_only_the_person_may_read_it() {
        let state = tempfile::tempdir().unwrap();
        let files = files(&state);
        assert_eq!(files.read("a"), None);
        files.write("a", b"one").unwrap();
        files.write("a", b"two").unwrap();
        assert_eq!(files.read("a").as_deref(), Some(&b"two"[..]));
        let mode = |name: &str| {
            fs::metadata(state.path().join(name)).unwrap().permissions().mode() & 0o777
        };
        assert_eq!((mode("made"), mode("made/a")), (0o700, 0o600));
        assert_eq!(names(&state), ["a"], "no other file is left");
    }

    #[test]
    fn a_file_over_the_limit_is_neither_written_nor_read() {
        let state = tempfile::tempdir().unwrap();
        let files = files(&state);
        files.write("a", &[1; 17]).unwrap();
        assert_eq!(files.read("a"), None);
        files.write("a", &[1; 16]).unwrap();
        fs::write(state.path().join("made/a"), [1; 17]).unwrap();
        assert_eq!(files.read("a"), None);
    }

    #[test]
    fn links_and_folders_are_not_read_and_links_are_not_followed() {
        let state = tempfile::tempdir().unwrap();
        let files = files(&state);
        files.write("b", b"b").unwrap();
        let other = state.path().join("other");
        fs::write(&other, "other").unwrap();
        symlink(&other, state.path().join("made/a")).unwrap();
        fs::create_dir(state.path().join("made/c")).unwrap();
        assert_eq!((files.read("a"), files.read("c")), (None, None));
        files.write("a", b"mine").unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "other");
        assert_eq!(files.read("a").as_deref(), Some(&b"mine"[..]));
        assert!(files.write("c", b"c").is_err());
    }

    #[test]
    fn unused_and_surplus_files_are_evicted() {
        let state = tempfile::tempdir().unwrap();
        let files = files(&state);
        for name in ["a", "b", "c"] {
            files.write(name, b"x").unwrap();
        }
        age(&state, "a", 31 * DAY);
        age(&state, "b", 29 * DAY);
        files.write("c", b"y").unwrap();
        assert_eq!(names(&state), ["b", "c"]);
        files.write("d", b"z").unwrap();
        assert!(files.read("b").is_some(), "that is a use");
        age(&state, "c", DAY);
        files.write("e", b"z").unwrap();
        assert_eq!(names(&state), ["b", "d", "e"]);
    }

    #[test]
    fn stale_temporary_files_are_removed_and_recent_ones_stay() {
        let state = tempfile::tempdir().unwrap();
        let files = files(&state);
        files.write("a", b"x").unwrap();
        for name in ["a.1-0.tmp", "a.2-0.tmp"] {
            fs::write(state.path().join("made").join(name), "half").unwrap();
        }
        age(&state, "a.1-0.tmp", DAY);
        files.write("a", b"y").unwrap();
        assert_eq!(names(&state), ["a", "a.2-0.tmp"]);
    }

    #[test]
    fn concurrent_writes_leave_one_complete_file() {
        let state = tempfile::tempdir().unwrap();
        let files = files(&state);
        std::thread::scope(|scope| {
            for byte in 0..4 {
                let files = files.clone();
                scope.spawn(move || {
                    for _ in 0..50 {
                        files.write("a", &[byte; 16]).unwrap();
                        let read = files.read("a").unwrap();
                        assert_eq!(read, [read[0]; 16]);
                    }
                });
            }
        });
        assert_eq!(names(&state), ["a"]);
    }
}
