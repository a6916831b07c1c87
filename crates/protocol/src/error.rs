//! What goes wrong, as a code that programs may rely on, its HTTP status, and a sentence.
//!
//! Every answer that is no success has the body [`ErrorBody`]: the sentence, the code, and the facts
//! that belong to the code. A code never changes its meaning.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// Declares the codes with their status and meaning.
macro_rules! codes {
    ($($variant:ident = $word:literal, $status:literal, $meaning:literal;)+) => {
        /// What went wrong, in one word.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ErrorCode {
            $(#[doc = $meaning] $variant,)+
            /// A code that is not known to this version.
            Unknown,
        }

        impl ErrorCode {
            /// Every code, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Returns the public word.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ Self::Unknown => "unknown" }
            }

            /// Returns the HTTP status that it comes with.
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)+ Self::Unknown => 500 }
            }

            /// Returns what it means, in a sentence or two.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$variant => $meaning,)+
                    Self::Unknown => "The code is not known to this version.",
                }
            }

            /// Reads a public word.
            pub fn read(word: &str) -> Self {
                match word { $($word => Self::$variant,)+ _ => Self::Unknown }
            }
        }
    };
}

codes! {
    // Before a request is looked at.
    HostNotAllowed = "host_not_allowed", 403,
        "The Host header names no host that this daemon answers for. `quipu serve --allow-host` adds one.";
    OriginNotAllowed = "origin_not_allowed", 403,
        "Pages of this origin may not call the daemon. `quipu serve --allow-origin` lets them.";
    Unauthorized = "unauthorized", 401,
        "The bearer token is missing or wrong. `quipu token` prints it.";
    RateLimited = "rate_limited", 429,
        "This client asks too often. Try again when Retry-After says.";
    BodyTooLarge = "body_too_large", 413,
        "The body is larger than a body may be.";
    BodyTimeout = "body_timeout", 408,
        "The body did not arrive in time.";
    Overloaded = "overloaded", 503,
        "The daemon holds as many bytes of requests as it may. Try again when Retry-After says.";
    InvalidJson = "invalid_json", 400,
        "The body is not a JSON object.";
    RouteNotFound = "route_not_found", 404,
        "There is nothing at this path. `GET /openapi.json` lists what there is.";
    MethodNotAllowed = "method_not_allowed", 405,
        "This path knows other methods, which Allow names.";
    Degraded = "degraded", 503,
        "Memories cannot be written, or their state cannot be used. `findings` says what is wrong.";
    Internal = "internal", 500,
        "The machine failed. The log of the daemon says how.";

    // Workspaces, clients and sessions.
    UntrustedWorkspace = "untrusted_workspace", 403,
        "Nobody said that this workspace is to be trusted.";
    WorkspaceNotFound = "workspace_not_found", 404,
        "The daemon serves no workspace of this id.";
    WorkspaceMismatch = "workspace_mismatch", 400,
        "The daemon serves no workspace in this folder.";
    WorkspaceBusy = "workspace_busy", 409,
        "Tasks of the workspace wait or run. Let them end or cancel them, then try again.";
    WorkspaceDraining = "workspace_draining", 503,
        "The workspace is being shut down. Try again after the restart.";
    InvalidClientId = "invalid_client_id", 400,
        "The client id is malformed, or not registered with this workspace. `POST /session` gives one.";
    SessionNotFound = "session_not_found", 404,
        "There is no such session.";
    TooManySubscribers = "too_many_subscribers", 429,
        "As many streams read this as may.";
    TooManySessions = "too_many_sessions", 429,
        "The workspace has as many sessions as it may, and somebody listens to each.";

    // Tasks.
    InvalidContent = "invalid_content", 400,
        "`content` must be a text that is not blank and has at most 65,536 bytes of UTF-8.";
    InvalidQuery = "invalid_query", 400,
        "The query must be a text that is not blank and has at most 65,536 bytes of UTF-8.";
    InvalidContextMode = "invalid_context_mode", 400,
        "`contextMode` must be `workspace` or `clean`.";
    InvalidMode = "invalid_mode", 400,
        "`mode` must be `append` or `replace`.";
    InvalidScope = "invalid_scope", 400,
        "`scope` must be `project` or `user` for a task, `global` or `workspace` for context files, and `global`, `project` or `workspace` on `/v1`.";
    ManagedMemoryUnavailable = "managed_memory_unavailable", 409,
        "Managed memory is off for this workspace.";
    RememberQueueFull = "remember_queue_full", 429,
        "As many tasks wait or run as the workspace holds. Try again later.";
    RememberFailed = "remember_failed", 500,
        "Whether anything can be remembered here could not be found out.";
    ForgetFailed = "forget_failed", 500,
        "Whether anything can be forgotten here could not be found out.";
    DreamFailed = "dream_failed", 500,
        "Whether memories can be tidied up here could not be found out.";
    RememberTaskNotFound = "remember_task_not_found", 404,
        "There is no such remember task, or none that this client may see.";
    ForgetTaskNotFound = "forget_task_not_found", 404,
        "There is no such forget task, or none that this client may see.";
    DreamTaskNotFound = "dream_task_not_found", 404,
        "There is no such dream task, or none that this client may see.";

    // Memories.
    InvalidPath = "invalid_path", 400,
        "The path breaks the grammar. Correct it as the message says.";
    InvalidArguments = "invalid_arguments", 400,
        "A field is missing or has the wrong shape. The message names it.";
    ScopeUnavailable = "scope_unavailable", 409,
        "This scope has no root here: no project was found, or no workspace was named.";
    FeatureDisabled = "feature_disabled", 403,
        "A person switched this off. `feature` names it.";
    ReadOnly = "read_only", 403,
        "The caller may only look at this scope or file, or its folder cannot be written on this machine.";
    NotFound = "not_found", 404,
        "Nothing is at that path.";
    AlreadyExists = "already_exists", 409,
        "Something is at that path already.";
    NotAFile = "not_a_file", 409,
        "A folder, link or device stands where a memory is needed.";
    NotText = "not_text", 409,
        "The file is not UTF-8 text. Quipu leaves its bytes alone.";
    TooLarge = "too_large", 413,
        "The memory is, or would become, larger than a memory may be.";
    ScopeFull = "scope_full", 409,
        "The scope holds as many memories as it may. Delete or merge some.";
    TextNotFound = "text_not_found", 422,
        "The text to replace is not there, letter for letter.";
    TextNotUnique = "text_not_unique", 422,
        "The text to replace is there more than once. Give more of it.";
    InvalidRange = "invalid_range", 422,
        "A line number is outside the memory. The message has the range.";
    Conflict = "conflict", 412,
        "The memory is not the revision that the precondition names. Read it again, then save. With 409 and `blocked`: memories were changed since, so taking the change back would lose that.";
    PreconditionRequired = "precondition_required", 428,
        "Something is there, so a write names what it replaces: `If-Match` with a revision.";
    InvalidPrecondition = "invalid_precondition", 400,
        "`If-Match` and `If-None-Match` take `*` or a list of entity tags, such as revisions in quotes.";
    Screened = "screened", 422,
        "The text looks like a secret or an attack on the model. The message names the rule.";
    EscapesRoot = "escapes_root", 403,
        "The path leads out of its root through a link. It is not followed.";
    StorageFull = "storage_full", 507,
        "The disk or the quota is full. Nothing was changed.";
    StorageFailed = "storage_failed", 500,
        "A file or the state database cannot be read or written.";
    Locked = "locked", 503,
        "Another process holds the memories for too long. Try again.";

    // Transfer.
    InvalidArchive = "invalid_archive", 400,
        "The body is not a tar archive of memories.";
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ErrorCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::read(&String::deserialize(deserializer)?))
    }
}

