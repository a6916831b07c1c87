//! Conversations: what a host's model is shown of memories, below `/v1/sessions`.

use serde::{Deserialize, Serialize};

use crate::context_files::{LoadOptions, LoadedFile, SkippedFile};

/// What a conversation is opened with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OpenConversation {
    /// The id that the host has for it: 1 to 128 letters, digits, `.`, `_`, `:` or `-`. One that was there
    /// before goes on. Left out, it is given one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The id of the workspace; left out, `cwd` says which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<String>,
    /// The folder of the workspace; left out, the daemon's first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Whether what its segment begins with is wanted, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub context: bool,
    /// Whether the model knows nothing of what it was given before, so that a new segment begins.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub anew: bool,
    /// The most bytes of text that the host takes at once; left out, as many as there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_bytes_max: Option<usize>,
    /// Names of context files that the host shows its model itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context_files_loaded: Vec<String>,
    /// What the context files in it are loaded with, beside the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_options: Option<LoadOptions>,
}

/// A conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Conversation {
    /// Its id.
    pub session_id: String,
    /// The id of its workspace.
    pub workspace_id: String,
    /// Whether it was there before.
    pub resumed: bool,
    /// How many of its turns have ended.
    pub turns: u64,
    /// How often what the model knew was compacted.
    pub segment: u64,
    /// What the model is given at the beginning of this segment, where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<SegmentContext>,
    /// Whether the model was given that before, in this segment.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub context_repeated: bool,
    /// What changed since the segment began, where that was asked for and the model was not told yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<ChangedMemories>,
}

/// Which memories are new, changed or gone since the model was told which there are; told once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ChangedMemories {
    /// The block, to be put behind everything else; what memories say is in it as data.
    pub text: String,
    /// Its tokens, estimated.
    pub tokens: u64,
}

/// What a model is given at the beginning of a segment: the same bytes as long as it lasts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SegmentContext {
    /// All of it; what memories and files say is in it as data.
    pub text: String,
    /// The SHA-256 of its bytes.
    pub revision: String,
    /// Its tokens, estimated.
    pub tokens: u64,
    /// Its parts, in their order.
    pub parts: Vec<SegmentPart>,
}

/// An agent that shows its model what memories there are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AgentHost {
    /// The word by which commands name it, such as `claude-code`.
    pub name: String,
    /// Its name.
    pub title: String,
    /// The most bytes of context that it passes on to its model.
    pub context_bytes_max: u64,
    /// The context files that it shows its model itself.
    pub context_files_loaded: Vec<String>,
}

/// The agents that are known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AgentHosts {
    /// The agents.
    pub hosts: Vec<AgentHost>,
}

/// What a session of a model would begin with now, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ExplainedContext {
    /// What it would begin with.
    #[serde(flatten)]
    pub context: SegmentContext,
    /// How many memories there are; the index is of them.
    #[serde(default)]
    pub memories: u64,
    /// The context files in it, each followed by what it imports first.
    #[serde(default)]
    pub files: Vec<LoadedFile>,
    /// The context files and imports that are not in it.
    #[serde(default)]
    pub skipped: Vec<SkippedFile>,
    /// The memories that were tried for the hot set, the warmest first.
    #[serde(default)]
    pub hot: Vec<HotMemory>,
}

/// A memory that was tried for the hot set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct HotMemory {
    /// The memory.
    pub path: String,
    /// Whether a person pinned it.
    pub pinned: bool,
    /// How often it was used on this host.
    pub uses: u64,
    /// What its uses are worth now: each loses half of its worth in a while.
    pub heat: f64,
    /// Whether it is in the hot set.
    pub shown: bool,
    /// Whether all of it is.
    pub whole: bool,
    /// Why it is in or out, in a sentence.
    pub why: String,
}

/// One part of that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SegmentPart {
    /// What it is made of: `context_files`, `index`, `hot_set`.
    pub part: String,
    /// The SHA-256 of its bytes.
    pub revision: String,
    /// Its bytes.
    pub bytes: u64,
    /// Its tokens, estimated.
    pub tokens: u64,
}

/// A person's prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PromptRequest {
    /// What the person said.
    pub text: String,
    /// The host's id of this event: said twice, it is done once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// Whether the prompt is cancelled when the connection of this request ends: what is looked for is dropped,
    /// and nothing more is shown for it. For a host that keeps the connection open during the turn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancel_with_connection: bool,
}

/// That what the model knew was compacted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CompactionRequest {
    /// The host's id of this event: said twice, it is done once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// Whether what the new segment begins with is wanted, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub context: bool,
}

/// Something that happened in a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolResultRequest {
    /// The host's id of this event: said twice, it is done once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// Whether the model wrote memories with a tool: then what was said until now is not reviewed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub memory_written: bool,
}

/// That a turn has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct EndTurnRequest {
    /// The host's id of this event: said twice, it is done once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
    /// What was said in the turn, in its order. Where turns are reviewed in the background it is kept until its review has
    /// ended, up to 64 KiB a conversation and without secrets; else it is dropped at once. A person's prompt that was told
    /// before may be left out. A turn in which no person said anything is not counted for reviews.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<TurnMessage>,
    /// Whether the model wrote memories in this turn: then what was said until now is not reviewed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub memory_written: bool,
}

/// A message of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TurnMessage {
    /// Who said it.
    pub role: TurnRole,
    /// What was said.
    pub text: String,
}

/// Who said a message. What tools say is never reviewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::VariantArray)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TurnRole {
    /// The person.
    User,
    /// The model.
    Assistant,
    /// A tool.
    Tool,
}

/// What is to be shown to the model now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ContextUpdate {
    /// The block to put beside the prompt, or behind the results of tools; none when there is nothing, or
    /// nothing yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recalled: Option<RecalledBlock>,
    /// What changed since the model was told which memories there are; none when nothing did, or it was given no
    /// context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<ChangedMemories>,
}

/// Memories that fit a prompt, as they are shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RecalledBlock {
    /// The block: what memories say is in it as data.
    pub text: String,
    /// The memories in it, the best first.
    pub memories: Vec<RecalledMemory>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RecalledMemory {
    /// Its path.
    pub path: String,
    /// Its title.
    pub title: String,
    /// When it was written last: ISO 8601, UTC, milliseconds.
    pub modified_at: String,
    /// Why it fits, for people.
    pub why: String,
    /// Where it is from, if nobody here reviewed it: `repository`, or `influenced` if an agent wrote it that had read such text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreviewed: Option<String>,
}
