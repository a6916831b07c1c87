//! `lukasa token`: prints the token of the daemon.

use serde_json::json;

use crate::app::App;
use crate::daemon;
use crate::exit::{Failure, Status};

/// Prints the token; creates it if there is none.
pub(crate) fn run(app: &App) -> Result<Status, Failure> {
    // A daemon that uses another file has recorded it.
    let recorded = daemon::find(&app.folders.state).and_then(|daemon| daemon.token_file);
    let file = recorded.unwrap_or_else(|| daemon::token_file(&app.folders.state));
    let token = daemon::token(&file)?;
    if app.output.json {
        app.output.value(&json!({ "token": token, "file": file }))?;
    } else {
        app.output.text(&format!("{token}\n"))?;
    }
    Ok(Status::Done)
}
