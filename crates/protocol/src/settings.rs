//! Settings over `/v1/settings`, and which folders are trusted over `/v1/trust`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What kind of value a setting has.
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
    /// A text.
    Text,
    /// Several texts.
    List,
}

/// What says the value of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::VariantArray)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SettingSource {
    /// Nothing: it is the default.
    Default,
    /// The settings file.
    File,
    /// A variable of the environment.
    Environment,
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Setting {
    /// Its name in the settings file, such as `retention.days`.
    pub key: String,
    /// What kind of value it has.
    pub kind: SettingKind,
    /// What it is, for people.
    pub meaning: String,
    /// Its value; null when there is none.
    pub value: Value,
    /// Its value when nothing sets it; null when there is none.
    pub default: Value,
    /// What says the value.
    pub from: SettingSource,
    /// The line of the settings file that does, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The smallest number that it may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<u64>,
    /// The largest number that it may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
    /// The words that it may be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// Whether it can be set here; if not, `why` says why.
    pub read_only: bool,
    /// Why it cannot be set here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Whether this version has what it turns on.
    pub built: bool,
}

/// All settings of a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// The settings file, which may not be there yet.
    pub file: String,
    /// Whether the file says something else than when the daemon began: it is read at its start.
    pub restart_needed: bool,
    /// The settings, in the order of the documentation.
    pub settings: Vec<Setting>,
}

/// A value to set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PutSetting {
    /// The value; null takes the setting out of the file.
    pub value: Value,
    /// Only if its value is still this one, as it was listed; left out, whatever it is.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub expected: Option<Value>,
}

/// Reads a value that is there, be it null.
fn given<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// Which folders are trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TrustStatus {
    /// The folders that a person trusts, with all below them.
    pub folders: Vec<String>,
    /// The project of the workspace, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub here: Option<FolderTrust>,
}

/// Whether a project is trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FolderTrust {
    /// Its folder.
    pub path: String,
    /// Whether it, or a folder above it, is trusted.
    pub trusted: bool,
    /// What is not shown to models unasked, and would be if it were trusted.
    pub speaks: Vec<InstructionSource>,
    /// How many more there are.
    pub more: u64,
}

/// What speaks once a project is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::VariantArray)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum InstructionSourceKind {
    /// A context file: it instructs models.
    ContextFile,
    /// A memory that was not reviewed.
    Memory,
}

/// Something of a project that is shown to models once it is trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct InstructionSource {
    /// What it is.
    pub kind: InstructionSourceKind,
    /// The file, or the memory.
    pub path: String,
    /// The description of a memory.
    pub description: String,
}

/// A folder to trust, or not to trust any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PutTrust {
    /// The folder, from the root of the file system on.
    pub path: String,
    /// Whether it is trusted.
    pub trusted: bool,
}
