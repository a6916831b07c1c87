//! Fuzzing: every parser of outside bytes is fed what libFuzzer can think of.
//!
//! The targets are the binaries of `fuzz/`, a package of its own, which needs no nightly compiler
//! because no sanitizer is asked for: there is no unsafe code to watch, a panic is what counts.
//! Small seeds are kept in `fuzz/corpus`; what a run finds interesting goes to `target`.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use serde::Deserialize;

use crate::cargo;
use crate::tools::{self, Tools};
use crate::workspace::Workspace;

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
pub(crate) struct Args {
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
pub(crate) fn run(workspace: &Workspace, args: &Args) -> anyhow::Result<()> {
    let known = targets(workspace)?;
    if let Some(target) = &args.target {
        let is_known = known.contains(target);
        anyhow::ensure!(is_known, "no target is called `{target}`, only {}", known.join(", "));
    }
    let tools = tools::prepare(workspace, &[tools::CARGO_FUZZ])?;
    match (&args.target, &args.replay) {
        (Some(target), Some(input)) => {
            let missing = || format!("there is no file {}", input.display());
            let input = input.canonicalize().with_context(missing)?;
            cargo::run(cargo_fuzz(workspace, &tools, "run").arg(target).arg(input))
        }
        (Some(target), None) => {
            search(workspace, &tools, std::slice::from_ref(target), args.seconds)
        }
        (None, _) => search(workspace, &tools, &known, args.seconds),
    }
}

/// Returns the names of the targets.
pub(crate) fn targets(workspace: &Workspace) -> anyhow::Result<Vec<String>> {
    let manifest = workspace.root.join(MANIFEST);
    let text = fs::read_to_string(&manifest)
        .with_context(|| format!("cannot read {}", manifest.display()))?;
    binaries(&text).map(|binaries| binaries.into_iter().map(|binary| binary.name).collect())
}

/// One target, as the manifest declares it.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Binary {
    name: String,
    /// Its file, from the folder of the manifest.
    pub(crate) path: String,
}

/// Returns the targets that a manifest declares.
pub(crate) fn binaries(manifest: &str) -> anyhow::Result<Vec<Binary>> {
    #[derive(Deserialize)]
    struct Manifest {
        bin: Vec<Binary>,
    }
    let manifest: Manifest =
        toml::from_str(manifest).with_context(|| format!("cannot understand {MANIFEST}"))?;
    Ok(manifest.bin)
}

/// Divides the time among the targets and feeds each.
pub(crate) fn search(
    workspace: &Workspace,
    tools: &Tools,
    targets: &[String],
    seconds: u64,
) -> anyhow::Result<()> {
    cargo::run(&mut cargo_fuzz(workspace, tools, "build"))?;
    let each = (seconds / u64::try_from(targets.len().max(1))?).max(1);
    for target in targets {
        println!("fuzz: {target} for {each} s");
        let found = workspace.target.join("fuzz-corpus").join(target);
        fs::create_dir_all(&found)?;
        let mut command = cargo_fuzz(workspace, tools, "run");
        command.arg(target).arg(found);
        let seeds = workspace.root.join("fuzz/corpus").join(target);
        anyhow::ensure!(seeds.is_dir(), "{} is missing: a target has seeds", seeds.display());
        command.arg(seeds).arg("--").args(limits(each));
        cargo::run(&mut command).with_context(|| {
            format!(
                "the input is kept in fuzz/artifacts/{target}; run it again with \
                 `cargo xtask fuzz {target} --replay FILE`, and make it a unit test"
            )
        })?;
    }
    Ok(())
}

fn limits(seconds: u64) -> [String; 5] {
    [
        format!("-max_total_time={seconds}"),
        format!("-timeout={INPUT_SECONDS_MAX}"),
        format!("-max_len={INPUT_BYTES_MAX}"),
        format!("-rss_limit_mb={MEMORY_MIB_MAX}"),
        "-verbosity=0".to_owned(),
    ]
}

fn cargo_fuzz(workspace: &Workspace, tools: &Tools, verb: &str) -> std::process::Command {
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
        let manifest = "[[bin]]\nname = \"path\"\npath = \"targets/path.rs\"\ntest = false\n";
        assert_eq!(
            binaries(manifest).unwrap(),
            [Binary { name: "path".to_owned(), path: "targets/path.rs".to_owned() }]
        );
        assert!(binaries("[package]\nname = \"x\"\n").is_err());
    }
}
