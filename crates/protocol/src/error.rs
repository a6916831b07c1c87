//! What goes wrong, as a code that programs may rely on, its HTTP status, and a sentence.
//!
//! Every answer that is no success has the body [`ErrorBody`]: the sentence, the code, and the facts
//! that belong to the code. A code never changes its meaning.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Declares the codes with their status and meaning.
macro_rules! codes {
    ($($variant:ident = $status:literal, $meaning:literal;)+) => {
        /// What went wrong, in one word.
        #[derive(strum::AsRefStr, strum::Display, strum::EnumString, strum::IntoStaticStr)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[strum(serialize_all = "snake_case")]
        pub enum ErrorCode {
            $(#[doc = $meaning] $variant,)+
            /// A code that is not known to this version.
            #[serde(other)]
            Unknown,
        }

        impl ErrorCode {
            /// Every code that is known, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

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

            /// Reads a public word; a later version may have others.
            pub fn read(word: &str) -> Self {
                word.parse().unwrap_or(Self::Unknown)
            }
        }
    };
}

codes! {
    // Before a request is looked at.
    HostNotAllowed = 403,
        "The Host header names no host that this daemon answers for. `lukasa serve --allow-host` adds one.";
    OriginNotAllowed = 403,
        "Pages of this origin may not call the daemon. `lukasa serve --allow-origin` lets them.";
    Unauthorized = 401,
        "The bearer token is missing or wrong. `lukasa token` prints it.";
    RateLimited = 429,
        "This client asks too often. Try again when Retry-After says.";
    BodyTooLarge = 413,
        "The body is larger than a body may be.";
    BodyTimeout = 408,
        "The body did not arrive in time.";
    Overloaded = 503,
        "The daemon holds as many bytes of requests as it may. Try again when Retry-After says.";
    InvalidJson = 400,
        "The body is not a JSON object.";
    RouteNotFound = 404,
        "There is nothing at this path. `GET /openapi.json` lists what there is.";
    MethodNotAllowed = 405,
        "This path knows other methods, which Allow names.";
    Degraded = 503,
        "Memories cannot be written, or their state cannot be used. `findings` says what is wrong.";
    Internal = 500,
        "The machine failed. The log of the daemon says how.";

    // Workspaces, clients and sessions.
    UntrustedWorkspace = 403,
        "Nobody said that this workspace is to be trusted.";
    WorkspaceNotFound = 404,
        "The daemon serves no workspace of this id.";
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
        "As many streams read this as may.";
    TooManySessions = 429,
        "The workspace has as many sessions as it may, and somebody listens to each.";

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
        "As many tasks wait or run as the workspace holds. Try again later.";
    RememberFailed = 500,
        "Whether anything can be remembered here could not be found out.";
    ForgetFailed = 500,
        "Whether anything can be forgotten here could not be found out.";
    DreamFailed = 500,
        "Whether memories can be tidied up here could not be found out.";
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
        "The caller may only look at this scope or file, or its folder cannot be written on this machine.";
    NotFound = 404,
        "Nothing is at that path.";
    AlreadyExists = 409,
        "Something is at that path already.";
    NotAFile = 409,
        "A folder, link or device stands where a memory is needed.";
    NotText = 409,
        "The file is not UTF-8 text. Lukasa leaves its bytes alone.";
    TooLarge = 413,
        "The memory is, or would become, larger than a memory may be.";
    ScopeFull = 409,
        "The scope holds as many memories as it may. Delete or merge some.";
    TextNotFound = 422,
        "The text to replace is not there, letter for letter.";
    TextNotUnique = 422,
        "The text to replace is there more than once. Give more of it.";
    InvalidRange = 422,
        "A line number is outside the memory. The message has the range.";
    Conflict = 412,
        "The memory is not the revision that the precondition names. Read it again, then save. With 409 and `blocked`: memories were changed since, so taking the change back would lose that.";
    PreconditionRequired = 428,
        "Something is there, so a write names what it replaces: `If-Match` with a revision.";
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
    Locked = 503,
        "Another process holds the memories for too long. Try again.";

    // Transfer.
    InvalidArchive = 400,
        "The body is not a tar archive of memories.";
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
    pub fn with_message(mut self, sentence: impl Into<String>) -> Self {
        self.error = sentence.into();
        self
    }

    /// Adds a fact.
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
    fn every_code_is_read_back_as_itself_and_is_no_success() {
        for &code in ErrorCode::ALL {
            assert_eq!(ErrorCode::read(code.as_ref()), code);
            assert!((400..600).contains(&code.status()), "{code}");
            assert!(code.meaning().ends_with('.'), "{code}");
        }
        assert_eq!(ErrorCode::read("a_later_one"), ErrorCode::Unknown);
    }

    #[test]
    fn a_body_has_a_sentence_a_code_and_facts() {
        let body = ErrorBody::new(ErrorCode::InvalidClientId).with_fact("clientId", "a b");
        insta::assert_snapshot!(serde_json::to_string(&body).unwrap(), @r#"{"error":"The client id is malformed, or not registered with this workspace. `POST /session` gives one.","code":"invalid_client_id","clientId":"a b"}"#);
        let read: ErrorBody = serde_json::from_str(r#"{"error":"x","code":"later"}"#).unwrap();
        assert_eq!(read.code, ErrorCode::Unknown);
    }
}
