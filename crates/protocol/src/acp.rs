//! Tasks over the Agent Client Protocol: the names of the ext-methods, and what a daemon and its own child say beside
//! what any client says.
//!
//! The methods and the results are those of the task API. A *staged* call is the daemon's own: the child decides and
//! commits nothing, and answers with its edits as data, beside what a result says.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

use crate::task::TaskKind;

/// What the names of the methods have in common.
const PREFIX: &str = "qwen/control/workspace/memory/";

/// Tells whether tasks can be done.
pub const AVAILABILITY: &str = "qwen/control/workspace/memory/remember/availability";
/// Takes a text in.
pub const REMEMBER: &str = "qwen/control/workspace/memory/remember";
/// Removes entries.
pub const FORGET: &str = "qwen/control/workspace/memory/forget";
/// Tidies up.
pub const DREAM: &str = "qwen/control/workspace/memory/dream";

/// Looks a conversation through. A daemon alone asks for it, of its child: nobody asks for a review.
pub const REVIEW: &str = "lukasa/memory/review";

/// The notification by which a child tells what models did so far for a staged call.
pub const PROGRESS: &str = "_lukasa/noted";

/// The version of what daemon and child say to each other.
pub const STAGE_VERSION: u32 = 1;

/// One of the ext-methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Tells whether tasks can be done.
    Availability,
    /// Does a task of this kind.
    Task(TaskKind),
    /// Looks a conversation through, for a daemon.
    Review,
}

impl Method {
    /// Reads the name of a method. Libraries put an underscore before the name of what is no method of the protocol; it
    /// is known with and without one.
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

    /// Returns its name, without an underscore.
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

/// What a daemon asks of its child beside the fields of the task, in `_meta.lukasa.stage`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StageParams {
    /// The version of this.
    pub v: u32,
    /// The task.
    pub task: String,
    /// The very scope that was asked for: the task API has no word for some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The workspace.
    pub workspace: StageWorkspace,
    /// What is to be reviewed, if it is a review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<StageReview>,
}

/// What is to be reviewed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageReview {
    /// The conversation.
    pub session: String,
    /// Its first and its last turn that are read.
    pub turns: (u64, u64),
    /// Why now.
    pub moment: String,
    /// Who said it, and what.
    pub messages: Vec<(String, String)>,
}

/// A workspace, as the daemon has it. Paths are as the system has them, in whatever encoding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StageWorkspace {
    /// The folder.
    pub cwd: OsString,
    /// The checkout, or any folder in it.
    pub project_dir: Option<OsString>,
    /// Why there is no project.
    pub no_project: Option<String>,
    /// Whether the project's memories lie on this host rather than in the checkout.
    pub project_on_host: bool,
    /// The workspace that is mounted: by its id, else that of the checkout or none.
    pub workspace_id: Option<String>,
    /// Whether the workspace of the checkout is mounted.
    pub of_checkout: bool,
    /// One folder to mount instead of the scopes.
    pub flat: Option<OsString>,
    /// Whether nobody may write.
    pub read_only: bool,
}

/// What a child answers to a staged call beside the fields of a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StagedAnswer {
    /// What the daemon is to write.
    pub edits: Vec<StageFileEdit>,
    /// The very scopes that would be touched.
    pub scopes: Vec<String>,
    /// The proposals, whole.
    pub proposed: Vec<StagedProposal>,
    /// The model that decided, if one did.
    pub decided_by: Option<String>,
    /// What the edits go back to, if that is said.
    #[serde(default)]
    pub because: Option<String>,
    /// What models did for it.
    pub report: WorkReport,
}

/// An edit as data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageFileEdit {
    /// The memory.
    pub path: String,
    /// The SHA-256 digest of the text that it builds on; null if nothing was there.
    pub base: Option<String>,
    /// The text that it is to have; null if it is to go.
    pub text: Option<String>,
}

/// A proposal as data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StagedProposal {
    /// The kind of reason.
    pub kind: String,
    /// The reason.
    pub reason: String,
    /// How likely it is right, in percent.
    pub score: u8,
    /// The entries to change.
    pub changes: Vec<ProposedChange>,
    /// The entries that have to stay.
    #[serde(default)]
    pub relies_on: Vec<ProposalDependency>,
}

/// A change of one entry that is proposed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProposedChange {
    /// Its memory.
    pub path: String,
    /// All of its text; null if one is to be added.
    pub old: Option<String>,
    /// The text that it gets; null if it is to go.
    pub new: Option<String>,
}

/// An entry that a proposal relies on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProposalDependency {
    /// Its memory.
    pub path: String,
    /// All of its text.
    pub text: String,
}

/// What models did for a task so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkReport {
    /// The agent.
    pub agent: Option<String>,
    /// The model that was asked; none, if the rules did it.
    pub model: Option<String>,
    /// Replies of the model.
    pub turns: u32,
    /// Calls of tools.
    pub calls: u32,
    /// Calls that were refused.
    pub refused: u32,
    /// Tokens read, those from a cache among them.
    pub tokens_in: u64,
    /// Tokens that the provider had in a cache.
    pub tokens_cached: u64,
    /// Tokens written.
    pub tokens_out: u64,
    /// What it cost, in US dollars, if the provider says so.
    pub cost: Option<f64>,
    /// Why the rules did it although a model was to.
    pub fallback: Option<String>,
    /// Why the model's work was not taken.
    pub failed: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_known_with_one_underscore_or_none() {
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
