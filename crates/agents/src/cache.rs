//! Memories as they were read, for the tasks that follow.
//!
//! A memory is read again only if its file has another stamp. What is kept is a copy and bounded; whoever
//! edits a memory compares it with the file once more before anything is entered.

use memory::cache::Cache;
use memory::path::MemoryPath;
use store::backend::Stamp;

use crate::rules::ParsedText;

/// The most that is kept, in bytes: about three thousand memories of a kilobyte.
const CACHE_BYTES_MAX: usize = 12 << 20;

/// What a memory takes for each byte of its text, with what was read in it.
const BYTES_PER_TEXT_BYTE: usize = 5;

/// A memory as it was read.
pub(crate) type CachedText = (MemoryPath, Stamp, ParsedText);

/// Memories as they were read, by the name of their root, in the order of their paths.
#[derive(Debug, Default)]
pub(crate) struct ParsedTextCache(Cache<String, Vec<CachedText>, CACHE_BYTES_MAX>);

impl ParsedTextCache {
    /// Returns the text of a memory if it was read in this version.
    pub(crate) fn get(
        &mut self,
        place: &str,
        path: &MemoryPath,
        stamp: Stamp,
    ) -> Option<ParsedText> {
        let texts = self.0.get(place)?;
        let at = texts.binary_search_by(|(known, ..)| known.cmp(path)).ok()?;
        let (_, known, text) = texts.get(at)?;
        (*known == stamp).then(|| text.clone())
    }

    /// Caches the memories of a root, in the order of their paths, in place of those that it had. What is too much for
    /// the whole cache is left out.
    pub(crate) fn insert_root(&mut self, place: &str, mut texts: Vec<CachedText>) {
        let mut bytes = 0;
        // Rather the first of many for good than the last of them for nothing.
        texts.retain(|(.., text)| {
            let more = (text.len() + size_of::<CachedText>()) * BYTES_PER_TEXT_BYTE;
            let fits = bytes + more <= CACHE_BYTES_MAX;
            bytes += if fits { more } else { 0 };
            fits
        });
        self.0.insert_weighted(place.to_owned(), texts, bytes);
    }

    /// Forgets the words that a task needed and the next one may not.
    pub(crate) fn drop_tokens(&mut self) {
        for (.., text) in self.0.values_mut().flatten() {
            text.drop_tokens();
        }
    }
}

#[cfg(test)]
mod tests {
    use memory::path::Layout;

    use super::*;

    const STAMP: Stamp = Stamp([1, 2, 3, 4]);

    fn texts(bytes: usize) -> Vec<CachedText> {
        let path = MemoryPath::parse("/memories/global/a.md", Layout::Scoped).unwrap();
        vec![(path, STAMP, "x".repeat(bytes).into())]
    }

    fn is_cached(shelf: &mut ParsedTextCache, place: &str) -> bool {
        shelf.get(place, &texts(0)[0].0, STAMP).is_some()
    }

    #[test]
    fn a_memory_of_another_stamp_or_place_is_not_the_one_that_was_read() {
        let mut shelf = ParsedTextCache::default();
        shelf.insert_root("a", texts(1));
        assert!(is_cached(&mut shelf, "a") && !is_cached(&mut shelf, "b"));
        assert!(shelf.get("a", &texts(0)[0].0, Stamp([1, 2, 3, 5])).is_none());
        shelf.insert_root("a", Vec::new());
        assert!(!is_cached(&mut shelf, "a"), "it was not there any more");
    }

    #[test]
    fn the_root_that_nobody_wanted_for_longest_gives_way_and_nothing_beyond_the_bound_is_kept() {
        let half = CACHE_BYTES_MAX / BYTES_PER_TEXT_BYTE / 2 - size_of::<CachedText>();
        let mut shelf = ParsedTextCache::default();
        shelf.insert_root("a", texts(half));
        shelf.insert_root("b", texts(half));
        shelf.insert_root("a", texts(half));
        shelf.insert_root("c", texts(half));
        assert_eq!(["a", "b", "c"].map(|place| is_cached(&mut shelf, place)), [true, false, true]);
        shelf.insert_root("d", texts(3 * half));
        assert_eq!(["a", "c", "d"].map(|place| is_cached(&mut shelf, place)), [true, true, false]);
    }
}
