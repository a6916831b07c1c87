//! `lukasa create`, `replace`, `insert`, `rm`, `mv`, `pin` and `unpin`.

use engine::{Memories, Unreviewed};
use memory::change::{Actor, ChangeKind, Provenance, Trust};
use memory::command::{CommandError, MemoryCommand};
use memory::error_code::MemoryErrorCode;
use memory::path::MemoryPath;
use serde_json::json;

use crate::app::{App, call, with_allowed_rules};
use crate::args::{Create, Insert, Mv, Pin, Replace, Rm};
use crate::commands::editor::{self, EditorExit};
use crate::commands::origin::authorships;
use crate::commands::{CommandOutcome, PathKind, ask, listing, path_kind, with_change};
use crate::exit::{Failure, Status};
use crate::render::{counted, short_path};

/// Creates a memory.
pub(crate) async fn create(app: &App, args: Create) -> Result<Status, Failure> {
    let memories = app.memories_with(&args.allow_rules)?;
    let path = memory_path(app, &args.path)?;
    let file_text = match text(args.text).await? {
        Some(text) => text,
        None => from_editor(app, &path).await?,
    };
    let done =
        apply(app, &memories, MemoryCommand::Create { path: path.clone(), file_text }).await?;
    done.report(app, &format!("created {}", short_path(&path)), &path)
}

/// Replaces a text in a memory.
pub(crate) async fn replace(app: &App, args: Replace) -> Result<Status, Failure> {
    let memories = app.memories_with(&args.allow_rules)?;
    let path = app.path(&args.path)?;
    let command =
        MemoryCommand::StrReplace { path: path.clone(), old_str: args.old, new_str: args.new };
    let done = apply(app, &memories, command).await?;
    done.report(app, &format!("edited {}", short_path(&path)), &path)
}

/// Adds lines to a memory.
pub(crate) async fn insert(app: &App, args: Insert) -> Result<Status, Failure> {
    let memories = app.memories_with(&args.allow_rules)?;
    let path = app.path(&args.path)?;
    let Some(insert_text) = text(args.text).await? else {
        return Err(Failure::usage("nothing to insert")
            .help("pass the text as an argument or through a pipe"));
    };
    let command = MemoryCommand::Insert { path: path.clone(), insert_line: args.line, insert_text };
    let done = apply(app, &memories, command).await?;
    done.report(app, &format!("edited {}", short_path(&path)), &path)
}

/// Deletes memories and folders, all or none.
pub(crate) async fn rm(app: &App, args: &Rm) -> Result<Status, Failure> {
    ask::require_consent(app, args.consent, "rm", "deletes")?;
    let memories = app.memories();
    let paths =
        args.paths.iter().map(|path| app.path(path)).collect::<Result<Vec<_>, Failure>>()?;
    if !args.consent.yes {
        for path in &paths {
            if !confirm_delete(app, &memories, path).await? {
                app.output.note("nothing was deleted");
                return Ok(Status::Refused);
            }
        }
    }
    let change = match paths.as_slice() {
        [path] => apply(app, &memories, MemoryCommand::Delete { path: path.clone() }).await?.change,
        paths => {
            let mut draft = memories.draft(ChangeKind::Delete, call());
            for path in paths {
                CommandOutcome::from_reply(
                    draft.apply(MemoryCommand::Delete { path: path.clone() }).await?,
                )?;
            }
            app.finish_write("deleting", draft.commit()).await?
        }
    };
    if app.output.json {
        let paths: Vec<_> = paths.iter().map(ToString::to_string).collect();
        app.output.value(&json!({ "paths": paths, "change": change.map(|id| id.0) }))?;
    }
    let shown: Vec<_> = paths.iter().map(short_path).collect();
    app.output.note(&with_change(&format!("deleted {}", shown.join(", ")), change));
    Ok(Status::Done)
}

/// Asks before a folder is deleted.
async fn confirm_delete(
    app: &App,
    memories: &Memories,
    path: &MemoryPath,
) -> Result<bool, Failure> {
    // The store refuses to delete a root.
    if path.relative().is_none() || path_kind(memories, path).await? == PathKind::Memory {
        return Ok(true);
    }
    let listing = memories.list(Some(path)).await?;
    let count = counted(listing.memories.len() + listing.omitted, "memory", "memories");
    let folder = short_path(path);
    ask::confirm(app, &format!("Delete the folder {folder} with {count}?")).await
}

/// Renames a memory or folder.
pub(crate) async fn mv(app: &App, args: &Mv) -> Result<Status, Failure> {
    let memories = app.memories_with(&args.allow_rules)?;
    let old_path = app.path(&args.from)?;
    let mut new_path = app.path(&args.to)?;
    if args.to.trim().ends_with('/')
        && let Some(relative) = old_path.relative()
    {
        new_path = new_path.join(relative.file_name()).map_err(CommandError::from)?;
    }
    if old_path.mount() != new_path.mount() && old_path.relative().is_some() {
        return move_across(app, args, &old_path, new_path).await;
    }
    let command = MemoryCommand::Rename { old_path: old_path.clone(), new_path: new_path.clone() };
    let done = apply(app, &memories, command).await?;
    done.report(
        app,
        &format!("renamed {} to {}", short_path(&old_path), short_path(&new_path)),
        &new_path,
    )
}

