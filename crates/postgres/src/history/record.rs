//! Recording a change, withdrawing it and marking it durable; the heads that follow from it.
//!
//! A change takes a handful of statements, however many files it has: rows are sent as arrays of columns. While a change
//! is open, the heads and marks that it replaced are kept, so that it can be withdrawn exactly.

use std::collections::{BTreeMap, HashMap};

use memory::change::{ChangeId, Trust};
use memory::document::Revision;
use memory::path::RelativePath;
use sqlx::PgConnection;
use state::rows::{
    Columns, PackedContent, check_bytes, decode_rows, head, marks_follow_folder, stored_count,
    stored_revision, stored_time,
};
use state::{Attempt, Fault, Head, NewChange, NewFileChange};

use crate::call_error::CallError;
use crate::history::{lock_owner, next_number, usage};
use crate::lease;
use crate::row::{rows, run, storable};
use crate::tasks::{proposals, queue};

/// Distance by which change numbers skip a number that was issued before: numbers beyond it may have been issued too.
const NUMBERS_SKIPPED: i64 = 1_000;

const CHANGE: &str = "WITH opened AS (
        INSERT INTO open_changes (owner, change_id, what, root, path, added)
        SELECT $1, $2, 'change', '', '', NULL
        UNION ALL SELECT $1, $2, 'hold', h.place, '', h.fence
            FROM unnest($19::text[], $20::bigint[]) h (place, fence))
    INSERT INTO changes (owner, id, at, kind, actor, trust, origin, client, session, task, tool_call, model, note,
        undoes, folder_identity, folder_place, folder_path, folder_moved_to)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)";

const FILES: &str = "INSERT INTO change_files
        (owner, change_id, seq, identity, place, path, moved_to, before, after, trust, wrote)
    SELECT $1, $2, f.* FROM unnest($3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bytea[],
        $9::bytea[], $10::text[], $11::boolean[]) f";

const CONTENTS: &str = "INSERT INTO contents (owner, revision, codec, size, bytes)
    SELECT $1, k.* FROM unnest($2::bytea[], $3::bigint[], $4::bigint[], $5::bytea[]) k
    ON CONFLICT (owner, revision) DO NOTHING";

/// Replaces the heads at places `$3`, paths `$4`, and keeps the former ones. Both parts see the heads as they were
/// before.
const HEADS: &str = "WITH new AS (
        SELECT * FROM unnest($3::text[], $4::text[], $5::text[], $6::bytea[], $7::text[])
            n (place, path, identity, revision, trust)),
    kept AS (
        INSERT INTO open_changes (owner, change_id, what, root, path, identity, revision, trust, head_change)
        SELECT $1, $2, 'head', new.place, new.path, h.identity, h.revision, h.trust, h.change_id
        FROM new LEFT JOIN heads h ON h.owner = $1 AND h.place = new.place AND h.path = new.path)
    INSERT INTO heads (owner, place, path, identity, revision, trust, change_id)
    SELECT $1, place, path, identity, revision, trust, $2 FROM new
    ON CONFLICT (owner, place, path) DO UPDATE SET identity = excluded.identity, revision = excluded.revision,
        trust = excluded.trust, change_id = excluded.change_id";

/// Marks the texts of identities `$3` and revisions `$4` as waiting for a review.
const INFLUENCED: &str = "INSERT INTO influenced (owner, identity, revision, change_id)
    SELECT $1, i.identity, i.revision, $2 FROM unnest($3::text[], $4::bytea[]) i (identity, revision)
    ON CONFLICT DO NOTHING";

/// Removes that mark: a person wrote or accepted the texts.
const ACCEPTED: &str = "DELETE FROM influenced WHERE owner = $1
    AND (identity, revision) IN (SELECT * FROM unnest($2::text[], $3::bytea[]))";

const RESTORE_HEADS: &str =
    "INSERT INTO heads (owner, place, path, identity, revision, trust, change_id)
    SELECT owner, root, path, identity, revision, trust, head_change FROM open_changes
    WHERE owner = $1 AND change_id = $2 AND what = 'head' AND head_change IS NOT NULL
    ON CONFLICT DO NOTHING";

const DROP_HEADS: &str =
    "DELETE FROM heads WHERE owner = $1 AND change_id = $2 AND (place, path) IN
    (SELECT root, path FROM open_changes WHERE owner = $1 AND change_id = $2 AND what = 'head')";

const FORGET: &str = "WITH a AS (DELETE FROM open_changes WHERE owner = $1 AND change_id = $2),
    b AS (DELETE FROM influenced WHERE owner = $1 AND change_id = $2),
    c AS (DELETE FROM change_files WHERE owner = $1 AND change_id = $2)
    DELETE FROM changes WHERE owner = $1 AND id = $2";

