//! The memory tool on local files of the Python SDK, in process there, and ours, in process here.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;

use crate::args::{Args, BenchConfig};
use crate::fixture::{self, Fixture, MEMORY_BYTES};
use crate::measure::{Times, run_alternating};
use crate::report::{ReportLine, Section};

const CALLS: usize = 50;
/// Times one command of the tool and prints nanoseconds, a line each.
const SCRIPT: &str = include_str!("python_sdk.py");

/// Measures both.
pub(crate) fn measure(bench: &BenchConfig, args: &Args) -> anyhow::Result<Section> {
    let python = args.python.as_ref().context(
        "--python is not known: run `cargo xtask bench`, which installs what is compared with",
    )?;
    let ground = Fixture::open(&bench.dir.join("beside-python"))?;
    let mut made = 0;
    let mut create = |times: &mut Times| {
        for _ in 0..CALLS {
            let command = fixture::create(made)?;
            times.time(|| ground.apply(command))?;
            made += 1;
        }
        ground.wait_for_quiet()
    };
    let mut theirs = |times: &mut Times| python_pass(bench, python, "create", times);
    let [create, their_create] = run_alternating(bench.passes, [&mut create, &mut theirs])?;
    let mut view = |times: &mut Times| {
        for number in 0..CALLS {
            let command = fixture::view(number)?;
            times.time(|| ground.apply(command))?;
        }
        Ok(())
    };
    let mut theirs = |times: &mut Times| python_pass(bench, python, "view", times);
    let [view, their_view] = run_alternating(bench.passes, [&mut view, &mut theirs])?;
    let mut turn = 0;
    let mut replace = |times: &mut Times| {
        for number in 0..CALLS {
            let command = fixture::replace(number, turn)?;
            times.time(|| ground.apply(command))?;
        }
        turn += 1;
        ground.wait_for_quiet()
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
        "The tool `BetaLocalFilesystemMemoryTool` of the package anthropic, called in a Python \
         process and timed there; Lukasa called in a Rust process. Memories of {MEMORY_BYTES} bytes, \
         {CALLS} calls a pass, {} passes. The SDK's tool synchronizes the file but not its folder, \
         takes no lock, screens nothing and keeps no history.",
        bench.passes
    );
    Ok(Section { title: "Beside the Python SDK's memory tool", method, lines: lines.collect() })
}

/// Has Python time one command, in a folder of its own on the same disk.
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
