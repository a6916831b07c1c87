//! Recording a change, withdrawing it and marking it durable; the heads that follow from it.
//!
//! A change of one memory is one message to SQLite's thread and one transaction. While a change is open, the heads and
//! marks that it replaced are kept, so that it can be withdrawn exactly.

use std::collections::HashMap;

use memory::change::{ChangeId, DatabaseId, FileChange, Trust};
use memory::document::Revision;
use memory::path::RelativePath;
use sqlx::SqliteConnection;

use crate::error::Fault;
use crate::record::{Head, NewChange, NewFileChange};
use crate::rows::{
    self, ColumnResult, Columns, PackedContent, check_bytes, marks_follow_folder, stored_count,
    stored_revision, stored_time, sum_uses,
};
use crate::sqlite::batch::{Batch, StatementReuse, json_numbers};
use crate::sqlite::content;
use crate::sqlite::proposals;
use crate::sqlite::queue;
use crate::sqlite::usage;
use crate::task::Attempt;

/// Files of a change that are sent in one message. Bounds the text that SQLite has to prepare.
const FILES_PER_MESSAGE: usize = 32;

/// Distance by which change numbers skip a number that was issued before: numbers beyond it may have been issued too.
const NUMBERS_SKIPPED: i64 = 1_000;

const CHANGE: &str =
    "INSERT INTO changes (id, at, kind, actor, trust, origin, client, session, task,
    tool_call, model, note, undoes, folder_identity, folder_place, folder_path, folder_moved_to)
    VALUES ((SELECT last_change + 1 FROM totals),
        $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) RETURNING id;
    INSERT INTO open_changes (change_id, what, root, path)
    VALUES ((SELECT last_change FROM totals), 'change', '', '');";

const FILE: &str = "INSERT INTO change_files (change_id, seq, identity, place, path, moved_to,
    before, after, trust, wrote)
    VALUES ((SELECT last_change FROM totals), $1, $2, $3, $4, $5, $6, $7, $8, $9);";

/// Marks the text of revision `$2` in identity `$1` as influenced by unreviewed text.
const INFLUENCED: &str = "INSERT INTO influenced (identity, revision, change_id)
    VALUES ($1, $2, (SELECT last_change FROM totals)) ON CONFLICT DO NOTHING;";

/// Removes that mark: a person wrote or accepted the text.
const ACCEPTED: &str = "DELETE FROM influenced WHERE identity = $1 AND revision = $2;";

/// Sets the head of identity `$1`, place `$2`, path `$3` to revision `$4` with trust `$5`.
const HEAD: &str = "INSERT INTO open_changes
    (change_id, what, root, path, identity, revision, trust, head_change)
    SELECT (SELECT last_change FROM totals), 'head', $2, $3, h.identity, h.revision, h.trust,
        h.change_id
    FROM (SELECT 1) LEFT JOIN heads h ON h.place = $2 AND h.path = $3 WHERE true
    ON CONFLICT DO NOTHING;
    INSERT INTO heads (path, place, identity, revision, trust, change_id)
    VALUES ($3, $2, $1, $4, $5, (SELECT last_change FROM totals))
    ON CONFLICT (place, path) DO UPDATE SET identity = excluded.identity,
        revision = excluded.revision, trust = excluded.trust, change_id = excluded.change_id;";

const RESTORE_HEADS: &str = "DELETE FROM heads WHERE change_id = $1
        AND (place, path) IN
            (SELECT root, path FROM open_changes WHERE change_id = $1 AND what = 'head');
    INSERT INTO heads (path, place, identity, revision, trust, change_id)
        SELECT path, root, identity, revision, trust, head_change FROM open_changes
        WHERE change_id = $1 AND what = 'head' AND head_change IS NOT NULL
        ON CONFLICT DO NOTHING;";

const FORGET: &str = "DELETE FROM open_changes WHERE change_id = $1;
    DELETE FROM influenced WHERE change_id = $1;
    DELETE FROM change_files WHERE change_id = $1;
    DELETE FROM changes WHERE id = $1;";

const MARK_DURABLE: &str =
    "DELETE FROM open_changes WHERE change_id IN (SELECT value FROM json_each($1));";

