//! History over `/v1`: what was done, to which memories, by whom, and how to take it back.

use serde::{Deserialize, Serialize};

use crate::memories::Warning;

/// One step of history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// Its number.
    pub id: i64,
    /// When: ISO 8601, UTC, milliseconds.
    pub at: String,
    /// What was done: `create`, `edit`, `save`, `delete`, `rename`, `draft`, `import`, `undo`, `outside`.
    pub kind: String,
    /// Who did it: `person`, `agent`, `task`, `review`, `dream`, `outside`.
    pub actor: String,
    /// How far its text may be trusted.
    pub trust: String,
    /// By which way it came in.
    pub origin: String,
    /// The program that called, as it named itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The host's session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The task that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The model's tool call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<String>,
    /// The model that asked for it, if one did and said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What it goes back to, for people: a background review names the turns that it read, and what was said in them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The change that it takes back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undoes: Option<i64>,
    /// What became of each memory that lies here.
    pub files: Vec<ChangedFile>,
}

/// What a change did to one memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChangedFile {
    /// The memory.
    pub path: String,
    /// Where it went, if it was renamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<String>,
    /// Its revision before; none when it was not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Its revision after; none when it is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// Changes, the newest first, one page of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChangePage {
    /// The changes.
    pub changes: Vec<Change>,
    /// What `cursor` the next page has; none on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A change with what it did, line by line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ChangeWithDiffs {
    /// The change.
    #[serde(flatten)]
    pub change: Change,
    /// A difference for each memory.
    pub diffs: Vec<Diff>,
}

/// What a change did to the text of one memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Diff {
    /// The memory.
    pub path: String,
    /// The difference, as a unified diff; empty when history has not kept both texts.
    pub diff: String,
    /// Whether history has kept both texts.
    pub kept: bool,
}

/// What to take back: exactly one of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct UndoSeveral {
    /// These changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<i64>>,
    /// All changes of this task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// All changes of this session of a host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// All changes from this time on that were made through Lukasa: ISO 8601, UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// With `since`: those until this time alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

/// What an undo did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct UndoResponse {
    /// The change that takes it back; none when it was only asked what would happen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<i64>,
    /// What was taken back.
    pub undone: Vec<i64>,
    /// The memories that changed.
    pub paths: Vec<String>,
    /// What screening warned of.
    pub warnings: Vec<Warning>,
}
