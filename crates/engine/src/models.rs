//! The models that do agents' work, the record of that work, and a check whether a model is usable.
//!
//! Which model does which job is configuration ([`AgentModels`]). A job without a model is done by
//! rules.

use std::str::FromStr;
use std::time::Duration;

use agents::RunReport;
use memory::clock::Timestamp;
use memory::limits::{BACKGROUND_TOKENS_PER_DAY, MODEL_CHECK_WAIT};
use model::{Chat, ChatError, ChatHistory, ToolSpec};
use serde::{Deserialize, Serialize};
use serde_json::json;
use state::ModelWorkRow;
use strum::VariantArray as _;
use tokio::time::Instant;

use crate::task::redact_for_display;

/// A kind of work that a model can do.
#[derive(strum::AsRefStr, strum::Display, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ModelJob {
    /// Adding the facts of a text to the memories.
    Remember,
    /// Choosing the entries that a request to forget means.
    Forget,
    /// Tidying memories.
    Dream,
    /// Reading conversations for facts worth saving.
    Review,
    /// Choosing among the candidates that recall found.
    Recall,
}

impl ModelJob {
    /// Checks whether the default model does this job too. Recall calls its model for each prompt,
    /// so it needs an explicit setting.
    pub const fn has_default(self) -> bool {
        !matches!(self, Self::Recall)
    }
}

/// The reaction to a model that fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// The task fails: a weaker result is not what was configured.
    #[default]
    None,
    /// Rules do the job, and the result says so.
    Rules,
}

/// An error for an unknown fallback name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it must be `none` or `rules`")]
pub struct UnknownFallback;

impl FromStr for Fallback {
    type Err = UnknownFallback;

    fn from_str(word: &str) -> Result<Self, UnknownFallback> {
        match word {
            "none" => Ok(Self::None),
            "rules" => Ok(Self::Rules),
            _ => Err(UnknownFallback),
        }
    }
}

/// The models that do agents' work; none by default.
#[derive(Clone, Debug)]
pub struct AgentModels {
    jobs: [Option<Chat>; ModelJob::VARIANTS.len()],
    /// The reaction to a model that fails.
    pub fallback: Fallback,
    /// Maximum number of tokens, read and written, for unrequested work in 24 hours.
    pub background_tokens: u64,
}

impl Default for AgentModels {
    fn default() -> Self {
        Self {
            jobs: Default::default(),
            fallback: Fallback::None,
            background_tokens: BACKGROUND_TOKENS_PER_DAY,
        }
    }
}

impl AgentModels {
    /// Returns the model for a job; `None` means that rules do it.
    pub const fn of(&self, job: ModelJob) -> Option<&Chat> {
        self.jobs[job as usize].as_ref()
    }

    /// Sets or removes the model for a job.
    pub fn set(&mut self, job: ModelJob, chat: Option<Chat>) {
        self.jobs[job as usize] = chat;
    }

    /// Checks whether no model is set.
    pub fn is_empty(&self) -> bool {
        self.jobs.iter().all(Option::is_none)
    }
}

/// A piece of work of a model, for a task or a prompt. Fields that are skipped in JSON are columns
/// of its row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelWork {
    /// Its number; later work has a higher one.
    #[serde(skip)]
    pub number: u64,
    /// The workspace of the task or prompt.
    #[serde(skip)]
    pub workspace: String,
    /// The task, also for a dry run. `None` for recall.
    pub task: Option<String>,
    /// The agent, such as `managed-auto-memory-remember`.
    pub agent: String,
    /// The model's name in the settings.
    pub model: String,
    /// Start time.
    #[serde(with = "iso")]
    pub began_at: Timestamp,
    /// End time.
    #[serde(skip)]
    pub ended_at: Timestamp,
    /// The outcome: `completed`, `fallback`, `failed`, `timeout`, `cancelled`.
    pub ended: String,
    /// Whether the work was unrequested, such as a scheduled dream.
    #[serde(skip)]
    pub is_background: bool,
    /// Number of replies of the model.
    pub turns: u32,
    /// Number of tool calls.
    pub calls: u32,
    /// Number of refused tool calls.
    pub refused: u32,
    /// Tokens read, including cached ones.
    pub tokens_in: u64,
    /// Tokens read from the provider's cache.
    pub tokens_cached: u64,
    /// Tokens written.
    pub tokens_out: u64,
    /// The provider's statement of the cost, in US dollars.
    pub cost: Option<f64>,
    /// The reason why the model's work was not used.
    pub why: Option<String>,
}

