//! `lukasa grep`: searches the texts of memories, line by line.

use std::ops::{ControlFlow, Range};

use memory::error_code::MemoryErrorCode;
use memory::path::MemoryPath;
use regex::{Regex, RegexBuilder};
use serde_json::{Value, json};
use store::{Memories, StoreError};

use crate::app::App;
use crate::args::Grep;
use crate::commands::{PathKind, path_kind};
use crate::exit::{Failure, Status, chain};
use crate::render::text::TextBuffer;
use crate::render::{BAD, FAINT, MARK, OutputStyle, counted, sanitize, short_path};

/// The maximum size of a compiled expression in bytes, so that a mistake cannot exhaust the memory of the machine.
const REGEX_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A line that matches.
#[derive(Debug, PartialEq, Eq)]
struct LineMatch<'a> {
    number: usize,
    line: &'a str,
    /// The byte ranges of the matches in the line.
    ranges: Vec<Range<usize>>,
}

/// Searches memories.
pub(crate) async fn run(app: &App, args: &Grep) -> Result<Status, Failure> {
    let regex = compile(args)?;
    let memories = app.memories();
    let path = args.path.as_deref().map(|path| app.path(path)).transpose()?;
    let mut text = TextBuffer::default();
    let mut values = Vec::new();
    let view = MatchPrinter { numbers: args.print.line_number, style: app.output.style };
    let search_in = |path: &MemoryPath, read: Result<&str, StoreError>| {
        let read = match read {
            Ok(read) => read,
            // Deleted during the search.
            Err(error) if error.code() == MemoryErrorCode::NotFound => {
                return ControlFlow::Continue(());
            }
            Err(error) => {
                let (path, cause) = (short_path(path), chain(&error));
                app.output.warning(&format!("`{path}` was not searched: {cause}"));
                return ControlFlow::Continue(());
            }
        };
        let matches = find(&regex, read);
        if matches.is_empty() {
            return ControlFlow::Continue(());
        }
        if args.print.files_with_matches {
            values.push(json!({ "path": path.to_string() }));
            text.line(short_path(path));
        } else {
            values.extend(matches.iter().map(|found| value(&path.to_string(), found)));
            view.write(&short_path(path), &matches, &mut text);
        }
        ControlFlow::Continue(())
    };
    let search = search(&memories, path.as_ref(), search_in);
    let omitted = app.wait_with_progress("searching", search).await?;
    if app.output.json {
        app.output.values(&values)?;
    } else {
        app.output.text(&text.into_string())?;
    }
    if omitted > 0 {
        let more = counted(omitted, "memory was", "memories were");
        app.output.warning(&format!("{more} not searched: the scope holds too many memories"));
    }
    Ok(if values.is_empty() { Status::Refused } else { Status::Done })
}

/// Calls `search_in` with the text of one memory, or of all in a folder or scope. Returns the number of memories that
/// were left out.
async fn search(
    memories: &Memories,
    path: Option<&MemoryPath>,
    mut search_in: impl FnMut(&MemoryPath, Result<&str, StoreError>) -> ControlFlow<()> + Send,
) -> Result<usize, Failure> {
    if let Some(path) = path
        && path_kind(memories, path).await? == PathKind::Memory
    {
        let read = memories.read(path).await;
        // There is no next one to stop before.
        let (ControlFlow::Continue(()) | ControlFlow::Break(())) = match read {
            Ok(read) => search_in(path, Ok(&read.text)),
            Err(error) => search_in(path, Err(error)),
        };
        return Ok(0);
    }
    Ok(memories.visit_texts(path, search_in).await?)
}

fn compile(args: &Grep) -> Result<Regex, Failure> {
    let pattern = if args.regex { args.pattern.clone() } else { regex::escape(&args.pattern) };
    let built = RegexBuilder::new(&pattern)
        .case_insensitive(args.ignore_case)
        .size_limit(REGEX_BYTES_MAX)
        .build();
    built.map_err(|error| {
        Failure::usage(format!("the pattern is not a valid regular expression: {error}"))
            .help("without `-E` the pattern is plain text")
    })
}

fn find<'a>(regex: &Regex, text: &'a str) -> Vec<LineMatch<'a>> {
    let matching = |(index, line): (usize, &'a str)| {
        let ranges: Vec<_> = regex.find_iter(line).map(|found| found.range()).collect();
        (!ranges.is_empty()).then_some(LineMatch { number: index + 1, line, ranges })
    };
    text.lines().enumerate().filter_map(matching).collect()
}

fn value(path: &str, found: &LineMatch<'_>) -> Value {
    let ranges: Vec<_> = found.ranges.iter().map(|range| json!([range.start, range.end])).collect();
    json!({ "path": path, "line": found.number, "text": found.line, "ranges": ranges })
}

/// A printer of matches: below their memory on a terminal, else one line each with the path.
#[derive(Clone, Copy)]
struct MatchPrinter {
    numbers: bool,
    style: OutputStyle,
}

impl MatchPrinter {
    fn write(self, path: &str, matches: &[LineMatch<'_>], text: &mut TextBuffer) {
        let look = self.style;
        if look.terminal {
            if !text.is_empty() {
                text.add("\n");
            }
            text.line(look.paint(MARK, path));
            for found in matches {
                let number = look.paint(FAINT, &format!("{:>6}", found.number));
                text.line(format_args!("{number} {}", highlighted(found, look)));
            }
            return;
        }
        for found in matches {
            let path = look.paint(MARK, path);
            let number = if self.numbers { format!("{}:", found.number) } else { String::new() };
            text.line(format_args!("{path}:{number}{}", highlighted(found, look)));
        }
    }
}

fn highlighted(found: &LineMatch<'_>, look: OutputStyle) -> String {
    let mut shown = String::new();
    let mut offset = 0;
    let part = |range: Range<usize>| sanitize::text(found.line.get(range).unwrap_or_default());
    for range in &found.ranges {
        shown.push_str(&part(offset..range.start));
        if !range.is_empty() {
            shown.push_str(&look.paint(BAD.bold(), &part(range.clone())));
        }
        offset = range.end;
    }
    shown.push_str(&part(offset..found.line.len()));
    shown
}
