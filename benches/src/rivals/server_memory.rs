//! Compares npm's `@modelcontextprotocol/server-memory` with `lukasa mcp`, through the same client.
//!
//! Both servers hold the same texts and take turns.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::args::{Args, BenchConfig};
use crate::baseline;
use crate::fixture::{self, MEMORY_BYTES};
use crate::mcp_process::{self, McpServerCommand};
use crate::measure::{Times, run_alternating};
use crate::report::{ReportLine, Section};
use crate::stdio::McpClient;

const MEMORIES: usize = 1_000;
const READS: usize = 50;
const WRITES: usize = 25;
/// Memories that one call sends to the other server while it is filled.
const FILLED_AT_ONCE: usize = 250;
const PROGRAM: &str = "@modelcontextprotocol/server-memory/dist/index.js";

/// Measures both servers in turns.
pub(crate) fn measure(bench: &BenchConfig, args: &Args) -> anyhow::Result<Section> {
    let folder = bench.dir.join("server-memory");
    std::fs::create_dir_all(&folder)?;
    let mut other = start(args, &folder)?;
    let numbers: Vec<usize> = (0..MEMORIES).collect();
    for chunk in numbers.chunks(FILLED_AT_ONCE) {
        let entities: Vec<Value> = chunk.iter().map(|&number| entity(number)).collect();
        other.call_now("create_entities", &json!({ "entities": entities }))?;
    }
    let home = bench.dir.join("beside-server-memory");
    mcp_process::fill(&home, MEMORIES)?;
    let server = McpServerCommand { lukasa: &args.lukasa()?, home: &home };
    let mut own = server.start()?;

    let mut lines = writes(bench, &home, &mut own, &mut other)?;
    let name = |number: usize| json!({ "names": [entity_name(number)] });
    let path = |number: usize| mcp_process::view(&fixture::virtual_path(number));
    let viewed = compare(bench, (&mut own, &path), (&mut other, "open_nodes", &name))?;
    lines.extend(pair("`view` of a memory", "open_nodes", &viewed));
    let all = compare(
        bench,
        (&mut own, &|_| mcp_process::view("/memories/global")),
        (&mut other, "read_graph", &|_| json!({})),
    )?;
    lines.extend(pair("`view` of the folder (paths)", "read_graph (all texts)", &all));
    lines.push(ReportLine::calls("server-memory: search_nodes", &search(bench, &mut other)?));
    lines.push(ReportLine::bytes("lukasa: resident memory", own.resident_bytes()?));
    lines.push(ReportLine::bytes("server-memory: resident memory", other.resident_bytes()?));
    let method = format!(
        "One client, two servers over standard streams, {MEMORIES} memories of {MEMORY_BYTES} bytes \
         in each; {WRITES} writes and {READS} reads a pass, {} passes. server-memory reads its one \
         file for each call, writes the whole of it for each change, synchronizes nothing, locks \
         nothing and keeps no history; a change of Lukasa survives a power cut and can be undone. \
         `view` of a folder shows paths and sizes, read_graph shows all texts. Lukasa's search \
         is not yet in this comparison.",
        bench.passes
    );
    Ok(Section { title: "Compared with npm's server-memory", method, lines })
}

fn start(args: &Args, folder: &Path) -> anyhow::Result<McpClient> {
    let missing = "is missing: run `cargo xtask bench`, which installs the compared programs";
    let node = args.node.as_ref().with_context(|| format!("--node {missing}"))?;
    let modules =
        args.node_modules.as_ref().with_context(|| format!("--node-modules {missing}"))?;
    let mut command = Command::new(node);
    command.arg(modules.join(PROGRAM)).env("MEMORY_FILE_PATH", folder.join("memory.jsonl"));
    let mut client = McpClient::start(&mut command)?;
    client.initialize()?;
    Ok(client)
}

fn entity_name(number: usize) -> String {
    format!("note{number}")
}

fn entity(number: usize) -> Value {
    let text = fixture::text(number, MEMORY_BYTES);
    json!({ "name": entity_name(number), "entityType": "note", "observations": [text] })
}

fn writes(
    bench: &BenchConfig,
    home: &Path,
    own: &mut McpClient,
    other: &mut McpClient,
) -> anyhow::Result<Vec<ReportLine>> {
    let (mut own_next, mut other_next) = (MEMORIES, MEMORIES);
    let mut own = |times: &mut Times| {
        for _ in 0..WRITES {
            let request = own.call("memory", &mcp_process::create(own_next));
            times.time(|| own.exchange(&request))?;
            own.result(&request)?;
            own_next += 1;
        }
        mcp_process::wait_for_quiet(home)
    };
    let mut other = |times: &mut Times| {
        for _ in 0..WRITES {
            let arguments = json!({ "entities": [entity(other_next)] });
            let request = other.call("create_entities", &arguments);
            times.time(|| other.exchange(&request))?;
            other.result(&request)?;
            other_next += 1;
        }
        baseline::flush(&bench.dir)
    };
    let taken = run_alternating(bench.passes, [&mut own, &mut other])?;
    Ok(pair("`create`", "create_entities", &taken))
}

type Arguments<'a> = &'a dyn Fn(usize) -> Value;

/// Measures read calls of both servers in turns.
fn compare(
    bench: &BenchConfig,
    (own, own_arguments): (&mut McpClient, Arguments<'_>),
    (other, tool, other_arguments): (&mut McpClient, &str, Arguments<'_>),
) -> anyhow::Result<[Times; 2]> {
    let mut own = |times: &mut Times| reads(own, times, "memory", own_arguments);
    let mut other = |times: &mut Times| reads(other, times, tool, other_arguments);
    run_alternating(bench.passes, [&mut own, &mut other])
}

fn reads(
    client: &mut McpClient,
    times: &mut Times,
    tool: &str,
    arguments: Arguments<'_>,
) -> anyhow::Result<()> {
    for number in 0..READS {
        let request = client.call(tool, &arguments(number));
        times.time(|| client.exchange(&request))?;
        client.result(&request)?;
    }
    Ok(())
}

fn search(bench: &BenchConfig, other: &mut McpClient) -> anyhow::Result<Times> {
    let query = |number: usize| json!({ "query": format!("topic {number}") });
    let mut search = |times: &mut Times| reads(other, times, "search_nodes", &query);
    let [taken] = run_alternating(bench.passes, [&mut search])?;
    Ok(taken)
}

fn pair(own: &str, other: &str, [own_times, other_times]: &[Times; 2]) -> Vec<ReportLine> {
    vec![
        ReportLine::calls(format!("server-memory: {other}"), other_times),
        ReportLine::calls(format!("lukasa: {own}"), own_times)
            .ratio("server-memory", own_times.ratio_to(other_times)),
    ]
}
