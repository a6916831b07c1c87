//! [`Chat`]: a client of a chat model, with timeouts, retries and tool calls.
//!
//! The HTTP protocols of the providers are spoken by the library `genai`; this module works around its differences and
//! classifies its errors. No error text contains the key; only a message of the server may quote the prompt.

use std::time::Duration;

use genai::adapter::AdapterKind;
use genai::chat::{ChatMessage, ChatOptions, ChatResponse, StopReason, ToolChoice};
use genai::resolver::{self, AuthData};
use genai::{ClientBuilder, ModelIden, ServiceTarget, webc};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout_at};

use crate::address::Address;
use crate::chat_history::{ChatHistory, ChatReply, TokenUsage, ToolInvocation};
use crate::error::ChatError;
use crate::http::HttpClient;
use crate::key::ApiKey;

/// Maximum number of tokens in a reply.
const REPLY_TOKENS_MAX: u32 = 8_192;
/// Maximum number of attempts for one reply.
const ATTEMPTS_MAX: u32 = 3;
/// Wait before the second attempt if the server names none; doubles with each further attempt.
const RETRY_WAIT: Duration = Duration::from_millis(500);
/// Upper bound for a wait that a server asks for; longer than any deadline.
const RETRY_WAIT_MAX: Duration = Duration::from_hours(1);
/// Maximum number of characters kept of a server's error message.
const SERVER_MESSAGE_CHARS_MAX: usize = 300;

/// The HTTP protocol of a chat server.
#[derive(strum::AsRefStr, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "kebab-case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChatProtocol {
    /// The chat completions API of `OpenAI`, which most servers offer: Ollama, llama.cpp, vLLM, LM Studio,
    /// `OpenRouter`.
    #[strum(serialize = "openai")]
    OpenAi,
    /// The responses API of `OpenAI`.
    #[strum(serialize = "openai-responses")]
    OpenAiResponses,
    /// The messages API of Anthropic.
    Anthropic,
    /// The `generateContent` API of Gemini.
    Gemini,
}

impl ChatProtocol {
    /// Returns the base URL of the provider that the protocol is named after.
    pub const fn default_url(self) -> &'static str {
        match self {
            Self::OpenAi | Self::OpenAiResponses => "https://api.openai.com/v1/",
            Self::Anthropic => "https://api.anthropic.com/v1/",
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta/",
        }
    }

    const fn adapter(self) -> AdapterKind {
        match self {
            Self::OpenAi => AdapterKind::OpenAI,
            Self::OpenAiResponses => AdapterKind::OpenAIResp,
            Self::Anthropic => AdapterKind::Anthropic,
            Self::Gemini => AdapterKind::Gemini,
        }
    }
}

/// A client of one chat model. Stores nothing of the conversation.
#[derive(Clone, Debug)]
pub struct Chat {
    protocol: ChatProtocol,
    address: Address,
    model: String,
    name: String,
    key: ApiKey,
    client: HttpClient,
}

impl Chat {
    /// Returns a client of the model of this name at an address.
    pub fn new(protocol: ChatProtocol, address: Address, model: &str, key: ApiKey) -> Self {
        let (model, name) = (model.to_owned(), model.to_owned());
        Self { protocol, address, model, name, key, client: HttpClient::default() }
    }

    /// Sets a display name, such as `ollama/MODEL`.
    #[must_use]
    pub fn with_name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Returns the display name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the location: host, port and path.
    pub fn location(&self) -> String {
        self.address.location()
    }

    /// Returns the protocol.
    pub const fn protocol(&self) -> ChatProtocol {
        self.protocol
    }

    /// Requests the next reply and appends it to the conversation. If the server is busy, fails or drops the
    /// connection, up to three attempts are made within the deadline. A wait that the server asks for is respected.
    /// Dropping the future closes the connection.
    pub async fn next(
        &self,
        conversation: &mut ChatHistory,
        deadline: Duration,
    ) -> Result<ChatReply, ChatError> {
        let end = Instant::now() + deadline;
        let mut attempt = 1;
        loop {
            let error = match timeout_at(end, self.ask(conversation)).await {
                Ok(Ok(reply)) => return Ok(reply),
                Ok(Err(failed)) => failed,
                Err(_) => return Err(ChatError::TimedOut(deadline)),
            };
            let wait = error.retry_after.unwrap_or_else(|| RETRY_WAIT * 2_u32.pow(attempt - 1));
            let wait = with_jitter(wait);
            if attempt == ATTEMPTS_MAX
                || !error.is_retryable(&self.key)
                || Instant::now() + wait >= end
            {
                return Err(error.error);
            }
            tracing::debug!(model = %self.model, attempt, wait_ms = wait.as_millis(), "request to a model failed; retrying after a wait");
            sleep(wait).await;
            attempt += 1;
        }
    }

