//! Checks of a write: access, names, screening and room.
//!
//! One validator for commands, saves, drafts and undos. Nothing here changes anything.

use std::collections::BTreeSet;
use std::sync::Arc;

use memory::access::Access;
use memory::change::{Actor, ChangeKind, Provenance, Trust};
use memory::command::{CommandError, MemoryCommand, Warning};
use memory::feature::Feature;
use memory::limits::MEMORY_BYTES_MAX;
use memory::path::{MemoryPath, Mount, RelativePath, Scope};
use memory::screen::{Policy, ScreenFinding, TextAuthor, ValueDigest};

use crate::backend::{BackendError, Extent, FileKind};
use crate::caller::CallContext;
use crate::commit::{CommitPlan, FileOp, FileSnapshot, FileStep};
use crate::error::StoreError;
use crate::memories::Memories;
use crate::root::Root;
use crate::root_lock::LockedRoot;
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

    /// Checks that this caller may write at `path`, before anything else is touched.
    pub(crate) fn check_writable(&self, path: &MemoryPath) -> Result<(), CommandError> {
        let Some(mount) = path.mount() else { return Ok(()) };
        match self.mounts.iter().find(|bound| bound.mount == mount) {
            Some(bound) if bound.access == Access::ReadOnly => {
                Err(CommandError::ReadOnly { mount })
            }
            _ => Ok(()),
        }
    }

    /// Returns the root that `mount` leads to, or why there is none.
    pub(crate) fn root(&self, mount: Mount) -> Result<&Arc<Root>, CommandError> {
        let reason = match self.mounts.iter().find(|bound| bound.mount == mount) {
            Some(bound) => match &bound.root {
                Ok(root) => return Ok(root),
                Err(reason) => reason.clone(),
            },
            None => "it is not mounted here".to_owned(),
        };
        let scope = match mount {
            Mount::Scope(scope) => scope,
            Mount::Flat => Scope::Global,
        };
        Err(CommandError::ScopeUnavailable { scope, reason })
    }

    /// Returns the root and the path in it of something that must lie inside a root.
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

    /// Returns the root that a command writes to, or what can be refused by its paths alone.
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
        // What a person imports was written by somebody else, so it is screened like an agent's.
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

    /// Screens the text that a memory is about to have, and its name when that is new.
    pub(crate) fn screen(
        &self,
        path: &MemoryPath,
        before: Option<&str>,
        after: &str,
    ) -> Result<Vec<Warning>, CommandError> {
        let is_person = self.caller.provenance.actor == Actor::Person;
        let answered = if is_person { &self.allowed_rules[..] } else { &[] };
        refuse_or_warn(&self.findings(path, before, after), answered)
    }

    /// Returns what screening finds in the text that a memory is about to have, and in its name when
    /// that is new; each with the digest of what was found.
    pub(crate) fn findings(
        &self,
        path: &MemoryPath,
        before: Option<&str>,
        after: &str,
    ) -> Vec<(ScreenFinding, ValueDigest)> {
        let (screen, writer) = (&self.store.screen, self.writer());
        let Some(before) = before else {
            // A name is shown to models too, so it is screened like the words that it is made of.
            let name = path.relative().map(RelativePath::as_str).unwrap_or_default();
            let words = name.replace(['-', '_', '/'], " ");
            let texts = [after, words.as_str(), name];
            return texts.map(|text| with_digests(text, screen.check(text, writer))).concat();
        };
        with_digests(after, screen.introduced(before, after, writer))
    }

    /// Checks that everything a plan adds has a free name in its root, and that there is room for it.
    pub(crate) async fn check_plan(
        &self,
        held: &[LockedRoot],
        plan: &CommitPlan,
    ) -> Result<(), StoreError> {
        for (index, root) in held.iter().enumerate() {
            let changes = RootChanges::new(plan, index);
            changes.check_names(&self.store, root).await?;
            let added = changes.added.len().saturating_sub(changes.removed);
            if added > 0 {
                check_room(root, &self.store, added).await?;
            }
        }
        Ok(())
    }
}

/// Adds to each finding the digest of what was found in a text.
pub(crate) fn with_digests(
    text: &str,
    findings: Vec<ScreenFinding>,
) -> Vec<(ScreenFinding, ValueDigest)> {
    let digest = |found: ScreenFinding| {
        let digest = ValueDigest::new(&found, text);
        (found, digest)
    };
    findings.into_iter().map(digest).collect()
}

