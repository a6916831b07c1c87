//! Submits a sentence to remember, waits for the event, and adds a line to the changed memory.

use std::time::Duration;

use lukasa_protocol::client::{Client, ClientError, Endpoint, StartFrom};
use lukasa_protocol::event::{Event, MemoryChanged};
use lukasa_protocol::task::{RememberRequest, TaskResult};

/// Returns the final text of the memory; `None` if the sentence was already known.
pub async fn remember(endpoint: Endpoint, token: &str) -> Result<Option<String>, ClientError> {
    let client = Client::new(endpoint, token)?;
    let mut events = client.events(StartFrom::Now).await?;

    let content = "I like tea in the morning.".to_owned();
    let request = RememberRequest { content, context_mode: None, scope: None };
    let queued = client.remember(&request).await?;
    let task = client.wait_for(&queued.task_id, Duration::from_mins(1)).await?;
    let Some(TaskResult::Remember(result)) = task.result else { return Ok(None) };
    let Some(path) = result.files_touched.first() else { return Ok(None) };

    // Subscribers receive one event for the task, with all scopes that it touched.
    while let Some(envelope) = events.next().await? {
        if let Event::MemoryChanged(MemoryChanged::Managed { task_id, .. }) = envelope.event
            && task_id == queued.task_id
        {
            break;
        }
    }

    loop {
        let memory = client.read(path).await?;
        let text = format!("{}\n- And coffee after lunch.\n", memory.text.trim_end());
        match client.save(path, &text, &memory.revision).await {
            Ok(_) => return Ok(Some(text)),
            // Another writer changed the memory: retry with its current text.
            Err(ClientError::Conflict(_)) => {}
            Err(error) => return Err(error),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(url), Some(token)) = (args.next(), args.next()) else {
        return Err("expected two arguments: the address of the daemon and a token".into());
    };
    remember(url.parse()?, &token).await?;
    Ok(())
}
