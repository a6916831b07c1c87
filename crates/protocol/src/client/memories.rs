//! Calls for memories: list, read, write with a precondition, move, pin, search, check, export and import.
//!
//! A write with a failed precondition is a [`ClientError::Conflict`], which has the current revision. Only
//! [`Client::delete`] and moves have no precondition.

use hyper::body::Bytes;
use hyper::header::{HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::call::ApiCall;
use super::{Client, ClientError, header};
use crate::health::{MemoryHealth, RepairResponse};
use crate::memories::{
    BatchRequest, BatchResponse, BatchStep, ImportOutcome, Memory, MemoryPage, Move, Pin,
    PutMemory, RevisionText, SearchResponse, Sort, ToolReply, WriteResponse,
};

/// The header with the class of the agent that calls the tool.
const AGENT_CLASS_HEADER: HeaderName = HeaderName::from_static("x-lukasa-agent-class");

/// A filter and an order for memories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoriesQuery {
    /// Only memories of this scope: `global`, `project`, `workspace`.
    pub scope: Option<String>,
    /// Only memories whose path, name or description contains this text, ignoring case.
    pub words: Option<String>,
    /// Only pinned memories, or only others.
    pub pinned: Option<bool>,
    /// The order; by path if `None`.
    pub sort: Option<Sort>,
    /// The [`MemoryPage::next_cursor`] of the previous page.
    pub cursor: Option<String>,
    /// The most memories on a page.
    pub max: Option<usize>,
}

/// A search for lines of memories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchQuery {
    /// The text to search for, ignoring case.
    pub text: String,
    /// Only in this memory, folder or scope, such as `/memories/project`.
    pub under: Option<String>,
    /// The most lines to return.
    pub max: Option<usize>,
}

/// The class of an agent that calls the tool.
#[derive(strum::IntoStaticStr, Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum AgentClass {
    /// Writes in every scope.
    Exec,
    /// Only reads memories of the project.
    Plan,
    /// Only reads.
    Explore,
}

/// Memories are named by their path, `/memories/<scope>/…`.
impl Client {
    /// Lists one page of memories.
    pub async fn memories(&self, query: &MemoriesQuery) -> Result<MemoryPage, ClientError> {
        let call = ApiCall::get("/v1/memories")
            .query("scope", query.scope.as_deref())
            .query("q", query.words.as_deref())
            .query("pinned", query.pinned)
            .query("sort", query.sort)
            .query("cursor", query.cursor.as_deref())
            .query("max", query.max);
        self.value(self.workspace_call(call)).await
    }

    /// Reads a memory, with the revision for the precondition of a later write.
    pub async fn read(&self, path: &str) -> Result<Memory, ClientError> {
        self.value(self.path_call(ApiCall::get, "memories", path)).await
    }

    /// Creates a memory at a free path.
    ///
    /// # Errors
    ///
    /// [`ClientError::Conflict`] with the revision of the existing memory.
    pub async fn create(&self, path: &str, text: &str) -> Result<WriteResponse, ClientError> {
        let put = PutMemory { text: text.to_owned() };
        let call = self.path_call(ApiCall::put, "memories", path).json(&put)?;
        self.value(call.header(IF_NONE_MATCH, HeaderValue::from_static("*"))).await
    }

    /// Replaces the text that was read at this revision.
    ///
    /// # Errors
    ///
    /// [`ClientError::Conflict`] with the current revision if it has changed.
    pub async fn save(
        &self,
        path: &str,
        text: &str,
        revision: &str,
    ) -> Result<WriteResponse, ClientError> {
        let put = PutMemory { text: text.to_owned() };
        let call = self.path_call(ApiCall::put, "memories", path).json(&put)?;
        self.value(call.header(IF_MATCH, tag(revision)?)).await
    }

    /// Deletes a memory or a folder with all of its memories, without a precondition.
    pub async fn delete(&self, path: &str) -> Result<WriteResponse, ClientError> {
        self.value(self.path_call(ApiCall::delete, "memories", path)).await
    }

    /// Deletes the text that was read at this revision.
    ///
    /// # Errors
    ///
    /// [`ClientError::Conflict`] with the current revision if it has changed.
    pub async fn delete_revision(
        &self,
        path: &str,
        revision: &str,
    ) -> Result<WriteResponse, ClientError> {
        let call = self.path_call(ApiCall::delete, "memories", path);
        self.value(call.header(IF_MATCH, tag(revision)?)).await
    }

