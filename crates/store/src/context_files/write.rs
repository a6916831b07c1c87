//! Writing a context file: hold its folder, decide, keep what was there, put the new text in place.
//!
//! There is no redo record, so the new bytes are safe on the disk before they take their place, and so is
//! a copy of what they replace. The lock file says when a writer died; the next one clears away what that
//! left, and brings back what it may have taken from somebody outside.

use std::collections::BTreeMap;
use std::sync::Arc;

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
use crate::checks::{refuse_or_warn, with_digests};

/// The folder in the state that has what writes replaced last.
const REPLACED_FOLDER: &str = "context-files";

/// What a file will be; `None` if it stays as it is.
type PlannedWrite = Result<Option<String>, ContextFileError>;

impl ContextFiles {
    /// Adds to the section of added memories in the context file of a scope: a single line as a fact,
    /// several as they are ([`context_file::with_added`]). Nothing is made when there is nothing to add.
    pub async fn append(
        &self,
        scope: ContextScope,
        addition: &str,
    ) -> Result<SavedContextFile, ContextFileError> {
        let added = |current: Option<&str>| {
            let before = current.unwrap_or_default();
            Ok(context_file::with_added(before, addition))
        };
        let is_nothing = context_file::with_added("", addition).is_none();
        let grown = |before: usize, after: usize| after.saturating_sub(before);
        self.write(scope, (addition, is_nothing), &added, grown).await
    }

    /// Adds a fact, one line whatever it was, to the context file of a scope.
    pub async fn save(
        &self,
        scope: ContextScope,
        fact: &str,
    ) -> Result<SavedContextFile, ContextFileError> {
        self.append(scope, &context_file::fact(fact).unwrap_or_default()).await
    }