/// A page of the work of models, newest first.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelWorkPage {
    /// The work.
    pub works: Vec<ModelWork>,
    /// The number below which the next page starts; `None` on the last page.
    pub next: Option<u64>,
}

/// The circumstances of a piece of work: when, for which workspace and task, with which outcome.
#[derive(Clone, Debug)]
pub(crate) struct ModelRunContext<'a> {
    pub(crate) workspace: &'a str,
    pub(crate) task: Option<String>,
    pub(crate) began_at: Timestamp,
    pub(crate) ended_at: Timestamp,
    pub(crate) outcome: &'a str,
    pub(crate) is_background: bool,
}

impl ModelWork {
    /// Returns the record of a report; `None` if no model was called.
    pub(crate) fn from_report(report: RunReport, run: &ModelRunContext<'_>) -> Option<Self> {
        let usage = report.usage;
        Some(Self {
            number: 0,
            workspace: run.workspace.to_owned(),
            task: run.task.clone(),
            agent: report.agent?.to_owned(),
            model: report.model?,
            began_at: run.began_at,
            ended_at: run.ended_at,
            ended: run.outcome.to_owned(),
            is_background: run.is_background,
            turns: report.turns,
            calls: report.calls,
            refused: report.refused_calls,
            tokens_in: usage.tokens_in,
            tokens_cached: usage.tokens_cached,
            tokens_out: usage.tokens_out,
            cost: usage.cost,
            // A server's error message may quote what it was sent.
            why: report.fallback.or(report.failure).and_then(|why| redact_for_display(&why)),
        })
    }

    /// Encodes the record as a row.
    pub(crate) fn to_row(&self) -> ModelWorkRow {
        ModelWorkRow {
            number: 0,
            workspace: self.workspace.clone(),
            ended_at: self.ended_at,
            background: self.is_background,
            tokens: self.tokens_in + self.tokens_out,
            data: self.to_json(),
        }
    }

    /// Encodes the fields that are not columns of the row as JSON.
    fn to_json(&self) -> String {
        json!(self).to_string()
    }

    /// Decodes a row, or returns `None` if it is corrupt.
    pub(crate) fn from_row(row: ModelWorkRow) -> Option<Self> {
        let ModelWorkRow { number, workspace, ended_at, background, tokens: _, data } = row;
        let data: Self = serde_json::from_str(&data).ok()?;
        Some(Self { number, workspace, ended_at, is_background: background, ..data })
    }
}

/// Serializes a time as ISO 8601.
mod iso {
    use memory::clock::Timestamp;
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(time: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(time)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

/// The result of checking a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelCheck {
    /// Response time.
    pub elapsed: Duration,
    /// Whether it called the tool as asked. Without tool calls, a model cannot do agents' work.
    pub calls_tools: bool,
}

/// Checks a model by asking it to call a tool. Costs a few hundred tokens.
pub async fn check_model(chat: &Chat) -> Result<ModelCheck, ChatError> {
    const WORD: &str = "lukasa";
    let tool = ToolSpec {
        name: "note",
        description: "Notes a word.",
        schema: json!({
            "type": "object",
            "properties": { "word": { "type": "string", "description": "The word" } },
            "required": ["word"],
        }),
    };
    let mut conversation =
        ChatHistory::new("You call the tool that you are asked to call.", &[tool]);
    conversation.push_user(&format!("Call the tool `note` with the word `{WORD}`."));
    let start = Instant::now();
    let reply = chat.next(&mut conversation, MODEL_CHECK_WAIT).await?;
    let is_right =
        |call: &model::ToolInvocation| call.name() == "note" && call.arguments()["word"] == WORD;
    Ok(ModelCheck { elapsed: start.elapsed(), calls_tools: reply.calls.iter().any(is_right) })
}
