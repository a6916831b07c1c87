//! A model with tools, until it is done.

use std::collections::HashMap;
use std::time::Duration;

use model::{Chat, ChatError, ChatHistory, ToolInvocation, ToolSpec};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::ledger::Ledger;

/// Calls of one reply that are carried out.
const CALLS_MAX: usize = 16;
/// Bytes of all tool results of one agent: each turn sends them again.
const TOOL_RESULTS_BYTES_MAX: usize = 256 * 1024;
/// Bytes of one tool result.
const RESULT_BYTES_MAX: usize = 24 * 1024;

/// The tools of an agent.
pub(crate) trait Toolbox: Send {
    /// Returns the tools. A call of anything else is refused.
    fn tools(&self) -> Vec<ToolSpec>;

    /// Tells whether a tool only looks.
    fn is_read_only(&self, name: &str) -> bool;

    /// Tells whether there is nothing left to say.
    fn is_done(&self) -> bool {
        false
    }

    /// Looks at what was done when the model says that it is finished: returns what it is told to do about it, and what has
    /// failed if it does not.
    fn find_objection(&mut self) -> Option<(String, AgentError)> {
        None
    }

    /// Carries a call out. What cannot be done is told to the model.
    fn call(&mut self, name: &str, arguments: &Value) -> Result<String, ToolRefusal>;
}

/// What a model is told of a call that was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToolRefusal(pub(crate) String);

impl ToolRefusal {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// Why an agent did not finish its work.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The model did not reply.
    #[error(transparent)]
    Chat(#[from] ChatError),
    /// It called tools to the last turn that it had.
    #[error("the model was not done after {0} turns")]
    TurnLimit(u32),
    /// It took too long.
    #[error("the model was not done within {0:?}")]
    Deadline(Duration),
    /// It named entries that it was not shown, twice.
    #[error("the model chose entries that it was not shown")]
    UnknownEntries,
    /// It did nothing, and did not say that there is nothing to do.
    #[error("the model did nothing, and gave no answer that can be read")]
    NoAnswer,
    /// Its reply was longer than a reply may be, so that something is missing.
    #[error("the model's reply was cut off")]
    ReplyTruncated,
    /// Its changes lose something.
    #[error("the model would have lost a part of {path}: {entry}")]
    ContentLoss {
        /// The memory.
        path: String,
        /// What would be lost: the first words of an entry, or what else.
        entry: String,
    },
    /// It added something where it may only tidy up.
    #[error("the model added or rewrote something in {0}, where it may only tidy up")]
    ContentAdded(String),
}

impl AgentError {
    /// Tells whether the model, or its server, is what is missing.
    pub const fn is_unavailable(&self) -> bool {
        matches!(self, Self::Chat(error) if !matches!(error, ChatError::InvalidReply(_)))
    }

    /// Returns what is kept on record: nothing of what memories say, or of what a server quotes.
    pub fn redacted_message(&self) -> String {
        match self {
            Self::ContentLoss { path, .. } => format!("the model would have lost a part of {path}"),
            Self::Chat(ChatError::Refused { status, .. }) => {
                format!("the model's server answered with status {status}")
            }
            other => other.to_string(),
        }
    }
}

/// An agent for one piece of work.
pub(crate) struct AgentRun<'a> {
    pub(crate) chat: &'a Chat,
    pub(crate) system: &'a str,
    /// Replies that it may give.
    pub(crate) turns_max: u32,
    /// When it must be done.
    pub(crate) deadline: Instant,
    /// How long that was when it began.
    pub(crate) time_limit: Duration,
}

