//! What a person, or a program that reads for one, gets to see.
//!
//! Commands hand over whole texts or JSON values; here they are colored, made safe for a terminal,
//! paged and printed. Color is decided once and put in by [`Look`], never taken out again, so that
//! the bytes of a memory that is piped stay what they are.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use memory::path::{MemoryPath, Mount};
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

/// What stands out: paths, numbers of changes.
pub(crate) const STRONG: Style = Style::new().bold();
/// What is there but not looked for.
pub(crate) const FAINT: Style = Style::new().dimmed();
/// What was added, what is well.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// What was removed, what is wrong.
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
/// What needs a look: warnings, pins, matches.
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default();
/// Positions and headings.
pub(crate) const MARK: Style = AnsiColor::Cyan.on_default();

/// How one stream is to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutputStyle {
    /// Whether it is colored.
    pub(crate) color: bool,
    /// Whether a person looks at it directly.
    pub(crate) terminal: bool,
    /// Whether lists are laid out in columns: on a terminal, and for a person who asks for color in a pipe.
    pub(crate) columns: bool,
    /// How many columns there are; `None` when lines may be as long as they are.
    pub(crate) width: Option<usize>,
}

impl OutputStyle {
    /// No colors and no terminal.
    pub(crate) const PLAIN: Self =
        Self { color: false, terminal: false, columns: false, width: None };

    /// Returns `text` in `style`, if there is color.
    pub(crate) fn paint(self, style: Style, text: &str) -> String {
        if self.color { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    /// Returns text of a memory: as it is, unless a terminal would obey what is in it.
    pub(crate) fn memory_text(self, text: &str) -> Cow<'_, str> {
        if self.terminal || self.color { sanitize::text(text) } else { Cow::Borrowed(text) }
    }
}

/// Prints what a command has to say.
#[derive(Debug)]
pub(crate) struct Output {
    /// How stdout is to look.
    pub(crate) style: OutputStyle,
    /// How stderr is to look.
    pub(crate) note_style: OutputStyle,
    /// Whether results are JSON.
    pub(crate) json: bool,
    quiet: bool,
    pager: Option<pager::Pager>,
}

impl Output {
    /// Decides how the streams look. Honors `--color`, `NO_COLOR`, `CLICOLOR`, `CLICOLOR_FORCE` and
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

    /// Lets long texts be paged; it has an effect only where stdout is a terminal.
    pub(crate) fn with_pager(mut self, pager: Option<pager::Pager>) -> Self {
        self.pager = if self.style.terminal && !self.json { pager } else { None };
        self
    }

    /// Prints a text as it is, through the pager where there is one.
    pub(crate) fn text(&self, text: &str) -> Result<(), Failure> {
        match &self.pager {
            Some(pager) if !text.is_empty() => Ok(pager.show(text)?),
            _ => print(text.as_bytes()),
        }
    }

    /// Prints one JSON value: indented for a person, on one line for a program.
    pub(crate) fn value(&self, value: &Value) -> Result<(), Failure> {
        let text = if self.style.terminal { format!("{value:#}") } else { value.to_string() };
        self.text(&format!("{}\n", sanitize::json(&text)))
    }

    /// Prints JSON values, one a line.
    pub(crate) fn values(&self, values: &[Value]) -> Result<(), Failure> {
        let mut lines = TextBuffer::default();
        for value in values {
            lines.line(value);
        }
        self.text(&sanitize::json(&lines.into_string()))
    }

    /// Says what was done, on stderr; programs and quiet people are spared.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet && !self.json {
            print_error(&sanitize::text(text));
        }
    }

    /// Says what to look at, on stderr, unless the JSON result holds it.
    pub(crate) fn warning(&self, text: &str) {
        if !self.json {
            let head = self.note_style.paint(WARN.bold(), "warning:");
            print_error(&format!("{head} {}", sanitize::text(text)));
        }
    }

    /// Says why a command failed, on stderr: with `--json` as `{"error": …}`, so that stdout holds
    /// results alone.
    pub(crate) fn failure(&self, failure: &Failure) {
        match failure {
            Failure::PipeClosed | Failure::Interrupted(_) => {}
            Failure::Message(told) if self.json => {
                print_error(&sanitize::json(&failure_value(told).to_string()));
            }
            Failure::Message(told) => print_error(&failure_text(told, self.note_style)),
        }
    }
}

/// Prints bytes as they are.
pub(crate) fn print(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    Ok(stdout.flush()?)
}

fn print_error(text: &str) {
    // Where even stderr is closed, nobody is left to be told.
    let _unread = writeln!(io::stderr().lock(), "{text}");
}

fn failure_value(told: &ErrorMessage) -> Value {
    let mut error = json!({
        "code": told.code.as_ref(),
        "message": told.message,
        "help": told.help,
    });
    if !told.differences.is_empty() {
        let differences = told.differences.iter();
        error["differences"] = differences
            .map(|one| json!({ "path": one.path, "why": one.why, "diff": one.diff }))
            .collect();
    }
    json!({ "error": error })
}

fn failure_text(told: &ErrorMessage, look: OutputStyle) -> String {
    let mut text = TextBuffer::default();
    for one in &told.differences {
        let title = format!("{}: {}", one.path, one.why);
        text.line(look.paint(STRONG, &sanitize::text(&title)));
        // A failure is for eyes, wherever it goes: it is no patch.
        text.line(diff::colored(&one.diff, OutputStyle { terminal: true, ..look }));
    }
    let error = look.paint(BAD.bold(), "error:");
    text.line(format_args!("{error} {}", sanitize::text(&told.message)));
    for help in told.help.iter().flat_map(|help| help.lines()) {
        text.line(format_args!("  {} {}", look.paint(MARK, "help:"), sanitize::text(help)));
    }
    text.into_string().trim_end().to_owned()
}

/// Returns a path in its short form: `global/prefs.md`.
pub(crate) fn short_path(path: &MemoryPath) -> String {
    let whole = path.to_string();
    whole.strip_prefix("/memories/").map_or(whole.clone(), str::to_owned)
}

/// Returns a mount's word: its scope, or `flat`.
pub(crate) fn mount_word(mount: Mount) -> &'static str {
    match mount {
        Mount::Scope(scope) => scope.into(),
        Mount::Flat => "flat",
    }
}

/// Returns a number with its noun: `1 memory`, `2 memories`.
pub(crate) fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Mismatch;
    use memory::error_code::MemoryErrorCode;

    fn told(failure: Failure) -> ErrorMessage {
        match failure {
            Failure::Message(told) => *told,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_failure_says_what_is_wrong_and_what_to_do() {
        let difference = Mismatch {
            path: "global/a.md".to_owned(),
            why: "it was changed since".to_owned(),
            diff: "-old\n+new\u{1b}[2J\n".to_owned(),
        };
        let failure = told(
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
