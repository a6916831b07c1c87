//! Benchmarks: builds the package `benches` for release and hands the arguments through.
//!
//! Other memory servers are measured side by side by the same client, so they are installed first.

use crate::workspace::CargoWorkspace;
use crate::{cargo, tools};

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct BenchArgs {
    /// Arguments for the benchmarks: names, `--help`, …
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Installs the rivals, builds for release and measures.
pub(crate) fn run(workspace: &CargoWorkspace, args: &BenchArgs) -> anyhow::Result<()> {
    let tools = tools::prepare(workspace, tools::FOR_BENCHES)?;
    let mut build = cargo::command();
    cargo::run(build.current_dir(&workspace.root).args(["build", "--release", "--bin", "lukasa"]))?;
    let mut measure = tools.cargo_command();
    measure.current_dir(&workspace.root).args(["run", "--release", "--package", "benches", "--"]);
    cargo::run(measure.args(&args.arguments))
}
