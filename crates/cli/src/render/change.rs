//! Changes as text and JSON: log lines, the heading of one change, and its differences.

use std::collections::BTreeSet;

use engine::{FileDiff, Memories, TaskId};
use memory::change::{Actor, ChangeKind, FileChange, MemoryChange, Provenance, RootKey};
use memory::clock::Timestamp;
use memory::document::Revision;
use memory::path::RelativePath;
use serde_json::{Value, json};

use crate::commands::origin::moved_from;
use crate::render::table::Column;
use crate::render::text::TextBuffer;
use crate::render::{
    FAINT, MARK, OutputStyle, STRONG, counted, diff, sanitize, short_path, table, time,
};

/// The number of memories that a log line names per change.
const NAMED_MAX: usize = 2;

/// The number of revision digits shown in text.
const REVISION_DIGITS: usize = 12;

/// Returns a full path for JSON. If the root is not mounted here, its identity precedes the path.
fn full_path(memories: &Memories, root: &RootKey, path: &RelativePath) -> String {
    let mounted = memories.virtual_path(root, path);
    mounted.map_or_else(|| format!("{}:{path}", root.identity), |path| path.to_string())
}

/// Returns a short path for text. If the root is not mounted here, its identity precedes the path.
fn file_path(memories: &Memories, root: &RootKey, path: &RelativePath) -> String {
    let mounted = memories.virtual_path(root, path);
    mounted.map_or_else(|| format!("{}:{path}", root.identity), |path| short_path(&path))
}

/// Returns the path of a memory, and its new path if it was moved.
fn paths(memories: &Memories, file: &FileChange) -> String {
    let from = file_path(memories, &file.root, &file.path);
    match &file.moved_to {
        Some(to) => format!("{from} → {}", file_path(memories, &file.root, to)),
        None => from,
    }
}

/// Returns the actor of a change, with the client or origin.
fn actor_text(provenance: &Provenance) -> String {
    let by = provenance.client.as_deref().unwrap_or(&provenance.origin);
    let actor = provenance.actor.as_ref();
    if by == actor {
        return actor.to_owned();
    }
    sanitize::line(&format!("{actor} ({by})")).into_owned()
}

/// Returns the action that led to a change: for a task its kind, such as `remember`, else the kind of the change.
fn action(change: &MemoryChange) -> &'static str {
    let task = change.provenance.task.as_deref().and_then(|task| task.parse::<TaskId>().ok());
    match (change.kind, task, change.provenance.actor) {
        (ChangeKind::Undo | ChangeKind::Outside, ..) => change.kind.into(),
        (_, Some(task), _) => task.kind().as_str(),
        (_, None, Actor::Review | Actor::Dream) => change.provenance.actor.into(),
        (ChangeKind::Draft, None, _) => ChangeKind::Edit.into(),
        (kind, None, _) => kind.into(),
    }
}

/// Returns the action and the memories of a change on one line.
pub(crate) fn summary(memories: &Memories, change: &MemoryChange) -> String {
    format!("{} {}", action(change), sanitize::line(&touched_text(memories, change)))
}

/// Returns the memories that a change touched; at most [`NAMED_MAX`] are named.
fn touched_text(memories: &Memories, change: &MemoryChange) -> String {
    let mut named: Vec<String> = Vec::new();
    if let Some(folder) = &change.folder {
        let shown = |path| file_path(memories, &folder.root, path) + "/";
        named.push(match &folder.moved_to {
            Some(to) => format!("{} → {}", shown(&folder.path), shown(to)),
            None => shown(&folder.path),
        });
        return format!(
            "{} ({})",
            named.concat(),
            counted(change.files.len(), "memory", "memories")
        );
    }
    // A move to another scope deletes one file and creates another; it is named once, with both paths.
    let arrived = change.files.iter().filter(|file| file.before.is_none());
    let arrived: BTreeSet<Revision> = match change.kind {
        ChangeKind::Rename => arrived.filter_map(|file| file.after).collect(),
        _ => BTreeSet::new(),
    };
    let is_source = |file: &FileChange| {
        file.after.is_none() && file.before.is_some_and(|revision| arrived.contains(&revision))
    };
    let files: Vec<_> = change.files.iter().filter(|file| !is_source(file)).collect();
    for file in files.iter().take(NAMED_MAX) {
        let path = paths(memories, file);
        named.push(match moved_from(change, file) {
            Some(from) => format!("{} → {path}", file_path(memories, &from.root, &from.path)),
            None => path,
        });
    }
    let more = files.len().saturating_sub(NAMED_MAX);
    if more > 0 {
        named.push(format!("and {more} more"));
    }
    let mut text = named.join(", ");
    if let Some(undone) = change.undoes {
        text = format!("{text} (undoes {undone})");
    }
    text
}

