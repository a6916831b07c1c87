//! One root as this process knows it: its backend, and what is remembered of it between commands.
//!
//! Nothing remembered is the truth. It is used only while the root is held and the count of writes
//! says that no other process of Lukasa wrote, and brought up to date from the state otherwise; what
//! an editor or git did is found by looking at the files.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use memory::change::RootKey;
use memory::document::Revision;
use memory::limits::{HEAD_BYTES_MAX, MEMORY_BYTES_MAX};
use memory::path::{Mount, RelativePath};
use parking_lot::{Mutex, MutexGuard};
use state::Head;

use crate::backend::{Backend, BackendError, FileRead, Stamp, WalkedFile};
use crate::cache::{FileCache, FileSummary, RootCache};
use crate::checkout_record::CheckoutRecord;

/// One root.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) mount: Mount,
    pub(crate) key: RootKey,
    pub(crate) backend: Arc<dyn Backend>,
    /// Whether `MEMORY.md` at its top is generated.
    pub(crate) generates_list: bool,
    /// The record of the checkout that a workspace belongs to.
    checkout: Option<CheckoutRecord>,
    cache: Mutex<RootCache>,
    /// Whether this process has looked for a write that did not end.
    pub(crate) recovery_checked: AtomicBool,
    /// Counts the looks that watchers had begun; one looks at a time.
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
            cache: Mutex::default(),
            recovery_checked: AtomicBool::new(false),
            scan_count: AtomicU64::new(0),
            scan_lock: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the same root, which records the checkout that it belongs to when it is written to.
    pub(crate) fn with_checkout_record(self, checkout: Option<CheckoutRecord>) -> Self {
        Self { checkout, ..self }
    }

    /// Writes that record, if there is one.
    pub(crate) fn record_checkout(&self) {
        if let Some(checkout) = &self.checkout {
            checkout.write();
        }
    }

    /// Returns what is remembered. Only for a moment: never over an `.await`.
    pub(crate) fn cache(&self) -> MutexGuard<'_, RootCache> {
        self.cache.lock()
    }

    /// Notes that there is no root, with what was last recorded of it.
    pub(crate) fn mark_missing(&self, heads: Vec<Head>) {
        let mut known = self.cache();
        for head in heads {
            known.insert_head(head);
        }
        known.announced_through = Some(known.last_change);
    }

    /// Returns how many looks watchers had.
    #[cfg(test)]
    pub(crate) fn scan_count(&self) -> u64 {
        self.scan_count.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Returns the versions of files, in their order; `None` for what is no file or cannot be opened.
    pub(crate) async fn stamps(&self, paths: &[RelativePath]) -> Vec<Option<Stamp>> {
        let read = self.backend.read_many(paths, 0).await;
        read.into_iter().map(|read| read.ok().map(|read| read.stat.stamp)).collect()
    }

    /// Returns the revisions of files, in their order; `None` for a file that is larger than a memory may be.
    pub(crate) async fn revisions(
        &self,
        files: &[(&RelativePath, Stamp)],
    ) -> Vec<Result<Option<Revision>, BackendError>> {
        let revision =
            |_: &_, read: &FileRead| read.is_whole().then(|| Revision::digest(&read.bytes));
        self.derive_all(files, MEMORY_BYTES_MAX, |cache| &mut cache.revisions, revision).await
    }

    /// Returns what `derive` makes of files, in their order. It comes from the cache for the version that the caller
    /// saw, else from at most `max` bytes that are read now.
    pub(crate) async fn derive_all<T: Clone + Send>(
        &self,
        files: &[(&RelativePath, Stamp)],
        max: usize,
        cache: fn(&mut RootCache) -> &mut FileCache<T>,
        derive: impl Fn(&RelativePath, &FileRead) -> T + Send + Sync,
    ) -> Vec<Result<T, BackendError>> {
        let mut values: Vec<Option<Result<T, BackendError>>> = {
            let mut known = self.cache();
            let cache = cache(&mut known);
            files.iter().map(|(path, stamp)| cache.get(path, *stamp).map(Ok)).collect()
        };
        let unknown: Vec<usize> = (0..files.len()).filter(|&at| values[at].is_none()).collect();
        for part in unknown.chunks(FILES_READ_AT_ONCE) {
            let paths: Vec<_> = part.iter().map(|&at| files[at].0.clone()).collect();
            let reads = self.backend.read_many(&paths, max).await;
            for ((&at, path), read) in part.iter().zip(&paths).zip(reads) {
                values[at] = Some(read.map(|read| {
                    let value = derive(path, &read);
                    if !read.stat.recent {
                        cache(&mut self.cache()).insert(path, read.stat.stamp, value.clone());
                    }
                    value
                }));
            }
        }
        values.into_iter().map(|value| value.expect("a backend reads each file")).collect()
    }
}

/// How many files one call reads, for those who read many: a call is handed to another thread, and the bytes of all
/// of its files are in memory together.
pub const FILES_READ_AT_ONCE: usize = 64;

/// Reads the frontmatter of files that a walk found, in their order.
pub(crate) async fn document_heads<'f>(
    root: &Root,
    files: impl IntoIterator<Item = &'f WalkedFile>,
) -> Result<Vec<Arc<FileSummary>>, BackendError> {
    let files: Vec<_> = files.into_iter().map(|file| (&file.path, file.stat.stamp)).collect();
    let heads = root.derive_all(
        &files,
        HEAD_BYTES_MAX,
        |cache| &mut cache.documents,
        |_, read| Arc::new(FileSummary::read(&read.bytes)),
    );
    let heads = heads.await.into_iter().map(|head| match head {
        // It went away since the walk, or became something else: it says nothing then. And one file that
        // cannot be read must not hide the others.
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
