//! Measures Lukasa, and compares it with bare file operations, bare servers and other memory programs.
//!
//! Compared programs take turns within one run, pass by pass, so noise of the machine affects both. Read the ratio of
//! two rows of one run rather than a time alone. The tables show each target beside its measured value.
//! `cargo xtask bench` installs the other programs, builds for release and runs this one. Results are in
//! `docs/PERFORMANCE.md`.
//!
//! The benches do not judge a change. A missed target ends the run with an error only with `--strict`, because a busy
//! machine misses some targets.

#![expect(
    clippy::disallowed_methods,
    reason = "measurements read the clock, and the baseline writes files without the store"
)]

mod args;

mod measure;

mod encoder;

mod report;

mod machine;

mod fixture;

mod baseline;

mod stdio;

mod texts;

mod doors;

mod size;

mod http;

mod daemon;

mod load;

mod recall;

mod context_tree;

mod rivals;

mod start;

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
        // Beside the program, so that the files are on the same disk as the build.
        None => std::env::current_exe()?
            .parent()
            .context("the path of this program has no folder")?
            .to_owned(),
    };
    let temp_dir = tempfile::Builder::new().prefix("lukasa-bench-").tempdir_in(&folder)?;
    let bench = BenchConfig { dir: temp_dir.path().to_owned(), passes: usize::from(args.passes) };
    let mut machine = Machine::detect(temp_dir.path())?;
    let mut sections = Vec::new();
    for subject in args.subjects() {
        // Each section is printed when it is ready, because a whole run takes minutes.
        let mut add = |section: Section| {
            writeln!(std::io::stdout(), "{}", section.markdown())?;
            sections.push(section);
            Ok(())
        };
        measure(subject, args, &bench, &mut add).with_context(|| {
            let value = subject.to_possible_value();
            format!("cannot measure {}", value.as_ref().map_or("", |value| value.get_name()))
        })?;
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

/// Receives the sections of a subject, in order.
type AddSection<'a> = &'a mut dyn FnMut(Section) -> anyhow::Result<()>;

fn measure(
    subject: Subject,
    args: &Args,
    bench: &BenchConfig,
    add: AddSection<'_>,
) -> anyhow::Result<()> {
    let section = match subject {
        Subject::Doors => return doors::measure(bench, args, add),
        Subject::Size => size::measure(&args.lukasa()?),
        Subject::Daemon => daemon::measure(bench, &args.lukasa()?),
        Subject::Load => load::measure(bench, &args.lukasa()?, Duration::from_secs(args.seconds)),
        Subject::RecallFound => {
            let outputs =
                recall::Outputs::create(args.ranked.as_deref(), args.features.as_deref())?;
            recall::quality(args.data.as_deref(), args.encoder.as_deref(), outputs)
        }
        Subject::Start => start::measure(bench, &args.lukasa()?, &args.set),
        Subject::PythonSdk => rivals::python_sdk::measure(bench, args),
        Subject::ContextLoader => rivals::context_loader::measure(bench, args),
    };
    add(section?)
}
