//! `lukasa remember`, `forget`, `dream` and `tasks`: submits tasks, shows previews and results, and lists tasks.

use engine::{
    CancelOutcome, ContextMode, CuratorRequest, EntryCandidate, EntryOutcome, FileDiff,
    ForgetRequest, ForgottenEntry, RememberRequest, Task, TaskDetails, TaskFilter, TaskId,
    TaskKind, TaskPreview, TaskProposals, TaskResult, TaskState,
};
use memory::clock::Timestamp;
use memory::error_code::MemoryErrorCode;
use memory::path::{Mount, Scope};
use protocol::task::TASK_TEXT_BYTES_MAX;
use serde_json::{Value, json};

use crate::app::{App, now};
use crate::args::{Consent, Dream, Forget, Remember, Tasks};
use crate::commands::{ask, pending};
use crate::exit::{Failure, Status};
use crate::render::table::Column;
use crate::render::text::TextBuffer;
use crate::render::{
    BAD, FAINT, GOOD, OutputStyle, STRONG, change, counted, sanitize, short_path, table, time,
};
use crate::task_client::TaskClient;

/// Remembers a text.
pub(crate) async fn remember(app: &App, args: Remember) -> Result<Status, Failure> {
    let Some(content) = ask::text(args.text).await? else {
        return Err(Failure::usage("nothing to remember")
            .help("pass the text as an argument or through a pipe"));
    };
    check(&content, "nothing to remember: the text is blank")?;
    let context_mode = if args.clean { ContextMode::Clean } else { ContextMode::Workspace };
    let scope = args.scope.map(Scope::from);
    let request = CuratorRequest::Remember(RememberRequest { content, context_mode, scope });
    run(app, request, args.dry_run, "remembering").await
}

/// Removes entries.
pub(crate) async fn forget(app: &App, args: Forget) -> Result<Status, Failure> {
    let query = args.query.join(" ");
    check(&query, "nothing to forget: the query is blank")?;
    let scope = args.scope.map(Scope::from);
    let file = args.file.as_deref().map(|path| app.path(path)).transpose()?;
    let request = ForgetRequest { query, scope, file };
    let (dry, consent) = (args.dry_run, args.consent);
    let request = if dry {
        CuratorRequest::Forget(request)
    } else {
        ask::require_consent(app, consent, "forget", "removes entries")?;
        let Some(request) = confirm_forget(app, consent, request).await? else {
            return Ok(Status::Refused);
        };
        request
    };
    run(app, request, dry, "forgetting").await
}

/// Shows the entries to remove and asks, or lets the user choose if the query is ambiguous. Returns the request that the
/// user agreed to.
async fn confirm_forget(
    app: &App,
    consent: Consent,
    request: ForgetRequest,
) -> Result<Option<CuratorRequest>, Failure> {
    if consent.yes {
        return Ok(Some(CuratorRequest::Forget(request)));
    }
    let forget = CuratorRequest::Forget(request.clone());
    let TaskPreview { result, diffs } =
        TaskClient::open(app).preview(app, &forget, "searching").await?;
    if let TaskDetails::Forget { candidates, .. } = &result.details
        && !candidates.is_empty()
    {
        return Ok(choose(app, &request, &result, candidates).await?.map(CuratorRequest::Forget));
    }
    Ok(confirm_changes(app, &result, &diffs).await?.then_some(forget))
}

/// Lets the user choose one of the candidates.
async fn choose(
    app: &App,
    request: &ForgetRequest,
    result: &TaskResult,
    candidates: &[EntryCandidate],
) -> Result<Option<ForgetRequest>, Failure> {
    let mut text = TextBuffer::default();
    text.line(&result.summary);
    for line in candidate_lines(candidates) {
        text.line(line);
    }
    app.output.note(text.into_string().trim_end());
    let choices = format!("1-{}, or nothing", candidates.len());
    let answer = ask::answer(app, "Forget which one?", &choices).await?;
    let number: Option<usize> = answer.parse().ok();
    let candidate = number.and_then(|number| candidates.get(number.checked_sub(1)?));
    let Some(EntryCandidate { path, entry, .. }) = candidate else {
        app.output.note("nothing was changed");
        return Ok(None);
    };
    let (query, file) = (entry.clone(), Some(path.clone()));
    Ok(Some(ForgetRequest { query, file, ..request.clone() }))
}

