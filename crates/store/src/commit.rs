//! One change, from the bytes that it will leave to the files that hold them.
//!
//! The order is what makes it safe: say that a write begins, make the new bytes durable in the
//! state (the redo record) while they are laid beside their places, put them in place, say that the
//! write ended. Dying anywhere leaves either nothing or a record that the next holder of the root
//! carries out.

use std::sync::Arc;

use memory::change::{Actor, ChangeId, ChangeKind, FileChange, FolderChange, Provenance, Trust};
use memory::clock::Timestamp;
use memory::document::Revision;
use memory::path::{Mount, RelativePath};
use memory::proposal::ProposalId;
use state::{Head, NewChange, NewFileChange, UseEvent};

use crate::backend::{Backend, BackendError, Expect, FileKind, Staged, Stamp};
use crate::caller::OutsideReadFlag;
use crate::error::StoreError;
use crate::root::Root;
use crate::root_lock::LockedRoot;
use crate::store::Store;

/// A file as it was when a change was decided.
#[derive(Clone, Debug)]
pub(crate) struct FileSnapshot {
    /// Its version.
    pub(crate) stamp: Stamp,
    /// Its size in bytes.
    pub(crate) bytes: u64,
    /// Its bytes and their digest; `None` when it is too large to be kept.
    pub(crate) content: Option<(Arc<[u8]>, Revision)>,
}

impl FileSnapshot {
    /// Takes what was read, which has to be the whole file to be kept.
    pub(crate) fn from_read(read: crate::backend::FileRead) -> Self {
        let content = read.is_whole().then(|| {
            let revision = Revision::digest(&read.bytes);
            (Arc::from(read.bytes), revision)
        });
        Self { stamp: read.stat.stamp, bytes: read.stat.bytes, content }
    }

    pub(crate) fn revision(&self) -> Option<Revision> {
        self.content.as_ref().map(|content| content.1)
    }

    pub(crate) fn content_bytes(&self) -> Option<Arc<[u8]>> {
        self.content.as_ref().map(|content| Arc::clone(&content.0))
    }
}

/// What is to become of one file.
#[derive(Clone, Debug)]
pub(crate) enum FileOp {
    /// It gets these bytes.
    Write {
        /// What they replace; nothing if `None`.
        before: Option<FileSnapshot>,
        /// The bytes.
        after: Arc<[u8]>,
    },
    /// It is removed.
    Remove {
        /// What is removed.
        before: FileSnapshot,
    },
    /// It gets another path.
    Move {
        /// The new path.
        to: RelativePath,
        /// What is moved.
        before: FileSnapshot,
    },
}

/// One file of a change.
#[derive(Clone, Debug)]
pub(crate) struct FileStep {
    /// Which of the held roots it lies in.
    pub(crate) root: usize,
    /// Its path.
    pub(crate) path: RelativePath,
    /// What is to become of it.
    pub(crate) op: FileOp,
    /// How far its text may be trusted afterwards, where that does not follow from who writes.
    pub(crate) trust: Option<Trust>,
    /// Where its text comes from, if it was written before.
    pub(crate) origin: Option<TextOrigin>,
}

/// What is known of a text that was written before, in another home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextOrigin {
    /// How far it may be trusted; the trust of the writer is the upper bound.
    pub trust: Trust,
    /// Whether it waits for a person, as [`Memories::influenced`](crate::Memories::influenced) returns it.
    pub waits: bool,
    /// When it was last modified.
    pub modified_at: Option<Timestamp>,
}

/// A folder that is removed or moved as a whole; the steps say what that does to each memory.
#[derive(Clone, Debug)]
pub(crate) struct FolderStep {
    pub(crate) root: usize,
    pub(crate) path: RelativePath,
    pub(crate) to: Option<RelativePath>,
}

/// A change that has been decided.
#[derive(Clone, Debug)]
pub(crate) struct CommitPlan {
    pub(crate) kind: ChangeKind,
    pub(crate) provenance: Provenance,
    /// What the writer's session has read that nobody here reviewed.
    pub(crate) outside_read: OutsideReadFlag,
    /// Which attempt at its task makes it, if that matters.
    pub(crate) attempt: Option<u32>,
    /// The proposal that it accepts.
    pub(crate) accepts: Option<ProposalId>,
    pub(crate) undoes: Option<ChangeId>,
    pub(crate) folder: Option<FolderStep>,
    pub(crate) steps: Vec<FileStep>,
    /// Whether the memories written count as used.
    pub(crate) counts_as_use: bool,
}

