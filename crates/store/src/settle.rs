//! What happens after a write, and after a write that never ended.
//!
//! Settling synchronizes the files of open changes and closes their redo records; it happens in the
//! background, soon after the last write, and when the store closes. Recovery carries out what a
//! dead process, or a machine that lost its power, had recorded and not finished. Both look at the
//! files first: what somebody outside wrote since then stays.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use memory::change::{ChangeId, ChangeKind, FolderChange};
use memory::document::{self, Item, Revision};
use memory::limits::{HISTORY_FILE_BYTES_MAX, MEMORY_BYTES_MAX, MEMORY_LIST_LINES_MAX};
use memory::path::RelativePath;
use state::OpenChange;

use crate::backend::{BackendError, Expect, Extent, InHistory, Kind, Read};
use crate::error::StoreError;
use crate::memories::Store;
use crate::root::{HeldRoot, MEMORY_LIST, Root};

/// Carries out what was recorded for this root and may not have been done, and sweeps what such a
/// write left over. Nothing that somebody outside wrote meanwhile is swept.
///
/// Only what nothing later has touched is carried out: a memory whose last record is another change,
/// of Quipu or from outside, is left as it is. While the machine kept running only the newest change
/// can be unfinished, because writes follow one another.
pub(crate) async fn recover(store: &Store, held: &mut HeldRoot) -> Result<Recovered, StoreError> {
    let root = Arc::clone(&held.root);
    let at = StoreError::at(root.mount);
    let open = open_changes(store, &root).await?;
    let restarted = held.held.machine_restarted();
    let heads = store.state.heads(&root.key.place, ChangeId(0)).await?;
    let last = heads.iter().map(|head| head.change).chain(open.keys().copied()).max();
    // A number above all that are recorded is of another database than the one that is there now.
    let completed = held.held.completed().filter(|done| Some(*done) <= last && !restarted);
    // Where nobody died all that is recorded was done, and what is not so any more was undone outside.
    // Who died before recording left nothing to be done either.
    let interrupted = held.held.was_interrupted();
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
    held.held.begin().map_err(&at)?;
    let newest = newest.map(|open| &open.change);
    if let Some(folder) = newest.and_then(|change| change.folder.as_ref())
        && folder.root.place == root.key.place
    {
        finish_folder(&root, folder).await.map_err(&at)?;
    }
    let mut finished = 0_usize;
    let mut wanted: Vec<_> = wanted(&root, unfinished.iter().copied()).into_iter().collect();
    wanted.retain(|(path, wanted)| latest.get(path).is_none_or(|last| *last == wanted.change));
    // What is to be there comes first: the source of a move goes only when its target is in place.
    wanted.sort_by_key(|(_, wanted)| wanted.last.is_none());
    for (path, wanted) in &wanted {
        finished += usize::from(finish_file(store, &root, path, (wanted, restarted)).await?);
    }
    if unfinished.iter().any(|open| open.change.kind == ChangeKind::Undo) {
        // What goes may have stood, or may have left an empty folder, where a file comes back.
        for (path, wanted) in wanted.iter().filter(|(_, wanted)| wanted.last.is_some()) {
            if matches!(root.backend.kind(path).await, Ok(Some(Kind::Folder))) {
                root.backend.remove_empty(path).await.map_err(&at)?;
            }
            finished += usize::from(finish_file(store, &root, path, (wanted, restarted)).await?);
        }
    }
    if let Some(FolderChange { path, moved_to: None, root: place }) =
        newest.and_then(|change| change.folder.as_ref())
        && place.place == root.key.place
    {
        root.backend.remove_empty(path).await.map_err(&at)?;
    }
    let swept = root.backend.sweep(in_history(&root, &open, restarted)).await.map_err(&at)?;
    let recovered =
        Recovered { mended: finished + swept.removed, brought_back: swept.brought_back };
    if recovered != Recovered::default() {
        tracing::warn!(
            root = %root.key.identity, finished, swept = swept.removed,
            brought_back = ?recovered.brought_back, "an interrupted write was completed"
        );
    }
    close(store, &[root], &open).await?;
    held.forget();
    held.held.end(last).map_err(&at)?;
    Ok(recovered)
}

/// What a recovery did.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Recovered {
    /// How many files it completed or swept.
    pub(crate) mended: usize,
    /// What somebody outside wrote in the middle of the write, and where it is.
    pub(crate) brought_back: Vec<String>,
}

/// Returns what tells the bytes that open changes replace, remove or write from those that nobody has
/// recorded. What is no open change's is not looked for: a change that was taken back has left the
/// only copy of what it had taken away.
fn in_history(
    root: &Root,
    open: &BTreeMap<ChangeId, OpenChange>,
    restarted: bool,
) -> Arc<InHistory> {
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
    let has_list = root.has_list;
    Arc::new(move |path, bytes| {
        let torn = || {
            let whole = written.get(path).map(Vec::as_slice).unwrap_or_default();
            restarted && whole.iter().any(|whole| is_torn(bytes, whole))
        };
        let list = || has_list && path.as_str() == MEMORY_LIST && is_our_list(bytes);
        revisions.contains(&(path.clone(), Revision::of(bytes))) || torn() || list()
    })
}

/// Returns whether this is a generated listing, or the beginning of one, or what a power cut leaves of one.
pub(crate) fn is_our_list(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
        || document::is_generated_list(&String::from_utf8_lossy(bytes))
}

