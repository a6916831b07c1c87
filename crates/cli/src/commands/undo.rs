//! `quipu undo`: taking changes back.

use std::collections::BTreeMap;

use engine::{Dry, Elsewhere, Memories, UndoTarget, Undone};
use memory::change::ChangeId;
use serde_json::{Value, json};

use crate::args::Undo;
use crate::commands::{ask, history, tell_warnings, warning_values};
use crate::compose::{App, call, now};
use crate::exit::{Failure, Status};
use crate::render::{counted, short};

/// Takes changes back. Several at once are shown first, and a person is asked.
pub(crate) async fn run(app: &App, args: &Undo) -> Result<Status, Failure> {
    let memories = app.memories();
    let target = target(args)?;
    let several = !matches!(target, UndoTarget::Change(_));
    if args.dry_run || (several && !args.yes && ask::can_ask(app)) {
        let plan = undo(app, &memories, &target, Dry::Run).await?;
        if args.dry_run {
            return tell(app, &plan, "would take back");
        }
        app.output.note(&sentence(&plan, "This takes back"));
        tell_left(app, &plan);
        if !ask::confirm(app, "Go on?").await? {
            app.output.note("nothing was undone");
            return Ok(Status::Refused);
        }
    }
    let undone = undo(app, &memories, &target, Dry::No).await?;
    tell(app, &undone, "took back")
}

async fn undo(
    app: &App,
    memories: &Memories,
    target: &UndoTarget,
    dry: Dry,
) -> Result<Undone, Failure> {
    let call = call();
    let mut undone = app.write("undoing", memories.undo(target, dry, &call)).await?;
    undone.paths.sort_unstable();
    Ok(undone)
}

fn target(args: &Undo) -> Result<UndoTarget, Failure> {
    if let Some(change) = args.change {
        return Ok(UndoTarget::Change(ChangeId(change)));
    }
    if let Some(task) = &args.task {
        return Ok(UndoTarget::Task(task.clone()));
    }
    match history::span(&args.span)? {
        (Some(since), until) => Ok(UndoTarget::Span { since, until: until.unwrap_or_else(now) }),
        (None, _) => Err(Failure::usage("an undo until some time needs a beginning")
            .help("give `--since TIME` too")),
    }
}

fn sentence(undone: &Undone, verb: &str) -> String {
    let ids: Vec<_> = undone.undone.iter().map(ToString::to_string).collect();
    let noun = if ids.len() == 1 { "change" } else { "changes" };
    let paths: Vec<_> = undone.paths.iter().map(|path| format!("\n  {}", short(path))).collect();
    let count = counted(paths.len(), "memory", "memories");
    format!("{verb} {noun} {} in {count}:{}", ids.join(", "), paths.concat())
}

fn tell(app: &App, undone: &Undone, verb: &str) -> Result<Status, Failure> {
    if app.output.json {
        let undone_ids: Vec<_> = undone.undone.iter().map(|id| id.0).collect();
        let paths: Vec<_> = undone.paths.iter().map(ToString::to_string).collect();
        app.output.value(&json!({
            "change": undone.change.map(|id| id.0), "undone": undone_ids, "paths": paths,
            "warnings": warning_values(&undone.warnings), "left": left_values(&undone.left),
        }))?;
        return Ok(status(undone));
    }
    let text = sentence(undone, verb);
    match undone.change {
        Some(change) => app.output.note(&format!("{text}\n(change {change})")),
        None => app.output.text(&format!("{text}\n"))?,
    }
    tell_warnings(app, &undone.warnings);
    tell_left(app, undone);
    Ok(status(undone))
}

/// What is left elsewhere needs a person's attention.
fn status(undone: &Undone) -> Status {
    if undone.left.is_empty() { Status::Done } else { Status::Refused }
}

/// Says which changes of a task stay as they are, and how to take them back.
fn tell_left(app: &App, undone: &Undone) {
    let mut by_owner: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for Elsewhere { change, identity } in &undone.left {
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

fn left_values(left: &[Elsewhere]) -> Vec<Value> {
    left.iter().map(|one| json!({ "change": one.change.0, "identity": one.identity })).collect()
}
