//! `lukasa recall`: finds the memories that fit a prompt.

use engine::{RetrievedMemory, age_text};
use memory::clock::Timestamp;
use serde_json::{Value, json};

use crate::app::{App, now};
use crate::args::Recall;
use crate::exit::{Failure, Status};
use crate::render::text::TextBuffer;
use crate::render::{FAINT, MARK, OutputStyle, sanitize, short_path};

/// Prints the memories that answer a question, with their scores.
pub(crate) async fn run(app: &App, args: &Recall) -> Result<Status, Failure> {
    let prompt = args.prompt.join(" ");
    let memories = app.memories();
    let recaller = app.engine.recaller();
    let found = app.wait_with_progress("searching", recaller.recall(&memories, &prompt)).await?;
    if app.output.json {
        app.output.values(&found.iter().map(value).collect::<Vec<_>>())?;
    } else {
        let mut text = TextBuffer::default();
        for found in &found {
            write(found, args.explain, (app.output.style, now()), &mut text);
        }
        app.output.text(&text.into_string())?;
        if found.is_empty() {
            app.output.note("no memory fits; `lukasa grep` searches for exact words");
        } else if found.iter().all(|found| found.is_weak) {
            app.output.note("no memory clearly fits; these are the nearest");
        }
    }
    Ok(if found.is_empty() { Status::Refused } else { Status::Done })
}

fn value(found: &RetrievedMemory) -> Value {
    let also_in: Vec<_> = found.also_in.iter().map(|other| other.path.to_string()).collect();
    json!({
        "path": found.path.to_string(),
        "title": found.title,
        "text": found.excerpt().text,
        "revision": found.revision.to_string(),
        "modifiedAt": found.modified_at.to_string(),
        "savedAt": found.saved_at.map(|at| at.to_string()),
        "score": found.score,
        "weak": found.is_weak,
        "why": found.why,
        "alsoIn": also_in,
        "unreviewed": found.mark.map(<&str>::from),
    })
}

fn write(
    found: &RetrievedMemory,
    explain: bool,
    (look, now): (OutputStyle, Timestamp),
    text: &mut TextBuffer,
) {
    let weak = if found.is_weak { ", weak" } else { "" };
    let saved = found.saved_at.map(|at| format!(", saved {}", age_text(at, now)));
    let rating = format!("{:.2}{weak}{}", found.score, saved.unwrap_or_default());
    let path = look.paint(MARK, &short_path(&found.path));
    text.line(format!("{path}  {}", look.paint(FAINT, &rating)));
    for other in &found.also_in {
        text.line(look.paint(FAINT, &format!("  also in {}", short_path(&other.path))));
    }
    if let Some(mark) = found.mark {
        text.line(look.paint(FAINT, &format!("  {}", mark.before_text())));
    }
    if explain {
        text.line(look.paint(FAINT, &format!("  {}", sanitize::line(&found.why))));
    }
    for line in sanitize::text(&found.excerpt().text).lines() {
        text.line(format!("  {line}"));
    }
}
