//! The origin of memories: the recorded change that wrote the current text of each.
//!
//! Renames and moves are followed backwards through the history, since they do not change a text.

use std::collections::HashMap;

use engine::{ChangesQuery, Memories};
use memory::change::{Actor, ChangeKind, FileChange, MemoryChange, Trust};
use memory::clock::Timestamp;
use memory::path::MemoryPath;

use crate::exit::Failure;

/// The number of changes read at a time.
const CHANGES_AT_ONCE: usize = 1_000;

/// Author, trust and time of the write that produced the text of a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Authorship {
    pub(crate) author: Actor,
    pub(crate) trust: Trust,
    pub(crate) at: Timestamp,
}

/// Authorships by path.
pub(crate) type Authorships = HashMap<MemoryPath, Authorship>;

/// Returns the authorship of each of these memories; memories without history have none.
pub(crate) async fn authorships(
    memories: &Memories,
    paths: impl IntoIterator<Item = &MemoryPath>,
) -> Result<Authorships, Failure> {
    // Key: the path that a memory had at the current point of the history. Value: its path now.
    let mut sought: HashMap<MemoryPath, MemoryPath> =
        paths.into_iter().map(|path| (path.clone(), path.clone())).collect();
    let mut found = Authorships::new();
    let mut query = ChangesQuery { max: CHANGES_AT_ONCE, ..ChangesQuery::default() };
    // This records external edits first, unless the state cannot be written.
    let mut first = memories.changes(&query).await.ok();
    while !sought.is_empty() {
        let changes = match first.take() {
            Some(changes) => changes,
            None => memories.recorded_changes(&query).await?,
        };
        for change in &changes {
            trace_change(memories, change, &mut sought, &mut found);
        }
        match changes.last() {
            Some(oldest) if changes.len() == CHANGES_AT_ONCE => query.before = Some(oldest.id),
            _ => break,
        }
    }
    Ok(found)
}

fn trace_change(
    memories: &Memories,
    change: &MemoryChange,
    sought: &mut HashMap<MemoryPath, MemoryPath>,
    found: &mut Authorships,
) {
    for file in change.files.iter().filter(|file| file.after.is_some() || file.moved_to.is_some()) {
        let path = path_after(memories, file);
        let Some(now) = path.as_ref().and_then(|path| sought.remove(path)) else { continue };
        match path_before(memories, change, file) {
            Some(before) if file.moved_to.is_none() || file.before == file.after => {
                sought.insert(before, now);
            }
            _ => {
                let (author, trust) = (change.provenance.actor, file.trust);
                found.insert(now, Authorship { author, trust, at: change.at });
            }
        }
    }
}

/// Returns the path of a memory before a change that renamed it to `path`, alone or with its folder, or that moved it
/// from another scope.
pub(crate) fn path_before_change(
    memories: &Memories,
    change: &MemoryChange,
    path: &MemoryPath,
) -> Option<MemoryPath> {
    if let Some(folder) = &change.folder
        && let Some(to) = &folder.moved_to
        && memories.virtual_path(&folder.root, to).as_ref() == Some(path)
    {
        return memories.virtual_path(&folder.root, &folder.path);
    }
    path_before(memories, change, memories.file_change_at(change, path)?)
}

/// Returns the source of a move between scopes: the memory with the same text that the change removed. Of several, one
/// with the same name is preferred.
pub(crate) fn moved_from<'a>(
    change: &'a MemoryChange,
    file: &FileChange,
) -> Option<&'a FileChange> {
    if change.kind != ChangeKind::Rename || file.before.is_some() || file.after.is_none() {
        return None;
    }
    let is_source = |other: &&FileChange| other.after.is_none() && other.before == file.after;
    let mut sources = change.files.iter().filter(is_source);
    let namesake = sources.clone().find(|other| other.path.file_name() == file.path.file_name());
    namesake.or_else(|| sources.next())
}

fn path_before(
    memories: &Memories,
    change: &MemoryChange,
    file: &FileChange,
) -> Option<MemoryPath> {
    let before = if file.moved_to.is_some() { file } else { moved_from(change, file)? };
    memories.virtual_path(&before.root, &before.path)
}

fn path_after(memories: &Memories, file: &FileChange) -> Option<MemoryPath> {
    memories.virtual_path(&file.root, file.moved_to.as_ref().unwrap_or(&file.path))
}
