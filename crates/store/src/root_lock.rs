//! Holding a root for writing: its lock, recovery of what an earlier holder left, and what other processes wrote.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use memory::change::{ChangeId, Trust};
use memory::limits::{CENSUS_AGE_MAX, LOCK_WAIT};
use memory::path::RelativePath;
use state::{ChangeQuery, Head};

use crate::backend::{Extent, LastWrite, RootLock};
use crate::cache::{NameIndex, RootCache};
use crate::error::StoreError;
use crate::memories::Memories;
use crate::recovery;
use crate::root::Root;
use crate::store::Store;

/// How many changes of others are read at once.
const ANNOUNCED_AT_ONCE: i64 = 128;

impl Root {
    /// Sees to it, once in the life of this process, that a write which somebody did not end is ended
    /// before anybody reads. What keeps that from happening must not keep anybody from reading, and a writer that is at
    /// work, or was stopped in the middle of it, is not waited for.
    pub(crate) async fn recover_once(self: &Arc<Self>, store: &Store) {
        if self.recovery_checked.swap(true, Ordering::Relaxed)
            || !self.may_be_interrupted(store).await
        {
            return;
        }
        match self.try_lock(store).await {
            Ok(Some(_)) => {}
            // Who reads next looks again.
            Ok(None) => self.recovery_checked.store(false, Ordering::Relaxed),
            Err(error) => {
                tracing::warn!(%error, "an interrupted write could not be completed before reading");
            }
        }
    }

    /// Returns whether a write may not have ended, or a power cut may have taken what was written.
    pub(crate) async fn may_be_interrupted(&self, store: &Store) -> bool {
        match self.backend.last_write().await {
            LastWrite::Ended => false,
            LastWrite::Interrupted => true,
            LastWrite::Unknown => {
                let open = store.state.open_changes(&self.key.place).await;
                open.is_ok_and(|open| !open.is_empty())
            }
        }
    }

    /// Holds the root for writing. A write that somebody did not end is ended first.
    pub(crate) async fn lock(self: &Arc<Self>, store: &Store) -> Result<LockedRoot, StoreError> {
        self.make_state(store);
        let held =
            self.backend.lock(LOCK_WAIT).await.map_err(StoreError::backend_error(self.mount))?;
        self.finish_lock(store, held).await
    }

    /// The same, if nobody else holds it.
    async fn try_lock(self: &Arc<Self>, store: &Store) -> Result<Option<LockedRoot>, StoreError> {
        self.make_state(store);
        let held = self.backend.try_lock().await.map_err(StoreError::backend_error(self.mount))?;
        let Some(held) = held else { return Ok(None) };
        self.finish_lock(store, held).await.map(Some)
    }

    fn make_state(&self, store: &Store) {
        if self.backend.folder().is_none() {
            // No lock file of this machine makes the folder on its way.
            store.folders.create_state_folder();
        }
    }

    async fn finish_lock(
        self: &Arc<Self>,
        store: &Store,
        held: Box<dyn RootLock>,
    ) -> Result<LockedRoot, StoreError> {
        let mut held = LockedRoot { root: Arc::clone(self), lock: held };
        if held.lock.was_interrupted() {
            // Boxed, since its large future would be a part of that of every write.
            Box::pin(recovery::recover(store, &mut held)).await?;
        }
        held.refresh(store).await?;
        Ok(held)
    }
}

impl Memories {
    /// Holds all roots that are wanted, in the order of the scopes, so that two writers never wait for each other.
    pub(crate) async fn lock_all(
        &self,
        is_wanted: impl Fn(&Root) -> bool,
    ) -> Result<Vec<LockedRoot>, StoreError> {
        let mut roots: Vec<_> = self.open_roots().filter(|root| is_wanted(root)).collect();
        roots.sort_by_key(|root| root.mount);
        let mut held = Vec::with_capacity(roots.len());
        for root in roots {
            held.push(root.lock(&self.store).await?);
        }
        Ok(held)
    }
}

/// A root held for writing.
#[derive(Debug)]
pub(crate) struct LockedRoot {
    pub(crate) root: Arc<Root>,
    pub(crate) lock: Box<dyn RootLock>,
}

