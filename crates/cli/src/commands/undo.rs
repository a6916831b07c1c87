//! `lukasa undo`: undoes one change, the changes of a task, or those of a time range.

use std::collections::BTreeMap;

use engine::{ChangeInOtherRoot, ChangesQuery, DryRun, Memories, UndoReport, UndoTarget};
use memory::change::{ChangeId, ChangeKind, MemoryChange};
use memory::error_code::MemoryErrorCode;
use serde_json::json;

use crate::app::{App, call, now};
use crate::args::Undo;
use crate::commands::{ask, history, report_warnings, warning_values};
use crate::exit::{Failure, Status};
use crate::render::{change, counted, short_path};

/// The number of changes read at a time in the search for the last one made through Lukasa.
const CHANGES_READ_AT_ONCE: usize = 100;

/// Undoes changes. Several changes, and the last one, are shown before the question.
pub(crate) async fn run(app: &App, args: &Undo) -> Result<Status, Failure> {
    if !args.dry_run {
        ask::require_consent(app, args.consent, "undo", "changes memories")?;
    }
    let asks = !args.dry_run && !args.consent.yes;
    let memories = app.memories();
    let (target, is_confirmed) = if let Some(target) = target(args)? {
        let several = !matches!(target, UndoTarget::Change(_));
        let is_confirmed = !(asks && several) || confirm_undo_all(app, &memories, &target).await?;
        (target, is_confirmed)
    } else {
        let last = last_change(app, &memories).await?;
        let is_confirmed = !asks || confirm_undo(app, &memories, &last).await?;
        (UndoTarget::Change(last.id), is_confirmed)
    };
    if !is_confirmed {
        app.output.note("nothing was undone");
        return Ok(Status::Refused);
    }
    let (dry, verb) =
        if args.dry_run { (DryRun::Yes, "would undo") } else { (DryRun::No, "undid") };
    let undone = undo(app, &memories, &target, dry).await?;
    report(app, &undone, verb)
}

/// Lists the changes, and asks whether to undo them.
async fn confirm_undo_all(
    app: &App,
    memories: &Memories,
    target: &UndoTarget,
) -> Result<bool, Failure> {
    let plan = undo(app, memories, target, DryRun::Yes).await?;
    app.output.note(&sentence(&plan, "This undoes"));
    report_remaining(app, &plan);
    ask::confirm(app, "Continue?").await
}

/// Returns the last change made through Lukasa. External edits are skipped: they are recorded late, and a user does not
/// mean them by the last change. They can be undone by number.
async fn last_change(app: &App, memories: &Memories) -> Result<MemoryChange, Failure> {
    let mut query = ChangesQuery { max: CHANGES_READ_AT_ONCE, ..ChangesQuery::default() };
    loop {
        let newest =
            app.wait_with_progress("searching for changes", memories.changes(&query)).await?;
        query.before = newest.last().map(|change| change.id);
        let is_last = newest.len() < query.max;
        let found = newest.into_iter().find(|change| change.kind != ChangeKind::Outside);
        if let Some(found) = found {
            return Ok(found);
        }
        if is_last {
            let message = "no change to undo in history";
            return Err(Failure::new(MemoryErrorCode::NotFound, message)
                .help("an edit by another program is undone by its number, from `lukasa log`"));
        }
    }
}

/// Shows a change like `lukasa show`, and asks whether to undo it.
async fn confirm_undo(
    app: &App,
    memories: &Memories,
    last: &MemoryChange,
) -> Result<bool, Failure> {
    let diffs = memories.diffs(last).await?;
    let look = app.output.note_style;
    let heading = change::heading(memories, last, now(), look);
    let about = format!("{heading}\n{}\n", change::diffs(&diffs, look));
    let question = match last.undoes {
        Some(undone) => format!("Undo change {}, which redoes change {undone}?", last.id),
        None => format!("Undo change {}?", last.id),
    };
    ask::confirm_about(app, &about, &question).await
}

