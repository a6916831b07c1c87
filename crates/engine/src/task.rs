//! Tasks: queued requests to remember, forget, dream or review, which a lane executes.
//!
//! Only values: the request, the requester, the status and the result. A task is stored in the
//! state as a row, whose texts only this module encodes and decodes. Nothing here queues or runs a
//! task.

mod error;
mod id;
pub(crate) mod record;
mod redaction;

pub use error::{TaskError, TaskErrorCode};
pub use id::{BadClientId, BadTaskId, ClientId, TaskId};
pub use redaction::redact_for_display;
pub(crate) use redaction::without_secrets;

use std::collections::{BTreeMap, BTreeSet};

use agents::{
    EntryCandidate, EntryOutcome, FindingSkipReason, ForgetRequest, ForgottenEntry, MemoryTopic,
    RememberError, RememberRequest, ReviewRequest,
};
use memory::change::Trust;
use memory::clock::Timestamp;
use memory::path::{MemoryPath, Mount};
use memory::proposal::Proposal;

pub use state::{Status, TaskKind};

/// A request to the curator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CuratorRequest {
    /// Add the facts of a text to the memories.
    Remember(RememberRequest),
    /// Remove entries.
    Forget(ForgetRequest),
    /// Tidy the memories.
    Dream,
    /// Read messages of a conversation for facts worth saving.
    Review(ReviewRequest),
}

impl CuratorRequest {
    /// Returns the kind of task that executes it.
    pub const fn kind(&self) -> TaskKind {
        match self {
            Self::Remember(_) => TaskKind::Remember,
            Self::Forget(_) => TaskKind::Forget,
            Self::Dream => TaskKind::Dream,
            Self::Review(_) => TaskKind::Review,
        }
    }
}

/// The requester of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requester {
    /// The client id, if it has one. A task with a client id is visible to that client and the user
    /// only.
    pub client: Option<ClientId>,
    /// The trust in the text of its requests.
    pub trust: Trust,
    /// The entry point of the request: `cli`, `http`, ….
    pub origin: String,
}

impl Requester {
    /// Returns the user, with the entry point `origin`.
    pub fn person(origin: &str) -> Self {
        Self { client: None, trust: Trust::Person, origin: origin.to_owned() }
    }

    /// Returns a program, with the entry point `origin`.
    pub fn client(origin: &str, client: Option<ClientId>) -> Self {
        Self { client, trust: Trust::Agent, origin: origin.to_owned() }
    }
}

/// The status of a task, with its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// It waits for earlier tasks.
    Queued,
    /// It is running.
    Running,
    /// It has succeeded.
    Completed(TaskResult),
    /// It has failed or was cancelled. Nothing was written.
    Failed(TaskError),
}

impl TaskState {
    /// Returns the status without the result.
    pub const fn status(&self) -> Status {
        match self {
            Self::Queued => Status::Queued,
            Self::Running => Status::Running,
            Self::Completed(_) => Status::Completed,
            Self::Failed(_) => Status::Failed,
        }
    }
}

/// A task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Id of the task, which starts with its kind.
    pub id: TaskId,
    /// Id of the workspace whose memories it may change.
    pub workspace: String,
    /// The requester.
    pub requester: Requester,
    /// The request, without its text if that must not be stored.
    pub request: CuratorRequest,
    /// The reason why the text must not be stored; the task fails with it.
    pub refusal: Option<RememberError>,
    /// Time of the request.
    pub created_at: Timestamp,
    /// Time of the last change of status.
    pub updated_at: Timestamp,
    /// The status, with the result.
    pub state: TaskState,
}

impl Task {
    /// Returns its kind.
    pub const fn kind(&self) -> TaskKind {
        self.request.kind()
    }

    /// Returns its status.
    pub const fn status(&self) -> Status {
        self.state.status()
    }
}

/// The result of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskResult {
    /// One sentence about the result, without quoting the request.
    pub summary: String,
    /// The roots of the memories that changed.
    pub scopes: BTreeSet<Mount>,
    /// The entries that changed, and those that a remember found to be stored already.
    pub changes: Vec<EntryOutcome>,
    /// The changes proposed for a person's decision.
    pub proposals: TaskProposals,
    /// The part that depends on the kind of the task.
    pub details: TaskDetails,
}

/// The part of a result that depends on the kind of the task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskDetails {
    /// Of a remember.
    Remember {
        /// The memories that changed; empty if everything was known.
        files_touched: Vec<MemoryPath>,
    },
    /// Of a forget.
    Forget {
        /// The removed entries.
        removed: Vec<ForgottenEntry>,
        /// The topics of the memories that changed.
        topics: BTreeSet<MemoryTopic>,
        /// The entries that may be meant, if nothing was removed.
        candidates: Vec<EntryCandidate>,
    },
    /// Of a dream.
    Dream {
        /// The topics of the memories that changed.
        topics: BTreeSet<MemoryTopic>,
        /// Number of entries merged into an equivalent one.
        deduped: usize,
    },
    /// Of a review.
    Review {
        /// The memories that changed.
        files_touched: Vec<MemoryPath>,
        /// Number of findings that were not saved, by reason.
        skipped: BTreeMap<FindingSkipReason, u32>,
    },
}

/// The proposals of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskProposals {
    /// Proposals made by a run; they are stored when the task ends.
    Unstored(Vec<Proposal>),
    /// Number of new proposals that were stored.
    Stored(usize),
}

impl TaskProposals {
    /// Returns the number of proposals.
    pub const fn count(&self) -> usize {
        match self {
            Self::Unstored(proposals) => proposals.len(),
            Self::Stored(count) => *count,
        }
    }
}

impl From<Vec<Proposal>> for TaskProposals {
    fn from(proposals: Vec<Proposal>) -> Self {
        Self::Unstored(proposals)
    }
}

impl TaskResult {
    /// Replaces the proposals by their number, and returns the unstored ones.
    pub(crate) fn take_proposals(&mut self) -> Vec<Proposal> {
        match std::mem::replace(&mut self.proposals, TaskProposals::Stored(0)) {
            TaskProposals::Unstored(proposals) => proposals,
            TaskProposals::Stored(_) => Vec::new(),
        }
    }
}
