//! `lukasa status` and `lukasa doctor`: folders and sizes of memories, and health checks.

use std::path::{Path, PathBuf};

use anstyle::Style;
use engine::{
    Depth, Health, HealthFinding, HealthFindingKind, Memories, NextDream, RepairReport, RootHealth,
    set_aside_databases,
};
use memory::clock::Timestamp;
use memory::command::view::human_size;
use memory::limits::SECRET_DRAFT_KEPT;
use memory::path::Mount;
use serde_json::{Value, json};

use crate::app::{App, now};
use crate::args::Doctor;
use crate::commands::drafts::{self, Draft};
use crate::commands::{encoder, pending};
use crate::exit::{Failure, Status};
use crate::render::text::TextBuffer;
use crate::render::time;
use crate::render::{BAD, FAINT, GOOD, MARK, OutputStyle, STRONG, WARN, counted, sanitize};
use crate::task_client::TaskClient;

/// The number of hints in text output, besides missing descriptions.
const ADVICE_MAX: usize = 20;

/// The number of memories with the same finding that are named.
const FINDING_PATHS_MAX: usize = 10;

/// Shows the folders and sizes of memories.
pub(crate) async fn status(app: &App) -> Result<Status, Failure> {
    let memories = app.memories();
    let health = app.wait_with_progress("checking", memories.health(Depth::Quick)).await?;
    let next_dream = TaskClient::open(app).next_dream().await;
    // Errors of the state are among the findings.
    let pending = app.engine.proposal_queue().count(&memories).await.unwrap_or_default();
    let state_file = app.engine.state_file().expect("a command works on the files of this host");
    let set_aside = databases_set_aside(app);
    let encoder = app.engine.encoder_status();
    if app.output.json {
        let mut value = status_value(&health, state_file, next_dream);
        if !set_aside.is_empty() {
            let old = set_aside.iter().map(|old| old.display().to_string());
            value["state"]["set_aside"] = old.collect();
        }
        value["pending"] = pending.into();
        value["encoder"] = encoder::status_word(&encoder).into();
        app.output.value(&value)?;
    } else {
        let next_dream = next_dream.map(|next| dream_line(next, now()));
        let pending = pending::waiting_line(pending);
        let encoder = Some(encoder::status_line(&encoder));
        let lines = [("dream", next_dream), ("pending", pending), ("encoder", encoder)];
        app.output.text(&status_text(&health, state_file, &set_aside, lines, app.output.style))?;
    }
    Ok(Status::Done)
}

/// Returns the conditions of the next scheduled dream as text.
fn dream_line(NextDream { not_before, sessions_missing }: NextDream, now: Timestamp) -> String {
    let time = not_before.filter(|time| *time > now);
    let sessions = usize::try_from(sessions_missing).unwrap_or(usize::MAX);
    let sessions = (sessions > 0)
        .then(|| format!("after {}", counted(sessions, "more session", "more sessions")));
    let time = time.map(|time| format!("not before {}", time::local(time)));
    let waits: Vec<_> = time.into_iter().chain(sessions).collect();
    if waits.is_empty() {
        return "as soon as a daemon is idle".to_owned();
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
        "scope": root.mount.word(),
        "folder": root.folder.as_ref().map(|folder| folder.display().to_string()),
        "unavailable": root.unavailable,
        "exists": root.exists,
        "files": root.files,
        "files_max": root.files_max,
        "bytes": root.bytes,
        "holder": root.holder,
    })
}

fn finding_value(finding: &HealthFinding) -> Value {
    json!({
        "kind": finding.kind.as_str(),
        "scope": finding.mount.map(Mount::word),
        "subject": finding.subject,
        "detail": finding.detail,
        "fixable": finding.fixable,
    })
}

fn status_text(
    health: &Health,
    state_file: &Path,
    set_aside: &[PathBuf],
    lines: [(&str, Option<String>); 3],
    look: OutputStyle,
) -> String {
    let mut text = TextBuffer::default();
    for root in &health.roots {
        root_lines(root, look, &mut text);
    }
    let state = &health.state;
    let changes = usize::try_from(state.changes).unwrap_or(usize::MAX);
    let facts = [counted(changes, "change", "changes"), human_size(state.database_bytes)];
    text.line(format_args!("{} {}", heading("state", look), facts.join(", ")));
    let file = sanitize::line(&state_file.display().to_string()).into_owned();
    text.line(indented(&file, FAINT, look));
    for old in set_aside {
        let old = sanitize::line(&old.display().to_string()).into_owned();
        text.line(indented(&format!("damaged and set aside: {old}"), WARN, look));
    }
    for (word, line) in lines {
        if let Some(line) = line {
            text.line(format_args!("{} {line}", heading(word, look)));
        }
    }
    let is_conflict = |finding: &&HealthFinding| finding.kind == HealthFindingKind::ConflictMarker;
    let conflicts: Vec<_> = health.findings.iter().filter(is_conflict).map(subject).collect();
    if !conflicts.is_empty() {
        let conflicts = sanitize::line(&named(&conflicts)).into_owned();
        text.line(format_args!("{} {}", heading("conflict", look), look.paint(WARN, &conflicts)));
    }
    if !health.findings.is_empty() {
        let count = counted(health.findings.len(), "finding", "findings");
        text.line(look.paint(WARN, &format!("{count}; `lukasa doctor` shows details")));
    }
    text.into_string()
}

