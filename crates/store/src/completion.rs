//! Glances: what a shell asks for while somebody types.
//!
//! Nothing is written, recorded, completed or counted: not even a write that was interrupted, nor an
//! edit from outside. What cannot be read has no names, and nobody is told.

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

/// A name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletionEntry {
    /// The memory, folder or scope.
    pub path: MemoryPath,
    /// Whether it is a memory.
    pub is_memory: bool,
}

impl Memories {
    /// Returns the first `max` names directly in a folder, in byte order; at the top, the scopes.
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
        let mut glanced: Vec<_> = memories
            .chain(folders)
            .filter_map(|(path, is_memory)| {
                Some(CompletionEntry { path: virtual_path(mount, path).ok()?, is_memory })
            })
            .collect();
        glanced.sort_by_key(|glanced| glanced.path.to_string());
        glanced.truncate(max);
        glanced
    }

    /// Returns the last changes of each of these memories as they are recorded, at most `max` of each, the newest first.
    pub async fn last_changes(
        &self,
        paths: &[&MemoryPath],
        max: usize,
    ) -> Result<HashMap<MemoryPath, Vec<PathChange>>, StoreError> {
        let mut found: HashMap<MemoryPath, Vec<PathChange>> = HashMap::new();
        for bound in &self.mounts {
            let Ok(root) = &bound.root else { continue };
            let here = paths.iter().filter(|path| path.mount() == Some(bound.mount));
            let here: Vec<_> = here.filter_map(|path| path.relative().cloned()).collect();
            if here.is_empty() {
                continue;
            }
            for change in self.store.state.last_changes(&root.key.place, &here, max).await? {
                let path = MemoryPath::inside(bound.mount, change.path.clone());
                let path = path.map_err(CommandError::from)?;
                found.entry(path).or_default().push(change);
            }
        }
        Ok(found)
    }

    /// Returns changes as they are recorded, newest first, without looking for edits from outside.
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
