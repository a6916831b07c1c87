//! Measures `lukasa serve` over HTTP: single reads, a rate of tasks, events, start, and its use of processor and memory
//! when idle.
//!
//! Reads and starts are compared with a bare axum server that runs in a process of its own.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::task::JoinSet;

use crate::args::BenchConfig;
use crate::fixture::{self, Fixture, MEMORY_BYTES};
use crate::http::{HttpConnection, HttpServerProcess, request};
use crate::measure::{Times, run_alternating};
use crate::report::{ReportLine, ReportTarget, Section};

const MEMORIES: usize = 1_000;
/// Memories that a remember compares its text with.
const BACKGROUND_TASKS: usize = 100;
const READS: usize = 300;
const STREAMS: usize = 1_000;
const STARTS: usize = 5;
/// Requests for tasks per second.
const POSTS_A_SECOND: u32 = 200;
const POSTING: Duration = Duration::from_secs(5);
/// The bytes that the transaction of an accepted task adds to the log.
const POST_WRITES: usize = 3 * 4_096;
/// Lanes that the requests are spread over, because a full lane refuses tasks.
const LANES: usize = 16;
const IDLE: Duration = Duration::from_secs(10);
/// The time after which everything that was cached for a next task is freed.
const IDLE_AFTER_TASKS: Duration = Duration::from_secs(15);

const READ_MAX: Duration = Duration::from_millis(5);
const POST_MAX: Duration = Duration::from_millis(5);
const FAN_OUT_MAX: Duration = Duration::from_millis(50);
const START_MAX: Duration = Duration::from_millis(50);
const RESIDENT_BYTES_MAX: u64 = 25 << 20;
/// The allowance for polls: the daemon looks now and then for changes of other processes.
const WAKE_UPS_MAX: f64 = 1.0;

/// Measures the daemon at `lukasa`.
pub(crate) fn measure(bench: &BenchConfig, lukasa: &Path) -> anyhow::Result<Section> {
    let home = bench.dir.join("daemon");
    let fixture = Fixture::open(&home)?;
    fixture.fill(MEMORIES)?;
    fixture.wait_for_quiet()?;
    fixture.close();
    // The measured writes go beyond the default cap.
    std::fs::write(home.join("config.toml"), "files_max = 10000\n")?;
    let workspaces = workspaces(bench, LANES)?;

    let mut lines = starts(bench, lukasa, &home, &workspaces)?;
    let server = HttpServerProcess::daemon(lukasa, &home, &workspaces)?;
    lines.extend(idle(&server)?);
    lines.extend(reads(bench, &server)?);
    lines.push(fan_out(bench, &server)?);
    drop(server);
    let server = HttpServerProcess::daemon(lukasa, &home, workspaces.get(..1).unwrap_or_default())?;
    lines.push(idle_after_tasks(&server)?);
    drop(server);

    let home = bench.dir.join("daemon-tasks");
    let fixture = Fixture::open(&home)?;
    fixture.fill(BACKGROUND_TASKS)?;
    fixture.close();
    let server = HttpServerProcess::daemon(lukasa, &home, &workspaces)?;
    lines.push(bare_syncs(bench)?);
    lines.push(posts(&server)?);
    lines.push(ReportLine::bytes(
        "resident memory after all of the above",
        crate::stdio::resident_bytes_of(server.pid())?,
    ));
    let method = format!(
        "A client over one kept connection on the loopback; {MEMORIES} memories of {MEMORY_BYTES} bytes. \
         {READS} reads and {STARTS} starts a pass, {} passes. Tasks run beside {BACKGROUND_TASKS} memories. Much of the time of a read depends on the processor on \
         which the kernel wakes a server, so reads are measured on one processor too. *Bare* is a route of axum that answers \
         with a text of the size of a memory. Tasks \
         at {POSTS_A_SECOND} a second for {} s go to {LANES} workspaces. Tasks that a full lane refuses \
         count too. The fan-out is the time from sending a change to the last of {STREAMS} streams that \
         receives its event. Wake-ups are those of all threads in {} s. *After tasks* is {} s after a remember, a \
         forget and a dream.",
        bench.passes,
        POSTING.as_secs(),
        IDLE.as_secs(),
        IDLE_AFTER_TASKS.as_secs(),
    );
    Ok(Section { title: "The daemon", method, lines })
}

/// Creates `count` git checkouts.
pub(crate) fn workspaces(bench: &BenchConfig, count: usize) -> anyhow::Result<Vec<PathBuf>> {
    (0..count)
        .map(|index| {
            let folder = bench.dir.join(format!("workspace{index}"));
            fixture::init_checkout(&folder)?;
            Ok(folder)
        })
        .collect()
}

