//! The MCP server handler of one client: decodes each request, calls the engine, encodes the answer.
//!
//! The declared capabilities match the methods that are served; every other method is answered with "method not
//! found", and so are the methods of a disabled feature. Tools, resources, prompts, roots and notifications have
//! modules of their own.

use std::sync::Arc;

use engine::{
    BindingRequest, Caller, ChangeEvent, ContextScope, Engine, Memories, RemoteHost, Workspace,
};
use memory::feature::{Feature, Features};
use memory::path::{Layout, MemoryPath};
use memory::tool::save::SaveScope;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestMethod, CompleteRequestParams,
    CompleteResult, ConstString, CustomRequest, CustomResult, ErrorCode, Extensions,
    GetPromptRequestMethod, GetPromptRequestParams, GetPromptResponse, Implementation,
    ListPromptsRequestMethod, ListPromptsResult, ListResourceTemplatesRequestMethod,
    ListResourceTemplatesResult, ListResourcesRequestMethod, ListResourcesResult,
    ListToolsRequestMethod, ListToolsResult, PaginatedRequestParams, ProtocolVersion,
    ReadResourceRequestMethod, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities,
    ServerConfig, SubscribeRequestMethod, SubscribeRequestParams, SubscriptionFilter,
    ToolsCapability, UnsubscribeRequestMethod, UnsubscribeRequestParams,
};
use rmcp::service::{
    NotificationContext, Peer, RequestContext, RunningService, ServerInitializeError,
    SubscriptionContext,
};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt as _};
use tokio::io::AsyncRead;
use tokio::sync::broadcast::Receiver;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::changes::{BoundWorkspace, Changes, Subscriptions, WatchSource};
use super::elicitation::ScopeAnswer;
use super::roots::{ClientProject, ProjectSource, Roots};
use super::stdio::StdioTransport;
use super::tools::{SaveFiles, ToolCall};
use super::{caller, prompts, resources, tools};
use crate::error::mcp_error;

/// The server instructions, which hosts show to their models.
const INSTRUCTIONS: &str = include_str!("prompts/instructions.md");

/// The served requests, with the revisions that have them. The library passes a request with malformed parameters on
/// as a custom request; this list tells such a request from an unknown method.
const SUPPORTED_REQUESTS: [(&str, Revisions); 12] = [
    ("initialize", Revisions::Older),
    ("server/discover", Revisions::All),
    ("tools/list", Revisions::All),
    ("tools/call", Revisions::All),
    ("resources/list", Revisions::All),
    ("resources/templates/list", Revisions::All),
    ("resources/read", Revisions::All),
    ("resources/subscribe", Revisions::Older),
    ("resources/unsubscribe", Revisions::Older),
    ("subscriptions/listen", Revisions::All),
    ("prompts/list", Revisions::All),
    ("prompts/get", Revisions::All),
];

/// The revisions of the protocol that have a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Revisions {
    All,
    /// All but the newest, which has no handshake and no connection state.
    Older,
}

/// The configuration of an MCP server: the memories that a client may use, and the caller that it acts as.
#[derive(Clone, Debug)]
pub struct McpConfig {
    /// The engine. The caller of [`serve`](super::serve) closes it afterwards.
    pub engine: Engine,
    /// The binding by command-line flags and the start folder.
    pub binding: BindingRequest,
    /// The caller by command-line flags. The client's name and the tool call are added per request.
    pub caller: Caller,
    /// The source that decides about the project.
    pub project: ProjectSource,
    /// Other machines whose folders the client may name as roots.
    pub remote_hosts: Vec<RemoteHost>,
}

/// The state of one client.
pub(super) struct Connection {
    config: McpConfig,
    layout: Layout,
    roots: Roots,
    changes: Arc<Changes>,
    calls: TaskTracker,
    /// Cancelled when no more requests are read.
    shutdown: CancellationToken,
}

