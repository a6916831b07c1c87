//! `lukasa edit`: opens an editor on a copy, and saves it with the revision that was read as precondition.
//!
//! The user's text is not lost: a text that cannot be saved is kept as a draft in the state folder, and
//! the failure names the command to continue. A text that holds a secret is kept only if the user agrees.

use std::path::Path;

use engine::{Memories, MemoryText, Precondition, SavedMemory, StoreError};
use memory::change::unified_diff;
use memory::command::CommandError;
use memory::error_code::MemoryErrorCode;
use memory::path::MemoryPath;

use crate::app::{App, call};
use crate::args::Edit;
use crate::commands::CommandOutcome;
use crate::commands::drafts::{self, DraftDecision};
use crate::commands::editor::{self, EditorExit};
use crate::exit::{Failure, Mismatch, Status};
use crate::files;
use crate::render::short_path;
use crate::render::text::shell_word;

/// Edits a memory.
pub(crate) async fn run(app: &App, args: &Edit) -> Result<Status, Failure> {
    let memories = app.memories_with(&args.allow_rules)?;
    let path = app.path(&args.path)?;
    let Some(name) = path.relative().map(|relative| relative.file_name().to_owned()) else {
        return Err(CommandError::NotAFile { path }.into());
    };
    let now = read(&memories, &path).await?;
    let mut start = match (&args.draft, &now) {
        (Some(draft), _) => draft_text(draft)?,
        (None, Some(now)) => now.text.clone(),
        (None, None) => String::new(),
    };
    let before = now.as_ref().map_or("", |now| now.text.as_str());
    let expected =
        now.as_ref().map_or(Precondition::Absent, |now| Precondition::from(now.revision));
    loop {
        let edited = editor::open(app, &name, &start).await?;
        let (bytes, failure) = match edited {
            EditorExit::NoText(bytes) => {
                let what = format!("the edited text of {path} is not UTF-8");
                (bytes, Failure::new(MemoryErrorCode::NotText, what))
            }
            EditorExit::Text(edited) if edited == before => {
                let revision = now.map(|now| now.revision);
                let done = CommandOutcome { change: None, revision, warnings: Vec::new() };
                let what = format!("{} is unchanged; nothing was written", short_path(&path));
                return done.report(app, &what, &path);
            }
            EditorExit::Text(edited) => {
                let call = call();
                let saving = memories.save(&path, &edited, expected.clone(), &call);
                match app.finish_write("saving", saving).await {
                    Ok(saved) => {
                        drafts::remove(app, args.draft.as_deref())?;
                        let SavedMemory { change, revision, warnings, .. } = saved;
                        let done = CommandOutcome { change, revision: Some(revision), warnings };
                        return done.report(app, &format!("saved {}", short_path(&path)), &path);
                    }
                    Err(error) => {
                        let failure = explain(&memories, &path, &edited, error).await;
                        (edited.into_bytes(), failure)
                    }
                }
            }
        };
        let rule = drafts::secret_rule(app, &bytes, &args.allow_rules);
        let decision = match rule {
            Some(rule) => drafts::decide(app, rule).await?,
            None => DraftDecision::Keep,
        };
        match decision {
            DraftDecision::EditAgain => start = String::from_utf8_lossy(&bytes).into_owned(),
            DraftDecision::Keep => {
                return Err(keep_draft(app, &path, &bytes, rule.is_some(), failure));
            }
            DraftDecision::Discard => {
                return Err(
                    failure.more_help("your text was not kept, since it seems to hold a secret")
                );
            }
        }
    }
}

async fn read(memories: &Memories, path: &MemoryPath) -> Result<Option<MemoryText>, Failure> {
    match memories.read(path).await {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.code() == MemoryErrorCode::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn draft_text(draft: &Path) -> Result<String, Failure> {
    let bytes =
        files::read(draft).map_err(|error| Failure::file("read the draft", draft, &error))?;
    String::from_utf8(bytes).map_err(|_| {
        Failure::new(MemoryErrorCode::NotText, "the draft is not UTF-8 text; correct it first")
    })
}

/// Converts the error of a save; a conflict includes the difference between the current text and the edit.
async fn explain(
    memories: &Memories,
    path: &MemoryPath,
    edited: &str,
    error: StoreError,
) -> Failure {
    if error.code() != MemoryErrorCode::Conflict {
        return error.into();
    }
    let theirs = match memories.read(path).await {
        Ok(theirs) => theirs.text,
        // Deleted in the meantime, or no longer readable: the whole edit is the difference.
        Err(_) => String::new(),
    };
    let diff = unified_diff(("current text", &theirs), ("your text", edited));
    let why = "changed while you edited".to_owned();
    Failure::new(
        MemoryErrorCode::Conflict,
        format!("{} was changed while you edited", short_path(path)),
    )
    .difference(Mismatch { path: short_path(path), why, diff })
}

/// Keeps a text that could not be saved as a draft, and adds the command to continue to the failure.
fn keep_draft(
    app: &App,
    path: &MemoryPath,
    bytes: &[u8],
    holds_secret: bool,
    failure: Failure,
) -> Failure {
    let how_long = if holds_secret { " for a week" } else { "" };
    match drafts::write(app, path, bytes, holds_secret) {
        Ok(draft) => failure.more_help(format!(
            "nothing was overwritten; your text is kept{how_long}, continue with `lukasa edit {} --draft {}`",
            shell_word(&short_path(path)),
            shell_word(&draft.display().to_string()),
        )),
        Err(error) => failure.help(format!("your text could not be kept either: {error}")),
    }
}
