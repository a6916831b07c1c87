//! A check of every page, index, stored content and agreement between rows of the database.
//!
//! The check may be slow: it runs when a person requests it, or after a call found damage.

use std::path::Path;

use sqlx::{Connection, Row, SqliteConnection};

use crate::error::Fault;
use crate::rows::{self, Columns, PackedContent};
use crate::sqlite::file;
use crate::sqlite::open::{self, Mode, Schema};

/// The depth of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckDepth {
    /// Whether SQLite can read and trust every page.
    Pages,
    /// Pages, digests of contents, and agreement between rows.
    Full,
}

/// The damage found by a check.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    /// Damage that makes the file useless.
    broken: Vec<String>,
    /// Damage that `REINDEX` repairs.
    indexes: Vec<String>,
    /// Contradictions between rows, which [`REPAIR_SQL`] removes.
    rows: Vec<String>,
    /// Ids of contents that do not match their digest.
    pub(super) corrupt_contents: Vec<i64>,
}

impl Findings {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether all damage may be repaired in place.
    pub(super) fn are_repairable(&self) -> bool {
        self.broken.is_empty()
    }

    pub(super) fn sentences(&self) -> Vec<String> {
        let mut sentences = [&self.broken[..], &self.indexes, &self.rows].concat();
        if !self.corrupt_contents.is_empty() {
            sentences.push(format!(
                "{} stored contents do not match their digest",
                self.corrupt_contents.len()
            ));
        }
        sentences
    }

    /// Sorts a line of `PRAGMA integrity_check` into a kind of damage.
    fn add_line(&mut self, line: &str) {
        let line = line.replace('\n', "; ");
        let is_of_index = line.contains(" missing from index ")
            || line.starts_with("wrong # of entries in index ")
            || line.starts_with("non-unique entry in index ");
        match line.as_str() {
            "ok" => {}
            _ if line.starts_with("CHECK constraint failed in ") => self.rows.push(line),
            _ if is_of_index => self.indexes.push(format!("an index is damaged: {line}")),
            _ => self.broken.push(format!("a page is damaged: {line}")),
        }
    }
}

/// Checks the database at `path`, and changes nothing. A missing database is sound.
pub(super) async fn check(path: &Path, depth: CheckDepth) -> Result<Findings, Fault> {
    if file::file_id(path)?.is_none() {
        return Ok(Findings::default());
    }
    let found = match open::connect(path, Mode::Read).await {
        Ok(mut connection) => {
            let found = findings(&mut connection, depth).await;
            open::close(connection).await;
            found
        }
        Err(fault) => Err(fault),
    };
    match found {
        Err(fault) if fault.is_damage() => Ok(Findings {
            broken: vec![format!("the database cannot be read: {fault}")],
            ..Findings::default()
        }),
        found => found,
    }
}

async fn findings(connection: &mut SqliteConnection, depth: CheckDepth) -> Result<Findings, Fault> {
    let mut found = Findings::default();
    let schema = open::schema(connection).await?;
    if schema == Schema::Empty {
        return Ok(found);
    }
    // Limited to 20: a damaged page produces hundreds of lines.
    let lines: Vec<String> =
        sqlx::query_scalar("PRAGMA integrity_check(20)").fetch_all(&mut *connection).await?;
    for line in &lines {
        found.add_line(line);
    }
    // An earlier schema is checked after a writer has migrated it.
    if schema == Schema::Latest && found.is_empty() {
        found.broken = missing_definitions(connection).await?;
    }
    if depth == CheckDepth::Full && schema == Schema::Latest && found.is_empty() {
        for (query, sentence) in CONSISTENCY_CHECKS {
            let count: i64 = sqlx::query_scalar(query).fetch_one(&mut *connection).await?;
            if count > 0 {
                found.rows.push(format!("{count} {sentence}"));
            }
        }
        found.corrupt_contents = find_corrupt_contents(connection).await?;
    }
    Ok(found)
}

