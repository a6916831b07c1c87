//! A bounded LRU cache, for data that can be read or computed again.
//!
//! Every entry has a weight: 1 if entries are counted, or its bytes if their sizes differ much. When the total weight
//! exceeds the bound, the least recently used entries are evicted.

use std::borrow::Borrow;
use std::hash::Hash;

use hashlink::LruCache;

/// A map with a total weight of at most `WEIGHT_MAX` that evicts the least recently used entries.
#[derive(Debug)]
pub struct Cache<K, V, const WEIGHT_MAX: usize> {
    entries: LruCache<K, CacheEntry<V>>,
    weight: usize,
}

#[derive(Debug)]
struct CacheEntry<V> {
    value: V,
    weight: usize,
}

impl<K: Eq + Hash, V, const WEIGHT_MAX: usize> Default for Cache<K, V, WEIGHT_MAX> {
    fn default() -> Self {
        Self { entries: LruCache::new_unbounded(), weight: 0 }
    }
}

impl<K: Eq + Hash, V, const WEIGHT_MAX: usize> Cache<K, V, WEIGHT_MAX> {
    /// Returns the value of a key, and marks it as used.
    pub fn get<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.get_mut(key).map(|value| &*value)
    }

    /// Returns the value of a key, and marks it as used. The caller must not change its weight.
    pub fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.entries.get_mut(key).map(|entry| &mut entry.value)
    }

    /// Inserts a value of weight 1; replaces the key's earlier value.
    pub fn insert(&mut self, key: K, value: V) {
        self.insert_weighted(key, value, 1);
    }

    /// Inserts a value with a weight, at least 1; replaces the key's earlier value. A value that alone exceeds the
    /// bound is dropped, without evicting others.
    pub fn insert_weighted(&mut self, key: K, value: V, weight: usize) {
        // An entry without a weight would never be evicted.
        let weight = weight.max(1);
        self.remove(&key);
        if weight > WEIGHT_MAX {
            return;
        }
        self.weight += weight;
        self.entries.insert(key, CacheEntry { value, weight });
        while self.weight > WEIGHT_MAX {
            let (_, evicted) =
                self.entries.remove_lru().expect("a cache with a weight has an entry");
            self.weight -= evicted.weight;
        }
    }

    /// Checks whether a new value of this weight fits without evicting another.
    pub const fn has_room(&self, weight: usize) -> bool {
        self.weight.saturating_add(weight) <= WEIGHT_MAX
    }

    /// Removes a key and returns its value.
    pub fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let removed = self.entries.remove(key)?;
        self.weight -= removed.weight;
        Some(removed.value)
    }

    /// Removes the values for which `keep` returns false.
    pub fn retain(&mut self, mut keep: impl FnMut(&V) -> bool) {
        let weight = &mut self.weight;
        self.entries.retain(|_, entry| {
            let is_kept = keep(&entry.value);
            *weight -= if is_kept { 0 } else { entry.weight };
            is_kept
        });
    }

    /// Returns the values, least recently used first, without marking them as used.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.iter().map(|(_, entry)| &entry.value)
    }

    /// Returns the values, without marking them as used. The caller must not change their weights.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.entries.iter_mut().map(|(_, entry)| &mut entry.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names<const MAX: usize>(cache: &Cache<&'static str, &'static str, MAX>) -> String {
        cache.values().copied().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_least_recently_used_entry_is_evicted() {
        let mut cache = Cache::<_, _, 2>::default();
        cache.insert("a", "a");
        cache.insert("b", "b");
        assert_eq!(cache.get("a"), Some(&"a"));
        cache.insert("c", "c");
        assert_eq!(names(&cache), "a c");
        cache.insert("a", "a again");
        assert_eq!(names(&cache), "c a again");
        cache.insert("d", "d");
        assert_eq!(names(&cache), "a again d");
        assert_eq!((cache.remove("a"), cache.get("a")), (Some("a again"), None));
        cache.insert("e", "e");
        assert_eq!(names(&cache), "d e");
    }

    #[test]
    fn entries_are_evicted_until_the_new_one_fits() {
        let mut cache = Cache::<_, _, 10>::default();
        cache.insert_weighted("a", "a", 4);
        cache.insert_weighted("b", "b", 4);
        cache.insert_weighted("b", "b", 6);
        assert_eq!(names(&cache), "a b");
        cache.insert_weighted("c", "c", 5);
        assert_eq!(names(&cache), "c");
        cache.retain(|value| *value != "c");
        cache.insert_weighted("d", "d", 10);
        assert_eq!(names(&cache), "d", "removed entries have no weight");
        cache.insert_weighted("e", "e", 11);
        assert_eq!(names(&cache), "d", "an entry that never fits evicts nothing");
        cache.insert_weighted("d", "d", 11);
        assert_eq!(names(&cache), "", "the replaced entry is removed all the same");
    }
}
