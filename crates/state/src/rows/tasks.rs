//! Decodes the rows of tasks, sessions, runs, conversations, proposals and model work.

use memory::change::RootKey;
use memory::proposal::ProposalId;

use crate::proposal::{NewProposal, ProposalRow};
use crate::rows::{ColumnResult, Columns, InvalidValue, StoredRow, decode_rows};
use crate::task::{
    ConversationRow, LastDream, ModelWorkRow, NewTask, RunRow, SegmentRow, SessionRow, Status,
    TaskCount, TaskRow,
};

/// Returns the row of a task that was queued at this position.
pub fn new_task_row(new: NewTask, seq: i64) -> TaskRow {
    let NewTask { id, workspace, kind, client, request, at } = new;
    TaskRow {
        seq,
        id,
        workspace,
        kind,
        client,
        request,
        status: Status::Queued,
        attempts: 0,
        created_at: at,
        updated_at: at,
        outcome: None,
        change: None,
    }
}

/// Decodes a task.
pub fn task(row: Columns<'_>) -> ColumnResult<TaskRow> {
    Ok(TaskRow {
        seq: row.get("seq")?,
        id: row.get("id")?,
        workspace: row.get("workspace")?,
        kind: row.word("kind")?,
        client: row.get("client")?,
        request: row.get("request")?,
        status: row.word("status")?,
        attempts: row.small_count("attempts")?,
        created_at: row.time("created_at")?,
        updated_at: row.time("updated_at")?,
        outcome: row.get("outcome")?,
        change: row.maybe_id("change")?,
    })
}

/// Decodes the number of tasks of a workspace with one status.
pub fn task_count(row: Columns<'_>) -> ColumnResult<TaskCount> {
    Ok(TaskCount {
        workspace: row.get("workspace")?,
        status: row.word("status")?,
        tasks: row.count("tasks")?,
    })
}

/// Decodes the last dream of a workspace. One without a row had neither a dream nor a session.
pub fn last_dream<R: StoredRow>(rows: &[R]) -> LastDream {
    let last = |row: Columns<'_>| {
        Ok(LastDream {
            requested_at: row.maybe_time("asked_at")?,
            sessions: row.count("sessions")?,
        })
    };
    decode_rows("dreams", rows, last).pop().unwrap_or_default()
}

/// Decodes a session.
pub fn session(row: Columns<'_>) -> ColumnResult<SessionRow> {
    Ok(SessionRow {
        id: row.get("id")?,
        workspace: row.get("workspace")?,
        client: row.get("client")?,
        created_at: row.time("created_at")?,
    })
}

/// Decodes a run.
pub fn run(row: Columns<'_>) -> ColumnResult<RunRow> {
    Ok(RunRow {
        task: row.get("task")?,
        attempt: row.small_count("attempt")?,
        runner: row.get("runner")?,
        started_at: row.time("started_at")?,
        ended_at: row.maybe_time("ended_at")?,
        outcome: row.get("outcome")?,
    })
}

/// Decodes a conversation.
pub fn conversation(row: Columns<'_>) -> ColumnResult<ConversationRow> {
    Ok(ConversationRow {
        id: row.get("id")?,
        workspace: row.get("workspace")?,
        version: row.count("version")?,
        last_seen_at: row.time("heard_at")?,
        data: row.get("data")?,
    })
}

/// Decodes a segment.
pub fn segment(row: Columns<'_>) -> ColumnResult<SegmentRow> {
    Ok(SegmentRow {
        conversation: row.get("conversation")?,
        segment: row.count("segment")?,
        version: row.count("version")?,
        updated_at: row.time("heard_at")?,
        data: row.get("data")?,
    })
}

/// Decodes a record of work that a model did.
pub fn model_work(row: Columns<'_>) -> ColumnResult<ModelWorkRow> {
    Ok(ModelWorkRow {
        number: row.count("number")?,
        workspace: row.get("workspace")?,
        ended_at: row.time("ended_at")?,
        background: row.flag("background")?,
        tokens: row.count("tokens")?,
        data: row.get("data")?,
    })
}

/// Returns the stored form of roots: a JSON array of pairs of identity and place.
pub fn stored_roots(roots: &[RootKey]) -> String {
    let pairs: Vec<_> = roots.iter().map(|root| [&root.identity, &root.place]).collect();
    serde_json::json!(pairs).to_string()
}

fn roots(stored: &str) -> ColumnResult<Vec<RootKey>> {
    let pairs: Vec<(String, String)> = serde_json::from_str(stored).map_err(|_| InvalidValue)?;
    Ok(pairs.into_iter().map(|(identity, place)| RootKey { identity, place }).collect())
}

/// Decodes a proposal.
pub fn proposal(row: Columns<'_>) -> ColumnResult<ProposalRow> {
    let new = NewProposal {
        made_at: row.time("made_at")?,
        origin: row.get("origin")?,
        task: row.get("task")?,
        digest: row.maybe_revision("digest")?.ok_or(InvalidValue)?,
        trust: row.word("trust")?,
        roots: roots(row.get("roots")?)?,
        proposal: row.get("proposal")?,
    };
    Ok(ProposalRow {
        id: ProposalId(row.get("id")?),
        new,
        status: row.word("status")?,
        decided_at: row.maybe_time("decided_at")?,
        change: row.maybe_id("change_id")?,
    })
}
