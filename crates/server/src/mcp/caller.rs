//! Who a request comes from, as far as it says so itself.
//!
//! What a client calls itself and its calls is kept in history as it was given, on one line and
//! not at any length. It is never believed: what the caller may do comes from the host alone, or over
//! HTTP from whoever passed the request on.

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

/// Where clients put the model's id of a tool call, among what goes with a request: Claude Code's
/// key, and the one that others were asked to use. Without it the request's own id stands in.
const TOOL_CALL_KEYS: [&str; 2] = ["claudecode/toolUseId", "callId"];

/// Where clients put the class of agent that one call is made for.
const CLASS_KEY: &str = "lukasa/agentClass";

/// The classes, as errors name them.
pub(crate) const CLASSES: &str = "`exec`, `plan` or `explore`";

/// What history calls the session of a client that names none and has this process for itself: what it changed can be
/// told apart and taken back as one.
static PROCESS: LazyLock<String> =
    LazyLock::new(|| Uuid::new_v4().simple().to_string().chars().take(12).collect());

/// Where clients put the conversation: Codex and the editor's.
const SESSION_KEYS: [&str; 2] = ["threadId", "vscode.conversationId"];

/// The header in which clients of the older revisions give the name of their session over HTTP.
pub(crate) const SESSION_HEADER: &str = "mcp-session-id";

/// What a message of a session holds as long as it is carried out, whether or not its answer is waited for:
/// the room that its body takes.
#[derive(Clone)]
pub(crate) struct KeepAlive(
    #[expect(dead_code, reason = "held and not looked at")] Arc<dyn Any + Send + Sync>,
);

impl KeepAlive {
    pub(crate) fn new(held: impl Any + Send + Sync) -> Self {
        Self(Arc::new(held))
    }
}

/// Returns what came with an HTTP request to be held.
pub(super) fn keep_alive_of(context: &RequestContext<RoleServer>) -> Option<KeepAlive> {
    context.extensions.get::<Parts>()?.extensions.get().cloned()
}

/// Returns the host's caller, or the one that came with an HTTP request, with what the request says about
/// its client. A request may lower the class of its agent, for one call.
pub(super) fn caller(
    host: &Caller,
    context: &RequestContext<RoleServer>,
) -> Result<Caller, ErrorData> {
    let parts = context.extensions.get::<Parts>();
    let passed_on = parts.and_then(|parts| parts.extensions.get::<Caller>());
    let mut caller = passed_on.unwrap_or(host).clone();
    if let Some(asked) = requested_class(&context.meta)? {
        caller.class = restrict_class(caller.class, asked)
            .map_err(|what| ErrorData::invalid_params(format!("`_meta`: {what}"), None))?;
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

/// Returns the class of agent that a request asks to be carried out as, if it asks for one.
fn requested_class(meta: &RequestMetaObject) -> Result<Option<AgentClass>, ErrorData> {
    let Some(word) = meta.get(CLASS_KEY) else { return Ok(None) };
    let class = word.as_str().and_then(|word| word.parse().ok());
    class.map(Some).ok_or_else(|| {
        let what = format!("`_meta`: `{CLASS_KEY}` is {word}; it must be {CLASSES}");
        ErrorData::invalid_params(what, None)
    })
}

/// Returns the class that a request is carried out as: the one that it asks for, if the class of its session
/// includes that one. More than the session has is refused, not lowered, so that a client learns of its error
/// from the first request and not from a write that fails.
pub(super) fn restrict_class(session: AgentClass, asked: AgentClass) -> Result<AgentClass, String> {
    if session.includes(asked) {
        return Ok(asked);
    }
    Err(format!(
        "the agent class `{}` is asked for, and the session has `{}`; ask for no more than that, or \
         begin a session of another class",
        asked.as_ref(),
        session.as_ref()
    ))
}

/// Returns what history calls a session: the beginning of its name, which tells sessions apart. With the
/// whole of it others could speak in the session.
fn session_header(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION_HEADER)?.to_str().ok()?.split('-').next()
}

/// Returns what is particular to the call that a request makes.
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

/// Returns a name from outside on one line and of bounded length; `None` when nothing is left.
fn sanitize_name(text: &str) -> Option<String> {
    let kept: String =
        text.chars().filter(|c| !c.is_control()).take(PROVENANCE_CHARS_MAX).collect();
    let kept = kept.trim();
    (!kept.is_empty()).then(|| kept.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &str, expected: Option<&str>) {
        assert_eq!(sanitize_name(given).as_deref(), expected, "{given:?}");
    }

    #[test]
    fn a_name_from_outside_is_one_bounded_line() {
        check("toolu_01", Some("toolu_01"));
        check("a\nb\u{1b}[2J\u{85}", Some("ab[2J"));
        check(" \t\n", None);
        check("", None);
        let long = "é".repeat(PROVENANCE_CHARS_MAX + 1);
        check(&long, Some(&"é".repeat(PROVENANCE_CHARS_MAX)));
    }
}
