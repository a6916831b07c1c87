//! Conversations: a host says what happens, and is answered with what there is to show.

use super::call::ApiCall;
use super::{Client, ClientError};
use crate::conversation::{
    AgentHosts, CompactionRequest, ContextUpdate, Conversation, EndTurnRequest, ExplainedContext,
    OpenConversation, PromptRequest, RecalledBlock, ToolResultRequest,
};

impl Client {
    /// Opens a conversation, or goes on with one.
    pub async fn open_conversation(
        &self,
        request: &OpenConversation,
    ) -> Result<Conversation, ClientError> {
        self.value(ApiCall::post("/v1/sessions").json(request)?).await
    }

    /// Says what a person asked. Returns what is there at once to be shown beside it.
    pub async fn send_prompt(
        &self,
        id: &str,
        prompt: &PromptRequest,
    ) -> Result<ContextUpdate, ClientError> {
        self.value(ApiCall::post(&format!("/v1/sessions/{id}/prompts")).json(prompt)?).await
    }

    /// Says that tools have answered. Returns what was found since the prompt, once.
    pub async fn send_tool_result(
        &self,
        id: &str,
        what: &ToolResultRequest,
    ) -> Result<ContextUpdate, ClientError> {
        self.value(ApiCall::post(&format!("/v1/sessions/{id}/tool-results")).json(what)?).await
    }

    /// Says that a turn has ended.
    pub async fn end_turn(
        &self,
        id: &str,
        what: &EndTurnRequest,
    ) -> Result<Conversation, ClientError> {
        self.value(ApiCall::post(&format!("/v1/sessions/{id}/turns")).json(what)?).await
    }

    /// Says that what the model knew was compacted.
    pub async fn report_compaction(
        &self,
        id: &str,
        what: &CompactionRequest,
    ) -> Result<Conversation, ClientError> {
        self.value(ApiCall::post(&format!("/v1/sessions/{id}/compactions")).json(what)?).await
    }

    /// Says that the turn was stopped, or that all was cleared. What is looked for is dropped.
    pub async fn reset_conversation(&self, id: &str) -> Result<Conversation, ClientError> {
        self.value(ApiCall::post(&format!("/v1/sessions/{id}/resets"))).await
    }

    /// Returns what fits a question, with the reason for each memory; an empty text when nothing does.
    pub async fn recall(&self, question: &str) -> Result<RecalledBlock, ClientError> {
        let call = ApiCall::get("/v1/recall").query("q", Some(question));
        self.value(self.workspace_call(call)).await
    }

    /// Lists the agents that show their model what memories there are, and how much of it.
    pub async fn hosts(&self) -> Result<AgentHosts, ClientError> {
        self.value(ApiCall::get("/v1/hosts")).await
    }

    /// Returns what a session of a model would begin with now, in at most so many bytes, and why.
    pub async fn context(&self, bytes_max: Option<usize>) -> Result<ExplainedContext, ClientError> {
        let call = ApiCall::get("/v1/context").query("bytesMax", bytes_max);
        self.value(self.workspace_call(call)).await
    }

    /// Closes a conversation; it may go on some day.
    pub async fn close_conversation(&self, id: &str) -> Result<(), ClientError> {
        self.body(ApiCall::delete(&format!("/v1/sessions/{id}"))).await.map(drop)
    }
}
