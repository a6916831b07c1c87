//! The six commands, once for every backend: access, then screening and caps, then the root, then
//! the edit, then the commit.
//!
//! Whatever the caller can mend is a refusal inside the reply and has changed nothing.

use std::sync::Arc;

use memory::access::Access;
use memory::change::{Actor, ChangeKind, Provenance, Trust};
use memory::command::edit::{self, Edited};
use memory::command::view::WAITS;
use memory::command::{self, Command, CommandError, Lines, Reply, Warning};
use memory::document::Revision;
use memory::feature::Feature;
use memory::limits::{
    HISTORY_CHANGE_BYTES_MAX, HISTORY_FILE_BYTES_MAX, MEMORY_BYTES_MAX, OUTSIDE_RACE_RETRIES,
    SCOPE_FILES_MAX,
};
use memory::path::{MemoryPath, Mount, PathError, PathFault, RelativePath, Scope};
use memory::screen::{Finding, Policy, ValueDigest, Writer};

use crate::backend::{BackendError, Extent, Kind};
use crate::commit::{self, CommitError, Current, FolderStep, Plan, Step, What};
use crate::error::StoreError;
use crate::memories::{Answering, Call, Memories};
use crate::root::{HeldRoot, Root};

impl Memories {
    /// Carries out one command. What the caller can mend is a refusal inside the reply; an `Err` is
    /// a fault of the machine. Either way nothing is half-done.
    pub fn apply<'a>(&'a self, command: Command, call: &'a Call) -> Answering<'a, Reply> {
        Box::pin(async move {
            let path = command.paths().next().cloned().unwrap_or(MemoryPath::Top);
            let done = match self.check_access(&command) {
                Err(refusal) => Err(refusal.into()),
                Ok(()) => match command {
                    Command::View { path, lines } => self.view(&path, &lines).await,
                    command => self.carry_out(command, call).await,
                },
            };
            match done {
                Err(StoreError::Refused(refusal)) => Ok(Reply::Refused(refusal)),
                Err(StoreError::Backend { source: BackendError::Escapes(_), .. }) => {
                    Ok(Reply::Refused(CommandError::EscapesRoot { path }))
                }
                done => done,
            }
        })
    }

