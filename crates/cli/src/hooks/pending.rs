//! Text and notes that wait for the next event whose answer reaches the model.
//!
//! For agents that ignore the answer to a prompt, recalled text is kept in a file and delivered after the next tool, or
//! dropped at the end of the turn. For agents that report no start after a compaction, an empty file says that the model
//! has lost the opening text.

use std::path::PathBuf;
use std::time::Duration;

use memory::document::Revision;
use state::private_files::create_private_folder;

use crate::exit::Failure;
use crate::hooks::host::{HookEvent, HookFormat};
use crate::hooks::wire::HookInput;
use crate::{app, files};

/// The age at which the text of a session without an end event is deleted.
const AGE_MAX: Duration = Duration::from_hours(24);

/// The number of hex digits in the file name of a session.
const DIGEST_CHARS: usize = 32;

/// Returns the text to answer now, from the text found now and the text kept before.
pub(super) fn deliver(
    format: &HookFormat,
    input: &HookInput,
    found: Option<String>,
) -> Result<Option<String>, Failure> {
    if format.answerable.contains(&HookEvent::UserPrompt) {
        return Ok(found);
    }
    let file = file_of(&input.session)?;
    match input.event {
        HookEvent::UserPrompt => {
            if let (Some(text), Some(folder)) = (found, file.parent()) {
                create_private_folder(folder)?;
                files::write_new_private(&file, text.as_bytes())?;
            }
            Ok(None)
        }
        HookEvent::PostToolUse => {
            let pending = files::read_optional(&file)?;
            files::remove(&file)?;
            let texts: Vec<_> = pending.into_iter().chain(found).collect();
            Ok(Some(texts.join("\n")).filter(|text| !text.is_empty()))
        }
        HookEvent::SessionStart
        | HookEvent::PreCompact
        | HookEvent::Stop
        | HookEvent::SessionEnd => Ok(found),
    }
}

/// Removes the text kept for the previous prompt when a new prompt arrives or the turn ends. This runs before the search,
/// so that nothing is left when the search fails.
pub(super) fn forget(format: &HookFormat, input: &HookInput) -> Result<(), Failure> {
    let ends =
        matches!(input.event, HookEvent::UserPrompt | HookEvent::Stop | HookEvent::SessionEnd);
    if ends && !format.answerable.contains(&HookEvent::UserPrompt) {
        let file = file_of(&input.session)?;
        files::remove(&file)?;
        for old in files::names_in(file.parent().unwrap_or(&file)).unwrap_or_default() {
            let age = files::modified_at(&old).ok().and_then(|at| at.elapsed().ok());
            if age.is_some_and(|age| age > AGE_MAX) {
                files::remove(&old)?;
            }
        }
    }
    Ok(())
}

/// Records that the model of a session has lost the opening text.
pub(super) fn note_compaction(session: &str) -> Result<(), Failure> {
    let file = compaction_file(session)?;
    if let Some(folder) = file.parent() {
        create_private_folder(folder)?;
    }
    files::remove(&file)?;
    Ok(files::write_new_private(&file, b"")?)
}

/// Checks whether the model of a session has lost the opening text.
pub(super) fn was_compacted(session: &str) -> Result<bool, Failure> {
    Ok(files::read_optional(&compaction_file(session)?)?.is_some())
}

/// Records that the model of a session has the opening text again, or that the session has ended.
pub(super) fn clear_compaction(session: &str) -> Result<(), Failure> {
    Ok(files::remove(&compaction_file(session)?)?)
}

fn compaction_file(session: &str) -> Result<PathBuf, Failure> {
    Ok(file_of(session)?.with_extension("compacted"))
}

/// Returns the file of a session. The file name is a digest, since a session id may hold any characters.
fn file_of(session: &str) -> Result<PathBuf, Failure> {
    let digest = Revision::digest(session.as_bytes()).to_string();
    let name: String = digest.chars().take(DIGEST_CHARS).collect();
    Ok(app::state_folder()?.join("hooks").join(name))
}
