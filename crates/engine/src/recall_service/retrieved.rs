//! Turns a hit of the ranker into a memory as it is shown: its title, its date, the text that fits and the reason.

use std::collections::HashMap;
use std::sync::Arc;

use ::context::Mark;
use ::context::excerpt::MatchedText;
use ::context::recalled::repeats_file_name;
use memory::change::Trust;
use memory::clock::Timestamp;
use memory::document;
use memory::limits::RECALLED_ITEM_CHARS_MAX;
use memory::path::MemoryPath;
use recall::{MemoryHit, Reason};

use super::corpus::CachedMemory;
use crate::query::LastWrite;
use crate::retriever::{DuplicateMemory, RetrievedMemory};

/// Time by which a date in a memory may be later than its file: a day begins earlier in the east.
const DATE_TOLERANCE: jiff::SignedDuration = jiff::SignedDuration::from_hours(24);

/// Returns a hit as it is shown. `last_write` is the write that the text comes from, if history has it.
pub(super) fn retrieved_memory(
    hit: MemoryHit,
    read: &CachedMemory,
    text: &Arc<str>,
    (mark, last_write): (Option<Mark>, Option<&LastWrite>),
) -> RetrievedMemory {
    let words: Vec<&str> = hit.reasons.iter().filter_map(memory_word).collect();
    let entries = hit.entries.iter().map(|entry| entry.range.clone()).collect();
    RetrievedMemory {
        title: title(&hit.path, text),
        text: MatchedText::new(Arc::clone(text), entries, &words),
        why: reason_text(&hit.reasons),
        saved_at: saved_at(&hit.path, text, read.modified_at, last_write),
        path: hit.path,
        revision: read.revision,
        modified_at: read.modified_at,
        score: f64::from((hit.confidence * 100.0).round()) / 100.0,
        is_weak: hit.is_weak,
        mark,
        also_in: Vec::new(),
    }
}

/// Returns the title of a memory: its name, unless that repeats the name of the file. Else it is the description, the
/// heading that the memory begins with, or the name of the file.
pub(super) fn title(path: &MemoryPath, text: &str) -> String {
    let name = document::parse_header(text.as_bytes()).name;
    if let Some(name) = name.filter(|name| !repeats_file_name(name, path)) {
        return name;
    }
    let title = document::display_title(text);
    if !title.is_empty() {
        return title;
    }
    let name = path.relative().map_or("", |relative| relative.file_name());
    name.strip_suffix(".md").unwrap_or(name).to_owned()
}

/// Returns the time from which a text is: the date in its frontmatter, else that of the write in history, else that of
/// its file. The time of a file says nothing in a checkout, and that of an import nothing about what was imported.
fn saved_at(
    path: &MemoryPath,
    text: &str,
    modified_at: Timestamp,
    last_write: Option<&LastWrite>,
) -> Option<Timestamp> {
    let latest = modified_at.saturating_add(DATE_TOLERANCE).unwrap_or(modified_at);
    // A text cannot be from a day after its file was written. A later date is that of an appointment.
    let written = document::written_date(text).filter(|date| *date <= latest);
    let of_file = (!path.is_shared()).then_some(modified_at);
    let recorded = match last_write {
        Some(LastWrite { at, trust: Trust::Person | Trust::Agent | Trust::Background, .. }) => {
            Some(*at)
        }
        Some(LastWrite { trust: Trust::Imported, .. }) => None,
        Some(LastWrite { trust: Trust::Outside, .. }) | None => of_file,
    };
    written.or(recorded)
}

/// Merges memories whose best entry another memory before them shows as well. An entry that was shown before is left
/// out of the later memory.
pub(crate) fn merge_duplicates(memories: Vec<RetrievedMemory>) -> Vec<RetrievedMemory> {
    let mut shown: HashMap<String, usize> = HashMap::new();
    let mut merged: Vec<RetrievedMemory> = Vec::with_capacity(memories.len());
    for mut memory in memories {
        let entries = document::entries(memory.text.full_text());
        let keys: Vec<String> =
            entries.iter().map(|entry| entry.key(memory.text.full_text())).collect();
        let best = memory.text.entries().first();
        let best = entries.iter().zip(&keys).find(|(entry, _)| Some(&entry.range) == best);
        if let Some(first) = best.and_then(|(_, key)| shown.get(key)) {
            let same = DuplicateMemory { path: memory.path, revision: memory.revision };
            merged[*first].also_in.push(same);
            continue;
        }
        for (entry, key) in entries.iter().zip(&keys) {
            if shown.contains_key(key) {
                memory.text.omit(entry.range.clone());
            }
        }
        let excerpt = memory.text.excerpt(RECALLED_ITEM_CHARS_MAX).text;
        for (entry, key) in entries.iter().zip(keys) {
            let own = memory.text.full_text().get(entry.range.clone()).unwrap_or_default().trim();
            if excerpt.contains(own) {
                shown.entry(key).or_insert(merged.len());
            }
        }
        merged.push(memory);
    }
    merged
}

/// Returns the word of the memory that a reason names.
fn memory_word(reason: &Reason) -> Option<&str> {
    match reason {
        Reason::ExactWord { memory_word, .. }
        | Reason::Misspelled { memory_word, .. }
        | Reason::SimilarWord { memory_word, .. } => Some(memory_word),
        Reason::Date | Reason::Subject | Reason::SimilarText { .. } => None,
    }
}

/// Describes why a memory was chosen.
fn reason_text(reasons: &[Reason]) -> String {
    let reason = |reason: &Reason| match reason {
        Reason::ExactWord { query_word, memory_word } if query_word == memory_word => {
            format!("has `{query_word}`")
        }
        Reason::ExactWord { query_word, memory_word } => {
            format!("has `{memory_word}` for `{query_word}`")
        }
        Reason::Misspelled { query_word, memory_word } => {
            format!("has `{memory_word}`, probably for `{query_word}`")
        }
        Reason::SimilarWord { query_word, memory_word, .. } => {
            format!("has `{memory_word}`, near `{query_word}`")
        }
        Reason::Date => "is from the day or month asked for".to_owned(),
        Reason::Subject => "is about what is named".to_owned(),
        Reason::SimilarText { similarity } => {
            format!("is near to the prompt as a whole ({similarity:.2})")
        }
    };
    reasons.iter().map(reason).collect::<Vec<_>>().join("; ")
}
