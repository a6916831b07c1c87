//! Recovery: carries out a recorded change whose writer died before its files were all in place.
//!
//! It runs when a root is locked and the lock file says that the last write was interrupted. It
//! redoes open changes, or removes traces of a write that was never recorded. Every file is
//! compared with the records first, so an external edit since then stays.
//!
//! It does not run while the writer lives, and does not undo a change that was recorded.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use memory::change::{ChangeId, ChangeKind, FolderChange};
use memory::document::Revision;
use memory::limits::HISTORY_FILE_BYTES_MAX;
use memory::path::RelativePath;
use state::OpenChange;

use crate::backend::{BackendError, Expect, FileKind, FileRead, IsReferenced};
use crate::checkpoint::{close_changes, open_changes};
use crate::error::StoreError;
use crate::memory_list::MEMORY_LIST;
use crate::memory_list::is_generated_list;
use crate::root::Root;
use crate::root_lock::LockedRoot;
use crate::store::Store;

/// Redoes the open changes of this root that may be unfinished, and sweeps left-overs. External edits are never
/// swept.
///
/// A memory whose last record is a later change, or an external edit, is left as it is. While the machine kept
/// running only the newest change can be unfinished, because writes do not overlap.
pub(crate) async fn recover(
    store: &Store,
    locked: &mut LockedRoot,
) -> Result<RecoveryReport, StoreError> {
    let root = Arc::clone(&locked.root);
    let to_error = StoreError::backend_error(root.mount);
    let open = open_changes(store, &root).await?;
    let restarted = locked.lock.machine_restarted();
    let heads = store.state.heads(&root.key.place, ChangeId(0)).await?;
    let last_recorded = heads.iter().map(|head| head.change).chain(open.keys().copied()).max();
    // A number above all recorded ones is from another database than the current one.
    let completed =
        locked.lock.completed().filter(|done| Some(*done) <= last_recorded && !restarted);
    // If no writer died, all recorded changes were carried out, and differences are external edits. A writer that
    // died before recording left nothing to redo.
    let interrupted = locked.lock.was_interrupted() || locked.lock.is_uncertain();
    let is_unfinished = |open: &&OpenChange| interrupted && Some(open.change.id) > completed;
    let newest = open.values().next_back().filter(is_unfinished);
    let unfinished: Vec<&OpenChange> = if restarted && interrupted {
        open.values().collect()
    } else {
        newest.into_iter().collect()
    };
    let latest: HashMap<&RelativePath, ChangeId> =
        heads.iter().map(|head| (&head.path, head.change)).collect();
    // A crash during recovery must lead to recovery again.
    locked.lock.begin().await.map_err(&to_error)?;
    let newest = newest.map(|open| &open.change);
    if let Some(folder) = newest.and_then(|change| change.folder.as_ref())
        && folder.root.place == root.key.place
    {
        redo_folder(&root, folder).await.map_err(&to_error)?;
    }
    let mut redone = 0_usize;
    let mut targets: Vec<_> = redo_targets(&root, unfinished.iter().copied()).into_iter().collect();
    targets.retain(|(path, target)| latest.get(path).is_none_or(|last| *last == target.change));
    // Files that stay come first: the source of a move is removed only when its target is in place.
    targets.sort_by_key(|(_, target)| target.final_revision.is_none());
    for (path, target) in &targets {
        redone += usize::from(redo_file(store, &root, path, target, restarted).await?);
    }
    if unfinished.iter().any(|open| open.change.kind == ChangeKind::Undo) {
        // A removed file, or an empty folder that it left, may have been at the path of a restored file.
        for (path, target) in targets.iter().filter(|(_, target)| target.final_revision.is_some()) {
            if matches!(root.backend.kind(path).await, Ok(Some(FileKind::Folder))) {
                root.backend.remove_empty(path).await.map_err(&to_error)?;
            }
            redone += usize::from(redo_file(store, &root, path, target, restarted).await?);
        }
    }
    if let Some(FolderChange { path, moved_to: None, root: place }) =
        newest.and_then(|change| change.folder.as_ref())
        && place.place == root.key.place
    {
        root.backend.remove_empty(path).await.map_err(&to_error)?;
    }
    let swept =
        root.backend.sweep(referenced_check(&root, &open, restarted)).await.map_err(&to_error)?;
    let report = RecoveryReport { completed: redone + swept.removed, restored: swept.restored };
    if report != RecoveryReport::default() {
        tracing::warn!(
            root = %root.key.identity, redone, swept = swept.removed,
            brought_back = ?report.restored, "recovery completed an interrupted write"
        );
    }
    close_changes(store, &[root], &open).await?;
    locked.root.invalidate_cache();
    locked.lock.end(last_recorded).await.map_err(&to_error)?;
    Ok(report)
}

/// Result of a recovery.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RecoveryReport {
    /// Number of files that were completed or swept.
    pub(crate) completed: usize,
    /// Paths of files that an external edit wrote during the write, and that were brought back.
    pub(crate) restored: Vec<String>,
}

