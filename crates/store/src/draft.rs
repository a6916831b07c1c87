//! Drafts: edits that are not committed yet. Every write of a command, a save or a curator goes
//! through a draft.
//!
//! A draft reads the memories as they are, with its own edits on top, and writes nothing. Its
//! commit is one change across files and scopes: all of it or nothing. The commit succeeds only if
//! every memory that the draft builds on is still as the draft read it. Dropping a draft leaves no
//! trace.
//!
//! A single command is a draft of one command, whose root is locked from the first read to the
//! commit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use memory::change::{Actor, ChangeId, ChangeKind, Trust, unified_diff};
use memory::command::edit::{self, EditResult};
use memory::command::{self, CommandError, MemoryCommand, Reply, Warning};
use memory::document::Revision;
use memory::limits::{HISTORY_CHANGE_BYTES_MAX, HISTORY_FILE_BYTES_MAX, MEMORY_BYTES_MAX};
use memory::path::{MemoryPath, Mount, PathError, PathErrorKind, RelativePath};

use crate::backend::{BackendError, Extent, FileKind};
use crate::caller::{CallContext, Precondition};
use crate::checks::{backend_refusal, kind_at, too_large_error, virtual_path};
use crate::commit::{
    self, CommitError, CommitPlan, FileOp, FileSnapshot, FileStep, FolderStep, TextOrigin,
};
use crate::error::StoreError;
use crate::history::FileDiff;
use crate::memories::Memories;
use crate::root::Root;
use crate::root_lock::LockedRoot;

/// The way a draft is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Edits over some time, without a lock. The commit compares the current files with what was read.
    Edits,
    /// One command in a locked root. Files that are too large for history may be deleted or moved. A folder is
    /// moved or deleted as a whole, with other files in it. An edit that changes no byte is recorded.
    Command,
}

/// The text of a memory in a draft.
#[derive(Clone, Debug)]
enum Content {
    Absent,
    Bytes(Arc<[u8]>),
    /// A file that is too large to be read.
    Unread,
}

impl Content {
    fn from_snapshot(current: Option<&FileSnapshot>) -> Self {
        match current {
            None => Self::Absent,
            Some(current) => current.content_bytes().map_or(Self::Unread, Self::Bytes),
        }
    }

    const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    const fn bytes(&self) -> Option<&Arc<[u8]>> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Absent | Self::Unread => None,
        }
    }
}

/// One memory as the draft has it.
#[derive(Debug)]
struct DraftFile {
    /// The file when the draft first read it; `None` if there was none.
    base: Option<FileSnapshot>,
    content: Content,
    /// The path that its text was moved from.
    source: Option<RelativePath>,
    /// Whether the draft wrote it, even with the same text.
    is_written: bool,
    /// Origin of a text that was written elsewhere before.
    origin: Option<TextOrigin>,
}

impl DraftFile {
    fn new(base: Option<FileSnapshot>) -> Self {
        let now = Content::from_snapshot(base.as_ref());
        Self { base, content: now, source: None, is_written: false, origin: None }
    }

    fn write(&mut self, now: Content) {
        self.content = now;
        // What was known of the text before says nothing of this one.
        self.origin = None;
        self.is_written = true;
    }

    fn base_revision(&self) -> Option<Revision> {
        self.base.as_ref().and_then(FileSnapshot::revision)
    }

    fn is_changed(&self) -> bool {
        match (&self.base, &self.content) {
            (None, Content::Absent) => false,
            (Some(base), Content::Bytes(now)) => base.content_bytes().as_ref() != Some(now),
            (Some(_), Content::Unread) => self.source.is_some(),
            (None, Content::Bytes(_) | Content::Unread) | (Some(_), Content::Absent) => true,
        }
    }
}

/// Effect of a draft on one memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftEdit {
    /// Path of the memory.
    pub path: MemoryPath,
    /// The revision of the text that it builds on; `None` if nothing was there.
    pub base: Option<Revision>,
    /// The new text; `None` if the memory is removed.
    pub text: Option<String>,
}

