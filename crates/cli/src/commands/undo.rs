//! `lukasa undo`: taking changes back.

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

/// How many changes are read at once while one is looked for that was made through Lukasa.
const CHANGES_READ_AT_ONCE: usize = 100;

/// Takes changes back. Several at once are shown first, and so is the last one; then a person is asked.
pub(crate) async fn run(app: &App, args: &Undo) -> Result<Status, Failure> {
    if !args.dry_run {
        ask::require_consent(app, args.consent, "undo", "takes changes back")?;
    }
    let asks = !args.dry_run && !args.consent.yes;
    let memories = app.memories();
    let (target, goes_on) = if let Some(target) = target(args)? {
        let several = !matches!(target, UndoTarget::Change(_));
        let goes_on = !(asks && several) || confirm_undo_all(app, &memories, &target).await?;
        (target, goes_on)
    } else {
        let last = last_change(app, &memories).await?;
        let goes_on = !asks || confirm_undo(app, &memories, &last).await?;
        (UndoTarget::Change(last.id), goes_on)
    };
    if !goes_on {
        app.output.note("nothing was undone");
        return Ok(Status::Refused);
    }
    let (dry, verb) =
        if args.dry_run { (DryRun::Yes, "would take back") } else { (DryRun::No, "took back") };
    let undone = undo(app, &memories, &target, dry).await?;
    report(app, &undone, verb)
}

/// Says which changes go, and asks whether to take them back.
async fn confirm_undo_all(
    app: &App,
    memories: &Memories,
    target: &UndoTarget,
) -> Result<bool, Failure> {
    let plan = undo(app, memories, target, DryRun::Yes).await?;
    app.output.note(&sentence(&plan, "This takes back"));
    report_remaining(app, &plan);
    ask::confirm(app, "Go on?").await
}

/// Returns the last change that was made through Lukasa. What an editor or git did is noticed late, and is not what a
/// person means by the last thing done here; its number takes it back.
async fn last_change(app: &App, memories: &Memories) -> Result<MemoryChange, Failure> {
    let mut query = ChangesQuery { max: CHANGES_READ_AT_ONCE, ..ChangesQuery::default() };
    loop {
        let newest =
            app.wait_with_progress("looking for changes", memories.changes(&query)).await?;
        query.before = newest.last().map(|change| change.id);
        let is_last = newest.len() < query.max;
        let found = newest.into_iter().find(|change| change.kind != ChangeKind::Outside);
        if let Some(found) = found {
            return Ok(found);
        }
        if is_last {
            let why = "there is no change in history that could be taken back";
            return Err(Failure::new(MemoryErrorCode::NotFound, why).help(
                "what an editor or git did is taken back by its number: `lukasa log` has it",
            ));
        }
    }
}

/// Shows a change as `lukasa show` does, and asks whether to take it back.
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
        Some(undone) => format!("Take back change {}, and so do change {undone} again?", last.id),
        None => format!("Take back change {}?", last.id),
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

/// Returns what is to be taken back; `None` is the last change.
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
        (None, Some(_)) => Err(Failure::usage("an undo until some time needs a beginning")
            .help("give `--since TIME` too")),
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
        let left = undone.elsewhere.iter();
        let left: Vec<_> =
            left.map(|one| json!({ "change": one.change.0, "identity": one.identity })).collect();
        app.output.value(&json!({
            "change": undone.change.map(|id| id.0), "undone": undone_ids, "paths": paths,
            "warnings": warning_values(&undone.warnings), "left": left,
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

/// What is left elsewhere needs a person's attention.
fn status(undone: &UndoReport) -> Status {
    if undone.elsewhere.is_empty() { Status::Done } else { Status::Refused }
}

/// Says which changes of a task stay as they are, and how to take them back.
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
                "memories that are not open here".to_owned(),
                "run the same command where they are".to_owned(),
            ),
        };
        app.output.warning(&format!(
            "{noun} {} of this task {is} in {whose} and {was} not taken back; to do that, {how}",
            changes.join(", ")
        ));
    }
}
