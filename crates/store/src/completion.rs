//! Reads for shell completion and other quick queries.
//!
//! They write and record nothing: no use, no recovery of an interrupted write, no external edit. A
//! folder that cannot be read has no names, and causes no error.

use std::collections::HashMap;

use memory::change::MemoryChange;
use memory::command::CommandError;
use memory::path::MemoryPath;
use state::PathChange;

use crate::backend::Extent;
use crate::checks::virtual_path;
use crate::error::StoreError;
use crate::history::ChangesQuery;
use crate::memories::Memories;

/// A completion candidate in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletionEntry {
    /// The memory, folder or scope.
    pub path: MemoryPath,
    /// Whether it is a memory.
    pub is_memory: bool,
}

impl Memories {
    /// Returns the first `max` entries directly in a folder, in byte order. At the top, returns the scopes.
    pub async fn list_names(&self, folder: &MemoryPath, max: usize) -> Vec<CompletionEntry> {
        let Some(mount) = folder.mount() else {
            let available = self.mounts.iter().filter(|bound| bound.root.is_ok());
            let roots = available.map(|bound| MemoryPath::Root(bound.mount));
            return roots.map(|path| CompletionEntry { path, is_memory: false }).collect();
        };
        let Ok(root) = self.root(mount) else { return Vec::new() };
        let extent = Extent { max, levels: 1 };
        let Ok(walk) = root.backend.walk(folder.relative(), extent).await else {
            return Vec::new();
        };
        let files = walk.files.into_iter().filter(|file| !root.is_list(&file.path));
        let memories = files.map(|file| (file.path, true));
        let folders = walk.folders.into_iter().map(|folder| (folder.path, false));
        let mut entries: Vec<_> = memories
            .chain(folders)
            .filter_map(|(path, is_memory)| {
                Some(CompletionEntry { path: virtual_path(mount, path).ok()?, is_memory })
            })
            .collect();
        entries.sort_by_key(|entry| entry.path.to_string());
        entries.truncate(max);
        entries
    }

    /// Returns the last recorded changes of each of these memories, at most `max` of each, newest first.
    pub async fn last_changes(
        &self,
        paths: &[&MemoryPath],
        max: usize,
    ) -> Result<HashMap<MemoryPath, Vec<PathChange>>, StoreError> {
        let mut changes: HashMap<MemoryPath, Vec<PathChange>> = HashMap::new();
        for bound in &self.mounts {
            let Ok(root) = &bound.root else { continue };
            let relative_paths = paths.iter().filter(|path| path.mount() == Some(bound.mount));
            let relative_paths: Vec<_> =
                relative_paths.filter_map(|path| path.relative().cloned()).collect();
            if relative_paths.is_empty() {
                continue;
            }
            for change in
                self.store.state.last_changes(&root.key.place, &relative_paths, max).await?
            {
                let path = MemoryPath::inside(bound.mount, change.path.clone());
                let path = path.map_err(CommandError::from)?;
                changes.entry(path).or_default().push(change);
            }
        }
        Ok(changes)
    }

    /// Returns recorded changes, newest first, without a scan for external edits.
    pub async fn recorded_changes(
        &self,
        query: &ChangesQuery,
    ) -> Result<Vec<MemoryChange>, StoreError> {
        let query = self.state_query(query)?;
        if query.places.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.store.state.changes(&query).await?)
    }
}
