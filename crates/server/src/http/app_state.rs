//! The state of one owner that all routes share, and the resolution of a request's workspace, client and caller.
//!
//! Routes of the person (`/v1`) act with the person's access, and get memories by [`PersonRequest`]. Routes of agents
//! (the tool, MCP, conversations, context files) act as an agent of the class that a header names. The access itself
//! is decided by the engine, from the [`Caller`] that is built here.

use std::fmt;
use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, Uri};
use engine::{
    Caller, ClientId, ContextFiles, Engine, Memories, OutsideReadFlag, RunningServices, Workspace,
};
use memory::access::AgentClass;
use memory::clock::Clock;
use memory::feature::Feature;
use percent_encoding::percent_decode_str;
use protocol::conversation::AgentHost;
use protocol::error::{ErrorBody, ErrorCode};
use protocol::settings::Settings;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::body;
use super::logins::Logins;
use super::metrics::{Metrics, OwnerStreams};
use super::outside_reads::{OutsideReader, OutsideReads};
use super::owner_directory::OwnTokens;
use super::request::{WorkspaceQuery, client_name};
use super::served_workspaces::{MCP_ORIGIN, ServedWorkspace, ServedWorkspaces};
use crate::error::ErrorResponse;
use crate::mcp::{CLASSES, SESSION_HEADER};

/// The origin recorded for changes made over HTTP.
pub(super) const ORIGIN: &str = "http";

/// The header that names the class of the calling agent.
pub(super) const AGENT_CLASS_HEADER: &str = "x-lukasa-agent-class";

/// The state of one owner in a daemon. A daemon without a database has one owner.
#[derive(Debug)]
pub(super) struct AppState {
    pub(super) engine: Engine,
    pub(super) serving: RunningServices,
    /// The served workspaces; the primary one is used if a request names none.
    pub(super) workspaces: ServedWorkspaces,
    pub(super) metrics: Arc<Metrics>,
    pub(super) event_streams: OwnerStreams,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) outside_reads: OutsideReads,
    pub(super) logins: Arc<Logins>,
    pub(super) settings: Option<Arc<dyn SettingsStore>>,
    /// The known agents, with the context that each shows its model.
    pub(super) agents: Vec<AgentHost>,
    /// The tokens of the owner; `None` without a database.
    pub(super) tokens: Option<OwnTokens>,
}

/// Access to the person's settings file. Both methods may block on the disk.
pub trait SettingsStore: fmt::Debug + Send + Sync {
    /// Returns the current settings.
    fn show(&self) -> Result<Settings, SettingsError>;

    /// Sets a value, or removes it from the file if it is null, and returns the new settings. The rest of the file
    /// stays unchanged. With `expected`, the value is set only if the current one is equal to that.
    fn set(
        &self,
        key: &str,
        value: &Value,
        expected: Option<&Value>,
    ) -> Result<Settings, SettingsError>;
}

/// An error of showing or writing settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The file, the key or the value is invalid.
    #[error("{0}")]
    Invalid(String),
    /// Another program changed the file during the write; nothing was written.
    #[error("another program changed the settings file at the same time; try again")]
    FileChanged,
    /// The setting has another value than `expected`.
    #[error("this setting was changed meanwhile; reload the settings and try again")]
    ValueChanged,
    /// A fault of the machine.
    #[error("{0}")]
    Io(String),
}

/// The state of the owner of a request, which `owners.rs` adds to the request.
pub(super) type SharedState = Arc<AppState>;

impl AppState {
    /// Returns the workspace with this id; without an id, the primary one. One that is served by name is opened first.
    pub(super) async fn workspace(
        &self,
        id: Option<&str>,
    ) -> Result<Arc<ServedWorkspace>, ErrorResponse> {
        self.workspaces.get_or_open(id, (&self.engine, &self.serving)).await
    }

    /// Returns the workspace in this folder.
    pub(super) fn workspace_of_folder(
        &self,
        cwd: &str,
    ) -> Result<Arc<ServedWorkspace>, ErrorResponse> {
        let found = self.workspaces.find(|workspace| workspace.cwd.is_named(cwd));
        found.ok_or_else(|| ErrorCode::WorkspaceMismatch.into())
    }

