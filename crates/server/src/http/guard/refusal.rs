//! The end of answers whose token is refused while they are sent: streams of events, and archives.
//!
//! A token is checked when a request arrives. An answer that takes long would outlive the revocation of its token, so the
//! token is checked again every few seconds. An answer whose bytes are all in memory already is not stopped.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::unfold;
use hyper::body::Body as _;
use protocol::error::ErrorCode;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::{RequestGuard, TokenNeed};
use crate::limits::STREAM_TOKEN_INTERVAL;
use crate::mcp::is_stream;

/// The error of an answer that breaks off, so that its reader does not take it for complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the token of the request is no longer valid")]
struct TokenRefused;

/// Ends the body of an answer as soon as `refused` completes. A stream of events ends as it does otherwise, any other body
/// with an error.
fn end_when(response: Response, refused: BoxFuture<'static, ()>) -> Response {
    let is_event_stream = is_stream(&response);
    response.map(|body| {
        let parts = Some((body.into_data_stream(), refused));
        Body::from_stream(unfold(parts, move |parts| async move {
            let (mut data, mut refused) = parts?;
            tokio::select! {
                biased;
                () = refused.as_mut() => {
                    (!is_event_stream).then_some((Err(axum::Error::new(TokenRefused)), None))
                }
                next = data.next() => next.map(|bytes: Result<Bytes, _>| (bytes, Some((data, refused)))),
            }
        }))
    })
}

impl RequestGuard {
    /// Ends an answer that is being sent when the token of its request is refused.
    pub(super) fn end_when_refused(
        self: &Arc<Self>,
        need: TokenNeed,
        response: Response,
    ) -> Response {
        let is_whole = response.body().size_hint().exact().is_some();
        if is_whole {
            return response;
        }
        end_when(response, Box::pin(Arc::clone(self).refusal(need)))
    }

    /// Completes when a token is refused. While tokens cannot be looked up, none is.
    async fn refusal(self: Arc<Self>, need: TokenNeed) {
        let mut ticks = interval_at(Instant::now() + STREAM_TOKEN_INTERVAL, STREAM_TOKEN_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let caller = self.caller(need.clone()).await;
            if caller.is_err_and(|error| error.code() == ErrorCode::Unauthorized) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU8, Ordering};
    use std::time::Duration;

    use async_trait::async_trait;
    use axum::http::header::CONTENT_TYPE;
    use engine::{StateError, Workspace};
    use futures_util::stream::pending;
    use http_body_util::BodyExt as _;
    use memory::owner::{NewToken, OwnerSize, Role, StoredToken, TokenOptions, TokenRights};
    use tokio::time::timeout;

    use super::*;
    use crate::http::guard::{AllowedHosts, BearerToken, GuardConfig, OwnerTokens};
    use crate::http::metrics::Metrics;
    use crate::http::owner_directory::{OpenOwnerError, OpenedOwner, OwnerDirectory};
    use crate::http::owner_shares::{OwnerShares, ShareLimits};
    use crate::limits::OWNER_TOKEN_AGE_MAX;

    const VALID: u8 = 0;
    const REVOKED: u8 = 1;
    const UNREACHABLE: u8 = 2;

    /// A directory whose every token has this state.
    #[derive(Debug)]
    struct Tokens(AtomicU8);

    #[async_trait]
    impl OwnerDirectory for Tokens {
        async fn rights(&self, _: &str) -> Result<Option<TokenRights>, StateError> {
            match self.0.load(Ordering::Relaxed) {
                VALID => Ok(Some(TokenRights { owner: "a".to_owned(), role: Role::Read })),
                REVOKED => Ok(None),
                _ => Err(StateError::Unreachable {
                    operation: "look up a token",
                    database: "db".to_owned(),
                    source: "down".into(),
                }),
            }
        }

        async fn open(&self, _: &str, _: &[Workspace]) -> Result<OpenedOwner, OpenOwnerError> {
            unreachable!()
        }

        async fn create_token(
            &self,
            _: &str,
            _: TokenOptions<'_>,
        ) -> Result<Option<NewToken>, StateError> {
            unreachable!()
        }

        async fn tokens(&self, _: &str) -> Result<Vec<StoredToken>, StateError> {
            unreachable!()
        }

        async fn revoke_token(&self, _: &str, _: &str) -> Result<bool, StateError> {
            unreachable!()
        }

        async fn sizes(&self, _: &[String]) -> Result<Vec<OwnerSize>, StateError> {
            unreachable!()
        }

        async fn unfinished_lanes(&self) -> Result<Vec<(String, String)>, StateError> {
            unreachable!()
        }
    }

    /// Returns the answer with its token checked by a guard that knows these tokens.
    fn checked(tokens: &Arc<Tokens>, response: Response) -> Response {
        let config = GuardConfig {
            hosts: AllowedHosts::default(),
            origins: Vec::new(),
            token: BearerToken::new("the-token-of-the-operator").unwrap(),
            behind_proxy: false,
            requests_per_second_max: None,
        };
        let owner_tokens = OwnerTokens::new(Arc::clone(tokens) as _, None);
        let shares = OwnerShares::new(ShareLimits::new(8));
        let guard = RequestGuard::new(config, Metrics::new(), None, Some(owner_tokens), shares);
        let need = TokenNeed::Unknown { token: "lukasa_0".to_owned(), is_current: false };
        Arc::new(guard).end_when_refused(need, response)
    }

    /// An answer with a body that does not end.
    fn endless(kind: &'static str) -> Response {
        let mut response =
            Response::new(Body::from_stream(pending::<Result<Bytes, axum::Error>>()));
        response.headers_mut().insert(CONTENT_TYPE, kind.parse().unwrap());
        response
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_when_its_token_is_revoked_and_not_while_tokens_cannot_be_looked_up() {
        let tokens = Arc::new(Tokens(AtomicU8::new(VALID)));
        let mut stream =
            checked(&tokens, endless("text/event-stream")).into_body().into_data_stream();
        for state in [VALID, UNREACHABLE, VALID] {
            tokens.0.store(state, Ordering::Relaxed);
            let next = timeout(Duration::from_mins(1), stream.next()).await;
            assert!(next.is_err(), "{state}: {next:?}");
        }
        tokens.0.store(REVOKED, Ordering::Relaxed);
        let revoked = Instant::now();
        assert!(stream.next().await.is_none());
        let took = revoked.elapsed();
        assert!(took <= OWNER_TOKEN_AGE_MAX + STREAM_TOKEN_INTERVAL, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn another_answer_breaks_off_and_one_in_memory_is_sent_whole() {
        let tokens = Arc::new(Tokens(AtomicU8::new(REVOKED)));
        let error = checked(&tokens, endless("application/x-tar")).into_body().collect().await;
        assert_eq!(error.unwrap_err().to_string(), TokenRefused.to_string());
        let whole = checked(&tokens, Response::new(Body::from("text"))).into_body();
        assert_eq!(whole.size_hint().exact(), Some(4));
    }
}
