//! What is said between an agent and a model.

use genai::chat::{self, ChatMessage, ChatRequest, ToolCall, ToolResponse};
use serde_json::Value;

/// A tool that a model may call.
#[derive(Clone, Debug)]
pub struct ToolSpec {
    /// Letters, digits, `_` and `-`; every wire takes these.
    pub name: &'static str,
    /// What it does, for the model.
    pub description: &'static str,
    /// The JSON schema of its arguments: an object.
    pub schema: Value,
}

/// A model's wish that a tool be called. It is what the model says, so it may be anything.
#[derive(Clone, Debug)]
pub struct ToolInvocation(ToolCall);

impl ToolInvocation {
    /// Returns the name of the tool, which need not be one that was offered.
    pub fn name(&self) -> &str {
        &self.0.fn_name
    }

    /// Returns the arguments, which need not be an object.
    pub const fn arguments(&self) -> &Value {
        &self.0.fn_arguments
    }
}

/// What a reply cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TokenUsage {
    /// Tokens that the model read, those from a cache among them.
    pub tokens_in: u64,
    /// Tokens of those that the provider had in a cache.
    pub tokens_cached: u64,
    /// Tokens that the model wrote, those of its reasoning among them.
    pub tokens_out: u64,
    /// What the provider says that it cost, in its currency, which is the US dollar with all that tell it.
    pub cost: Option<f64>,
}

impl TokenUsage {
    /// Adds what another reply cost.
    pub fn add(&mut self, other: &Self) {
        self.tokens_in += other.tokens_in;
        self.tokens_cached += other.tokens_cached;
        self.tokens_out += other.tokens_out;
        self.cost = match (self.cost, other.cost) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
    }
}

/// What a model said.
#[derive(Clone, Debug, Default)]
pub struct ChatReply {
    /// Its text; empty if it only calls tools.
    pub text: String,
    /// The tools that it wants to be called, in its order.
    pub calls: Vec<ToolInvocation>,
    /// What it cost.
    pub usage: TokenUsage,
    /// Whether it stopped because it wrote as much as it may, so that something is missing.
    pub is_truncated: bool,
}

/// What was said so far.
#[derive(Clone, Debug)]
pub struct ChatHistory(pub(crate) ChatRequest);

impl ChatHistory {
    /// Begins one.
    pub fn new(system: &str, tools: &[ToolSpec]) -> Self {
        let mut request = ChatRequest::from_system(system);
        for tool in tools {
            let described = chat::Tool::new(tool.name).with_description(tool.description);
            request = request.append_tool(described.with_schema(tool.schema.clone()));
        }
        Self(request)
    }

    /// Says something to the model.
    pub fn push_user(&mut self, text: &str) {
        self.0.messages.push(ChatMessage::user(text));
    }

    /// Tells the results of calls of the last reply, each of which must be answered.
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