/// Returns a log: an aligned table on a terminal, else lines separated by tabs.
pub(crate) fn log(
    memories: &Memories,
    changes: &[MemoryChange],
    now: Timestamp,
    look: OutputStyle,
) -> String {
    if !look.columns {
        return changes.iter().map(|change| plain_line(memories, change)).collect();
    }
    let columns = [
        Column::right("CHANGE").styled(MARK),
        Column::right("AGE").styled(FAINT),
        Column::left("KIND"),
        Column::left("BY"),
        Column::left("WHAT").styled(STRONG),
    ];
    let row = |change: &MemoryChange| {
        vec![
            change.id.to_string(),
            time::ago(change.at, now),
            action(change).to_owned(),
            actor_text(&change.provenance),
            touched_text(memories, change),
        ]
    };
    table::aligned(&columns, changes.iter().map(row), look)
}

fn plain_line(memories: &Memories, change: &MemoryChange) -> String {
    let (at, who) = (time::exact(change.at), actor_text(&change.provenance));
    format!("{}\t{at}\t{}\t{who}\t{}\n", change.id, action(change), touched_text(memories, change))
}

/// Returns the facts about a change, printed before its differences.
pub(crate) fn heading(
    memories: &Memories,
    change: &MemoryChange,
    now: Timestamp,
    look: OutputStyle,
) -> String {
    let by = &change.provenance;
    let mut lines = vec![
        ("action", action(change).to_owned()),
        ("when", format!("{} ({})", time::local(change.at), time::ago(change.at, now))),
        ("by", by.actor.to_string()),
        ("trust", by.trust.to_string()),
        ("via", by.origin.clone()),
    ];
    let optional = [
        ("client", &by.client),
        ("model", &by.model),
        ("session", &by.session),
        ("task", &by.task),
        ("tool call", &by.tool_call),
        ("because", &by.note),
    ];
    lines.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))));
    if let Some(undone) = change.undoes {
        lines.push(("undoes", format!("change {undone}")));
    }
    let mut text = TextBuffer::default();
    text.line(look.paint(STRONG, &format!("change {}", change.id)));
    for (name, value) in lines {
        let name = look.paint(FAINT, &format!("{name:<11}"));
        text.line(format_args!("{name} {}", sanitize::line(&value)));
    }
    for file in &change.files {
        text.line(file_line(memories, file, look));
    }
    text.into_string()
}

fn file_line(memories: &Memories, file: &FileChange, look: OutputStyle) -> String {
    let digits = |revision: Option<&Revision>| match revision {
        Some(revision) => revision.to_string().chars().take(REVISION_DIGITS).collect(),
        None => "nothing".to_owned(),
    };
    let path = paths(memories, file);
    let revisions = format!("{} → {}", digits(file.before.as_ref()), digits(file.after.as_ref()));
    format!("  {}  {}", look.paint(STRONG, &path), look.paint(FAINT, &revisions))
}

/// Returns the differences that a change made to its memories.
pub(crate) fn diffs(diffs: &[FileDiff], look: OutputStyle) -> String {
    let mut text = TextBuffer::default();
    for file in diffs {
        if !file.is_complete {
            let pruned = format!("{}: history no longer has the text", short_path(&file.path));
            text.line(look.paint(FAINT, &pruned));
        } else if let (Some(to), true) = (&file.moved_to, file.unified.is_empty()) {
            let moved = format!("{} → {}", short_path(&file.path), short_path(to));
            text.line(look.paint(STRONG, &moved));
        } else {
            text.add(&diff::colored(&file.unified, look));
        }
    }
    text.into_string()
}

/// Returns a change as JSON.
pub(crate) fn value(memories: &Memories, change: &MemoryChange) -> Value {
    let by = &change.provenance;
    let files: Vec<Value> = change
        .files
        .iter()
        .map(|file| {
            json!({
                "path": full_path(memories, &file.root, &file.path),
                "moved_to": file.moved_to.as_ref().map(|to| full_path(memories, &file.root, to)),
                "before": file.before.as_ref().map(ToString::to_string),
                "after": file.after.as_ref().map(ToString::to_string),
                "trust": file.trust.as_ref(),
            })
        })
        .collect();
    let folder = change.folder.as_ref().map(|folder| {
        let shown = |path| full_path(memories, &folder.root, path);
        json!({ "path": shown(&folder.path), "moved_to": folder.moved_to.as_ref().map(shown) })
    });
    json!({
        "id": change.id.0,
        "at": time::exact(change.at),
        "kind": change.kind.as_ref(),
        "action": action(change),
        "actor": by.actor.as_ref(),
        "trust": by.trust.as_ref(),
        "origin": by.origin,
        "client": by.client,
        "model": by.model,
        "session": by.session,
        "task": by.task,
        "tool_call": by.tool_call,
        "note": by.note,
        "undoes": change.undoes.map(|id| id.0),
        "folder": folder,
        "files": files,
    })
}

/// Returns differences as JSON.
pub(crate) fn diff_values(diffs: &[FileDiff]) -> Vec<Value> {
    let one = |diff: &FileDiff| {
        json!({
            "path": diff.path.to_string(),
            "moved_to": diff.moved_to.as_ref().map(ToString::to_string),
            "diff": diff.unified,
            "kept": diff.is_complete,
        })
    };
    diffs.iter().map(one).collect()
}