/// Why a change did not happen.
#[derive(Debug)]
pub(crate) enum CommitError {
    /// Somebody outside changed a file after it was read: read again and decide anew.
    Raced,
    /// Anything else.
    Store(StoreError),
}

impl From<StoreError> for CommitError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl CommitError {
    /// Sorts what kept a file from being put in place.
    fn from_publish_error(mount: Mount, error: BackendError) -> Self {
        match error {
            BackendError::Changed | BackendError::Occupied | BackendError::NotFound => Self::Raced,
            error => StoreError::backend_error(mount)(error).into(),
        }
    }
}

/// Carries out a change in held roots: all of it or nothing.
pub(crate) async fn commit(
    store: &Store,
    roots: &mut [LockedRoot],
    mut plan: CommitPlan,
) -> Result<ChangeId, CommitError> {
    // A file may come where a folder was, or the other way round: what goes makes room first.
    let is_new = |step: &FileStep| matches!(step.op, FileOp::Write { before: None, .. });
    plan.steps.sort_by_key(|step| (step.root, is_new(step)));
    if plan.steps.iter().any(|step| !matches!(step.op, FileOp::Write { .. })) {
        // Uses that wait belong to the paths as they are before.
        store.flush_uses().await;
    }
    record_external_edits_of_steps(store, roots, &plan.steps).await?;
    for root in roots.iter_mut() {
        root.root.record_checkout();
        root.lock.begin().map_err(StoreError::backend_error(root.root.mount))?;
    }
    let waits = review_trust(store, roots, &plan).await?;
    let change = new_change(store, roots, &plan, &waits);
    let heads_after = change.files.clone();
    // A failed record may yet have become durable, so its root stays marked: the next holder looks.
    // The record first: while the state's thread is at it, this one lays the bytes beside their places.
    let (recorded, staged) =
        tokio::join!(store.state.record(change), stage_all(roots, &plan.steps));
    let id = recorded.map_err(StoreError::from)?;
    let placed = match staged {
        Ok(staged) => publish_all(roots, &plan, staged).await,
        Err(error) => Err(PublishFailure { error, is_rolled_back: true }),
    };
    if let Err(unplaced) = placed {
        return Err(abort(store, roots, id, &plan.steps, unplaced).await);
    }
    for root in roots.iter_mut() {
        root.lock.end(Some(id)).map_err(StoreError::backend_error(root.root.mount))?;
    }
    update_cache(store, roots, &plan, id, &heads_after);
    Ok(id)
}

/// A change whose files could not all be put in place.
struct PublishFailure {
    error: CommitError,
    /// Whether those that were are as they had been.
    is_rolled_back: bool,
}

/// Takes the record of a failed change back, if the files are as before; else the next holder of
/// the roots carries the change out.
async fn abort(
    store: &Store,
    roots: &mut [LockedRoot],
    id: ChangeId,
    steps: &[FileStep],
    unplaced: PublishFailure,
) -> CommitError {
    if !unplaced.is_rolled_back {
        tracing::warn!(change = %id, "a change stopped half-way; it is completed at the next write");
        return unplaced.error;
    }
    // With the record gone nothing would make the restored bytes whole after a power cut.
    for root in roots.iter() {
        let paths: Vec<_> = paths_in(steps, roots, root);
        if let Err(error) = root.root.backend.sync(&paths).await {
            tracing::warn!(change = %id, %error, "restored memories could not be synchronized");
        }
    }
    if let Err(error) = store.state.abort_change(id).await {
        tracing::warn!(change = %id, %error, "the record of a failed change cannot be taken back");
        return unplaced.error;
    }
    for root in roots.iter_mut() {
        if let Err(error) = root.lock.end(None) {
            return StoreError::backend_error(root.root.mount)(error).into();
        }
    }
    unplaced.error
}

fn paths_in(steps: &[FileStep], roots: &[LockedRoot], root: &LockedRoot) -> Vec<RelativePath> {
    let own = steps.iter().filter(|step| Arc::ptr_eq(&roots[step.root].root, &root.root));
    own.map(|step| step.path.clone()).collect()
}

