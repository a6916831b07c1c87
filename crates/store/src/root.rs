//! One root as this process knows it: its backend, and what is remembered of it between commands.
//!
//! Nothing remembered is the truth. It is used only while the root is held and the count of writes
//! says that no other process of Quipu wrote, and brought up to date from the state otherwise; what
//! an editor or git did is found by looking at the files.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use memory::change::RootKey;
use memory::document::{self, Revision};
use memory::limits::{HEAD_BYTES_MAX, MEMORY_BYTES_MAX};
use memory::path::{Mount, RelativePath};
use parking_lot::{Mutex, MutexGuard};
use state::Head;

use crate::backend::{Backend, BackendError, Found, Stamp};
use crate::cache::{FileHead, RootCache};
use crate::checkout_record::CheckoutRecord;

/// One root.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) mount: Mount,
    pub(crate) key: RootKey,
    pub(crate) backend: Arc<dyn Backend>,
    /// Whether `MEMORY.md` at its top is generated.
    pub(crate) has_list: bool,
    /// The record of the checkout that a workspace belongs to.
    checkout: Option<CheckoutRecord>,
    cache: Mutex<RootCache>,
    /// Whether this process has looked for a write that did not end.
    pub(crate) looked: AtomicBool,
    /// Counts the looks that watchers had begun; one looks at a time.
    pub(crate) looks: AtomicU64,
    pub(crate) looking: tokio::sync::Mutex<()>,
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
            has_list,
            checkout: None,
            cache: Mutex::default(),
            looked: AtomicBool::new(false),
            looks: AtomicU64::new(0),
            looking: tokio::sync::Mutex::default(),
        }
    }

    /// Returns the same root, which records the checkout that it belongs to when it is written to.
    pub(crate) fn recording(self, checkout: Option<CheckoutRecord>) -> Self {
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
    pub(crate) fn note_missing(&self, heads: Vec<Head>) {
        let mut known = self.cache();
        for head in heads {
            known.insert_head(head);
        }
        known.told = Some(known.last);
    }

    /// Returns how many looks watchers had.
    #[cfg(test)]
    pub(crate) fn looks(&self) -> u64 {
        self.looks.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Returns the revision of a memory; its file is read only if that is not known of this version of it. `None` if it is
    /// larger than a memory may be.
    pub(crate) async fn revision(
        &self,
        path: &RelativePath,
        stamp: Option<Stamp>,
    ) -> Result<Option<Revision>, BackendError> {
        let known = stamp.and_then(|stamp| self.cache().revisions.get(path, stamp));
        if let Some(revision) = known {
            return Ok(Some(revision));
        }
        let read = self.backend.read(path, MEMORY_BYTES_MAX).await?;
        if !read.is_whole() {
            return Ok(None);
        }
        let revision = Revision::of(&read.bytes);
        if !read.stat.recent {
            self.cache().revisions.insert(path, read.stat.stamp, revision);
        }
        Ok(Some(revision))
    }
}

/// Reads the frontmatter of a file that a walk found, or remembers it.
pub(crate) async fn document_head(
    root: &Root,
    file: &Found,
) -> Result<Arc<FileHead>, BackendError> {
    let known = root.cache().documents.get(&file.path, file.stat.stamp);
    if let Some(head) = known {
        return Ok(head);
    }
    let bytes = match root.backend.read(&file.path, HEAD_BYTES_MAX).await {
        Ok(read) => read.bytes,
        // It went away since the walk, or became something else: it says nothing then.
        Err(BackendError::NotFound | BackendError::WrongKind | BackendError::Escapes(_)) => {
            Vec::new()
        }
        // One file that cannot be read must not hide the others.
        Err(BackendError::Io { .. }) => Vec::new(),
        Err(error) => return Err(error),
    };
    let text = str::from_utf8(whole_characters(&bytes, bytes.len() < HEAD_BYTES_MAX));
    let head = Arc::new(FileHead {
        head: document::head(&bytes),
        generated: text.is_ok_and(document::is_generated_list),
        is_text: text.is_ok_and(|text| !text.contains('\0')),
    });
    if !file.stat.recent {
        root.cache().documents.insert(&file.path, file.stat.stamp, Arc::clone(&head));
    }
    Ok(head)
}

/// Returns the bytes without a character that was cut at their end.
pub(crate) fn whole_characters(bytes: &[u8], whole: bool) -> &[u8] {
    match str::from_utf8(bytes) {
        Err(error) if !whole && error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}
