//! Requests to a real daemon, generated from its API description.
//!
//! A test of `cli` runs schemathesis, a tool of other authors. This command only sets the number of requests.

use crate::workspace::CargoWorkspace;
use crate::{cargo, tools};

/// The arguments of `cargo xtask api`.
#[derive(clap::Args)]
pub(crate) struct ApiArgs {
    /// Number of requests to generate for each operation
    #[arg(long, default_value_t = 500)]
    pub(crate) examples: u32,
}

/// Installs the tools and runs the test.
pub(crate) fn run(workspace: &CargoWorkspace, args: &ApiArgs) -> anyhow::Result<()> {
    let tools = tools::prepare(workspace, tools::FOR_TESTS)?;
    let mut command = tools.cargo_command();
    command.current_dir(&workspace.root);
    // The whole workspace, filtered: `-p` would choose other features and build everything again.
    command.args(["nextest", "run", "--workspace", "--profile", "sim"]);
    command.args(["-E", "binary_id(lukasa::it) & test(/^daemon::openapi_contract::/)"]);
    command.env("LUKASA_API_EXAMPLES", args.examples.to_string());
    cargo::run(&mut command)
}