fn starts(
    bench: &BenchConfig,
    lukasa: &Path,
    home: &Path,
    workspaces: &[PathBuf],
) -> anyhow::Result<Vec<ReportLine>> {
    let mut bare = |times: &mut Times| {
        for _ in 0..STARTS {
            times.add(HttpServerProcess::bare(MEMORY_BYTES)?.ready_after);
        }
        Ok(())
    };
    let one = workspaces.get(..1).unwrap_or_default();
    let mut daemon = |times: &mut Times| {
        for _ in 0..STARTS {
            let server = HttpServerProcess::daemon(lukasa, home, one)?;
            server.connect()?.ask(&request("GET", "/health", None), 200)?;
            times.add(server.ready_after);
        }
        Ok(())
    };
    let [bare, daemon] = run_alternating(bench.passes, [&mut bare, &mut daemon])?;
    Ok(vec![
        ReportLine::calls("start of a bare server until ready", &bare),
        ReportLine::calls("start of the daemon until ready", &daemon)
            .more("bare", daemon.more_than(&bare))
            .target(ReportTarget::P50(START_MAX)),
    ])
}

fn idle(server: &HttpServerProcess) -> anyhow::Result<Vec<ReportLine>> {
    // The work that follows a start must be over.
    std::thread::sleep(Duration::from_secs(3));
    let before = wake_ups(server.pid())?;
    std::thread::sleep(IDLE);
    let woken = wake_ups(server.pid())?.saturating_sub(before);
    Ok(vec![
        ReportLine::rate("idle: wake-ups a second", f64::from(woken) / IDLE.as_secs_f64())
            .target(ReportTarget::Rate(WAKE_UPS_MAX)),
        ReportLine::bytes("idle: resident memory", crate::stdio::resident_bytes_of(server.pid())?)
            .target(ReportTarget::Bytes(RESIDENT_BYTES_MAX)),
    ])
}