impl Connection {
    pub(super) fn new(host: McpConfig, ending: CancellationToken) -> Self {
        let layout = match host.binding.flat {
            Some(_) => Layout::Flat,
            None => Layout::Scoped,
        };
        let roots = Roots::new(host.project, host.remote_hosts.clone());
        let changes = Arc::default();
        Self { config: host, layout, roots, changes, calls: TaskTracker::new(), shutdown: ending }
    }

    /// Replaces the source of file watches and the tracker of tool calls, for connections that share both.
    pub(super) fn with_subscriptions(mut self, watcher: WatchSource, calls: TaskTracker) -> Self {
        self.changes = Arc::new(Changes::with_source(watcher));
        self.calls = calls;
        self
    }

    /// Returns the tracker of running tool calls.
    pub(super) fn calls(&self) -> TaskTracker {
        self.calls.clone()
    }

    /// Starts serving; the returned service runs until the client disconnects.
    pub(super) async fn serve<R: AsyncRead + Send + Unpin + 'static>(
        self,
        wire: StdioTransport<R>,
    ) -> Result<RunningService<RoleServer, Self>, ServerInitializeError> {
        self.serve_with_ct(wire, CancellationToken::new()).await
    }

    /// Returns the memories of a request's project, with the access of its caller.
    async fn memories(&self, context: &RequestContext<RoleServer>) -> Result<Memories, ErrorData> {
        let caller = caller::caller(&self.config.caller, context)?;
        let project = self.project(&context.peer, &context.extensions).await?;
        Ok(self.memories_of(project, caller))
    }

    /// Returns the client's project, asking for its roots if needed. After shutdown has begun, the client's answer is
    /// not read any more; the request then fails instead of using a wrong project.
    async fn project(
        &self,
        peer: &Peer<RoleServer>,
        extensions: &Extensions,
    ) -> Result<ClientProject, ErrorData> {
        tokio::select! {
            biased;
            project = self.roots.project(peer, extensions) => Ok(project),
            () = self.shutdown.cancelled() => Err(ErrorData::internal_error(
                "the server is shutting down, and the client's project is not known yet",
                None,
            )),
        }
    }

    /// Returns the features that are enabled in a project.
    fn features_of(&self, project: &ClientProject) -> Features {
        self.config.engine.switches().for_request(&project.clone().bind(&self.config.binding))
    }

    /// Returns the features that are enabled for a request.
    async fn features(&self, context: &RequestContext<RoleServer>) -> Result<Features, ErrorData> {
        Ok(self.features_of(&self.project(&context.peer, &context.extensions).await?))
    }

    /// Refuses a method of resources or prompts as unknown, if the memory tool is disabled.
    async fn check_tool<M: ConstString>(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if self.features(context).await?.has(Feature::Tool) {
            return Ok(());
        }
        Err(ErrorData::method_not_found::<M>())
    }

    fn memories_of(&self, project: ClientProject, caller: Caller) -> Memories {
        self.config.engine.memories(&project.bind(&self.config.binding), caller)
    }

    /// Returns the context files to which `save_memory` may add.
    fn context_files(&self, project: ClientProject, caller: Caller) -> SaveFiles {
        let binding = project.bind(&self.config.binding);
        // The files of a project on another machine are only read.
        let in_project = binding.local_project().is_some();
        let on_other_machine = binding.project.is_some() && !in_project;
        let no_project = if on_other_machine {
            Some(
                "the project is on another machine, where its instruction files are edited"
                    .to_owned(),
            )
        } else {
            binding.no_project.clone()
        };
        let cwd = binding.project.clone().unwrap_or_default();
        let files = self.config.engine.context_files(&Workspace::new(cwd, binding), caller);
        SaveFiles { files: files.select_for_client(), in_project, no_project }
    }

    /// Returns the client's project and memories, by which changes become notifications.
    async fn bound_workspace(
        &self,
        peer: &Peer<RoleServer>,
        extensions: &Extensions,
    ) -> Result<BoundWorkspace, ErrorData> {
        let project = self.project(peer, extensions).await?;
        let memories = self.memories_of(project.clone(), self.config.caller.clone());
        Ok(BoundWorkspace { project, memories })
    }

    fn notices(&self) -> Receiver<ChangeEvent> {
        self.config.engine.subscribe()
    }

    /// Returns the resource subscriptions of a stream, without those that name no memory.
    fn subscriptions(&self, filter: &SubscriptionFilter) -> Subscriptions {
        let uris = filter.resource_subscriptions.iter().flatten();
        uris.filter_map(|uri| Some((self.subscribable_path(uri).ok()?, uri.clone()))).collect()
    }

    fn subscribable_path(&self, uri: &str) -> Result<MemoryPath, ErrorData> {
        resources::path_of(uri, self.layout)
    }
}

