//! Has a sentence remembered, hears of it, and adds a line to the memory that it went to.

use std::time::Duration;

use lukasa_protocol::client::{Client, ClientError, Endpoint, StartFrom};
use lukasa_protocol::event::{Event, MemoryChanged};
use lukasa_protocol::task::{RememberRequest, TaskResult};

/// Returns what the memory says in the end; nothing if the sentence was known already.
pub async fn remember(door: Endpoint, token: &str) -> Result<Option<String>, ClientError> {
    let client = Client::new(door, token)?;
    let mut events = client.events(StartFrom::Now).await?;

    let content = "I like tea in the morning.".to_owned();
    let request = RememberRequest { content, context_mode: None, scope: None };
    let asked = client.remember(&request).await?;
    let task = client.wait_for(&asked.task_id, Duration::from_mins(1)).await?;
    let Some(TaskResult::Remember(result)) = task.result else { return Ok(None) };
    let Some(path) = result.files_touched.first() else { return Ok(None) };

    // Whoever listens is told as well: once for the task, with all that it touched.
    while let Some(envelope) = events.next().await? {
        if let Event::MemoryChanged(MemoryChanged::Managed { task_id, .. }) = envelope.event
            && task_id == asked.task_id
        {
            break;
        }
    }

    loop {
        let memory = client.read(path).await?;
        let text = format!("{}\n- And coffee after lunch.\n", memory.text.trim_end());
        match client.save(path, &text, &memory.revision).await {
            Ok(_) => return Ok(Some(text)),
            // Somebody else was quicker: once more, from what is there now.
            Err(ClientError::Conflict(_)) => {}
            Err(error) => return Err(error),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(url), Some(token)) = (args.next(), args.next()) else {
        return Err("give the daemon's address and token".into());
    };
    remember(url.parse()?, &token).await?;
    Ok(())
}
