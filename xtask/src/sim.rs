//! The seeded simulators: they compare several callers, crashes and a clock with a plain model, until the time is over.
//!
//! They are tests of `store`, for lanes of `engine`, and for daemons that share a database of `postgres`. This command only sets their duration and their seed.

use crate::workspace::CargoWorkspace;
use crate::{cargo, tools};

/// The arguments of `cargo xtask sim`.
#[derive(clap::Args)]
pub(crate) struct SimArgs {
    /// Seconds to try seeds for
    #[arg(long, default_value_t = 60)]
    pub(crate) seconds: u64,
    /// Run this one seed, as a failing run printed it
    #[arg(long)]
    pub(crate) seed: Option<u64>,
}

/// Installs the test runner if needed, and runs the simulators.
pub(crate) fn run(workspace: &CargoWorkspace, args: &SimArgs) -> anyhow::Result<()> {
    let tools = tools::prepare(workspace, &[tools::CARGO_NEXTEST])?;
    simulate(workspace, &tools, args)
}

/// Runs the simulators with tools that are already installed.
pub(crate) fn simulate(
    workspace: &CargoWorkspace,
    tools: &tools::Tools,
    args: &SimArgs,
) -> anyhow::Result<()> {
    let mut command = tools.cargo_command();
    command.current_dir(&workspace.root);
    // The whole workspace, filtered: `-p` would choose other features and build everything again.
    command.args(["nextest", "run", "--workspace", "--profile", "sim"]);
    command.args(["--success-output", "final"]);
    let simulators = "binary_id(lukasa-store::it) & test(/^sim::/) | \
                      binary_id(lukasa-engine::it) & test(/^lane::simulation::/) | \
                      binary_id(lukasa-postgres::it) & test(/^simulation::/)";
    command.args(["-E", simulators]);
    command.env("LUKASA_SIM_SECONDS", args.seconds.to_string());
    if let Some(seed) = args.seed {
        command.env("LUKASA_SIM_SEED", seed.to_string());
    }
    cargo::run(&mut command)
}
