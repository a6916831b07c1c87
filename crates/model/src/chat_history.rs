//! The messages between an agent and a chat model.

use genai::chat::{self, ChatMessage, ChatRequest, ToolCall, ToolResponse};
use serde_json::Value;

/// A tool that a model may call.
#[derive(Clone, Debug)]
pub struct ToolSpec {
    /// Name of letters, digits, `_` and `-`, which every protocol accepts.
    pub name: &'static str,
    /// Description for the model.
    pub description: &'static str,
    /// JSON schema of the arguments, which are an object.
    pub schema: Value,
}

/// A tool call that a model requests. Model output: it may be invalid.
#[derive(Clone, Debug)]
pub struct ToolInvocation(ToolCall);

impl ToolInvocation {
    /// Returns the name of the tool, which may be one that was not offered.
    pub fn name(&self) -> &str {
        &self.0.fn_name
    }

    /// Returns the arguments, which may not be an object.
    pub const fn arguments(&self) -> &Value {
        &self.0.fn_arguments
    }
}

/// The tokens and the cost of a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TokenUsage {
    /// Tokens read by the model, cached ones included.
    pub tokens_in: u64,
    /// Cached tokens among these.
    pub tokens_cached: u64,
    /// Tokens written by the model, reasoning included.
    pub tokens_out: u64,
    /// Cost reported by the provider. All providers that report one use US dollars.
    pub cost: Option<f64>,
}

impl TokenUsage {
    /// Adds the usage of another reply.
    pub fn add(&mut self, other: &Self) {
        self.tokens_in += other.tokens_in;
        self.tokens_cached += other.tokens_cached;
        self.tokens_out += other.tokens_out;
        self.cost = match (self.cost, other.cost) {
            (Some(cost), Some(other)) => Some(cost + other),
            (cost, other) => cost.or(other),
        };
    }
}

/// A reply of a model.
#[derive(Clone, Debug, Default)]
pub struct ChatReply {
    /// The text; empty if the model only calls tools.
    pub text: String,
    /// Tool calls, in the model's order.
    pub calls: Vec<ToolInvocation>,
    /// Tokens and cost.
    pub usage: TokenUsage,
    /// Whether the reply is incomplete because it reached the token limit.
    pub is_truncated: bool,
}

/// The messages of a conversation so far.
#[derive(Clone, Debug)]
pub struct ChatHistory(pub(crate) ChatRequest);

impl ChatHistory {
    /// Begins a conversation with a system prompt and the tools.
    pub fn new(system: &str, tools: &[ToolSpec]) -> Self {
        let mut request = ChatRequest::from_system(system);
        for tool in tools {
            let spec = chat::Tool::new(tool.name).with_description(tool.description);
            request = request.append_tool(spec.with_schema(tool.schema.clone()));
        }
        Self(request)
    }

    /// Appends a message of the user.
    pub fn push_user(&mut self, text: &str) {
        self.0.messages.push(ChatMessage::user(text));
    }

    /// Appends the results of the tool calls of the last reply. Every call needs one.
    pub fn push_results<'a>(
        &mut self,
        results: impl IntoIterator<Item = (&'a ToolInvocation, String)>,
    ) {
        let results =
            results.into_iter().map(|(call, text)| ToolResponse::from_tool_call(&call.0, text));
        let results: Vec<ToolResponse> = results.collect();
        if !results.is_empty() {
            self.0.messages.push(ChatMessage::from(results));
        }
    }

    pub(crate) fn push_reply(&mut self, message: ChatMessage) {
        self.0.messages.push(message);
    }
}

impl From<&ToolCall> for ToolInvocation {
    fn from(call: &ToolCall) -> Self {
        Self(call.clone())
    }
}
