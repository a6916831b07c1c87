//! `lukasa`: memories at the command line, and served to agents.
//!
//! Reads the command line, runs one command, and turns its end into an exit status. What commands do
//! is in [`commands`], how they end in [`exit`], what is printed in [`render`].

mod app;
mod args;
mod commands;
mod complete;
mod daemon;
mod exit;
mod files;
mod hooks;
mod install;
mod interrupt;
mod render;
mod service;
mod task_client;

use std::process::ExitCode;

use clap::FromArgMatches;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::app::App;
use crate::args::{Cli, Command, Globals};
use crate::exit::{Failure, Status};
use crate::render::Output;

/// Gives back to the system what is free. That of glibc keeps most of what a task took for good: each of its threads
/// has an arena, and what is freed in the middle of one stays resident.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    if let Some(answered) = complete::answer() {
        return answered.into();
    }
    let cli = match parse_args() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let Some(command) = cli.command else {
        let output = Output::new(&cli.globals);
        return report_and_exit(&output, overview(&output));
    };
    // An agent is told nothing but the answer, and kept waiting for as little as can be.
    if let Command::Hook(args) = command {
        return hooks::run(cli.globals, args).into();
    }
    let output = Output::new(&cli.globals);
    log(&cli.globals, &output, matches!(command, Command::Serve(_)));
    let ended = match command {
        // These tell about the program itself and need neither settings nor memories.
        Command::Completions(args) => commands::shell::completions(&args),
        Command::Man(args) => commands::shell::man(&output, &args),
        Command::Reference(args) => commands::reference::run(&output, &args),
        Command::Demo(args) => demo(&output, &args),
        command => match App::compose(cli.globals, output) {
            Ok(app) => return with_memories(&app, command),
            Err((output, failure)) => return report_and_exit(&output, Err(failure)),
        },
    };
    report_and_exit(&output, ended)
}

/// Reads the command line.
fn parse_args() -> Result<Cli, clap::Error> {
    let mut grammar = args::grammar(app::raw_args());
    let matches = grammar.try_get_matches_from_mut(app::raw_args())?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut grammar))
}

/// Shows how to start and which commands there are. A program that wants JSON forgot the command.
fn overview(output: &Output) -> Result<Status, Failure> {
    if output.json {
        return Err(Failure::usage("`--json` needs a command, and none was given")
            .help("`lukasa help` lists the commands"));
    }
    let heading = if output.style.color { render::STRONG } else { anstyle::Style::new() };
    output.text(&args::overview(heading))?;
    Ok(Status::Done)
}

/// Prints what the library notices to stderr: warnings, and more with `-v`. With `--json` that stream holds
/// the error alone; but a daemon logs there, one JSON object a line, for the program that supervises it.
fn log(globals: &Globals, output: &Output, is_daemon: bool) {
    let level = match globals.verbose {
        0 if globals.json && !is_daemon => LevelFilter::OFF,
        0 if globals.quiet => LevelFilter::ERROR,
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    };
    // Below this the protocol library logs whole requests, and memories with them.
    let quiet = level.min(LevelFilter::WARN);
    let targets = Targets::new().with_default(level).with_targets([
        ("rmcp", quiet),
        // What it warns of is told to the client too.
        ("agent_client_protocol", level.min(LevelFilter::ERROR)),
    ]);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    let lines = if globals.json && is_daemon {
        lines.json().flatten_event(true).with_span_list(false).with_filter(targets).boxed()
    } else {
        lines.with_ansi(output.note_style.color).without_time().with_filter(targets).boxed()
    };
    tracing_subscriber::registry().with(lines).init();
}

/// Prints help to stdout and complaints to stderr, as JSON where that was asked for.
fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        let color = args::color(app::raw_args());
        let output = Output::new(&Globals { color, ..Globals::default() });
        let printed = match args::grouped(error, args::grammar(app::raw_args())) {
            Some(help) if output.style.color => output.text(&help.ansi().to_string()),
            Some(help) => output.text(&help.to_string()),
            None => error.print().map_err(Failure::from),
        };
        return match printed {
            Ok(()) | Err(_) => Status::Done.into(),
        };
    }
    if app::raw_args().nth(1).is_some_and(|word| word == "hook") {
        // To some agents a status that is not 0 is an order to stop.
        return hooks::report_invalid_args(error).into();
    }
    if app::raw_args().any(|word| word == "--json") {
        let output = Output::new(&Globals { json: true, ..Globals::default() });
        let text = error.to_string();
        let what = text.trim().trim_start_matches("error: ");
        return report_and_exit(&output, Err(Failure::usage(what)));
    }
    match error.print() {
        Ok(()) | Err(_) => Status::Usage.into(),
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
    let mut runtime = match command {
        // A curator that thinks keeps nobody waiting.
        Command::Serve(_) => tokio::runtime::Builder::new_multi_thread(),
        // Nor does it keep this process here when the client is gone.
        #[cfg(feature = "child")]
        Command::Acp(_) => acp_runtime(),
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = match runtime.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return report_and_exit(&app.output, Err(error.into())),
    };
    let ended = runtime.block_on(async {
        let ended = Box::pin(run(app, command)).await;
        app.close().await;
        ended
    });
    // A thread may still wait for a line on stdin that nobody will type.
    runtime.shutdown_background();
    report_and_exit(&app.output, ended)
}

#[cfg(feature = "child")]
fn acp_runtime() -> tokio::runtime::Builder {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    // One that reads while the other works.
    runtime.worker_threads(2);
    runtime
}

/// Runs a command until it is done or a signal comes. A write that has begun is finished, so that
/// nobody finds a part of it; a second signal leaves that to whoever writes next.
async fn run(app: &App, command: Command) -> Result<Status, Failure> {
    let command = match command {
        // Ends by the same signals in its own way: requests in flight are answered first.
        Command::Mcp(args) => return commands::mcp::run(app, &args).await,
        #[cfg(feature = "child")]
        Command::Acp(_) => return commands::acp::run(app).await,
        Command::Serve(args) => return commands::serve::run(app, &args).await,
        command => command,
    };
    let mut running = std::pin::pin!(commands::run(app, command));
    let signal = tokio::select! {
        ended = &mut running => return ended,
        signal = app.interrupts.wait_for_signal() => signal,
    };
    if app.interrupts.is_write_pending() {
        tokio::select! {
            ended = &mut running => { ended?; },
            _ = app.interrupts.wait_for_signal() => {},
        }
    }
    Err(Failure::Interrupted(signal))
}

fn report_and_exit(output: &Output, ended: Result<Status, Failure>) -> ExitCode {
    match ended {
        Ok(status) => status.into(),
        Err(failure) => {
            output.failure(&failure);
            failure.status().into()
        }
    }
}
