//! Drafts: texts that `lukasa edit` could not save, kept in the state folder.
//!
//! A text that screening refuses as a secret is kept only if the user agrees, and is deleted after some days. Other
//! drafts stay until they are saved or deleted, since no other file has their text.

use std::path::{Path, PathBuf};

use memory::clock::Timestamp;
use memory::limits::SECRET_DRAFT_KEPT;
use memory::path::MemoryPath;
use memory::screen::{Family, Policy, TextAuthor};
use state::private_files::create_private_folder;

use crate::app::{App, now};
use crate::args::AllowRules;
use crate::commands::ask;
use crate::exit::Failure;
use crate::files;
use crate::render::short_path;

/// The folder of drafts below the state.
const DRAFTS: &str = "drafts";

/// The end of the file stem of a draft that holds a secret.
const SECRET_MARK: &str = "-secret";

/// The number of questions about a text with a secret before it is discarded.
const QUESTIONS_MAX: usize = 3;

/// A draft in the state folder.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) file: PathBuf,
    pub(crate) saved_at: Timestamp,
    pub(crate) holds_secret: bool,
    /// Whether it is deleted when it is old.
    pub(crate) expires: bool,
}

/// The decision about a text that holds a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DraftDecision {
    Keep,
    EditAgain,
    Discard,
}

/// Returns the first rule that takes a text for a secret, except rules that the user allows.
pub(crate) fn secret_rule(app: &App, bytes: &[u8], allowed: &AllowRules) -> Option<&'static str> {
    let text = String::from_utf8_lossy(bytes);
    let found = app.engine.screen().check(&text, TextAuthor::Person);
    let is_allowed = |name: &str| allowed.rules.iter().any(|rule| rule == name);
    let mut secrets = found.into_iter().filter(|finding| {
        finding.family == Family::Secrets
            && finding.policy == Policy::Refuse
            && !is_allowed(finding.rule)
            && !is_allowed(finding.family.as_ref())
    });
    secrets.next().map(|finding| finding.rule)
}

/// Asks the user to decide about a text that holds a secret. If no question can be asked, it is discarded.
pub(crate) async fn decide(app: &App, rule: &str) -> Result<DraftDecision, Failure> {
    if !ask::can_ask(app) {
        return Ok(DraftDecision::Discard);
    }
    let question = format!(
        "Your text matches the rule `{rule}` for secrets. Edit it again (e), keep it as a draft on this disk (k), or \
         discard it (d)?"
    );
    for _ in 0..QUESTIONS_MAX {
        match ask::answer(app, &question, "e/k/d").await?.as_str() {
            "e" | "edit" => return Ok(DraftDecision::EditAgain),
            "k" | "keep" => return Ok(DraftDecision::Keep),
            "d" | "discard" => return Ok(DraftDecision::Discard),
            _ => {}
        }
    }
    Ok(DraftDecision::Discard)
}

/// Writes a draft of a memory; returns its file. A draft with a secret has a mark in its name, and is deleted after
/// [`SECRET_DRAFT_KEPT`].
pub(crate) fn write(
    app: &App,
    path: &MemoryPath,
    bytes: &[u8],
    holds_secret: bool,
) -> std::io::Result<PathBuf> {
    let folder = folder(app);
    create_private_folder(&folder)?;
    let name = short_path(path).replace('/', "-");
    let (stem, extension) = name.rsplit_once('.').unwrap_or((&name, "md"));
    let mark = if holds_secret { SECRET_MARK } else { "" };
    for number in 1_usize.. {
        let draft = folder.join(format!("{stem}-{number}{mark}.{extension}"));
        match files::write_new_private(&draft, bytes) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(()) => return Ok(draft),
        }
    }
    Err(std::io::ErrorKind::AlreadyExists.into())
}

/// Deletes a draft after its text was saved, if it is in the folder of drafts.
pub(crate) fn remove(app: &App, draft: Option<&Path>) -> Result<(), Failure> {
    let Some(draft) = draft else { return Ok(()) };
    let ours = match (files::real_path(&folder(app)), files::real_path(draft)) {
        (Ok(folder), Ok(draft)) => draft.starts_with(folder),
        _ => false,
    };
    if ours {
        files::remove(draft).map_err(|error| Failure::file("delete the draft", draft, &error))?;
    }
    Ok(())
}

/// Returns the drafts, by name. A draft that cannot be read counts as one without a secret, so that it stays.
pub(crate) fn list(app: &App) -> Vec<Draft> {
    let mut files = files::names_in(&folder(app)).unwrap_or_default();
    files.sort_unstable();
    let draft = |file: PathBuf| {
        let (saved_at, holds_secret) = (saved_at(&file)?, holds_secret(app, &file));
        let expires = is_marked(&file);
        Some(Draft { file, saved_at, holds_secret, expires })
    };
    files.into_iter().filter_map(draft).collect()
}

/// Deletes old drafts that hold a secret, except `draft`, which is in use.
pub(crate) fn sweep(app: &App, draft: Option<&Path>) {
    let oldest = now() - SECRET_DRAFT_KEPT;
    let files = files::names_in(&folder(app)).unwrap_or_default();
    let is_old = |file: &PathBuf| saved_at(file).is_some_and(|saved_at| saved_at < oldest);
    let in_use = draft.and_then(|draft| files::real_path(draft).ok());
    let is_in_use = |file: &PathBuf| in_use.is_some() && files::real_path(file).ok() == in_use;
    for file in files.iter().filter(|file| is_marked(file) && is_old(file) && !is_in_use(file)) {
        let shown = file.display();
        match files::remove(file) {
            Ok(()) => app.output.note(&format!("deleted {shown}, an old draft with a secret")),
            Err(error) => {
                app.output
                    .warning(&format!("cannot delete {shown}, a draft with a secret: {error}"));
            }
        }
    }
}

/// Checks whether a draft is marked as one with a secret.
fn is_marked(file: &Path) -> bool {
    file.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with(SECRET_MARK))
}

fn saved_at(file: &Path) -> Option<Timestamp> {
    Timestamp::try_from(files::modified_at(file).ok()?).ok()
}

fn holds_secret(app: &App, file: &Path) -> bool {
    let bytes = files::read(file).unwrap_or_default();
    secret_rule(app, &bytes, &AllowRules::default()).is_some()
}

fn folder(app: &App) -> PathBuf {
    app.folders.state.join(DRAFTS)
}
