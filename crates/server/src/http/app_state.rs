//! What all routes share: the engine, its lanes and feeds, and who may be meant by a request.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri};
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
use super::metrics::Metrics;
use super::outside_reads::{OutsideReader, OutsideReads};
use super::request::{WorkspaceQuery, client_name};
use crate::error::ErrorResponse;
use crate::mcp::{CLASSES, McpEndpoint, SESSION_HEADER};

/// By which way changes came in that are made here.
pub(super) const ORIGIN: &str = "http";

/// The same for clients of MCP, as where they have a server of their own.
pub(super) const MCP_ORIGIN: &str = "mcp";

/// The header by which a program says what class of agent calls the tool for it.
const AGENT_CLASS_HEADER: &str = "x-lukasa-agent-class";

/// One daemon.
#[derive(Debug)]
pub(super) struct AppState {
    pub(super) engine: Engine,
    pub(super) serving: RunningServices,
    /// The first one is meant where none is named.
    pub(super) workspaces: Vec<Workspace>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) clock: Arc<dyn Clock>,
    /// Where MCP clients of each workspace are served, by its id.
    pub(super) mcp: HashMap<String, McpEndpoint>,
    pub(super) outside_reads: OutsideReads,
    pub(super) logins: Arc<Logins>,
    pub(super) settings: Option<Arc<dyn SettingsStore>>,
    /// The agents that are known, with what each shows its model.
    pub(super) agents: Vec<AgentHost>,
}

/// Shows and writes a person's settings file. Both may wait for the disk.
pub trait SettingsStore: fmt::Debug + Send + Sync {
    /// Returns what is set.
    fn show(&self) -> Result<Settings, SettingsError>;

    /// Sets a value, or takes it out of the file if it is null, and returns what is set then. All else in the file
    /// stays as it is. With `expected`, only if its value is that one.
    fn set(
        &self,
        key: &str,
        value: &Value,
        expected: Option<&Value>,
    ) -> Result<Settings, SettingsError>;
}

/// Why settings are not shown or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The file, the key or the value is not right.
    #[error("{0}")]
    Invalid(String),
    /// The file changed while it was being written; nothing was.
    #[error("the settings file was changed at this very moment; try again")]
    FileChanged,
    /// The setting has another value than whoever sets it was shown.
    #[error("this setting was changed meanwhile; look at it again")]
    ValueChanged,
    /// The machine failed.
    #[error("{0}")]
    Io(String),
}

/// What routes are given.
pub(super) type SharedState = Arc<AppState>;

impl AppState {
    /// Returns the workspace of this id; without one, the first.
    pub(super) fn workspace(&self, id: Option<&str>) -> Result<&Workspace, ErrorResponse> {
        let found = self.workspaces.iter().find(|workspace| match id {
            None => workspace.primary,
            // Published clients may name a workspace by its folder.
            Some(id) => workspace.id == id || workspace.cwd == Path::new(id),
        });
        found.ok_or_else(|| ErrorCode::WorkspaceNotFound.into())
    }

    /// Returns the workspace in this folder.
    pub(super) fn workspace_of_folder(&self, cwd: &str) -> Result<&Workspace, ErrorResponse> {
        let wanted = Path::new(cwd);
        let found = self.workspaces.iter().find(|workspace| workspace.cwd == wanted);
        found.ok_or_else(|| ErrorCode::WorkspaceMismatch.into())
    }

    /// Returns the workspace of this id, if its memories may be used.
    pub(super) fn trusted_workspace(&self, id: Option<&str>) -> Result<&Workspace, ErrorResponse> {
        let workspace = self.workspace(id)?;
        if workspace.trusted { Ok(workspace) } else { Err(ErrorCode::UntrustedWorkspace.into()) }
    }

    /// Tells whether a feature is on in the workspace that a request names; everywhere, if it names none that is served.
    pub(super) fn has_feature(&self, feature: Feature, uri: &Uri) -> bool {
        let in_path =
            uri.path().strip_prefix("/workspaces/").and_then(|rest| rest.split('/').next());
        let in_path = in_path.map(|id| percent_decode_str(id).decode_utf8_lossy().into_owned());
        let named =
            in_path.or_else(|| Query::<WorkspaceQuery>::try_from_uri(uri).ok()?.0.workspace);
        let switches = self.engine.switches();
        let features = match self.workspace(named.as_deref()) {
            Ok(workspace) => switches.for_workspace(workspace),
            // Whoever looks for the workspace says that there is none.
            Err(_) => switches.global(),
        };
        features.has(feature)
    }

    /// Returns the client that a request says it comes from, which has to be registered here.
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

