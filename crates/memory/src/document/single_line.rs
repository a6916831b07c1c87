//! Formats text for one line of a listing: on one line, without invisible characters, and short.
//!
//! Descriptions and names come from untrusted files and are shown to people and models. Removing invisible characters
//! ensures that both read the same text.

use crate::limits::DESCRIPTION_CHARS_MAX;
use crate::text::slice;

/// Returns the text on one line, cut at [`DESCRIPTION_CHARS_MAX`] characters and marked with `…`.
///
/// White space becomes single spaces. Control and invisible characters are removed: with them, a model could read text
/// that a person does not see. A single joiner between two visible characters outside ASCII is kept, because scripts
/// and emoji need it.
pub fn description_line(text: &str) -> String {
    let line = visible_line(text);
    match line.char_indices().nth(DESCRIPTION_CHARS_MAX) {
        Some((end, _)) => format!("{}…", slice(&line, ..end).trim_end()),
        None => line,
    }
}

/// Returns the whole text on one line.
pub(super) fn visible_line(text: &str) -> String {
    let is_visible = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if is_visible && text.trim() == text && !text.contains("  ") {
        return text.to_owned();
    }
    let mut line = String::with_capacity(text.len());
    let mut pending = PendingGap::None;
    for c in text.chars() {
        if c.is_whitespace() {
            pending = PendingGap::Space;
        } else if is_joiner(c) {
            // A joiner after white space or after another joiner has no effect.
            let joins = line.chars().next_back().is_some_and(|last| !last.is_ascii());
            if matches!(pending, PendingGap::None) && joins {
                pending = PendingGap::Joiner(c);
            }
        } else if !is_invisible(c) {
            match pending {
                PendingGap::Space if !line.is_empty() => line.push(' '),
                PendingGap::Joiner(joiner) if !c.is_ascii() => line.push(joiner),
                PendingGap::None | PendingGap::Space | PendingGap::Joiner(_) => {}
            }
            pending = PendingGap::None;
            line.push(c);
        }
    }
    line
}

/// The separator before the next visible character.
enum PendingGap {
    None,
    Space,
    Joiner(char),
}

const fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200C}' | '\u{200D}')
}

/// Checks for control characters and invisible format characters: soft hyphen, zero-width, bidi, shaping and tag
/// characters, fillers, and the variation selectors that can carry hidden bytes.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
            | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0D}' | '\u{FEFF}'
            | '\u{FFA0}' | '\u{FFF9}'..='\u{FFFB}' | '\u{1D173}'..='\u{1D17A}'
            | '\u{E0000}'..='\u{E0FFF}')
}
