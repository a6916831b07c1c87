//! Checks of a write: access, paths, screening and limits.
//!
//! Commands, saves, drafts and undos share these checks. None of them changes anything.

use std::collections::BTreeSet;
use std::sync::Arc;

use memory::access::Access;
use memory::change::{Actor, ChangeKind, Provenance, Trust};
use memory::command::{CommandError, MemoryCommand, Warning};
use memory::feature::Feature;
use memory::limits::MEMORY_BYTES_MAX;
use memory::path::{MemoryPath, Mount, RelativePath};
use memory::screen::{ScreenFinding, TextAuthor, ValueDigest};

use crate::backend::{BackendError, Extent, FileKind};
use crate::caller::CallContext;
use crate::commit::{CommitPlan, FileOp, FileSnapshot, FileStep};
use crate::error::{StoreError, unavailable};
use crate::memories::Memories;
use crate::root::Root;
use crate::root_lock::LockedRoot;
use crate::screening::{refuse_or_warn, with_digests};
use crate::store::Store;

impl Memories {
    pub(crate) fn check_access(&self, command: &MemoryCommand) -> Result<(), CommandError> {
        if self.caller.provenance.actor == Actor::Agent {
            self.check_feature(Feature::Tool)?;
        }
        if command.is_view() {
            return Ok(());
        }
        command.paths().try_for_each(|path| self.check_writable(path))
    }

    /// Checks that this caller may write at `path`. It runs before anything else is touched.
    pub(crate) fn check_writable(&self, path: &MemoryPath) -> Result<(), CommandError> {
        let Some(mount) = path.mount() else { return Ok(()) };
        match self.mounts.iter().find(|bound| bound.mount == mount) {
            Some(bound) if bound.access == Access::ReadOnly => {
                Err(CommandError::ReadOnly { mount })
            }
            _ => Ok(()),
        }
    }

    /// Returns the root of a mount, or the reason why it is unavailable.
    pub(crate) fn root(&self, mount: Mount) -> Result<&Arc<Root>, CommandError> {
        let reason = match self.mounts.iter().find(|bound| bound.mount == mount) {
            Some(bound) => match &bound.root {
                Ok(root) => return Ok(root),
                Err(reason) => reason.clone(),
            },
            None => "it is not mounted here".to_owned(),
        };
        Err(unavailable(mount, reason))
    }

    /// Returns the root of a path that must be inside a root, and the path in it.
    pub(crate) fn resolve_in_root<'a>(
        &self,
        path: &'a MemoryPath,
    ) -> Result<(&Arc<Root>, &'a RelativePath), CommandError> {
        match path {
            MemoryPath::Inside(mount, relative) => Ok((self.root(*mount)?, relative)),
            MemoryPath::Top => Err(CommandError::NotAFile { path: path.clone() }),
            MemoryPath::Root(mount) => {
                self.root(*mount)?;
                Err(CommandError::NotAFile { path: path.clone() })
            }
        }
    }

    /// Returns the root that a command writes to. Refuses what can be refused by the paths alone.
    pub(crate) fn target(&self, command: &MemoryCommand) -> Result<&Arc<Root>, CommandError> {
        let path = match command {
            MemoryCommand::Rename { old_path, new_path } => {
                check_rename(old_path, new_path)?;
                old_path
            }
            MemoryCommand::Delete { path } if path.relative().is_none() => {
                return Err(CommandError::CannotDeleteRoot { path: path.clone() });
            }
            MemoryCommand::View { path, .. }
            | MemoryCommand::Create { path, .. }
            | MemoryCommand::StrReplace { path, .. }
            | MemoryCommand::Insert { path, .. }
            | MemoryCommand::Delete { path } => path,
        };
        match (command, self.resolve_in_root(path)) {
            (MemoryCommand::Create { .. }, Err(CommandError::NotAFile { path })) => {
                Err(CommandError::AlreadyExists { path })
            }
            (_, inside) => Ok(inside?.0),
        }
    }

    pub(crate) fn writer(&self) -> TextAuthor {
        // Text that a person imports has another author, so it is screened like an agent's.
        match (self.caller.provenance.actor, self.caller.provenance.trust) {
            (Actor::Person, Trust::Person) => TextAuthor::Person,
            _ => TextAuthor::Agent,
        }
    }

    pub(crate) fn provenance(&self, call: &CallContext) -> Provenance {
        let mut provenance = self.caller.provenance.clone();
        provenance.tool_call = call.tool_call.clone().or(provenance.tool_call);
        provenance.task = call.task.clone().or(provenance.task);
        provenance
    }

    /// Screens the new text of a memory, and its name if the memory is new.
    pub(crate) fn screen(
        &self,
        path: &MemoryPath,
        before: Option<&str>,
        after: &str,
    ) -> Result<Vec<Warning>, CommandError> {
        let is_person = self.caller.provenance.actor == Actor::Person;
        let allowed = if is_person { &self.allowed_rules[..] } else { &[] };
        refuse_or_warn(&self.findings(path, before, after), allowed)
    }

    /// Returns the findings of screening in the new text of a memory, and in its name if the memory is new, each
    /// with the digest of the matched value.
    pub(crate) fn findings(
        &self,
        path: &MemoryPath,
        before: Option<&str>,
        after: &str,
    ) -> Vec<(ScreenFinding, ValueDigest)> {
        let (screen, writer) = (&self.store.screen, self.writer());
        let Some(before) = before else {
            // Models are shown names too, so a name is screened, also as separate words.
            let name = path.relative().map(RelativePath::as_str).unwrap_or_default();
            let words = name.replace(['-', '_', '/'], " ");
            let texts = [after, words.as_str(), name];
            return texts.map(|text| with_digests(text, screen.check(text, writer))).concat();
        };
        with_digests(after, screen.introduced(before, after, writer))
    }

    /// Checks that all new paths of a plan are free, and that the roots have room for the new memories and bytes.
    pub(crate) async fn check_plan(
        &self,
        locked: &[LockedRoot],
        plan: &CommitPlan,
    ) -> Result<(), StoreError> {
        for (index, root) in locked.iter().enumerate() {
            let changes = RootChanges::new(plan, index);
            changes.check_names(&self.store, root).await?;
            let added = changes.added.len().saturating_sub(changes.removed);
            if added > 0 {
                check_room(root, &self.store, added).await?;
            }
        }
        let Some((hosted, (root, growth))) =
            self.store.settings.hosted.as_ref().zip(growth(locked, plan))
        else {
            return Ok(());
        };
        hosted.check_growth(growth).await.map_err(StoreError::backend_error(root.mount))
    }
}

