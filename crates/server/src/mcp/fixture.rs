//! A test server for the official conformance suite, which requires tools, prompts and resources with certain names.
//!
//! It wraps the product's own [`Connection`]. Requests with the suite's names are answered here, mostly from
//! `fixture.json`; all others by the product. Transport, sessions and streams are the product's.

use std::sync::{Arc, LazyLock};

use engine::Feeds;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams, CompleteResult,
    ContentBlock, CustomRequest, CustomResult, GetPromptRequestParams, GetPromptResponse,
    GetPromptResult, InputRequiredResult, InputResponses, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult,
    ServerCapabilities, ServerConfig, ServerNotification, ServerRequest, SubscribeRequestParams,
    SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::{McpConfig, McpEndpoint};

/// The fixed answers.
static DATA: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("fixture.json")).unwrap());

/// Decodes a value of the protocol.
fn read<T: DeserializeOwned>(value: &Value) -> T {
    T::deserialize(value).unwrap_or_else(|error| panic!("{error}: {value}"))
}

/// Creates an endpoint with the suite's tools, prompts and resources.
pub(crate) fn endpoint(
    host: McpConfig,
    feed: (Arc<Feeds>, String),
    ending: CancellationToken,
) -> McpEndpoint {
    McpEndpoint::with_handler(host, feed, ending, |product| Fixture { product })
}

/// The product's connection, extended by the suite's names.
struct Fixture {
    product: Connection,
}

/// The state of a request that needs the client's input.
enum Input {
    Required(InputRequiredResult),
    /// All input was received.
    Complete(String),
}

/// Requests the input of a tool or prompt, round by round. `None` if it needs none.
fn input(
    name: &str,
    responses: Option<&InputResponses>,
    state: Option<&str>,
    context: &RequestContext<RoleServer>,
) -> Option<Result<Input, ErrorData>> {
    let spec = DATA["rounds"].get(name)?;
    let rounds = spec["rounds"].as_array().unwrap();
    let state_of = |round: usize| format!("{name} {round}");
    let round = match state {
        None => Some(0),
        Some(state) => (0..rounds.len()).find(|&round| state_of(round) == state),
    };
    let Some(round) = round else {
        return Some(Err(ErrorData::invalid_params("unknown request state", None)));
    };
    let is_answered = rounds[round].as_object().unwrap().iter().all(|(key, request)| {
        responses.and_then(|all| all.get(key)).is_some_and(|answer| is_answer(request, answer))
    });
    let next = if is_answered { round + 1 } else { round };
    let Some(requests) = rounds.get(next) else {
        return Some(Ok(Input::Complete(format!("state-ok: {}", json!(responses)))));
    };
    let mut requests = requests.clone();
    if name.ends_with("capabilities") {
        let capabilities = context.client_capabilities().unwrap_or_default();
        requests.as_object_mut().unwrap().retain(|_, request| match request["method"].as_str() {
            Some("elicitation/create") => capabilities.elicitation.is_some(),
            _ => json!(capabilities).get("sampling").is_some(),
        });
    }
    let mut result = json!({ "resultType": "input_required", "inputRequests": requests });
    if spec["keeps_state"] == true {
        result["requestState"] = state_of(next).into();
    }
    Some(Ok(Input::Required(read(&result))))
}

/// Checks whether a value is a valid answer to a request.
fn is_answer(request: &Value, answer: &Value) -> bool {
    match request["method"].as_str() {
        Some("elicitation/create") => {
            let required = request["params"]["requestedSchema"]["required"].as_array().unwrap();
            let has = |name: &Value| answer["content"].get(name.as_str().unwrap()).is_some();
            answer["action"] == "accept" && required.iter().all(has)
        }
        Some("sampling/createMessage") => answer["content"].is_object(),
        _ => answer["roots"].is_array(),
    }
}

