//! Lists of a root's files and folders.

use std::collections::HashMap;

use memory::path::RelativePath;
use sqlx::PgConnection;
use state::rows::{ColumnResult, Columns, decode_rows, path_range, single};
use store::backend::{Extent, Stamp, Stat, Walk, WalkedFile, WalkedFolder};

use crate::call_error::CallError;
use crate::row::rows;

/// A file, or a folder, which has no stat.
pub(super) struct Entry {
    path: RelativePath,
    stat: Option<Stat>,
}

impl Entry {
    /// Returns the path and the stamp, if it is a file.
    pub(super) fn file(&self) -> Option<(&RelativePath, Stamp)> {
        Some((&self.path, self.stat?.stamp))
    }
}

/// Loads the files and folders below a folder or of a whole root, in byte order of their paths.
pub(super) async fn entries(
    connection: &mut PgConnection,
    owner: i64,
    (place, from): (&str, Option<&RelativePath>),
) -> Result<Vec<Entry>, CallError> {
    // The paths of a root are between the empty text and any.
    let (start, end) = match from {
        Some(from) => {
            let (start, end) = path_range(from);
            (start, Some(end))
        }
        None => (String::new(), None),
    };
    let find = sqlx::query(
        "SELECT path, octet_length(bytes)::bigint AS size, version, modified_at FROM files
        WHERE owner = $1 AND place = $2 AND path >= $3 AND ($4::text IS NULL OR path < $4) ORDER BY path",
    );
    let found = rows(connection, find.bind(owner).bind(place).bind(start).bind(end)).await?;
    Ok(decode_rows("files", &found, |row| Ok(Entry { path: row.path("path")?, stat: stat(row)? })))
}

/// Decodes the stat of a file; `None` if it is a folder.
pub(super) fn stat(row: Columns<'_>) -> ColumnResult<Option<Stat>> {
    if row.get::<Option<i64>>("size")?.is_none() {
        return Ok(None);
    }
    Ok(Some(Stat {
        bytes: row.count("size")?,
        modified_at: row.time("modified_at")?,
        stamp: Stamp([row.count("version")?, 0, 0, 0]),
        // Each version has its own number.
        recent: false,
    }))
}

/// Returns the last version of the files of a root. Each write of a file raises it.
pub(super) async fn last_version(
    connection: &mut PgConnection,
    owner: i64,
    place: &str,
) -> Result<i64, CallError> {
    let find = sqlx::query("SELECT last_version FROM roots WHERE owner = $1 AND place = $2");
    let found = rows(connection, find.bind(owner).bind(place)).await?;
    Ok(found.first().map_or(Ok(0), |row| Columns(row).get("last_version"))?)
}

/// Counts the files of a root.
pub(super) async fn count(
    connection: &mut PgConnection,
    owner: i64,
    place: &str,
) -> Result<usize, CallError> {
    let count = sqlx::query(
        "SELECT count(*) AS files FROM files WHERE owner = $1 AND place = $2 AND bytes IS NOT NULL",
    );
    let found = rows(connection, count.bind(owner).bind(place)).await?;
    let count = single(&found, |row| row.count("files"))?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

/// Returns a walk over entries in byte order of their paths.
pub(super) fn walk_of(entries: Vec<Entry>, from: Option<&RelativePath>, extent: Extent) -> Walk {
    let depth_max = from.map_or(0, RelativePath::depth).saturating_add(extent.levels);
    let mut walk = Walk::default();
    let mut bytes_of_folders = HashMap::new();
    for entry in &entries {
        let Some(stat) = entry.stat else { continue };
        for folder in entry.path.folders() {
            *bytes_of_folders.entry(folder).or_insert(0_u64) += stat.bytes;
        }
    }
    for Entry { path, stat } in entries {
        let is_near = path.depth() <= depth_max;
        walk.in_reach += usize::from(is_near);
        if let Some(stat) = stat {
            walk.files_total += 1;
            walk.bytes_total += stat.bytes;
            if is_near && walk.files.len() < extent.max {
                walk.files.push(WalkedFile { path, stat });
            }
        } else {
            walk.folders_total += 1;
            if is_near && walk.folders.len() < extent.max {
                let bytes = bytes_of_folders.get(&path).copied().unwrap_or(0);
                walk.folders.push(WalkedFolder { path, bytes });
            }
        }
    }
    walk
}