    /// Moves a memory or folder within its scope.
    pub async fn rename(&self, from: &str, to: &str) -> Result<WriteResponse, ClientError> {
        let renaming = Move { from: from.to_owned(), to: to.to_owned() };
        let call = ApiCall::post("/v1/memories/move").json(&renaming)?;
        self.value(self.workspace_call(call)).await
    }

    /// Deletes or moves several memories as one change, all of them or none.
    ///
    /// # Errors
    ///
    /// [`ClientError::Conflict`] if a memory is not at the revision in its step.
    pub async fn batch(&self, steps: Vec<BatchStep>) -> Result<BatchResponse, ClientError> {
        let call = ApiCall::post("/v1/batch").json(&BatchRequest { steps })?;
        self.value(self.workspace_call(call)).await
    }

    /// Reads the text of a memory at a revision, while history keeps it.
    pub async fn revision(&self, revision: &str) -> Result<RevisionText, ClientError> {
        self.value(self.workspace_call(ApiCall::get(&format!("/v1/revisions/{revision}")))).await
    }

    /// Reads the text of a memory at the revision `to`, with a diff from the revision `from`.
    pub async fn compare(&self, from: &str, to: &str) -> Result<RevisionText, ClientError> {
        let call = ApiCall::get(&format!("/v1/revisions/{to}")).query("against", Some(from));
        self.value(self.workspace_call(call)).await
    }

    /// Checks every memory for problems and possible improvements. May take some seconds.
    pub async fn memory_health(&self) -> Result<MemoryHealth, ClientError> {
        self.value(self.workspace_call(ApiCall::get("/v1/health/memories"))).await
    }

    /// Repairs the problems that can be fixed without losing anything.
    pub async fn repair_memories(&self) -> Result<RepairResponse, ClientError> {
        self.value(self.workspace_call(ApiCall::post("/v1/health/memories/repair"))).await
    }

    /// Pins a memory: it stays in the context of agents.
    pub async fn pin(&self, path: &str) -> Result<Pin, ClientError> {
        self.value(self.path_call(ApiCall::put, "pins", path)).await
    }

    /// Unpins a memory.
    pub async fn unpin(&self, path: &str) -> Result<Pin, ClientError> {
        self.value(self.path_call(ApiCall::delete, "pins", path)).await
    }

    /// Searches the text of memories.
    pub async fn search(&self, query: &SearchQuery) -> Result<SearchResponse, ClientError> {
        let call = ApiCall::get("/v1/search")
            .query("q", Some(&query.text))
            .query("path", query.under.as_deref())
            .query("max", query.max);
        self.value(self.workspace_call(call)).await
    }

    /// Calls the memory tool as a model does, with the arguments of one of its commands. A refusal is not an error but
    /// a reply for the model.
    pub async fn tool(
        &self,
        arguments: &Value,
        class: AgentClass,
    ) -> Result<ToolReply, ClientError> {
        let call = ApiCall::post("/v1/tool").json(arguments)?;
        let class = HeaderValue::from_static(class.into());
        self.value(self.workspace_call(call).header(AGENT_CLASS_HEADER, class)).await
    }

    /// Returns all memories as a tar archive, with a folder for each scope.
    pub async fn export(&self) -> Result<Bytes, ClientError> {
        self.body(self.workspace_call(ApiCall::get("/v1/export"))).await
    }

    /// Imports the Markdown files of a tar archive, as one change, into the scope or folder `to`. Without `to`, the
    /// top folders of the archive name the scopes. Existing memories are left unchanged and reported as skipped.
    pub async fn import(
        &self,
        archive: impl Into<Bytes>,
        to: Option<&str>,
    ) -> Result<ImportOutcome, ClientError> {
        let call = ApiCall::post("/v1/import").query("to", to);
        let call = call.bytes("application/x-tar", archive.into());
        self.value(self.workspace_call(call)).await
    }

    fn path_call(&self, method: fn(&str) -> ApiCall, what: &str, path: &str) -> ApiCall {
        let path = path.strip_prefix("/memories/").unwrap_or(path);
        self.workspace_call(method(&format!("/v1/{what}/{path}")))
    }
}

pub(super) fn tag(revision: &str) -> Result<HeaderValue, ClientError> {
    header("the revision", &format!("\"{revision}\""))
}
