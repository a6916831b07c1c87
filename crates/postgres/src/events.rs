//! The rows of the log of events.
//!
//! Changes and ends of tasks are added in the transactions that complete them, so none is missing and none comes twice.

use std::collections::HashMap;

use memory::change::{ChangeId, Provenance, RootKey};
use memory::limits::EVENTS_KEPT_MAX;
use memory::path::Mount;
use memory::proposal::ProposalId;
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;
use state::rows::{Columns, decode_rows, single, stored_count};
use state::{
    Announcement, LogBounds, LogEntry, LoggedEvent, PinEvent, ProposalStatusEvent, TaskEffect,
    TaskEndEvent,
};

use crate::call_error::CallError;
use crate::history::changes;
use crate::row::{rows, run, storable};

/// Events that are read in one call.
const EVENTS_READ_TOGETHER_MAX: i64 = 256;

/// The time of the server as the log stores it.
pub(crate) const NOW: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000";

/// Adds an event of kind `$2` and subject `$3`.
const APPEND: &str = "WITH numbered AS (
        UPDATE counters SET last_event = last_event + 1 WHERE owner = $1 RETURNING last_event)
    INSERT INTO events (owner, number, count, at, kind, subject)
    SELECT $1, last_event, 1, {now}, $2, $3 FROM numbered";

/// A task that ends: its id, its kind, its workspace and its client.
pub(crate) type EndingTask<'t> = (&'t str, &'t str, &'t str, Option<&'t str>);

/// Adds the end of a task as a part of the transaction that ends it.
pub(crate) async fn add_task_end(
    connection: &mut PgConnection,
    owner: i64,
    (task, kind, workspace, client): EndingTask<'_>,
    effect: TaskEffect<'_>,
) -> Result<(), CallError> {
    let stored = StoredEvent::Task {
        task: task.to_owned(),
        kind: kind.to_owned(),
        workspace: workspace.to_owned(),
        client: client.map(str::to_owned),
        scopes: effect.scopes.iter().map(|mount| mount.word().to_owned()).collect(),
        saved: effect.saved,
    };
    append(connection, owner, &stored).await
}

/// Adds an announcement.
pub(crate) async fn announce(
    connection: &mut PgConnection,
    owner: i64,
    event: &Announcement,
) -> Result<(), CallError> {
    append(connection, owner, &StoredEvent::of_announcement(event)).await
}

async fn append(
    connection: &mut PgConnection,
    owner: i64,
    event: &StoredEvent,
) -> Result<(), CallError> {
    let subject = serde_json::to_string(event).expect("it has only texts and numbers");
    let add = sqlx::query(sqlx::AssertSqlSafe(APPEND.replace("{now}", NOW)));
    run(connection, add.bind(owner).bind(event.kind()).bind(storable(&subject))).await?;
    Ok(())
}

/// Drops the events that are no longer kept.
pub(crate) async fn prune(connection: &mut PgConnection, owner: i64) -> Result<(), CallError> {
    let drop = sqlx::query(
        "DELETE FROM events WHERE owner = $1
            AND number <= (SELECT last_event FROM counters WHERE owner = $1) - $2",
    );
    run(connection, drop.bind(owner).bind(stored_count(EVENTS_KEPT_MAX))).await?;
    Ok(())
}

/// Returns the numbers that the log has.
pub(crate) async fn bounds(
    connection: &mut PgConnection,
    owner: i64,
) -> Result<LogBounds, CallError> {
    let query = sqlx::query(
        "SELECT last_event, coalesce((SELECT number - count FROM events WHERE owner = $1
            ORDER BY number LIMIT 1), last_event) AS dropped
        FROM counters WHERE owner = $1",
    );
    let found = rows(connection, query.bind(owner)).await?;
    let bounds = |row: Columns<'_>| {
        Ok(LogBounds { dropped: row.count("dropped")?, last: row.count("last_event")? })
    };
    Ok(single(&found, bounds)?)
}

/// A row of the log.
struct EventRow {
    number: u64,
    count: u64,
    at: memory::clock::Timestamp,
    kind: String,
    change: Option<ChangeId>,
    workspace: Option<String>,
    subject: String,
}

