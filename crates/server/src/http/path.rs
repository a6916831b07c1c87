//! What a path names, and the headers that come with it.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use protocol::error::ErrorCode;
use serde::de::DeserializeOwned;

use super::refused::Refused;

/// The parts of a path that its route leaves open, decoded. What cannot be decoded is refused as any
/// other malformed path is.
#[derive(Debug)]
pub(super) struct Path<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(named)) => Ok(Self(named)),
            Err(rejected) => {
                Err(Refused::from(ErrorCode::InvalidPath).saying(rejected.body_text()))
            }
        }
    }
}

/// The headers of a request, taken and not copied: nothing is left for whoever asks for them again.
#[derive(Debug)]
pub(super) struct Headers(pub(super) HeaderMap);

impl<S: Send + Sync> FromRequestParts<S> for Headers {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(Self(std::mem::take(&mut parts.headers)))
    }
}
