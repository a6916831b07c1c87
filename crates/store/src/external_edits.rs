//! Detection of external edits: changes by an editor, by git or by a script.
//!
//! Files are authoritative, so an external edit counts like any other change. It is detected by
//! comparing files with their recorded heads. It is recorded with its bytes, so that history has
//! every version that Lukasa ever read.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use memory::change::{FileChange, Trust};
use memory::command::CommandError;
use memory::document::Revision;
use memory::limits::{FIRST_SIGHT_BYTES_MAX, MEMORY_BYTES_MAX};
use memory::path::RelativePath;
use state::{Head, NewFileChange};

use crate::backend::{BackendError, Freshness, WalkedFile};
use crate::commit;
use crate::error::StoreError;
use crate::memories::Memories;
use crate::root::Root;
use crate::store::Store;

impl Memories {
    /// Detects and records external edits in all mounted roots. Returns the number of changed memories. A root that
    /// cannot be used is skipped; `status` reports it.
    pub async fn record_external_edits(&self) -> Result<usize, StoreError> {
        let mut edits = 0;
        for root in self.open_roots() {
            let recorded = record_root_edits(&self.store, root, Freshness::Observed).await;
            edits += skip_unusable_root(recorded)?;
        }
        Ok(edits)
    }
}

/// Detects and records external edits for a watcher. Watchers of the same roots in this process share one scan.
pub(crate) async fn scan_external_edits(
    store: &Store,
    roots: &[Arc<Root>],
    freshness: Freshness,
) -> Result<(), StoreError> {
    for root in roots {
        skip_unusable_root(root.scan_external_edits(store, freshness).await)?;
    }
    Ok(())
}

impl Root {
    /// Scans for external edits, unless another scan began after this call. However many watchers there are, an
    /// edit causes at most two scans.
    pub(crate) async fn scan_external_edits(
        self: &Arc<Self>,
        store: &Store,
        freshness: Freshness,
    ) -> Result<usize, StoreError> {
        let count_before = self.scan_count.load(Ordering::Relaxed);
        let _guard = self.scan_lock.lock().await;
        if self.scan_count.load(Ordering::Relaxed) > count_before {
            return Ok(0);
        }
        self.scan_count.fetch_add(1, Ordering::Relaxed);
        record_root_edits(store, self, freshness).await
    }
}

/// Skips a root that cannot be used.
fn skip_unusable_root(edits: Result<usize, StoreError>) -> Result<usize, StoreError> {
    match edits {
        Err(StoreError::Backend { mount, source }) => {
            tracing::warn!(%mount, error = %source, "scan for external edits failed; skipping the root");
            Ok(0)
        }
        // The machine of the root is out of reach.
        Err(StoreError::Refused(CommandError::ScopeUnavailable { .. })) => Ok(0),
        edits => edits,
    }
}

/// Detects and records the external edits in one root.
pub(crate) async fn record_root_edits(
    store: &Store,
    root: &Arc<Root>,
    freshness: Freshness,
) -> Result<usize, StoreError> {
    let to_error = StoreError::backend_error(root.mount);
    if !root.backend.exists().await.map_err(&to_error)?
        && root.cache().present_heads().next().is_none()
    {
        // Reading creates nothing, not even a lock file. Without a root there are no edits, unless the root itself
        // was removed.
        let heads = store.state.heads(&root.key.place, memory::change::ChangeId(0)).await?;
        if heads.iter().all(|head| head.revision.is_none()) {
            root.mark_missing(heads);
            return Ok(0);
        }
    }
    // The first pass takes no lock. Only files that differ are read again below, under the lock.
    let list = root.backend.list(freshness).await.map_err(&to_error)?;
    if root.cache().recorded_list == Some(list.version) {
        // The lock also publishes what other processes recorded.
        drop(root.lock(store).await?);
        return Ok(0);
    }
    // After a scan, only the files that changed since are compared.
    let recorded = root.cache().recorded_list;
    let changed = recorded.and_then(|recorded| list.changed_since(recorded));
    let files: Vec<_> = match &changed {
        Some(paths) => paths.iter().filter_map(|path| list.file(path)).collect(),
        None => list.files.iter().collect(),
    };
    let files: Vec<_> = files.into_iter().filter(|file| !root.is_list(&file.path)).collect();
    // The first scan of a root reads all files. The cache keeps the revisions for the second pass.
    changed_files(root, &files).await.map_err(&to_error)?;
    let mut suspects = Vec::new();
    {
        let mut locked = root.lock(store).await?;
        if list.files_total == list.files.len() && !list.incomplete {
            let cache = root.cache();
            let is_missing = |head: &&Head| list.file(&head.path).is_none();
            let missing: Vec<_> = match &changed {
                Some(paths) => {
                    let heads = paths.iter().filter_map(|path| cache.head(path));
                    heads.filter(|head| head.revision.is_some()).filter(is_missing).collect()
                }
                None => cache.present_heads().filter(is_missing).collect(),
            };
            suspects.extend(missing.into_iter().map(|head| head.path.clone()));
        }
        suspects.extend(changed_files(root, &files).await.map_err(&to_error)?);
        let mut edits = confirm_edits(root, &suspects).await.map_err(&to_error)?;
        // An external edit of an influenced text is no review of it.
        if edits.iter().any(|edit| edit.change.before.is_some()) {
            let influenced = store.state.influenced_revisions(&root.key.identity).await?;
            for edit in &mut edits {
                let (before, after) = (edit.change.before, edit.change.after);
                let was_influenced = before.is_some_and(|before| influenced.contains_key(&before));
                edit.influenced = was_influenced && after.is_some();
            }
        }
        let count = edits.len();
        commit::record_external(store, std::slice::from_mut(&mut locked), edits).await?;
        root.cache().recorded_list = Some(list.version);
        Ok(count)
    }
}

