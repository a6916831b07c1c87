//! Measures `lukasa mcp` over standard streams: calls, start, resident memory and the size of the program.
//!
//! Calls are compared with an echo program, which does the least that an answer needs.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::args::BenchConfig;
use crate::baseline;
use crate::fixture::{self, Fixture, MEMORY_BYTES};
use crate::measure::{Times, run_alternating};
use crate::report::{ReportLine, ReportTarget, Section};
use crate::stdio::{self, McpClient};

const MEMORIES: usize = 1_000;
const VIEWS: usize = 200;
const CREATES: usize = 40;
const STARTS: usize = 5;
const OVERHEAD_MAX: Duration = Duration::from_micros(300);
const START_MAX: Duration = Duration::from_millis(20);
const RESIDENT_BYTES_MAX: u64 = 20 << 20;
const PROGRAM_BYTES_MAX: u64 = 12 << 20;

/// The tables that the feature `embedder` adds to the program; they do not count towards the target for its size.
const TABLES: [&[u8]; 2] = [
    include_bytes!("../../crates/recall/data/tokens.qtv"),
    include_bytes!("../../crates/recall/data/wordings.qwt"),
];

/// Measures the server at `lukasa`.
pub(crate) fn measure(bench: &BenchConfig, lukasa: &Path) -> anyhow::Result<Section> {
    let home = bench.dir.join("served");
    fill(&home, MEMORIES)?;
    let server = McpServerCommand { lukasa, home: &home };
    let mut lines = views(bench, &server)?;
    lines.extend(creates(bench, &server)?);
    lines.extend(starts(bench, &server)?);
    let resident = resident_bytes(&server)?;
    let program = std::fs::read(lukasa)?;
    let holds = |table: &&[u8]| program.windows(64).any(|bytes| bytes == &table[..64]);
    let tables: usize = TABLES.into_iter().filter(holds).map(<[u8]>::len).sum();
    let size = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
    lines.push(
        ReportLine::bytes("resident memory after some calls", resident)
            .target(ReportTarget::Bytes(RESIDENT_BYTES_MAX)),
    );
    lines.push(
        ReportLine::bytes(
            "size of the program without the tables of recall",
            size(program.len() - tables),
        )
        .target(ReportTarget::Bytes(PROGRAM_BYTES_MAX)),
    );
    lines.push(ReportLine::bytes("size of the program", size(program.len())));
    let method = format!(
        "A client over standard streams, {MEMORIES} memories of {MEMORY_BYTES} bytes in the scope; \
         {VIEWS} views, {CREATES} creates, {STARTS} starts a pass, {} passes. *Echo* is a Rust \
         program that reads a line and writes one of the same size. The overhead of a view includes \
         the view itself.",
        bench.passes
    );
    Ok(Section { title: "Served over MCP", method, lines })
}

/// Creates a home with `memories` memories and raises the cap, so that measurements can create more.
pub(crate) fn fill(home: &Path, memories: usize) -> anyhow::Result<()> {
    let fixture = Fixture::open(home)?;
    fixture.fill(memories)?;
    fixture.close();
    std::fs::write(home.join("config.toml"), "files_max = 10000\n")?;
    baseline::flush(home)
}

/// The command that starts the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct McpServerCommand<'a> {
    pub(crate) lukasa: &'a Path,
    pub(crate) home: &'a Path,
}

impl McpServerCommand<'_> {
    fn command(&self) -> Command {
        let mut command = Command::new(self.lukasa);
        command.arg("mcp").env("LUKASA_HOME", self.home).current_dir(self.home);
        command
    }

    /// Starts the server and initializes the session as a client.
    pub(crate) fn start(&self) -> anyhow::Result<McpClient> {
        let mut client = McpClient::start(&mut self.command())?;
        client.initialize()?;
        Ok(client)
    }
}

/// Returns the arguments of the tool for a view.
pub(crate) fn view(path: &str) -> Value {
    json!({ "command": "view", "path": path })
}

/// Returns the arguments of the tool for a create.
pub(crate) fn create(number: usize) -> Value {
    let (path, file_text) = (fixture::virtual_path(number), fixture::text(number, MEMORY_BYTES));
    json!({ "command": "create", "path": path, "file_text": file_text })
}

/// Waits until a server has done its background work.
pub(crate) fn wait_for_quiet(home: &Path) -> anyhow::Result<()> {
    std::thread::sleep(Duration::from_secs(3));
    baseline::flush(home)
}

