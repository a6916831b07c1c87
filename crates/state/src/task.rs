//! The second port of the state: the queue of tasks, the sessions of clients, the runs of tasks, proposals.
//!
//! Kinds and statuses are stored as the public words. A request and an outcome are JSON texts that this crate does not
//! read. Which task may run, who sees it and when it is given up is for the lane; this is its memory.
//!
//! What a caller is told survives a power cut, and what only says how far a task has come survives a
//! kill. The second is not synchronized by itself, because losing it is harmless. The database has one
//! log, so a later durable step carries all earlier ones with it: whoever can read the change of a
//! task on the disk can read there, too, that it ran and what its prepared outcome is.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use memory::change::{Actor, ChangeId, RootKey};
use memory::clock::Timestamp;
use memory::proposal::ProposalId;
use strum::VariantArray as _;

use crate::error::StateError;
use crate::proposal::{AddedProposals, NewProposal, ProposalQuery, ProposalRow};

/// The kind of work that a task is.
#[derive(strum::Display, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TaskKind {
    /// A text is taken in. This kind has the whole queue; the others share a part of it.
    Remember,
    /// Entries are removed.
    Forget,
    /// Memories are tidied up. The time of the last one is kept.
    Dream,
    /// A conversation is searched for what is worth keeping. No caller asks for one: it has a small queue of its own,
    /// and is begun when nothing else waits.
    Review,
}

impl TaskKind {
    /// Returns the public word.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns the actor of a change by such a task.
    pub const fn actor(self) -> Actor {
        match self {
            Self::Remember | Self::Forget => Actor::Task,
            Self::Dream => Actor::Dream,
            Self::Review => Actor::Review,
        }
    }
}

/// The progress of a task.
#[derive(strum::Display, strum::EnumString, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
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
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// Returns the public word.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Tells whether the task has ended.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Queued | Self::Running => false,
            Self::Completed | Self::Failed => true,
        }
    }
}

/// A task that is to be queued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTask {
    /// Its id, never used before.
    pub id: String,
    /// The workspace whose lane it waits in.
    pub workspace: String,
    /// Its kind.
    pub kind: TaskKind,
    /// Whose it is; `None` for a caller without a client id.
    pub client: Option<String>,
    /// What is asked, as JSON.
    pub request: String,
    /// When.
    pub at: Timestamp,
}

/// A task as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRow {
    /// Its place in the order of arrival, over all workspaces. Never given twice.
    pub seq: i64,
    /// Its id.
    pub id: String,
    /// The workspace whose lane it waits in.
    pub workspace: String,
    /// Its kind.
    pub kind: TaskKind,
    /// Whose it is.
    pub client: Option<String>,
    /// What is asked, as JSON.
    pub request: String,
    /// Its progress.
    pub status: Status,
    /// How often it was begun.
    pub attempts: u32,
    /// When it was queued.
    pub created_at: Timestamp,
    /// When its status last changed.
    pub updated_at: Timestamp,
    /// What came of it, as JSON. While it runs: what will have come of it once its draft is committed.
    pub outcome: Option<String>,
    /// The first change that history has under its id.
    pub change: Option<ChangeId>,
}

/// One attempt at a task. Only while it is the latest one may it say what comes of the task: whoever
/// took the task over has the next number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt<'t> {
    /// The id of the task.
    pub task: &'t str,
    /// Which attempt, from 1; 0 is before the first.
    pub number: u32,
}

impl TaskRow {
    /// Returns the attempt that the row tells of.
    pub fn attempt(&self) -> Attempt<'_> {
        Attempt { task: &self.id, number: self.attempts }
    }
}

/// The end of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskOutcome<'t> {
    /// Whether it is done or was given up.
    pub status: Status,
    /// What came of it, as JSON.
    pub outcome: &'t str,
    /// What is kept of the request, as JSON: its text is of no use any more.
    pub request: &'t str,
}

/// How many tasks of a workspace are how far.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskCount {
    /// The workspace.
    pub workspace: String,
    /// Its progress.
    pub status: Status,
    /// How many.
    pub tasks: u64,
}

/// How much a lane holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Unfinished tasks of a workspace; reviews do not count.
    pub unfinished_max: usize,
    /// Those of them that are not of the kind `Remember`.
    pub minor_max: usize,
    /// Tasks of a workspace, finished ones included.
    pub total_max: usize,
    /// How long a finished task is kept, in any workspace.
    pub finished_max_age: Duration,
}

