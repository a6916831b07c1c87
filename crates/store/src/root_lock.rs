//! The write lock of a root, and the steps after it is acquired.
//!
//! A root is the folder of one scope. A new holder of its lock first recovers an interrupted write. It then loads the
//! records of other processes and publishes their changes. Also here, because it needs the lock: the search for a path
//! that differs from a given one only in case. The lock file itself is in `backend::local::lock`.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use memory::change::{ChangeId, DatabaseId, Trust};
use memory::limits::{LOCK_WAIT, NAME_INDEX_AGE_MIN};
use memory::path::RelativePath;
use state::{ChangeQuery, Head};

use crate::backend::{Extent, FileList, Freshness, LastWrite, RootLock};
use crate::cache::NameIndex;
use crate::error::StoreError;
use crate::memories::Memories;
use crate::recovery;
use crate::root::Root;
use crate::store::Store;

/// Width of the range of change numbers that one query covers. Bounds the changes that are loaded at a time.
const PUBLISHED_NUMBERS_PER_QUERY: i64 = 128;

impl Root {
    /// Recovers an interrupted write before the first read of this process. A failure is logged and does not keep
    /// the caller from reading. Does not wait for a writer that holds the lock.
    pub(crate) async fn recover_once(self: &Arc<Self>, store: &Store) {
        if self.recovery_checked.swap(true, Ordering::Relaxed)
            || !self.may_be_interrupted(store).await
        {
            if self.backend.unreachable().is_some() {
                // Nothing was learned about the last write.
                self.recovery_checked.store(false, Ordering::Relaxed);
            }
            return;
        }
        match self.try_lock(store).await {
            Ok(Some(_)) => {}
            // The next reader tries again.
            Ok(None) => self.recovery_checked.store(false, Ordering::Relaxed),
            Err(error) => {
                self.recovery_checked.store(false, Ordering::Relaxed);
                tracing::warn!(%error, "recovery of an interrupted write failed before a read");
            }
        }
    }

    /// Checks whether the last write may be incomplete, or a power cut may have lost it.
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

    /// Acquires the lock of the root, then recovers an interrupted write.
    pub(crate) async fn lock(self: &Arc<Self>, store: &Store) -> Result<LockedRoot, StoreError> {
        let lock = self.backend.lock(self.writer(store).await?, LOCK_WAIT).await;
        self.finish_lock(store, lock.map_err(StoreError::backend_error(self.mount))?).await
    }

    /// Tries to acquire the lock without waiting; `None` if another holder has it.
    async fn try_lock(self: &Arc<Self>, store: &Store) -> Result<Option<LockedRoot>, StoreError> {
        let lock = self.backend.try_lock(self.writer(store).await?).await;
        let lock = lock.map_err(StoreError::backend_error(self.mount))?;
        let Some(lock) = lock else { return Ok(None) };
        self.finish_lock(store, lock).await.map(Some)
    }

    /// Returns the identity under which this host writes in the root.
    async fn writer(&self, store: &Store) -> Result<DatabaseId, StoreError> {
        // The database does not create its folder.
        store.folders.create_state_folder();
        Ok(store.database_id().await?.at_place(&self.key.place))
    }

    async fn finish_lock(
        self: &Arc<Self>,
        store: &Store,
        lock: Box<dyn RootLock>,
    ) -> Result<LockedRoot, StoreError> {
        self.follow_incarnation();
        let mut locked = LockedRoot { root: Arc::clone(self), lock };
        if locked.may_be_unfinished(store).await? {
            // Boxed, since otherwise every write's future would contain this large one.
            Box::pin(recovery::recover(store, &mut locked)).await?;
        }
        locked.refresh(store).await?;
        Ok(locked)
    }
}

impl Memories {
    /// Locks all matching roots, in the order of the scopes, so that two writers never deadlock.
    pub(crate) async fn lock_all(
        &self,
        is_included: impl Fn(&Root) -> bool,
    ) -> Result<Vec<LockedRoot>, StoreError> {
        let mut roots: Vec<_> = self.open_roots().filter(|root| is_included(root)).collect();
        roots.sort_by_key(|root| root.mount);
        let mut locked = Vec::with_capacity(roots.len());
        for root in roots {
            locked.push(root.lock(&self.store).await?);
        }
        Ok(locked)
    }
}

/// A root that is locked for writing.
#[derive(Debug)]
pub(crate) struct LockedRoot {
    pub(crate) root: Arc<Root>,
    pub(crate) lock: Box<dyn RootLock>,
}

