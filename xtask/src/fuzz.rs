//! Fuzzing: runs libFuzzer on every parser of untrusted bytes.
//!
//! The targets are the binaries of the separate package `fuzz/`. They use no sanitizer, because there is no unsafe code
//! to watch: only panics count. So they need no nightly compiler. Seeds are in `fuzz/corpus`; inputs that a run adds
//! go to `target`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use serde::Deserialize;

use crate::cargo;
use crate::tools::{self, Tools};
use crate::workspace::CargoWorkspace;

/// The package of the targets, from the root.
pub(crate) const MANIFEST: &str = "fuzz/Cargo.toml";

/// The time after which an input counts as a failure.
const INPUT_SECONDS_MAX: u64 = 5;
/// The longest input: caps are far below, and long inputs find little.
const INPUT_BYTES_MAX: u64 = 16_384;
/// The memory above which a parser fails.
const MEMORY_MIB_MAX: u64 = 1_024;

/// The arguments of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub(crate) struct FuzzArgs {
    /// The target; all when none is named
    target: Option<String>,
    /// Total seconds to search
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Run this one input, such as a saved crash, and stop
    #[arg(long, value_name = "FILE", requires = "target")]
    replay: Option<PathBuf>,
}

/// Installs cargo-fuzz if needed, and runs the targets or one input.
pub(crate) fn run(workspace: &CargoWorkspace, args: &FuzzArgs) -> anyhow::Result<()> {
    let all = targets(workspace)?;
    let is_chosen =
        |target: &&FuzzTarget| args.target.as_ref().is_none_or(|name| *name == target.name);
    let chosen: Vec<FuzzTarget> = all.iter().filter(is_chosen).cloned().collect();
    let names = || all.iter().map(|target| target.name.as_str()).collect::<Vec<_>>().join(", ");
    anyhow::ensure!(!chosen.is_empty(), "there is no such target; choose one of {}", names());
    let tools = tools::prepare(workspace, &[tools::CARGO_FUZZ])?;
    match (&args.replay, chosen.as_slice()) {
        (Some(input), [target]) => {
            let missing = || format!("there is no file {}", input.display());
            let input = input.canonicalize().with_context(missing)?;
            cargo::run(cargo_fuzz(workspace, &tools, "run").arg(&target.name).arg(input))
        }
        _ => search(workspace, &tools, &chosen, args.seconds),
    }
}

/// A target, as the manifest declares it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct FuzzTarget {
    name: String,
    /// Its file, from the folder of the manifest.
    pub(crate) path: String,
}

/// Returns all targets.
pub(crate) fn targets(workspace: &CargoWorkspace) -> anyhow::Result<Vec<FuzzTarget>> {
    let manifest = workspace.root.join(MANIFEST);
    let text = fs::read_to_string(&manifest)
        .with_context(|| format!("cannot read {}", manifest.display()))?;
    declared(&text)
}

/// Returns the targets that a manifest declares.
pub(crate) fn declared(manifest: &str) -> anyhow::Result<Vec<FuzzTarget>> {
    #[derive(Deserialize)]
    struct Manifest {
        bin: Vec<FuzzTarget>,
    }
    let manifest: Manifest =
        toml::from_str(manifest).with_context(|| format!("cannot parse {MANIFEST}"))?;
    Ok(manifest.bin)
}

/// Builds all targets. Cargo builds them in parallel when no name is passed.
pub(crate) fn build(workspace: &CargoWorkspace, tools: &Tools) -> anyhow::Result<()> {
    cargo::run(&mut cargo_fuzz(workspace, tools, "build"))
}

/// Divides the time among the targets and runs each.
pub(crate) fn search(
    workspace: &CargoWorkspace,
    tools: &Tools,
    targets: &[FuzzTarget],
    seconds: u64,
) -> anyhow::Result<()> {
    // All are built before the first runs, so that the time is spent on searching.
    match targets {
        [target] => cargo::run(cargo_fuzz(workspace, tools, "build").arg(&target.name))?,
        _ => build(workspace, tools)?,
    }
    let each = (seconds / u64::try_from(targets.len().max(1))?).max(1);
    for target in targets {
        let name = &target.name;
        println!("fuzz: {name} for {each} s");
        let corpus = workspace.target.join("fuzz-corpus").join(name);
        fs::create_dir_all(&corpus)?;
        let seeds = workspace.root.join("fuzz/corpus").join(name);
        anyhow::ensure!(
            seeds.is_dir(),
            "{} is missing; every target needs seeds there",
            seeds.display()
        );
        let mut command = cargo_fuzz(workspace, tools, "run");
        command.arg(name).arg(corpus).arg(seeds).arg("--").args(limits(each));
        cargo::run(&mut command).with_context(|| {
            format!(
                "the input is saved in fuzz/artifacts/{name}; run it again with \
                 `cargo xtask fuzz {name} --replay FILE`, and add a unit test of it"
            )
        })?;
    }
    Ok(())
}

fn limits(seconds: u64) -> [String; 6] {
    [
        format!("-max_total_time={seconds}"),
        format!("-timeout={INPUT_SECONDS_MAX}"),
        format!("-max_len={INPUT_BYTES_MAX}"),
        format!("-rss_limit_mb={MEMORY_MIB_MAX}"),
        "-verbosity=0".to_owned(),
        "-print_funcs=0".to_owned(),
    ]
}

fn cargo_fuzz(workspace: &CargoWorkspace, tools: &Tools, verb: &str) -> Command {
    let mut command = tools.cargo_command();
    command.current_dir(&workspace.root).args(["fuzz", verb, "--sanitizer", "none"]);
    command.arg("--target-dir").arg(workspace.target.join("fuzz"));
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_the_binaries_of_the_manifest() {
        let manifest = "[[bin]]\nname = \"path\"\npath = \"targets/path.rs\"\ntest = false\n\
                        [[bin]]\nname = \"import\"\npath = \"targets/import.rs\"\n";
        let target =
            |name: &str| FuzzTarget { name: name.to_owned(), path: format!("targets/{name}.rs") };
        assert_eq!(declared(manifest).unwrap(), [target("path"), target("import")]);
        assert!(declared("[package]\nname = \"x\"\n").is_err());
    }
}
