//! The body of a request, bounded in size and time.

use std::error::Error;

use axum::body::Bytes;
use axum::extract::Request;
use axum::http::header::CONTENT_LENGTH;
use axum::http::request::Parts;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use protocol::error::{ErrorBody, ErrorCode};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::body_budget::BudgetExhausted;
use crate::error::ErrorResponse;
use crate::limits::{HTTP_BODY_BYTES_MAX, HTTP_BODY_WAIT, HTTP_RETRY_AFTER_SECONDS};

/// Returns the bytes of a body.
pub(super) async fn bytes(request: Request) -> Result<Bytes, ErrorResponse> {
    Ok(with_parts(request).await?.1)
}

/// Returns the bytes of a body, and all but them.
pub(super) async fn with_parts(request: Request) -> Result<(Parts, Bytes), ErrorResponse> {
    let (parts, body) = request.into_parts();
    let announced = parts.headers.get(CONTENT_LENGTH);
    let announced = announced.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > HTTP_BODY_BYTES_MAX) {
        return Err(too_large());
    }
    let body = Limited::new(body, HTTP_BODY_BYTES_MAX);
    match timeout(HTTP_BODY_WAIT, body.collect()).await {
        Err(_elapsed) => Err(ErrorCode::BodyTimeout.into()),
        Ok(Ok(collected)) => Ok((parts, collected.to_bytes())),
        Ok(Err(error)) if find_cause::<LengthLimitError>(&*error).is_some() => Err(too_large()),
        Ok(Err(error)) if find_cause::<BudgetExhausted>(&*error).is_some() => {
            Err(ErrorResponse::from(ErrorCode::Overloaded).retry_after(HTTP_RETRY_AFTER_SECONDS))
        }
        // Whoever sent half a body does not read this.
        Ok(Err(_broken)) => Err(ErrorCode::InvalidJson.into()),
    }
}

/// Returns the error of this type that is behind another, or is that one itself.
pub(super) fn find_cause<'a, E: Error + 'static>(
    error: &'a (dyn Error + 'static),
) -> Option<&'a E> {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    causes.find_map(|error| error.downcast_ref())
}

fn too_large() -> ErrorResponse {
    let body = ErrorBody::new(ErrorCode::BodyTooLarge).with_fact("maxBytes", HTTP_BODY_BYTES_MAX);
    // The rest of the body is in the way of the next request.
    ErrorResponse::from(body).close_connection()
}

/// Returns the fields of a body; none if it is empty.
pub(super) async fn fields(request: Request) -> Result<Map<String, Value>, ErrorResponse> {
    let bytes = bytes(request).await?;
    if bytes.is_empty() {
        return Ok(Map::new());
    }
    // The parser bounds how deep a text may nest, and takes the last of two fields of one name.
    // Bytes that are no UTF-8 are refused: what they stood for would be lost, and the client can send it again.
    let text = std::str::from_utf8(&bytes).map_err(|_| ErrorCode::InvalidJson)?;
    let mended = memory::json::mend(text.as_bytes());
    serde_json::from_slice(&mended).map_err(|_| ErrorCode::InvalidJson.into())
}

/// In a body of how many fields the wrong one is looked for.
const FIELDS_TRIED_MAX: usize = 16;

/// Returns a body as a value, or says which of its fields is wrong.
pub(super) async fn value<T: DeserializeOwned>(request: Request) -> Result<T, ErrorResponse> {
    let fields = Value::Object(fields(request).await?);
    T::deserialize(&fields).map_err(|error| {
        let told = |fields: &Value| T::deserialize(fields).err().map(|error| error.to_string());
        invalid_field_error(&error.to_string(), fields, &told)
    })
}

/// Names the field that is wrong. The parser names one that is missing; one of a wrong shape is the one
/// without which it says something else.
fn invalid_field_error(
    error: &str,
    mut fields: Value,
    told: &dyn Fn(&Value) -> Option<String>,
) -> ErrorResponse {
    let refused = ErrorResponse::from(ErrorCode::InvalidArguments);
    let names: Vec<_> = fields.as_object().into_iter().flat_map(Map::keys).cloned().collect();
    // Whoever sends more fields than any body has does not have all of them looked at in turn.
    for name in names.iter().filter(|_| names.len() <= FIELDS_TRIED_MAX) {
        let taken = fields[name].take();
        fields.as_object_mut().map(|fields| fields.remove(name));
        if told(&fields).as_deref() != Some(error) {
            return refused.with_message(format!("`{name}`: {error}"));
        }
        fields[name] = taken;
    }
    refused.with_message(error)
}
