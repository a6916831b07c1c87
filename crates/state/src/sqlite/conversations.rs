//! Rows of conversations and of their segments.

use memory::limits::{CONVERSATIONS_KEPT_MAX, SEGMENTS_KEPT_MAX};
use sqlx::SqliteConnection;

use crate::error::Fault;
use crate::rows::{self, stored_count, stored_time};
use crate::sqlite::batch::{Batch, StatementReuse};
use crate::sqlite::queue::{begin_unsynced, run_unsynced};
use crate::task::{ConversationRow, NewTask, SegmentRow};

/// Loads one conversation.
pub(super) async fn get(
    connection: &mut SqliteConnection,
    id: &str,
) -> Result<Option<ConversationRow>, Fault> {
    let rows = Batch::new(
        "SELECT id, workspace, version, heard_at, data FROM conversations WHERE id = $1",
    )
    .bind(id)
    .rows(connection, StatementReuse::Persistent)
    .await?;
    Ok(rows::decode_rows("conversations", &rows, rows::conversation).pop())
}

/// Writes a conversation if its version follows the stored one; the first is 1. Drops the least recently active ones
/// beyond the limit. Returns whether it was written.
pub(super) async fn save(
    connection: &mut SqliteConnection,
    row: &ConversationRow,
) -> Result<bool, Fault> {
    let script = begin_unsynced(
        "BEGIN IMMEDIATE;
        INSERT INTO conversations (id, workspace, version, heard_at, data)
            SELECT $1, $2, $3, $4, $5
            WHERE $3 = 1 + coalesce((SELECT version FROM conversations WHERE id = $1), 0)
            ON CONFLICT (id) DO UPDATE SET workspace = excluded.workspace,
                version = excluded.version, heard_at = excluded.heard_at, data = excluded.data
            RETURNING version;
        DELETE FROM conversations WHERE $3 = 1 AND id IN (
            SELECT id FROM conversations ORDER BY heard_at DESC LIMIT -1 OFFSET $6);
        COMMIT",
    )
    .bind(row.id.as_str())
    .bind(row.workspace.as_str())
    .bind(stored_count(row.version))
    .bind(stored_time(row.last_seen_at))
    .bind(row.data.as_str())
    .bind(stored_count(CONVERSATIONS_KEPT_MAX));
    Ok(!run_unsynced(connection, script).await?.is_empty())
}

/// The condition that a conversation keeps texts for a review.
const WATCHED: &str = "data LIKE '%\"watched\":%'";

/// Returns whether any conversation keeps texts for a review.
pub(super) async fn has_watched(connection: &mut SqliteConnection) -> Result<bool, Fault> {
    let query = format!("SELECT 1 FROM conversations WHERE {WATCHED} LIMIT 1");
    Ok(!Batch::new(&query).rows(connection, StatementReuse::OneShot).await?.is_empty())
}

/// Drops the texts that conversations keep for a review. Returns the number of conversations changed.
pub(super) async fn drop_watched(connection: &mut SqliteConnection) -> Result<u64, Fault> {
    let dropped = Batch::new(&format!(
        "UPDATE conversations SET data = json_remove(data, $1), version = version + 1
        WHERE {WATCHED} AND json_valid(data) RETURNING id"
    ))
    .bind("$.watched")
    .rows(connection, StatementReuse::OneShot)
    .await?;
    Ok(dropped.len() as u64)
}

/// Writes a conversation as [`save`] does and queues a review of it, or does neither.
pub(super) async fn save_and_queue(
    connection: &mut SqliteConnection,
    (row, review, unfinished_max): (&ConversationRow, &NewTask, usize),
) -> Result<bool, Fault> {
    let script = Batch::new(
        "BEGIN IMMEDIATE;
        INSERT INTO tasks
            (id, workspace, kind, client, status, attempts, created_at, updated_at, request)
            SELECT $1, $2, 'review', NULL, 'queued', 0, $3, $3, $4
            WHERE $5 = 1 + coalesce((SELECT version FROM conversations WHERE id = $6), 0)
                AND (SELECT count(*) FROM tasks WHERE workspace = $2
                    AND status IN ('queued', 'running') AND kind = 'review') < $7
            RETURNING seq;",
    )
    .bind(review.id.as_str())
    .bind(review.workspace.as_str())
    .bind(stored_time(review.at))
    .bind(review.request.as_str())
    .bind(stored_count(row.version))
    .bind(row.id.as_str())
    .bind(stored_count(unfinished_max))
    .with(
        "INSERT INTO conversations (id, workspace, version, heard_at, data)
            SELECT $1, $2, $3, $4, $5 WHERE EXISTS (SELECT 1 FROM tasks WHERE id = $6)
            ON CONFLICT (id) DO UPDATE SET workspace = excluded.workspace,
                version = excluded.version, heard_at = excluded.heard_at, data = excluded.data;
        COMMIT;",
    )
    .bind(row.id.as_str())
    .bind(row.workspace.as_str())
    .bind(stored_count(row.version))
    .bind(stored_time(row.last_seen_at))
    .bind(row.data.as_str())
    .bind(review.id.as_str());
    Ok(!script.rows(connection, StatementReuse::Persistent).await?.is_empty())
}

/// Loads the segment of a conversation.
pub(super) async fn segment(
    connection: &mut SqliteConnection,
    conversation: &str,
) -> Result<Option<SegmentRow>, Fault> {
    let rows = Batch::new(
        "SELECT conversation, segment, version, heard_at, data FROM segments
            WHERE conversation = $1",
    )
    .bind(conversation)
    .rows(connection, StatementReuse::Persistent)
    .await?;
    Ok(rows::decode_rows("segments", &rows, rows::segment).pop())
}

/// Writes a segment as [`save`] writes a conversation.
pub(super) async fn save_segment(
    connection: &mut SqliteConnection,
    row: &SegmentRow,
) -> Result<bool, Fault> {
    let script = begin_unsynced(
        "BEGIN IMMEDIATE;
        INSERT INTO segments (conversation, segment, version, heard_at, data)
            SELECT $1, $2, $3, $4, $5
            WHERE $3 = 1 + coalesce((SELECT version FROM segments WHERE conversation = $1), 0)
            ON CONFLICT (conversation) DO UPDATE SET segment = excluded.segment,
                version = excluded.version, heard_at = excluded.heard_at, data = excluded.data
            RETURNING version;
        DELETE FROM segments WHERE $3 = 1 AND conversation IN (
            SELECT conversation FROM segments ORDER BY heard_at DESC LIMIT -1 OFFSET $6);
        COMMIT",
    )
    .bind(row.conversation.as_str())
    .bind(stored_count(row.segment))
    .bind(stored_count(row.version))
    .bind(stored_time(row.updated_at))
    .bind(row.data.as_str())
    .bind(stored_count(SEGMENTS_KEPT_MAX));
    Ok(!run_unsynced(connection, script).await?.is_empty())
}
