//! The TypeScript client: its types against the description of the routes, compiled, and run against a daemon.
//!
//! What its package needs is installed beside it, as its lock file says, only when that has changed.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;

use crate::tools::{self, Tools};
use crate::workspace::CargoWorkspace;
use crate::{cargo, docs};

/// What to do with the client.
#[derive(clap::Args)]
pub(crate) struct SdkArgs {
    /// Only make its types anew from docs/reference/openapi.json
    #[arg(long)]
    types: bool,
}

/// Installs what is missing, and makes the types or runs everything.
pub(crate) fn run(workspace: &CargoWorkspace, args: &SdkArgs) -> anyhow::Result<()> {
    let tools = tools::prepare(workspace, tools::FOR_TESTS)?;
    if args.types {
        tools::install_package(workspace, &folder(workspace))?;
        return cargo::run(npm(workspace, &tools).args(["run", "types"]));
    }
    check(workspace, &tools)
}

/// Runs everything with tools that are there already.
pub(crate) fn check(workspace: &CargoWorkspace, tools: &Tools) -> anyhow::Result<()> {
    tools::install_package(workspace, &folder(workspace))?;
    let program = docs::build_program(workspace)?;
    cargo::run(npm(workspace, tools).args(["run", "types:check"]))
        .context("the types are not those of the description: run `cargo xtask sdk --types`")?;
    cargo::run(npm(workspace, tools).arg("test").env("LUKASA_PROGRAM", program))?;
    // The page is no package of its own; the compiler is the same.
    let page = workspace.root.join("crates/server/ui.tsconfig.json");
    cargo::run(npm(workspace, tools).args(["exec", "--", "tsc", "-p"]).arg(page))
        .context("the types of the page are wrong")
}

fn folder(workspace: &CargoWorkspace) -> PathBuf {
    workspace.root.join("sdks/typescript")
}

fn npm(workspace: &CargoWorkspace, tools: &Tools) -> Command {
    let mut npm = tools.npm_command();
    npm.current_dir(folder(workspace)).arg("--silent");
    npm
}