/// What has to be so for a dream that nobody asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DreamPreconditions {
    /// The last one of the workspace, if there was one, was asked for at this time or before.
    pub requested_before: Timestamp,
    /// So many sessions of the workspace, or more, were registered since.
    pub sessions_min: u64,
}

/// What is known of the last dream of a workspace, whether or not its task is still kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastDream {
    /// When it was asked for; `None` if there was none.
    pub requested_at: Option<Timestamp>,
    /// How many sessions were registered since; those that ended count, too.
    pub sessions: u64,
}

/// What became of a task that was to be queued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnqueueResult {
    /// It waits.
    Queued(TaskRow),
    /// The lane holds as many as it may. Nothing was queued.
    Full,
}

/// Whose tasks to return.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OwnerFilter {
    /// Everybody's.
    #[default]
    Any,
    /// Those made without a client id.
    WithoutClient,
    /// This client's.
    Client(String),
}

/// Which tasks to return.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskQuery {
    /// Only tasks of this workspace.
    pub workspace: Option<String>,
    /// Only tasks of this kind.
    pub kind: Option<TaskKind>,
    /// Only tasks with this status.
    pub status: Option<Status>,
    /// Only tasks of this owner.
    pub owner: OwnerFilter,
    /// Of finished tasks, only those that ended at or after this time.
    pub ended_since: Option<Timestamp>,
    /// Only tasks with a smaller `seq` than this one: the cursor.
    pub before: Option<i64>,
    /// At most so many.
    pub max: usize,
}

/// A client of a workspace, and the stream of events that it may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// Its id.
    pub id: String,
    /// The workspace.
    pub workspace: String,
    /// The client id that was given out with it.
    pub client: String,
    /// When it was registered.
    pub created_at: Timestamp,
}

/// A conversation between a host's model and a person, as far as memories are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationRow {
    /// Its id.
    pub id: String,
    /// The workspace.
    pub workspace: String,
    /// How often it was written, with this time.
    pub version: u64,
    /// When it was heard of last.
    pub last_seen_at: Timestamp,
    /// What is known of it, as JSON.
    pub data: String,
}

/// What a conversation was given at the beginning of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentRow {
    /// The id of the conversation.
    pub conversation: String,
    /// Which segment of it, from 0.
    pub segment: u64,
    /// How often a segment of this conversation was written, with this time.
    pub version: u64,
    /// When it was written last.
    pub updated_at: Timestamp,
    /// What was given and told, as JSON.
    pub data: String,
}

/// One attempt at a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    /// The task.
    pub task: String,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// Who ran it.
    pub runner: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended; `None` while it runs, and for good if its process died.
    pub ended_at: Option<Timestamp>,
    /// What it reported, as JSON.
    pub outcome: Option<String>,
}

/// What a model did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelWorkRow {
    /// Its number, which grows; 0 for one that is to be added.
    pub number: u64,
    /// The workspace that it was done for.
    pub workspace: String,
    /// When it ended, however it did.
    pub ended_at: Timestamp,
    /// Whether nobody asked for it.
    pub background: bool,
    /// The tokens that were read and written.
    pub tokens: u64,
    /// What else is known of it, as JSON.
    pub data: String,
}

/// Keeps the queue, the sessions, the runs and the proposals.
///
/// A task goes [`enqueue`](Self::enqueue) → [`begin_next`](Self::begin_next) →
/// [`prepare_outcome`](Self::prepare_outcome) → the commit of its draft, as a change that names the
/// task → [`finish_task`](Self::finish_task). Whoever finds a task running that nobody runs any more
/// reads in its row how far it came: with a [`change`](TaskRow::change) it is completed with the
/// outcome that was prepared, without one it may be [`requeued`](Self::requeue).
///
/// Any number of processes may call. One task of a workspace runs at a time, and only its latest
/// [`Attempt`] has an effect; who may make the next one is seen to by the lanes.
#[async_trait]
pub trait TaskStore: Debug + Send + Sync {
    /// Durably queues a task, unless the lane of its workspace is full. Finished tasks that are too
    /// old go, in all workspaces; then, in this one, the oldest finished ones that are too many.
    async fn enqueue(
        &self,
        task: NewTask,
        limits: QueueLimits,
    ) -> Result<EnqueueResult, StateError>;

    /// Queues a dream as [`enqueue`](Self::enqueue) does, if the gates are open, too; else it is
    /// [`Full`](EnqueueResult::Full). Of several that are queued at once, in any process, one finds them open.
    async fn enqueue_dream(
        &self,
        task: NewTask,
        limits: QueueLimits,
        gates: DreamPreconditions,
    ) -> Result<EnqueueResult, StateError>;

