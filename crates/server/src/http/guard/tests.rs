//! Tests of the order of checks, and of the headers of every answer.

use std::num::NonZeroU32;

use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse as _;
use axum::routing::{get, post};
use futures_util::FutureExt as _;
use http_body_util::BodyExt as _;
use tower_service::Service as _;

use super::*;
use crate::error::ErrorResponse;
use crate::http::connection_state::Peer;
use crate::http::owner_shares::ShareLimits;
use crate::http::request::Path;

const TOKEN: &str = "correct-horse-battery";

fn router(requests_a_second_max: Option<NonZeroU32>) -> Router {
    let rules = GuardConfig {
        hosts: AllowedHosts::default(),
        origins: vec!["http://localhost:3000".parse().unwrap()],
        token: BearerToken::new(TOKEN).unwrap(),
        behind_proxy: false,
        requests_per_second_max: requests_a_second_max,
    };
    let shares = OwnerShares::new(ShareLimits::new(8));
    let guard = Arc::new(RequestGuard::new(rules, Metrics::new(), None, None, shares));
    Router::new()
        .route("/health", get(async || "ok"))
        .route("/echo", post(async |body: String| body))
        .route("/refused", get(async || ErrorResponse::from(ErrorCode::UntrustedWorkspace)))
        .route("/named/{name}", get(async |Path(name): Path<String>| name))
        .fallback(async || ErrorResponse::from(ErrorCode::RouteNotFound).into_response())
        .layer(from_fn_with_state(guard, guard_request))
}

fn request(method: &str, path: &str, headers: &[(HeaderName, &str)]) -> Request {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(name, *value);
    }
    request.body(Body::from("body")).unwrap()
}

