//! What happens after a write, and after a write that never ended.
//!
//! Settling synchronizes the files of open changes and closes their redo records; it happens in the
//! background, soon after the last write, and when the store closes. Recovery carries out what a
//! dead process, or a machine that lost its power, had recorded and not finished. Both look at the
//! files first: what somebody outside wrote since then stays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use memory::change::{ChangeId, FolderChange};
use memory::document::{self, Item, Revision};
use memory::limits::{HISTORY_FILE_BYTES_MAX, MEMORY_BYTES_MAX, MEMORY_LIST_LINES_MAX};
use memory::path::RelativePath;
use state::OpenChange;

use crate::backend::{BackendError, Expect, Extent, Kind, Read};
use crate::error::StoreError;
use crate::memories::Store;
use crate::root::{HeldRoot, MEMORY_LIST, Root};

/// Carries out what was recorded for this root and may not have been done, and sweeps what such a
/// write left over. Returns how many files that was.
pub(crate) async fn recover(store: &Store, held: &mut HeldRoot) -> Result<usize, StoreError> {
    let root = Arc::clone(&held.root);
    let at = StoreError::at(root.mount);
    let open = open_changes(store, &root).await?;
    // A further crash in the middle of this has to lead here again.
    held.held.begin().map_err(&at)?;
    for folder in open.values().filter_map(|open| open.change.folder.as_ref()) {
        if folder.root.place == root.key.place {
            finish_folder(&root, folder).await.map_err(&at)?;
        }
    }
    let mut completed = 0_usize;
    for (path, wanted) in wanted(&root, open.values()) {
        completed += usize::from(finish_file(store, &root, &path, &wanted).await?);
    }
    let swept = root.backend.sweep().await.map_err(&at)?;
    if completed + swept > 0 {
        tracing::warn!(root = %root.key.identity, completed, swept, "an interrupted write was completed");
    }
    close(store, &[root], &open).await?;
    held.forget();
    held.held.end().map_err(&at)?;
    Ok(completed + swept)
}

/// What open changes say about one path.
#[derive(Debug, Default)]
struct Wanted {
    /// What is to be there in the end.
    last: Option<Revision>,
    /// Everything that Quipu knows to have been there on the way; nothing being there is `None`.
    known: BTreeSet<Option<Revision>>,
    /// The bytes of `last`, when the change that wrote it has them.
    bytes: Option<Vec<u8>>,
}

async fn open_changes(
    store: &Store,
    root: &Root,
) -> Result<BTreeMap<ChangeId, OpenChange>, StoreError> {
    let open = store.state.open_changes(&root.key.place).await?;
    Ok(open.into_iter().map(|open| (open.change.id, open)).collect())
}

fn wanted<'a>(
    root: &Root,
    open: impl Iterator<Item = &'a OpenChange>,
) -> BTreeMap<RelativePath, Wanted> {
    let mut paths: BTreeMap<RelativePath, Wanted> = BTreeMap::new();
    for one in open {
        for (index, file) in one.change.files.iter().enumerate() {
            if file.root.place != root.key.place {
                continue;
            }
            let bytes =
                one.files.iter().find(|file| file.index == index).map(|file| file.bytes.clone());
            let stays = if file.moved_to.is_some() { None } else { file.after };
            let wanted = paths.entry(file.path.clone()).or_default();
            wanted.known.extend([file.before, stays]);
            (wanted.last, wanted.bytes) = (stays, bytes.clone());
            if let Some(to) = &file.moved_to {
                let wanted = paths.entry(to.clone()).or_default();
                wanted.known.extend([None, file.after]);
                (wanted.last, wanted.bytes) = (file.after, bytes);
            }
        }
    }
    paths
}

