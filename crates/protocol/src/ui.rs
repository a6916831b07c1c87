//! Login of a browser to the web page: a one-time ticket is exchanged for a token.
//!
//! The ticket is in the URL that a browser opens, so it is valid only once and for a short time.

use serde::{Deserialize, Serialize};

/// A one-time login ticket, which is part of the URL that a browser opens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Ticket {
    /// The ticket: valid for one login, for one minute.
    pub ticket: String,
}

/// A request to exchange a ticket for a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LoginRequest {
    /// The ticket.
    pub ticket: String,
}

/// The response to a login.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Login {
    /// The token of this browser. It expires when the daemon stops, and twelve hours after its last use.
    pub token: String,
    /// The id of the primary workspace.
    pub workspace: String,
}