/// The key of a memory in a draft.
type DraftKey = (Mount, RelativePath);

/// Edits that are not yet committed.
#[derive(Debug)]
#[must_use = "a draft writes nothing until it is committed"]
pub struct Draft {
    memories: Memories,
    kind: ChangeKind,
    call: CallContext,
    mode: Mode,
    files: BTreeMap<DraftKey, DraftFile>,
    /// The folder that the one command of this draft deletes or renames.
    folder: Option<FolderStep>,
    /// Bytes of deleted or moved files that are read for history so far.
    history_bytes: usize,
}

impl Memories {
    /// Opens a draft. Its commit is recorded as one change of this kind.
    pub fn draft(&self, kind: ChangeKind, call: CallContext) -> Draft {
        Draft::new(self, kind, call, Mode::Edits)
    }
}

impl Draft {
    fn new(memories: &Memories, kind: ChangeKind, call: CallContext, mode: Mode) -> Self {
        let (files, memories) = (BTreeMap::new(), memories.clone());
        Self { memories, kind, call, mode, files, folder: None, history_bytes: 0 }
    }

    /// Opens a draft for one command. Its root has to be locked until the commit.
    pub(crate) fn for_command(memories: &Memories, kind: ChangeKind, call: &CallContext) -> Self {
        Self::new(memories, kind, call.clone(), Mode::Command)
    }

    /// Executes one command on the draft. A view of a file shows the drafted text; a view of a folder shows the
    /// committed files.
    pub async fn apply(&mut self, command: MemoryCommand) -> Result<Reply, StoreError> {
        match self.execute(&command).await {
            Err(StoreError::Refused(refusal)) => Ok(Reply::Refused(refusal)),
            done => done,
        }
    }

    /// Executes one command. A refusal is an error and changes nothing.
    pub(crate) async fn execute(&mut self, command: &MemoryCommand) -> Result<Reply, StoreError> {
        if !command.is_view() {
            self.memories.target(command)?;
        }
        match command {
            MemoryCommand::View { path, lines } => self.view(path, lines).await,
            MemoryCommand::Create { path, file_text } => self.create(path, file_text).await,
            MemoryCommand::StrReplace { path, old_str, new_str } => {
                self.edit(path, |text| edit::str_replace(path, text, old_str, new_str)).await
            }
            MemoryCommand::Insert { path, insert_line, insert_text } => {
                self.edit(path, |text| edit::insert(path, text, *insert_line, insert_text)).await
            }
            MemoryCommand::Delete { path } => self.delete(path).await,
            MemoryCommand::Rename { old_path, new_path } => self.rename(old_path, new_path).await,
        }
    }

    /// Sets the text of a memory; creates the memory if it does not exist.
    pub async fn set_text(&mut self, path: &MemoryPath, text: &str) -> Result<(), StoreError> {
        self.check(path).await?;
        edit::check_writable(path, text)?;
        let before = self.text_of(path).await?;
        self.memories.screen(path, before.as_deref(), text)?;
        self.load(path).await?.write(Content::Bytes(Arc::from(text.as_bytes())));
        Ok(())
    }

    /// Sets the text of a memory if the precondition holds. Returns the warnings of screening, and whether the
    /// memory is new.
    pub(crate) async fn save(
        &mut self,
        path: &MemoryPath,
        text: &str,
        expected: &Precondition,
    ) -> Result<(Vec<Warning>, bool), StoreError> {
        self.check(path).await?;
        edit::check_writable(path, text)?;
        let after: Arc<[u8]> = Arc::from(text.as_bytes());
        let file = self.load_memory(path).await?;
        let current = file.content.bytes().map(|bytes| Revision::digest(bytes));
        if !expected.allows(current) {
            return Err(CommandError::Conflict { path: path.clone(), current }.into());
        }
        let before = file.content.bytes().cloned();
        if before.as_ref() == Some(&after) {
            return Ok((Vec::new(), false));
        }
        // Bytes that are not UTF-8 are screened as lossy text, since a save may repair them.
        let before_text = before.as_deref().map(String::from_utf8_lossy);
        let warnings = self.memories.screen(path, before_text.as_deref(), text)?;
        self.load(path).await?.write(Content::Bytes(after));
        Ok((warnings, before.is_none()))
    }

