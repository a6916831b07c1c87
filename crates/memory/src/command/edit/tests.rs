//! Tests of edits, with tables and against simple models on random texts.

use proptest::prelude::*;

use super::*;
use crate::path::Layout;

fn path() -> MemoryPath {
    MemoryPath::parse("/memories/global/a.md", Layout::Scoped).unwrap()
}

fn replaced(text: &str, old: &str, new: &str) -> String {
    str_replace(&path(), text, old, new).unwrap().text
}

fn not_replaced(text: &str, old: &str) -> CommandError {
    str_replace(&path(), text, old, "new").unwrap_err()
}

fn inserted(text: &str, line: i64, insert_text: &str) -> String {
    insert(&path(), text, line, insert_text).unwrap().text
}

#[test]
fn a_replacement_changes_only_the_one_occurrence() {
    let check = |text, old, new, expected: &str| assert_eq!(replaced(text, old, new), expected);
    check("one two three", "two", "2", "one 2 three");
    check("\u{feff}a\nb\n", "a", "x", "\u{feff}x\nb\n");
    check("a\nb", "b", "c", "a\nc");
    check("keep drop", " drop", "", "keep");
    check("cost", "cost", r"$1 \1 & $&", r"$1 \1 & $&");
    check("héllo wörld", "ö", "o", "héllo world");
    check("aab", "ab", "x", "ax");
    check("same", "same", "same", "same");
}

#[test]
fn edits_work_with_any_line_endings() {
    let check = |text, old, new, expected: &str| assert_eq!(replaced(text, old, new), expected);
    // The old text is as in a view; the files have each kind of line ending.
    check("a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc\r\n");
    check("a\nb\nc\n", "a\r\nb\r\n", "x\r\ny\r\n", "x\ny\nc\n");
    check("a\r\nb\r\nc", "b", "x\ny", "a\r\nx\r\ny\r\nc");
    check("a\r\nb\r\nc", "\nb\n", "\n", "a\r\nc");
    check("a\r\nb\r\nc", "\r\nb", "", "a\r\nc");
    check("\u{feff}a\r\nb", "a\nb", "c\nd", "\u{feff}c\r\nd");
    // A file that mixes both: the text outside of the edit is unchanged.
    check("a\r\nb\nc\r\nd\n", "b\nc\n", "x\ny\n", "a\r\nx\r\ny\r\nd\n");
    check("a\nb\r\nc\r\nd\n", "b\nc", "x\ny", "a\nx\ny\r\nd\n");
    // A file without a line ending does not determine one.
    check("a", "a", "x\r\ny\n", "x\r\ny\n");
    // A carriage return by itself does not end a line.
    check("a\rb\r\nc", "a\rb\nc", "x\ry", "x\ry");
}

#[test]
fn a_missing_text_is_refused() {
    let check = |text: &str, old: &str| {
        let old_str = old.to_owned();
        assert_eq!(not_replaced(text, old), CommandError::TextNotFound { path: path(), old_str });
    };
    check("one two", "three");
    check("", "x");
    check("short", "shorter");
    check("One", "one");
    check("a\rb", "a\nb");
    check("a\r\nb", "a\rb");
    check("caf\u{e9}", "cafe\u{301}");
    assert_eq!(not_replaced("text", ""), CommandError::EmptyOldStr);
}

#[test]
fn every_occurrence_is_listed_by_the_line_it_begins_on() {
    let check = |text: &str, old: &str, lines: &[usize]| {
        let (old_str, lines) = (old.to_owned(), lines.to_vec());
        assert_eq!(not_replaced(text, old), CommandError::TextNotUnique { old_str, lines });
    };
    check("x\ny\nx\n", "x", &[1, 3]);
    check("xx", "x", &[1, 1]);
    check("aaa", "aa", &[1, 1]);
    check("a\na\na\na", "a\na", &[1, 2, 3]);
    check("\n\n\n", "\n", &[1, 2, 3]);
    check("\r\nx\r\nx", "x", &[2, 3]);
    // A view shows both line endings alike.
    check("a\nb\na\r\nb\r\n", "a\nb", &[1, 3]);
    check("a\nb\na\r\nb\r\n", "a\r\nb", &[1, 3]);
    check("abab\nababab", "abab", &[1, 2, 2]);
}

