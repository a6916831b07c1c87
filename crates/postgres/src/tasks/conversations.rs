//! Rows of conversations and of their segments. A row is written only over the version that the writer has read.

use memory::limits::{CONVERSATIONS_KEPT_MAX, SEGMENTS_KEPT_MAX};
use sqlx::{AssertSqlSafe, PgConnection};
use state::rows::{Columns, conversation, decode_rows, segment, single, stored_count, stored_time};
use state::{ConversationRow, NewTask, SegmentRow};

use crate::call_error::CallError;
use crate::history::lock_owner;
use crate::row::{rows, run, storable};
use crate::tasks::queue;

/// Conversations that are changed in one transaction.
const CONVERSATIONS_PER_STEP: i64 = 64;

/// Loads one conversation.
pub(crate) async fn get(
    connection: &mut PgConnection,
    owner: i64,
    id: &str,
) -> Result<Option<ConversationRow>, CallError> {
    let query = sqlx::query(
        "SELECT id, workspace, version, heard_at, data FROM conversations WHERE owner = $1 AND id = $2",
    );
    let found = rows(connection, query.bind(owner).bind(storable(id))).await?;
    Ok(decode_rows("conversations", &found, conversation).pop())
}

/// Writes a conversation if its version follows the stored one; the first is 1. Drops the least recently active ones
/// beyond the limit when one is added. Returns whether it was written.
pub(crate) async fn save(
    connection: &mut PgConnection,
    owner: i64,
    row: &ConversationRow,
) -> Result<bool, CallError> {
    if !write(connection, owner, row).await? {
        return Ok(false);
    }
    if row.version == 1 {
        drop_oldest(connection, owner, ("conversations", "id", CONVERSATIONS_KEPT_MAX)).await?;
    }
    Ok(true)
}

/// Drops the least recently active rows of a table with this key, beyond `max`.
async fn drop_oldest(
    connection: &mut PgConnection,
    owner: i64,
    (table, key, max): (&str, &str, usize),
) -> Result<(), CallError> {
    let drop = sqlx::query(AssertSqlSafe(format!(
        "DELETE FROM {table} WHERE owner = $1 AND {key} IN
            (SELECT {key} FROM {table} WHERE owner = $1 ORDER BY heard_at DESC OFFSET $2)"
    )));
    run(connection, drop.bind(owner).bind(stored_count(max))).await?;
    Ok(())
}

async fn write(
    connection: &mut PgConnection,
    owner: i64,
    row: &ConversationRow,
) -> Result<bool, CallError> {
    let write = if row.version == 1 {
        "INSERT INTO conversations (owner, id, workspace, version, heard_at, data)
        VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (owner, id) DO NOTHING"
    } else {
        "UPDATE conversations SET workspace = $3, version = $4, heard_at = $5, data = $6
        WHERE owner = $1 AND id = $2 AND version = $4 - 1"
    };
    let write = sqlx::query(write).bind(owner).bind(storable(&row.id));
    let write = write.bind(storable(&row.workspace)).bind(stored_count(row.version));
    let write = write.bind(stored_time(row.last_seen_at)).bind(storable(&row.data));
    Ok(run(connection, write).await? > 0)
}

/// Some conversations whose texts for a review were dropped.
#[derive(Debug, Default)]
pub(crate) struct DroppedTexts {
    /// The last one that was read; `None` after all.
    pub(crate) last: Option<String>,
    /// Number of those that were changed.
    pub(crate) changed: u64,
}

/// Drops the texts that some conversations after `last` keep for a review.
pub(crate) async fn drop_watched(
    connection: &mut PgConnection,
    owner: i64,
    last: &str,
) -> Result<DroppedTexts, CallError> {
    let find = sqlx::query(
        "SELECT id, data FROM conversations WHERE owner = $1 AND id > $2 AND data LIKE '%\"watched\":%'
        ORDER BY id LIMIT $3 FOR UPDATE",
    );
    let find = find.bind(owner).bind(last).bind(CONVERSATIONS_PER_STEP);
    let mut dropped = DroppedTexts::default();
    for row in &rows(connection, find).await? {
        let id = Columns(row).get::<&str>("id")?;
        dropped.last = Some(id.to_owned());
        let data = serde_json::from_str(Columns(row).get("data")?);
        let Ok(serde_json::Value::Object(mut data)) = data else { continue };
        if data.shift_remove("watched").is_none() {
            continue;
        }
        let change = sqlx::query(
            "UPDATE conversations SET data = $3, version = version + 1 WHERE owner = $1 AND id = $2",
        );
        let data = serde_json::Value::Object(data).to_string();
        dropped.changed += run(connection, change.bind(owner).bind(id).bind(data)).await?;
    }
    Ok(dropped)
}

/// Writes a conversation and queues a review of it, or does neither.
pub(crate) async fn save_and_queue(
    connection: &mut PgConnection,
    owner: i64,
    (row, review, unfinished_max): (&ConversationRow, &NewTask, usize),
) -> Result<bool, CallError> {
    lock_owner(connection, owner).await?;
    let count = sqlx::query(
        "SELECT count(*) AS reviews FROM tasks WHERE owner = $1 AND workspace = $2
        AND status IN ('queued', 'running') AND kind = 'review'",
    );
    let found = rows(connection, count.bind(owner).bind(storable(&review.workspace))).await?;
    let unfinished = single(&found, |row| row.count("reviews"))?;
    if unfinished >= unfinished_max as u64 || !write(connection, owner, row).await? {
        return Ok(false);
    }
    queue::insert(connection, owner, review).await?;
    Ok(true)
}

/// Loads the segment of a conversation.
pub(crate) async fn get_segment(
    connection: &mut PgConnection,
    owner: i64,
    id: &str,
) -> Result<Option<SegmentRow>, CallError> {
    let query = sqlx::query(
        "SELECT conversation, segment, version, heard_at, data FROM segments
        WHERE owner = $1 AND conversation = $2",
    );
    let found = rows(connection, query.bind(owner).bind(storable(id))).await?;
    Ok(decode_rows("segments", &found, segment).pop())
}

/// Writes a segment as [`save`] writes a conversation.
pub(crate) async fn save_segment(
    connection: &mut PgConnection,
    owner: i64,
    row: &SegmentRow,
) -> Result<bool, CallError> {
    let write = if row.version == 1 {
        "INSERT INTO segments (owner, conversation, segment, version, heard_at, data)
        VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (owner, conversation) DO NOTHING"
    } else {
        "UPDATE segments SET segment = $3, version = $4, heard_at = $5, data = $6
        WHERE owner = $1 AND conversation = $2 AND version = $4 - 1"
    };
    let write = sqlx::query(write).bind(owner).bind(storable(&row.conversation));
    let write = write.bind(stored_count(row.segment)).bind(stored_count(row.version));
    let write = write.bind(stored_time(row.updated_at)).bind(storable(&row.data));
    if run(connection, write).await? == 0 {
        return Ok(false);
    }
    if row.version == 1 {
        drop_oldest(connection, owner, ("segments", "conversation", SEGMENTS_KEPT_MAX)).await?;
    }
    Ok(true)
}
