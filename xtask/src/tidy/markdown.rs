//! Checks documents: links, named paths and named tests must exist, and the change log needs an unreleased part.

use std::collections::BTreeSet;

use crate::tidy::finding::TidyFinding;
use crate::tidy::tree::{SourceTree, has_extension};

const CHANGELOG: &str = "CHANGELOG.md";

/// The part of `ARCHITECTURE.md` whose rows are claims.
const INVARIANTS: &str = "## What never happens";

/// The part of the change log that every user-visible change adds to.
const UNRELEASED: &str = "## Unreleased";

/// Finds a change log without a part for unreleased changes.
pub(super) fn changelog(tree: &SourceTree) -> Vec<TidyFinding> {
    let text = tree.text(CHANGELOG).unwrap_or_default();
    if text.lines().any(|line| line.trim_end() == UNRELEASED) {
        return Vec::new();
    }
    let wrong = "has no part for what is not released";
    vec![TidyFinding::file("changelog", CHANGELOG, wrong, format!("add `{UNRELEASED}`"))]
}

/// Finds links to missing files and headings.
pub(super) fn links(tree: &SourceTree) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for (path, text) in tree.with_extension("md").filter(|(path, _)| is_document(path)) {
        for (index, line) in prose(text) {
            for target in targets(&line) {
                if let Err(wrong) = follow(tree, path, target) {
                    let finding = TidyFinding::file("links", path, wrong, "mend the link");
                    findings.push(finding.at(index));
                }
            }
        }
    }
    findings
}

/// Finds paths of the repository, as `crates/store/src/lib.rs`, that do not exist.
///
/// Decisions and the change log name paths as they were at the time.
pub(super) fn paths(tree: &SourceTree) -> Vec<TidyFinding> {
    let is_current =
        |path: &str| is_document(path) && !path.starts_with("docs/decisions/") && path != CHANGELOG;
    let documents = tree.with_extension("md").filter(|(path, _)| is_current(path));
    let folders: BTreeSet<&str> =
        tree.paths().filter_map(|path| Some(path.split_once('/')?.0)).collect();
    let is_of_repository =
        |span: &str| span.split_once('/').is_some_and(|(first, _)| folders.contains(first));
    let mut findings = Vec::new();
    for (path, text) in documents {
        for (index, line) in outside_fences(text) {
            let spans = line.split('`').skip(1).step_by(2);
            for span in spans.filter(|span| is_of_repository(span)) {
                if named_path(span).is_some_and(|named| !tree.has(named)) {
                    let wrong = format!("`{span}` does not exist");
                    let remedy = "name a file or folder that exists";
                    let finding = TidyFinding::file("document-paths", path, wrong, remedy);
                    findings.push(finding.at(index));
                }
            }
        }
    }
    findings
}

/// Returns the path that a code span names, without a test or a heading in it. Commands and patterns
/// name none.
fn named_path(span: &str) -> Option<&str> {
    let is_pattern = span.contains(|c: char| c.is_whitespace() || "*<…{".contains(c));
    let path = span.split("::").next()?.split('#').next()?;
    (!is_pattern).then(|| path.trim_end_matches('/'))
}

/// Finds names of tests, as `crates/store/tests/it/crash.rs::name`, that do not exist.
pub(super) fn named_tests(tree: &SourceTree) -> Vec<TidyFinding> {
    let documents = tree.with_extension("md").filter(|(path, _)| is_document(path));
    let mut findings = Vec::new();
    for (path, text) in documents {
        for (index, line) in text.lines().enumerate() {
            for named in line.split('`').skip(1).step_by(2) {
                let Some((file, test)) = named.split_once(".rs::") else { continue };
                let source = tree.text(&format!("{file}.rs")).unwrap_or_default();
                if !source.contains(&format!("fn {test}(")) {
                    let wrong = format!("`{named}` is no test");
                    let remedy = "name the test that holds the claim";
                    findings.push(TidyFinding::file("named-tests", path, wrong, remedy).at(index));
                }
            }
        }
    }
    findings
}