/// Brings one file to what was recorded; returns whether there was anything to do.
async fn finish_file(
    store: &Store,
    root: &Root,
    path: &RelativePath,
    wanted: &Wanted,
) -> Result<bool, StoreError> {
    let at = StoreError::at(root.mount);
    let now = match root.backend.read(path, HISTORY_FILE_BYTES_MAX).await {
        Ok(read) => Some(read),
        Err(BackendError::NotFound) => None,
        // A folder or device took the place: that was not us, and it is not ours to replace.
        Err(BackendError::WrongKind | BackendError::Escapes(_)) => return Ok(false),
        Err(error) => return Err(at(error)),
    };
    let found = now.as_ref().map(|read| Revision::of(&read.bytes));
    if found == wanted.last {
        return Ok(false);
    }
    let Some(last) = wanted.last else {
        return remove_leftover(root, path, now, wanted).await.map_err(at);
    };
    let bytes = match &wanted.bytes {
        Some(bytes) => Some(bytes.clone()),
        None => store.state.content(&last).await?,
    };
    let Some(bytes) = bytes else { return Ok(false) };
    let ours = wanted.known.contains(&found)
        || now.as_ref().is_some_and(|read| is_torn(&read.bytes, &bytes));
    if !ours {
        return Ok(false);
    }
    let staged = root.backend.stage(path, Arc::from(bytes)).await.map_err(&at)?;
    let expect = now.map_or(Expect::Absent, |read| Expect::File(read.stat.stamp));
    match staged.publish(expect).await {
        Ok(()) => Ok(true),
        // Somebody outside was quicker: theirs stays, and is noticed like any edit from outside.
        Err(BackendError::Changed | BackendError::Occupied) => Ok(false),
        Err(error) => Err(at(error)),
    }
}