/// Returns the bytes that the memories of a plan grow by, with the first root that it writes to; `None` if they do not grow.
fn growth<'l>(locked: &'l [LockedRoot], plan: &CommitPlan) -> Option<(&'l Root, u64)> {
    let (mut written, mut replaced, mut first) = (0_u64, 0_u64, None);
    for step in &plan.steps {
        match &step.op {
            FileOp::Write { before, after } => {
                written = written.saturating_add(u64::try_from(after.len()).unwrap_or(u64::MAX));
                replaced += before.as_ref().map_or(0, |before| before.bytes);
                first = first.or(Some(step.root));
            }
            FileOp::Remove { before } => replaced += before.bytes,
            FileOp::Move { .. } => {}
        }
    }
    let root = locked.get(first?)?;
    written.checked_sub(replaced).filter(|growth| *growth > 0).map(|growth| (&*root.root, growth))
}

/// Effects of a plan on the paths in one root.
struct RootChanges<'p> {
    /// Files and folders that are removed or moved away.
    leaving: Vec<&'p RelativePath>,
    added: Vec<&'p RelativePath>,
    /// Targets of moves.
    moved: Vec<&'p RelativePath>,
    removed: usize,
    /// Whether the plan restores earlier paths, which were beside each other before.
    restores: bool,
}

impl<'p> RootChanges<'p> {
    fn new(plan: &'p CommitPlan, root: usize) -> Self {
        let (mut leaving, mut added, mut moved) = (Vec::new(), Vec::new(), Vec::new());
        let mut removed = 0;
        let folder = plan.folder.as_ref().filter(|folder| folder.root == root);
        if let Some(folder) = folder {
            leaving.push(&folder.path);
            moved.extend(folder.to.as_ref());
        }
        for FileStep { path, op, .. } in plan.steps.iter().filter(|step| step.root == root) {
            match op {
                FileOp::Write { before: None, .. } => added.push(path),
                FileOp::Write { before: Some(_), .. } => {}
                FileOp::Remove { .. } => {
                    leaving.push(path);
                    removed += 1;
                }
                // A folder that moves as a whole takes its files with it.
                FileOp::Move { .. } if folder.is_some() => {}
                FileOp::Move { to, .. } => {
                    leaving.push(path);
                    moved.push(to);
                }
            }
        }
        let restores = plan.kind == ChangeKind::Undo;
        Self { leaving, added, moved, removed, restores }
    }

    async fn check_names(&self, store: &Store, locked: &LockedRoot) -> Result<(), StoreError> {
        let mount = locked.root.mount;
        let mut names = BTreeSet::new();
        for &new_path in self.added.iter().chain(&self.moved) {
            let path = virtual_path(mount, new_path.clone())?;
            if let Some(blocking) = obstacle(&locked.root, new_path, &self.leaving).await? {
                return Err(if blocking != *new_path {
                    CommandError::ParentNotFolder { path, parent: virtual_path(mount, blocking)? }
                } else if self.moved.contains(&new_path) {
                    CommandError::DestinationExists { path }
                } else {
                    CommandError::AlreadyExists { path }
                }
                .into());
            }
            let existing = match locked.find_case_variant(store, new_path, &self.leaving).await? {
                Some(existing) => Some(virtual_path(mount, existing)?),
                None if names.insert(new_path.case_folded()) || self.restores => None,
                None => Some(path.clone()),
            };
            if let Some(existing) = existing {
                return Err(CommandError::DiffersOnlyInCase { path, existing }.into());
            }
        }
        Ok(())
    }
}