impl AgentRun<'_> {
    /// Has the work done. What is called is carried out at once, in the order of the reply.
    pub(crate) async fn run(
        &self,
        task: &str,
        toolbox: &mut impl Toolbox,
        ledger: &Ledger,
    ) -> Result<String, AgentError> {
        let tools = toolbox.tools();
        let mut conversation = ChatHistory::new(self.system, &tools);
        conversation.push_user(task);
        // A call that is repeated is answered as before, as long as nothing was changed since.
        let mut answered: HashMap<String, String> = HashMap::new();
        let mut told = 0;
        for turn in 1..=self.turns_max {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(AgentError::Deadline(self.time_limit));
            }
            let reply = match self.chat.next(&mut conversation, left).await {
                Err(ChatError::TimedOut(_)) => return Err(AgentError::Deadline(self.time_limit)),
                replied => replied?,
            };
            ledger.record_reply(&reply.usage);
            if reply.is_truncated {
                return Err(AgentError::ReplyTruncated);
            }
            if reply.calls.is_empty() {
                match toolbox.find_objection() {
                    None => return Ok(reply.text),
                    Some((_, error)) if turn == self.turns_max => return Err(error),
                    Some((objection, _)) => conversation.push_user(&objection),
                }
                continue;
            }
            let mut results = Vec::with_capacity(reply.calls.len());
            for (number, call) in reply.calls.iter().enumerate() {
                // A task that was cancelled ends here, between two calls.
                tokio::task::yield_now().await;
                if Instant::now() >= self.deadline {
                    return Err(AgentError::Deadline(self.time_limit));
                }
                let mut result = if number < CALLS_MAX {
                    execute_call(call, &tools, toolbox, &mut answered, ledger)
                } else {
                    ledger.record_refusal();
                    format!("Not done: at most {CALLS_MAX} calls are carried out at once.")
                };
                told += result.len();
                if told > TOOL_RESULTS_BYTES_MAX {
                    "Not shown: no more can be read in this work.".clone_into(&mut result);
                }
                if turn + 1 == self.turns_max {
                    result.push_str(
                        "\n\n(One turn is left: do the rest now, or say that you are done.)",
                    );
                }
                results.push((call, result));
            }
            if toolbox.is_done() {
                return Ok(String::new());
            }
            conversation.push_results(results);
        }
        Err(AgentError::TurnLimit(self.turns_max))
    }
}

fn execute_call(
    call: &ToolInvocation,
    tools: &[ToolSpec],
    toolbox: &mut impl Toolbox,
    answered: &mut HashMap<String, String>,
    ledger: &Ledger,
) -> String {
    if !tools.iter().any(|tool| tool.name == call.name()) {
        ledger.record_refusal();
        let names: Vec<&str> = tools.iter().map(|tool| tool.name).collect();
        return format!("There is no such tool. There are: {}.", names.join(", "));
    }
    let key = format!("{} {}", call.name(), call.arguments());
    if let Some(result) = answered.get(&key) {
        return result.clone();
    }
    ledger.record_call();
    match toolbox.call(call.name(), call.arguments()) {
        Ok(result) => {
            let result = truncate_result(result);
            if !toolbox.is_read_only(call.name()) {
                answered.clear();
            }
            answered.insert(key, result.clone());
            result
        }
        Err(ToolRefusal(why)) => {
            ledger.record_refusal();
            truncate_result(format!("Not done: {why}"))
        }
    }
}

/// Quotes a text so that it cannot end before its end.
pub(super) fn json_quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Returns the JSON that a text consists of, or has words around.
pub(super) fn extract_json(text: &str) -> Option<Value> {
    let json = text.get(text.find(['[', '{'])?..=text.rfind([']', '}'])?)?;
    serde_json::from_str(json).ok()
}

/// Returns a tool that selects some of what is listed, by its ids.
pub(super) fn select_tool(name: &'static str, description: &'static str) -> ToolSpec {
    let ids = json!({
        "type": "array", "items": { "type": "string" }, "description": "Ids as they are listed",
    });
    let schema = json!({ "type": "object", "properties": { "ids": ids }, "required": ["ids"] });
    ToolSpec { name, description, schema }
}

fn truncate_result(mut result: String) -> String {
    if result.len() > RESULT_BYTES_MAX {
        result.truncate(result.floor_char_boundary(RESULT_BYTES_MAX));
        result.push_str("\n\n(The rest is left out.)");
    }
    result
}