fn views(bench: &BenchConfig, server: &McpServerCommand<'_>) -> anyhow::Result<Vec<ReportLine>> {
    let mut echo = McpClient::start(&mut stdio::echo_server(MEMORY_BYTES)?)?;
    let mut lukasa = server.start()?;
    let fixture = Fixture::open(server.home)?;
    let mut bare =
        |times: &mut Times| calls(&mut echo, times, VIEWS, |n| view(&fixture::virtual_path(n)));
    let mut over =
        |times: &mut Times| calls(&mut lukasa, times, VIEWS, |n| view(&fixture::virtual_path(n)));
    let mut inside = |times: &mut Times| {
        for number in 0..VIEWS {
            let command = fixture::view(number)?;
            times.time(|| fixture.apply(command))?;
        }
        Ok(())
    };
    let [bare, inside, over] = run_alternating(bench.passes, [&mut bare, &mut inside, &mut over])?;
    Ok(vec![
        ReportLine::calls("echo over standard streams", &bare),
        ReportLine::calls("`view` in process", &inside),
        ReportLine::calls("`view` over MCP", &over)
            .more("echo", over.more_than(&bare))
            .target(ReportTarget::More(OVERHEAD_MAX)),
    ])
}

/// Calls the tool `memory` `count` times.
fn calls(
    client: &mut McpClient,
    times: &mut Times,
    count: usize,
    arguments: impl Fn(usize) -> Value,
) -> anyhow::Result<()> {
    for number in 0..count {
        let request = client.call("memory", &arguments(number));
        times.time(|| client.exchange(&request))?;
        client.result(&request)?;
    }
    Ok(())
}

fn creates(bench: &BenchConfig, server: &McpServerCommand<'_>) -> anyhow::Result<Vec<ReportLine>> {
    let inside_home = bench.dir.join("served-inside");
    fill(&inside_home, MEMORIES)?;
    let fixture = Fixture::open(&inside_home)?;
    let mut lukasa = server.start()?;
    let (mut next_over, mut next_inside) = (MEMORIES, MEMORIES);
    let mut over = |times: &mut Times| {
        let from = next_over;
        next_over += CREATES;
        calls(&mut lukasa, times, CREATES, |number| create(from + number))?;
        wait_for_quiet(server.home)
    };
    let mut inside = |times: &mut Times| {
        for _ in 0..CREATES {
            let command = fixture::create(next_inside)?;
            times.time(|| fixture.apply(command))?;
            next_inside += 1;
        }
        fixture.wait_for_quiet()
    };
    let [inside, over] = run_alternating(bench.passes, [&mut inside, &mut over])?;
    Ok(vec![
        ReportLine::calls("`create` in process", &inside),
        ReportLine::calls("`create` over MCP", &over)
            .more("in process", over.more_than(&inside))
            .target(ReportTarget::More(OVERHEAD_MAX)),
    ])
}

fn starts(bench: &BenchConfig, server: &McpServerCommand<'_>) -> anyhow::Result<Vec<ReportLine>> {
    let mut echo = |times: &mut Times| {
        for _ in 0..STARTS {
            let started = Instant::now();
            let mut client = McpClient::start(&mut stdio::echo_server(MEMORY_BYTES)?)?;
            client.initialize()?;
            times.add(started.elapsed());
        }
        Ok(())
    };
    let mut first = |times: &mut Times| {
        for _ in 0..STARTS {
            let started = Instant::now();
            let client = server.start()?;
            times.add(started.elapsed());
            drop(client);
        }
        Ok(())
    };
    let started_to = |path: &'static str| {
        move |times: &mut Times| {
            for _ in 0..STARTS {
                let started = Instant::now();
                let mut client = server.start()?;
                client.call_now("memory", &view(path))?;
                times.add(started.elapsed());
            }
            Ok(())
        }
    };
    let mut viewed = started_to("/memories/global/dir1/note1.md");
    let mut listed = started_to("/memories");
    let [echo, first, viewed, listed] =
        run_alternating(bench.passes, [&mut echo, &mut first, &mut viewed, &mut listed])?;
    Ok(vec![
        ReportLine::calls("start of the echo to its first answer", &echo),
        ReportLine::calls("start of `lukasa mcp` to its first answer", &first)
            .more("echo", first.more_than(&echo))
            .target(ReportTarget::P50(START_MAX)),
        ReportLine::calls("start to the first `view` of a memory", &viewed)
            .target(ReportTarget::P50(START_MAX)),
        ReportLine::calls("start to the first full listing", &listed),
    ])
}

fn resident_bytes(server: &McpServerCommand<'_>) -> anyhow::Result<u64> {
    let mut client = server.start()?;
    let request = client.request("tools/list", &json!({}));
    client.exchange(&request)?;
    client.result(&request)?;
    client.call_now("memory", &view("/memories"))?;
    for number in 0..50 {
        client.call_now("memory", &view(&fixture::virtual_path(number)))?;
        client.call_now("memory", &create(2 * MEMORIES + number))?;
    }
    client.call_now("memory", &view("/memories/global"))?;
    client.resident_bytes()
}
