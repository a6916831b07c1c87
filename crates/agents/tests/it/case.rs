//! Labeled cases: a snapshot, a request, and the outcome that a careful person expects.
//!
//! Each line of a file in `cases/` is a JSON object. A text *contains* another one regardless of case and white
//! space; it contains a list of texts if it contains any of them.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use lukasa_agents::CuratorEdit;
use lukasa_agents::rules::{EntryDates, Snapshot, StoredMemory};
use memory::change::Trust;
use memory::clock::Timestamp;
use memory::document;
use memory::path::{Layout, MemoryPath, Mount, Scope};
use serde_json::Value;
use strum::VariantArray as _;
use unicode_normalization::UnicodeNormalization;

/// Returns the cases of a file.
pub(crate) fn cases(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(crate) fn text<'a>(case: &'a Value, key: &str) -> &'a str {
    case[key].as_str().unwrap_or_default()
}

pub(crate) fn list<'a>(case: &'a Value, key: &str) -> &'a [Value] {
    case[key].as_array().map_or(&[], Vec::as_slice)
}

pub(crate) fn scope(case: &Value) -> Option<Scope> {
    text(case, "scope").parse().ok()
}

/// Returns the snapshot of a case; its memories are under `key`.
pub(crate) fn snapshot(case: &Value, key: &str) -> Snapshot {
    let now = case["now"].as_str().unwrap_or("2026-06-01T09:00:00Z").parse().unwrap();
    let pinned = list(case, "pinned");
    let memories = list(case, key).iter().map(|memory| StoredMemory {
        path: MemoryPath::parse(text(memory, "path"), Layout::Scoped).unwrap(),
        text: text(memory, "text").into(),
        pinned: pinned.contains(&memory["path"]),
        entry_dates: EntryDates::AllAt(now),
        trust: Trust::Person,
        influenced: false,
        written_by_review: false,
    });
    snapshot_of(memories.collect(), now)
}

/// Returns a snapshot whose mounts may all be written.
pub(crate) fn snapshot_of(memories: Vec<StoredMemory>, now: Timestamp) -> Snapshot {
    Snapshot {
        memories,
        occupied_paths: Vec::new(),
        failed_reads: Vec::new(),
        writable: Scope::VARIANTS.iter().copied().map(Mount::Scope).collect(),
        now,
        time_zone: TimeZone::UTC,
    }
}

/// Texts of memories by path.
pub(crate) type MemoryTexts = BTreeMap<String, String>;

/// Returns the texts of memories after edits.
pub(crate) fn texts_after(snapshot: &Snapshot, edits: &[CuratorEdit]) -> MemoryTexts {
    let before = snapshot.memories.iter();
    let mut files: MemoryTexts =
        before.map(|stored| (stored.path.to_string(), stored.text.to_string())).collect();
    for edit in edits {
        match edit {
            CuratorEdit::Write { path, text } => files.insert(path.to_string(), text.clone()),
            CuratorEdit::Remove { path } => files.remove(&path.to_string()),
        };
    }
    files
}

/// Returns the first line of every entry, with its memory's path.
pub(crate) fn entries(files: &MemoryTexts) -> Vec<(String, String)> {
    let of = |(path, text): (&String, &String)| {
        let path = path.clone();
        document::entries(text).into_iter().map(move |entry| (path.clone(), entry.first_line))
    };
    files.iter().flat_map(of).collect()
}

pub(crate) fn contains(text: &str, expected: &Value) -> bool {
    let fold = |text: &str| {
        let folded = text.nfkc().collect::<String>().to_lowercase();
        folded.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    match expected {
        Value::Array(any) => any.iter().any(|expected| contains(text, expected)),
        expected => fold(text).contains(&fold(expected.as_str().unwrap())),
    }
}

/// Returns a memory written by a person.
pub(crate) fn stored_memory(path: &str, text: &str) -> StoredMemory {
    let path = MemoryPath::parse(path, Layout::Scoped).unwrap();
    let entry_dates = EntryDates::AllAt("2026-05-20T09:00:00Z".parse().unwrap());
    StoredMemory {
        path,
        text: text.into(),
        pinned: false,
        entry_dates,
        trust: Trust::Person,
        influenced: false,
        written_by_review: false,
    }
}

/// Returns a snapshot of these memories on June 1.
pub(crate) fn snapshot_of_texts(memories: &[(&str, &str)]) -> Snapshot {
    let memories = memories.iter().map(|(path, text)| stored_memory(path, text)).collect();
    snapshot_of(memories, "2026-06-01T09:00:00Z".parse().unwrap())
}
