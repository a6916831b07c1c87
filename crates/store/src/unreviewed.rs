//! Text that nobody here reviewed: what of it a model is shown unasked, and what becomes of an agent's texts after the
//! agent has read it.
//!
//! A clone brings memories that anybody may have written. Their trust is [`Trust::Outside`] until somebody here writes or
//! accepts them. As long as the person does not trust the project, such a memory is known by its path alone; in a
//! project that is trusted it speaks, unless screening objects to it. Everything that shows memories asks here.
//!
//! An agent that has read such a text may carry it on. What it writes afterwards, anywhere, is trusted no more than what it
//! read: it is shown only when a model asks for it, and waits for a person, who accepts it with [`Memories::accept`].
//!
//! What a background review wrote waits for a person too. It is shown as any other memory, but neither use nor a pin puts it
//! into the hot set, and it is trusted as [`Trust::Background`].

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::SystemTime;

use memory::change::{Actor, ChangeId, ChangeKind, FileChange, MemoryChange, Trust};
use memory::command::CommandError;
use memory::command::view::{INFLUENCED, UNREVIEWED};
use memory::document::Revision;
use memory::path::{MemoryPath, RelativePath};
use state::{Head, NewFileChange};

use crate::caller::CallContext;
use crate::checks::{read_small, virtual_path};
use crate::commit::{AlreadyAppliedChange, record_already_applied, record_external};
use crate::context_files::TrustedFolders;
use crate::error::StoreError;
use crate::history::{ChangesQuery, DryRun};
use crate::memories::{BoundMount, Memories};
use crate::root::Root;

/// How a memory that nobody here reviewed is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreviewed {
    /// It came with a repository. A model is told the path and nothing else, unless it asks for the memory.
    Silent,
    /// It came with a repository that the person trusts. It is shown as any other, with a mark that says where it is from.
    Marked,
    /// An agent wrote it after it had read text that nobody here reviewed. A model is told the path, and is shown the text
    /// with a mark when it asks.
    Influenced,
    /// A background review wrote it. It is shown as any other, but never in the hot set.
    Background,
}

impl Unreviewed {
    /// Tells whether whoever reads it may have been influenced by it. What a trusted project says may be: its instruction files are
    /// instructions all the same.
    pub const fn may_influence_reader(self) -> bool {
        matches!(self, Self::Silent | Self::Influenced)
    }

    /// Tells whether it is shown to nobody who did not ask.
    pub const fn is_silent(self) -> bool {
        matches!(self, Self::Silent | Self::Influenced)
    }

    /// Tells whether it is kept out of the hot set, whatever its use and pins.
    pub const fn is_never_hot(self) -> bool {
        self.is_silent() || matches!(self, Self::Background)
    }

    /// Returns the lines before and after the text when a model asked for it, if there are any.
    pub const fn marker_lines(self) -> Option<[&'static str; 2]> {
        match self {
            Self::Silent => Some(UNREVIEWED),
            Self::Influenced => Some(INFLUENCED),
            Self::Marked | Self::Background => None,
        }
    }
}

/// The texts of a root that wait for a person.
struct PendingReviewTexts<'r> {
    influenced: &'r HashMap<Revision, ChangeId>,
    heads: HashMap<&'r RelativePath, &'r Head>,
}

impl<'r> PendingReviewTexts<'r> {
    fn new(known: &'r HashMap<Revision, ChangeId>, heads: &'r [Head]) -> Self {
        Self { influenced: known, heads: heads.iter().map(|head| (&head.path, head)).collect() }
    }

    /// Tells why a memory of this revision is one. Somebody else may have written the same words, and then it is not; and
    /// whoever touched it outside since it was recorded has not reviewed it.
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

/// A memory that waits for a person: an agent wrote it after it had read text that nobody here reviewed, or a background
/// review wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingReview {
    /// The memory.
    pub path: MemoryPath,
    /// Its revision.
    pub revision: Revision,
    /// Why it waits: [`Unreviewed::Influenced`] or [`Unreviewed::Background`].
    pub reason: Unreviewed,
    /// The last change that wrote it so.
    pub change: MemoryChange,
}

