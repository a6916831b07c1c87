//! History over `/v1`: recorded changes, their provenance and diffs, and undo.
//!
//! An undo is a new change that restores the earlier texts; changes themselves are never altered.

use serde::{Deserialize, Serialize};

use crate::memories::Warning;

/// One recorded change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Change {
    /// The change's number.
    pub id: i64,
    /// The time of the change: ISO 8601, UTC, milliseconds.
    pub at: String,
    /// The kind of change: `create`, `edit`, `save`, `delete`, `rename`, `draft`, `import`, `undo`, `outside`.
    pub kind: String,
    /// The actor: `person`, `agent`, `task`, `review`, `dream`, `outside`.
    pub actor: String,
    /// The trust of the new text: `person`, `agent`, `background`, `imported`, `outside`.
    pub trust: String,
    /// The door through which the change was made.
    pub origin: String,
    /// The name of the calling program, as it sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The session of the host in which the change was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The task that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The id of the tool call that made the change, as the host or client sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<String>,
    /// The model that requested the change, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The origin of the change, for people: a background review names the turns that it read, with excerpts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The change that this one undoes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undoes: Option<i64>,
    /// The changed memories of this workspace.
    pub files: Vec<ChangedFile>,
}

/// The effect of a change on one memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChangedFile {
    /// The path of the memory before the change, or of the new memory.
    pub path: String,
    /// The new path, if the memory was renamed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<String>,
    /// The revision before; none if the memory did not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The revision after; none if the memory was deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// One page of changes, newest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChangePage {
    /// The changes.
    pub changes: Vec<Change>,
    /// The `cursor` of the next page; none on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A change with its diffs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ChangeWithDiffs {
    /// The change.
    #[serde(flatten)]
    pub change: Change,
    /// One diff for each memory.
    pub diffs: Vec<Diff>,
}

/// The effect of a change on the text of one memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Diff {
    /// The path of the memory.
    pub path: String,
    /// A unified diff; empty if history does not hold both texts.
    pub diff: String,
    /// Whether history holds both texts.
    pub kept: bool,
}

/// The changes to undo: exactly one of `changes`, `task`, `session` and `since` is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct UndoSeveral {
    /// The numbers of the changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<i64>>,
    /// All changes of this task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// All changes of this session of a host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// All changes since this time that were made through Lukasa: ISO 8601, UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// With `since`: only changes until this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

/// The result of an undo.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct UndoResponse {
    /// The change that the undo made; none for a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<i64>,
    /// The changes that were undone.
    pub undone: Vec<i64>,
    /// The paths of the memories that changed.
    pub paths: Vec<String>,
    /// Warnings of screening.
    pub warnings: Vec<Warning>,
}