/// Returns the predicate that tells bytes of open changes from bytes without a record. Only open changes count: of
/// an aborted change, the file in the root may be the only copy.
fn referenced_check(
    root: &Root,
    open: &BTreeMap<ChangeId, OpenChange>,
    restarted: bool,
) -> Arc<IsReferenced> {
    let mut revisions: HashSet<(RelativePath, Revision)> = HashSet::new();
    let mut written: HashMap<RelativePath, Vec<Vec<u8>>> = HashMap::new();
    for open_change in open.values() {
        for (index, file) in open_change.change.files.iter().enumerate() {
            if file.root.place != root.key.place {
                continue;
            }
            let bytes =
                open_change.files.iter().find(|file| file.index == index).map(|file| &file.bytes);
            for path in [Some(&file.path), file.moved_to.as_ref()].into_iter().flatten() {
                let both = [file.before, file.after].into_iter().flatten();
                revisions.extend(both.map(|revision| (path.clone(), revision)));
                written.entry(path.clone()).or_default().extend(bytes.cloned());
            }
        }
    }
    let has_list = root.generates_list;
    Arc::new(move |path, bytes| {
        let is_torn_write = || {
            let whole = written.get(path).map(Vec::as_slice).unwrap_or_default();
            restarted && whole.iter().any(|whole| is_torn(bytes, whole))
        };
        let is_list = || has_list && path.as_str() == MEMORY_LIST && is_generated_list(bytes);
        let is_known = revisions.contains(&(path.clone(), Revision::digest(bytes)));
        Some(is_known || is_torn_write() || is_list())
    })
}

/// The target of the open changes for one path.
#[derive(Debug, Default)]
struct RedoTarget {
    /// The last open change that names the path.
    change: ChangeId,
    /// The final revision; `None` if no file remains.
    final_revision: Option<Revision>,
    /// All revisions that Lukasa knows at this path during these changes; `None` means no file.
    known_revisions: BTreeSet<Option<Revision>>,
    /// The bytes of `final_revision`, if the open change has them.
    bytes: Option<Vec<u8>>,
}

fn redo_targets<'a>(
    root: &Root,
    open: impl Iterator<Item = &'a OpenChange>,
) -> BTreeMap<RelativePath, RedoTarget> {
    let mut paths: BTreeMap<RelativePath, RedoTarget> = BTreeMap::new();
    for open_change in open {
        for (index, file) in open_change.change.files.iter().enumerate() {
            if file.root.place != root.key.place {
                continue;
            }
            let bytes = open_change
                .files
                .iter()
                .find(|file| file.index == index)
                .map(|file| file.bytes.clone());
            let remaining = if file.moved_to.is_some() { None } else { file.after };
            let mut set_target = |path: &RelativePath, before, after| {
                let target = paths.entry(path.clone()).or_default();
                target.known_revisions.extend([before, after]);
                target.change = open_change.change.id;
                (target.final_revision, target.bytes) = (after, bytes.clone());
            };
            set_target(&file.path, file.before, remaining);
            if let Some(to) = &file.moved_to {
                set_target(to, None, file.after);
            }
        }
    }
    paths
}

/// Brings one file to its recorded state. Returns whether there was anything to do. A file that cannot be recovered
/// is logged and skipped, so that the others are recovered.
async fn redo_file(
    store: &Store,
    root: &Root,
    path: &RelativePath,
    target: &RedoTarget,
    restarted: bool,
) -> Result<bool, StoreError> {
    let now = match root.backend.read(path, HISTORY_FILE_BYTES_MAX).await {
        Ok(read) => Some(read),
        Err(BackendError::NotFound) => None,
        Err(error) => {
            // Another kind of thing is at the path, or the file cannot be read: it must not be replaced.
            tracing::warn!(%error, "recovery skips a memory that cannot be read");
            return Ok(false);
        }
    };
    let current = now.as_ref().map(|read| Revision::digest(&read.bytes));
    if current == target.final_revision {
        return Ok(false);
    }
    let stamp = now.as_ref().map(|read| read.stat.stamp);
    let result = match (target.final_revision, stamp) {
        (None, Some(stamp)) if target.known_revisions.contains(&current) => {
            root.backend.remove_file(path, stamp).await
        }
        (None, _) => return Ok(false),
        (Some(last), stamp) => {
            let bytes = match &target.bytes {
                Some(bytes) => Some(bytes.clone()),
                None => store.state.content(&last).await.unwrap_or_default(),
            };
            let Some(bytes) = bytes else { return Ok(false) };
            let is_torn_read = |read: &FileRead| restarted && is_torn(&read.bytes, &bytes);
            if !target.known_revisions.contains(&current) && !now.as_ref().is_some_and(is_torn_read)
            {
                return Ok(false);
            }
            let expect = stamp.map_or(Expect::Absent, Expect::File);
            match root.backend.stage(path, Arc::from(bytes)).await {
                Ok(staged) => staged.publish(expect).await,
                Err(error) => Err(error),
            }
        }
    };
    match result {
        Ok(()) => Ok(true),
        // An external edit came first. It stays, and is detected like any other one.
        Err(
            BackendError::Changed
            | BackendError::Occupied
            | BackendError::NotFound
            | BackendError::WrongKind
            | BackendError::Escapes(_),
        ) => Ok(false),
        Err(error) => Err(StoreError::backend_error(root.mount)(error)),
    }
}

/// Checks whether `current` is `whole` after a power cut: truncated, or with ranges that never reached the disk and
/// read as zeros.
fn is_torn(current: &[u8], whole: &[u8]) -> bool {
    current.len() <= whole.len()
        && current.iter().zip(whole).all(|(current, whole)| current == whole || *current == 0)
        && current != whole
}

/// Redoes the move of a whole folder, if it did not happen.
async fn redo_folder(root: &Root, folder: &FolderChange) -> Result<(), BackendError> {
    let Some(to) = &folder.moved_to else { return Ok(()) };
    let kind = async |path| match root.backend.kind(path).await {
        // A parent of the path is a file: nothing is at the path.
        Err(BackendError::WrongKind | BackendError::Escapes(_)) => Ok(None),
        kind => kind,
    };
    if kind(&folder.path).await? == Some(FileKind::Folder) && kind(to).await?.is_none() {
        return root.backend.rename(&folder.path, to).await;
    }
    Ok(())
}
