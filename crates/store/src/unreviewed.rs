//! Memories with text that no person on this host reviewed, and the effect of reading them.
//!
//! A clone brings memories by unknown writers. Their trust is [`Trust::Outside`] until a person or
//! agent here writes them or a person accepts them. While the person does not trust the project, a
//! session only counts such memories. In a trusted project it is shown with a mark,
//! unless screening objects. All code that shows memories uses this check.
//!
//! An agent that has read such text may repeat it. Its later writes, in any scope, are trusted no
//! more than what it read. A model sees them only on request, and they wait for a person, who
//! accepts them with [`Memories::accept`].
//!
//! Text by a background review waits for a person too, with [`Trust::Background`]. Recall and
//! listings show it like any other memory, but a session does not begin with it, whatever its use and pins.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::SystemTime;

use memory::change::{Actor, ChangeId, ChangeKind, FileChange, MemoryChange, Trust};
use memory::command::CommandError;
use memory::command::view::{INFLUENCED, UNREVIEWED};
use memory::document::Revision;
use memory::path::{MemoryPath, RelativePath};
use state::{Head, NewFileChange, StateError};

use crate::caller::CallContext;
use crate::checks::{read_small, virtual_path};
use crate::commit::{AlreadyAppliedChange, record_already_applied, record_external};
use crate::context_files::TrustedFolders;
use crate::error::StoreError;
use crate::history::{ChangesQuery, DryRun};
use crate::memories::{BoundMount, Memories};
use crate::root::Root;

/// The treatment of a memory that no person on this host reviewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreviewed {
    /// It came with a repository. A session only counts it, unless the model asks for the memory.
    Silent,
    /// It came with a repository that the person trusts. It is shown like any other, with a mark of its origin.
    Marked,
    /// An agent wrote it after reading unreviewed text. A session only counts it, and shows the text with a mark on
    /// request.
    Influenced,
    /// A background review wrote it. It is recalled like any other, but no session begins with it.
    Background,
}

impl Unreviewed {
    /// Checks whether reading it may influence an agent. Text of a trusted project does not count: the person
    /// trusts the project's instruction files as well.
    pub const fn may_influence_reader(self) -> bool {
        matches!(self, Self::Silent | Self::Influenced)
    }

    /// Checks whether a model sees it only on request.
    pub const fn is_silent(self) -> bool {
        matches!(self, Self::Silent | Self::Influenced)
    }

    /// Checks whether it stays out of the hot set, whatever its use and pins.
    pub const fn is_never_hot(self) -> bool {
        self.is_silent() || matches!(self, Self::Background)
    }

    /// Returns the lines that mark the text, before and after it, when a model asked for it.
    pub const fn marker_lines(self) -> Option<[&'static str; 2]> {
        match self {
            Self::Silent => Some(UNREVIEWED),
            Self::Influenced => Some(INFLUENCED),
            Self::Marked | Self::Background => None,
        }
    }
}

/// The texts of a root that wait for review.
struct PendingReviewTexts<'r> {
    influenced: &'r HashMap<Revision, ChangeId>,
    heads: HashMap<&'r RelativePath, &'r Head>,
}

impl<'r> PendingReviewTexts<'r> {
    fn new(influenced: &'r HashMap<Revision, ChangeId>, heads: &'r [Head]) -> Self {
        Self { influenced, heads: heads.iter().map(|head| (&head.path, head)).collect() }
    }

    /// Returns the reason why a memory of this revision waits. The same words from a trusted writer do not wait; an
    /// external edit since the record is no review.
    fn reason(&self, path: &RelativePath, revision: Option<Revision>) -> Option<Unreviewed> {
        let is_known = |revision: Option<Revision>| {
            revision.is_some_and(|revision| self.influenced.contains_key(&revision))
        };
        let is_influenced = match self.heads.get(path) {
            Some(head) if head.trust == Trust::Outside => {
                is_known(head.revision) || is_known(revision)
            }
            Some(head) if head.trust == Trust::Background && is_known(head.revision) => {
                return Some(Unreviewed::Background);
            }
            Some(head) => head.revision != revision && is_known(revision),
            None => is_known(revision),
        };
        is_influenced.then_some(Unreviewed::Influenced)
    }
}

/// A memory that waits for a person: an agent wrote it after reading unreviewed text, or a background review wrote
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingReview {
    /// Path of the memory.
    pub path: MemoryPath,
    /// Its revision.
    pub revision: Revision,
    /// Reason why it waits: [`Unreviewed::Influenced`] or [`Unreviewed::Background`].
    pub reason: Unreviewed,
    /// The last change that wrote this text.
    pub change: MemoryChange,
}

