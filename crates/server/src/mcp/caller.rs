//! Who a request comes from, as far as it says so itself.
//!
//! What a client calls itself and its calls is kept in history as it was given, on one line and
//! not at any length. It is never believed: what the caller may do comes from the host alone, or over
//! HTTP from whoever passed the request on.

use std::any::Any;
use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::request::Parts;
use engine::{Call, Caller};
use memory::limits::PROVENANCE_CHARS_MAX;
use rmcp::RoleServer;
use rmcp::model::{RequestId, RequestMetaObject};
use rmcp::service::RequestContext;

/// Where clients put the model's id of a tool call, among what goes with a request: Claude Code's
/// key, and the one that others were asked to use. Without it the request's own id stands in.
const TOOL_CALL_KEYS: [&str; 2] = ["claudecode/toolUseId", "callId"];

/// Where clients put the conversation: Codex and the editor's.
const SESSION_KEYS: [&str; 2] = ["threadId", "vscode.conversationId"];

/// The header in which clients of the older revisions give the name of their session over HTTP.
pub(super) const SESSION_HEADER: &str = "mcp-session-id";

/// What a message of a session holds as long as it is carried out, whether or not its answer is waited for:
/// the room that its body takes.
#[derive(Clone)]
pub(crate) struct Held(
    #[expect(dead_code, reason = "held and not looked at")] Arc<dyn Any + Send + Sync>,
);

impl Held {
    pub(crate) fn new(held: impl Any + Send + Sync) -> Self {
        Self(Arc::new(held))
    }
}

/// Returns what came with an HTTP request to be held.
pub(super) fn held(context: &RequestContext<RoleServer>) -> Option<Held> {
    context.extensions.get::<Parts>()?.extensions.get().cloned()
}

/// Returns the host's caller, or the one that came with an HTTP request, with what the request says about
/// its client.
pub(super) fn caller(host: &Caller, context: &RequestContext<RoleServer>) -> Caller {
    let parts = context.extensions.get::<Parts>();
    let passed_on = parts.and_then(|parts| parts.extensions.get::<Caller>());
    let mut caller = passed_on.unwrap_or(host).clone();
    let provenance = &mut caller.provenance;
    if let Some(client) = context.client_info()
        && provenance.client.is_none()
    {
        provenance.client = cleaned(&format!("{}/{}", client.name, client.version));
    }
    if provenance.session.is_none() {
        provenance.session = first_of(&SESSION_KEYS, &context.meta)
            .or_else(|| session_word(&parts?.headers).and_then(cleaned));
    }
    caller
}

/// Returns what history calls a session: the beginning of its name, which tells sessions apart. With the
/// whole of it others could speak in the session.
fn session_word(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION_HEADER)?.to_str().ok()?.split('-').next()
}

/// Returns what is particular to the call that a request makes.
pub(super) fn call(context: &RequestContext<RoleServer>) -> Call {
    let tool_call = first_of(&TOOL_CALL_KEYS, &context.meta).or_else(|| match &context.id {
        RequestId::Number(number) => Some(number.to_string()),
        RequestId::String(text) => cleaned(text),
    });
    Call { tool_call, ..Call::default() }
}

fn first_of(keys: &[&str], meta: &RequestMetaObject) -> Option<String> {
    keys.iter().find_map(|&key| cleaned(meta.get(key)?.as_str()?))
}

/// Returns a name from outside on one line and of bounded length; `None` when nothing is left.
fn cleaned(text: &str) -> Option<String> {
    let kept: String =
        text.chars().filter(|c| !c.is_control()).take(PROVENANCE_CHARS_MAX).collect();
    let kept = kept.trim();
    (!kept.is_empty()).then(|| kept.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(given: &str, expected: Option<&str>) {
        assert_eq!(cleaned(given).as_deref(), expected, "{given:?}");
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
