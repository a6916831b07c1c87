//! Health checks of memories and their repair, over `/v1/health/memories`.
//!
//! A check reports findings about memories, scopes and the state; a repair fixes those that are marked as fixable.

use serde::{Deserialize, Serialize};

/// A finding about a memory, a scope or the state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct HealthFinding {
    /// The kind of finding, as in `lukasa doctor`: `missing-description`, `repeated-entry`, `screened`, …; also `stale`
    /// and `nearly-full`.
    pub kind: String,
    /// The scope; none for the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The path or name of the object. Untrusted data: from a cloned repository it may hold any text.
    pub subject: String,
    /// The path of the memory, if it can be opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The meaning of the finding, and a remedy.
    pub detail: String,
    /// Whether a repair fixes the problem.
    pub fixable: bool,
}

/// The result of a health check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MemoryHealth {
    /// Problems that need attention.
    pub findings: Vec<HealthFinding>,
    /// Possible improvements that do no harm if ignored.
    pub advice: Vec<HealthFinding>,
}

/// The result of a repair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RepairResponse {
    /// The repairs that were made, in sentences.
    pub done: Vec<String>,
    /// The findings that only a person can resolve.
    pub left: Vec<HealthFinding>,
}
