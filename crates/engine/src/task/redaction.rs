//! What may be told of a failure to whoever asked for the task, and to the log.
//!
//! A text that came from a provider, a child or a library may hold a key, a line break that forges a log
//! line, or be endless. Secrets are found as in memories, also when something invisible stands between
//! their letters.

use std::borrow::Cow;
use std::ops::Range;

use memory::limits::TASK_DETAILS_CHARS_MAX;
use memory::screen::{Family, Screen, ScreenFinding, TextAuthor};

/// What stands for a secret.
const REDACTED: &str = "[redacted]";

/// What stands for the rest of a text that is too long.
const TRUNCATION_MARK: char = '…';

/// How much of a text is looked at, in characters: a secret that the cut goes through is still found.
const SCANNED_CHARS_MAX: usize = 16 * TASK_DETAILS_CHARS_MAX;

/// Returns the text as it may be told to anybody; `None` when nothing is left of it.
pub fn redact_for_display(text: &str) -> Option<String> {
    let end = text.char_indices().nth(SCANNED_CHARS_MAX).map_or(text.len(), |(end, _)| end);
    let (text, _) = text.split_at(end);
    let screen = Screen::default();
    let invisible =
        matching_ranges(&screen.check(text, TextAuthor::Agent), ScreenFinding::is_invisible);
    let secrets = secrets(&screen, text, &invisible);
    let mut told = String::new();
    let mut redacted: Option<&Range<usize>> = None;
    for (at, character) in text.char_indices() {
        if let Some(secret) = secrets.iter().find(|secret| secret.contains(&at)) {
            if redacted != Some(secret) {
                told.push_str(REDACTED);
                redacted = Some(secret);
            }
        } else if character.is_whitespace() || character.is_control() {
            told.push(' ');
        } else if !is_in_ranges(&invisible, at) {
            told.push(character);
        }
    }
    let told = truncate(told.trim());
    (!told.is_empty()).then_some(told)
}

/// Returns a text as it is, unless it holds a secret: then as it may be told to anybody.
pub(crate) fn without_secrets(text: &str) -> Cow<'_, str> {
    let screen = Screen::default();
    let invisible =
        matching_ranges(&screen.check(text, TextAuthor::Agent), ScreenFinding::is_invisible);
    if secrets(&screen, text, &invisible).is_empty() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(redact_for_display(text).unwrap_or_default())
}

/// Returns where secrets stand in a text, invisible characters between their letters or not.
fn secrets(screen: &Screen, text: &str, invisible: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut visible = String::with_capacity(text.len());
    // For every byte of the visible text, where it stands in the whole one.
    let mut places = Vec::with_capacity(text.len());
    for (at, character) in text.char_indices().filter(|(at, _)| !is_in_ranges(invisible, *at)) {
        visible.push(character);
        places.extend(at..at + character.len_utf8());
    }
    let found = matching_ranges(&screen.check(&visible, TextAuthor::Agent), |found| {
        found.family == Family::Secrets
    });
    let place = |at: usize| places.get(at).copied().unwrap_or(text.len());
    found
        .into_iter()
        .map(|found| place(found.start)..place(found.end.saturating_sub(1)) + 1)
        .collect()
}

fn matching_ranges(
    findings: &[ScreenFinding],
    is_meant: impl Fn(&ScreenFinding) -> bool,
) -> Vec<Range<usize>> {
    let meant = findings.iter().filter(|finding| is_meant(finding));
    meant.map(|finding| finding.range.clone()).collect()
}

fn is_in_ranges(ranges: &[Range<usize>], at: usize) -> bool {
    ranges.iter().any(|range| range.contains(&at))
}

/// Shortens a text to what details may have, the mark of the cut included.
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
    fn only_a_text_with_a_secret_is_told_otherwise() {
        let plain = "two\tlines\nand a key";
        assert_eq!(without_secrets(plain), plain);
        let secret = "the key\tis ghp_Zz0123456789abcdefghijABCDEFGHIJ0123, he said";
        assert_eq!(without_secrets(secret), "the key is [redacted], he said");
    }

    #[test]
    fn a_plain_text_is_told_as_it_is() {
        check("the child ended with status 3", "the child ended with status 3");
        check("  Größe: 12 °C — 日本語 🙂 ", "Größe: 12 °C — 日本語 🙂");
        check("", "");
        check(" \n\t\u{200b} ", "");
    }

    #[test]
    fn what_could_forge_a_line_is_a_space() {
        check("one\r\ntwo\u{1b}[31mred\u{0}end", "one  two [31mred end");
        check("a\u{2028}b\u{85}c", "a b c");
    }

    #[test]
    fn credentials_are_not_told() {
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
    fn credentials_with_something_invisible_between_are_not_told() {
        for hidden in ["\u{200b}", "\u{2060}", "\u{feff}", "\u{ad}", "\u{202e}", "\u{0}", "\u{1b}"]
        {
            let text = format!("key ghp_Zz0123456789abcd{hidden}efghijABCDEFGHIJ0123 refused");
            let told = redact_for_display(&text).unwrap();
            assert_eq!(told, "key [redacted] refused", "{hidden:?}");
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let told = redact_for_display(&"é🙂".repeat(2_000)).unwrap();
        assert_eq!(told.chars().count(), TASK_DETAILS_CHARS_MAX);
        assert!(told.ends_with(TRUNCATION_MARK), "{told}");
        check(&"x".repeat(TASK_DETAILS_CHARS_MAX), &"x".repeat(TASK_DETAILS_CHARS_MAX));
    }

    #[test]
    fn a_secret_at_the_cut_is_not_told() {
        let text = format!("{} ghp_Zz0123456789abcdefghijABCDEFGHIJ0123", "y".repeat(985));
        let told = redact_for_display(&text).unwrap();
        assert!(told.ends_with("y [redacted]"), "{told}");
    }

    #[test]
    fn what_was_told_is_told_the_same_way_again() {
        let once = redact_for_display("token ghp_Zz0123456789abcdefghijABCDEFGHIJ0123\n").unwrap();
        check(&once, &once);
    }
}
