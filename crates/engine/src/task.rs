//! Tasks: a remember, a forget or a dream that somebody asked for and that a lane carries out.
//!
//! Values only: what was asked, by whom, how far it is, what came of it. A task lives in the state as a
//! row whose texts only this module reads and writes. Nothing here queues or runs one.

mod details;
mod error;
mod id;
pub(crate) mod record;

pub use details::tellable;
pub(crate) use details::without_secrets;
pub use error::{TaskError, TaskErrorCode};
pub use id::{BadClientId, BadTaskId, ClientId, TaskId};

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use agents::{
    Candidate, EntryNote, ForgetRequest, LeftOut, Refusal, RememberRequest, Removed, ReviewRequest,
    Topic,
};
use memory::change::{Actor, Trust};
use memory::clock::Timestamp;
use memory::path::{MemoryPath, Mount};
use memory::proposal::Proposal;

/// What kind of work a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TaskKind {
    /// A text is taken in.
    Remember,
    /// Entries are removed.
    Forget,
    /// Memories are tidied up.
    Dream,
    /// A conversation is looked through for what is worth keeping. Nobody asks for one.
    Review,
}

impl TaskKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Remember, Self::Forget, Self::Dream, Self::Review];

    /// Returns the public word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Remember => "remember",
            Self::Forget => "forget",
            Self::Dream => "dream",
            Self::Review => "review",
        }
    }

    /// Returns who a change by such a task says made it.
    pub const fn actor(self) -> Actor {
        match self {
            Self::Remember | Self::Forget => Actor::Task,
            Self::Dream => Actor::Dream,
            Self::Review => Actor::Review,
        }
    }
}

impl fmt::Display for TaskKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word that names no [`TaskKind`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a kind of task is `remember`, `forget`, `dream` or `review`, not `{0}`")]
pub struct UnknownKind(pub String);

impl FromStr for TaskKind {
    type Err = UnknownKind;

    fn from_str(word: &str) -> Result<Self, UnknownKind> {
        let kind = Self::ALL.into_iter().find(|kind| kind.as_str() == word);
        kind.ok_or_else(|| UnknownKind(word.to_owned()))
    }
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Take this in.
    Remember(RememberRequest),
    /// Remove this.
    Forget(ForgetRequest),
    /// Tidy up.
    Dream,
    /// Look this through.
    Review(ReviewRequest),
}

impl Request {
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
pub struct Asker {
    /// The client, if it has a name; then nobody else sees the task.
    pub client: Option<ClientId>,
    /// How far what they say may be trusted.
    pub trust: Trust,
    /// By which way they came in: `cli`, `http`, ….
    pub origin: String,
}

impl Asker {
    /// Returns a person who came in by `origin`.
    pub fn person(origin: &str) -> Self {
        Self { client: None, trust: Trust::Person, origin: origin.to_owned() }
    }

    /// Returns a program that came in by `origin`.
    pub fn client(origin: &str, client: Option<ClientId>) -> Self {
        Self { client, trust: Trust::Agent, origin: origin.to_owned() }
    }
}

/// How far a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// It waits for those before it.
    Queued,
    /// It is being done.
    Running,
    /// It is done.
    Completed,
    /// It was given up, and nothing of it was written.
    Failed,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 4] = [Self::Queued, Self::Running, Self::Completed, Self::Failed];

    /// Returns the public word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }

    /// Tells whether nothing will become of the task any more.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Queued | Self::Running => false,
            Self::Completed | Self::Failed => true,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
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
    pub asker: Asker,
    /// What was asked for; without its text if that may not be kept.
    pub request: Request,
    /// Why the text may not be kept, if it may not: the task fails with it.
    pub refusal: Option<Refusal>,
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

/// What came of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskResult {
    /// Of a remember.
    Remembered {
        /// One sentence on what was done, without a word of the content.
        summary: String,
        /// The memories that changed; none if all of it was known.
        files_touched: Vec<MemoryPath>,
        /// Where they lie.
        scopes: BTreeSet<Mount>,
        /// What it proposes to a person.
        proposals: TaskProposals,
        /// The entries that changed or were known.
        changes: Vec<EntryNote>,
    },
    /// Of a forget.
    Forgotten {
        /// One sentence on what was done.
        summary: String,
        /// The entries that are gone.
        removed: Vec<Removed>,
        /// The topics of the memories that changed.
        topics: BTreeSet<Topic>,
        /// Where they lie.
        scopes: BTreeSet<Mount>,
        /// What it proposes to a person.
        proposals: TaskProposals,
        /// The entries that changed.
        changes: Vec<EntryNote>,
        /// If nothing was removed: the entries that may be meant.
        candidates: Vec<Candidate>,
    },
    /// Of a dream.
    Dreamt {
        /// One sentence on what was done.
        summary: String,
        /// The topics of the memories that changed.
        topics: BTreeSet<Topic>,
        /// Where they lie.
        scopes: BTreeSet<Mount>,
        /// How many entries were merged into another that says the same.
        deduped: usize,
        /// What it proposes to a person.
        proposals: TaskProposals,
        /// The entries that changed.
        changes: Vec<EntryNote>,
    },
    /// Of a review.
    Reviewed {
        /// One sentence on what was done, without a word of the conversation.
        summary: String,
        /// The memories that changed.
        files_touched: Vec<MemoryPath>,
        /// Where they lie.
        scopes: BTreeSet<Mount>,
        /// What it proposes to a person.
        proposals: TaskProposals,
        /// The entries that changed.
        changes: Vec<EntryNote>,
        /// The number of findings that were not taken, by the reason.
        skipped: BTreeMap<LeftOut, u32>,
    },
}

