//! A model that is talked to.

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

/// Tokens that a reply may have.
const REPLY_TOKENS_MAX: u32 = 8_192;
/// How often a question is put before its failure is told.
const ATTEMPTS_MAX: u32 = 3;
/// How long the second attempt waits, where the server does not say; each after it twice as long.
const RETRY_WAIT: Duration = Duration::from_millis(500);
/// Nobody waits longer: no deadline is as late.
const RETRY_WAIT_MAX: Duration = Duration::from_hours(1);
/// Characters of what a server says of a failure.
const SERVER_MESSAGE_CHARS_MAX: usize = 300;

/// How a model's server is spoken to.
#[derive(strum::AsRefStr, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "kebab-case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChatProtocol {
    /// The chat completions of `OpenAI`, which most servers speak: Ollama, llama.cpp, vLLM, LM Studio, `OpenRouter`.
    #[strum(serialize = "openai")]
    OpenAi,
    /// The responses of `OpenAI`.
    #[strum(serialize = "openai-responses")]
    OpenAiResponses,
    /// The messages of Anthropic.
    Anthropic,
    /// The contents of Gemini.
    Gemini,
}

impl ChatProtocol {
    /// Returns where the provider that it is named after offers it.
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

/// A model that is talked to. Keeps nothing of what was said.
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
    /// Returns the model of this name at an address.
    pub fn new(wire: ChatProtocol, address: Address, model: &str, key: ApiKey) -> Self {
        let (model, name) = (model.to_owned(), model.to_owned());
        Self { protocol: wire, address, model, name, key, client: HttpClient::default() }
    }

    /// Returns the same with a name of its own for people, such as `ollama/MODEL`.
    #[must_use]
    pub fn with_name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Returns its name for people.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns where it is: host, port and path.
    pub fn location(&self) -> String {
        self.address.location()
    }

    /// Returns how it is spoken to.
    pub const fn protocol(&self) -> ChatProtocol {
        self.protocol
    }

    /// Asks the model to go on, and adds what it says to the conversation. A server that is busy, fails or is cut off
    /// is asked up to three times within the deadline, as late as it says. Dropping it closes the connection.
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
            tracing::debug!(model = %self.model, attempt, wait_ms = wait.as_millis(), "a model is asked again");
            sleep(wait).await;
            attempt += 1;
        }
    }

    async fn ask(&self, conversation: &mut ChatHistory) -> Result<ChatReply, FailedAttempt> {
        let key = self.key.get().await.map_err(ChatError::from)?;
        let client = self.client.get(&self.address);
        let client = client.map_err(|error| ChatError::Unreachable(causes(&error).join(": ")))?;
        let client = ClientBuilder::default().with_reqwest(client).build();
        let client = client.map_err(|_| ChatError::InvalidReply("it cannot be asked"))?;
        let (target, mut options) = self.target(key.clone());
        if self.protocol == ChatProtocol::OpenAi && conversation.0.tools.is_some() {
            // That is what it means to say nothing, but llama-cpp-python leaves the tools out then.
            options = options.with_tool_choice(ToolChoice::Auto);
        }
        let asked = client.exec_chat(target, conversation.0.clone(), Some(&options)).await;
        let response = match asked {
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
            // The library takes a last word such as `-medium` for a wish, and cuts it off; many models are called so.
            name.push('-');
            options = options.with_extra_body(json!({ "model": self.model }));
        }
        let auth = match (key, self.protocol) {
            (Some(key), _) => AuthData::Key(key),
            // Without a key, the library would send an empty one.
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

    fn unauthorized(&self, below: &str) -> AuthData {
        AuthData::RequestOverride {
            url: self.address.join(below),
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

/// Why one attempt failed, and when the server wants to be asked again.
#[derive(Debug)]
struct FailedAttempt {
    error: ChatError,
    retry_after: Option<Duration>,
}

impl FailedAttempt {
    /// Tells whether asking again may help; a command may print another key by now.
    const fn is_retryable(&self, key: &ApiKey) -> bool {
        let is_of_key = matches!(self.error, ChatError::Refused { status: 401, .. });
        self.error.is_transient() || (is_of_key && matches!(key, ApiKey::Command(_)))
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
        return ChatError::InvalidReply("it has another form").into();
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
                // What the library tries on the way there says nothing to a person.
                ChatError::Unreachable(hide(causes.last().map_or("", String::as_str))).into()
            } else {
                ChatError::ConnectionLost(hide(&causes.join(": "))).into()
            }
        }
        webc::Error::ResponseFailedNotJson { .. } => {
            ChatError::InvalidReply("it is no JSON").into()
        }
        _ => ChatError::InvalidReply("it is broken JSON").into(),
    }
}

/// Reads a number of seconds. Dates are not read: the usual wait does.
fn retry_after(value: &str) -> Option<Duration> {
    let seconds = value.trim().parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok().map(|wait| wait.min(RETRY_WAIT_MAX))
}

/// Returns what a server says of a failure, in one line.
fn server_message(body: &str, key: Option<&str>) -> Option<String> {
    let body: Value = serde_json::from_str(body).ok()?;
    let message = ["/error/message", "/message", "/error", "/detail"]
        .into_iter()
        .find_map(|at| body.pointer(at)?.as_str())?;
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    let message = match key {
        Some(key) if !key.is_empty() => message.replace(key, "[key]"),
        _ => message,
    };
    let cut: String =
        message.chars().filter(|c| !c.is_control()).take(SERVER_MESSAGE_CHARS_MAX).collect();
    (!cut.is_empty()).then_some(cut)
}

/// Returns the causes of an error, without itself, which names the address that was asked; at least one.
fn causes(error: &dyn std::error::Error) -> Vec<String> {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    let causes: Vec<String> = causes.take(8).map(ToString::to_string).collect();
    if causes.is_empty() { vec!["it was cut off".to_owned()] } else { causes }
}

/// Changes a wait by up to a quarter, so that many who were refused at once do not come back at once.
fn with_jitter(wait: Duration) -> Duration {
    // Without random numbers everybody comes back at the same time, which is no worse than that.
    let part = f64::from(getrandom::u32().unwrap_or_default()) / f64::from(u32::MAX);
    wait.mul_f64(1.0 + 0.25 * part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_is_one_line_without_the_key() {
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
    fn a_wait_that_a_server_wants_is_read() {
        assert_eq!(retry_after(" 2 "), Some(Duration::from_secs(2)));
        assert_eq!(retry_after("0.5"), Some(Duration::from_millis(500)));
        assert_eq!(retry_after("1e30"), None);
        assert_eq!(retry_after("1e9"), Some(RETRY_WAIT_MAX));
        for wrong in ["", "-1", "soon", "inf", "Wed, 21 Oct 2026 07:28:00 GMT"] {
            assert_eq!(retry_after(wrong), None, "{wrong}");
        }
    }
}
