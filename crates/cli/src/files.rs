//! File access of the command line itself: settings, the editor's copy, drafts, import
//! sources, export targets, manual pages, configurations of agents.
//!
//! Memories are not read or written here, only through the engine. No other module of the
//! program reads or writes files.

#![expect(clippy::disallowed_methods, reason = "the command line's own files, kept in one place")]

pub(crate) mod quipu;

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use engine::import::SourceFile;
use memory::limits::IMPORT_FILES_MAX;
use state::private_files::{append_private_file, create_private_file, create_private_folder};

/// The largest file that an import reads, in bytes; a server-memory log may be large.
const IMPORT_FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The maximum depth of folders that an import reads.
const IMPORT_FOLDER_DEPTH_MAX: usize = 32;

/// Returns the text of a file, `None` if it does not exist.
pub(crate) fn read_optional(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the bytes of a file.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    fs::read(path)
}

/// Replaces the bytes of a temporary file.
pub(crate) fn overwrite(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::write(path, bytes)
}

/// Returns at most `bytes_max` bytes from the end of a regular file at an absolute path, and whether that is all of it.
pub(crate) fn read_end(path: &Path, bytes_max: u64) -> io::Result<(Vec<u8>, bool)> {
    // Checked before it is opened, since opening a named pipe blocks.
    if !path.is_absolute() || !fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut file = fs::File::open(path)?;
    let from = file.metadata()?.len().saturating_sub(bytes_max);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok((bytes, from == 0))
}

/// Creates a temporary folder that only this user may enter; it is deleted when the value is dropped.
pub(crate) fn private_temporary_folder(prefix: &str) -> io::Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix);
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.tempdir()
}

/// Creates a file that only this user may read; fails if it exists.
pub(crate) fn write_new_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = create_private_file(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Appends bytes to a file that only this user may read. It is created if it does not exist, and truncated first if it
/// is larger than `max` bytes.
pub(crate) fn append_private(path: &Path, bytes: &[u8], max: u64) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        create_private_folder(folder)?;
    }
    let mut file = append_private_file(path)?;
    if file.metadata()?.len() > max {
        file.set_len(0)?;
    }
    file.write_all(bytes)
}

/// Returns the permission bits of a file, as in `chmod`.
pub(crate) fn mode(path: &Path) -> io::Result<u32> {
    let permissions = fs::metadata(path)?.permissions();
    Ok(std::os::unix::fs::PermissionsExt::mode(&permissions) & 0o777)
}

/// Returns `count` bytes from the random generator of the system, in hex digits.
pub(crate) fn random_hex(count: usize) -> io::Result<String> {
    let mut bytes = vec![0; count];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    Ok(digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect())
}

/// The handling of existing files by an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overwrite {
    /// An existing file is an error.
    Never,
    /// An existing file is replaced.
    Always,
}

/// Checks whether `path` exists; a broken symbolic link counts.
pub(crate) fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Returns the modification time of a file.
pub(crate) fn modified_at(path: &Path) -> io::Result<SystemTime> {
    fs::symlink_metadata(path)?.modified()
}

/// Checks whether `path` is a file or a link to one.
pub(crate) fn is_file(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file())
}

/// Checks whether a path is a regular file that is not empty.
pub(crate) fn has_content(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0)
}

/// Returns the missing folders above a file, deepest first.
pub(crate) fn missing_folders(path: &Path) -> Vec<PathBuf> {
    let folders = path.ancestors().skip(1);
    folders.take_while(|folder| !exists(folder)).map(Path::to_owned).collect()
}

/// Removes a folder if it is empty; a missing folder is no error.
pub(crate) fn remove_empty_folder(path: &Path) -> io::Result<()> {
    match fs::remove_dir(path) {
        Err(error)
            if !matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty
            ) =>
        {
            Err(error)
        }
        _ => Ok(()),
    }
}

/// Returns the first symbolic link between a folder and a file below it, the file included.
pub(crate) fn link_below(folder: &Path, path: &Path) -> Option<PathBuf> {
    let mut below: Vec<_> = path.ancestors().take_while(|above| *above != folder).collect();
    below.reverse();
    let is_link =
        |path: &&Path| fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    below.into_iter().find(is_link).map(Path::to_owned)
}

/// Checks whether `path` exists and is not a folder.
pub(crate) fn is_not_folder(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| !metadata.is_dir())
}

/// Writes a file and creates its folders.
///
/// An overwritten file is replaced as a whole, so that a symbolic link is replaced and not followed.
pub(crate) fn write_export(path: &Path, bytes: &[u8], overwrite: Overwrite) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    match overwrite {
        Overwrite::Never => file.persist_noclobber(path)?,
        Overwrite::Always => file.persist(path)?,
    };
    Ok(())
}

/// The readers of a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadAccess {
    /// This user alone.
    Owner,
    /// As the umask of this user allows.
    Default,
}

/// The reason why a file of another program is not replaced.
#[derive(Debug)]
pub(crate) enum ReplaceError {
    /// The file is a symbolic link, with this target.
    Link(PathBuf),
    /// The file is read-only.
    ReadOnly,
    /// The file was changed in the meantime.
    Changed,
    /// The system reported an error.
    System(io::Error),
}

