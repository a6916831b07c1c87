//! Every gate, one after the other: what the README calls "the tests", and what CI runs.
//!
//! Installs what is needed, stops at the first failure, and ends with a table of what was run and how
//! long it took.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::tools::{self, Tools};
use crate::workspace::Workspace;
use crate::{cargo, deny, fuzz, sdk, sim, tidy};

/// How long each of the two endless gates looks for trouble.
const SEARCH_SECONDS: u64 = 60;

/// Which gates to run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run this gate alone; may be given more than once
    #[arg(long, value_name = "STEP")]
    only: Vec<String>,
    /// Print the gates and run none
    #[arg(long)]
    list: bool,
}

/// One gate.
struct Step {
    name: &'static str,
    about: &'static str,
    run: fn(&Workspace, &Tools) -> anyhow::Result<()>,
}

/// All gates, the quick ones first.
const STEPS: [Step; 10] = [
    Step { name: "fmt", about: "the sources are formatted", run: fmt },
    Step { name: "tidy", about: "layers, names, sizes, links, generated docs", run: tidy_step },
    Step { name: "clippy", about: "no lint complains", run: clippy },
    Step { name: "doc", about: "the API documentation builds without a warning", run: doc },
    Step { name: "deny", about: "licences and sources of dependencies", run: deny_step },
    Step { name: "test", about: "unit and integration tests", run: test },
    Step { name: "doctest", about: "examples in the API documentation", run: doctest },
    Step { name: "sdk", about: "the TypeScript client against the daemon", run: sdk::check },
    Step { name: "fuzz", about: "hostile bytes into the parsers, a minute in all", run: fuzz_step },
    Step { name: "sim", about: "the seeded simulator, a minute", run: sim_step },
];

/// Runs the gates that are asked for.
pub(crate) fn run(workspace: &Workspace, args: &Args) -> anyhow::Result<()> {
    let chosen = choose(&args.only)?;
    if args.list {
        for step in chosen {
            println!("{:8} {}", step.name, step.about);
        }
        return Ok(());
    }
    let tools = tools::prepare(workspace, tools::FOR_TESTS)?;
    let mut times = Vec::new();
    let mut outcome = Ok(());
    for step in chosen {
        println!("\n== {}: {}", step.name, step.about);
        let start = Instant::now();
        outcome = (step.run)(workspace, &tools).with_context(|| format!("step `{}`", step.name));
        times.push((step.name, outcome.is_ok(), start.elapsed()));
        if outcome.is_err() {
            break;
        }
    }
    println!("\n{}", table(&times));
    outcome
}

/// Returns the steps of these names, in the usual order; all when none is named.
fn choose(only: &[String]) -> anyhow::Result<Vec<&'static Step>> {
    for name in only {
        let is_known = STEPS.iter().any(|step| step.name == name);
        anyhow::ensure!(is_known, "no step is called `{name}`; `--list` shows them");
    }
    let is_asked = |step: &&Step| only.is_empty() || only.iter().any(|name| step.name == name);
    Ok(STEPS.iter().filter(is_asked).collect())
}

/// Returns how each step went, with the sum.
fn table(times: &[(&str, bool, Duration)]) -> String {
    let mut table = String::new();
    let mut row = |name: &str, word: &str, time: Duration| {
        // Writing to a string cannot fail.
        let _ = writeln!(table, "{name:8} {word:6} {:>7.1} s", time.as_secs_f64());
    };
    for (name, passed, time) in times {
        row(name, if *passed { "ok" } else { "FAILED" }, *time);
    }
    row("total", "", times.iter().map(|(_, _, time)| time).sum());
    table.trim_end().to_owned()
}

/// Runs cargo in the workspace.
fn run_cargo(workspace: &Workspace, tools: &Tools, arguments: &[&str]) -> anyhow::Result<()> {
    cargo::run(tools.cargo_command().current_dir(&workspace.root).args(arguments))
}

fn fmt(workspace: &Workspace, tools: &Tools) -> anyhow::Result<()> {
    run_cargo(workspace, tools, &["fmt", "--all", "--check"])?;
    run_cargo(workspace, tools, &["fmt", "--manifest-path", fuzz::MANIFEST, "--check"])
}

fn tidy_step(workspace: &Workspace, _: &Tools) -> anyhow::Result<()> {
    tidy::run(workspace, &tidy::Args::default())
}

fn clippy(workspace: &Workspace, tools: &Tools) -> anyhow::Result<()> {
    let arguments = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    run_cargo(workspace, tools, &arguments)
}

fn doc(workspace: &Workspace, tools: &Tools) -> anyhow::Result<()> {
    let mut command = tools.cargo_command();
    command.current_dir(&workspace.root).env("RUSTDOCFLAGS", "-D warnings");
    cargo::run(command.args(["doc", "--workspace", "--no-deps"]))
}

fn deny_step(workspace: &Workspace, tools: &Tools) -> anyhow::Result<()> {
    deny::check(workspace, tools, &[])
}

fn test(workspace: &Workspace, tools: &Tools) -> anyhow::Result<()> {
    run_cargo(workspace, tools, &["nextest", "run", "--workspace"])
}

fn doctest(workspace: &Workspace, tools: &Tools) -> anyhow::Result<()> {
    run_cargo(workspace, tools, &["test", "--doc", "--workspace"])
}

fn fuzz_step(workspace: &Workspace, tools: &Tools) -> anyhow::Result<()> {
    fuzz::search(workspace, tools, &fuzz::targets(workspace)?, SEARCH_SECONDS)
}

fn sim_step(workspace: &Workspace, tools: &Tools) -> anyhow::Result<()> {
    sim::simulate(workspace, tools, &sim::Args { seconds: SEARCH_SECONDS, seed: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(only: &[&str]) -> Result<Vec<&'static str>, String> {
        let only: Vec<String> = only.iter().map(ToString::to_string).collect();
        match choose(&only) {
            Ok(steps) => Ok(steps.iter().map(|step| step.name).collect()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn steps_run_in_the_usual_order_whatever_the_order_of_names() {
        assert_eq!(names(&[]).unwrap(), STEPS.map(|step| step.name));
        assert_eq!(names(&["doc", "fmt"]).unwrap(), ["fmt", "doc"]);
        assert_eq!(
            names(&["fmt", "tests"]).unwrap_err(),
            "no step is called `tests`; `--list` shows them"
        );
    }

    #[test]
    fn the_table_shows_every_step_and_the_sum() {
        let times =
            [("fmt", true, Duration::from_millis(340)), ("clippy", false, Duration::from_secs(61))];
        insta::assert_snapshot!(table(&times), @r"
        fmt      ok         0.3 s
        clippy   FAILED    61.0 s
        total              61.3 s
        ");
    }
}
