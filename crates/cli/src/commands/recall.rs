//! `lukasa recall`: finds the memories that fit a prompt.

use engine::RetrievedMemory;
use serde_json::{Value, json};

use crate::app::App;
use crate::args::Recall;
use crate::exit::{Failure, Status};
use crate::render::text::TextBuffer;
use crate::render::{FAINT, MARK, OutputStyle, sanitize, short_path};

/// Prints the memories that an agent would get with a prompt.
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
            write(found, args.explain, app.output.style, &mut text);
        }
        app.output.text(&text.into_string())?;
        if found.is_empty() {
            app.output.note("no memory fits; `lukasa grep` searches for exact words");
        }
    }
    Ok(if found.is_empty() { Status::Refused } else { Status::Done })
}

fn value(found: &RetrievedMemory) -> Value {
    json!({
        "path": found.path.to_string(),
        "title": found.title,
        "text": found.text,
        "revision": found.revision.to_string(),
        "modifiedAt": found.modified_at.to_string(),
        "why": found.why,
        "unreviewed": found.mark.map(<&str>::from),
    })
}

fn write(found: &RetrievedMemory, explain: bool, look: OutputStyle, text: &mut TextBuffer) {
    text.line(look.paint(MARK, &short_path(&found.path)));
    if let Some(mark) = found.mark {
        text.line(look.paint(FAINT, &format!("  {}", mark.before_text())));
    }
    if explain {
        text.line(look.paint(FAINT, &format!("  {}", sanitize::line(&found.why))));
    }
    for line in sanitize::text(&found.text).lines() {
        text.line(format!("  {line}"));
    }
}
