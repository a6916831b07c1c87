//! Limits: no two of them share a name and differ in value, since a reader who found one knows both.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::allowed;
use crate::tidy::finding::Finding;
use crate::tidy::rust::{self, Source};

/// How the name of a limit ends.
const ENDS: [&str; 2] = ["_MAX", "_MIN"];

/// Finds limits of the same name with several values in the sources of the crates, tests left out.
///
/// Names in `recorded` are known to be so; one that is no longer so is a finding too.
pub(super) fn limits(sources: &[Source<'_>], recorded: &BTreeSet<String>) -> Vec<Finding> {
    let mut limits: BTreeMap<&str, Vec<Limit<'_>>> = BTreeMap::new();
    let is_code = |path: &str| {
        path.starts_with("crates/") && path.contains("/src/") && !path.contains("/tests")
    };
    for source in sources.iter().filter(|source| is_code(source.path)) {
        for limit in of_source(source) {
            limits.entry(limit.name).or_default().push(limit);
        }
    }
    let mut findings = Vec::new();
    let mut idle = recorded.clone();
    for (name, limits) in limits {
        let Some((first, rest)) = limits.split_first() else { continue };
        let other = rest.iter().find(|other| other.value != first.value);
        if let Some(other) = other.filter(|_| !idle.remove(name)) {
            let wrong = format!(
                "`{}` is `{}` here and `{}` in {}",
                first.name, first.value, other.value, other.path
            );
            let remedy = "keep one of them, or name them for what they bound";
            findings.push(Finding::file("limits", first.path, wrong, remedy).at(first.line));
        }
    }
    let idle = idle.into_iter().map(|name| {
        let wrong = format!("`{name}` no longer has several values");
        Finding::file("limits", allowed::PATH, wrong, "take it out of `same_limits`")
    });
    findings.extend(idle);
    findings
}

/// A constant that bounds something.
struct Limit<'a> {
    path: &'a str,
    line: usize,
    name: &'a str,
    /// Its value as it is written, without white space.
    value: String,
}

fn of_source<'a>(source: &'a Source<'a>) -> Vec<Limit<'a>> {
    let code = source.lines.iter().take_while(|line| !line.code.starts_with("mod tests {"));
    let tokens = code.enumerate().flat_map(|(line, text)| {
        rust::tokens(&text.code).into_iter().map(move |token| (line, token))
    });
    let tokens: Vec<(usize, &str)> = tokens.collect();
    let mut found = Vec::new();
    for (at, pair) in tokens.windows(2).enumerate() {
        let [(_, "const"), (line, name)] = *pair else { continue };
        if !ENDS.iter().any(|end| name.ends_with(end)) {
            continue;
        }
        let rest = tokens.iter().skip(at).map(|(_, token)| *token);
        let value =
            rest.skip_while(|token| *token != "=").skip(1).take_while(|token| *token != ";");
        let value: String = value.collect::<String>().replace('_', "");
        // `limits::NAME` is the same limit.
        if !value.ends_with(&name.replace('_', "")) {
            found.push(Limit { path: source.path, line, name, value });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::finding::printed;
    use crate::tidy::tree::Tree;

    #[test]
    fn limits_of_one_name_have_one_value() {
        let tree = Tree::from([
            ("crates/a/src/a.rs", "\nconst TEXT_MAX: usize =\n  8_000;\nconst SAME_MIN: u8 = 1;"),
            ("crates/a/src/b.rs", "pub const TEXT_MAX: usize = 8192; const SAME_MIN: u8 = 1;"),
            (
                "crates/a/src/c.rs",
                "const TEXT_MAX: usize = limits::TEXT_MAX;\nconst OTHER: u8 = 1;",
            ),
            ("crates/a/src/d.rs", "const OTHER: u8 = 2;\nmod tests {\nconst SAME_MIN: u8 = 2; }"),
            ("crates/a/tests/it/e.rs", "const SAME_MIN: u8 = 3;"),
        ]);
        let check = |recorded: &[&str], expected: &[&str]| {
            let recorded = recorded.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(printed(&limits(&rust::sources(&tree), &recorded)), expected);
        };
        check(
            &[],
            &[
                "crates/a/src/a.rs:2: `TEXT_MAX` is `8000` here and `8192` in crates/a/src/b.rs; keep one \
               of them, or name them for what they bound",
            ],
        );
        check(&["TEXT_MAX"], &[]);
        check(
            &["SAME_MIN", "TEXT_MAX"],
            &[
                "xtask/tidy.toml: `SAME_MIN` no longer has several values; take it out of `same_limits`",
            ],
        );
    }
}
