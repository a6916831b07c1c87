//! Conversations below `/v1/sessions`: the context and the recalled memories that a host shows to its model.
//!
//! A host opens a conversation, reports prompts, tool results, ended turns and compactions, and shows its model the
//! returned text. Reports carry event ids, so that a retry has no further effect.

use serde::{Deserialize, Serialize};

use crate::context_files::{LoadOptions, LoadedFile, SkippedFile};

/// A request to open a conversation, or to resume one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OpenConversation {
    /// The host's id of the conversation: 1 to 128 letters, digits, `.`, `_`, `:` or `-`. A known id resumes that
    /// conversation. Without an id, the daemon assigns one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The id of the workspace; by default, `cwd` selects it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<String>,
    /// The folder of the workspace; by default, that of the primary workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Whether the response includes the context of the segment.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub context: bool,
    /// Whether to begin a new segment, because the model no longer has the earlier context.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub anew: bool,
    /// The most bytes of text that the host accepts at once; unlimited by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_bytes_max: Option<usize>,
    /// Names of context files that the host itself already shows to its model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context_files_loaded: Vec<String>,
    /// Options for loading the context files, beside the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_options: Option<LoadOptions>,
}

/// The state of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Conversation {
    /// The conversation's id.
    pub session_id: String,
    /// The id of the workspace.
    pub workspace_id: String,
    /// Whether an existing conversation was resumed.
    pub resumed: bool,
    /// The number of ended turns.
    pub turns: u64,
    /// The number of compactions so far.
    pub segment: u64,
    /// The context at the beginning of this segment, if it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<SegmentContext>,
    /// Whether this context was already returned in this segment.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub context_repeated: bool,
    /// The changes since the segment began that were not returned yet, if they were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<ChangedMemories>,
}

/// The memories that were added, changed or deleted since the context was last returned. Each change is returned once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChangedMemories {
    /// The block to put after everything else; texts of memories in it are marked as data.
    pub text: String,
    /// Estimated tokens of the text.
    pub tokens: u64,
}

/// The context at the beginning of a segment: the bytes stay the same during the segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SegmentContext {
    /// The whole text; texts of memories and files in it are marked as data.
    pub text: String,
    /// The SHA-256 digest of the text.
    pub revision: String,
    /// Estimated tokens of the text.
    pub tokens: u64,
    /// The parts of the text, in order.
    pub parts: Vec<SegmentPart>,
}

/// An agent that shows memories to its model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AgentHost {
    /// The name used in commands, such as `claude-code`.
    pub name: String,
    /// The name for people.
    pub title: String,
    /// The most bytes of context that the agent passes to its model.
    pub context_bytes_max: u64,
    /// The context files that the agent itself shows to its model.
    pub context_files_loaded: Vec<String>,
}

/// The supported agents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AgentHosts {
    /// The agents.
    pub hosts: Vec<AgentHost>,
}

/// The context that a new segment would begin with now, with explanations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExplainedContext {
    /// The context.
    #[serde(flatten)]
    pub context: SegmentContext,
    /// The number of all memories.
    #[serde(default)]
    pub memories: u64,
    /// The number of facts, entries of memories, in the context.
    #[serde(default)]
    pub facts_shown: u64,
    /// The number of all facts.
    #[serde(default)]
    pub facts: u64,
    /// The context files in it; each is followed by its imports.
    #[serde(default)]
    pub files: Vec<LoadedFile>,
    /// The context files and imports that were not loaded.
    #[serde(default)]
    pub skipped: Vec<SkippedFile>,
    /// The memories whose facts were considered, in their order. They are all memories of a small store, else those that
    /// are pinned, hold rules, are about the person, or were used.
    #[serde(default)]
    pub hot: Vec<HotMemory>,
}

