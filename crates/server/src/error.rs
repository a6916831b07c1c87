//! Conversion of errors into answers: over HTTP a status with a JSON body, over MCP a JSON-RPC error.
//!
//! A refusal, which the caller can correct, is answered with its message. A fault of the machine is answered only
//! with the meaning of its code, because its causes name local folders; the log gets the whole chain.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::http::header::{CONNECTION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use engine::{BackendError, ContextFileError, StateError, StoreError, SubmitError, TaskKind};
use memory::command::CommandError;
use memory::error_code::MemoryErrorCode;
use memory::feature::Feature;
use protocol::error::{ErrorBody, ErrorCode};
use rmcp::ErrorData;
use serde_json::{Value, json};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder};
use utoipa::{IntoResponses, ToSchema as _};

use crate::error_chain;
use crate::limits::HTTP_RETRY_AFTER_SECONDS;

/// An error answer of HTTP: status, code, message and facts. Boxed, so that a `Result` of it stays small.
#[derive(Debug)]
pub(crate) struct ErrorResponse(Box<Parts>);

#[derive(Debug)]
struct Parts {
    body: ErrorBody,
    headers: HeaderMap,
    /// The status, if it is not that of the code.
    status: Option<StatusCode>,
}

impl ErrorResponse {
    /// Sets `Retry-After`, in seconds.
    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.0.headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        self
    }

    /// Sets `WWW-Authenticate: Bearer`.
    pub(crate) fn with_challenge(mut self) -> Self {
        self.0.headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        self
    }

    /// Closes the connection after this answer.
    pub(crate) fn close_connection(mut self) -> Self {
        self.0.headers.insert(CONNECTION, HeaderValue::from_static("close"));
        self
    }

    /// Replaces the status of the code.
    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.0.status = Some(status);
        self
    }

    /// Returns the code of the error.
    pub(crate) fn code(&self) -> ErrorCode {
        self.0.body.code
    }

    /// Replaces the message of the code.
    pub(crate) fn with_message(mut self, message: impl Into<String>) -> Self {
        self.0.body.error = message.into();
        self
    }

    /// Adds a fact: a field beside `code` and `error` in the body.
    pub(crate) fn with_fact(mut self, name: &str, fact: impl Into<Value>) -> Self {
        self.0.body.facts.insert(name.to_owned(), fact.into());
        self
    }

    /// Returns an `invalid_arguments` error with this message.
    pub(crate) fn invalid_arguments(message: impl Into<String>) -> Self {
        Self::from(ErrorCode::InvalidArguments).with_message(message)
    }

    /// Returns the error for a feature that is disabled.
    pub(crate) fn feature_disabled(feature: Feature) -> Self {
        CommandError::FeatureDisabled { feature }.into()
    }

    /// Logs a fault and returns an error that has only its code.
    pub(crate) fn failure(
        error: &(dyn std::error::Error + 'static),
        code: MemoryErrorCode,
    ) -> Self {
        log_failure("a request", error, code);
        let response = Self::from(wire_code(code));
        match code {
            MemoryErrorCode::StorageUnavailable | MemoryErrorCode::Locked => {
                response.retry_after(HTTP_RETRY_AFTER_SECONDS)
            }
            _ => response,
        }
    }
}

impl From<ErrorBody> for ErrorResponse {
    fn from(body: ErrorBody) -> Self {
        Self(Box::new(Parts { body, headers: HeaderMap::new(), status: None }))
    }
}

impl From<ErrorCode> for ErrorResponse {
    fn from(code: ErrorCode) -> Self {
        ErrorBody::new(code).into()
    }
}

impl IntoResponse for ErrorResponse {
    fn into_response(self) -> Response {
        let Parts { body, headers, status } = *self.0;
        let status = status.or_else(|| StatusCode::from_u16(body.code.status()).ok());
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(body)).into_response();
        response.headers_mut().extend(headers);
        response
    }
}

impl IntoResponses for ErrorResponse {
    fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        let response = |description: &str| {
            let schema = Ref::from_schema_name(ErrorBody::name());
            let content = ContentBuilder::new().schema(Some(schema)).build();
            let response = ResponseBuilder::new().description(description);
            response.content("application/json", content).build().into()
        };
        BTreeMap::from([
            ("4XX".to_owned(), response("The request was refused; the body says why")),
            ("5XX".to_owned(), response("The daemon failed; the body says why")),
        ])
    }
}

impl From<CommandError> for ErrorResponse {
    fn from(refusal: CommandError) -> Self {
        let response = Self::from(wire_code(refusal.code())).with_message(refusal.to_string());
        match refusal {
            CommandError::Conflict { current: Some(revision), .. } => {
                response.with_fact("revision", revision.to_string())
            }
            CommandError::FeatureDisabled { feature } => {
                response.with_fact("feature", feature.as_ref())
            }
            CommandError::Screened { rule, line, .. } => {
                response.with_fact("rule", rule).with_fact("line", line)
            }
            _ => response,
        }
    }
}

impl From<StoreError> for ErrorResponse {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Refused(refusal) => refusal.into(),
            StoreError::UndoBlocked(ref blocked) => {
                let blocked: Vec<_> = blocked
                    .iter()
                    .map(|file| {
                        json!({ "path": file.path.to_string(), "why": file.reason, "diff": file.diff })
                    })
                    .collect();
                // 409, not the 412 of a conflict: the request named no precondition that could have failed.
                Self::from(wire_code(error.code()))
                    .with_status(StatusCode::CONFLICT)
                    .with_message(error.to_string())
                    .with_fact("blocked", blocked)
            }
            StoreError::NoSuchChange(_)
            | StoreError::UndoElsewhere(_)
            | StoreError::NothingToUndo(_) => {
                Self::from(wire_code(error.code())).with_message(error.to_string())
            }
            StoreError::Backend { .. } | StoreError::State(_) => {
                Self::failure(&error, error.code())
            }
        }
    }
}