/// Adds the current revisions of files where the caller has none. A file that cannot be read stays without a
/// revision, since Lukasa did not write it.
async fn add_revisions(root: &Root, texts: &mut [(RelativePath, Option<Revision>)]) {
    let lacking = texts.iter().filter(|(_, revision)| revision.is_none());
    let paths: Vec<_> = lacking.map(|(path, _)| path.clone()).collect();
    let stamps = root.stamps(&paths).await;
    let versions = paths.iter().zip(stamps).filter_map(|(path, stamp)| Some((path, stamp?)));
    let versions: Vec<_> = versions.collect();
    let read: HashMap<_, _> =
        versions.iter().map(|(path, _)| *path).zip(root.revisions(&versions).await).collect();
    for (path, revision) in texts.iter_mut().filter(|(_, revision)| revision.is_none()) {
        *revision = read.get(path).and_then(|read| *read.as_ref().ok()?);
    }
}

impl Memories {
    /// Returns the trust of each text, in their order: the recorded trust if the recorded revision is the same,
    /// else [`Trust::Outside`].
    pub async fn trust_levels(
        &self,
        texts: &[(&MemoryPath, Revision)],
    ) -> Result<Vec<Trust>, StoreError> {
        let mut trusted = vec![Trust::Outside; texts.len()];
        for bound in &self.mounts {
            let Ok(root) = &bound.root else { continue };
            let (mut indexes, mut of_root) = (Vec::new(), Vec::new());
            for (index, (path, revision)) in texts.iter().enumerate() {
                if let Some(relative) =
                    path.relative().filter(|_| path.mount() == Some(bound.mount))
                {
                    indexes.push(index);
                    of_root.push((relative.clone(), Some(*revision)));
                }
            }
            let of_root = self.trust_levels_in(bound, root, &of_root).await?;
            for (index, trust) in indexes.into_iter().zip(of_root) {
                trusted[index] = trust;
            }
        }
        Ok(trusted)
    }

    /// Checks whether any memory may be unreviewed. Reads no file.
    pub async fn may_hold_unreviewed(&self) -> bool {
        for bound in &self.mounts {
            let Ok(root) = &bound.root else { continue };
            let influenced = self.store.state.influenced_revisions(&root.key.identity).await;
            // Without the state no review is known, and memories can still be viewed.
            if bound.in_checkout || !influenced.unwrap_or_default().is_empty() {
                return true;
            }
        }
        false
    }