fn root_lines(root: &RootHealth, look: OutputStyle, text: &mut TextBuffer) {
    let scope = heading(root.mount.word(), look);
    if let Some(reason) = &root.unavailable {
        let reason = sanitize::line(&format!("unavailable: {reason}")).into_owned();
        text.line(format_args!("{scope} {}", look.paint(FAINT, &reason)));
    } else {
        let count = format!("{} of {}", root.files, root.files_max);
        // From nine tenths on, the user should merge some memories.
        let style = if root.files * 10 >= root.files_max * 9 { WARN } else { GOOD };
        let (count, size) = (look.paint(style, &count), human_size(root.bytes));
        text.line(format_args!("{scope} {count} memories, {size}"));
    }
    if let Some(folder) = &root.folder {
        let missing = if root.exists { "" } else { " (created by the first write)" };
        let folder = sanitize::line(&folder.display().to_string()).into_owned();
        text.line(indented(&format!("{folder}{missing}"), FAINT, look));
    }
    if let Some(holder) = &root.holder {
        text.line(indented(&format!("locked by {}", sanitize::line(holder)), WARN, look));
    }
}

fn heading(word: &str, look: OutputStyle) -> String {
    look.paint(STRONG, &format!("{word:<10}"))
}

fn indented(fact: &str, style: Style, look: OutputStyle) -> String {
    format!("{:<10} {}", "", look.paint(style, fact))
}

/// Checks the store, and repairs it with `--fix`.
pub(crate) async fn doctor(app: &App, args: &Doctor) -> Result<Status, Failure> {
    let memories = app.memories();
    let report = if args.fix {
        app.wait_with_progress("repairing", repair_state_and_roots(app, &memories)).await?
    } else {
        let health = app.wait_with_progress("checking", memories.health(Depth::Thorough)).await?;
        RepairReport { actions: Vec::new(), remaining: health.findings, advice: health.advice }
    };
    let (drafts, set_aside) = (drafts::list(app), databases_set_aside(app));
    if app.output.json {
        let values =
            |findings: &[HealthFinding]| findings.iter().map(finding_value).collect::<Vec<_>>();
        app.output.value(&json!({
            "done": report.actions,
            "findings": values(&report.remaining),
            "advice": values(&report.advice),
            "drafts": drafts.iter().map(draft_value).collect::<Vec<_>>(),
            "set_aside": set_aside.iter().map(|old| old.display().to_string()).collect::<Vec<_>>(),
        }))?;
    } else {
        let look = app.output.style;
        let text = doctor_text(&report, args.fix, look);
        let drafts = drafts_text(&drafts, now(), look);
        app.output.text(&format!("{text}{}{drafts}", set_aside_text(&set_aside, look)))?;
    }
    Ok(if report.remaining.is_empty() { Status::Done } else { Status::Refused })
}

/// Returns the damaged state databases that were set aside, oldest first.
pub(crate) fn databases_set_aside(app: &App) -> Vec<PathBuf> {
    let file = app.engine.state_file().expect("a command works on the files of this host");
    set_aside_databases(file).unwrap_or_else(|error| {
        // A missing folder has no databases.
        if error.kind() != std::io::ErrorKind::NotFound {
            app.output.warning(&format!("cannot search for damaged databases: {error}"));
        }
        Vec::new()
    })
}

/// Says what a database that was set aside means, and what to do.
fn set_aside_text(set_aside: &[PathBuf], look: OutputStyle) -> String {
    let mut text = TextBuffer::default();
    for old in set_aside {
        let old = old.display().to_string();
        let old = look.paint(MARK, &sanitize::line(&old));
        text.line(format_args!("{} {old}", look.paint(WARN, "set-aside")));
        text.line(
            "    the state database was damaged, and a new one was started: earlier changes cannot be undone, and pins and\n    \
             proposals of then are gone. `sqlite3 FILE .recover` reads what is left; remove the file if you do not need it",
        );
    }
    text.into_string()
}

