//! Runs over `/v1/runs` (the changes of one task or session, grouped) and over `/v1/runs/models` (the work of models).
//!
//! A run of a task or session groups its recorded changes; a run of a model is a record of its calls, tokens and cost.

use serde::{Deserialize, Serialize};

use crate::task::TaskStatus;

/// The kind of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::VariantArray)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// A task: remember, forget or dream.
    Task,
    /// A session of a host.
    Session,
}

/// The recorded changes of one task or one session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// The kind of the run.
    pub kind: RunKind,
    /// The id of the task or session.
    pub id: String,
    /// The actor: `person`, `agent`, `task`, `review`, `dream`, `outside`.
    pub actor: String,
    /// The name of the calling program, as it sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The model that requested the last change, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The time of the first change: ISO 8601, UTC, milliseconds.
    pub started_at: String,
    /// The time of the last change.
    pub ended_at: String,
    /// The changes on this page, newest first.
    pub changes: Vec<i64>,
    /// The number of memories that they touch.
    pub memories: u64,
    /// The status of the task, while it is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<TaskStatus>,
}

/// One page of runs, latest change first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunPage {
    /// The runs. A run with older changes appears again on the next page, with those.
    pub runs: Vec<Run>,
    /// The `cursor` of the next page; none on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// The work of a model for a task or a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ModelRun {
    /// The number of the run; numbers increase.
    pub number: u64,
    /// The task; none for recall.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The agent, such as `managed-auto-memory-remember`.
    pub agent: String,
    /// The model, as the settings name it.
    pub model: String,
    /// The start: ISO 8601, UTC, milliseconds.
    pub started_at: String,
    /// The end: ISO 8601, UTC, milliseconds.
    pub ended_at: String,
    /// The outcome: `completed`, `fallback` (rules or the ranker did the work), `failed`, `timeout`, `cancelled`.
    pub ended: String,
    /// Whether the run started without a request.
    pub background: bool,
    /// The number of replies of the model.
    pub turns: u32,
    /// The number of tool calls.
    pub calls: u32,
    /// The number of refused tool calls.
    pub refused: u32,
    /// Input tokens, including cached ones.
    pub tokens_in: u64,
    /// Input tokens that the provider served from its cache.
    pub tokens_cached: u64,
    /// Output tokens.
    pub tokens_out: u64,
    /// The cost in US dollars, if the provider reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// The reason why the model's work was discarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// One page of model runs, newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ModelRunPage {
    /// The model runs.
    pub runs: Vec<ModelRun>,
    /// The `cursor` of the next page; none on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
