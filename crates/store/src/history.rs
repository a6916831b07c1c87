//! History: queries for changes, their diffs, and undo.
//!
//! Undo never rewrites history. It computes the content that each memory had before, checks that
//! nothing changed since, and commits the result as a new change. An undo of accepted proposals is
//! in `unreviewed`; retention is in `checkpoint`.

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

/// Reason of [`StoreError::NothingToUndo`] if no file would change.
const ALREADY_RESTORED: &str = "all memories already have their earlier content";

/// Number of changes in one page of the search for a revision.
pub(crate) const CHANGES_AT_ONCE: usize = 1_000;

/// Filters of a query for changes.
#[derive(Clone, Debug, Default)]
pub struct ChangesQuery {
    /// Only those of this memory, or of anything in this folder or scope.
    pub path: Option<MemoryPath>,
    /// Only those of this task.
    pub task: Option<String>,
    /// Only those of this session of a host.
    pub session: Option<String>,
    /// Only those by this actor.
    pub actor: Option<Actor>,
    /// Only those at or after this time.
    pub since: Option<Timestamp>,
    /// Only those at or before this time.
    pub until: Option<Timestamp>,
    /// Only those before this one: the cursor.
    pub before: Option<ChangeId>,
    /// Maximum number of changes to return.
    pub max: usize,
}

/// Target of an undo.
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
    /// All changes of a period, as one.
    Span {
        /// Start of the period.
        since: Timestamp,
        /// End of the period.
        until: Timestamp,
    },
}

/// Result of an undo or of its dry run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndoReport {
    /// The change that undoes the others; `None` for a dry run.
    pub change: Option<ChangeId>,
    /// The changes that are undone, newest first.
    pub undone: Vec<ChangeId>,
    /// The memories that the undo touches.
    pub paths: Vec<MemoryPath>,
    /// Warnings of screening about the restored text.
    pub warnings: Vec<Warning>,
    /// Changes of the task to memories that are not open here, newest first. They are not undone.
    pub elsewhere: Vec<ChangeInOtherRoot>,
}

/// A change to memories that are not open here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeInOtherRoot {
    /// The change.
    pub change: ChangeId,
    /// Identity of the root that they are in.
    pub identity: String,
}

/// Effect of a change on one memory, as texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDiff {
    /// The memory.
    pub path: MemoryPath,
    /// Its new path, if it was renamed.
    pub moved_to: Option<MemoryPath>,
    /// Its text before; `None` if there was none, or if history dropped it.
    pub before: Option<String>,
    /// Its text after; `None` if there is none, or if history dropped it.
    pub after: Option<String>,
    /// The unified diff; empty if it cannot be computed.
    pub unified: String,
    /// Whether history still has both sides.
    pub is_complete: bool,
}

/// Whether an undo is only computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRun {
    /// The undo is carried out.
    No,
    /// The undo is computed and nothing is written.
    Yes,
}

impl Memories {
    fn places(&self) -> Vec<String> {
        self.open_roots().map(|root| root.key.place.clone()).collect()
    }

    /// Returns the memory path of a file in history, if its root is mounted here.
    pub fn virtual_path(&self, root: &RootKey, path: &RelativePath) -> Option<MemoryPath> {
        let bound = self.mounts.iter().find(|bound| {
            bound.root.as_ref().is_ok_and(|mounted| mounted.key.place == root.place)
        })?;
        MemoryPath::inside(bound.mount, path.clone()).ok()
    }

    /// Returns the effect of a change on the memory that had this path after the change.
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

    /// Returns the memory path here of a file in another worktree of this project: a root with the same identity in
    /// another folder.
    pub fn sibling_path(&self, root: &RootKey, path: &RelativePath) -> Option<MemoryPath> {
        let ours = self.project_key()?;
        let is_sibling = ours.identity == root.identity && ours.place != root.place;
        let mount = Mount::Scope(Scope::Project);
        is_sibling.then(|| MemoryPath::inside(mount, path.clone()).ok()).flatten()
    }

    /// Checks whether the other memories belong to another worktree of this project.
    pub fn is_sibling_of(&self, other: &Self) -> bool {
        let (Some(ours), Some(theirs)) = (self.project_key(), other.project_key()) else {
            return false;
        };
        ours.identity == theirs.identity && ours.place != theirs.place
    }

    fn project_key(&self) -> Option<&RootKey> {
        let project = self.mounts.iter().find(|bound| bound.mount == Mount::Scope(Scope::Project));
        project?.root.as_ref().ok().map(|root| &root.key)
    }

