//! Memories as they were read, for the tasks that follow.
//!
//! A memory is read again only if its file has another stamp. What is kept is a copy and bounded; whoever
//! edits a memory compares it with the file once more before anything is entered.

use std::collections::HashMap;

use memory::path::MemoryPath;
use store::backend::Stamp;

use crate::embedded::Source;

/// The most that is kept, in bytes: about three thousand memories of a kilobyte.
const KEPT_BYTES_MAX: usize = 12 << 20;

/// What a memory takes for each byte of its text, with what was read in it.
const BYTES_A_BYTE: usize = 5;

/// Memories as they were read, by the place of their root.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    places: HashMap<String, Place>,
    turn: u64,
}

/// The memories of a root.
#[derive(Debug, Default)]
struct Place {
    texts: HashMap<MemoryPath, (Stamp, Source)>,
    bytes: usize,
    /// When somebody last wanted them, in turns.
    used: u64,
}

impl Shelf {
    /// Returns the text of a memory if it was read in this version.
    pub(crate) fn find(&self, place: &str, path: &MemoryPath, stamp: Stamp) -> Option<Source> {
        let (known, text) = self.places.get(place)?.texts.get(path)?;
        (*known == stamp).then(|| text.clone())
    }

    /// Keeps the memories of a root, in place of those that it had. Roots that nobody has wanted for the
    /// longest time give way; what then is too much is not kept.
    pub(crate) fn keep(&mut self, place: &str, texts: Vec<(MemoryPath, Stamp, Source)>) {
        self.turn += 1;
        let mut kept = Place { used: self.turn, ..Place::default() };
        for (path, stamp, text) in texts {
            let bytes = (text.len() + size_of::<MemoryPath>()) * BYTES_A_BYTE;
            // Rather the first of many for good than the last of them for nothing.
            if kept.bytes + bytes <= KEPT_BYTES_MAX {
                kept.bytes += bytes;
                kept.texts.insert(path, (stamp, text));
            }
        }
        self.places.insert(place.to_owned(), kept);
        while self.places.values().map(|place| place.bytes).sum::<usize>() > KEPT_BYTES_MAX {
            let oldest = self.places.iter().min_by_key(|(_, place)| place.used);
            let Some(name) = oldest.map(|(name, _)| name.clone()) else { break };
            self.places.remove(&name);
        }
    }

    /// Forgets the words that a task needed and the next one may not.
    pub(crate) fn rest(&mut self) {
        let texts = self.places.values_mut().flat_map(|place| place.texts.values_mut());
        texts.for_each(|(_, text)| text.rest());
    }
}

#[cfg(test)]
mod tests {
    use memory::path::Layout;

    use super::*;

    const STAMP: Stamp = Stamp([1, 2, 3, 4]);

    fn texts(bytes: usize) -> Vec<(MemoryPath, Stamp, Source)> {
        let path = MemoryPath::parse("/memories/global/a.md", Layout::Scoped).unwrap();
        vec![(path, STAMP, "x".repeat(bytes).into())]
    }

    fn has(shelf: &Shelf, place: &str) -> bool {
        shelf.find(place, &texts(0)[0].0, STAMP).is_some()
    }

    #[test]
    fn a_memory_of_another_stamp_or_place_is_not_the_one_that_was_read() {
        let mut shelf = Shelf::default();
        shelf.keep("a", texts(1));
        assert!(has(&shelf, "a") && !has(&shelf, "b"));
        assert!(shelf.find("a", &texts(0)[0].0, Stamp([1, 2, 3, 5])).is_none());
        shelf.keep("a", Vec::new());
        assert!(!has(&shelf, "a"), "it was not there any more");
    }

    #[test]
    fn the_root_that_nobody_wanted_for_longest_gives_way_and_nothing_beyond_the_bound_is_kept() {
        let half = KEPT_BYTES_MAX / BYTES_A_BYTE / 2 - size_of::<MemoryPath>();
        let mut shelf = Shelf::default();
        shelf.keep("a", texts(half));
        shelf.keep("b", texts(half));
        shelf.keep("a", texts(half));
        shelf.keep("c", texts(half));
        assert_eq!(["a", "b", "c"].map(|place| has(&shelf, place)), [true, false, true]);
        shelf.keep("d", texts(3 * half));
        assert_eq!(["a", "c", "d"].map(|place| has(&shelf, place)), [true, true, false]);
    }
}
