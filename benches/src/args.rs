//! The command line of the benches, and the settings that every measurement receives.
//!
//! `cargo xtask bench` passes the paths of Node, Python and npm packages through environment variables. Two hidden
//! options turn this program into a minimal server that other measurements compare with.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Measure Lukasa against bare files, bare pipes and other memories
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Measure only this; may be given more than once
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<Subject>,

    /// Keep the measured files below DIR, which decides the disk [default: below `target`]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,

    /// Number of passes; the compared sides take turns pass by pass
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) passes: u16,

    /// Seconds of load; tasks follow in proportion, 10,000 after a minute
    #[arg(long, default_value_t = 60, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) seconds: u64,

    /// Write the figures as JSON to FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Write the tables as Markdown to FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,

    /// End with an error when a target is missed
    #[arg(long)]
    pub(crate) strict: bool,

    /// The `lukasa` to serve [default: the one beside this program]
    #[arg(long, value_name = "FILE")]
    pub(crate) lukasa: Option<PathBuf>,

    /// Node, for npm's server-memory and Qwen Code
    #[arg(long, value_name = "FILE", env = "LUKASA_TEST_NODE")]
    pub(crate) node: Option<PathBuf>,

    /// The folder of npm packages that holds @modelcontextprotocol/server-memory and @qwen-code/qwen-code
    #[arg(long, value_name = "DIR", env = "LUKASA_TEST_NODE_MODULES")]
    pub(crate) node_modules: Option<PathBuf>,

    /// The program basic-memory of the Python package of that name
    #[arg(long, value_name = "FILE", env = "LUKASA_TEST_BASIC_MEMORY")]
    pub(crate) basic_memory: Option<PathBuf>,

    /// A Python that has the package anthropic
    #[arg(long, value_name = "FILE", env = "LUKASA_TEST_PYTHON")]
    pub(crate) python: Option<PathBuf>,

    /// The folder of questions and answers for `recall-found`; nothing is downloaded
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    /// The file of a sentence encoder; `recall-found` then measures with it and without it
    #[arg(long, value_name = "FILE")]
    pub(crate) encoder: Option<PathBuf>,

    /// The sets of facts that `start` plays, folders of `benches/start` [default: all]
    #[arg(long, value_name = "NAME")]
    pub(crate) set: Vec<String>,

    /// Write the rankings of `recall-found` to FILE, for another program to score
    #[arg(long, value_name = "FILE")]
    pub(crate) ranked: Option<PathBuf>,

    /// Write the features of all candidates of `recall-found` to FILE, for `scripts/learn`
    #[arg(long, value_name = "FILE")]
    pub(crate) features: Option<PathBuf>,

    /// Answer each line on stdin with a text of BYTES bytes, and do nothing else
    #[arg(long, hide = true, value_name = "BYTES")]
    pub(crate) echo: Option<usize>,

    /// Answer each request over HTTP with a text of BYTES bytes, and do nothing else
    #[arg(long, hide = true, value_name = "BYTES")]
    pub(crate) bare_http: Option<usize>,
}

/// A subject that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Subject {
    /// MCP, HTTP, command line and hooks with stores of several sizes, beside other memory servers
    Doors,
    /// The size of the program
    Size,
    /// `lukasa serve`: single reads, events, start, idle
    Daemon,
    /// `lukasa serve` under load; takes minutes, so only when it is named
    Load,
    /// Quality of recall in our own sets and in the data of --data; only when it is named
    RecallFound,
    /// Facts in context, and their cost, in a long session; only when it is named
    Start,
    /// The memory tool of the Python SDK, in its process
    PythonSdk,
    /// The loading of context files by Qwen Code, in its process
    ContextLoader,
}

impl Args {
    pub(crate) fn subjects(&self) -> Vec<Subject> {
        if self.only.is_empty() {
            let all = Subject::value_variants().iter().copied();
            let named = [Subject::Load, Subject::RecallFound, Subject::Start];
            all.filter(|subject| !named.contains(subject)).collect()
        } else {
            self.only.clone()
        }
    }

    /// Returns the path of the `lukasa` to measure; an error if the file is missing.
    pub(crate) fn lukasa(&self) -> anyhow::Result<PathBuf> {
        let lukasa = match &self.lukasa {
            Some(lukasa) => lukasa.clone(),
            None => std::env::current_exe()?.with_file_name("lukasa"),
        };
        anyhow::ensure!(
            lukasa.is_file(),
            "there is no `{}`: run `cargo xtask bench`, which builds it, or give --lukasa",
            lukasa.display()
        );
        // Commands run in other folders.
        Ok(std::fs::canonicalize(lukasa)?)
    }
}

/// The settings of every measurement.
#[derive(Debug)]
pub(crate) struct BenchConfig {
    /// The folder of its files, removed at the end.
    pub(crate) dir: PathBuf,
    /// The number of passes; the compared sides take turns pass by pass.
    pub(crate) passes: usize,
}
