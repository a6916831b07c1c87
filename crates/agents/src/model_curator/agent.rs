//! Runs a model with tools until it finishes or reaches a limit.
//!
//! The loop is bounded in turns, time, calls per reply and bytes of results. It knows nothing of memories: a
//! [`Toolbox`] executes the calls, and checks the result before the model may finish.

use std::collections::HashMap;
use std::time::Duration;

use model::{Chat, ChatError, ChatHistory, ToolInvocation, ToolSpec};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::ledger::Ledger;

/// Maximum number of executed calls per reply.
const CALLS_MAX: usize = 16;
/// Maximum bytes of all tool results of one run: each turn sends them again.
const TOOL_RESULTS_BYTES_MAX: usize = 256 * 1024;
/// Maximum bytes of one tool result.
const RESULT_BYTES_MAX: usize = 24 * 1024;

/// The tools of an agent.
pub(crate) trait Toolbox: Send {
    /// Returns the tools. A call of any other is refused.
    fn tools(&self) -> Vec<ToolSpec>;

    /// Checks whether a tool changes nothing.
    fn is_read_only(&self, name: &str) -> bool;

    /// Checks whether the run can end without a further reply.
    fn is_done(&self) -> bool {
        false
    }

    /// Checks the work when the model says that it is finished. Returns a message to the model about what is wrong,
    /// and the error if it is not put right.
    fn find_objection(&mut self) -> Option<(String, AgentError)> {
        None
    }

    /// Executes a call. A refusal is reported to the model.
    fn call(&mut self, name: &str, arguments: &Value) -> Result<String, ToolRefusal>;
}

/// Message to the model about a call that was not executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToolRefusal(pub(crate) String);

impl ToolRefusal {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// Reason why an agent did not finish its task.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Request to the model failed.
    #[error(transparent)]
    Chat(#[from] ChatError),
    /// The model still called tools in its last turn.
    #[error("the model was not done after {0} turns")]
    TurnLimit(u32),
    /// The time limit was reached.
    #[error("the model was not done within {0:?}")]
    Deadline(Duration),
    /// The model named unknown entries, twice.
    #[error("the model chose entries that it was not shown")]
    UnknownEntries,
    /// The model did nothing, and did not say that there is nothing to do.
    #[error("the model did nothing, and gave no answer that can be read")]
    NoAnswer,
    /// The reply reached the length limit, so that a part is missing.
    #[error("the model's reply was cut off")]
    ReplyTruncated,
    /// The model's changes would lose text.
    #[error("the model would have lost a part of {path}: {entry}")]
    ContentLoss {
        /// Path of the memory.
        path: String,
        /// Text that would be lost: the first words of an entry, or the name of another part.
        entry: String,
    },
    /// The model added text where it may only tidy.
    #[error("the model added or rewrote something in {0}, where it may only tidy up")]
    ContentAdded(String),
}

impl AgentError {
    /// Checks whether the model or its server is unavailable.
    pub const fn is_unavailable(&self) -> bool {
        matches!(self, Self::Chat(error) if !matches!(error, ChatError::InvalidReply(_)))
    }

    /// Returns the message for logs and records, without text of memories or of the server.
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

/// One run of an agent.
pub(crate) struct AgentRun<'a> {
    pub(crate) chat: &'a Chat,
    pub(crate) system: &'a str,
    /// Maximum number of replies.
    pub(crate) turns_max: u32,
    /// End of the time limit.
    pub(crate) deadline: Instant,
    /// Length of the time limit, for messages.
    pub(crate) time_limit: Duration,
}

impl AgentRun<'_> {
    /// Runs the model. Calls are executed in the order of the reply.
    pub(crate) async fn run(
        &self,
        task: &str,
        toolbox: &mut impl Toolbox,
        ledger: &Ledger,
    ) -> Result<String, AgentError> {
        let tools = toolbox.tools();
        let mut conversation = ChatHistory::new(self.system, &tools);
        conversation.push_user(task);
        // A repeated call gets the earlier result, unless something was changed since.
        let mut answered: HashMap<String, String> = HashMap::new();
        let mut result_bytes = 0;
        for turn in 1..=self.turns_max {
            let time_left = self.deadline.saturating_duration_since(Instant::now());
            if time_left.is_zero() {
                return Err(AgentError::Deadline(self.time_limit));
            }
            let reply = match self.chat.next(&mut conversation, time_left).await {
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
                // A cancelled task ends here, between two calls.
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
                result_bytes += result.len();
                if result_bytes > TOOL_RESULTS_BYTES_MAX {
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

/// Quotes untrusted text as JSON, so that it cannot break out of its place.
pub(super) fn json_quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Returns the JSON in a text, which may have words around it.
pub(super) fn extract_json(text: &str) -> Option<Value> {
    let json = text.get(text.find(['[', '{'])?..=text.rfind([']', '}'])?)?;
    serde_json::from_str(json).ok()
}

/// Returns a tool that selects listed items by their ids.
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
