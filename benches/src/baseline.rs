//! The baseline that Lukasa is compared with: durable writes with plain file operations.
//!
//! A write here does the least that a careful program needs for a file to survive a power cut. It takes no lock and
//! records no history.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A folder with the shape of a root, written to without Lukasa.
#[derive(Debug)]
pub(crate) struct BareFiles {
    folders: Vec<(PathBuf, File)>,
}

impl BareFiles {
    /// Creates the folders.
    pub(crate) fn create(root: &Path, folders: usize) -> anyhow::Result<Self> {
        let create = |index: usize| {
            let path = root.join(format!("dir{index}"));
            std::fs::create_dir_all(&path)?;
            let open = File::open(&path)?;
            anyhow::Ok((path, open))
        };
        Ok(Self { folders: (0..folders).map(create).collect::<anyhow::Result<_>>()? })
    }

    /// Writes one file, new or existing, so that it survives a power cut completely or not at all. It synchronizes
    /// a temporary file, renames it and synchronizes the folder.
    pub(crate) fn write(&self, number: usize, text: &str) -> anyhow::Result<()> {
        let (path, folder) = &self.folders[number % self.folders.len()];
        let name = format!("note{number}.md");
        let temporary = path.join(format!(".{name}.tmp"));
        let mut file = File::create_new(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        drop(file);
        std::fs::rename(&temporary, path.join(name))?;
        folder.sync_all()?;
        Ok(())
    }
}

/// Writes out everything that waits for the disk of `folder`, so that no side pays for the writes of another.
pub(crate) fn flush(folder: &Path) -> anyhow::Result<()> {
    rustix::fs::syncfs(File::open(folder)?)?;
    Ok(())
}

/// Waits until a server has done the background work that follows writes.
pub(crate) fn wait_for_quiet(home: &Path) -> anyhow::Result<()> {
    std::thread::sleep(Duration::from_secs(3));
    flush(home)
}
