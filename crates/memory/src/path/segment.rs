//! The grammar of one path segment: names that are valid on every file system and in every protocol.
//!
//! Functions here only report the broken rule; the parent module adds the path around the segment.

use unicode_normalization::is_nfc;

use super::{PathErrorKind, SegmentError};
use crate::limits::SEGMENT_BYTES_MAX;

/// Checks a segment, which must be in NFC.
pub(super) fn check(segment: &str) -> Result<(), SegmentError> {
    if segment.len() > SEGMENT_BYTES_MAX {
        return Err(SegmentError::Fault(PathErrorKind::LongSegment));
    }
    if is_plain(segment) { Ok(()) } else { check_closely(segment) }
}

fn check_closely(segment: &str) -> Result<(), SegmentError> {
    if segment.contains("..") || segment.contains(['~', '\\']) || hides_a_separator(segment) {
        return Err(SegmentError::Escape);
    }
    error_kind(segment).map_or(Ok(()), |fault| Err(SegmentError::Fault(fault)))
}

/// Checks in one pass whether a name consists of letters, digits, dashes and at most one inner dot. Most names do, and
/// then no other rule applies.
fn is_plain(segment: &str) -> bool {
    let mut dots = 0;
    let plain = segment.bytes().all(|byte| {
        dots += usize::from(byte == b'.');
        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
    });
    let within = !segment.is_empty() && !segment.starts_with('.') && !segment.ends_with('.');
    plain && dots <= 1 && within && !is_device(segment)
}

/// Checks a segment from a directory listing, which may contain a slash or not be in NFC.
pub(super) fn check_on_disk(segment: &str) -> Result<(), SegmentError> {
    if segment.contains('/') {
        return Err(SegmentError::Escape);
    }
    check(segment)?;
    if segment.is_ascii() || is_nfc(segment) {
        Ok(())
    } else {
        Err(SegmentError::Fault(PathErrorKind::NotNormalized))
    }
}

/// Checks whether a character is invisible: a control, or one that only affects its neighbors.
///
/// Variation selectors 1 to 16 do not count, because emoji in ordinary names use them.
pub(super) fn is_invisible(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{34f}'
                | '\u{61c}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

fn error_kind(segment: &str) -> Option<PathErrorKind> {
    if segment.is_empty() {
        return Some(PathErrorKind::EmptySegment);
    }
    for character in segment.chars() {
        if is_invisible(character) {
            return Some(PathErrorKind::InvisibleCharacter(character));
        }
        if matches!(character, '<' | '>' | '"' | ':' | '|' | '*' | '?') {
            return Some(PathErrorKind::ReservedCharacter(character));
        }
    }
    if segment.starts_with('.') {
        return Some(PathErrorKind::Hidden);
    }
    if segment.ends_with(|last: char| last == '.' || last.is_whitespace()) {
        return Some(PathErrorKind::BadEnd);
    }
    is_device(segment).then_some(PathErrorKind::ReservedName)
}

/// Checks whether the name is a device on Windows, with any extension.
fn is_device(segment: &str) -> bool {
    let stem = segment.split_once('.').map_or(segment, |(stem, _)| stem).trim_end();
    if let Some((word, port)) = stem.split_at_checked(3)
        && ["com", "lpt"].iter().any(|device| word.eq_ignore_ascii_case(device))
    {
        let mut digits = port.chars();
        return matches!(digits.next(), Some('1'..='9' | '¹' | '²' | '³'))
            && digits.next().is_none();
    }
    let devices = ["con", "prn", "aux", "nul", "conin$", "conout$"];
    devices.iter().any(|device| stem.eq_ignore_ascii_case(device))
}

/// Checks whether repeated decoding of percent escapes yields a dot, a slash or a backslash.
///
/// The bytes C0 and C1 count too: they occur only in overlong encodings of those characters.
fn hides_a_separator(segment: &str) -> bool {
    if !segment.contains('%') {
        return false;
    }
    let mut bytes = segment.as_bytes().to_vec();
    loop {
        let mut decoded = Vec::with_capacity(bytes.len());
        let mut rest = bytes.as_slice();
        while let Some((&first, after)) = rest.split_first() {
            if let Some((byte, after)) = percent_escape(rest) {
                if matches!(byte, b'.' | b'/' | b'\\' | 0xc0 | 0xc1) {
                    return true;
                }
                decoded.push(byte);
                rest = after;
            } else {
                decoded.push(first);
                rest = after;
            }
        }
        if decoded.len() == bytes.len() {
            return false;
        }
        bytes = decoded;
    }
}

/// Parses `%XX` at the start.
fn percent_escape(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let [b'%', high, low, rest @ ..] = bytes else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some((digit(*high)? << 4 | digit(*low)?, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_plain_name_breaks_no_rule(
            segment in prop_oneof![
                "[a-zA-Z0-9_.-]{0,9}",
                "(?i)(con|prn|aux|nul|com[0-9]?|lpt[0-9]?)[.]?[a-z]{0,3}",
                "\\PC{0,6}",
            ],
        ) {
            prop_assert!(!is_plain(&segment) || check_closely(&segment).is_ok());
        }
    }

    #[test]
    fn ordinary_names_are_plain() {
        for name in ["note7.md", "architecture", "2026-11-22_notes.md", "console.md", "com10.md"] {
            assert!(is_plain(name), "{name}");
        }
    }
}
