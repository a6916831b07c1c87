//! The daemon under load: a thousand streams and two hundred requests a second, readers that stop reading,
//! then thousands of tasks through many lanes at once.
//!
//! Requests are sent when they are due, whether or not earlier ones have been answered, and a time counts from
//! when its request was due. Only where a connection is still busy does a request wait, and that counts, too.

mod readers;
mod wire;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant as Due, sleep, sleep_until};

use self::readers::{ExpectedEvents, ReceivedEvents, StreamReaders};
use self::wire::{HttpResponse, LoadConnection as Wire};
use crate::args::BenchConfig;
use crate::daemon::workspaces;
use crate::fixture::{self, Fixture, MEMORY_BYTES};
use crate::http::HttpServerProcess;
use crate::measure::Times;
use crate::report::{ReportLine, ReportTarget, Section};

/// Streams that are read as fast as they come.
const STREAMS: usize = 1_000;
/// Streams that nobody reads after they were opened.
const SLOW: usize = 20;
const WORKSPACES: usize = 50;
const REQUESTS_A_SECOND: u32 = 200;
/// Connections that they go over.
const CONNECTIONS: usize = 40;
/// Global memories that everything happens beside.
const MEMORIES: usize = 100;
/// Tasks that follow a minute of requests; in proportion for less or more.
const TASKS_A_MINUTE: u32 = 10_000;
/// How long a lane that is full is left alone.
const FULL_DELAY: Duration = Duration::from_millis(100);
/// How often it is looked whether tasks are done.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// What is asked for, of twenty requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestKind {
    GetMemory,
    GetTask,
    Save,
    Tool,
    Remember,
}

const KINDS: [(RequestKind, &str); 5] = [
    (RequestKind::GetMemory, "GET of a memory"),
    (RequestKind::GetTask, "GET of a task"),
    (RequestKind::Save, "PUT of a memory, with If-Match"),
    (RequestKind::Tool, "POST of a tool call that inserts a line"),
    (RequestKind::Remember, "POST of a remember"),
];

/// Returns what the request of this number is: of twenty 10, 5, 2, 2 and 1 of the kinds.
const fn request_kind(number: usize) -> RequestKind {
    match number % 20 {
        0 => RequestKind::Remember,
        5 | 15 => RequestKind::Save,
        8 | 18 => RequestKind::Tool,
        n if n % 4 == 3 => RequestKind::GetTask,
        _ => RequestKind::GetMemory,
    }
}

/// What came of requests.
#[derive(Debug, Default)]
struct LoadSample {
    times: Vec<(RequestKind, Duration)>,
    /// Answers that were not to be given.
    errors: u64,
    /// Tasks that a full lane did not take, as it is to.
    refused: u64,
    /// Memories that were changed by other than tasks.
    changed: u64,
}

impl LoadSample {
    fn add(&mut self, other: Self) {
        self.times.extend(other.times);
        self.errors += other.errors;
        self.refused += other.refused;
        self.changed += other.changed;
    }
}

/// A daemon under load.
struct LoadedDaemon {
    server: HttpServerProcess,
    address: SocketAddr,
    /// Where each workspace is asked for tasks.
    lanes: Arc<[String]>,
    /// The ids of the workspaces.
    ids: Vec<String>,
}

/// Puts the daemon at `lukasa` under load for so long.
pub(crate) fn measure(
    bench: &BenchConfig,
    lukasa: &Path,
    time: Duration,
) -> anyhow::Result<Section> {
    let home = bench.dir.join("load");
    let ground = Fixture::open(&home)?;
    ground.fill(MEMORIES)?;
    ground.wait_for_quiet()?;
    ground.close();
    std::fs::write(home.join("config.toml"), "files_max = 10000\n")?;
    let folders = workspaces(bench, WORKSPACES)?;
    let loaded = LoadedDaemon::start(lukasa, &home, &folders)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let lines = runtime.block_on(loaded.run(time))?;
    let method = format!(
        "A daemon of its own process, on the loopback: {WORKSPACES} workspaces and {MEMORIES} global memories \
         of {MEMORY_BYTES} bytes. {STREAMS} streams of `/v1/events` over all workspaces are read, {SLOW} more \
         are not. {REQUESTS_A_SECOND} requests a second for {} s over {CONNECTIONS} connections, of twenty: 10 \
         GET of a memory, 5 GET of a task, 2 PUT, 2 tool calls, 1 remember into the global memories; a time \
         counts from when its request was due. Then {} tasks that remember, each workspace's into its project, \
         as fast as the lanes take them. In the end the slow readers read what there is and come back.",
        time.as_secs(),
        tasks(time),
    );
    Ok(Section { title: "The daemon under load", method, lines })
}

