//! Context files: the instruction files of a person and of a project, such as `AGENTS.md`.
//!
//! The task API calls them the memory of a workspace.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::ErrorCode;
use crate::memories::Warning;
use crate::task::word;

/// The owner of a context file.
#[derive(strum::AsRefStr, strum::Display, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ContextScope {
    /// The context file of the project.
    Workspace,
    /// The context file of the person, for all projects.
    Global,
}

/// The way in which a context file is written.
#[derive(strum::AsRefStr, strum::Display, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum WriteMode {
    /// The text is added to the section of added memories.
    Append,
    /// The text replaces the whole file.
    Replace,
}

/// The form in which imports in context files are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::VariantArray)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ImportFormat {
    /// The imported text replaces the import directive.
    Tree,
    /// Texts are unchanged; imported files follow, each once.
    Flat,
}

/// The reason why a context file is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::VariantArray)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum LoadScope {
    /// It belongs to the person, in all projects.
    Global,
    /// It belongs to the project.
    Project,
    /// It is in one of `includeFolders`.
    Included,
    /// It is one of `extensionFiles`.
    Extension,
}

/// Options for loading context files, beside the settings, for one call or one session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoadOptions {
    /// Further folders, by absolute paths: their context files are loaded, and imports may point into them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include_folders: Vec<String>,
    /// Further Markdown files, by absolute paths, loaded after all others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extension_files: Vec<String>,
    /// Whether the project is trusted; by default, the person's list of trusted folders decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder_trust: Option<bool>,
    /// The form in which imports are shown; by default, as set in the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub import_format: Option<ImportFormat>,
    /// Names of context files that the host itself already shows to its model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context_files_loaded: Vec<String>,
}

/// The context files of a workspace, as a model sees them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LoadedContext {
    /// The text; empty if there are none.
    pub text: String,
    /// The loaded files in order; each is followed by its imports.
    pub files: Vec<LoadedFile>,
    /// The files and imports that were not loaded.
    pub skipped: Vec<SkippedFile>,
}

/// A loaded context file, or a file that one imports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LoadedFile {
    /// The path of the file.
    pub path: String,
    /// The reason why the file is loaded.
    pub scope: LoadScope,
    /// The file that imports this one; absent for a context file itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The size of the shown text in bytes.
    pub bytes: u64,
    /// The estimated tokens of the shown text.
    pub tokens: u64,
    /// Whether the text was cut to its share of the token limit.
    pub cut: bool,
}

/// A context file or import that is not loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SkippedFile {
    /// The path of the file, as far as it is known.
    pub path: String,
    /// The file that imports this one; absent for a context file itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The reason why the file is not loaded.
    pub why: String,
}

/// The context files for the folder of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceMemory {
    /// The version of this response: 1.
    pub v: u32,
    /// The folder of the workspace.
    pub workspace_cwd: String,
    /// Always `true`: the files have been searched for.
    pub initialized: bool,
    /// The files, in the order in which they are loaded.
    pub files: Vec<MemoryFile>,
    /// The size of all files in bytes.
    pub total_bytes: u64,
    /// The number of files.
    pub file_count: u64,
    /// Always 0: there are no separate rules.
    pub rule_count: u64,
    /// Files that exist but cannot be used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<StatusIssue>,
}

/// A context file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct MemoryFile {
    /// The kind of object: `memory_file`.
    pub kind: String,
    /// The path of the file.
    pub path: String,
    /// The owner of the file.
    pub scope: ContextScope,
    /// The size in bytes.
    pub bytes: u64,
    /// The SHA-256 digest of the file's bytes, for the precondition of a replacement.
    pub revision: String,
}

/// A problem with a context file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct StatusIssue {
    /// The kind of object: `memory_file`.
    pub kind: String,
    /// The status: `error`.
    pub status: String,
    /// The problem, in a sentence.
    pub error: String,
}

/// A write to a context file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WriteMemory {
    /// The owner of the context file.
    pub scope: ContextScope,
    /// The text: with `append`, a fact on one line or several lines; with `replace`, the whole file. At most 1 MiB.
    pub content: String,
    /// The way in which the file is written; `append` by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<WriteMode>,
}

impl WriteMemory {
    /// Reads a request body. Returns the error of the first invalid field.
    pub fn read(fields: &Map<String, Value>) -> Result<Self, ErrorCode> {
        let content = fields.get("content").and_then(Value::as_str);
        let content = content.ok_or(ErrorCode::InvalidContent)?.to_owned();
        let mode = match fields.get("mode") {
            None | Some(Value::Null) => None,
            Some(mode) => Some(word(mode).ok_or(ErrorCode::InvalidMode)?),
        };
        let scope = fields.get("scope").and_then(word).ok_or(ErrorCode::InvalidScope)?;
        Ok(Self { scope, content, mode })
    }
}

/// The result of a write to a context file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WriteMemoryResponse {
    /// Always `true`.
    pub ok: bool,
    /// The path of the file.
    pub file_path: String,
    /// The number of bytes that were added, or of the whole new text; 0 if nothing was written.
    pub bytes_written: u64,
    /// The way in which the file was written.
    pub mode: WriteMode,
    /// Whether the file changed.
    pub changed: bool,
    /// Warnings of screening.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_invalid_field_decides_the_error() {
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
