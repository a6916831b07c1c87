//! Compares the memory tool of the Python SDK, on local files, with Lukasa in process.
//!
//! A script calls and times the SDK's tool in a Python process.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;

use crate::args::{Args, BenchConfig};
use crate::fixture::{self, Fixture, MEMORY_BYTES};
use crate::measure::{Times, run_alternating};
use crate::report::{ReportLine, Section};

const CALLS: usize = 50;
/// The script that times one command of the tool and prints nanoseconds, one line per call.
const SCRIPT: &str = include_str!("python_sdk.py");

/// Measures both tools in turns.
pub(crate) fn measure(bench: &BenchConfig, args: &Args) -> anyhow::Result<Section> {
    let python = args.python.as_ref().context(
        "--python is missing: run `cargo xtask bench`, which installs the compared programs",
    )?;
    let fixture = Fixture::open(&bench.dir.join("beside-python"))?;
    let mut next = 0;
    let mut create = |times: &mut Times| {
        for _ in 0..CALLS {
            let command = fixture::create(next)?;
            times.time(|| fixture.apply(command))?;
            next += 1;
        }
        fixture.wait_for_quiet()
    };
    let mut theirs = |times: &mut Times| python_pass(bench, python, "create", times);
    let [create, their_create] = run_alternating(bench.passes, [&mut create, &mut theirs])?;
    let mut view = |times: &mut Times| {
        for number in 0..CALLS {
            let command = fixture::view(number)?;
            times.time(|| fixture.apply(command))?;
        }
        Ok(())
    };
    let mut theirs = |times: &mut Times| python_pass(bench, python, "view", times);
    let [view, their_view] = run_alternating(bench.passes, [&mut view, &mut theirs])?;
    let mut turn = 0;
    let mut replace = |times: &mut Times| {
        for number in 0..CALLS {
            let command = fixture::replace(number, turn)?;
            times.time(|| fixture.apply(command))?;
        }
        turn += 1;
        fixture.wait_for_quiet()
    };
    let mut theirs = |times: &mut Times| python_pass(bench, python, "str_replace", times);
    let [replace, their_replace] = run_alternating(bench.passes, [&mut replace, &mut theirs])?;
    let lines = [
        ("create", create, their_create),
        ("view", view, their_view),
        ("str_replace", replace, their_replace),
    ];
    let lines = lines.iter().flat_map(|(command, own, theirs)| {
        [
            ReportLine::calls(format!("Python SDK: `{command}`"), theirs),
            ReportLine::calls(format!("lukasa: `{command}`"), own)
                .ratio("Python SDK", own.ratio_to(theirs)),
        ]
    });
    let method = format!(
        "The tool `BetaLocalFilesystemMemoryTool` of the package anthropic, called and timed in a \
         Python process; Lukasa called in a Rust process. Memories of {MEMORY_BYTES} bytes, \
         {CALLS} calls a pass, {} passes. The SDK's tool synchronizes the file but not its folder, \
         takes no lock, screens nothing and keeps no history.",
        bench.passes
    );
    Ok(Section {
        title: "Compared with the Python SDK's memory tool",
        method,
        lines: lines.collect(),
    })
}

/// Runs the script for one command, in a new folder on the same disk.
fn python_pass(
    bench: &BenchConfig,
    python: &Path,
    command: &str,
    times: &mut Times,
) -> anyhow::Result<()> {
    let folder = tempfile::tempdir_in(&bench.dir)?;
    let texts: String = (0..CALLS)
        .map(|number| fixture::text(number, MEMORY_BYTES).replace('\n', "\\n") + "\n")
        .collect();
    let file = folder.path().join("texts");
    std::fs::write(&file, texts)?;
    let ran = Command::new(python)
        .args(["-c", SCRIPT, command])
        .args([&folder.path().join("root"), &file])
        .output()
        .with_context(|| format!("cannot start {}", python.display()))?;
    anyhow::ensure!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let printed = String::from_utf8(ran.stdout)?;
    for line in printed.lines() {
        times.add(Duration::from_nanos(line.parse().context("Python printed no number")?));
    }
    crate::baseline::flush(&bench.dir)
}
