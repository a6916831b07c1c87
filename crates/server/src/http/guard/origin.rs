//! The check of the `Origin` header, and the CORS headers of answers.
//!
//! A program that is not a browser sends no `Origin` and passes. A page is refused unless its origin is in the
//! list, compared byte for byte without wildcards or prefixes, or is the daemon's own page.

use std::fmt;
use std::str::FromStr;

use axum::extract::Request;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, HOST,
    ORIGIN,
};
use axum::http::uri::{Authority, Uri};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};

use super::host::has_valid_port;

/// The origin of a page: scheme, host, and port unless it is the scheme's default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(String);

/// A text that is not an origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an origin; write it as a browser sends it, like `http://localhost:3000`")]
pub struct BadOrigin(pub String);

impl FromStr for Origin {
    type Err = BadOrigin;

    fn from_str(text: &str) -> Result<Self, BadOrigin> {
        let bad = || BadOrigin(text.to_owned());
        let (scheme, rest) = text.split_once("://").ok_or_else(bad)?;
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_lowercase())
            && scheme
                .bytes()
                .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'+' | b'.'));
        let authority: Authority = rest.parse().map_err(|_| bad())?;
        let own_port = match scheme {
            "http" => Some(80),
            "https" => Some(443),
            _ => None,
        };
        // A browser never sends such an origin, so the entry would allow nothing.
        let never_sent = rest.contains(['@', '*', '%'])
            || !has_valid_port(&authority)
            || rest.bytes().any(|byte| byte.is_ascii_uppercase())
            || (own_port.is_some() && authority.port_u16() == own_port);
        let is_origin = is_scheme && !authority.host().is_empty() && !never_sent;
        if is_origin { Ok(Self(text.to_owned())) } else { Err(bad()) }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Checks whether a request has no origin, or an allowed one.
pub(super) fn allows(allowed: &[Origin], headers: &HeaderMap) -> bool {
    !headers.contains_key(ORIGIN) || allowed_origin(allowed, headers).is_some()
}

/// Checks whether a request comes from the daemon's own page: its origin is the host of the request. The host was
/// checked before. Behind a TLS proxy the browser sees another scheme.
pub(super) fn is_own(uri: &Uri, headers: &HeaderMap, behind_proxy: bool) -> bool {
    let mut origins = headers.get_all(ORIGIN).iter();
    let (Some(origin), None) = (origins.next(), origins.next()) else { return false };
    let host = uri.authority().map(Authority::as_str);
    let host = host.or_else(|| headers.get(HOST)?.to_str().ok());
    let origin = origin.to_str().ok().and_then(|origin| {
        let secure = || origin.strip_prefix("https://").filter(|_| behind_proxy);
        origin.strip_prefix("http://").or_else(secure)
    });
    origin.is_some() && origin == host
}

/// Returns the origin of a request, if it has exactly one and it is allowed.
pub(super) fn allowed_origin<'a>(
    allowed: &[Origin],
    headers: &'a HeaderMap,
) -> Option<&'a HeaderValue> {
    let mut origins = headers.get_all(ORIGIN).iter();
    let (Some(origin), None) = (origins.next(), origins.next()) else { return None };
    allowed.iter().any(|entry| entry.0.as_bytes() == origin.as_bytes()).then_some(origin)
}

/// Checks whether a request is a CORS preflight. A browser sends no token with it.
pub(super) fn is_preflight<B>(request: &Request<B>) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(ORIGIN)
        && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Returns the answer to a preflight.
pub(super) fn preflight() -> Response {
    let permitted = [
        (ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, PUT, DELETE"),
        (
            ACCESS_CONTROL_ALLOW_HEADERS,
            "authorization, content-type, if-match, if-none-match, last-event-id, mcp-method, mcp-name, \
             mcp-protocol-version, mcp-session-id, x-qwen-client-id, x-lukasa-agent-class, \
             x-lukasa-client-id, x-qwen-event-epoch, x-request-id",
        ),
        (ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    (StatusCode::NO_CONTENT, permitted).into_response()
}

/// Adds the headers that let the page of this origin read an answer.
pub(super) fn add_cors_headers(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    let exposed = HeaderValue::from_static(
        "etag, mcp-session-id, retry-after, x-lukasa-event-cursor, x-qwen-event-epoch, x-request-id",
    );
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_origins_as_browsers_send_them_are_valid() {
        for text in [
            "http://localhost:3000",
            "https://app.example",
            "https://app.example:8443",
            "http://127.0.0.1:5173",
            "http://[::1]:5173",
            "chrome-extension://abcdefgh",
            "tauri://localhost",
        ] {
            assert_eq!(text.parse(), Ok(Origin(text.to_owned())));
        }
        for text in [
            "",
            "*",
            "null",
            "localhost:3000",
            "http://",
            "http://*.example",
            "http://app.example/",
            "http://app.example/path",
            "http://app.example?x",
            "http://me@app.example",
            "http://App.example",
            "HTTP://app.example",
            "http://app.example:80",
            "https://app.example:443",
            "http://app.example:",
            "http://app.example:port",
            "http://app.example http://other.example",
        ] {
            assert_eq!(text.parse::<Origin>(), Err(BadOrigin(text.to_owned())));
        }
    }

    #[test]
    fn only_an_exactly_equal_origin_is_allowed() {
        fn check(origins: &[&str], allowed: bool) {
            let list = ["http://localhost:3000".parse().unwrap()];
            let mut headers = HeaderMap::new();
            for origin in origins {
                headers.append(ORIGIN, origin.parse().unwrap());
            }
            assert_eq!(allows(&list, &headers), allowed, "{origins:?}");
        }
        check(&[], true);
        check(&["http://localhost:3000"], true);
        for origin in [
            "",
            "null",
            "http://localhost",
            "http://localhost:30000",
            "https://localhost:3000",
            "http://localhost:3000/",
            "http://LOCALHOST:3000",
        ] {
            check(&[origin], false);
        }
        check(&["http://localhost:3000", "http://localhost:3000"], false);
    }
}
