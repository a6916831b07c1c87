//! Decodes the rows of history, and checks changes before they are stored.

use memory::change::ChangeId;
use memory::change::{ChangeKind, FileChange, FolderChange, MemoryChange, Provenance, RootKey};
use memory::document::Revision;
use memory::usage::Usage;

use crate::error::Fault;
use crate::record::{Head, NewFileChange, OpenChange, OpenFile, PathChange, Stats, UsageRow};
use crate::rows::{
    ColumnResult, Columns, InvalidValue, PackedContent, StoredRow, collect_readable,
};

/// Decodes the counts of a database.
pub fn stats(row: Columns<'_>) -> ColumnResult<Stats> {
    Ok(Stats {
        changes: row.count("changes")?,
        open: row.count("open")?,
        content_bytes: row.count("content_bytes")?,
        tasks: row.count("tasks")?,
        sessions: row.count("sessions")?,
        database_bytes: row.count("database_bytes")?,
    })
}

/// Checks that the bytes of files match their revisions.
pub fn check_bytes(files: &[NewFileChange]) -> Result<(), Fault> {
    let pairs = files
        .iter()
        .flat_map(|file| [(&file.change.before, &file.before), (&file.change.after, &file.after)]);
    for (revision, bytes) in pairs {
        let (Some(bytes), expected) = (bytes, revision) else { continue };
        if expected.is_none_or(|expected| expected != Revision::digest(bytes)) {
            let expected =
                expected.map_or_else(|| "nothing".to_owned(), |expected| expected.to_string());
            return Err(Fault::WrongBytes(expected));
        }
    }
    Ok(())
}

/// Returns whether the marks of a file follow those of its folder, which are moved or dropped together.
pub fn marks_follow_folder(file: &FileChange, folder: &FolderChange, kind: ChangeKind) -> bool {
    kind != ChangeKind::Outside
        && file.root.identity == folder.root.identity
        && file.path.is_within(&folder.path)
}

/// Groups rows, one for each file of a change, into changes.
///
/// The new bytes of a file are decoded where its column `wrote` is true, from the columns of [`PackedContent`].
pub fn changes<R: StoredRow>(rows: &[R]) -> Vec<OpenChange> {
    let same = |a: &R, b: &R| Columns(a).id("id") == Columns(b).id("id");
    collect_readable("changes", rows.chunk_by(same).map(change))
}

fn change<R: StoredRow>(rows: &[R]) -> ColumnResult<OpenChange> {
    let row = Columns(rows.first().ok_or(InvalidValue)?);
    let mut change = MemoryChange {
        id: row.id("id")?,
        at: row.time("at")?,
        kind: row.word("kind")?,
        provenance: provenance(row)?,
        undoes: row.maybe_id("undoes")?,
        folder: folder(row)?,
        files: Vec::new(),
    };
    let mut files = Vec::new();
    // A change of a folder without memories has one row, without a file.
    let has_file = |row: &Columns<'_>| matches!(row.get::<Option<i64>>("seq"), Ok(Some(_)));
    let with_file = rows.iter().map(|row| Columns(row)).filter(has_file);
    for (row, file) in collect_readable("files", with_file.map(|row| Ok((row, file(row)?)))) {
        if let Some(bytes) = written_bytes(row, &file, change.id) {
            files.push(OpenFile { index: change.files.len(), bytes });
        }
        change.files.push(file);
    }
    Ok(OpenChange { change, files })
}

fn provenance(row: Columns<'_>) -> ColumnResult<Provenance> {
    Ok(Provenance {
        actor: row.word("actor")?,
        trust: row.word("change_trust")?,
        origin: row.get("origin")?,
        client: row.get("client")?,
        session: row.get("session")?,
        task: row.get("task")?,
        tool_call: row.get("tool_call")?,
        model: row.get("model")?,
        note: row.get("note")?,
    })
}

fn folder(row: Columns<'_>) -> ColumnResult<Option<FolderChange>> {
    let Some(path) = row.maybe_path("folder_path")? else { return Ok(None) };
    Ok(Some(FolderChange {
        root: RootKey { identity: row.get("folder_identity")?, place: row.get("folder_place")? },
        path,
        moved_to: row.maybe_path("folder_moved_to")?,
    }))
}

fn file(row: Columns<'_>) -> ColumnResult<FileChange> {
    Ok(FileChange {
        root: RootKey { identity: row.get("identity")?, place: row.get("place")? },
        path: row.path("path")?,
        moved_to: row.maybe_path("moved_to")?,
        before: row.maybe_revision("before")?,
        after: row.maybe_revision("after")?,
        trust: row.word("file_trust")?,
    })
}

/// Returns the new bytes of a file of an open change. Lost or damaged bytes are left out: the caller detects that, and
/// can replay the rest.
fn written_bytes(row: Columns<'_>, file: &FileChange, id: ChangeId) -> Option<Vec<u8>> {
    if !row.flag("wrote").unwrap_or(false) {
        return None;
    }
    let bytes = PackedContent::read(row)
        .ok()
        .zip(file.after)
        .and_then(|(packed, after)| packed.unpack(&after));
    if bytes.is_none() {
        tracing::warn!(change = id.0, path = %file.path, "the new bytes of an open change are lost; cannot replay the file");
    }
    bytes
}

/// Decodes the change of a memory at a path.
pub fn path_change(row: Columns<'_>) -> ColumnResult<PathChange> {
    Ok(PathChange {
        path: row.path("path")?,
        id: row.id("id")?,
        at: row.time("at")?,
        actor: row.word("actor")?,
        model: row.get("model")?,
        before: row.maybe_revision("before")?,
        after: row.maybe_revision("after")?,
        trust: row.word("trust")?,
    })
}

/// Decodes a head.
pub fn head(row: Columns<'_>) -> ColumnResult<Head> {
    Ok(Head {
        path: row.path("path")?,
        revision: row.maybe_revision("revision")?,
        trust: row.word("trust")?,
        change: row.id("change_id")?,
    })
}

/// Decodes pins and usage.
pub fn usage_row(row: Columns<'_>) -> ColumnResult<UsageRow> {
    Ok(UsageRow {
        path: row.path("path")?,
        pinned: row.flag("pinned")?,
        usage: Usage {
            uses: row.count("uses")?,
            last_used_at: row.maybe_time("last_used_at")?,
            last_written_at: row.maybe_time("last_written_at")?,
        },
    })
}