async fn stage_all(
    roots: &[LockedRoot],
    steps: &[FileStep],
) -> Result<Vec<Option<Box<dyn Staged>>>, CommitError> {
    let mut staged = Vec::with_capacity(steps.len());
    for step in steps {
        let root = &roots[step.root].root;
        staged.push(match &step.op {
            FileOp::Write { before: None, .. } if is_occupied(root, &step.path).await => None,
            FileOp::Write { after, .. } => {
                let stage = root.backend.stage(&step.path, Arc::clone(after)).await;
                let mut stage = stage.map_err(StoreError::backend_error(root.mount))?;
                if let Some(at) = step.origin.and_then(|origin| origin.modified_at) {
                    stage.set_modified(at);
                }
                Some(stage)
            }
            FileOp::Remove { .. } | FileOp::Move { .. } => None,
        });
    }
    Ok(staged)
}

/// Returns whether a folder stands where a new file goes, or a file where a folder on its way does.
/// An earlier step makes room then, and until that is done nothing can be laid beside the place.
async fn is_occupied(root: &Root, path: &RelativePath) -> bool {
    matches!(
        root.backend.kind(path).await,
        Ok(Some(FileKind::Folder)) | Err(BackendError::WrongKind)
    )
}

async fn publish_all(
    roots: &[LockedRoot],
    plan: &CommitPlan,
    staged: Vec<Option<Box<dyn Staged>>>,
) -> Result<(), PublishFailure> {
    if let Some(folder) = &plan.folder {
        return publish_folder(roots, folder, &plan.steps).await;
    }
    for (done, (step, staged)) in plan.steps.iter().zip(staged).enumerate() {
        if let Err(error) = publish(roots, step, staged).await {
            let done = done + usize::from(is_outcome_unknown(&error));
            let undone = roll_back(roots, &plan.steps[..done]).await;
            let error = CommitError::from_publish_error(roots[step.root].root.mount, error);
            return Err(PublishFailure { error, is_rolled_back: undone.is_ok() });
        }
    }
    Ok(())
}

/// Returns whether a step that failed so may have been done all the same: an answer can get lost.
fn is_outcome_unknown(error: &BackendError) -> bool {
    matches!(error, BackendError::Io { .. } | BackendError::Full(_) | BackendError::NotWritable(_))
}

async fn publish_folder(
    roots: &[LockedRoot],
    folder: &FolderStep,
    steps: &[FileStep],
) -> Result<(), PublishFailure> {
    let root = &roots[folder.root].root;
    let stamps = steps.iter().filter_map(|step| match &step.op {
        FileOp::Remove { before } => Some((step.path.clone(), before.stamp)),
        FileOp::Write { .. } | FileOp::Move { .. } => None,
    });
    let stamps: Vec<_> = stamps.collect();
    let placed = match &folder.to {
        Some(to) => root.backend.rename(&folder.path, to).await,
        None => root.backend.remove_folder(&folder.path, &stamps).await,
    };
    let Err(error) = placed else { return Ok(()) };
    let undone = !is_outcome_unknown(&error)
        || matches!(root.backend.kind(&folder.path).await, Ok(Some(FileKind::Folder)));
    Err(PublishFailure {
        error: CommitError::from_publish_error(root.mount, error),
        is_rolled_back: undone,
    })
}

async fn publish(
    roots: &[LockedRoot],
    step: &FileStep,
    staged: Option<Box<dyn Staged>>,
) -> Result<(), BackendError> {
    let backend = &roots[step.root].root.backend;
    match (&step.op, staged) {
        (FileOp::Write { before, .. }, Some(staged)) => {
            let expect = before.as_ref().map_or(Expect::Absent, |now| Expect::File(now.stamp));
            staged.publish(expect).await
        }
        (FileOp::Write { after, .. }, None) => {
            backend.remove_empty(&step.path).await?;
            backend.stage(&step.path, Arc::clone(after)).await?.publish(Expect::Absent).await
        }
        (FileOp::Remove { before }, _) => backend.remove_file(&step.path, before.stamp).await,
        (FileOp::Move { to, .. }, _) => match backend.rename(&step.path, to).await {
            // A folder that is left empty stands where an undone rename brings the memory back.
            Err(BackendError::Occupied) => {
                backend.remove_empty(to).await?;
                backend.rename(&step.path, to).await
            }
            renamed => renamed,
        },
    }
}

