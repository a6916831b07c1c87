//! Routes of the tokens of an owner: list, create, revoke. They need the role `admin`, and a daemon with a database.

use axum::extract::Request;
use axum::http::StatusCode;
use axum::{Extension, Json};
use memory::owner::{StoredToken, TokenOptions};
use protocol::error::ErrorCode;
use protocol::tokens::{CreateToken, CreatedToken, Token, TokenList};

use super::app_state::{AppState, SharedState};
use super::body;
use super::owner_directory::OwnTokens;
use super::request::Path;
use super::routes::{Routes, routes};
use crate::error::ErrorResponse;
use crate::to_wire;

pub(super) fn routes() -> Routes {
    Routes::new().add(routes!(list: MEMORY, create: MEMORY)).add(routes!(revoke: MEMORY))
}

/// List the tokens of the owner, without their texts.
#[utoipa::path(
    get,
    path = "/v1/tokens",
    operation_id = "list_tokens",
    tag = "tokens",
    responses(
        (status = 200, description = "The tokens", body = TokenList),
        ErrorResponse,
    ),
)]
async fn list(Extension(daemon): Extension<SharedState>) -> Result<Json<TokenList>, ErrorResponse> {
    let of = daemon.own_tokens()?;
    let tokens = of.directory.tokens(&of.owner).await?;
    Ok(Json(TokenList { tokens: tokens.into_iter().map(token).collect() }))
}

/// Create a token of the owner. The answer has its text, which cannot be read again.
#[utoipa::path(
    post,
    path = "/v1/tokens",
    operation_id = "create_token",
    tag = "tokens",
    request_body = CreateToken,
    responses(
        (status = 201, description = "The token", body = CreatedToken),
        ErrorResponse,
    ),
)]
async fn create(
    Extension(daemon): Extension<SharedState>,
    request: Request,
) -> Result<(StatusCode, Json<CreatedToken>), ErrorResponse> {
    let of = daemon.own_tokens()?;
    let CreateToken { role, note, days } = body::value(request).await?;
    let role = role.parse().map_err(|_| {
        ErrorResponse::invalid_arguments("`role` must be `read`, `write` or `admin`")
    })?;
    let options = TokenOptions::new(role, note.as_deref(), days)
        .map_err(|invalid| ErrorResponse::invalid_arguments(invalid.to_string()))?;
    let token = of.directory.create_token(&of.owner, options).await?;
    let token = token.ok_or(ErrorCode::TooManyTokens)?;
    Ok((StatusCode::CREATED, Json(CreatedToken { id: token.id, token: token.text })))
}

/// Revoke a token of the owner. Daemons refuse it within ten seconds.
#[utoipa::path(
    delete,
    path = "/v1/tokens/{id}",
    operation_id = "revoke_token",
    tag = "tokens",
    params(("id" = String, Path, description = "The id of the token, from the list")),
    responses(
        (status = 204, description = "The token is revoked"),
        ErrorResponse,
    ),
)]
async fn revoke(
    Extension(daemon): Extension<SharedState>,
    Path(id): Path<String>,
) -> Result<StatusCode, ErrorResponse> {
    let of = daemon.own_tokens()?;
    if of.directory.revoke_token(&of.owner, &id).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(ErrorResponse::from(ErrorCode::NotFound)
            .with_message("there is no such token".to_owned()))
    }
}

impl AppState {
    fn own_tokens(&self) -> Result<&OwnTokens, ErrorResponse> {
        self.tokens.as_ref().ok_or_else(|| {
            let message = "only a daemon with a database has tokens of owners".to_owned();
            ErrorResponse::from(ErrorCode::NotFound).with_message(message)
        })
    }
}

fn token(stored: StoredToken) -> Token {
    Token {
        id: stored.id,
        role: stored.role.as_ref().to_owned(),
        note: stored.note,
        created_at: to_wire::time(stored.created_at),
        ends_at: stored.ends_at.map(to_wire::time),
    }
}
