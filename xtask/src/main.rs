//! The project's own commands: `cargo xtask test | hosts | tidy | docs | book | deny | deploy | dist | picture | sdk | fuzz | sim | api | bench | model-run | version | tools`.
//!
//! Everything that developers and CI do with this repository beyond plain cargo is a command here, so that both do
//! the same. The package depends on no crate of the product: it reads the sources and runs cargo.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a developer's tool: it reads the checkout, measures times and prints to a terminal"
)]

mod api;
mod bench;
mod book;
mod cargo;
mod deny;
mod deploy;
mod dist;
mod docs;
mod fuzz;
mod hosts;
mod model_run;
mod picture;
mod sdk;
mod sim;
mod test;
mod tidy;
mod tools;
mod version;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::workspace::CargoWorkspace;

/// The project's own commands.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version = None)]
struct Args {
    #[command(subcommand)]
    command: XtaskCommand,
}

#[derive(Subcommand)]
enum XtaskCommand {
    /// Install what tests need, then run every gate, as CI does
    Test(test::TestArgs),
    /// Run every agent host against a scripted model, and write docs/HOSTS.md
    Hosts(hosts::HostsArgs),
    /// Check what compilers do not: layers, import cycles, names, sizes, orphans, links, generated docs
    Tidy(tidy::TidyArgs),
    /// Write the references that are generated from the code
    Docs(docs::DocsArgs),
    /// Build the documents as a site in target/book, and check its links
    Book,
    /// Run the terminal session that the README shows, and write docs/terminal.svg
    Picture,
    /// Check licences, sources and duplicate versions of dependencies
    Deny(deny::DenyArgs),
    /// Check the files in deploy/ against the schemas of Compose and Kubernetes
    Deploy,
    /// Build the release packages, and try each of them in an empty root
    Dist(dist::DistArgs),
    /// Check the clients in TypeScript and Python, and run their tests against the daemon
    Sdk(sdk::SdkArgs),
    /// Run the parsers of untrusted bytes on hostile input
    Fuzz(fuzz::FuzzArgs),
    /// Run the seeded simulator
    Sim(sim::SimArgs),
    /// Send a daemon requests that its API description allows, and others
    Api(api::ApiArgs),
    /// Build for release and measure
    Bench(bench::BenchArgs),
    /// Run Lukasa with a real model on a server that you run, and check that nothing is lost
    ModelRun(model_run::ModelRunArgs),
    /// Write the version of the next release into every file that has it, and into the changelog
    Version(version::VersionArgs),
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

fn run(command: XtaskCommand) -> anyhow::Result<()> {
    let workspace = CargoWorkspace::load()?;
    match command {
        XtaskCommand::Test(args) => test::run(&workspace, &args),
        XtaskCommand::Hosts(args) => hosts::run(&workspace, &args),
        XtaskCommand::Tidy(args) => tidy::run(&workspace, &args),
        XtaskCommand::Picture => picture::run(&workspace),
        XtaskCommand::Docs(args) => docs::run(&workspace, &args),
        XtaskCommand::Book => book::run(&workspace),
        XtaskCommand::Deny(args) => deny::run(&workspace, &args),
        XtaskCommand::Deploy => deploy::run(&workspace),
        XtaskCommand::Dist(args) => dist::run(&workspace, &args),
        XtaskCommand::Sdk(args) => sdk::run(&workspace, &args),
        XtaskCommand::Fuzz(args) => fuzz::run(&workspace, &args),
        XtaskCommand::Sim(args) => sim::run(&workspace, &args),
        XtaskCommand::Api(args) => api::run(&workspace, &args),
        XtaskCommand::Bench(args) => bench::run(&workspace, &args),
        XtaskCommand::ModelRun(args) => model_run::run(&workspace, &args),
        XtaskCommand::Version(args) => version::run(&workspace, &args),
        XtaskCommand::Tools => tools::print_environment(&workspace),
    }
}
