//! Tasks: what a client asks for, and how far it is.
//!
//! A body is read field by field in a fixed order, so that the first thing that is wrong with it is
//! the one that is told. What a field means is not decided here.

use std::str::FromStr;

use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::error::ErrorCode;

/// The longest text of a task, in bytes of UTF-8: a few pages, far more than a fact needs.
pub const TASK_TEXT_BYTES_MAX: usize = 65_536;

/// What kind of work a task is.
#[derive(strum::AsRefStr, strum::Display, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskKind {
    /// A text is taken in.
    Remember,
    /// Entries are removed.
    Forget,
    /// Memories are tidied up.
    Dream,
}

/// What kind of work a lane does: the kinds of task, and reviews, which nobody asks for.
#[derive(strum::AsRefStr, strum::Display, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum WorkKind {
    /// A text is taken in.
    Remember,
    /// Entries are removed.
    Forget,
    /// Memories are tidied up.
    Dream,
    /// A conversation is looked through for what is worth keeping.
    Review,
}

/// How far a task is.
#[derive(strum::AsRefStr, strum::Display, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// It waits for those before it.
    Queued,
    /// It is being done.
    Running,
    /// It is done; `result` says what came of it.
    Completed,
    /// It was given up; `error` says why.
    Failed,
}

/// What may be known of earlier memories while a text is remembered.
#[derive(strum::AsRefStr, strum::Display, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ContextMode {
    /// All memories of the workspace.
    Workspace,
    /// None of them: everything is written afresh.
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

/// What kind of knowledge a memory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::VariantArray)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Topic {
    /// Who the person is.
    User,
    /// How an agent is to work.
    Feedback,
    /// Facts of the work.
    Project,
    /// Where something is to be found.
    Reference,
}

/// What is to be remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RememberRequest {
    /// The text, as somebody said it; at most 65,536 bytes.
    pub content: String,
    /// What may be known while deciding; `workspace` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_mode: Option<ContextMode>,
    /// Where it must go; left out, it is decided by what the text is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<TargetScope>,
}

impl RememberRequest {
    /// Reads a body.
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

/// What is to be forgotten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ForgetRequest {
    /// The request, in a person's words; at most 65,536 bytes.
    pub query: String,
    /// Where to look; left out, everywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<TargetScope>,
    /// The only memory to look in: with the text of a candidate as the query, that entry is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_path: Option<String>,
}

impl ForgetRequest {
    /// Reads a body.
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

/// Reads one of a closed set of words.
pub(crate) fn word<T: FromStr>(field: &Value) -> Option<T> {
    field.as_str()?.parse().ok()
}

/// A task.
///
/// On the wire, `result` and `error` are null until the task ends; then the one that applies is there.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Its id: its kind, `-` and a UUID.
    pub task_id: String,
    /// How far it is.
    pub status: TaskStatus,
    /// What a remember may know; other kinds have none.
    pub context_mode: Option<ContextMode>,
    /// The scope that was asked for.
    pub scope: Option<TargetScope>,
    /// When it was asked for: ISO 8601, UTC, milliseconds.
    pub created_at: String,
    /// When its status last moved.
    pub updated_at: String,
    /// What came of it, once it is completed; null before.
    pub result: Option<TaskResult>,
    /// Why it was given up, once it has failed; null before.
    pub error: Option<TaskError>,
}

impl Task {
    /// Tells whether the task is completed or has failed.
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

/// What came of a task; its fields tell the kinds apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum TaskResult {
    // The one with a field that no other has comes before those whose fields it has, too.
    /// Of a review.
    Review(ReviewResult),
    /// Of a remember.
    Remember(RememberResult),
    /// Of a forget.
    Forget(ForgetResult),
    /// Of a dream.
    Dream(DreamResult),
}

/// What came of a remember.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RememberResult {
    /// One sentence, without a word of what was remembered.
    pub summary: String,
    /// The memories that changed; none if all of it was known.
    pub files_touched: Vec<String>,
    /// Where they lie.
    pub touched_scopes: Vec<TargetScope>,
    /// How many changes it proposes to a person, beside those that waited already.
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

/// What became of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct EntryNote {
    /// Its memory.
    pub file_path: String,
    /// `added`, `updated`, `removed`, `merged`, `dated` or `known`; a later version may have others.
    pub action: String,
    /// Its first words, without secrets.
    pub summary: String,
}

/// An entry that a request to forget may mean.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ForgetCandidate {
    /// Its memory.
    pub file_path: String,
    /// All of it, without the bullet and without secrets: with it as the query, and this `filePath`, the entry is meant.
    pub entry: String,
    /// Its first line, without secrets.
    pub summary: String,
}

/// What came of a forget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ForgetResult {
    /// One sentence.
    pub summary: String,
    /// The entries that are gone.
    pub removed_entries: Vec<RemovedEntry>,
    /// The topics of the memories that changed.
    pub touched_topics: Vec<Topic>,
    /// Where they lie.
    pub touched_scopes: Vec<TargetScope>,
    /// How many changes it proposes to a person, beside those that waited already.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub proposals: u64,
    /// The entries that changed.
    #[serde(default)]
    pub changes: Vec<EntryNote>,
    /// If nothing was removed: the entries that may be meant, the likeliest first; at most five.
    #[serde(default)]
    pub candidates: Vec<ForgetCandidate>,
}

/// An entry that was forgotten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RemovedEntry {
    /// The topic of its memory.
    pub topic: Topic,
    /// Its first line.
    pub summary: String,
    /// Its memory.
    pub file_path: String,
}

/// What came of a dream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DreamResult {
    /// One sentence.
    pub summary: String,
    /// The topics of the memories that changed.
    pub touched_topics: Vec<Topic>,
    /// Where they lie.
    pub touched_scopes: Vec<TargetScope>,
    /// How many entries were merged into another that says the same.
    pub deduped_entries: u64,
    /// How many changes it proposes to a person, beside those that waited already.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub proposals: u64,
    /// The entries that changed.
    #[serde(default)]
    pub changes: Vec<EntryNote>,
}

/// What came of a review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReviewResult {
    /// One sentence.
    pub summary: String,
    /// The memories that changed.
    pub files_touched: Vec<String>,
    /// Where they lie.
    pub touched_scopes: Vec<TargetScope>,
    /// How many changes it proposes to a person, beside those that waited already.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub proposals: u64,
    /// The entries that changed.
    #[serde(default)]
    pub changes: Vec<EntryNote>,
    /// The number of findings that were not taken, by the reason: `known`, `screened`, `limit`, `instructions`, `form`,
    /// `place`; a later version may have others.
    pub left_out: std::collections::BTreeMap<String, u32>,
}

/// Why a task was given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TaskError {
    /// The code, of a closed list.
    pub code: String,
    /// What the code means.
    pub message: String,
    /// The code of what went wrong with the memories, such as `scope_full`, if that is why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// More, cleaned of credentials and not long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
}

/// A task of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ListedTask {
    /// What kind of work it is.
    pub kind: WorkKind,
    /// The workspace whose memories it is about.
    pub workspace_id: String,
    /// The task.
    #[serde(flatten)]
    pub task: Task,
}

/// Tasks, the latest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TaskList {
    /// Those that the caller may see.
    pub tasks: Vec<ListedTask>,
}

#[cfg(test)]
mod tests;
