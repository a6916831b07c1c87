//! `quipu accept`: memories that nobody here reviewed, and a person who answers for them.

use engine::{Memories, Unreviewed};
use memory::command::CommandError;
use memory::document::Revision;
use memory::path::MemoryPath;
use serde_json::{Value, json};

use crate::args::Accept;
use crate::commands::{There, ask, listing, look, with_change};
use crate::compose::{App, call};
use crate::exit::{Failure, Status};
use crate::render::table::Column;
use crate::render::{FAINT, STRONG, counted, short, table, visible};

/// A memory that nobody here reviewed.
struct Waiting {
    path: MemoryPath,
    revision: Revision,
    why: Unreviewed,
    description: String,
}

/// Accepts memories as they are, or lists those that nobody here reviewed.
pub(crate) async fn run(app: &App, args: &Accept) -> Result<Status, Failure> {
    let memories = app.memories();
    if args.paths.is_empty() {
        return list(app, &memories).await;
    }
    let mut chosen = Vec::new();
    let mut has_folders = false;
    for path in &args.paths {
        let path = app.path(path)?;
        let is_folder = look(&memories, &path).await? == There::Folder;
        let found = waiting(app, &memories, Some(&path)).await?;
        if found.is_empty() && !is_folder {
            app.output.note(&format!("{}: was reviewed already", short(&path)));
        }
        has_folders |= is_folder;
        chosen.extend(found);
    }
    if has_folders && !chosen.is_empty() && !args.consent.yes {
        ask::require_consent(app, args.consent, "accept", "answers for all below a folder")?;
        let question = format!("Accept {}?", counted(chosen.len(), "memory", "memories"));
        let about = columns(&chosen, app.output.notes);
        if !ask::confirm_about(app, &about, &question).await? {
            app.output.note("nothing was accepted");
            return Ok(Status::Refused);
        }
    }
    let mut accepted = Vec::new();
    for one in &chosen {
        let call = call();
        let change = app.write("accepting", memories.accept(&one.path, one.revision, &call)).await;
        let change = change.map_err(|error| match error {
            engine::StoreError::Refused(CommandError::Conflict { path, .. }) => {
                let what = format!("{} was changed at this very moment", short(&path));
                Failure::new(memory::code::Code::Conflict, what)
                    .help("read it again, then accept it")
            }
            error => error.into(),
        })?;
        app.output.note(&with_change(&format!("accepted {}", short(&one.path)), Some(change)));
        accepted.push(json!({ "path": one.path.to_string(), "change": change.0 }));
    }
    if app.output.json {
        app.output.value(&json!({ "accepted": accepted }))?;
    }
    Ok(Status::Done)
}

async fn list(app: &App, memories: &Memories) -> Result<Status, Failure> {
    let waiting = waiting(app, memories, None).await?;
    if app.output.json {
        let waiting: Vec<_> = waiting.iter().map(value).collect();
        app.output.value(&json!({ "memories": waiting }))?;
        return Ok(Status::Done);
    }
    if waiting.is_empty() {
        app.output.note("everything was reviewed");
        return Ok(Status::Done);
    }
    if app.output.look.columns {
        app.output.text(&columns(&waiting, app.output.look))?;
    } else {
        let line = |one: &Waiting| format!("{}\t{}\n", one.path, word(one.why));
        app.output.text(&waiting.iter().map(line).collect::<String>())?;
    }
    if app.output.look.terminal {
        app.output
            .note("read one with `quipu view PATH`; `quipu accept PATH` answers for it as it is");
    }
    Ok(Status::Done)
}

/// Returns the memories below a path that nobody here reviewed, as they are now.
async fn waiting(
    app: &App,
    memories: &Memories,
    under: Option<&MemoryPath>,
) -> Result<Vec<Waiting>, Failure> {
    let listing = app.wait("listing", listing(memories, under)).await?;
    let paths: Vec<_> = listing.memories.iter().map(|one| (&one.path, None)).collect();
    let unreviewed = memories.unreviewed(&paths).await;
    let mut waiting = Vec::new();
    for listed in &listing.memories {
        let Some(&why) = unreviewed.get(&listed.path) else { continue };
        // What cannot be read is nothing that a person could have read.
        let Some(read) = memories.read_if_readable(&listed.path).await else { continue };
        let (path, description) = (listed.path.clone(), listed.description.clone());
        waiting.push(Waiting { path, revision: read.revision, why, description });
    }
    Ok(waiting)
}

const fn word(why: Unreviewed) -> &'static str {
    match why {
        Unreviewed::Silent | Unreviewed::Marked => "repository",
        Unreviewed::Influenced => "influenced",
    }
}

fn columns(waiting: &[Waiting], look: crate::render::Look) -> String {
    let columns = [
        Column::left("MEMORY").styled(STRONG),
        Column::left("FROM"),
        Column::left("DESCRIPTION").styled(FAINT),
    ];
    let row = |one: &Waiting| {
        let from = match one.why {
            Unreviewed::Silent => "the repository, not trusted",
            Unreviewed::Marked => "the repository",
            Unreviewed::Influenced => "an agent that read such text",
        };
        let (path, description) = (short(&one.path), visible::line(&one.description).into_owned());
        vec![visible::line(&path).into_owned(), from.to_owned(), description]
    };
    let rows: Vec<_> = waiting.iter().map(row).collect();
    table::aligned(&columns, &rows, look)
}

fn value(one: &Waiting) -> Value {
    json!({
        "path": one.path.to_string(),
        "revision": one.revision.to_string(),
        "from": word(one.why),
        "description": one.description,
    })
}
