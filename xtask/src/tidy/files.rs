//! Checks of files: names, sizes, headers, paths of one machine, and the former name of the product.

use crate::tidy::finding::TidyFinding;
use crate::tidy::tree::SourceTree;

/// A source file longer than this fails.
const SOURCE_LINES_MAX: usize = 800;
/// A source file longer than this, without its tests, is a hint.
const SOURCE_LINES_AIM: usize = 500;

/// File names without meaning, or of the older module layout.
const NAMES_TO_AVOID: [&str; 7] =
    ["mod.rs", "utils.rs", "util.rs", "common.rs", "types.rs", "misc.rs", "helpers.rs"];

/// The former name of the product, in lower case.
const OLD_NAME: &str = "quipu";
/// The file that tells users about the former name.
const CHANGELOG: &str = "CHANGELOG.md";

/// Folders of the root that hold files of one machine or person.
const MACHINE_FOLDERS: [&str; 4] = ["home", "root", "mnt", "Users"];
/// Invented people of examples and tests.
const INVENTED: [&str; 9] = ["ada", "alice", "bob", "dev", "me", "someone", "user", "x", "you"];

/// Finds files whose names have no meaning.
pub(super) fn names(tree: &SourceTree) -> Vec<TidyFinding> {
    let avoided = |path: &&str| NAMES_TO_AVOID.contains(&file_name(path));
    tree.paths()
        .filter(avoided)
        .map(|path| {
            let wrong = format!("`{}` is no name for a file", file_name(path));
            TidyFinding::file("file-names", path, wrong, "name it for what it holds")
        })
        .collect()
}

fn file_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// Finds sources that are too long.
pub(super) fn sizes(tree: &SourceTree) -> Vec<TidyFinding> {
    tree.with_extension("rs")
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, lines)| *lines > SOURCE_LINES_MAX)
        .map(|(path, lines)| {
            let wrong = format!("has {lines} lines, {SOURCE_LINES_MAX} are the most");
            TidyFinding::file("sizes", path, wrong, "part it along its ideas")
        })
        .collect()
}

/// Finds sources that become long without their tests.
pub(super) fn long(tree: &SourceTree) -> Vec<TidyFinding> {
    let is_test = |path: &str| path.contains("/tests/") || path.ends_with("/tests.rs");
    let sources = tree.with_extension("rs").filter(|(path, _)| !is_test(path));
    sources
        .map(|(path, text)| (path, text.lines().take_while(|line| *line != "#[cfg(test)]").count()))
        .filter(|(_, lines)| *lines > SOURCE_LINES_AIM)
        .map(|(path, lines)| {
            let wrong = format!("has {lines} lines without tests, aim at {SOURCE_LINES_AIM}");
            TidyFinding::file("sizes", path, wrong, "think of parting it")
        })
        .collect()
}

/// Finds sources without a header that states their purpose.
pub(super) fn headers(tree: &SourceTree) -> Vec<TidyFinding> {
    let sources = tree.with_extension("rs");
    sources
        .filter(|(_, text)| !text.starts_with("//! "))
        .map(|(path, _)| {
            let wrong = "does not open with `//!`";
            TidyFinding::file("headers", path, wrong, "say what it is for and what it hides").at(0)
        })
        .collect()
}

/// Finds paths that exist only on one machine.
pub(super) fn machine_paths(tree: &SourceTree) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts() {
        for (index, line) in text.lines().enumerate() {
            for found in machine_paths_in(line) {
                let wrong = format!("`{found}` is a path of one machine");
                let remedy = "write it relative, or for an invented `user`";
                findings.push(TidyFinding::file("machine-paths", path, wrong, remedy).at(index));
            }
        }
    }
    findings
}

/// Finds the former name of the product, in any case, in texts and paths.
pub(super) fn old_name(tree: &SourceTree) -> Vec<TidyFinding> {
    let has_name = |text: &str| text.to_ascii_lowercase().contains(OLD_NAME);
    let wrong = format!("has the former name `{OLD_NAME}`");
    let finding =
        |path| TidyFinding::file("old-name", path, wrong.as_str(), "write the name of today");
    let mut findings: Vec<_> = tree.paths().filter(|path| has_name(path)).map(finding).collect();
    for (path, text) in tree.texts().filter(|(path, _)| *path != CHANGELOG) {
        let lines = text.lines().enumerate().filter(|(_, line)| has_name(line));
        findings.extend(lines.map(|(index, _)| finding(path).at(index)));
    }
    findings
}

