//! The `Accept` header of streamable HTTP: an answer as JSON, as an event stream, or either.
//!
//! The protocol requires clients to accept both forms, and the protocol library refuses all others. Real clients send
//! one form, a wildcard, or no header. So the header passed to the library always names both, and the answer is
//! converted to the form that the client accepts. An endless stream cannot be converted, and is refused as before.

use axum::body::Body;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use http_body_util::BodyExt as _;
use rmcp::model::{ErrorData, JsonRpcMessage, ServerJsonRpcMessage};
use serde_json::Value;

use super::stdio::InvalidMessage;

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");

const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

/// The request whose answer is an endless stream.
const ENDLESS: &str = "subscriptions/listen";

/// The forms that a client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AcceptedForms {
    json: bool,
    events: bool,
}

impl AcceptedForms {
    /// Parses the `Accept` headers of a request. Without one, both forms are accepted.
    pub(super) fn from_headers(headers: &HeaderMap) -> Self {
        Self {
            json: accepts(headers, "application", "json"),
            events: accepts(headers, "text", "event-stream"),
        }
    }

    /// Replaces the `Accept` header by the one that the protocol library requires, if the answer can be converted to a
    /// form that the client accepts.
    pub(super) fn widen_accept(self, method: &Method, rpc: Option<&str>, headers: &mut HeaderMap) {
        let can_be_served = if *method == Method::POST && rpc != Some(ENDLESS) {
            self.json || self.events
        } else {
            self.events
        };
        if can_be_served {
            headers.insert(ACCEPT, BOTH);
        }
    }

    /// Converts an answer to a form that the client accepts. For a client that accepts only JSON, a stream is read to
    /// its end, and its notifications are dropped, because a JSON answer is a single message.
    pub(super) async fn into_accepted_form(self, response: Response<Body>) -> Response<Body> {
        if !response.status().is_success() {
            return response;
        }
        if is_stream(&response) && !self.events {
            return first_answer(response).await;
        }
        if response.headers().get(CONTENT_TYPE) == Some(&JSON) && !self.json {
            return as_event(response).await;
        }
        response
    }
}

/// Checks whether an answer is an event stream.
pub(crate) fn is_stream(response: &Response<Body>) -> bool {
    response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream")
}

/// Returns the HTTP answer for an invalid message.
pub(super) fn error_response(
    status: StatusCode,
    InvalidMessage { id, error }: InvalidMessage,
) -> Response<Body> {
    let message: ServerJsonRpcMessage = JsonRpcMessage::error(error, id);
    // Cannot fail: the message has only strings and numbers.
    let mut response = Response::new(Body::from(serde_json::to_vec(&message).unwrap_or_default()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// Reads a stream and returns the answer in it, as JSON.
async fn first_answer(response: Response<Body>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    let bytes = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let Some(answer) = text.split("\n\n").filter_map(data).find(|data| is_answer(data)) else {
        let error = ErrorData::internal_error("the stream ended without an answer", None);
        return error_response(StatusCode::INTERNAL_SERVER_ERROR, error.into());
    };
    parts.headers.insert(CONTENT_TYPE, JSON);
    Response::from_parts(parts, Body::from(answer))
}

/// Returns the data of an event, if any.
fn data(event: &str) -> Option<String> {
    let lines: Vec<_> = event.lines().filter_map(|line| line.strip_prefix("data:")).collect();
    let data = lines.iter().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>();
    (!data.is_empty()).then(|| data.join("\n"))
}

fn is_answer(data: &str) -> bool {
    let message: Result<Value, _> = serde_json::from_str(data);
    message.is_ok_and(|it| it.get("result").is_some() || it.get("error").is_some())
}

/// Converts a JSON answer to a stream of one event.
async fn as_event(response: Response<Body>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    let Ok(body) = body.collect().await else {
        let error = ErrorData::internal_error("the answer ended early", None);
        return error_response(StatusCode::INTERNAL_SERVER_ERROR, error.into());
    };
    let bytes = body.to_bytes();
    // Encoded JSON has no line break.
    let event = [b"event: message\ndata: ", &bytes[..], b"\n\n"].concat();
    parts.headers.insert(CONTENT_TYPE, EVENTS);
    parts.headers.remove(axum::http::header::CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(event))
}

/// Checks whether headers accept a media type, by the most specific range that covers it.
fn accepts(headers: &HeaderMap, kind: &str, subtype: &str) -> bool {
    let mut has_range = false;
    let mut best: Option<(u8, bool)> = None;
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    for range in values.flat_map(|value| value.split(',')).filter(|range| !range.trim().is_empty())
    {
        has_range = true;
        let (media, parameters) = range.split_once(';').unwrap_or((range, ""));
        let Some(specificity) = specificity(media.trim(), kind, subtype) else { continue };
        if best.is_none_or(|(so_far, _)| specificity > so_far) {
            best = Some((specificity, !is_excluded(parameters)));
        }
    }
    !has_range || best.is_some_and(|(_, accepted)| accepted)
}

/// Returns the specificity of a range that covers a media type; `None` if it does not.
fn specificity(range: &str, kind: &str, subtype: &str) -> Option<u8> {
    match range.split_once('/')? {
        ("*", "*") => Some(0),
        (other, _) if !other.eq_ignore_ascii_case(kind) => None,
        (_, "*") => Some(1),
        (_, other) => other.eq_ignore_ascii_case(subtype).then_some(2),
    }
}

/// Checks whether the parameters of a range have the weight zero.
fn is_excluded(parameters: &str) -> bool {
    let weight = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("q").then(|| value.trim().parse::<f32>())
    });
    matches!(weight, Some(Ok(weight)) if weight <= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(accept: &[&'static str], json: bool, events: bool) {
        let mut headers = HeaderMap::new();
        for &value in accept {
            headers.append(ACCEPT, HeaderValue::from_static(value));
        }
        assert_eq!(
            AcceptedForms::from_headers(&headers),
            AcceptedForms { json, events },
            "{accept:?}"
        );
    }

    #[test]
    fn the_most_specific_range_decides() {
        check(&["application/json, text/event-stream"], true, true);
        check(&["application/json", "text/event-stream"], true, true);
        check(&[], true, true);
        check(&[""], true, true);
        check(&["*/*"], true, true);
        check(&["application/json"], true, false);
        check(&["Application/JSON; charset=utf-8"], true, false);
        check(&["text/event-stream"], false, true);
        check(&["text/*;q=0.5, application/*;q=0.1"], true, true);
        check(&["*/*, application/json;q=0"], false, true);
        check(&["text/event-stream;q=0.0,*/*"], true, false);
        check(&["text/html"], false, false);
        check(&["*/*;q=0"], false, false);
    }

    #[test]
    fn the_data_of_an_event_is_its_data_lines() {
        assert_eq!(data("id: 1\nevent: message\ndata: {\ndata:}").as_deref(), Some("{\n}"));
        assert_eq!(data(": heartbeat"), None);
    }
}
