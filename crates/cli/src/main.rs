//! `quipu`: memories at the command line, and served to agents.
//!
//! Reads the command line, runs one command, and turns its end into an exit status. What commands do
//! is in [`commands`], how they end in [`exit`], what is printed in [`render`].

mod args;

mod compose;

mod commands;

mod render;

mod exit;

mod files;

mod interrupt;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};
use crate::compose::App;
use crate::exit::{Failure, Status};
use crate::interrupt::Interrupts;
use crate::render::Output;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let output = Output::new(&cli.globals);
    let ended = match cli.command {
        // These tell about the program itself and need neither settings nor memories.
        Command::Completions(args) => commands::shell::completions(&args),
        Command::Man(args) => commands::shell::man(&output, &args),
        Command::Reference(args) => commands::reference::run(&output, &args),
        Command::Demo(args) => demo(&output, &args),
        command => match App::compose(cli.globals, output) {
            Ok(app) => return with_memories(&app, command),
            Err((output, failure)) => return end(&output, Err(failure)),
        },
    };
    end(&output, ended)
}

/// Prints help to stdout and complaints to stderr.
fn usage(error: &clap::Error) -> ExitCode {
    match error.print() {
        Ok(()) | Err(_) if error.use_stderr() => Status::Usage.into(),
        Ok(()) | Err(_) => Status::Done.into(),
    }
}

/// Plays the demo, which has its own home and leaves the person's alone.
fn demo(output: &Output, args: &args::Demo) -> Result<Status, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(commands::demo::run(output, args));
    // After Ctrl-C the story may still wait for a process that is gone.
    runtime.shutdown_background();
    ended
}

fn with_memories(app: &App, command: Command) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return end(&app.output, Err(error.into())),
    };
    let ended = runtime.block_on(async {
        let ended = run(app, command).await;
        app.close().await;
        ended
    });
    // A thread may still wait for a line on stdin that nobody will type.
    runtime.shutdown_background();
    end(&app.output, ended)
}

/// Runs a command until it is done or a signal comes. Dropping it leaves nothing half-written: the
/// store finishes a write that has begun, and temporary files go with their owners.
async fn run(app: &App, command: Command) -> Result<Status, Failure> {
    let command = match command {
        // Ends by the same signals in its own way: requests in flight are answered first.
        Command::Mcp(args) => return commands::mcp::run(app, &args).await,
        command => command,
    };
    let interrupts = std::sync::Arc::clone(&app.interrupts);
    let mut interrupted = std::pin::pin!(Interrupts::wait(&interrupts));
    tokio::select! {
        ended = commands::run(app, command) => ended,
        signal = &mut interrupted => Err(Failure::Interrupted(signal)),
    }
}

fn end(output: &Output, ended: Result<Status, Failure>) -> ExitCode {
    match ended {
        Ok(status) => status.into(),
        Err(failure) => {
            output.failure(&failure);
            failure.status().into()
        }
    }
}
