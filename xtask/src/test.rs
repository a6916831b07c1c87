//! Runs all gates, one after the other: "the tests" of the README, which CI runs too.
//!
//! It installs the tools, stops at the first failure, and prints a table of the gates and their times. The two gates
//! that search until their time is over run in parallel, and so do two that build, and two that start programs.

use std::fmt::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::tools::{self, Tools};
use crate::workspace::CargoWorkspace;
use crate::{book, cargo, deny, deploy, dist, fuzz, sdk, sim, tidy};

/// The duration of each of the two gates that search without end.
const SEARCH_SECONDS: u64 = 60;

/// The arguments of `cargo xtask test`.
#[derive(clap::Args)]
pub(crate) struct TestArgs {
    /// Run this gate alone; may be given more than once
    #[arg(long, value_name = "STEP", conflicts_with = "quick")]
    only: Vec<String>,
    /// Run the gates that take two minutes in all, instead of every gate
    #[arg(long)]
    quick: bool,
    /// Print the gates and run none
    #[arg(long)]
    list: bool,
}

/// One gate.
struct CheckStep {
    name: &'static str,
    description: &'static str,
    run: fn(&CargoWorkspace, &Tools) -> anyhow::Result<()>,
    /// Whether it runs in parallel with the one before.
    runs_in_parallel: bool,
}

/// The name, result and duration of a gate.
type CheckOutcome = (&'static str, anyhow::Result<()>, Duration);

impl CheckStep {
    const fn new(
        name: &'static str,
        about: &'static str,
        run: fn(&CargoWorkspace, &Tools) -> anyhow::Result<()>,
    ) -> Self {
        Self { name, description: about, run, runs_in_parallel: false }
    }

    /// Makes it run in parallel with the one before.
    const fn in_parallel(self) -> Self {
        Self { runs_in_parallel: true, ..self }
    }
}

/// All gates, the quick ones first.
const STEPS: [CheckStep; 14] = [
    CheckStep::new("fmt", "the sources are formatted", fmt),
    CheckStep::new("tidy", "layers, import cycles, names, sizes, links, generated docs", tidy_step),
    // Its files are in a folder of their own, and the last crates of the other build leave a processor idle.
    CheckStep::new("fuzzers", "the fuzz targets build", fuzz::build).in_parallel(),
    CheckStep::new("clippy", "no lint warns", clippy),
    CheckStep::new("doc", "the API documentation builds without a warning", doc),
    CheckStep::new("deny", "licences and sources of dependencies", deny_step),
    CheckStep::new("deploy", "the image and the services against their schemas", deploy::check),
    CheckStep::new(
        "book",
        "the documents as a site: every link, and every document in it",
        book::check,
    ),
    CheckStep::new("test", "unit and integration tests", test),
    CheckStep::new("doctest", "examples in the API documentation", doctest),
    CheckStep::new("sdk", "the clients in TypeScript and Python against the daemon", sdk::check),
    // Both start one program after the other, and wait for it.
    CheckStep::new("dist", "the packages, each in an empty root", dist::check).in_parallel(),
    CheckStep::new("fuzz", "parsers on hostile bytes, a minute in all", fuzz_step),
    CheckStep::new("sim", "the seeded simulator, a minute", sim_step).in_parallel(),
];

/// The gates of `--quick`. The only tool that they need is the test runner.
const QUICK: [CheckStep; 4] = [
    CheckStep::new("fmt", "the sources are formatted", fmt),
    CheckStep::new("tidy", "layers, import cycles, names, sizes, links, generated docs", tidy_step),
    CheckStep::new("clippy", "no lint warns, with all features", clippy_with_all_features),
    CheckStep::new("test", "unit tests, and integration tests that are fast", quick_test),
];

/// Runs the chosen gates.
pub(crate) fn run(workspace: &CargoWorkspace, args: &TestArgs) -> anyhow::Result<()> {
    let chosen = if args.quick { QUICK.iter().collect() } else { choose(&args.only)? };
    if args.list {
        for step in chosen {
            println!("{:8} {}", step.name, step.description);
        }
        return Ok(());
    }
    let required = if args.quick { &[tools::CARGO_NEXTEST][..] } else { tools::FOR_TESTS };
    let tools = tools::prepare(workspace, required)?;
    let start = Instant::now();
    let mut outcomes = Vec::new();
    for steps in chosen.chunk_by(|_, later| later.runs_in_parallel) {
        outcomes.extend(run_in_parallel(steps, workspace, &tools));
        if outcomes.iter().any(|(_, outcome, _)| outcome.is_err()) {
            break;
        }
    }
    println!("\n{}", table(&outcomes, start.elapsed()));
    outcomes
        .into_iter()
        .try_for_each(|(name, outcome, _)| outcome.with_context(|| format!("step `{name}`")))
}

/// Runs steps in parallel.
fn run_in_parallel(
    steps: &[&CheckStep],
    workspace: &CargoWorkspace,
    tools: &Tools,
) -> Vec<CheckOutcome> {
    let timed = |step: &CheckStep| {
        println!("\n== {}: {}", step.name, step.description);
        let start = Instant::now();
        let outcome = (step.run)(workspace, tools);
        (step.name, outcome, start.elapsed())
    };
    thread::scope(|scope| {
        let running: Vec<_> =
            steps.iter().map(|step| (step.name, scope.spawn(|| timed(step)))).collect();
        let panicked = |name| (name, Err(anyhow::anyhow!("it panicked")), Duration::ZERO);
        running
            .into_iter()
            .map(|(name, step)| step.join().unwrap_or_else(|_| panicked(name)))
            .collect()
    })
}

/// Returns the steps of these names, in the usual order; all when none is named.
fn choose(only: &[String]) -> anyhow::Result<Vec<&'static CheckStep>> {
    for name in only {
        let is_known = STEPS.iter().any(|step| step.name == name);
        anyhow::ensure!(is_known, "no step is called `{name}`; `--list` shows them");
    }
    let is_chosen =
        |step: &&CheckStep| only.is_empty() || only.iter().any(|name| step.name == name);
    Ok(STEPS.iter().filter(is_chosen).collect())
}