/// Records a change in one transaction.
pub(super) async fn record(
    connection: &mut SqliteConnection,
    change: &NewChange,
) -> Result<ChangeId, Fault> {
    check_bytes(&change.files)?;
    let reuse =
        if change.files.len() == 1 { StatementReuse::Persistent } else { StatementReuse::OneShot };
    let mut script = match (&change.provenance.task, change.attempt) {
        (Some(task), Some(number)) => {
            let begin = queue::begin_for_attempt(Attempt { task, number });
            if begin.rows(connection, StatementReuse::Persistent).await?.is_empty() {
                return Err(Fault::StaleAttempt(task.clone()));
            }
            Batch::default()
        }
        _ => Batch::new("BEGIN IMMEDIATE;"),
    };
    if let Some(proposal) = change.accepts {
        std::mem::take(&mut script).run(connection, StatementReuse::Persistent).await?;
        proposals::accept(connection, proposal, change.at).await?;
    }
    add_change(&mut script, change);
    let mut id = None;
    for (index, file) in change.files.iter().enumerate() {
        if index > 0 && index % FILES_PER_MESSAGE == 0 {
            id = send(std::mem::take(&mut script), connection, reuse).await?.or(id);
        }
        add_file(&mut script, change, file, index);
    }
    if let Some(folder) = &change.folder {
        usage::apply_folder_change(&mut script, change.kind, folder);
    }
    for ((identity, path), counted) in sum_uses(&change.uses) {
        usage::count_in_change(&mut script, (identity, path), counted);
    }
    script.add("COMMIT;");
    let id = send(script, connection, reuse).await?.or(id);
    id.ok_or_else(|| Fault::Damaged("a recorded change has no number".to_owned()))
}

/// Runs a script and returns the number of the change, if the script created one.
async fn send(
    script: Batch,
    connection: &mut SqliteConnection,
    reuse: StatementReuse,
) -> Result<Option<ChangeId>, Fault> {
    let rows = script.rows(connection, reuse).await?;
    Ok(rows.first().map(|row| Columns(row).id("id")).transpose()?)
}

fn add_change(script: &mut Batch, change: &NewChange) {
    let by = &change.provenance;
    let folder = change.folder.as_ref();
    script
        .add(CHANGE)
        .value(stored_time(change.at))
        .value(change.kind.as_ref())
        .value(by.actor.as_ref())
        .value(by.trust.as_ref())
        .value(by.origin.clone())
        .value(by.client.clone())
        .value(by.session.clone())
        .value(by.task.clone())
        .value(by.tool_call.clone())
        .value(by.model.clone())
        .value(by.note.clone())
        .value(change.undoes.map(|id| id.0))
        .value(folder.map(|folder| folder.root.identity.clone()))
        .value(folder.map(|folder| folder.root.place.clone()))
        .value(folder.map(|folder| folder.path.as_str().to_owned()))
        .value(folder.and_then(|folder| folder.moved_to.as_ref()).map(path_text));
}

fn add_file(script: &mut Batch, change: &NewChange, new: &NewFileChange, index: usize) {
    let file = &new.change;
    for (revision, bytes) in [(&file.before, &new.before), (&file.after, &new.after)] {
        if let (Some(revision), Some(bytes)) = (revision, bytes) {
            let packed = PackedContent::pack(bytes);
            script
                .add(content::INSERT_CONTENT)
                .value(stored_revision(revision))
                .value(packed.codec)
                .value(packed.size)
                .value(packed.bytes);
        }
    }
    script
        .add(FILE)
        .value(stored_count(index))
        .value(file.root.identity.clone())
        .value(file.root.place.clone())
        .value(path_text(&file.path))
        .value(file.moved_to.as_ref().map(path_text))
        .value(file.before.as_ref().map(stored_revision))
        .value(file.after.as_ref().map(stored_revision))
        .value(file.trust.as_ref())
        .value(i64::from(new.after.is_some()));
    let statement = match file.trust {
        _ if new.influenced => Some(INFLUENCED),
        Trust::Person => Some(ACCEPTED),
        _ => None,
    };
    if let (Some(statement), Some(after)) = (statement, &file.after) {
        script.add(statement).value(file.root.identity.clone()).value(stored_revision(after));
    }
    match &file.moved_to {
        None => add_head(script, file, &file.path, file.after.as_ref()),
        Some(to) => {
            add_head(script, file, &file.path, None);
            add_head(script, file, to, file.after.as_ref());
        }
    }
    if !change.folder.as_ref().is_some_and(|folder| marks_follow_folder(file, folder, change.kind))
    {
        usage::apply_file_change(script, change.kind, file);
    }
}

fn add_head(
    script: &mut Batch,
    file: &FileChange,
    path: &RelativePath,
    revision: Option<&Revision>,
) {
    script
        .add(HEAD)
        .value(file.root.identity.clone())
        .value(file.root.place.clone())
        .value(path_text(path))
        .value(revision.map(stored_revision))
        .value(file.trust.as_ref());
}

fn path_text(path: &RelativePath) -> String {
    path.as_str().to_owned()
}

/// Withdraws an open change. One that does not exist counts as withdrawn.
pub(super) async fn abort_change(
    connection: &mut SqliteConnection,
    id: ChangeId,
) -> Result<(), Fault> {
    let rows = Batch::new(
        "BEGIN IMMEDIATE; SELECT EXISTS (SELECT 1 FROM open_changes
        WHERE change_id = $1 AND what = 'change') AS open FROM changes WHERE id = $1;",
    )
    .bind(id.0)
    .rows(connection, StatementReuse::OneShot)
    .await?;
    match rows.first().map(|row| Columns(row).flag("open")) {
        Some(Ok(true)) => {}
        None => return end_transaction(connection, "COMMIT").await,
        Some(_) => {
            end_transaction(connection, "ROLLBACK").await?;
            return Err(Fault::NotOpen(id));
        }
    }
    let contents = contents_of(connection, id).await?;
    Batch::new(RESTORE_HEADS)
        .bind(id.0)
        .with(usage::RESTORE)
        .bind(id.0)
        .with(proposals::REOPEN)
        .bind(id.0)
        .with(FORGET)
        .bind(id.0)
        .with(&content::drop_unreferenced())
        .bind(json_numbers(contents))
        .with("COMMIT;")
        .run(connection, StatementReuse::OneShot)
        .await?;
    Ok(())
}

