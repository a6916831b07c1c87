//! The seeded simulators: several callers, crashes and a clock against a plain model, for as long as
//! there is time.
//!
//! They are tests of `store` and, for lanes, of `engine`; here is only how long they run and with which seed.

use crate::workspace::CargoWorkspace;
use crate::{cargo, tools};

/// How long, and from which seed.
#[derive(clap::Args)]
pub(crate) struct SimArgs {
    /// How many seconds to try seeds for
    #[arg(long, default_value_t = 60)]
    pub(crate) seconds: u64,
    /// Run this one seed, as a failing run printed it
    #[arg(long)]
    pub(crate) seed: Option<u64>,
}

/// Installs the runner if need be, and runs the simulator.
pub(crate) fn run(workspace: &CargoWorkspace, args: &SimArgs) -> anyhow::Result<()> {
    let tools = tools::prepare(workspace, &[tools::CARGO_NEXTEST])?;
    simulate(workspace, &tools, args)
}

/// Runs the simulator with tools that are there already.
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
                      binary_id(lukasa-engine::it) & test(/^lane::sim::/)";
    command.args(["-E", simulators]);
    command.env("LUKASA_SIM_SECONDS", args.seconds.to_string());
    if let Some(seed) = args.seed {
        command.env("LUKASA_SIM_SEED", seed.to_string());
    }
    cargo::run(&mut command)
}