fn candidate_lines(candidates: &[EntryCandidate]) -> impl Iterator<Item = String> {
    candidates.iter().enumerate().map(|(index, EntryCandidate { path, summary, .. })| {
        format!("  {}  {}: {}", index + 1, short_path(path), sanitize::line(summary))
    })
}

/// Refuses a blank or too large text, like the daemon.
fn check(text: &str, blank: &str) -> Result<(), Failure> {
    if text.trim().is_empty() {
        return Err(Failure::usage(blank));
    }
    let bytes = text.len();
    if bytes > TASK_TEXT_BYTES_MAX {
        let what =
            format!("the text has {bytes} bytes; the limit of a task is {TASK_TEXT_BYTES_MAX}");
        return Err(Failure::new(MemoryErrorCode::TooLarge, what).help("split it by topic"));
    }
    Ok(())
}

/// Tidies up memories.
pub(crate) async fn dream(app: &App, args: &Dream) -> Result<Status, Failure> {
    let (dry, consent) = (args.dry_run, args.consent);
    if !dry {
        ask::require_consent(app, consent, "dream", "rewrites memories")?;
        if !consent.yes {
            let preview =
                TaskClient::open(app).preview(app, &CuratorRequest::Dream, "checking").await?;
            if !confirm_changes(app, &preview.result, &preview.diffs).await? {
                return Ok(Status::Refused);
            }
        }
    }
    run(app, CuratorRequest::Dream, dry, "dreaming").await
}

/// Shows the differences, and asks for consent.
async fn confirm_changes(
    app: &App,
    result: &TaskResult,
    diffs: &[FileDiff],
) -> Result<bool, Failure> {
    if diffs.is_empty() {
        return Ok(true);
    }
    let question = if let TaskDetails::Forget { removed, .. } = &result.details {
        format!("Forget {}?", counted(removed.len(), "entry", "entries"))
    } else {
        format!("Change {}?", counted(diffs.len(), "memory", "memories"))
    };
    let about = change::diffs(diffs, app.output.note_style);
    let is_confirmed = ask::confirm_about(app, &about, &question).await?;
    if !is_confirmed {
        app.output.note("nothing was changed");
    }
    Ok(is_confirmed)
}

async fn run(
    app: &App,
    request: CuratorRequest,
    dry: bool,
    doing: &str,
) -> Result<Status, Failure> {
    let lane = TaskClient::open(app);
    if dry {
        let TaskPreview { result, diffs } = lane.preview(app, &request, doing).await?;
        if app.output.json {
            let mut value = result_value(&result);
            value["diffs"] = change::diff_values(&diffs).into();
            app.output.value(&value)?;
        } else {
            app.output.note(format!("dry run: {}", result_text(&result)).trim_end());
            app.output.text(&change::diffs(&diffs, app.output.style))?;
        }
        return Ok(status(&result));
    }
    let task = lane.run_task(app, request, doing).await?;
    let TaskState::Completed(result) = &task.state else {
        return Err(Failure::new(MemoryErrorCode::StorageFailed, "the task has not ended"));
    };
    let is_about_proposals = task.kind() == TaskKind::Dream || result.proposals.count() > 0;
    let waiting = if is_about_proposals {
        app.engine.proposal_queue().count(&app.memories()).await?
    } else {
        0
    };
    if app.output.json {
        let mut value = result_value(result);
        value["task"] = task.id.to_string().into();
        if is_about_proposals {
            value["pending"] = waiting.into();
        }
        app.output.value(&value)?;
    } else {
        app.output.note(&done_text(&task, result));
        if let Some(line) = pending::waiting_line(waiting) {
            app.output.note(&line);
        }
    }
    Ok(status(result))
}