/// Checks whether a request comes from a client of an older revision, with a handshake. Over HTTP, the library makes
/// up peer information for every request, so the revision must be checked too.
fn is_initialized(context: &RequestContext<RoleServer>) -> bool {
    let peer = context.peer.peer_info();
    peer.is_some_and(|peer| peer.protocol_version < ProtocolVersion::V_2026_07_28)
}

impl ServerHandler for Connection {
    fn get_info(&self) -> ServerConfig {
        let features = self.config.engine.switches().for_request(&self.config.binding);
        let mut capabilities = ServerCapabilities::default();
        if !tools::list(self.layout, features).tools.is_empty() {
            capabilities.tools = Some(ToolsCapability::default());
        }
        if features.has(Feature::Tool) {
            let all = ServerCapabilities::builder()
                .enable_prompts()
                .enable_resources()
                .enable_resources_subscribe()
                .enable_resources_list_changed()
                .build();
            (capabilities.prompts, capabilities.resources) = (all.prompts, all.resources);
        }
        let lukasa = Implementation::new("lukasa", env!("CARGO_PKG_VERSION"))
            .with_title("Lukasa")
            .with_description("A memory for AI agents");
        let server = ServerConfig::new(capabilities).with_server_info(lukasa);
        // The instructions describe the memory tool.
        if features.has(Feature::Tool) {
            server.with_instructions(INSTRUCTIONS.trim_end())
        } else {
            server
        }
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = tools::list(self.layout, self.features(&context).await?);
        if tools.tools.is_empty() {
            return Err(ErrorData::method_not_found::<ListToolsRequestMethod>());
        }
        Ok(tools)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let project = self.project(&context.peer, &context.extensions).await?;
        let features = self.features_of(&project);
        let call = tools::decode(&request.name, request.arguments, (self.layout, features))?;
        if context.ct.is_cancelled() {
            // Never sent: the library does not answer a cancelled request.
            return Err(ErrorData::internal_error("cancelled", None));
        }
        let caller = caller::caller(&self.config.caller, &context)?;
        let command = match call {
            ToolCall::Command(command) => command,
            ToolCall::Refused(reply) => return Ok(tools::result(&reply).into()),
            ToolCall::Recall(prompt) => {
                let memories = self.memories_of(project, caller);
                return Ok(tools::recall(&self.config.engine, &memories, &prompt).await.into());
            }
            ToolCall::Save(mut save) => {
                let is_influenced = caller.outside_read.is_set().await;
                let is_influenced =
                    is_influenced.map_err(|error| mcp_error("tools/call", error.into()))?;
                let mut files = self.context_files(project, caller);
                if is_influenced || save.scope.is_none() {
                    let text = save.edited.as_deref().unwrap_or(&save.fact);
                    match files.elicit_scope(&context.peer, text, is_influenced).await {
                        ScopeAnswer::Unavailable if is_influenced => {
                            return Ok(tools::influenced_result().into());
                        }
                        ScopeAnswer::Scope(scope) => {
                            files.files = files.files.with_consent();
                            save.scope = Some(match scope {
                                ContextScope::Global => SaveScope::Global,
                                ContextScope::Project => SaveScope::Project,
                            });
                        }
                        ScopeAnswer::Declined => return Ok(tools::declined_result().into()),
                        ScopeAnswer::Unavailable => {}
                    }
                }
                let files = (files, caller::keep_alive_of(&context));
                return Ok(tools::save(&self.calls, files, save).await.into());
            }
        };
        let memories = self.memories_of(project, caller);
        let call = caller::call(&context);
        Ok(tools::execute(&self.calls, (memories, caller::keep_alive_of(&context)), command, call)
            .await
            .into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.check_tool::<ListResourcesRequestMethod>(&context).await?;
        // A client of an older revision that has read the list is notified of changes to it. The subscription starts
        // before the list is made, so that no change is lost. Clients of the newest revision open a stream instead.
        if is_initialized(&context) {
            let bound = self.bound_workspace(&context.peer, &context.extensions).await?;
            self.changes.start_notifications(&context.peer, || self.notices());
            self.changes.spawn_watch(bound);
        }
        let cursor = request.and_then(|request| request.cursor);
        resources::list(&self.memories(&context).await?, cursor.as_deref()).await
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.check_tool::<ListResourceTemplatesRequestMethod>(&context).await?;
        Ok(resources::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.check_tool::<ReadResourceRequestMethod>(&context).await?;
        let memories = self.memories(&context).await?;
        Ok(resources::read(&memories, &request.uri).await?.into())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.check_tool::<SubscribeRequestMethod>(&context).await?;
        let path = self.subscribable_path(&request.uri)?;
        self.changes.subscribe(path, request.uri);
        self.changes.start_notifications(&context.peer, || self.notices());
        self.changes.watch(self.bound_workspace(&context.peer, &context.extensions).await?).await;
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.check_tool::<UnsubscribeRequestMethod>(&context).await?;
        self.changes.unsubscribe(&self.subscribable_path(&request.uri)?);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        // The answer confirms the subscription, so the receiver must exist before it is sent.
        self.changes.prepare_stream(self.notices());
        let mut accepted = SubscriptionFilter::builder();
        if requested.resources_list_changed == Some(true) {
            accepted = accepted.resources_list_changed();
        }
        let uris: Vec<String> = self.subscriptions(requested).into_values().collect();
        if !uris.is_empty() {
            accepted = accepted.resource_subscriptions(uris);
        }
        Some(accepted.build())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let subscribed = self.subscriptions(context.accepted());
        let sink = context.sink().clone();
        let request = context.request_context();
        if !self.features(request).await?.has(Feature::Tool) {
            let method = "subscriptions/listen";
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None));
        }
        let bound = self.bound_workspace(&request.peer, &request.extensions).await?;
        let notifying = async {
            tokio::join!(
                self.changes.watch(bound),
                self.changes.stream(sink, subscribed, || self.notices())
            )
        };
        tokio::select! {
            _ = notifying => {}
            () = context.cancelled() => {}
            () = self.shutdown.cancelled() => {}
        }
        Ok(())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        // Asks for the roots early, so that the first tool call does not wait for them.
        drop(self.project(&context.peer, &context.extensions).await);
    }

    async fn on_roots_list_changed(&self, context: NotificationContext<RoleServer>) {
        self.roots.changed();
        if self.changes.is_watching()
            && let Ok(bound) = self.bound_workspace(&context.peer, &context.extensions).await
        {
            self.changes.watch(bound).await;
        }
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.check_tool::<ListPromptsRequestMethod>(&context).await?;
        Ok(prompts::list(self.layout))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.check_tool::<GetPromptRequestMethod>(&context).await?;
        Ok(prompts::get(&request, self.layout)?.into())
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let is_served = SUPPORTED_REQUESTS.iter().any(|&(method, since)| {
            method == request.method && (since == Revisions::All || is_initialized(&context))
        });
        if is_served {
            let message = format!("the parameters of `{}` have the wrong shape", request.method);
            return Err(ErrorData::invalid_params(message, None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None))
    }
}