/// Adds the revisions that files have now where the caller knows none. What cannot be read is nothing that was
/// written here, and stays without.
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
    /// Returns how far each of these texts may be trusted, in their order: what was recorded of it, if it is still of
    /// this revision; any other text came from outside.
    pub async fn trust_levels(
        &self,
        texts: &[(&MemoryPath, Revision)],
    ) -> Result<Vec<Trust>, StoreError> {
        let mut trusted = vec![Trust::Outside; texts.len()];
        for bound in &self.mounts {
            let Ok(root) = &bound.root else { continue };
            let (mut places, mut of_root) = (Vec::new(), Vec::new());
            for (at, (path, revision)) in texts.iter().enumerate() {
                if let Some(relative) =
                    path.relative().filter(|_| path.mount() == Some(bound.mount))
                {
                    places.push(at);
                    of_root.push((relative.clone(), Some(*revision)));
                }
            }
            let of_root = self.trust_levels_in(bound, root, &of_root).await?;
            for (at, trust) in places.into_iter().zip(of_root) {
                trusted[at] = trust;
            }
        }
        Ok(trusted)
    }

    /// Returns those of these memories that nobody here reviewed; `None` stands for the revision that is there now.
    pub async fn unreviewed<'p>(
        &self,
        texts: &[(&'p MemoryPath, Option<Revision>)],
    ) -> HashMap<MemoryPath, Unreviewed> {
        let mut found = HashMap::new();
        for bound in &self.mounts {
            let Ok(root) = &bound.root else { continue };
            let influenced = self.store.state.influenced_revisions(&root.key.identity).await;
            // Without a state nobody knows of a review, and memories can be viewed all the same.
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
                if let Some(why) = waiting.reason(relative, *revision) {
                    found.insert((*path).clone(), why);
                }
            }
            if bound.in_checkout {
                self.add_repository_memories(bound, root, (&paths, &of_root), &mut found).await;
            }
        }
        found
    }

    /// Adds those of these memories of a checkout that came with the repository and that nobody here reviewed.
    async fn add_repository_memories(
        &self,
        bound: &BoundMount,
        root: &Root,
        (paths, texts): (&[&MemoryPath], &[(RelativePath, Option<Revision>)]),
        found: &mut HashMap<MemoryPath, Unreviewed>,
    ) {
        let trusted = self.trust_levels_in(bound, root, texts).await;
        let trusted = trusted.unwrap_or_else(|_| vec![Trust::Outside; texts.len()]);
        let outside = paths.iter().zip(trusted).filter(|(_, trust)| *trust == Trust::Outside);
        let outside: Vec<&MemoryPath> = outside.map(|(path, _)| *path).collect();
        let is_trusted = !outside.is_empty() && self.is_trusted(bound).await;
        let objections = self.read_warnings(&outside).await;
        for (path, objections) in outside.into_iter().zip(objections) {
            let is_silent = !is_trusted || !objections.is_empty();
            let shown = if is_silent { Unreviewed::Silent } else { Unreviewed::Marked };
            found.entry(path.clone()).or_insert(shown);
        }
    }

    /// Notes that the caller's session has read a memory, if that counts. Nothing for a person.
    pub fn note_read(&self, unreviewed: Option<Unreviewed>) {
        let counts = unreviewed.is_some_and(Unreviewed::may_influence_reader);
        if counts && self.caller.provenance.actor != Actor::Person {
            self.caller.outside_read.set();
        }
    }

    /// Returns the memories that wait for a person, in the order of the scopes and paths: an agent wrote them after it had
    /// read text that nobody here reviewed, or a background review did.
    pub async fn pending_reviews(&self) -> Result<Vec<PendingReview>, StoreError> {
        let mut found = Vec::new();
        for bound in &self.mounts {
            let Ok(root) = &bound.root else { continue };
            let influenced = self.store.state.influenced_revisions(&root.key.identity).await?;
            if influenced.is_empty() {
                continue;
            }
            let mut heads = self.store.state.heads(&root.key.place, ChangeId::default()).await?;
            heads.sort_by(|a, b| a.path.cmp(&b.path));
            for head in heads {
                let why = match head.trust {
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
                    found.push(PendingReview {
                        path,
                        revision: read.revision,
                        reason: why,
                        change,
                    });
                }
            }
        }
        Ok(found)
    }

    /// Records that a person has read a memory of this revision and answers for it as it is: from then on it is trusted as
    /// what the person wrote. No byte changes. `None` if that is recorded already. Refuses with [`CommandError::Conflict`] if it has
    /// another revision.
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
        let mut held = [root.lock(&self.store).await?];
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
        let [only] = &held;
        let recorded = only.head(relative).and_then(|one| one.revision);
        let is_known = recorded == Some(revision)
            && only.trust(relative) == Trust::Person
            && !self
                .store
                .state
                .influenced_revisions(&root.key.identity)
                .await?
                .contains_key(&revision);
        if is_known {
            return Ok(None);
        }
        if recorded != Some(revision) {
            let edit = step(recorded, Trust::Outside);
            record_external(&self.store, &mut held, vec![edit]).await?;
        }
        let mut what = AlreadyAppliedChange::new(ChangeKind::Accept, self.provenance(call));
        what.accepts = call.proposal;
        let accepted = step(Some(revision), Trust::Person);
        record_already_applied(&self.store, &mut held, what, vec![accepted]).await.map(Some)
    }

    /// Takes back that a person accepted memories: they wait for a review again. No byte changes. Returns the memories that are
    /// still as they were accepted, and the change, unless it is only asked what that would do.
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
                let mut held = [root.lock(&self.store).await?];
                let Ok((current, _)) = read_small(root, &path, relative).await else { continue };
                if current.revision() != file.after {
                    continue;
                }
                paths.push(path.clone());
                if dry == DryRun::Yes {
                    continue;
                }
                let mut what = AlreadyAppliedChange::new(ChangeKind::Undo, self.provenance(call));
                what.undoes = Some(change.id);
                let trust = self.trust_before(change, &path).await?;
                let change = FileChange { trust, ..file.clone() };
                let file = NewFileChange { change, before: None, after: None, influenced: true };
                last =
                    Some(record_already_applied(&self.store, &mut held, what, vec![file]).await?);
            }
        }
        Ok((paths, last))
    }

    /// Returns how far a text may be trusted once the acceptance of it is taken back: as it was before.
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

    /// Returns how far texts of a root may be trusted. In a checkout, what was written here may have come back by git, or may be
    /// in another worktree: the same bytes have the trust that they were recorded with.
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
                let known = revision.and_then(|revision| recorded.get(&revision).copied());
                *trust = known.map_or(*trust, |known| known.max(*trust));
            }
        }
        Ok(trusted)
    }

    /// Returns which memories of a checkout that the person does not trust were ever reviewed here, if it is one.
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

    /// Returns what changes when the person trusts another folder, or one no longer.
    pub fn trust_version(&self) -> Option<SystemTime> {
        TrustedFolders::new(&self.store.folders).version()
    }

    /// Tells whether the person trusts the project that a mount lies in. A list that cannot be read trusts nothing.
    async fn is_trusted(&self, bound: &BoundMount) -> bool {
        let folder = bound.root.as_ref().ok().and_then(|root| root.backend.folder());
        let Some(folder) = folder else { return false };
        TrustedFolders::new(&self.store.folders).has(&folder).await.unwrap_or_default()
    }
}