/// Returns how many tasks follow so much time.
fn tasks(time: Duration) -> u32 {
    let seconds = u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
    TASKS_A_MINUTE.saturating_mul(seconds) / 60
}

impl LoadedDaemon {
    fn start(lukasa: &Path, home: &Path, folders: &[PathBuf]) -> anyhow::Result<Self> {
        let server = HttpServerProcess::daemon(lukasa, home, folders)?;
        let address = server.address.parse()?;
        let listed = crate::http::request("GET", "/capabilities", None);
        let listed = server.connect()?.ask(&listed, 200)?;
        let listed = listed["workspaces"].as_array().context("no workspaces are served")?;
        let ids = listed.iter().filter_map(|one| one["id"].as_str()).map(str::to_owned);
        let ids: Vec<_> = ids.collect();
        let lanes = ids.iter().map(|id| format!("/workspaces/{id}/memory/remember")).collect();
        Ok(Self { server, address, lanes, ids })
    }

    /// Does all of it.
    async fn run(&self, time: Duration) -> anyhow::Result<Vec<ReportLine>> {
        let resident = || crate::stdio::resident_bytes_of(self.server.pid());
        let at_start = resident()?;
        let readers = StreamReaders::open(self.address, &self.ids, STREAMS, SLOW).await?;
        let with_streams = resident()?;
        let mut came = self.requests(time).await?;
        self.wait_until_drained().await?;
        let after_requests = resident()?;
        let begun = Instant::now();
        came.add(self.tasks(tasks(time)).await?);
        let accepted = begun.elapsed();
        self.wait_until_drained().await?;
        let drained = begun.elapsed();
        let failed = self.failure_reasons().await?;
        let expected = ExpectedEvents { changed: came.changed, ends: self.last_event_ids().await? };
        let seen = readers.end(self.address, &expected).await?;
        // What ends with the connections has time to end.
        sleep(Duration::from_secs(1)).await;
        let mut lines = request_lines(&came);
        lines.extend(task_lines(tasks(time), (accepted, drained), &failed, came.refused));
        lines.extend(event_lines(&seen));
        for (what, bytes) in [
            ("resident memory: at the start", at_start),
            ("resident memory: with the streams", with_streams),
            ("resident memory: after the requests", after_requests),
            ("resident memory: the peak", peak_bytes_of(self.server.pid())?),
            ("resident memory: in the end", resident()?),
        ] {
            lines.push(ReportLine::bytes(what, bytes));
        }
        Ok(lines)
    }

    /// Sends requests, each when it is due.
    async fn requests(&self, time: Duration) -> anyhow::Result<LoadSample> {
        let mut asking = JoinSet::new();
        let count = REQUESTS_A_SECOND * u32::try_from(time.as_secs())?;
        let mut askers = Vec::with_capacity(CONNECTIONS);
        for connection in 0..CONNECTIONS {
            askers.push(LoadClient::new(self, connection).await?);
        }
        let begun = Due::now();
        for (connection, mut asker) in askers.into_iter().enumerate() {
            asking.spawn(async move {
                let first = u32::try_from(connection)?;
                for number in (first..count).step_by(CONNECTIONS) {
                    let due = begun + Duration::from_secs(1) * number / REQUESTS_A_SECOND;
                    sleep_until(due).await;
                    asker.ask(usize::try_from(number)?, due).await?;
                }
                anyhow::Ok(asker.sample)
            });
        }
        join_all(asking).await
    }

