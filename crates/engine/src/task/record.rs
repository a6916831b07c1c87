//! Tasks as stored in the state: rows whose request and outcome are JSON texts private to this
//! file.
//!
//! A row may be written by another version of this program. A row that cannot be decoded is an
//! error, which the lane turns into a failed task. Unknown fields are ignored.

use std::collections::{BTreeMap, BTreeSet};

use agents::{
    ContextMode, EntryCandidate, EntryOutcome, ForgetRequest, ForgottenEntry, MemoryTopic,
    RememberError, RememberRequest, ReviewMessage, ReviewRequest,
};
use memory::change::Trust;
use memory::path::{Layout, MemoryPath, Mount, Scope};
use serde::{Deserialize, Serialize};
use state::{NewProposal, TaskRow};

use super::redaction::without_secrets;
use super::{
    CuratorRequest, Requester, Status, Task, TaskDetails, TaskError, TaskErrorCode, TaskKind,
    TaskProposals, TaskResult, TaskState,
};
use crate::proposal_queue::StoredProposal;

/// An error for a row that cannot be decoded.
#[derive(Debug, thiserror::Error)]
#[error("the record of the task `{id}` cannot be decoded: {what}")]
pub(crate) struct UnreadableTask {
    id: String,
    what: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    query: Option<String>,
    #[serde(default)]
    clean: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// The rule that forbids storing the content, which is then empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    screened: Option<String>,
    trust: String,
    origin: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    review: Option<ReviewRecord>,
}

