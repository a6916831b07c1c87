//! Tasks: requests of clients (remember, forget, dream), their status and their results.
//!
//! A request body is parsed field by field in a fixed order: the first invalid field decides the error code. This
//! module only checks the form of fields; the engine gives them their meaning.

use std::str::FromStr;

use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::error::ErrorCode;

/// The longest text of a task, in bytes of UTF-8: several pages, far more than a fact needs.
pub const TASK_TEXT_BYTES_MAX: usize = 65_536;

/// The kind of a requested task.
#[derive(strum::AsRefStr, strum::Display, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// Remembers a text.
    Remember,
    /// Removes entries.
    Forget,
    /// Tidies memories.
    Dream,
}

/// The kind of work in a lane: a requested task, or a review, which clients cannot request.
#[derive(strum::AsRefStr, strum::Display, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum WorkKind {
    /// Remembers a text.
    Remember,
    /// Removes entries.
    Forget,
    /// Tidies memories.
    Dream,
    /// Searches a conversation for facts to save.
    Review,
}

/// The status of a task.
#[derive(strum::AsRefStr, strum::Display, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// The task waits for earlier ones.
    Queued,
    /// The task is running.
    Running,
    /// The task is done; `result` has the outcome.
    Completed,
    /// The task failed; `error` has the reason.
    Failed,
}

/// The memories that a remember task may read.
#[derive(strum::AsRefStr, strum::Display, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ContextMode {
    /// All memories of the workspace.
    Workspace,
    /// No memories: every fact counts as new.
    Clean,
}

/// A scope as the task API names it.
#[derive(strum::AsRefStr, strum::Display, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TargetScope {
    /// The memories of the project.
    Project,
    /// The memories of the person, in all projects.
    User,
}

/// The topic of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::VariantArray)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Topic {
    /// Facts about the person.
    User,
    /// Instructions for the work of agents.
    Feedback,
    /// Facts about the project.
    Project,
    /// Pointers to information elsewhere.
    Reference,
}

/// A request to remember a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RememberRequest {
    /// The text, in free form; at most 65,536 bytes.
    pub content: String,
    /// The memories that the task may read; `workspace` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_mode: Option<ContextMode>,
    /// The scope to write to; by default, the content of the text decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<TargetScope>,
}

impl RememberRequest {
    /// Parses a request body. Returns the error of the first invalid field.
    pub fn read(fields: &Map<String, Value>) -> Result<Self, ErrorCode> {
        Ok(Self {
            content: text(fields.get("content")).ok_or(ErrorCode::InvalidContent)?,
            context_mode: match fields.get("contextMode") {
                None | Some(Value::Null) => None,
                Some(mode) => Some(word(mode).ok_or(ErrorCode::InvalidContextMode)?),
            },
            scope: scope(fields.get("scope"))?,
        })
    }
}

/// A request to forget entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ForgetRequest {
    /// The request, in a person's words; at most 65,536 bytes.
    pub query: String,
    /// The scope to search; all scopes by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<TargetScope>,
    /// The only memory to search. With the text of a candidate as the query, exactly that entry is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_path: Option<String>,
}

impl ForgetRequest {
    /// Parses a request body. Returns the error of the first invalid field.
    pub fn read(fields: &Map<String, Value>) -> Result<Self, ErrorCode> {
        Ok(Self {
            query: text(fields.get("query")).ok_or(ErrorCode::InvalidQuery)?,
            scope: scope(fields.get("scope"))?,
            file_path: match fields.get("filePath") {
                None | Some(Value::Null) => None,
                Some(path) => Some(path.as_str().ok_or(ErrorCode::InvalidPath)?.to_owned()),
            },
        })
    }
}

fn text(field: Option<&Value>) -> Option<String> {
    let text = field?.as_str()?;
    let fits = text.len() <= TASK_TEXT_BYTES_MAX && !text.trim().is_empty();
    fits.then(|| text.to_owned())
}

fn scope(field: Option<&Value>) -> Result<Option<TargetScope>, ErrorCode> {
    field.map(|scope| word(scope).ok_or(ErrorCode::InvalidScope)).transpose()
}

/// Parses one of a closed set of words.
pub(crate) fn word<T: FromStr>(field: &Value) -> Option<T> {
    field.as_str()?.parse().ok()
}

/// A task with its status and outcome.
///
/// In JSON, `result` and `error` are null until the task ends; then only the one that applies is present.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// The task's id: its kind, `-` and a UUID.
    pub task_id: String,
    /// The status.
    pub status: TaskStatus,
    /// The memories that a remember task may read; absent for other kinds.
    pub context_mode: Option<ContextMode>,
    /// The requested scope.
    pub scope: Option<TargetScope>,
    /// The time of the request: ISO 8601, UTC, milliseconds.
    pub created_at: String,
    /// The time of the last change of the status.
    pub updated_at: String,
    /// The result, once the task is completed; null before.
    pub result: Option<TaskResult>,
    /// The error, once the task has failed; null before.
    pub error: Option<TaskError>,
}