    async fn ask(&self, conversation: &mut ChatHistory) -> Result<ChatReply, FailedAttempt> {
        let key = self.key.get().await.map_err(ChatError::from)?;
        let client = self.client.get(&self.address);
        let client = client.map_err(|error| ChatError::Unreachable(causes(&error).join(": ")))?;
        let client = ClientBuilder::default().with_reqwest(client).build();
        let client =
            client.map_err(|_| ChatError::InvalidReply("the HTTP client cannot be built"))?;
        let (target, mut options) = self.target(key.clone());
        if self.protocol == ChatProtocol::OpenAi && conversation.0.tools.is_some() {
            // `Auto` is the default by the API, but llama-cpp-python ignores the tools if it is missing.
            options = options.with_tool_choice(ToolChoice::Auto);
        }
        let result = client.exec_chat(target, conversation.0.clone(), Some(&options)).await;
        let response = match result {
            Ok(response) => response,
            Err(error) => {
                let failed = classify_error(&error, key.as_deref());
                if matches!(failed.error, ChatError::Refused { status: 401, .. }) {
                    self.key.invalidate().await;
                }
                return Err(failed);
            }
        };
        let reply = reply(&response);
        conversation.push_reply(
            ChatMessage::assistant(response.content)
                .with_reasoning_content(response.reasoning_content),
        );
        Ok(reply)
    }

    fn target(&self, key: Option<String>) -> (ServiceTarget, ChatOptions) {
        let mut options =
            ChatOptions::default().with_max_tokens(REPLY_TOKENS_MAX).with_capture_raw_body(true);
        let mut name = self.model.clone();
        if self.protocol != ChatProtocol::Gemini && !name.ends_with('-') {
            // `genai` interprets a last word such as `-medium` as the reasoning effort and removes it, but many models
            // have such names. The dash at the end prevents that; the body overrides the name.
            name.push('-');
            options = options.with_extra_body(json!({ "model": self.model }));
        }
        let auth = match (key, self.protocol) {
            (Some(key), _) => AuthData::Key(key),
            // Without a key, `genai` would send an empty one.
            (None, ChatProtocol::OpenAi) => self.unauthorized("chat/completions"),
            (None, ChatProtocol::OpenAiResponses) => self.unauthorized("responses"),
            (None, ChatProtocol::Anthropic | ChatProtocol::Gemini) => AuthData::Key(String::new()),
        };
        let endpoint = resolver::Endpoint::from_owned(self.address.as_str());
        (
            ServiceTarget { endpoint, auth, model: ModelIden::new(self.protocol.adapter(), name) },
            options,
        )
    }

    fn unauthorized(&self, path: &str) -> AuthData {
        AuthData::RequestOverride {
            url: self.address.join(path),
            headers: genai::Headers::default(),
        }
    }
}

fn reply(response: &ChatResponse) -> ChatReply {
    let count = |tokens: Option<i32>| {
        tokens.and_then(|tokens| u64::try_from(tokens).ok()).unwrap_or_default()
    };
    let cached =
        response.usage.prompt_tokens_details.as_ref().and_then(|details| details.cached_tokens);
    let cost =
        response.captured_raw_body.as_ref().and_then(|body| body.pointer("/usage/cost")?.as_f64());
    ChatReply {
        text: response.texts().concat(),
        calls: response.tool_calls().into_iter().map(ToolInvocation::from).collect(),
        usage: TokenUsage {
            tokens_in: count(response.usage.prompt_tokens),
            tokens_cached: count(cached),
            tokens_out: count(response.usage.completion_tokens),
            cost: cost.filter(|cost| cost.is_finite() && *cost >= 0.0),
        },
        is_truncated: response.stop_reason.as_ref().is_some_and(StopReason::is_max_tokens),
    }
}

/// The error of one attempt, and the wait that the server asks for.
#[derive(Debug)]
struct FailedAttempt {
    error: ChatError,
    retry_after: Option<Duration>,
}

impl FailedAttempt {
    /// Returns whether a retry may help. After a rejected key it may if a command prints the key: it may print another
    /// one now.
    const fn is_retryable(&self, key: &ApiKey) -> bool {
        let is_key_rejected = matches!(self.error, ChatError::Refused { status: 401, .. });
        self.error.is_transient() || (is_key_rejected && matches!(key, ApiKey::Command(_)))
    }
}

