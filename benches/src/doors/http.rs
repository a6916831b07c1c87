//! The routes of `lukasa serve`, and hooks beside the daemon.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};

use super::process::{HOOKS_WITH_DAEMON, HookSessions};
use super::store::{self, Store, StoreSize};
use super::{Door, DoorTimes, Side};
use crate::baseline::wait_for_quiet;
use crate::http::{HttpConnection, HttpServerProcess, request};
use crate::report::ReportTarget;

/// Tasks of each kind in a pass, except dreams.
const TASKS: usize = 5;
/// Memories on a page.
const PAGE: usize = 50;
const POLL_DELAY_MIN: Duration = Duration::from_millis(1);
/// The delay before a poll, as a part of the time that the task took so far.
const POLL_DELAY_PART: u32 = 50;

const LIST: Door = Door::to("GET of 50 memories").p50_max(30);
const SEARCH: Door = Door::to("search over HTTP").p50_max(30);
const REMEMBER: Door = Door::to("remember over HTTP, until completed").p50_max(20);
const FORGET: Door = Door::to("forget over HTTP, until completed").p50_max(100);
/// A little more than linear in sizes that grow tenfold.
const DREAM: Door = Door::to("dream over HTTP, until completed").growth_max(11.0);
const PEAK: Door = Door {
    name: "peak memory of the daemon",
    target: Some(ReportTarget::Bytes(super::PEAK_BYTES_MAX)),
};

/// A daemon for one store.
pub(super) struct HttpSide<'a> {
    store: &'a Store,
    server: HttpServerProcess,
    hooks: HookSessions<'a>,
    remembered: usize,
}

impl<'a> HttpSide<'a> {
    pub(super) fn start(lukasa: &Path, store: &'a Store) -> anyhow::Result<Self> {
        let checkout = std::slice::from_ref(&store.checkout);
        let server = HttpServerProcess::daemon(lukasa, &store.home, checkout)?;
        Ok(Self { store, server, hooks: HookSessions::new(store, "with-daemon"), remembered: 0 })
    }
}

impl Side for HttpSide<'_> {
    fn size(&self) -> Option<StoreSize> {
        Some(self.store.size)
    }

    fn pass(&mut self, times: &mut DoorTimes) -> anyhow::Result<()> {
        // The daemon closes a connection that is idle while other sides have their turn.
        let connection = &mut self.server.connect()?;
        for &number in &self.store.asked {
            let list = get(connection, times, LIST, &format!("/v1/memories?max={PAGE}"))?;
            let listed = list["memories"].as_array().map_or(0, Vec::len);
            anyhow::ensure!(listed == PAGE, "{listed} of {PAGE} memories were listed");
            let path = format!("/v1/search?q={}", store::code(number));
            let matches = get(connection, times, SEARCH, &path)?;
            let is_match = matches.to_string().contains(&store::virtual_path(number));
            anyhow::ensure!(is_match, "{path} was answered with {matches}");
        }
        let facts: Vec<String> =
            (0..TASKS).map(|index| store::fact(self.remembered + index)).collect();
        self.remembered += TASKS;
        for fact in &facts {
            let body = json!({ "content": fact });
            let result = task(connection, times, REMEMBER, ("remember", &body))?;
            let touched = result["filesTouched"].as_array().map_or(0, Vec::len);
            anyhow::ensure!(touched == 1, "a remember ended with {result}");
        }
        for fact in &facts {
            let result = task(connection, times, FORGET, ("forget", &json!({ "query": fact })))?;
            let removed = result["removedEntries"].as_array().map_or(0, Vec::len);
            anyhow::ensure!(removed == 1, "a forget ended with {result}");
        }
        task(connection, times, DREAM, ("dream", &json!({})))?;
        // A prompt may get nothing here: the daemon does not let it wait for a recall.
        self.hooks.pass(HOOKS_WITH_DAEMON, times)?;
        wait_for_quiet(&self.store.home)
    }

    fn server(&self) -> Option<(Door, u32)> {
        Some((PEAK, self.server.pid()))
    }
}

fn get(
    connection: &mut HttpConnection,
    times: &mut DoorTimes,
    door: Door,
    path: &str,
) -> anyhow::Result<Value> {
    let request = request("GET", path, None);
    let status = times.time(door, || connection.exchange(&request))?;
    anyhow::ensure!(status == 200, "{path} was answered with status {status}");
    connection.json()
}

/// Submits a task and polls it until it ends; returns its result.
fn task(
    connection: &mut HttpConnection,
    times: &mut DoorTimes,
    door: Door,
    (kind, body): (&str, &Value),
) -> anyhow::Result<Value> {
    let path = format!("/workspace/memory/{kind}");
    let submit = request("POST", &path, Some(body));
    let mut ended = times.time(door, || {
        let started = Instant::now();
        let task = connection.ask(&submit, 202)?;
        let id = task["taskId"].as_str().context("the answer has no task id")?;
        let poll = request("GET", &format!("{path}/{id}"), None);
        loop {
            let task = connection.ask(&poll, 200)?;
            if matches!(task["status"].as_str(), Some("completed" | "failed")) {
                return anyhow::Ok(task);
            }
            std::thread::sleep((started.elapsed() / POLL_DELAY_PART).max(POLL_DELAY_MIN));
        }
    })?;
    anyhow::ensure!(ended["status"] == "completed", "a {kind} failed: {ended}");
    Ok(ended["result"].take())
}
