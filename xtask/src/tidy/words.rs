//! Finds type names with empty words, code that must not be committed, and notes without an issue.

use crate::tidy::finding::TidyFinding;
use crate::tidy::rust::{self, RustSource};
use crate::tidy::tree::{SourceTree, has_extension};

/// Last words of type names that do not describe the type.
const EMPTY_WORDS: [&str; 10] =
    ["Manager", "Handler", "Helper", "Helpers", "Util", "Utils", "Data", "Info", "Base", "Impl"];

/// Sequences of tokens that must not be committed, each with the remedy.
const NEVER: [(&[&str], &str); 5] = [
    (&["#", "[", "ignore"], "assert what is so, with the issue's number"),
    (&["#", "[", "allow", "("], "use `#[expect(…, reason = \"…\")]`"),
    (&["#", "!", "[", "allow", "("], "use `#![expect(…, reason = \"…\")]`"),
    (&["dbg", "!"], "take it out"),
    (&["todo", "!"], "write it, or leave it out"),
];

/// Finds types whose names end with an empty word.
pub(super) fn type_names(sources: &[RustSource<'_>]) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for source in sources {
        for (index, line) in source.lines.iter().enumerate() {
            let tokens = rust::tokens(&line.code);
            for pair in tokens.windows(2) {
                let [keyword, name] = pair else { continue };
                let declares = ["struct", "enum", "trait", "union", "type"].contains(keyword);
                let Some(word) = EMPTY_WORDS.into_iter().find(|word| name.ends_with(word)) else {
                    continue;
                };
                if declares {
                    let wrong = format!("`{word}` says nothing in `{name}`");
                    let remedy = "name the type for what it stands for";
                    findings.push(
                        TidyFinding::file("type-names", source.path, wrong, remedy).at(index),
                    );
                }
            }
        }
    }
    findings
}

/// Finds code that must not be committed.
pub(super) fn code(sources: &[RustSource<'_>]) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for source in sources {
        for (index, line) in source.lines.iter().enumerate() {
            let tokens = rust::tokens(&line.code);
            for (row, remedy) in NEVER {
                if tokens.windows(row.len()).any(|window| window == row) {
                    let wrong = format!("`{}` never lands", row.concat());
                    findings.push(TidyFinding::file("code", source.path, wrong, remedy).at(index));
                }
            }
        }
    }
    findings
}

/// Finds tests that sleep: the time is too short on a busy machine, and too long on others.
pub(super) fn sleeps(sources: &[RustSource<'_>]) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for source in sources {
        for (index, line) in source.lines.iter().enumerate().skip(source.tests_start()) {
            let tokens = rust::tokens(&line.code);
            if tokens.windows(2).any(|pair| matches!(pair, ["sleep" | "sleep_until", "("])) {
                let wrong = "a test sleeps";
                let remedy = "wait with `testkit::eventually`, or pause the time of the runtime";
                findings.push(TidyFinding::file("sleeps", source.path, wrong, remedy).at(index));
            }
        }
    }
    findings
}