/// Runs one task of each kind, waits, and returns the resident memory.
fn idle_after_tasks(server: &HttpServerProcess) -> anyhow::Result<ReportLine> {
    let mut connection = server.connect()?;
    for (kind, body) in [
        ("remember", json!({ "content": "The port of the billing service is 10443." })),
        ("forget", json!({ "query": "the port of the billing service" })),
        ("dream", json!({})),
    ] {
        let path = format!("/workspace/memory/{kind}");
        let task = connection.ask(&request("POST", &path, Some(&body)), 202)?;
        let id = task["taskId"].as_str().context("the answer has no task id")?;
        let look = request("GET", &format!("{path}/{id}"), None);
        while connection.ask(&look, 200)?["status"] != "completed" {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    std::thread::sleep(IDLE_AFTER_TASKS);
    let resident = crate::stdio::resident_bytes_of(server.pid())?;
    Ok(ReportLine::bytes("idle after tasks: resident memory", resident)
        .target(ReportTarget::Bytes(RESIDENT_BYTES_MAX)))
}

/// Returns how often the threads of a process have given up the processor to wait.
fn wake_ups(pid: u32) -> anyhow::Result<u32> {
    let mut sum = 0;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let status = std::fs::read_to_string(thread?.path().join("status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        sum += line.context("the system does not count wake-ups")?.trim().parse::<u32>()?;
    }
    Ok(sum)
}

fn reads(bench: &BenchConfig, server: &HttpServerProcess) -> anyhow::Result<Vec<ReportLine>> {
    let bare_server = HttpServerProcess::bare(MEMORY_BYTES)?;
    let mut bare = repeated(bare_server.connect()?, request("GET", "/", None));
    let memory = format!("/v1{}", fixture::virtual_path(1));
    let mut memory = repeated(server.connect()?, request("GET", &memory, None));
    let mut connection = server.connect()?;
    let body = json!({ "content": "Reviews are asked for in the morning." });
    let task = connection.ask(&request("POST", "/workspace/memory/remember", Some(&body)), 202)?;
    let id = task["taskId"].as_str().context("the answer has no task id")?;
    let path = format!("/workspace/memory/remember/{id}");
    let mut task = repeated(connection, request("GET", &path, None));
    let mut lines = Vec::new();
    for suffix in ["", ", all on one processor"] {
        if !suffix.is_empty() {
            crate::machine::pin_to_one_processor(&[bare_server.pid(), server.pid()])?;
        }
        let [bare, memory, task] =
            run_alternating(bench.passes, [&mut bare, &mut memory, &mut task])?;
        let read = |what: &str, times: &Times| {
            ReportLine::calls(format!("{what}{suffix}"), times).target(ReportTarget::P99(READ_MAX))
        };
        lines.push(ReportLine::calls(format!("bare route of axum{suffix}"), &bare));
        lines.push(read("GET of a memory", &memory));
        lines.push(read("GET of a task", &task));
    }
    crate::machine::unpin(&[server.pid()])?;
    Ok(lines)
}

fn repeated(
    mut connection: HttpConnection,
    request: Vec<u8>,
) -> impl FnMut(&mut Times) -> anyhow::Result<()> {
    move |times| {
        for _ in 0..READS {
            let status = times.time(|| connection.exchange(&request))?;
            anyhow::ensure!(status == 200, "a read was answered with status {status}");
        }
        Ok(())
    }
}

/// Returns the body of a remember; each number gives another text.
fn remember_body(number: usize) -> Value {
    json!({ "content": format!("The port of service {number} is {}.", 10_000 + number) })
}

fn posts(server: &HttpServerProcess) -> anyhow::Result<ReportLine> {
    let mut connection = server.connect()?;
    let listed = connection.ask(&request("GET", "/capabilities", None), 200)?;
    let lanes: Vec<String> = listed["workspaces"]
        .as_array()
        .context("the daemon serves no workspaces")?
        .iter()
        .filter_map(|workspace| workspace["id"].as_str())
        .map(|id| format!("/workspaces/{id}/memory/remember"))
        .collect();
    let mut times = Times::default();
    for index in due_requests() {
        let body = remember_body(100_000 + index);
        let request = request("POST", &lanes[index % lanes.len()], Some(&body));
        let status = times.time(|| connection.exchange(&request))?;
        anyhow::ensure!(matches!(status, 202 | 429), "a task was answered with status {status}");
    }
    Ok(ReportLine::calls(format!("POST of a task, {POSTS_A_SECOND} a second"), &times)
        .target(ReportTarget::P99(POST_MAX)))
}

/// Measures the least that a durable answer waits for: one write and sync, at the same rate.
fn bare_syncs(bench: &BenchConfig) -> anyhow::Result<ReportLine> {
    let mut file = std::fs::File::create(bench.dir.join("bare-syncs"))?;
    let mut times = Times::default();
    for _ in due_requests() {
        times.time(|| {
            file.write_all(&[b'x'; POST_WRITES])?;
            anyhow::Ok(file.sync_data()?)
        })?;
    }
    Ok(ReportLine::calls(format!("bare write and sync, {POSTS_A_SECOND} a second"), &times).tail())
}

/// Yields the index of each request when the request is due.
fn due_requests() -> impl Iterator<Item = usize> {
    let count = POSTS_A_SECOND * u32::try_from(POSTING.as_secs()).unwrap_or(u32::MAX);
    let started = Instant::now();
    (0..count).map(move |index| {
        let due = started + POSTING / count * index;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        usize::try_from(index).unwrap_or(usize::MAX)
    })
}

fn fan_out(bench: &BenchConfig, server: &HttpServerProcess) -> anyhow::Result<ReportLine> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut streams = Vec::with_capacity(STREAMS);
    for _ in 0..STREAMS {
        let stream = server.connect()?.listen("/v1/events")?.into_stream();
        stream.set_nonblocking(true)?;
        streams.push(stream);
    }
    runtime.block_on(async {
        let mut readers: Vec<_> =
            streams.into_iter().map(tokio::net::TcpStream::from_std).collect::<Result<_, _>>()?;
        let mut times = Times::default();
        for pass in 0..bench.passes {
            times.begin_pass();
            for round in 0..3 {
                let mark = format!("fan-out-{pass}-{round}.md");
                let path = format!("/v1/memories/global/{mark}");
                let body = json!({ "text": "- something new\n" });
                let put = request("PUT", &path, Some(&body));
                let mut writer = server.connect()?;
                let started = Instant::now();
                writer.ask(&put, 201)?;
                readers = wait_for_all(readers, &mark).await?;
                times.add(started.elapsed());
            }
        }
        Ok(ReportLine::calls(format!("fan-out of a change to {STREAMS} streams"), &times)
            .target(ReportTarget::P50(FAN_OUT_MAX)))
    })
}

/// Reads on each stream up to `mark`, and returns the streams.
async fn wait_for_all(
    readers: Vec<tokio::net::TcpStream>,
    mark: &str,
) -> anyhow::Result<Vec<tokio::net::TcpStream>> {
    let mut reading = JoinSet::new();
    for mut reader in readers {
        let mark = mark.to_owned();
        reading.spawn(async move {
            let mut received = Vec::new();
            loop {
                anyhow::ensure!(reader.read_buf(&mut received).await? > 0, "a stream ended");
                if String::from_utf8_lossy(&received).contains(&mark) {
                    return Ok(reader);
                }
            }
        });
    }
    let mut readers = Vec::with_capacity(reading.len());
    while let Some(reader) = reading.join_next().await {
        readers.push(reader??);
    }
    Ok(readers)
}