/// A memory whose facts were considered for the context.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct HotMemory {
    /// The path of the memory.
    pub path: String,
    /// Whether the memory is pinned.
    pub pinned: bool,
    /// The number of uses on this host.
    pub uses: u64,
    /// The uses weighted by age: the weight of each use halves at a fixed interval.
    pub heat: f64,
    /// Whether any of its facts is in the context.
    pub shown: bool,
    /// Whether all of its facts are in the context.
    pub whole: bool,
    /// The number of its facts in the context.
    #[serde(default)]
    pub facts_shown: u64,
    /// The number of all its facts.
    #[serde(default)]
    pub facts: u64,
    /// The reason why the memory is included or not, in a sentence.
    pub why: String,
}

/// A part of a segment's context.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SegmentPart {
    /// The kind of part: `context_files`, `index`, `hot_set`.
    pub part: String,
    /// The SHA-256 digest of the part.
    pub revision: String,
    /// The size of the part in bytes.
    pub bytes: u64,
    /// Estimated tokens of the part.
    pub tokens: u64,
}

/// A prompt of the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PromptRequest {
    /// The text of the prompt.
    pub text: String,
    /// The host's id of this event: a repeated id has no further effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// Whether the prompt is cancelled when the connection of this request ends: the recall is dropped, and nothing
    /// more is shown for it. For a host that keeps the connection open during the turn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancel_with_connection: bool,
}

/// A report that the host compacted the conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CompactionRequest {
    /// The host's id of this event: a repeated id has no further effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// Whether the response includes the context of the new segment.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub context: bool,
    /// Whether the compaction is only about to happen. The segment then goes on; the host reports the end by opening
    /// the conversation again with `anew`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub upcoming: bool,
}

/// A report that tools have returned results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolResultRequest {
    /// The host's id of this event: a repeated id has no further effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// Whether the model wrote memories with a tool: the messages until now are then not reviewed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub memory_written: bool,
    /// The arguments of the tool `memory`, if the model called it: the conversation is not told of its own change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub memory_command: Option<serde_json::Value>,
}

/// A report that a turn has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct EndTurnRequest {
    /// The host's id of this event: a repeated id has no further effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// The messages of the turn, in order. If turns are reviewed in the background, they are stored until the review
    /// has ended, up to 64 KiB per conversation and without secrets; otherwise they are dropped at once. A prompt that
    /// was already sent may be omitted. A turn without a message of the user does not count for reviews.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<TurnMessage>,
    /// Whether the model wrote memories in this turn: the messages until now are then not reviewed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub memory_written: bool,
}

/// A message of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TurnMessage {
    /// The speaker.
    pub role: TurnRole,
    /// The text of the message.
    pub text: String,
}

/// The speaker of a message. Messages of tools are never reviewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::VariantArray)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TurnRole {
    /// The user.
    User,
    /// The model that the user talks to.
    Assistant,
    /// A tool that the model called.
    Tool,
}

/// The text to show to the model now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ContextUpdate {
    /// The block to put beside the prompt, or after the results of tools; none if there is nothing to show, or nothing
    /// yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recalled: Option<RecalledBlock>,
    /// The changes since the context was last returned; none if there are none, or if no context was returned yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<ChangedMemories>,
}

/// The memories recalled for a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RecalledBlock {
    /// The block to show; texts of memories in it are marked as data.
    pub text: String,
    /// The memories in the block, best first.
    pub memories: Vec<RecalledMemory>,
}

/// A memory of a recalled block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RecalledMemory {
    /// The memory's path.
    pub path: String,
    /// The memory's title.
    pub title: String,
    /// The time of the last write: ISO 8601, UTC, milliseconds.
    pub modified_at: String,
    /// The time from which the text is, if known: ISO 8601, UTC, milliseconds. It is the date in the frontmatter, else
    /// the last write by a person or an agent. Else it is the time of the file, unless that came with a checkout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved_at: Option<String>,
    /// Estimate that the memory helps, from 0 to 1, with two decimals. At least 0.5 unless the match is weak.
    pub score: f64,
    /// Whether the match is weak: the memory may not help, and would not be shown unasked.
    pub weak: bool,
    /// The reason why the memory matches, for people.
    pub why: String,
    /// The paths of other memories that fit and say the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_in: Vec<String>,
    /// The origin of an unreviewed memory: `repository`, or `influenced` if an agent wrote it after reading such text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreviewed: Option<String>,
}