impl From<ContextFileError> for ErrorResponse {
    fn from(error: ContextFileError) -> Self {
        match error {
            ContextFileError::Screened(refusal) => refusal.into(),
            ContextFileError::State(error) => error.into(),
            ContextFileError::Backend { ref source, .. } if is_failure(source) => {
                Self::failure(&error, error.code())
            }
            _ => {
                let response =
                    Self::from(wire_code(error.code())).with_message(error_chain(&error));
                match error {
                    ContextFileError::Conflict { current: Some(revision), .. } => {
                        response.with_fact("revision", revision.to_string())
                    }
                    _ => response,
                }
            }
        }
    }
}

impl From<StateError> for ErrorResponse {
    fn from(error: StateError) -> Self {
        Self::failure(&error, error.code())
    }
}

impl From<QueryRejection> for ErrorResponse {
    fn from(rejected: QueryRejection) -> Self {
        Self::invalid_arguments(rejected.body_text())
    }
}

/// Returns the wire's code for a memory error code.
pub(crate) const fn wire_code(code: MemoryErrorCode) -> ErrorCode {
    match code {
        MemoryErrorCode::InvalidPath => ErrorCode::InvalidPath,
        MemoryErrorCode::InvalidArguments => ErrorCode::InvalidArguments,
        MemoryErrorCode::ScopeUnavailable => ErrorCode::ScopeUnavailable,
        MemoryErrorCode::ReadOnly => ErrorCode::ReadOnly,
        MemoryErrorCode::NotFound => ErrorCode::NotFound,
        MemoryErrorCode::AlreadyExists => ErrorCode::AlreadyExists,
        MemoryErrorCode::NotAFile => ErrorCode::NotAFile,
        MemoryErrorCode::NotText => ErrorCode::NotText,
        MemoryErrorCode::TooLarge => ErrorCode::TooLarge,
        MemoryErrorCode::ScopeFull => ErrorCode::ScopeFull,
        MemoryErrorCode::TextNotFound => ErrorCode::TextNotFound,
        MemoryErrorCode::TextNotUnique => ErrorCode::TextNotUnique,
        MemoryErrorCode::InvalidRange => ErrorCode::InvalidRange,
        MemoryErrorCode::Conflict => ErrorCode::Conflict,
        MemoryErrorCode::Screened => ErrorCode::Screened,
        MemoryErrorCode::EscapesRoot => ErrorCode::EscapesRoot,
        MemoryErrorCode::StorageFull => ErrorCode::StorageFull,
        MemoryErrorCode::StorageFailed => ErrorCode::StorageFailed,
        MemoryErrorCode::StorageUnavailable => ErrorCode::StorageUnavailable,
        MemoryErrorCode::Locked => ErrorCode::Locked,
        MemoryErrorCode::FeatureDisabled => ErrorCode::FeatureDisabled,
    }
}

/// Returns the wire's code for a task that is not accepted. A failed state has codes of its own.
pub(crate) const fn submit_code(kind: TaskKind, error: &SubmitError) -> ErrorCode {
    match error {
        SubmitError::Untrusted => ErrorCode::UntrustedWorkspace,
        SubmitError::FeatureDisabled => ErrorCode::FeatureDisabled,
        SubmitError::Unavailable => ErrorCode::ManagedMemoryUnavailable,
        SubmitError::Full => ErrorCode::RememberQueueFull,
        SubmitError::Draining => ErrorCode::WorkspaceDraining,
        SubmitError::ProbeFailed | SubmitError::State(_) => match kind {
            TaskKind::Remember => ErrorCode::RememberFailed,
            TaskKind::Forget => ErrorCode::ForgetFailed,
            TaskKind::Dream => ErrorCode::DreamFailed,
            // Clients cannot submit reviews.
            TaskKind::Review => ErrorCode::Internal,
        },
    }
}

/// Checks whether an error is a fault of the machine, not a refusal.
const fn is_failure(error: &BackendError) -> bool {
    use BackendError as E;
    match error {
        E::Full(_) | E::Locked(_) | E::Unreachable(_) | E::StateUnreachable(_) | E::Io { .. } => {
            true
        }
        E::NotFound
        | E::Occupied
        | E::WrongKind
        | E::Changed
        | E::Escapes(_)
        | E::NotWritable(_) => false,
    }
}

/// Logs a fault with its causes. `what` names the operation.
pub(crate) fn log_failure(
    what: &str,
    error: &(dyn std::error::Error + 'static),
    code: MemoryErrorCode,
) {
    tracing::error!(what, %code, error = error_chain(error), "operation failed");
}

/// Returns the JSON-RPC error for a store error. A missing path has an error number of its own.
pub(crate) fn mcp_error(what: &str, error: StoreError) -> ErrorData {
    match error {
        StoreError::Refused(refusal) if refusal.code() == MemoryErrorCode::NotFound => {
            ErrorData::resource_not_found(refusal.to_string(), Some(mcp_data(refusal.code())))
        }
        StoreError::Refused(refusal) => mcp_refusal(&refusal),
        error => {
            let code = error.code();
            log_failure(what, &error, code);
            ErrorData::internal_error(code.meaning(), Some(mcp_data(code)))
        }
    }
}

/// Returns the JSON-RPC error for a refusal: invalid parameters.
pub(crate) fn mcp_refusal(refusal: &CommandError) -> ErrorData {
    ErrorData::invalid_params(refusal.to_string(), Some(mcp_data(refusal.code())))
}

fn mcp_data(code: MemoryErrorCode) -> Value {
    json!({ "code": code.as_ref() })
}
