//! Tasks: a remember, a forget or a dream that somebody asked for and that a lane carries out.
//!
//! Values only: what was asked, by whom, how far it is, what came of it. A task lives in the state as a
//! row whose texts only this module reads and writes. Nothing here queues or runs one.

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

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CuratorRequest {
    /// Take this in.
    Remember(RememberRequest),
    /// Remove this.
    Forget(ForgetRequest),
    /// Tidy up.
    Dream,
    /// Look this through.
    Review(ReviewRequest),
}

impl CuratorRequest {
    /// Returns the kind of task that carries it out.
    pub const fn kind(&self) -> TaskKind {
        match self {
            Self::Remember(_) => TaskKind::Remember,
            Self::Forget(_) => TaskKind::Forget,
            Self::Dream => TaskKind::Dream,
            Self::Review(_) => TaskKind::Review,
        }
    }
}

/// Who asks for a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requester {
    /// The client, if it has a name; then nobody else sees the task.
    pub client: Option<ClientId>,
    /// How far what they say may be trusted.
    pub trust: Trust,
    /// By which way they came in: `cli`, `http`, ….
    pub origin: String,
}

impl Requester {
    /// Returns a person who came in by `origin`.
    pub fn person(origin: &str) -> Self {
        Self { client: None, trust: Trust::Person, origin: origin.to_owned() }
    }

    /// Returns a program that came in by `origin`.
    pub fn client(origin: &str, client: Option<ClientId>) -> Self {
        Self { client, trust: Trust::Agent, origin: origin.to_owned() }
    }
}

/// How far a task is, with what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// It waits for those before it.
    Queued,
    /// It is being done.
    Running,
    /// It is done.
    Completed(TaskResult),
    /// It was given up, and nothing of it was written.
    Failed(TaskError),
}

impl TaskState {
    /// Returns the bare status.
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
    /// Its id, which begins with its kind.
    pub id: TaskId,
    /// The id of the workspace whose memories it is about.
    pub workspace: String,
    /// Who asked for it.
    pub requester: Requester,
    /// What was asked for; without its text if that may not be kept.
    pub request: CuratorRequest,
    /// Why the text may not be kept, if it may not: the task fails with it.
    pub refusal: Option<RememberError>,
    /// When.
    pub created_at: Timestamp,
    /// When its status last moved.
    pub updated_at: Timestamp,
    /// How far it is.
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
    /// One sentence on what was done, without a word of what was said.
    pub summary: String,
    /// The roots of the memories that changed.
    pub scopes: BTreeSet<Mount>,
    /// The entries that changed, or that a remember found to be known.
    pub changes: Vec<EntryOutcome>,
    /// The changes that it proposes to a person.
    pub proposals: TaskProposals,
    /// The part that only a task of its kind has.
    pub details: TaskDetails,
}

/// The part of a result that depends on the kind of the task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskDetails {
    /// Of a remember.
    Remember {
        /// The memories that changed; none if all of it was known.
        files_touched: Vec<MemoryPath>,
    },
    /// Of a forget.
    Forget {
        /// The entries that are gone.
        removed: Vec<ForgottenEntry>,
        /// The topics of the memories that changed.
        topics: BTreeSet<MemoryTopic>,
        /// If nothing was removed: the entries that may be meant.
        candidates: Vec<EntryCandidate>,
    },
    /// Of a dream.
    Dream {
        /// The topics of the memories that changed.
        topics: BTreeSet<MemoryTopic>,
        /// How many entries were merged into another that says the same.
        deduped: usize,
    },
    /// Of a review.
    Review {
        /// The memories that changed.
        files_touched: Vec<MemoryPath>,
        /// The number of findings that were not taken, by the reason.
        skipped: BTreeMap<FindingSkipReason, u32>,
    },
}

/// The proposals of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskProposals {
    /// Those that a run made. They are stored when the task ends.
    Unstored(Vec<Proposal>),
    /// The number of new ones that were stored.
    Stored(usize),
}

impl TaskProposals {
    /// Returns how many there are.
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
    /// Replaces its proposals by their number, and returns those that are not stored yet.
    pub(crate) fn take_proposals(&mut self) -> Vec<Proposal> {
        match std::mem::replace(&mut self.proposals, TaskProposals::Stored(0)) {
            TaskProposals::Unstored(proposals) => proposals,
            TaskProposals::Stored(_) => Vec::new(),
        }
    }
}
