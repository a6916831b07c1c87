//! Reading and writing the rows of files.
//!
//! A write first raises the last version of the root, which other writes wait for. It sees all files as the write
//! before it left them.

use std::collections::{BTreeMap, HashMap};
use std::io;

use memory::change::ChangeId;
use memory::clock::Timestamp;
use memory::path::RelativePath;
use sqlx::{AssertSqlSafe, PgConnection};
use state::Fault;
use state::rows::{Columns, decode_rows, path_range, stored_time};
use store::backend::{BackendError, Expect, FileKind, FileRead, Stamp};

use crate::call_error::CallError;
use crate::events::NOW;
use crate::lease::{HELD, IS_HELD};
use crate::root::listing::{self, stat};
use crate::row::{Row, rows, run};

/// The root that a write is for, and the lock that it was made under.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'t> {
    pub(super) owner: i64,
    pub(super) place: &'t str,
    /// The name of the lock.
    pub(super) lock: &'t str,
    /// The write of this process, if it holds the lock.
    pub(super) held: Option<HeldRoot>,
}

/// The write of a process that holds the lock of a root.
///
/// Its steps do not wait for the disk, and the process may live on when the server crashes. So each step names what the
/// step before it left. If a crash lost that one, the write fails, and the next holder recovers it.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldRoot {
    /// The fence of the lock.
    pub(super) fence: i64,
    /// The number of the write, from its start to its end.
    pub(super) writes: Option<i64>,
    /// The last version of the root, from the start of the write to its end.
    pub(super) last_version: Option<i64>,
}

impl Target<'_> {
    fn fence(&self) -> Option<i64> {
        self.held.map(|held| held.fence)
    }

    fn last_version(&self) -> Option<i64> {
        self.held.and_then(|held| held.last_version)
    }
}

/// A file to be put in place.
#[derive(Debug)]
pub(super) struct PlannedFile<'w> {
    pub(super) bytes: &'w [u8],
    /// The time to keep; `None` for now.
    pub(super) modified_at: Option<Timestamp>,
    pub(super) expect: Expect,
}

/// One write of files.
#[derive(Debug)]
pub(super) enum FileWrite<'w> {
    /// Puts a file in place, and creates its folders.
    Publish(&'w RelativePath, PlannedFile<'w>),
    /// Removes a file with this stamp.
    RemoveFile(&'w RelativePath, Stamp),
    /// Removes a folder whose files have these stamps.
    RemoveFolder(&'w RelativePath, &'w BTreeMap<&'w str, Stamp>),
    /// Removes a folder and its subfolders as far as no file is in them.
    RemoveEmpty(&'w RelativePath),
    /// Moves a file or folder to a path that is free.
    Rename(&'w RelativePath, &'w RelativePath),
}

/// The result of a call: an error of the server is one of the call, a broken precondition is a value.
type Refusable<T> = Result<Result<T, BackendError>, CallError>;

/// Writes files, unless a precondition does not hold. A refused write only raises the last version of the root. Returns
/// that version, too.
pub(super) async fn write(
    connection: &mut PgConnection,
    target: Target<'_>,
    write: &FileWrite<'_>,
) -> Result<(i64, Result<(), BackendError>), CallError> {
    let version = next_version(connection, target).await?;
    let result = match write {
        FileWrite::Publish(path, file) => publish(connection, target, (path, file, version)).await,
        FileWrite::RemoveFile(path, expect) => {
            remove_file(connection, target, (path, *expect)).await
        }
        FileWrite::RemoveFolder(path, expect) => {
            remove_folder(connection, target, (path, expect)).await
        }
        FileWrite::RemoveEmpty(path) => remove_empty(connection, target, path).await,
        FileWrite::Rename(from, to) => rename(connection, target, (from, to, version)).await,
    };
    Ok((version, result?))
}

/// Returns the number of the next version, and keeps other writes of the root waiting until the end of the transaction.
/// The number is a time in microseconds if the last one is not later. So none that a crash of the server lost is given
/// again. Fails if the lock or an earlier step of the write was lost.
async fn next_version(connection: &mut PgConnection, target: Target<'_>) -> Result<i64, CallError> {
    let next = sqlx::query(AssertSqlSafe(format!(
        "WITH {HELD}, now AS (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS version)
        INSERT INTO roots (owner, place, last_version) SELECT $1, $4, version FROM now WHERE {IS_HELD}
        ON CONFLICT (owner, place) DO UPDATE
            SET last_version = greatest(roots.last_version + 1, excluded.last_version)
            WHERE $5::bigint IS NULL OR roots.last_version = $5 RETURNING last_version"
    )));
    let next = next.bind(target.owner).bind(target.lock).bind(target.fence()).bind(target.place);
    let found = rows(connection, next.bind(target.last_version())).await?;
    let row = found.first().ok_or_else(|| Fault::LockLost(target.place.to_owned()))?;
    Ok(Columns(row).get("last_version")?)
}

/// A mark of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// The start.
    Begin,
    /// The end, with the change that is carried out now, if the write made one.
    End(Option<ChangeId>),
}

/// The marks of a root after one was set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marked {
    /// The number of writes.
    pub(super) writes: i64,
    /// The last version.
    pub(super) last_version: i64,
}

