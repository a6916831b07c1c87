//! Commits one change: records it in the state and puts its files in place.
//!
//! The order of steps makes a commit crash-safe. It marks the start of the write in the lock file.
//! It makes the new bytes durable in the state (the redo record) while they are staged beside their
//! paths. It puts them in place, and then marks the end of the write. A crash at any point leaves
//! either no effect, or a record that the next holder of the root carries out (see `recovery`).
//!
//! Making the files themselves durable is left to `checkpoint`. Deciding on the change is the work
//! of `draft` and `history`.

use std::sync::Arc;

use memory::change::{Actor, ChangeId, ChangeKind, FileChange, FolderChange, Provenance, Trust};
use memory::clock::Timestamp;
use memory::document::Revision;
use memory::path::{Mount, RelativePath};
use memory::proposal::ProposalId;
use state::{Head, LockHold, NewChange, NewFileChange, UseEvent};

use crate::backend::{Backend, BackendError, Expect, FileKind, Staged, Stamp};
use crate::caller::OutsideReadFlag;
use crate::error::StoreError;
use crate::root::Root;
use crate::root_lock::LockedRoot;
use crate::store::Store;

/// A file as it was when the change was decided.
#[derive(Clone, Debug)]
pub(crate) struct FileSnapshot {
    pub(crate) stamp: Stamp,
    pub(crate) bytes: u64,
    /// Its bytes and their digest; `None` if it is too large for history.
    pub(crate) content: Option<(Arc<[u8]>, Revision)>,
}

impl FileSnapshot {
    /// Converts a read. A read that is not the whole file has no content.
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

/// The operation on one file.
#[derive(Clone, Debug)]
pub(crate) enum FileOp {
    Write {
        /// The file that is replaced; `None` if there is none.
        before: Option<FileSnapshot>,
        after: Arc<[u8]>,
    },
    Remove {
        before: FileSnapshot,
    },
    Move {
        to: RelativePath,
        before: FileSnapshot,
    },
}

/// One step of a change: an operation on one file.
#[derive(Clone, Debug)]
pub(crate) struct FileStep {
    /// Index of its root among the locked roots.
    pub(crate) root: usize,
    pub(crate) path: RelativePath,
    pub(crate) op: FileOp,
    /// Trust of the text afterwards, where it does not follow from the writer.
    pub(crate) trust: Option<Trust>,
    /// Origin of a text that was written elsewhere before.
    pub(crate) origin: Option<TextOrigin>,
}

/// Facts about a text that was written before, in another home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextOrigin {
    /// Its trust; the trust of the writer is the upper bound.
    pub trust: Trust,
    /// Whether it waits for a review by a person, as [`Memories::pending_reviews`](crate::Memories::pending_reviews) returns it.
    pub needs_review: bool,
    /// Its modification time.
    pub modified_at: Option<Timestamp>,
}

/// A folder that is removed or moved as a whole; the steps list the effects on each memory.
#[derive(Clone, Debug)]
pub(crate) struct FolderStep {
    pub(crate) root: usize,
    pub(crate) path: RelativePath,
    pub(crate) to: Option<RelativePath>,
}

/// A change that has been decided and is not carried out yet.
#[derive(Clone, Debug)]
pub(crate) struct CommitPlan {
    pub(crate) kind: ChangeKind,
    pub(crate) provenance: Provenance,
    /// Flag: the writer's session has read text that no person on this host reviewed.
    pub(crate) outside_read: OutsideReadFlag,
    /// The attempt at its task that makes the change, if that matters.
    pub(crate) attempt: Option<u32>,
    pub(crate) accepts: Option<ProposalId>,
    pub(crate) undoes: Option<ChangeId>,
    pub(crate) folder: Option<FolderStep>,
    pub(crate) steps: Vec<FileStep>,
    /// Whether the write counts as a use of the memories.
    pub(crate) counts_as_use: bool,
}

/// Reason why a commit failed.
#[derive(Debug)]
pub(crate) enum CommitError {
    /// An external edit changed a file after it was read: read again and decide again.
    Raced,
    Store(StoreError),
}