    /// Saves what a person made of a fact before it was to be saved ([`context_file::with_edited`]). A text without lines
    /// that the file has is a conflict.
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
        let grown = |before: usize, after: usize| after.saturating_sub(before);
        self.write(scope, (edited, is_nothing), &decide, grown).await
    }

    /// Replaces all of the context file of a scope, if it is still what the caller expects; without an
    /// expectation, whatever it is.
    pub async fn replace(
        &self,
        scope: ContextScope,
        text: &str,
        expected: Option<Precondition>,
    ) -> Result<SavedContextFile, ContextFileError> {
        let path = self.target(scope)?;
        let replaced = |current: Option<&str>| {
            let revision = current.map(|text| Revision::digest(text.as_bytes()));
            if expected.as_ref().is_some_and(|expected| !expected.allows(revision)) {
                return Err(ContextFileError::Conflict { path: path.clone(), current: revision });
            }
            Ok((current.unwrap_or_default() != text).then(|| text.to_owned()))
        };
        self.write(scope, (text, false), &replaced, |_, after| after).await
    }

    async fn write(
        &self,
        scope: ContextScope,
        (given, is_nothing): (&str, bool),
        decide: &(dyn Fn(Option<&str>) -> PlannedWrite + Send + Sync),
        written: fn(usize, usize) -> usize,
    ) -> Result<SavedContextFile, ContextFileError> {
        self.check_writable(scope)?;
        let spot = self.target_location(scope)?;
        let unchanged = || SavedContextFile {
            path: spot.path(),
            changed: false,
            bytes_written: 0,
            warnings: Vec::new(),
        };
        if is_nothing {
            return Ok(unchanged());
        }
        if given.contains('\0') {
            return Err(ContextFileError::NoText);
        }
        let backend = spot.backend(&self.folders);
        let at = ContextFileError::backend_error(spot.path());
        let mut held = backend.lock(LOCK_WAIT).await.map_err(&at)?;
        if held.was_interrupted() {
            self.sweep_leftovers(&spot, &backend).await?;
        }
        for _ in 0..=OUTSIDE_RACE_RETRIES {
            let current = spot.read(&backend).await?;
            let before = current.as_ref().map(|current| current.text.as_str());
            let Some(after) = decide(before)? else { return Ok(unchanged()) };
            if after.len() > CONTEXT_FILE_BYTES_MAX {
                return Err(ContextFileError::TooLarge(spot.path()));
            }
            let warnings = self.screen(before.unwrap_or_default(), &after)?;
            let bytes_written = written(before.map_or(0, str::len), after.len());
            let expect = current.as_ref().map_or(Expect::Absent, |one| Expect::File(one.stamp));
            if let Some(current) = current {
                self.back_up(&spot, current.text).await.map_err(&at)?;
            }
            match write_file(&backend, &mut *held, &spot.file, after.as_bytes(), expect).await {
                Ok(()) => {
                    return Ok(SavedContextFile {
                        changed: true,
                        bytes_written,
                        warnings,
                        ..unchanged()
                    });
                }
                Err(BackendError::Changed | BackendError::Occupied) => {}
                Err(error) => return Err(at(error)),
            }
        }
        Err(at(BackendError::Changed))
    }

    /// Returns what screening warns of in what a write brings in.
    fn screen(&self, before: &str, after: &str) -> Result<Vec<Warning>, ContextFileError> {
        let writer = self.writer();
        let found = with_digests(after, self.screen.introduced(before, after, writer));
        let answered = if writer == TextAuthor::Person { &self.allowed_rules[..] } else { &[] };
        refuse_or_warn(&found, answered).map_err(ContextFileError::Screened)
    }

    /// Keeps what a write is about to replace, on the disk, in the place of what was kept before.
    async fn back_up(&self, spot: &ContextFileLocation, text: String) -> Result<(), BackendError> {
        let (backend, name) = self.backup_location(spot, &spot.file)?;
        let mut held = backend.lock(LOCK_WAIT).await?;
        if held.was_interrupted() {
            // Nobody else writes there, so what a dead writer took out of its place was ours.
            backend.sweep_top(Arc::new(|_: &RelativePath, _: &[u8]| true)).await?;
        }
        for _ in 0..=OUTSIDE_RACE_RETRIES {
            let expect = match backend.read(&name, 0).await {
                Ok(read) => Expect::File(read.stat.stamp),
                Err(BackendError::NotFound) => Expect::Absent,
                Err(error) => return Err(error),
            };
            match write_file(&backend, &mut *held, &name, text.as_bytes(), expect).await {
                // Somebody tidies up at this moment.
                Err(BackendError::Changed | BackendError::Occupied) => {}
                put => return put,
            }
        }
        Err(BackendError::Changed)
    }

    /// Returns where that is kept for a file beside this one.
    fn backup_location(
        &self,
        spot: &ContextFileLocation,
        file: &RelativePath,
    ) -> Result<(LocalBackend, RelativePath), BackendError> {
        let names = [REPLACED_FOLDER];
        let anchor = RootDir::new(self.folders.state.clone(), &names, Privacy::Private);
        let lock = self.folders.lock_path("context-files");
        let name = format!("{}-{file}", digest(&spot.folder()));
        let name = RelativePath::parse(&name)
            .map_err(|_| BackendError::Escapes("a name that is too long".to_owned()))?;
        Ok((LocalBackend::new(anchor, lock), name))
    }

    /// Clears away what a writer left who died. What it had taken out of its place goes only if it is kept. Where
    /// what is kept is still in its place, nothing was taken out, and what lies beside is the writer's own.
    async fn sweep_leftovers(
        &self,
        spot: &ContextFileLocation,
        backend: &LocalBackend,
    ) -> Result<(), ContextFileError> {
        let at = ContextFileError::backend_error(spot.path());
        let mut known = BTreeMap::new();
        for file in self.names().into_iter().chain([spot.file.clone()]) {
            let (kept, name) = self.backup_location(spot, &file).map_err(&at)?;
            if let Ok(read) = kept.read(&name, CONTEXT_FILE_BYTES_MAX).await {
                let there = backend.read(&file, CONTEXT_FILE_BYTES_MAX).await;
                let is_in_place = there.is_ok_and(|there| there.bytes == read.bytes);
                known.insert(file, (read.bytes, is_in_place));
            }
        }
        let in_history = move |path: &RelativePath, bytes: &[u8]| {
            known.get(path).is_some_and(|(kept, in_place)| *in_place || kept.as_slice() == bytes)
        };
        let swept = backend.sweep_top(Arc::new(in_history)).await.map_err(&at)?;
        for name in swept.restored {
            tracing::warn!(name, "a context file that was replaced by a write that died is back");
        }
        Ok(())
    }
}

/// Puts bytes in place if what is there is as expected: safe on the disk before, and when this returns.
/// Whoever dies in it leaves the folder interrupted.
pub(super) async fn write_file(
    backend: &LocalBackend,
    held: &mut dyn RootLock,
    file: &RelativePath,
    bytes: &[u8],
    expect: Expect,
) -> Result<(), BackendError> {
    held.begin()?;
    let published = match backend.stage_synced(file, bytes.into()).await {
        Ok(staged) => staged.publish(expect).await,
        Err(error) => Err(error),
    };
    held.end(None)?;
    published?;
    backend.sync(std::slice::from_ref(file)).await
}
