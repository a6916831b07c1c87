//! `lukasa log`, `show` and `diff`: recorded changes and their differences.

use engine::{ChangesQuery, Memories};
use memory::change::{ChangeId, MemoryChange, unified_diff};
use memory::clock::Timestamp;
use memory::document::Revision;
use memory::error_code::MemoryErrorCode;
use memory::path::MemoryPath;
use serde_json::json;

use crate::app::{App, now};
use crate::args::{Diff, Log, Show, TimeRange};
use crate::commands::origin;
use crate::exit::{Failure, Status};
use crate::render::time::{self, RangeEnd};
use crate::render::{change, diff, short_path};

/// The number of changes of a memory that are searched for a revision.
const SEARCHED_CHANGES_MAX: usize = 10_000;

/// The minimum number of digits that name a revision.
const REVISION_DIGITS_MIN: usize = 6;

/// Shows changes, newest first.
pub(crate) async fn log(app: &App, args: &Log) -> Result<Status, Failure> {
    let memories = app.memories();
    let (since, until) = span(&args.time_range)?;
    let query = ChangesQuery {
        path: args.path.as_deref().map(|path| app.path(path)).transpose()?,
        task: args.task.clone(),
        since,
        until,
        before: None,
        max: args.max,
        ..ChangesQuery::default()
    };
    let changes =
        app.wait_with_progress("searching for changes", follow_renames(&memories, query)).await?;
    if app.output.json {
        let values: Vec<_> = changes.iter().map(|one| change::value(&memories, one)).collect();
        app.output.values(&values)?;
    } else if changes.is_empty() {
        app.output.note("no changes");
    } else {
        app.output.text(&change::log(&memories, &changes, now(), app.output.style))?;
    }
    Ok(Status::Done)
}

/// Returns changes, newest first; changes of one memory or folder include those at its earlier paths.
async fn follow_renames(
    memories: &Memories,
    mut query: ChangesQuery,
) -> Result<Vec<MemoryChange>, Failure> {
    let mut followed = Vec::new();
    loop {
        let mut changes = memories.changes(&query).await?;
        let path = query.path.clone().filter(|path| path.relative().is_some());
        let moved = path.and_then(|path| {
            let from = |change: &MemoryChange| origin::path_before_change(memories, change, &path);
            let mut found = changes.iter().enumerate();
            found.find_map(|(index, change)| Some((index, change.id, from(change)?)))
        });
        let Some((index, id, from)) = moved else {
            followed.append(&mut changes);
            return Ok(followed);
        };
        // Older changes at this path belong to another memory.
        changes.truncate(index + 1);
        query.max = query.max.saturating_sub(changes.len());
        followed.append(&mut changes);
        if query.max == 0 {
            return Ok(followed);
        }
        query.path = Some(from);
        query.before = Some(id);
    }
}

/// Parses the ends of a range of times.
pub(crate) fn span(span: &TimeRange) -> Result<(Option<Timestamp>, Option<Timestamp>), Failure> {
    let now = now().to_zoned(jiff::tz::TimeZone::system());
    let read = |text: &Option<String>, edge, flag| match text {
        None => Ok(None),
        Some(text) => match time::parse(text, &now, edge) {
            Some(instant) => Ok(Some(instant)),
            None => Err(Failure::usage(format!("{flag}: `{text}` is not a time"))
                .help("write `2h`, `3 days ago`, `2026-11-01` or `2026-11-01T08:00`")),
        },
    };
    let since = read(&span.since, RangeEnd::Since, "--since")?;
    let until = read(&span.until, RangeEnd::Until, "--until")?;
    match (since, until) {
        (Some(since), Some(until)) if until < since => {
            Err(Failure::usage("--until is before --since"))
        }
        span => Ok(span),
    }
}

/// Shows one change in full.
pub(crate) async fn show(app: &App, args: &Show) -> Result<Status, Failure> {
    let memories = app.memories();
    let shown = memories.change(ChangeId(args.change)).await?;
    let diffs = memories.diffs(&shown).await?;
    if app.output.json {
        let mut value = change::value(&memories, &shown);
        value["diffs"] = change::diff_values(&diffs).into();
        app.output.value(&value)?;
    } else {
        let look = app.output.style;
        let heading = change::heading(&memories, &shown, now(), look);
        app.output.text(&format!("{heading}\n{}", change::diffs(&diffs, look)))?;
    }
    Ok(Status::Done)
}

/// Shows the difference of a change, or of a memory since a revision.
pub(crate) async fn diff(app: &App, args: &Diff) -> Result<Status, Failure> {
    let memories = app.memories();
    let Some(subject) = &args.subject else {
        return diff_newest(app, &memories, None).await;
    };
    match (subject.parse::<i64>(), &args.revision) {
        (Ok(id), None) => {
            let change = memories.change(ChangeId(id)).await?;
            diff_change(app, &memories, &change, None).await
        }
        (Ok(_), Some(_)) => Err(Failure::usage("a change cannot be compared with another one")
            .help("`lukasa diff PATH CHANGE` shows the difference of a memory since a change")),
        (Err(_), None) => {
            let path = app.path(subject)?;
            diff_newest(app, &memories, Some(path)).await
        }
        (Err(_), Some(revision)) => {
            let path = app.path(subject)?;
            diff_since(app, &memories, &path, revision).await
        }
    }
}

