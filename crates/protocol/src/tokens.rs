//! Tokens of an owner over `/v1`, for callers with the role `admin`. Only a daemon with a database has them.

use serde::{Deserialize, Serialize};

/// The tokens of an owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TokenList {
    /// The tokens, the oldest first. Those that are no longer valid are among them.
    pub tokens: Vec<Token>,
}

/// A token, without its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Token {
    /// The id, by which the token is revoked.
    pub id: String,
    /// The rights: `read`, `write` or `admin`.
    pub role: String,
    /// The purpose of the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// When it was created.
    pub created_at: String,
    /// When it stops to be valid; none if only a revocation ends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<String>,
}

/// A request to create a token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CreateToken {
    /// The rights: `read`, `write` or `admin`.
    pub role: String,
    /// The purpose of the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Days until it stops to be valid, at least one; without it, only a revocation ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days: Option<u32>,
}

/// A token that was created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CreatedToken {
    /// The id, by which it is revoked.
    pub id: String,
    /// The token. It cannot be read again.
    pub token: String,
}