impl LockedRoot {
    /// Brings what is remembered up to date with what other processes recorded.
    pub(crate) async fn refresh(&self, store: &Store) -> Result<(), StoreError> {
        let generation = self.lock.generation();
        let last = {
            let known = self.root.cache();
            if known.generation == Some(generation) {
                return Ok(());
            }
            known.last_change
        };
        let heads = store.state.heads(&self.root.key.place, last).await?;
        if last == ChangeId(0) && heads.is_empty() {
            // The root is new, or the state that knew it is lost; it had given numbers then.
            if let Some(given) = store.highest_completed().await {
                store.state.raise_change_number(given).await?;
            }
        }
        let (told, newest) = {
            let mut known = self.root.cache();
            for head in heads {
                known.insert_head(head);
            }
            (known.announced_through, known.last_change)
        };
        match told {
            Some(told) if store.has_subscribers() => {
                self.publish_changes_of_others(store, told, newest).await?;
            }
            _ => self.root.cache().announced_through = Some(newest),
        }
        self.root.cache().generation = Some(generation);
        Ok(())
    }

    /// Tells those who listen of the changes that other processes made after one, in order. Heads would not
    /// do: a memory that was changed twice has one.
    async fn publish_changes_of_others(
        &self,
        store: &Store,
        mut after: ChangeId,
        newest: ChangeId,
    ) -> Result<(), StoreError> {
        while after < newest {
            let end = ChangeId(newest.0.min(after.0.saturating_add(ANNOUNCED_AT_ONCE)));
            let query = ChangeQuery {
                places: vec![self.root.key.place.clone()],
                after: Some(after),
                before: Some(ChangeId(end.0.saturating_add(1))),
                max: usize::MAX,
                ..ChangeQuery::default()
            };
            for mut change in store.state.changes(&query).await?.into_iter().rev() {
                change.files.retain(|file| file.root == self.root.key);
                store.publish_change(change.id, change.kind, &change.provenance, &change.files);
            }
            after = end;
            self.root.cache().announced_through = Some(after);
        }
        Ok(())
    }

    /// Takes in what this process has just written and recorded.
    pub(crate) fn update_heads(&self, heads: impl IntoIterator<Item = Head>) {
        let mut known = self.root.cache();
        for head in heads {
            known.insert_head(head);
        }
        known.announced_through = Some(known.last_change);
        known.generation = Some(self.lock.generation());
    }

    /// Forgets what is remembered, but not what was told: the next command looks again.
    pub(crate) fn invalidate_cache(&self) {
        let mut known = self.root.cache();
        *known = RootCache { announced_through: known.announced_through, ..RootCache::default() };
    }

    /// Returns what was last recorded of a memory.
    pub(crate) fn head(&self, path: &RelativePath) -> Option<Head> {
        self.root.cache().heads.get(path).cloned()
    }

    /// Returns how far the text of a memory may be trusted; what nobody recorded came from outside.
    pub(crate) fn trust(&self, path: &RelativePath) -> Trust {
        self.head(path).map_or(Trust::Outside, |head| head.trust)
    }

    /// Returns a path that differs from `path`, or from a folder on its way, only in case. Paths that leave
    /// with the same change do not count.
    pub(crate) async fn find_case_variant(
        &self,
        store: &Store,
        path: &RelativePath,
        leaving: &[&RelativePath],
    ) -> Result<Option<RelativePath>, StoreError> {
        self.build_name_index(store, CachePolicy::Cached).await?;
        if self.cached_case_variant(path, leaving).is_none() {
            return Ok(None);
        }
        // What is remembered may be a folder that is gone: look before refusing.
        self.build_name_index(store, CachePolicy::Fresh).await?;
        Ok(self.cached_case_variant(path, leaving))
    }

    fn cached_case_variant(
        &self,
        path: &RelativePath,
        leaving: &[&RelativePath],
    ) -> Option<RelativePath> {
        self.root.cache().name_index.as_ref()?.case_variant(path, leaving)
    }

    async fn build_name_index(&self, store: &Store, look: CachePolicy) -> Result<(), StoreError> {
        let started = store.clock.now();
        let fresh = self.root.cache().name_index.as_ref().is_some_and(|c| c.is_fresh(started));
        if fresh && look == CachePolicy::Cached {
            return Ok(());
        }
        let walk = self.root.backend.walk(None, Extent::ALL).await;
        let walk = walk.map_err(StoreError::backend_error(self.root.mount))?;
        let cost = store.clock.now().duration_since(started).unsigned_abs();
        let mut census = NameIndex {
            built_at: started,
            max_age: CENSUS_AGE_MAX.max(cost.saturating_mul(50)),
            folded: HashMap::with_capacity(walk.files.len()),
        };
        for folder in walk.folders {
            census.folded.insert(folder.path.case_folded(), folder.path);
        }
        for file in walk.files.iter().filter(|file| !self.root.is_list(&file.path)) {
            census.add(&file.path);
        }
        self.root.cache().name_index = Some(census);
        Ok(())
    }
}

/// Whether to believe what is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CachePolicy {
    /// As long as it is fresh.
    Cached,
    /// Look again.
    Fresh,
}
