//! `lukasa trust`: folders whose context files may instruct models, and whose memories are shown to them unasked.

use std::path::Path;

use engine::Checkout;
use serde_json::json;

use crate::app::{self, App};
use crate::args::{AllowRules, Trust};
use crate::commands::ask;
use crate::exit::{Failure, Status};
use crate::render::text::TextBuffer;
use crate::render::{sanitize, short_path};

/// How many files and memories are named before a folder is trusted.
const SPEAKING_MAX: usize = 20;

/// Trusts a folder, or no longer, or lists those that are trusted.
pub(crate) async fn run(app: &App, args: &Trust) -> Result<Status, Failure> {
    if args.list {
        return list(app).await;
    }
    let folder = match (&args.dir, &app.binding.project_dir) {
        (Some(dir), _) => app::current_folder().unwrap_or_default().join(dir),
        (None, Some(here)) => {
            Checkout::find(here).map_or_else(|| here.clone(), |checkout| checkout.root)
        }
        (None, None) => return Err(Failure::usage("there is no current folder to trust")),
    };
    let trusted = app.engine.trusted_folders();
    let (path, changed) = if args.remove {
        let removed = app.finish_write("writing", trusted.remove(&folder)).await?;
        (folder, removed)
    } else {
        let speaks = instruction_sources(app, &folder).await?;
        let asks = !speaks.is_empty() && !app.output.json;
        if asks && !args.yes && ask::can_ask(app) {
            if !ask::confirm_about(app, &speaks, "Trust it?").await? {
                app.output.note("nothing was written");
                return Ok(Status::Refused);
            }
        } else if asks {
            app.output.note(speaks.trim_end());
        }
        app.finish_write("writing", trusted.add(&folder)).await?
    };
    let shown = path.display().to_string();
    if app.output.json {
        app.output.value(&json!({ "path": shown, "trusted": !args.remove, "changed": changed }))?;
        return Ok(Status::Done);
    }
    let shown = sanitize::line(&shown);
    app.output.note(&match (args.remove, changed) {
        (false, true) => format!("{shown} is trusted"),
        (false, false) => format!("{shown} is trusted already"),
        (true, true) => format!("{shown} is trusted no longer"),
        (true, false) => format!("{shown} was not in the list"),
    });
    if args.remove {
        let above = trusted.list().await?;
        if let Some(above) = above.iter().find(|above| is_below(&path, above)) {
            let above = above.display().to_string();
            let above = sanitize::line(&above);
            app.output.warning(&format!("it is trusted all the same, since {above} is"));
        }
    }
    if args.remove && !changed {
        return Ok(Status::Refused);
    }
    Ok(Status::Done)
}

/// Says what of a folder reaches models once it is trusted: context files, and memories that nobody here reviewed. Empty if
/// there is nothing.
async fn instruction_sources(app: &App, folder: &Path) -> Result<String, Failure> {
    let Some(here) = app.binding.project_dir.clone().filter(|here| is_below(here, folder)) else {
        return Ok("its context files will instruct models, and its memories are shown to them\n"
            .to_owned());
    };
    let files = app.context_files_with(&AllowRules::default())?;
    let memories = app.memories();
    let speaking =
        app.wait_with_progress("listing", app.engine.untrusted_content(&files, &memories)).await?;
    let mut text = TextBuffer::default();
    let mut lines: Vec<String> = speaking
        .files
        .iter()
        .map(|path| {
            let path = path.strip_prefix(&here).unwrap_or(path);
            format!("{}  instructs models", sanitize::line(&path.display().to_string()))
        })
        .collect();
    lines.extend(speaking.memories.iter().map(|one| {
        let (path, description) = (short_path(&one.path), sanitize::line(&one.description));
        format!("{}  {description}", sanitize::line(&path))
    }));
    let more = lines.len().saturating_sub(SPEAKING_MAX);
    lines.truncate(SPEAKING_MAX);
    if lines.is_empty() {
        return Ok(String::new());
    }
    text.line(format_args!("trusted, these are shown to models without being asked for:"));
    for line in lines {
        text.line(format_args!("  {line}"));
    }
    if more > 0 {
        text.line(format_args!("  and {more} more"));
    }
    Ok(text.into_string())
}

fn is_below(path: &Path, folder: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    real(path).starts_with(real(folder))
}

async fn list(app: &App) -> Result<Status, Failure> {
    let folders = app.engine.trusted_folders().list().await?;
    let folders: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
    if app.output.json {
        app.output.value(&json!({ "folders": folders }))?;
        return Ok(Status::Done);
    }
    let mut text = TextBuffer::default();
    for folder in &folders {
        text.line(format_args!("{}", sanitize::line(folder)));
    }
    app.output.text(&text.into_string())?;
    if folders.is_empty() {
        app.output.note("no folder is trusted; `lukasa trust` trusts this project");
    }
    Ok(Status::Done)
}
