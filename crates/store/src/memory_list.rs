//! The generated index `MEMORY.md` at the top of a root.
//!
//! A checkpoint writes it for people. Lukasa reads no facts from it, and no command may edit it. A
//! person's own file of that name, without the marker of a generated index, is an ordinary memory.

use std::sync::Arc;

use memory::command::CommandError;
use memory::document::{self, ListItem};
use memory::limits::{HEAD_BYTES_MAX, MEMORY_BYTES_MAX, MEMORY_LIST_LINES_MAX};
use memory::path::{MemoryPath, RelativePath};

use crate::backend::{BackendError, Expect, FileKind, Freshness};
use crate::error::StoreError;
use crate::root::{Root, document_heads};
use crate::store::Store;

/// File name of the generated index at the top of a root.
pub const MEMORY_LIST: &str = "MEMORY.md";

impl Root {
    /// Checks whether a path is that of the generated index.
    pub(crate) fn is_list(&self, path: &RelativePath) -> bool {
        self.generates_list && path.as_str() == MEMORY_LIST
    }

    /// Checks whether there is a file at the path of the generated index.
    pub(crate) async fn has_list_file(&self) -> Result<bool, BackendError> {
        let Some(path) = RelativePath::parse(MEMORY_LIST).ok().filter(|_| self.generates_list)
        else {
            return Ok(false);
        };
        Ok(self.backend.kind(&path).await? == Some(FileKind::File))
    }

    /// Refuses the path of the generated index. A person's own file of that name, without the marker at its start, is
    /// an ordinary memory.
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
            // If there is no file, the next checkpoint creates the list.
            Ok(_) | Err(_) => Err(CommandError::Generated { path: path.clone() }.into()),
        }
    }
}

/// Checks whether the bytes are a generated index, the start of one, or zeros, which a power cut can leave.
pub(crate) fn is_generated_list(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
        || document::is_generated_list(&String::from_utf8_lossy(bytes))
}

/// Writes the generated index, unless the root has a person's own file of that name.
pub(crate) async fn refresh_list(store: &Store, root: &Arc<Root>) -> Result<(), StoreError> {
    let to_error = StoreError::backend_error(root.mount);
    let Ok(path) = RelativePath::parse(MEMORY_LIST) else { return Ok(()) };
    let list = root.backend.list(Freshness::Observed).await.map_err(&to_error)?;
    let files: Vec<_> = list.files.iter().filter(|file| !root.is_list(&file.path)).collect();
    let listed = files.iter().copied().take(MEMORY_LIST_LINES_MAX);
    let heads = document_heads(root, listed).await.map_err(&to_error)?;
    // Memories beyond the maximum number of lines are only counted, so their heads are not read.
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
    let mut locked = root.lock(store).await?;
    let now = match root.backend.read(&path, MEMORY_BYTES_MAX).await {
        Ok(read) => Some(read),
        Err(BackendError::NotFound) => None,
        Err(BackendError::WrongKind | BackendError::Escapes(_)) => return Ok(()),
        Err(error) => return Err(to_error(error)),
    };
    if now
        .as_ref()
        .is_some_and(|now| !is_generated_list(&now.bytes) || now.bytes == text.as_bytes())
    {
        return Ok(());
    }
    // A crash has to lead to a recovery, which sweeps the left-overs.
    locked.lock.begin().await.map_err(&to_error)?;
    let staged =
        root.backend.stage(&path, Arc::from(text.into_bytes())).await.map_err(&to_error)?;
    let expect = now.map_or(Expect::Absent, |read| Expect::File(read.stat.stamp));
    match staged.publish(expect).await {
        // The next checkpoint writes it again in any case.
        Ok(()) | Err(BackendError::Changed | BackendError::Occupied) => {}
        Err(error) => return Err(to_error(error)),
    }
    locked.lock.end(None).await.map_err(&to_error)?;
    locked.update_heads([]);
    Ok(())
}