/// Repairs the state first, since the repair of the roots uses its data.
async fn repair_state_and_roots(app: &App, memories: &Memories) -> Result<RepairReport, Failure> {
    let mut done = Vec::new();
    if let Some(repair) = app.engine.repair_state().await? {
        done.push(format!("state: {repair}"));
    }
    let mut repaired = memories.repair().await?;
    repaired.actions.splice(..0, done);
    Ok(repaired)
}

fn doctor_text(report: &RepairReport, fixed: bool, look: OutputStyle) -> String {
    let mut text = TextBuffer::default();
    let findings = &report.remaining;
    for action in &report.actions {
        text.line(format_args!("{} {}", look.paint(GOOD, "repaired"), sanitize::line(action)));
    }
    for finding in findings {
        text.add(&finding_text(finding, BAD, look));
    }
    let fixable = findings.iter().filter(|finding| finding.fixable).count();
    if findings.is_empty() {
        text.line(look.paint(GOOD, "nothing needs attention"));
    } else if fixable > 0 && !fixed {
        let count = counted(fixable, "finding", "findings");
        text.line(format_args!("{count} can be repaired: `lukasa doctor --fix`"));
    }
    text.add(&advice_text(&report.advice, look));
    text.into_string()
}

fn finding_text(finding: &HealthFinding, style: Style, look: OutputStyle) -> String {
    let kind = look.paint(style, finding.kind.as_str());
    let subject = look.paint(MARK, &sanitize::line(&subject(finding)));
    format!("{kind} {subject}\n    {}\n", sanitize::line(&finding.detail))
}

fn subject(finding: &HealthFinding) -> String {
    match (finding.subject.strip_prefix("/memories/"), finding.mount) {
        (Some(short), _) => short.to_owned(),
        (None, Some(mount)) => format!("{}: {}", mount.word(), finding.subject),
        (None, None) => finding.subject.clone(),
    }
}

fn draft_value(draft: &Draft) -> Value {
    json!({
        "file": draft.file.display().to_string(),
        "kept_at": time::exact(draft.saved_at),
        "holds_secret": draft.holds_secret,
    })
}

/// Returns the list of drafts.
fn drafts_text(drafts: &[Draft], now: Timestamp, look: OutputStyle) -> String {
    let mut text = TextBuffer::default();
    if !drafts.is_empty() {
        text.line(format_args!(
            "\n{}",
            look.paint(STRONG, "drafts of edits that could not be saved:")
        ));
    }
    for draft in drafts {
        let file = look.paint(MARK, &sanitize::line(&draft.file.display().to_string()));
        text.line(format_args!("{file}  {}", look.paint(FAINT, &time::ago(draft.saved_at, now))));
        if draft.holds_secret {
            let days = SECRET_DRAFT_KEPT.as_secs() / (24 * 60 * 60);
            let expiry = if draft.expires {
                format!("; it is deleted after {days} days")
            } else {
                String::new()
            };
            let note = format!("seems to hold a secret{expiry}");
            text.line(format_args!("    {}", look.paint(WARN, &note)));
        }
    }
    if !drafts.is_empty() {
        text.line("continue with `lukasa edit PATH --draft FILE`, or delete the file");
    }
    text.into_string()
}

/// Returns the first of these paths, and the number of the others.
fn named(paths: &[String]) -> String {
    let named =
        paths.iter().take(FINDING_PATHS_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    match paths.len().checked_sub(FINDING_PATHS_MAX) {
        Some(more @ 1..) => format!("{named} and {more} more"),
        _ => named,
    }
}

/// Returns the hints. Memories without a description share one hint, since there may be hundreds.
fn advice_text(advice: &[HealthFinding], look: OutputStyle) -> String {
    let mut text = TextBuffer::default();
    if advice.is_empty() {
        return text.into_string();
    }
    text.line(format_args!("\n{}", look.paint(STRONG, "hints:")));
    let is_missing =
        |finding: &&HealthFinding| finding.kind == HealthFindingKind::MissingDescription;
    let others: Vec<_> = advice.iter().filter(|finding| !is_missing(finding)).collect();
    for finding in others.iter().take(ADVICE_MAX) {
        text.add(&finding_text(finding, WARN, look));
    }
    if let Some(more) = others.len().checked_sub(ADVICE_MAX).filter(|more| *more > 0) {
        text.line(format_args!("and {more} more; `lukasa doctor --json` lists all"));
    }
    let missing: Vec<_> = advice.iter().filter(is_missing).map(subject).collect();
    if !missing.is_empty() {
        let kind = look.paint(WARN, HealthFindingKind::MissingDescription.as_str());
        let count = look.paint(MARK, &counted(missing.len(), "memory", "memories"));
        let named = named(&missing);
        let named = sanitize::line(&named);
        let what = "without a description, a memory is listed with its first line";
        text.line(format_args!("{kind} {count}\n    {what}: {named}"));
    }
    text.into_string()
}
