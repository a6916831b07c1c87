//! Which models do the work of agents.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use memory::limits::{BACKGROUND_TOKENS_PER_DAY, MODEL_CHECK_WAIT};
use model::{Chat, ChatError, Conversation, Tool};
use serde_json::json;
use tokio::time::Instant;

/// A kind of work that a model may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ModelJob {
    /// Takes a text in.
    Remember,
    /// Chooses what a request to forget means.
    Forget,
    /// Tidies up.
    Dream,
    /// Looks through turns for what is worth keeping.
    Review,
    /// Puts what recall found in order.
    Recall,
}

impl ModelJob {
    /// Every job.
    pub const ALL: [Self; 5] =
        [Self::Remember, Self::Forget, Self::Dream, Self::Review, Self::Recall];

    /// Returns the public word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Remember => "remember",
            Self::Forget => "forget",
            Self::Dream => "dream",
            Self::Review => "review",
            Self::Recall => "recall",
        }
    }

    /// Tells whether it is done by the default model: a model for recall is asked with each prompt, so it is only if it
    /// is named.
    pub const fn has_default(self) -> bool {
        !matches!(self, Self::Recall)
    }
}

impl fmt::Display for ModelJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
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
pub struct Models {
    jobs: [Option<Chat>; ModelJob::ALL.len()],
    /// What is done when a model does not do its work.
    pub fallback: Fallback,
    /// Tokens, read and written, that work which nobody asked for may take in 24 hours.
    pub background_tokens_per_day: u64,
}

impl Default for Models {
    fn default() -> Self {
        Self {
            jobs: Default::default(),
            fallback: Fallback::None,
            background_tokens_per_day: BACKGROUND_TOKENS_PER_DAY,
        }
    }
}

impl Models {
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

/// What a model did when it was asked whether it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// How long it took.
    pub took: Duration,
    /// Whether it called the tool that it was asked to call. One that does not cannot do the work of agents.
    pub calls_tools: bool,
}

/// Asks a model to call a tool. Costs some hundred tokens.
pub async fn check(chat: &Chat) -> Result<Checked, ChatError> {
    const WORD: &str = "quipu";
    let tool = Tool {
        name: "note",
        description: "Notes a word.",
        schema: json!({
            "type": "object",
            "properties": { "word": { "type": "string", "description": "The word" } },
            "required": ["word"],
        }),
    };
    let mut conversation =
        Conversation::new("You call the tool that you are asked to call.", &[tool]);
    conversation.say(&format!("Call the tool `note` with the word `{WORD}`."));
    let begun = Instant::now();
    let reply = chat.next(&mut conversation, MODEL_CHECK_WAIT).await?;
    let is_right = |call: &model::Call| call.name() == "note" && call.arguments()["word"] == WORD;
    Ok(Checked { took: begun.elapsed(), calls_tools: reply.calls.iter().any(is_right) })
}
