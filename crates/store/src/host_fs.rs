//! Access to the host's files that are not memories: files of the state folder, git's files, and
//! those of the kernel. Memories are read and written through a backend instead, which confines
//! every path to its root.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Component, Path, PathBuf};

use state::private_files::create_private_file;

use crate::os;

/// Maximum size of a small file, in bytes.
const SMALL_FILE_BYTES_MAX: u64 = 4_096;

/// Maximum number of names that are read from a folder.
const NAMES_MAX: usize = 1_000;

/// Opens an existing file for reading.
#[expect(clippy::disallowed_methods, reason = "this is the one place that opens such files")]
pub(crate) fn open_existing_file(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Returns the text of a small file; `None` if there is none, or if it is too large or not text.
///
/// A checkout may have a pipe at the path, so the file is opened without blocking.
pub(crate) fn read_small_file(path: impl AsRef<Path>) -> Option<String> {
    let mut text = String::new();
    let file = os::open_without_blocking(path.as_ref(), true).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let read = file.take(SMALL_FILE_BYTES_MAX + 1).read_to_string(&mut text).ok()?;
    (u64::try_from(read).ok()? <= SMALL_FILE_BYTES_MAX).then_some(text)
}

/// Checks whether a folder is writable. For a folder that does not exist, checks the nearest existing parent.
pub(crate) fn is_writable(folder: &Path) -> bool {
    let existing = folder.ancestors().find(|path| symlink_metadata(path).is_some());
    existing.is_none_or(os::is_writable)
}

/// Returns the number of bytes that this account may still write to the disk of a folder; `None` if the system does
/// not report it.
pub(crate) fn available_bytes(folder: &Path) -> Option<u64> {
    os::available_bytes(folder.ancestors().find(|path| symlink_metadata(path).is_some())?)
}

/// Returns the first [`NAMES_MAX`] names in a folder; none if it cannot be read.
#[expect(clippy::disallowed_methods, reason = "this is the one place that looks at such folders")]
pub(crate) fn list_names(folder: &Path) -> Vec<std::ffi::OsString> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().take(NAMES_MAX).map(|entry| entry.file_name()).collect()
}

/// Returns a path without links and dots. Fails if nothing is at the path.
#[expect(clippy::disallowed_methods, reason = "this is the one place that resolves such paths")]
pub(crate) fn real_path(path: &Path) -> io::Result<PathBuf> {
    if let Some(real) = canonical_if_link_free(path) {
        return Ok(real);
    }
    fs::canonicalize(path)
}

/// Does the same for a path without links, with one system call instead of one for each name. Returns `None` for
/// any other path.
fn canonical_if_link_free(path: &Path) -> Option<PathBuf> {
    if !path.is_absolute() || !os::has_no_links(path) {
        return None;
    }
    let mut real = PathBuf::with_capacity(path.as_os_str().len());
    for part in path.components() {
        match part {
            // No component was a link, so the parent by name is the real parent.
            Component::ParentDir => drop(real.pop()),
            Component::CurDir => {}
            part => real.push(part),
        }
    }
    Some(real)
}

/// Returns the metadata of a path, without following a link.
#[expect(clippy::disallowed_methods, reason = "this is the one place that looks at such paths")]
pub(crate) fn symlink_metadata(path: &Path) -> Option<fs::Metadata> {
    fs::symlink_metadata(path).ok()
}

/// Returns the bytes of a file, and updates its times to mark a use. Returns `None` for a missing file, a file over
/// `bytes_max`, a link, or anything that is not a regular file.
pub(crate) fn read_and_touch(path: &Path, bytes_max: usize) -> Option<Vec<u8>> {
    let file = os::open_without_blocking(path, false).ok()?;
    let metadata = file.metadata().ok()?;
    let bytes = usize::try_from(metadata.len()).ok()?;
    if !metadata.is_file() || bytes > bytes_max {
        return None;
    }
    let mut read = Vec::with_capacity(bytes + 1);
    (&file).take(metadata.len() + 1).read_to_end(&mut read).ok()?;
    // If the times cannot be updated, the cached file only expires sooner.
    os::touch(&file).unwrap_or_default();
    (read.len() == bytes).then_some(read)
}

/// Writes a file for the person alone, atomically by a rename, without synchronizing it.
#[expect(clippy::disallowed_methods, reason = "this is the one place that moves such files")]
pub(crate) fn write_private_file(
    folder: &Path,
    temporary: &str,
    name: &str,
    bytes: &[u8],
) -> io::Result<()> {
    let from = folder.join(temporary);
    let mut file = create_private_file(&from)?;
    let result = file.write_all(bytes).and_then(|()| fs::rename(&from, folder.join(name)));
    if result.is_err() {
        // If this fails, the temporary file is swept later.
        remove_file(&from).unwrap_or_default();
    }
    result
}

/// Removes a file.
#[expect(clippy::disallowed_methods, reason = "this is the one place that removes such files")]
pub(crate) fn remove_file(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
}

/// Removes a folder and its subfolders, as far as they contain no files. Does not follow links. Returns whether the
/// folder is gone.
#[expect(clippy::disallowed_methods, reason = "this is the one place that removes such folders")]
pub(crate) fn remove_empty_folders(folder: &Path) -> io::Result<bool> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        entries => entries?,
    };
    let mut is_empty = true;
    for entry in entries {
        let entry = entry?;
        is_empty &= entry.file_type()?.is_dir() && remove_empty_folders(&entry.path())?;
    }
    if !is_empty {
        return Ok(false);
    }
    match fs::remove_dir(folder) {
        Ok(()) => Ok(true),
        // Another process wrote a file there, or removed the folder.
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the files that are looked at are made by hand")]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_fast_real_path_equals_the_canonical_path() {
        let top = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(top.path()).unwrap();
        fs::create_dir_all(top.join("a/b")).unwrap();
        fs::write(top.join("a/b/file.md"), "text").unwrap();
        symlink("a/b", top.join("way")).unwrap();
        symlink("file.md", top.join("a/b/link.md")).unwrap();
        symlink("gone.md", top.join("a/b/dangling.md")).unwrap();
        let check = |path: &str| {
            let path = top.join(path);
            let expected = fs::canonicalize(&path).map_err(|error| error.kind());
            assert_eq!(real_path(&path).map_err(|error| error.kind()), expected, "{path:?}");
        };
        for path in ["a/b/file.md", "a/./b//file.md", "a/b/", "a/../a/b/../../a", ".", ".."] {
            check(path);
            assert!(canonical_if_link_free(&top.join(path)).is_some(), "{path}");
        }
        // A link is followed before the way back from it is taken.
        let linked = ["way", "way/file.md", "way/../b/file.md", "a/b/link.md", "a/b/dangling.md"];
        for path in linked.into_iter().chain(["gone", "a/b/file.md/", "a/b/file.md/..", ""]) {
            check(path);
        }
        check("/");
        check("/..");
        check("relative");
    }
}
