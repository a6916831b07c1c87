//! Context files: the instruction files of a person and of a project, such as `AGENTS.md`.
//!
//! The task API calls them the memory of a workspace.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::ErrorCode;
use crate::memories::Warning;

words! {
    /// Whose a context file is.
    ContextScope {
        /// The project's.
        Workspace = "workspace",
        /// The person's own, in all projects.
        Global = "global",
    }
}

words! {
    /// What is done to a context file.
    WriteMode {
        /// The text is added to the section of added memories.
        Append = "append",
        /// The text takes the place of all that was there.
        Replace = "replace",
    }
}

/// The context files for the folder of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceMemory {
    /// The version of this answer: 1.
    pub v: u32,
    /// The folder.
    pub workspace_cwd: String,
    /// `true`: they were looked for.
    pub initialized: bool,
    /// The files, in the order in which they are loaded.
    pub files: Vec<MemoryFile>,
    /// Bytes of all of them.
    pub total_bytes: u64,
    /// How many there are.
    pub file_count: u64,
    /// 0: there are no rules beside them.
    pub rule_count: u64,
    /// Those that are there and cannot be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<StatusCell>,
}

/// A context file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct MemoryFile {
    /// `memory_file`.
    pub kind: String,
    /// Where it is.
    pub path: String,
    /// Whose it is.
    pub scope: ContextScope,
    /// Its size.
    pub bytes: u64,
    /// The digest of its bytes, which a replacement may name.
    pub revision: String,
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct StatusCell {
    /// What it is: `memory_file`.
    pub kind: String,
    /// How it is: `error`.
    pub status: String,
    /// What is wrong, in a sentence.
    pub error: String,
}

/// What is to be written to a context file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WriteMemory {
    /// Whose it is.
    pub scope: ContextScope,
    /// The text: a fact on one line, or several lines as they are; or all of the file. At most a MiB.
    pub content: String,
    /// What is done; `append` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<WriteMode>,
}

impl WriteMemory {
    /// Reads a body.
    pub fn read(fields: &Map<String, Value>) -> Result<Self, ErrorCode> {
        let content = fields.get("content").and_then(Value::as_str);
        let content = content.ok_or(ErrorCode::InvalidContent)?.to_owned();
        let word = |name| fields.get(name).filter(|value| !value.is_null());
        let mode = word("mode").map(|mode| mode.as_str().and_then(WriteMode::read));
        let mode = mode.map(|mode| mode.ok_or(ErrorCode::InvalidMode)).transpose()?;
        let scope = word("scope").and_then(Value::as_str).and_then(ContextScope::read);
        Ok(Self { scope: scope.ok_or(ErrorCode::InvalidScope)?, content, mode })
    }
}

/// What a write left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WroteMemory {
    /// `true`.
    pub ok: bool,
    /// The file.
    pub file_path: String,
    /// How many bytes were added, or how many the new text has; 0 if nothing was written.
    pub bytes_written: u64,
    /// What was done.
    pub mode: WriteMode,
    /// Whether the file is another than before.
    pub changed: bool,
    /// What screening warned of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_thing_that_is_wrong_with_a_body_is_told() {
        let read = |body: Value| WriteMemory::read(body.as_object().unwrap());
        let (content, scope) = (ErrorCode::InvalidContent, ErrorCode::InvalidScope);
        for (body, expected) in [
            (json!({}), content),
            (json!({ "content": 1, "mode": "x" }), content),
            (json!({ "content": null, "scope": "global" }), content),
            (json!({ "content": "a", "mode": "x", "scope": "x" }), ErrorCode::InvalidMode),
            (json!({ "content": "a", "mode": 1, "scope": "global" }), ErrorCode::InvalidMode),
            (json!({ "content": "a", "mode": "append" }), scope),
            (json!({ "content": "a", "scope": "user" }), scope),
            (json!({ "content": "a", "scope": null }), scope),
        ] {
            assert_eq!(read(body.clone()), Err(expected), "{body}");
        }
        let whole = json!({ "content": "", "scope": "workspace", "mode": null, "more": 1 });
        let (content, scope) = (String::new(), ContextScope::Workspace);
        assert_eq!(read(whole), Ok(WriteMemory { scope, content, mode: None }));
    }
}