/// The body of every answer that is no success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ErrorBody {
    /// What went wrong, for people.
    pub error: String,
    /// What went wrong, for programs.
    #[cfg_attr(feature = "schema", schema(value_type = String, example = "not_found"))]
    pub code: ErrorCode,
    /// What belongs to the code, such as `revision` beside `conflict`.
    #[serde(flatten)]
    pub facts: Map<String, Value>,
}

impl ErrorBody {
    /// Returns a body that says what the code means.
    pub fn new(code: ErrorCode) -> Self {
        Self { error: code.meaning().to_owned(), code, facts: Map::new() }
    }

    /// Says it in another sentence.
    #[must_use]
    pub fn saying(mut self, sentence: impl Into<String>) -> Self {
        self.error = sentence.into();
        self
    }

    /// Adds a fact.
    #[must_use]
    pub fn with(mut self, name: &str, fact: impl Into<Value>) -> Self {
        self.facts.insert(name.to_owned(), fact.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_read_back_as_itself_and_is_no_success() {
        for &code in ErrorCode::ALL {
            assert_eq!(ErrorCode::read(code.as_str()), code);
            assert!((400..600).contains(&code.status()), "{code}");
            assert!(code.meaning().ends_with('.'), "{code}");
        }
        assert_eq!(ErrorCode::read("a_later_one"), ErrorCode::Unknown);
    }

    #[test]
    fn a_body_has_a_sentence_a_code_and_facts() {
        let body = ErrorBody::new(ErrorCode::InvalidClientId).with("clientId", "a b");
        insta::assert_snapshot!(serde_json::to_string(&body).unwrap(), @r#"{"error":"The client id is malformed, or not registered with this workspace. `POST /session` gives one.","code":"invalid_client_id","clientId":"a b"}"#);
        let read: ErrorBody = serde_json::from_str(r#"{"error":"x","code":"later"}"#).unwrap();
        assert_eq!(read.code, ErrorCode::Unknown);
    }
}
