//! Compares the loading of context files by Qwen Code and by Lukasa.
//!
//! A script calls the function of Qwen Code in a Node process and times it there; Lukasa runs in this process.

use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;

use crate::args::{Args, BenchConfig};
use crate::context_tree::ContextTree;
use crate::fixture::Fixture;
use crate::measure::{Times, run_alternating};
use crate::report::{ReportLine, ReportTarget, Section};

const LOADS: usize = 20;
/// The target for Lukasa's speed, as a multiple of Qwen Code's, with and without cache.
const QUICKER: f64 = 10.0;
const SCRIPT: &str = include_str!("context_loader.mjs");

/// Measures both loaders in turns.
pub(crate) fn measure(bench: &BenchConfig, args: &Args) -> anyhow::Result<Section> {
    let (Some(node), Some(modules)) = (&args.node, &args.node_modules) else {
        anyhow::bail!(
            "--node or --node-modules is missing: run `cargo xtask bench`, which installs the compared programs"
        )
    };
    let fixture = Fixture::open(&bench.dir.join("beside-loader"))?;
    let tree = ContextTree::new(&fixture, &bench.dir.join("loaded"))?;
    let script = bench.dir.join("context_loader.mjs");
    std::fs::write(&script, SCRIPT)?;
    let home = bench.dir.join("empty-home");
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
    let mut cold = |times: &mut Times| (0..LOADS).try_for_each(|_| tree.load_cold(&fixture, times));
    let mut warm = |times: &mut Times| (0..LOADS).try_for_each(|_| tree.load_warm(&fixture, times));
    let [theirs, cold, warm] = run_alternating(bench.passes, [&mut theirs, &mut cold, &mut warm])?;
    fixture.close();
    let quicker = |what: &str, times: &Times| {
        ReportLine::calls(what, times)
            .ratio("Qwen Code", times.ratio_to(&theirs))
            .target(ReportTarget::Ratio(1.0 / QUICKER))
    };
    let lines = vec![
        ReportLine::calls("Qwen Code: context files of the tree", &theirs),
        quicker("lukasa: context files of the tree, no cache", &cold),
        quicker("lukasa: context files of the tree, cached", &warm),
    ];
    let method = format!(
        "The function of Qwen Code that gathers context files and their imports from a folder upwards, called and timed in \
         a Node process, after twenty warm-up calls; Lukasa called in a Rust process. Neither program caches \
         between calls, except in the last row. {}, {LOADS} calls a pass, {} passes.",
        ContextTree::tree_description(),
        bench.passes
    );
    Ok(Section { title: "Context, compared with Qwen Code", method, lines })
}
