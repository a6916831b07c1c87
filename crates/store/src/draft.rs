//! Edits that are not yet committed.
//!
//! A draft sees the memories as they are, with its own edits over them, and writes nothing. Its
//! commit is one change: all of it or nothing, across files and scopes, and only if every memory
//! that it builds on is still as the draft saw it. Dropping a draft leaves no trace.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use memory::change::{ChangeId, ChangeKind, Trust, unified_diff};
use memory::command::edit;
use memory::command::{self, Command, CommandError, Reply};
use memory::document::Revision;
use memory::path::{MemoryPath, Mount, PathError, PathFault, RelativePath};

use crate::apply::{check_room, look, virtual_path};
use crate::backend::{BackendError, Extent, Kind};
use crate::commit::{self, CommitError, Current, Plan, Step, What};
use crate::error::StoreError;
use crate::history::FileDiff;
use crate::memories::{Answering, Call, Memories};
use crate::root::{HeldRoot, Root};

/// One memory as the draft has it.
#[derive(Debug)]
struct Drafted {
    /// What was there when the draft first looked; `None` if nothing was.
    base: Option<Current>,
    /// What is to be there; `None` if nothing is.
    now: Option<Arc<[u8]>>,
    /// Where its text was moved from.
    from: Option<RelativePath>,
}

/// What a draft does to one memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftedEdit {
    /// Which.
    pub path: MemoryPath,
    /// The revision of the text that it builds on; `None` if nothing was there.
    pub base: Option<Revision>,
    /// The text that it is to have; `None` if it is to go.
    pub text: Option<String>,
}

/// Edits that are not yet committed.
#[derive(Debug)]
pub struct Draft {
    memories: Memories,
    kind: ChangeKind,
    call: Call,
    files: BTreeMap<(Mount, RelativePath), Drafted>,
}

impl Memories {
    /// Opens a draft. Its commit is recorded as one change of this kind.
    pub fn draft(&self, kind: ChangeKind, call: Call) -> Draft {
        Draft { memories: self.clone(), kind, call, files: BTreeMap::new() }
    }
}

