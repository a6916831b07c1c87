//! Asking a person, and reading what is piped in.

use std::io::{self, BufRead, IsTerminal, Read, Write};

use memory::error_code::MemoryErrorCode;

use crate::app::App;
use crate::args::Consent;
use crate::exit::Failure;
use crate::render::{WARN, sanitize};

/// The most that is read from stdin, in bytes: far more than a memory may hold, so that the refusal
/// can name the size, and not all that a device can give.
const STDIN_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Tells whether a person can be asked.
pub(crate) fn can_ask(app: &App) -> bool {
    !app.globals.json && app.output.note_style.terminal && io::stdin().is_terminal()
}

/// Refuses a command that takes text away where its question cannot be asked and `-y` does not answer it.
///
/// `command` is how the person called it, `does` what it would do.
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
        "undo" => "`lukasa log` shows it",
        "pending reject --all" => "`lukasa pending` shows what that is",
        _ => "`lukasa undo` takes it back",
    };
    Err(Failure::usage(format!("`lukasa {command}` {does}, and needs `-y` {why}"))
        .help(format!("`lukasa {command} -y` does it without a question; {back}")))
}

/// Shows a person what a question is about and asks it. `about` is safe to show.
pub(crate) async fn confirm_about(app: &App, about: &str, question: &str) -> Result<bool, Failure> {
    io::stderr().lock().write_all(about.as_bytes())?;
    confirm(app, question).await
}

/// Asks a question; anything but yes means no.
pub(crate) async fn confirm(app: &App, question: &str) -> Result<bool, Failure> {
    Ok(matches!(answer(app, question, "y/N").await?.as_str(), "y" | "yes"))
}

/// Asks a question; `choices` is how it may be answered. Returns the answer in lower case.
pub(crate) async fn answer(app: &App, question: &str, choices: &str) -> Result<String, Failure> {
    let question = app.output.note_style.paint(WARN, &sanitize::text(question));
    write!(io::stderr(), "{question} [{choices}] ")?;
    let answer = blocking(|| {
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer).map(|_| answer)
    });
    Ok(answer.await?.trim().to_lowercase())
}

/// Reads the text that is piped in.
async fn stdin_text() -> Result<String, Failure> {
    let bytes = blocking(|| {
        let mut bytes = Vec::new();
        io::stdin().lock().take(STDIN_BYTES_MAX).read_to_end(&mut bytes).map(|_| bytes)
    });
    let text = String::from_utf8(bytes.await?);
    text.map_err(|_| Failure::new(MemoryErrorCode::NotText, "what was piped in is not UTF-8 text"))
}

/// Reads a text that is an argument, or piped in; `None` when neither is.
pub(crate) async fn text(argument: Option<String>) -> Result<Option<String>, Failure> {
    match argument {
        Some(text) if text != "-" => Ok(Some(text)),
        None if !is_piped() => Ok(None),
        Some(_) | None => stdin_text().await.map(Some),
    }
}

/// Tells whether text is piped in.
pub(crate) fn is_piped() -> bool {
    !io::stdin().is_terminal()
}

/// Waits for a person or another program on a thread of its own, so that a signal can end the wait.
async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::task::spawn_blocking(read).await {
        Ok(read) => read.map_err(|error| Failure::file("read", "stdin".as_ref(), &error)),
        Err(stopped) => Err(Failure::new(MemoryErrorCode::StorageFailed, stopped.to_string())),
    }
}