    /// Has as many tasks done as fast as the lanes take them.
    async fn tasks(&self, count: u32) -> anyhow::Result<LoadSample> {
        let count = usize::try_from(count)?;
        let mut asking = JoinSet::new();
        for lane in 0..WORKSPACES {
            let mut wire = Wire::open(self.address).await?;
            let lanes = Arc::clone(&self.lanes);
            asking.spawn(async move {
                let mut came = LoadSample::default();
                let share = (count + WORKSPACES - 1 - lane) / WORKSPACES;
                for number in 0..share {
                    let content = format!("The pier of barge {number} is {}.", 1_000 + number);
                    let body = json!({ "content": content, "scope": "project" });
                    loop {
                        let answer = wire.ask("POST", &lanes[lane], "", Some(&body)).await?;
                        match answer.status {
                            202 => break,
                            429 | 503 => came.refused += 1,
                            status => anyhow::bail!("a task was answered by {status}"),
                        }
                        sleep(FULL_DELAY).await;
                    }
                }
                Ok(came)
            });
        }
        join_all(asking).await
    }

    /// Waits until no task waits or runs.
    async fn wait_until_drained(&self) -> anyhow::Result<()> {
        let mut wire = Wire::open(self.address).await?;
        for id in &self.ids {
            for status in ["queued", "running"] {
                while !self.tasks_with_status(&mut wire, id, status).await?.is_empty() {
                    sleep(POLL_INTERVAL).await;
                }
            }
        }
        Ok(())
    }

    /// Returns why tasks failed, each.
    async fn failure_reasons(&self) -> anyhow::Result<Vec<String>> {
        let mut wire = Wire::open(self.address).await?;
        let mut failed = Vec::new();
        for id in &self.ids {
            let tasks = self.tasks_with_status(&mut wire, id, "failed").await?;
            failed.extend(tasks.iter().map(|task| task["error"].to_string()));
        }
        Ok(failed)
    }

    async fn tasks_with_status(
        &self,
        wire: &mut Wire,
        id: &str,
        status: &str,
    ) -> anyhow::Result<Vec<Value>> {
        let path = format!("/v1/tasks?workspace={id}&status={status}");
        let answer = wire.ask("GET", &path, "", None).await?;
        anyhow::ensure!(answer.status == 200, "tasks were answered by {}", answer.status);
        Ok(answer.json()["tasks"].as_array().cloned().unwrap_or_default())
    }

    /// Returns the number of the last event of each workspace.
    async fn last_event_ids(&self) -> anyhow::Result<Vec<u64>> {
        let mut ends = Vec::with_capacity(self.ids.len());
        for id in &self.ids {
            let path = format!("/v1/events?workspace={id}");
            ends.push(wire::SseStream::open(self.address, &path, false).await?.last);
        }
        Ok(ends)
    }
}

async fn join_all(mut asking: JoinSet<anyhow::Result<LoadSample>>) -> anyhow::Result<LoadSample> {
    let mut all = LoadSample::default();
    while let Some(came) = asking.join_next().await {
        all.add(came??);
    }
    Ok(all)
}

/// Somebody who asks over one connection.
struct LoadClient {
    wire: Wire,
    lanes: Arc<[String]>,
    number: usize,
    /// The revision of its own memory.
    etag: Option<String>,
    /// A task that it asked for.
    task: String,
    sample: LoadSample,
}

impl LoadClient {
    /// Begins with a task and a memory of its own.
    async fn new(loaded: &LoadedDaemon, number: usize) -> anyhow::Result<Self> {
        let wire = Wire::open(loaded.address).await?;
        let (lanes, came) = (Arc::clone(&loaded.lanes), LoadSample::default());
        let mut asker = Self { wire, lanes, number, etag: None, task: String::new(), sample: came };
        let made = asker.remember(number).await?;
        anyhow::ensure!(made.status == 202, "a task was answered by {}", made.status);
        let made = made.json();
        let lane = &asker.lanes[number % WORKSPACES];
        asker.task = format!("{lane}/{}", made["taskId"].as_str().context("no task was made")?);
        let saved = asker.save(0).await?;
        anyhow::ensure!(saved.status == 201, "a memory was answered by {}", saved.status);
        let path = format!("/memories/global/load/log-{number}.md");
        let made = json!({ "command": "create", "path": path, "file_text": "- begun\n" });
        let made = asker.wire.ask("POST", "/v1/tool", "", Some(&made)).await?;
        anyhow::ensure!(made.status == 200, "a tool call was answered by {}", made.status);
        asker.sample.changed = 2;
        Ok(asker)
    }

