//! How Qwen Code gathers context files, in process there, and how we do, in process here.

use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;

use crate::args::{Args, BenchConfig};
use crate::context::ContextTree;
use crate::fixture::Fixture;
use crate::measure::{Times, run_alternating};
use crate::report::{ReportLine, ReportTarget, Section};

const LOADS: usize = 20;
/// How many times as quick as theirs ours is to be, nothing remembered and remembered.
const QUICKER: f64 = 10.0;
const SCRIPT: &str = include_str!("context_loader.mjs");

/// Measures both.
pub(crate) fn measure(bench: &BenchConfig, args: &Args) -> anyhow::Result<Section> {
    let (Some(node), Some(modules)) = (&args.node, &args.node_modules) else {
        anyhow::bail!(
            "--node or --node-modules is not known: run `cargo xtask bench`, which installs what is compared with"
        )
    };
    let ground = Fixture::open(&bench.dir.join("beside-loader"))?;
    let tree = ContextTree::new(&ground, &bench.dir.join("loaded"))?;
    let script = bench.dir.join("context_loader.mjs");
    std::fs::write(&script, SCRIPT)?;
    let home = bench.dir.join("nobody");
    std::fs::create_dir_all(&home)?;
    let mut theirs = |times: &mut Times| {
        let ran = Command::new(node)
            .arg(&script)
            .arg(modules.join("@qwen-code/qwen-code"))
            .arg(tree.deepest())
            .arg(LOADS.to_string())
            .env("HOME", &home)
            .output()
            .with_context(|| format!("cannot start {}", node.display()))?;
        anyhow::ensure!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let printed = String::from_utf8(ran.stdout)?;
        let mut numbers: Vec<u64> = printed.lines().map(str::parse).collect::<Result<_, _>>()?;
        let bytes = numbers.pop().context("Node printed nothing")?;
        anyhow::ensure!(bytes >= tree.bytes(), "Node gathered {bytes} bytes of {}", tree.bytes());
        for taken in numbers {
            times.add(Duration::from_nanos(taken));
        }
        Ok(())
    };
    let mut cold = |times: &mut Times| (0..LOADS).try_for_each(|_| tree.load_cold(&ground, times));
    let mut warm = |times: &mut Times| (0..LOADS).try_for_each(|_| tree.load_warm(&ground, times));
    let [theirs, cold, warm] = run_alternating(bench.passes, [&mut theirs, &mut cold, &mut warm])?;
    ground.close();
    let quicker = |what: &str, times: &Times| {
        ReportLine::calls(what, times)
            .ratio("Qwen Code", times.ratio_to(&theirs))
            .target(ReportTarget::Ratio(1.0 / QUICKER))
    };
    let lines = vec![
        ReportLine::calls("Qwen Code: context files of the tree", &theirs),
        quicker("lukasa: the same, nothing remembered", &cold),
        quicker("lukasa: the same, remembered", &warm),
    ];
    let method = format!(
        "The function of Qwen Code that gathers context files from a folder upwards with what they import, called in \
         a Node process and timed there, after twenty calls that do not count; ours called in a Rust process. Both \
         remember nothing from call to call, but for the last line. {}, {LOADS} calls a pass, {} passes.",
        ContextTree::tree_description(),
        bench.passes
    );
    Ok(Section { title: "Beside the loader of Qwen Code", method, lines })
}
