//! `lukasa ui`: the page for people, in a browser.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use memory::error_code::MemoryErrorCode;
use protocol::client::ClientError;
use serde_json::json;

use crate::app::{App, this_program};
use crate::args::{DEFAULT_PORT, Ui};
use crate::daemon::{self, DaemonRecord};
use crate::exit::{Failure, Status};

/// How long to wait before looking again whether a daemon has started, and how often.
const START_POLL: Duration = Duration::from_millis(50);
const START_POLLS: usize = 200;

/// Opens the page; starts a daemon if none runs.
pub(crate) async fn run(app: &App, args: &Ui) -> Result<Status, Failure> {
    let state = &app.folders.state;
    let running = find_entry(state).await?;
    let started = running.is_none();
    let (place, ticket) = if let Some(running) = running {
        running
    } else {
        start(app)?;
        app.wait_with_progress("starting a daemon", wait_for_start(state)).await?
    };
    // A fragment reaches no server and no log; a ticket is good once, for a minute.
    let url = format!("{}/ui/#ticket={ticket}", place.url);
    if app.output.json {
        app.output.value(&json!({ "url": url, "pid": place.pid, "started": started }))?;
    } else {
        if started {
            let (pid, url) = (place.pid, &place.url);
            app.output.note(&format!(
                "a daemon was started: {url}, process {pid}; it runs until you end it"
            ));
        }
        if args.print {
            app.output.text(&format!("{url}\n"))?;
        } else {
            app.output.note(&format!("open {url} within a minute, if no browser does"));
        }
    }
    if !args.print
        && let Err(error) = open::that_detached(&url)
    {
        app.output.warning(&format!("no browser could be opened: {error}"));
    }
    Ok(Status::Done)
}

/// Returns the daemon of a state folder with a ticket for its page; `None` if there is none that answers.
async fn find_entry(state: &Path) -> Result<Option<(DaemonRecord, String)>, Failure> {
    let Some(place) = daemon::find(state) else { return Ok(None) };
    match place.client()?.ui_ticket().await {
        Ok(ticket) => Ok(Some((place, ticket.ticket))),
        Err(ClientError::Unreachable(_)) => Ok(None),
        Err(error) => Err(Failure::from(error)
            .help(format!("the daemon at {} may be older than this program", place.url))),
    }
}

/// Starts a daemon for the current folder that outlives this process.
fn start(app: &App) -> Result<(), Failure> {
    let mut command = Command::new(this_program()?);
    command.arg("serve").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Where somebody else has the port, another one does.
    if std::net::TcpListener::bind(("127.0.0.1", DEFAULT_PORT)).is_err() {
        command.args(["--port", "0"]);
    }
    if let Some(project) = &app.globals.project {
        command.arg("--workspace").arg(project);
    }
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt as _;
        // Ctrl-C in this terminal is not meant for it.
        command.process_group(0);
    }
    let started = command.spawn();
    started.map_err(|error| Failure::file("start a daemon", Path::new("lukasa"), &error))?;
    Ok(())
}

/// Waits for a daemon that is starting.
async fn wait_for_start(state: &Path) -> Result<(DaemonRecord, String), Failure> {
    for _ in 0..START_POLLS {
        if let Some(entered) = find_entry(state).await? {
            return Ok(entered);
        }
        tokio::time::sleep(START_POLL).await;
    }
    Err(Failure::new(MemoryErrorCode::StorageFailed, "a daemon was started and does not answer")
        .help("`lukasa serve` in a terminal says why"))
}