async fn undo(
    app: &App,
    memories: &Memories,
    target: &UndoTarget,
    dry: DryRun,
) -> Result<UndoReport, Failure> {
    let call = call();
    let mut undone = app.finish_write("undoing", memories.undo(target, dry, &call)).await?;
    undone.paths.sort_unstable();
    Ok(undone)
}

/// Returns the changes to undo from the arguments; `None` is the last change.
fn target(args: &Undo) -> Result<Option<UndoTarget>, Failure> {
    if let Some(change) = args.change {
        return Ok(Some(UndoTarget::Change(ChangeId(change))));
    }
    if let Some(task) = &args.task {
        return Ok(Some(UndoTarget::Task(task.clone())));
    }
    match history::span(&args.time_range)? {
        (None, None) => Ok(None),
        (Some(since), until) => {
            Ok(Some(UndoTarget::Span { since, until: until.unwrap_or_else(now) }))
        }
        (None, Some(_)) => {
            Err(Failure::usage("`--until` needs `--since`").help("add `--since TIME`"))
        }
    }
}

fn sentence(undone: &UndoReport, verb: &str) -> String {
    let ids: Vec<_> = undone.undone.iter().map(ToString::to_string).collect();
    let noun = if ids.len() == 1 { "change" } else { "changes" };
    let paths: Vec<_> =
        undone.paths.iter().map(|path| format!("\n  {}", short_path(path))).collect();
    let count = counted(paths.len(), "memory", "memories");
    format!("{verb} {noun} {} in {count}:{}", ids.join(", "), paths.concat())
}

fn report(app: &App, undone: &UndoReport, verb: &str) -> Result<Status, Failure> {
    if app.output.json {
        let undone_ids: Vec<_> = undone.undone.iter().map(|id| id.0).collect();
        let paths: Vec<_> = undone.paths.iter().map(ToString::to_string).collect();
        let remaining = undone.elsewhere.iter();
        let remaining: Vec<_> = remaining
            .map(|other| json!({ "change": other.change.0, "identity": other.identity }))
            .collect();
        app.output.value(&json!({
            "change": undone.change.map(|id| id.0), "undone": undone_ids, "paths": paths,
            "warnings": warning_values(&undone.warnings), "left": remaining,
        }))?;
        return Ok(status(undone));
    }
    let text = sentence(undone, verb);
    match undone.change {
        Some(change) => app.output.note(&format!("{text}\n(change {change})")),
        None => app.output.text(&format!("{text}\n"))?,
    }
    report_warnings(app, &undone.warnings);
    report_remaining(app, undone);
    Ok(status(undone))
}

/// Returns the exit status: changes that remain in other roots need attention.
fn status(undone: &UndoReport) -> Status {
    if undone.elsewhere.is_empty() { Status::Done } else { Status::Refused }
}

/// Warns of the changes of a task that were not undone, with the command that undoes them.
fn report_remaining(app: &App, undone: &UndoReport) {
    let mut by_owner: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for ChangeInOtherRoot { change, identity } in &undone.elsewhere {
        by_owner.entry(identity).or_default().push(change.to_string());
    }
    for (identity, changes) in by_owner {
        let (noun, is, was) = match changes.len() {
            1 => ("change", "is", "was"),
            _ => ("changes", "are", "were"),
        };
        let (whose, how) = match identity.split_once(':') {
            Some(("project", project)) => (
                format!("the project {project}"),
                "run the same command in its checkout".to_owned(),
            ),
            Some(("workspace", id)) => (
                format!("the workspace {id}"),
                format!("run the same command with `--workspace-id {id}`"),
            ),
            _ => (
                "memories that are not mounted here".to_owned(),
                "run the same command in their folder".to_owned(),
            ),
        };
        app.output.warning(&format!(
            "{noun} {} of this task {is} in {whose} and {was} not undone; to undo, {how}",
            changes.join(", ")
        ));
    }
}
