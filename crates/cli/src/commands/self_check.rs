//! `lukasa self check`: whether the databases and the running daemon fit this program.

use engine::ChangesQuery;
use serde_json::json;

use crate::app::{self, App};
use crate::args::{SelfAction, SelfArgs, SelfCheck};
use crate::commands::status::databases_set_aside;
use crate::daemon;
use crate::exit::{Failure, Status, chain};
use crate::render::sanitize;

/// The version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A part that was compared with this program.
struct ComparedPart {
    name: &'static str,
    fits: bool,
    text: String,
}

impl ComparedPart {
    fn new(name: &'static str, result: Result<String, String>) -> Self {
        let fits = result.is_ok();
        Self { name, fits, text: result.unwrap_or_else(|problem| problem) }
    }
}

/// Compares all parts.
pub(crate) async fn run(app: &App, args: &SelfArgs) -> Result<Status, Failure> {
    let SelfAction::Check(check) = &args.action;
    let program = app::this_program()?;
    let mut parts = vec![
        ComparedPart::new("program", Ok(format!("{VERSION}, {}", program.display()))),
        ComparedPart::new("state", state(app).await),
        ComparedPart::new("daemon", running_daemon(app).await),
    ];
    parts.extend(database(check).await);
    if app.output.json {
        let value = |part: &ComparedPart| json!({ "part": part.name, "fits": part.fits, "text": part.text });
        let parts: Vec<_> = parts.iter().map(value).collect();
        app.output.value(&json!({ "version": VERSION, "parts": parts }))?;
    } else {
        for ComparedPart { name, text, .. } in &parts {
            app.output.text(&format!("{name:<10}{}\n", sanitize::text(text)))?;
        }
    }
    Ok(if parts.iter().all(|part| part.fits) { Status::Done } else { Status::Refused })
}

/// Opens the state database. The error of one of a later version says so.
async fn state(app: &App) -> Result<String, String> {
    let file = app.engine.state_file().expect("a command works on the files of this host");
    let newest = ChangesQuery { max: 1, ..ChangesQuery::default() };
    match app.memories().changes(&newest).await {
        Ok(_) if !file.exists() => Ok("none yet".to_owned()),
        Ok(_) => {
            let set_aside = match databases_set_aside(app).last() {
                Some(old) => {
                    format!("; a damaged one is set aside, see `lukasa doctor`: {}", old.display())
                }
                None => String::new(),
            };
            Ok(format!("fits, {}{set_aside}", file.display()))
        }
        Err(error) => Err(chain(&error)),
    }
}

/// Asks the running daemon for its version.
async fn running_daemon(app: &App) -> Result<String, String> {
    let Some(daemon) = daemon::find(&app.folders.state) else {
        return Ok("none is running".to_owned());
    };
    let client = match daemon.client() {
        Ok(client) => client,
        // Its token came from an environment that this command does not have.
        Err(failure) => {
            return Ok(format!("process {} was not asked: {}", daemon.pid, message(failure)));
        }
    };
    match client.capabilities().await {
        Ok(found) if found.lukasa_version == VERSION => Ok(format!("fits, process {}", daemon.pid)),
        Ok(found) => Err(format!(
            "process {} is version {}; restart it to run this one",
            daemon.pid, found.lukasa_version
        )),
        Err(error) => Err(format!("process {} does not answer: {}", daemon.pid, chain(&error))),
    }
}

/// Returns the text of a failure.
fn message(failure: Failure) -> String {
    match failure {
        Failure::Message(message) => message.message,
        Failure::PipeClosed | Failure::Interrupted(_) => "interrupted".to_owned(),
    }
}

/// Compares the tables of a database that daemons share.
#[cfg(feature = "cluster")]
async fn database(check: &SelfCheck) -> Option<ComparedPart> {
    let address = check.database.as_deref()?;
    let result = match crate::database::open_unchanged(address).await {
        Ok(database) => {
            database.close().await;
            Ok("fits".to_owned())
        }
        Err(failure) => Err(message(failure)),
    };
    Some(ComparedPart::new("database", result))
}

#[cfg(not(feature = "cluster"))]
#[expect(clippy::unused_async, reason = "only a database is awaited")]
async fn database(check: &SelfCheck) -> Option<ComparedPart> {
    let SelfCheck {} = check;
    None
}