async fn end_transaction(
    connection: &mut SqliteConnection,
    statement: &'static str,
) -> Result<(), Fault> {
    sqlx::query(statement).execute(connection).await?;
    Ok(())
}

/// Returns the contents that a change refers to.
async fn contents_of(connection: &mut SqliteConnection, id: ChangeId) -> Result<Vec<i64>, Fault> {
    let rows = Batch::new(
        "SELECT k.id FROM change_files f JOIN contents k ON k.revision IN (f.before, f.after)
        WHERE f.change_id = $1",
    )
    .bind(id.0)
    .rows(connection, StatementReuse::OneShot)
    .await?;
    Ok(rows::decode_rows("contents", &rows, |row| row.get("id")))
}

/// Loads the identity of the database.
pub(super) async fn database_id(connection: &mut SqliteConnection) -> Result<DatabaseId, Fault> {
    let rows = Batch::new("SELECT database_id FROM totals")
        .rows(connection, StatementReuse::OneShot)
        .await?;
    let row = rows.first().ok_or_else(|| Fault::Damaged("the totals are missing".to_owned()))?;
    Ok(DatabaseId(Columns(row).get::<i64>("database_id")?.cast_unsigned()))
}

/// Raises the last number if it is below one that was issued before.
pub(super) async fn raise_change_number(
    connection: &mut SqliteConnection,
    given: ChangeId,
) -> Result<(), Fault> {
    Batch::new("UPDATE totals SET last_change = $1 + $2 WHERE last_change < $1")
        .bind(given.0.clamp(0, i64::MAX / 2))
        .bind(NUMBERS_SKIPPED)
        .run(connection, StatementReuse::OneShot)
        .await?;
    Ok(())
}

/// Marks these changes as durable.
pub(super) async fn mark_durable(
    connection: &mut SqliteConnection,
    ids: &[ChangeId],
) -> Result<(), Fault> {
    Batch::new(MARK_DURABLE)
        .bind(json_numbers(ids.iter().map(|id| id.0)))
        .run(connection, StatementReuse::Persistent)
        .await?;
    Ok(())
}

/// Loads the heads of a place that a change after `after` left.
pub(super) async fn heads(
    connection: &mut SqliteConnection,
    place: &str,
    after: ChangeId,
) -> Result<Vec<Head>, Fault> {
    let rows = Batch::new(
        "SELECT path, revision, trust, change_id FROM heads WHERE place = $1 AND change_id > $2
        ORDER BY change_id, path",
    )
    .bind(place)
    .bind(after.0)
    .rows(connection, StatementReuse::Persistent)
    .await?;
    Ok(rows::decode_rows("heads", &rows, rows::head))
}

/// Loads the influenced texts of an identity with the last changes that wrote them.
pub(super) async fn influenced_revisions(
    connection: &mut SqliteConnection,
    identity: &str,
) -> Result<HashMap<Revision, ChangeId>, Fault> {
    let rows = Batch::new(
        "SELECT revision, max(change_id) AS id FROM influenced
        WHERE identity = $1 GROUP BY revision",
    )
    .bind(identity)
    .rows(connection, StatementReuse::Persistent)
    .await?;
    let read = |row: Columns<'_>| Ok((row.maybe_revision("revision")?, row.id("id")?));
    let rows = rows::decode_rows("influenced", &rows, read);
    Ok(rows.into_iter().filter_map(|(revision, id)| Some((revision?, id))).collect())
}

/// Loads the texts of an identity with their highest trust.
pub(super) async fn recorded_revisions(
    connection: &mut SqliteConnection,
    identity: &str,
) -> Result<HashMap<Revision, Trust>, Fault> {
    let rows = Batch::new(
        "SELECT DISTINCT after, trust FROM change_files WHERE identity = $1 AND after IS NOT NULL",
    )
    .bind(identity)
    .rows(connection, StatementReuse::Persistent)
    .await?;
    let read = |row: Columns<'_>| -> ColumnResult<(Option<Revision>, Trust)> {
        Ok((row.maybe_revision("after")?, row.word("trust")?))
    };
    let mut recorded: HashMap<Revision, Trust> = HashMap::new();
    for (revision, trust) in rows::decode_rows("change_files", &rows, read) {
        if let Some(revision) = revision {
            let highest = recorded.entry(revision).or_insert(trust);
            *highest = trust.max(*highest);
        }
    }
    Ok(recorded)
}
