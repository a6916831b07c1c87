//! When an entry came to be in a memory.

use std::collections::HashSet;

use memory::change::{Actor, FileChange, MemoryChange, Trust};
use memory::clock::Timestamp;
use memory::document::{self, Revision};
use memory::path::{MemoryPath, Mount, Scope};

use crate::error::StoreError;
use crate::history::{CHANGES_AT_ONCE, ChangesQuery};
use crate::memories::Memories;

/// Entries whose time is looked for, from the newest change of their memory back.
struct EntryDateSearch<'a> {
    entries: &'a [&'a str],
    dates: Vec<Option<Timestamp>>,
    /// Those that every later text has.
    unresolved: Vec<usize>,
    /// How many entries there were after it.
    entries_after: usize,
    /// What the change before must have left.
    expected: Option<Revision>,
}

impl Memories {
    /// Returns when each of these entries came to be in a memory as it is, as far as history tells.
    ///
    /// Edits from outside count once they are recorded: call [`Memories::record_external_edits`] before, once for all memories.
    ///
    /// An entry is given whole, as [`document::Entry::full_text`] returns it. It came with the change before which
    /// it was not there, if that made entries more: else it may be another wording of one that was. Nothing is
    /// known of one that is not in the memory, is older than what history keeps, or that was imported
    /// or brought back by an undo. Of one that was found on disk, the time of the file is the time while nobody
    /// wrote since; in the memories of a project, whose files come with a checkout, it is not known.
    ///
    /// # Errors
    ///
    /// As [`Memories::read`], or that the state cannot be read.
    pub async fn entry_dates(
        &self,
        path: &MemoryPath,
        entries: &[&str],
    ) -> Result<Vec<Option<Timestamp>>, StoreError> {
        let read = self.read(path).await?;
        let found = document::entries(&read.text);
        let there: HashSet<&str> = found.iter().map(|entry| entry.full_text(&read.text)).collect();
        let mut search = EntryDateSearch {
            entries_after: found.len(),
            entries,
            dates: vec![None; entries.len()],
            unresolved: (0..entries.len()).filter(|&at| there.contains(entries[at])).collect(),
            expected: Some(read.revision),
        };
        let (Some(mount), Some(_)) = (path.mount(), path.relative()) else {
            return Ok(search.dates);
        };
        let is_ours = mount != Mount::Scope(Scope::Project);
        let mut found_at = is_ours.then_some(read.modified_at);
        let mut query = ChangesQuery { path: Some(path.clone()), ..ChangesQuery::default() };
        query.max = CHANGES_AT_ONCE;
        loop {
            let changes = self.recorded_changes(&query).await?;
            for change in &changes {
                let Some(file) = self.file_change_at(change, path) else { continue };
                let (before, is_kept) = self.text(file.before.as_ref()).await?;
                if !is_kept
                    || !search.visit_change(change, file, &before.unwrap_or_default(), found_at)
                {
                    return Ok(search.dates);
                }
                found_at = None;
            }
            match changes.last() {
                Some(oldest) if changes.len() == CHANGES_AT_ONCE => query.before = Some(oldest.id),
                _ => return Ok(search.dates),
            }
        }
    }
}

impl EntryDateSearch<'_> {
    /// Looks at what was there before a change; whether there is more to look for.
    fn visit_change(
        &mut self,
        change: &MemoryChange,
        file: &FileChange,
        before: &str,
        found_at: Option<Timestamp>,
    ) -> bool {
        if file.after != self.expected {
            return false;
        }
        let entries = document::entries(before);
        let there: HashSet<&str> = entries.iter().map(|entry| entry.full_text(before)).collect();
        // Where none is more than before, one may have been another's wording, written who knows when.
        let written_at =
            written_at(change, found_at).filter(|_| entries.len() < self.entries_after);
        self.entries_after = entries.len();
        let Self { entries, dates: came, unresolved: open, expected, .. } = self;
        open.retain(|&at| {
            let stays = there.contains(entries[at]);
            if !stays {
                came[at] = written_at;
            }
            stays
        });
        *expected = file.before;
        !open.is_empty()
    }
}

/// When the text that a change brought was written; `found_at` is when, if it was found on disk.
fn written_at(change: &MemoryChange, found_at: Option<Timestamp>) -> Option<Timestamp> {
    if change.undoes.is_some() || change.provenance.trust == Trust::Imported {
        return None;
    }
    match change.provenance.actor {
        Actor::Outside => found_at.map(|at| at.min(change.at)),
        _ => Some(change.at),
    }
}