/// The condition that no row of owner `$1` refers to content `k`. Reads the whole history once.
pub(crate) const UNREFERENCED: &str = "NOT EXISTS
        (SELECT 1 FROM change_files f WHERE f.owner = $1 AND f.before = k.revision)
    AND NOT EXISTS (SELECT 1 FROM change_files f WHERE f.owner = $1 AND f.after = k.revision)
    AND NOT EXISTS (SELECT 1 FROM heads h WHERE h.owner = $1 AND h.revision = k.revision)
    AND NOT EXISTS (SELECT 1 FROM open_changes o WHERE o.owner = $1 AND o.revision = k.revision)";

/// Records a change in one transaction.
pub(crate) async fn record(
    connection: &mut PgConnection,
    owner: i64,
    change: &NewChange,
) -> Result<ChangeId, CallError> {
    check_bytes(&change.files)?;
    let id = ChangeId(next_number(connection, owner, "last_change").await?);
    for hold in &change.holds {
        check_hold(connection, owner, (&hold.place, hold.fence)).await?;
    }
    if let (Some(task), Some(number)) = (&change.provenance.task, change.attempt)
        && !queue::may_record(connection, owner, Attempt { task, number }).await?
    {
        return Err(Fault::StaleAttempt(task.clone()).into());
    }
    if let Some(proposal) = change.accepts {
        proposals::accept(connection, owner, (proposal, id), change.at).await?;
    }
    add_change(connection, owner, (id, change)).await?;
    add_contents(connection, owner, &change.files).await?;
    add_files(connection, owner, (id, &change.files)).await?;
    review_texts(connection, owner, (id, &change.files)).await?;
    replace_heads(connection, owner, (id, &change.files)).await?;
    let folder = change.folder.as_ref();
    let alone = |new: &&NewFileChange| {
        !folder.is_some_and(|folder| marks_follow_folder(&new.change, folder, change.kind))
    };
    let files: Vec<_> = change.files.iter().filter(alone).map(|new| &new.change).collect();
    usage::apply_file_changes(connection, (owner, id), change.kind, &files).await?;
    if let Some(folder) = folder {
        usage::apply_folder_change(connection, (owner, id), change.kind, folder).await?;
    }
    usage::count_in_change(connection, (owner, id), &change.uses).await?;
    Ok(id)
}

/// Returns an error if the lock of a root is no longer held as it was.
async fn check_hold(
    connection: &mut PgConnection,
    owner: i64,
    (place, fence): (&str, i64),
) -> Result<(), CallError> {
    let name = lease::root_lock_name(place);
    if !lease::is_held(connection, owner, (&name, fence)).await? {
        return Err(Fault::LockLost(place.to_owned()).into());
    }
    Ok(())
}

async fn add_change(
    connection: &mut PgConnection,
    owner: i64,
    (id, change): (ChangeId, &NewChange),
) -> Result<(), CallError> {
    let by = &change.provenance;
    let folder = change.folder.as_ref();
    let optional = |text: &Option<String>| text.as_deref().map(|text| storable(text).into_owned());
    let query = sqlx::query(CHANGE)
        .bind(owner)
        .bind(id.0)
        .bind(stored_time(change.at))
        .bind(change.kind.as_ref())
        .bind(by.actor.as_ref())
        .bind(by.trust.as_ref())
        .bind(storable(&by.origin).into_owned())
        .bind(optional(&by.client))
        .bind(optional(&by.session))
        .bind(optional(&by.task))
        .bind(optional(&by.tool_call))
        .bind(optional(&by.model))
        .bind(optional(&by.note))
        .bind(change.undoes.map(|id| id.0))
        .bind(folder.map(|folder| folder.root.identity.as_str()))
        .bind(folder.map(|folder| folder.root.place.as_str()))
        .bind(folder.map(|folder| folder.path.as_str()))
        .bind(folder.and_then(|folder| folder.moved_to.as_ref()).map(RelativePath::as_str))
        .bind(change.holds.iter().map(|hold| hold.place.as_str()).collect::<Vec<_>>())
        .bind(change.holds.iter().map(|hold| hold.fence).collect::<Vec<_>>());
    run(connection, query).await?;
    Ok(())
}

/// Stores the bytes of files, unless they are stored already.
async fn add_contents(
    connection: &mut PgConnection,
    owner: i64,
    files: &[NewFileChange],
) -> Result<(), CallError> {
    let mut packed = BTreeMap::new();
    for new in files {
        let sides = [(&new.change.before, &new.before), (&new.change.after, &new.after)];
        for (revision, bytes) in sides {
            if let (Some(revision), Some(bytes)) = (revision, bytes) {
                packed
                    .entry(stored_revision(revision))
                    .or_insert_with(|| PackedContent::pack(bytes));
            }
        }
    }
    if packed.is_empty() {
        return Ok(());
    }
    let mut columns = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (revision, content) in packed {
        columns.0.push(revision);
        columns.1.push(content.codec);
        columns.2.push(content.size);
        columns.3.push(content.bytes);
    }
    let query = sqlx::query(CONTENTS).bind(owner);
    let query = query.bind(columns.0).bind(columns.1).bind(columns.2).bind(columns.3);
    run(connection, query).await?;
    Ok(())
}