#[test]
fn a_hostile_repetition_is_searched_in_linear_time() {
    let text = "a".repeat(MEMORY_BYTES_MAX);
    let old = "a".repeat(MEMORY_BYTES_MAX / 2);
    let CommandError::TextNotUnique { lines, .. } = not_replaced(&text, &old) else {
        panic!("the text occurs many times")
    };
    assert_eq!(lines, vec![1; MEMORY_BYTES_MAX / 2 + 1]);
}

#[test]
fn the_snippet_shows_the_changed_lines_and_two_on_either_side() {
    let reply = |text, old, new| str_replace(&path(), text, old, new).unwrap().reply;
    insta::assert_snapshot!(reply("1\n2\n3\n4\n5\n6\n7\n", "4", "four"), @"
    The memory file has been edited. Here is the snippet showing the change (with line numbers):
         2	2
         3	3
         4	four
         5	5
         6	6
    ");
    insta::assert_snapshot!(reply("1\n2\n3\n4\n5\n", "2\n", "a\nb\n"), @"
    The memory file has been edited. Here is the snippet showing the change (with line numbers):
         1	1
         2	a
         3	b
         4	3
         5	4
    ");
    insta::assert_snapshot!(reply("only", "only", "x\r\ny"), @"
    The memory file has been edited. Here is the snippet showing the change (with line numbers):
         1	x
         2	y
    ");
    assert!(reply("gone", "gone", "").ends_with("numbers):\n     1\t"));
}

#[test]
fn lines_are_inserted_whole() {
    let check = |text, line, new, expected: &str| assert_eq!(inserted(text, line, new), expected);
    check("one\ntwo\n", 1, "inserted", "one\ninserted\ntwo\n");
    check("one\ntwo\n", 0, "top\n", "top\none\ntwo\n");
    check("one\ntwo", 2, "end", "one\ntwo\nend\n");
    check("one\ntwo\n", 2, "end", "one\ntwo\nend\n");
    check("one\ntwo", 0, "top", "top\none\ntwo\n");
    check("", 0, "first", "first\n");
    check("\n", 1, "second", "\nsecond\n");
    check("a\n", 1, "", "a\n\n");
    check("a\n", 1, "\n", "a\n\n");
    check("a\n", 1, "b\nc", "a\nb\nc\n");
}

#[test]
fn an_insertion_uses_the_line_endings_of_the_file() {
    let check = |text, line, new, expected: &str| assert_eq!(inserted(text, line, new), expected);
    check("a\r\nb\r\n", 1, "x\ny", "a\r\nx\r\ny\r\nb\r\n");
    check("a\r\nb", 2, "x\r\ny\n", "a\r\nb\r\nx\r\ny\r\n");
    check("a\nb\r\n", 2, "x", "a\nb\r\nx\n");
    check("a\n", 1, "x\r\n", "a\nx\n");
    check("", 0, "x\r\ny\r\n", "x\r\ny\r\n");
    check("\u{feff}a\r\n", 1, "x\ny", "\u{feff}a\r\nx\r\ny\r\n");
    check("\u{feff}a\n", 0, "x", "\u{feff}x\na\n");
    check("\u{feff}", 0, "x", "\u{feff}x\n");
    check("\u{feff}a", 1, "x", "\u{feff}a\nx\n");
}

#[test]
fn an_insertion_outside_the_lines_names_the_range() {
    let check = |text: &str, line, max| {
        assert_eq!(
            insert(&path(), text, line, "x"),
            Err(CommandError::InvalidInsertLine { line, max })
        );
    };
    check("one\n", 5, 1);
    check("a\nb", 3, 2);
    check("a\nb\n", 3, 2);
    check("", 1, 0);
    check("a", -1, 1);
    check("a", i64::MAX, 1);
    check("a", i64::MIN, 1);
}

#[test]
fn an_edit_that_exceeds_the_limit_is_refused() {
    let full = "x".repeat(MEMORY_BYTES_MAX - 1);
    assert_eq!(replaced(&format!("{full}y"), "y", "z").len(), MEMORY_BYTES_MAX);
    assert_eq!(
        str_replace(&path(), &format!("{full}y"), "y", "zz"),
        Err(CommandError::TooLarge { path: path(), bytes: MEMORY_BYTES_MAX + 1 })
    );
    assert_eq!(
        insert(&path(), &full, 1, "y"),
        Err(CommandError::TooLarge { path: path(), bytes: MEMORY_BYTES_MAX + 2 })
    );
    let outgrown = format!("{full}yy");
    let refusal = CommandError::OutgrewCap { path: path(), bytes: MEMORY_BYTES_MAX + 1 };
    assert_eq!(str_replace(&path(), &outgrown, "yy", ""), Err(refusal.clone()));
    assert_eq!(insert(&path(), &outgrown, 0, "x"), Err(refusal));
}

#[test]
fn a_nul_is_refused_in_old_and_new_text() {
    let found = CommandError::NotText { path: path() };
    assert_eq!(str_replace(&path(), "a\0b", "a", "x"), Err(found.clone()));
    assert_eq!(insert(&path(), "a\0b", 0, "x"), Err(found));
    let given = CommandError::NulInText { path: path() };
    assert_eq!(str_replace(&path(), "ab", "a", "\0"), Err(given.clone()));
    assert_eq!(insert(&path(), "ab", 0, "\0"), Err(given));
}

/// Texts of few letters and all line endings, so that matches are frequent and overlap.
fn texts(max: usize) -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec!["a", "b", "é", "\n", "\r\n", "\r", "\u{feff}", " "]);
    prop::collection::vec(pieces, 0..max).prop_map(|pieces| pieces.concat())
}

/// Splits a text into characters; `\r\n` is one.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("\r\n") { 2 } else { first.len_utf8() };
        let (piece, behind) = rest.split_at(length);
        pieces.push(piece);
        rest = behind;
    }
    pieces
}