async fn ask(router: &Router, request: Request) -> (StatusCode, HeaderMap, String) {
    let response = router.clone().call(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    (parts.status, parts.headers, String::from_utf8(bytes.to_vec()).unwrap())
}

const OURS: (HeaderName, &str) = (HOST, "localhost:4170");
const ALLOWED: (HeaderName, &str) = (ORIGIN, "http://localhost:3000");
const FOREIGN: (HeaderName, &str) = (ORIGIN, "http://evil.example");
const GOOD: (HeaderName, &str) = (AUTHORIZATION, "Bearer correct-horse-battery");
const BAD: (HeaderName, &str) = (AUTHORIZATION, "Bearer incorrect-horse-battery");

#[tokio::test]
async fn the_first_failed_check_is_the_answer() {
    async fn check(headers: &[(HeaderName, &str)], expected: &str) {
        let (status, _, body) = ask(&router(None), request("POST", "/echo", headers)).await;
        let body: serde_json::Value = serde_json::from_str(&body).unwrap_or_else(|_| body.into());
        let answer = format!("{status} {}", body["code"].as_str().or(body.as_str()).unwrap());
        assert_eq!(answer, expected, "{headers:?}");
    }
    let evil = (HOST, "evil.example");
    check(&[evil.clone(), FOREIGN, BAD], "403 Forbidden host_not_allowed").await;
    check(&[OURS, FOREIGN, BAD], "403 Forbidden origin_not_allowed").await;
    check(&[OURS, ALLOWED, BAD], "401 Unauthorized unauthorized").await;
    check(&[OURS, BAD], "401 Unauthorized unauthorized").await;
    check(&[OURS], "401 Unauthorized unauthorized").await;
    check(&[evil, GOOD], "403 Forbidden host_not_allowed").await;
    check(&[OURS, GOOD], "200 OK body").await;
    check(&[OURS, ALLOWED, GOOD], "200 OK body").await;
}

#[tokio::test]
async fn only_the_plain_health_check_needs_no_token() {
    let router = router(None);
    assert_eq!(ask(&router, request("GET", "/health", &[OURS])).await.0, StatusCode::OK);
    assert_eq!(ask(&router, request("HEAD", "/health", &[OURS])).await.0, StatusCode::OK);
    for (method, path) in [("POST", "/health"), ("GET", "/health/"), ("GET", "/nowhere")] {
        let (status, headers, _) = ask(&router, request(method, path, &[OURS])).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{method} {path}");
        assert_eq!(headers[WWW_AUTHENTICATE], "Bearer");
    }
    let evil = [(HOST, "evil.example")];
    assert_eq!(ask(&router, request("GET", "/health", &evil)).await.0, StatusCode::FORBIDDEN);
    for query in ["/health?deep=1", "/health?", "/health?%64eep=1"] {
        let (status, _, _) = ask(&router, request("GET", query, &[OURS])).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{query}");
    }
    let foreign = [OURS, FOREIGN];
    assert_eq!(ask(&router, request("GET", "/health", &foreign)).await.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn only_pages_of_allowed_origins_may_read_answers() {
    let router = router(None);
    let shown = |headers: &HeaderMap| {
        let origin = headers.get("access-control-allow-origin");
        origin.map(|origin| origin.to_str().unwrap().to_owned())
    };
    let (_, headers, _) = ask(&router, request("POST", "/echo", &[OURS, ALLOWED, GOOD])).await;
    assert_eq!(shown(&headers).as_deref(), Some("http://localhost:3000"));
    assert_eq!(headers[VARY], "origin");
    let (_, headers, _) = ask(&router, request("POST", "/echo", &[OURS, ALLOWED])).await;
    assert_eq!(shown(&headers).as_deref(), Some("http://localhost:3000"), "it may read why not");
    let (status, headers, _) =
        ask(&router, request("GET", "/refused", &[OURS, ALLOWED, GOOD])).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(shown(&headers).as_deref(), Some("http://localhost:3000"), "of a 403 too");
    let (_, headers, _) = ask(&router, request("POST", "/echo", &[OURS, FOREIGN, GOOD])).await;
    assert_eq!(shown(&headers), None);
    assert_eq!(headers[VARY], "origin");
    let (_, headers, _) = ask(&router, request("POST", "/echo", &[OURS, GOOD])).await;
    assert_eq!(shown(&headers), None);

    let wants = (HeaderName::from_static("access-control-request-method"), "POST");
    let asks = [OURS, ALLOWED, wants.clone()];
    let (status, headers, body) = ask(&router, request("OPTIONS", "/echo", &asks)).await;
    assert_eq!((status, body.as_str()), (StatusCode::NO_CONTENT, ""));
    assert_eq!(shown(&headers).as_deref(), Some("http://localhost:3000"));
    let asks = [OURS, FOREIGN, wants];
    let (status, headers, _) = ask(&router, request("OPTIONS", "/echo", &asks)).await;
    assert_eq!((status, shown(&headers)), (StatusCode::FORBIDDEN, None));
    let (status, _, _) = ask(&router, request("OPTIONS", "/echo", &[OURS, ALLOWED])).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_client_over_its_rate_limit_is_refused_and_others_are_not() {
    let router = router(NonZeroU32::new(3));
    let first = (HeaderName::from_static(protocol::id::CLIENT_ID_HEADER), "first");
    let second = (HeaderName::from_static(protocol::id::CLIENT_ID_HEADER_ALIAS), "second");
    let asks = [OURS, GOOD, first];
    for _ in 0..3 {
        assert_eq!(ask(&router, request("POST", "/echo", &asks)).await.0, StatusCode::OK);
    }
    let (status, headers, body) = ask(&router, request("POST", "/echo", &asks)).await;
    assert_eq!(
        (status, &headers[RETRY_AFTER]),
        (StatusCode::TOO_MANY_REQUESTS, &"1".parse().unwrap())
    );
    assert!(body.contains("\"rate_limited\""), "{body}");
    let asks = [OURS, GOOD, second];
    assert_eq!(ask(&router, request("POST", "/echo", &asks)).await.0, StatusCode::OK);
    // The token is checked before the rate limit, so a refusal says nothing about the token.
    let (status, _, _) = ask(&router, request("POST", "/echo", &[OURS, BAD])).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    for _ in 0..9 {
        assert_eq!(ask(&router, request("GET", "/health", &[OURS])).await.0, StatusCode::OK);
    }
}

#[tokio::test]
async fn new_client_names_do_not_bypass_the_rate_limit_of_an_address() {
    let router = router(NonZeroU32::new(2));
    let from = |number: u32, address: [u8; 4]| {
        let name = format!("client-{number}");
        let named = (HeaderName::from_static(protocol::id::CLIENT_ID_HEADER), name.as_str());
        let mut request = request("POST", "/echo", &[OURS, GOOD, named]);
        request.extensions_mut().insert(ConnectionState::exempt(Peer::Address(address.into())));
        request
    };
    let many = 2 * crate::limits::RATED_CLIENTS_PER_ADDRESS_MAX;
    // The bucket may have been refilled a little meanwhile, but not to twice its size.
    let mut answers = Vec::new();
    for number in 0..2 * many {
        answers.push(ask(&router, from(number, [127, 0, 0, 1])).await.0);
    }
    let first = usize::try_from(many).unwrap();
    assert_eq!(answers[..first], vec![StatusCode::OK; first]);
    assert!(answers.contains(&StatusCode::TOO_MANY_REQUESTS));
    let other = ask(&router, from(0, [127, 0, 0, 2])).await.0;
    assert_eq!(other, StatusCode::OK, "another address has a bucket of its own");
}

#[tokio::test]
async fn a_path_that_cannot_be_decoded_is_answered_with_a_json_error() {
    let router = router(None);
    let (status, _, body) = ask(&router, request("GET", "/named/%C3%A4", &[OURS, GOOD])).await;
    assert_eq!((status, body.as_str()), (StatusCode::OK, "ä"));
    for path in ["/named/%FF", "/named/%C3%28", "/named/a%ED%A0%80"] {
        let (status, _, body) = ask(&router, request("GET", path, &[OURS, GOOD])).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{path}");
        assert!(body.contains("\"code\":\"invalid_path\""), "{path}: {body}");
    }
}

#[tokio::test]
async fn an_answer_has_the_request_id_of_the_caller_or_a_new_one() {
    let router = router(None);
    let with_id = |id: &'static str| [OURS, (REQUEST_ID, id)];
    let (_, headers, _) = ask(&router, request("GET", "/health", &with_id("mine-7"))).await;
    assert_eq!(headers[REQUEST_ID], "mine-7");
    for invalid in ["", "not one", "{}"] {
        let (_, headers, _) = ask(&router, request("GET", "/health", &with_id(invalid))).await;
        assert!(is_client_id(headers[REQUEST_ID].to_str().unwrap()), "{headers:?}");
    }
    let (_, headers, _) = ask(&router, request("GET", "/health", &[OURS])).await;
    assert_eq!(headers[CACHE_CONTROL], "no-store");
    assert_eq!(headers[X_CONTENT_TYPE_OPTIONS], "nosniff");
}

#[tokio::test]
async fn a_request_runs_to_its_end_after_its_connection_is_closed() {
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    let (end, ended) = tokio::sync::oneshot::channel();
    let work = async move {
        gone.await.unwrap();
        end.send(()).unwrap();
        StatusCode::OK.into_response()
    };
    assert!(run_to_completion(work).now_or_never().is_none(), "the connection is closed");
    go.send(()).unwrap();
    ended.await.unwrap();
}
