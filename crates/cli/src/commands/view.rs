//! `lukasa view`: prints the text of a memory, or some of its lines.

use engine::{Memories, StoreError};
use memory::command::{CommandError, MemoryCommand, Reply, ViewRange};
use memory::error_code::MemoryErrorCode;
use memory::path::MemoryPath;
use serde_json::json;

use crate::app::{App, call};
use crate::args::{LineRange, View};
use crate::exit::{Failure, Status};
use crate::render::text::TextBuffer;
use crate::render::{FAINT, time};

/// Prints a memory.
pub(crate) async fn run(app: &App, args: &View) -> Result<Status, Failure> {
    let memories = app.memories();
    let path = app.path(&args.path)?;
    let read = match (app.wait_with_progress("reading", memories.read(&path)).await, args.lines) {
        (Err(StoreError::Refused(refusal @ CommandError::OutgrewCap { .. })), lines) => {
            return match lines {
                Some(range) => part(app, &memories, path, range).await,
                None => Err(Failure::from(refusal).help("print a part of it with `--lines A:B`")),
            };
        }
        (read, _) => read?,
    };
    let (first, text) = match args.lines {
        Some(range) => (range.first, cut(&read.text, range)?),
        None => (1, read.text.as_str()),
    };
    if app.output.json {
        app.output.value(&json!({
            "path": path.to_string(),
            "text": text,
            "first_line": first,
            "revision": read.revision.to_string(),
            "bytes": read.text.len(),
            "modified_at": time::exact(read.modified_at),
        }))?;
        return Ok(Status::Done);
    }
    let look = app.output.style;
    let mut shown = look.memory_text(text).into_owned();
    if args.number {
        let mut numbered = TextBuffer::default();
        for (number, line) in (first..).zip(shown.lines()) {
            let number = look.paint(FAINT, &format!("{number:>6}"));
            numbered.line(format_args!("{number} {line}"));
        }
        shown = numbered.into_string();
    }
    if look.terminal && !shown.is_empty() && !shown.ends_with('\n') {
        shown.push('\n');
    }
    app.output.text(&shown)?;
    Ok(Status::Done)
}

/// Prints some lines of a file over the size limit, which is never read as a whole.
async fn part(
    app: &App,
    memories: &Memories,
    path: MemoryPath,
    range: LineRange,
) -> Result<Status, Failure> {
    let number = |line: usize| i64::try_from(line).unwrap_or(i64::MAX);
    let lines =
        ViewRange::Range { first: number(range.first), last: range.last.map_or(-1, number) };
    let shown = path.to_string();
    let text = match memories.apply(MemoryCommand::View { path, lines }, &call()).await? {
        Reply::Done { text, .. } => text,
        Reply::Refused(refusal) => return Err(refusal.into()),
    };
    // The reply is a heading, then each line after its number and a tab.
    let mut lines = TextBuffer::default();
    for line in text.lines().skip(1) {
        lines.line(line.split_once('\t').map_or(line, |(_, line)| line));
    }
    let text = lines.into_string();
    if app.output.json {
        app.output.value(&json!({ "path": shown, "text": text, "first_line": range.first }))?;
    } else {
        app.output.text(&app.output.style.memory_text(&text))?;
    }
    Ok(Status::Done)
}

/// Returns the lines of a range. A last line beyond the end is allowed; a first line beyond it is an error.
fn cut(text: &str, range: LineRange) -> Result<&str, Failure> {
    let mut start = None;
    let mut end = text.len();
    let mut offset = 0;
    let mut lines = 0;
    for line in text.split_inclusive('\n') {
        lines += 1;
        if lines == range.first {
            start = Some(offset);
        }
        offset += line.len();
        if Some(lines) == range.last {
            end = offset;
        }
    }
    match start {
        Some(start) => Ok(memory::text::slice(text, start..end)),
        None => Err(Failure::new(
            MemoryErrorCode::InvalidRange,
            format!("line {} is past the end: there are {lines} lines", range.first),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_lines_is_cut_with_its_line_ends() {
        fn check(text: &str, range: &str, expected: Result<&str, &str>) {
            let cut = match cut(text, range.parse().unwrap()) {
                Ok(cut) => Ok(cut),
                Err(Failure::Message(error)) => Err(error.message),
                Err(other) => panic!("{other:?}"),
            };
            assert_eq!(cut, expected.map_err(str::to_owned), "{text:?} {range}");
        }
        check("a\nb\r\nc", "1", Ok("a\n"));
        check("a\nb\r\nc", "2:", Ok("b\r\nc"));
        check("a\nb\r\nc", ":2", Ok("a\nb\r\n"));
        check("a\nb\r\nc", "2:99", Ok("b\r\nc"));
        check("a\n", "2", Err("line 2 is past the end: there are 1 lines"));
        check("", "1:", Err("line 1 is past the end: there are 0 lines"));
    }
}