    /// Returns those of these memories that were never reviewed on this host. `None` stands for the current
    /// revision.
    pub async fn unreviewed<'p>(
        &self,
        texts: &[(&'p MemoryPath, Option<Revision>)],
    ) -> HashMap<MemoryPath, Unreviewed> {
        let mut unreviewed_by_path = HashMap::new();
        for bound in &self.mounts {
            let Ok(root) = &bound.root else { continue };
            let influenced = self.store.state.influenced_revisions(&root.key.identity).await;
            // Without the state no review is known, and memories can still be viewed.
            let influenced = influenced.unwrap_or_default();
            if !bound.in_checkout && influenced.is_empty() {
                continue;
            }
            let heads = if influenced.is_empty() {
                Vec::new()
            } else {
                let heads = self.store.state.heads(&root.key.place, ChangeId::default()).await;
                heads.unwrap_or_default()
            };
            let waiting = PendingReviewTexts::new(&influenced, &heads);
            let inside = |&(path, read): &(&'p MemoryPath, Option<Revision>)| {
                let relative = path.relative().filter(|_| path.mount() == Some(bound.mount))?;
                Some((path, (relative.clone(), read)))
            };
            let (paths, mut of_root): (Vec<_>, Vec<_>) = texts.iter().filter_map(inside).unzip();
            add_revisions(root, &mut of_root).await;
            for (path, (relative, revision)) in paths.iter().zip(&of_root) {
                if let Some(reason) = waiting.reason(relative, *revision) {
                    unreviewed_by_path.insert((*path).clone(), reason);
                }
            }
            if bound.in_checkout {
                self.add_repository_memories(
                    bound,
                    root,
                    (&paths, &of_root),
                    &mut unreviewed_by_path,
                )
                .await;
            }
        }
        unreviewed_by_path
    }

    /// Adds those of these memories that came with the repository and were never reviewed on this host.
    async fn add_repository_memories(
        &self,
        bound: &BoundMount,
        root: &Root,
        (paths, texts): (&[&MemoryPath], &[(RelativePath, Option<Revision>)]),
        unreviewed_by_path: &mut HashMap<MemoryPath, Unreviewed>,
    ) {
        let trusted = self.trust_levels_in(bound, root, texts).await;
        let trusted = trusted.unwrap_or_else(|_| vec![Trust::Outside; texts.len()]);
        let outside = paths.iter().zip(trusted).filter(|(_, trust)| *trust == Trust::Outside);
        let outside: Vec<&MemoryPath> = outside.map(|(path, _)| *path).collect();
        let is_trusted = !outside.is_empty() && self.is_trusted(bound).await;
        let warnings = self.read_warnings(&outside).await;
        for (path, warnings) in outside.into_iter().zip(warnings) {
            let is_silent = !is_trusted || !warnings.is_empty();
            let treatment = if is_silent { Unreviewed::Silent } else { Unreviewed::Marked };
            unreviewed_by_path.entry(path.clone()).or_insert(treatment);
        }
    }

    /// Notes that the caller's session is about to read a memory, if that memory may influence it. Has no effect for a
    /// person. If it fails, the memory must not be shown.
    pub async fn note_read(&self, unreviewed: Option<Unreviewed>) -> Result<(), StateError> {
        let counts = unreviewed.is_some_and(Unreviewed::may_influence_reader);
        if counts && self.caller.provenance.actor != Actor::Person {
            self.caller.outside_read.set().await?;
        }
        Ok(())
    }

    /// Returns the memories that wait for a person, in the order of the scopes and paths.
    pub async fn pending_reviews(&self) -> Result<Vec<PendingReview>, StoreError> {
        let mut pending = Vec::new();
        for bound in &self.mounts {
            let Ok(root) = &bound.root else { continue };
            let influenced = self.store.state.influenced_revisions(&root.key.identity).await?;
            if influenced.is_empty() {
                continue;
            }
            let mut heads = self.store.state.heads(&root.key.place, ChangeId::default()).await?;
            heads.sort_by(|a, b| a.path.cmp(&b.path));
            for head in heads {
                let reason = match head.trust {
                    Trust::Outside => Unreviewed::Influenced,
                    Trust::Background => Unreviewed::Background,
                    Trust::Imported | Trust::Agent | Trust::Person => continue,
                };
                let Some(revision) = head.revision else { continue };
                let Some(&id) = influenced.get(&revision) else { continue };
                let path = virtual_path(bound.mount, head.path)?;
                let Some(read) = self.read_readable(&[&path]).await.pop().flatten() else {
                    continue;
                };
                if let Some(change) = self.store.state.change(id).await? {
                    pending.push(PendingReview { path, revision: read.revision, reason, change });
                }
            }
        }
        Ok(pending)
    }

    /// Records that a person has reviewed this revision of a memory: from then on it has the trust of a person's
    /// text. No byte changes. Returns `None` if that is already recorded, and [`CommandError::Conflict`] if the
    /// memory has another revision.
    pub async fn accept(
        &self,
        path: &MemoryPath,
        revision: Revision,
        call: &CallContext,
    ) -> Result<Option<ChangeId>, StoreError> {
        self.check_writable(path)?;
        let (root, relative) = self.resolve_in_root(path)?;
        if self.caller.provenance.actor != Actor::Person {
            return Err(CommandError::ReadOnly { mount: root.mount }.into());
        }
        root.reject_generated_list(path, relative).await?;
        let mut locked = [root.lock(&self.store).await?];
        let (current, bytes) = read_small(root, path, relative).await?;
        if current.revision() != Some(revision) {
            let current = current.revision();
            return Err(CommandError::Conflict { path: path.clone(), current }.into());
        }
        let step = |before, trust| NewFileChange {
            change: FileChange {
                root: root.key.clone(),
                path: relative.clone(),
                moved_to: None,
                before,
                after: Some(revision),
                trust,
            },
            before: Some(Arc::clone(&bytes)).filter(|_| before == Some(revision)),
            after: Some(Arc::clone(&bytes)).filter(|_| before != Some(revision)),
            influenced: false,
        };
        let [root_lock] = &locked;
        let recorded = root_lock.head(relative).and_then(|head| head.revision);
        let is_accepted = recorded == Some(revision)
            && root_lock.trust(relative) == Trust::Person
            && !self
                .store
                .state
                .influenced_revisions(&root.key.identity)
                .await?
                .contains_key(&revision);
        if is_accepted {
            return Ok(None);
        }
        if recorded != Some(revision) {
            let edit = step(recorded, Trust::Outside);
            record_external(&self.store, &mut locked, vec![edit]).await?;
        }
        let mut change = AlreadyAppliedChange::new(ChangeKind::Accept, self.provenance(call));
        change.accepts = call.proposal;
        let accepted = step(Some(revision), Trust::Person);
        record_already_applied(&self.store, &mut locked, change, vec![accepted]).await.map(Some)
    }

    /// Undoes the acceptance of memories, so that they wait for a review again. No byte changes. Returns the
    /// memories that still have the accepted text, and the change; a dry run records none.
    pub(crate) async fn undo_accept(
        &self,
        changes: &[MemoryChange],
        dry: DryRun,
        call: &CallContext,
    ) -> Result<(Vec<MemoryPath>, Option<ChangeId>), StoreError> {
        let (mut paths, mut last) = (Vec::new(), None);
        for change in changes {
            for file in &change.files {
                let path = self.virtual_path(&file.root, &file.path);
                let path = path.ok_or(StoreError::UndoElsewhere(change.id))?;
                self.check_writable(&path)?;
                let (root, relative) = self.resolve_in_root(&path)?;
                if self.caller.provenance.actor != Actor::Person {
                    return Err(CommandError::ReadOnly { mount: root.mount }.into());
                }
                let mut locked = [root.lock(&self.store).await?];
                let Ok((current, _)) = read_small(root, &path, relative).await else { continue };
                if current.revision() != file.after {
                    continue;
                }
                paths.push(path.clone());
                if dry == DryRun::Yes {
                    continue;
                }
                let mut undo = AlreadyAppliedChange::new(ChangeKind::Undo, self.provenance(call));
                undo.undoes = Some(change.id);
                let trust = self.trust_before(change, &path).await?;
                let change = FileChange { trust, ..file.clone() };
                let file = NewFileChange { change, before: None, after: None, influenced: true };
                last =
                    Some(record_already_applied(&self.store, &mut locked, undo, vec![file]).await?);
            }
        }
        Ok((paths, last))
    }

    /// Returns the trust of a text before its acceptance.
    async fn trust_before(
        &self,
        accepted: &MemoryChange,
        path: &MemoryPath,
    ) -> Result<Trust, StoreError> {
        let query = ChangesQuery {
            path: Some(path.clone()),
            before: Some(accepted.id),
            max: 1,
            ..ChangesQuery::default()
        };
        let before = self.recorded_changes(&query).await?;
        let trust = before
            .first()
            .and_then(|change| self.file_change_at(change, path))
            .map(|file| file.trust);
        Ok(trust.filter(|trust| *trust == Trust::Background).unwrap_or(Trust::Outside))
    }

    /// Returns the trust of texts of a root. In a checkout, git may bring back text that was written here or in
    /// another worktree: the same bytes have their recorded trust.
    async fn trust_levels_in(
        &self,
        bound: &BoundMount,
        root: &Root,
        texts: &[(RelativePath, Option<Revision>)],
    ) -> Result<Vec<Trust>, StoreError> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let heads = self.store.state.heads(&root.key.place, ChangeId::default()).await?;
        let heads: HashMap<_, _> = heads.iter().map(|head| (&head.path, head)).collect();
        let trust = |(path, revision): &(RelativePath, Option<Revision>)| {
            let head =
                heads.get(path).filter(|head| revision.is_some() && head.revision == *revision);
            head.map_or(Trust::Outside, |head| head.trust)
        };
        let mut trusted: Vec<Trust> = texts.iter().map(trust).collect();
        if bound.in_checkout && trusted.contains(&Trust::Outside) {
            let recorded = self.store.state.recorded_revisions(&root.key.identity).await?;
            for (trust, (_, revision)) in trusted.iter_mut().zip(texts) {
                let recorded_trust = revision.and_then(|revision| recorded.get(&revision).copied());
                *trust = recorded_trust.map_or(*trust, |recorded_trust| recorded_trust.max(*trust));
            }
        }
        Ok(trusted)
    }

