//! A cache of recently used values, bounded by size.

use std::sync::{Mutex, PoisonError};

/// Values by key. When the total size exceeds the limit, the least recently used are removed. A value larger than the
/// limit is not stored.
#[derive(Debug)]
pub(crate) struct LruCache<K, V> {
    most_bytes: usize,
    /// Ordered by use, the most recent last.
    entries: Mutex<Vec<(K, usize, V)>>,
}

/// The maximum number of entries, however small: lookups are linear.
const MAX_ENTRIES: usize = 1_000;

impl<K: PartialEq, V: Clone> LruCache<K, V> {
    pub(crate) const fn new(most_bytes: usize) -> Self {
        Self {
            most_bytes,
            entries: Mutex::new(Vec::new()),
        }
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let at = entries.iter().position(|(other, _, _)| other == key)?;
        let entry = entries.remove(at);
        let value = entry.2.clone();
        entries.push(entry);
        Some(value)
    }

    pub(crate) fn put(&self, key: K, bytes: usize, value: V) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|(other, _, _)| *other != key);
        if bytes > self.most_bytes {
            return;
        }
        entries.push((key, bytes, value));
        let mut kept: usize = entries.iter().map(|(_, bytes, _)| *bytes).sum();
        let mut count = entries.len();
        entries.retain(|(_, bytes, _)| {
            let stays = kept <= self.most_bytes && count <= MAX_ENTRIES;
            if !stays {
                kept -= bytes;
                count -= 1;
            }
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_entry_is_evicted_first() {
        let cache = LruCache::new(10);
        for key in ["a", "b", "c"] {
            cache.put(key, 3, key);
        }
        assert_eq!(cache.get(&"a"), Some("a"));
        cache.put("d", 3, "d");
        let kept = ["a", "b", "c", "d"].map(|key| cache.get(&key).is_some());
        assert_eq!(kept, [true, false, true, true]);
    }

    #[test]
    fn an_entry_larger_than_the_cache_is_not_stored_and_evicts_nothing() {
        let cache = LruCache::new(10);
        cache.put("a", 10, 1);
        cache.put("b", 11, 2);
        assert_eq!((cache.get(&"a"), cache.get(&"b")), (Some(1), None));
        cache.put("a", 4, 3);
        assert_eq!(cache.get(&"a"), Some(3));
        for key in 0..2_000 {
            LruCache::put(&cache, Box::leak(key.to_string().into_boxed_str()), 0, key);
        }
        assert_eq!(cache.entries.lock().unwrap().len(), MAX_ENTRIES);
    }
}
