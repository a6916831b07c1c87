//! History: what changed, how, and taking it back.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use memory::change::{
    Actor, ChangeId, ChangeKind, FileChange, MemoryChange, RootKey, Trust, unified_diff,
};
use memory::clock::Timestamp;
use memory::command::edit;
use memory::command::{CommandError, Warning};
use memory::document::Revision;
use memory::path::{MemoryPath, Mount, RelativePath, Scope};
use memory::screen::{ScreenFinding, TextAuthor};
use state::ChangeQuery;

use crate::backend::{BackendError, Extent, FileKind};
use crate::caller::CallContext;
use crate::checks::{kind_at, obstacle, virtual_path};
use crate::commit::{self, CommitError, CommitPlan, FileOp, FileSnapshot, FileStep, FolderStep};
use crate::error::{StoreError, UndoConflict};
use crate::memories::Memories;
use crate::root::Root;
use crate::root_lock::LockedRoot;

/// How many changes are looked through at once for a revision.
pub(crate) const CHANGES_AT_ONCE: usize = 1_000;

/// Which changes to return.
#[derive(Clone, Debug, Default)]
pub struct ChangesQuery {
    /// Only those of this memory, or of anything in this folder or scope.
    pub path: Option<MemoryPath>,
    /// Only those of this task.
    pub task: Option<String>,
    /// Only those of this session of a host.
    pub session: Option<String>,
    /// Only those by this one.
    pub actor: Option<Actor>,
    /// Only those at or after this time.
    pub since: Option<Timestamp>,
    /// Only those at or before this time.
    pub until: Option<Timestamp>,
    /// Only those before this one: the cursor.
    pub before: Option<ChangeId>,
    /// At most so many.
    pub max: usize,
}

/// What to take back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UndoTarget {
    /// One change.
    Change(ChangeId),
    /// These changes, as one.
    Changes(Vec<ChangeId>),
    /// All changes of a task, as one.
    Task(String),
    /// All changes of a session of a host, as one.
    Session(String),
    /// All changes of a stretch of time, as one.
    Span {
        /// From this time on.
        since: Timestamp,
        /// Until this time.
        until: Timestamp,
    },
}

/// What an undo did, or would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndoReport {
    /// The change that takes the others back; `None` when it was only looked at.
    pub change: Option<ChangeId>,
    /// The changes taken back, newest first.
    pub undone: Vec<ChangeId>,
    /// The memories that it touches.
    pub paths: Vec<MemoryPath>,
    /// What screening says of the text that comes back.
    pub warnings: Vec<Warning>,
    /// Changes of the task to memories that are not open here, which stay as they are, newest first.
    pub elsewhere: Vec<ChangeInOtherRoot>,
}

/// A change to memories that are not open here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeInOtherRoot {
    /// The change.
    pub change: ChangeId,
    /// Whose memories those are.
    pub identity: String,
}

/// What a change did to one memory, as texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDiff {
    /// The memory.
    pub path: MemoryPath,
    /// Where it went, if it was renamed.
    pub moved_to: Option<MemoryPath>,
    /// Its text before; `None` if there was none, or history no longer has it.
    pub before: Option<String>,
    /// Its text after; `None` if there is none, or history no longer has it.
    pub after: Option<String>,
    /// The difference.
    pub unified: String,
    /// Whether history still has both sides.
    pub is_complete: bool,
}

/// Whether an undo happens or is only shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRun {
    /// It happens.
    No,
    /// It is only worked out.
    Yes,
}

impl Memories {
    fn places(&self) -> Vec<String> {
        self.open_roots().map(|root| root.key.place.clone()).collect()
    }

    /// Returns the virtual path of a memory in history, if its root is mounted here.
    pub fn virtual_path(&self, root: &RootKey, path: &RelativePath) -> Option<MemoryPath> {
        let bound = self.mounts.iter().find(|bound| {
            bound.root.as_ref().is_ok_and(|mounted| mounted.key.place == root.place)
        })?;
        MemoryPath::inside(bound.mount, path.clone()).ok()
    }