    /// Returns the memories of a workspace as the person whose machine it is may touch them.
    pub(super) async fn person_memories(
        &self,
        workspace: Option<&str>,
        headers: &HeaderMap,
    ) -> Result<Memories, ErrorResponse> {
        let workspace = self.trusted_workspace(workspace)?;
        let mut caller = Caller::person(ORIGIN);
        caller.provenance.client = self.client_name(workspace, headers).await?;
        Ok(self.engine.memories(&workspace.binding, caller))
    }

    /// Returns the memories of a workspace as the agent that calls the tool may touch them.
    pub(super) async fn agent_memories(
        &self,
        workspace: Option<&str>,
        headers: &HeaderMap,
    ) -> Result<Memories, ErrorResponse> {
        let mut caller = Caller::agent(requested_class_or_default(headers), ORIGIN);
        let workspace = self.trusted_workspace(workspace)?;
        caller.provenance.client = self.client_name(workspace, headers).await?;
        caller.outside_read = self.outside_read_of(caller.provenance.client.clone());
        Ok(self.engine.memories(&workspace.binding, caller))
    }

    /// Returns what a client has read that nobody here reviewed.
    pub(super) fn outside_read_of(&self, client: Option<String>) -> OutsideReadFlag {
        self.outside_reads.get_or_insert(OutsideReader::Client(client))
    }

    /// Returns the context files of a workspace as the agent may touch them that a request may come from:
    /// what is written there, models take for an instruction.
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

    /// Returns the agent that calls a workspace over MCP, and the class that the request names, if it does.
    pub(super) async fn mcp_agent(
        &self,
        workspace: &Workspace,
        headers: &HeaderMap,
    ) -> Result<(Caller, Option<AgentClass>), ErrorResponse> {
        let named = requested_class(headers)?;
        let mut caller = Caller::agent(named.unwrap_or(AgentClass::Exec), MCP_ORIGIN);
        caller.provenance.client = self.client_name(workspace, headers).await?;
        // Only a session that was begun here is one: a name that somebody made up begins nothing anew.
        let session = headers.get(SESSION_HEADER).and_then(|name| name.to_str().ok());
        let has = |id: &&str| self.mcp.get(&workspace.id).is_some_and(|end| end.has_session(id));
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

/// A request about the memories of a workspace, as the person whose machine it is may touch them.
#[derive(Debug)]
pub(super) struct PersonRequest<Q = NoQuery> {
    pub(super) memories: Memories,
    /// The query beside the workspace.
    pub(super) query: Q,
}

/// Such a request with a body, which is read first.
#[derive(Debug)]
pub(super) struct PersonRequestWithBody<B, Q = NoQuery> {
    pub(super) memories: Memories,
    pub(super) query: Q,
    pub(super) body: B,
}

/// A query that names a workspace at most.
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

impl<Q: DeserializeOwned + Send> FromRequestParts<SharedState> for PersonRequest<Q> {
    type Rejection = ErrorResponse;

    async fn from_request_parts(
        parts: &mut Parts,
        daemon: &SharedState,
    ) -> Result<Self, ErrorResponse> {
        Self::from_uri(&parts.uri, &parts.headers, daemon).await
    }
}

impl<B: DeserializeOwned + Send, Q: DeserializeOwned + Send> FromRequest<SharedState>
    for PersonRequestWithBody<B, Q>
{
    type Rejection = ErrorResponse;

    async fn from_request(request: Request, daemon: &SharedState) -> Result<Self, ErrorResponse> {
        let (uri, headers) = (request.uri().clone(), request.headers().clone());
        let body = body::value(request).await?;
        let PersonRequest { memories, query } =
            PersonRequest::from_uri(&uri, &headers, daemon).await?;
        Ok(Self { memories, query, body })
    }
}

/// Returns the class of agent that a request names, if it names one.
fn requested_class(headers: &HeaderMap) -> Result<Option<AgentClass>, ErrorResponse> {
    let Some(word) = headers.get(AGENT_CLASS_HEADER) else { return Ok(None) };
    let class = word.to_str().ok().and_then(|word| word.parse().ok());
    class.map(Some).ok_or_else(|| {
        let word = String::from_utf8_lossy(word.as_bytes());
        let what = format!("`{AGENT_CLASS_HEADER}` is `{word}`; it must be {CLASSES}");
        ErrorResponse::from(ErrorCode::InvalidArguments).with_message(what)
    })
}

/// Returns the class of agent that a request names; the one that may do everything, if it names none.
fn requested_class_or_default(headers: &HeaderMap) -> AgentClass {
    let named = headers.get(AGENT_CLASS_HEADER);
    named.map_or(AgentClass::Exec, |class| AgentClass::from_name(class.to_str().ok()))
}
