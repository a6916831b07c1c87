//! What a model's edits keep of a memory, compared by entries as they stand: nothing is taken for the same because it
//! sounds alike.

use std::collections::HashMap;

use memory::document;
use memory::text::slice;

use super::agent::AgentError;
use super::files::Files;
use crate::embedded::{self, Note, Source, Stored, is_fragment, is_same, keys};

/// Entries of one memory that remembering replaces.
const REPLACED_MAX: usize = 3;

/// What an edit took from a memory and added to it.
struct Compared<'a> {
    gone: Vec<&'a Note>,
    added: Vec<&'a Note>,
}

/// Tells whether two entries are the same, in the same place: text, headings and introduction above, and kind of block.
fn is_kept(before: &Note, now: &Note) -> bool {
    before.form == now.form
        && before.context == now.context
        && before.is_item() == now.is_item()
        && before.is_step == now.is_step
        && before.is_introduced == now.is_introduced
}

/// Compares the entries of two texts in their order: what only changed its place counts as gone and added.
fn compare<'a>(before: &'a Source, now: &'a Source) -> Compared<'a> {
    let (before, now) = (&before.read().notes, &now.read().notes);
    let mut gone = Vec::new();
    let mut added = Vec::new();
    let mut at = 0;
    for note in before {
        match (at..now.len()).find(|next| is_kept(note, &now[*next])) {
            Some(next) => {
                added.extend(&now[at..next]);
                at = next + 1;
            }
            None => gone.push(note),
        }
    }
    added.extend(&now[at..]);
    Compared { gone, added }
}

/// Returns the lines of a text that belong to no entry: headings, breaks and the like.
fn frame(text: &str) -> Vec<&str> {
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
fn fields(text: &str) -> Vec<&str> {
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
pub(super) fn check_added(stored: &Stored, now: &str) -> Result<(), String> {
    if !fields(&stored.text).iter().all(|field| fields(now).contains(field)) {
        return Err("the fields of its frontmatter must stay, but for the description".to_owned());
    }
    let mut lines = frame(now).into_iter();
    if !frame(&stored.text).iter().all(|wanted| lines.any(|line| line == *wanted)) {
        return Err("its headings must stay".to_owned());
    }
    let now = Source::from(now);
    let Compared { gone, mut added } = compare(&stored.text, &now);
    let lost = |note: &Note| {
        let entry = embedded::first_words(note.whole());
        format!(
            "this entry must stay, or be replaced by what is now true of the same thing: {entry}"
        )
    };
    for (count, note) in gone.into_iter().enumerate() {
        let about = |new: &&Note| {
            let is_in_place = new.context == note.context && new.form != note.form;
            is_in_place && !stored.pinned && !note.is_step && is_about_same(note, new)
        };
        let Some(at) = added.iter().position(about).filter(|_| count < REPLACED_MAX) else {
            return Err(lost(note));
        };
        added.remove(at);
    }
    Ok(())
}

/// Tells whether a new entry has at least half of the words of an old one.
fn is_about_same(old: &Note, new: &Note) -> bool {
    let (old, new) = (keys(old.words()), keys(new.words()));
    let shared = old.iter().filter(|(word, _)| new.iter().any(|(other, _)| other == word)).count();
    shared > 0 && shared * 2 >= old.len()
}

/// Checks what a dream did to the memories of a scope: entries went only where the same one stays, or moved whole; nothing was
/// added but descriptions. Returns how many went.
pub(super) fn check_tidied(files: &Files<'_>) -> Result<usize, AgentError> {
    let texts: Vec<_> = files.texts().collect();
    let lost = |path: &dyn std::fmt::Display, what: &str| AgentError::Loss {
        path: path.to_string(),
        entry: embedded::first_words(what),
    };
    let nothing = Source::from("");
    let mut gone: Vec<(&Stored, &Note)> = Vec::new();
    let mut added: HashMap<&str, usize> = HashMap::new();
    for (path, stored, now) in &texts {
        let before = stored.map_or(&nothing, |stored| &stored.text);
        if now.as_ref().is_some_and(|now| **now == **before) {
            continue;
        }
        let after = now.as_ref().unwrap_or(&nothing);
        let Some(stored) = stored else { return Err(AgentError::Added(path.to_string())) };
        if now.is_none() && embedded::says_more_than_its_entries(stored) {
            return Err(lost(path, &before.read().head.description));
        }
        if now.is_some() {
            let had = &before.read().head.description;
            let has = &after.read().head.description;
            if fields(before) != fields(after) || (!had.is_empty() && had != has) {
                return Err(lost(path, "a field of its frontmatter"));
            }
        }
        let frame_now = now.as_ref().map(|now| frame(now)).unwrap_or_default();
        if frame(before) != frame_now {
            return Err(lost(path, "a heading"));
        }
        let compared = compare(before, after);
        gone.extend(compared.gone.into_iter().map(|note| (*stored, note)));
        for note in compared.added {
            // What waits for a person may be rejected yet: nothing moves there.
            if !is_movable(note) || stored.by_review {
                return Err(AgentError::Added(path.to_string()));
            }
            *added.entry(note.form.as_str()).or_default() += 1;
        }
    }
    // What was added is what went elsewhere.
    let mut merged = 0;
    for (stored, note) in gone {
        // Nor does it move away from there, to where nobody would be asked.
        if is_movable(note)
            && !stored.by_review
            && let Some(count) = added.get_mut(note.form.as_str()).filter(|count| **count > 0)
        {
            *count -= 1;
            continue;
        }
        let stays = |other: &Stored, now: &Source| {
            (stored.by_review || !other.by_review)
                && now.read().notes.iter().any(|one| is_same((other, one), (stored, note)))
        };
        let is_there = texts.iter().any(|(_, other, now)| {
            other.is_some_and(|other| now.as_ref().is_some_and(|now| stays(other, now)))
        });
        if !is_there {
            return Err(lost(&stored.path, note.whole()));
        }
        merged += 1;
    }
    if let Some((path, ..)) = texts.first().filter(|_| added.values().any(|count| *count > 0)) {
        return Err(AgentError::Added(path.to_string()));
    }
    Ok(merged)
}

/// Tells whether an entry says the same in any memory: it is an item by itself, below nothing that gives it its meaning.
fn is_movable(note: &Note) -> bool {
    note.is_item()
        && !note.is_step
        && !note.is_introduced
        && note.context.is_empty()
        && !is_fragment(note.statement())
}