impl From<ChatError> for FailedAttempt {
    fn from(error: ChatError) -> Self {
        Self { error, retry_after: None }
    }
}

fn classify_error(error: &genai::Error, key: Option<&str>) -> FailedAttempt {
    let (genai::Error::WebModelCall { webc_error, .. }
    | genai::Error::WebAdapterCall { webc_error, .. }) = error
    else {
        return ChatError::InvalidReply("unexpected content").into();
    };
    match webc_error {
        webc::Error::ResponseFailedStatus { status, body, headers } => {
            let after = headers.get("retry-after").and_then(|value| value.to_str().ok());
            let error =
                ChatError::Refused { status: status.as_u16(), said: server_message(body, key) };
            FailedAttempt { error, retry_after: after.and_then(retry_after) }
        }
        webc::Error::Reqwest(error) => {
            let causes = causes(error);
            let hide =
                |text: &str| key.map_or_else(|| text.to_owned(), |key| text.replace(key, "[key]"));
            if error.is_connect() {
                // Only the last cause helps a person; the others are steps inside the library.
                ChatError::Unreachable(hide(causes.last().map_or("", String::as_str))).into()
            } else {
                ChatError::ConnectionLost(hide(&causes.join(": "))).into()
            }
        }
        webc::Error::ResponseFailedNotJson { .. } => ChatError::InvalidReply("not JSON").into(),
        _ => ChatError::InvalidReply("invalid JSON").into(),
    }
}

/// Parses a number of seconds. Dates are ignored; the default wait is used then.
fn retry_after(value: &str) -> Option<Duration> {
    let seconds = value.trim().parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok().map(|wait| wait.min(RETRY_WAIT_MAX))
}

/// Returns the error message in a server's response, on one line.
fn server_message(body: &str, key: Option<&str>) -> Option<String> {
    let body: Value = serde_json::from_str(body).ok()?;
    let message = ["/error/message", "/message", "/error", "/detail"]
        .into_iter()
        .find_map(|pointer| body.pointer(pointer)?.as_str())?;
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let message = match key {
        Some(key) if !key.is_empty() => message.replace(key, "[key]"),
        _ => message,
    };
    let shortened: String =
        message.chars().filter(|c| !c.is_control()).take(SERVER_MESSAGE_CHARS_MAX).collect();
    (!shortened.is_empty()).then_some(shortened)
}

/// Returns the causes of an error, at least one. The error itself is left out, because it contains the URL.
fn causes(error: &dyn std::error::Error) -> Vec<String> {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    let causes: Vec<String> = causes.take(8).map(ToString::to_string).collect();
    if causes.is_empty() { vec!["unknown cause".to_owned()] } else { causes }
}

/// Lengthens a wait by up to a quarter, so that many clients rejected at once do not retry at once.
fn with_jitter(wait: Duration) -> Duration {
    // If random numbers are unavailable, all clients retry at the same time, which is tolerable.
    let part = f64::from(getrandom::u32().unwrap_or_default()) / f64::from(u32::MAX);
    wait.mul_f64(1.0 + 0.25 * part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_message_is_one_line_without_the_key() {
        let check = |body: &str, expected: Option<&str>| {
            assert_eq!(server_message(body, Some("sk-1")).as_deref(), expected, "{body}");
        };
        check(r#"{"error": {"message": "no model\nof that name"}}"#, Some("no model of that name"));
        check(r#"{"error": "the key sk-1 is wrong"}"#, Some("the key [key] is wrong"));
        check(r#"{"detail": [1]}"#, None);
        check("<html>", None);
        let long = format!(r#"{{"message": "{}"}}"#, "x".repeat(1_000));
        assert_eq!(server_message(&long, None).unwrap().len(), SERVER_MESSAGE_CHARS_MAX);
    }

    #[test]
    fn retry_after_is_parsed_and_bounded() {
        assert_eq!(retry_after(" 2 "), Some(Duration::from_secs(2)));
        assert_eq!(retry_after("0.5"), Some(Duration::from_millis(500)));
        assert_eq!(retry_after("1e30"), None);
        assert_eq!(retry_after("1e9"), Some(RETRY_WAIT_MAX));
        for wrong in ["", "-1", "soon", "inf", "Wed, 21 Oct 2026 07:28:00 GMT"] {
            assert_eq!(retry_after(wrong), None, "{wrong}");
        }
    }
}
