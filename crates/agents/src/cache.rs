//! A bounded cache of parsed memories between tasks, by root and file stamp.
//!
//! A memory is read again only if its file has another stamp. The cache holds copies: before an edit is entered,
//! the memory is compared with the file once more.

use memory::cache::Cache;
use memory::path::MemoryPath;
use store::backend::Stamp;

use crate::rules::{ParsedText, StoredMemory, title_fingerprints};

/// Maximum size, in bytes. Ten thousand memories of six entries with a hundred bytes each need 45 MiB.
const CACHE_BYTES_MAX: usize = 64 << 20;

/// A cached memory.
#[derive(Debug)]
pub(crate) struct CachedText {
    path: MemoryPath,
    stamp: Stamp,
    text: ParsedText,
    bytes: usize,
}

impl CachedText {
    /// Parses a memory for the cache, with everything that tasks need of it. An unreviewed memory decides nothing, so it
    /// is not parsed: a clone may bring megabytes of text.
    pub(crate) fn new(stored: &StoredMemory, stamp: Stamp) -> Self {
        let path = stored.path.clone();
        let path_bytes = path.relative().map_or(0, |relative| relative.as_str().len());
        let text_bytes = if stored.is_unreviewed() {
            stored.text.len()
        } else {
            // The tokens of the title are kept with the text.
            drop(title_fingerprints(stored));
            stored.text.memory_bytes()
        };
        let bytes = size_of::<Self>() + path_bytes + text_bytes;
        Self { path, stamp, text: stored.text.clone(), bytes }
    }
}

/// Cached memories by root, sorted by path.
#[derive(Debug, Default)]
pub(crate) struct ParsedTextCache(Cache<String, Vec<CachedText>, CACHE_BYTES_MAX>);

impl ParsedTextCache {
    /// Returns the text of each memory that is cached with its stamp; the memories are sorted by path.
    pub(crate) fn get_all<'a>(
        &mut self,
        root: &str,
        memories: impl Iterator<Item = (&'a MemoryPath, Option<Stamp>)>,
    ) -> Vec<Option<ParsedText>> {
        let cached = self.0.get(root).map(Vec::as_slice).unwrap_or_default();
        let mut cached = cached.iter().peekable();
        memories
            .map(|(path, stamp)| {
                while cached.next_if(|cached| cached.path < *path).is_some() {}
                let cached = cached.peek()?;
                (cached.path == *path && Some(cached.stamp) == stamp).then(|| cached.text.clone())
            })
            .collect()
    }

    /// Replaces the cached memories of a root; they are sorted by path. Memories beyond the size of the whole cache
    /// are left out.
    pub(crate) fn insert_root(&mut self, root: &str, mut texts: Vec<CachedText>) {
        let mut bytes = 0;
        // Keep the first memories: caching the last ones would evict all of them by turns.
        texts.retain(|cached| {
            let fits = bytes + cached.bytes <= CACHE_BYTES_MAX;
            bytes += if fits { cached.bytes } else { 0 };
            fits
        });
        self.0.insert_weighted(root.to_owned(), texts, bytes);
    }
}

#[cfg(test)]
mod tests {
    use memory::change::Trust;
    use memory::path::Layout;

    use super::*;
    use crate::rules::EntryDates;

    const STAMP: Stamp = Stamp([1, 2, 3, 4]);

    fn stored(text: &str) -> StoredMemory {
        StoredMemory {
            path: MemoryPath::parse("/memories/global/a.md", Layout::Scoped).unwrap(),
            text: text.into(),
            pinned: false,
            entry_dates: EntryDates::Unknown,
            trust: Trust::Person,
            influenced: false,
            written_by_review: false,
        }
    }

    /// Returns one memory of this weight.
    fn texts(bytes: usize) -> Vec<CachedText> {
        let text = CachedText::new(&stored("- x"), STAMP);
        vec![CachedText { bytes, ..text }]
    }

    fn get(cache: &mut ParsedTextCache, root: &str, stamp: Stamp) -> Option<ParsedText> {
        let path = stored("").path;
        cache.get_all(root, [(&path, Some(stamp))].into_iter()).remove(0)
    }

    fn is_cached(cache: &mut ParsedTextCache, root: &str) -> bool {
        get(cache, root, STAMP).is_some()
    }

    #[test]
    fn a_memory_of_another_stamp_or_root_is_not_cached() {
        let mut cache = ParsedTextCache::default();
        cache.insert_root("a", texts(1));
        assert!(is_cached(&mut cache, "a") && !is_cached(&mut cache, "b"));
        assert!(get(&mut cache, "a", Stamp([1, 2, 3, 5])).is_none());
        cache.insert_root("a", Vec::new());
        assert!(!is_cached(&mut cache, "a"), "the memory is gone");
    }

    #[test]
    fn the_least_recently_used_root_is_evicted_and_nothing_beyond_the_bound_is_cached() {
        // A root without texts weighs one byte.
        let half = CACHE_BYTES_MAX / 2 - 1;
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
