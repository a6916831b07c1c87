//! Writes of a context file.
//!
//! A write locks the folder, decides on the new text, keeps a copy of the old one, and puts the new
//! one in place. There is no redo record. Therefore the new bytes, and the copy of the old ones,
//! are made durable before the file is replaced. The lock file tells whether a writer died. The
//! next writer then removes the left-overs, and brings back an external edit that the dead writer
//! may have moved aside.

use std::collections::BTreeMap;
use std::sync::Arc;

use memory::change::DatabaseId;
use memory::command::Warning;
use memory::context_file;
use memory::document::Revision;
use memory::limits::{CONTEXT_FILE_BYTES_MAX, LOCK_WAIT, OUTSIDE_RACE_RETRIES};
use memory::path::RelativePath;
use memory::screen::TextAuthor;

use super::find::ContextFileLocation;
use super::{ContextFileError, ContextFiles, ContextScope, SavedContextFile};
use crate::backend::local::{LocalBackend, Privacy, RootDir};
use crate::backend::{Backend as _, BackendError, Expect, RootLock};
use crate::binding::digest;
use crate::caller::Precondition;
use crate::screening::{refuse_or_warn, with_digests};

/// Folder in the state with the texts that writes replaced last.
const REPLACED_FOLDER: &str = "context-files";

/// The planned text of a file; `None` if it stays unchanged.
type PlannedWrite = Result<Option<String>, ContextFileError>;

impl ContextFiles {
    /// Appends to the section of added memories in the context file of a scope: one line as a fact, several lines
    /// unchanged ([`context_file::with_added`]). Writes nothing if there is nothing to add.
    pub async fn append(
        &self,
        scope: ContextScope,
        addition: &str,
    ) -> Result<SavedContextFile, ContextFileError> {
        let add = |current: Option<&str>| {
            let before = current.unwrap_or_default();
            Ok(context_file::with_added(before, addition))
        };
        let is_nothing = context_file::with_added("", addition).is_none();
        let growth = |before: usize, after: usize| after.saturating_sub(before);
        self.write(scope, (addition, is_nothing), &add, growth).await
    }

    /// Adds a fact, joined to one line, to the context file of a scope.
    pub async fn save(
        &self,
        scope: ContextScope,
        fact: &str,
    ) -> Result<SavedContextFile, ContextFileError> {
        self.append(scope, &context_file::fact(fact).unwrap_or_default()).await
    }

    /// Saves a fact as a person edited it before the save ([`context_file::with_edited`]). It is a conflict if the
    /// edited text lacks lines that the file has.
    pub async fn save_edited(
        &self,
        scope: ContextScope,
        edited: &str,
    ) -> Result<SavedContextFile, ContextFileError> {
        let path = self.target(scope)?;
        let decide = |current: Option<&str>| {
            let before = current.unwrap_or_default();
            context_file::with_edited(before, edited).map_err(|_| ContextFileError::Conflict {
                path: path.clone(),
                current: current.map(|text| Revision::digest(text.as_bytes())),
            })
        };
        let is_nothing = edited.trim().is_empty();
        let growth = |before: usize, after: usize| after.saturating_sub(before);
        self.write(scope, (edited, is_nothing), &decide, growth).await
    }

    /// Replaces the whole context file of a scope if the precondition holds, or without one unconditionally.
    pub async fn replace(
        &self,
        scope: ContextScope,
        text: &str,
        expected: Option<Precondition>,
    ) -> Result<SavedContextFile, ContextFileError> {
        let path = self.target(scope)?;
        let decide = |current: Option<&str>| {
            let revision = current.map(|text| Revision::digest(text.as_bytes()));
            if expected.as_ref().is_some_and(|expected| !expected.allows(revision)) {
                return Err(ContextFileError::Conflict { path: path.clone(), current: revision });
            }
            Ok((current.unwrap_or_default() != text).then(|| text.to_owned()))
        };
        self.write(scope, (text, false), &decide, |_, after| after).await
    }

    async fn write(
        &self,
        scope: ContextScope,
        (input, is_nothing): (&str, bool),
        decide: &(dyn Fn(Option<&str>) -> PlannedWrite + Send + Sync),
        count_written: fn(usize, usize) -> usize,
    ) -> Result<SavedContextFile, ContextFileError> {
        self.check_writable(scope).await?;
        let location = self.target_location(scope)?;
        let unchanged = || SavedContextFile {
            path: location.path(),
            changed: false,
            bytes_written: 0,
            warnings: Vec::new(),
        };
        if is_nothing {
            return Ok(unchanged());
        }
        if input.contains('\0') {
            return Err(ContextFileError::NoText);
        }
        let backend = location.backend(&self.folders);
        let to_error = ContextFileError::backend_error(location.path());
        let lock = backend.lock(DatabaseId::NONE, LOCK_WAIT).await;
        let mut lock = lock.map_err(&to_error)?;
        if lock.was_interrupted() {
            self.sweep_leftovers(&location, &backend).await?;
        }
        for _ in 0..=OUTSIDE_RACE_RETRIES {
            let current = location.read(&backend).await?;
            let before = current.as_ref().map(|current| current.text.as_str());
            let Some(after) = decide(before)? else { return Ok(unchanged()) };
            if after.len() > CONTEXT_FILE_BYTES_MAX {
                return Err(ContextFileError::TooLarge(location.path()));
            }
            let warnings = self.screen(before.unwrap_or_default(), &after)?;
            let bytes_written = count_written(before.map_or(0, str::len), after.len());
            let expect =
                current.as_ref().map_or(Expect::Absent, |current| Expect::File(current.stamp));
            if let Some(current) = current {
                self.back_up(&location, current.text).await.map_err(&to_error)?;
            }
            match write_file(&backend, &mut *lock, &location.file, after.as_bytes(), expect).await {
                Ok(()) => {
                    return Ok(SavedContextFile {
                        changed: true,
                        bytes_written,
                        warnings,
                        ..unchanged()
                    });
                }
                Err(BackendError::Changed | BackendError::Occupied) => {}
                Err(error) => return Err(to_error(error)),
            }
        }
        Err(to_error(BackendError::Changed))
    }

