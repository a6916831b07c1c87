//! The project's own commands: `cargo xtask test | hosts | tidy | docs | deny | sdk | fuzz | sim | api | bench | model-run | tools`.
//!
//! Whatever a person or CI does to this repository beyond plain cargo is a command here, so that both
//! do the same. It depends on nothing of the product: it reads the sources and runs cargo.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a builder's tool: it reads the checkout, takes times and talks to a terminal"
)]

mod api;
mod bench;
mod cargo;
mod deny;
mod docs;
mod fuzz;
mod hosts;
mod model_run;
mod sdk;
mod sim;
mod test;
mod tidy;
mod tools;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

/// The project's own commands.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version = None)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what tests need, then run every gate, as CI does
    Test(test::Args),
    /// Run every agent host against a scripted model, and write docs/HOSTS.md
    Hosts(hosts::Args),
    /// Check what compilers do not: layers, circles, names, sizes, orphans, links, generated docs
    Tidy(tidy::Args),
    /// Write the references that are generated from the code
    Docs(docs::Args),
    /// Check licences, sources and duplicate versions of dependencies
    Deny(deny::Args),
    /// Compile the TypeScript client, and run its tests against the daemon
    Sdk(sdk::Args),
    /// Feed hostile bytes to the parsers of outside bytes
    Fuzz(fuzz::Args),
    /// Run the seeded simulator
    Sim(sim::Args),
    /// Ask a daemon whatever its description allows, and what it does not
    Api(api::Args),
    /// Build for release and measure
    Bench(bench::Args),
    /// Let a real model work, on a server that you run, and check that nothing is lost
    ModelRun(model_run::Args),
    /// Install the tools of the tests and print their environment, for `eval "$(cargo xtask tools)"`
    Tools,
}

fn main() -> ExitCode {
    match run(Args::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    let workspace = Workspace::load()?;
    match command {
        Command::Test(args) => test::run(&workspace, &args),
        Command::Hosts(args) => hosts::run(&workspace, &args),
        Command::Tidy(args) => tidy::run(&workspace, &args),
        Command::Docs(args) => docs::run(&workspace, &args),
        Command::Deny(args) => deny::run(&workspace, &args),
        Command::Sdk(args) => sdk::run(&workspace, &args),
        Command::Fuzz(args) => fuzz::run(&workspace, &args),
        Command::Sim(args) => sim::run(&workspace, &args),
        Command::Api(args) => api::run(&workspace, &args),
        Command::Bench(args) => bench::run(&workspace, &args),
        Command::ModelRun(args) => model_run::run(&workspace, &args),
        Command::Tools => tools::print_environment(&workspace),
    }
}