    /// Returns the workspace with this id, if it is trusted.
    pub(super) async fn trusted_workspace(
        &self,
        id: Option<&str>,
    ) -> Result<Arc<ServedWorkspace>, ErrorResponse> {
        let workspace = self.workspace(id).await?;
        if workspace.trusted { Ok(workspace) } else { Err(ErrorCode::UntrustedWorkspace.into()) }
    }

    /// Checks whether a feature is enabled in the workspace of a request. If the request names an unknown workspace,
    /// the global setting counts.
    pub(super) fn has_feature(&self, feature: Feature, uri: &Uri) -> bool {
        let in_path =
            uri.path().strip_prefix("/workspaces/").and_then(|rest| rest.split('/').next());
        let in_path = in_path.map(|id| percent_decode_str(id).decode_utf8_lossy().into_owned());
        let named =
            in_path.or_else(|| Query::<WorkspaceQuery>::try_from_uri(uri).ok()?.0.workspace);
        let switches = self.engine.switches();
        let features = match self.workspaces.find_or_name(named.as_deref()) {
            Some(workspace) => switches.for_workspace(&workspace),
            // The handler will answer that the workspace is unknown.
            None => switches.global(),
        };
        features.has(feature)
    }

    /// Returns the client that a request names, if any. A client that is not registered in the workspace is an error.
    pub(super) async fn client_id(
        &self,
        workspace: &Workspace,
        headers: &HeaderMap,
    ) -> Result<Option<ClientId>, ErrorResponse> {
        let Some(named) = client_name(headers) else { return Ok(None) };
        let client = named.to_str().ok().and_then(|text| text.parse::<ClientId>().ok());
        let client = client.ok_or(ErrorCode::InvalidClientId)?;
        if self.serving.sessions.has_client(&workspace.id, &client).await? {
            return Ok(Some(client));
        }
        Err(ErrorBody::new(ErrorCode::InvalidClientId)
            .with_fact("clientId", client.as_str())
            .into())
    }

    /// Returns the memories of a workspace with the access of the person.
    pub(super) async fn person_memories(
        &self,
        workspace: Option<&str>,
        headers: &HeaderMap,
    ) -> Result<Memories, ErrorResponse> {
        let workspace = self.trusted_workspace(workspace).await?;
        let mut caller = Caller::person(ORIGIN);
        caller.provenance.client = self.client_name(&workspace, headers).await?;
        Ok(self.engine.memories(&workspace.binding, caller))
    }

    /// Returns the memories of a workspace with the access of the calling agent.
    pub(super) async fn agent_memories(
        &self,
        workspace: Option<&str>,
        headers: &HeaderMap,
    ) -> Result<Memories, ErrorResponse> {
        let mut caller = Caller::agent(requested_class_or_default(headers), ORIGIN);
        let workspace = self.trusted_workspace(workspace).await?;
        caller.provenance.client = self.client_name(&workspace, headers).await?;
        caller.outside_read = self.outside_read_of(caller.provenance.client.clone());
        Ok(self.engine.memories(&workspace.binding, caller))
    }

    /// Returns the flag whether a client has read text that no person reviewed.
    pub(super) fn outside_read_of(&self, client: Option<String>) -> OutsideReadFlag {
        self.outside_reads.get_or_insert(OutsideReader::Client(client))
    }

    /// Returns the context files of a workspace with the access of the calling agent. Not with the person's: models
    /// take the text of these files as instructions, and the request may come from an agent.
    pub(super) fn context_files(
        &self,
        workspace: &Workspace,
        headers: &HeaderMap,
        client: Option<&ClientId>,
    ) -> ContextFiles {
        let mut caller = Caller::agent(requested_class_or_default(headers), ORIGIN);
        caller.provenance.client = client.map(ToString::to_string);
        caller.outside_read = self.outside_read_of(caller.provenance.client.clone());
        self.engine.context_files(workspace, caller)
    }

