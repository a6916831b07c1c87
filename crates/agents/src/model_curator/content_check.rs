//! What a model's edits keep of a memory, compared by entries as they stand: nothing is taken for the same because it
//! sounds alike.

use std::collections::HashMap;

use memory::document;
use memory::text::slice;

use super::agent::AgentError;
use super::toolbox::MemoryToolbox;
use crate::rules::{
    self, ParsedEntry, ParsedText, StoredMemory, content_keys, is_duplicate, is_fragment,
};

/// Entries of one memory that remembering replaces.
const REPLACED_MAX: usize = 3;

/// What an edit took from a memory and added to it.
struct EntryDiff<'a> {
    removed: Vec<&'a ParsedEntry>,
    added: Vec<&'a ParsedEntry>,
}

/// Tells whether two entries are the same, in the same place: text, headings and introduction above, and kind of block.
fn is_unchanged(before: &ParsedEntry, now: &ParsedEntry) -> bool {
    before.normalized == now.normalized
        && before.context == now.context
        && before.is_item() == now.is_item()
        && before.is_step == now.is_step
        && before.has_introduction == now.has_introduction
}

/// Compares the entries of two texts in their order: what only changed its place counts as gone and added.
fn diff_entries<'a>(before: &'a ParsedText, now: &'a ParsedText) -> EntryDiff<'a> {
    let (before, now) = (&before.parsed().entries, &now.parsed().entries);
    let mut gone = Vec::new();
    let mut added = Vec::new();
    let mut at = 0;
    for note in before {
        match (at..now.len()).find(|next| is_unchanged(note, &now[*next])) {
            Some(next) => {
                added.extend(&now[at..next]);
                at = next + 1;
            }
            None => gone.push(note),
        }
    }
    added.extend(&now[at..]);
    EntryDiff { removed: gone, added }
}

/// Returns the lines of a text that belong to no entry: headings, breaks and the like.
fn lines_outside_entries(text: &str) -> Vec<&str> {
    let mut from = text.len() - document::body(text).len();
    let mut between = Vec::new();
    for entry in document::entries(text) {
        between.push(slice(text, from..entry.range.start));
        from = entry.range.end;
    }
    between.push(slice(text, from..));
    between
        .into_iter()
        .flat_map(str::lines)
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect()
}

/// Returns the lines of a frontmatter but those of the description.
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

/// Checks that a memory that something is added to keeps what it had: its fields but the description, its headings, and
/// its entries, but a few of which another one takes the place that is about the same. Says what would be lost.
pub(super) fn check_remember_edit(stored: &StoredMemory, now: &str) -> Result<(), String> {
    if !frontmatter_lines(&stored.text).iter().all(|field| frontmatter_lines(now).contains(field)) {
        return Err("the fields of its frontmatter must stay, but for the description".to_owned());
    }
    let mut lines = lines_outside_entries(now).into_iter();
    if !lines_outside_entries(&stored.text).iter().all(|wanted| lines.any(|line| line == *wanted)) {
        return Err("its headings must stay".to_owned());
    }
    let now = ParsedText::from(now);
    let EntryDiff { removed: gone, mut added } = diff_entries(&stored.text, &now);
    let lost = |note: &ParsedEntry| {
        let entry = rules::first_words(note.full_text());
        format!(
            "this entry must stay, or be replaced by what is now true of the same thing: {entry}"
        )
    };
    for (count, note) in gone.into_iter().enumerate() {
        let about = |new: &&ParsedEntry| {
            let is_in_place = new.context == note.context && new.normalized != note.normalized;
            is_in_place && !stored.pinned && !note.is_step && shares_half_of_words(note, new)
        };
        let Some(at) = added.iter().position(about).filter(|_| count < REPLACED_MAX) else {
            return Err(lost(note));
        };
        added.remove(at);
    }
    Ok(())
}

/// Tells whether a new entry has at least half of the words of an old one.
fn shares_half_of_words(old: &ParsedEntry, new: &ParsedEntry) -> bool {
    let (old, new) = (content_keys(old.tokenized()), content_keys(new.tokenized()));
    let shared = old.iter().filter(|(word, _)| new.iter().any(|(other, _)| other == word)).count();
    shared > 0 && shared * 2 >= old.len()
}

/// Checks what a dream did to the memories of a scope: entries went only where the same one stays, or moved whole; nothing was
/// added but descriptions. Returns how many went.
pub(super) fn check_dream_edits(files: &MemoryToolbox<'_>) -> Result<usize, AgentError> {
    let texts: Vec<_> = files.texts_before_and_after().collect();
    let lost = |path: &dyn std::fmt::Display, what: &str| AgentError::ContentLoss {
        path: path.to_string(),
        entry: rules::first_words(what),
    };
    let nothing = ParsedText::from("");
    let mut gone: Vec<(&StoredMemory, &ParsedEntry)> = Vec::new();
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
            let had = &before.parsed().header.description;
            let has = &after.parsed().header.description;
            if frontmatter_lines(before) != frontmatter_lines(after)
                || (!had.is_empty() && had != has)
            {
                return Err(lost(path, "a field of its frontmatter"));
            }
        }
        let frame_now = now.as_ref().map(|now| lines_outside_entries(now)).unwrap_or_default();
        if lines_outside_entries(before) != frame_now {
            return Err(lost(path, "a heading"));
        }
        let compared = diff_entries(before, after);
        gone.extend(compared.removed.into_iter().map(|note| (*stored, note)));
        for note in compared.added {
            // What waits for a person may be rejected yet: nothing moves there.
            if !is_movable(note) || stored.written_by_review {
                return Err(AgentError::ContentAdded(path.to_string()));
            }
            *added.entry(note.normalized.as_str()).or_default() += 1;
        }
    }
    // What was added is what went elsewhere.
    let mut merged = 0;
    for (stored, note) in gone {
        // Nor does it move away from there, to where nobody would be asked.
        if is_movable(note)
            && !stored.written_by_review
            && let Some(count) = added.get_mut(note.normalized.as_str()).filter(|count| **count > 0)
        {
            *count -= 1;
            continue;
        }
        let stays = |other: &StoredMemory, now: &ParsedText| {
            (stored.written_by_review || !other.written_by_review)
                && now.parsed().entries.iter().any(|one| is_duplicate((other, one), (stored, note)))
        };
        let is_there = texts.iter().any(|(_, other, now)| {
            other.is_some_and(|other| now.as_ref().is_some_and(|now| stays(other, now)))
        });
        if !is_there {
            return Err(lost(&stored.path, note.full_text()));
        }
        merged += 1;
    }
    if let Some((path, ..)) = texts.first().filter(|_| added.values().any(|count| *count > 0)) {
        return Err(AgentError::ContentAdded(path.to_string()));
    }
    Ok(merged)
}

/// Tells whether an entry says the same in any memory: it is an item by itself, below nothing that gives it its meaning.
fn is_movable(note: &ParsedEntry) -> bool {
    note.is_item()
        && !note.is_step
        && !note.has_introduction
        && note.context.is_empty()
        && !is_fragment(note.statement())
}
