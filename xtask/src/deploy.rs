//! The files in `deploy/`: an image, and services for Compose and Kubernetes.
//!
//! Programs of other authors compare them with published schemas. The version of the compiler and the options of
//! `lukasa serve` are compared with the rest of the checkout. No container is built or started.

use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::cargo;
use crate::tools::{self, Tools};
use crate::workspace::CargoWorkspace;

const CONTAINERFILE: &str = "deploy/Containerfile";
const KUBERNETES: &str = "deploy/kubernetes.yaml";
const COMPOSE: [&str; 2] = ["deploy/compose.yaml", "deploy/compose.public.yaml"];
/// The generated reference, which `tidy` compares with the program.
const OPTIONS: &str = "docs/reference/cli.md";

/// Installs the tools and runs the checks.
pub(crate) fn run(workspace: &CargoWorkspace) -> anyhow::Result<()> {
    check(workspace, &tools::prepare(workspace, tools::FOR_DEPLOY)?)
}

/// Runs the checks with tools that are already installed.
pub(crate) fn check(workspace: &CargoWorkspace, tools: &Tools) -> anyhow::Result<()> {
    let read = |path: &str| read(&workspace.root, path);
    let (manifest, containerfile) = (read("Cargo.toml")?, read(CONTAINERFILE)?);
    let wanted = declared_compiler(&manifest).context("Cargo.toml names no compiler")?;
    let found = compiler_image(&containerfile).context("Containerfile names no `rust` image")?;
    anyhow::ensure!(
        found == wanted,
        "{CONTAINERFILE} builds with Rust {found}, and Cargo.toml wants {wanted}"
    );
    let reference = read(OPTIONS)?;
    let known = options_of_serve(&reference);
    for path in [KUBERNETES, COMPOSE[0]] {
        let text = read(path)?;
        let used = options_used(&text);
        anyhow::ensure!(!used.is_empty(), "{path} has no options of `lukasa serve`");
        for option in used {
            anyhow::ensure!(
                known.contains(&option),
                "{path}: `lukasa serve` has no option {option}"
            );
        }
    }
    let run = |program: &str, arguments: &[&str]| {
        let mut command = tools.python_command(program)?;
        cargo::run(command.current_dir(&workspace.root).args(arguments))
    };
    run("hadolint", &[CONTAINERFILE])?;
    let compose = ["--builtin-schema", "vendor.compose-spec"];
    run("check-jsonschema", &[&compose[..], &COMPOSE].concat())?;
    run("kubernetes-validate", &["--strict", "--quiet", KUBERNETES])
}

fn read(root: &Path, path: &str) -> anyhow::Result<String> {
    fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))
}

/// Returns the `rust-version` of a manifest.
fn declared_compiler(manifest: &str) -> Option<&str> {
    let line = manifest.lines().find(|line| line.starts_with("rust-version ="))?;
    line.split('"').nth(1)
}

/// Returns the version of the image that builds the program.
fn compiler_image(containerfile: &str) -> Option<&str> {
    let image = containerfile.lines().find_map(|line| line.split_once("/rust:"))?.1;
    image.split('-').next()
}

/// Returns the options that the reference lists for `lukasa serve`.
fn options_of_serve(reference: &str) -> Vec<&str> {
    let section = reference.split("\n## ").find(|text| text.starts_with("`lukasa serve`\n"));
    section.unwrap_or_default().lines().filter_map(option_of_help).collect()
}

/// Returns the option of a line of help that begins with it or its short form. Explanations are indented further.
fn option_of_help(line: &str) -> Option<&str> {
    let line = line.strip_prefix("  ")?;
    let line = line.strip_prefix("    ").unwrap_or(line);
    let long = match line.split_once(", --") {
        Some((short, _)) if short.len() == 2 => line.get(short.len() + 2..)?,
        _ => line,
    };
    option_name(long)
}

/// Returns the options in the lists of arguments of a file, each on a line of its own.
fn options_used(file: &str) -> Vec<&str> {
    file.lines().filter_map(|line| option_name(line.trim_start().strip_prefix("- ")?)).collect()
}

/// Returns the option at the start of a text, without its value.
fn option_name(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("--")?;
    let is_part = |c: char| c.is_ascii_lowercase() || c == '-';
    let length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    text.get(..2 + length).filter(|_| length > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_found_in_help_and_in_lists_of_arguments() {
        let reference = "# Commands\n\n## `lukasa ui`\n\n      --print\n\n## `lukasa serve`\n\n  -v, --verbose...\n      --host <ADDRESS>\n          --not for `--this`\n\n## `lukasa token`\n\n      --owner <NAME>\n";
        assert_eq!(options_of_serve(reference), ["--verbose", "--host"]);
        let file = "args:\n  - serve\n  - --host=0.0.0.0\n  # - --no\n  - --json\n---\n- -- x\n";
        assert_eq!(options_used(file), ["--host", "--json"]);
    }

    #[test]
    fn the_compiler_is_found_in_the_manifest_and_in_the_image() {
        let manifest = "[workspace.package]\nrust-version = \"1.95\" # why\n";
        assert_eq!(declared_compiler(manifest), Some("1.95"));
        let containerfile = "# x\nFROM docker.io/library/rust:1.95-trixie AS build\n";
        assert_eq!(compiler_image(containerfile), Some("1.95"));
        assert_eq!(compiler_image("FROM scratch\n"), None);
    }
}