/// Returns the files that differ from their recorded heads.
async fn changed_files(
    root: &Root,
    files: &[&WalkedFile],
) -> Result<Vec<RelativePath>, BackendError> {
    let versions: Vec<_> = files.iter().map(|file| (&file.path, file.stat.stamp)).collect();
    let mut differing = Vec::new();
    for (file, revision) in files.iter().zip(root.revisions(&versions).await) {
        let revision = match revision {
            Ok(Some(revision)) => revision,
            // A file that is gone, or that is too large for a memory, has no history.
            Ok(None)
            | Err(
                BackendError::NotFound
                | BackendError::WrongKind
                | BackendError::Escapes(_)
                | BackendError::Io { .. },
            ) => continue,
            Err(error) => return Err(error),
        };
        if root.cache().head(&file.path).and_then(|head| head.revision) != Some(revision) {
            differing.push(file.path.clone());
        }
    }
    Ok(differing)
}

/// Reads suspected files again while the root is locked, and returns the confirmed edits.
async fn confirm_edits(
    root: &Root,
    suspects: &[RelativePath],
) -> Result<Vec<NewFileChange>, BackendError> {
    let mut edits = Vec::new();
    // History keeps bytes of new files only up to a limit: a checkout full of large files must not fill the state
    // database on its first scan.
    let mut first_sight_bytes = 0_usize;
    for batch in suspects.chunks(root.backend.files_at_once(MEMORY_BYTES_MAX)) {
        let reads = root.backend.read_many(batch, MEMORY_BYTES_MAX).await;
        for (path, read) in batch.iter().zip(reads) {
            let head = root.cache().head(path).cloned();
            let bytes = match read {
                Ok(read) if read.is_whole() => Some(read.bytes),
                Err(BackendError::NotFound) => None,
                Ok(_)
                | Err(
                    BackendError::WrongKind | BackendError::Escapes(_) | BackendError::Io { .. },
                ) => {
                    continue;
                }
                Err(error) => return Err(error),
            };
            let revision = bytes.as_deref().map(Revision::digest);
            let recorded = head.as_ref().and_then(|head| head.revision);
            if revision == recorded {
                continue;
            }
            let keeps_bytes = head.is_some() || {
                first_sight_bytes += bytes.as_ref().map_or(0, Vec::len);
                first_sight_bytes <= FIRST_SIGHT_BYTES_MAX
            };
            edits.push(NewFileChange {
                change: FileChange {
                    root: root.key.clone(),
                    path: path.clone(),
                    moved_to: None,
                    before: recorded,
                    after: revision,
                    trust: edit_trust(head.as_ref(), revision),
                },
                before: None,
                after: bytes.filter(|_| keeps_bytes).map(Arc::from),
                influenced: false,
            });
        }
    }
    Ok(edits)
}

fn edit_trust(head: Option<&Head>, after: Option<Revision>) -> Trust {
    match (head, after) {
        // A removed text keeps its recorded trust.
        (Some(head), None) => head.trust,
        _ => Trust::Outside,
    }
}
