//! Measures Lukasa against what it stands on and what it stands beside, all within one run.
//!
//! Whatever is compared takes turns, pass by pass, so that noise of the machine hits both sides: a
//! ratio between two lines of one run says something, a figure alone says little. Every target of
//! the project stands beside what was measured. `cargo xtask bench` installs the other memories,
//! builds for release and runs this.
//!
//! Not done here: judging a change. A target that is missed ends the run with an error only when
//! `--strict` asks for it, because a busy machine misses some.

#![expect(
    clippy::disallowed_methods,
    reason = "a stopwatch reads the clock, a yardstick writes files without the store"
)]

mod args;

mod measure;

mod report;

mod machine;

mod fixture;

mod baseline;

mod stdio;

mod writes;

mod reads;

mod growth;

mod context;

mod mcp_process;

mod hook;

mod http;

mod daemon;

mod load;

mod recall;

mod rivals;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Parser as _, ValueEnum as _};

use crate::args::{Args, BenchConfig, Subject};
use crate::machine::Machine;
use crate::report::{Report, Section};

fn main() -> ExitCode {
    let args = Args::parse();
    let ended = match (args.echo, args.bare_http) {
        (Some(bytes), _) => stdio::echo(bytes).map(|()| ExitCode::SUCCESS),
        (None, Some(bytes)) => http::serve_bare(bytes).map(|()| ExitCode::SUCCESS),
        (None, None) => run(&args),
    };
    ended.unwrap_or_else(|error| {
        drop(writeln!(std::io::stderr(), "error: {error:#}"));
        ExitCode::FAILURE
    })
}

fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let folder = match &args.dir {
        Some(dir) => dir.clone(),
        // Beside the build: the disk that the program lies on.
        None => std::env::current_exe()?.parent().context("this program lies nowhere")?.to_owned(),
    };
    let ground = tempfile::Builder::new().prefix("lukasa-bench-").tempdir_in(&folder)?;
    let bench = BenchConfig { dir: ground.path().to_owned(), passes: usize::from(args.passes) };
    let mut machine = Machine::detect(ground.path())?;
    let mut sections = Vec::new();
    for subject in args.subjects() {
        let section = measure(subject, args, &bench).with_context(|| {
            let value = subject.to_possible_value();
            format!("cannot measure {}", value.as_ref().map_or("", |value| value.get_name()))
        })?;
        // Shown as it comes: the whole takes minutes.
        writeln!(std::io::stdout(), "{}", section.markdown())?;
        sections.push(section);
    }
    machine.record_load();
    let report = Report { machine, sections };
    writeln!(std::io::stdout(), "{}", report.machine)?;
    if let Some(file) = &args.json {
        std::fs::write(file, format!("{:#}\n", report.json()))?;
    }
    if let Some(file) = &args.markdown {
        std::fs::write(file, report.markdown())?;
    }
    let missed = report.missed();
    if args.strict && !missed.is_empty() {
        anyhow::bail!("targets were missed: {}", missed.join("; "));
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(subject: Subject, args: &Args, bench: &BenchConfig) -> anyhow::Result<Section> {
    match subject {
        Subject::Writes => writes::measure(bench),
        Subject::Reads => reads::measure(bench),
        Subject::Growth => growth::measure(bench),
        Subject::Context => context::measure(bench),
        Subject::Served => mcp_process::measure(bench, &args.lukasa()?),
        Subject::Hook => hook::measure(bench, &args.lukasa()?),
        Subject::Daemon => daemon::measure(bench, &args.lukasa()?),
        Subject::Load => load::measure(bench, &args.lukasa()?, Duration::from_secs(args.seconds)),
        Subject::Recall => recall::speed(bench),
        Subject::RecallFound => {
            let outputs =
                recall::Outputs::create(args.ranked.as_deref(), args.features.as_deref())?;
            recall::quality(args.data.as_deref(), outputs)
        }
        Subject::ServerMemory => rivals::server_memory::measure(bench, args),
        Subject::PythonSdk => rivals::python_sdk::measure(bench, args),
        Subject::ContextLoader => rivals::context_loader::measure(bench, args),
    }
}
