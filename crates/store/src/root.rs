//! One root as this process knows it: its backend, and a cache of facts about its files.
//!
//! The files and the state are authoritative, the cache is not. Recorded facts are used only while
//! the root is locked and its generation shows that no other Lukasa process wrote; otherwise they
//! are loaded from the state again. External edits are detected from the files.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures_util::{FutureExt as _, StreamExt as _, stream};
use memory::change::RootKey;
use memory::document::Revision;
use memory::limits::{HEAD_BYTES_MAX, MEMORY_BYTES_MAX};
use memory::path::{Mount, RelativePath};
use parking_lot::{Mutex, MutexGuard};
use state::Head;

use crate::backend::{Backend, BackendError, FileRead, READ_CALLS_AT_ONCE, Stamp, WalkedFile};
use crate::cache::{FileCache, FileSummary, RootCache};
use crate::checkout_record::CheckoutRecord;
use crate::remote_folder::RemoteFolder;

/// A root, with its backend and the cache of this process.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) mount: Mount,
    pub(crate) key: RootKey,
    pub(crate) backend: Arc<dyn Backend>,
    /// Whether the root carries a generated `MEMORY.md` at its top.
    pub(crate) generates_list: bool,
    /// The address of the checkout that contains it, if it is on another machine.
    pub(crate) remote: Option<RemoteFolder>,
    /// The record of the checkout that a workspace belongs to.
    checkout: Option<CheckoutRecord>,
    cache: Mutex<RootCache>,
    /// Whether this process has already checked for an interrupted write.
    pub(crate) recovery_checked: AtomicBool,
    /// The incarnation of the backend that the cache belongs to.
    incarnation: AtomicU64,
    /// Number of scans that watchers started; `scan_lock` serializes them.
    pub(crate) scan_count: AtomicU64,
    pub(crate) scan_lock: tokio::sync::Mutex<()>,
}

