//! How the demo is told: chapters, what was sent and answered in short, and what was checked.

use memory::error_code::MemoryErrorCode;
use serde_json::json;

use crate::exit::Failure;
use crate::render::{FAINT, GOOD, Look, MARK, STRONG, counted, print, visible};

/// How much of a request or answer is shown, in characters.
const SHOWN_MAX: usize = 94;

/// How many lines of an answer are shown.
const LINES_MAX: usize = 12;

/// Prints the story as it happens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Teller {
    look: Look,
    /// Whether it is told to a program: one JSON object a line, with nothing cut.
    json: bool,
}

impl Teller {
    pub(super) const fn new(look: Look, json: bool) -> Self {
        Self { look, json }
    }

    /// Begins a chapter.
    pub(super) fn chapter(&self, title: &str) -> Result<(), Failure> {
        self.tell("chapter", title, || format!("\n{}", self.look.paint(STRONG, title)))
    }

    /// Says something to the person who watches.
    pub(super) fn say(&self, text: &str) -> Result<(), Failure> {
        self.tell("said", text, || self.look.memory_text(text).into_owned())
    }

    /// Shows what is sent to a program: a request or a command line.
    pub(super) fn sent(&self, text: &str) -> Result<(), Failure> {
        self.tell("sent", text, || {
            format!("  {} {}", self.look.paint(MARK, "->"), self.short(text))
        })
    }

    /// Shows what came back.
    pub(super) fn got(&self, text: &str) -> Result<(), Failure> {
        if self.json {
            return self.tell("got", text, String::new);
        }
        let lines: Vec<&str> = text.trim_end().lines().collect();
        for (index, text) in lines.iter().take(LINES_MAX).enumerate() {
            let arrow = if index == 0 { self.look.paint(MARK, "<-") } else { "  ".to_owned() };
            line(&format!("  {arrow} {}", self.look.paint(FAINT, &self.short(text))))?;
        }
        match lines.len().saturating_sub(LINES_MAX) {
            0 => Ok(()),
            more => {
                let more = format!("({})", counted(more, "more line", "more lines"));
                line(&format!("     {}", self.look.paint(FAINT, &more)))
            }
        }
    }

    /// Claims something that was just looked at; what is not true ends the demo.
    pub(super) fn claim(&self, holds: bool, claim: &str) -> Result<(), Failure> {
        if holds {
            return self
                .tell("held", claim, || format!("  {} {claim}", self.look.paint(GOOD, "✓")));
        }
        let what = format!("this should hold and does not: {claim}");
        Err(Failure::new(MemoryErrorCode::StorageFailed, what)
            .help("that is a bug in Lukasa; please report it"))
    }

    /// Prints one step of the story: to a program by its word, to a person as `shown`.
    fn tell(self, word: &str, text: &str, shown: impl FnOnce() -> String) -> Result<(), Failure> {
        if self.json {
            return line(&visible::json(&json!({ word: text }).to_string()));
        }
        line(&shown())
    }

    /// Returns text on one line that a terminal shows and does not obey, cut where it is long.
    fn short(&self, text: &str) -> String {
        // A tab keeps its meaning here: it parts numbers from lines.
        let text = visible::line(&text.replace('\t', "  ")).into_owned();
        let width = self.look.width.map_or(SHOWN_MAX, |width| width.saturating_sub(6));
        match text.char_indices().nth(width) {
            Some((end, _)) => format!("{}…", memory::text::slice(&text, ..end)),
            None => text,
        }
    }
}

fn line(text: &str) -> Result<(), Failure> {
    print(format!("{text}\n").as_bytes())
}