    /// Returns what a change did to the memory that lay at this path after it.
    pub fn file_change_at<'a>(
        &self,
        change: &'a MemoryChange,
        path: &MemoryPath,
    ) -> Option<&'a FileChange> {
        let (place, relative) = (&self.root(path.mount()?).ok()?.key.place, path.relative()?);
        change.files.iter().rfind(|file| {
            file.root.place == *place && file.moved_to.as_ref().unwrap_or(&file.path) == relative
        })
    }

    /// Returns the virtual path that a memory of another worktree of this project would have here: the project
    /// is the same, and its folder is another.
    pub fn sibling_path(&self, root: &RootKey, path: &RelativePath) -> Option<MemoryPath> {
        let ours = self.project_key()?;
        let is_sibling = ours.identity == root.identity && ours.place != root.place;
        let mount = Mount::Scope(Scope::Project);
        is_sibling.then(|| MemoryPath::inside(mount, path.clone()).ok()).flatten()
    }

    /// Tells whether other memories are those of another worktree of this project.
    pub fn is_sibling_of(&self, other: &Self) -> bool {
        let (Some(ours), Some(theirs)) = (self.project_key(), other.project_key()) else {
            return false;
        };
        ours.identity == theirs.identity && ours.place != theirs.place
    }

    fn project_key(&self) -> Option<&RootKey> {
        let project = self.mounts.iter().find(|one| one.mount == Mount::Scope(Scope::Project));
        project?.root.as_ref().ok().map(|root| &root.key)
    }

    /// Returns changes of these memories, newest first. What was changed outside of Lukasa is noticed
    /// and recorded before.
    pub async fn changes(&self, query: &ChangesQuery) -> Result<Vec<MemoryChange>, StoreError> {
        self.record_external_edits().await?;
        self.recorded_changes(query).await
    }

    /// Returns what to ask the state for; no places when no root is mounted.
    pub(crate) fn state_query(&self, query: &ChangesQuery) -> Result<ChangeQuery, StoreError> {
        let (places, path) = match &query.path {
            None | Some(MemoryPath::Top) => (self.places(), None),
            Some(path) => match path.mount() {
                None => (self.places(), None),
                Some(mount) => {
                    (vec![self.root(mount)?.key.place.clone()], path.relative().cloned())
                }
            },
        };
        Ok(ChangeQuery {
            places,
            path,
            task: query.task.clone(),
            session: query.session.clone(),
            actor: query.actor,
            since: query.since,
            until: query.until,
            before: query.before,
            after: None,
            max: query.max,
        })
    }

    /// Returns one change, if it touched a memory that this caller may see.
    pub async fn change(&self, id: ChangeId) -> Result<MemoryChange, StoreError> {
        let change = self.store.state.change(id).await?.ok_or(StoreError::NoSuchChange(id))?;
        let places = self.places();
        let seen = change.files.iter().any(|file| places.contains(&file.root.place))
            || change.folder.as_ref().is_some_and(|folder| places.contains(&folder.root.place));
        if seen { Ok(change) } else { Err(StoreError::NoSuchChange(id)) }
    }

    /// Returns the bytes of an earlier revision of one of these memories, while history keeps them.
    /// What only memories that are not mounted here ever held is as if it were not kept.
    pub async fn content(&self, revision: &Revision) -> Result<Option<Vec<u8>>, StoreError> {
        if !self.has_revision(revision).await? {
            return Ok(None);
        }
        Ok(self.store.state.content(revision).await?)
    }

    /// Returns whether a memory that is mounted here ever was at this revision.
    async fn has_revision(&self, revision: &Revision) -> Result<bool, StoreError> {
        let places = self.places();
        if places.is_empty() {
            return Ok(false);
        }
        let mut query = ChangeQuery { places, max: CHANGES_AT_ONCE, ..ChangeQuery::default() };
        loop {
            let changes = self.store.state.changes(&query).await?;
            let mut files = changes.iter().flat_map(|change| &change.files);
            if files.any(|file| {
                query.places.contains(&file.root.place)
                    && [file.before, file.after].contains(&Some(*revision))
            }) {
                return Ok(true);
            }
            match changes.last() {
                Some(oldest) if changes.len() == CHANGES_AT_ONCE => query.before = Some(oldest.id),
                _ => return Ok(false),
            }
        }
    }

    /// Returns what a change did to each memory that is mounted here.
    pub async fn diffs(&self, change: &MemoryChange) -> Result<Vec<FileDiff>, StoreError> {
        let mut diffs = Vec::with_capacity(change.files.len());
        for file in &change.files {
            let Some(path) = self.virtual_path(&file.root, &file.path) else { continue };
            let moved_to = file.moved_to.as_ref().and_then(|to| self.virtual_path(&file.root, to));
            let (before, had_before) = self.text(file.before.as_ref()).await?;
            let (after, had_after) = self.text(file.after.as_ref()).await?;
            let new_name = moved_to.as_ref().unwrap_or(&path).to_string();
            let unified = unified_diff(
                (&path.to_string(), before.as_deref().unwrap_or_default()),
                (&new_name, after.as_deref().unwrap_or_default()),
            );
            let kept = had_before && had_after;
            let unified = if kept { unified } else { String::new() };
            diffs.push(FileDiff { path, moved_to, before, after, unified, is_complete: kept });
        }
        Ok(diffs)
    }

    /// Returns the text of a revision, and whether history has it (having nothing to have counts).
    pub(crate) async fn text(
        &self,
        revision: Option<&Revision>,
    ) -> Result<(Option<String>, bool), StoreError> {
        let Some(revision) = revision else { return Ok((None, true)) };
        let bytes = self.store.state.content(revision).await?;
        let kept = bytes.is_some();
        Ok((bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()), kept))
    }

    /// Takes changes back as one new change, or says what it would do. Refuses as a whole, with the
    /// differences, when any of the memories changed since.
    pub async fn undo(
        &self,
        target: &UndoTarget,
        dry: DryRun,
        call: &CallContext,
    ) -> Result<UndoReport, StoreError> {
        let changes = self.resolve_undo_target(target).await?;
        if changes.iter().all(|change| change.kind == ChangeKind::Accept) {
            let (paths, change) = self.undo_accept(&changes, dry, call).await?;
            if paths.is_empty() {
                let what = "that is not as it was already".to_owned();
                return Err(StoreError::NothingToUndo(what));
            }
            let undone = changes.iter().map(|change| change.id).collect();
            let left = self.changes_in_other_roots(target).await?;
            return Ok(UndoReport { change, undone, paths, warnings: Vec::new(), elsewhere: left });
        }
        let wanted = self.restore_targets(&changes).await?;
        let is_wanted = |root: &Root| wanted.keys().any(|(place, _)| *place == root.key.place);
        let mut held = self.lock_all(is_wanted).await?;
        let steps = self.undo_steps(&held, &wanted).await?;
        if steps.is_empty() {
            return Err(StoreError::NothingToUndo("that is not as it was already".to_owned()));
        }
        let paths = steps.iter().filter_map(|step| path_of(&held, step)).collect();
        let steps = join_moves(steps, &changes, &held);
        let warnings = self.screen_restored(&held, &steps)?;
        let plan = CommitPlan {
            kind: ChangeKind::Undo,
            provenance: self.provenance(call),
            outside_read: self.caller.outside_read.clone(),
            attempt: call.attempt,
            accepts: None,
            undoes: changes.first().map(|change| change.id),
            folder: undo_folder_rename(&changes, &held, &steps).await?,
            steps,
            counts_as_use: false,
        };
        self.check_plan(&held, &plan).await?;
        let mut undone = UndoReport {
            change: None,
            undone: changes.iter().map(|change| change.id).collect(),
            paths,
            warnings,
            elsewhere: self.changes_in_other_roots(target).await?,
        };
        if dry == DryRun::Yes {
            return Ok(undone);
        }
        match commit::commit(&self.store, &mut held, plan).await {
            Ok(id) => {
                drop(held);
                self.store.schedule_checkpoint().await;
                undone.change = Some(id);
                Ok(undone)
            }
            // It changed between the look and the write: looking again says how.
            Err(CommitError::Raced) => Err(StoreError::UndoBlocked(
                undone
                    .paths
                    .into_iter()
                    .map(|path| UndoConflict {
                        path,
                        reason: "it was changed at this very moment; try again".to_owned(),
                        diff: String::new(),
                    })
                    .collect(),
            )),
            Err(CommitError::Store(error)) => Err(error),
        }
    }

    /// Works out the steps that make each memory what it was, or what keeps that from happening.
    async fn undo_steps(
        &self,
        held: &[LockedRoot],
        wanted: &BTreeMap<(String, RelativePath), RestoreTarget>,
    ) -> Result<Vec<FileStep>, StoreError> {
        let mut blocked = Vec::new();
        let mut steps = Vec::new();
        for ((place, path), wanted) in wanted {
            let Some(index) = held.iter().position(|held| held.root.key.place == *place) else {
                continue;
            };
            match self.undo_step(&held[index], path, wanted).await? {
                Restoration::Write(what) => {
                    let (path, trust) = (path.clone(), wanted.trust);
                    steps.push(FileStep { root: index, path, op: what, trust, origin: None });
                }
                Restoration::Nothing => {}
                Restoration::Blocked(block) => blocked.push(block),
            }
        }
        for (index, root) in held.iter().enumerate() {
            let own: Vec<_> = steps.iter().filter(|step| step.root == index).collect();
            blocked.extend(find_conflicts(root, &own).await?);
        }
        if !blocked.is_empty() {
            return Err(StoreError::UndoBlocked(blocked));
        }
        Ok(steps)
    }

    /// Screens what comes back. A person may have back what was there, and is warned; anybody else
    /// brings in only what they could have written.
    fn screen_restored(
        &self,
        held: &[LockedRoot],
        steps: &[FileStep],
    ) -> Result<Vec<Warning>, CommandError> {
        let mut warnings = Vec::new();
        for step in steps {
            let mount = held[step.root].root.mount;
            let (path, before, after) = match &step.op {
                FileOp::Write { before, after } => (&step.path, before.as_ref(), &after[..]),
                FileOp::Move { to, .. } => (to, None, &[][..]),
                FileOp::Remove { .. } => continue,
            };
            let path = virtual_path(mount, path.clone())?;
            let before = before.and_then(|before| before.content.as_ref());
            let before = before.map(|(bytes, _)| String::from_utf8_lossy(bytes));
            let after = String::from_utf8_lossy(after);
            if self.writer() == TextAuthor::Person {
                let findings = self.findings(&path, before.as_deref(), &after).into_iter();
                let warning =
                    |(one, _): (ScreenFinding, _)| Warning { rule: one.rule, line: one.line };
                warnings.extend(findings.map(warning));
            } else {
                edit::check_writable(&path, &after)?;
                warnings.extend(self.screen(&path, before.as_deref(), &after)?);
            }
        }
        Ok(warnings)
    }

    /// Returns what a task did to memories that are not open here. That there are such is told to a
    /// person alone.
    async fn changes_in_other_roots(
        &self,
        target: &UndoTarget,
    ) -> Result<Vec<ChangeInOtherRoot>, StoreError> {
        let UndoTarget::Task(task) = target else { return Ok(Vec::new()) };
        if self.caller.provenance.actor != Actor::Person {
            return Ok(Vec::new());
        }
        let everywhere =
            ChangeQuery { task: Some(task.clone()), max: usize::MAX, ..ChangeQuery::default() };
        let places = self.places();
        let mut left = Vec::new();
        for change in self.store.state.changes(&everywhere).await? {
            let roots = change.files.iter().map(|file| &file.root);
            let folder = change.folder.iter().map(|folder| &folder.root);
            let away = roots.chain(folder).find(|root| !places.contains(&root.place));
            left.extend(away.map(|root| ChangeInOtherRoot {
                change: change.id,
                identity: root.identity.clone(),
            }));
        }
        Ok(left)
    }

    /// Returns the changes to take back, newest first.
    async fn resolve_undo_target(
        &self,
        target: &UndoTarget,
    ) -> Result<Vec<MemoryChange>, StoreError> {
        let mut query = ChangesQuery { max: usize::MAX, ..ChangesQuery::default() };
        match target {
            UndoTarget::Change(id) => return Ok(vec![self.change(*id).await?]),
            UndoTarget::Changes(ids) => {
                let ids: BTreeSet<_> = ids.iter().collect();
                let mut changes = Vec::with_capacity(ids.len());
                for id in ids.into_iter().rev() {
                    changes.push(self.change(*id).await?);
                }
                if changes.is_empty() {
                    return Err(StoreError::NothingToUndo("no change is named".to_owned()));
                }
                return Ok(changes);
            }
            UndoTarget::Task(task) => query.task = Some(task.clone()),
            UndoTarget::Session(session) => query.session = Some(session.clone()),
            UndoTarget::Span { since, until } => {
                (query.since, query.until) = (Some(*since), Some(*until));
            }
        }
        let mut changes = self.recorded_changes(&query).await?;
        if matches!(target, UndoTarget::Span { .. }) {
            // A stretch of time is about what was done through Lukasa; an editor's work stays.
            changes.retain(|change| change.provenance.actor != Actor::Outside);
        }
        if changes.is_empty() {
            let left = self.changes_in_other_roots(target).await?;
            let what = match target {
                UndoTarget::Task(task) if !left.is_empty() => {
                    let mut whose: Vec<_> = left.iter().map(|one| one.identity.as_str()).collect();
                    whose.sort_unstable();
                    whose.dedup();
                    format!(
                        "here in the task {task}; what it changed belongs to {}: undo it there",
                        whose.join(", ")
                    )
                }
                UndoTarget::Task(task) => format!("in the task {task}"),
                UndoTarget::Session(session) => format!("in the session {session}"),
                UndoTarget::Change(_) | UndoTarget::Changes(_) | UndoTarget::Span { .. } => {
                    "in that stretch of time".to_owned()
                }
            };
            return Err(StoreError::NothingToUndo(what));
        }
        Ok(changes)
    }

    /// Folds changes, newest first, into what each memory has to be now and has to become.
    async fn restore_targets(
        &self,
        changes: &[MemoryChange],
    ) -> Result<BTreeMap<(String, RelativePath), RestoreTarget>, StoreError> {
        let mut wanted: BTreeMap<(String, RelativePath), RestoreTarget> = BTreeMap::new();
        let mut take = |(file, trust): (&FileChange, Trust), path: &RelativePath, now, then| {
            let key = (file.root.place.clone(), path.clone());
            let wanted = match wanted.entry(key) {
                Entry::Vacant(new) => {
                    new.insert(RestoreTarget { expected: now, ..RestoreTarget::default() })
                }
                Entry::Occupied(known) => {
                    let known = known.into_mut();
                    // Older changes come later here: what this one left is what the newer one found,
                    // or somebody changed it in between.
                    if known.restored != now && known.gap.is_none() {
                        known.gap = Some((now, known.restored));
                    }
                    known
                }
            };
            wanted.restored = then;
            wanted.trust = Some(trust);
        };
        for change in changes {
            let is_all = commit::sets_full_trust(change.kind, &change.provenance);
            for file in change.files.iter().rev() {
                let path = self
                    .virtual_path(&file.root, &file.path)
                    .ok_or(StoreError::UndoElsewhere(change.id))?;
                self.check_writable(&path)?;
                // Of a text that history does not know any more: it was trusted no less than one that was made of it.
                let trust = if is_all { Trust::Outside } else { file.trust };
                let mut take = |path, now, then| take((file, trust), path, now, then);
                match &file.moved_to {
                    Some(to) => {
                        take(to, file.after, None);
                        take(&file.path, None, file.before);
                    }
                    None => take(&file.path, file.after, file.before),
                }
            }
        }
        // The text that comes back has the trust that it had, and not that of the one which took its place.
        for root in self.open_roots() {
            let here = wanted.iter_mut().filter(|((place, _), _)| *place == root.key.place);
            let mut here: Vec<_> = here.filter_map(|(_, one)| Some((one.restored?, one))).collect();
            if here.is_empty() {
                continue;
            }
            let recorded = self.store.state.recorded_revisions(&root.key.identity).await?;
            for (then, wanted) in &mut here {
                wanted.trust = recorded.get(then).copied().or(wanted.trust);
            }
        }
        Ok(wanted)
    }

    /// Works out how one memory becomes what it was.
    async fn undo_step(
        &self,
        held: &LockedRoot,
        path: &RelativePath,
        wanted: &RestoreTarget,
    ) -> Result<Restoration, StoreError> {
        let shown = virtual_path(held.root.mount, path.clone())?;
        if let Some((left, found)) = &wanted.gap {
            let (left, _) = self.text(left.as_ref()).await?;
            let (found, _) = self.text(found.as_ref()).await?;
            let diff = unified_diff(
                (&format!("{shown} as one change left it"), left.as_deref().unwrap_or_default()),
                (&format!("{shown} as the next found it"), found.as_deref().unwrap_or_default()),
            );
            let why = "somebody else changed it in between".to_owned();
            return Ok(Restoration::Blocked(UndoConflict { path: shown, reason: why, diff }));
        }
        let max = memory::limits::HISTORY_FILE_BYTES_MAX;
        let now = match held.root.backend.read(path, max).await {
            Ok(read) => Some(FileSnapshot::from_read(read)),
            Err(BackendError::NotFound) => None,
            // A folder in its place, or a file in that of a folder on the way: it itself is gone.
            Err(BackendError::WrongKind)
                if wanted.expected.is_none()
                    && matches!(
                        kind_at(&held.root, &shown, path).await?,
                        None | Some(FileKind::Folder)
                    ) =>
            {
                None
            }
            Err(error) => {
                let why = format!("it cannot be read: {error}");
                let blocked = UndoConflict { path: shown, reason: why, diff: String::new() };
                return Ok(Restoration::Blocked(blocked));
            }
        };
        let revision = now.as_ref().and_then(FileSnapshot::revision);
        if now.is_some() == wanted.expected.is_some() && revision == wanted.expected {
            return self.restore(shown, now, wanted).await;
        }
        let (left, _) = self.text(wanted.expected.as_ref()).await?;
        let found = now.and_then(|now| now.content);
        let found = found.map(|(bytes, _)| String::from_utf8_lossy(&bytes).into_owned());
        let why = match (&left, &found) {
            (_, None) => "it is gone",
            (None, Some(_)) => "something is there again",
            (Some(_), Some(_)) => "it was changed since",
        };
        let diff = unified_diff(
            (&format!("{shown} as the change left it"), left.as_deref().unwrap_or_default()),
            (&format!("{shown} as it is"), found.as_deref().unwrap_or_default()),
        );
        Ok(Restoration::Blocked(UndoConflict { path: shown, reason: why.to_owned(), diff }))
    }

    async fn restore(
        &self,
        shown: MemoryPath,
        now: Option<FileSnapshot>,
        wanted: &RestoreTarget,
    ) -> Result<Restoration, StoreError> {
        match (now, &wanted.restored) {
            (None, None) => Ok(Restoration::Nothing),
            (Some(before), None) => Ok(Restoration::Write(FileOp::Remove { before })),
            (now, Some(then)) => {
                if now.as_ref().and_then(FileSnapshot::revision) == Some(*then) {
                    return Ok(Restoration::Nothing);
                }
                let Some(bytes) = self.store.state.content(then).await? else {
                    let why = "history no longer keeps what it was".to_owned();
                    let blocked = UndoConflict { path: shown, reason: why, diff: String::new() };
                    return Ok(Restoration::Blocked(blocked));
                };
                Ok(Restoration::Write(FileOp::Write { before: now, after: Arc::from(bytes) }))
            }
        }
    }
}