async fn add_files(
    connection: &mut PgConnection,
    owner: i64,
    (id, files): (ChangeId, &[NewFileChange]),
) -> Result<(), CallError> {
    if files.is_empty() {
        return Ok(());
    }
    let each = || files.iter().map(|new| &new.change);
    let query = sqlx::query(FILES)
        .bind(owner)
        .bind(id.0)
        .bind((0..files.len()).map(stored_count).collect::<Vec<_>>())
        .bind(each().map(|file| file.root.identity.as_str()).collect::<Vec<_>>())
        .bind(each().map(|file| file.root.place.as_str()).collect::<Vec<_>>())
        .bind(each().map(|file| file.path.as_str()).collect::<Vec<_>>())
        .bind(each().map(|file| Some(file.moved_to.as_ref()?.as_str())).collect::<Vec<_>>())
        .bind(each().map(|file| file.before.as_ref().map(stored_revision)).collect::<Vec<_>>())
        .bind(each().map(|file| file.after.as_ref().map(stored_revision)).collect::<Vec<_>>())
        .bind(each().map(|file| file.trust.as_ref()).collect::<Vec<_>>())
        .bind(files.iter().map(|new| new.after.is_some()).collect::<Vec<_>>());
    run(connection, query).await?;
    Ok(())
}

/// Notes which texts wait for a review and which a person has accepted, in the order of the files.
async fn review_texts(
    connection: &mut PgConnection,
    owner: i64,
    (id, files): (ChangeId, &[NewFileChange]),
) -> Result<(), CallError> {
    let mut waits = BTreeMap::new();
    for new in files {
        let file = &new.change;
        if let Some(after) = &file.after
            && (new.influenced || file.trust == Trust::Person)
        {
            waits.insert((file.root.identity.as_str(), stored_revision(after)), new.influenced);
        }
    }
    for influenced in [true, false] {
        let texts = waits.iter().filter(|(_, waits)| **waits == influenced);
        let (identities, revisions): (Vec<_>, Vec<_>) =
            texts.map(|((identity, revision), _)| (*identity, revision.as_slice())).unzip();
        if identities.is_empty() {
            continue;
        }
        let query = if influenced {
            sqlx::query(INFLUENCED).bind(owner).bind(id.0)
        } else {
            sqlx::query(ACCEPTED).bind(owner)
        };
        run(connection, query.bind(identities).bind(revisions)).await?;
    }
    Ok(())
}

/// Sets the heads of all paths that the files touch; of several changes to one path the last counts.
async fn replace_heads(
    connection: &mut PgConnection,
    owner: i64,
    (id, files): (ChangeId, &[NewFileChange]),
) -> Result<(), CallError> {
    let mut heads = BTreeMap::new();
    for new in files {
        let file = &new.change;
        let after = file.after.as_ref().map(stored_revision);
        let mut set = |path, revision| heads.insert((&file.root.place, path), (file, revision));
        match &file.moved_to {
            None => drop(set(&file.path, after)),
            Some(to) => {
                set(&file.path, None);
                set(to, after);
            }
        }
    }
    if heads.is_empty() {
        return Ok(());
    }
    let query = sqlx::query(HEADS)
        .bind(owner)
        .bind(id.0)
        .bind(heads.keys().map(|(place, _)| place.as_str()).collect::<Vec<_>>())
        .bind(heads.keys().map(|(_, path)| path.as_str()).collect::<Vec<_>>())
        .bind(heads.values().map(|(file, _)| file.root.identity.as_str()).collect::<Vec<_>>())
        .bind(heads.values().map(|(_, revision)| revision.as_deref()).collect::<Vec<_>>())
        .bind(heads.values().map(|(file, _)| file.trust.as_ref()).collect::<Vec<_>>());
    run(connection, query).await?;
    Ok(())
}