impl Draft {
    /// Carries out one command on the draft. A view of a file shows it as the draft has it; a view
    /// of a folder shows what is committed.
    pub fn apply(&mut self, command: Command) -> Answering<'_, Reply> {
        Box::pin(async move {
            let done = match &command {
                Command::View { path, lines } => self.view(path, lines).await,
                Command::Create { path, file_text } => self.create(path, file_text).await,
                Command::StrReplace { path, old_str, new_str } => {
                    self.edit(path, |text| edit::str_replace(path, text, old_str, new_str)).await
                }
                Command::Insert { path, insert_line, insert_text } => {
                    self.edit(path, |text| edit::insert(path, text, *insert_line, insert_text))
                        .await
                }
                Command::Delete { path } => self.delete(path).await,
                Command::Rename { old_path, new_path } => self.rename(old_path, new_path).await,
            };
            match done {
                Err(StoreError::Refused(refusal)) => Ok(Reply::Refused(refusal)),
                done => done,
            }
        })
    }

    /// Gives a memory this text, whatever it had; makes it if need be.
    pub async fn put(&mut self, path: &MemoryPath, text: &str) -> Result<(), StoreError> {
        self.check(path).await?;
        edit::check_writable(path, text)?;
        let (mount, relative) = self.place(path)?;
        let before = self.text_of(path).await?;
        self.memories.screen(path, before.as_deref(), text)?;
        let drafted = self.load(path).await?;
        drafted.now = Some(Arc::from(text.as_bytes()));
        debug_assert!(self.files.contains_key(&(mount, relative)), "it was loaded");
        Ok(())
    }

    /// Returns the text of a memory as the draft has it; `None` if there is none.
    pub async fn text_of(&mut self, path: &MemoryPath) -> Result<Option<String>, StoreError> {
        let now = self.load(path).await?.now.clone();
        match now {
            Some(bytes) => Ok(Some(command::text_of(path, &bytes)?.to_owned())),
            None => Ok(None),
        }
    }

    /// Lowers how far the text of this draft may be trusted, to that of a source that it comes from.
    pub fn limit_trust(&mut self, source: Trust) {
        let by = &mut self.memories.caller.provenance;
        by.trust = by.trust.min(source);
    }

    /// Notes that a model decided on it.
    pub fn by_model(&mut self, model: &str) {
        self.memories.caller.provenance.model = Some(model.to_owned());
    }

    /// Says what this draft goes back to.
    pub fn because(&mut self, note: String) {
        self.memories.caller.provenance.note = Some(note);
    }

    /// Returns the memories that a commit would change.
    pub fn changed(&self) -> Vec<MemoryPath> {
        let changed = self.files.iter().filter(|(_, drafted)| drafted.is_changed());
        changed
            .filter_map(|((mount, path), _)| MemoryPath::inside(*mount, path.clone()).ok())
            .collect()
    }

    /// Returns what a commit would do to each memory, as data: what it builds on, and the text that is to be there.
    pub fn edits(&self) -> Vec<DraftedEdit> {
        let text = |bytes: &Arc<[u8]>| String::from_utf8_lossy(bytes).into_owned();
        let changed = self.files.iter().filter(|(_, drafted)| drafted.is_changed());
        changed
            .filter_map(|((mount, path), drafted)| {
                Some(DraftedEdit {
                    path: MemoryPath::inside(*mount, path.clone()).ok()?,
                    base: drafted.base.as_ref().and_then(Current::revision),
                    text: drafted.now.as_ref().map(text),
                })
            })
            .collect()
    }

    /// Returns the model that is noted to have decided on it.
    pub fn model(&self) -> Option<&str> {
        self.memories.caller.provenance.model.as_deref()
    }

    /// Returns what this draft goes back to, if that was said.
    pub fn note(&self) -> Option<&str> {
        self.memories.caller.provenance.note.as_deref()
    }

    /// Returns what a commit would do to each memory, as texts.
    pub fn diffs(&self) -> Vec<FileDiff> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let changed = self.files.iter().filter(|(_, drafted)| drafted.is_changed());
        changed
            .filter_map(|((mount, path), drafted)| {
                let path = MemoryPath::inside(*mount, path.clone()).ok()?;
                let base = drafted.base.as_ref().and_then(|base| base.content.as_ref());
                let before = base.map(|(bytes, _)| text(bytes));
                let after = drafted.now.as_deref().map(text);
                let name = path.to_string();
                let unified = unified_diff(
                    (&name, before.as_deref().unwrap_or_default()),
                    (&name, after.as_deref().unwrap_or_default()),
                );
                Some(FileDiff { path, moved_to: None, before, after, unified, kept: true })
            })
            .collect()
    }

    /// Commits everything as one change; `None` when there is nothing to change. A memory that is
    /// not as the draft saw it makes the whole of it a [`CommandError::Conflict`].
    pub fn commit(self) -> Answering<'static, Option<ChangeId>> {
        Box::pin(async move {
            let changed: Vec<_> =
                self.files.iter().filter(|(_, drafted)| drafted.is_changed()).collect();
            if changed.is_empty() {
                return Ok(None);
            }
            // Roots are held in the order of the scopes, so that two drafts never wait for each other.
            let mut mounts: Vec<Mount> = changed.iter().map(|((mount, _), _)| *mount).collect();
            mounts.sort();
            mounts.dedup();
            let mut held = Vec::with_capacity(mounts.len());
            for mount in &mounts {
                held.push(self.memories.root(*mount)?.hold(&self.memories.store).await?);
            }
            let mut steps = Vec::with_capacity(changed.len());
            for ((mount, path), drafted) in changed {
                let Some(root) = mounts.iter().position(|one| one == mount) else { continue };
                steps.push(self.step(&held[root], (root, path), drafted).await?);
            }
            let steps = self.join_moves(steps, &held, &mounts);
            for (index, root) in held.iter().enumerate() {
                check_new(&self.memories, root, steps.iter().filter(|step| step.root == index))
                    .await?;
            }
            let plan = Plan {
                kind: self.kind,
                provenance: self.memories.provenance(&self.call),
                outside_read: self.memories.caller.outside_read.clone(),
                attempt: self.call.attempt,
                accepts: self.call.proposal,
                undoes: None,
                folder: None,
                steps,
                counts_as_use: false,
            };
            let first = self.changed().into_iter().next().unwrap_or(MemoryPath::Top);
            match commit::commit(&self.memories.store, &mut held, plan).await {
                Ok(id) => {
                    drop(held);
                    self.memories.store.see_to_settling().await;
                    Ok(Some(id))
                }
                Err(CommitError::Raced) => {
                    Err(CommandError::Conflict { path: first, current: None }.into())
                }
                Err(CommitError::Store(error)) => Err(error),
            }
        })
    }

    /// Makes a move of a memory that the draft gave another path, so that pins and usage follow it;
    /// text that was moved and edited is trusted no more than where it came from.
    fn join_moves(&self, steps: Vec<Step>, held: &[HeldRoot], mounts: &[Mount]) -> Vec<Step> {
        let mut steps: Vec<Option<Step>> = steps.into_iter().map(Some).collect();
        for target in 0..steps.len() {
            let Some(Step { root, path, what: What::Put { before: None, after }, .. }) =
                steps[target].clone()
            else {
                continue;
            };
            let drafted = self.files.get(&(mounts[root], path.clone()));
            let Some(from) = drafted.and_then(|drafted| drafted.from.clone()) else { continue };
            let source = steps.iter().position(|step| {
                step.as_ref().is_some_and(|step| step.root == root && step.path == from)
            });
            let trust = held[root].trust(&from).min(self.memories.caller.provenance.trust);
            match source.and_then(|source| steps[source].clone().map(|step| (source, step))) {
                Some((source, Step { what: What::Remove { before }, .. }))
                    if before.revision() == Some(Revision::of(&after)) =>
                {
                    let what = What::Move { to: path, before };
                    steps[source] = None;
                    steps[target] = Some(Step { root, path: from, what, trust: None });
                }
                _ => {
                    if let Some(step) = &mut steps[target] {
                        step.trust = Some(trust);
                    }
                }
            }
        }
        steps.into_iter().flatten().collect()
    }

    /// Turns one drafted memory into a step, if it is still as the draft saw it.
    async fn step(
        &self,
        held: &HeldRoot,
        (index, relative): (usize, &RelativePath),
        drafted: &Drafted,
    ) -> Result<Step, StoreError> {
        let path = virtual_path(held.root.mount, relative.clone())?;
        let now = current(&held.root, &path, relative).await?;
        let revision = now.as_ref().and_then(Current::revision);
        if revision != drafted.base.as_ref().and_then(Current::revision)
            || now.is_some() != drafted.base.is_some()
        {
            return Err(CommandError::Conflict { path, current: revision }.into());
        }
        let what = match (now, &drafted.now) {
            (before, Some(after)) => What::Put { before, after: Arc::clone(after) },
            (Some(before), None) => What::Remove { before },
            (None, None) => return Err(CommandError::NothingThere { path }.into()),
        };
        Ok(Step { root: index, path: relative.clone(), what, trust: None })
    }

    async fn check(&self, path: &MemoryPath) -> Result<(), StoreError> {
        self.memories.check_writable(path)?;
        let (root, relative) = self.memories.inside(path)?;
        root.check_no_list(path, relative).await
    }

    fn place(&self, path: &MemoryPath) -> Result<(Mount, RelativePath), CommandError> {
        let (root, relative) = self.memories.inside(path)?;
        Ok((root.mount, relative.clone()))
    }

    async fn load(&mut self, path: &MemoryPath) -> Result<&mut Drafted, StoreError> {
        let key = self.place(path)?;
        if !self.files.contains_key(&key) {
            let root = self.memories.root(key.0)?;
            let base = current(root, path, &key.1).await?;
            if let Some(Current { stamp, content: None }) = &base {
                // Without its bytes it could neither be kept nor given back.
                let bytes = usize::try_from(stamp.0[1]).unwrap_or(usize::MAX);
                return Err(CommandError::OutgrewCap { path: path.clone(), bytes }.into());
            }
            let now =
                base.as_ref().and_then(|base| base.content.as_ref()).map(|one| Arc::clone(&one.0));
            self.files.insert(key.clone(), Drafted { base, now, from: None });
        }
        self.files.get_mut(&key).ok_or_else(|| CommandError::NotFound { path: path.clone() }.into())
    }

    async fn view(
        &mut self,
        path: &MemoryPath,
        lines: &command::Lines,
    ) -> Result<Reply, StoreError> {
        let drafted = match self.place(path) {
            Ok(key) => self.files.get(&key).and_then(|drafted| drafted.now.clone()),
            Err(_) => None,
        };
        match drafted {
            Some(bytes) => {
                let text = command::text_of(path, &bytes)?;
                let text = command::view::view_file(path, text, lines)?;
                let revision = Some(Revision::of(&bytes));
                Ok(Reply::Done { text, change: None, revision, warnings: Vec::new() })
            }
            None if self.is_removed(path) => {
                Err(CommandError::NotFound { path: path.clone() }.into())
            }
            None => self.memories.view(path, lines).await,
        }
    }

    fn is_removed(&self, path: &MemoryPath) -> bool {
        let Ok(key) = self.place(path) else { return false };
        self.files.get(&key).is_some_and(|drafted| drafted.now.is_none())
    }

    async fn create(&mut self, path: &MemoryPath, text: &str) -> Result<Reply, StoreError> {
        self.check(path).await?;
        edit::check_writable(path, text)?;
        let warnings = self.memories.screen(path, None, text)?;
        let (root, relative) = self.memories.inside(path)?;
        let root = Arc::clone(root);
        if look(&root, path, relative).await? == Some(Kind::Folder) {
            return Err(CommandError::AlreadyExists { path: path.clone() }.into());
        }
        let drafted = self.load(path).await?;
        if drafted.now.is_some() {
            return Err(CommandError::AlreadyExists { path: path.clone() }.into());
        }
        drafted.now = Some(Arc::from(text.as_bytes()));
        let revision = Some(Revision::of(text.as_bytes()));
        Ok(Reply::Done { text: command::created(path), change: None, revision, warnings })
    }

    async fn edit(
        &mut self,
        path: &MemoryPath,
        edit: impl Fn(&str) -> Result<edit::Edited, CommandError>,
    ) -> Result<Reply, StoreError> {
        self.check(path).await?;
        let Some(text) = self.text_of(path).await? else {
            return Err(CommandError::NotFound { path: path.clone() }.into());
        };
        let edited = edit(&text)?;
        let warnings = self.memories.screen(path, Some(&text), &edited.text)?;
        let bytes: Arc<[u8]> = Arc::from(edited.text.into_bytes());
        let revision = Some(Revision::of(&bytes));
        self.load(path).await?.now = Some(bytes);
        Ok(Reply::Done { text: edited.reply, change: None, revision, warnings })
    }

    async fn delete(&mut self, path: &MemoryPath) -> Result<Reply, StoreError> {
        if path.relative().is_none() {
            return Err(CommandError::CannotDeleteRoot { path: path.clone() }.into());
        }
        self.check(path).await?;
        let paths = self.below(path).await?;
        if paths.is_empty() {
            return Err(CommandError::NothingThere { path: path.clone() }.into());
        }
        for path in &paths {
            self.load(path).await?.now = None;
        }
        Ok(done(command::deleted(path)))
    }

    async fn rename(
        &mut self,
        old_path: &MemoryPath,
        new_path: &MemoryPath,
    ) -> Result<Reply, StoreError> {
        crate::apply::check_rename(old_path, new_path)?;
        self.check(old_path).await?;
        self.check(new_path).await?;
        let (Some(from), Some(to)) = (old_path.relative(), new_path.relative()) else {
            return Err(CommandError::CannotRenameRoot { path: old_path.clone() }.into());
        };
        if to != from && to.is_within(from) {
            let (old_path, new_path) = (old_path.clone(), new_path.clone());
            return Err(CommandError::IntoItself { old_path, new_path }.into());
        }
        if !self.below(new_path).await?.is_empty() {
            return Err(CommandError::DestinationExists { path: new_path.clone() }.into());
        }
        let paths = self.below(old_path).await?;
        if paths.is_empty() {
            return Err(CommandError::NothingThere { path: old_path.clone() }.into());
        }
        self.memories.screen(new_path, None, "")?;
        // All of them are worked out before the first is touched: a refusal must change nothing.
        let mut moves = Vec::with_capacity(paths.len());
        for path in paths {
            let target = path.relative().and_then(|relative| relative.rebase(from, to));
            let Some((mount, target)) = path.mount().zip(target) else {
                let error = PathError::invalid(&path.to_string(), PathFault::TooLong);
                return Err(CommandError::from(error).into());
            };
            let target = virtual_path(mount, target)?;
            self.load(&target).await?;
            moves.push((path, target));
        }
        for (path, target) in moves {
            let drafted = self.load(&path).await?;
            let source = drafted.from.take().or_else(|| path.relative().cloned());
            let bytes = drafted.now.take();
            let drafted = self.load(&target).await?;
            (drafted.now, drafted.from) = (bytes, source);
        }
        Ok(done(command::renamed(old_path, new_path)))
    }

    /// Returns every memory at or below a path, as the draft has them.
    async fn below(&mut self, path: &MemoryPath) -> Result<Vec<MemoryPath>, StoreError> {
        let (root, relative) = self.memories.inside(path)?;
        let (root, relative) = (Arc::clone(root), relative.clone());
        let mut found = match look(&root, path, &relative).await? {
            Some(Kind::Folder) => {
                let walk = root.backend.walk(Some(&relative), Extent::ALL).await;
                let walk = walk.map_err(StoreError::at(root.mount))?;
                walk.files.into_iter().map(|file| file.path).collect()
            }
            Some(Kind::File) => vec![relative.clone()],
            Some(Kind::Other) | None => Vec::new(),
        };
        found.retain(|path| !root.is_list(path));
        let own = self.files.keys().filter(|(mount, _)| *mount == root.mount);
        found.extend(own.map(|(_, path)| path.clone()).filter(|path| path.is_within(&relative)));
        found.sort();
        found.dedup();
        let mut there = Vec::new();
        for path in found {
            let path = virtual_path(root.mount, path)?;
            if self.load(&path).await?.now.is_some() {
                there.push(path);
            }
        }
        Ok(there)
    }
}

