//! Finds constants that have the same name but different values in several crates.
//!
//! Two crates may each need a constant of one name. A reader who finds one of them takes its value for that of the
//! other, so the values must agree or the names must differ.

use std::collections::BTreeMap;

use crate::tidy::finding::TidyFinding;
use crate::tidy::rust::{self, RustSource};

/// The types of numbers and durations.
const TYPES: [&str; 15] = [
    "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "f32",
    "f64", "Duration",
];

/// The declaration of a constant, with its value as it is written.
struct Declaration<'a> {
    path: &'a str,
    /// Its line, counted from 0.
    index: usize,
    value: String,
}

/// Finds constants that share a name but not a value.
pub(super) fn limits(sources: &[RustSource<'_>]) -> Vec<TidyFinding> {
    let mut by_name: BTreeMap<String, Vec<Declaration<'_>>> = BTreeMap::new();
    for source in sources.iter().filter(|source| is_of_a_crate(source.path)) {
        for (name, declaration) in declarations(source) {
            by_name.entry(name).or_default().push(declaration);
        }
    }
    let mut findings = Vec::new();
    for (name, declarations) in by_name {
        let Some((first, others)) = declarations.split_first() else { continue };
        for other in others.iter().filter(|other| other.value != first.value) {
            let wrong =
                format!("`{name}` is {} here and {} in {}", other.value, first.value, first.path);
            let remedy = "name each constant by what it limits";
            findings.push(TidyFinding::file("limits", other.path, wrong, remedy).at(other.index));
        }
    }
    findings
}

/// Checks whether a source belongs to a crate and is no test.
fn is_of_a_crate(path: &str) -> bool {
    let is_test = path.ends_with("/tests.rs") || path.contains("/tests/");
    let is_kit = path.starts_with("crates/testkit/");
    path.starts_with("crates/") && path.contains("/src/") && !is_test && !is_kit
}

/// Returns the constants of a source that are numbers or durations, up to its tests.
fn declarations<'a>(source: &RustSource<'a>) -> Vec<(String, Declaration<'a>)> {
    let mut declarations = Vec::new();
    for (index, line) in source.lines.iter().enumerate() {
        let next = source.lines.get(index + 1).map_or("", |next| next.code.as_str());
        if line.code.trim() == "#[cfg(test)]" && next.starts_with("mod ") {
            break;
        }
        let tokens = rust::tokens(&line.code);
        let Some(position) = tokens.iter().position(|token| *token == "const") else { continue };
        if let [name, ":", kind, "=", ..] = tokens[position + 1..]
            && TYPES.contains(&kind)
        {
            let value = value(source, index);
            declarations.push((name.to_owned(), Declaration { path: source.path, index, value }));
        }
    }
    declarations
}

/// Returns the value of a constant that is declared from this line on, up to the semicolon. White space and the `_`
/// between digits are left out.
fn value(source: &RustSource<'_>, index: usize) -> String {
    let code: String = source.lines[index..].iter().map(|line| line.code.as_str()).collect();
    let declaration = code.split_once(';').map_or(code.as_str(), |(declaration, _)| declaration);
    let value = declaration.split_once('=').map_or("", |(_, value)| value);
    let tokens = rust::tokens(value).into_iter().map(|token| {
        let is_number = token.starts_with(|first: char| first.is_ascii_digit());
        if is_number { token.replace('_', "") } else { token.to_owned() }
    });
    tokens.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::finding::printed;
    use crate::tidy::tree::SourceTree;

    fn check<const N: usize>(files: [(&str, &str); N], expected: &[&str]) {
        let tree = SourceTree::from(files);
        assert_eq!(printed(&limits(&rust::sources(&tree))), expected);
    }

    #[test]
    fn a_name_has_one_value() {
        check(
            [
                ("crates/a/src/lib.rs", "pub const PATH_BYTES_MAX: usize = 1_024;\n"),
                (
                    "crates/b/src/lib.rs",
                    "fn f() {\n    const PATH_BYTES_MAX: u64 = 4_096; // long\n}\n",
                ),
                (
                    "crates/c/src/lib.rs",
                    "pub(crate) const WAIT: Duration =\n    Duration::from_secs(1);\n",
                ),
                ("crates/d/src/lib.rs", "const WAIT: Duration = Duration::from_secs(2);\n"),
            ],
            &[
                "crates/b/src/lib.rs:2: `PATH_BYTES_MAX` is 4096 here and 1024 in crates/a/src/lib.rs; \
                 name each constant by what it limits",
                "crates/d/src/lib.rs:1: `WAIT` is Duration::from_secs(2) here and Duration::from_secs(1) in \
                 crates/c/src/lib.rs; name each constant by what it limits",
            ],
        );
    }

    #[test]
    fn one_value_may_be_written_twice_and_texts_and_tests_may_differ() {
        check(
            [
                ("crates/a/src/lib.rs", "const A_MAX: usize = 1_000;\nconst NAME: &str = \"a\";\n"),
                ("crates/b/src/lib.rs", "const A_MAX: usize = 1000;\nconst NAME: &str = \"bc\";\n"),
                (
                    "crates/b/src/a.rs",
                    "#[cfg(test)]\nmod tests {\n    const A_MAX: usize = 3;\n}\n",
                ),
                ("crates/b/src/a/tests.rs", "const A_MAX: usize = 4;\n"),
                ("crates/b/tests/it/main.rs", "const A_MAX: usize = 5;\n"),
                ("benches/src/main.rs", "const A_MAX: usize = 6;\n"),
            ],
            &[],
        );
    }
}
