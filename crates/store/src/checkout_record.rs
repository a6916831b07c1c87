//! The record of the checkout that a workspace belongs to: a file in the folder of the workspace,
//! with the path of the checkout. It is written with a change to the workspace, and read by lists
//! of workspaces.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use state::private_files::create_private_folder;

use crate::{host_fs, os};

/// Name of the record in the folder of a workspace. The file contains the bytes of a path, and nothing else.
pub(crate) const RECORD: &str = "checkout";

/// Maximum length of the path in bytes; the kernel accepts no longer path.
const CHECKOUT_PATH_BYTES_MAX: u64 = 4_096;

/// A record that may have to be written.
#[derive(Debug)]
pub(crate) struct CheckoutRecord {
    workspace: PathBuf,
    checkout: PathBuf,
    is_written: AtomicBool,
}

impl CheckoutRecord {
    /// Returns a record for the folder of a workspace, with the real path of its checkout.
    pub(crate) fn new(workspace: PathBuf, checkout: PathBuf) -> Self {
        Self { workspace, checkout, is_written: AtomicBool::new(false) }
    }

    /// Writes the record if it is missing. A failure is only logged, since a change must not fail because of it.
    pub(crate) fn write(&self) {
        let was_written = self.is_written.swap(true, Ordering::Relaxed);
        // Another process may have removed the workspace.
        if was_written && host_fs::symlink_metadata(&self.workspace.join(RECORD)).is_some() {
            return;
        }
        if let Err(error) = self.try_write() {
            tracing::warn!(%error, "writing the record of a workspace's checkout failed");
        }
    }

    fn try_write(&self) -> io::Result<()> {
        if read(&self.workspace).as_ref() == Some(&self.checkout) {
            return Ok(());
        }
        create_private_folder(&self.workspace)?;
        let temporary = format!("{RECORD}.{}", std::process::id());
        let bytes = os::path_bytes(&self.checkout);
        host_fs::write_private_file(&self.workspace, &temporary, RECORD, bytes)
    }
}

/// Returns the checkout in the record of a workspace; `None` without a record.
pub(crate) fn read(workspace: &Path) -> Option<PathBuf> {
    let file = host_fs::open_existing_file(&workspace.join(RECORD)).ok()?;
    let mut bytes = Vec::new();
    let read = file.take(CHECKOUT_PATH_BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
    let is_path = read > 0 && u64::try_from(read).ok()? <= CHECKOUT_PATH_BYTES_MAX;
    is_path.then(|| os::path_from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_names_the_checkout_and_is_written_again_after_its_removal() {
        let home = tempfile::tempdir().unwrap();
        let folders = home.path();
        assert_eq!(read(&folders.join("shop-1")), None);
        // A path may be invalid UTF-8.
        let checkout = os::path_from_bytes(b"/srv/sh\xffop\n".to_vec());
        let record = CheckoutRecord::new(folders.join("shop-1"), checkout.clone());
        for _ in 0..2 {
            record.write();
            assert_eq!(read(&folders.join("shop-1")).as_ref(), Some(&checkout));
            host_fs::remove_file(&folders.join("shop-1").join(RECORD)).unwrap();
        }
    }
}
