//! Requests to a real daemon, made up from its own description.
//!
//! Done by a test of `cli` with a tool that nobody here wrote; here is only how many there are.

use crate::workspace::CargoWorkspace;
use crate::{cargo, tools};

/// How many requests.
#[derive(clap::Args)]
pub(crate) struct ApiArgs {
    /// How many requests to make up for each operation
    #[arg(long, default_value_t = 500)]
    pub(crate) examples: u32,
}

/// Installs what is needed, and asks.
pub(crate) fn run(workspace: &CargoWorkspace, args: &ApiArgs) -> anyhow::Result<()> {
    let tools = tools::prepare(workspace, tools::FOR_TESTS)?;
    let mut command = tools.cargo_command();
    command.current_dir(&workspace.root);
    // The whole workspace, filtered: `-p` would choose other features and build everything again.
    command.args(["nextest", "run", "--workspace", "--profile", "sim"]);
    command.args(["-E", "binary_id(lukasa::it) & test(/^daemon::described::/)"]);
    command.env("LUKASA_API_EXAMPLES", args.examples.to_string());
    cargo::run(&mut command)
}
