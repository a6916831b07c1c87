//! Escaping of control characters and invisible characters for display.
//!
//! A memory may hold any text: escape sequences that repaint the screen, bidirectional controls that
//! reorder a line, zero-width characters that hide words. People must see the same text as models.

use std::borrow::Cow;
use std::fmt::Write;

/// Returns a text that is safe to display: control characters in caret notation (`^[`), invisible ones
/// as code points (`<U+202E>`). Newlines and tabs stay; a carriage return before a newline is dropped.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t')) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut before = ' ';
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let after = characters.peek().copied();
        match character {
            '\n' | '\t' => shown.push(character),
            '\r' if after == Some('\n') => {}
            '\0'..='\x1f' | '\x7f' => {
                shown.push('^');
                // The key that, with the control key, types this character; `?` for DEL.
                shown.push(char::from(u8::try_from(character).unwrap_or_default() ^ 0x40));
            }
            _ if is_joiner(character) && joins(before, after) => shown.push(character),
            _ if is_invisible(character) => {
                // Writing to a string cannot fail.
                let _always = write!(shown, "<U+{:04X}>", u32::from(character));
            }
            _ => shown.push(character),
        }
        before = character;
    }
    Cow::Owned(shown)
}

/// Returns a text on one line: like [`text`], with newlines and tabs in caret notation too.
pub(crate) fn line(line: &str) -> Cow<'_, str> {
    let shown = text(line);
    if shown.contains(['\n', '\t']) {
        return Cow::Owned(shown.replace('\n', "^J").replace('\t', "^I"));
    }
    shown
}

/// Returns equal JSON in which every invisible character is written as an escape.
pub(crate) fn json(json: &str) -> Cow<'_, str> {
    let hidden = |character: char| is_invisible(character) || character == '\x7f';
    if !json.contains(hidden) {
        return Cow::Borrowed(json);
    }
    let mut shown = String::with_capacity(json.len());
    for character in json.chars() {
        if hidden(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _always = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

fn is_joiner(character: char) -> bool {
    matches!(character, '\u{200c}' | '\u{200d}')
}

/// Checks whether a joiner is legitimate between these characters. Many scripts and emoji need joiners;
/// Latin, Greek and Cyrillic do not.
fn joins(before: char, after: Option<char>) -> bool {
    let needs_joiners = |character: char| character > '\u{5ff}' && !is_invisible(character);
    needs_joiners(before) && after.is_some_and(needs_joiners)
}

/// Checks whether a character, other than C0 and DEL, is a control or has no visible shape.
fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{80}'..='\u{9f}'
            | '\u{ad}'
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
            | '\u{fff9}'..='\u{fffb}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_invisible_characters_are_escaped() {
        fn check(raw: &str, expected: &str) {
            assert_eq!(text(raw), expected, "{raw:?}");
        }
        check("plain\ttext\n", "plain\ttext\n");
        check("\u{1b}[31mred\u{1b}[0m", "^[[31mred^[[0m");
        check("a\rb", "a^Mb");
        check("a\r\nb", "a\nb");
        check("bell\u{7} del\u{7f} nul\0", "bell^G del^? nul^@");
        check("\u{9b}31m", "<U+009B>31m");
        check("user\u{202e}txt.exe", "user<U+202E>txt.exe");
        check("zero\u{200b}width", "zero<U+200B>width");
        check("tag\u{e0041}", "tag<U+E0041>");
        check("grüße, 日本語", "grüße, 日本語");
    }

    #[test]
    fn joiners_stay_where_a_script_needs_them() {
        assert_eq!(text("👩\u{200d}💻"), "👩\u{200d}💻");
        assert_eq!(text("می\u{200c}خواهم"), "می\u{200c}خواهم");
        assert_eq!(text("pass\u{200d}word"), "pass<U+200D>word");
        assert_eq!(text("\u{200d}"), "<U+200D>");
    }

    #[test]
    fn a_line_stays_one_line() {
        assert_eq!(line("a\nb\tc\u{1b}"), "a^Jb^Ic^[");
    }

    #[test]
    fn json_keeps_its_meaning() {
        let value = serde_json::json!({ "a": "x\u{202e}\u{7f}\u{e0041}\n\u{1b}" });
        let shown = json(&value.to_string()).into_owned();
        assert!(shown.is_ascii(), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