    async fn ask(&mut self, number: usize, due: Due) -> anyhow::Result<()> {
        let kind = request_kind(number);
        let answer = match kind {
            RequestKind::GetMemory => {
                let path = format!("/v1{}", fixture::virtual_path(number % MEMORIES));
                self.wire.ask("GET", &path, "", None).await?
            }
            RequestKind::GetTask => self.wire.ask("GET", &self.task, "", None).await?,
            RequestKind::Save => self.save(number).await?,
            RequestKind::Tool => {
                let path = format!("/memories/global/load/log-{}.md", self.number);
                let line = format!("- line {number}");
                let insert = json!({
                    "command": "insert", "path": path, "insert_line": 1, "insert_text": line,
                });
                self.wire.ask("POST", "/v1/tool", "", Some(&insert)).await?
            }
            RequestKind::Remember => self.remember(CONNECTIONS + number).await?,
        };
        self.sample.times.push((kind, due.elapsed()));
        match (kind, answer.status) {
            (RequestKind::Save | RequestKind::Tool, 200) => self.sample.changed += 1,
            (RequestKind::GetMemory | RequestKind::GetTask, 200) | (RequestKind::Remember, 202) => {
            }
            (RequestKind::Remember, 429 | 503) => self.sample.refused += 1,
            _ => self.sample.errors += 1,
        }
        Ok(())
    }

    async fn save(&mut self, number: usize) -> anyhow::Result<HttpResponse> {
        let path = format!("/v1/memories/global/load/own-{}.md", self.number);
        let body = json!({ "text": fixture::text(number, MEMORY_BYTES) });
        let condition = match &self.etag {
            Some(etag) => format!("If-Match: {etag}\r\n"),
            None => String::new(),
        };
        let answer = self.wire.ask("PUT", &path, &condition, Some(&body)).await?;
        self.etag = answer.header("etag").map(str::to_owned);
        Ok(answer)
    }

    async fn remember(&mut self, number: usize) -> anyhow::Result<HttpResponse> {
        let content = format!("The port of service {number} is {}.", 10_000 + number);
        let body = json!({ "content": content, "scope": "user" });
        self.wire.ask("POST", &self.lanes[number % WORKSPACES], "", Some(&body)).await
    }
}

fn request_lines(came: &LoadSample) -> Vec<ReportLine> {
    let of = |(kind, what): (RequestKind, &str)| {
        let mut times = Times::default();
        came.times.iter().filter(|(of, _)| *of == kind).for_each(|(_, took)| times.add(*took));
        ReportLine::calls(what, &times).tail()
    };
    let errors = ReportLine::count("answers that were not to be given", came.errors);
    KINDS.into_iter().map(of).chain([errors.target(ReportTarget::Count(0))]).collect()
}

fn task_lines(
    count: u32,
    (accepted, drained): (Duration, Duration),
    failed: &[String],
    refused: u64,
) -> [ReportLine; 4] {
    let why = failed.first().map(|why| format!(", such as with {why}")).unwrap_or_default();
    [
        ReportLine::rate(
            format!("{count} tasks through {WORKSPACES} lanes, done"),
            f64::from(count) / drained.as_secs_f64(),
        ),
        ReportLine::seconds(
            "from the last one accepted to the last one done",
            drained.saturating_sub(accepted),
        ),
        ReportLine::count(
            format!("tasks that failed{why}"),
            u64::try_from(failed.len()).unwrap_or(u64::MAX),
        )
        .target(ReportTarget::Count(0)),
        ReportLine::count("answers that a lane is full (429)", refused),
    ]
}

fn event_lines(seen: &ReceivedEvents) -> [ReportLine; 5] {
    [
        ReportLine::count("events read", seen.events),
        ReportLine::count("events lost, doubled or out of order", seen.wrong)
            .target(ReportTarget::Count(0)),
        ReportLine::count("readers that read and were cut off", seen.cut_off)
            .target(ReportTarget::Count(0)),
        ReportLine::count(format!("slow readers cut off, of {SLOW}"), seen.slow_cut_off),
        ReportLine::count("slow readers that missed something untold", seen.slow_wrong)
            .target(ReportTarget::Count(0)),
    ]
}

/// Returns the most that a process ever kept resident.
fn peak_bytes_of(pid: u32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Ok(peak.context("the system does not say what a process kept resident")? * 1024)
}