#[derive(Serialize, Deserialize)]
struct ReviewRecord {
    session: String,
    turns: (u64, u64),
    moment: String,
    /// Role and text of each message.
    messages: Vec<(String, String)>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OutcomeRecord {
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorRecord>,
    summary: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    removed: Vec<RemovedRecord>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    topics: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mounts: Vec<String>,
    deduped: usize,
    /// Number of stored proposals.
    #[serde(skip_serializing_if = "is_zero")]
    proposals: usize,
    /// Proposals to be stored when the task has ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unstored: Vec<StoredProposal>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<NoteRecord>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    candidates: Vec<CandidateRecord>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    skipped: BTreeMap<String, u32>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

#[derive(Serialize, Deserialize)]
struct NoteRecord {
    path: String,
    action: String,
    summary: String,
}

#[derive(Serialize, Deserialize)]
struct CandidateRecord {
    path: String,
    entry: String,
    summary: String,
}

#[derive(Serialize, Deserialize)]
struct RemovedRecord {
    topic: String,
    summary: String,
    path: String,
}

#[derive(Serialize, Deserialize)]
struct ErrorRecord {
    code: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    details: Option<String>,
}

/// Encodes a request with its requester, and its refusal if it will fail.
pub(crate) fn request_text(
    request: &CuratorRequest,
    requester: &Requester,
    refusal: Option<&RememberError>,
) -> String {
    let mut record = RequestRecord {
        content: None,
        query: None,
        clean: false,
        scope: None,
        file: None,
        screened: refusal.and_then(|refusal| match refusal {
            RememberError::Screened { rule, .. } => Some((*rule).to_owned()),
            RememberError::ScopeMismatch | RememberError::NoProject => None,
        }),
        trust: requester.trust.as_ref().to_owned(),
        origin: requester.origin.clone(),
        review: None,
    };
    match request {
        CuratorRequest::Remember(RememberRequest { content, context_mode, scope }) => {
            record.content = Some(content.clone());
            record.clean = *context_mode == ContextMode::Clean;
            record.scope = scope.map(|scope| scope.as_ref().to_owned());
        }
        CuratorRequest::Forget(ForgetRequest { query, scope, file }) => {
            record.query = Some(query.clone());
            record.file = file.as_ref().map(ToString::to_string);
            record.scope = scope.map(|scope| scope.as_ref().to_owned());
        }
        CuratorRequest::Dream => {}
        CuratorRequest::Review(review) => record.review = Some(review_record(review)),
    }
    to_json(&record)
}

fn review_record(review: &ReviewRequest) -> ReviewRecord {
    let message =
        |message: &ReviewMessage| (message.role.as_ref().to_owned(), message.text.clone());
    ReviewRecord {
        session: review.session.clone(),
        turns: review.turns,
        moment: review.trigger.as_ref().to_owned(),
        messages: review.messages.iter().map(message).collect(),
    }
}

/// Encodes a request for keeping it after its task has ended: without its text, which is no longer
/// needed and may be what the user wants forgotten.
pub(crate) fn redacted_request_text(request: &str) -> String {
    match serde_json::from_str(request) {
        Ok(mut record @ RequestRecord { .. }) => {
            for text in [&mut record.content, &mut record.query] {
                text.iter_mut().for_each(String::clear);
            }
            if let Some(review) = &mut record.review {
                review.messages.clear();
            }
            to_json(&record)
        }
        Err(_not_ours) => "{}".to_owned(),
    }
}

/// Encodes the outcome of a task.
pub(crate) fn outcome_text(outcome: Result<&TaskResult, &TaskError>) -> String {
    to_json(&match outcome {
        Ok(result) => result_record(result),
        Err(error) => {
            let code = error.code.as_str().to_owned();
            let cause = error.cause.map(|cause| cause.as_ref().to_owned());
            let details = error.details().map(str::to_owned);
            let error = Some(ErrorRecord { code, cause, details });
            OutcomeRecord { error, ..OutcomeRecord::default() }
        }
    })
}

/// Encodes the outcome that a task will have once its draft is committed, with the proposals to
/// store then.
pub(crate) fn prepared_text(result: &TaskResult, unstored: &[NewProposal]) -> String {
    let unstored = unstored.iter().map(StoredProposal::from_new).collect();
    to_json(&OutcomeRecord { unstored, ..result_record(result) })
}

/// Decodes the unstored proposals in the prepared outcome of a task.
pub(crate) fn unstored_proposals(row: &TaskRow, task: &Task) -> Vec<NewProposal> {
    let Some(text) = row.outcome.as_deref() else { return Vec::new() };
    let record = serde_json::from_str(text).inspect_err(|error| {
        tracing::error!(task = %row.id, %error, "error while decoding the proposals of a task");
    });
    let OutcomeRecord { unstored, .. } = record.unwrap_or_default();
    unstored.into_iter().filter_map(|stored| stored.into_new(task)).collect()
}

fn result_record(result: &TaskResult) -> OutcomeRecord {
    let words =
        |topics: &BTreeSet<MemoryTopic>| topics.iter().map(|t| t.as_ref().to_owned()).collect();
    let paths = |files: &[MemoryPath]| files.iter().map(ToString::to_string).collect();
    let TaskResult { summary, scopes, changes, proposals, details } = result;
    let record = OutcomeRecord {
        summary: without_secrets(summary).into_owned(),
        mounts: scopes.iter().map(|mount| mount.word().to_owned()).collect(),
        proposals: proposals.count(),
        changes: changes.iter().map(note_record).collect(),
        ..OutcomeRecord::default()
    };
    match details {
        TaskDetails::Remember { files_touched } => {
            OutcomeRecord { files: paths(files_touched), ..record }
        }
        TaskDetails::Forget { removed, topics, candidates } => OutcomeRecord {
            topics: words(topics),
            removed: removed.iter().map(removed_record).collect(),
            candidates: candidates.iter().map(candidate_record).collect(),
            ..record
        },
        TaskDetails::Dream { topics, deduped } => {
            OutcomeRecord { topics: words(topics), deduped: *deduped, ..record }
        }
        TaskDetails::Review { files_touched, skipped } => {
            let skipped = skipped.iter().map(|(why, n)| (why.as_ref().to_owned(), *n)).collect();
            OutcomeRecord { files: paths(files_touched), skipped, ..record }
        }
    }
}

fn note_record(note: &EntryOutcome) -> NoteRecord {
    NoteRecord {
        path: note.path.to_string(),
        action: note.action.as_ref().to_owned(),
        summary: without_secrets(&note.summary).into_owned(),
    }
}

fn candidate_record(candidate: &EntryCandidate) -> CandidateRecord {
    CandidateRecord {
        path: candidate.path.to_string(),
        entry: without_secrets(&candidate.entry).into_owned(),
        summary: without_secrets(&candidate.summary).into_owned(),
    }
}

fn removed_record(removed: &ForgottenEntry) -> RemovedRecord {
    RemovedRecord {
        topic: removed.topic.as_ref().to_owned(),
        // The user may be removing a secret.
        summary: without_secrets(&removed.summary).into_owned(),
        path: removed.path.to_string(),
    }
}

fn to_json(record: &impl Serialize) -> String {
    serde_json::to_string(record).expect("strings, numbers and lists of them have a JSON text")
}

impl Task {
    /// Decodes a row.
    pub(crate) fn from_row(row: &TaskRow) -> Result<Self, UnreadableTask> {
        let unreadable = |what: String| UnreadableTask { id: row.id.clone(), what };
        let record: RequestRecord = serde_json::from_str(&row.request)
            .map_err(|error| unreadable(json_position(&error)))?;
        let refusal =
            record.screened.as_deref().map(decode_rule).transpose().map_err(unreadable)?;
        let client = row.client.as_deref().map(str::parse).transpose();
        let requester = Requester {
            client: client.map_err(|error| unreadable(format!("{error}")))?,
            trust: record.trust.parse().unwrap_or(Trust::Background),
            origin: record.origin.clone(),
        };
        let state = match row.status {
            Status::Queued => TaskState::Queued,
            Status::Running => TaskState::Running,
            Status::Completed | Status::Failed => decode_end(row).map_err(unreadable)?,
        };
        Ok(Self {
            id: row.id.parse().map_err(|error| unreadable(format!("{error}")))?,
            workspace: row.workspace.clone(),
            requester,
            request: decode_request(row.kind, record).map_err(unreadable)?,
            refusal,
            created_at: row.created_at,
            updated_at: row.updated_at,
            state,
        })
    }
}

fn decode_rule(id: &str) -> Result<RememberError, String> {
    let rule = memory::screen::rules().iter().find(|rule| rule.id == id);
    let rule = rule.ok_or_else(|| format!("unknown rule `{id}`"))?;
    Ok(RememberError::Screened { family: rule.family, rule: rule.id })
}

fn decode_request(kind: TaskKind, record: RequestRecord) -> Result<CuratorRequest, String> {
    let scope = record.scope.as_deref().map(read_scope).transpose()?;
    Ok(match kind {
        TaskKind::Remember => {
            let content = record.content.ok_or("no content")?;
            let context_mode =
                if record.clean { ContextMode::Clean } else { ContextMode::Workspace };
            CuratorRequest::Remember(RememberRequest { content, context_mode, scope })
        }
        TaskKind::Forget => {
            let file = record.file.as_deref().map(read_path).transpose()?;
            CuratorRequest::Forget(ForgetRequest {
                query: record.query.ok_or("no query")?,
                scope,
                file,
            })
        }
        TaskKind::Dream => CuratorRequest::Dream,
        TaskKind::Review => {
            CuratorRequest::Review(decode_review(record.review.ok_or("no review")?)?)
        }
    })
}

fn decode_review(record: ReviewRecord) -> Result<ReviewRequest, String> {
    let messages = record.messages.into_iter().enumerate();
    let message = |(index, (role, text)): (usize, (String, String))| {
        let role = role.parse().map_err(|_| format!("unknown role `{role}`"))?;
        Ok::<_, String>(ReviewMessage { id: format!("m{}", index + 1), role, text })
    };
    let trigger = record.moment.parse().ok();
    Ok(ReviewRequest {
        session: record.session,
        turns: record.turns,
        trigger: trigger.ok_or_else(|| format!("unknown moment `{}`", record.moment))?,
        messages: messages.map(message).collect::<Result<_, _>>()?,
    })
}

fn decode_error(record: &ErrorRecord) -> Result<TaskError, String> {
    let code: Result<TaskErrorCode, _> = record.code.parse();
    let mut failed = TaskError::new(code.map_err(|_| format!("unknown code `{}`", record.code))?);
    // A cause from a later version is dropped.
    failed.cause = record.cause.as_deref().and_then(|code| code.parse().ok());
    Ok(failed.with_details(record.details.as_deref().unwrap_or_default()))
}

/// Decodes the outcome of a finished task.
fn decode_end(row: &TaskRow) -> Result<TaskState, String> {
    let text = row.outcome.as_deref().ok_or("no outcome")?;
    let record: OutcomeRecord =
        serde_json::from_str(text).map_err(|error| json_position(&error))?;
    if let Some(error) = record.error {
        return decode_error(&error).map(TaskState::Failed);
    }
    let scopes = record.mounts.iter().map(|word| read_mount(word)).collect::<Result<_, _>>()?;
    let layout =
        if BTreeSet::contains(&scopes, &Mount::Flat) { Layout::Flat } else { Layout::Scoped };
    let path = |text: &str| MemoryPath::parse(text, layout).map_err(|error| error.to_string());
    // An entry with an action from a later version is dropped.
    let note = |record: NoteRecord| {
        let action = record.action.parse().ok()?;
        Some(EntryOutcome { path: path(&record.path).ok()?, action, summary: record.summary })
    };
    let changes = record.changes.into_iter().filter_map(note).collect();
    let topics = record.topics.iter().map(|word| read_topic(word)).collect::<Result<_, _>>()?;
    let files_touched = record.files.iter().map(|text| path(text)).collect::<Result<_, _>>()?;
    let details = match row.kind {
        TaskKind::Remember => TaskDetails::Remember { files_touched },
        TaskKind::Review => {
            // A reason from a later version is dropped.
            let known = |(why, count): (String, u32)| Some((why.parse().ok()?, count));
            let skipped = record.skipped.into_iter().filter_map(known).collect();
            TaskDetails::Review { files_touched, skipped }
        }
        TaskKind::Forget => {
            let removed =
                record.removed.into_iter().map(|RemovedRecord { topic, summary, path: at }| {
                    Ok::<_, String>(ForgottenEntry {
                        topic: read_topic(&topic)?,
                        summary,
                        path: path(&at)?,
                    })
                });
            let candidates = record.candidates.into_iter().map(
                |CandidateRecord { path: at, entry, summary }| {
                    Ok::<_, String>(EntryCandidate { path: path(&at)?, entry, summary })
                },
            );
            TaskDetails::Forget {
                removed: removed.collect::<Result<_, _>>()?,
                topics,
                candidates: candidates.collect::<Result<_, _>>()?,
            }
        }
        TaskKind::Dream => TaskDetails::Dream { topics, deduped: record.deduped },
    };
    let (summary, proposals) = (record.summary, TaskProposals::Stored(record.proposals));
    Ok(TaskState::Completed(TaskResult { summary, scopes, changes, proposals, details }))
}

/// Describes the position of a JSON error without quoting the text, which may be private.
fn json_position(error: &serde_json::Error) -> String {
    format!("invalid record at line {}, column {}", error.line(), error.column())
}

fn read_path(text: &str) -> Result<MemoryPath, String> {
    let scoped = MemoryPath::parse(text, Layout::Scoped);
    scoped.or_else(|_| MemoryPath::parse(text, Layout::Flat)).map_err(|error| error.to_string())
}

fn read_scope(word: &str) -> Result<Scope, String> {
    word.parse().map_err(|_| format!("unknown scope `{word}`"))
}

fn read_topic(word: &str) -> Result<MemoryTopic, String> {
    word.parse().map_err(|_| format!("unknown topic `{word}`"))
}

fn read_mount(word: &str) -> Result<Mount, String> {
    Mount::from_word(word).ok_or_else(|| format!("unknown scope `{word}`"))
}