async fn remove_leftover(
    root: &Root,
    path: &RelativePath,
    now: Option<Read>,
    wanted: &Wanted,
) -> Result<bool, BackendError> {
    let Some(read) = now else { return Ok(false) };
    if !wanted.known.contains(&Some(Revision::of(&read.bytes))) {
        return Ok(false);
    }
    match root.backend.remove_file(path, read.stat.stamp).await {
        Ok(()) => Ok(true),
        Err(BackendError::Changed | BackendError::NotFound) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns whether `found` is `whole` as a power cut leaves it: cut short, or with stretches that
/// never reached the disk and read as zeros.
fn is_torn(found: &[u8], whole: &[u8]) -> bool {
    found.len() <= whole.len()
        && found.iter().zip(whole).all(|(found, whole)| found == whole || *found == 0)
        && found != whole
}

async fn finish_folder(root: &Root, folder: &FolderChange) -> Result<(), BackendError> {
    if root.backend.kind(&folder.path).await? != Some(Kind::Folder) {
        return Ok(());
    }
    // A folder that was to be removed stays for now: memories that were put there since keep it,
    // and each recorded one is dealt with by itself.
    let Some(to) = &folder.moved_to else { return Ok(()) };
    match root.backend.kind(to).await? {
        None => root.backend.rename(&folder.path, to).await,
        Some(_) => Ok(()),
    }
}

/// Synchronizes what open changes wrote in these roots and closes the records of those that reach
/// into no other root.
async fn close(
    store: &Store,
    roots: &[Arc<Root>],
    open: &BTreeMap<ChangeId, OpenChange>,
) -> Result<(), StoreError> {
    for root in roots {
        close_in(root, open.values()).await.map_err(StoreError::at(root.mount))?;
    }
    let reached = |place: &str| roots.iter().any(|root| root.key.place == place);
    let done = |open: &&OpenChange| {
        open.change.files.iter().all(|file| reached(&file.root.place))
            && open.change.folder.iter().all(|folder| reached(&folder.root.place))
    };
    let ids: Vec<ChangeId> = open.values().filter(done).map(|open| open.change.id).collect();
    if ids.is_empty() {
        return Ok(());
    }
    Ok(store.state.settle(&ids).await?)
}

async fn close_in(
    root: &Root,
    open: impl Iterator<Item = &OpenChange>,
) -> Result<(), BackendError> {
    let mut paths = BTreeSet::new();
    for change in open.map(|open| &open.change) {
        for file in change.files.iter().filter(|file| file.root.place == root.key.place) {
            paths.insert(file.path.clone());
            paths.extend(file.moved_to.clone());
        }
        if let Some(folder) = &change.folder
            && folder.root.place == root.key.place
            && folder.moved_to.is_none()
        {
            remove_if_empty(root, &folder.path).await?;
        }
    }
    let paths: Vec<_> = paths.into_iter().collect();
    root.backend.sync(&paths).await
}

/// Removes a folder that was to be removed and holds no memory any more.
async fn remove_if_empty(root: &Root, folder: &RelativePath) -> Result<(), BackendError> {
    if root.backend.kind(folder).await? != Some(Kind::Folder) {
        return Ok(());
    }
    let walk = root.backend.walk(Some(folder), Extent { max: 0, ..Extent::ALL }).await?;
    if walk.files_total == 0 && !walk.incomplete {
        root.backend.remove_folder(folder).await?;
    }
    Ok(())
}

/// Synchronizes everything that is open in these roots and closes it; renews their listings.
pub(crate) async fn settle(store: &Store, roots: &[Arc<Root>]) -> Result<(), StoreError> {
    let mut open = BTreeMap::new();
    for root in roots {
        // While the root is held no write is under way, so all that is recorded is in place.
        let _held = root.hold(store).await?;
        open.extend(open_changes(store, root).await?);
    }
    close(store, roots, &open).await?;
    for root in roots.iter().filter(|root| root.has_list) {
        write_list(store, root).await?;
    }
    Ok(())
}

/// Writes the generated listing, unless somebody keeps a file of their own by that name.
async fn write_list(store: &Store, root: &Arc<Root>) -> Result<(), StoreError> {
    let at = StoreError::at(root.mount);
    let Ok(path) = RelativePath::parse(MEMORY_LIST) else { return Ok(()) };
    let walk = root.backend.walk(None, Extent::ALL).await.map_err(&at)?;
    let files: Vec<_> = walk.files.iter().filter(|file| !root.is_list(&file.path)).collect();
    let mut heads = Vec::with_capacity(MEMORY_LIST_LINES_MAX.min(files.len()));
    for file in files.iter().take(MEMORY_LIST_LINES_MAX) {
        heads.push(crate::view::document_head(root, file).await.map_err(&at)?);
    }
    // What is beyond the lines is only counted, so nothing needs to be known of it.
    let heads = heads.iter().map(Some).chain(std::iter::repeat(None));
    let items: Vec<_> = files
        .iter()
        .zip(heads)
        .map(|(file, head)| Item {
            path: &file.path,
            name: head.and_then(|head| head.head.name.as_deref()),
            description: head.map_or("", |head| &head.head.description),
        })
        .collect();
    let text = document::memory_list(&items);
    let _held = root.hold(store).await?;
    let now = match root.backend.read(&path, MEMORY_BYTES_MAX).await {
        Ok(read) => Some(read),
        Err(BackendError::NotFound) => None,
        Err(BackendError::WrongKind | BackendError::Escapes(_)) => return Ok(()),
        Err(error) => return Err(at(error)),
    };
    if let Some(read) = &now {
        let theirs = str::from_utf8(&read.bytes).is_ok_and(|t| !document::is_generated_list(t));
        if theirs || read.bytes == text.as_bytes() {
            return Ok(());
        }
    }
    let staged = root.backend.stage(&path, Arc::from(text.into_bytes())).await.map_err(&at)?;
    let expect = now.map_or(Expect::Absent, |read| Expect::File(read.stat.stamp));
    match staged.publish(expect).await {
        // It is renewed after the next write in any case.
        Ok(()) | Err(BackendError::Changed | BackendError::Occupied) => Ok(()),
        Err(error) => Err(at(error)),
    }
}
