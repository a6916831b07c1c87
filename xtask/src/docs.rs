//! Generates the files of `docs/reference/` from the output of the program.
//!
//! `lukasa reference NAME` prints Markdown or JSON, and this command writes it to a file. `tidy` fails when a file
//! differs from the output.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::cargo;
use crate::tidy::TidyFinding;
use crate::workspace::CargoWorkspace;

/// The names that `lukasa reference` accepts, each with its file.
const REFERENCES: [(&str, &str); 7] = [
    ("cli", "cli.md"),
    ("codes", "codes.md"),
    ("rules", "rules.md"),
    ("limits", "limits.md"),
    ("http", "http.md"),
    ("openapi", "openapi.json"),
    ("settings", "settings.schema.json"),
];

/// The arguments of `cargo xtask docs`.
#[derive(clap::Args)]
pub(crate) struct DocsArgs {
    /// Compare and write nothing
    #[arg(long)]
    check: bool,
}

/// A reference that the program printed.
#[derive(Debug, PartialEq, Eq)]
struct Reference {
    /// Its file, from the root.
    path: String,
    text: String,
}

/// Writes or compares the references.
pub(crate) fn run(workspace: &CargoWorkspace, args: &DocsArgs) -> anyhow::Result<()> {
    if !args.check {
        describe_routes(workspace)?;
        return write(workspace);
    }
    let findings = drift(workspace)?;
    for finding in &findings {
        println!("{finding}");
    }
    anyhow::ensure!(findings.is_empty(), "{} references are out of date", findings.len());
    Ok(())
}

/// Runs the test that generates the API description, so that it writes the file that is compiled into the program.
fn describe_routes(workspace: &CargoWorkspace) -> anyhow::Result<()> {
    let test = "http::openapi::tests::the_embedded_description_is_what_the_code_declares";
    let mut command = cargo::command();
    command.current_dir(&workspace.root).env("LUKASA_WRITE_OPENAPI", "1");
    // The whole workspace, filtered: `-p` would choose other features and build everything again.
    cargo::run(command.args(["test", "--quiet", "--workspace", "--lib", "--", "--exact", test]))
}

/// Writes the references that are out of date.
pub(crate) fn write(workspace: &CargoWorkspace) -> anyhow::Result<()> {
    for reference in generate(workspace)? {
        let path = workspace.root.join(&reference.path);
        if fs::read_to_string(&path).ok().as_deref() == Some(reference.text.as_str()) {
            continue;
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&path, reference.text)
            .with_context(|| format!("cannot write {}", path.display()))?;
        println!("written: {}", reference.path);
    }
    Ok(())
}

/// Returns the references that differ from what the program prints.
pub(crate) fn drift(workspace: &CargoWorkspace) -> anyhow::Result<Vec<TidyFinding>> {
    Ok(differing(&workspace.root, &generate(workspace)?))
}

fn differing(root: &Path, references: &[Reference]) -> Vec<TidyFinding> {
    let differs = |reference: &&Reference| {
        fs::read_to_string(root.join(&reference.path)).ok().as_deref() != Some(&reference.text)
    };
    references
        .iter()
        .filter(differs)
        .map(|reference| {
            let wrong = "is not what the program prints";
            TidyFinding::file("docs", &reference.path, wrong, "run `cargo xtask docs`")
        })
        .collect()
}

/// Builds the program; returns its path.
pub(crate) fn build_program(workspace: &CargoWorkspace) -> anyhow::Result<PathBuf> {
    let mut build = cargo::command();
    build.current_dir(&workspace.root);
    // With the features of the whole workspace, so that the tests build nothing again.
    cargo::run(build.args(["build", "--quiet", "--workspace", "--bin", "lukasa"]))?;
    Ok(workspace.target.join("debug").join(format!("lukasa{}", std::env::consts::EXE_SUFFIX)))
}

/// Asks the program for every reference.
fn generate(workspace: &CargoWorkspace) -> anyhow::Result<Vec<Reference>> {
    let program = build_program(workspace)?;
    REFERENCES
        .into_iter()
        .map(|(name, file)| {
            let printed =
                cargo::output(std::process::Command::new(&program).args(["reference", name]))?;
            anyhow::ensure!(
                !printed.trim().is_empty(),
                "`lukasa reference {name}` printed nothing"
            );
            let path = format!("docs/reference/{file}");
            Ok(Reference { path, text: format!("{}\n", printed.trim_end()) })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(name: &str, text: &str) -> Reference {
        Reference { path: format!("docs/reference/{name}.md"), text: text.to_owned() }
    }

    #[test]
    fn a_reference_that_differs_or_is_missing_is_drift() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("docs/reference")).unwrap();
        fs::write(root.path().join("docs/reference/cli.md"), "# Commands\n").unwrap();
        fs::write(root.path().join("docs/reference/codes.md"), "# Old\n").unwrap();
        let references = [
            reference("cli", "# Commands\n"),
            reference("codes", "# Codes\n"),
            reference("rules", "# Rules\n"),
        ];
        let found: Vec<String> =
            differing(root.path(), &references).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "docs/reference/codes.md: is not what the program prints; run `cargo xtask docs`",
                "docs/reference/rules.md: is not what the program prints; run `cargo xtask docs`",
            ]
        );
    }
}