/// The part of an undo for one memory.
enum Restoration {
    /// The memory is already as it was.
    Nothing,
    Write(FileOp),
    Blocked(UndoConflict),
}

/// What a memory has to be for an undo to happen, and what it then becomes.
#[derive(Debug, Default)]
struct RestoreTarget {
    expected: Option<Revision>,
    restored: Option<Revision>,
    /// What somebody made of it between two of the changes: from this to that.
    gap: Option<(Option<Revision>, Option<Revision>)>,
    trust: Option<memory::change::Trust>,
}

/// Returns whether one path lies in the other, so that there cannot be files at both.
fn is_nested(a: &RelativePath, b: &RelativePath) -> bool {
    a.is_within(b) || b.is_within(a)
}

/// Finds what would keep a file from coming back to its place and is not going away with this undo.
async fn find_conflicts(
    held: &LockedRoot,
    steps: &[&FileStep],
) -> Result<Vec<UndoConflict>, StoreError> {
    let root = &held.root;
    let removed = steps.iter().filter(|step| matches!(step.op, FileOp::Remove { .. }));
    let leaving: Vec<&RelativePath> = removed.map(|step| &step.path).collect();
    let mut blocked = Vec::new();
    for step in steps.iter().filter(|step| matches!(step.op, FileOp::Write { before: None, .. })) {
        if obstacle(root, &step.path, &leaving).await?.is_some() {
            let path = virtual_path(root.mount, step.path.clone())?;
            let why = "something else stands in its place: move that away first".to_owned();
            blocked.push(UndoConflict { path, reason: why, diff: String::new() });
        }
    }
    Ok(blocked)
}

