//! `lukasa trust`: lists, adds and removes trusted folders, whose context files and memories models get.

use std::path::Path;

use engine::Checkout;
use serde_json::json;

use crate::app::{self, App};
use crate::args::{AllowRules, Trust};
use crate::commands::ask;
use crate::exit::{Failure, Status};
use crate::render::text::TextBuffer;
use crate::render::{sanitize, short_path};

/// The number of files and memories that the question names.
const SOURCES_NAMED_MAX: usize = 20;

/// Trusts a folder, stops trusting it, or lists the trusted folders.
pub(crate) async fn run(app: &App, args: &Trust) -> Result<Status, Failure> {
    if args.list {
        return list(app).await;
    }
    let folder = match (&args.dir, app.binding.local_project()) {
        (Some(dir), _) => app::current_folder().unwrap_or_default().join(dir),
        (None, Some(project)) => {
            Checkout::find(project).map_or_else(|| project.to_owned(), |checkout| checkout.root)
        }
        (None, None) => return Err(Failure::usage("there is no current folder to trust")),
    };
    let trusted = app.engine.trusted_folders();
    let (path, changed) = if args.remove {
        let removed = app.finish_write("writing", trusted.remove(&folder)).await?;
        (folder, removed)
    } else {
        let sources = instruction_sources(app, &folder).await?;
        let asks = !sources.is_empty() && !app.output.json;
        if asks && !args.yes && ask::can_ask(app) {
            if !ask::confirm_about(app, &sources, "Trust it?").await? {
                app.output.note("nothing was written");
                return Ok(Status::Refused);
            }
        } else if asks {
            app.output.note(sources.trim_end());
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
        (true, true) => format!("{shown} is no longer trusted"),
        (true, false) => format!("{shown} was not in the list"),
    });
    if args.remove {
        let above = trusted.list().await?;
        if let Some(above) = above.iter().find(|above| is_below(&path, above)) {
            let above = above.display().to_string();
            let above = sanitize::line(&above);
            app.output.warning(&format!("it is still trusted, since {above} is"));
        }
    }
    if args.remove && !changed {
        return Ok(Status::Refused);
    }
    Ok(Status::Done)
}

/// Returns a list of the context files and unreviewed memories of a folder that models get once it is trusted. Empty if
/// there are none.
async fn instruction_sources(app: &App, folder: &Path) -> Result<String, Failure> {
    let project = app.binding.local_project().filter(|project| is_below(project, folder));
    let Some(project) = project else {
        return Ok(
            "models will get its context files as instructions, and its memories\n".to_owned()
        );
    };
    let files = app.context_files_with(&AllowRules::default())?;
    let memories = app.memories();
    let content =
        app.wait_with_progress("listing", app.engine.untrusted_content(&files, &memories)).await?;
    let mut text = TextBuffer::default();
    let mut lines: Vec<String> = content
        .files
        .iter()
        .map(|path| {
            let path = path.strip_prefix(project).unwrap_or(path);
            format!("{}  instructs models", sanitize::line(&path.display().to_string()))
        })
        .collect();
    lines.extend(content.memories.iter().map(|memory| {
        let (path, description) = (short_path(&memory.path), sanitize::line(&memory.description));
        format!("{}  {description}", sanitize::line(&path))
    }));
    let more = lines.len().saturating_sub(SOURCES_NAMED_MAX);
    lines.truncate(SOURCES_NAMED_MAX);
    if lines.is_empty() {
        return Ok(String::new());
    }
    text.line(format_args!("once it is trusted, models get these without asking for them:"));
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
