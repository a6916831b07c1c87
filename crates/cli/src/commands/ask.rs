//! Questions to the user, and text from stdin.
//!
//! Reads run on a separate thread, so that a signal can end the wait.

use std::io::{self, BufRead, IsTerminal, Read, Write};

use memory::error_code::MemoryErrorCode;

use crate::app::App;
use crate::args::Consent;
use crate::exit::Failure;
use crate::render::{WARN, sanitize};

/// The maximum number of bytes read from stdin. It is larger than a memory may be, so that the refusal
/// can name the size, and bounded, since a device may be endless.
const STDIN_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Checks whether the user can be asked: on a terminal, and not with `--json`.
pub(crate) fn can_ask(app: &App) -> bool {
    !app.globals.json && app.output.note_style.terminal && io::stdin().is_terminal()
}

/// Refuses a command that needs consent, if no question can be asked and `-y` is missing.
///
/// `command` is the name of the command, `does` its effect. The help does not repeat the command: without its arguments it may
/// be another one, such as `undo -y`, which undoes the last change.
pub(crate) fn require_consent(
    app: &App,
    consent: Consent,
    command: &str,
    does: &str,
) -> Result<(), Failure> {
    if consent.yes || can_ask(app) {
        return Ok(());
    }
    let why = if app.globals.json { "with `--json`" } else { "without a terminal" };
    let back = match command {
        "undo" => "`lukasa log` lists the changes",
        "pending reject --all" => "`lukasa pending` lists the proposals",
        _ => "`lukasa undo` undoes it",
    };
    Err(Failure::usage(format!("`lukasa {command}` {does}, and needs `-y` {why}"))
        .help(format!("add `-y` to your command to skip the question; {back}")))
}

/// Prints `about`, which must be sanitized, and asks a question.
pub(crate) async fn confirm_about(app: &App, about: &str, question: &str) -> Result<bool, Failure> {
    io::stderr().lock().write_all(about.as_bytes())?;
    confirm(app, question).await
}

/// Asks a yes-or-no question; every answer but yes means no.
pub(crate) async fn confirm(app: &App, question: &str) -> Result<bool, Failure> {
    Ok(matches!(answer(app, question, "y/N").await?.as_str(), "y" | "yes"))
}

/// Asks a question with the possible answers `choices`. Returns the answer in lower case.
pub(crate) async fn answer(app: &App, question: &str, choices: &str) -> Result<String, Failure> {
    let question = app.output.note_style.paint(WARN, &sanitize::text(question));
    write!(io::stderr(), "{question} [{choices}] ")?;
    let answer = blocking(|| {
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer).map(|_| answer)
    });
    Ok(answer.await?.trim().to_lowercase())
}

/// Reads the text from stdin.
async fn stdin_text() -> Result<String, Failure> {
    let bytes = blocking(|| {
        let mut bytes = Vec::new();
        io::stdin().lock().take(STDIN_BYTES_MAX).read_to_end(&mut bytes).map(|_| bytes)
    });
    let text = String::from_utf8(bytes.await?);
    text.map_err(|_| Failure::new(MemoryErrorCode::NotText, "the text from stdin is not UTF-8"))
}

/// Returns the text of an argument, or from stdin; `None` if there is neither.
pub(crate) async fn text(argument: Option<String>) -> Result<Option<String>, Failure> {
    match argument {
        Some(text) if text != "-" => Ok(Some(text)),
        None if !is_piped() => Ok(None),
        Some(_) | None => stdin_text().await.map(Some),
    }
}

/// Checks whether stdin is not a terminal.
pub(crate) fn is_piped() -> bool {
    !io::stdin().is_terminal()
}

/// Runs a blocking read on a separate thread, so that a signal can end the wait.
async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::task::spawn_blocking(read).await {
        Ok(read) => read.map_err(|error| Failure::file("read", "stdin".as_ref(), &error)),
        Err(stopped) => Err(Failure::new(MemoryErrorCode::StorageFailed, stopped.to_string())),
    }
}