/// Returns a sentence for each missing or changed definition of the schema. A separate check, because SQLite checks
/// names only when it prepares a statement.
async fn missing_definitions(connection: &mut SqliteConnection) -> Result<Vec<String>, Fault> {
    const DEFINITIONS: &str = "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL
        AND name NOT LIKE 'sqlite_%' AND name <> '_sqlx_migrations' ORDER BY name";
    type Definition = (String, String, String);
    let mut model = SqliteConnection::connect("sqlite::memory:").await?;
    open::migrate(&mut model).await?;
    let expected: Vec<Definition> = sqlx::query_as(DEFINITIONS).fetch_all(&mut model).await?;
    open::close(model).await;
    let defined: Vec<Definition> = sqlx::query_as(DEFINITIONS).fetch_all(connection).await?;
    let missing = expected.iter().filter(|definition| !defined.contains(definition));
    Ok(missing
        .map(|(kind, name, _)| format!("the {kind} `{name}` is missing or changed"))
        .collect())
}

async fn find_corrupt_contents(connection: &mut SqliteConnection) -> Result<Vec<i64>, Fault> {
    let ids: Vec<i64> =
        sqlx::query_scalar("SELECT id FROM contents").fetch_all(&mut *connection).await?;
    let mut corrupt = Vec::new();
    for id in ids {
        let query = sqlx::query("SELECT revision, codec, size, bytes FROM contents WHERE id = $1");
        let row = query.bind(id).fetch_optional(&mut *connection).await?;
        let is_sound = row.is_none_or(|row| {
            let revision = row.try_get("revision").ok().and_then(rows::revision);
            let packed = PackedContent::read(Columns(&row)).ok();
            revision
                .zip(packed)
                .is_some_and(|(revision, packed)| packed.unpack(&revision).is_some())
        });
        if !is_sound {
            corrupt.push(id);
        }
    }
    Ok(corrupt)
}

/// Queries that count disagreements between rows, with a sentence for each.
const CONSISTENCY_CHECKS: [(&str, &str); 5] = [
    (
        "SELECT count(*) FROM change_files WHERE change_id NOT IN (SELECT id FROM changes)",
        "files belong to a missing change",
    ),
    (
        "SELECT count(*) FROM heads h JOIN change_files f ON f.change_id = h.change_id
            AND f.place = h.place AND f.after = h.revision
            AND (f.path = h.path OR f.moved_to = h.path) AND f.wrote = 1
        WHERE NOT EXISTS (SELECT 1 FROM contents k WHERE k.revision = h.revision)",
        "memories' latest bytes are missing",
    ),
    (
        "SELECT count(*) FROM totals WHERE changes <> (SELECT count(*) FROM changes)
            OR last_change < (SELECT coalesce(max(id), 0) FROM changes)
            OR content_bytes <> (SELECT coalesce(sum(length(bytes)), 0) FROM contents)",
        "totals are wrong",
    ),
    (
        "SELECT count(*) FROM open_changes o WHERE change_id NOT IN (SELECT id FROM changes)
            OR NOT EXISTS (SELECT 1 FROM open_changes c
                WHERE c.change_id = o.change_id AND c.what = 'change')",
        "replaced values belong to no open change",
    ),
    (
        "SELECT count(*) FROM runs WHERE task NOT IN (SELECT id FROM tasks)",
        "runs belong to a missing task",
    ),
];

/// Restores all constraints and [`CONSISTENCY_CHECKS`]. Files whose bytes are missing no longer claim to have them.
pub(super) const REPAIR_SQL: &str = "
    DELETE FROM tasks WHERE status NOT IN ('queued', 'running', 'completed', 'failed');
    DELETE FROM proposals WHERE status NOT IN ('waiting', 'accepted', 'rejected');
    DELETE FROM change_files WHERE change_id NOT IN (SELECT id FROM changes);
    UPDATE change_files SET wrote = 0 WHERE wrote = 1
        AND NOT EXISTS (SELECT 1 FROM contents WHERE revision = after);
    DELETE FROM open_changes WHERE change_id NOT IN (SELECT id FROM changes);
    INSERT INTO open_changes (change_id, what, root, path)
        SELECT DISTINCT change_id, 'change', '', '' FROM open_changes WHERE true
        ON CONFLICT DO NOTHING;
    DELETE FROM runs WHERE task NOT IN (SELECT id FROM tasks);
    UPDATE totals SET changes = (SELECT count(*) FROM changes),
        last_change = max(last_change, (SELECT coalesce(max(id), 0) FROM changes)),
        content_bytes = (SELECT coalesce(sum(length(bytes)), 0) FROM contents);";
