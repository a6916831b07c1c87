//! Agent hosts: installs them, runs each against a scripted model, and writes the results to `docs/HOSTS.md`.
//!
//! The tests in `crates/cli/tests/it/hosts.rs` do the work and write one report for each host. This
//! command only starts them and turns the reports into the document.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use serde::Deserialize;

use crate::cargo;
use crate::tools::{self, FOR_HOSTS, FOR_TESTS};
use crate::workspace::CargoWorkspace;

/// The arguments of `cargo xtask hosts`.
#[derive(clap::Args)]
pub(crate) struct HostsArgs {
    /// Run only hosts whose test has this in its name; of others, the reports of earlier runs count
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

/// The document with the results.
const DOCUMENT: &str = "docs/HOSTS.md";

const INTRODUCTION: &str = "\
# Agent hosts

This page shows what each tested host passes on to its model. `cargo xtask hosts` writes it: it installs each host's npm
package, points the host at a scripted model on loopback, and reads the model's requests.

Each host goes through the same steps:

1. `lukasa install`
2. a run that creates, views and recalls a memory
3. a second run that resumes the first, after a person noted another fact
4. where a run without a person can compact the conversation: a compaction, and a run after it
5. `lukasa uninstall`

These held for every host:

- Each request begins with all of the request before, so the cache of a provider works.
- `install` followed at once by `uninstall` leaves every file byte for byte as it was.
- After the runs, the files that `install` wrote hold no entry of Lukasa.
- Lukasa understood every hook that a host sent.
- A resumed conversation is not given what it wrote itself.

Where a compaction was not tried, its report differs. Codex CLI and opencode start the session again. Copilot CLI and Cursor only announce
it, so the facts come with the next prompt or tool. Gemini CLI announces one before each request and reports none, so nothing is given again.

## Tools

| host | version | tested on | API | `view` arrives | `recall` arrives | refused without a person |
|---|---|---|---|---|---|---|
";

const SECOND_HEAD: &str = "
## Context and hooks

| host | tools offered | server's instructions | facts | a fact noted meanwhile | facts when resumed | facts after a compaction | hooks sent |
|---|---|---|---|---|---|---|---|
";

/// The behavior of one host, as its test observed it.
#[derive(Debug, Deserialize)]
struct HostReport {
    title: String,
    package: String,
    version: String,
    wire: String,
    seen: Observations,
    notes: Vec<String>,
    /// The day of the run.
    #[serde(default)]
    date: String,
}

/// The part of a report that the test compares.
#[derive(Debug, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a column of the document")]
struct Observations {
    view: String,
    recall: String,
    facts: bool,
    searched: bool,
    refused: Vec<String>,
    instructions: bool,
    block: bool,
    recalls: usize,
    repeats: bool,
    compacted: Option<usize>,
    events: Vec<String>,
}

/// Installs the hosts, runs their tests and writes the document.
pub(crate) fn run(workspace: &CargoWorkspace, args: &HostsArgs) -> anyhow::Result<()> {
    let tools = tools::prepare(workspace, &[FOR_TESTS, FOR_HOSTS].concat())?;
    let reports = workspace.target.join("hosts");
    // Reports of an earlier run would look like results of this one.
    if reports.exists() && args.only.is_none() {
        fs::remove_dir_all(&reports)?;
    }
    fs::create_dir_all(&reports)?;
    let mut command = tools.cargo_command();
    command.current_dir(&workspace.root).env("LUKASA_HOSTS_REPORT", &reports);
    // The whole workspace, filtered: `-p` would choose other features and build everything again.
    command.args(["nextest", "run", "--workspace", "--profile", "hosts", "-E"]);
    let filter = args.only.as_ref().map_or_else(String::new, |name| format!(" & test({name})"));
    command.arg(format!("test(/^hosts::/){filter}"));
    cargo::run(&mut command)?;
    fs::write(workspace.root.join(DOCUMENT), document(&read(&reports)?))?;
    println!("written: {DOCUMENT}");
    Ok(())
}

/// Reads all reports, in the order of their titles.
fn read(folder: &Path) -> anyhow::Result<Vec<HostReport>> {
    let mut reports = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let report = serde_json::from_slice(&fs::read(&path)?);
        let report: HostReport =
            report.with_context(|| format!("cannot read {}", path.display()))?;
        let date = cargo::output(Command::new("date").args(["-u", "+%F", "-r"]).arg(&path))?;
        reports.push(HostReport { date: date.trim().to_owned(), ..report });
    }
    reports.sort_by(|left, right| left.title.cmp(&right.title));
    Ok(reports)
}

/// Returns the text of the document.
fn document(reports: &[HostReport]) -> String {
    let mut text = INTRODUCTION.to_owned();
    for HostReport { title, package, version, date, wire, seen, .. } in reports {
        let refused = match seen.refused.as_slice() {
            [] => "nothing".to_owned(),
            tools => tools.iter().map(|tool| format!("`{tool}`")).collect::<Vec<_>>().join(", "),
        };
        let facts = if seen.facts { ", with facts for programs" } else { "" };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {title} | `{package}` {version} | {date} | {wire} | {}{facts} | {} | {refused} |",
            form(&seen.view),
            form(&seen.recall),
        );
    }
    text += SECOND_HEAD;
    for HostReport { title, seen, .. } in reports {
        let tools = if seen.searched { "after a search" } else { "at once" };
        let arrive = |arrives| if arrives { "arrive" } else { "no" };
        let times = |times: usize| match times {
            0 => "no".to_owned(),
            1 => "once".to_owned(),
            times => format!("{times} times"),
        };
        let compacted = seen.compacted.map_or("not tried".to_owned(), times);
        let resumed = match (seen.block, seen.repeats) {
            (false, _) => "",
            (true, false) => "stays as it was",
            (true, true) => "comes again",
        };
        let _ = writeln!(
            text,
            "| {title} | {tools} | {} | {} | {} | {resumed} | {compacted} | {} |",
            arrive(seen.instructions),
            arrive(seen.block),
            times(seen.recalls),
            seen.events.join(", "),
        );
    }
    text += "\n## How each was run\n";
    for HostReport { title, notes, .. } in reports {
        let _ = writeln!(text, "\n**{title}**: {}", notes.join(" "));
    }
    text
}

/// Returns a phrase for the form in which a text reaches the model.
fn form(form: &str) -> &str {
    match form {
        "text" => "as text",
        "in-json" => "as a string in JSON",
        _ => "not at all",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_names_the_pinned_versions() {
        let workspace = CargoWorkspace::load().unwrap();
        let document = fs::read_to_string(workspace.root.join(DOCUMENT)).unwrap();
        let rows: Vec<_> = document.lines().filter_map(|line| line.split(" | ").nth(1)).collect();
        let pinned: Vec<_> =
            [FOR_TESTS, FOR_HOSTS].concat().iter().map(tools::Tool::shown).collect();
        let hosts: Vec<_> = rows.iter().filter(|row| row.starts_with('`')).collect();
        assert_eq!(hosts.len(), 7, "{document}");
        for row in hosts {
            assert!(pinned.contains(&row.replace('`', "")), "{row}: run `cargo xtask hosts`");
        }
    }
}