async fn diff_newest(
    app: &App,
    memories: &Memories,
    path: Option<MemoryPath>,
) -> Result<Status, Failure> {
    let query = ChangesQuery { path: path.clone(), max: 1, ..ChangesQuery::default() };
    let newest = app.wait_with_progress("searching for changes", memories.changes(&query)).await?;
    if let [newest, ..] = newest.as_slice() {
        return diff_change(app, memories, newest, path.as_ref()).await;
    }
    let of = path.map_or(String::new(), |path| format!(" of {}", short_path(&path)));
    Err(Failure::new(MemoryErrorCode::NotFound, format!("no change{of} in history")))
}

/// Prints the difference of a change, limited to one memory or folder if `only` is set.
async fn diff_change(
    app: &App,
    memories: &Memories,
    shown: &MemoryChange,
    only: Option<&MemoryPath>,
) -> Result<Status, Failure> {
    let mut diffs = memories.diffs(shown).await?;
    if let Some(only) = only {
        diffs.retain(|one| {
            is_within(&one.path, only) || one.moved_to.iter().any(|to| is_within(to, only))
        });
    }
    if app.output.json {
        let diffs = change::diff_values(&diffs);
        app.output.value(&json!({ "change": shown.id.0, "diffs": diffs }))?;
    } else {
        app.output.text(&change::diffs(&diffs, app.output.style))?;
    }
    Ok(Status::Done)
}

fn is_within(path: &MemoryPath, folder: &MemoryPath) -> bool {
    match (path, folder) {
        (_, MemoryPath::Top) => true,
        (path, MemoryPath::Root(mount)) => path.mount() == Some(*mount),
        (MemoryPath::Inside(a, path), MemoryPath::Inside(b, folder)) => {
            a == b && path.is_within(folder)
        }
        (MemoryPath::Top | MemoryPath::Root(_), MemoryPath::Inside(..)) => false,
    }
}

/// Prints the difference between an earlier and the current text of a memory.
async fn diff_since(
    app: &App,
    memories: &Memories,
    path: &MemoryPath,
    revision: &str,
) -> Result<Status, Failure> {
    let then = find(memories, path, revision).await?;
    let before = match &then {
        None => String::new(),
        Some(revision) => content(memories, path, revision).await?,
    };
    let (now, after) = match memories.read(path).await {
        Ok(read) => (Some(read.revision), read.text),
        Err(error) if error.code() == MemoryErrorCode::NotFound => (None, String::new()),
        Err(error) => return Err(error.into()),
    };
    let names = (format!("{path} {revision}"), format!("{path} now"));
    let unified = unified_diff((&names.0, &before), (&names.1, &after));
    if app.output.json {
        app.output.value(&json!({
            "path": path.to_string(),
            "before": then.map(|revision| revision.to_string()),
            "after": now.map(|revision| revision.to_string()),
            "diff": unified,
        }))?;
    } else {
        app.output.text(&diff::colored(&unified, app.output.style))?;
    }
    Ok(Status::Done)
}

async fn content(
    memories: &Memories,
    path: &MemoryPath,
    revision: &Revision,
) -> Result<String, Failure> {
    if let Some(bytes) = memories.content(revision).await? {
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    let what = format!("history no longer has revision {revision} of {}", short_path(path));
    Err(Failure::new(MemoryErrorCode::NotFound, what))
}

/// Finds a revision of a memory by the number of the change that wrote it, or by its first digits.
/// `None` means that the memory did not exist.
async fn find(
    memories: &Memories,
    path: &MemoryPath,
    revision: &str,
) -> Result<Option<Revision>, Failure> {
    let query = ChangesQuery {
        path: Some(path.clone()),
        max: SEARCHED_CHANGES_MAX,
        ..ChangesQuery::default()
    };
    let changes = memories.changes(&query).await?;
    let not_found = |what: String| {
        Failure::new(MemoryErrorCode::NotFound, what)
            .help(format!("`lukasa log {}` lists the changes", short_path(path)))
    };
    let files = |change: &MemoryChange| -> Vec<(Option<Revision>, Option<Revision>)> {
        let ours = change.files.iter().filter(|file| {
            [Some(&file.path), file.moved_to.as_ref()]
                .into_iter()
                .flatten()
                .any(|relative| memories.virtual_path(&file.root, relative).as_ref() == Some(path))
        });
        ours.map(|file| (file.before, file.after)).collect()
    };
    if revision.len() < REVISION_DIGITS_MIN || revision.bytes().all(|byte| byte.is_ascii_digit()) {
        let id = revision.parse::<i64>().map_err(|_| {
            Failure::usage(format!("`{revision}` is neither a change nor a revision"))
                .help(format!("a revision is named by {REVISION_DIGITS_MIN} digits or more"))
        })?;
        let change = changes.iter().find(|change| change.id.0 == id);
        let file = change.and_then(|change| files(change).last().copied());
        return match file {
            Some((_, after)) => Ok(after),
            None => Err(not_found(format!("change {id} did not touch {}", short_path(path)))),
        };
    }
    let mut found: Vec<Revision> = changes
        .iter()
        .flat_map(files)
        .flat_map(|(before, after)| [before, after])
        .flatten()
        .filter(|candidate| candidate.to_string().starts_with(revision))
        .collect();
    found.sort_unstable();
    found.dedup();
    match found.as_slice() {
        [found] => Ok(Some(*found)),
        [] => Err(not_found(format!("{} has no revision {revision} in history", short_path(path)))),
        _ => Err(Failure::usage(format!("more than one revision starts with {revision}"))
            .help("give more digits")),
    }
}
