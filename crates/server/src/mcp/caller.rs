//! Who a request comes from, as far as it says so itself.
//!
//! What a client calls itself and its calls is kept in history as it was given, on one line and
//! not at any length. It is never believed: what the caller may do comes from the host alone.

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

/// Returns the host's caller with what the request says about its client.
pub(super) fn caller(host: &Caller, context: &RequestContext<RoleServer>) -> Caller {
    let mut caller = host.clone();
    let provenance = &mut caller.provenance;
    if let Some(client) = context.client_info() {
        provenance.client = cleaned(&format!("{}/{}", client.name, client.version));
    }
    if provenance.session.is_none() {
        provenance.session = first_of(&SESSION_KEYS, &context.meta);
    }
    caller
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
