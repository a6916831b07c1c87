//! Settings over `/v1/settings`, and trusted folders over `/v1/trust`.
//!
//! Settings are those of the settings file, with their sources and allowed values. A daemon reads the file only at its
//! start.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The kind of value of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::VariantArray)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SettingKind {
    /// `true` or `false`.
    Switch,
    /// A whole number.
    Number,
    /// One of `choices`.
    Choice,
    /// A string.
    Text,
    /// A list of strings.
    List,
}

/// The source of a setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::VariantArray)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SettingSource {
    /// The built-in default.
    Default,
    /// The settings file.
    File,
    /// An environment variable.
    Environment,
}

/// A setting with its value and limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Setting {
    /// The name in the settings file, such as `retention.days`.
    pub key: String,
    /// The kind of value.
    pub kind: SettingKind,
    /// The meaning of the setting, for people.
    pub meaning: String,
    /// The current value; null if there is none.
    pub value: Value,
    /// The default value; null if there is none.
    pub default: Value,
    /// The source of the current value.
    pub from: SettingSource,
    /// The line in the settings file that sets it, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The smallest allowed number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<u64>,
    /// The largest allowed number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
    /// The allowed words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// Whether the setting cannot be changed here; `why` has the reason.
    pub read_only: bool,
    /// The reason why the setting cannot be changed here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Whether this build includes the feature that the setting controls.
    pub built: bool,
}

/// All settings of a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// The path of the settings file, which may not exist yet.
    pub file: String,
    /// Whether the file has changed since the daemon read it at its start.
    pub restart_needed: bool,
    /// The settings, in the order of the documentation.
    pub settings: Vec<Setting>,
}

/// A new value for a setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PutSetting {
    /// The value; null removes the setting from the file.
    pub value: Value,
    /// The value that the setting must still have, as listed; any value by default.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub expected: Option<Value>,
}

/// Deserializes a field that is present, even if it is null: serde would read null as `None`.
fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// The trusted folders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TrustStatus {
    /// The folders that a person trusts, including their subfolders.
    pub folders: Vec<String>,
    /// The project of the workspace, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub here: Option<FolderTrust>,
}

/// The trust in a project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FolderTrust {
    /// The folder of the project.
    pub path: String,
    /// Whether the folder, or one above it, is trusted.
    pub trusted: bool,
    /// The texts that models are shown only if the project is trusted.
    pub speaks: Vec<InstructionSource>,
    /// The number of further texts that are not listed.
    pub more: u64,
}

/// The kind of a text that models are shown only if its project is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::VariantArray)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum InstructionSourceKind {
    /// A context file: it instructs models.
    ContextFile,
    /// A memory that was not reviewed.
    Memory,
}

/// A text that models are shown only if its project is trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct InstructionSource {
    /// The kind of text.
    pub kind: InstructionSourceKind,
    /// The path of the file or memory.
    pub path: String,
    /// The description, for a memory.
    pub description: String,
}

/// A change of the trust in a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PutTrust {
    /// The absolute path of the folder.
    pub path: String,
    /// Whether the folder is to be trusted.
    pub trusted: bool,
}
