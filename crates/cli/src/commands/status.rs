//! `quipu status` and `quipu doctor`: how things are.

use std::path::Path;

use anstyle::Style;
use engine::{Depth, Finding, Healed, Health, Memories, NextDream, RootHealth};
use memory::clock::{Clock as _, Timestamp};
use memory::command::view::human_size;
use serde_json::{Value, json};
use store::clock::SystemClock;

use crate::args::Doctor;
use crate::compose::App;
use crate::exit::{Failure, Status};
use crate::lane::Lane;
use crate::render::text::Text;
use crate::render::time;
use crate::render::{BAD, FAINT, GOOD, Look, MARK, STRONG, WARN, counted, mount_word, visible};

/// Shows where memories lie and how much there is.
pub(crate) async fn status(app: &App) -> Result<Status, Failure> {
    let memories = app.memories();
    let health = app.wait("looking", memories.health(Depth::Glance)).await?;
    let next_dream = Lane::open(app).next_dream().await;
    let state_file = app.engine.state_file();
    if app.output.json {
        app.output.value(&status_value(&health, state_file, next_dream))?;
    } else {
        let next_dream = next_dream.map(|next| dream_line(next, SystemClock.now()));
        app.output.text(&status_text(&health, state_file, next_dream, app.output.look))?;
    }
    Ok(Status::Done)
}

/// Says when the next dream by schedule comes.
fn dream_line(NextDream { not_before, sessions_missing }: NextDream, now: Timestamp) -> String {
    let time = not_before.filter(|time| *time > now);
    let sessions = usize::try_from(sessions_missing).unwrap_or(usize::MAX);
    let sessions = (sessions > 0)
        .then(|| format!("after {}", counted(sessions, "more session", "more sessions")));
    let time = time.map(|time| format!("not before {}", time::local(time)));
    let waits: Vec<_> = time.into_iter().chain(sessions).collect();
    if waits.is_empty() {
        return "as soon as a daemon has nothing to do".to_owned();
    }
    waits.join(", ")
}

fn status_value(health: &Health, state_file: &Path, next_dream: Option<NextDream>) -> Value {
    json!({
        "next_dream": next_dream.map(|next| json!({
            "not_before": next.not_before.map(time::exact),
            "sessions_missing": next.sessions_missing,
        })),
        "roots": health.roots.iter().map(root_value).collect::<Vec<_>>(),
        "findings": health.findings.iter().map(finding_value).collect::<Vec<_>>(),
        "state": {
            "file": state_file.display().to_string(),
            "changes": health.state.changes,
            "open": health.state.open,
            "content_bytes": health.state.content_bytes,
            "database_bytes": health.state.database_bytes,
        },
    })
}

fn root_value(root: &RootHealth) -> Value {
    json!({
        "scope": mount_word(root.mount),
        "folder": root.folder.as_ref().map(|folder| folder.display().to_string()),
        "unavailable": root.unavailable,
        "exists": root.exists,
        "files": root.files,
        "files_max": root.files_max,
        "bytes": root.bytes,
        "holder": root.holder,
    })
}

fn finding_value(finding: &Finding) -> Value {
    json!({
        "kind": finding.kind.as_str(),
        "scope": finding.mount.map(mount_word),
        "subject": finding.subject,
        "detail": finding.detail,
        "fixable": finding.fixable,
    })
}

fn status_text(
    health: &Health,
    state_file: &Path,
    next_dream: Option<String>,
    look: Look,
) -> String {
    let mut text = Text::default();
    for root in &health.roots {
        root_lines(root, look, &mut text);
    }
    let state = &health.state;
    let changes = usize::try_from(state.changes).unwrap_or(usize::MAX);
    let facts = [counted(changes, "change", "changes"), human_size(state.database_bytes)];
    text.line(format_args!("{} {}", heading("state", look), facts.join(", ")));
    let file = visible::line(&state_file.display().to_string()).into_owned();
    text.line(below(&file, FAINT, look));
    if let Some(next_dream) = next_dream {
        text.line(format_args!("{} {next_dream}", heading("dream", look)));
    }
    if !health.findings.is_empty() {
        let count = counted(health.findings.len(), "finding", "findings");
        text.line(look.paint(WARN, &format!("{count}; `quipu doctor` tells more")));
    }
    text.into_string()
}

