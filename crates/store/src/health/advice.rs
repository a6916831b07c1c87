//! What a person may improve in memories that are as they should be otherwise: no fault, and no failure of the doctor.

use std::collections::HashMap;

use memory::document::{MemoryHeader, Statement, entries, statements};
use memory::path::Mount;

use super::{HealthFinding, HealthFindingKind};

/// Collects advice about the memories of one root, in the order in which they are looked at.
pub(super) struct Adviser<'a> {
    mount: Mount,
    advice: &'a mut Vec<HealthFinding>,
    /// Where each statement of the root was found first.
    first_seen: HashMap<(String, String), (String, usize)>,
}

impl<'a> Adviser<'a> {
    pub(super) fn new(mount: Mount, advice: &'a mut Vec<HealthFinding>) -> Self {
        Self { mount, advice, first_seen: HashMap::new() }
    }

    /// Looks at the text of one memory.
    pub(super) fn examine(&mut self, path: &str, head: &MemoryHeader, text: &str) {
        if let Some(why) = &head.lenient_parse_reason {
            let detail = format!("{why}; the value was read as plain text: put it in quotes");
            self.add(HealthFindingKind::UnquotedValue, path, detail);
        }
        // What a memory of one entry is about is said by its first line.
        let is_told = !head.description.is_empty() || entries(text).len() < 2;
        if head.malformed.is_none() && !is_told {
            let detail = "has no description; its first line stands for one in the index";
            self.add(HealthFindingKind::MissingDescription, path, detail.to_owned());
        }
        let mut repeated = Vec::new();
        for Statement { key, line } in statements(text) {
            let Some((before, line_before)) = self.first_seen.get(&key) else {
                self.first_seen.insert(key, (path.to_owned(), line));
                continue;
            };
            let place = if before == path { String::new() } else { format!(" of {before}") };
            repeated.push(format!("line {line} says what line {line_before}{place} says"));
        }
        // One finding a memory: a log that somebody keeps may repeat itself a thousand times.
        if let Some(first) = repeated.first() {
            let more = match repeated.len() - 1 {
                0 => String::new(),
                more => format!(", and {more} more lines repeat others"),
            };
            let detail = format!("{first}{more}; `lukasa dream` merges entries that say the same");
            self.add(HealthFindingKind::RepeatedEntry, path, detail);
        }
    }

    fn add(&mut self, kind: HealthFindingKind, path: &str, detail: String) {
        self.advice.push(HealthFinding::new(kind, Some(self.mount), path.to_owned(), detail));
    }
}
