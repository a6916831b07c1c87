//! The error codes of the API, each with its HTTP status and a sentence.
//!
//! Every error response has the body [`ErrorBody`]: the sentence, the code, and fields that belong to the code. A code
//! never changes its meaning, so programs may rely on it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Declares the codes with their status and meaning.
macro_rules! codes {
    ($($variant:ident = $status:literal, $meaning:literal;)+) => {
        /// An error code of the API.
        #[derive(strum::AsRefStr, strum::Display, strum::EnumString, strum::IntoStaticStr)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[strum(serialize_all = "snake_case")]
        pub enum ErrorCode {
            $(#[doc = $meaning] $variant,)+
            /// A code that this version does not know.
            #[serde(other)]
            Unknown,
        }

        impl ErrorCode {
            /// Every known code, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Returns the HTTP status of the code.
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)+ Self::Unknown => 500 }
            }

            /// Returns the meaning of the code, in one or two sentences.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$variant => $meaning,)+
                    Self::Unknown => "This version does not know the code.",
                }
            }

            /// Parses a code; one of a later version becomes `Unknown`.
            pub fn read(word: &str) -> Self {
                word.parse().unwrap_or(Self::Unknown)
            }
        }
    };
}

codes! {
    // Checks before a request is routed.
    HostNotAllowed = 403,
        "The Host header is not accepted by this daemon. `lukasa serve --allow-host` adds one.";
    OriginNotAllowed = 403,
        "Pages of this origin may not call the daemon. `lukasa serve --allow-origin` lets them.";
    Unauthorized = 401,
        "The bearer token is missing or wrong. `lukasa token` prints it.";
    InsufficientRole = 403,
        "The role of the token does not include this. `requiredRole` names one that does.";
    RateLimited = 429,
        "This client sends too many requests. Try again after the time in Retry-After.";
    BodyTooLarge = 413,
        "The request body is too large.";
    BodyTimeout = 408,
        "The body did not arrive in time.";
    Overloaded = 503,
        "The daemon has no room for more request bodies. Try again after the time in Retry-After.";
    IdentityProviderUnavailable = 503,
        "The key of the token is not known, and the identity provider cannot be reached. Try again after the time in Retry-After.";
    InvalidJson = 400,
        "The body is not a JSON object.";
    RouteNotFound = 404,
        "No route has this path. `GET /openapi.json` lists all routes.";
    MethodNotAllowed = 405,
        "This path does not support the method. Allow lists the supported ones.";
    Degraded = 503,
        "Memories cannot be written, or their state cannot be used. `findings` lists the problems.";
    Internal = 500,
        "An internal error occurred. The log of the daemon has the cause.";

    // Workspaces, clients and sessions.
    UntrustedWorkspace = 403,
        "This workspace is not trusted.";
    WorkspaceNotFound = 404,
        "The daemon serves no workspace with this id.";
    WorkspaceMismatch = 400,
        "The daemon serves no workspace in this folder.";
    WorkspaceBusy = 409,
        "Tasks of the workspace wait or run. Let them end or cancel them, then try again.";
    WorkspaceDraining = 503,
        "The workspace is being shut down. Try again after the restart.";
    InvalidClientId = 400,
        "The client id is malformed, or not registered with this workspace. `POST /session` gives one.";
    SessionNotFound = 404,
        "There is no such session.";
    TooManySubscribers = 429,
        "The limit for streams that read this is reached.";
    TooManySessions = 429,
        "The workspace has reached its limit of sessions, and all of them are in use.";
    TooManyTokens = 409,
        "The owner has reached its limit of tokens. Revoke some.";

    // Tasks.
    InvalidContent = 400,
        "`content` must be a text that is not blank and has at most 65,536 bytes of UTF-8.";
    InvalidQuery = 400,
        "The query must be a text that is not blank and has at most 65,536 bytes of UTF-8.";
    InvalidContextMode = 400,
        "`contextMode` must be `workspace` or `clean`.";
    InvalidMode = 400,
        "`mode` must be `append` or `replace`.";
    InvalidScope = 400,
        "`scope` must be `project` or `user` for a task, `global` or `workspace` for context files, and `global`, `project` or `workspace` on `/v1`.";
    ManagedMemoryUnavailable = 409,
        "Managed memory is off for this workspace.";
    RememberQueueFull = 429,
        "The workspace has reached its limit of tasks that wait or run. Try again later.";
    RememberFailed = 500,
        "The daemon cannot determine whether this workspace accepts remember tasks.";
    ForgetFailed = 500,
        "The daemon cannot determine whether this workspace accepts forget tasks.";
    DreamFailed = 500,
        "The daemon cannot determine whether this workspace accepts dream tasks.";
    RememberTaskNotFound = 404,
        "There is no such remember task, or none that this client may see.";
    ForgetTaskNotFound = 404,
        "There is no such forget task, or none that this client may see.";
    DreamTaskNotFound = 404,
        "There is no such dream task, or none that this client may see.";

    // Memories.
    InvalidPath = 400,
        "The path breaks the grammar. Correct it as the message says.";
    InvalidArguments = 400,
        "A field is missing or has the wrong shape. The message names it.";
    ScopeUnavailable = 409,
        "This scope has no root here: no project was found, or no workspace was named.";
    FeatureDisabled = 403,
        "A person switched this off. `feature` names it.";
    ReadOnly = 403,
        "The caller has only read access to this scope or file, or its folder cannot be written on this machine.";
    NotFound = 404,
        "Nothing is at that path.";
    AlreadyExists = 409,
        "Something is at that path already.";
    NotAFile = 409,
        "A folder, link or device is at the path of a memory.";
    NotText = 409,
        "The file is not UTF-8 text. Lukasa leaves its bytes alone.";
    TooLarge = 413,
        "The memory is, or would become, too large.";
    ScopeFull = 409,
        "The scope has reached its limit of memories. Delete or merge some.";
    TextNotFound = 422,
        "The text to replace is not there, letter for letter.";
    TextNotUnique = 422,
        "The text to replace is there more than once. Give more of it.";
    InvalidRange = 422,
        "A line number is outside the memory. The message has the range.";
    Conflict = 412,
        "The memory is not the revision that the precondition names. Read it again, then save. With 409 and `blocked`: memories were changed since, so undoing the change would lose that.";
    PreconditionRequired = 428,
        "The path already exists, so the write must name the revision that it replaces, in `If-Match`.";
    InvalidPrecondition = 400,
        "`If-Match` and `If-None-Match` take `*` or a list of entity tags, such as revisions in quotes.";
    Screened = 422,
        "The text looks like a secret or an attack on the model. The message names the rule.";
    EscapesRoot = 403,
        "The path leads out of its root through a link. It is not followed.";
    StorageFull = 507,
        "The disk or the quota is full. Nothing was changed.";
    StorageFailed = 500,
        "A file or the state database cannot be read or written.";
    StorageUnavailable = 503,
        "The database that several daemons share cannot be reached. Try again after the time in `Retry-After`; a write may have been done.";
    Locked = 503,
        "Another process holds the lock of the memories for too long. Try again.";

    // Transfer.
    InvalidArchive = 400,
        "The body is not a tar archive of memories.";
}

