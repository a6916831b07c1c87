//! Output of the demo: chapters, abbreviated requests and answers, and checked claims.

use memory::error_code::MemoryErrorCode;
use serde_json::json;

use crate::exit::Failure;
use crate::render::{FAINT, GOOD, MARK, OutputStyle, STRONG, counted, print, sanitize};

/// The number of characters shown of a line, if the width of the terminal is unknown.
const SHOWN_MAX: usize = 94;

/// The number of lines shown of an answer.
const LINES_MAX: usize = 12;

/// The printer of the demo.
#[derive(Clone, Copy, Debug)]
pub(super) struct Narrator {
    style: OutputStyle,
    /// Whether to print one JSON object per line, without abbreviation.
    json: bool,
}

impl Narrator {
    pub(super) const fn new(look: OutputStyle, json: bool) -> Self {
        Self { style: look, json }
    }

    /// Prints the title of a chapter.
    pub(super) fn chapter(&self, title: &str) -> Result<(), Failure> {
        self.print_line("chapter", title, || format!("\n{}", self.style.paint(STRONG, title)))
    }

    /// Prints a remark.
    pub(super) fn narrate(&self, text: &str) -> Result<(), Failure> {
        self.print_line("said", text, || self.style.memory_text(text).into_owned())
    }

    /// Prints a request or a command line.
    pub(super) fn sent(&self, text: &str) -> Result<(), Failure> {
        self.print_line("sent", text, || {
            format!("  {} {}", self.style.paint(MARK, "->"), self.short(text))
        })
    }

    /// Prints an answer.
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

    /// Prints a claim that was just checked; a false claim ends the demo with a failure.
    pub(super) fn check(&self, holds: bool, claim: &str) -> Result<(), Failure> {
        if holds {
            return self.print_line("held", claim, || {
                format!("  {} {claim}", self.style.paint(GOOD, "✓"))
            });
        }
        let what = format!("the check failed: {claim}");
        Err(Failure::new(MemoryErrorCode::StorageFailed, what)
            .help("that is a bug in Lukasa; please report it"))
    }

    /// Prints one step: as JSON under the key `word`, else as `shown`.
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

    /// Returns sanitized text on one line, cut to the width.
    fn short(&self, text: &str) -> String {
        // A tab separates numbers from lines here, so it is not escaped.
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