/// Finds rows of the table of invariants that name neither a test nor a check.
pub(super) fn invariants(tree: &SourceTree) -> Vec<TidyFinding> {
    const MACHINES: [&str; 5] = [".rs::", "clippy", "cargo xtask tidy", "Cargo;", "compiler"];
    let text = tree.text("ARCHITECTURE.md").unwrap_or_default();
    let lines = text.lines().enumerate().skip_while(|(_, line)| *line != INVARIANTS).skip(1);
    let rows = lines.take_while(|(_, line)| !line.starts_with("## "));
    // The first two are the head of the table.
    let rows = rows.filter(|(_, line)| line.starts_with('|')).skip(2);
    let is_held = |line: &str| MACHINES.iter().any(|machine| line.contains(machine));
    rows.filter(|(_, line)| !is_held(line))
        .map(|(index, _)| {
            let wrong = "names neither a test nor a check that holds the claim";
            let remedy = "name it as `crates/…/file.rs::test`, or take the claim out";
            TidyFinding::file("invariants", "ARCHITECTURE.md", wrong, remedy).at(index)
        })
        .collect()
}

/// Tells documents from Markdown that is a fixture, a seed or a prompt.
pub(super) fn is_document(path: &str) -> bool {
    !["fuzz/", "/tests/", "/fixtures/", "/prompts/"].iter().any(|part| path.contains(part))
}

/// Returns the lines outside fenced code, without code spans.
fn prose(text: &str) -> Vec<(usize, String)> {
    let lines = outside_fences(text).into_iter();
    // Every second piece is between backticks.
    lines.map(|(index, line)| (index, line.split('`').step_by(2).collect())).collect()
}

/// Returns the lines outside fenced code.
fn outside_fences(text: &str) -> Vec<(usize, &str)> {
    let mut fence = None;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let start = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
            (None, None) => lines.push((index, line)),
        }
    }
    lines
}

/// Returns the targets of the links of a line, except web addresses.
fn targets(line: &str) -> Vec<&str> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(to, _)| to));
    let definition = line.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
    inline
        .chain(definition.map(|(_, to)| to))
        .map(|to| to.split_whitespace().next().unwrap_or_default())
        .filter(|to| !to.contains("://") && !to.starts_with("mailto:"))
        .collect()
}

/// Checks that the target of a link in the file `from` exists.
fn follow(tree: &SourceTree, from: &str, target: &str) -> Result<(), String> {
    let (file, heading) = match target.split_once('#') {
        Some((file, heading)) => (file, Some(heading)),
        None => (target, None),
    };
    let path = if file.is_empty() { Some(from.to_owned()) } else { resolve(from, file) };
    let Some(path) = path.filter(|path| tree.has(path)) else {
        return Err(format!("`{target}` leads nowhere"));
    };
    let Some((heading, text)) =
        heading.zip(tree.text(&path).filter(|_| has_extension(&path, "md")))
    else {
        return Ok(());
    };
    let mut headings = prose_headings(text);
    if headings.any(|found| found == heading) {
        Ok(())
    } else {
        Err(format!("`{target}` names no heading of {path}"))
    }
}

/// Returns a path from the root, given one from the folder of `from`; nothing when it leaves the root.
pub(crate) fn resolve(from: &str, relative: &str) -> Option<String> {
    let mut segments: Vec<&str> = from.split('/').collect();
    segments.pop();
    for segment in relative.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()?),
            name => segments.push(name),
        }
    }
    Some(segments.join("/"))
}

/// Returns the anchors of all headings, as git hosts make them.
fn prose_headings(text: &str) -> impl Iterator<Item = String> {
    let mut is_code = false;
    text.lines().filter_map(move |line| {
        is_code ^= line.trim_start().starts_with("```");
        let title = line.trim_start_matches('#');
        let is_heading = !is_code && title.len() < line.len() && title.starts_with(' ');
        is_heading.then(|| anchor(title.trim()))
    })
}