/// Puts files back as they were, last first. Whether a step was done at all is looked at: the last
/// one may not have been.
async fn roll_back(roots: &[LockedRoot], done: &[FileStep]) -> Result<(), BackendError> {
    for step in done.iter().rev() {
        let backend = &roots[step.root].root.backend;
        match &step.op {
            FileOp::Write { before, after } => {
                let now = match backend.read(&step.path, after.len()).await {
                    Ok(now) if now.is_whole() && now.bytes[..] == after[..] => now,
                    // Somebody outside has written or removed it since: that stays.
                    Ok(_) | Err(BackendError::NotFound | BackendError::WrongKind) => continue,
                    Err(error) => return Err(error),
                };
                match before.as_ref().and_then(FileSnapshot::content_bytes) {
                    Some(bytes) => {
                        let staged = backend.stage(&step.path, bytes).await?;
                        staged.publish(Expect::File(now.stat.stamp)).await?;
                    }
                    None => backend.remove_file(&step.path, now.stat.stamp).await?,
                }
                if before.is_none() {
                    remove_folder_for(backend.as_ref(), &step.path, done).await?;
                }
            }
            FileOp::Remove { .. } | FileOp::Move { .. }
                if backend.kind(&step.path).await?.is_some() => {}
            FileOp::Remove { before } => {
                let Some(bytes) = before.content_bytes() else {
                    return Err(BackendError::NotFound);
                };
                backend.stage(&step.path, bytes).await?.publish(Expect::Absent).await?;
            }
            FileOp::Move { to, .. } => backend.rename(to, &step.path).await?,
        }
    }
    Ok(())
}

/// Removes the empty folder that was made for a file where there had been a file.
async fn remove_folder_for(
    backend: &dyn Backend,
    path: &RelativePath,
    done: &[FileStep],
) -> Result<(), BackendError> {
    let mut above = path.parent();
    while let Some(folder) = above {
        if done.iter().any(|step| step.path == folder && matches!(step.op, FileOp::Remove { .. })) {
            return backend.remove_empty(&folder).await;
        }
        above = folder.parent();
    }
    Ok(())
}

/// Returns which steps leave a text that waits for a person, with how far it may be trusted until then: one that was written
/// under the influence of text that nobody here reviewed, or by a background review.
async fn review_trust(
    store: &Store,
    roots: &[LockedRoot],
    plan: &CommitPlan,
) -> Result<Vec<Option<Trust>>, StoreError> {
    if sets_full_trust(plan.kind, &plan.provenance) {
        return Ok(vec![None; plan.steps.len()]);
    }
    // A new text without a word carries nothing.
    let has_words = |step: &FileStep| matches!(&step.op, FileOp::Write { before, after } if before.is_some() || !after.is_empty());
    let by = match plan.provenance.actor {
        Actor::Person => None,
        _ if plan.outside_read.is_set() => Some(Trust::Outside),
        Actor::Review => Some(Trust::Background),
        Actor::Agent | Actor::Task | Actor::Dream | Actor::Outside => None,
    };
    let waited =
        |step: &FileStep| step.origin.filter(|origin| origin.waits).map(|origin| origin.trust);
    let waits_now = |step: &FileStep| waited(step).or(by).filter(|_| has_words(step));
    let mut waits: Vec<Option<Trust>> = plan.steps.iter().map(waits_now).collect();
    let is_undo = plan.kind == ChangeKind::Undo;
    let by_person = plan.provenance.actor == Actor::Person;
    for (index, root) in roots.iter().enumerate() {
        // What was written so is trusted no more than that.
        let may_be = |step: &FileStep| is_undo || root.trust(&step.path) <= Trust::Background;
        if !plan.steps.iter().any(|step| step.root == index && may_be(step)) {
            continue;
        }
        let known = store.state.influenced_revisions(&root.root.key.identity).await?;
        for (step, waits) in plan.steps.iter().zip(&mut waits) {
            let (before, after) = match &step.op {
                // All of a new text is the person's.
                FileOp::Write { before: None, .. } if by_person && !is_undo => (None, None),
                FileOp::Write { before, after } => (
                    before.as_ref().and_then(FileSnapshot::revision),
                    Some(Revision::digest(after)),
                ),
                FileOp::Move { before, .. } => (None, before.revision()),
                FileOp::Remove { .. } => (None, None),
            };
            // An undo brings back what was there before, and nothing of what takes its place now.
            let texts = [before.filter(|_| !is_undo), after];
            let has = |text: Option<Revision>| text.is_some_and(|text| known.contains_key(&text));
            if step.root == index && texts.into_iter().any(has) {
                let was = step.trust.filter(|_| is_undo).unwrap_or_else(|| root.trust(&step.path));
                let was = if was == Trust::Background { was } else { Trust::Outside };
                *waits = Some(waits.map_or(was, |now| now.min(was)));
            }
        }
    }
    Ok(waits)
}

