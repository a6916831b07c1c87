//! The `lukasa` program: memories on the command line, and servers for agents.
//!
//! Parses the command line, runs one command, and converts its result to an exit status. The commands are in
//! [`commands`], exit statuses and errors in [`exit`], printing in [`render`].

mod app;
mod args;
mod commands;
mod complete;
mod daemon;
#[cfg(feature = "cluster")]
mod database;
mod exit;
mod files;
mod hooks;
mod install;
mod interrupt;
mod os;
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

fn main() -> ExitCode {
    if let Some(status) = complete::answer() {
        return status.into();
    }
    let cli = match parse_args() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let Some(command) = cli.command else {
        let output = Output::new(&cli.globals);
        return report_and_exit(&output, overview(&output));
    };
    // Before logging is set up: an agent reads only the answer, and waits for it in every turn.
    if let Command::Hook(args) = command {
        return hooks::run(cli.globals, args).into();
    }
    let output = Output::new(&cli.globals);
    // Before logging is set up as well: git calls it for each memory of a merge.
    if let Command::MergeDriver(args) = command {
        return match commands::merge_driver::run(&output, &args) {
            Ok(status) => status.into(),
            Err(failure) => {
                output.failure(&failure);
                commands::merge_driver::MERGE_FAILED.into()
            }
        };
    }
    log(&cli.globals, &output, matches!(command, Command::Serve(_)));
    let ended = match command {
        // These commands need neither settings nor memories.
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

/// Parses the command line.
fn parse_args() -> Result<Cli, clap::Error> {
    let mut grammar = args::grammar(app::raw_args());
    let matches = grammar.try_get_matches_from_mut(app::raw_args())?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut grammar))
}

/// Prints first steps and the names of the commands. With `--json` a missing command is an error.
fn overview(output: &Output) -> Result<Status, Failure> {
    if output.json {
        return Err(Failure::usage("`--json` needs a command, and none was given")
            .help("run `lukasa help` for a list of commands"));
    }
    let heading = if output.style.color { render::STRONG } else { anstyle::Style::new() };
    output.text(&args::overview(heading))?;
    Ok(Status::Done)
}

/// Sets up logging to stderr: warnings, and more with `-v`. With `--json` stderr holds only the error, except for a
/// daemon: it logs one JSON object per line, for the program that supervises it.
fn log(globals: &Globals, output: &Output, is_daemon: bool) {
    let level = match globals.verbose {
        0 if globals.json && !is_daemon => LevelFilter::OFF,
        0 if globals.quiet => LevelFilter::ERROR,
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    };
    // At lower levels the protocol library logs whole requests, including memories.
    let quiet = level.min(LevelFilter::WARN);
    let targets = Targets::new().with_default(level).with_targets([
        ("rmcp", quiet),
        // The client gets these warnings as well.
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

/// Prints help to stdout and parse errors to stderr, as JSON with `--json`.
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
        // Some agents stop if the exit status of a hook is not 0.
        return hooks::report_invalid_args(error).into();
    }
    if app::raw_args().nth(1).is_some_and(|word| word == "merge-driver") {
        // The status of a usage error would mean a merge with conflicts.
        return match error.print() {
            Ok(()) | Err(_) => commands::merge_driver::MERGE_FAILED.into(),
        };
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

/// Runs the demo, which uses its own home and not that of the user.
fn demo(output: &Output, args: &args::Demo) -> Result<Status, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(commands::demo::run(output, args));
    // After Ctrl-C the demo may still wait for a process that is gone.
    runtime.shutdown_background();
    ended
}

fn with_memories(app: &App, command: Command) -> ExitCode {
    let mut runtime = match command {
        // A task that computes must not delay requests.
        Command::Serve(_) => tokio::runtime::Builder::new_multi_thread(),
        // A task that computes must not keep this process alive when the client is gone.
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
    // A thread may still be blocked in a read of stdin.
    runtime.shutdown_background();
    report_and_exit(&app.output, ended)
}

#[cfg(feature = "child")]
fn acp_runtime() -> tokio::runtime::Builder {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    // One thread reads while the other works.
    runtime.worker_threads(2);
    runtime
}

/// Runs a command until it ends or a signal arrives. A write that has begun is finished first, so that no reader
/// sees a part of it. A second signal ends at once; the next writer recovers the write.
async fn run(app: &App, command: Command) -> Result<Status, Failure> {
    let command = match command {
        // These handle signals themselves: they answer requests in flight first.
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
