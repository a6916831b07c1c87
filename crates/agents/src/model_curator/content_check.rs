//! Checks that a model's edits lose and add no more than they may.
//!
//! Entries are compared as they are written: similar wording never counts as the same. Remembering may add entries
//! and replace a few; a dream may only remove duplicates, move entries and add descriptions.

use std::collections::HashMap;

use memory::document;
use memory::text::slice;

use super::agent::AgentError;
use super::toolbox::MemoryToolbox;
use crate::rules::{
    self, ParsedEntry, ParsedText, StoredMemory, content_keys, is_duplicate, is_fragment,
};

/// Maximum number of entries that remembering replaces in one memory.
const REPLACED_MAX: usize = 3;

/// Entries that an edit removed from a memory and added to it.
struct EntryDiff<'a> {
    removed: Vec<&'a ParsedEntry>,
    added: Vec<&'a ParsedEntry>,
}

/// Checks whether two entries have the same text, headings, introduction and kind of block.
fn is_unchanged(before: &ParsedEntry, now: &ParsedEntry) -> bool {
    before.normalized == now.normalized
        && before.context == now.context
        && before.is_item() == now.is_item()
        && before.is_step == now.is_step
        && before.has_introduction == now.has_introduction
}

/// Compares the entries of two texts in order; a moved entry counts as removed and added.
fn diff_entries<'a>(before: &'a ParsedText, now: &'a ParsedText) -> EntryDiff<'a> {
    let (before, now) = (&before.parsed().entries, &now.parsed().entries);
    let mut removed = Vec::new();
    let mut added = Vec::new();
    let mut position = 0;
    for entry in before {
        match (position..now.len()).find(|next| is_unchanged(entry, &now[*next])) {
            Some(next) => {
                added.extend(&now[position..next]);
                position = next + 1;
            }
            None => removed.push(entry),
        }
    }
    added.extend(&now[position..]);
    EntryDiff { removed, added }
}

/// Returns the lines outside entries: headings, breaks and the like.
fn lines_outside_entries(text: &str) -> Vec<&str> {
    let mut from = text.len() - document::body(text).len();
    let mut gaps = Vec::new();
    for entry in document::entries(text) {
        gaps.push(slice(text, from..entry.range.start));
        from = entry.range.end;
    }
    gaps.push(slice(text, from..));
    gaps.into_iter().flat_map(str::lines).map(str::trim).filter(|line| !line.is_empty()).collect()
}

/// Returns the lines of a frontmatter, without the description.
fn frontmatter_lines(text: &str) -> Vec<&str> {
    let front = slice(text, ..text.len() - document::body(text).len());
    let mut is_description = false;
    front
        .lines()
        .map(str::trim_end)
        .filter(|line| {
            is_description = line.starts_with("description:")
                || (is_description && line.starts_with(char::is_whitespace));
            !is_description && !line.is_empty() && *line != "---"
        })
        .collect()
}

/// Checks that an edited memory keeps its content: frontmatter fields except the description, headings, and
/// entries. A few entries may be replaced by one that is about the same. The error says what would be lost.
pub(super) fn check_remember_edit(stored: &StoredMemory, now: &str) -> Result<(), String> {
    if !frontmatter_lines(&stored.text).iter().all(|field| frontmatter_lines(now).contains(field)) {
        return Err("the fields of its frontmatter must stay, but for the description".to_owned());
    }
    let mut lines = lines_outside_entries(now).into_iter();
    if !lines_outside_entries(&stored.text).iter().all(|heading| lines.any(|line| line == *heading))
    {
        return Err("its headings must stay".to_owned());
    }
    let now = ParsedText::from(now);
    let EntryDiff { removed, mut added } = diff_entries(&stored.text, &now);
    let lost = |note: &ParsedEntry| {
        let entry = rules::first_words(note.full_text());
        format!(
            "this entry must stay, or be replaced by what is now true of the same thing: {entry}"
        )
    };
    for (count, note) in removed.into_iter().enumerate() {
        let about = |new: &&ParsedEntry| {
            let is_in_place = new.context == note.context && new.normalized != note.normalized;
            is_in_place && !stored.pinned && !note.is_step && shares_half_of_words(note, new)
        };
        let Some(index) = added.iter().position(about).filter(|_| count < REPLACED_MAX) else {
            return Err(lost(note));
        };
        added.remove(index);
    }
    Ok(())
}