/// Returns the exit status: `forget` without a match ends like a search without a match.
fn status(result: &TaskResult) -> Status {
    match &result.details {
        TaskDetails::Forget { removed, .. } if removed.is_empty() => Status::Refused,
        TaskDetails::Remember { .. }
        | TaskDetails::Forget { .. }
        | TaskDetails::Dream { .. }
        | TaskDetails::Review { .. } => Status::Done,
    }
}

fn done_text(task: &Task, result: &TaskResult) -> String {
    let mut text = TextBuffer::default();
    text.add(&result_text(result));
    if !result.scopes.is_empty() {
        text.line(format_args!("`lukasa undo --task {}` undoes it", task.id));
    }
    text.into_string().trim_end().to_owned()
}

/// Returns the result of a task as text, entry by entry.
fn result_text(result: &TaskResult) -> String {
    let mut text = TextBuffer::default();
    text.line(&result.summary);
    match &result.details {
        TaskDetails::Forget { removed, candidates, .. } => {
            for ForgottenEntry { path, summary, .. } in removed {
                text.line(format_args!("  {}: {}", short_path(path), sanitize::line(summary)));
            }
            for line in candidate_lines(candidates) {
                text.line(line);
            }
            if !candidates.is_empty() {
                text.line("`lukasa forget --file PATH TEXT` removes the entry TEXT of PATH");
            }
        }
        TaskDetails::Remember { .. } | TaskDetails::Dream { .. } | TaskDetails::Review { .. } => {
            for EntryOutcome { path, action, summary } in &result.changes {
                let (path, summary) = (short_path(path), sanitize::line(summary));
                text.line(format_args!("  {} {path}: {summary}", action.as_ref()));
            }
        }
    }
    if let TaskProposals::Unstored(proposals) = &result.proposals {
        for proposal in proposals {
            text.line(format_args!("  proposed: {}", sanitize::line(&proposal.reason)));
        }
    }
    text.into_string()
}

/// Returns the result of a task as JSON.
fn result_value(result: &TaskResult) -> Value {
    let scopes: Vec<_> = result.scopes.iter().map(|mount: &Mount| mount.word()).collect();
    let changes: Vec<_> = result.changes.iter().map(note_value).collect();
    let mut value = json!({
        "summary": result.summary,
        "scopes": scopes,
        "changes": changes,
        "proposals": result.proposals.count(),
    });
    match &result.details {
        TaskDetails::Review { files_touched, skipped } => {
            value["paths"] = files_touched.iter().map(ToString::to_string).collect();
            let left_out = skipped.iter().map(|(why, n)| (why.as_ref().to_owned(), (*n).into()));
            value["left_out"] = Value::Object(left_out.collect());
        }
        TaskDetails::Remember { files_touched } => {
            value["paths"] = files_touched.iter().map(ToString::to_string).collect();
        }
        TaskDetails::Forget { removed, topics, candidates } => {
            value["candidates"] = candidates.iter().map(candidate_value).collect();
            value["removed"] = removed.iter().map(removed_value).collect();
            value["topics"] = topics.iter().map(ToString::to_string).collect();
        }
        TaskDetails::Dream { topics, deduped } => {
            value["topics"] = topics.iter().map(ToString::to_string).collect();
            value["deduped"] = (*deduped).into();
        }
    }
    value
}

fn note_value(note: &EntryOutcome) -> Value {
    json!({
        "path": note.path.to_string(),
        "action": note.action.as_ref(),
        "summary": note.summary,
    })
}

fn candidate_value(candidate: &EntryCandidate) -> Value {
    json!({
        "path": candidate.path.to_string(),
        "entry": candidate.entry,
        "summary": candidate.summary,
    })
}

fn removed_value(removed: &ForgottenEntry) -> Value {
    json!({
        "path": removed.path.to_string(),
        "topic": removed.topic.as_ref(),
        "summary": removed.summary,
    })
}