    /// Returns the reviewed memories of a checkout; `None` outside of a checkout, and for a trusted project.
    pub(crate) async fn reviewed_in_untrusted(
        &self,
        bound: &BoundMount,
        root: &Root,
    ) -> Option<HashSet<RelativePath>> {
        if !bound.in_checkout || self.is_trusted(bound).await {
            return None;
        }
        let heads = self.store.state.heads(&root.key.place, ChangeId::default()).await;
        let reviewed = heads.unwrap_or_default().into_iter();
        Some(reviewed.filter(|head| head.trust > Trust::Outside).map(|head| head.path).collect())
    }

    /// Returns a version that changes whenever the person trusts a folder, or stops trusting one.
    pub fn trust_version(&self) -> Option<SystemTime> {
        TrustedFolders::new(&self.store.folders).version()
    }

    /// Checks whether the person trusts the project of a mount. If the list cannot be read, nothing is trusted.
    async fn is_trusted(&self, bound: &BoundMount) -> bool {
        let Ok(root) = &bound.root else { return false };
        let trusted = TrustedFolders::new(&self.store.folders);
        let is_trusted = match (&root.remote, root.backend.folder()) {
            (Some(remote), _) => trusted.has_remote(remote).await,
            (None, Some(folder)) => trusted.has(&folder).await,
            (None, None) => return false,
        };
        is_trusted.unwrap_or_default()
    }
}
