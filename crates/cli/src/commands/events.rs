//! `lukasa events`: prints the events of the running daemon.

use memory::error_code::MemoryErrorCode;
use protocol::client::{ClientError, StartFrom};
use protocol::event::{Envelope, Event, MemoryChanged, ProposalEvent};
use serde_json::json;

use crate::app::App;
use crate::args::Events;
use crate::daemon;
use crate::exit::{Failure, Status};
use crate::render::{FAINT, MARK, OutputStyle, print, sanitize};

/// Prints new events as they arrive, or all stored events.
pub(crate) async fn run(app: &App, args: &Events) -> Result<Status, Failure> {
    let daemon = daemon::find(&app.folders.state).ok_or_else(no_daemon)?;
    let client = daemon.client()?;
    let start = if args.follow { StartFrom::Now } else { StartFrom::Oldest };
    let mut events = client.events(start).await.map_err(failure)?.without_reconnect();
    while let Some(envelope) = events.next().await.map_err(failure)? {
        if matches!(envelope.event, Event::ReplayComplete(_)) {
            return Ok(Status::Done);
        }
        let line = if app.output.json {
            sanitize::json(&json!(envelope).to_string()).into_owned()
        } else {
            line(&envelope, app.output.style)
        };
        print(format!("{line}\n").as_bytes())?;
    }
    Err(Failure::new(MemoryErrorCode::Locked, "the daemon ended the stream"))
}

fn no_daemon() -> Failure {
    Failure::new(MemoryErrorCode::NotFound, "no daemon runs for this state folder")
        .help("start it with `lukasa serve`")
}

fn failure(error: ClientError) -> Failure {
    match error {
        ClientError::Unreachable(_) => no_daemon(),
        error => error.into(),
    }
}

fn line(envelope: &Envelope, look: OutputStyle) -> String {
    let (what, which) = match &envelope.event {
        Event::MemoryChanged(MemoryChanged::File { path, moved_to, kind, actor, .. }) => {
            let to = moved_to.as_ref().map(|to| format!(" -> {to}")).unwrap_or_default();
            (format!("{kind} by {actor}"), format!("{path}{to}"))
        }
        Event::MemoryChanged(MemoryChanged::Managed { task_id, touched_scopes, .. }) => {
            let scopes: Vec<_> = touched_scopes.iter().map(ToString::to_string).collect();
            ("task".to_owned(), format!("{task_id} ({})", scopes.join(", ")))
        }
        Event::MemoryChanged(
            MemoryChanged::Workspace { file_path, mode, .. }
            | MemoryChanged::Global { file_path, mode, .. },
        ) => (format!("{mode} of a context file"), file_path.clone()),
        Event::Proposal(ProposalEvent { action, ids, actor, .. }) => {
            let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
            let noun = if ids.len() == 1 { "proposal" } else { "proposals" };
            (format!("{noun} {action} by {actor}"), ids.join(", "))
        }
        Event::MemoryReviewed(reviewed) => ("review".to_owned(), reviewed.message.clone()),
        other => (other.as_ref().to_owned(), String::new()),
    };
    let id = envelope.id.map(|id| id.to_string()).unwrap_or_default();
    let line =
        format!("{} {what} {}", look.paint(FAINT, &id), look.paint(MARK, &sanitize::line(&which)));
    line.trim().to_owned()
}