    /// Screens the text that a write adds. Returns the warnings.
    fn screen(&self, before: &str, after: &str) -> Result<Vec<Warning>, ContextFileError> {
        let writer = self.writer();
        let findings = with_digests(after, self.screen.introduced(before, after, writer));
        let allowed = if writer == TextAuthor::Person { &self.allowed_rules[..] } else { &[] };
        refuse_or_warn(&findings, allowed).map_err(ContextFileError::Screened)
    }

    /// Makes a durable copy of the text that a write is about to replace, in place of the previous copy.
    async fn back_up(
        &self,
        location: &ContextFileLocation,
        text: String,
    ) -> Result<(), BackendError> {
        let (backend, name) = self.backup_location(location, &location.file)?;
        let mut lock = backend.lock(DatabaseId::NONE, LOCK_WAIT).await?;
        if lock.was_interrupted() {
            // Only Lukasa writes there, so a file that a dead writer moved aside was Lukasa's own.
            backend.sweep_top(Arc::new(|_: &RelativePath, _: &[u8]| Some(true))).await?;
        }
        for _ in 0..=OUTSIDE_RACE_RETRIES {
            let expect = match backend.read(&name, 0).await {
                Ok(read) => Expect::File(read.stat.stamp),
                Err(BackendError::NotFound) => Expect::Absent,
                Err(error) => return Err(error),
            };
            match write_file(&backend, &mut *lock, &name, text.as_bytes(), expect).await {
                // Another process changes the folder at the same time.
                Err(BackendError::Changed | BackendError::Occupied) => {}
                result => return result,
            }
        }
        Err(BackendError::Changed)
    }

    /// Returns the location of the copy for a file in the same folder.
    fn backup_location(
        &self,
        location: &ContextFileLocation,
        file: &RelativePath,
    ) -> Result<(LocalBackend, RelativePath), BackendError> {
        let names = [REPLACED_FOLDER];
        let root_dir = RootDir::new(self.folders.state.clone(), &names, Privacy::Private);
        let lock = self.folders.lock_path("context-files");
        let name = format!("{}-{file}", digest(&location.folder()));
        let name = RelativePath::parse(&name)
            .map_err(|_| BackendError::Escapes("a name that is too long".to_owned()))?;
        Ok((LocalBackend::new(root_dir, lock), name))
    }

    /// Removes the left-overs of a dead writer. A file that it moved aside is removed only if a copy has its bytes.
    /// If the copied text is still in place, nothing was moved aside, and the left-overs are the writer's own.
    async fn sweep_leftovers(
        &self,
        location: &ContextFileLocation,
        backend: &LocalBackend,
    ) -> Result<(), ContextFileError> {
        let to_error = ContextFileError::backend_error(location.path());
        let mut backups = BTreeMap::new();
        for file in self.names().into_iter().chain([location.file.clone()]) {
            let (backup, name) = self.backup_location(location, &file).map_err(&to_error)?;
            if let Ok(read) = backup.read(&name, CONTEXT_FILE_BYTES_MAX).await {
                let current = backend.read(&file, CONTEXT_FILE_BYTES_MAX).await;
                let is_in_place = current.is_ok_and(|current| current.bytes == read.bytes);
                backups.insert(file, (read.bytes, is_in_place));
            }
        }
        let in_history = move |path: &RelativePath, bytes: &[u8]| {
            let backup = backups.get(path);
            Some(backup.is_some_and(|(backup, in_place)| *in_place || backup.as_slice() == bytes))
        };
        let swept = backend.sweep_top(Arc::new(in_history)).await.map_err(&to_error)?;
        for name in swept.restored {
            tracing::warn!(
                name,
                "recovery brought back a context file that an interrupted write had replaced"
            );
        }
        Ok(())
    }
}

/// Puts bytes in place if the precondition holds. The bytes are durable before that, and the file name is durable
/// when this returns. A crash in between leaves the folder marked as interrupted.
pub(super) async fn write_file(
    backend: &LocalBackend,
    lock: &mut dyn RootLock,
    file: &RelativePath,
    bytes: &[u8],
    expect: Expect,
) -> Result<(), BackendError> {
    lock.begin().await?;
    let published = match backend.stage_synced(file, bytes.into()).await {
        Ok(staged) => staged.publish(expect).await,
        Err(error) => Err(error),
    };
    lock.end(None).await?;
    published?;
    backend.sync(std::slice::from_ref(file)).await
}
