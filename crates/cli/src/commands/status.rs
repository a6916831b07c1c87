//! `quipu status` and `quipu doctor`: how things are.

use engine::{Finding, Health, Memories, Repaired, RootHealth};
use memory::command::view::human_size;
use serde_json::{Value, json};

use crate::args::Doctor;
use crate::compose::App;
use crate::exit::{Failure, Status};
use crate::render::text::Text;
use crate::render::{BAD, FAINT, GOOD, Look, MARK, STRONG, WARN, counted, mount_word, visible};

/// Shows where memories lie and how much there is.
pub(crate) async fn status(app: &App) -> Result<Status, Failure> {
    let memories = app.memories()?;
    let health = app.wait("looking", memories.health()).await?;
    if app.output.json {
        app.output.value(&status_value(&memories, &health))?;
    } else {
        app.output.text(&status_text(&memories, &health, app.output.look))?;
    }
    Ok(Status::Done)
}

fn status_value(memories: &Memories, health: &Health) -> Value {
    let unavailable: Vec<_> = unavailable(memories)
        .map(|(scope, reason)| json!({ "scope": scope, "reason": reason }))
        .collect();
    json!({
        "roots": health.roots.iter().map(root_value).collect::<Vec<_>>(),
        "unavailable": unavailable,
        "findings": health.findings.iter().map(finding_value).collect::<Vec<_>>(),
        "state": {
            "file": health.state_file.display().to_string(),
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
        "exists": root.exists,
        "files": root.files,
        "files_max": root.files_max,
        "bytes": root.bytes,
        "lock_holder": root.lock_holder,
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

fn unavailable(memories: &Memories) -> impl Iterator<Item = (&'static str, String)> {
    memories
        .mounts()
        .into_iter()
        .filter_map(|mount| Some((mount_word(mount.mount), mount.unavailable?)))
}

fn status_text(memories: &Memories, health: &Health, look: Look) -> String {
    let mut text = Text::default();
    for root in &health.roots {
        let scope = look.paint(STRONG, &format!("{:<10}", mount_word(root.mount)));
        let count = format!("{} of {}", root.files, root.files_max);
        let style = if root.files * 10 >= root.files_max * 9 { WARN } else { GOOD };
        let size = human_size(root.bytes);
        text.line(format_args!("{scope} {} memories, {size}", look.paint(style, &count)));
        let folder = match &root.folder {
            Some(folder) => visible::line(&folder.display().to_string()).into_owned(),
            None => String::new(),
        };
        let made = if root.exists { "" } else { " (made by the first write)" };
        text.line(look.paint(FAINT, &format!("{:<10} {folder}{made}", "")));
        if let Some(holder) = &root.lock_holder {
            let held = format!("held by {}", visible::line(holder));
            text.line(format_args!("{:<10} {}", "", look.paint(WARN, &held)));
        }
    }
    for (scope, reason) in unavailable(memories) {
        let scope = look.paint(STRONG, &format!("{scope:<10}"));
        text.line(format_args!("{scope} {}", look.paint(FAINT, &format!("unavailable: {reason}"))));
    }
    let state = &health.state;
    text.line(format_args!(
        "{} {}, {}",
        look.paint(STRONG, &format!("{:<10}", "state")),
        counted(usize::try_from(state.changes).unwrap_or(usize::MAX), "change", "changes"),
        human_size(state.database_bytes),
    ));
    let file = visible::line(&health.state_file.display().to_string()).into_owned();
    text.line(look.paint(FAINT, &format!("{:<10} {file}", "")));
    if !health.findings.is_empty() {
        let count = counted(health.findings.len(), "finding", "findings");
        text.line(look.paint(WARN, &format!("{count}; `quipu doctor` lists them")));
    }
    text.into_string()
}

/// Looks for trouble, and mends it when asked to.
pub(crate) async fn doctor(app: &App, args: &Doctor) -> Result<Status, Failure> {
    let memories = app.memories()?;
    let (done, left) = if args.fix {
        let Repaired { done, left } = app.wait("mending", memories.repair()).await?;
        (done, left)
    } else {
        (Vec::new(), app.wait("looking", memories.health()).await?.findings)
    };
    if app.output.json {
        let findings: Vec<_> = left.iter().map(finding_value).collect();
        app.output.value(&json!({ "done": done, "findings": findings }))?;
    } else {
        app.output.text(&doctor_text(&done, &left, args.fix, app.output.look))?;
    }
    Ok(if left.is_empty() { Status::Done } else { Status::Refused })
}

fn doctor_text(done: &[String], left: &[Finding], fixed: bool, look: Look) -> String {
    let mut text = Text::default();
    for one in done {
        text.line(format_args!("{} {}", look.paint(GOOD, "mended"), visible::line(one)));
    }
    for one in left {
        let scope = one.mount.map_or("state", mount_word);
        let kind = look.paint(BAD, one.kind.as_str());
        let subject = look.paint(MARK, &visible::line(&format!("{scope}: {}", one.subject)));
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