    /// Returns the caller of an MCP request, and the agent class that the request names, if any.
    pub(super) async fn mcp_agent(
        &self,
        workspace: &ServedWorkspace,
        headers: &HeaderMap,
    ) -> Result<(Caller, Option<AgentClass>), ErrorResponse> {
        let named = requested_class(headers)?;
        let mut caller = Caller::agent(named.unwrap_or(AgentClass::Exec), MCP_ORIGIN);
        caller.provenance.client = self.client_name(workspace, headers).await?;
        // Only an existing session counts: an invented session id must not reset the flag.
        let session = headers.get(SESSION_HEADER).and_then(|name| name.to_str().ok());
        let has = |id: &&str| workspace.mcp.has_session(id);
        caller.outside_read = match session.filter(has) {
            Some(id) => self.outside_reads.get_or_insert(OutsideReader::Session(id.to_owned())),
            None => self.outside_read_of(caller.provenance.client.clone()),
        };
        Ok((caller, named))
    }

    async fn client_name(
        &self,
        workspace: &Workspace,
        headers: &HeaderMap,
    ) -> Result<Option<String>, ErrorResponse> {
        Ok(self.client_id(workspace, headers).await?.map(|client| client.to_string()))
    }
}

/// An extractor of the workspace's memories with the person's access, and of the query.
#[derive(Debug)]
pub(super) struct PersonRequest<Q = NoQuery> {
    pub(super) memories: Memories,
    /// The query without the workspace.
    pub(super) query: Q,
}

/// A [`PersonRequest`] with a JSON body. The body is read first, so its errors come first.
#[derive(Debug)]
pub(super) struct PersonRequestWithBody<B, Q = NoQuery> {
    pub(super) memories: Memories,
    pub(super) query: Q,
    pub(super) body: B,
}

/// A query with no parameters besides the workspace.
#[derive(Debug, Deserialize)]
pub(super) struct NoQuery {}

impl<Q: DeserializeOwned> PersonRequest<Q> {
    async fn from_uri(
        uri: &Uri,
        headers: &HeaderMap,
        daemon: &AppState,
    ) -> Result<Self, ErrorResponse> {
        let Query(query) = Query::try_from_uri(uri)?;
        let Query(WorkspaceQuery { workspace }) = Query::try_from_uri(uri)?;
        Ok(Self { memories: daemon.person_memories(workspace.as_deref(), headers).await?, query })
    }
}

impl<S: Sync, Q: DeserializeOwned + Send> FromRequestParts<S> for PersonRequest<Q> {
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ErrorResponse> {
        let daemon = of_request(&parts.extensions)?;
        Self::from_uri(&parts.uri, &parts.headers, &daemon).await
    }
}

impl<S: Sync, B: DeserializeOwned + Send, Q: DeserializeOwned + Send> FromRequest<S>
    for PersonRequestWithBody<B, Q>
{
    type Rejection = ErrorResponse;

    async fn from_request(request: Request, _: &S) -> Result<Self, ErrorResponse> {
        let daemon = of_request(request.extensions())?;
        let (uri, headers) = (request.uri().clone(), request.headers().clone());
        let body = body::value(request).await?;
        let PersonRequest { memories, query } =
            PersonRequest::from_uri(&uri, &headers, &daemon).await?;
        Ok(Self { memories, query, body })
    }
}

/// Returns the state of the owner of a request.
fn of_request(extensions: &Extensions) -> Result<SharedState, ErrorResponse> {
    extensions.get::<SharedState>().cloned().ok_or_else(|| ErrorCode::Internal.into())
}

/// Returns the agent class that a request names. An unknown class is an error.
fn requested_class(headers: &HeaderMap) -> Result<Option<AgentClass>, ErrorResponse> {
    let Some(word) = headers.get(AGENT_CLASS_HEADER) else { return Ok(None) };
    let class = word.to_str().ok().and_then(|word| word.parse().ok());
    class.map(Some).ok_or_else(|| {
        let word = String::from_utf8_lossy(word.as_bytes());
        let message = format!("`{AGENT_CLASS_HEADER}` is `{word}`; it must be {CLASSES}");
        ErrorResponse::from(ErrorCode::InvalidArguments).with_message(message)
    })
}

/// Returns the agent class that a request names: `exec` without a name, `explore` (the least access) for an unknown
/// name.
fn requested_class_or_default(headers: &HeaderMap) -> AgentClass {
    let named = headers.get(AGENT_CLASS_HEADER);
    named.map_or(AgentClass::Exec, |class| AgentClass::from_name(class.to_str().ok()))
}