/// Returns the obstacle to a new file that does not leave with the same change. That is a file or folder at its
/// path, or a file at one of its parents.
pub(crate) async fn obstacle(
    root: &Root,
    new: &RelativePath,
    leaving: &[&RelativePath],
) -> Result<Option<RelativePath>, StoreError> {
    let to_error = StoreError::backend_error(root.mount);
    let leaves = |path: &RelativePath| leaving.iter().any(|removed| path.is_within(removed));
    match root.backend.kind(new).await {
        Ok(None) => Ok(None),
        Ok(Some(FileKind::Folder)) => {
            let walk = root.backend.walk(Some(new), Extent::ALL).await.map_err(&to_error)?;
            let is_whole = walk.files.len() == walk.files_total && walk.skipped.is_empty();
            // A folder that is or becomes empty is no obstacle.
            let becomes_empty = is_whole && walk.files.iter().all(|file| leaves(&file.path));
            Ok((!becomes_empty).then(|| new.clone()))
        }
        Ok(Some(_)) => Ok((!leaves(new)).then(|| new.clone())),
        Err(BackendError::WrongKind) => {
            let mut above = new.parent();
            while let Some(folder) = above {
                match root.backend.kind(&folder).await {
                    Ok(Some(FileKind::File | FileKind::Other)) => {
                        return Ok((!leaves(&folder)).then_some(folder));
                    }
                    Ok(_) | Err(BackendError::WrongKind) => above = folder.parent(),
                    Err(error) => return Err(to_error(error)),
                }
            }
            Ok(Some(new.clone()))
        }
        Err(error) => {
            Err(backend_refusal(root.mount, &virtual_path(root.mount, new.clone())?)(error))
        }
    }
}

fn check_rename(old_path: &MemoryPath, new_path: &MemoryPath) -> Result<(), CommandError> {
    if old_path.relative().is_none() {
        return Err(CommandError::CannotRenameRoot { path: old_path.clone() });
    }
    if new_path.relative().is_none() {
        return Err(CommandError::DestinationExists { path: new_path.clone() });
    }
    if old_path.mount() != new_path.mount() {
        let (old_path, new_path) = (old_path.clone(), new_path.clone());
        return Err(CommandError::AcrossScopes { old_path, new_path });
    }
    Ok(())
}

/// Returns the memory path of a file in a root.
pub(crate) fn virtual_path(
    mount: Mount,
    relative: RelativePath,
) -> Result<MemoryPath, CommandError> {
    Ok(MemoryPath::inside(mount, relative)?)
}

/// Maps a backend error about one memory to a refusal.
pub(crate) fn backend_refusal(
    mount: Mount,
    path: &MemoryPath,
) -> impl Fn(BackendError) -> StoreError {
    move |error| {
        let path = path.clone();
        match error {
            BackendError::NotFound => CommandError::NotFound { path }.into(),
            BackendError::WrongKind => CommandError::NotAFile { path }.into(),
            BackendError::Escapes(_) => CommandError::EscapesRoot { path }.into(),
            error => StoreError::backend_error(mount)(error),
        }
    }
}

/// Returns the kind of thing at a path; `None` also if a parent of the path is a file.
pub(crate) async fn kind_at(
    root: &Root,
    path: &MemoryPath,
    relative: &RelativePath,
) -> Result<Option<FileKind>, StoreError> {
    match root.backend.kind(relative).await {
        Err(BackendError::WrongKind) => Ok(None),
        kind => kind.map_err(backend_refusal(root.mount, path)),
    }
}

/// Checks that a root has room for `more` memories. They are counted while the root is locked, since editors and
/// git add files too.
async fn check_room(locked: &LockedRoot, store: &Store, more: usize) -> Result<(), StoreError> {
    let (root, limit) = (&locked.root, store.settings.files_max);
    let to_error = StoreError::backend_error(root.mount);
    let mut count = root.backend.count().await.map_err(&to_error)?;
    if count + more > limit && root.has_list_file().await.map_err(&to_error)? {
        count -= 1;
    }
    if count + more <= limit {
        return Ok(());
    }
    Err(CommandError::ScopeFull { mount: root.mount, limit }.into())
}

/// Reads a memory that is within the size limit.
pub(crate) async fn read_small(
    root: &Root,
    path: &MemoryPath,
    relative: &RelativePath,
) -> Result<(FileSnapshot, Arc<[u8]>), StoreError> {
    let read = root.backend.read(relative, MEMORY_BYTES_MAX).await;
    let read = read.map_err(backend_refusal(root.mount, path))?;
    let current = FileSnapshot::from_read(read);
    match current.content_bytes() {
        Some(content) => Ok((current, content)),
        None => Err(too_large_error(path, current.bytes).into()),
    }
}

/// Returns the refusal for a file over the size limit of a memory.
pub(crate) fn too_large_error(path: &MemoryPath, bytes: u64) -> CommandError {
    // For display only, so it may be capped on a 32-bit machine.
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    CommandError::OutgrewCap { path: path.clone(), bytes }
}
