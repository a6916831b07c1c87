//! Advice of a health check: improvements to memories that are valid as they are. Advice is never a
//! fault, and does not make the check fail.

use std::collections::HashMap;

use memory::document::{MemoryHeader, Statement, entries, statements};
use memory::path::Mount;

use super::{HealthFinding, HealthFindingKind};

/// Collects advice about the memories of one root, in the order in which they are examined.
pub(super) struct Adviser<'a> {
    mount: Mount,
    advice: &'a mut Vec<HealthFinding>,
    /// First path and line of each statement in the root.
    first_seen: HashMap<(String, String), (String, usize)>,
}

impl<'a> Adviser<'a> {
    pub(super) fn new(mount: Mount, advice: &'a mut Vec<HealthFinding>) -> Self {
        Self { mount, advice, first_seen: HashMap::new() }
    }

    /// Adds advice about the text of one memory.
    pub(super) fn examine(&mut self, path: &str, head: &MemoryHeader, text: &str) {
        if let Some(reason) = &head.lenient_parse_reason {
            let detail = format!("{reason}; the value was read as plain text: put it in quotes");
            self.add(HealthFindingKind::UnquotedValue, path, detail);
        }
        // The first line of a memory with one entry says what it is about.
        let is_described = !head.description.is_empty() || entries(text).len() < 2;
        if head.malformed.is_none() && !is_described {
            let detail = "has no description; the index shows its first line instead";
            self.add(HealthFindingKind::MissingDescription, path, detail.to_owned());
        }
        let mut repeated = Vec::new();
        for Statement { key, line } in statements(text) {
            let Some((first_path, first_line)) = self.first_seen.get(&key) else {
                self.first_seen.insert(key, (path.to_owned(), line));
                continue;
            };
            let of_memory =
                if first_path == path { String::new() } else { format!(" of {first_path}") };
            repeated.push(format!("line {line} repeats line {first_line}{of_memory}"));
        }
        // At most one finding per memory: a log may repeat itself a thousand times.
        if let Some(first) = repeated.first() {
            let more = match repeated.len() - 1 {
                0 => String::new(),
                more => format!(", and {more} more lines repeat others"),
            };
            let detail = format!("{first}{more}; `lukasa dream` merges repeated entries");
            self.add(HealthFindingKind::RepeatedEntry, path, detail);
        }
    }

    fn add(&mut self, kind: HealthFindingKind, path: &str, detail: String) {
        self.advice.push(HealthFinding::new(kind, Some(self.mount), path.to_owned(), detail));
    }
}