    fn check_access(&self, command: &Command) -> Result<(), CommandError> {
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
    pub(crate) fn inside<'a>(
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

    pub(crate) fn writer(&self) -> Writer {
        // What a person imports was written by somebody else, so it is screened like an agent's.
        match (self.caller.provenance.actor, self.caller.provenance.trust) {
            (Actor::Person, Trust::Person) => Writer::Person,
            _ => Writer::Agent,
        }
    }

    pub(crate) fn provenance(&self, call: &Call) -> Provenance {
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
        let findings = self.findings(path, before, after);
        let refused = findings
            .iter()
            .find(|(found, _)| found.policy == Policy::Refuse && !self.answers_for(found));
        if let Some((found, digest)) = refused {
            return Err(CommandError::Screened {
                family: found.family.as_str(),
                rule: found.rule,
                line: found.line,
                digest: digest.clone(),
            });
        }
        let warning = |(found, _): &(Finding, _)| Warning { rule: found.rule, line: found.line };
        Ok(findings.iter().map(warning).collect())
    }

    /// Returns what screening finds in the text that a memory is about to have, and in its name when
    /// that is new; each with the digest of what was found.
    pub(crate) fn findings(
        &self,
        path: &MemoryPath,
        before: Option<&str>,
        after: &str,
    ) -> Vec<(Finding, ValueDigest)> {
        let (screen, writer) = (&self.store.screen, self.writer());
        let with_digests = |text: &str, findings: Vec<Finding>| {
            let digest = |found: Finding| (ValueDigest::of(&found, text), found);
            findings
                .into_iter()
                .map(digest)
                .map(|(digest, found)| (found, digest))
                .collect::<Vec<_>>()
        };
        let Some(before) = before else {
            // A name is shown to models too, so it is screened like the words that it is made of.
            let name = path.relative().map(RelativePath::as_str).unwrap_or_default();
            let words = name.replace(['-', '_', '/'], " ");
            let texts = [after, words.as_str(), name];
            return texts.map(|text| with_digests(text, screen.check(text, writer))).concat();
        };
        with_digests(after, screen.introduced(before, after, writer))
    }

    /// Returns whether a person said that what this rule finds may be written.
    fn answers_for(&self, found: &Finding) -> bool {
        self.caller.provenance.actor == Actor::Person
            && [found.rule, found.family.as_str()].iter().any(|name| self.answered.contains(name))
    }

    /// Carries out a command that writes, again if somebody outside wrote in the middle of it.
    async fn carry_out(&self, command: Command, call: &Call) -> Result<Reply, StoreError> {
        let aim = self.aim(&command)?;
        for path in command.paths() {
            let (root, relative) = self.inside(path)?;
            root.check_no_list(path, relative).await?;
        }
        let mut held = [aim.root.hold(&self.store).await?];
        for _ in 0..OUTSIDE_RACE_RETRIES {
            let [root] = &held;
            let decided = self.decide(root, &command, &aim).await?;
            let plan = Plan {
                kind: decided.kind,
                provenance: self.provenance(call),
                outside_read: self.caller.outside_read.clone(),
                attempt: call.attempt,
                accepts: None,
                undoes: None,
                folder: decided.folder,
                steps: decided.steps,
                counts_as_use: true,
            };
            match commit::commit(&self.store, &mut held, plan).await {
                Ok(id) => {
                    drop(held);
                    self.store.see_to_settling().await;
                    return Ok(Reply::Done {
                        text: self.with_notice(&command, decided.text),
                        change: Some(id),
                        revision: decided.revision,
                        warnings: decided.warnings,
                    });
                }
                Err(CommitError::Raced) => {}
                Err(CommitError::Store(error)) => return Err(error),
            }
        }
        Err(CommandError::Conflict { path: aim.path, current: None }.into())
    }

    /// Adds to the answer to a write that it waits for a review, if it does.
    fn with_notice(&self, command: &Command, answer: String) -> String {
        let writes = matches!(
            command,
            Command::Create { .. } | Command::StrReplace { .. } | Command::Insert { .. }
        );
        let is_agent = self.caller.provenance.actor != Actor::Person;
        if writes && is_agent && self.caller.outside_read.is_some() {
            format!("{answer}\n{WAITS}")
        } else {
            answer
        }
    }

    /// Works out what a command is aimed at, as far as that can be said without looking.
    fn aim(&self, command: &Command) -> Result<Aim, CommandError> {
        let path = match command {
            Command::Rename { old_path, new_path } => {
                check_rename(old_path, new_path)?;
                old_path
            }
            Command::Delete { path } if path.relative().is_none() => {
                return Err(CommandError::CannotDeleteRoot { path: path.clone() });
            }
            Command::View { path, .. }
            | Command::Create { path, .. }
            | Command::StrReplace { path, .. }
            | Command::Insert { path, .. }
            | Command::Delete { path } => path,
        };
        let (root, relative) = self.inside(path).map_err(|refusal| match (command, refusal) {
            (Command::Create { .. }, CommandError::NotAFile { path }) => {
                CommandError::AlreadyExists { path }
            }
            (_, refusal) => refusal,
        })?;
        Ok(Aim { root: Arc::clone(root), path: path.clone(), relative: relative.clone() })
    }

    async fn decide(
        &self,
        held: &HeldRoot,
        command: &Command,
        aim: &Aim,
    ) -> Result<Decided, StoreError> {
        match command {
            Command::Create { file_text, .. } => self.decide_create(held, aim, file_text).await,
            Command::StrReplace { path, old_str, new_str } => {
                let edit = |text: &str| edit::str_replace(path, text, old_str, new_str);
                self.decide_edit(held, aim, edit).await
            }
            Command::Insert { path, insert_line, insert_text } => {
                let edit = |text: &str| edit::insert(path, text, *insert_line, insert_text);
                self.decide_edit(held, aim, edit).await
            }
            Command::Delete { .. } => decide_delete(aim).await,
            Command::Rename { new_path, .. } => self.decide_rename(held, aim, new_path).await,
            Command::View { path, .. } => Err(CommandError::NotAFile { path: path.clone() }.into()),
        }
    }

    async fn decide_create(
        &self,
        held: &HeldRoot,
        aim: &Aim,
        text: &str,
    ) -> Result<Decided, StoreError> {
        let Aim { root, path, relative } = aim;
        edit::check_writable(path, text)?;
        let warnings = self.screen(path, None, text)?;
        self.check_free(held, path, relative, None).await?;
        check_room(held, &self.store, 1).await?;
        let after: Arc<[u8]> = Arc::from(text.as_bytes());
        let revision = Revision::of(&after);
        debug_assert!(Arc::ptr_eq(root, &held.root), "the aimed root is the held one");
        Ok(Decided {
            kind: ChangeKind::Create,
            folder: None,
            steps: vec![aim.step(What::Put { before: None, after })],
            text: command::created(path),
            revision: Some(revision),
            warnings,
        })
    }

    async fn decide_edit(
        &self,
        held: &HeldRoot,
        aim: &Aim,
        edit: impl Fn(&str) -> Result<Edited, CommandError>,
    ) -> Result<Decided, StoreError> {
        let (current, text) = read_editable(aim).await?;
        // The answer shows lines around the edit.
        let found = (&aim.path, current.revision());
        let is_known = held
            .head(&aim.relative)
            .is_some_and(|head| head.revision == current.revision() && head.trust > Trust::Outside);
        if self.caller.provenance.actor != Actor::Person && !is_known {
            self.note_read(self.unreviewed(&[found]).await.get(&aim.path).copied());
        }
        let edited = edit(&text)?;
        let warnings = self.screen(&aim.path, Some(&text), &edited.text)?;
        let after: Arc<[u8]> = Arc::from(edited.text.into_bytes());
        let revision = Revision::of(&after);
        Ok(Decided {
            kind: ChangeKind::Edit,
            folder: None,
            steps: vec![aim.step(What::Put { before: Some(current), after })],
            text: edited.reply,
            revision: Some(revision),
            warnings,
        })
    }

    async fn decide_rename(
        &self,
        held: &HeldRoot,
        aim: &Aim,
        new_path: &MemoryPath,
    ) -> Result<Decided, StoreError> {
        let (_, to) = self.inside(new_path)?;
        let found = look(&aim.root, &aim.path, &aim.relative).await?;
        let kind = found
            .filter(|kind| *kind != Kind::Other)
            .ok_or_else(|| gone_or_no_file(found, &aim.path))?;
        let warnings = self.screen(new_path, None, "")?;
        self.check_free(held, new_path, to, Some(&aim.relative)).await.map_err(
            |error| match error {
                StoreError::Refused(CommandError::AlreadyExists { path }) => {
                    CommandError::DestinationExists { path }.into()
                }
                error => error,
            },
        )?;
        let (folder, steps) = match kind {
            Kind::Folder => {
                if to.is_within(&aim.relative) {
                    let (old_path, new_path) = (aim.path.clone(), new_path.clone());
                    return Err(CommandError::IntoItself { old_path, new_path }.into());
                }
                let folder =
                    FolderStep { root: 0, path: aim.relative.clone(), to: Some(to.clone()) };
                (Some(folder), move_all(aim, to).await?)
            }
            Kind::File | Kind::Other => {
                let before = read_kept(&aim.root, &aim.path, &aim.relative).await?;
                (None, vec![aim.step(What::Move { to: to.clone(), before })])
            }
        };
        Ok(Decided {
            kind: ChangeKind::Rename,
            folder,
            steps,
            text: command::renamed(&aim.path, new_path),
            revision: None,
            warnings,
        })
    }

    /// Checks that nothing is at a path, under any spelling that a file system might take for it.
    pub(crate) async fn check_free(
        &self,
        held: &HeldRoot,
        path: &MemoryPath,
        relative: &RelativePath,
        moving: Option<&RelativePath>,
    ) -> Result<(), StoreError> {
        let root = &held.root;
        match root.backend.kind(relative).await {
            Ok(None) => {}
            Ok(Some(_)) => return Err(CommandError::AlreadyExists { path: path.clone() }.into()),
            Err(BackendError::WrongKind) => return Err(no_folder(root, path, relative).await?),
            Err(error) => return Err(refuse(root.mount, path)(error)),
        }
        if let Some(existing) = held.differs_only_in_case(&self.store, relative, moving).await? {
            let existing = virtual_path(root.mount, existing)?;
            return Err(CommandError::DiffersOnlyInCase { path: path.clone(), existing }.into());
        }
        Ok(())
    }
}

/// Finds the file on the way to a path that keeps it from being made.
async fn no_folder(
    root: &Root,
    path: &MemoryPath,
    relative: &RelativePath,
) -> Result<StoreError, StoreError> {
    let mut above = relative.parent();
    while let Some(folder) = above {
        if matches!(look(root, path, &folder).await?, Some(Kind::File | Kind::Other)) {
            let parent = virtual_path(root.mount, folder)?;
            return Ok(CommandError::ParentNotFolder { path: path.clone(), parent }.into());
        }
        above = folder.parent();
    }
    Ok(CommandError::NotAFile { path: path.clone() }.into())
}

/// What a command is aimed at.
#[derive(Debug)]
struct Aim {
    root: Arc<Root>,
    path: MemoryPath,
    relative: RelativePath,
}

impl Aim {
    fn step(&self, what: What) -> Step {
        Step { root: 0, path: self.relative.clone(), what, trust: None }
    }
}

/// What a command comes to, before it is done.
#[derive(Debug)]
struct Decided {
    kind: ChangeKind,
    folder: Option<FolderStep>,
    steps: Vec<Step>,
    text: String,
    revision: Option<Revision>,
    warnings: Vec<Warning>,
}

pub(crate) fn check_rename(
    old_path: &MemoryPath,
    new_path: &MemoryPath,
) -> Result<(), CommandError> {
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
pub(crate) fn refuse(mount: Mount, path: &MemoryPath) -> impl Fn(BackendError) -> StoreError {
    move |error| {
        let path = path.clone();
        match error {
            BackendError::NotFound => CommandError::NotFound { path }.into(),
            BackendError::WrongKind => CommandError::NotAFile { path }.into(),
            BackendError::Escapes(_) => CommandError::EscapesRoot { path }.into(),
            error => StoreError::at(mount)(error),
        }
    }
}

/// Returns what is at a path; a file on the way to it means that nothing is.
pub(crate) async fn look(
    root: &Root,
    path: &MemoryPath,
    relative: &RelativePath,
) -> Result<Option<Kind>, StoreError> {
    match root.backend.kind(relative).await {
        Err(BackendError::WrongKind) => Ok(None),
        kind => kind.map_err(refuse(root.mount, path)),
    }
}

/// Checks that a root has room for `more` memories. They are counted while the root is held: what editors and git added is
/// no less there than what Quipu wrote.
pub(crate) async fn check_room(
    held: &HeldRoot,
    store: &crate::memories::Store,
    more: usize,
) -> Result<(), StoreError> {
    let (root, limit) = (&held.root, store.settings.files_max);
    let at = StoreError::at(root.mount);
    let mut there = root.backend.count().await.map_err(&at)?;
    if there + more > limit && root.has_own_list().await.map_err(&at)? {
        there -= 1;
    }
    if there + more <= limit {
        return Ok(());
    }
    Err(CommandError::ScopeFull { mount: root.mount, limit }.into())
}

async fn read_editable(aim: &Aim) -> Result<(Current, String), StoreError> {
    let (current, bytes) = read_small(&aim.root, &aim.path, &aim.relative).await?;
    let text = command::text_of(&aim.path, &bytes)?.to_owned();
    Ok((current, text))
}

/// Reads a memory that is within the cap.
pub(crate) async fn read_small(
    root: &Root,
    path: &MemoryPath,
    relative: &RelativePath,
) -> Result<(Current, Arc<[u8]>), StoreError> {
    let read = root.backend.read(relative, MEMORY_BYTES_MAX).await;
    let read = read.map_err(refuse(root.mount, path))?;
    let bytes = usize::try_from(read.stat.bytes).unwrap_or(usize::MAX);
    let current = Current::of(read);
    match &current.content {
        Some((content, _)) => {
            let content = Arc::clone(content);
            Ok((current, content))
        }
        None => Err(CommandError::OutgrewCap { path: path.clone(), bytes }.into()),
    }
}

/// Reads a memory as far as history keeps it.
pub(crate) async fn read_kept(
    root: &Root,
    path: &MemoryPath,
    relative: &RelativePath,
) -> Result<Current, StoreError> {
    let read = root.backend.read(relative, HISTORY_FILE_BYTES_MAX).await;
    Ok(Current::of(read.map_err(refuse(root.mount, path))?))
}

/// Lists all memories below a folder with their contents.
async fn read_all(aim: &Aim) -> Result<Vec<(RelativePath, Current)>, StoreError> {
    let walk = aim.root.backend.walk(Some(&aim.relative), Extent::ALL).await;
    let walk = walk.map_err(refuse(aim.root.mount, &aim.path))?;
    let mut files = Vec::with_capacity(walk.files.len());
    let mut kept = 0_usize;
    for found in walk.files.into_iter().take(SCOPE_FILES_MAX) {
        let mut current = read_kept(&aim.root, &aim.path, &found.path).await?;
        kept = kept.saturating_add(current.content.as_ref().map_or(0, |one| one.0.len()));
        if kept > HISTORY_CHANGE_BYTES_MAX {
            // A checkout may hold more than fits into memory; what is beyond goes without history.
            current.content = None;
        }
        files.push((found.path, current));
    }
    Ok(files)
}

async fn move_all(aim: &Aim, to: &RelativePath) -> Result<Vec<Step>, StoreError> {
    let mut steps = Vec::new();
    for (path, before) in read_all(aim).await? {
        // What would lie too deep or have too long a path there could not be reached any more.
        let Some(to) = path.rebase(&aim.relative, to) else {
            let shown = format!("{}: {path} in it", aim.path);
            return Err(CommandError::from(PathError::invalid(&shown, PathFault::TooLong)).into());
        };
        virtual_path(aim.root.mount, to.clone())?;
        steps.push(Step { root: 0, path, what: What::Move { to, before }, trust: None });
    }
    Ok(steps)
}

fn gone_or_no_file(found: Option<Kind>, path: &MemoryPath) -> CommandError {
    let path = path.clone();
    match found {
        None => CommandError::NothingThere { path },
        Some(_) => CommandError::NotAFile { path },
    }
}

async fn decide_delete(aim: &Aim) -> Result<Decided, StoreError> {
    let found = look(&aim.root, &aim.path, &aim.relative).await?;
    let (folder, steps) = match found {
        Some(Kind::File) => {
            let before = read_kept(&aim.root, &aim.path, &aim.relative).await?;
            (None, vec![aim.step(What::Remove { before })])
        }
        Some(Kind::Folder) => {
            let steps = read_all(aim).await?.into_iter().map(|(path, before)| Step {
                root: 0,
                path,
                what: What::Remove { before },
                trust: None,
            });
            let steps = steps.collect();
            (Some(FolderStep { root: 0, path: aim.relative.clone(), to: None }), steps)
        }
        None | Some(Kind::Other) => return Err(gone_or_no_file(found, &aim.path).into()),
    };
    Ok(Decided {
        kind: ChangeKind::Delete,
        folder,
        steps,
        text: command::deleted(&aim.path),
        revision: None,
        warnings: Vec::new(),
    })
}

/// Whether part of a file was asked for.
pub(crate) const fn is_part(lines: &Lines) -> bool {
    !matches!(lines, Lines::Whole)
}
