//! Finds sources that are not compiled, and test binaries beside the one that a package may have.
//!
//! A test in a source that no `mod` declares never runs, and no other tool reports it.

use std::collections::BTreeSet;

use crate::fuzz;
use crate::tidy::finding::TidyFinding;
use crate::tidy::rust::{self, RustSource};
use crate::tidy::tree::{SourceTree, has_extension};
use crate::workspace::CargoWorkspace;

/// Returns the root files of all cargo targets, including the fuzz targets.
pub(super) fn roots(workspace: &CargoWorkspace, tree: &SourceTree) -> Vec<String> {
    let targets = workspace.packages.iter().flat_map(|package| &package.targets);
    let mut roots: Vec<String> =
        targets.map(|target| workspace.relative(&target.src_path)).collect();
    let fuzz_targets = tree.text(fuzz::MANIFEST).and_then(|text| fuzz::declared(text).ok());
    roots.extend(fuzz_targets.unwrap_or_default().iter().map(|each| format!("fuzz/{}", each.path)));
    roots
}

/// Finds sources that no `mod` leads to.
pub(super) fn orphans(sources: &[RustSource<'_>], roots: &[String]) -> Vec<TidyFinding> {
    let mut reached: BTreeSet<&str> = BTreeSet::new();
    let mut waiting: Vec<(&RustSource<'_>, bool)> = Vec::new();
    for source in sources {
        if roots.iter().any(|root| root == source.path) {
            reached.insert(source.path);
            waiting.push((source, true));
        }
    }
    while let Some((source, is_root)) = waiting.pop() {
        for path in children(source, is_root) {
            let found = sources.iter().find(|each| each.path == path);
            if let Some(child) = found.filter(|child| reached.insert(child.path)) {
                waiting.push((child, false));
            }
        }
    }
    sources
        .iter()
        .filter(|source| !reached.contains(source.path))
        .map(|source| {
            let wrong = "is compiled by nothing";
            TidyFinding::file("orphans", source.path, wrong, "declare it with `mod`, or remove it")
        })
        .collect()
}

/// Returns the folder of the modules that a source declares.
pub(super) fn folder(path: &str, is_root: bool) -> &str {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    if is_root { stem.rsplit_once('/').map_or("", |(folder, _)| folder) } else { stem }
}

/// Returns the files of the modules that a source declares.
fn children(source: &RustSource<'_>, is_root: bool) -> Vec<String> {
    let folder = folder(source.path, is_root);
    let mut paths = Vec::new();
    for line in &source.lines {
        for row in rust::tokens(&line.code).windows(3) {
            if let ["mod", name, ";"] = row {
                paths.push(format!("{folder}/{name}.rs"));
            }
        }
    }
    paths
}

/// Finds integration tests beside the one binary that a package may have.
pub(super) fn test_binaries(tree: &SourceTree) -> Vec<TidyFinding> {
    let is_extra = |path: &&str| {
        let Some((package, test)) = path.split_once("/tests/") else { return false };
        let is_alone = has_extension(test, "rs") && !test.contains('/');
        let is_binary = is_alone || test.ends_with("/main.rs");
        tree.has(&format!("{package}/Cargo.toml")) && is_binary && test != "it/main.rs"
    };
    tree.paths()
        .filter(is_extra)
        .map(|path| {
            let wrong = "is one more test binary to link";
            TidyFinding::file(
                "test-binaries",
                path,
                wrong,
                "make it a module of `tests/it/main.rs`",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::finding::printed;

    #[test]
    fn an_undeclared_source_is_a_finding() {
        let tree = SourceTree::from([
            ("a/src/lib.rs", "pub mod path;\nmod r; // mod lost;\nmod inline { }"),
            ("a/src/path.rs", "#[cfg(test)] mod tests;\nmod deep;"),
            ("a/src/path/tests.rs", ""),
            ("a/src/path/deep.rs", "mod er;"),
            ("a/src/path/deep/er.rs", ""),
            ("a/src/lost.rs", "mod found;"),
            ("a/src/lost/found.rs", ""),
            ("a/src/r.rs", ""),
            ("a/src/inline.rs", ""),
            ("a/tests/it/main.rs", "mod one;"),
            ("a/tests/it/one.rs", ""),
            ("a/tests/it/two.rs", ""),
        ]);
        let roots = ["a/src/lib.rs", "a/tests/it/main.rs"].map(str::to_owned);
        let found = printed(&orphans(&rust::sources(&tree), &roots));
        let remedy = "is compiled by nothing; declare it with `mod`, or remove it";
        let paths =
            ["a/src/inline.rs", "a/src/lost.rs", "a/src/lost/found.rs", "a/tests/it/two.rs"];
        assert_eq!(found, paths.map(|path| format!("{path}: {remedy}")));
    }

    #[test]
    fn a_package_has_one_test_binary() {
        let tree = SourceTree::from([
            ("a/Cargo.toml", ""),
            ("a/tests/it/main.rs", ""),
            ("a/tests/it/one.rs", ""),
            ("a/tests/two.rs", ""),
            ("a/tests/three/main.rs", ""),
            ("a/src/tests/four.rs", ""),
        ]);
        assert_eq!(
            printed(&test_binaries(&tree)),
            [
                "a/tests/three/main.rs: is one more test binary to link; make it a module of \
             `tests/it/main.rs`",
                "a/tests/two.rs: is one more test binary to link; make it a module of \
             `tests/it/main.rs`",
            ]
        );
    }
}