impl LockedRoot {
    /// Checks whether the last write of this database may be unfinished.
    async fn may_be_unfinished(&self, store: &Store) -> Result<bool, StoreError> {
        if self.lock.was_interrupted() || !self.lock.is_uncertain() {
            return Ok(self.lock.was_interrupted());
        }
        let open = store.state.open_changes(&self.root.key.place).await?;
        let completed = self.lock.completed().filter(|_| !self.lock.machine_restarted());
        Ok(open.iter().any(|open| Some(open.change.id) > completed))
    }

    /// Updates the cache with what other processes recorded since the last refresh.
    pub(crate) async fn refresh(&self, store: &Store) -> Result<(), StoreError> {
        let generation = self.lock.generation();
        let last = {
            let cache = self.root.cache();
            if cache.generation == Some(generation) {
                return Ok(());
            }
            cache.last_change
        };
        let heads = store.state.heads(&self.root.key.place, last).await?;
        if last == ChangeId(0) && heads.is_empty() {
            // The root is new, or its state was lost after it had given out change numbers.
            if let Some(highest) = store.highest_completed().await {
                store.state.raise_change_number(highest).await?;
            }
        }
        let (published_through, newest) = {
            let mut cache = self.root.cache();
            for head in heads {
                cache.insert_head(head);
            }
            (cache.published_through, cache.last_change)
        };
        match published_through {
            Some(published_through) if store.has_subscribers() => {
                self.publish_changes_of_others(store, published_through, newest).await?;
            }
            _ => self.root.cache().published_through = Some(newest),
        }
        self.root.cache().generation = Some(generation);
        Ok(())
    }

    /// Publishes the changes by other processes after `after`, in order. Heads alone do not suffice: a memory that
    /// was changed twice has one head.
    async fn publish_changes_of_others(
        &self,
        store: &Store,
        mut after: ChangeId,
        newest: ChangeId,
    ) -> Result<(), StoreError> {
        while after < newest {
            let end = ChangeId(newest.0.min(after.0.saturating_add(PUBLISHED_NUMBERS_PER_QUERY)));
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
            self.root.cache().published_through = Some(after);
        }
        Ok(())
    }

    /// Updates the cached heads after this process has written and recorded a change.
    pub(crate) fn update_heads(&self, heads: impl IntoIterator<Item = Head>) {
        let mut cache = self.root.cache();
        for head in heads {
            cache.insert_head(head);
        }
        cache.published_through = Some(cache.last_change);
        cache.generation = Some(self.lock.generation());
    }

    /// Returns the recorded head of a memory.
    pub(crate) fn head(&self, path: &RelativePath) -> Option<Head> {
        self.root.cache().heads.get(path).cloned()
    }

    /// Returns the trust of a memory's text. Text without a record came from outside.
    pub(crate) fn trust(&self, path: &RelativePath) -> Trust {
        self.head(path).map_or(Trust::Outside, |head| head.trust)
    }

    /// Returns a path that differs from `path`, or from one of its parent folders, only in case. Paths in `leaving`
    /// are removed by the same change, so they do not count.
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
        // The cached index may list a folder that is gone, so build it again before refusing.
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

    async fn build_name_index(&self, store: &Store, policy: CachePolicy) -> Result<(), StoreError> {
        let started = store.clock.now();
        let is_fresh = self.root.cache().name_index.as_ref().is_some_and(|c| c.is_fresh(started));
        if is_fresh && policy == CachePolicy::Cached {
            return Ok(());
        }
        let to_error = StoreError::backend_error(self.root.mount);
        let (folders, list) = if self.root.backend.folder().is_some() {
            let walk = self.root.backend.walk(None, Extent::ALL).await.map_err(to_error)?;
            (walk.folders.clone(), Arc::new(FileList::from(walk)))
        } else {
            // A walk would cost another question. The list was asked for since the lock was acquired, and lacks folders
            // without memories.
            (Vec::new(), self.root.backend.list(Freshness::Noticed).await.map_err(to_error)?)
        };
        let cost = store.clock.now().duration_since(started).unsigned_abs();
        let mut index = NameIndex {
            built_at: started,
            max_age: NAME_INDEX_AGE_MIN.max(cost.saturating_mul(50)),
            folded: HashMap::with_capacity(list.files.len()),
        };
        for folder in folders {
            index.folded.insert(folder.path.case_folded(), folder.path);
        }
        for file in list.files.iter().filter(|file| !self.root.is_list(&file.path)) {
            index.add(&file.path);
        }
        self.root.cache().name_index = Some(index);
        Ok(())
    }
}

/// Whether a cached index may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CachePolicy {
    /// Use the cached index while it is fresh.
    Cached,
    /// Build the index again.
    Fresh,
}
