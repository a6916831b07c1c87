//! `lukasa accept`: memories that nobody here reviewed, and a person who answers for them.

use engine::{Memories, MemoryText, Unreviewed};
use memory::command::CommandError;
use memory::document::Revision;
use memory::error_code::MemoryErrorCode;
use memory::path::MemoryPath;
use serde_json::{Value, json};

use crate::app::{App, call};
use crate::args::Accept;
use crate::commands::{ask, listing, path_kind, with_change};
use crate::exit::{Failure, Status};
use crate::render::table::Column;
use crate::render::text::TextBuffer;
use crate::render::{FAINT, OutputStyle, STRONG, counted, sanitize, short_path, table};

/// How many lines of a memory are shown before a person answers for it.
const SHOWN_LINES_MAX: usize = 60;

/// A memory that nobody here reviewed.
struct UnreviewedMemory {
    path: MemoryPath,
    why: Unreviewed,
    description: String,
    /// `None` if it cannot be read as a memory: then nobody can answer for it.
    read: Option<MemoryText>,
}

/// Accepts memories as they are, or lists those that nobody here reviewed.
pub(crate) async fn run(app: &App, args: &Accept) -> Result<Status, Failure> {
    let memories = app.memories();
    if args.paths.is_empty() {
        return list(app, &memories).await;
    }
    let mut chosen: Vec<(UnreviewedMemory, Revision)> = Vec::new();
    for path in &args.paths {
        let path = app.path(path)?;
        // What is not there is told as such.
        path_kind(&memories, &path).await?;
        let found = find_unreviewed(app, &memories, Some(&path)).await?;
        if found.is_empty() {
            app.output.note(&format!("{}: nothing waits for a review", short_path(&path)));
        }
        for one in found {
            match one.read.as_ref().map(|read| read.revision) {
                Some(revision) => chosen.push((one, revision)),
                None => app.output.warning(&format!(
                    "{} is no text, or too large, so nobody can answer for it",
                    short_path(&one.path)
                )),
            }
        }
    }
    if !chosen.is_empty() && !args.consent.yes {
        ask::require_consent(app, args.consent, "accept", "answers for text as it is")?;
        let question = format!("Accept {}?", counted(chosen.len(), "memory", "memories"));
        let look = app.output.note_style;
        let about: String = chosen.iter().map(|(one, _)| full_text(one, look)).collect();
        if !ask::confirm_about(app, &about, &question).await? {
            app.output.note("nothing was accepted");
            return Ok(Status::Refused);
        }
    }
    let mut accepted = Vec::new();
    for (one, revision) in &chosen {
        let call = call();
        let change =
            app.finish_write("accepting", memories.accept(&one.path, *revision, &call)).await;
        let change = change.map_err(|error| match error {
            engine::StoreError::Refused(CommandError::Conflict { path, .. }) => {
                let what = format!("{} was changed since it was shown", short_path(&path));
                Failure::new(MemoryErrorCode::Conflict, what)
                    .help("look at it again, then accept it")
            }
            error => error.into(),
        })?;
        app.output.note(&with_change(&format!("accepted {}", short_path(&one.path)), change));
        let number = change.map(|change| change.0);
        accepted.push(json!({ "path": one.path.to_string(), "change": number }));
    }
    if app.output.json {
        app.output.value(&json!({ "accepted": accepted }))?;
    }
    Ok(Status::Done)
}

/// Returns a memory as a person has to read it before answering for it.
fn full_text(one: &UnreviewedMemory, look: OutputStyle) -> String {
    let mut text = TextBuffer::default();
    let (path, from) = (short_path(&one.path), reason_text(one.why));
    text.line(format_args!("{}  {}", look.paint(STRONG, &path), look.paint(FAINT, from)));
    let lines: Vec<_> = one.read.iter().flat_map(|read| read.text.lines()).collect();
    for line in lines.iter().take(SHOWN_LINES_MAX) {
        text.line(format_args!("  {}", look.memory_text(line)));
    }
    if let Some(more) = lines.len().checked_sub(SHOWN_LINES_MAX).filter(|more| *more > 0) {
        let more = counted(more, "more line", "more lines");
        text.line(format_args!("  … {more}: `lukasa view {path}`"));
    }
    text.line("");
    text.into_string()
}

async fn list(app: &App, memories: &Memories) -> Result<Status, Failure> {
    let waiting = find_unreviewed(app, memories, None).await?;
    if app.output.json {
        let waiting: Vec<_> = waiting.iter().map(value).collect();
        app.output.value(&json!({ "memories": waiting }))?;
        return Ok(Status::Done);
    }
    if waiting.is_empty() {
        app.output.note("everything was reviewed");
        return Ok(Status::Done);
    }
    if app.output.style.columns {
        app.output.text(&columns(&waiting, app.output.style))?;
    } else {
        let line = |one: &UnreviewedMemory| format!("{}\t{}\n", one.path, reason_word(one.why));
        app.output.text(&waiting.iter().map(line).collect::<String>())?;
    }
    if app.output.style.terminal {
        app.output
            .note("read one with `lukasa view PATH`; `lukasa accept PATH` answers for it as it is");
    }
    Ok(Status::Done)
}

/// Returns the memories below a path that nobody here reviewed, as they are now.
async fn find_unreviewed(
    app: &App,
    memories: &Memories,
    under: Option<&MemoryPath>,
) -> Result<Vec<UnreviewedMemory>, Failure> {
    let listing = app.wait_with_progress("listing", listing(memories, under)).await?;
    let paths: Vec<_> = listing.memories.iter().map(|one| (&one.path, None)).collect();
    let unreviewed = memories.unreviewed(&paths).await;
    let waiting = listing.memories.iter();
    let waiting: Vec<_> =
        waiting.filter_map(|one| Some((one, *unreviewed.get(&one.path)?))).collect();
    let paths: Vec<_> = waiting.iter().map(|(one, _)| &one.path).collect();
    let texts = memories.read_readable(&paths).await;
    let waiting = waiting.iter().zip(texts).map(|((listed, why), read)| {
        let (path, description) = (listed.path.clone(), listed.description.clone());
        UnreviewedMemory { path, why: *why, description, read }
    });
    Ok(waiting.collect())
}

const fn reason_word(why: Unreviewed) -> &'static str {
    match why {
        Unreviewed::Silent | Unreviewed::Marked => "repository",
        Unreviewed::Influenced => "influenced",
        Unreviewed::Background => "background_review",
    }
}

const fn reason_text(why: Unreviewed) -> &'static str {
    match why {
        Unreviewed::Silent => "the repository, not trusted",
        Unreviewed::Marked => "the repository",
        Unreviewed::Influenced => "an agent that had read such text",
        Unreviewed::Background => "a background review",
    }
}

fn columns(waiting: &[UnreviewedMemory], look: OutputStyle) -> String {
    let columns = [
        Column::left("MEMORY").styled(STRONG),
        Column::left("FROM"),
        Column::left("DESCRIPTION").styled(FAINT),
    ];
    let row = |one: &UnreviewedMemory| {
        let (path, description) =
            (short_path(&one.path), sanitize::line(&one.description).into_owned());
        vec![sanitize::line(&path).into_owned(), reason_text(one.why).to_owned(), description]
    };
    table::aligned(&columns, waiting.iter().map(row), look)
}

fn value(one: &UnreviewedMemory) -> Value {
    json!({
        "path": one.path.to_string(),
        "revision": one.read.as_ref().map(|read| read.revision.to_string()),
        "from": reason_word(one.why),
        "description": one.description,
    })
}
