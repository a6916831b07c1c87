//! `lukasa encoder`: installs, shows and removes the encoder for recall.

use std::path::Path;

use engine::{EncoderFileError, EncoderStatus, prepare_encoder_file};
use memory::command::view::human_size;
use memory::error_code::MemoryErrorCode;
use serde_json::json;

use crate::app::App;
use crate::args::{Encoder, EncoderAction};
use crate::daemon;
use crate::exit::{Failure, Status};
use crate::files::{self, Overwrite};
use crate::render::sanitize;

/// Installs, shows or removes the encoder.
pub(crate) async fn run(app: &App, args: &Encoder) -> Result<Status, Failure> {
    let file = app.engine.encoder_file();
    match &args.action {
        EncoderAction::Install { source } => install(app, source, file).await,
        EncoderAction::Status => status(app, file),
        EncoderAction::Remove => remove(app, file),
    }
}

async fn install(app: &App, source: &Path, file: &Path) -> Result<Status, Failure> {
    let owned = source.to_owned();
    let preparing = tokio::task::spawn_blocking(move || prepare_encoder_file(&owned));
    let prepared = app.wait_with_progress("reading the model", preparing).await;
    let bytes = prepared
        .expect("reading a model does not panic")
        .map_err(|error| source_failure(source, &error))?;
    files::write_export(file, &bytes, Overwrite::Always)
        .map_err(|error| Failure::file("write", file, &error))?;
    if app.output.json {
        app.output.value(&json!({ "installed": true, "file": file, "bytes": bytes.len() }))?;
    } else {
        let path = sanitize::line(&file.display().to_string()).into_owned();
        let size = human_size(bytes.len() as u64);
        app.output.text(&format!("installed the encoder ({size}) at {path}\n"))?;
        note_restart(app);
    }
    Ok(Status::Done)
}

fn status(app: &App, file: &Path) -> Result<Status, Failure> {
    let status = app.engine.encoder_status();
    if app.output.json {
        let reason = match &status {
            EncoderStatus::Unusable(reason) => Some(reason),
            _ => None,
        };
        app.output.value(&json!({
            "status": status_word(&status),
            "reason": reason,
            "file": file,
        }))?;
    } else {
        app.output.text(&format!("{}\n", status_line(&status)))?;
    }
    let is_whole = matches!(status, EncoderStatus::Installed | EncoderStatus::Replaced);
    Ok(if is_whole { Status::Done } else { Status::Refused })
}

fn remove(app: &App, file: &Path) -> Result<Status, Failure> {
    if !files::exists(file) {
        let what = format!("no encoder is installed: `{}` does not exist", file.display());
        return Err(Failure::new(MemoryErrorCode::NotFound, what));
    }
    files::remove(file).map_err(|error| Failure::file("remove", file, &error))?;
    if app.output.json {
        app.output.value(&json!({ "installed": false, "file": file }))?;
    } else {
        app.output.text("removed the encoder; recall compares words and word vectors\n")?;
        note_restart(app);
    }
    Ok(Status::Done)
}

/// Says that a running daemon has to be restarted.
fn note_restart(app: &App) {
    if daemon::find(&app.folders.state).is_some() {
        app.output.note("restart the running daemon, so that it uses the change");
    }
}

fn source_failure(source: &Path, error: &EncoderFileError) -> Failure {
    let mut what = format!("cannot install `{}`: {error}", source.display());
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        what.extend([": ", &inner.to_string()]);
        cause = inner.source();
    }
    Failure::new(MemoryErrorCode::InvalidArguments, what)
        .help("`lukasa encoder --help` shows where to get the model")
}

/// Returns the word for the status in JSON.
pub(crate) const fn status_word(status: &EncoderStatus) -> &'static str {
    match status {
        EncoderStatus::Installed => "installed",
        EncoderStatus::Replaced => "replaced",
        EncoderStatus::Missing => "missing",
        EncoderStatus::Unusable(_) => "unusable",
        EncoderStatus::Unsupported => "unsupported",
    }
}

/// Describes the status in one line.
pub(crate) fn status_line(status: &EncoderStatus) -> String {
    match status {
        EncoderStatus::Installed => "all-MiniLM-L6-v2; recall compares meanings".to_owned(),
        EncoderStatus::Replaced => {
            "all-MiniLM-L6-v2, not used: recall uses the endpoint of `[embeddings]`".to_owned()
        }
        EncoderStatus::Missing => {
            "not installed; recall compares words and word vectors (`lukasa encoder --help`)"
                .to_owned()
        }
        EncoderStatus::Unusable(reason) => {
            let reason = sanitize::line(reason).into_owned();
            format!("not usable: {reason}; install it again (`lukasa encoder --help`)")
        }
        EncoderStatus::Unsupported => "this program was built without it".to_owned(),
    }
}
