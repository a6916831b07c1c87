//! Memories: listed, read, written with a precondition, moved, pinned, searched.

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

/// The header by which a program says what class of agent calls the tool for it.
const AGENT_CLASS_HEADER: HeaderName = HeaderName::from_static("x-lukasa-agent-class");

/// Which memories to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoriesQuery {
    /// Only those of this scope: `global`, `project`, `workspace`.
    pub scope: Option<String>,
    /// Only those whose path, name or description holds this, in either case.
    pub words: Option<String>,
    /// Only those that are pinned, or are not.
    pub pinned: Option<bool>,
    /// In which order; by path when left out.
    pub sort: Option<Sort>,
    /// What the page before ended with: [`MemoryPage::next_cursor`].
    pub cursor: Option<String>,
    /// At most so many on a page.
    pub max: Option<usize>,
}

/// What to search for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchQuery {
    /// The text, in either case.
    pub text: String,
    /// Only in this memory, folder or scope, such as `/memories/project`.
    pub under: Option<String>,
    /// At most so many lines.
    pub max: Option<usize>,
}

/// What class of agent calls the tool.
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
    /// Lists memories, one page of them.
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

    /// Reads a memory, with the revision that a later write names.
    pub async fn read(&self, path: &str) -> Result<Memory, ClientError> {
        self.value(self.path_call(ApiCall::get, "memories", path)).await
    }

    /// Makes a memory where nothing is.
    ///
    /// # Errors
    ///
    /// [`ClientError::Conflict`] with the revision of what is there.
    pub async fn create(&self, path: &str, text: &str) -> Result<WriteResponse, ClientError> {
        let put = PutMemory { text: text.to_owned() };
        let call = self.path_call(ApiCall::put, "memories", path).json(&put)?;
        self.value(call.header(IF_NONE_MATCH, HeaderValue::from_static("*"))).await
    }

    /// Replaces the text that was read at this revision.
    ///
    /// # Errors
    ///
    /// [`ClientError::Conflict`] with the current revision when it is another one by now.
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

    /// Deletes a memory, or a folder with all that is in it, whatever it holds.
    pub async fn delete(&self, path: &str) -> Result<WriteResponse, ClientError> {
        self.value(self.path_call(ApiCall::delete, "memories", path)).await
    }

    /// Deletes the text that was read at this revision.
    ///
    /// # Errors
    ///
    /// [`ClientError::Conflict`] with the current revision when it is another one by now.
    pub async fn delete_revision(
        &self,
        path: &str,
        revision: &str,
    ) -> Result<WriteResponse, ClientError> {
        let call = self.path_call(ApiCall::delete, "memories", path);
        self.value(call.header(IF_MATCH, tag(revision)?)).await
    }

    /// Gives a memory or folder another path in its scope.
    pub async fn rename(&self, from: &str, to: &str) -> Result<WriteResponse, ClientError> {
        let renaming = Move { from: from.to_owned(), to: to.to_owned() };
        let call = ApiCall::post("/v1/memories/move").json(&renaming)?;
        self.value(self.workspace_call(call)).await
    }

    /// Deletes or moves several memories as one change, all of them or none.
    ///
    /// # Errors
    ///
    /// [`ClientError::Conflict`] when one is at another revision than its step names.
    pub async fn batch(&self, steps: Vec<BatchStep>) -> Result<BatchResponse, ClientError> {
        let call = ApiCall::post("/v1/batch").json(&BatchRequest { steps })?;
        self.value(self.workspace_call(call)).await
    }

    /// Reads what a memory said at a revision, while history keeps it.
    pub async fn revision(&self, revision: &str) -> Result<RevisionText, ClientError> {
        self.value(self.workspace_call(ApiCall::get(&format!("/v1/revisions/{revision}")))).await
    }

    /// Reads what a memory said at a revision, with how that differs from another one.
    pub async fn compare(&self, from: &str, to: &str) -> Result<RevisionText, ClientError> {
        let call = ApiCall::get(&format!("/v1/revisions/{to}")).query("against", Some(from));
        self.value(self.workspace_call(call)).await
    }

    /// Looks at every memory: what is wrong, and what could be better. May take some seconds.
    pub async fn memory_health(&self) -> Result<MemoryHealth, ClientError> {
        self.value(self.workspace_call(ApiCall::get("/v1/health/memories"))).await
    }

    /// Mends what can be mended without losing anything.
    pub async fn repair_memories(&self) -> Result<RepairResponse, ClientError> {
        self.value(self.workspace_call(ApiCall::post("/v1/health/memories/repair"))).await
    }

    /// Keeps a memory in the agents' context.
    pub async fn pin(&self, path: &str) -> Result<Pin, ClientError> {
        self.value(self.path_call(ApiCall::put, "pins", path)).await
    }

    /// Keeps a memory in the agents' context no longer.
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

    /// Calls the memory tool as a model does, with the arguments of one of its commands. A refusal is a
    /// reply that the model reads.
    pub async fn tool(
        &self,
        arguments: &Value,
        class: AgentClass,
    ) -> Result<ToolReply, ClientError> {
        let call = ApiCall::post("/v1/tool").json(arguments)?;
        let class = HeaderValue::from_static(class.into());
        self.value(self.workspace_call(call).header(AGENT_CLASS_HEADER, class)).await
    }

    /// Returns all memories as a tar archive, a folder for each scope.
    pub async fn export(&self) -> Result<Bytes, ClientError> {
        self.body(self.workspace_call(ApiCall::get("/v1/export"))).await
    }

    /// Takes over the Markdown files of a tar archive, as one change: into a scope or folder, or, when
    /// `to` is left out, into the scopes that the folders at its top name. What is there already is left
    /// as it is, and told.
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
