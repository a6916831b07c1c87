//! What a compiler does not check: the layer table, names, sizes, orphans, links, generated docs.
//!
//! A check is a pure function from the checkout, held as values, to findings, so that each is tested
//! on a small invented tree. Exceptions stand in `xtask/tidy.toml`, each with its reason, and one that
//! is no longer needed is a finding itself.

mod allowed;
mod files;
mod layers;
mod limits;
mod markdown;
mod modules;
mod rust;
mod tree;
mod words;

use std::fmt;

use crate::tidy::allowed::Allowed;
use crate::tidy::tree::Tree;
use crate::workspace::Workspace;
use crate::{cargo, docs};

/// How to check.
#[derive(Default, clap::Args)]
pub(crate) struct Args {
    /// Format the sources and write the generated references first
    #[arg(long)]
    fix: bool,
    /// Also name what is no failure yet, such as long files
    #[arg(long, short)]
    verbose: bool,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// The file, from the root.
    path: String,
    /// The line, counted from 1.
    line: Option<usize>,
    /// The name of the check, as the list of exceptions uses it.
    check: &'static str,
    wrong: String,
    /// What to do about it.
    remedy: String,
}

impl Finding {
    /// Returns a finding about a whole file.
    pub(crate) fn file(
        check: &'static str,
        path: &str,
        wrong: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            path: path.to_owned(),
            line: None,
            check,
            wrong: wrong.into(),
            remedy: remedy.into(),
        }
    }

    /// Returns the same finding about one line, given its index.
    fn at(mut self, index: usize) -> Self {
        self.line = Some(index + 1);
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}; {}", self.wrong, self.remedy)
    }
}

/// Checks everything and prints what was found.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> anyhow::Result<()> {
    if args.fix {
        cargo::run(cargo::command().current_dir(&workspace.root).args(["fmt", "--all"]))?;
        docs::write(workspace)?;
    }
    let tree = Tree::read(&workspace.root)?;
    let allowed = Allowed::parse(tree.text(allowed::PATH).unwrap_or_default())?;
    let mut findings = allowed.filter(check(workspace, &tree));
    // Only then, since it takes a build.
    if findings.is_empty() {
        findings = drift(workspace);
    }
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    if args.verbose {
        for hint in files::long(&tree) {
            println!("hint: {hint}");
        }
    }
    anyhow::ensure!(findings.is_empty(), "tidy found {} things", findings.len());
    Ok(())
}

/// Compares the generated references; that they cannot be generated is a finding too.
fn drift(workspace: &Workspace) -> Vec<Finding> {
    docs::drift(workspace).unwrap_or_else(|error| {
        let wrong = format!("cannot be compared ({error:#})");
        vec![Finding::file("docs", "docs/reference", wrong, "make `quipu reference` work")]
    })
}

/// Runs every check that needs no build.
fn check(workspace: &Workspace, tree: &Tree) -> Vec<Finding> {
    let sources = rust::sources(tree);
    [
        layers::layers(workspace),
        layers::homes(workspace),
        layers::lints(workspace, tree),
        files::names(tree),
        files::sizes(tree),
        files::headers(tree),
        files::machine_paths(tree),
        limits::limits(&sources),
        words::type_names(&sources),
        words::code(&sources),
        words::notes(tree, &sources),
        modules::test_binaries(tree),
        modules::orphans(&sources, &modules::roots(workspace, tree)),
        markdown::links(tree),
        markdown::named_files(tree),
        markdown::changelog(tree),
    ]
    .concat()
}

/// Returns findings as they are printed.
#[cfg(test)]
fn printed(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_says_where_what_and_what_to_do() {
        let finding = Finding::file("names", "a/b.rs", "is long", "cut it");
        assert_eq!(finding.to_string(), "a/b.rs: is long; cut it");
        assert_eq!(finding.at(6).to_string(), "a/b.rs:7: is long; cut it");
    }
}