/// Loads the first events after a number.
pub(crate) async fn after(
    connection: &mut PgConnection,
    owner: i64,
    number: u64,
) -> Result<Vec<LogEntry>, CallError> {
    let query = sqlx::query(
        "SELECT number, count, at, kind, change_id, workspace, subject FROM events WHERE owner = $1 AND number > $2
        ORDER BY number LIMIT $3",
    );
    let query = query.bind(owner).bind(stored_count(number)).bind(EVENTS_READ_TOGETHER_MAX);
    let found = rows(connection, query).await?;
    let read = |row: Columns<'_>| {
        Ok(EventRow {
            number: row.count("number")?,
            count: row.count("count")?,
            at: row.time("at")?,
            kind: row.get("kind")?,
            change: row.get::<Option<i64>>("change_id")?.map(ChangeId),
            workspace: row.get("workspace")?,
            subject: row.get("subject")?,
        })
    };
    let found = decode_rows("events", &found, read);
    let ids: Vec<_> = found.iter().filter_map(|row| row.change).collect();
    let changes = changes::by_ids(connection, owner, &ids).await?;
    let changes: HashMap<_, _> = changes.iter().map(|change| (change.id, change)).collect();
    let entry = |row: &EventRow| {
        let event = match (row.kind.as_str(), row.change) {
            ("change", Some(id)) => changes.get(&id).map(|change| {
                let mut change = (*change).clone();
                change.files.retain(|file| file.root.place == row.subject);
                LoggedEvent::Change { change, task_workspace: row.workspace.clone() }
            }),
            _ => StoredEvent::decode(&row.subject),
        };
        LogEntry { first: row.number + 1 - row.count, last: row.number, at: row.at, event }
    };
    Ok(found.iter().map(entry).collect())
}

/// An event as JSON. Unknown fields are ignored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredEvent {
    Task {
        task: String,
        kind: String,
        workspace: String,
        client: Option<String>,
        scopes: Vec<String>,
        saved: usize,
    },
    Pin {
        root: (String, String),
        path: String,
        pinned: bool,
        by: StoredProvenance,
    },
    Proposals {
        ids: Vec<i64>,
        status: String,
        roots: Vec<(String, String)>,
        task: Option<String>,
        change: Option<i64>,
        by: StoredProvenance,
    },
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredProvenance {
    actor: String,
    trust: String,
    origin: String,
    client: Option<String>,
    session: Option<String>,
    task: Option<String>,
    tool_call: Option<String>,
    model: Option<String>,
    note: Option<String>,
}

impl StoredEvent {
    fn of_announcement(event: &Announcement) -> Self {
        let pair = |root: &RootKey| (root.identity.clone(), root.place.clone());
        match event {
            Announcement::Pin(PinEvent { root, path, pinned, provenance }) => Self::Pin {
                root: pair(root),
                path: path.to_string(),
                pinned: *pinned,
                by: provenance.into(),
            },
            Announcement::Proposals(made) => {
                let ProposalStatusEvent { ids, status, roots, task, change, provenance } = made;
                Self::Proposals {
                    ids: ids.iter().map(|id| id.0).collect(),
                    status: status.as_ref().to_owned(),
                    roots: roots.iter().map(pair).collect(),
                    task: task.clone(),
                    change: change.map(|id| id.0),
                    by: provenance.into(),
                }
            }
        }
    }

    const fn kind(&self) -> &'static str {
        match self {
            Self::Task { .. } => "task",
            Self::Pin { .. } => "pin",
            Self::Proposals { .. } => "proposals",
        }
    }

    /// Decodes an event. One of a later version may be unreadable.
    fn decode(text: &str) -> Option<LoggedEvent> {
        let key = |(identity, place)| RootKey { identity, place };
        Some(match serde_json::from_str(text).ok()? {
            Self::Task { task, kind, workspace, client, scopes, saved } => {
                let scopes =
                    scopes.iter().map(|word| Mount::from_word(word)).collect::<Option<_>>()?;
                let kind = kind.parse().ok()?;
                LoggedEvent::TaskEnded(TaskEndEvent {
                    task,
                    kind,
                    workspace,
                    client,
                    scopes,
                    saved,
                })
            }
            Self::Pin { root, path, pinned, by } => {
                let (root, path) = (key(root), path.parse().ok()?);
                let pin = PinEvent { root, path, pinned, provenance: by.decode()? };
                LoggedEvent::Announced(Announcement::Pin(pin))
            }
            Self::Proposals { ids, status, roots, task, change, by } => {
                LoggedEvent::Announced(Announcement::Proposals(ProposalStatusEvent {
                    ids: ids.into_iter().map(ProposalId).collect(),
                    status: status.parse().ok()?,
                    roots: roots.into_iter().map(key).collect(),
                    task,
                    change: change.map(ChangeId),
                    provenance: by.decode()?,
                }))
            }
        })
    }
}

impl From<&Provenance> for StoredProvenance {
    fn from(by: &Provenance) -> Self {
        let by = by.clone();
        let (actor, trust) = (by.actor.as_ref().to_owned(), by.trust.as_ref().to_owned());
        let Provenance { origin, client, session, task, tool_call, model, note, .. } = by;
        Self { actor, trust, origin, client, session, task, tool_call, model, note }
    }
}

impl StoredProvenance {
    fn decode(self) -> Option<Provenance> {
        let Self { actor, trust, origin, client, session, task, tool_call, model, note } = self;
        let (actor, trust) = (actor.parse().ok()?, trust.parse().ok()?);
        Some(Provenance { actor, trust, origin, client, session, task, tool_call, model, note })
    }
}