/// Returns a table of results and times, with the total time.
fn table(outcomes: &[CheckOutcome], all: Duration) -> String {
    let mut table = String::new();
    let mut row = |name: &str, word: &str, time: Duration| {
        // Writing to a string cannot fail.
        let _ = writeln!(table, "{name:8} {word:6} {:>7.1} s", time.as_secs_f64());
    };
    for (name, outcome, time) in outcomes {
        row(name, if outcome.is_ok() { "ok" } else { "FAILED" }, *time);
    }
    row("total", "", all);
    table.trim_end().to_owned()
}

/// Runs cargo in the workspace.
fn run_cargo(workspace: &CargoWorkspace, tools: &Tools, arguments: &[&str]) -> anyhow::Result<()> {
    cargo::run(tools.cargo_command().current_dir(&workspace.root).args(arguments))
}

fn fmt(workspace: &CargoWorkspace, tools: &Tools) -> anyhow::Result<()> {
    run_cargo(workspace, tools, &["fmt", "--all", "--check"])?;
    run_cargo(workspace, tools, &["fmt", "--manifest-path", fuzz::MANIFEST, "--check"])
}

fn tidy_step(workspace: &CargoWorkspace, _: &Tools) -> anyhow::Result<()> {
    tidy::run(workspace, &tidy::TidyArgs::default())
}

/// Runs clippy twice, since some code is only compiled when a feature is off.
fn clippy(workspace: &CargoWorkspace, tools: &Tools) -> anyhow::Result<()> {
    clippy_with_all_features(workspace, tools)?;
    let without_tables = ["clippy", "--package", "lukasa-cli", "--no-default-features"];
    run_cargo(workspace, tools, &[&without_tables[..], &["--", "-D", "warnings"]].concat())
}

fn clippy_with_all_features(workspace: &CargoWorkspace, tools: &Tools) -> anyhow::Result<()> {
    let all = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    run_cargo(workspace, tools, &all)
}