/// Finds notes for later that name no issue, in comments and in files that are configuration.
pub(super) fn notes(tree: &SourceTree, sources: &[RustSource<'_>]) -> Vec<TidyFinding> {
    let comments = sources.iter().flat_map(|source| {
        let lines = source.lines.iter().enumerate();
        lines.map(|(index, line)| (source.path, index, line.comment.as_str()))
    });
    let is_configuration = |path: &str| {
        let is_script = path.ends_with("/run");
        is_script || ["toml", "yml", "yaml", "sh"].iter().any(|each| has_extension(path, each))
    };
    let configuration = tree.texts().filter(|(path, _)| is_configuration(path));
    let lines = configuration.flat_map(|(path, text)| {
        text.lines().enumerate().map(move |(index, line)| (path, index, line))
    });
    let mut findings = Vec::new();
    for (path, index, line) in comments.chain(lines) {
        if let Some(wrong) = wrong_note(line) {
            let remedy = "write `TODO(#12): …` with an issue's number, or do it";
            findings.push(TidyFinding::file("notes", path, wrong, remedy).at(index));
        }
    }
    findings
}

/// Returns the problem with the notes of a line.
fn wrong_note(line: &str) -> Option<&'static str> {
    let words = rust::tokens(line);
    if words.iter().any(|word| ["FIXME", "XXX", "HACK"].contains(word)) {
        return Some("`FIXME` and its kin never land");
    }
    let has_issue = |rest: &[&str]| matches!(rest, ["(", "#", number, ")", ..] if number.bytes().all(|b| b.is_ascii_digit()));
    let open = words.iter().enumerate().filter(|(_, word)| **word == "TODO");
    let mut rests = open.map(|(index, _)| words.get(index + 1..).unwrap_or_default());
    rests.any(|rest| !has_issue(rest)).then_some("a `TODO` names no issue")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::finding::printed;

    fn findings_of(check: fn(&[RustSource<'_>]) -> Vec<TidyFinding>, text: &str) -> Vec<String> {
        let tree = SourceTree::from([("a.rs", text)]);
        printed(&check(&rust::sources(&tree)))
    }

    #[test]
    fn a_type_is_not_named_with_an_empty_word() {
        let check = |text: &str, expected: &[&str]| {
            assert_eq!(findings_of(type_names, text), expected, "{text}");
        };
        check(
            "pub(crate) struct LaneManager<T> {",
            &[
                "a.rs:1: `Manager` says nothing in `LaneManager`; name the type for what it stands for",
            ],
        );
        check(
            "\n  trait ServerHandler {}",
            &[
                "a.rs:2: `Handler` says nothing in `ServerHandler`; name the type for what it stands for",
            ],
        );
        check(
            "enum Info { A } type Data = ();",
            &[
                "a.rs:1: `Info` says nothing in `Info`; name the type for what it stands for",
                "a.rs:1: `Data` says nothing in `Data`; name the type for what it stands for",
            ],
        );
        check(
            "struct Database; fn handler() -> ServerInfo { \"struct XInfo\" } // enum YInfo",
            &[],
        );
    }

    #[test]
    fn forbidden_code_is_found_only_outside_comments_and_strings() {
        let check =
            |text: &str, expected: &[&str]| assert_eq!(findings_of(code, text), expected, "{text}");
        check(
            "#[ignore = \"slow\"]",
            &["a.rs:1: `#[ignore` never lands; assert what is so, with the issue's number"],
        );
        check(
            "#[ allow(dead_code)]",
            &["a.rs:1: `#[allow(` never lands; use `#[expect(…, reason = \"…\")]`"],
        );
        check(
            "#![allow(dead_code)]",
            &["a.rs:1: `#![allow(` never lands; use `#![expect(…, reason = \"…\")]`"],
        );
        check("let x = dbg!(y);", &["a.rs:1: `dbg!` never lands; take it out"]);
        check("todo!()", &["a.rs:1: `todo!` never lands; write it, or leave it out"]);
        check("// dbg!(x)\nlet s = \"todo!()\"; fn ignore() {} #[expect(x)]", &[]);
    }

    #[test]
    fn a_test_does_not_sleep() {
        let text =
            "fn f() { sleep(x) }\n#[cfg(test)]\nmod tests {\n  thread::sleep(x); // sleep(x)\n}";
        let tree = SourceTree::from([
            ("a/src/a.rs", text),
            ("a/src/a/tests.rs", "time::sleep_until(x); sleep; asleep(x); \"sleep(x)\""),
            ("a/tests/it/b.rs", "\nsleep(x)"),
            ("crates/testkit/src/c.rs", "fn f() { sleep(x) }"),
        ]);
        let found = printed(&sleeps(&rust::sources(&tree)));
        let places: Vec<_> = found.iter().map(|each| each.split(' ').next().unwrap()).collect();
        assert_eq!(
            places,
            [
                "a/src/a.rs:4:",
                "a/src/a/tests.rs:1:",
                "a/tests/it/b.rs:2:",
                "crates/testkit/src/c.rs:1:",
            ]
        );
    }

    #[test]
    fn a_note_names_its_issue() {
        let check = |line: &str, expected| assert_eq!(wrong_note(line), expected, "{line}");
        check(" TODO(#12): later", None);
        check(" methodically, Todo", None);
        check(" TODO: later", Some("a `TODO` names no issue"));
        check(" TODO(me)", Some("a `TODO` names no issue"));
        check(" TODO(#12) and TODO", Some("a `TODO` names no issue"));
        check(" FIXME later", Some("`FIXME` and its kin never land"));
    }

    #[test]
    fn notes_are_looked_for_in_comments_and_configuration() {
        let tree = SourceTree::from([
            ("a.rs", "let s = \"TODO\";\n// TODO\n"),
            ("b.toml", "# TODO\n"),
            (".ci/run", "# FIXME\n"),
            ("c.md", "TODO\n"),
        ]);
        let found = printed(&notes(&tree, &rust::sources(&tree)));
        let places: Vec<_> = found.iter().map(|each| each.split(' ').next().unwrap()).collect();
        assert_eq!(places, ["a.rs:2:", ".ci/run:1:", "b.toml:1:"]);
    }
}