fn text(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

/// Sends a request to the client during a call, as the older revisions allow.
async fn ask(
    request: &Value,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, ErrorData> {
    let request: ServerRequest = read(request);
    let answer = context.peer.send_request(request).await;
    let answer = answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    Ok(text(format!("Answered: {}", json!(answer))))
}

async fn notify(notice: Value, context: &RequestContext<RoleServer>) {
    let notice: ServerNotification = read(&notice);
    context.peer.send_notification(notice).await.unwrap();
}

async fn log(context: &RequestContext<RoleServer>) -> CallToolResult {
    for data in ["beginning", "half-way", "done"] {
        let params = json!({ "level": "info", "data": data });
        notify(json!({ "method": "notifications/message", "params": params }), context).await;
    }
    text("Logged")
}

async fn report_progress(context: &RequestContext<RoleServer>) -> CallToolResult {
    if let Some(token) = context.meta.get_progress_token() {
        for progress in [0.0, 50.0, 100.0] {
            let step = ProgressNotificationParam::new(token.clone(), progress).with_total(100.0);
            context.peer.notify_progress(step).await.unwrap();
        }
    }
    text("Done")
}

impl ServerHandler for Fixture {
    fn get_info(&self) -> ServerConfig {
        let mut info = self.product.get_info();
        let more: ServerCapabilities =
            read(&json!({ "prompts": {}, "completions": {}, "logging": {} }));
        info.capabilities.prompts = more.prompts;
        info.capabilities.completions = more.completions;
        let mut whole = json!(info.capabilities);
        whole["logging"] = json!({});
        info.capabilities = read(&whole);
        info
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools().into_iter().find(|tool| tool.name == name)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut listed = self.product.list_tools(request, context).await?;
        listed.tools.extend(tools());
        Ok(listed)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.as_ref();
        let (responses, state) =
            (request.input_responses.as_ref(), request.request_state.as_deref());
        if let Some(input) = input(name, responses, state, &context) {
            return Ok(match input? {
                Input::Required(result) => result.into(),
                Input::Complete(answer) => text(answer).into(),
            });
        }
        if let Some(fixed) = DATA["results"].get(name) {
            let mut result = CallToolResult::success(read(&fixed["content"]));
            result.is_error = fixed["isError"].as_bool();
            return Ok(result.into());
        }
        if let Some(request) = DATA["asks"].get(name) {
            return Ok(ask(request, &context).await?.into());
        }
        match name {
            "test_tool_with_logging" => Ok(log(&context).await.into()),
            "test_tool_with_progress" => Ok(report_progress(&context).await.into()),
            "test_missing_capability" => {
                Err(ErrorData::missing_required_client_capability(read(&json!({ "sampling": {} }))))
            }
            _ => self.product.call_tool(request, context).await,
        }
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut listed = self.product.list_resources(request, context).await?;
        listed.resources.extend(read::<Vec<_>>(&DATA["resources"]));
        Ok(listed)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut listed = self.product.list_resource_templates(request, context).await?;
        listed.resource_templates.extend(read::<Vec<_>>(&DATA["templates"]));
        Ok(listed)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = &request.uri;
        let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
        let contents = match (DATA["contents"].get(uri), id) {
            (Some(fixed), _) => fixed.clone(),
            (None, Some(id)) => {
                let data = format!("Data for ID: {id}");
                let text = json!({ "id": id, "templateTest": true, "data": data }).to_string();
                json!({ "uri": uri, "mimeType": "application/json", "text": text })
            }
            (None, None) => return self.product.read_resource(request, context).await,
        };
        Ok(ReadResourceResult::new(vec![read(&contents)]).into())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if DATA["contents"].get(&request.uri).is_some() {
            return Ok(());
        }
        #[expect(deprecated, reason = "the newest revision has no such request; the older ones do")]
        self.product.subscribe(request, context).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if DATA["contents"].get(&request.uri).is_some() {
            return Ok(());
        }
        #[expect(deprecated, reason = "the newest revision has no such request; the older ones do")]
        self.product.unsubscribe(request, context).await
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        self.product.accepted_subscription_filter(requested)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.product.listen(context).await
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let mut prompts = DATA["prompts"].clone();
        for prompt in prompts.as_array_mut().unwrap() {
            prompt["description"] = "For the conformance suite".into();
        }
        Ok(ListPromptsResult::with_all_items(read(&prompts)))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let (responses, state) =
            (request.input_responses.as_ref(), request.request_state.as_deref());
        let mut messages = match input(&request.name, responses, state, &context).transpose()? {
            Some(Input::Required(result)) => return Ok(result.into()),
            Some(Input::Complete(answer)) => {
                json!([{ "type": "text", "text": answer }]).to_string()
            }
            None => match DATA["messages"].get(&request.name) {
                Some(messages) => messages.to_string(),
                None => return Err(ErrorData::invalid_params("no such prompt", None)),
            },
        };
        for (name, value) in request.arguments.iter().flatten() {
            messages = messages.replace(&format!("{{{name}}}"), value.as_str().unwrap_or_default());
        }
        let messages: Vec<Value> = serde_json::from_str(&messages).unwrap();
        let of_user = |content| json!({ "role": "user", "content": content });
        let messages: Vec<Value> = messages.into_iter().map(of_user).collect();
        Ok(GetPromptResult::new(read::<Vec<_>>(&json!(messages))).into())
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Ok(CompleteResult::default())
    }

    #[expect(deprecated, reason = "the newest revision has no such request; the older ones do")]
    async fn set_level(
        &self,
        _request: rmcp::model::SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        self.product.on_custom_request(request, context).await
    }
}

fn tools() -> Vec<Tool> {
    let mut tools = DATA["tools"].clone();
    for tool in tools.as_array_mut().unwrap() {
        tool["description"] = "For the conformance suite".into();
        if tool.get("inputSchema").is_none() {
            tool["inputSchema"] = json!({ "type": "object" });
        }
    }
    read(&tools)
}
