//! Measures the daemon under load: many streams and requests, readers that stop reading, then tasks in many lanes.
//!
//! Requests are sent when they are due, whether or not earlier ones were answered. A time counts from when its request
//! was due. A request waits only when its connection is still busy, and that wait counts too.

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

/// Streams that are read without delay.
const STREAMS: usize = 1_000;
/// Streams that are opened but not read until the end.
const SLOW: usize = 20;
const WORKSPACES: usize = 50;
const REQUESTS_A_SECOND: u32 = 200;
/// Connections that the requests are spread over.
const CONNECTIONS: usize = 40;
/// Global memories that exist before the load.
const MEMORIES: usize = 100;
/// Tasks that follow a minute of requests; other durations in proportion.
const TASKS_A_MINUTE: u32 = 10_000;
/// The pause before a task is sent again to a full lane.
const FULL_DELAY: Duration = Duration::from_millis(100);
/// The interval of polls for unfinished tasks.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The kind of a request.
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

/// Returns the kind of request `number`: of twenty, 10, 5, 2, 2 and 1 are of the five kinds.
const fn request_kind(number: usize) -> RequestKind {
    match number % 20 {
        0 => RequestKind::Remember,
        5 | 15 => RequestKind::Save,
        8 | 18 => RequestKind::Tool,
        n if n % 4 == 3 => RequestKind::GetTask,
        _ => RequestKind::GetMemory,
    }
}

/// The results of requests.
#[derive(Debug, Default)]
struct LoadSample {
    times: Vec<(RequestKind, Duration)>,
    /// Answers with an unexpected status.
    errors: u64,
    /// Tasks that a full lane refused, which is correct.
    refused: u64,
    /// Changes of memories that were not made by tasks.
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
    /// The request path of each workspace for remember tasks.
    lanes: Arc<[String]>,
    /// The ids of the workspaces.
    ids: Vec<String>,
}

/// Puts the daemon at `lukasa` under load for `time`.
pub(crate) fn measure(
    bench: &BenchConfig,
    lukasa: &Path,
    time: Duration,
) -> anyhow::Result<Section> {
    let home = bench.dir.join("load");
    let fixture = Fixture::open(&home)?;
    fixture.fill(MEMORIES)?;
    fixture.wait_for_quiet()?;
    fixture.close();
    std::fs::write(home.join("config.toml"), "files_max = 10000\n")?;
    let folders = workspaces(bench, WORKSPACES)?;
    let loaded = LoadedDaemon::start(lukasa, &home, &folders)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let lines = runtime.block_on(loaded.run(time))?;
    let method = format!(
        "A daemon in its own process, on the loopback: {WORKSPACES} workspaces and {MEMORIES} global memories \
         of {MEMORY_BYTES} bytes. {STREAMS} streams of `/v1/events` over all workspaces are read, {SLOW} more \
         are not. {REQUESTS_A_SECOND} requests a second for {} s over {CONNECTIONS} connections, of twenty: 10 \
         GET of a memory, 5 GET of a task, 2 PUT, 2 tool calls, 1 remember into the global memories; a time \
         counts from when its request was due. Then {} tasks that remember, each workspace's into its project, \
         as fast as the lanes accept them. At the end the slow readers read what there is and reconnect.",
        time.as_secs(),
        tasks(time),
    );
    Ok(Section { title: "The daemon under load", method, lines })
}

