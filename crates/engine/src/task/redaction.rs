//! Removal of secrets from texts that are shown to callers or logged.
//!
//! A message of a provider, a child process or a library may contain a key, a line break that
//! forges a log line, or be very long. Secrets are detected as in memories, even with invisible
//! characters between their letters.

use std::borrow::Cow;
use std::ops::Range;

use memory::limits::TASK_DETAILS_CHARS_MAX;
use memory::screen::{Family, Screen, ScreenFinding, TextAuthor};

/// Replacement for a secret.
const REDACTED: &str = "[redacted]";

/// Replacement for the end of a text that is too long.
const TRUNCATION_MARK: char = '…';

/// Maximum length in characters of the text that is scanned. It exceeds the limit of details, so
/// that a secret across the cut is still found.
const SCANNED_CHARS_MAX: usize = 16 * TASK_DETAILS_CHARS_MAX;

/// Returns the text in a form that any caller may see; `None` if nothing remains.
pub fn redact_for_display(text: &str) -> Option<String> {
    let end = text.char_indices().nth(SCANNED_CHARS_MAX).map_or(text.len(), |(end, _)| end);
    let (text, _) = text.split_at(end);
    let screen = Screen::default();
    let invisible =
        matching_ranges(&screen.check(text, TextAuthor::Agent), ScreenFinding::is_invisible);
    let secrets = secrets(&screen, text, &invisible);
    let mut shown = String::new();
    let mut redacted: Option<&Range<usize>> = None;
    for (index, character) in text.char_indices() {
        if let Some(secret) = secrets.iter().find(|secret| secret.contains(&index)) {
            if redacted != Some(secret) {
                shown.push_str(REDACTED);
                redacted = Some(secret);
            }
        } else if character.is_whitespace() || character.is_control() {
            shown.push(' ');
        } else if !is_in_ranges(&invisible, index) {
            shown.push(character);
        }
    }
    let shown = truncate(shown.trim());
    (!shown.is_empty()).then_some(shown)
}

/// Returns a text unchanged, unless it contains a secret: then as [`redact_for_display`] does.
pub(crate) fn without_secrets(text: &str) -> Cow<'_, str> {
    let screen = Screen::default();
    let invisible =
        matching_ranges(&screen.check(text, TextAuthor::Agent), ScreenFinding::is_invisible);
    if secrets(&screen, text, &invisible).is_empty() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(redact_for_display(text).unwrap_or_default())
}

/// Returns the ranges of secrets in a text, including invisible characters inside them.
fn secrets(screen: &Screen, text: &str, invisible: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut visible = String::with_capacity(text.len());
    // For each byte of the visible text, its offset in the whole text.
    let mut offsets = Vec::with_capacity(text.len());
    for (offset, character) in
        text.char_indices().filter(|(offset, _)| !is_in_ranges(invisible, *offset))
    {
        visible.push(character);
        offsets.extend(offset..offset + character.len_utf8());
    }
    let ranges = matching_ranges(&screen.check(&visible, TextAuthor::Agent), |finding| {
        finding.family == Family::Secrets
    });
    let original = |offset: usize| offsets.get(offset).copied().unwrap_or(text.len());
    ranges
        .into_iter()
        .map(|range| original(range.start)..original(range.end.saturating_sub(1)) + 1)
        .collect()
}

fn matching_ranges(
    findings: &[ScreenFinding],
    matches: impl Fn(&ScreenFinding) -> bool,
) -> Vec<Range<usize>> {
    let selected = findings.iter().filter(|finding| matches(finding));
    selected.map(|finding| finding.range.clone()).collect()
}

fn is_in_ranges(ranges: &[Range<usize>], offset: usize) -> bool {
    ranges.iter().any(|range| range.contains(&offset))
}

/// Shortens a text to the limit of details, including the mark of the cut.
fn truncate(text: &str) -> String {
    match text.char_indices().nth(TASK_DETAILS_CHARS_MAX) {
        None => text.to_owned(),
        Some(_) => text.chars().take(TASK_DETAILS_CHARS_MAX - 1).chain([TRUNCATION_MARK]).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(redact_for_display(text).unwrap_or_default(), expected, "{text:?}");
    }

    #[test]
    fn only_a_text_with_a_secret_is_changed() {
        let plain = "two\tlines\nand a key";
        assert_eq!(without_secrets(plain), plain);
        let secret = "the key\tis ghp_Zz0123456789abcdefghijABCDEFGHIJ0123, he said";
        assert_eq!(without_secrets(secret), "the key is [redacted], he said");
    }

    #[test]
    fn a_plain_text_is_shown_unchanged() {
        check("the child ended with status 3", "the child ended with status 3");
        check("  Größe: 12 °C — 日本語 🙂 ", "Größe: 12 °C — 日本語 🙂");
        check("", "");
        check(" \n\t\u{200b} ", "");
    }

    #[test]
    fn characters_that_could_forge_a_line_become_spaces() {
        check("one\r\ntwo\u{1b}[31mred\u{0}end", "one  two [31mred end");
        check("a\u{2028}b\u{85}c", "a b c");
    }

    #[test]
    fn credentials_are_redacted() {
        check("key ghp_Zz0123456789abcdefghijABCDEFGHIJ0123 refused", "key [redacted] refused");
        check(
            "sk-ant-api03-Zk3qLw8Rt5Yp2Xn7Vb4Mc9Hd6Jf1Gs0Qa3We5Tr8Yu2Io7Pl4Kj9Hg6Fd1Sa0Zx3Cv8Bn5Mq2Lw7Er4-Ty6Ui9OpAA",
            "[redacted]",
        );
        check("Authorization: Bearer Zk3qLw8Rt5Yp2Xn7Vb4Mc9Hd", "Authorization: Bearer [redacted]");
        check(
            "postgres://app:h4rdT0Gue55x9@db.example/x",
            "postgres://app:[redacted]@db.example/x",
        );
        check("password=h4rdT0Gue55x9q failed", "password=[redacted] failed");
        check("AKIAZ7QWERTYUIOP2345 and more", "[redacted] and more");
    }

    #[test]
    fn credentials_with_invisible_characters_inside_are_redacted() {
        for hidden in ["\u{200b}", "\u{2060}", "\u{feff}", "\u{ad}", "\u{202e}", "\u{0}", "\u{1b}"]
        {
            let text = format!("key ghp_Zz0123456789abcd{hidden}efghijABCDEFGHIJ0123 refused");
            let shown = redact_for_display(&text).unwrap();
            assert_eq!(shown, "key [redacted] refused", "{hidden:?}");
        }
    }

    #[test]
    fn a_long_text_is_cut_at_a_character_boundary() {
        let shown = redact_for_display(&"é🙂".repeat(2_000)).unwrap();
        assert_eq!(shown.chars().count(), TASK_DETAILS_CHARS_MAX);
        assert!(shown.ends_with(TRUNCATION_MARK), "{shown}");
        check(&"x".repeat(TASK_DETAILS_CHARS_MAX), &"x".repeat(TASK_DETAILS_CHARS_MAX));
    }

    #[test]
    fn a_secret_across_the_cut_is_redacted() {
        let text = format!("{} ghp_Zz0123456789abcdefghijABCDEFGHIJ0123", "y".repeat(985));
        let shown = redact_for_display(&text).unwrap();
        assert!(shown.ends_with("y [redacted]"), "{shown}");
    }

    #[test]
    fn redaction_is_idempotent() {
        let once = redact_for_display("token ghp_Zz0123456789abcdefghijABCDEFGHIJ0123\n").unwrap();
        check(&once, &once);
    }
}