fn path_of(held: &[LockedRoot], step: &FileStep) -> Option<MemoryPath> {
    MemoryPath::inside(held[step.root].root.mount, step.path.clone()).ok()
}

/// Turns the removal of a memory at one path and its return at another into the move that undoes a
/// rename, so that pins and usage go back with it.
fn join_moves(
    steps: Vec<FileStep>,
    changes: &[MemoryChange],
    held: &[LockedRoot],
) -> Vec<FileStep> {
    let mut steps: Vec<Option<FileStep>> = steps.into_iter().map(Some).collect();
    for file in changes.iter().flat_map(|change| &change.files) {
        let Some(to) = &file.moved_to else { continue };
        let at = |path: &RelativePath| {
            steps.iter().position(|step| {
                step.as_ref().is_some_and(|step| {
                    step.path == *path && held[step.root].root.key.place == file.root.place
                })
            })
        };
        let (Some(gone), Some(back)) = (at(to), at(&file.path)) else { continue };
        let nests = |step: &FileStep| step.path != file.path && is_nested(&step.path, &file.path);
        if steps.iter().flatten().any(nests) {
            // Something has to make room for it first, so it cannot go there in one step.
            continue;
        }
        let moved = match (&steps[gone], &steps[back]) {
            (
                Some(FileStep { root, path, op: FileOp::Remove { before }, .. }),
                Some(FileStep { op: FileOp::Write { before: None, after }, trust, .. }),
            ) if before.revision() == Some(Revision::digest(after)) => FileStep {
                root: *root,
                path: path.clone(),
                op: FileOp::Move { to: file.path.clone(), before: before.clone() },
                trust: *trust,
                origin: None,
            },
            _ => continue,
        };
        (steps[gone], steps[back]) = (Some(moved), None);
    }
    steps.into_iter().flatten().collect()
}