/// Refuses a text for the first finding that refuses it, or returns what all of them warn of. What the person answers
/// for, by its rule or family, only warns.
pub(crate) fn refuse_or_warn(
    findings: &[(ScreenFinding, ValueDigest)],
    answered: &[&str],
) -> Result<Vec<Warning>, CommandError> {
    let refuses = |found: &ScreenFinding| {
        found.policy == Policy::Refuse
            && ![found.rule, found.family.as_ref()].iter().any(|name| answered.contains(name))
    };
    if let Some((found, digest)) = findings.iter().find(|(found, _)| refuses(found)) {
        return Err(CommandError::Screened {
            family: found.family.into(),
            rule: found.rule,
            line: found.line,
            digest: digest.clone(),
        });
    }
    let warning = |(found, _): &(ScreenFinding, _)| Warning { rule: found.rule, line: found.line };
    Ok(findings.iter().map(warning).collect())
}

/// What a plan does to the names in one root.
struct RootChanges<'p> {
    /// Files and folders that are removed or moved away.
    leaving: Vec<&'p RelativePath>,
    /// New files.
    added: Vec<&'p RelativePath>,
    /// Targets of moves.
    moved: Vec<&'p RelativePath>,
    /// How many files are removed.
    removed: usize,
    /// Whether the new names stood beside each other before.
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
        for FileStep { path, op: what, .. } in plan.steps.iter().filter(|step| step.root == root) {
            match what {
                FileOp::Write { before: None, .. } => added.push(path),
                FileOp::Write { before: Some(_), .. } => {}
                FileOp::Remove { .. } => {
                    leaving.push(path);
                    removed += 1;
                }
                // A folder that moves as a whole takes its files along.
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

    async fn check_names(&self, store: &Store, held: &LockedRoot) -> Result<(), StoreError> {
        let mount = held.root.mount;
        let mut names = BTreeSet::new();
        for &new in self.added.iter().chain(&self.moved) {
            let path = virtual_path(mount, new.clone())?;
            if let Some(found) = obstacle(&held.root, new, &self.leaving).await? {
                return Err(if found != *new {
                    CommandError::ParentNotFolder { path, parent: virtual_path(mount, found)? }
                } else if self.moved.contains(&new) {
                    CommandError::DestinationExists { path }
                } else {
                    CommandError::AlreadyExists { path }
                }
                .into());
            }
            let existing = match held.find_case_variant(store, new, &self.leaving).await? {
                Some(existing) => Some(virtual_path(mount, existing)?),
                None if names.insert(new.case_folded()) || self.restores => None,
                None => Some(path.clone()),
            };
            if let Some(existing) = existing {
                return Err(CommandError::DiffersOnlyInCase { path, existing }.into());
            }
        }
        Ok(())
    }
}

/// Returns what is in the way of a new file and does not leave with the same change: a file or folder
/// at its path, or a file where a folder above it has to be.
pub(crate) async fn obstacle(
    root: &Root,
    new: &RelativePath,
    leaving: &[&RelativePath],
) -> Result<Option<RelativePath>, StoreError> {
    let at = StoreError::backend_error(root.mount);
    let leaves = |path: &RelativePath| leaving.iter().any(|left| path.is_within(left));
    match root.backend.kind(new).await {
        Ok(None) => Ok(None),
        Ok(Some(FileKind::Folder)) => {
            let walk = root.backend.walk(Some(new), Extent::ALL).await.map_err(&at)?;
            let is_whole = walk.files.len() == walk.files_total && walk.skipped.is_empty();
            // A folder that is or becomes empty gives way.
            let empties = is_whole && walk.files.iter().all(|file| leaves(&file.path));
            Ok((!empties).then(|| new.clone()))
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
                    Err(error) => return Err(at(error)),
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

/// Returns the virtual path of something in a root.
pub(crate) fn virtual_path(
    mount: Mount,
    relative: RelativePath,
) -> Result<MemoryPath, CommandError> {
    Ok(MemoryPath::inside(mount, relative)?)
}

/// Turns what a backend found in the way of one memory into the refusal that says so.
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

/// Returns what is at a path; a file on the way to it means that nothing is.
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

/// Checks that a root has room for `more` memories. They are counted while the root is held: what editors and git added is
/// no less there than what Lukasa wrote.
async fn check_room(held: &LockedRoot, store: &Store, more: usize) -> Result<(), StoreError> {
    let (root, limit) = (&held.root, store.settings.files_max);
    let at = StoreError::backend_error(root.mount);
    let mut there = root.backend.count().await.map_err(&at)?;
    if there + more > limit && root.has_list_file().await.map_err(&at)? {
        there -= 1;
    }
    if there + more <= limit {
        return Ok(());
    }
    Err(CommandError::ScopeFull { mount: root.mount, limit }.into())
}

/// Reads a memory that is within the cap.
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

/// Refuses a file that is too large to be a memory.
pub(crate) fn too_large_error(path: &MemoryPath, bytes: u64) -> CommandError {
    // Only shown, so a 32-bit machine may say less than it is.
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    CommandError::OutgrewCap { path: path.clone(), bytes }
}
