//! `lukasa ui`: opens the web page in a browser, and starts a daemon if none runs.

use std::os::unix::process::CommandExt as _;
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

/// The interval of polls for a starting daemon.
const START_POLL: Duration = Duration::from_millis(50);

/// The maximum number of polls for a starting daemon.
const START_POLLS: usize = 200;

/// Opens the page; starts a daemon if none runs.
pub(crate) async fn run(app: &App, args: &Ui) -> Result<Status, Failure> {
    let state = &app.folders.state;
    let running = find_entry(state).await?;
    let started = running.is_none();
    let (daemon, ticket) = if let Some(running) = running {
        running
    } else {
        start(app)?;
        app.wait_with_progress("starting a daemon", wait_for_start(state)).await?
    };
    // A fragment is not sent to servers and so not logged; a ticket is valid once, for a minute.
    let url = format!("{}/ui/#ticket={ticket}", daemon.url);
    if app.output.json {
        app.output.value(&json!({ "url": url, "pid": daemon.pid, "started": started }))?;
    } else {
        if started {
            let (pid, url) = (daemon.pid, &daemon.url);
            app.output.note(&format!(
                "started a daemon: {url}, process {pid}; it runs until you stop it"
            ));
        }
        if args.print {
            app.output.text(&format!("{url}\n"))?;
        } else {
            app.output.note(&format!("if no browser opens, open {url} within a minute"));
        }
    }
    if !args.print
        && let Err(error) = open::that_detached(&url)
    {
        app.output.warning(&format!("cannot open a browser: {error}"));
    }
    Ok(Status::Done)
}

/// Returns the daemon of a state folder with a ticket for its page; `None` if no daemon answers.
async fn find_entry(state: &Path) -> Result<Option<(DaemonRecord, String)>, Failure> {
    let Some(daemon) = daemon::find(state) else { return Ok(None) };
    match daemon.client()?.ui_ticket().await {
        Ok(ticket) => Ok(Some((daemon, ticket.ticket))),
        Err(ClientError::Unreachable(_)) => Ok(None),
        Err(error) => Err(Failure::from(error)
            .help(format!("the daemon at {} may be older than this program", daemon.url))),
    }
}

/// Starts a daemon for the current folder that outlives this process.
fn start(app: &App) -> Result<(), Failure> {
    let mut command = Command::new(this_program()?);
    command.arg("serve").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // If another program uses the default port, any free port is used.
    if std::net::TcpListener::bind(("127.0.0.1", DEFAULT_PORT)).is_err() {
        command.args(["--port", "0"]);
    }
    if let Some(project) = &app.globals.project {
        command.arg("--workspace").arg(project);
    }
    // Ctrl-C in this terminal must not stop the daemon.
    command.process_group(0);
    let started = command.spawn();
    started.map_err(|error| Failure::file("start a daemon", Path::new("lukasa"), &error))?;
    Ok(())
}

/// Waits for a daemon that is starting.
async fn wait_for_start(state: &Path) -> Result<(DaemonRecord, String), Failure> {
    for _ in 0..START_POLLS {
        if let Some(entry) = find_entry(state).await? {
            return Ok(entry);
        }
        tokio::time::sleep(START_POLL).await;
    }
    Err(Failure::new(MemoryErrorCode::StorageFailed, "the started daemon does not answer")
        .help("run `lukasa serve` in a terminal to see the error"))
}