    /// Returns what is known of the last dream of a workspace.
    async fn last_dream(&self, workspace: &str) -> Result<LastDream, StateError>;

    /// Begins the oldest queued task of a workspace: it runs, and has one attempt more. A review is begun only
    /// when nothing else waits. While one runs, none is begun.
    ///
    /// Survives a kill. After a power cut the task may be queued again with one attempt less; then
    /// nothing of this attempt is on the disk. One that cannot be read, such as of a kind that only a later version
    /// knows, is begun and is an error; [`fail_unreadable`](Self::fail_unreadable) ends it.
    async fn begin_next(
        &self,
        workspace: &str,
        at: Timestamp,
    ) -> Result<Option<TaskRow>, StateError>;

    /// Returns the running tasks of a workspace, oldest first: one at most, but for what earlier versions
    /// left. Whoever has the lane's turn and does none finds what somebody left who died.
    async fn running(&self, workspace: &str) -> Result<Vec<TaskRow>, StateError>;

    /// Fails the running tasks of a workspace whose rows cannot be read, which would hold all others up.
    /// Returns how many there were. Durable. Writes nothing when there are none.
    async fn fail_unreadable(
        &self,
        workspace: &str,
        end: TaskOutcome<'_>,
        at: Timestamp,
    ) -> Result<u64, StateError>;

    /// Keeps what will have come of a running task once its draft is committed. Returns whether this
    /// attempt still runs: if not, somebody finished the task meanwhile or began it anew, and its draft
    /// must not be committed.
    ///
    /// Survives a kill; is durable at the latest when the next change is.
    async fn prepare_outcome(
        &self,
        attempt: Attempt<'_>,
        outcome: &str,
    ) -> Result<bool, StateError>;

