//! Tasks over the Agent Client Protocol: the names of the ext-methods, and the messages between a daemon and its child.
//!
//! The methods and the results are those of the task API. A *staged* call is one that a daemon makes to its own child:
//! the child decides but commits nothing. It answers with its edits as data, beside the fields of a result.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

use crate::task::TaskKind;

/// Common prefix of the method names.
const PREFIX: &str = "qwen/control/workspace/memory/";

/// Reports whether tasks are accepted.
pub const AVAILABILITY: &str = "qwen/control/workspace/memory/remember/availability";
/// Remembers a text.
pub const REMEMBER: &str = "qwen/control/workspace/memory/remember";
/// Removes entries.
pub const FORGET: &str = "qwen/control/workspace/memory/forget";
/// Tidies memories.
pub const DREAM: &str = "qwen/control/workspace/memory/dream";

/// Reviews a conversation. Only a daemon calls it, in its child; clients cannot request a review.
pub const REVIEW: &str = "lukasa/memory/review";

/// The notification in which a child reports what models have done so far for a staged call.
pub const PROGRESS: &str = "_lukasa/noted";

/// The version of the messages between daemon and child.
pub const STAGE_VERSION: u32 = 1;

/// One of the ext-methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Reports whether tasks are accepted.
    Availability,
    /// Runs a task of this kind.
    Task(TaskKind),
    /// Reviews a conversation, for a daemon.
    Review,
}

impl Method {
    /// Parses the name of a method, with or without a leading underscore: libraries put one before the name of an
    /// extension method.
    pub fn read(name: &str) -> Option<Self> {
        let name = name.strip_prefix('_').unwrap_or(name);
        if name == REVIEW {
            return Some(Self::Review);
        }
        match name.strip_prefix(PREFIX)? {
            "remember/availability" => Some(Self::Availability),
            kind => kind.parse().ok().map(Self::Task),
        }
    }

    /// Returns the method's name, without an underscore.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Availability => AVAILABILITY,
            Self::Task(TaskKind::Remember) => REMEMBER,
            Self::Task(TaskKind::Forget) => FORGET,
            Self::Task(TaskKind::Dream) => DREAM,
            Self::Review => REVIEW,
        }
    }
}

/// The parameters that a daemon sends to its child beside the fields of the task, in `_meta.lukasa.stage`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StageParams {
    /// The version of these parameters: [`STAGE_VERSION`].
    pub v: u32,
    /// The id of the task.
    pub task: String,
    /// The requested scope, by its own name: the task API has no word for some scopes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The workspace.
    pub workspace: StageWorkspace,
    /// The conversation to review, if the task is a review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<StageReview>,
}

/// The part of a conversation to review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageReview {
    /// The conversation.
    pub session: String,
    /// The first and the last turn to read.
    pub turns: (u64, u64),
    /// The reason why the review runs now.
    pub moment: String,
    /// The messages: the role of the speaker, and the text.
    pub messages: Vec<(String, String)>,
}

/// A workspace of the daemon. Paths of this machine are in the encoding of the system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StageWorkspace {
    /// The working folder.
    pub cwd: StageFolder,
    /// The checkout, or a folder in it.
    pub project: Option<StageFolder>,
    /// The reason why there is no project.
    pub no_project: Option<String>,
    /// Whether the project's memories lie on this host rather than in the checkout.
    pub project_on_host: bool,
    /// The id of the mounted workspace; without it, the workspace of the checkout or none.
    pub workspace_id: Option<String>,
    /// Whether the workspace of the checkout is mounted.
    pub of_checkout: bool,
    /// One folder that is mounted instead of the scopes.
    pub flat: Option<OsString>,
    /// Whether all writes are refused.
    pub read_only: bool,
}

/// A folder of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StageFolder {
    /// A folder of this machine.
    Local(OsString),
    /// The address of a folder on another machine.
    Remote(String),
}

/// A child's answer to a staged call, beside the fields of a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StagedAnswer {
    /// The edits that the daemon commits.
    pub edits: Vec<StageFileEdit>,
    /// The scopes that the edits touch, by their own names.
    pub scopes: Vec<String>,
    /// The complete proposals.
    pub proposed: Vec<StagedProposal>,
    /// The model that decided; none if rules did.
    pub decided_by: Option<String>,
    /// The reason for the edits, if given.
    #[serde(default)]
    pub because: Option<String>,
    /// The work that models did for this call.
    pub report: WorkReport,
}

/// An edit of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageFileEdit {
    /// The path of the memory.
    pub path: String,
    /// The SHA-256 digest of the text that the edit is based on; null if there was no memory.
    pub base: Option<String>,
    /// The new text; null to delete the memory.
    pub text: Option<String>,
}

/// A proposal before it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StagedProposal {
    /// The kind of proposal.
    pub kind: String,
    /// The reason.
    pub reason: String,
    /// The probability that the proposal is right, in percent.
    pub score: u8,
    /// The entries to change.
    pub changes: Vec<ProposedChange>,
    /// The entries that must be unchanged when the proposal is accepted.
    #[serde(default)]
    pub relies_on: Vec<ProposalDependency>,
}

/// A proposed change of one entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProposedChange {
    /// The memory that holds the entry.
    pub path: String,
    /// The complete text of the entry; null to add one.
    pub old: Option<String>,
    /// The new text; null to remove the entry.
    pub new: Option<String>,
}

/// An entry that a proposal relies on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProposalDependency {
    /// The memory that holds the entry.
    pub path: String,
    /// The complete text of the entry.
    pub text: String,
}

/// The work that models have done so far for a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkReport {
    /// The name of the agent.
    pub agent: Option<String>,
    /// The model that was called; none if rules did the work.
    pub model: Option<String>,
    /// The number of replies of the model.
    pub turns: u32,
    /// The number of tool calls.
    pub calls: u32,
    /// The number of refused tool calls.
    pub refused: u32,
    /// Input tokens, including cached ones.
    pub tokens_in: u64,
    /// Input tokens that the provider served from its cache.
    pub tokens_cached: u64,
    /// Output tokens.
    pub tokens_out: u64,
    /// The cost in US dollars, if the provider reports it.
    pub cost: Option<f64>,
    /// The reason why rules replaced the model.
    pub fallback: Option<String>,
    /// The reason why the model's work was discarded.
    pub failed: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_name_may_have_one_leading_underscore() {
        let methods = [
            Method::Availability,
            Method::Task(TaskKind::Remember),
            Method::Task(TaskKind::Forget),
            Method::Task(TaskKind::Dream),
            Method::Review,
        ];
        for method in methods {
            let name = method.as_str();
            assert_eq!(Method::read(name), Some(method));
            assert_eq!(Method::read(&format!("_{name}")), Some(method));
            assert_eq!(Method::read(&format!("__{name}")), None);
            assert_eq!(Method::read(&format!("{name}/")), None);
        }
        for other in ["", "_", "remember", "session/new", "qwen/control/workspace/memory/"] {
            assert_eq!(Method::read(other), None, "{other}");
        }
    }
}