fn root_lines(root: &RootHealth, look: Look, text: &mut Text) {
    let scope = heading(mount_word(root.mount), look);
    if let Some(reason) = &root.unavailable {
        let reason = visible::line(&format!("unavailable: {reason}")).into_owned();
        text.line(format_args!("{scope} {}", look.paint(FAINT, &reason)));
    } else {
        let count = format!("{} of {}", root.files, root.files_max);
        // From nine tenths on it is time to merge some.
        let style = if root.files * 10 >= root.files_max * 9 { WARN } else { GOOD };
        let (count, size) = (look.paint(style, &count), human_size(root.bytes));
        text.line(format_args!("{scope} {count} memories, {size}"));
    }
    if let Some(folder) = &root.folder {
        let made = if root.exists { "" } else { " (made by the first write)" };
        let folder = visible::line(&folder.display().to_string()).into_owned();
        text.line(below(&format!("{folder}{made}"), FAINT, look));
    }
    if let Some(holder) = &root.holder {
        text.line(below(&format!("held by {}", visible::line(holder)), WARN, look));
    }
}

fn heading(word: &str, look: Look) -> String {
    look.paint(STRONG, &format!("{word:<10}"))
}

fn below(fact: &str, style: Style, look: Look) -> String {
    format!("{:<10} {}", "", look.paint(style, fact))
}

/// Looks for trouble, and mends it when asked to.
pub(crate) async fn doctor(app: &App, args: &Doctor) -> Result<Status, Failure> {
    let memories = app.memories();
    let (done, left) = if args.fix {
        app.wait("mending", mend(app, &memories)).await?
    } else {
        let health = app.wait("looking", memories.health(Depth::Thorough)).await?;
        (Vec::new(), health.findings)
    };
    if app.output.json {
        let findings: Vec<_> = left.iter().map(finding_value).collect();
        app.output.value(&json!({ "done": done, "findings": findings }))?;
    } else {
        app.output.text(&doctor_text(&done, &left, args.fix, app.output.look))?;
    }
    Ok(if left.is_empty() { Status::Done } else { Status::Refused })
}

/// Mends the state first, so that the roots are mended with what it knows.
async fn mend(app: &App, memories: &Memories) -> Result<(Vec<String>, Vec<Finding>), Failure> {
    let mut done = Vec::new();
    if let Some(healed) = app.engine.repair_state().await? {
        let Healed { set_aside, reason, rows_kept } = healed;
        let aside = set_aside.display();
        done.push(format!("state: {reason}; kept {rows_kept} rows, put the old one at {aside}"));
    }
    let repaired = memories.repair().await?;
    done.extend(repaired.done);
    Ok((done, repaired.left))
}

fn doctor_text(done: &[String], left: &[Finding], fixed: bool, look: Look) -> String {
    let mut text = Text::default();
    for one in done {
        text.line(format_args!("{} {}", look.paint(GOOD, "mended"), visible::line(one)));
    }
    for one in left {
        let subject = match (one.subject.strip_prefix("/memories/"), one.mount) {
            (Some(short), _) => short.to_owned(),
            (None, Some(mount)) => format!("{}: {}", mount_word(mount), one.subject),
            (None, None) => one.subject.clone(),
        };
        let kind = look.paint(BAD, one.kind.as_str());
        let subject = look.paint(MARK, &visible::line(&subject));
        text.line(format_args!("{kind} {subject}\n    {}", visible::line(&one.detail)));
    }
    let fixable = left.iter().filter(|one| one.fixable).count();
    if left.is_empty() {
        text.line(look.paint(GOOD, "nothing needs attention"));
    } else if fixable > 0 && !fixed {
        let count = counted(fixable, "finding", "findings");
        text.line(format_args!("{count} can be mended: `quipu doctor --fix`"));
    }
    text.into_string()
}