impl Drafted {
    fn is_changed(&self) -> bool {
        match (&self.base, &self.now) {
            (None, None) => false,
            (Some(base), Some(now)) => {
                base.content.as_ref().is_none_or(|content| content.0 != *now)
            }
            (None, Some(_)) | (Some(_), None) => true,
        }
    }
}

fn done(text: String) -> Reply {
    Reply::Done { text, change: None, revision: None, warnings: Vec::new() }
}

/// Reads a memory as far as history keeps it; `None` if nothing is there.
async fn current(
    root: &Root,
    path: &MemoryPath,
    relative: &RelativePath,
) -> Result<Option<Current>, StoreError> {
    match root.backend.read(relative, memory::limits::HISTORY_FILE_BYTES_MAX).await {
        Err(BackendError::NotFound) => Ok(None),
        Err(BackendError::WrongKind) if look(root, path, relative).await?.is_none() => Ok(None),
        read => Ok(Some(Current::of(read.map_err(crate::apply::refuse(root.mount, path))?))),
    }
}

/// Checks that what is new has room, and a name that nothing else has.
async fn check_new(
    memories: &Memories,
    held: &HeldRoot,
    steps: impl Iterator<Item = &Step>,
) -> Result<(), StoreError> {
    let (mut more, mut fewer) = (0_usize, 0_usize);
    let mut names = HashSet::new();
    for step in steps {
        match &step.what {
            What::Put { before: None, .. } => {
                let path = virtual_path(held.root.mount, step.path.clone())?;
                memories.check_free(held, &path, &step.path, None).await?;
                if !names.insert(step.path.folded()) {
                    let existing = path.clone();
                    return Err(CommandError::DiffersOnlyInCase { path, existing }.into());
                }
                more += 1;
            }
            What::Remove { .. } => fewer += 1,
            What::Move { to, .. } => {
                let path = virtual_path(held.root.mount, to.clone())?;
                memories.check_free(held, &path, to, Some(&step.path)).await?;
                names.insert(to.folded());
            }
            What::Put { before: Some(_), .. } => {}
        }
    }
    match more.saturating_sub(fewer) {
        0 => Ok(()),
        more => check_room(held, &memories.store, more).await,
    }
}
