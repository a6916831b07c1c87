//! `lukasa grep`: searches the texts of memories, line by line.

use std::ops::Range;

use memory::error_code::MemoryErrorCode;
use regex::{Regex, RegexBuilder};
use serde_json::{Value, json};
use store::FILES_READ_AT_ONCE;

use crate::app::App;
use crate::args::Grep;
use crate::commands::listing;
use crate::exit::{Failure, Status, chain};
use crate::render::progress::StepProgress;
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
    let listing = app.wait_with_progress("listing", listing(&memories, path.as_ref())).await?;
    let mut steps = StepProgress::new("searching", listing.memories.len(), app.shows_progress());
    let mut text = TextBuffer::default();
    let mut values = Vec::new();
    for part in listing.memories.chunks(FILES_READ_AT_ONCE) {
        let paths: Vec<_> = part.iter().map(|listed| &listed.path).collect();
        for (path, read) in paths.iter().zip(memories.read_many(&paths).await) {
            steps.step();
            let read = match read {
                Ok(read) => read,
                // Deleted during the search.
                Err(error) if error.code() == MemoryErrorCode::NotFound => continue,
                Err(error) => {
                    let (path, cause) = (short_path(path), chain(&error));
                    app.output.warning(&format!("`{path}` was not searched: {cause}"));
                    continue;
                }
            };
            let matches = find(&regex, &read.text);
            if matches.is_empty() {
                continue;
            }
            if args.print.files_with_matches {
                values.push(json!({ "path": path.to_string() }));
                text.line(short_path(path));
            } else {
                values.extend(matches.iter().map(|found| value(&path.to_string(), found)));
                let view =
                    MatchPrinter { numbers: args.print.line_number, style: app.output.style };
                view.write(&short_path(path), &matches, &mut text);
            }
        }
    }
    drop(steps);
    if app.output.json {
        app.output.values(&values)?;
    } else {
        app.output.text(&text.into_string())?;
    }
    if listing.omitted > 0 {
        let more = counted(listing.omitted, "memory was", "memories were");
        app.output.warning(&format!("{more} not searched: the scope holds too many memories"));
    }
    Ok(if values.is_empty() { Status::Refused } else { Status::Done })
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
