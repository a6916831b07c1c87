//! The TypeScript client: compares its types with the API description, compiles it and tests it against a daemon.
//!
//! Its dependencies are installed when its lock file has changed.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;

use crate::tools::{self, Tools};
use crate::workspace::CargoWorkspace;
use crate::{cargo, docs};

/// The arguments of `cargo xtask sdk`.
#[derive(clap::Args)]
pub(crate) struct SdkArgs {
    /// Only generate its types from docs/reference/openapi.json
    #[arg(long)]
    types: bool,
}

/// Installs the tools, and generates the types or runs everything.
pub(crate) fn run(workspace: &CargoWorkspace, args: &SdkArgs) -> anyhow::Result<()> {
    let tools = tools::prepare(workspace, tools::FOR_TESTS)?;
    if args.types {
        tools::install_package(workspace, &folder(workspace))?;
        return cargo::run(npm(workspace, &tools).args(["run", "types"]));
    }
    check(workspace, &tools)
}

/// Runs everything with tools that are already installed.
pub(crate) fn check(workspace: &CargoWorkspace, tools: &Tools) -> anyhow::Result<()> {
    tools::install_package(workspace, &folder(workspace))?;
    let program = docs::build_program(workspace)?;
    cargo::run(npm(workspace, tools).args(["run", "types:check"]))
        .context("the types differ from the API description: run `cargo xtask sdk --types`")?;
    cargo::run(npm(workspace, tools).arg("test").env("LUKASA_PROGRAM", program))?;
    // The page has no package of its own, so it uses the compiler of the client.
    let page = workspace.root.join("crates/server/ui.tsconfig.json");
    cargo::run(npm(workspace, tools).args(["exec", "--", "tsc", "-p"]).arg(page))
        .context("the page does not compile")
}

fn folder(workspace: &CargoWorkspace) -> PathBuf {
    workspace.root.join("sdks/typescript")
}

fn npm(workspace: &CargoWorkspace, tools: &Tools) -> Command {
    let mut npm = tools.npm_command();
    npm.current_dir(folder(workspace)).arg("--silent");
    npm
}