/// Marks the start of a write, and raises the number of writes.
const BEGIN: &str = "INSERT INTO roots (owner, place, writes, writing, recorder)
    SELECT $1, $4, 1, true, $5 WHERE {held}
    ON CONFLICT (owner, place) DO UPDATE SET writes = roots.writes + 1, writing = true,
        recorder = excluded.recorder";

/// Marks the end of write `$7`, whose last version is `$8`.
const END: &str = "UPDATE roots SET writing = false, recorder = $5
    WHERE owner = $1 AND place = $4 AND writing AND {held} AND writes = $7 AND last_version = $8";

/// Marks the start or the end of a write of the daemons of a database. Fails if the lock was lost, and at the end if a step
/// of the write was. The end adds the changes that are complete since the end before to the log of events.
pub(super) async fn mark(
    connection: &mut PgConnection,
    target: Target<'_>,
    (recorder, mark): (i64, Mark),
) -> Result<Marked, CallError> {
    let (marked, completed) = match mark {
        Mark::Begin => (BEGIN, None),
        Mark::End(completed) => (END, completed),
    };
    let marked = marked.replace("{held}", IS_HELD);
    let query = sqlx::query(AssertSqlSafe(format!(
        "WITH {HELD}, marked AS ({marked} RETURNING writes, last_version, writing),
        completed AS (
            INSERT INTO completed_changes (owner, place, recorder, change_id)
            SELECT $1, $4, $5, $6 FROM marked WHERE $6::bigint IS NOT NULL
            ON CONFLICT (owner, place, recorder) DO UPDATE SET change_id = excluded.change_id),
        ended AS (
            SELECT f.change_id, count(*) AS files FROM change_files f, marked
            WHERE NOT marked.writing AND f.owner = $1 AND f.place = $4 AND f.change_id <= $6
                AND f.change_id > coalesce((SELECT change_id FROM completed_changes
                        WHERE owner = $1 AND place = $4 AND recorder = $5),
                    (SELECT imported_change FROM counters WHERE owner = $1))
            GROUP BY f.change_id),
        numbered AS (
            UPDATE counters SET last_event = last_event + (SELECT sum(files)::bigint FROM ended)
            WHERE owner = $1 AND EXISTS (SELECT 1 FROM ended) RETURNING last_event),
        logged AS (
            INSERT INTO events (owner, number, count, at, kind, change_id, workspace, subject)
            SELECT $1, last_event + files - (sum(files) OVER (ORDER BY change_id DESC))::bigint, files, {NOW}, 'change',
                change_id, (SELECT t.workspace FROM changes c JOIN tasks t ON t.owner = c.owner AND t.id = c.task
                    WHERE c.owner = $1 AND c.id = change_id), $4
            FROM ended, numbered)
        SELECT writes, last_version, $7::bigint, $8::bigint FROM marked"
    )));
    let query = query.bind(target.owner).bind(target.lock).bind(target.fence()).bind(target.place);
    let query = query.bind(recorder).bind(completed.map(|change| change.0));
    let query = query.bind(target.held.and_then(|held| held.writes)).bind(target.last_version());
    let found = rows(connection, query).await?;
    let row = found.first().ok_or_else(|| Fault::LockLost(target.place.to_owned()))?;
    let row = Columns(row);
    Ok(Marked { writes: row.get("writes")?, last_version: row.get("last_version")? })
}

/// The entries at some paths: the version of a file, or `None` for a folder.
type Found = HashMap<RelativePath, Option<u64>>;

/// Loads the entries at paths and at the folders that contain them.
async fn entries_at(
    connection: &mut PgConnection,
    (owner, place): (i64, &str),
    paths: &[&RelativePath],
) -> Result<Found, CallError> {
    let find = sqlx::query(
        "SELECT path, CASE WHEN bytes IS NOT NULL THEN version END AS version FROM files
        WHERE owner = $1 AND place = $2 AND path = ANY($3)",
    );
    let find = find.bind(owner).bind(place).bind(with_folders(paths.iter().copied()));
    let found = rows(connection, find).await?;
    let read = |row: Columns<'_>| {
        let version = row.get::<Option<i64>>("version")?;
        Ok((row.path("path")?, version.map(i64::cast_unsigned)))
    };
    Ok(decode_rows("files", &found, read).into_iter().collect())
}