impl From<StoreError> for CommitError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl CommitError {
    /// Converts the error of a failed publish.
    fn from_publish_error(mount: Mount, error: BackendError) -> Self {
        match error {
            BackendError::Changed | BackendError::Occupied | BackendError::NotFound => Self::Raced,
            error => StoreError::backend_error(mount)(error).into(),
        }
    }
}

/// Commits a change in locked roots: all of it or nothing.
pub(crate) async fn commit(
    store: &Store,
    roots: &mut [LockedRoot],
    mut plan: CommitPlan,
) -> Result<ChangeId, CommitError> {
    // A file may replace a folder, or a folder a file. Removals come first, so that they make room.
    let is_new = |step: &FileStep| matches!(step.op, FileOp::Write { before: None, .. });
    plan.steps.sort_by_key(|step| (step.root, is_new(step)));
    if plan.steps.iter().any(|step| !matches!(step.op, FileOp::Write { .. })) {
        // Buffered uses belong to the paths before the change.
        store.flush_uses().await;
    }
    record_external_edits_of_steps(store, roots, &plan.steps).await?;
    for root in roots.iter_mut() {
        root.root.record_checkout();
        root.lock.begin().await.map_err(StoreError::backend_error(root.root.mount))?;
    }
    let trusts = review_trust(store, roots, &plan).await?;
    let change = new_change(store, roots, &plan, &trusts);
    let file_changes = change.files.clone();
    // A failed record may still have become durable. Its root stays marked as interrupted, so the next holder
    // checks.
    // The record is first in the join: while the state's thread writes it, this task stages the bytes.
    let (recorded, staged) =
        tokio::join!(store.state.record(change), stage_all(roots, &plan.steps));
    let id = recorded.map_err(StoreError::from)?;
    let published = match staged {
        Ok(staged) => publish_all(roots, &plan, staged).await,
        Err(error) => Err(PublishFailure { error, is_rolled_back: true }),
    };
    if let Err(failure) = published {
        return Err(abort(store, roots, id, &plan.steps, failure).await);
    }
    for root in roots.iter_mut() {
        root.lock.end(Some(id)).await.map_err(StoreError::backend_error(root.root.mount))?;
    }
    update_cache(store, roots, &plan, id, &file_changes);
    Ok(id)
}

/// A failure to put all files in place.
struct PublishFailure {
    error: CommitError,
    /// Whether the files are back as they were.
    is_rolled_back: bool,
}

/// Aborts the record of a failed change, if the files are as before. Otherwise the next holder of the roots carries
/// the change out.
async fn abort(
    store: &Store,
    roots: &mut [LockedRoot],
    id: ChangeId,
    steps: &[FileStep],
    failure: PublishFailure,
) -> CommitError {
    if !failure.is_rolled_back {
        tracing::warn!(change = %id, "a commit failed half-way; recovery completes it at the next write");
        return failure.error;
    }
    // Without the record, recovery could not repair the restored bytes after a power cut.
    for root in roots.iter() {
        let paths: Vec<_> = paths_in(steps, roots, root);
        if let Err(error) = root.root.backend.sync(&paths).await {
            tracing::warn!(change = %id, %error, "sync of restored memories failed");
        }
    }
    if let Err(error) = store.state.abort_change(id).await {
        tracing::warn!(change = %id, %error, "aborting the record of a failed change failed");
        return failure.error;
    }
    for root in roots.iter_mut() {
        if let Err(error) = root.lock.end(None).await {
            return StoreError::backend_error(root.root.mount)(error).into();
        }
    }
    failure.error
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

/// Checks whether a folder is at the path of a new file, or a file at one of its parents. An earlier step removes
/// it; until then, nothing can be staged beside the path.
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
    for (index, (step, staged)) in plan.steps.iter().zip(staged).enumerate() {
        if let Err(error) = publish(roots, step, staged).await {
            let touched = index + usize::from(is_outcome_unknown(&error));
            let roll_back_result = roll_back(roots, &plan.steps[..touched]).await;
            let error = CommitError::from_publish_error(roots[step.root].root.mount, error);
            return Err(PublishFailure { error, is_rolled_back: roll_back_result.is_ok() });
        }
    }
    Ok(())
}