/// Returns the start of each absolute path below a machine's own folders.
fn machine_paths_in(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (start, _) in line.match_indices('/') {
        let (before, path) = line.split_at(start);
        // Otherwise it is a part of a relative path, a URL or a memory path.
        let is_absolute =
            !before.ends_with(|c: char| c.is_alphanumeric() || "._-/}>)]*~$".contains(c));
        let mut segments = path.split('/').skip(1);
        let (Some(folder), Some(rest)) = (segments.next(), segments.next()) else { continue };
        let owner: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if is_absolute && MACHINE_FOLDERS.contains(&folder) && !INVENTED.contains(&owner.as_str()) {
            found.push(format!("/{folder}/{owner}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::finding::printed;

    #[test]
    fn a_file_name_without_meaning_is_a_finding() {
        let tree = SourceTree::from([("a/utils.rs", ""), ("mod.rs", ""), ("a/model.rs", "")]);
        assert_eq!(
            printed(&names(&tree)),
            [
                "a/utils.rs: `utils.rs` is no name for a file; name it for what it holds",
                "mod.rs: `mod.rs` is no name for a file; name it for what it holds",
            ]
        );
    }

    #[test]
    fn a_source_may_have_eight_hundred_lines() {
        let (most, more) = ("x\n".repeat(800), "x\n".repeat(801));
        let tree =
            SourceTree::from([("a.rs", most.as_str()), ("b.rs", more.as_str()), ("c.md", &more)]);
        assert_eq!(
            printed(&sizes(&tree)),
            ["b.rs: has 801 lines, 800 are the most; part it along its ideas"]
        );
    }

    #[test]
    fn tests_do_not_make_a_source_long() {
        let code = "x\n".repeat(500);
        let with_tests = format!("{code}#[cfg(test)]\nmod tests {{}}\n");
        let longer = format!("{code}x\n");
        let tree = SourceTree::from([
            ("a.rs", with_tests.as_str()),
            ("b.rs", longer.as_str()),
            ("c/tests.rs", &longer),
            ("a/tests/it/d.rs", &longer),
        ]);
        assert_eq!(
            printed(&long(&tree)),
            ["b.rs: has 501 lines without tests, aim at 500; think of parting it"]
        );
    }

    #[test]
    fn every_source_has_a_header() {
        let tree =
            SourceTree::from([("a.rs", "//! A.\n"), ("b.rs", "use a;\n//! B.\n"), ("c.rs", "")]);
        assert_eq!(
            printed(&headers(&tree)),
            [
                "b.rs:1: does not open with `//!`; say what it is for and what it hides",
                "c.rs:1: does not open with `//!`; say what it is for and what it hides",
            ]
        );
    }

    #[test]
    fn paths_of_one_machine_are_found_and_invented_ones_are_not() {
        let check =
            |line: &str, expected: &[&str]| assert_eq!(machine_paths_in(line), expected, "{line}");
        check("see /mnt/tree/x.md", &["/mnt/tree"]);
        check("(\"/root/.cargo\")", &["/root/"]);
        check("/home/carol and /Users/dave/x", &["/home/carol", "/Users/dave"]);
        check("file:///home/carol", &[]);
        check("/home/user/x, /Users/ada/y", &[]);
        check("docs/mnt/plan.md <data>/mnt/x ../root/x https://example.com/home/x", &[]);
        check("/memories/mnt/x, /workspace/x, /home", &[]);
    }

    #[test]
    fn the_former_name_is_a_finding_except_in_the_change_log() {
        let tree = SourceTree::from([
            ("CHANGELOG.md", "quipu\n"),
            ("a.rs", "//! A.\nconst HOME: &str = \"QUIPU_HOME\";\n"),
            ("b.md", "Lukasa, qui pu\n"),
            ("scripts/Quipu.sh", ""),
        ]);
        assert_eq!(
            printed(&old_name(&tree)),
            [
                "scripts/Quipu.sh: has the former name `quipu`; write the name of today",
                "a.rs:2: has the former name `quipu`; write the name of today",
            ]
        );
    }

    #[test]
    fn a_path_of_one_machine_is_found_with_its_line() {
        let tree = SourceTree::from([("a.md", "one\n/mnt/plan\n")]);
        assert_eq!(
            printed(&machine_paths(&tree)),
            [
                "a.md:2: `/mnt/plan` is a path of one machine; write it relative, or for an invented `user`"
            ]
        );
    }
}