/// Returns paths and the folders that contain them, each once.
fn with_folders<'p>(paths: impl IntoIterator<Item = &'p RelativePath>) -> Vec<String> {
    let mut all: Vec<_> = Vec::new();
    for path in paths {
        all.push(path.to_string());
        all.extend(path.folders().map(|folder| folder.to_string()));
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns whether a file is where a folder should contain the path.
fn is_below_file(found: &Found, path: &RelativePath) -> bool {
    path.folders().any(|folder| matches!(found.get(&folder), Some(Some(_))))
}

/// Returns the kind of entry at a path.
pub(super) async fn kind(
    connection: &mut PgConnection,
    owner: i64,
    (place, path): (&str, &RelativePath),
) -> Refusable<Option<FileKind>> {
    let found = entries_at(connection, (owner, place), &[path]).await?;
    Ok(kind_at(&found, path))
}

fn kind_at(found: &Found, path: &RelativePath) -> Result<Option<FileKind>, BackendError> {
    if is_below_file(found, path) {
        return Err(BackendError::WrongKind);
    }
    Ok(found.get(path).map(|version| match version {
        Some(_) => FileKind::File,
        None => FileKind::Folder,
    }))
}

/// Reads the first `max` bytes of files, in their order.
pub(super) async fn read(
    connection: &mut PgConnection,
    owner: i64,
    (place, paths, max): (&str, &[RelativePath], usize),
) -> Result<Vec<Result<FileRead, BackendError>>, CallError> {
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let find = sqlx::query(
        "SELECT path, octet_length(bytes)::bigint AS size, version, modified_at,
            substring(bytes FROM 1 FOR $4) AS bytes
        FROM files WHERE owner = $1 AND place = $2 AND path = ANY($3)",
    );
    let max = i32::try_from(max).unwrap_or(i32::MAX);
    let find = find.bind(owner).bind(place).bind(with_folders(paths)).bind(max);
    let found = rows(connection, find).await?;
    let by_path: HashMap<&str, &Row> = found
        .iter()
        .map(|row| Ok((Columns(row).get::<&str>("path")?, row)))
        .collect::<Result<_, CallError>>()?;
    paths.iter().map(|path| read_one(&by_path, path)).collect()
}

fn read_one(found: &HashMap<&str, &Row>, path: &RelativePath) -> Refusable<FileRead> {
    for folder in path.folders() {
        if let Some(&row) = found.get(folder.as_str())
            && stat(Columns(row))?.is_some()
        {
            return Ok(Err(BackendError::WrongKind));
        }
    }
    let Some(&row) = found.get(path.as_str()) else { return Ok(Err(BackendError::NotFound)) };
    let Some(stat) = stat(Columns(row))? else { return Ok(Err(BackendError::WrongKind)) };
    Ok(Ok(FileRead { bytes: Columns(row).get("bytes")?, stat }))
}

fn matches_stamp(version: Option<&Option<u64>>, expect: Stamp) -> bool {
    version.is_some_and(|version| version.is_some_and(|v| Stamp([v, 0, 0, 0]) == expect))
}

async fn publish(
    connection: &mut PgConnection,
    target: Target<'_>,
    (path, file, version): (&RelativePath, &PlannedFile<'_>, i64),
) -> Refusable<()> {
    let found = entries_at(connection, (target.owner, target.place), &[path]).await?;
    match file.expect {
        Expect::Absent if is_below_file(&found, path) => return Ok(Err(BackendError::WrongKind)),
        Expect::Absent if found.contains_key(path) => return Ok(Err(BackendError::Occupied)),
        Expect::File(stamp) if !matches_stamp(found.get(path), stamp) => {
            return Ok(Err(BackendError::Changed));
        }
        Expect::Absent | Expect::File(_) => {}
    }
    create_folders(connection, target, (path, &found, version)).await?;
    let put = sqlx::query(
        "WITH created AS (UPDATE roots SET is_created = true
            WHERE owner = $1 AND place = $2 AND NOT is_created)
        INSERT INTO files (owner, place, path, bytes, version, modified_at)
        VALUES ($1, $2, $3, $4, $5, coalesce($6, (extract(epoch FROM clock_timestamp()) * 1000000000)::bigint))
        ON CONFLICT (owner, place, path) DO UPDATE SET bytes = excluded.bytes, version = excluded.version,
            modified_at = excluded.modified_at",
    );
    let put = put.bind(target.owner).bind(target.place).bind(path.as_str()).bind(file.bytes);
    run(connection, put.bind(version).bind(file.modified_at.map(stored_time))).await?;
    Ok(Ok(()))
}

/// Creates the missing folders that contain a path.
async fn create_folders(
    connection: &mut PgConnection,
    target: Target<'_>,
    (path, found, version): (&RelativePath, &Found, i64),
) -> Result<(), CallError> {
    let missing: Vec<_> = path
        .folders()
        .filter(|folder| !found.contains_key(folder))
        .map(|folder| folder.to_string())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let create = sqlx::query(
        "INSERT INTO files (owner, place, path, version, modified_at)
        SELECT $1, $2, path, $4, 0 FROM unnest($3::text[]) path",
    );
    let create = create.bind(target.owner).bind(target.place).bind(missing).bind(version);
    run(connection, create).await?;
    Ok(())
}

async fn remove_file(
    connection: &mut PgConnection,
    target: Target<'_>,
    (path, expect): (&RelativePath, Stamp),
) -> Refusable<()> {
    let found = entries_at(connection, (target.owner, target.place), &[path]).await?;
    match kind_at(&found, path) {
        Err(error) => return Ok(Err(error)),
        Ok(None) => return Ok(Err(BackendError::NotFound)),
        Ok(Some(_)) if !matches_stamp(found.get(path), expect) => {
            return Ok(Err(BackendError::Changed));
        }
        Ok(Some(_)) => {}
    }
    let remove = sqlx::query("DELETE FROM files WHERE owner = $1 AND place = $2 AND path = $3");
    run(connection, remove.bind(target.owner).bind(target.place).bind(path.as_str())).await?;
    Ok(Ok(()))
}

async fn remove_folder(
    connection: &mut PgConnection,
    target: Target<'_>,
    (path, expect): (&RelativePath, &BTreeMap<&str, Stamp>),
) -> Refusable<()> {
    let found = entries_at(connection, (target.owner, target.place), &[path]).await?;
    match kind_at(&found, path) {
        Err(error) => return Ok(Err(error)),
        Ok(None) => return Ok(Err(BackendError::NotFound)),
        Ok(Some(FileKind::File | FileKind::Other)) => return Ok(Err(BackendError::WrongKind)),
        Ok(Some(FileKind::Folder)) => {}
    }
    let inside = listing::entries(connection, target.owner, (target.place, Some(path))).await?;
    let is_expected = |path: &RelativePath, stamp| expect.get(path.as_str()) == Some(&stamp);
    let mut files = inside.iter().filter_map(listing::Entry::file);
    let count = files.clone().count();
    if count != expect.len() || !files.all(|(path, stamp)| is_expected(path, stamp)) {
        return Ok(Err(BackendError::Changed));
    }
    let (start, end) = path_range(path);
    let remove = sqlx::query(
        "DELETE FROM files WHERE owner = $1 AND place = $2 AND (path = $3 OR (path >= $4 AND path < $5))",
    );
    let remove = remove.bind(target.owner).bind(target.place).bind(path.as_str());
    run(connection, remove.bind(start).bind(end)).await?;
    Ok(Ok(()))
}

async fn remove_empty(
    connection: &mut PgConnection,
    target: Target<'_>,
    path: &RelativePath,
) -> Refusable<()> {
    let (start, end) = path_range(path);
    let remove = sqlx::query(
        "DELETE FROM files f WHERE f.owner = $1 AND f.place = $2 AND f.bytes IS NULL
            AND (f.path = $3 OR (f.path >= $4 AND f.path < $5))
            AND NOT EXISTS (SELECT 1 FROM files g WHERE g.owner = $1 AND g.place = $2 AND g.bytes IS NOT NULL
                AND g.path >= f.path || '/' AND g.path < f.path || '0')",
    );
    let remove = remove.bind(target.owner).bind(target.place).bind(path.as_str());
    run(connection, remove.bind(start).bind(end)).await?;
    Ok(Ok(()))
}

async fn rename(
    connection: &mut PgConnection,
    target: Target<'_>,
    (from, to, version): (&RelativePath, &RelativePath, i64),
) -> Refusable<()> {
    let found = entries_at(connection, (target.owner, target.place), &[from, to]).await?;
    if is_below_file(&found, from) || is_below_file(&found, to) {
        return Ok(Err(BackendError::WrongKind));
    }
    if !found.contains_key(from) {
        return Ok(Err(BackendError::NotFound));
    }
    if found.contains_key(to) {
        return Ok(Err(BackendError::Occupied));
    }
    if to.is_within(from) {
        let source = io::ErrorKind::InvalidInput.into();
        return Ok(Err(BackendError::Io { doing: "rename a memory", source }));
    }
    create_folders(connection, target, (to, &found, version)).await?;
    let (start, end) = path_range(from);
    let rename = sqlx::query(
        "UPDATE files SET path = $6 || substr(path, length($3) + 1)
        WHERE owner = $1 AND place = $2 AND (path = $3 OR (path >= $4 AND path < $5))",
    );
    let rename = rename.bind(target.owner).bind(target.place).bind(from.as_str());
    run(connection, rename.bind(start).bind(end).bind(to.as_str())).await?;
    Ok(Ok(()))
}
