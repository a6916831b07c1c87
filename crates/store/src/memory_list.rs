//! The generated listing `MEMORY.md` at the top of a root that has one.

use std::sync::Arc;

use memory::command::CommandError;
use memory::document::{self, ListItem};
use memory::limits::{HEAD_BYTES_MAX, MEMORY_BYTES_MAX, MEMORY_LIST_LINES_MAX};
use memory::path::{MemoryPath, RelativePath};

use crate::backend::{BackendError, Expect, Extent, FileKind};
use crate::error::StoreError;
use crate::root::{Root, document_heads};
use crate::store::Store;

/// The name of the generated listing at the top of a root that has one.
pub const MEMORY_LIST: &str = "MEMORY.md";

impl Root {
    /// Returns whether a path is that of the generated listing.
    pub(crate) fn is_list(&self, path: &RelativePath) -> bool {
        self.generates_list && path.as_str() == MEMORY_LIST
    }

    /// Returns whether there is a file at the path of the generated listing.
    pub(crate) async fn has_list_file(&self) -> Result<bool, BackendError> {
        let Some(path) = RelativePath::parse(MEMORY_LIST).ok().filter(|_| self.generates_list)
        else {
            return Ok(false);
        };
        Ok(self.backend.kind(&path).await? == Some(FileKind::File))
    }

    /// Checks that a path is not that of the generated listing. A file of somebody's own by that name,
    /// without the mark that a generated one begins with, is a memory like any other.
    pub(crate) async fn reject_generated_list(
        &self,
        path: &MemoryPath,
        relative: &RelativePath,
    ) -> Result<(), StoreError> {
        if !self.is_list(relative) {
            return Ok(());
        }
        match self.backend.read(relative, HEAD_BYTES_MAX).await {
            Ok(read) if !is_generated_list(&read.bytes) => Ok(()),
            // Where there is none, one is about to be made.
            Ok(_) | Err(_) => Err(CommandError::Generated { path: path.clone() }.into()),
        }
    }
}

/// Returns whether this is a generated listing, or the beginning of one, or what a power cut leaves of one.
pub(crate) fn is_generated_list(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
        || document::is_generated_list(&String::from_utf8_lossy(bytes))
}

/// Writes the generated listing, unless somebody keeps a file of their own by that name.
pub(crate) async fn refresh_list(store: &Store, root: &Arc<Root>) -> Result<(), StoreError> {
    let at = StoreError::backend_error(root.mount);
    let Ok(path) = RelativePath::parse(MEMORY_LIST) else { return Ok(()) };
    let walk = root.backend.walk(None, Extent::ALL).await.map_err(&at)?;
    let files: Vec<_> = walk.files.iter().filter(|file| !root.is_list(&file.path)).collect();
    let listed = files.iter().copied().take(MEMORY_LIST_LINES_MAX);
    let heads = document_heads(root, listed).await.map_err(&at)?;
    // What is beyond the lines is only counted, so nothing needs to be known of it.
    let heads = heads.iter().map(Some).chain(std::iter::repeat(None));
    let items: Vec<_> = files
        .iter()
        .zip(heads)
        .map(|(file, head)| ListItem {
            path: &file.path,
            name: head.and_then(|head| head.head.name.as_deref()),
            description: head.map_or("", |head| head.head.shown_description()),
        })
        .collect();
    let text = document::memory_list(&items);
    let mut held = root.lock(store).await?;
    let now = match root.backend.read(&path, MEMORY_BYTES_MAX).await {
        Ok(read) => Some(read),
        Err(BackendError::NotFound) => None,
        Err(BackendError::WrongKind | BackendError::Escapes(_)) => return Ok(()),
        Err(error) => return Err(at(error)),
    };
    if now
        .as_ref()
        .is_some_and(|now| !is_generated_list(&now.bytes) || now.bytes == text.as_bytes())
    {
        return Ok(());
    }
    // Dying in the middle of it has to lead to a recovery, which sweeps what lies about.
    held.lock.begin().map_err(&at)?;
    let staged = root.backend.stage(&path, Arc::from(text.into_bytes())).await.map_err(&at)?;
    let expect = now.map_or(Expect::Absent, |read| Expect::File(read.stat.stamp));
    match staged.publish(expect).await {
        // It is renewed after the next write in any case.
        Ok(()) | Err(BackendError::Changed | BackendError::Occupied) => {}
        Err(error) => return Err(at(error)),
    }
    held.lock.end(None).map_err(&at)?;
    held.update_heads([]);
    Ok(())
}