fn doc(workspace: &CargoWorkspace, tools: &Tools) -> anyhow::Result<()> {
    let mut command = tools.cargo_command();
    command.current_dir(&workspace.root).env("RUSTDOCFLAGS", "-D warnings");
    cargo::run(command.args(["doc", "--workspace", "--no-deps"]))
}

fn deny_step(workspace: &CargoWorkspace, tools: &Tools) -> anyhow::Result<()> {
    deny::check(workspace, tools, &[])
}

fn test(workspace: &CargoWorkspace, tools: &Tools) -> anyhow::Result<()> {
    run_cargo(workspace, tools, &["nextest", "run", "--workspace"])?;
    let without_tables = ["nextest", "run", "--package", "lukasa-recall", "--no-default-features"];
    run_cargo(workspace, tools, &without_tables)
}

/// Runs the tests that the profile `quick` of `.config/nextest.toml` selects.
fn quick_test(workspace: &CargoWorkspace, tools: &Tools) -> anyhow::Result<()> {
    // The whole workspace, filtered: `-p` would choose other features and build everything again.
    run_cargo(workspace, tools, &["nextest", "run", "--workspace", "--profile", "quick"])
}

fn doctest(workspace: &CargoWorkspace, tools: &Tools) -> anyhow::Result<()> {
    run_cargo(workspace, tools, &["test", "--doc", "--workspace"])
}

fn fuzz_step(workspace: &CargoWorkspace, tools: &Tools) -> anyhow::Result<()> {
    fuzz::search(workspace, tools, &fuzz::targets(workspace)?, SEARCH_SECONDS)
}

fn sim_step(workspace: &CargoWorkspace, tools: &Tools) -> anyhow::Result<()> {
    sim::simulate(workspace, tools, &sim::SimArgs { seconds: SEARCH_SECONDS, seed: None })
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    fn names(only: &[&str]) -> Result<Vec<&'static str>, String> {
        let only: Vec<String> = only.iter().map(ToString::to_string).collect();
        match choose(&only) {
            Ok(steps) => Ok(steps.iter().map(|step| step.name).collect()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn steps_run_in_the_usual_order_for_any_order_of_names() {
        assert_eq!(names(&[]).unwrap(), STEPS.map(|step| step.name));
        assert_eq!(names(&["doc", "fmt"]).unwrap(), ["fmt", "doc"]);
        assert_eq!(QUICK.map(|step| step.name), ["fmt", "tidy", "clippy", "test"]);
        assert_eq!(
            names(&["fmt", "tests"]).unwrap_err(),
            "no step is called `tests`; `--list` shows them"
        );
    }

    #[test]
    fn the_table_shows_every_step_and_the_total_time() {
        let outcomes = [
            ("fmt", Ok(()), Duration::from_millis(340)),
            ("clippy", Err(anyhow::anyhow!("a lint complains")), Duration::from_secs(61)),
        ];
        insta::assert_snapshot!(table(&outcomes, Duration::from_secs(62)), @r"
        fmt      ok         0.3 s
        clippy   FAILED    61.0 s
        total              62.0 s
        ");
    }

    #[test]
    fn parallel_steps_both_run_when_one_fails() {
        static BOTH: Barrier = Barrier::new(2);
        /// Ends when the other step has started; one of the two fails.
        fn meet(_: &CargoWorkspace, _: &Tools) -> anyhow::Result<()> {
            anyhow::ensure!(!BOTH.wait().is_leader(), "found something");
            Ok(())
        }
        let steps =
            [CheckStep::new("fuzz", "", meet), CheckStep::new("sim", "", meet).in_parallel()];
        let workspace = CargoWorkspace::load().unwrap();
        let outcomes = run_in_parallel(&[&steps[0], &steps[1]], &workspace, &Tools::default());
        let names: Vec<_> = outcomes.iter().map(|(name, _, _)| *name).collect();
        assert_eq!(names, ["fuzz", "sim"]);
        assert_eq!(outcomes.iter().filter(|(_, outcome, _)| outcome.is_err()).count(), 1);
    }
}
