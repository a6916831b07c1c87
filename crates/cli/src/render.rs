//! Output of commands: color, escaping, paging, and JSON.
//!
//! Commands pass whole texts or JSON values. This module colors them, escapes control characters for a terminal,
//! and prints them, through a pager if there is one. Color is decided once and added by [`OutputStyle`]. It is never
//! stripped from a text afterwards, so that the bytes of a piped memory stay unchanged.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use memory::path::MemoryPath;
use serde_json::{Value, json};

use crate::args::Globals;
use crate::exit::{ErrorMessage, Failure};
use crate::render::text::TextBuffer;

pub(crate) mod change;
pub(crate) mod diff;
pub(crate) mod pager;
pub(crate) mod progress;
pub(crate) mod sanitize;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod time;

/// The style of emphasized text: paths, numbers of changes.
pub(crate) const STRONG: Style = Style::new().bold();
/// The style of secondary text.
pub(crate) const FAINT: Style = Style::new().dimmed();
/// The style of added lines and good states.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// The style of removed lines and errors.
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
/// The style of warnings, pins and matches.
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default();
/// The style of positions and headings.
pub(crate) const MARK: Style = AnsiColor::Cyan.on_default();

/// The style of one output stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutputStyle {
    /// Whether text is colored.
    pub(crate) color: bool,
    /// Whether the stream is a terminal.
    pub(crate) terminal: bool,
    /// Whether lists are aligned in columns: on a terminal, and with `--color always` in a pipe.
    pub(crate) columns: bool,
    /// The number of columns; `None` if lines are not limited.
    pub(crate) width: Option<usize>,
}

impl OutputStyle {
    /// The style without colors and terminal.
    pub(crate) const PLAIN: Self =
        Self { color: false, terminal: false, columns: false, width: None };

    /// Returns `text` in `style`, if there is color.
    pub(crate) fn paint(self, style: Style, text: &str) -> String {
        if self.color { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    /// Returns the text of a memory, with control characters escaped if a terminal would interpret them.
    pub(crate) fn memory_text(self, text: &str) -> Cow<'_, str> {
        if self.terminal || self.color { sanitize::text(text) } else { Cow::Borrowed(text) }
    }
}

/// The printer of a command: results to stdout, notes, warnings and errors to stderr.
#[derive(Debug)]
pub(crate) struct Output {
    /// The style of stdout.
    pub(crate) style: OutputStyle,
    /// The style of stderr.
    pub(crate) note_style: OutputStyle,
    /// Whether results are JSON.
    pub(crate) json: bool,
    quiet: bool,
    pager: Option<pager::Pager>,
}

impl Output {
    /// Chooses the styles of the streams from `--color`, `NO_COLOR`, `CLICOLOR`, `CLICOLOR_FORCE` and
    /// `TERM=dumb`, in this order.
    pub(crate) fn new(globals: &Globals) -> Self {
        let width = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
        let color = |auto: anstream::ColorChoice| match globals.color {
            clap::ColorChoice::Always => true,
            clap::ColorChoice::Never => false,
            clap::ColorChoice::Auto => auto != anstream::ColorChoice::Never,
        };
        let (stdout, stderr) = (io::stdout(), io::stderr());
        let always = globals.color == clap::ColorChoice::Always && !globals.json;
        let look = OutputStyle {
            color: color(anstream::AutoStream::choice(&stdout)) && !globals.json,
            terminal: stdout.is_terminal(),
            columns: stdout.is_terminal() || always,
            width: if stdout.is_terminal() { width } else { None },
        };
        let notes = OutputStyle {
            color: color(anstream::AutoStream::choice(&stderr)) && !globals.json,
            terminal: stderr.is_terminal(),
            columns: stderr.is_terminal() || always,
            width,
        };
        Self {
            style: look,
            note_style: notes,
            json: globals.json,
            quiet: globals.quiet,
            pager: None,
        }
    }

    /// Sets the pager; it is used only if stdout is a terminal.
    pub(crate) fn with_pager(mut self, pager: Option<pager::Pager>) -> Self {
        self.pager = if self.style.terminal && !self.json { pager } else { None };
        self
    }

    /// Prints a text unchanged, through the pager if there is one.
    pub(crate) fn text(&self, text: &str) -> Result<(), Failure> {
        match &self.pager {
            Some(pager) if !text.is_empty() => Ok(pager.show(text)?),
            _ => print(text.as_bytes()),
        }
    }

    /// Prints one JSON value: indented on a terminal, else on one line.
    pub(crate) fn value(&self, value: &Value) -> Result<(), Failure> {
        let text = if self.style.terminal { format!("{value:#}") } else { value.to_string() };
        self.text(&format!("{}\n", sanitize::json(&text)))
    }

