//! `lukasa token`: what callers of the daemon bring.

use serde_json::json;

use crate::app::App;
use crate::daemon;
use crate::exit::{Failure, Status};

/// Prints the token; makes it if there is none.
pub(crate) fn run(app: &App) -> Result<Status, Failure> {
    // A daemon that was given another file said so.
    let said = daemon::find(&app.folders.state).and_then(|place| place.token_file);
    let file = said.unwrap_or_else(|| daemon::token_file(&app.folders.state));
    let token = daemon::token(&file)?;
    if app.output.json {
        app.output.value(&json!({ "token": token, "file": file }))?;
    } else {
        app.output.text(&format!("{token}\n"))?;
    }
    Ok(Status::Done)
}