    /// Returns the text of a memory in the draft; `None` if it does not exist.
    pub async fn text_of(&mut self, path: &MemoryPath) -> Result<Option<String>, StoreError> {
        match self.load(path).await?.content.bytes() {
            Some(bytes) => Ok(Some(command::decode_text(path, bytes)?.to_owned())),
            None => Ok(None),
        }
    }

    /// Lowers the trust of this draft's text to the trust of a source that it comes from.
    pub fn limit_trust(&mut self, source: Trust) {
        let by = &mut self.memories.caller.provenance;
        by.trust = by.trust.min(source);
    }

    /// Sets the origin of a drafted memory's text, and returns it as set. A later edit of that memory clears it.
    ///
    /// Outside of a repository, text with trust `outside` is not withheld from models by its trust alone. There it is
    /// set to await a review.
    pub async fn set_origin(
        &mut self,
        path: &MemoryPath,
        mut origin: TextOrigin,
    ) -> Result<TextOrigin, StoreError> {
        let in_repository = path.mount().is_some_and(|mount| self.memories.is_in_repository(mount));
        origin.needs_review |= origin.trust == Trust::Outside && !in_repository;
        self.load(path).await?.origin = Some(origin);
        Ok(origin)
    }

    /// Records the model that decided on the draft.
    pub fn set_model(&mut self, model: &str) {
        self.memories.caller.provenance.model = Some(model.to_owned());
    }

    /// Records a note about the origin of the draft.
    pub fn set_note(&mut self, note: String) {
        self.memories.caller.provenance.note = Some(note);
    }

    /// Returns the paths of the memories that a commit would change.
    pub fn changed_paths(&self) -> Vec<MemoryPath> {
        let paths = self.included().map(|((mount, path), _)| virtual_path(*mount, path.clone()));
        paths.map(|path| path.expect("paths of drafted memories are valid")).collect()
    }

    /// Returns the edits that a commit would make, as data.
    pub fn edits(&self) -> Vec<DraftEdit> {
        let text = |bytes: &Arc<[u8]>| String::from_utf8_lossy(bytes).into_owned();
        let edit = |(path, (_, drafted)): (MemoryPath, (&DraftKey, &DraftFile))| DraftEdit {
            path,
            base: drafted.base_revision(),
            text: drafted.content.bytes().map(text),
        };
        self.changed_paths().into_iter().zip(self.included()).map(edit).collect()
    }

    /// Returns the model that is recorded as having decided on the draft.
    pub fn model(&self) -> Option<&str> {
        self.memories.caller.provenance.model.as_deref()
    }

    /// Returns the recorded note about the origin of the draft.
    pub fn note(&self) -> Option<&str> {
        self.memories.caller.provenance.note.as_deref()
    }