/// Checks whether a step that failed with this error may still have been carried out.
fn is_outcome_unknown(error: &BackendError) -> bool {
    matches!(
        error,
        BackendError::Io { .. }
            | BackendError::Full(_)
            | BackendError::NotWritable(_)
            | BackendError::Unreachable(_)
            | BackendError::StateUnreachable(_)
    )
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
    let published = match &folder.to {
        Some(to) => root.backend.rename(&folder.path, to).await,
        None => root.backend.remove_folder(&folder.path, &stamps).await,
    };
    let Err(error) = published else { return Ok(()) };
    let is_rolled_back = !is_outcome_unknown(&error)
        || matches!(root.backend.kind(&folder.path).await, Ok(Some(FileKind::Folder)));
    Err(PublishFailure {
        error: CommitError::from_publish_error(root.mount, error),
        is_rolled_back,
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
            // An empty folder can be left at the path to which an undone rename returns the memory.
            Err(BackendError::Occupied) => {
                backend.remove_empty(to).await?;
                backend.rename(&step.path, to).await
            }
            renamed => renamed,
        },
    }
}

/// Puts files back as they were, last step first. Each file is checked, since the last step may not have happened.
async fn roll_back(roots: &[LockedRoot], done: &[FileStep]) -> Result<(), BackendError> {
    for step in done.iter().rev() {
        let backend = &roots[step.root].root.backend;
        match &step.op {
            FileOp::Write { before, after } => {
                let now = match backend.read(&step.path, after.len()).await {
                    Ok(now) if now.is_whole() && now.bytes[..] == after[..] => now,
                    // An external edit wrote or removed it since: that edit stays.
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

/// Removes the empty folder that was created for a file below a removed file.
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

/// Returns for each step whether its text waits for review, and its trust until then. Text waits if its writer had
/// read text that no person on this host reviewed, or if a background review wrote it.
async fn review_trust(
    store: &Store,
    roots: &[LockedRoot],
    plan: &CommitPlan,
) -> Result<Vec<Option<Trust>>, StoreError> {
    if sets_full_trust(plan.kind, &plan.provenance) {
        return Ok(vec![None; plan.steps.len()]);
    }
    // A new empty text carries nothing.
    let has_words = |step: &FileStep| matches!(&step.op, FileOp::Write { before, after } if before.is_some() || !after.is_empty());
    let writer_trust = match plan.provenance.actor {
        Actor::Person => None,
        _ if plan.outside_read.is_set().await? => Some(Trust::Outside),
        Actor::Review => Some(Trust::Background),
        Actor::Agent | Actor::Task | Actor::Dream | Actor::Outside => None,
    };
    let pending_origin = |step: &FileStep| {
        step.origin.filter(|origin| origin.needs_review).map(|origin| origin.trust)
    };
    let trust_of =
        |step: &FileStep| pending_origin(step).or(writer_trust).filter(|_| has_words(step));
    let mut trusts: Vec<Option<Trust>> = plan.steps.iter().map(trust_of).collect();
    let is_undo = plan.kind == ChangeKind::Undo;
    let by_person = plan.provenance.actor == Actor::Person;
    for (index, root) in roots.iter().enumerate() {
        // Influenced text is recorded with a trust of at most `Background`, so other roots need no query.
        let may_be_influenced =
            |step: &FileStep| is_undo || root.trust(&step.path) <= Trust::Background;
        if !plan.steps.iter().any(|step| step.root == index && may_be_influenced(step)) {
            continue;
        }
        let influenced = store.state.influenced_revisions(&root.root.key.identity).await?;
        for (step, trusts) in plan.steps.iter().zip(&mut trusts) {
            let (before, after) = match &step.op {
                // A new text by a person comes wholly from that person.
                FileOp::Write { before: None, .. } if by_person && !is_undo => (None, None),
                FileOp::Write { before, after } => (
                    before.as_ref().and_then(FileSnapshot::revision),
                    Some(Revision::digest(after)),
                ),
                FileOp::Move { before, .. } => (None, before.revision()),
                FileOp::Remove { .. } => (None, None),
            };
            // An undo restores the earlier text and keeps nothing of the current one.
            let texts = [before.filter(|_| !is_undo), after];
            let is_influenced =
                |text: Option<Revision>| text.is_some_and(|text| influenced.contains_key(&text));
            if step.root == index && texts.into_iter().any(is_influenced) {
                let trust =
                    step.trust.filter(|_| is_undo).unwrap_or_else(|| root.trust(&step.path));
                let trust = if trust == Trust::Background { trust } else { Trust::Outside };
                *trusts = Some(trusts.map_or(trust, |now| now.min(trust)));
            }
        }
    }
    Ok(trusts)
}

fn new_change(
    store: &Store,
    roots: &[LockedRoot],
    plan: &CommitPlan,
    trusts: &[Option<Trust>],
) -> NewChange {
    let at = store.clock.now();
    let files = plan.steps.iter().zip(trusts);
    let files: Vec<_> =
        files.map(|(step, trusts)| new_file_change(roots, plan, step, *trusts)).collect();
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
        holds: holds(roots),
    }
}

/// Returns the locks of these roots that may be lost.
fn holds(roots: &[LockedRoot]) -> Vec<LockHold> {
    let hold = |root: &LockedRoot| {
        let fence = root.lock.fence()?;
        Some(LockHold { place: root.root.key.place.clone(), fence })
    };
    roots.iter().filter_map(hold).collect()
}

fn use_event(change: &FileChange, at: Timestamp) -> Option<UseEvent> {
    change.after?;
    let path = change.moved_to.as_ref().unwrap_or(&change.path).clone();
    Some(UseEvent { identity: change.root.identity.clone(), path, at, is_write: true })
}

/// Checks whether the text gets its writer's trust alone. Only a person who saves a whole text answers for all of
/// it.
pub(crate) fn sets_full_trust(kind: ChangeKind, provenance: &Provenance) -> bool {
    kind == ChangeKind::Save && provenance.actor == Actor::Person
}

fn new_file_change(
    roots: &[LockedRoot],
    plan: &CommitPlan,
    step: &FileStep,
    review_trust: Option<Trust>,
) -> NewFileChange {
    let influenced = review_trust.is_some();
    let provenance = &plan.provenance;
    let root = &roots[step.root];
    let trusted = root.trust(&step.path);
    let change = |moved_to, before, after, trust| FileChange {
        root: root.root.key.clone(),
        path: step.path.clone(),
        moved_to,
        before,
        after,
        trust: review_trust.unwrap_or_else(|| step.trust.unwrap_or(trust)),
    };
    match &step.op {
        FileOp::Write { before, after } => {
            // A writer that edits a text has the old text in view, so the trust is the lower of both.
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

/// Updates the cached heads after a commit and publishes the change.
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

/// Returns the heads that a change leaves at the paths that it touched.
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

/// Records external edits of these files since they were last recorded. History then has every version, and an undo
/// names the right writer.
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

/// Checks whether the recorded text was influenced by unreviewed text. An external edit does not count as a review.
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

/// Records external edits as one change.
pub(crate) async fn record_external(
    store: &Store,
    roots: &mut [LockedRoot],
    edits: Vec<NewFileChange>,
) -> Result<(), StoreError> {
    if edits.is_empty() {
        return Ok(());
    }
    let change = AlreadyAppliedChange::new(ChangeKind::Outside, Provenance::outside());
    record_already_applied(store, roots, change, edits).await?;
    Ok(())
}

/// A change whose files already have their final content.
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

/// Records a change whose files already have their final content, and marks it durable at once.
pub(crate) async fn record_already_applied(
    store: &Store,
    roots: &mut [LockedRoot],
    AlreadyAppliedChange { kind, provenance, accepts, undoes }: AlreadyAppliedChange,
    files: Vec<NewFileChange>,
) -> Result<ChangeId, StoreError> {
    // The generation rises although no file is written, so that other processes load the new record.
    for root in roots.iter_mut() {
        root.lock.begin().await.map_err(StoreError::backend_error(root.root.mount))?;
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
        holds: holds(roots),
    };
    let id = store.state.record(change).await?;
    store.state.mark_durable(&[id]).await?;
    for root in roots.iter_mut() {
        root.lock.end(Some(id)).await.map_err(StoreError::backend_error(root.root.mount))?;
        let own = changes.iter().filter(|change| change.root == root.root.key);
        root.update_heads(own.flat_map(|change| heads_after(change, id)));
    }
    store.publish_change(id, kind, &provenance, &changes);
    Ok(id)
}
