//! What happens after a write, and after a write that never ended.
//!
//! Settling synchronizes the files of open changes and closes their redo records; it happens in the
//! background, soon after the last write, and when the store closes. Recovery carries out what a
//! dead process, or a machine that lost its power, had recorded and not finished. Both look at the
//! files first: what somebody outside wrote since then stays.

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

/// Carries out what was recorded for this root and may not have been done, and sweeps what such a
/// write left over. Nothing that somebody outside wrote meanwhile is swept.
///
/// Only what nothing later has touched is carried out: a memory whose last record is another change,
/// of Lukasa or from outside, is left as it is. While the machine kept running only the newest change
/// can be unfinished, because writes follow one another.
pub(crate) async fn recover(
    store: &Store,
    held: &mut LockedRoot,
) -> Result<RecoveryReport, StoreError> {
    let root = Arc::clone(&held.root);
    let at = StoreError::backend_error(root.mount);
    let open = open_changes(store, &root).await?;
    let restarted = held.lock.machine_restarted();
    let heads = store.state.heads(&root.key.place, ChangeId(0)).await?;
    let last = heads.iter().map(|head| head.change).chain(open.keys().copied()).max();
    // A number above all that are recorded is of another database than the one that is there now.
    let completed = held.lock.completed().filter(|done| Some(*done) <= last && !restarted);
    // Where nobody died all that is recorded was done, and what is not so any more was undone outside.
    // Who died before recording left nothing to be done either.
    let interrupted = held.lock.was_interrupted();
    let is_unfinished = |open: &&OpenChange| interrupted && Some(open.change.id) > completed;
    let newest = open.values().next_back().filter(is_unfinished);
    let unfinished: Vec<&OpenChange> = if restarted && interrupted {
        open.values().collect()
    } else {
        newest.into_iter().collect()
    };
    let latest: HashMap<&RelativePath, ChangeId> =
        heads.iter().map(|head| (&head.path, head.change)).collect();
    // A further crash in the middle of this has to lead here again.
    held.lock.begin().map_err(&at)?;
    let newest = newest.map(|open| &open.change);
    if let Some(folder) = newest.and_then(|change| change.folder.as_ref())
        && folder.root.place == root.key.place
    {
        redo_folder(&root, folder).await.map_err(&at)?;
    }
    let mut finished = 0_usize;
    let mut wanted: Vec<_> = redo_targets(&root, unfinished.iter().copied()).into_iter().collect();
    wanted.retain(|(path, wanted)| latest.get(path).is_none_or(|last| *last == wanted.change));
    // What is to be there comes first: the source of a move goes only when its target is in place.
    wanted.sort_by_key(|(_, wanted)| wanted.final_revision.is_none());
    for (path, wanted) in &wanted {
        finished += usize::from(redo_file(store, &root, path, wanted, restarted).await?);
    }
    if unfinished.iter().any(|open| open.change.kind == ChangeKind::Undo) {
        // What goes may have stood, or may have left an empty folder, where a file comes back.
        for (path, wanted) in wanted.iter().filter(|(_, wanted)| wanted.final_revision.is_some()) {
            if matches!(root.backend.kind(path).await, Ok(Some(FileKind::Folder))) {
                root.backend.remove_empty(path).await.map_err(&at)?;
            }
            finished += usize::from(redo_file(store, &root, path, wanted, restarted).await?);
        }
    }
    if let Some(FolderChange { path, moved_to: None, root: place }) =
        newest.and_then(|change| change.folder.as_ref())
        && place.place == root.key.place
    {
        root.backend.remove_empty(path).await.map_err(&at)?;
    }
    let swept = root.backend.sweep(referenced_check(&root, &open, restarted)).await.map_err(&at)?;
    let recovered =
        RecoveryReport { completed: finished + swept.removed, restored: swept.restored };
    if recovered != RecoveryReport::default() {
        tracing::warn!(
            root = %root.key.identity, finished, swept = swept.removed,
            brought_back = ?recovered.restored, "an interrupted write was completed"
        );
    }
    close_changes(store, &[root], &open).await?;
    held.invalidate_cache();
    held.lock.end(last).map_err(&at)?;
    Ok(recovered)
}

/// What a recovery did.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RecoveryReport {
    /// How many files it completed or swept.
    pub(crate) completed: usize,
    /// What somebody outside wrote in the middle of the write, and where it is.
    pub(crate) restored: Vec<String>,
}

/// Returns what tells the bytes that open changes replace, remove or write from those that nobody has
/// recorded. What is no open change's is not looked for: a change that was taken back has left the
/// only copy of what it had taken away.
fn referenced_check(
    root: &Root,
    open: &BTreeMap<ChangeId, OpenChange>,
    restarted: bool,
) -> Arc<IsReferenced> {
    let mut revisions: HashSet<(RelativePath, Revision)> = HashSet::new();
    let mut written: HashMap<RelativePath, Vec<Vec<u8>>> = HashMap::new();
    for one in open.values() {
        for (index, file) in one.change.files.iter().enumerate() {
            if file.root.place != root.key.place {
                continue;
            }
            let bytes = one.files.iter().find(|file| file.index == index).map(|file| &file.bytes);
            for path in [Some(&file.path), file.moved_to.as_ref()].into_iter().flatten() {
                let both = [file.before, file.after].into_iter().flatten();
                revisions.extend(both.map(|revision| (path.clone(), revision)));
                written.entry(path.clone()).or_default().extend(bytes.cloned());
            }
        }
    }
    let has_list = root.generates_list;
    Arc::new(move |path, bytes| {
        let torn = || {
            let whole = written.get(path).map(Vec::as_slice).unwrap_or_default();
            restarted && whole.iter().any(|whole| is_torn(bytes, whole))
        };
        let list = || has_list && path.as_str() == MEMORY_LIST && is_generated_list(bytes);
        revisions.contains(&(path.clone(), Revision::digest(bytes))) || torn() || list()
    })
}