    /// Returns the edits that a commit would make, as diffs.
    pub fn diffs(&self) -> Vec<FileDiff> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.included()
            .filter_map(|((mount, path), drafted)| {
                let path = MemoryPath::inside(*mount, path.clone()).ok()?;
                let base = drafted.base.as_ref().and_then(|base| base.content.as_ref());
                let before = base.map(|(bytes, _)| text(bytes));
                let after = drafted.content.bytes().map(|bytes| text(bytes));
                let name = path.to_string();
                let unified = unified_diff(
                    (&name, before.as_deref().unwrap_or_default()),
                    (&name, after.as_deref().unwrap_or_default()),
                );
                Some(FileDiff { path, moved_to: None, before, after, unified, is_complete: true })
            })
            .collect()
    }

    /// Commits everything as one change; `None` if there is nothing to change. Returns [`CommandError::Conflict`]
    /// if any memory is not as the draft read it.
    pub async fn commit(self) -> Result<Option<ChangeId>, StoreError> {
        let Some(first) = self.changed_paths().into_iter().next() else { return Ok(None) };
        let is_included = |root: &Root| self.included().any(|((mount, _), _)| *mount == root.mount);
        let mut locked = self.memories.lock_all(is_included).await?;
        match self.commit_locked(&mut locked).await {
            Ok(change) => {
                drop(locked);
                self.memories.store.schedule_checkpoint().await;
                Ok(change)
            }
            Err(CommitError::Raced) => {
                Err(CommandError::Conflict { path: first, current: None }.into())
            }
            Err(CommitError::Store(error)) => Err(error),
        }
    }

    /// Commits everything as one change in locked roots.
    pub(crate) async fn commit_locked(
        &self,
        locked: &mut [LockedRoot],
    ) -> Result<Option<ChangeId>, CommitError> {
        let steps = self.steps(locked).await?;
        if steps.is_empty() && self.folder.is_none() {
            return Ok(None);
        }
        let is_use = match (self.mode, self.kind) {
            (Mode::Edits, _) => false,
            (Mode::Command, ChangeKind::Save) => {
                self.memories.caller.provenance.actor == Actor::Person
            }
            (Mode::Command, _) => true,
        };
        let plan = CommitPlan {
            kind: self.kind,
            provenance: self.memories.provenance(&self.call),
            outside_read: self.memories.caller.outside_read.clone(),
            attempt: self.call.attempt,
            accepts: self.call.proposal,
            undoes: None,
            folder: self.folder.clone(),
            steps,
            counts_as_use: is_use,
        };
        self.memories.check_plan(locked, &plan).await?;
        commit::commit(&self.memories.store, locked, plan).await.map(Some)
    }

    /// Returns the memories that a commit records.
    fn included(&self) -> impl Iterator<Item = (&DraftKey, &DraftFile)> {
        self.files.iter().filter(|(_, file)| match self.mode {
            Mode::Edits => file.is_changed(),
            Mode::Command => file.is_written,
        })
    }

    /// Converts the draft to steps. A memory whose text was moved unchanged becomes a move, so that pins and usage
    /// follow it. Text that was moved and edited is trusted no more than its source.
    async fn steps(&self, locked: &[LockedRoot]) -> Result<Vec<FileStep>, StoreError> {
        let moves = self.whole_moves();
        let sources: BTreeSet<&DraftKey> = moves.values().collect();
        let mut steps = Vec::new();
        for (key, file) in self.included().filter(|(key, _)| !sources.contains(key)) {
            let root = locked.iter().position(|locked| locked.root.mount == key.0);
            let root = root.expect("the roots of all drafted memories are locked");
            let before = self.verify(&locked[root], &key.1, file).await?;
            let (path, op, trust) = match (moves.get(key), before, &file.content) {
                (Some(source), ..) => {
                    let source_now =
                        self.verify(&locked[root], &source.1, &self.files[source]).await?;
                    let before = source_now.expect("the source of a move exists");
                    (source.1.clone(), FileOp::Move { to: key.1.clone(), before }, None)
                }
                (None, before, Content::Bytes(after)) => {
                    let own = self.memories.caller.provenance.trust;
                    let source = file.source.as_ref().filter(|_| before.is_none());
                    let source_trust = source.map(|source| locked[root].trust(source));
                    let origin_trust = file.origin.map(|origin| origin.trust);
                    let trust = source_trust.or(origin_trust).map(|trust| trust.min(own));
                    (key.1.clone(), FileOp::Write { before, after: Arc::clone(after) }, trust)
                }
                (None, Some(before), Content::Absent) => {
                    (key.1.clone(), FileOp::Remove { before }, None)
                }
                (None, None, Content::Absent) | (None, _, Content::Unread) => {
                    unreachable!("a file without text is removed or moved")
                }
            };
            steps.push(FileStep { root, path, op, trust, origin: file.origin });
        }
        Ok(steps)
    }

    /// Maps each new file that is a whole, unchanged move to its source.
    fn whole_moves(&self) -> BTreeMap<&DraftKey, DraftKey> {
        let (mut moves, mut sources) = (BTreeMap::new(), BTreeSet::new());
        for (key, file) in self.included().filter(|(_, file)| file.base.is_none()) {
            let Some(source) = &file.source else { continue };
            let source = (key.0, source.clone());
            let vacated = self.files.get(&source).filter(|vacated| vacated.content.is_absent());
            let Some(base) = vacated.and_then(|vacated| vacated.base.as_ref()) else { continue };
            let is_same = match &file.content {
                Content::Bytes(bytes) => base.revision() == Some(Revision::digest(bytes)),
                Content::Unread => true,
                Content::Absent => false,
            };
            if is_same && sources.insert(source.clone()) {
                moves.insert(key, source);
            }
        }
        moves
    }

    /// Returns the current file at a path. Returns a conflict if it is not as the draft read it.
    async fn verify(
        &self,
        locked: &LockedRoot,
        relative: &RelativePath,
        file: &DraftFile,
    ) -> Result<Option<FileSnapshot>, StoreError> {
        if self.mode == Mode::Command {
            return Ok(file.base.clone());
        }
        let path = virtual_path(locked.root.mount, relative.clone())?;
        let now = read_current(&locked.root, &path, relative).await?;
        let revision = now.as_ref().and_then(FileSnapshot::revision);
        if revision == file.base_revision() && now.is_some() == file.base.is_some() {
            return Ok(now);
        }
        Err(CommandError::Conflict { path, current: revision }.into())
    }

    async fn check(&self, path: &MemoryPath) -> Result<(), StoreError> {
        self.memories.check_writable(path)?;
        let (root, relative) = self.memories.resolve_in_root(path)?;
        root.reject_generated_list(path, relative).await
    }

    fn key(&self, path: &MemoryPath) -> Result<DraftKey, CommandError> {
        let (root, relative) = self.memories.resolve_in_root(path)?;
        Ok((root.mount, relative.clone()))
    }

    async fn load(&mut self, path: &MemoryPath) -> Result<&mut DraftFile, StoreError> {
        let key = self.key(path)?;
        self.load_key(&key, path).await
    }

    /// Loads a memory into the draft. `shown` is the path that a refusal names.
    async fn load_key(
        &mut self,
        key: &DraftKey,
        shown: &MemoryPath,
    ) -> Result<&mut DraftFile, StoreError> {
        if !self.files.contains_key(key) {
            let mut base = read_current(self.memories.root(key.0)?, shown, &key.1).await?;
            if let Some(base) = &mut base {
                self.check_history_size(shown, base)?;
            }
            self.files.insert(key.clone(), DraftFile::new(base));
        }
        Ok(self.files.get_mut(key).expect("the memory was loaded"))
    }

    /// Checks that history can keep the file; drops the bytes of a command's file that history has no room for.
    fn check_history_size(
        &mut self,
        path: &MemoryPath,
        base: &mut FileSnapshot,
    ) -> Result<(), CommandError> {
        match (&base.content, self.mode) {
            // Without its bytes the file could neither be recorded nor restored.
            (None, Mode::Edits) => return Err(too_large_error(path, base.bytes)),
            (Some((bytes, _)), Mode::Command) => {
                self.history_bytes += bytes.len();
                if self.history_bytes > HISTORY_CHANGE_BYTES_MAX {
                    // A checkout may hold more than fits into memory, so the rest is removed without history.
                    base.content = None;
                }
            }
            (Some(_), Mode::Edits) | (None, Mode::Command) => {}
        }
        Ok(())
    }

    /// Loads a memory whose text may be edited or replaced: one within the size limit.
    async fn load_memory(&mut self, path: &MemoryPath) -> Result<&DraftFile, StoreError> {
        let file = self.load(path).await?;
        match &file.base {
            Some(base) if !file.is_written && base.bytes > MEMORY_BYTES_MAX as u64 => {
                Err(too_large_error(path, base.bytes).into())
            }
            _ => Ok(file),
        }
    }

    async fn view(
        &self,
        path: &MemoryPath,
        lines: &command::ViewRange,
    ) -> Result<Reply, StoreError> {
        let drafted = match self.key(path) {
            Ok(key) => self.files.get(&key).and_then(|file| file.content.bytes().cloned()),
            Err(_) => None,
        };
        match drafted {
            Some(bytes) => {
                let text = command::decode_text(path, &bytes)?;
                let text = command::view::view_file(path, text, lines)?;
                let revision = Some(Revision::digest(&bytes));
                Ok(Reply::Done { text, change: None, revision, warnings: Vec::new() })
            }
            None if self.is_removed(path) => {
                Err(CommandError::NotFound { path: path.clone() }.into())
            }
            None => self.memories.view(path, lines).await,
        }
    }

    fn is_removed(&self, path: &MemoryPath) -> bool {
        let Ok(key) = self.key(path) else { return false };
        self.files.get(&key).is_some_and(|file| file.content.is_absent())
    }

    async fn create(&mut self, path: &MemoryPath, text: &str) -> Result<Reply, StoreError> {
        self.check(path).await?;
        edit::check_writable(path, text)?;
        let warnings = self.memories.screen(path, None, text)?;
        if self.is_occupied(path).await? {
            return Err(CommandError::AlreadyExists { path: path.clone() }.into());
        }
        self.check_parents(path).await?;
        let file = self.files.entry(self.key(path)?).or_insert_with(|| DraftFile::new(None));
        file.write(Content::Bytes(Arc::from(text.as_bytes())));
        let revision = Some(Revision::digest(text.as_bytes()));
        Ok(Reply::Done { text: command::created(path), change: None, revision, warnings })
    }

    async fn edit(
        &mut self,
        path: &MemoryPath,
        edit: impl Fn(&str) -> Result<EditResult, CommandError>,
    ) -> Result<Reply, StoreError> {
        self.check(path).await?;
        let Some(bytes) = self.load_memory(path).await?.content.bytes().cloned() else {
            return Err(CommandError::NotFound { path: path.clone() }.into());
        };
        let text = command::decode_text(path, &bytes)?;
        if self.mode == Mode::Command {
            // The reply shows lines around the edit.
            self.note_read(path, Revision::digest(&bytes)).await?;
        }
        let edited = edit(text)?;
        let warnings = self.memories.screen(path, Some(text), &edited.text)?;
        let bytes: Arc<[u8]> = Arc::from(edited.text.into_bytes());
        let revision = Some(Revision::digest(&bytes));
        self.load(path).await?.write(Content::Bytes(bytes));
        Ok(Reply::Done { text: edited.reply, change: None, revision, warnings })
    }

    /// Notes that an agent has read a text, if no person reviewed that text.
    async fn note_read(&self, path: &MemoryPath, revision: Revision) -> Result<(), StoreError> {
        let (root, relative) = self.memories.resolve_in_root(path)?;
        let is_reviewed = root
            .cache()
            .head(relative)
            .is_some_and(|head| head.revision == Some(revision) && head.trust > Trust::Outside);
        if self.memories.caller.provenance.actor != Actor::Person && !is_reviewed {
            let unreviewed = self.memories.unreviewed(&[(path, Some(revision))]).await;
            self.memories.note_read(unreviewed.get(path).copied()).await?;
        }
        Ok(())
    }

    async fn delete(&mut self, path: &MemoryPath) -> Result<Reply, StoreError> {
        self.check(path).await?;
        let (_, relative) = self.key(path)?;
        let (files, is_folder) = self.affected_files(path).await?;
        for key in &files {
            self.load_key(key, path).await?.write(Content::Absent);
        }
        self.set_folder(is_folder, relative, None);
        Ok(Reply::done(command::deleted(path)))
    }

    async fn rename(
        &mut self,
        old_path: &MemoryPath,
        new_path: &MemoryPath,
    ) -> Result<Reply, StoreError> {
        self.check(old_path).await?;
        self.check(new_path).await?;
        let ((mount, from), (_, to)) = (self.key(old_path)?, self.key(new_path)?);
        let (files, is_folder) = self.affected_files(old_path).await?;
        self.memories.screen(new_path, None, "")?;
        if self.is_occupied(new_path).await? {
            return Err(CommandError::DestinationExists { path: new_path.clone() }.into());
        }
        self.check_parents(new_path).await?;
        if to.is_within(&from) {
            let (old_path, new_path) = (old_path.clone(), new_path.clone());
            return Err(if is_folder {
                CommandError::IntoItself { old_path, new_path }
            } else {
                CommandError::ParentNotFolder { path: new_path, parent: old_path }
            }
            .into());
        }
        // All targets are computed before the first file is touched: a refusal must change nothing.
        let mut moves = Vec::with_capacity(files.len());
        for (_, source) in files {
            // A file that is too deep, or whose path is too long, would become unreachable.
            let Some(target) = source.rebase(&from, &to) else {
                let shown = format!("{old_path}: {source} in it");
                let fault = PathError::invalid(&shown, PathErrorKind::TooLong);
                return Err(CommandError::from(fault).into());
            };
            virtual_path(mount, target.clone())?;
            moves.push((source, target));
        }
        for (source, target) in moves {
            let file = self.load_key(&(mount, source.clone()), old_path).await?;
            let source = file.source.take().unwrap_or(source);
            let now = file.content.clone();
            file.write(Content::Absent);
            // The new path is free, so there is nothing to load.
            let file = self.files.entry((mount, target)).or_insert_with(|| DraftFile::new(None));
            file.write(now);
            file.source = Some(source);
        }
        self.set_folder(is_folder, from, Some(to));
        Ok(Reply::done(command::renamed(old_path, new_path)))
    }

    fn set_folder(&mut self, is_folder: bool, path: RelativePath, to: Option<RelativePath>) {
        if is_folder && self.mode == Mode::Command {
            self.folder = Some(FolderStep { root: 0, path, to });
        }
    }

    /// Returns the files that a command on a path affects, and whether the path is that of a folder.
    async fn affected_files(
        &mut self,
        path: &MemoryPath,
    ) -> Result<(Vec<DraftKey>, bool), StoreError> {
        let on_disk = self.kind_on_disk(path).await?;
        let is_folder = match self.kind(path, on_disk)? {
            Some(FileKind::File) => false,
            Some(FileKind::Folder) => true,
            Some(FileKind::Other) => {
                return Err(CommandError::NotAFile { path: path.clone() }.into());
            }
            None => return Err(CommandError::NothingThere { path: path.clone() }.into()),
        };
        let files = self.files_below(path, on_disk).await?;
        if self.mode == Mode::Edits {
            // A file that is too deep for a memory path could not be named in the draft's list of changes.
            files
                .iter()
                .try_for_each(|(mount, file)| virtual_path(*mount, file.clone()).map(drop))?;
        }
        if files.is_empty() && !(is_folder && self.mode == Mode::Command) {
            return Err(CommandError::NothingThere { path: path.clone() }.into());
        }
        Ok((files, is_folder))
    }

    /// Returns the kind of thing at a path on the disk, whatever the draft has there.
    async fn kind_on_disk(&self, path: &MemoryPath) -> Result<Option<FileKind>, StoreError> {
        let (root, relative) = self.memories.resolve_in_root(path)?;
        kind_at(root, path, relative).await
    }

    /// Returns the kind of thing at a path in the draft.
    fn kind(
        &self,
        path: &MemoryPath,
        on_disk: Option<FileKind>,
    ) -> Result<Option<FileKind>, StoreError> {
        let key = self.key(path)?;
        let is_in = |(mount, inner): &DraftKey| {
            *mount == key.0 && *inner != key.1 && inner.is_within(&key.1)
        };
        let mut files = self.files.iter();
        let is_folder = files.any(|(inner, file)| is_in(inner) && !file.content.is_absent());
        match self.files.get(&key) {
            Some(file) if !file.content.is_absent() => Ok(Some(FileKind::File)),
            _ if is_folder => Ok(Some(FileKind::Folder)),
            Some(_) => Ok(None),
            None => Ok(on_disk),
        }
    }

    /// Checks whether the path of a new memory or folder is taken. A folder that the draft emptied does not count.
    async fn is_occupied(&mut self, path: &MemoryPath) -> Result<bool, StoreError> {
        let key = self.key(path)?;
        let is_drafted =
            self.files.keys().any(|(mount, inner)| *mount == key.0 && inner.is_within(&key.1));
        let on_disk = self.kind_on_disk(path).await?;
        match self.kind(path, on_disk)? {
            Some(FileKind::Folder) if is_drafted => {
                Ok(!self.files_below(path, on_disk).await?.is_empty())
            }
            kind => Ok(kind.is_some()),
        }
    }

    /// Checks that no parent of a new memory is a file. A single command skips this: its commit follows at once and
    /// detects it without a query for each folder.
    async fn check_parents(&self, path: &MemoryPath) -> Result<(), StoreError> {
        if self.mode == Mode::Command {
            return Ok(());
        }
        let (mount, relative) = self.key(path)?;
        for folder in relative.folders() {
            let parent = virtual_path(mount, folder)?;
            let kind = self.kind(&parent, self.kind_on_disk(&parent).await?)?;
            if matches!(kind, Some(FileKind::File | FileKind::Other)) {
                return Err(CommandError::ParentNotFolder { path: path.clone(), parent }.into());
            }
        }
        Ok(())
    }

    /// Returns every file at or below a path in the draft.
    async fn files_below(
        &mut self,
        path: &MemoryPath,
        on_disk: Option<FileKind>,
    ) -> Result<Vec<DraftKey>, StoreError> {
        let (root, relative) = self.memories.resolve_in_root(path)?;
        let (root, relative) = (Arc::clone(root), relative.clone());
        let mut paths = match on_disk {
            Some(FileKind::Folder) => {
                let walk = root.backend.walk(Some(&relative), Extent::ALL).await;
                let walk = walk.map_err(backend_refusal(root.mount, path))?;
                walk.files.into_iter().map(|file| file.path).collect()
            }
            Some(FileKind::File) => vec![relative.clone()],
            Some(FileKind::Other) | None => Vec::new(),
        };
        paths.retain(|path| *path == relative || !root.is_list(path));
        let own = self.files.keys().filter(|(mount, _)| *mount == root.mount);
        paths.extend(own.map(|(_, path)| path.clone()).filter(|path| path.is_within(&relative)));
        paths.sort();
        paths.dedup();
        let mut existing = Vec::new();
        for file in paths {
            let key = (root.mount, file);
            if !self.load_key(&key, path).await?.content.is_absent() {
                existing.push(key);
            }
        }
        Ok(existing)
    }
}

/// Reads a memory up to the size that history keeps; `None` if there is none.
async fn read_current(
    root: &Root,
    path: &MemoryPath,
    relative: &RelativePath,
) -> Result<Option<FileSnapshot>, StoreError> {
    match root.backend.read(relative, HISTORY_FILE_BYTES_MAX).await {
        Err(BackendError::NotFound) => Ok(None),
        Err(BackendError::WrongKind) if kind_at(root, path, relative).await?.is_none() => Ok(None),
        read => Ok(Some(FileSnapshot::from_read(read.map_err(backend_refusal(root.mount, path))?))),
    }
}
