//! Fuzzing: every parser of outside bytes is fed what libFuzzer can think of.
//!
//! The targets are the binaries of `fuzz/`, a package of its own, which needs no nightly compiler
//! because no sanitizer is asked for: there is no unsafe code to watch, a panic is what counts.
//! Small seeds are kept in `fuzz/corpus`; what a run finds interesting goes to `target`.

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

/// One input that takes longer is a finding.
const INPUT_SECONDS_MAX: u64 = 5;
/// An input never needs to be longer: caps are far below, and long inputs find little.
const INPUT_BYTES_MAX: u64 = 16_384;
/// A parser that takes more memory is a finding.
const MEMORY_MIB_MAX: u64 = 1_024;

/// What to feed, and for how long.
#[derive(clap::Args)]
pub(crate) struct FuzzArgs {
    /// The target; all when none is named
    target: Option<String>,
    /// How many seconds to search, in all
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Run this one input, such as a crash that was kept, and stop
    #[arg(long, value_name = "FILE", requires = "target")]
    replay: Option<PathBuf>,
}

/// Installs cargo-fuzz if need be, and searches.
pub(crate) fn run(workspace: &CargoWorkspace, args: &FuzzArgs) -> anyhow::Result<()> {
    let known = targets(workspace)?;
    let is_asked =
        |target: &&FuzzTarget| args.target.as_ref().is_none_or(|name| *name == target.name);
    let chosen: Vec<FuzzTarget> = known.iter().filter(is_asked).cloned().collect();
    let names = || known.iter().map(|target| target.name.as_str()).collect::<Vec<_>>().join(", ");
    anyhow::ensure!(!chosen.is_empty(), "there is no such target, only {}", names());
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

/// One target, as the manifest declares it.
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
        toml::from_str(manifest).with_context(|| format!("cannot understand {MANIFEST}"))?;
    Ok(manifest.bin)
}

/// Divides the time among the targets and feeds each.
pub(crate) fn search(
    workspace: &CargoWorkspace,
    tools: &Tools,
    targets: &[FuzzTarget],
    seconds: u64,
) -> anyhow::Result<()> {
    // All are built before the first is fed, so that the time is spent on searching; several of them at once,
    // as cargo does without a name.
    let one = if let [one] = targets { Some(&one.name) } else { None };
    cargo::run(cargo_fuzz(workspace, tools, "build").args(one))?;
    let each = (seconds / u64::try_from(targets.len().max(1))?).max(1);
    for target in targets {
        let name = &target.name;
        println!("fuzz: {name} for {each} s");
        let found = workspace.target.join("fuzz-corpus").join(name);
        fs::create_dir_all(&found)?;
        let seeds = workspace.root.join("fuzz/corpus").join(name);
        anyhow::ensure!(seeds.is_dir(), "{} is missing: a target has seeds", seeds.display());
        let mut command = cargo_fuzz(workspace, tools, "run");
        command.arg(name).arg(found).arg(seeds).arg("--").args(limits(each));
        cargo::run(&mut command).with_context(|| {
            format!(
                "the input is kept in fuzz/artifacts/{name}; run it again with \
                 `cargo xtask fuzz {name} --replay FILE`, and make it a unit test"
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
