//! One client: decodes each request, hands it on, encodes the answer.
//!
//! What is declared is what is served, and the other way round: everything else that the protocol
//! knows is answered with "method not found".

use std::sync::Arc;

use engine::{BindingRequest, Caller, ChangeEvent, ContextScope, Engine, Memories, Workspace};
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

/// What models are told about this server before they use it.
const INSTRUCTIONS: &str = include_str!("prompts/instructions.md");

/// Requests that are served, in which revisions. One that does not have the shape that the protocol gives
/// it arrives as one of no known kind, and its name tells.
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

/// In which revisions there is a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Revisions {
    All,
    /// In all but the newest, which has no handshake and no other state of a connection.
    Older,
}

/// What the command line composed: whose memories a client is let to.
#[derive(Clone, Debug)]
pub struct McpConfig {
    /// Gives out memories. Whoever calls [`serve`](super::serve) closes it afterwards.
    pub engine: Engine,
    /// The roots as flags and the start folder give them.
    pub binding: BindingRequest,
    /// Who calls, as far as flags tell; the client's name and the tool call are added per request.
    pub caller: Caller,
    /// Who decides which project it is.
    pub project: ProjectSource,
}

/// A client and what it is served with.
pub(super) struct Connection {
    config: McpConfig,
    layout: Layout,
    roots: Roots,
    changes: Arc<Changes>,
    calls: TaskTracker,
    /// Cancelled when no more requests come.
    shutdown: CancellationToken,
}

impl Connection {
    pub(super) fn new(host: McpConfig, ending: CancellationToken) -> Self {
        let layout = match host.binding.flat {
            Some(_) => Layout::Flat,
            None => Layout::Scoped,
        };
        let roots = Roots::new(host.project);
        let changes = Arc::default();
        Self { config: host, layout, roots, changes, calls: TaskTracker::new(), shutdown: ending }
    }

    /// Returns the same with somebody else to watch the folders, and its calls among others.
    pub(super) fn with_subscriptions(mut self, watcher: WatchSource, calls: TaskTracker) -> Self {
        self.changes = Arc::new(Changes::with_source(watcher));
        self.calls = calls;
        self
    }

    /// Returns the tool calls under way.
    pub(super) fn calls(&self) -> TaskTracker {
        self.calls.clone()
    }

    /// Begins to serve; the result runs until the client is gone.
    pub(super) async fn serve<R: AsyncRead + Send + Unpin + 'static>(
        self,
        wire: StdioTransport<R>,
    ) -> Result<RunningService<RoleServer, Self>, ServerInitializeError> {
        self.serve_with_ct(wire, CancellationToken::new()).await
    }

    /// Returns the memories that a request may touch.
    async fn memories(&self, context: &RequestContext<RoleServer>) -> Result<Memories, ErrorData> {
        let caller = caller::caller(&self.config.caller, context)?;
        let project = self.project(&context.peer, &context.extensions).await?;
        Ok(self.memories_of(project, caller))
    }

    /// Returns the project that the client says it works in. Once no more is read, its answer can
    /// not come any more: then a request ends, rather than in a project that was not meant.
    async fn project(
        &self,
        peer: &Peer<RoleServer>,
        extensions: &Extensions,
    ) -> Result<ClientProject, ErrorData> {
        tokio::select! {
            biased;
            project = self.roots.project(peer, extensions) => Ok(project),
            () = self.shutdown.cancelled() => Err(ErrorData::internal_error(
                "the server ends, and which project the client works in is not known",
                None,
            )),
        }
    }

    /// Returns which features are on in a project.
    fn features_of(&self, project: &ClientProject) -> Features {
        self.config.engine.switches().for_request(&project.clone().bind(&self.config.binding))
    }

    /// Returns which features are on for a request.
    async fn features(&self, context: &RequestContext<RoleServer>) -> Result<Features, ErrorData> {
        Ok(self.features_of(&self.project(&context.peer, &context.extensions).await?))
    }

    /// Refuses a method of resources or prompts, as a server does that never had it, if the tool is switched off.
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

    /// Returns the context files that a client may add to.
    fn context_files(&self, project: ClientProject, caller: Caller) -> SaveFiles {
        let binding = project.bind(&self.config.binding);
        let no_project = binding.no_project.clone();
        let in_project = binding.project_dir.is_some();
        let cwd = binding.project_dir.clone().unwrap_or_default();
        let files = self.config.engine.context_files(&Workspace::new(cwd, binding), caller);
        SaveFiles { files: files.select_for_client(), in_project, no_project }
    }

    /// Returns what a client's changes are told by.
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

    /// Returns the subscriptions of a stream that name memories.
    fn subscriptions(&self, filter: &SubscriptionFilter) -> Subscriptions {
        let uris = filter.resource_subscriptions.iter().flatten();
        uris.filter_map(|uri| Some((self.subscribable_path(uri).ok()?, uri.clone()))).collect()
    }

    fn subscribable_path(&self, uri: &str) -> Result<MemoryPath, ErrorData> {
        resources::path_of(uri, self.layout)
    }
}

/// Returns whether a request comes from a client of an older revision. Over HTTP every request has what
/// only a handshake brings elsewhere, so its revision tells.
fn is_initialized(context: &RequestContext<RoleServer>) -> bool {
    let opened = context.peer.peer_info();
    opened.is_some_and(|opened| opened.protocol_version < ProtocolVersion::V_2026_07_28)
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
        // They tell of the tool.
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
        let asked = tools::decode(&request.name, request.arguments, (self.layout, features))?;
        if context.ct.is_cancelled() {
            // Nobody reads this: a request that was cancelled is not answered.
            return Err(ErrorData::internal_error("cancelled", None));
        }
        let caller = caller::caller(&self.config.caller, &context)?;
        let command = match asked {
            ToolCall::Command(command) => command,
            ToolCall::Refused(refused) => return Ok(tools::result(&refused).into()),
            ToolCall::Recall(prompt) => {
                let memories = self.memories_of(project, caller);
                return Ok(tools::recall(&self.config.engine, &memories, &prompt).await.into());
            }
            ToolCall::Save(mut save) => {
                let is_influenced = caller.outside_read.is_set();
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
        // A client of an older revision that has seen a list is told when it changes, from before
        // it was made. One of the newest asks for that by a stream.
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
        // What follows tells the client that it is subscribed: from here on nothing may be lost.
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
        let telling = async {
            tokio::join!(
                self.changes.watch(bound),
                self.changes.stream(sink, subscribed, || self.notices())
            )
        };
        tokio::select! {
            _ = telling => {}
            () = context.cancelled() => {}
            () = self.shutdown.cancelled() => {}
        }
        Ok(())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        // Asked now, the roots are known when the first tool call comes.
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
            let what = format!("the parameters of `{}` have the wrong shape", request.method);
            return Err(ErrorData::invalid_params(what, None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None))
    }
}
