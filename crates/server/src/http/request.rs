//! Extractors for the parts of a request that several routes read: path, query, page cursor and client name.
//!
//! They exist so that a malformed part is answered with the daemon's own error body, not with axum's text.

use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use engine::Memories;
use memory::command::CommandError;
use memory::path::MemoryPath;
use protocol::error::ErrorCode;
use protocol::id::{CLIENT_ID_HEADER, CLIENT_ID_HEADER_ALIAS};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::IntoParams;

use crate::error::ErrorResponse;

/// The parameters of a path, decoded. A path that cannot be decoded is an `invalid_path` error.
#[derive(Debug)]
pub(super) struct Path<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ErrorResponse> {
        match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(parameters)) => Ok(Self(parameters)),
            Err(rejected) => {
                Err(ErrorResponse::from(ErrorCode::InvalidPath).with_message(rejected.body_text()))
            }
        }
    }
}

/// The query of a request, or the reason why it cannot be parsed.
pub(super) type QueryResult<T> = Result<Query<T>, QueryRejection>;

/// A query that names a workspace.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct WorkspaceQuery {
    /// The id of the workspace. The default is the first one.
    pub(super) workspace: Option<String>,
}

/// Parses a page cursor: the number of the last item of the previous page.
pub(super) fn page_start(cursor: Option<&str>) -> Result<Option<i64>, ErrorResponse> {
    let read = cursor.map(str::parse).transpose();
    read.map_err(|_| {
        ErrorResponse::invalid_arguments(
            "invalid cursor; send the `nextCursor` of the previous page",
        )
    })
}

/// Parses a memory path, such as `/memories/global/prefs.md`.
pub(super) fn memory_path(memories: &Memories, text: &str) -> Result<MemoryPath, ErrorResponse> {
    MemoryPath::parse(text, memories.layout()).map_err(|error| CommandError::from(error).into())
}

/// The headers with the name of a client, in order of precedence.
static CLIENT_IDS: [HeaderName; 2] =
    [HeaderName::from_static(CLIENT_ID_HEADER), HeaderName::from_static(CLIENT_ID_HEADER_ALIAS)];

/// Returns the name that a client sends; an empty header counts as absent.
pub(super) fn client_name(headers: &HeaderMap) -> Option<&HeaderValue> {
    CLIENT_IDS.iter().filter_map(|name| headers.get(name)).find(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_name_does_not_hide_the_other() {
        let (first, alias) = (CLIENT_ID_HEADER, CLIENT_ID_HEADER_ALIAS);
        let check = |named: &[(&'static str, &'static str)], expected: Option<&str>| {
            let mut headers = HeaderMap::new();
            for (name, value) in named {
                headers.append(*name, HeaderValue::from_static(value));
            }
            let found = client_name(&headers).map(|name| name.to_str().unwrap());
            assert_eq!(found, expected, "{named:?}");
        };
        check(&[], None);
        check(&[(first, "a")], Some("a"));
        check(&[(alias, "b")], Some("b"));
        check(&[(first, "a"), (alias, "b")], Some("a"));
        check(&[(first, ""), (alias, "b")], Some("b"));
        check(&[(first, ""), (alias, "")], None);
    }
}