/// Checks whether a new entry has at least half of the words of an old one.
fn shares_half_of_words(old: &ParsedEntry, new: &ParsedEntry) -> bool {
    let (old, new) = (old.tokenize(), new.tokenize());
    let (old, new) = (content_keys(&old), content_keys(&new));
    let shared = old.iter().filter(|(word, _)| new.iter().any(|(other, _)| other == word)).count();
    shared > 0 && shared * 2 >= old.len()
}

/// Checks the edits of a dream in one scope. An entry may go only if the same one stays or it moved whole; only
/// descriptions may be added. Returns the number of removed duplicates.
pub(super) fn check_dream_edits(files: &MemoryToolbox<'_>) -> Result<usize, AgentError> {
    let texts: Vec<_> = files.texts_before_and_after().collect();
    let lost = |path: &dyn std::fmt::Display, what: &str| AgentError::ContentLoss {
        path: path.to_string(),
        entry: rules::first_words(what),
    };
    let nothing = ParsedText::from("");
    let mut removed: Vec<(&StoredMemory, &ParsedEntry)> = Vec::new();
    let mut added: HashMap<&str, usize> = HashMap::new();
    for (path, stored, now) in &texts {
        let before = stored.map_or(&nothing, |stored| &stored.text);
        if now.as_ref().is_some_and(|now| **now == **before) {
            continue;
        }
        let after = now.as_ref().unwrap_or(&nothing);
        let Some(stored) = stored else { return Err(AgentError::ContentAdded(path.to_string())) };
        if now.is_none() && rules::has_own_metadata(stored) {
            return Err(lost(path, &before.parsed().header.description));
        }
        if now.is_some() {
            let old_description = &before.parsed().header.description;
            let new_description = &after.parsed().header.description;
            if frontmatter_lines(before) != frontmatter_lines(after)
                || (!old_description.is_empty() && old_description != new_description)
            {
                return Err(lost(path, "a field of its frontmatter"));
            }
        }
        let lines_now = now.as_ref().map(|now| lines_outside_entries(now)).unwrap_or_default();
        if lines_outside_entries(before) != lines_now {
            return Err(lost(path, "a heading"));
        }
        let diff = diff_entries(before, after);
        removed.extend(diff.removed.into_iter().map(|note| (*stored, note)));
        for note in diff.added {
            // A memory by a background review may yet be rejected by a person: nothing may move into it.
            if !is_movable(note) || stored.written_by_review {
                return Err(AgentError::ContentAdded(path.to_string()));
            }
            *added.entry(note.normalized.as_str()).or_default() += 1;
        }
    }
    // Each added entry must be one that was removed elsewhere.
    let mut merged = 0;
    for (stored, note) in removed {
        // Nothing may move out of it either, to a place where no person would be asked.
        if is_movable(note)
            && !stored.written_by_review
            && let Some(count) = added.get_mut(note.normalized.as_str()).filter(|count| **count > 0)
        {
            *count -= 1;
            continue;
        }
        let stays = |other: &StoredMemory, now: &ParsedText| {
            (stored.written_by_review || !other.written_by_review)
                && now
                    .parsed()
                    .entries
                    .iter()
                    .any(|entry| is_duplicate((other, entry), (stored, note)))
        };
        let is_stored = texts.iter().any(|(_, other, now)| {
            other.is_some_and(|other| now.as_ref().is_some_and(|now| stays(other, now)))
        });
        if !is_stored {
            return Err(lost(&stored.path, note.full_text()));
        }
        merged += 1;
    }
    if let Some((path, ..)) = texts.first().filter(|_| added.values().any(|count| *count > 0)) {
        return Err(AgentError::ContentAdded(path.to_string()));
    }
    Ok(merged)
}

/// Checks whether an entry means the same in any memory: an item by itself, without heading or introduction.
fn is_movable(entry: &ParsedEntry) -> bool {
    entry.is_item()
        && !entry.is_step
        && !entry.has_introduction
        && entry.context.is_empty()
        && !is_fragment(entry.statement())
}
