//! Readers of request bodies, bounded in size and time.
//!
//! They return raw bytes, the fields of a JSON object, or a deserialized value. An error of a value names the field
//! that is wrong. The shared budget over all bodies is in `body_budget.rs`.

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

/// Reads a body; returns its bytes and the rest of the request.
pub(super) async fn with_parts(request: Request) -> Result<(Parts, Bytes), ErrorResponse> {
    let (parts, body) = request.into_parts();
    let length = parts.headers.get(CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length > HTTP_BODY_BYTES_MAX) {
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
        // The connection broke in the middle of the body, so the client most likely never reads this answer.
        Ok(Err(_broken)) => Err(ErrorCode::InvalidJson.into()),
    }
}

/// Returns the first error of type `E` in a chain of causes.
pub(super) fn find_cause<'a, E: Error + 'static>(
    error: &'a (dyn Error + 'static),
) -> Option<&'a E> {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    causes.find_map(|error| error.downcast_ref())
}

fn too_large() -> ErrorResponse {
    let body = ErrorBody::new(ErrorCode::BodyTooLarge).with_fact("maxBytes", HTTP_BODY_BYTES_MAX);
    // The unread rest of the body would be parsed as the next request.
    ErrorResponse::from(body).close_connection()
}

/// Reads the fields of a JSON object. An empty body has no fields.
pub(super) async fn fields(request: Request) -> Result<Map<String, Value>, ErrorResponse> {
    let bytes = bytes(request).await?;
    if bytes.is_empty() {
        return Ok(Map::new());
    }
    // The parser bounds the nesting depth, and takes the last of two fields with one name. Invalid UTF-8 is refused,
    // because a lossy conversion would change the text without notice.
    let text = std::str::from_utf8(&bytes).map_err(|_| ErrorCode::InvalidJson)?;
    let mended = memory::json::mend(text.as_bytes());
    serde_json::from_slice(&mended).map_err(|_| ErrorCode::InvalidJson.into())
}

/// The most fields of a body in which the invalid one is searched.
const FIELDS_TRIED_MAX: usize = 16;

/// Deserializes a body. The error names the invalid field.
pub(super) async fn value<T: DeserializeOwned>(request: Request) -> Result<T, ErrorResponse> {
    let fields = Value::Object(fields(request).await?);
    T::deserialize(&fields).map_err(|error| {
        let error_of = |fields: &Value| T::deserialize(fields).err().map(|error| error.to_string());
        invalid_field_error(&error.to_string(), fields, &error_of)
    })
}

/// Returns an error that names the invalid field. The message of the parser names only a missing field. A field of the
/// wrong type is found by removing one field after another: without the invalid one, the message changes.
fn invalid_field_error(
    error: &str,
    mut fields: Value,
    error_of: &dyn Fn(&Value) -> Option<String>,
) -> ErrorResponse {
    let refused = ErrorResponse::from(ErrorCode::InvalidArguments);
    let names: Vec<_> = fields.as_object().into_iter().flat_map(Map::keys).cloned().collect();
    // No valid body has more fields, and the search costs a parse per field.
    for name in names.iter().filter(|_| names.len() <= FIELDS_TRIED_MAX) {
        let value = fields[name].take();
        fields.as_object_mut().map(|fields| fields.remove(name));
        if error_of(&fields).as_deref() != Some(error) {
            return refused.with_message(format!("`{name}`: {error}"));
        }
        fields[name] = value;
    }
    refused.with_message(error)
}
