//! `lukasa trust`: lists, adds and removes trusted folders, whose context files and memories models get.

use std::path::Path;

use engine::{Checkout, ProjectFolder, RemoteFolder};
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
    let named = match (&args.dir, &app.binding.project) {
        (Some(dir), _) => app.settings.remote_folder(dir)?,
        (None, Some(ProjectFolder::Remote(folder))) => Some(folder.clone()),
        (None, _) => None,
    };
    if let Some(folder) = named {
        return remote(app, args, &folder).await;
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
    report(app, args, &path.display().to_string(), changed)?;
    if args.remove && !app.output.json {
        let above = trusted.list().await?;
        if let Some(above) = above.iter().find(|above| is_below(&path, above)) {
            let above = above.display().to_string();
            let above = sanitize::line(&above);
            app.output.warning(&format!("it is still trusted, since {above} is"));
        }
    }
    if args.remove && !changed && !app.output.json {
        return Ok(Status::Refused);
    }
    Ok(Status::Done)
}

/// Trusts a folder on another machine, or stops trusting it.
async fn remote(app: &App, args: &Trust, folder: &RemoteFolder) -> Result<Status, Failure> {
    let trusted = app.engine.trusted_folders();
    if args.remove {
        let removed = app.finish_write("writing", trusted.remove_remote(folder)).await?;
        report(app, args, &folder.to_string(), removed)?;
        let is_refused = !removed && !app.output.json;
        return Ok(if is_refused { Status::Refused } else { Status::Done });
    }
    if !app.output.json && !args.yes {
        let effect = "models will get its context files (AGENTS.md and others) as instructions, and the memories that came with \
            its repository\n";
        if !ask::can_ask(app) {
            app.output.note(effect.trim_end());
        } else if !ask::confirm_about(app, effect, "Trust it?").await? {
            app.output.note("nothing was written");
            return Ok(Status::Refused);
        }
    }
    let added = app.finish_write("writing", trusted.add_remote(folder)).await?;
    report(app, args, &folder.to_string(), added)?;
    Ok(Status::Done)
}

fn report(app: &App, args: &Trust, shown: &str, changed: bool) -> Result<(), Failure> {
    if app.output.json {
        app.output.value(&json!({ "path": shown, "trusted": !args.remove, "changed": changed }))?;
        return Ok(());
    }
    let shown = sanitize::line(shown);
    app.output.note(&match (args.remove, changed) {
        (false, true) => format!("{shown} is trusted"),
        (false, false) => format!("{shown} is trusted already"),
        (true, true) => format!("{shown} is no longer trusted"),
        (true, false) => format!("{shown} was not in the list"),
    });
    Ok(())
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
    let trusted = app.engine.trusted_folders();
    let (folders, remotes) = (trusted.list().await?, trusted.remotes().await?);
    let folders = folders.iter().map(|folder| folder.display().to_string());
    let folders: Vec<_> = folders.chain(remotes.iter().map(ToString::to_string)).collect();
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
