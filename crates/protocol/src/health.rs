//! How the memories are, over `/v1/health/memories`.

use serde::{Deserialize, Serialize};

/// Something about a memory, a scope or the state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct HealthFinding {
    /// What kind of thing, as `lukasa doctor` names it: `missing-description`, `repeated-entry`, `screened`, …; beside
    /// those `stale` and `nearly-full`.
    pub kind: String,
    /// In which scope; none for the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// What it is about: a path or a name. It is data: from a cloned repository it may hold anything.
    pub subject: String,
    /// The memory, if it is one that can be opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What that means and what to do.
    pub detail: String,
    /// Whether a repair mends it.
    pub fixable: bool,
}

/// How the memories are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MemoryHealth {
    /// What is not as it should be.
    pub findings: Vec<HealthFinding>,
    /// What could be better and harms nothing.
    pub advice: Vec<HealthFinding>,
}

/// What a repair did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RepairResponse {
    /// What was done, in sentences.
    pub done: Vec<String>,
    /// What is left for a person.
    pub left: Vec<HealthFinding>,
}