/// What open changes say about one path.
#[derive(Debug, Default)]
struct RedoTarget {
    /// The last of them that names it.
    change: ChangeId,
    /// What is to be there in the end.
    final_revision: Option<Revision>,
    /// Everything that Lukasa knows to have been there on the way; nothing being there is `None`.
    known_revisions: BTreeSet<Option<Revision>>,
    /// The bytes of `last`, when the change that wrote it has them.
    bytes: Option<Vec<u8>>,
}

fn redo_targets<'a>(
    root: &Root,
    open: impl Iterator<Item = &'a OpenChange>,
) -> BTreeMap<RelativePath, RedoTarget> {
    let mut paths: BTreeMap<RelativePath, RedoTarget> = BTreeMap::new();
    for one in open {
        for (index, file) in one.change.files.iter().enumerate() {
            if file.root.place != root.key.place {
                continue;
            }
            let bytes =
                one.files.iter().find(|file| file.index == index).map(|file| file.bytes.clone());
            let stays = if file.moved_to.is_some() { None } else { file.after };
            let mut want = |path: &RelativePath, before, after| {
                let wanted = paths.entry(path.clone()).or_default();
                wanted.known_revisions.extend([before, after]);
                wanted.change = one.change.id;
                (wanted.final_revision, wanted.bytes) = (after, bytes.clone());
            };
            want(&file.path, file.before, stays);
            if let Some(to) = &file.moved_to {
                want(to, None, file.after);
            }
        }
    }
    paths
}

/// Brings one file to what was recorded; returns whether there was anything to do. A file that
/// cannot be dealt with must not keep the others, or anybody, from going on.
async fn redo_file(
    store: &Store,
    root: &Root,
    path: &RelativePath,
    wanted: &RedoTarget,
    restarted: bool,
) -> Result<bool, StoreError> {
    let now = match root.backend.read(path, HISTORY_FILE_BYTES_MAX).await {
        Ok(read) => Some(read),
        Err(BackendError::NotFound) => None,
        Err(error) => {
            // Something else took the place, or it cannot be read: it is not ours to replace.
            tracing::warn!(%error, "a memory of an interrupted write cannot be looked at");
            return Ok(false);
        }
    };
    let found = now.as_ref().map(|read| Revision::digest(&read.bytes));
    if found == wanted.final_revision {
        return Ok(false);
    }
    let stamp = now.as_ref().map(|read| read.stat.stamp);
    let done = match (wanted.final_revision, stamp) {
        (None, Some(stamp)) if wanted.known_revisions.contains(&found) => {
            root.backend.remove_file(path, stamp).await
        }
        (None, _) => return Ok(false),
        (Some(last), stamp) => {
            let bytes = match &wanted.bytes {
                Some(bytes) => Some(bytes.clone()),
                None => store.state.content(&last).await.unwrap_or_default(),
            };
            let Some(bytes) = bytes else { return Ok(false) };
            let torn = |read: &FileRead| restarted && is_torn(&read.bytes, &bytes);
            if !wanted.known_revisions.contains(&found) && !now.as_ref().is_some_and(torn) {
                return Ok(false);
            }
            let expect = stamp.map_or(Expect::Absent, Expect::File);
            match root.backend.stage(path, Arc::from(bytes)).await {
                Ok(staged) => staged.publish(expect).await,
                Err(error) => Err(error),
            }
        }
    };
    match done {
        Ok(()) => Ok(true),
        // Somebody outside was quicker: theirs stays, and is noticed like any edit from outside.
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

/// Returns whether `found` is `whole` as a power cut leaves it: cut short, or with stretches that
/// never reached the disk and read as zeros.
fn is_torn(found: &[u8], whole: &[u8]) -> bool {
    found.len() <= whole.len()
        && found.iter().zip(whole).all(|(found, whole)| found == whole || *found == 0)
        && found != whole
}

/// Moves a folder that was to be moved as a whole, if that did not happen.
async fn redo_folder(root: &Root, folder: &FolderChange) -> Result<(), BackendError> {
    let Some(to) = &folder.moved_to else { return Ok(()) };
    let kind = async |path| match root.backend.kind(path).await {
        // A file on the way to it: nothing is there.
        Err(BackendError::WrongKind | BackendError::Escapes(_)) => Ok(None),
        kind => kind,
    };
    if kind(&folder.path).await? == Some(FileKind::Folder) && kind(to).await?.is_none() {
        return root.backend.rename(&folder.path, to).await;
    }
    Ok(())
}