/// The proposals of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskProposals {
    /// Those that a run made. They are stored when the task ends.
    Made(Vec<Proposal>),
    /// The number of new ones that were stored.
    Stored(usize),
}

impl TaskProposals {
    /// Returns how many there are.
    pub const fn count(&self) -> usize {
        match self {
            Self::Made(proposals) => proposals.len(),
            Self::Stored(count) => *count,
        }
    }
}

impl From<Vec<Proposal>> for TaskProposals {
    fn from(proposals: Vec<Proposal>) -> Self {
        Self::Made(proposals)
    }
}

impl TaskResult {
    /// Returns the sentence on what was done.
    pub fn summary(&self) -> &str {
        match self {
            Self::Remembered { summary, .. }
            | Self::Forgotten { summary, .. }
            | Self::Dreamt { summary, .. }
            | Self::Reviewed { summary, .. } => summary,
        }
    }

    /// Returns the entries that changed or were known.
    pub fn changes(&self) -> &[EntryNote] {
        match self {
            Self::Remembered { changes, .. }
            | Self::Forgotten { changes, .. }
            | Self::Dreamt { changes, .. }
            | Self::Reviewed { changes, .. } => changes,
        }
    }

    /// Returns where the memories lie that it touched.
    pub const fn scopes(&self) -> &BTreeSet<Mount> {
        match self {
            Self::Remembered { scopes, .. }
            | Self::Forgotten { scopes, .. }
            | Self::Dreamt { scopes, .. }
            | Self::Reviewed { scopes, .. } => scopes,
        }
    }

    /// Returns what it proposes to a person.
    pub const fn proposals(&self) -> &TaskProposals {
        match self {
            Self::Remembered { proposals, .. }
            | Self::Forgotten { proposals, .. }
            | Self::Dreamt { proposals, .. }
            | Self::Reviewed { proposals, .. } => proposals,
        }
    }

    /// Replaces its proposals by their number, and returns those that are not stored yet.
    pub(crate) fn take_proposals(&mut self) -> Vec<Proposal> {
        match std::mem::replace(self.proposals_mut(), TaskProposals::Stored(0)) {
            TaskProposals::Made(proposals) => proposals,
            TaskProposals::Stored(_) => Vec::new(),
        }
    }

    /// Adds to what is said of it.
    pub(crate) fn add_to_summary(&mut self, sentence: &str) {
        match self {
            Self::Remembered { summary, .. }
            | Self::Forgotten { summary, .. }
            | Self::Dreamt { summary, .. }
            | Self::Reviewed { summary, .. } => summary.push_str(sentence),
        }
    }

    /// Notes how many of its proposals were stored.
    pub(crate) fn note_stored(&mut self, count: usize) {
        *self.proposals_mut() = TaskProposals::Stored(count);
    }

    const fn proposals_mut(&mut self) -> &mut TaskProposals {
        match self {
            Self::Remembered { proposals, .. }
            | Self::Forgotten { proposals, .. }
            | Self::Dreamt { proposals, .. }
            | Self::Reviewed { proposals, .. } => proposals,
        }
    }
}
