//! The elicitation of a scope: the client asks its user which instruction file a fact belongs to.
//!
//! Clients of the revisions with a handshake declare whether they support elicitation (since 2025-06-18). If a client
//! does not, or the user does not answer in time, the caller returns the question as text for the model.

use engine::ContextScope;
use rmcp::model::{ClientResult, ElicitRequestParams, ElicitationAction, ServerRequest};
use rmcp::service::{Peer, PeerRequestOptions, ServiceError};
use rmcp::{RoleServer, model::ElicitRequest};
use serde_json::json;

use crate::limits::MCP_ELICITATION_WAIT;

/// The outcome of an elicitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScopeAnswer {
    /// The user chose a scope.
    Scope(ContextScope),
    /// The user declined.
    Declined,
    /// The client cannot ask its user, or no answer came in time.
    Unavailable,
}

/// Asks the user for one of these scopes.
pub(super) async fn ask_scope(
    peer: &Peer<RoleServer>,
    message: &str,
    scopes: &[ContextScope],
) -> ScopeAnswer {
    let elicitation = peer.peer_info().and_then(|client| client.capabilities.elicitation.clone());
    // Older revisions have only forms, and declare elicitation without naming a kind.
    if !elicitation.is_some_and(|kinds| kinds.form.is_some() || kinds.url.is_none()) {
        return ScopeAnswer::Unavailable;
    }
    match elicit(peer, message, scopes).await {
        Ok(answer) => answer,
        Err(error) => {
            tracing::warn!(%error, "elicitation failed");
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
    let answer = peer.send_request_with_option(request, options).await?.await_response().await?;
    let ClientResult::ElicitResult(answer) = answer else {
        return Ok(ScopeAnswer::Unavailable);
    };
    Ok(match answer.action {
        ElicitationAction::Accept => {
            let content = answer.content.unwrap_or_default();
            let chosen = scopes.iter().find(|scope| content["scope"] == scope.as_str());
            chosen.map_or(ScopeAnswer::Unavailable, |scope| ScopeAnswer::Scope(*scope))
        }
        // Declined or dismissed.
        _ => ScopeAnswer::Declined,
    })
}
