//! The caller of an MCP request: provenance and agent class.
//!
//! The names that a client gives itself, its session and its calls are recorded in history, on one line and of bounded
//! length. They are not trusted: the access comes from the configuration, or over HTTP from the route that passed the
//! request on. A request can only lower its agent class.

use std::any::Any;
use std::sync::{Arc, LazyLock};

use axum::http::HeaderMap;
use axum::http::request::Parts;
use engine::{CallContext, Caller};
use memory::access::AgentClass;
use rmcp::model::{RequestId, RequestMetaObject};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use uuid::Uuid;

use crate::limits::PROVENANCE_CHARS_MAX;

/// The `_meta` keys of the model's id of a tool call: Claude Code's, and the one that other hosts were asked to use.
/// Without either, the id of the request is recorded.
const TOOL_CALL_KEYS: [&str; 2] = ["claudecode/toolUseId", "callId"];

/// The `_meta` key of the agent class of one call.
const CLASS_KEY: &str = "lukasa/agentClass";

/// The agent classes, for error messages.
pub(crate) const CLASSES: &str = "`exec`, `plan` or `explore`";

/// The session id in history for a client over pipes that names none. It has this process for itself, so its changes
/// can be undone together.
static PROCESS: LazyLock<String> =
    LazyLock::new(|| Uuid::new_v4().simple().to_string().chars().take(12).collect());

/// The `_meta` keys of the conversation: of Codex, and of VS Code.
const SESSION_KEYS: [&str; 2] = ["threadId", "vscode.conversationId"];

/// The HTTP header of the session id in older revisions.
pub(crate) const SESSION_HEADER: &str = "mcp-session-id";

/// A value kept until the work of a message is done, even if its answer is not awaited: the share of the body budget.
#[derive(Clone)]
pub(crate) struct KeepAlive(
    #[expect(dead_code, reason = "only dropped, never read")] Arc<dyn Any + Send + Sync>,
);

impl KeepAlive {
    pub(crate) fn new(value: impl Any + Send + Sync) -> Self {
        Self(Arc::new(value))
    }
}

/// Returns the value that came with an HTTP request to be kept.
pub(super) fn keep_alive_of(context: &RequestContext<RoleServer>) -> Option<KeepAlive> {
    context.extensions.get::<Parts>()?.extensions.get().cloned()
}

/// Returns the caller of an HTTP request, or that of the configuration, with the names that the request has for its
/// client and session. A request may lower the agent class for one call.
pub(super) fn caller(
    host: &Caller,
    context: &RequestContext<RoleServer>,
) -> Result<Caller, ErrorData> {
    let parts = context.extensions.get::<Parts>();
    let of_request = parts.and_then(|parts| parts.extensions.get::<Caller>());
    let mut caller = of_request.unwrap_or(host).clone();
    if let Some(requested) = requested_class(&context.meta)? {
        caller.class = restrict_class(caller.class, requested)
            .map_err(|error| ErrorData::invalid_params(format!("`_meta`: {error}"), None))?;
    }
    let provenance = &mut caller.provenance;
    if let Some(client) = context.client_info()
        && provenance.client.is_none()
    {
        provenance.client = sanitize_name(&format!("{}/{}", client.name, client.version));
    }
    if provenance.session.is_none() {
        provenance.session = first_of(&SESSION_KEYS, &context.meta).or_else(|| match parts {
            Some(parts) => session_header(&parts.headers).and_then(sanitize_name),
            None => Some(PROCESS.clone()),
        });
    }
    Ok(caller)
}

/// Returns the agent class that a request names, if any.
fn requested_class(meta: &RequestMetaObject) -> Result<Option<AgentClass>, ErrorData> {
    let Some(word) = meta.get(CLASS_KEY) else { return Ok(None) };
    let class = word.as_str().and_then(|word| word.parse().ok());
    class.map(Some).ok_or_else(|| {
        let message = format!("`_meta`: `{CLASS_KEY}` is {word}; it must be {CLASSES}");
        ErrorData::invalid_params(message, None)
    })
}

/// Returns the requested class if the class of the session includes it. A class with more access is an error, not
/// lowered, so that a client learns of its error from the first request and not from a failed write.
pub(super) fn restrict_class(
    session: AgentClass,
    requested: AgentClass,
) -> Result<AgentClass, String> {
    if session.includes(requested) {
        return Ok(requested);
    }
    Err(format!(
        "the request has the agent class `{}`, and its session only `{}`; send a class with no more \
         access, or begin a session of another class",
        requested.as_ref(),
        session.as_ref()
    ))
}

/// Returns the first part of a session id, for history. The whole id would let readers of the history use the
/// session.
fn session_header(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION_HEADER)?.to_str().ok()?.split('-').next()
}

/// Returns the context of a tool call: its id.
pub(super) fn call(context: &RequestContext<RoleServer>) -> CallContext {
    let tool_call = first_of(&TOOL_CALL_KEYS, &context.meta).or_else(|| match &context.id {
        RequestId::Number(number) => Some(number.to_string()),
        RequestId::String(text) => sanitize_name(text),
    });
    CallContext { tool_call, ..CallContext::default() }
}

fn first_of(keys: &[&str], meta: &RequestMetaObject) -> Option<String> {
    keys.iter().find_map(|&key| sanitize_name(meta.get(key)?.as_str()?))
}

/// Removes control characters from a name and bounds its length; `None` if nothing is left.
fn sanitize_name(text: &str) -> Option<String> {
    let name: String =
        text.chars().filter(|c| !c.is_control()).take(PROVENANCE_CHARS_MAX).collect();
    let name = name.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expected: Option<&str>) {
        assert_eq!(sanitize_name(name).as_deref(), expected, "{name:?}");
    }

    #[test]
    fn a_name_is_reduced_to_one_bounded_line() {
        check("toolu_01", Some("toolu_01"));
        check("a\nb\u{1b}[2J\u{85}", Some("ab[2J"));
        check(" \t\n", None);
        check("", None);
        let long = "é".repeat(PROVENANCE_CHARS_MAX + 1);
        check(&long, Some(&"é".repeat(PROVENANCE_CHARS_MAX)));
    }
}