fn new_change(
    store: &Store,
    roots: &[LockedRoot],
    plan: &CommitPlan,
    waits: &[Option<Trust>],
) -> NewChange {
    let at = store.clock.now();
    let files = plan.steps.iter().zip(waits);
    let files: Vec<_> =
        files.map(|(step, waits)| new_file_change(roots, plan, step, *waits)).collect();
    let uses = if plan.counts_as_use {
        files.iter().filter_map(|file| use_event(&file.change, at)).collect()
    } else {
        Vec::new()
    };
    let folder = plan.folder.as_ref().map(|folder| FolderChange {
        root: roots[folder.root].root.key.clone(),
        path: folder.path.clone(),
        moved_to: folder.to.clone(),
    });
    NewChange {
        at,
        kind: plan.kind,
        provenance: plan.provenance.clone(),
        attempt: plan.attempt,
        accepts: plan.accepts,
        undoes: plan.undoes,
        folder,
        files,
        uses,
    }
}

fn use_event(change: &FileChange, at: Timestamp) -> Option<UseEvent> {
    change.after?;
    let path = change.moved_to.as_ref().unwrap_or(&change.path).clone();
    Some(UseEvent { identity: change.root.identity.clone(), path, at, is_write: true })
}

/// Tells whether a change gives a text its writer's trust alone: only a person who saves all of it answers for all of it.
pub(crate) fn sets_full_trust(kind: ChangeKind, provenance: &Provenance) -> bool {
    kind == ChangeKind::Save && provenance.actor == Actor::Person
}

fn new_file_change(
    roots: &[LockedRoot],
    plan: &CommitPlan,
    step: &FileStep,
    waits: Option<Trust>,
) -> NewFileChange {
    let influenced = waits.is_some();
    let provenance = &plan.provenance;
    let root = &roots[step.root];
    let trusted = root.trust(&step.path);
    let change = |moved_to, before, after, trust| FileChange {
        root: root.root.key.clone(),
        path: step.path.clone(),
        moved_to,
        before,
        after,
        trust: waits.unwrap_or_else(|| step.trust.unwrap_or(trust)),
    };
    match &step.op {
        FileOp::Write { before, after } => {
            // Text that replaces text was written with the old one before the writer's eyes.
            let trust = match before {
                Some(_) if !sets_full_trust(plan.kind, provenance) => trusted.min(provenance.trust),
                _ => provenance.trust,
            };
            let revision = before.as_ref().and_then(FileSnapshot::revision);
            NewFileChange {
                change: change(None, revision, Some(Revision::digest(after)), trust),
                before: before.as_ref().and_then(FileSnapshot::content_bytes),
                after: Some(Arc::clone(after)),
                influenced,
            }
        }
        FileOp::Remove { before } => NewFileChange {
            change: change(None, before.revision(), None, trusted),
            before: before.content_bytes(),
            after: None,
            influenced: false,
        },
        FileOp::Move { to, before } => NewFileChange {
            change: change(Some(to.clone()), before.revision(), before.revision(), trusted),
            before: before.content_bytes(),
            after: None,
            influenced,
        },
    }
}

/// Takes a change that happened into what is remembered, and tells those who listen.
fn update_cache(
    store: &Store,
    roots: &[LockedRoot],
    plan: &CommitPlan,
    id: ChangeId,
    files: &[NewFileChange],
) {
    for (index, root) in roots.iter().enumerate() {
        let own = plan.steps.iter().zip(files).filter(|(step, _)| step.root == index);
        root.update_heads(own.flat_map(|(_, file)| heads_after(&file.change, id)));
        store.mark_dirty(&root.root);
    }
    let changes: Vec<_> = files.iter().map(|file| file.change.clone()).collect();
    store.publish_change(id, plan.kind, &plan.provenance, &changes);
}

