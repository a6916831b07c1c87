//! What of a memory is shown when it was found, and what it is called.

use context::Mark;
use memory::document;
use memory::limits::RECALLED_ITEM_CHARS_MAX;
use memory::path::MemoryPath;
use recall::{EntryHit, Hit, Reason};

use super::Read;
use crate::conversation::Selected;

/// Returns what is shown of a memory.
pub(super) fn selected(hit: Hit, read: &Read, text: &str, mark: Option<Mark>) -> Selected {
    Selected {
        title: title(&hit.path, text),
        text: excerpt(text, &hit.entries),
        why: why(&hit.reasons),
        path: hit.path,
        revision: read.revision,
        modified_at: read.modified_at,
        mark,
    }
}

/// Returns what a memory is called: its name, else what its description says, else its file's name.
pub(super) fn title(path: &MemoryPath, text: &str) -> String {
    let head = document::head(text.as_bytes());
    let described = Some(head.description).filter(|description| !description.is_empty());
    head.name.or(described).unwrap_or_else(|| {
        let path = path.to_string();
        let file = path.rsplit('/').next().unwrap_or(&path);
        file.strip_suffix(".md").unwrap_or(file).to_owned()
    })
}

/// Returns what of a memory is shown: all of it when it is short, else its entries that fit best.
fn excerpt(text: &str, entries: &[EntryHit]) -> String {
    let body = document::body(text).trim();
    if body.chars().count() <= RECALLED_ITEM_CHARS_MAX {
        return body.to_owned();
    }
    let mut ranges: Vec<_> = entries.iter().map(|entry| entry.range.clone()).collect();
    ranges.sort_unstable_by_key(|range| range.start);
    let parts = ranges.into_iter().filter_map(|range| text.get(range)).map(str::trim);
    parts.collect::<Vec<_>>().join("\n…\n")
}

/// Says why a memory was chosen.
fn why(reasons: &[Reason]) -> String {
    let reason = |reason: &Reason| match reason {
        Reason::Word { asked, found } if asked == found => format!("has `{asked}`"),
        Reason::Word { asked, found } => format!("has `{found}` for `{asked}`"),
        Reason::Misspelled { asked, found } => format!("has `{found}`, probably for `{asked}`"),
        Reason::Near { asked, found, .. } => format!("has `{found}`, near `{asked}`"),
        Reason::Date => "is from the day or month asked for".to_owned(),
        Reason::Subject => "is about what is named".to_owned(),
        Reason::Alike { nearness } => {
            format!("is near to the prompt as a whole ({nearness:.2})")
        }
    };
    reasons.iter().map(reason).collect::<Vec<_>>().join("; ")
}
