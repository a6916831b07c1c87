//! `lukasa accept`: lists memories without a review, and accepts them as trusted.
//!
//! Each memory is shown before the question, and accepted in exactly the revision that was shown.

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

/// The number of lines of a memory that are shown before the question.
const SHOWN_LINES_MAX: usize = 60;

/// A memory without a review.
struct UnreviewedMemory {
    path: MemoryPath,
    why: Unreviewed,
    description: String,
    /// `None` if it cannot be read as a memory; it cannot be accepted then.
    read: Option<MemoryText>,
}

/// Accepts memories, or lists those without a review.
pub(crate) async fn run(app: &App, args: &Accept) -> Result<Status, Failure> {
    let memories = app.memories();
    if args.paths.is_empty() {
        return list(app, &memories).await;
    }
    let mut chosen: Vec<(UnreviewedMemory, Revision)> = Vec::new();
    for path in &args.paths {
        let path = app.path(path)?;
        // A missing path is an error of its own.
        path_kind(&memories, &path).await?;
        let found = find_unreviewed(app, &memories, Some(&path)).await?;
        if found.is_empty() {
            app.output.note(&format!("{}: no review needed", short_path(&path)));
        }
        for memory in found {
            match memory.read.as_ref().map(|read| read.revision) {
                Some(revision) => chosen.push((memory, revision)),
                None => app.output.warning(&format!(
                    "{} cannot be accepted: it is not text, or too large",
                    short_path(&memory.path)
                )),
            }
        }
    }
    if !chosen.is_empty() && !args.consent.yes {
        ask::require_consent(app, args.consent, "accept", "marks text as trusted")?;
        let question = format!("Accept {}?", counted(chosen.len(), "memory", "memories"));
        let look = app.output.note_style;
        let about: String = chosen.iter().map(|(memory, _)| full_text(memory, look)).collect();
        if !ask::confirm_about(app, &about, &question).await? {
            app.output.note("nothing was accepted");
            return Ok(Status::Refused);
        }
    }
    let mut accepted = Vec::new();
    for (memory, revision) in &chosen {
        let call = call();
        let change =
            app.finish_write("accepting", memories.accept(&memory.path, *revision, &call)).await;
        let change = change.map_err(|error| match error {
            engine::StoreError::Refused(CommandError::Conflict { path, .. }) => {
                let what = format!("{} was changed since it was shown", short_path(&path));
                Failure::new(MemoryErrorCode::Conflict, what)
                    .help("run the same command again to see the new text")
            }
            error => error.into(),
        })?;
        app.output.note(&with_change(&format!("accepted {}", short_path(&memory.path)), change));
        let number = change.map(|change| change.0);
        accepted.push(json!({ "path": memory.path.to_string(), "change": number }));
    }
    if app.output.json {
        app.output.value(&json!({ "accepted": accepted }))?;
    }
    Ok(Status::Done)
}

/// Returns the text of a memory for the question, with its path and reason.
fn full_text(memory: &UnreviewedMemory, look: OutputStyle) -> String {
    let mut text = TextBuffer::default();
    let (path, from) = (short_path(&memory.path), reason_text(memory.why));
    text.line(format_args!("{}  {}", look.paint(STRONG, &path), look.paint(FAINT, from)));
    let lines: Vec<_> = memory.read.iter().flat_map(|read| read.text.lines()).collect();
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
        app.output.note("no memory needs a review");
        return Ok(Status::Done);
    }
    if app.output.style.columns {
        app.output.text(&columns(&waiting, app.output.style))?;
    } else {
        let line =
            |memory: &UnreviewedMemory| format!("{}\t{}\n", memory.path, reason_word(memory.why));
        app.output.text(&waiting.iter().map(line).collect::<String>())?;
    }
    if app.output.style.terminal {
        app.output
            .note("`lukasa view PATH` shows a memory; `lukasa accept PATH` accepts it as trusted");
    }
    Ok(Status::Done)
}

/// Returns the memories below a path without a review, with their current texts.
async fn find_unreviewed(
    app: &App,
    memories: &Memories,
    under: Option<&MemoryPath>,
) -> Result<Vec<UnreviewedMemory>, Failure> {
    let listing = app.wait_with_progress("listing", listing(memories, under)).await?;
    let paths: Vec<_> = listing.memories.iter().map(|memory| (&memory.path, None)).collect();
    let unreviewed = memories.unreviewed(&paths).await;
    let waiting = listing.memories.iter();
    let waiting: Vec<_> =
        waiting.filter_map(|memory| Some((memory, *unreviewed.get(&memory.path)?))).collect();
    let paths: Vec<_> = waiting.iter().map(|(memory, _)| &memory.path).collect();
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
        Unreviewed::Silent => "untrusted repository",
        Unreviewed::Marked => "repository",
        Unreviewed::Influenced => "agent that had read such text",
        Unreviewed::Background => "background review",
    }
}

fn columns(waiting: &[UnreviewedMemory], look: OutputStyle) -> String {
    let columns = [
        Column::left("MEMORY").styled(STRONG),
        Column::left("FROM"),
        Column::left("DESCRIPTION").styled(FAINT),
    ];
    let row = |memory: &UnreviewedMemory| {
        let (path, description) =
            (short_path(&memory.path), sanitize::line(&memory.description).into_owned());
        vec![sanitize::line(&path).into_owned(), reason_text(memory.why).to_owned(), description]
    };
    table::aligned(&columns, waiting.iter().map(row), look)
}

fn value(memory: &UnreviewedMemory) -> Value {
    json!({
        "path": memory.path.to_string(),
        "revision": memory.read.as_ref().map(|read| read.revision.to_string()),
        "from": reason_word(memory.why),
        "description": memory.description,
    })
}
