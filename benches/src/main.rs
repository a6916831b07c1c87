//! Measures Quipu against what it stands on and what it stands beside, all within one run.
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

mod measure;

mod report;

mod machine;

mod ground;

mod bare;

mod stdio;

mod writes;

mod reads;

mod growth;

mod context;

mod served;

mod hook;

mod http;

mod daemon;

mod load;

mod recall;

mod rivals;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Parser, ValueEnum};

use crate::machine::Machine;
use crate::report::{Report, Section};

/// Measure Quipu against bare files, bare pipes and other memories
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Measure only this; may be given more than once
    #[arg(long, value_name = "NAME")]
    only: Vec<Subject>,

    /// Keep the measured files below DIR, which decides the disk [default: below `target`]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// How often the sides take turns
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..))]
    passes: u16,

    /// How long the load lasts; tasks follow in proportion, 10,000 after a minute
    #[arg(long, default_value_t = 60, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,

    /// Write the figures as JSON to FILE
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write the tables as Markdown to FILE
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,

    /// End with an error when a target is missed
    #[arg(long)]
    strict: bool,

    /// The `quipu` to serve [default: the one beside this program]
    #[arg(long, value_name = "FILE")]
    quipu: Option<PathBuf>,

    /// Node, for npm's server-memory and Qwen Code
    #[arg(long, value_name = "FILE", env = "QUIPU_TEST_NODE")]
    node: Option<PathBuf>,

    /// The folder of npm packages that holds @modelcontextprotocol/server-memory and @qwen-code/qwen-code
    #[arg(long, value_name = "DIR", env = "QUIPU_TEST_NODE_MODULES")]
    node_modules: Option<PathBuf>,

    /// A Python that has the package anthropic
    #[arg(long, value_name = "FILE", env = "QUIPU_TEST_PYTHON")]
    python: Option<PathBuf>,

    /// The folder of questions and answers for `recall-found`; nothing is downloaded
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Write what `recall-found` ranked to FILE, for another program to score
    #[arg(long, value_name = "FILE")]
    ranked: Option<PathBuf>,

    /// Write the features of what `recall-found` ranked to FILE, for `scripts/learn`
    #[arg(long, value_name = "FILE")]
    features: Option<PathBuf>,

    /// Answer each line on stdin with a text of so many bytes, and do nothing else
    #[arg(long, hide = true, value_name = "BYTES")]
    echo: Option<usize>,

    /// Answer each request over HTTP with a text of so many bytes, and do nothing else
    #[arg(long, hide = true, value_name = "BYTES")]
    bare_http: Option<usize>,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Subject {
    /// Durable writes, in process, against bare ones
    Writes,
    /// Views and listings, in process
    Reads,
    /// What a write costs as memories and history grow
    Growth,
    /// What a model is shown: segments, context files with imports
    Context,
    /// `quipu mcp`: calls, start, memory, size
    Served,
    /// `quipu hook`: what it adds to a turn
    Hook,
    /// `quipu serve`: reads, tasks, events, start, idle
    Daemon,
    /// `quipu serve` under load; takes minutes, so only when it is named
    Load,
    /// How long recall takes, in process
    Recall,
    /// What recall finds in our own sets and in the data of --data; only when it is named
    RecallFound,
    /// npm's server-memory through the same client
    ServerMemory,
    /// The memory tool of the Python SDK, in process there
    PythonSdk,
    /// How Qwen Code gathers context files, in process there
    ContextLoader,
}

impl Subject {
    fn measure(self, args: &Args, bench: &Bench) -> anyhow::Result<Section> {
        match self {
            Self::Writes => writes::measure(bench),
            Self::Reads => reads::measure(bench),
            Self::Growth => growth::measure(bench),
            Self::Context => context::measure(bench),
            Self::Served => served::measure(bench, &args.quipu()?),
            Self::Hook => hook::measure(bench, &args.quipu()?),
            Self::Daemon => daemon::measure(bench, &args.quipu()?),
            Self::Load => load::measure(bench, &args.quipu()?, Duration::from_secs(args.seconds)),
            Self::Recall => recall::speed(bench),
            Self::RecallFound => {
                let outputs =
                    recall::Outputs::create(args.ranked.as_deref(), args.features.as_deref())?;
                recall::quality(args.data.as_deref(), outputs)
            }
            Self::ServerMemory => rivals::server_memory::measure(bench, args),
            Self::PythonSdk => rivals::python_sdk::measure(bench, args),
            Self::ContextLoader => rivals::context_loader::measure(bench, args),
        }
    }
}

impl Args {
    fn subjects(&self) -> Vec<Subject> {
        if self.only.is_empty() {
            let all = Subject::value_variants().iter().copied();
            let named = [Subject::Load, Subject::RecallFound];
            all.filter(|subject| !named.contains(subject)).collect()
        } else {
            self.only.clone()
        }
    }

    /// Returns the program to serve.
    fn quipu(&self) -> anyhow::Result<PathBuf> {
        let quipu = match &self.quipu {
            Some(quipu) => quipu.clone(),
            None => std::env::current_exe()?.with_file_name("quipu"),
        };
        anyhow::ensure!(
            quipu.is_file(),
            "there is no `{}`: run `cargo xtask bench`, which builds it, or give --quipu",
            quipu.display()
        );
        Ok(quipu)
    }
}

/// What every measurement is given.
#[derive(Debug)]
pub(crate) struct Bench {
    /// Where its files lie; removed in the end.
    pub(crate) dir: PathBuf,
    /// How often the sides take turns.
    pub(crate) passes: usize,
}

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
    let ground = tempfile::Builder::new().prefix("quipu-bench-").tempdir_in(&folder)?;
    let bench = Bench { dir: ground.path().to_owned(), passes: usize::from(args.passes) };
    let mut machine = Machine::look(ground.path())?;
    let mut sections = Vec::new();
    for subject in args.subjects() {
        let section = subject.measure(args, &bench).with_context(|| {
            let value = subject.to_possible_value();
            format!("cannot measure {}", value.as_ref().map_or("", |value| value.get_name()))
        })?;
        // Shown as it comes: the whole takes minutes.
        writeln!(std::io::stdout(), "{}", section.markdown())?;
        sections.push(section);
    }
    machine.look_at_load();
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