/// Returns what a change leaves recorded of the paths that it touched.
pub(crate) fn heads_after(change: &FileChange, id: ChangeId) -> Vec<Head> {
    let head = |path: &RelativePath, revision| Head {
        path: path.clone(),
        revision,
        trust: change.trust,
        change: id,
    };
    match &change.moved_to {
        Some(to) => vec![head(&change.path, None), head(to, change.after)],
        None => vec![head(&change.path, change.after)],
    }
}

/// Records what somebody did to these files outside of Lukasa since they were last recorded, so that
/// history has every version of them and an undo knows whom it would undo.
async fn record_external_edits_of_steps(
    store: &Store,
    roots: &mut [LockedRoot],
    steps: &[FileStep],
) -> Result<(), StoreError> {
    let mut edits = Vec::new();
    for step in steps {
        let root = &roots[step.root];
        let now = match &step.op {
            FileOp::Write { before, .. } => before.as_ref(),
            FileOp::Remove { before } | FileOp::Move { before, .. } => Some(before),
        };
        let Some(head) = root.head(&step.path) else { continue };
        let revision = now.and_then(FileSnapshot::revision);
        if now.is_some() && revision.is_none() || head.revision == revision {
            continue;
        }
        let influenced = was_influenced(store, &root.root, &head).await?;
        edits.push(NewFileChange {
            change: FileChange {
                root: root.root.key.clone(),
                path: step.path.clone(),
                moved_to: None,
                before: head.revision,
                after: revision,
                trust: Trust::Outside,
            },
            before: None,
            after: now.and_then(FileSnapshot::content_bytes),
            influenced,
        });
    }
    record_external(store, roots, edits).await
}

/// Tells whether the text that was recorded last was influenced: whoever touched it outside has not reviewed it.
pub(crate) async fn was_influenced(
    store: &Store,
    root: &Root,
    head: &Head,
) -> Result<bool, StoreError> {
    let Some(revision) = head.revision.filter(|_| head.trust <= Trust::Background) else {
        return Ok(false);
    };
    Ok(store.state.influenced_revisions(&root.key.identity).await?.contains_key(&revision))
}

/// Records edits made outside as one change.
pub(crate) async fn record_external(
    store: &Store,
    roots: &mut [LockedRoot],
    edits: Vec<NewFileChange>,
) -> Result<(), StoreError> {
    if edits.is_empty() {
        return Ok(());
    }
    let what = AlreadyAppliedChange::new(ChangeKind::Outside, Provenance::outside());
    record_already_applied(store, roots, what, edits).await?;
    Ok(())
}

/// What a change says of itself whose files are as it says already.
pub(crate) struct AlreadyAppliedChange {
    pub(crate) kind: ChangeKind,
    pub(crate) provenance: Provenance,
    pub(crate) accepts: Option<ProposalId>,
    pub(crate) undoes: Option<ChangeId>,
}

impl AlreadyAppliedChange {
    pub(crate) const fn new(kind: ChangeKind, provenance: Provenance) -> Self {
        Self { kind, provenance, accepts: None, undoes: None }
    }
}

/// Records a change of files that are as it says already, so that it is settled at once.
pub(crate) async fn record_already_applied(
    store: &Store,
    roots: &mut [LockedRoot],
    AlreadyAppliedChange { kind, provenance, accepts, undoes }: AlreadyAppliedChange,
    files: Vec<NewFileChange>,
) -> Result<ChangeId, StoreError> {
    // Counted as a write, although no file is written: other processes learn from the count that
    // there is something recorded that they have not seen.
    for root in roots.iter_mut() {
        root.lock.begin().map_err(StoreError::backend_error(root.root.mount))?;
    }
    let changes: Vec<_> = files.iter().map(|file| file.change.clone()).collect();
    let change = NewChange {
        at: store.clock.now(),
        kind,
        provenance: provenance.clone(),
        attempt: None,
        accepts,
        undoes,
        folder: None,
        files,
        uses: Vec::new(),
    };
    let id = store.state.record(change).await?;
    store.state.mark_durable(&[id]).await?;
    for root in roots.iter_mut() {
        root.lock.end(Some(id)).map_err(StoreError::backend_error(root.root.mount))?;
        let own = changes.iter().filter(|change| change.root == root.root.key);
        root.update_heads(own.flat_map(|change| heads_after(change, id)));
    }
    store.publish_change(id, kind, &provenance, &changes);
    Ok(id)
}
