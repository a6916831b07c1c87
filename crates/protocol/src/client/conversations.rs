//! Calls for conversations: a host reports events and receives the text to show to its model.
//!
//! The requests and responses are those of [`crate::conversation`]. The host must show the returned text itself.

use super::call::ApiCall;
use super::{Client, ClientError};
use crate::conversation::{
    AgentHosts, CompactionRequest, ContextUpdate, Conversation, EndTurnRequest, ExplainedContext,
    OpenConversation, PromptRequest, RecalledBlock, ToolResultRequest,
};

impl Client {
    /// Opens a conversation, or resumes one.
    pub async fn open_conversation(
        &self,
        request: &OpenConversation,
    ) -> Result<Conversation, ClientError> {
        self.value(ApiCall::post("/v1/sessions").json(request)?).await
    }

    /// Reports a prompt of the user. Returns the text to show beside it, as far as it is ready.
    pub async fn send_prompt(
        &self,
        id: &str,
        prompt: &PromptRequest,
    ) -> Result<ContextUpdate, ClientError> {
        self.value(ApiCall::post(&format!("/v1/sessions/{id}/prompts")).json(prompt)?).await
    }

    /// Reports that tools have returned results. Returns the memories recalled since the prompt, once.
    pub async fn send_tool_result(
        &self,
        id: &str,
        request: &ToolResultRequest,
    ) -> Result<ContextUpdate, ClientError> {
        self.value(ApiCall::post(&format!("/v1/sessions/{id}/tool-results")).json(request)?).await
    }

    /// Reports that a turn has ended.
    pub async fn end_turn(
        &self,
        id: &str,
        request: &EndTurnRequest,
    ) -> Result<Conversation, ClientError> {
        self.value(ApiCall::post(&format!("/v1/sessions/{id}/turns")).json(request)?).await
    }

    /// Reports that the host compacted the conversation.
    pub async fn report_compaction(
        &self,
        id: &str,
        request: &CompactionRequest,
    ) -> Result<Conversation, ClientError> {
        self.value(ApiCall::post(&format!("/v1/sessions/{id}/compactions")).json(request)?).await
    }

    /// Reports that the turn was stopped, or that the conversation was cleared. A running recall is dropped.
    pub async fn reset_conversation(&self, id: &str) -> Result<Conversation, ClientError> {
        self.value(ApiCall::post(&format!("/v1/sessions/{id}/resets"))).await
    }

    /// Returns the memories that match a prompt, with the reason for each; an empty text if none does.
    pub async fn recall(&self, prompt: &str) -> Result<RecalledBlock, ClientError> {
        let call = ApiCall::get("/v1/recall").query("q", Some(prompt));
        self.value(self.workspace_call(call)).await
    }

    /// Like [`recall`](Self::recall), only among the memories of a folder or scope, such as `/memories/project`.
    pub async fn recall_under(
        &self,
        prompt: &str,
        folder: &str,
    ) -> Result<RecalledBlock, ClientError> {
        let call = ApiCall::get("/v1/recall").query("q", Some(prompt)).query("path", Some(folder));
        self.value(self.workspace_call(call)).await
    }

    /// Lists the supported agents, with the limits of the context that they show to their models.
    pub async fn hosts(&self) -> Result<AgentHosts, ClientError> {
        self.value(ApiCall::get("/v1/hosts")).await
    }

    /// Returns the context that a new segment would begin with now, in at most `bytes_max` bytes, with explanations.
    pub async fn context(&self, bytes_max: Option<usize>) -> Result<ExplainedContext, ClientError> {
        let call = ApiCall::get("/v1/context").query("bytesMax", bytes_max);
        self.value(self.workspace_call(call)).await
    }

    /// Closes a conversation; it can be resumed later.
    pub async fn close_conversation(&self, id: &str) -> Result<(), ClientError> {
        self.body(ApiCall::delete(&format!("/v1/sessions/{id}"))).await.map(drop)
    }
}
