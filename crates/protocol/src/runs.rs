//! Runs over `/v1/runs`: what tasks and sessions changed, each as one; and over `/v1/runs/models`: what models did.

use serde::{Deserialize, Serialize};

use crate::task::TaskStatus;

/// What a run was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::VariantArray)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// A task: remember, forget or dream.
    Task,
    /// A session of a host.
    Session,
}

/// What one task or one session changed, as far as history goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// What it was.
    pub kind: RunKind,
    /// The id of the task or session.
    pub id: String,
    /// Who it was: `person`, `agent`, `task`, `review`, `dream`, `outside`.
    pub actor: String,
    /// The program that called, as it named itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The model that asked for the last change, if one did and said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// When it changed something first: ISO 8601, UTC, milliseconds.
    pub started_at: String,
    /// When it changed something last.
    pub ended_at: String,
    /// The changes on this page, the newest first.
    pub changes: Vec<i64>,
    /// How many memories they are of.
    pub memories: u64,
    /// How far the task is, while that is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<TaskStatus>,
}

/// Runs, the one that changed something last first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunPage {
    /// The runs. A run with older changes is on the next page again, with those.
    pub runs: Vec<Run>,
    /// What `cursor` the next page has; none on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// What a model did for a task, or for a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ModelRun {
    /// Its number, which grows.
    pub number: u64,
    /// The task that it was done for; none for recall.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The agent, such as `managed-auto-memory-remember`.
    pub agent: String,
    /// The model, as the settings name it.
    pub model: String,
    /// When it began: ISO 8601, UTC, milliseconds.
    pub started_at: String,
    /// When it ended.
    pub ended_at: String,
    /// How it ended: `completed`, `fallback` (the rules, or the ranker, did it), `failed`, `timeout`, `cancelled`.
    pub ended: String,
    /// Whether nobody asked for it.
    pub background: bool,
    /// Replies of the model.
    pub turns: u32,
    /// Calls of tools.
    pub calls: u32,
    /// Calls that were refused.
    pub refused: u32,
    /// Tokens read, those from a cache among them.
    pub tokens_in: u64,
    /// Tokens that the provider had in a cache.
    pub tokens_cached: u64,
    /// Tokens written.
    pub tokens_out: u64,
    /// What the provider says that it cost, in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Why the model's work was not taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What models did, the newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ModelRunPage {
    /// What they did.
    pub runs: Vec<ModelRun>,
    /// What `cursor` the next page has; none on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