/// Returns the folder that an undone rename moves back as a whole, with whatever else lies in it;
/// `None` when memories were added to it since, which stay where they are.
async fn undo_folder_rename(
    changes: &[MemoryChange],
    held: &[LockedRoot],
    steps: &[FileStep],
) -> Result<Option<FolderStep>, StoreError> {
    let [MemoryChange { folder: Some(folder), .. }] = changes else { return Ok(None) };
    let Some(to) = &folder.moved_to else { return Ok(None) };
    let place = |held: &LockedRoot| held.root.key.place == folder.root.place;
    let Some(index) = held.iter().position(place) else { return Ok(None) };
    let root = &held[index].root;
    let at = StoreError::backend_error(root.mount);
    if root.backend.kind(&folder.path).await.map_err(&at)?.is_some() {
        return Ok(None);
    }
    let walk = root.backend.walk(Some(to), Extent::ALL).await.map_err(&at)?;
    let moves = |path: &RelativePath| {
        steps.iter().any(|step| step.path == *path && matches!(step.op, FileOp::Move { .. }))
    };
    let all = steps.len() == walk.files_total && walk.files.iter().all(|file| moves(&file.path));
    let folder = FolderStep { root: index, path: to.clone(), to: Some(folder.path.clone()) };
    Ok(all.then_some(folder))
}