    /// Puts a running task back, at its old place before all that came later, and drops its prepared
    /// outcome. Returns whether this did: the attempt must run, and history must have no change of the task.
    ///
    /// Survives a kill. After a power cut it may be running again, to be put back once more.
    async fn requeue(&self, attempt: Attempt<'_>, at: Timestamp) -> Result<bool, StateError>;

    /// Finishes a task, queued or running, whose latest attempt this is. Returns whether this call did:
    /// what is finished stays as it is, and so does what somebody else began anew.
    ///
    /// Durable, unless a change of the task is: then it would be finished the same way again.
    async fn finish_task(
        &self,
        attempt: Attempt<'_>,
        end: TaskOutcome<'_>,
        at: Timestamp,
    ) -> Result<bool, StateError>;

    /// Takes back a task of which nothing can have been written: one that is queued, or that runs and
    /// has no prepared outcome. It has ended so then. Returns whether this call did.
    ///
    /// Durable. Excludes [`prepare_outcome`](Self::prepare_outcome): of the two, one returns `false`.
    async fn cancel_task(
        &self,
        id: &str,
        end: TaskOutcome<'_>,
        at: Timestamp,
    ) -> Result<bool, StateError>;

    /// Drops the tasks of all workspaces that ended before this time, with what is known of them.
    /// Returns how many there were. Writes nothing when there are none.
    async fn drop_ended(&self, before: Timestamp) -> Result<u64, StateError>;

    /// Counts tasks by workspace and status, in this order; of finished ones those that ended at or
    /// after this time.
    async fn count_tasks(&self, ended_since: Timestamp) -> Result<Vec<TaskCount>, StateError>;

    /// Returns one task.
    async fn task(&self, id: &str) -> Result<Option<TaskRow>, StateError>;

    /// Returns tasks, newest first.
    async fn tasks(&self, query: &TaskQuery) -> Result<Vec<TaskRow>, StateError>;

    /// Returns the workspaces with unfinished tasks, in order.
    async fn workspaces_with_work(&self) -> Result<Vec<String>, StateError>;

    /// Durably registers a session with its client.
    async fn add_session(&self, session: SessionRow) -> Result<(), StateError>;

    /// Ends a session, and its client's rights with it. Returns whether it was there.
    async fn end_session(&self, id: &str) -> Result<bool, StateError>;

    /// Returns one session.
    async fn session(&self, id: &str) -> Result<Option<SessionRow>, StateError>;

    /// Returns the sessions of a workspace, oldest first.
    async fn sessions(&self, workspace: &str) -> Result<Vec<SessionRow>, StateError>;

    /// Tells whether a client is registered with a workspace.
    async fn has_client(&self, workspace: &str, client: &str) -> Result<bool, StateError>;

    /// Returns one conversation.
    async fn conversation(&self, id: &str) -> Result<Option<ConversationRow>, StateError>;

    /// Writes a conversation, if its version is the one after what is kept; the first is 1. Those heard of
    /// the longest ago go when there are more than [`CONVERSATIONS_KEPT_MAX`]. Returns whether it was
    /// written: `false` means that somebody else wrote since. Survives a kill.
    ///
    /// [`CONVERSATIONS_KEPT_MAX`]: memory::limits::CONVERSATIONS_KEPT_MAX
    async fn save_conversation(&self, row: ConversationRow) -> Result<bool, StateError>;

    /// Drops what conversations kept for a review, the field `watched` of their data. Returns how many had it. Writes
    /// nothing when there are none.
    async fn drop_watched(&self) -> Result<u64, StateError>;

    /// Writes a conversation as [`save_conversation`](Self::save_conversation) does and queues a review of it, both or
    /// none: none if somebody else wrote the conversation since, or if so many reviews of the workspace are unfinished.
    /// Returns whether this did. Durable.
    async fn save_conversation_and_queue(
        &self,
        row: ConversationRow,
        review: NewTask,
        unfinished_max: usize,
    ) -> Result<bool, StateError>;

    /// Returns what a conversation was given at the beginning of its latest segment.
    async fn segment(&self, conversation: &str) -> Result<Option<SegmentRow>, StateError>;

    /// Writes what a conversation was given, in the place of what it was given before, if its version is the
    /// one after that; the first is 1. Those written the longest ago go when there are more than
    /// [`SEGMENTS_KEPT_MAX`]. Returns whether it was written. Survives a kill.
    ///
    /// [`SEGMENTS_KEPT_MAX`]: memory::limits::SEGMENTS_KEPT_MAX
    async fn save_segment(&self, row: SegmentRow) -> Result<bool, StateError>;

    /// Notes that an attempt began. Runs go with their task. Survives a kill.
    async fn add_run(&self, run: RunRow) -> Result<(), StateError>;

    /// Notes that an attempt ended. Survives a kill.
    async fn end_run(
        &self,
        attempt: Attempt<'_>,
        outcome: &str,
        at: Timestamp,
    ) -> Result<(), StateError>;

    /// Returns the attempts at a task, oldest first.
    async fn runs(&self, task: &str) -> Result<Vec<RunRow>, StateError>;

    /// Notes what a model did, under the next number. The oldest beyond [`MODEL_WORK_KEPT_MAX`] go. Survives a kill.
    ///
    /// [`MODEL_WORK_KEPT_MAX`]: memory::limits::MODEL_WORK_KEPT_MAX
    async fn add_model_work(&self, row: ModelWorkRow) -> Result<(), StateError>;

    /// Returns what models did for a workspace or for all, at most so many below a number, the newest first.
    async fn model_work(
        &self,
        workspace: Option<&str>,
        before: Option<u64>,
        max: usize,
    ) -> Result<Vec<ModelWorkRow>, StateError>;

    /// Returns the tokens that work took since then that nobody asked for.
    async fn background_tokens(&self, since: Timestamp) -> Result<u64, StateError>;

    /// Durably adds proposals, all at once. One is not added if the same waits about the same roots, was made by
    /// the same task or was rejected, or if [`PROPOSALS_WAITING_MAX`] wait about the same roots.
    ///
    /// [`PROPOSALS_WAITING_MAX`]: memory::limits::PROPOSALS_WAITING_MAX
    async fn add_proposals(&self, new: &[NewProposal]) -> Result<AddedProposals, StateError>;

    /// Returns waiting proposals, in the order of their numbers.
    async fn proposals(&self, query: &ProposalQuery) -> Result<Vec<ProposalRow>, StateError>;

    /// Counts the waiting proposals that name memories of these roots alone.
    async fn count_proposals(&self, roots: &[RootKey]) -> Result<u64, StateError>;

    /// Returns one proposal, also one that is decided.
    async fn proposal(&self, id: ProposalId) -> Result<Option<ProposalRow>, StateError>;

    /// Durably rejects a proposal that waits. Returns whether this call did. A proposal is accepted by recording
    /// the [change](crate::NewChange::accepts) that it asks for; of the two, one happens.
    async fn reject_proposal(&self, id: ProposalId, at: Timestamp) -> Result<bool, StateError>;

    /// Removes proposals that wait, as if they had never been made: the same may be made again.
    async fn withdraw_proposals(&self, ids: &[ProposalId]) -> Result<(), StateError>;
}