/// Withdraws an open change. One that does not exist counts as withdrawn.
pub(crate) async fn abort_change(
    connection: &mut PgConnection,
    owner: i64,
    id: ChangeId,
) -> Result<(), CallError> {
    lock_owner(connection, owner).await?;
    let open = sqlx::query(
        "SELECT EXISTS (SELECT 1 FROM open_changes
            WHERE owner = $1 AND change_id = $2 AND what = 'change') AS open
        FROM changes WHERE owner = $1 AND id = $2",
    );
    let open = rows(connection, open.bind(owner).bind(id.0)).await?;
    let Some(row) = open.first() else { return Ok(()) };
    if !Columns(row).flag("open")? {
        return Err(Fault::NotOpen(id).into());
    }
    // Another daemon may have carried the change out since this one lost its lock.
    let holds = sqlx::query(
        "SELECT root, added AS fence FROM open_changes WHERE owner = $1 AND change_id = $2 AND what = 'hold'",
    );
    for hold in &rows(connection, holds.bind(owner).bind(id.0)).await? {
        let (place, fence) = (Columns(hold).get("root")?, Columns(hold).get("fence")?);
        check_hold(connection, owner, (place, fence)).await?;
    }
    let contents = sqlx::query(
        "SELECT k.revision FROM change_files f JOIN contents k
            ON k.owner = f.owner AND k.revision IN (f.before, f.after)
        WHERE f.owner = $1 AND f.change_id = $2",
    );
    let contents = rows(connection, contents.bind(owner).bind(id.0)).await?;
    let contents = decode_rows("contents", &contents, |row| row.get::<&[u8]>("revision"));
    let restore = [DROP_HEADS, RESTORE_HEADS].into_iter().chain(usage::RESTORE);
    for statement in restore.chain([proposals::REOPEN, FORGET]) {
        run(connection, sqlx::query(statement).bind(owner).bind(id.0)).await?;
    }
    let drop = format!(
        "DELETE FROM contents k WHERE k.owner = $1 AND k.revision = ANY($2) AND {UNREFERENCED}"
    );
    run(connection, sqlx::query(sqlx::AssertSqlSafe(drop)).bind(owner).bind(contents)).await?;
    Ok(())
}

/// Raises the last number if it is below one that was issued before.
pub(crate) async fn raise_change_number(
    connection: &mut PgConnection,
    owner: i64,
    given: ChangeId,
) -> Result<(), CallError> {
    let raise = sqlx::query(
        "UPDATE counters SET last_change = $2 + $3 WHERE owner = $1 AND last_change < $2",
    );
    let given = given.0.clamp(0, i64::MAX / 2);
    run(connection, raise.bind(owner).bind(given).bind(NUMBERS_SKIPPED)).await?;
    Ok(())
}

/// Marks these changes as durable.
pub(crate) async fn mark_durable(
    connection: &mut PgConnection,
    owner: i64,
    ids: &[ChangeId],
) -> Result<(), CallError> {
    let close = sqlx::query("DELETE FROM open_changes WHERE owner = $1 AND change_id = ANY($2)");
    let ids: Vec<_> = ids.iter().map(|id| id.0).collect();
    run(connection, close.bind(owner).bind(ids)).await?;
    Ok(())
}

/// Loads the heads of a place that a change after `after` left.
pub(crate) async fn heads(
    connection: &mut PgConnection,
    owner: i64,
    (place, after): (&str, ChangeId),
) -> Result<Vec<Head>, CallError> {
    let query = sqlx::query(
        "SELECT path, revision, trust, change_id FROM heads
        WHERE owner = $1 AND place = $2 AND change_id > $3 ORDER BY change_id, path",
    );
    let found = rows(connection, query.bind(owner).bind(place).bind(after.0)).await?;
    Ok(decode_rows("heads", &found, head))
}

/// Loads the influenced texts of an identity with the last changes that wrote them.
pub(crate) async fn influenced_revisions(
    connection: &mut PgConnection,
    owner: i64,
    identity: &str,
) -> Result<HashMap<Revision, ChangeId>, CallError> {
    let query = sqlx::query(
        "SELECT revision, max(change_id) AS id FROM influenced
        WHERE owner = $1 AND identity = $2 GROUP BY revision",
    );
    let found = rows(connection, query.bind(owner).bind(identity)).await?;
    let read = |row: Columns<'_>| Ok((row.maybe_revision("revision")?, row.id("id")?));
    let texts = decode_rows("influenced", &found, read).into_iter();
    Ok(texts.filter_map(|(revision, id)| Some((revision?, id))).collect())
}

/// Loads the texts of an identity with their highest trust.
pub(crate) async fn recorded_revisions(
    connection: &mut PgConnection,
    owner: i64,
    identity: &str,
) -> Result<HashMap<Revision, Trust>, CallError> {
    let query = sqlx::query(
        "SELECT DISTINCT after, trust FROM change_files
        WHERE owner = $1 AND identity = $2 AND after IS NOT NULL",
    );
    let found = rows(connection, query.bind(owner).bind(identity)).await?;
    let read = |row: Columns<'_>| Ok((row.maybe_revision("after")?, row.word::<Trust>("trust")?));
    let mut recorded: HashMap<Revision, Trust> = HashMap::new();
    for (revision, trust) in decode_rows("change_files", &found, read) {
        if let Some(revision) = revision {
            let highest = recorded.entry(revision).or_insert(trust);
            *highest = trust.max(*highest);
        }
    }
    Ok(recorded)
}