impl Task {
    /// Checks whether the task is completed or has failed.
    pub const fn has_ended(&self) -> bool {
        matches!(self.status, TaskStatus::Completed | TaskStatus::Failed)
    }
}

impl Serialize for Task {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(None)?;
        fields.serialize_entry("taskId", &self.task_id)?;
        fields.serialize_entry("status", &self.status)?;
        if let Some(mode) = &self.context_mode {
            fields.serialize_entry("contextMode", mode)?;
        }
        if let Some(scope) = &self.scope {
            fields.serialize_entry("scope", scope)?;
        }
        fields.serialize_entry("createdAt", &self.created_at)?;
        fields.serialize_entry("updatedAt", &self.updated_at)?;
        if self.result.is_some() || !self.has_ended() {
            fields.serialize_entry("result", &self.result)?;
        }
        if self.error.is_some() || !self.has_ended() {
            fields.serialize_entry("error", &self.error)?;
        }
        fields.end()
    }
}

/// The result of a task; its fields determine the kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum TaskResult {
    // The order matters: serde takes the first variant that fits, and a review has all fields of a remember.
    /// The result of a review.
    Review(ReviewResult),
    /// The result of a remember task.
    Remember(RememberResult),
    /// The result of a forget task.
    Forget(ForgetResult),
    /// The result of a dream.
    Dream(DreamResult),
}

/// The result of a remember task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RememberResult {
    /// One sentence that quotes nothing of the text.
    pub summary: String,
    /// The memories that changed; empty if all facts were known already.
    pub files_touched: Vec<String>,
    /// The scopes of the changed memories.
    pub touched_scopes: Vec<TargetScope>,
    /// The number of new proposals that the task made.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub proposals: u64,
    /// The entries that changed or were known already.
    #[serde(default)]
    pub changes: Vec<EntryNote>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The outcome for one entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct EntryNote {
    /// The memory that holds the entry.
    pub file_path: String,
    /// `added`, `updated`, `removed`, `merged`, `dated` or `known`; a later version may have others.
    pub action: String,
    /// The first words of the entry, without secrets.
    pub summary: String,
}

/// An entry that a request to forget may mean.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ForgetCandidate {
    /// The memory that holds the entry.
    pub file_path: String,
    /// The whole entry, without the bullet and without secrets. A request with this text as the query and with this
    /// `filePath` removes exactly this entry.
    pub entry: String,
    /// The first line of the entry, without secrets.
    pub summary: String,
}

/// The result of a forget task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ForgetResult {
    /// One sentence about the outcome.
    pub summary: String,
    /// The entries that were removed.
    pub removed_entries: Vec<RemovedEntry>,
    /// The topics of the memories that changed.
    pub touched_topics: Vec<Topic>,
    /// The scopes of the changed memories.
    pub touched_scopes: Vec<TargetScope>,
    /// The number of new proposals that the task made.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub proposals: u64,
    /// The entries that changed.
    #[serde(default)]
    pub changes: Vec<EntryNote>,
    /// If nothing was removed: at most five entries that the query may mean, most likely first.
    #[serde(default)]
    pub candidates: Vec<ForgetCandidate>,
}

/// An entry that was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RemovedEntry {
    /// The topic of the memory.
    pub topic: Topic,
    /// The first line of the entry.
    pub summary: String,
    /// The memory that held the entry.
    pub file_path: String,
}

/// The result of a dream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DreamResult {
    /// One sentence about the outcome.
    pub summary: String,
    /// The topics of the memories that changed.
    pub touched_topics: Vec<Topic>,
    /// The scopes of the changed memories.
    pub touched_scopes: Vec<TargetScope>,
    /// The number of entries that were merged into another with the same meaning.
    pub deduped_entries: u64,
    /// The number of new proposals that the task made.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub proposals: u64,
    /// The entries that changed.
    #[serde(default)]
    pub changes: Vec<EntryNote>,
}

/// The result of a review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReviewResult {
    /// One sentence about the outcome.
    pub summary: String,
    /// The paths of the memories that changed.
    pub files_touched: Vec<String>,
    /// The scopes of the changed memories.
    pub touched_scopes: Vec<TargetScope>,
    /// The number of new proposals that the task made.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub proposals: u64,
    /// The entries that changed.
    #[serde(default)]
    pub changes: Vec<EntryNote>,
    /// The number of facts that were not saved, by reason: `known`, `screened`, `limit`, `instructions`, `form`,
    /// `place`; a later version may have others.
    pub left_out: std::collections::BTreeMap<String, u32>,
}

/// The error of a failed task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TaskError {
    /// The error code, from a closed list.
    pub code: String,
    /// The meaning of the code.
    pub message: String,
    /// The error code of the memory operation that caused the failure, such as `scope_full`, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Short details, without credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
}

/// A task in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ListedTask {
    /// The kind of work.
    pub kind: WorkKind,
    /// The id of the task's workspace.
    pub workspace_id: String,
    /// The task.
    #[serde(flatten)]
    pub task: Task,
}

/// Tasks, latest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TaskList {
    /// The tasks that the caller may see.
    pub tasks: Vec<ListedTask>,
}

#[cfg(test)]
mod tests;
