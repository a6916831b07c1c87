//! The daemon chapter of the demo: a child process remembers a text over HTTP, publishes the event, and undoes the
//! change.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use memory::error_code::MemoryErrorCode;
use protocol::client::{ChangesQuery, Client, DryRun, EventStream, SearchQuery, StartFrom};
use protocol::error::ErrorCode;
use protocol::event::{Envelope, Event, MemoryChanged};
use protocol::task::{RememberRequest, TaskStatus};
use serde_json::json;
use tokio::runtime::Handle;

use super::narrator::Narrator;
use super::sandbox::DemoSandbox;
use crate::daemon::DaemonRecord;
use crate::exit::Failure;

/// The timeout for the task and for the event.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the chapter.
pub(super) fn run(teller: &Narrator, stage: &DemoSandbox) -> Result<(), Failure> {
    teller.chapter("7. A daemon")?;
    teller.sent("$ lukasa serve --port 0 --json")?;
    let mut command = stage.lukasa(&["serve", "--port", "0", "--json"]);
    // Removed, so that the daemon creates its own token.
    command.env_remove("LUKASA_TOKEN");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let (process, stdout) = stage.start(command, |child| child.stdout.take())?;
    // Kept open to the end, so that the daemon can write more.
    let mut stdout = BufReader::new(stdout.expect("the output is piped"));
    let mut line = String::new();
    let read = stdout.read_line(&mut line);
    let Some(daemon) = read.ok().and_then(|_| serde_json::from_str::<DaemonRecord>(&line).ok())
    else {
        return teller.check(false, "the daemon prints its address");
    };
    teller.received(&format!("it listens on {}", daemon.url))?;
    Handle::current().block_on(converse(teller, &daemon))?;
    teller.check(stage.terminate(process)?, "it exits with success on SIGTERM")
}

async fn converse(teller: &Narrator, daemon: &DaemonRecord) -> Result<(), Failure> {
    let endpoint = daemon.url.parse().expect("a daemon prints a valid address");
    let answer = Client::new(endpoint, "a-token-that-was-guessed")?.capabilities().await;
    let is_refused = answer.is_err_and(|error| error.code() == Some(ErrorCode::Unauthorized));
    teller.check(is_refused, "requests without its token are refused")?;
    let client = daemon.client()?;
    let events = client.events(StartFrom::Now).await?;
    let content = "I prefer tabs over spaces.".to_owned();
    let request = RememberRequest { content, context_mode: None, scope: None };
    teller.sent(&format!("POST /workspace/memory/remember {}", json!(request)))?;
    let queued = client.remember(&request).await?;
    teller.received(&json!(queued).to_string())?;
    let event = tokio::time::timeout(PATIENCE, wait_for_event(events, &queued.task_id)).await;
    let event = event.unwrap_or_else(|_| Err(timed_out()))?;
    teller.received(&format!("event: {}", json!(event)))?;
    teller.check(true, "an event is published when the task is done")?;
    cancel_task(teller, &client, &queued.task_id).await
}

/// Checks the result of a task, and undoes its change.
async fn cancel_task(teller: &Narrator, client: &Client, task: &str) -> Result<(), Failure> {
    let done = client.wait_for(task, PATIENCE).await?;
    teller.received(&json!(done.result).to_string())?;
    let is_completed = done.status == TaskStatus::Completed;
    teller.check(is_completed, "the task is completed, without any model")?;
    let search = SearchQuery { text: "tabs over spaces".to_owned(), ..SearchQuery::default() };
    let found = client.search(&search).await?.matches;
    let paths: BTreeSet<_> = found.iter().map(|found| &found.path).collect();
    teller.check(paths.len() == 1, "the sentence is in one memory")?;
    let query = ChangesQuery { task: Some(task.to_owned()), ..ChangesQuery::default() };
    let [change] = &client.changes(&query).await?.changes[..] else {
        return teller.check(false, "a task is one change");
    };
    teller.sent(&format!("POST /v1/changes/{}/undo", change.id))?;
    let undone = client.undo(change.id, DryRun::No).await?;
    teller.received(&json!(undone).to_string())?;
    let is_gone = client.search(&search).await?.matches.is_empty();
    teller.check(is_gone, "one request undoes the change of the task, and nothing else")
}

/// Waits for the event of a task; returns it.
async fn wait_for_event(mut events: EventStream, task: &str) -> Result<Envelope, Failure> {
    while let Some(envelope) = events.next().await? {
        if let Event::MemoryChanged(MemoryChanged::Managed { task_id, .. }) = &envelope.event
            && task_id == task
        {
            return Ok(envelope);
        }
    }
    Err(timed_out())
}

fn timed_out() -> Failure {
    Failure::new(
        MemoryErrorCode::StorageFailed,
        "timeout: the daemon published no event of the task",
    )
}
