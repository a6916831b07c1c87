//! A bounded cache of parsed memories between tasks, by root and file stamp.
//!
//! A memory is read again only if its file has another stamp. The cache holds copies: before an edit is entered,
//! the memory is compared with the file once more.

use memory::cache::Cache;
use memory::path::MemoryPath;
use store::backend::Stamp;

use crate::rules::ParsedText;

/// Maximum size, in bytes: about three thousand memories of a kilobyte.
const CACHE_BYTES_MAX: usize = 12 << 20;

/// Memory use per byte of text, with the parsed form.
const BYTES_PER_TEXT_BYTE: usize = 5;

/// A cached memory.
pub(crate) type CachedText = (MemoryPath, Stamp, ParsedText);

/// Cached memories by root, sorted by path.
#[derive(Debug, Default)]
pub(crate) struct ParsedTextCache(Cache<String, Vec<CachedText>, CACHE_BYTES_MAX>);

impl ParsedTextCache {
    /// Returns the text of a memory if it is cached with this stamp.
    pub(crate) fn get(
        &mut self,
        root: &str,
        path: &MemoryPath,
        stamp: Stamp,
    ) -> Option<ParsedText> {
        let texts = self.0.get(root)?;
        let index = texts.binary_search_by(|(cached, ..)| cached.cmp(path)).ok()?;
        let (_, cached, text) = texts.get(index)?;
        (*cached == stamp).then(|| text.clone())
    }

    /// Replaces the cached memories of a root; they are sorted by path. Memories beyond the size of the whole cache
    /// are left out.
    pub(crate) fn insert_root(&mut self, root: &str, mut texts: Vec<CachedText>) {
        let mut bytes = 0;
        // Keep the first memories: caching the last ones would evict all of them by turns.
        texts.retain(|(.., text)| {
            let more = (text.len() + size_of::<CachedText>()) * BYTES_PER_TEXT_BYTE;
            let fits = bytes + more <= CACHE_BYTES_MAX;
            bytes += if fits { more } else { 0 };
            fits
        });
        self.0.insert_weighted(root.to_owned(), texts, bytes);
    }

    /// Drops the tokens of all texts, which the next task may not need.
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

    fn is_cached(cache: &mut ParsedTextCache, root: &str) -> bool {
        cache.get(root, &texts(0)[0].0, STAMP).is_some()
    }

    #[test]
    fn a_memory_of_another_stamp_or_root_is_not_cached() {
        let mut cache = ParsedTextCache::default();
        cache.insert_root("a", texts(1));
        assert!(is_cached(&mut cache, "a") && !is_cached(&mut cache, "b"));
        assert!(cache.get("a", &texts(0)[0].0, Stamp([1, 2, 3, 5])).is_none());
        cache.insert_root("a", Vec::new());
        assert!(!is_cached(&mut cache, "a"), "the memory is gone");
    }

    #[test]
    fn the_least_recently_used_root_is_evicted_and_nothing_beyond_the_bound_is_cached() {
        let half = CACHE_BYTES_MAX / BYTES_PER_TEXT_BYTE / 2 - size_of::<CachedText>();
        let mut cache = ParsedTextCache::default();
        cache.insert_root("a", texts(half));
        cache.insert_root("b", texts(half));
        cache.insert_root("a", texts(half));
        cache.insert_root("c", texts(half));
        assert_eq!(["a", "b", "c"].map(|root| is_cached(&mut cache, root)), [true, false, true]);
        cache.insert_root("d", texts(3 * half));
        assert_eq!(["a", "c", "d"].map(|root| is_cached(&mut cache, root)), [true, true, false]);
    }
}
