//! How a browser logs in to the page for people.

use serde::{Deserialize, Serialize};

/// What a browser is opened with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Ticket {
    /// Good for one login, within a minute.
    pub ticket: String,
}

/// A ticket that is traded for a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LoginRequest {
    /// The ticket.
    pub ticket: String,
}

/// What a browser gets for a ticket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Login {
    /// The token of this browser. It ends with the daemon, and twelve hours after it was used last.
    pub token: String,
    /// The id of the workspace that the daemon was started for.
    pub workspace: String,
}