/// Lists the tasks of this workspace, or cancels one.
pub(crate) async fn tasks(app: &App, args: &Tasks) -> Result<Status, Failure> {
    let lane = TaskClient::open(app);
    if let Some(id) = &args.cancel {
        return cancel(app, &lane, id).await;
    }
    let tasks = lane.list(TaskFilter { max: Some(args.max), ..TaskFilter::default() }).await?;
    if app.output.json {
        let tasks: Vec<_> = tasks.iter().map(task_value).collect();
        app.output.value(&json!({ "tasks": tasks }))?;
    } else if app.output.style.columns {
        app.output.text(&columns(&tasks, now(), app.output.style))?;
    } else {
        app.output.text(&tasks.iter().map(plain_line).collect::<String>())?;
    }
    if tasks.is_empty() {
        app.output.note("no tasks of the last hour");
    }
    Ok(Status::Done)
}

async fn cancel(app: &App, lane: &TaskClient, id: &str) -> Result<Status, Failure> {
    let unknown = || {
        Failure::new(MemoryErrorCode::NotFound, format!("there is no task `{id}` here"))
            .help("`lukasa tasks` lists the tasks of this workspace")
    };
    let parsed: TaskId = id.parse().map_err(|_| unknown())?;
    let (task, done) = match lane.cancel(&parsed).await?.ok_or_else(unknown)? {
        CancelOutcome::AlreadyEnded(task) => {
            let word = format!("{id}: {}", outcome_line(&task));
            (task, word)
        }
        CancelOutcome::Requested(task) => (task, format!("{id}: too late, it is being written")),
    };
    if app.output.json {
        app.output.value(&task_value(&task))?;
    } else {
        app.output.note(&done);
    }
    let is_cancelled = matches!(&task.state, TaskState::Failed(error)
        if error.code == engine::TaskErrorCode::Cancelled);
    Ok(if is_cancelled { Status::Done } else { Status::Refused })
}

fn task_value(task: &Task) -> Value {
    let mut value = json!({
        "task": task.id.to_string(),
        "kind": task.kind().as_str(),
        "status": task.status().as_str(),
        "client": task.requester.client.as_ref().map(ToString::to_string),
        "created_at": time::exact(task.created_at),
        "updated_at": time::exact(task.updated_at),
    });
    match &task.state {
        TaskState::Queued | TaskState::Running => {}
        TaskState::Completed(result) => value["result"] = result_value(result),
        TaskState::Failed(error) => {
            value["error"] = json!({
                "code": error.code.as_str(),
                "message": error.code.message(),
                "cause": error.cause.map(<&str>::from),
                "details": error.details(),
            });
        }
    }
    value
}

/// Returns the outcome of a task on one line.
fn outcome_line(task: &Task) -> String {
    let outcome = match &task.state {
        TaskState::Queued | TaskState::Running => String::new(),
        TaskState::Completed(result) => result.summary.clone(),
        TaskState::Failed(error) => error.code.message().to_owned(),
    };
    sanitize::line(&outcome).into_owned()
}

fn columns(tasks: &[Task], now: Timestamp, look: OutputStyle) -> String {
    let columns = [
        Column::left("STATUS"),
        Column::right("AGE").styled(FAINT),
        Column::left("TASK").styled(STRONG),
        Column::left("RESULT"),
    ];
    let row = |task: &Task| {
        let style = match task.state {
            TaskState::Completed(_) => GOOD,
            TaskState::Failed(_) => BAD,
            TaskState::Queued | TaskState::Running => FAINT,
        };
        let status = look.paint(style, task.status().as_str());
        vec![status, time::ago(task.created_at, now), task.id.to_string(), outcome_line(task)]
    };
    table::aligned(&columns, tasks.iter().map(row), look)
}

fn plain_line(task: &Task) -> String {
    let created = time::exact(task.created_at);
    format!("{}\t{}\t{created}\t{}\n", task.id, task.status(), outcome_line(task))
}