    /// Returns changes of these memories, newest first. External edits are recorded first.
    pub async fn changes(&self, query: &ChangesQuery) -> Result<Vec<MemoryChange>, StoreError> {
        self.record_external_edits().await?;
        self.recorded_changes(query).await
    }

    /// Converts to a query of the state. It has no places if no root is mounted.
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

    /// Returns a change that touched memories of this caller. Any other one does not exist for this caller.
    pub async fn change(&self, id: ChangeId) -> Result<MemoryChange, StoreError> {
        let change = self.store.state.change(id).await?.ok_or(StoreError::NoSuchChange(id))?;
        let places = self.places();
        let is_visible = change.files.iter().any(|file| places.contains(&file.root.place))
            || change.folder.as_ref().is_some_and(|folder| places.contains(&folder.root.place));
        if is_visible { Ok(change) } else { Err(StoreError::NoSuchChange(id)) }
    }

    /// Returns the bytes of an earlier revision of one of these memories, while history keeps them. Returns `None` for
    /// a revision that only memories of other roots ever had.
    pub async fn content(&self, revision: &Revision) -> Result<Option<Vec<u8>>, StoreError> {
        if !self.has_revision(revision).await? {
            return Ok(None);
        }
        Ok(self.store.state.content(revision).await?)
    }

    /// Checks whether any memory of the mounted roots ever had this revision.
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

