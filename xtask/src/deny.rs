//! Dependencies: licences, sources and duplicate versions, as `deny.toml` allows them.
//!
//! Security advisories are checked only on demand: their list comes from a git host, which a build machine may not
//! reach.

use crate::workspace::CargoWorkspace;
use crate::{cargo, tools};

/// The arguments of `cargo xtask deny`.
#[derive(clap::Args)]
pub(crate) struct DenyArgs {
    /// Also fetch the list of security advisories and compare
    #[arg(long)]
    advisories: bool,
}

/// Checks all dependencies.
pub(crate) fn run(workspace: &CargoWorkspace, args: &DenyArgs) -> anyhow::Result<()> {
    let tools = tools::prepare(workspace, &[tools::CARGO_DENY])?;
    check(workspace, &tools, if args.advisories { &["advisories"] } else { &[] })
}

/// Checks licences, sources and versions, with tools that are already installed.
pub(crate) fn check(
    workspace: &CargoWorkspace,
    tools: &tools::Tools,
    more: &[&str],
) -> anyhow::Result<()> {
    let mut command = tools.cargo_command();
    command.current_dir(&workspace.root);
    command.args(["deny", "--workspace", "--locked", "check", "licenses", "bans", "sources"]);
    cargo::run(command.args(more))
}
