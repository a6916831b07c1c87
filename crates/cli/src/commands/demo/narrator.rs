//! How the demo is told: chapters, what was sent and answered in short, and what was checked.

use memory::error_code::MemoryErrorCode;
use serde_json::json;

use crate::exit::Failure;
use crate::render::{FAINT, GOOD, MARK, OutputStyle, STRONG, counted, print, sanitize};

/// How much of a request or answer is shown, in characters.
const SHOWN_MAX: usize = 94;

/// How many lines of an answer are shown.
const LINES_MAX: usize = 12;

/// Prints the story as it happens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Narrator {
    style: OutputStyle,
    /// Whether it is told to a program: one JSON object a line, with nothing cut.
    json: bool,
}

impl Narrator {
    pub(super) const fn new(look: OutputStyle, json: bool) -> Self {
        Self { style: look, json }
    }

    /// Begins a chapter.
    pub(super) fn chapter(&self, title: &str) -> Result<(), Failure> {
        self.print_line("chapter", title, || format!("\n{}", self.style.paint(STRONG, title)))
    }

    /// Says something to the person who watches.
    pub(super) fn narrate(&self, text: &str) -> Result<(), Failure> {
        self.print_line("said", text, || self.style.memory_text(text).into_owned())
    }

    /// Shows what is sent to a program: a request or a command line.
    pub(super) fn sent(&self, text: &str) -> Result<(), Failure> {
        self.print_line("sent", text, || {
            format!("  {} {}", self.style.paint(MARK, "->"), self.short(text))
        })
    }

    /// Shows what came back.
    pub(super) fn received(&self, text: &str) -> Result<(), Failure> {
        if self.json {
            return self.print_line("got", text, String::new);
        }
        let lines: Vec<&str> = text.trim_end().lines().collect();
        for (index, text) in lines.iter().take(LINES_MAX).enumerate() {
            let arrow = if index == 0 { self.style.paint(MARK, "<-") } else { "  ".to_owned() };
            line(&format!("  {arrow} {}", self.style.paint(FAINT, &self.short(text))))?;
        }
        match lines.len().saturating_sub(LINES_MAX) {
            0 => Ok(()),
            more => {
                let more = format!("({})", counted(more, "more line", "more lines"));
                line(&format!("     {}", self.style.paint(FAINT, &more)))
            }
        }
    }

    /// Claims something that was just looked at; what is not true ends the demo.
    pub(super) fn check(&self, holds: bool, claim: &str) -> Result<(), Failure> {
        if holds {
            return self.print_line("held", claim, || {
                format!("  {} {claim}", self.style.paint(GOOD, "✓"))
            });
        }
        let what = format!("this should hold and does not: {claim}");
        Err(Failure::new(MemoryErrorCode::StorageFailed, what)
            .help("that is a bug in Lukasa; please report it"))
    }

    /// Prints one step of the story: to a program by its word, to a person as `shown`.
    fn print_line(
        self,
        word: &str,
        text: &str,
        shown: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        if self.json {
            return line(&sanitize::json(&json!({ word: text }).to_string()));
        }
        line(&shown())
    }

    /// Returns text on one line that a terminal shows and does not obey, cut where it is long.
    fn short(&self, text: &str) -> String {
        // A tab keeps its meaning here: it parts numbers from lines.
        let text = sanitize::line(&text.replace('\t', "  ")).into_owned();
        let width = self.style.width.map_or(SHOWN_MAX, |width| width.saturating_sub(6));
        match text.char_indices().nth(width) {
            Some((end, _)) => format!("{}…", memory::text::slice(&text, ..end)),
            None => text,
        }
    }
}

fn line(text: &str) -> Result<(), Failure> {
    print(format!("{text}\n").as_bytes())
}