    /// Returns the effect of a change on each memory of the mounted roots.
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
            let is_complete = had_before && had_after;
            let unified = if is_complete { unified } else { String::new() };
            diffs.push(FileDiff { path, moved_to, before, after, unified, is_complete });
        }
        Ok(diffs)
    }

    /// Returns the text of a revision, and whether history has it; `true` without a revision.
    pub(crate) async fn text(
        &self,
        revision: Option<&Revision>,
    ) -> Result<(Option<String>, bool), StoreError> {
        let Some(revision) = revision else { return Ok((None, true)) };
        let bytes = self.store.state.content(revision).await?;
        let is_kept = bytes.is_some();
        Ok((bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()), is_kept))
    }

    /// Undoes changes by one new change, or computes that change only. If any of the memories changed since, nothing is
    /// undone and the error has the diffs.
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
                let reason = "no memory still has the accepted text".to_owned();
                return Err(StoreError::NothingToUndo(reason));
            }
            let undone = changes.iter().map(|change| change.id).collect();
            let elsewhere = self.changes_in_other_roots(target).await?;
            return Ok(UndoReport { change, undone, paths, warnings: Vec::new(), elsewhere });
        }
        let targets = self.restore_targets(&changes).await?;
        let is_affected = |root: &Root| targets.keys().any(|(place, _)| *place == root.key.place);
        let mut locked = self.lock_all(is_affected).await?;
        let steps = self.undo_steps(&locked, &targets).await?;
        if steps.is_empty() {
            return Err(StoreError::NothingToUndo(ALREADY_RESTORED.to_owned()));
        }
        let paths = steps.iter().filter_map(|step| path_of(&locked, step)).collect();
        let steps = join_moves(steps, &changes, &locked);
        let warnings = self.screen_restored(&locked, &steps)?;
        let plan = CommitPlan {
            kind: ChangeKind::Undo,
            provenance: self.provenance(call),
            outside_read: self.caller.outside_read.clone(),
            attempt: call.attempt,
            accepts: None,
            undoes: changes.first().map(|change| change.id),
            folder: undo_folder_rename(&changes, &locked, &steps).await?,
            steps,
            counts_as_use: false,
        };
        self.check_plan(&locked, &plan).await?;
        let mut report = UndoReport {
            change: None,
            undone: changes.iter().map(|change| change.id).collect(),
            paths,
            warnings,
            elsewhere: self.changes_in_other_roots(target).await?,
        };
        if dry == DryRun::Yes {
            return Ok(report);
        }
        match commit::commit(&self.store, &mut locked, plan).await {
            Ok(id) => {
                drop(locked);
                self.store.schedule_checkpoint().await;
                report.change = Some(id);
                Ok(report)
            }
            // A file changed between the check and the write. A second undo reports the difference.
            Err(CommitError::Raced) => Err(StoreError::UndoBlocked(
                report
                    .paths
                    .into_iter()
                    .map(|path| UndoConflict {
                        path,
                        reason: "it was changed during the undo; try again".to_owned(),
                        diff: String::new(),
                    })
                    .collect(),
            )),
            Err(CommitError::Store(error)) => Err(error),
        }
    }

    /// Computes the steps that restore each memory. Returns [`StoreError::UndoBlocked`] if any cannot be restored.
    async fn undo_steps(
        &self,
        locked: &[LockedRoot],
        targets: &BTreeMap<(String, RelativePath), RestoreTarget>,
    ) -> Result<Vec<FileStep>, StoreError> {
        let mut blocked = Vec::new();
        let mut steps = Vec::new();
        for ((place, path), target) in targets {
            let Some(index) = locked.iter().position(|locked| locked.root.key.place == *place)
            else {
                continue;
            };
            match self.undo_step(&locked[index], path, target).await? {
                Restoration::Write(op) => {
                    let (path, trust) = (path.clone(), target.trust);
                    steps.push(FileStep { root: index, path, op, trust, origin: None });
                }
                Restoration::Nothing => {}
                Restoration::Blocked(conflict) => blocked.push(conflict),
            }
        }
        for (index, root) in locked.iter().enumerate() {
            let own: Vec<_> = steps.iter().filter(|step| step.root == index).collect();
            blocked.extend(find_conflicts(root, &own).await?);
        }
        if !blocked.is_empty() {
            return Err(StoreError::UndoBlocked(blocked));
        }
        Ok(steps)
    }

    /// Screens restored text. A person may restore any earlier text and only gets warnings; other callers may restore
    /// only text that they could write now.
    fn screen_restored(
        &self,
        locked: &[LockedRoot],
        steps: &[FileStep],
    ) -> Result<Vec<Warning>, CommandError> {
        let mut warnings = Vec::new();
        for step in steps {
            let mount = locked[step.root].root.mount;
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
                let warning = |(finding, _): (ScreenFinding, _)| Warning {
                    rule: finding.rule,
                    line: finding.line,
                };
                warnings.extend(findings.map(warning));
            } else {
                edit::check_writable(&path, &after)?;
                warnings.extend(self.screen(&path, before.as_deref(), &after)?);
            }
        }
        Ok(warnings)
    }

    /// Returns changes of a task to memories that are not open here. Only a person learns that they exist.
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
        let mut elsewhere = Vec::new();
        for change in self.store.state.changes(&everywhere).await? {
            let roots = change.files.iter().map(|file| &file.root);
            let folder = change.folder.iter().map(|folder| &folder.root);
            let foreign_root = roots.chain(folder).find(|root| !places.contains(&root.place));
            elsewhere.extend(foreign_root.map(|root| ChangeInOtherRoot {
                change: change.id,
                identity: root.identity.clone(),
            }));
        }
        Ok(elsewhere)
    }

    /// Returns the changes to undo, newest first.
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
                    return Err(StoreError::NothingToUndo("no change was named".to_owned()));
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
            // A period selects changes made through Lukasa; external edits stay.
            changes.retain(|change| change.provenance.actor != Actor::Outside);
        }
        if changes.is_empty() {
            let elsewhere = self.changes_in_other_roots(target).await?;
            let reason = match target {
                UndoTarget::Task(task) if !elsewhere.is_empty() => {
                    let mut identities: Vec<_> =
                        elsewhere.iter().map(|change| change.identity.as_str()).collect();
                    identities.sort_unstable();
                    identities.dedup();
                    format!(
                        "the task {task} changed nothing here; its changes belong to {}, undo them there",
                        identities.join(", ")
                    )
                }
                UndoTarget::Task(task) => format!("the task {task} changed nothing here"),
                UndoTarget::Session(session) => {
                    format!("the session {session} changed nothing here")
                }
                UndoTarget::Change(_) | UndoTarget::Changes(_) | UndoTarget::Span { .. } => {
                    "no changes in this period".to_owned()
                }
            };
            return Err(StoreError::NothingToUndo(reason));
        }
        Ok(changes)
    }

    /// Folds changes, newest first, into the expected and the restored revision of each memory.
    async fn restore_targets(
        &self,
        changes: &[MemoryChange],
    ) -> Result<BTreeMap<(String, RelativePath), RestoreTarget>, StoreError> {
        let mut targets: BTreeMap<(String, RelativePath), RestoreTarget> = BTreeMap::new();
        let mut add = |(file, trust): (&FileChange, Trust), path: &RelativePath, now, restored| {
            let key = (file.root.place.clone(), path.clone());
            let target = match targets.entry(key) {
                Entry::Vacant(new) => {
                    new.insert(RestoreTarget { expected: now, ..RestoreTarget::default() })
                }
                Entry::Occupied(newer) => {
                    let newer = newer.into_mut();
                    // Older changes come later here. If this one did not leave the revision that the newer one
                    // found, another writer changed the memory in between.
                    if newer.restored != now && newer.gap.is_none() {
                        newer.gap = Some((now, newer.restored));
                    }
                    newer
                }
            };
            target.restored = restored;
            target.trust = Some(trust);
        };
        for change in changes {
            let is_all = commit::sets_full_trust(change.kind, &change.provenance);
            for file in change.files.iter().rev() {
                let path = self
                    .virtual_path(&file.root, &file.path)
                    .ok_or(StoreError::UndoElsewhere(change.id))?;
                self.check_writable(&path)?;
                // Fallback for a text that history dropped: it was trusted at least as far as the text made from it.
                let trust = if is_all { Trust::Outside } else { file.trust };
                let mut add = |path, now, restored| add((file, trust), path, now, restored);
                match &file.moved_to {
                    Some(to) => {
                        add(to, file.after, None);
                        add(&file.path, None, file.before);
                    }
                    None => add(&file.path, file.after, file.before),
                }
            }
        }
        // Restored text gets back its recorded trust, not the trust of the text that replaced it.
        for root in self.open_roots() {
            let own_targets = targets.iter_mut().filter(|((place, _), _)| *place == root.key.place);
            let mut own_targets: Vec<_> =
                own_targets.filter_map(|(_, target)| Some((target.restored?, target))).collect();
            if own_targets.is_empty() {
                continue;
            }
            let recorded = self.store.state.recorded_revisions(&root.key.identity).await?;
            for (restored, target) in &mut own_targets {
                target.trust = recorded.get(restored).copied().or(target.trust);
            }
        }
        Ok(targets)
    }

    /// Computes the restoration of one memory.
    async fn undo_step(
        &self,
        locked: &LockedRoot,
        path: &RelativePath,
        target: &RestoreTarget,
    ) -> Result<Restoration, StoreError> {
        let shown = virtual_path(locked.root.mount, path.clone())?;
        if let Some((expected, current)) = &target.gap {
            let (expected, _) = self.text(expected.as_ref()).await?;
            let (current, _) = self.text(current.as_ref()).await?;
            let diff = unified_diff(
                (
                    &format!("{shown} as one change left it"),
                    expected.as_deref().unwrap_or_default(),
                ),
                (&format!("{shown} as the next found it"), current.as_deref().unwrap_or_default()),
            );
            let reason = "another writer changed it in between".to_owned();
            return Ok(Restoration::Blocked(UndoConflict { path: shown, reason, diff }));
        }
        let max = memory::limits::HISTORY_FILE_BYTES_MAX;
        let now = match locked.root.backend.read(path, max).await {
            Ok(read) => Some(FileSnapshot::from_read(read)),
            Err(BackendError::NotFound) => None,
            // A folder is at the path, or a file at one of its parents: the memory itself is gone.
            Err(BackendError::WrongKind)
                if target.expected.is_none()
                    && matches!(
                        kind_at(&locked.root, &shown, path).await?,
                        None | Some(FileKind::Folder)
                    ) =>
            {
                None
            }
            Err(error) => {
                let reason = format!("it cannot be read: {error}");
                let blocked = UndoConflict { path: shown, reason, diff: String::new() };
                return Ok(Restoration::Blocked(blocked));
            }
        };
        let revision = now.as_ref().and_then(FileSnapshot::revision);
        if now.is_some() == target.expected.is_some() && revision == target.expected {
            return self.restore(shown, now, target).await;
        }
        let (expected, _) = self.text(target.expected.as_ref()).await?;
        let current = now.and_then(|now| now.content);
        let current = current.map(|(bytes, _)| String::from_utf8_lossy(&bytes).into_owned());
        let reason = match (&expected, &current) {
            (_, None) => "it is gone",
            (None, Some(_)) => "a memory is there again",
            (Some(_), Some(_)) => "it was changed since",
        };
        let diff = unified_diff(
            (&format!("{shown} as the change left it"), expected.as_deref().unwrap_or_default()),
            (&format!("{shown} as it is"), current.as_deref().unwrap_or_default()),
        );
        Ok(Restoration::Blocked(UndoConflict { path: shown, reason: reason.to_owned(), diff }))
    }

    async fn restore(
        &self,
        shown: MemoryPath,
        now: Option<FileSnapshot>,
        target: &RestoreTarget,
    ) -> Result<Restoration, StoreError> {
        match (now, &target.restored) {
            (None, None) => Ok(Restoration::Nothing),
            (Some(before), None) => Ok(Restoration::Write(FileOp::Remove { before })),
            (now, Some(restored)) => {
                if now.as_ref().and_then(FileSnapshot::revision) == Some(*restored) {
                    return Ok(Restoration::Nothing);
                }
                let Some(bytes) = self.store.state.content(restored).await? else {
                    let reason = "history no longer keeps its earlier content".to_owned();
                    let blocked = UndoConflict { path: shown, reason, diff: String::new() };
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

/// The revision that an undo expects a memory to have, and the one that it restores; `None` means no memory.
#[derive(Debug, Default)]
struct RestoreTarget {
    expected: Option<Revision>,
    restored: Option<Revision>,
    /// An edit between two of the undone changes: the revisions before and after it.
    gap: Option<(Option<Revision>, Option<Revision>)>,
    trust: Option<memory::change::Trust>,
}

/// Checks whether one path contains the other, so that there cannot be files at both.
fn is_nested(a: &RelativePath, b: &RelativePath) -> bool {
    a.is_within(b) || b.is_within(a)
}

/// Finds obstacles at the paths of restored files that this undo does not remove.
async fn find_conflicts(
    locked: &LockedRoot,
    steps: &[&FileStep],
) -> Result<Vec<UndoConflict>, StoreError> {
    let root = &locked.root;
    let removed = steps.iter().filter(|step| matches!(step.op, FileOp::Remove { .. }));
    let leaving: Vec<&RelativePath> = removed.map(|step| &step.path).collect();
    let mut blocked = Vec::new();
    for step in steps.iter().filter(|step| matches!(step.op, FileOp::Write { before: None, .. })) {
        if obstacle(root, &step.path, &leaving).await?.is_some() {
            let path = virtual_path(root.mount, step.path.clone())?;
            let reason = "another file or folder is at its path; move that away first".to_owned();
            blocked.push(UndoConflict { path, reason, diff: String::new() });
        }
    }
    Ok(blocked)
}

fn path_of(locked: &[LockedRoot], step: &FileStep) -> Option<MemoryPath> {
    MemoryPath::inside(locked[step.root].root.mount, step.path.clone()).ok()
}

/// Joins the removal at the new path and the restoration at the old path of a renamed memory into one move. A move
/// takes pins and usage back to the old path.
fn join_moves(
    steps: Vec<FileStep>,
    changes: &[MemoryChange],
    locked: &[LockedRoot],
) -> Vec<FileStep> {
    let mut steps: Vec<Option<FileStep>> = steps.into_iter().map(Some).collect();
    for file in changes.iter().flat_map(|change| &change.files) {
        let Some(to) = &file.moved_to else { continue };
        let step_index = |path: &RelativePath| {
            steps.iter().position(|step| {
                step.as_ref().is_some_and(|step| {
                    step.path == *path && locked[step.root].root.key.place == file.root.place
                })
            })
        };
        let (Some(removal), Some(restoration)) = (step_index(to), step_index(&file.path)) else {
            continue;
        };
        let nests = |step: &FileStep| step.path != file.path && is_nested(&step.path, &file.path);
        if steps.iter().flatten().any(nests) {
            // Another step has to make room first, so a single move would fail.
            continue;
        }
        let step = match (&steps[removal], &steps[restoration]) {
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
        (steps[removal], steps[restoration]) = (Some(step), None);
    }
    steps.into_iter().flatten().collect()
}

/// Returns the folder that an undone rename moves back as a whole, with other files in it. Returns `None` if memories
/// were added to it since; they stay where they are.
async fn undo_folder_rename(
    changes: &[MemoryChange],
    locked: &[LockedRoot],
    steps: &[FileStep],
) -> Result<Option<FolderStep>, StoreError> {
    let [MemoryChange { folder: Some(folder), .. }] = changes else { return Ok(None) };
    let Some(to) = &folder.moved_to else { return Ok(None) };
    let is_place = |locked: &LockedRoot| locked.root.key.place == folder.root.place;
    let Some(index) = locked.iter().position(is_place) else { return Ok(None) };
    let root = &locked[index].root;
    let to_error = StoreError::backend_error(root.mount);
    if root.backend.kind(&folder.path).await.map_err(&to_error)?.is_some() {
        return Ok(None);
    }
    let walk = root.backend.walk(Some(to), Extent::ALL).await.map_err(&to_error)?;
    let moves = |path: &RelativePath| {
        steps.iter().any(|step| step.path == *path && matches!(step.op, FileOp::Move { .. }))
    };
    let is_whole =
        steps.len() == walk.files_total && walk.files.iter().all(|file| moves(&file.path));
    let folder = FolderStep { root: index, path: to.clone(), to: Some(folder.path.clone()) };
    Ok(is_whole.then_some(folder))
}