impl From<io::Error> for ReplaceError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// Checks that a file of another program may be replaced: it is no symbolic link, and is writable.
pub(crate) fn check_replaceable(path: &Path) -> Result<(), ReplaceError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.into()),
        Ok(facts) if facts.is_symlink() => Err(link(path)),
        Ok(facts) if facts.permissions().readonly() => Err(ReplaceError::ReadOnly),
        Ok(_) => Ok(()),
    }
}

/// Returns the error for a symbolic link, with its target.
pub(crate) fn link(path: &Path) -> ReplaceError {
    fs::read_link(path).map_or_else(ReplaceError::System, ReplaceError::Link)
}

/// Replaces a file of another program as a whole, keeping its permissions, if it still holds `before`. Without
/// `after` the file is removed.
///
/// A new file is created for `readers`.
pub(crate) fn replace(
    path: &Path,
    before: Option<&str>,
    after: Option<&str>,
    readers: ReadAccess,
) -> Result<(), ReplaceError> {
    check_replaceable(path)?;
    let Some(after) = after else {
        check_unchanged(path, before)?;
        return Ok(remove(path)?);
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut builder = tempfile::Builder::new();
    let mode = match readers {
        ReadAccess::Owner => 0o600,
        ReadAccess::Default => 0o666,
    };
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
    let mut file = builder.tempfile_in(folder)?;
    if before.is_some() {
        file.as_file().set_permissions(fs::metadata(path)?.permissions())?;
    }
    file.write_all(after.as_bytes())?;
    file.as_file().sync_all()?;
    check_unchanged(path, before)?;
    match before {
        None => file.persist_noclobber(path).map_err(|error| error.error)?,
        Some(_) => file.persist(path).map_err(|error| error.error)?,
    };
    Ok(())
}

/// Copies a program, and replaces the file that is at the new path. A process that runs that file keeps it.
pub(crate) fn copy_program(from: &Path, to: &Path) -> io::Result<()> {
    let folder = to.parent().unwrap_or(Path::new("."));
    create_private_folder(folder)?;
    let mut builder = tempfile::Builder::new();
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755));
    let mut copy = builder.tempfile_in(folder)?;
    io::copy(&mut fs::File::open(from)?, copy.as_file_mut())?;
    copy.as_file().sync_all()?;
    copy.persist(to).map_err(|error| error.error)?;
    Ok(())
}

fn check_unchanged(path: &Path, before: Option<&str>) -> Result<(), ReplaceError> {
    if read_optional(path)?.as_deref() == before { Ok(()) } else { Err(ReplaceError::Changed) }
}

/// Deletes a file; a missing file is no error.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns the paths of the entries of a folder, hidden ones included.
pub(crate) fn names_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
}

/// Returns an existing path with all symbolic links resolved.
pub(crate) fn real_path(path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path)
}

/// The files that an import has read.
#[derive(Default)]
pub(crate) struct ImportSource {
    /// The files, in byte order of their paths.
    pub(crate) files: Vec<SourceFile>,
    /// Modification times by path, as far as the file system has them.
    pub(crate) times: HashMap<String, SystemTime>,
    /// The paths that were skipped, with the reasons.
    pub(crate) skipped: Vec<(String, &'static str)>,
}

/// Reads a folder, or a single file, to import from.
///
/// Links, devices and hidden names are skipped: an import takes the files that a person sees in the folder.
pub(crate) fn read_source(path: &Path) -> io::Result<ImportSource> {
    let facts = fs::metadata(path)?;
    let mut source = ImportSource::default();
    if facts.is_dir() {
        walk(path, "", 0, &mut source)?;
    } else {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        collect_file(path, name.unwrap_or_default(), &mut source)?;
    }
    Ok(source)
}

fn walk(folder: &Path, prefix: &str, depth: usize, source: &mut ImportSource) -> io::Result<()> {
    let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_unstable_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name();
        let shown = format!("{prefix}{}", name.to_string_lossy());
        let Ok(name) = name.into_string() else {
            // Two such names may be shown alike, so one could take the other's records.
            source.skipped.push((shown, "its name is not UTF-8"));
            continue;
        };
        if name.starts_with('.') {
            continue;
        }
        if source.files.len() >= IMPORT_FILES_MAX {
            source.skipped.push((shown, "over the file limit of an import"));
            return Ok(());
        }
        let kind = entry.file_type()?;
        if kind.is_dir() && depth < IMPORT_FOLDER_DEPTH_MAX {
            walk(&entry.path(), &format!("{shown}/"), depth + 1, source)?;
        } else if kind.is_dir() {
            source.skipped.push((shown, "too deep"));
        } else if kind.is_file() {
            collect_file(&entry.path(), shown, source)?;
        } else {
            source.skipped.push((shown, "a link or device"));
        }
    }
    Ok(())
}

fn collect_file(path: &Path, shown: String, source: &mut ImportSource) -> io::Result<()> {
    let facts = fs::metadata(path)?;
    if !facts.is_file() {
        source.skipped.push((shown, "a link or device"));
    } else if facts.len() > IMPORT_FILE_BYTES_MAX {
        source.skipped.push((shown, "too large"));
    } else {
        let mut bytes = Vec::new();
        fs::File::open(path)?.take(IMPORT_FILE_BYTES_MAX).read_to_end(&mut bytes)?;
        if let Ok(modified_at) = facts.modified() {
            source.times.insert(shown.clone(), modified_at);
        }
        source.files.push(SourceFile { path: shown, bytes });
    }
    Ok(())
}