fn anchor(title: &str) -> String {
    let kept = title.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::finding::printed;

    #[track_caller]
    fn check(line: &str, expected: &[&str]) {
        let tree = SourceTree::from([
            ("README.md", "# Lukasa\n"),
            ("docs/TESTING.md", line),
            ("docs/API.md", "# The `v1` API\n\n## Errors, codes\n```\n# no heading\n```\n"),
            ("docs/fig/a.svg", "<svg/>"),
        ]);
        assert_eq!(printed(&links(&tree)), expected, "{line}");
    }

    #[test]
    fn a_link_to_an_existing_target_passes() {
        check("[a](API.md), [b](../README.md#lukasa) ![c](fig/a.svg) [d](./fig/) [e](fig)", &[]);
        check("[a](API.md#errors-codes) and [b](API.md#the-v1-api \"title\")", &[]);
        check("# Here\n[a](#here)\n[b]: API.md\n", &[]);
        check("[a](https://example.com/x) <https://example.com> [b](mailto:a@example.com)", &[]);
        check("`[a](none.md)`\n```\n[a](none.md)\n```\n~~~\n```\n[a](none.md)\n~~~\n", &[]);
    }

    #[test]
    fn a_link_to_a_missing_target_is_a_finding() {
        check("\n[a](none.md)", &["docs/TESTING.md:2: `none.md` leads nowhere; mend the link"]);
        check("[a](../../x.md)", &["docs/TESTING.md:1: `../../x.md` leads nowhere; mend the link"]);
        check("[a]: none.md", &["docs/TESTING.md:1: `none.md` leads nowhere; mend the link"]);
        check(
            "[a](API.md#no-heading)",
            &[
                "docs/TESTING.md:1: `API.md#no-heading` names no heading of docs/API.md; mend the link",
            ],
        );
        check(
            "[a](#none)",
            &["docs/TESTING.md:1: `#none` names no heading of docs/TESTING.md; mend the link"],
        );
    }

    #[test]
    fn a_named_path_must_exist() {
        let tree = SourceTree::from([
            ("crates/a/src/lib.rs", ""),
            ("docs/A.md", "`crates/a/src/lib.rs`, `lib.rs`,\n`crates/a/src/gone.rs`"),
            (
                "docs/B.md",
                "`docs/`, `crates/a`, `docs/A.md#b`, `crates/a/src/lib.rs::test`\n\
                 `src/gone`, `a::b/c`, `/docs/gone`, docs/gone, `docs/gone and more`\n\
                 `docs/*.txt`, `docs/<name>`, `docs/…`, `docs/{a,b}`\n```\n`docs/gone`\n```\n\
                 `docs/gone` or `crates/b/`",
            ),
            ("docs/decisions/1.md", "`crates/a/src/gone.rs`"),
            ("CHANGELOG.md", "`crates/a/src/gone.rs`"),
        ]);
        let expected = [
            "docs/A.md:2: `crates/a/src/gone.rs`",
            "docs/B.md:7: `docs/gone`",
            "docs/B.md:7: `crates/b/`",
        ];
        let remedy = "does not exist; name a file or folder that exists";
        assert_eq!(printed(&paths(&tree)), expected.map(|each| format!("{each} {remedy}")));
    }

    #[test]
    fn the_change_log_has_an_unreleased_part() {
        let check = |text: &str, expected: &[&str]| {
            let tree = SourceTree::from([("CHANGELOG.md", text)]);
            assert_eq!(printed(&changelog(&tree)), expected, "{text}");
        };
        let missing = "CHANGELOG.md: has no part for what is not released; add `## Unreleased`";
        check("# Changes\n\n## Unreleased\n", &[]);
        check("# Changes\n\n## 0.1.0\n", &[missing]);
        check("Unreleased", &[missing]);
        assert_eq!(printed(&changelog(&SourceTree::default())), [missing]);
    }

    #[test]
    fn a_named_test_must_exist() {
        let tree = SourceTree::from([
            ("a/tests/it/b.rs", "async fn it_holds() {}\nfn other_holds() {}"),
            (
                "a.md",
                "`a/tests/it/b.rs::it_holds` `a/tests/it/b.rs::other`\n`a/c.rs::gone` a.rs::b `x::y`",
            ),
        ]);
        assert_eq!(
            printed(&named_tests(&tree)),
            [
                "a.md:1: `a/tests/it/b.rs::other` is no test; name the test that holds the claim",
                "a.md:2: `a/c.rs::gone` is no test; name the test that holds the claim",
            ]
        );
    }

    #[test]
    fn each_invariant_names_a_test_or_a_check() {
        let text = "| x | y |\n## What never happens\n\n| never | held by |\n|---|---|\n\
                    | a | clippy |\n| b | care |\n| c | `c.rs::d` |\n\n## Next\n| e | f |\n";
        let tree = SourceTree::from([("ARCHITECTURE.md", text)]);
        assert_eq!(
            printed(&invariants(&tree)),
            [
                "ARCHITECTURE.md:7: names neither a test nor a check that holds the claim; name it as \
                 `crates/…/file.rs::test`, or take the claim out"
            ]
        );
    }
}