/// Moves a memory or folder to another scope, as one change. Pins are moved too; usage restarts at zero. A change has
/// one trust, so all memories of a folder get the lowest trust of one of them.
async fn move_across(
    app: &App,
    args: &Mv,
    old_path: &MemoryPath,
    mut new_path: MemoryPath,
) -> Result<Status, Failure> {
    if let (None, Some(relative)) = (new_path.relative(), old_path.relative()) {
        new_path = new_path.join(relative.file_name()).map_err(CommandError::from)?;
    }
    let memories = app.memories();
    let listing = listing(&memories, Some(old_path)).await?;
    if listing.omitted > 0 {
        let what = format!("{} holds too many memories for one move", short_path(old_path));
        return Err(
            Failure::new(MemoryErrorCode::TooLarge, what).help("move its folders one by one")
        );
    }
    let moved: Vec<_> = listing.memories.iter().map(|listed| &listed.path).collect();
    let trust = least_trust(&memories, &moved).await?;
    let writer = app.memories_of(Provenance::new(Actor::Person, trust, "cli"));
    let writer = with_allowed_rules(writer, &args.allow_rules)?;
    let mut draft = writer.draft(ChangeKind::Rename, call());
    let (old, mut pins) = (old_path.to_string(), Vec::new());
    for listed in &listing.memories {
        let below = listed.path.to_string();
        let below = below.strip_prefix(&old).unwrap_or_default().trim_start_matches('/');
        let mut to = new_path.clone();
        for segment in below.split('/').filter(|segment| !segment.is_empty()) {
            to = to.join(segment).map_err(CommandError::from)?;
        }
        // The removal comes first: a memory that is edited after it was read here is not removed by the commit.
        CommandOutcome::from_reply(
            draft.apply(MemoryCommand::Delete { path: listed.path.clone() }).await?,
        )?;
        let file_text = writer.read(&listed.path).await?.text;
        CommandOutcome::from_reply(
            draft.apply(MemoryCommand::Create { path: to.clone(), file_text }).await?,
        )?;
        pins.extend(listed.pinned.then_some(to));
    }
    let change = app.finish_write("moving", draft.commit()).await?;
    for path in &pins {
        writer.set_pin(path, true).await?;
    }
    let done = CommandOutcome { change, revision: None, warnings: Vec::new() };
    done.report(
        app,
        &format!("moved {} to {}", short_path(old_path), short_path(&new_path)),
        &new_path,
    )
}

/// Returns the lowest trust of some memories. A memory without history was written outside of Lukasa.
async fn least_trust(memories: &Memories, paths: &[&MemoryPath]) -> Result<Trust, Failure> {
    let origins = authorships(memories, paths.iter().copied()).await?;
    let trust = |path: &&MemoryPath| origins.get(*path).map_or(Trust::Outside, |one| one.trust);
    Ok(paths.iter().map(trust).min().unwrap_or(Trust::Person))
}

/// Pins or unpins memories.
pub(crate) async fn pin(app: &App, args: &Pin, pinned: bool) -> Result<Status, Failure> {
    let memories = app.memories();
    let paths =
        args.paths.iter().map(|path| app.path(path)).collect::<Result<Vec<_>, Failure>>()?;
    // All paths are checked before the first pin is set, so that a typing error sets none.
    for path in &paths {
        if path_kind(&memories, path).await? == PathKind::Folder {
            return Err(CommandError::NotAFile { path: path.clone() }.into());
        }
    }
    let texts: Vec<_> = paths.iter().map(|path| (path, None)).collect();
    let unreviewed = memories.unreviewed(&texts).await;
    let word = if pinned { "pinned" } else { "unpinned" };
    let mut results = Vec::new();
    for path in &paths {
        let changed = memories.set_pin(path, pinned).await?;
        let already = if changed { "" } else { " already" };
        app.output.note(&format!("{}: {word}{already}", short_path(path)));
        if pinned && unreviewed.get(path).is_some_and(|why| *why != Unreviewed::Marked) {
            let path = short_path(path);
            app.output.warning(&format!(
                "{path} is left out of context until it is reviewed: `lukasa accept {path}`"
            ));
        }
        results.push(json!({ "path": path.to_string(), "pinned": pinned, "changed": changed }));
    }
    if app.output.json {
        app.output.value(&json!(results))?;
    }
    Ok(Status::Done)
}

async fn apply(
    app: &App,
    memories: &Memories,
    command: MemoryCommand,
) -> Result<CommandOutcome, Failure> {
    let call = call();
    CommandOutcome::from_reply(app.finish_write("writing", memories.apply(command, &call)).await?)
}

/// Parses the path of a new memory; a slash at its end is an error.
fn memory_path(app: &App, text: &str) -> Result<MemoryPath, Failure> {
    let path = app.path(text)?;
    if text.trim().ends_with('/') {
        let fault = memory::path::PathErrorKind::FolderPath;
        let error = memory::path::PathError::invalid(text.trim(), fault);
        return Err(CommandError::from(error).into());
    }
    Ok(path)
}

/// Returns the text from the argument or from stdin; `None` if stdin is a terminal.
async fn text(argument: Option<String>) -> Result<Option<String>, Failure> {
    let is_typed = argument.as_ref().is_some_and(|text| text != "-");
    let text = ask::text(argument).await?;
    // A text that is typed as an argument has no final newline, but a file should have one.
    let ends = |text: &str| !is_typed || text.is_empty() || text.ends_with('\n');
    Ok(text.map(|text| if ends(&text) { text } else { text + "\n" }))
}

async fn from_editor(app: &App, path: &MemoryPath) -> Result<String, Failure> {
    let name = path.relative().map_or("memory.md", |relative| relative.file_name());
    match editor::open(app, name, "").await? {
        EditorExit::Text(text) if !text.trim().is_empty() => Ok(text),
        EditorExit::Text(_) => Err(Failure::usage("the text is empty; nothing was written")),
        EditorExit::NoText(_) => Err(Failure::usage("the edited text is not UTF-8")),
    }
}