    /// Prints JSON values, one per line.
    pub(crate) fn values(&self, values: &[Value]) -> Result<(), Failure> {
        let mut lines = TextBuffer::default();
        for value in values {
            lines.line(value);
        }
        self.text(&sanitize::json(&lines.into_string()))
    }

    /// Prints a note about the work done to stderr; not with `--quiet` or `--json`.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet && !self.json {
            print_error(&sanitize::text(text));
        }
    }

    /// Prints a warning to stderr; not with `--json`, where the result holds it.
    pub(crate) fn warning(&self, text: &str) {
        if !self.json {
            let head = self.note_style.paint(WARN.bold(), "warning:");
            print_error(&format!("{head} {}", sanitize::text(text)));
        }
    }

    /// Prints the error of a failed command to stderr. With `--json` it is `{"error": …}`, so that stdout holds
    /// only results.
    pub(crate) fn failure(&self, failure: &Failure) {
        match failure {
            Failure::PipeClosed | Failure::Interrupted(_) => {}
            Failure::Message(message) if self.json => {
                print_error(&sanitize::json(&failure_value(message).to_string()));
            }
            Failure::Message(message) => print_error(&failure_text(message, self.note_style)),
        }
    }
}

/// Prints bytes to stdout unchanged.
pub(crate) fn print(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    Ok(stdout.flush()?)
}

fn print_error(text: &str) {
    // If stderr is closed too, there is no stream left to report the error on.
    let _unread = writeln!(io::stderr().lock(), "{text}");
}

fn failure_value(message: &ErrorMessage) -> Value {
    let mut error = json!({
        "code": message.code.as_ref(),
        "message": message.message,
        "help": message.help,
    });
    if !message.differences.is_empty() {
        let differences = message.differences.iter();
        error["differences"] = differences
            .map(|item| json!({ "path": item.path, "why": item.why, "diff": item.diff }))
            .collect();
    }
    json!({ "error": error })
}

fn failure_text(message: &ErrorMessage, look: OutputStyle) -> String {
    let mut text = TextBuffer::default();
    for difference in &message.differences {
        let title = format!("{}: {}", difference.path, difference.why);
        text.line(look.paint(STRONG, &sanitize::text(&title)));
        // Escaped even in a pipe: an error is read by people and not applied as a patch.
        text.line(diff::colored(&difference.diff, OutputStyle { terminal: true, ..look }));
    }
    let error = look.paint(BAD.bold(), "error:");
    text.line(format_args!("{error} {}", sanitize::text(&message.message)));
    for help in message.help.iter().flat_map(|help| help.lines()) {
        text.line(format_args!("  {} {}", look.paint(MARK, "help:"), sanitize::text(help)));
    }
    text.into_string().trim_end().to_owned()
}

/// Returns a path in its short form: `global/prefs.md`.
pub(crate) fn short_path(path: &MemoryPath) -> String {
    let whole = path.to_string();
    whole.strip_prefix("/memories/").map_or(whole.clone(), str::to_owned)
}

/// Returns a number with its noun: `1 memory`, `2 memories`.
pub(crate) fn counted(count: usize, singular: &str, plural: &str) -> String {
    format!("{count} {}", if count == 1 { singular } else { plural })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Mismatch;
    use memory::error_code::MemoryErrorCode;

    fn error_message(failure: Failure) -> ErrorMessage {
        match failure {
            Failure::Message(message) => *message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_failure_shows_differences_error_and_hint() {
        let difference = Mismatch {
            path: "global/a.md".to_owned(),
            why: "it was changed since".to_owned(),
            diff: "-old\n+new\u{1b}[2J\n".to_owned(),
        };
        let failure = error_message(
            Failure::new(MemoryErrorCode::Conflict, "cannot \u{202e}undo")
                .help("look")
                .difference(difference),
        );
        insta::assert_snapshot!(failure_text(&failure, OutputStyle::PLAIN), @r"
        global/a.md: it was changed since
        -old
        +new^[[2J

        error: cannot <U+202E>undo
          help: look
        ");
        insta::assert_snapshot!(sanitize::json(&failure_value(&failure).to_string()), @r#"{"error":{"code":"conflict","message":"cannot \u202eundo","help":"look","differences":[{"path":"global/a.md","why":"it was changed since","diff":"-old\n+new\u001b[2J\n"}]}}"#);
    }

    #[test]
    fn paths_are_shown_short() {
        fn check(path: &str, expected: &str) {
            let path = MemoryPath::parse(path, memory::path::Layout::Scoped).unwrap();
            assert_eq!(short_path(&path), expected);
        }
        check("/memories", "/memories");
        check("/memories/global", "global");
        check("/memories/project/a/b.md", "project/a/b.md");
    }
}
