//! Which models do the work of agents.

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

/// A kind of work that a model may do.
#[derive(strum::AsRefStr, strum::Display, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ModelJob {
    /// Takes a text in.
    Remember,
    /// Chooses what a request to forget means.
    Forget,
    /// Tidies up.
    Dream,
    /// Looks through conversations for what is worth keeping.
    Review,
    /// Chooses among what was found for a prompt.
    Recall,
}

impl ModelJob {
    /// Tells whether the default model does it too. One that chooses what is recalled is asked for each prompt, so a
    /// person has to name it.
    pub const fn has_default(self) -> bool {
        !matches!(self, Self::Recall)
    }
}

/// What is done when a model does not do its work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// The task fails: a weaker answer is nobody's wish.
    #[default]
    None,
    /// The rules do it, and the result says so.
    Rules,
}

/// A word that is none of a [`Fallback`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is `none` or `rules`")]
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

/// Which models do the work of agents; none, unless a person names some.
#[derive(Clone, Debug)]
pub struct AgentModels {
    jobs: [Option<Chat>; ModelJob::VARIANTS.len()],
    /// What is done when a model does not do its work.
    pub fallback: Fallback,
    /// Tokens, read and written, that work which nobody asked for may take in 24 hours.
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
    /// Returns the model that does a job; without one, the rules do it.
    pub const fn of(&self, job: ModelJob) -> Option<&Chat> {
        self.jobs[job as usize].as_ref()
    }

    /// Sets the model that does a job.
    pub fn set(&mut self, job: ModelJob, chat: Option<Chat>) {
        self.jobs[job as usize] = chat;
    }

    /// Tells whether there is any.
    pub fn is_empty(&self) -> bool {
        self.jobs.iter().all(Option::is_none)
    }
}

/// What a model did for a task, or for a prompt. What is skipped in JSON is in columns of its row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelWork {
    /// Its number, which grows.
    #[serde(skip)]
    pub number: u64,
    /// The workspace that it was done for.
    #[serde(skip)]
    pub workspace: String,
    /// The task that it was done for; what was only tried out has one too. Recall is for none.
    pub task: Option<String>,
    /// The agent, such as `managed-auto-memory-remember`.
    pub agent: String,
    /// The model, as the settings name it.
    pub model: String,
    /// When it began.
    #[serde(with = "iso")]
    pub began_at: Timestamp,
    /// When it ended.
    #[serde(skip)]
    pub ended_at: Timestamp,
    /// How it ended: `completed`, `fallback`, `failed`, `timeout`, `cancelled`.
    pub ended: String,
    /// Whether nobody asked for it.
    #[serde(skip)]
    pub is_background: bool,
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
    pub cost: Option<f64>,
    /// Why the model's work was not taken.
    pub why: Option<String>,
}

/// A page of what models did, the newest first.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelWorkPage {
    /// What they did.
    pub works: Vec<ModelWork>,
    /// The next page begins before this number; `None` on the last.
    pub next: Option<u64>,
}

/// When and for whom a model did something, and how that ended.
#[derive(Clone, Debug)]
pub(crate) struct ModelRunInfo<'a> {
    pub(crate) workspace: &'a str,
    pub(crate) task: Option<String>,
    pub(crate) began_at: Timestamp,
    pub(crate) ended_at: Timestamp,
    pub(crate) outcome: &'a str,
    pub(crate) is_background: bool,
}

impl ModelWork {
    /// Returns what is kept on record; `None` if no model was asked.
    pub(crate) fn from_report(report: RunReport, occasion: &ModelRunInfo<'_>) -> Option<Self> {
        let usage = report.usage;
        Some(Self {
            number: 0,
            workspace: occasion.workspace.to_owned(),
            task: occasion.task.clone(),
            agent: report.agent?.to_owned(),
            model: report.model?,
            began_at: occasion.began_at,
            ended_at: occasion.ended_at,
            ended: occasion.outcome.to_owned(),
            is_background: occasion.is_background,
            turns: report.turns,
            calls: report.calls,
            refused: report.refused_calls,
            tokens_in: usage.tokens_in,
            tokens_cached: usage.tokens_cached,
            tokens_out: usage.tokens_out,
            cost: usage.cost,
            // What a server says of a failure may quote what it was sent.
            why: report.fallback.or(report.failure).and_then(|why| redact_for_display(&why)),
        })
    }

    /// Returns it as the state keeps it.
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

    /// Returns what a row has beside its columns, as JSON.
    fn to_json(&self) -> String {
        json!(self).to_string()
    }

    /// Reads a row; what no program of ours wrote is passed over.
    pub(crate) fn from_row(row: ModelWorkRow) -> Option<Self> {
        let ModelWorkRow { number, workspace, ended_at, background, tokens: _, data } = row;
        let data: Self = serde_json::from_str(&data).ok()?;
        Some(Self { number, workspace, ended_at, is_background: background, ..data })
    }
}

/// A time in JSON, as ISO 8601.
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

/// What a model did when it was asked whether it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelCheck {
    /// How long it took.
    pub elapsed: Duration,
    /// Whether it called the tool that it was asked to call. One that does not cannot do the work of agents.
    pub calls_tools: bool,
}

/// Asks a model to call a tool. Costs some hundred tokens.
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
    let begun = Instant::now();
    let reply = chat.next(&mut conversation, MODEL_CHECK_WAIT).await?;
    let is_right =
        |call: &model::ToolInvocation| call.name() == "note" && call.arguments()["word"] == WORD;
    Ok(ModelCheck { elapsed: begun.elapsed(), calls_tools: reply.calls.iter().any(is_right) })
}
