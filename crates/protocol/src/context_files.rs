//! Context files: the instruction files of a person and of a project, such as `AGENTS.md`.
//!
//! The task API calls them the memory of a workspace.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::ErrorCode;
use crate::memories::Warning;
use crate::task::word;

/// Whose a context file is.
#[derive(strum::AsRefStr, strum::Display, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ContextScope {
    /// The project's.
    Workspace,
    /// The person's own, in all projects.
    Global,
}

/// What is done to a context file.
#[derive(strum::AsRefStr, strum::Display, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum WriteMode {
    /// The text is added to the section of added memories.
    Append,
    /// The text takes the place of all that was there.
    Replace,
}

/// How imports in context files are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::VariantArray)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ImportFormat {
    /// What is imported takes the place of what asked for it.
    Tree,
    /// Texts stay as they are; imported files follow, each once.
    Flat,
}

/// Why a context file is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::VariantArray)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum LoadScope {
    /// It is the person's own, in all projects.
    Global,
    /// It is the project's.
    Project,
    /// It is in a folder that was listed.
    Included,
    /// The file itself was named.
    Extension,
}

/// What context files are loaded with, beside the settings, for one call or one session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoadOptions {
    /// Further folders, by absolute paths: their context files are loaded, and may be imported from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include_folders: Vec<String>,
    /// Further Markdown files, by absolute paths, after all others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extension_files: Vec<String>,
    /// Whether the project is trusted; left out, the person's list of trusted folders says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder_trust: Option<bool>,
    /// How imports are shown; left out, as the settings say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub import_format: Option<ImportFormat>,
    /// Names of context files that the host shows its model itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context_files_loaded: Vec<String>,
}

/// The context files of a workspace as a model is shown them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LoadedContext {
    /// The text; empty if there are none.
    pub text: String,
    /// The files in it, in their order, each followed by what it imports first.
    pub files: Vec<LoadedFile>,
    /// The files and imports that are not in it.
    pub skipped: Vec<SkippedFile>,
}

/// A context file, or what one imports, as it was loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LoadedFile {
    /// Where it is.
    pub path: String,
    /// Why it is loaded.
    pub scope: LoadScope,
    /// The file that imports it; left out of a context file itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Its bytes as it is shown.
    pub bytes: u64,
    /// Its tokens, counted in the same way.
    pub tokens: u64,
    /// Whether it was cut to its share of the tokens.
    pub cut: bool,
}

/// A file that was there, or asked for, and is not loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SkippedFile {
    /// Where it is, as far as that is known.
    pub path: String,
    /// The file that asks for it; left out of a context file itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Why it is not loaded.
    pub why: String,
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
    pub errors: Vec<StatusIssue>,
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
pub struct StatusIssue {
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
        let mode = match fields.get("mode") {
            None | Some(Value::Null) => None,
            Some(mode) => Some(word(mode).ok_or(ErrorCode::InvalidMode)?),
        };
        let scope = fields.get("scope").and_then(word).ok_or(ErrorCode::InvalidScope)?;
        Ok(Self { scope, content, mode })
    }
}

/// What a write left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WriteMemoryResponse {
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