impl Root {
    pub(crate) fn new(
        mount: Mount,
        key: RootKey,
        backend: Arc<dyn Backend>,
        has_list: bool,
    ) -> Self {
        Self {
            mount,
            key,
            backend,
            generates_list: has_list,
            checkout: None,
            remote: None,
            cache: Mutex::default(),
            recovery_checked: AtomicBool::new(false),
            incarnation: AtomicU64::new(0),
            scan_count: AtomicU64::new(0),
            scan_lock: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the root with a record of its checkout, which is written along with changes.
    pub(crate) fn with_checkout_record(self, checkout: Option<CheckoutRecord>) -> Self {
        Self { checkout, ..self }
    }

    /// Returns the root with the address of the checkout that contains it.
    pub(crate) fn with_remote(self, remote: Option<RemoteFolder>) -> Self {
        Self { remote, ..self }
    }

    /// Writes the checkout record, if there is one.
    pub(crate) fn record_checkout(&self) {
        if let Some(checkout) = &self.checkout {
            checkout.write();
        }
    }

    /// Locks the cache. The guard must not be held across an `.await`.
    pub(crate) fn cache(&self) -> MutexGuard<'_, RootCache> {
        self.cache.lock()
    }

    /// Drops the cache of an earlier incarnation of the backend.
    pub(crate) fn follow_incarnation(&self) {
        let now = self.backend.incarnation();
        if self.incarnation.swap(now, Ordering::Relaxed) != now {
            self.invalidate_cache();
        }
    }

    /// Drops the cache, except the number of the last published change. The next command loads it again.
    pub(crate) fn invalidate_cache(&self) {
        let mut cache = self.cache();
        *cache = RootCache { published_through: cache.published_through, ..RootCache::default() };
    }

    /// Notes that the root does not exist, with the heads that were last recorded.
    pub(crate) fn mark_missing(&self, heads: Vec<Head>) {
        let mut cache = self.cache();
        for head in heads {
            cache.insert_head(head);
        }
        cache.published_through = Some(cache.last_change);
    }

    /// Returns the number of scans that watchers started.
    #[cfg(test)]
    pub(crate) fn scan_count(&self) -> u64 {
        self.scan_count.load(Ordering::Relaxed)
    }

    /// Returns the stamps of files, in their order; `None` for a path that is not a file or cannot be opened.
    pub(crate) async fn stamps(&self, paths: &[RelativePath]) -> Vec<Option<Stamp>> {
        if let Some(stamps) = self.backend.recent_stamps(paths) {
            return stamps.into_iter().map(Some).collect();
        }
        let read = self.backend.read_many(paths, 0).await;
        read.into_iter().map(|read| read.ok().map(|read| read.stat.stamp)).collect()
    }

    /// Returns the revisions of files, in their order; `None` for a file over the size limit of a memory.
    pub(crate) async fn revisions(
        &self,
        files: &[(&RelativePath, Stamp)],
    ) -> Vec<Result<Option<Revision>, BackendError>> {
        let revision =
            |_: &_, read: &FileRead| read.is_whole().then(|| Revision::digest(&read.bytes));
        self.derive_all(files, MEMORY_BYTES_MAX, |cache| &mut cache.revisions, revision).await
    }

    /// Returns `derive` of each file, in their order. The value comes from the cache if it has the caller's stamp;
    /// otherwise at most `max` bytes are read now.
    pub(crate) async fn derive_all<T: Clone + Send>(
        &self,
        files: &[(&RelativePath, Stamp)],
        max: usize,
        cache: fn(&mut RootCache) -> &mut FileCache<T>,
        derive: impl Fn(&RelativePath, &FileRead) -> T + Send + Sync,
    ) -> Vec<Result<T, BackendError>> {
        let mut values: Vec<Option<Result<T, BackendError>>> = {
            let mut locked_cache = self.cache();
            let cache = cache(&mut locked_cache);
            files.iter().map(|(path, stamp)| cache.get(path, *stamp).map(Ok)).collect()
        };
        let uncached: Vec<usize> =
            (0..files.len()).filter(|&index| values[index].is_none()).collect();
        let mut batches = Vec::new();
        for batch in uncached.chunks(self.backend.files_at_once(max)) {
            let paths: Vec<_> = batch.iter().map(|&index| files[index].0.clone()).collect();
            let batch = batch.to_vec();
            batches.push(
                async move {
                    let reads = self.backend.read_many(&paths, max).await;
                    (batch, paths, reads)
                }
                .boxed(),
            );
        }
        let mut batches = stream::iter(batches).buffered(READ_CALLS_AT_ONCE);
        while let Some((batch, paths, reads)) = batches.next().await {
            for ((index, path), read) in batch.into_iter().zip(&paths).zip(reads) {
                values[index] = Some(read.map(|read| {
                    let value = derive(path, &read);
                    if !read.stat.recent {
                        cache(&mut self.cache()).insert(path, read.stat.stamp, value.clone());
                    }
                    value
                }));
            }
        }
        values.into_iter().map(|value| value.expect("a backend answers for each file")).collect()
    }
}

/// Returns the headers of these versions of files, in their order.
pub(crate) async fn summaries(
    root: &Root,
    files: &[(&RelativePath, Stamp)],
) -> Vec<Result<Arc<FileSummary>, BackendError>> {
    let read = |_: &_, read: &FileRead| Arc::new(FileSummary::read(&read.bytes));
    root.derive_all(files, HEAD_BYTES_MAX, |cache| &mut cache.documents, read).await
}

/// Reads the frontmatter of files that a walk found, in their order.
pub(crate) async fn document_heads<'f>(
    root: &Root,
    files: impl IntoIterator<Item = &'f WalkedFile>,
) -> Result<Vec<Arc<FileSummary>>, BackendError> {
    let files: Vec<_> = files.into_iter().map(|file| (&file.path, file.stat.stamp)).collect();
    let heads = summaries(root, &files).await.into_iter().map(|head| match head {
        // The file vanished or was replaced since the walk, or it cannot be read. It counts as empty, so that it
        // does not hide the other files.
        Err(
            BackendError::NotFound
            | BackendError::WrongKind
            | BackendError::Escapes(_)
            | BackendError::Io { .. },
        ) => Ok(Arc::new(FileSummary::read(&[]))),
        head => head,
    });
    heads.collect()
}