/// What open changes say about one path.
#[derive(Debug, Default)]
struct Wanted {
    /// The last of them that names it.
    change: ChangeId,
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
            let mut want = |path: &RelativePath, before, after| {
                let wanted = paths.entry(path.clone()).or_default();
                wanted.known.extend([before, after]);
                wanted.change = one.change.id;
                (wanted.last, wanted.bytes) = (after, bytes.clone());
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
async fn finish_file(
    store: &Store,
    root: &Root,
    path: &RelativePath,
    (wanted, restarted): (&Wanted, bool),
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
    let found = now.as_ref().map(|read| Revision::of(&read.bytes));
    if found == wanted.last {
        return Ok(false);
    }
    let done = match wanted.last {
        None => remove_leftover(root, path, now, wanted).await,
        Some(last) => {
            let bytes = match &wanted.bytes {
                Some(bytes) => Some(bytes.clone()),
                None => store.state.content(&last).await.unwrap_or_default(),
            };
            let Some(bytes) = bytes else { return Ok(false) };
            let torn = |read: &Read| restarted && is_torn(&read.bytes, &bytes);
            if !wanted.known.contains(&found) && !now.as_ref().is_some_and(torn) {
                return Ok(false);
            }
            write_again(root, path, now, bytes).await
        }
    };
    match done {
        Ok(done) => Ok(done),
        // Somebody outside was quicker: theirs stays, and is noticed like any edit from outside.
        Err(
            BackendError::Changed
            | BackendError::Occupied
            | BackendError::NotFound
            | BackendError::WrongKind
            | BackendError::Escapes(_),
        ) => Ok(false),
        Err(error) => Err(StoreError::at(root.mount)(error)),
    }
}

async fn write_again(
    root: &Root,
    path: &RelativePath,
    now: Option<Read>,
    bytes: Vec<u8>,
) -> Result<bool, BackendError> {
    let staged = root.backend.stage(path, Arc::from(bytes)).await?;
    let expect = now.map_or(Expect::Absent, |read| Expect::File(read.stat.stamp));
    staged.publish(expect).await?;
    Ok(true)
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
    root.backend.remove_file(path, read.stat.stamp).await?;
    Ok(true)
}

/// Returns whether `found` is `whole` as a power cut leaves it: cut short, or with stretches that
/// never reached the disk and read as zeros.
fn is_torn(found: &[u8], whole: &[u8]) -> bool {
    found.len() <= whole.len()
        && found.iter().zip(whole).all(|(found, whole)| found == whole || *found == 0)
        && found != whole
}

/// Moves a folder that was to be moved as a whole, if that did not happen.
async fn finish_folder(root: &Root, folder: &FolderChange) -> Result<(), BackendError> {
    let Some(to) = &folder.moved_to else { return Ok(()) };
    let kind = async |path| match root.backend.kind(path).await {
        // A file on the way to it: nothing is there.
        Err(BackendError::WrongKind | BackendError::Escapes(_)) => Ok(None),
        kind => kind,
    };
    if kind(&folder.path).await? == Some(Kind::Folder) && kind(to).await?.is_none() {
        return root.backend.rename(&folder.path, to).await;
    }
    Ok(())
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
        {
            paths.insert(folder.path.clone());
            paths.extend(folder.moved_to.clone());
        }
    }
    let paths: Vec<_> = paths.into_iter().collect();
    root.backend.sync(&paths).await
}

/// Synchronizes everything that is open in these roots and closes it; renews their listings.
pub(crate) async fn settle(store: &Store, roots: &[Arc<Root>]) -> Result<(), StoreError> {
    let mut open = BTreeMap::new();
    for root in roots {
        // While the root is held no write is under way, so all that is recorded is in place.
        let _held = root.hold(store).await?;
        open.extend(open_changes(store, root).await?);
    }
    // A change over several roots is closed when all of them are synchronized.
    let others: Vec<Arc<Root>> = store
        .known_roots()
        .into_iter()
        .filter(|root| !roots.iter().any(|own| own.key.place == root.key.place))
        .filter(|root| open.values().any(|open| touches(open, root)))
        .collect();
    for root in &others {
        let _held = root.hold(store).await?;
    }
    let all: Vec<_> = roots.iter().cloned().chain(others).collect();
    close(store, &all, &open).await?;
    for root in roots.iter().filter(|root| root.has_list) {
        if let Err(error) = write_list(store, root).await {
            tracing::warn!(%error, "a generated listing could not be renewed");
        }
    }
    Ok(())
}

fn touches(open: &OpenChange, root: &Root) -> bool {
    open.change.files.iter().any(|file| file.root.place == root.key.place)
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
            description: head.map_or("", |head| head.head.shown_description()),
        })
        .collect();
    let text = document::memory_list(&items);
    let mut held = root.hold(store).await?;
    let now = match root.backend.read(&path, MEMORY_BYTES_MAX).await {
        Ok(read) => Some(read),
        Err(BackendError::NotFound) => None,
        Err(BackendError::WrongKind | BackendError::Escapes(_)) => return Ok(()),
        Err(error) => return Err(at(error)),
    };
    if now.as_ref().is_some_and(|now| !is_our_list(&now.bytes) || now.bytes == text.as_bytes()) {
        return Ok(());
    }
    // Dying in the middle of it has to lead to a recovery, which sweeps what lies about.
    held.held.begin().map_err(&at)?;
    let staged = root.backend.stage(&path, Arc::from(text.into_bytes())).await.map_err(&at)?;
    let expect = now.map_or(Expect::Absent, |read| Expect::File(read.stat.stamp));
    match staged.publish(expect).await {
        // It is renewed after the next write in any case.
        Ok(()) | Err(BackendError::Changed | BackendError::Occupied) => {}
        Err(error) => return Err(at(error)),
    }
    held.held.end(None).map_err(&at)?;
    held.wrote([]);
    Ok(())
}
