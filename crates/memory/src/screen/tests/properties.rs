//! Invariants for random texts.

use proptest::prelude::*;

use super::*;
use crate::screen::scan::windows;

/// Pieces that the rules look for, so that random texts come close to a match.
const PIECES: &[&str] = &[
    "ignore ",
    "all ",
    "previous ",
    "instructions",
    "sk-",
    "ghp_",
    "password",
    " = ",
    "\"",
    ": ",
    "eyJ",
    "-----BEGIN PRIVATE KEY-----",
    "\n",
    "\\n",
    "://",
    "@",
    "AAAABBBB1111CCCC2222dddd3333",
    "\u{200B}",
    "\u{E0041}",
    "é",
    "密码",
    "о",
    "Ｉ",
    "🏴",
    "👩",
    "\u{200D}",
    "\u{FE0F}",
    "\0",
    "curl ",
    "token is ",
    "</memory_file>",
    "user",
    ".",
    "do not tell the ",
    "\u{301}",
    "ﷺ",
];

fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => proptest::sample::select(PIECES).prop_map(str::to_owned),
        1 => any::<String>(),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn findings_are_ordered_and_within_the_text(text in any_text()) {
        let found = Screen::default().check(&text, TextAuthor::Agent);
        let mut last = 0;
        for finding in found {
            let before = text.get(..finding.range.start);
            prop_assert!(text.get(finding.range.clone()).is_some_and(|found| !found.is_empty()));
            prop_assert_eq!(before.map(|before| before.matches('\n').count() + 1), Some(finding.line));
            prop_assert!(finding.range.start >= last);
            last = finding.range.start;
        }
    }

    #[test]
    fn a_new_text_introduces_its_findings_once(text in any_text()) {
        let screen = Screen::default();
        let found = screen.check(&text, TextAuthor::Agent);
        prop_assert_eq!(screen.introduced("", &text, TextAuthor::Agent), found);
        prop_assert_eq!(screen.introduced(&text, &text, TextAuthor::Agent), vec![]);
    }

    #[test]
    fn introduced_findings_are_in_the_new_text(before in any_text(), after in any_text()) {
        let screen = Screen::default();
        let found = screen.check(&after, TextAuthor::Agent);
        let introduced = screen.introduced(&before, &after, TextAuthor::Agent);
        prop_assert!(introduced.iter().all(|finding| found.contains(finding)));
        let old = screen.check(&before, TextAuthor::Agent).len();
        prop_assert!(found.len() <= introduced.len() + old);
    }

    #[test]
    fn a_token_is_found_in_any_text(before in any_text(), after in any_text()) {
        let token = github();
        let text = format!("{before}\n{token}\n{after}");
        let found = Screen::default().check(&text, TextAuthor::Agent);
        let place = before.len() + 1..before.len() + 1 + token.len();
        let covers = |finding: &ScreenFinding| {
            finding.family == Family::Secrets
                && finding.range.start <= place.start
                && finding.range.end >= place.end
        };
        prop_assert!(found.iter().any(covers));
    }
}

/// Returns the most bytes that one pattern is tried on, per byte of the text.
fn most_work_per_byte(text: &str) -> usize {
    let mut work = BTreeMap::<usize, usize>::new();
    for (pattern, window) in windows(text) {
        *work.entry(pattern).or_default() += window.len();
    }
    work.into_values().max().unwrap_or_default().div_ceil(text.len())
}

#[test]
fn no_pattern_scans_a_hostile_text_more_than_once() {
    for piece in PIECES.iter().chain(&["sk-", "token = ", "you are now ", "-----begin ", "curl\n"])
    {
        for count in [1_000, 10_000] {
            assert!(most_work_per_byte(&piece.repeat(count)) <= 1, "{piece:?}");
        }
    }
}
