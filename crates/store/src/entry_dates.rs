//! Dates of entries: the time when each entry was added to a memory, as far as history tells.

use std::collections::HashSet;

use memory::change::{Actor, FileChange, MemoryChange, Trust};
use memory::clock::Timestamp;
use memory::document::{self, Revision};
use memory::path::{MemoryPath, Mount, Scope};

use crate::error::StoreError;
use crate::history::{CHANGES_AT_ONCE, ChangesQuery};
use crate::memories::Memories;

/// A search for the dates of entries, from the newest change of a memory to older ones.
struct EntryDateSearch<'a> {
    entries: &'a [&'a str],
    dates: Vec<Option<Timestamp>>,
    /// Indexes of the entries that every later text has.
    unresolved: Vec<usize>,
    /// Number of entries after the change that is visited next.
    entries_after: usize,
    /// The revision that the next older change must have left.
    expected: Option<Revision>,
}

impl Memories {
    /// Returns the time when each of these entries was added to a memory, as far as history tells.
    ///
    /// External edits count once they are recorded: call [`Memories::record_external_edits`] before, once for all
    /// memories.
    ///
    /// An entry is passed whole, as [`document::Entry::full_text`] returns it. Its date is that of the change before
    /// which it was missing. If that change did not increase the number of entries, it may be a new wording of an
    /// older entry, and the date is unknown. It is also unknown for an entry that is not in the memory, is older than
    /// history, was imported, or was restored by an undo. An entry from an external edit has the modification time of
    /// the file, unless the file was written since. In a project scope that time is unknown, since a checkout sets it.
    ///
    /// # Errors
    ///
    /// As [`Memories::read`], or an error if the state cannot be read.
    pub async fn entry_dates(
        &self,
        path: &MemoryPath,
        entries: &[&str],
    ) -> Result<Vec<Option<Timestamp>>, StoreError> {
        let read = self.read(path).await?;
        let entries_now = document::entries(&read.text);
        let texts: HashSet<&str> =
            entries_now.iter().map(|entry| entry.full_text(&read.text)).collect();
        let mut search = EntryDateSearch {
            entries_after: entries_now.len(),
            entries,
            dates: vec![None; entries.len()],
            unresolved: (0..entries.len())
                .filter(|&index| texts.contains(entries[index]))
                .collect(),
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
    /// Visits a change with the text before it. Returns whether any entries are unresolved.
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
        let texts_before: HashSet<&str> =
            entries.iter().map(|entry| entry.full_text(before)).collect();
        // Without an additional entry, the entry may be a new wording of an older one, of unknown date.
        let written_at =
            written_at(change, found_at).filter(|_| entries.len() < self.entries_after);
        self.entries_after = entries.len();
        let Self { entries, dates, unresolved, expected, .. } = self;
        unresolved.retain(|&index| {
            let existed = texts_before.contains(entries[index]);
            if !existed {
                dates[index] = written_at;
            }
            existed
        });
        *expected = file.before;
        !unresolved.is_empty()
    }
}

/// Returns the time when the text of a change was written. `found_at` is that time for an external edit.
fn written_at(change: &MemoryChange, found_at: Option<Timestamp>) -> Option<Timestamp> {
    if change.undoes.is_some() || change.provenance.trust == Trust::Imported {
        return None;
    }
    match change.provenance.actor {
        Actor::Outside => found_at.map(|at| at.min(change.at)),
        _ => Some(change.at),
    }
}
