//! Files and folders that only their owner may use: lock files and other files that Lukasa keeps on this host.
//!
//! Memory files are not among them. Each file is created with its final mode, so that no other account can open it in
//! between.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is the one place that opens such files"
)]

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::Path;

/// The mode of a private file.
const FILE_MODE: u32 = 0o600;

/// The mode of a private folder.
const FOLDER_MODE: u32 = 0o700;

/// Creates a folder and its missing parents, for the owner alone. Returns once they are durable.
pub fn create_private_folder(path: &Path) -> io::Result<()> {
    let is_missing = |path: &&Path| fs::symlink_metadata(path).is_err();
    let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)?;
    missing.iter().try_for_each(|folder| sync_parent(folder))
}

/// Makes the name of a file or folder durable.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        // Some file systems cannot synchronize folders, and a folder may be writable but not readable. Neither offers a
        // better way.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::InvalidInput | io::ErrorKind::PermissionDenied
            ) =>
        {
            Ok(())
        }
        synced => synced,
    }
}

/// Opens a private file for reading and writing; creates it if it does not exist.
pub fn open_private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE).open(path)
}

/// Creates a private file and opens it for writing. Fails if something exists at the path.
pub fn create_private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)
}

/// Opens a private file for appending; creates it if it does not exist.
pub fn append_private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(FILE_MODE).open(path)
}

/// Restricts an existing file or socket to its owner.
pub fn restrict_to_owner(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(FILE_MODE))
}

/// Returns whether an open file is still the one at a path. The path may be a link, as it may when the file is opened.
pub(crate) fn is_same_file(path: &Path, file: &File) -> bool {
    let Ok(at_path) = fs::metadata(path) else { return false };
    file.metadata().is_ok_and(|ours| (at_path.dev(), at_path.ino()) == (ours.dev(), ours.ino()))
}
