//! `quipu trust`: folders whose context files may instruct models.

use engine::Checkout;
use serde_json::json;

use crate::args::Trust;
use crate::compose::{self, App};
use crate::exit::{Failure, Status};
use crate::render::text::Text;
use crate::render::visible;

/// Trusts a folder, or no longer, or lists those that are trusted.
pub(crate) async fn run(app: &App, args: &Trust) -> Result<Status, Failure> {
    if args.list {
        return list(app).await;
    }
    let folder = match (&args.dir, &app.binding().project_dir) {
        (Some(dir), _) => compose::here().unwrap_or_default().join(dir),
        (None, Some(here)) => {
            Checkout::find(here).map_or_else(|| here.clone(), |checkout| checkout.root)
        }
        (None, None) => return Err(Failure::usage("there is no current folder to trust")),
    };
    let trusted = app.engine.trusted_folders();
    let (path, changed) = if args.remove {
        let removed = app.write("writing", trusted.remove(&folder)).await?;
        (folder, removed)
    } else {
        app.write("writing", trusted.add(&folder)).await?
    };
    let shown = path.display().to_string();
    if app.output.json {
        app.output.value(&json!({ "path": shown, "trusted": !args.remove, "changed": changed }))?;
        return Ok(Status::Done);
    }
    let shown = visible::line(&shown);
    app.output.note(&match (args.remove, changed) {
        (false, true) => format!("{shown} is trusted"),
        (false, false) => format!("{shown} is trusted already"),
        (true, true) => format!("{shown} is trusted no longer"),
        (true, false) => format!("{shown} was not in the list"),
    });
    if args.remove && !changed {
        return Ok(Status::Refused);
    }
    Ok(Status::Done)
}

async fn list(app: &App) -> Result<Status, Failure> {
    let folders = app.engine.trusted_folders().list().await?;
    let folders: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
    if app.output.json {
        app.output.value(&json!({ "folders": folders }))?;
        return Ok(Status::Done);
    }
    let mut text = Text::default();
    for folder in &folders {
        text.line(format_args!("{}", visible::line(folder)));
    }
    app.output.text(&text.into_string())?;
    if folders.is_empty() {
        app.output.note("no folder is trusted; `quipu trust` trusts this project");
    }
    Ok(Status::Done)
}
