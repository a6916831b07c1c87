//! Memories over `/v1`: lists, whole texts, moves, pins, one tool call, search.

use serde::{Deserialize, Serialize};

/// What is known of one memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct MemoryItem {
    /// Its path, `/memories/<scope>/…`.
    pub path: String,
    /// Its scope.
    pub scope: String,
    /// Its one-line description, or its first heading or line when it has none; empty when it has neither.
    pub description: String,
    /// Whether `description` is its own.
    #[serde(default)]
    pub has_description: bool,
    /// Its name, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its type, if it has one.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Its size.
    pub bytes: u64,
    /// When its file was last modified: ISO 8601, UTC, milliseconds.
    pub modified_at: String,
    /// The digest of its bytes; none when it is no text, or larger than a memory may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Whether a person pinned it.
    pub pinned: bool,
    /// How often it was used.
    pub uses: u64,
    /// When it was last used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<String>,
    /// Who changed it last, as far as history goes: `person`, `agent`, `task`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_author: Option<String>,
    /// How far its text may be trusted: `person`, `agent`, `background`, `imported` or `outside`, which came
    /// with a repository or was written without Lukasa.
    #[serde(default)]
    pub trust: String,
    /// When its text was last written, as far as history goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_written_at: Option<String>,
    /// The model that asked for that, if one did and said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What screening objects to in it.
    pub findings: Vec<Warning>,
}

/// Memories, one page of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct MemoryPage {
    /// The memories.
    pub memories: Vec<MemoryItem>,
    /// How many there are on all pages.
    pub total: u64,
    /// What `cursor` the next page has; none on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
    /// Scopes that have no root here.
    pub unavailable: Vec<UnavailableScope>,
}

/// A scope that has no root here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct UnavailableScope {
    /// Which.
    pub scope: String,
    /// Why.
    pub reason: String,
}

/// In which order memories are listed.
#[derive(strum::AsRefStr, strum::Display, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Sort {
    /// By path.
    Path,
    /// The last modified first.
    Modified,
    /// The most used first.
    Uses,
    /// The largest first.
    Bytes,
}

/// What a screening rule objects to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Warning {
    /// The id of the rule.
    pub rule: String,
    /// The line, counted from 1.
    pub line: u64,
}

/// A whole memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Memory {
    /// Its path.
    pub path: String,
    /// Its text.
    pub text: String,
    /// The digest of its bytes, as `ETag` has it.
    pub revision: String,
    /// When its file was last modified.
    pub modified_at: String,
    /// How far its text may be trusted, as a list of memories has it.
    #[serde(default)]
    pub trust: String,
    /// When its text was last written, as far as history goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_written_at: Option<String>,
    /// The model that asked for that, if one did and said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// A text to write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PutMemory {
    /// The whole text.
    pub text: String,
}

/// What a write did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WriteResponse {
    /// The memory.
    pub path: String,
    /// Its revision afterwards; none when it is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The change in history; none when nothing had to be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<i64>,
    /// What screening warned of.
    pub warnings: Vec<Warning>,
}

/// A memory or folder that is to have another path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Move {
    /// The path that it has.
    pub from: String,
    /// The path that it gets, in the same scope.
    pub to: String,
}

/// Whether a memory is pinned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Pin {
    /// The memory.
    pub path: String,
    /// Whether it is pinned now.
    pub pinned: bool,
    /// Whether that is new.
    pub changed: bool,
}

/// What a model reads after one call of the tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolReply {
    /// Whether it was done.
    pub ok: bool,
    /// What the model reads.
    pub text: String,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The change in history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<i64>,
    /// The memory's revision afterwards, or the current one beside a conflict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// What screening warned of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

/// A line that holds what was searched for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Match {
    /// The memory.
    pub path: String,
    /// The line, counted from 1.
    pub line: u64,
    /// Its text.
    pub text: String,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SearchResponse {
    /// Matches, memory by memory.
    pub matches: Vec<Match>,
    /// Whether there are more than are told.
    pub more: bool,
}

/// A memory that an import made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ImportedMemory {
    /// Where.
    pub path: String,
    /// The file of the archive that it comes from.
    pub source: String,
    /// What was changed on the way.
    pub notes: Vec<String>,
}

/// A file of an archive that was not taken over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SkippedImport {
    /// The file.
    pub source: String,
    /// Why.
    pub why: String,
}

/// What an import did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ImportOutcome {
    /// The memories that it made.
    pub memories: Vec<ImportedMemory>,
    /// What it did not take over.
    pub skipped: Vec<SkippedImport>,
    /// The change in history; none when nothing was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<i64>,
}

/// One step of several that are done together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
pub enum BatchStep {
    /// Deletes a memory.
    Delete {
        /// Its path.
        path: String,
        /// Only if it has this revision.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        revision: Option<String>,
    },
    /// Gives a memory another path in its scope.
    Move {
        /// Its path.
        from: String,
        /// The path that it gets.
        to: String,
    },
}

/// Steps that are done together or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BatchRequest {
    /// The steps, in order; at most 1,000.
    pub steps: Vec<BatchStep>,
}

/// What they came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BatchResponse {
    /// The change, which one undo takes back; none if there was nothing to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<i64>,
}

/// The text of a memory at some revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RevisionText {
    /// The revision.
    pub revision: String,
    /// The text.
    pub text: String,
    /// How it differs from the revision that was named for that, as a unified diff.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}
