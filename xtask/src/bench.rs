//! Benchmarks: builds the package `benches` for release and passes the arguments on.
//!
//! It first installs the other memory programs that the benches compare Lukasa with.

use crate::workspace::CargoWorkspace;
use crate::{cargo, tools};

/// The arguments of `cargo xtask bench`.
#[derive(clap::Args)]
pub(crate) struct BenchArgs {
    /// Arguments for the benchmarks: names, `--help`, …
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Installs the compared programs, builds for release and runs the benches.
pub(crate) fn run(workspace: &CargoWorkspace, args: &BenchArgs) -> anyhow::Result<()> {
    let tools = tools::prepare(workspace, tools::FOR_BENCHES)?;
    let mut build = cargo::command();
    cargo::run(build.current_dir(&workspace.root).args(["build", "--release", "--bin", "lukasa"]))?;
    let mut measure = tools.cargo_command();
    measure.current_dir(&workspace.root).args(["run", "--release", "--package", "benches", "--"]);
    cargo::run(measure.args(&args.arguments))
}
