//! The yardstick of a durable write: what a careful program without Lukasa would do.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A folder with the shape of a root, written to without Lukasa.
#[derive(Debug)]
pub(crate) struct BareFiles {
    folders: Vec<(PathBuf, File)>,
}

impl BareFiles {
    /// Makes the folders.
    pub(crate) fn make(root: &Path, folders: usize) -> anyhow::Result<Self> {
        let make = |index: usize| {
            let path = root.join(format!("dir{index}"));
            std::fs::create_dir_all(&path)?;
            let open = File::open(&path)?;
            anyhow::Ok((path, open))
        };
        Ok(Self { folders: (0..folders).map(make).collect::<anyhow::Result<_>>()? })
    }

    /// Writes one file so that it survives a power cut, whole, whether it was there or not: a
    /// temporary file, synchronized, renamed, and the folder synchronized.
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

/// Writes out all that waits for the disk below `folder`, so that nobody pays for what another side
/// left behind.
pub(crate) fn flush(folder: &Path) -> anyhow::Result<()> {
    rustix::fs::syncfs(File::open(folder)?)?;
    Ok(())
}

/// Reads the names below a folder and the facts of each file, as any listing with sizes must; returns
/// how many files there are.
pub(crate) fn list(folder: &Path) -> anyhow::Result<usize> {
    let mut files = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            files += list(&entry.path())?;
        } else {
            std::hint::black_box(entry.metadata()?.len());
            files += 1;
        }
    }
    Ok(files)
}