/// Returns the number of tasks that follow `time` of requests.
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
        let listed = listed["workspaces"].as_array().context("the daemon serves no workspaces")?;
        let ids = listed.iter().filter_map(|workspace| workspace["id"].as_str()).map(str::to_owned);
        let ids: Vec<_> = ids.collect();
        let lanes = ids.iter().map(|id| format!("/workspaces/{id}/memory/remember")).collect();
        Ok(Self { server, address, lanes, ids })
    }

    /// Runs the whole load and returns the rows of the report.
    async fn run(&self, time: Duration) -> anyhow::Result<Vec<ReportLine>> {
        let resident = || crate::stdio::resident_bytes_of(self.server.pid());
        let at_start = resident()?;
        let readers = StreamReaders::open(self.address, &self.ids, STREAMS, SLOW).await?;
        let with_streams = resident()?;
        let mut sample = self.requests(time).await?;
        self.wait_until_drained().await?;
        let after_requests = resident()?;
        let started = Instant::now();
        sample.add(self.tasks(tasks(time)).await?);
        let accepted = started.elapsed();
        self.wait_until_drained().await?;
        let drained = started.elapsed();
        let failed = self.failure_reasons().await?;
        let expected =
            ExpectedEvents { changed: sample.changed, ends: self.last_event_ids().await? };
        let received = readers.end(self.address, &expected).await?;
        // The daemon needs a moment to free the state of the closed connections.
        sleep(Duration::from_secs(1)).await;
        let mut lines = request_lines(&sample);
        lines.extend(task_lines(tasks(time), (accepted, drained), &failed, sample.refused));
        lines.extend(event_lines(&received));
        for (what, bytes) in [
            ("resident memory: at the start", at_start),
            ("resident memory: with the streams", with_streams),
            ("resident memory: after the requests", after_requests),
            ("resident memory: peak", crate::stdio::peak_bytes_of(self.server.pid())?),
            ("resident memory: at the end", resident()?),
        ] {
            lines.push(ReportLine::bytes(what, bytes));
        }
        Ok(lines)
    }

    /// Sends requests, each when it is due.
    async fn requests(&self, time: Duration) -> anyhow::Result<LoadSample> {
        let mut tasks_in_flight = JoinSet::new();
        let count = REQUESTS_A_SECOND * u32::try_from(time.as_secs())?;
        let mut clients = Vec::with_capacity(CONNECTIONS);
        for connection in 0..CONNECTIONS {
            clients.push(LoadClient::new(self, connection).await?);
        }
        let started = Due::now();
        for (connection, mut client) in clients.into_iter().enumerate() {
            tasks_in_flight.spawn(async move {
                let first = u32::try_from(connection)?;
                for number in (first..count).step_by(CONNECTIONS) {
                    let due = started + Duration::from_secs(1) * number / REQUESTS_A_SECOND;
                    sleep_until(due).await;
                    client.ask(usize::try_from(number)?, due).await?;
                }
                anyhow::Ok(client.sample)
            });
        }
        join_all(tasks_in_flight).await
    }

    /// Sends `count` tasks as fast as the lanes accept them.
    async fn tasks(&self, count: u32) -> anyhow::Result<LoadSample> {
        let count = usize::try_from(count)?;
        let mut tasks_in_flight = JoinSet::new();
        for lane in 0..WORKSPACES {
            let mut wire = Wire::open(self.address).await?;
            let lanes = Arc::clone(&self.lanes);
            tasks_in_flight.spawn(async move {
                let mut sample = LoadSample::default();
                let share = (count + WORKSPACES - 1 - lane) / WORKSPACES;
                for number in 0..share {
                    let content = format!("The pier of barge {number} is {}.", 1_000 + number);
                    let body = json!({ "content": content, "scope": "project" });
                    loop {
                        let answer = wire.ask("POST", &lanes[lane], "", Some(&body)).await?;
                        match answer.status {
                            202 => break,
                            429 | 503 => sample.refused += 1,
                            status => anyhow::bail!("a task was answered with status {status}"),
                        }
                        sleep(FULL_DELAY).await;
                    }
                }
                Ok(sample)
            });
        }
        join_all(tasks_in_flight).await
    }

    /// Waits until no task is queued or running.
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

    /// Returns the error of each failed task.
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
        anyhow::ensure!(
            answer.status == 200,
            "a list of tasks was answered with status {}",
            answer.status
        );
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

async fn join_all(
    mut tasks_in_flight: JoinSet<anyhow::Result<LoadSample>>,
) -> anyhow::Result<LoadSample> {
    let mut all = LoadSample::default();
    while let Some(sample) = tasks_in_flight.join_next().await {
        all.add(sample??);
    }
    Ok(all)
}

/// A client that sends requests over one connection.
struct LoadClient {
    wire: Wire,
    lanes: Arc<[String]>,
    number: usize,
    /// The revision of its own memory.
    etag: Option<String>,
    /// The path of its first task.
    task: String,
    sample: LoadSample,
}

impl LoadClient {
    /// Connects, and creates a task and memories of its own.
    async fn new(loaded: &LoadedDaemon, number: usize) -> anyhow::Result<Self> {
        let wire = Wire::open(loaded.address).await?;
        let (lanes, sample) = (Arc::clone(&loaded.lanes), LoadSample::default());
        let mut client = Self { wire, lanes, number, etag: None, task: String::new(), sample };
        let answer = client.remember(number).await?;
        anyhow::ensure!(answer.status == 202, "a task was answered with status {}", answer.status);
        let answer = answer.json();
        let lane = &client.lanes[number % WORKSPACES];
        client.task =
            format!("{lane}/{}", answer["taskId"].as_str().context("the answer has no task id")?);
        let saved = client.save(0).await?;
        anyhow::ensure!(
            saved.status == 201,
            "a new memory was answered with status {}",
            saved.status
        );
        let path = format!("/memories/global/load/log-{number}.md");
        let create = json!({ "command": "create", "path": path, "file_text": "- begun\n" });
        let answer = client.wire.ask("POST", "/v1/tool", "", Some(&create)).await?;
        anyhow::ensure!(
            answer.status == 200,
            "a tool call was answered with status {}",
            answer.status
        );
        client.sample.changed = 2;
        Ok(client)
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

fn request_lines(sample: &LoadSample) -> Vec<ReportLine> {
    let of = |(kind, what): (RequestKind, &str)| {
        let mut times = Times::default();
        sample.times.iter().filter(|(of, _)| *of == kind).for_each(|(_, took)| times.add(*took));
        ReportLine::calls(what, &times).tail()
    };
    let errors = ReportLine::count("answers that must not occur", sample.errors);
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
            "last task accepted to last task done",
            drained.saturating_sub(accepted),
        ),
        ReportLine::count(
            format!("tasks that failed{why}"),
            u64::try_from(failed.len()).unwrap_or(u64::MAX),
        )
        .target(ReportTarget::Count(0)),
        ReportLine::count("answers \"lane full\" (429)", refused),
    ]
}

fn event_lines(received: &ReceivedEvents) -> [ReportLine; 5] {
    [
        ReportLine::count("events read", received.events),
        ReportLine::count("events lost, duplicated or out of order", received.wrong)
            .target(ReportTarget::Count(0)),
        ReportLine::count("active readers evicted", received.evicted)
            .target(ReportTarget::Count(0)),
        ReportLine::count(format!("slow readers evicted, of {SLOW}"), received.slow_evicted),
        ReportLine::count("slow readers with an unreported gap", received.slow_wrong)
            .target(ReportTarget::Count(0)),
    ]
}
