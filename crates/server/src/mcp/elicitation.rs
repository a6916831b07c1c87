//! Questions that a client puts to its person: where a fact goes that was given no scope.
//!
//! Clients of the revisions with a handshake say whether they can (elicitation, since 2025-06-18). Whoever
//! cannot, or does not in time, is answered with the question as a text.

use engine::ContextScope;
use rmcp::model::{ClientResult, ElicitRequestParams, ElicitationAction, ServerRequest};
use rmcp::service::{Peer, PeerRequestOptions, ServiceError};
use rmcp::{RoleServer, model::ElicitRequest};
use serde_json::json;

use crate::limits::MCP_ELICITATION_WAIT;

/// What came of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScopeAnswer {
    /// The person chose.
    Scope(ContextScope),
    /// The person was asked and wants none of it.
    Declined,
    /// Nobody was asked, or nobody answered.
    Unavailable,
}

/// Asks which of these files a fact goes to.
pub(super) async fn ask_scope(
    peer: &Peer<RoleServer>,
    message: &str,
    scopes: &[ContextScope],
) -> ScopeAnswer {
    let elicitation = peer.peer_info().and_then(|client| client.capabilities.elicitation.clone());
    // Before there were two kinds, there was the form, and nothing was said of it.
    if !elicitation.is_some_and(|can| can.form.is_some() || can.url.is_none()) {
        return ScopeAnswer::Unavailable;
    }
    match elicit(peer, message, scopes).await {
        Ok(answer) => answer,
        Err(error) => {
            tracing::warn!(%error, "the client did not put a question to its person");
            ScopeAnswer::Unavailable
        }
    }
}

async fn elicit(
    peer: &Peer<RoleServer>,
    message: &str,
    scopes: &[ContextScope],
) -> Result<ScopeAnswer, ServiceError> {
    let words: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
    let schema = json!({
        "type": "object",
        "properties": { "scope": { "type": "string", "title": "Whose file", "enum": words } },
        "required": ["scope"],
    });
    let Ok(requested_schema) = serde_json::from_value(schema) else {
        return Ok(ScopeAnswer::Unavailable);
    };
    let params = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message.to_owned(),
        requested_schema,
    };
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(params));
    let options = PeerRequestOptions::with_timeout(MCP_ELICITATION_WAIT);
    let answered = peer.send_request_with_option(request, options).await?.await_response().await?;
    let ClientResult::ElicitResult(answered) = answered else {
        return Ok(ScopeAnswer::Unavailable);
    };
    Ok(match answered.action {
        ElicitationAction::Accept => {
            let content = answered.content.unwrap_or_default();
            let chosen = scopes.iter().find(|scope| content["scope"] == scope.as_str());
            chosen.map_or(ScopeAnswer::Unavailable, |scope| ScopeAnswer::Scope(*scope))
        }
        // The person put it away, one way or another.
        _ => ScopeAnswer::Declined,
    })
}