/// The body of every error response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ErrorBody {
    /// The error message, for people.
    pub error: String,
    /// The error code, for programs.
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "not_found"))]
    pub code: ErrorCode,
    /// Further fields that belong to the code, such as `revision` with `conflict`.
    #[serde(flatten)]
    pub facts: Map<String, Value>,
}

impl ErrorBody {
    /// Creates a body with the code's own message.
    pub fn new(code: ErrorCode) -> Self {
        Self { error: code.meaning().to_owned(), code, facts: Map::new() }
    }

    /// Replaces the message.
    #[must_use]
    pub fn with_message(mut self, sentence: impl Into<String>) -> Self {
        self.error = sentence.into();
        self
    }

    /// Adds a field.
    #[must_use]
    pub fn with_fact(mut self, name: &str, fact: impl Into<Value>) -> Self {
        self.facts.insert(name.to_owned(), fact.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_parses_back_and_has_an_error_status() {
        for &code in ErrorCode::ALL {
            assert_eq!(ErrorCode::read(code.as_ref()), code);
            assert!((400..600).contains(&code.status()), "{code}");
            assert!(code.meaning().ends_with('.'), "{code}");
        }
        assert_eq!(ErrorCode::read("a_later_one"), ErrorCode::Unknown);
    }

    #[test]
    fn a_body_has_a_message_a_code_and_further_fields() {
        let body = ErrorBody::new(ErrorCode::InvalidClientId).with_fact("clientId", "a b");
        insta::assert_snapshot!(serde_json::to_string(&body).unwrap(), @r#"{"error":"The client id is malformed, or not registered with this workspace. `POST /session` gives one.","code":"invalid_client_id","clientId":"a b"}"#);
        let read: ErrorBody = serde_json::from_str(r#"{"error":"x","code":"later"}"#).unwrap();
        assert_eq!(read.code, ErrorCode::Unknown);
    }
}