proptest! {
    #[test]
    fn a_replacement_agrees_with_trying_every_position(
        text in texts(24), old in texts(4), new in texts(4),
    ) {
        prop_assume!(!old.is_empty());
        let (pieces, pattern) = (pieces(&text), pieces(&old));
        let alike = |one: &&str, other: &&str| {
            one == other || (one.ends_with('\n') && other.ends_with('\n'))
        };
        let starts: Vec<_> = (0..pieces.len())
            .map(|at| pieces.split_at(at))
            .filter(|(_, rest)| {
                rest.len() >= pattern.len()
                    && rest.iter().zip(&pattern).all(|(one, other)| alike(one, other))
            })
            .collect();
        match (starts.as_slice(), str_replace(&path(), &text, &old, &new)) {
            ([(before, rest)], Ok(edited)) => {
                let (before, after) = (before.concat(), rest[pattern.len()..].concat());
                let line_break = pieces.iter().find(|piece| piece.ends_with('\n'));
                let new = match line_break {
                    Some(end) => new.replace("\r\n", "\n").replace('\n', end),
                    None => new,
                };
                prop_assert_eq!(edited.text, format!("{before}{new}{after}"));
            }
            (many, Err(CommandError::TextNotUnique { lines, .. })) => {
                let expected: Vec<_> = many
                    .iter()
                    .map(|(before, _)| before.concat().matches('\n').count() + 1)
                    .collect();
                prop_assert_eq!(lines, expected);
            }
            (found, outcome) => {
                prop_assert!(found.is_empty());
                prop_assert_eq!(
                    outcome,
                    Err(CommandError::TextNotFound { path: path(), old_str: old })
                );
            }
        }
    }

    #[test]
    fn an_insertion_adds_lines_and_keeps_every_other(
        text in texts(24), line in 0_i64..8, new in texts(6),
    ) {
        let body = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let lines: Vec<_> = body.split_inclusive('\n').collect();
        let Ok(edited) = insert(&path(), &text, line, &new) else {
            prop_assert!(usize::try_from(line).unwrap() > lines.len());
            return Ok(());
        };
        let at = usize::try_from(line).unwrap();
        let (above, below) = (lines[..at].concat(), lines[at..].concat());
        let start = text.len() - body.len() + above.len();
        prop_assert!(edited.text.starts_with(text.split_at(start).0));
        prop_assert!(edited.text.ends_with('\n'));
        let keeps_below =
            ["", "\n", "\r\n"].iter().any(|end| edited.text.ends_with(&format!("{below}{end}")));
        prop_assert!(keeps_below);
        let added = new.strip_suffix('\n').unwrap_or(&new).matches('\n').count() + 1;
        prop_assert_eq!(line_count(&edited.text), lines.len() + added);
    }

    #[test]
    fn any_texts_are_edited_or_refused(
        text in any::<String>(), old in any::<String>(), line in any::<i64>(),
    ) {
        for outcome in [str_replace(&path(), &text, &old, &text), insert(&path(), &text, line, &old)] {
            match outcome {
                Ok(edited) => prop_assert!(!edited.reply.is_empty()),
                Err(refusal) => prop_assert!(!refusal.to_string().is_empty()),
            }
        }
    }
}
