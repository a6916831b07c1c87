//! The daemon of the demo: a child process that is asked over HTTP to remember, is heard when it did, and
//! takes it back.

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

/// How long the daemon may take for the task or the event.
const PATIENCE: Duration = Duration::from_secs(30);

/// Plays the chapter.
pub(super) fn run(teller: &Narrator, stage: &DemoSandbox) -> Result<(), Failure> {
    teller.chapter("7. A daemon")?;
    teller.sent("$ lukasa serve --port 0 --json")?;
    let mut command = stage.lukasa(&["serve", "--port", "0", "--json"]);
    // It is to make a token of its own.
    command.env_remove("LUKASA_TOKEN");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let (process, stdout) = stage.start(command, |child| child.stdout.take())?;
    // Kept open to the end, so that it can say more.
    let mut stdout = BufReader::new(stdout.expect("the output is piped"));
    let mut line = String::new();
    let read = stdout.read_line(&mut line);
    let Some(place) = read.ok().and_then(|_| serde_json::from_str::<DaemonRecord>(&line).ok())
    else {
        return teller.check(false, "the daemon says where it listens");
    };
    teller.received(&format!("it listens at {}", place.url))?;
    Handle::current().block_on(converse(teller, &place))?;
    teller.check(stage.terminate(process)?, "told to end, it ends in good order")
}

async fn converse(teller: &Narrator, place: &DaemonRecord) -> Result<(), Failure> {
    let door = place.url.parse().expect("a daemon says an address that is one");
    let stranger = Client::new(door, "a-token-that-was-guessed")?.capabilities().await;
    let is_refused = stranger.is_err_and(|error| error.code() == Some(ErrorCode::Unauthorized));
    teller.check(is_refused, "without the token that it made, nobody gets in")?;
    let client = place.client()?;
    let events = client.events(StartFrom::Now).await?;
    let content = "I prefer tabs over spaces.".to_owned();
    let request = RememberRequest { content, context_mode: None, scope: None };
    teller.sent(&format!("POST /workspace/memory/remember {}", json!(request)))?;
    let queued = client.remember(&request).await?;
    teller.received(&json!(queued).to_string())?;
    let told = tokio::time::timeout(PATIENCE, wait_for_event(events, &queued.task_id)).await;
    let told = told.unwrap_or_else(|_| Err(timed_out()))?;
    teller.received(&format!("event: {}", json!(told)))?;
    teller.check(true, "whoever listens is told when it is done")?;
    cancel_task(teller, &client, &queued.task_id).await
}

/// Looks at what a task wrote, and takes it back.
async fn cancel_task(teller: &Narrator, client: &Client, task: &str) -> Result<(), Failure> {
    let done = client.wait_for(task, PATIENCE).await?;
    teller.received(&json!(done.result).to_string())?;
    let is_completed = done.status == TaskStatus::Completed;
    teller.check(is_completed, "the task is completed, without any model")?;
    let search = SearchQuery { text: "tabs over spaces".to_owned(), ..SearchQuery::default() };
    let found = client.search(&search).await?.matches.len();
    teller.check(found == 1, "the sentence is in a memory, once")?;
    let query = ChangesQuery { task: Some(task.to_owned()), ..ChangesQuery::default() };
    let [change] = &client.changes(&query).await?.changes[..] else {
        return teller.check(false, "a task is one change");
    };
    teller.sent(&format!("POST /v1/changes/{}/undo", change.id))?;
    let undone = client.undo(change.id, DryRun::No).await?;
    teller.received(&json!(undone).to_string())?;
    let is_gone = client.search(&search).await?.matches.is_empty();
    teller.check(is_gone, "one request takes back what the task did, and nothing else")
}

/// Waits until a stream tells of a task; returns that.
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
    Failure::new(MemoryErrorCode::StorageFailed, "the daemon tells nothing of the task")
}
