//! Calls for context files: list, append and replace.
//!
//! A replacement can name the revision that it replaces, as with memories.

use hyper::header::IF_MATCH;

use super::call::ApiCall;
use super::memories::tag;
use super::{Client, ClientError};
use crate::context_files::{
    ContextScope, WorkspaceMemory, WriteMemory, WriteMemoryResponse, WriteMode,
};

impl Client {
    /// Lists the context files of the workspace, such as `AGENTS.md`, in the order of loading.
    pub async fn workspace_memory(&self) -> Result<WorkspaceMemory, ClientError> {
        self.value(ApiCall::get(&self.workspace_memory_path())).await
    }

    /// Appends to the context file of the project or of the person, or replaces it.
    pub async fn write_workspace_memory(
        &self,
        request: &WriteMemory,
    ) -> Result<WriteMemoryResponse, ClientError> {
        self.value(ApiCall::post(&self.workspace_memory_path()).json(request)?).await
    }

    /// Replaces the context file that was listed at this revision.
    ///
    /// # Errors
    ///
    /// [`ClientError::Conflict`] with the current revision if it has changed.
    pub async fn replace_workspace_memory(
        &self,
        scope: ContextScope,
        content: &str,
        revision: &str,
    ) -> Result<WriteMemoryResponse, ClientError> {
        let mode = Some(WriteMode::Replace);
        let request = WriteMemory { scope, content: content.to_owned(), mode };
        let call = ApiCall::post(&self.workspace_memory_path()).json(&request)?;
        self.value(call.header(IF_MATCH, tag(revision)?)).await
    }

    pub(super) fn workspace_memory_path(&self) -> String {
        match &self.workspace {
            Some(workspace) => format!("/workspaces/{workspace}/memory"),
            None => "/workspace/memory".to_owned(),
        }
    }
}
