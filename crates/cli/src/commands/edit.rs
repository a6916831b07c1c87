//! `lukasa edit`: the editor on a copy, saved with the revision that was read.
//!
//! A person's text is never lost: what cannot be saved is kept as a draft in the state folder, and
//! the failure says how to go on. A text that holds a secret is kept only if the person says so.

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
    let mut begin = match (&args.draft, &now) {
        (Some(draft), _) => draft_text(draft)?,
        (None, Some(now)) => now.text.clone(),
        (None, None) => String::new(),
    };
    let before = now.as_ref().map_or("", |now| now.text.as_str());
    let expected =
        now.as_ref().map_or(Precondition::Absent, |now| Precondition::from(now.revision));
    loop {
        let left = editor::open(app, &name, &begin).await?;
        let (bytes, failure) = match left {
            EditorExit::NoText(bytes) => {
                let what = format!("what the editor left for {path} is not UTF-8 text");
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
            DraftDecision::EditAgain => begin = String::from_utf8_lossy(&bytes).into_owned(),
            DraftDecision::Keep => {
                return Err(keep_draft(app, &path, &bytes, rule.is_some(), failure));
            }
            DraftDecision::Discard => {
                return Err(failure
                    .more_help("your text was not kept, since it holds what looks like a secret"));
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
    let told = |error: &std::io::Error| Failure::file("read the draft", draft, error);
    let bytes = files::read(draft).map_err(|error| told(&error))?;
    String::from_utf8(bytes).map_err(|_| {
        Failure::new(MemoryErrorCode::NotText, "the draft is not UTF-8 text; mend it first")
    })
}

/// Says why a save failed; a conflict with the difference between what is there and the edit.
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
        // Deleted meanwhile, or no longer to be read: everything of the edit is the difference.
        Err(_) => String::new(),
    };
    let diff = unified_diff(("there now", &theirs), ("your text", edited));
    let why = "changed while you edited".to_owned();
    Failure::new(
        MemoryErrorCode::Conflict,
        format!("{} was changed while you edited", short_path(path)),
    )
    .difference(Mismatch { path: short_path(path), why, diff })
}

/// Keeps a text that could not be saved, and adds to the failure how to go on.
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
            "nothing was overwritten; your text is kept{how_long}, `lukasa edit {} --draft {}` goes on with it",
            shell_word(&short_path(path)),
            shell_word(&draft.display().to_string()),
        )),
        Err(error) => failure.help(format!("your text could not be kept either: {error}")),
    }
}
