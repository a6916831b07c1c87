//! Splits a text that is larger than a memory into several, between entries.
//!
//! A heading stays with the text below it. Each part repeats the frontmatter, and from the second
//! on the description has the number of the part. Concatenated, the bodies are the original body.

use memory::document::{body, entries, parse_header, set_field};
use memory::limits::MEMORY_BYTES_MAX;

/// Bytes reserved for the description of a part, beside the frontmatter that it repeats.
const DESCRIPTION_BYTES: usize = 2_048;

/// Returns the parts of a text, or the size of the piece that does not fit into one.
pub(super) fn split(text: &str) -> Result<Vec<String>, usize> {
    let front = text.len() - body(text).len();
    let room = MEMORY_BYTES_MAX.saturating_sub(front + DESCRIPTION_BYTES);
    let mut parts: Vec<&str> = Vec::new();
    let mut start = front;
    let mut end = front;
    for cut in cuts(text).into_iter().chain([text.len()]) {
        if cut - end > room {
            return Err(cut - end);
        }
        if cut - start > room {
            parts.push(between(text, start, end));
            start = end;
        }
        end = cut;
    }
    parts.push(between(text, start, end));
    let front = between(text, 0, front);
    let description = parse_header(text.as_bytes()).description;
    let count = parts.len();
    let part = |(at, part): (usize, &&str)| {
        let whole = [front, part].concat();
        if at == 0 || description.is_empty() {
            return whole;
        }
        set_field(&whole, "description", &format!("{description} (part {} of {count})", at + 1))
    };
    Ok(parts.iter().enumerate().map(part).collect())
}

/// Returns the text between two cuts. It panics rather than lose text silently.
fn between(text: &str, start: usize, end: usize) -> &str {
    text.get(start..end).expect("entries follow each other and end between characters")
}

/// Returns the offsets where a text may be cut: before an entry, or before the heading above it.
fn cuts(text: &str) -> Vec<usize> {
    let mut cuts = Vec::new();
    let mut end = text.len() - body(text).len();
    for entry in entries(text) {
        let gap = between(text, end, entry.range.start);
        let blank = gap.len() - gap.trim_start().len();
        let lines = gap.get(..blank).and_then(|blank| blank.rfind('\n')).map_or(0, |at| at + 1);
        cuts.push(if gap.trim().is_empty() { entry.range.start } else { end + lines });
        end = entry.range.end;
    }
    cuts
}
