//! Memories over `/v1`: lists, texts, writes, moves, pins, tool calls, search, import, batches and revisions.
//!
//! A write of a text has a precondition in its HTTP headers: the revision that it replaces, or that none exists.

use serde::{Deserialize, Serialize};

/// A memory in a list, without its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct MemoryItem {
    /// The memory's path, `/memories/<scope>/…`.
    pub path: String,
    /// The memory's scope.
    pub scope: String,
    /// The description in the frontmatter; without one, the first heading or line; else empty.
    pub description: String,
    /// Whether `description` is from the frontmatter.
    #[serde(default)]
    pub has_description: bool,
    /// The name in the frontmatter, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The type in the frontmatter, if any.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The size in bytes.
    pub bytes: u64,
    /// The time when the file was last modified: ISO 8601, UTC, milliseconds.
    pub modified_at: String,
    /// The SHA-256 digest of the bytes; none if the file is not text, or too large for a memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Whether the memory is pinned.
    pub pinned: bool,
    /// The number of uses.
    pub uses: u64,
    /// The time of the last use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<String>,
    /// The actor of the last recorded change: `person`, `agent`, `task`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_author: Option<String>,
    /// The trust of the text: `person`, `agent`, `background`, `imported`, or `outside` for text from a repository or
    /// from an external edit.
    #[serde(default)]
    pub trust: String,
    /// The time of the last recorded write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_written_at: Option<String>,
    /// The model that requested the last write, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Findings of screening in the text.
    pub findings: Vec<Warning>,
}

/// One page of memories.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct MemoryPage {
    /// The memories.
    pub memories: Vec<MemoryItem>,
    /// The number of memories on all pages.
    pub total: u64,
    /// The `cursor` of the next page; none on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Scopes without a root in this workspace.
    pub unavailable: Vec<UnavailableScope>,
}

/// A scope without a root in this workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct UnavailableScope {
    /// The scope.
    pub scope: String,
    /// The reason why it has no root.
    pub reason: String,
}

/// The order of a list of memories.
#[derive(strum::AsRefStr, strum::Display, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Sort {
    /// By path.
    Path,
    /// Last modified first.
    Modified,
    /// Most used first.
    Uses,
    /// Largest first.
    Bytes,
}

/// A finding of a screening rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Warning {
    /// The id of the rule.
    pub rule: String,
    /// The line, counted from 1.
    pub line: u64,
}

/// A memory with its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Memory {
    /// The memory's path.
    pub path: String,
    /// The whole text.
    pub text: String,
    /// The SHA-256 digest of the bytes, as in `ETag`.
    pub revision: String,
    /// The time when the file was last modified.
    pub modified_at: String,
    /// The trust of the text, as in a list of memories.
    #[serde(default)]
    pub trust: String,
    /// The time of the last recorded write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_written_at: Option<String>,
    /// The model that requested the last write, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// A new text for a memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PutMemory {
    /// The whole text.
    pub text: String,
}

/// The result of a write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WriteResponse {
    /// The path of the memory.
    pub path: String,
    /// The new revision; none if the memory was deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The recorded change; none if nothing had to be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<i64>,
    /// Warnings of screening.
    pub warnings: Vec<Warning>,
}

/// A move of a memory or folder to another path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Move {
    /// The current path.
    pub from: String,
    /// The new path, in the same scope.
    pub to: String,
}

/// The pin state of a memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Pin {
    /// The path of the memory.
    pub path: String,
    /// Whether the memory is pinned now.
    pub pinned: bool,
    /// Whether the request changed that.
    pub changed: bool,
}

/// The result of a tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolReply {
    /// Whether the call succeeded.
    pub ok: bool,
    /// The text for the model.
    pub text: String,
    /// The error code, if the call was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The recorded change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<i64>,
    /// The memory's new revision; with a conflict, the current one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Warnings of screening.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

/// A line that matches a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Match {
    /// The path of the memory.
    pub path: String,
    /// The line number, counted from 1.
    pub line: u64,
    /// The text of the line.
    pub text: String,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SearchResponse {
    /// Matches, memory by memory.
    pub matches: Vec<Match>,
    /// Whether there are more matches than returned.
    pub more: bool,
}

/// A memory that an import created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ImportedMemory {
    /// The path of the memory.
    pub path: String,
    /// The file of the archive.
    pub source: String,
    /// Adaptations that the import made to the text.
    pub notes: Vec<String>,
}

/// A file of an archive that was not imported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SkippedImport {
    /// The file of the archive.
    pub source: String,
    /// The reason why it was not imported.
    pub why: String,
}

/// The result of an import.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ImportOutcome {
    /// The created memories.
    pub memories: Vec<ImportedMemory>,
    /// The files that were not imported.
    pub skipped: Vec<SkippedImport>,
    /// The recorded change; none if nothing was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<i64>,
}

/// One step of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
pub enum BatchStep {
    /// Deletes a memory.
    Delete {
        /// The memory's path.
        path: String,
        /// The revision that the memory must have; any revision by default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        revision: Option<String>,
    },
    /// Moves a memory within its scope.
    Move {
        /// The current path.
        from: String,
        /// The new path.
        to: String,
    },
}

/// A batch of steps: all are carried out, or none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BatchRequest {
    /// The steps, in order; at most 1,000.
    pub steps: Vec<BatchStep>,
}

/// The result of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BatchResponse {
    /// The recorded change, which one undo reverts; none if there was nothing to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<i64>,
}

/// The text of a memory at one revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RevisionText {
    /// The requested revision.
    pub revision: String,
    /// The whole text at this revision.
    pub text: String,
    /// A unified diff from the revision in `against`, if that was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}
