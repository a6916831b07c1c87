//! The task port of the state: the queue of tasks, client sessions, runs, conversations, proposals and model work.
//!
//! Kinds and statuses are stored as the public words. Requests and outcomes are JSON texts that this crate does not
//! parse. The lanes decide which task may run, who may see it and when it is abandoned; this port only stores that.
//!
//! Data that a caller received survives a power cut. Progress of a task survives only a kill: it is not synchronized by
//! itself, because losing it is harmless. The database has one log, so a later durable step carries all earlier ones
//! with it. If the change of a task is on the disk, so are its start and its prepared outcome.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use memory::change::{Actor, ChangeId, RootKey};
use memory::clock::Timestamp;
use memory::path::Mount;
use memory::proposal::ProposalId;
use strum::VariantArray as _;

use crate::error::StateError;
use crate::proposal::{AddedProposals, NewProposal, ProposalQuery, ProposalRow};

/// The kind of work that a task is.
#[derive(strum::Display, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TaskKind {
    /// Adds a text to the memories. This kind may use the whole queue; the other kinds share a part of it.
    Remember,
    /// Removes entries.
    Forget,
    /// Tidies memories. The time of the last one is stored.
    Dream,
    /// Searches a conversation for facts worth keeping. No caller requests one: reviews have a small queue of their own
    /// and begin when no other task waits.
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
    /// Waiting for the tasks before it.
    Queued,
    /// Being executed.
    Running,
    /// Done.
    Completed,
    /// Abandoned; nothing of it was written.
    Failed,
}

impl Status {
    /// Every status.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// Returns the public word.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns whether the task has ended.
    pub const fn is_final(self) -> bool {
        match self {
            Self::Queued | Self::Running => false,
            Self::Completed | Self::Failed => true,
        }
    }
}

/// A task to be queued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTask {
    /// Unique id, never used before.
    pub id: String,
    /// The workspace whose lane it waits in.
    pub workspace: String,
    /// Its kind.
    pub kind: TaskKind,
    /// The client that owns it; `None` for a caller without a client id.
    pub client: Option<String>,
    /// The request, as JSON.
    pub request: String,
    /// The time of the request.
    pub at: Timestamp,
}

/// A stored task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskRow {
    /// Position in the order of arrival, over all workspaces. Never reused.
    pub seq: i64,
    /// Its id.
    pub id: String,
    /// The workspace whose lane it waits in.
    pub workspace: String,
    /// Its kind.
    pub kind: TaskKind,
    /// The client that owns it; `None` for a caller without a client id.
    pub client: Option<String>,
    /// The request, as JSON.
    pub request: String,
    /// Its progress.
    pub status: Status,
    /// Number of attempts that began.
    pub attempts: u32,
    /// When it was queued.
    pub created_at: Timestamp,
    /// When its status last changed.
    pub updated_at: Timestamp,
    /// The outcome, as JSON. While the task runs: the outcome that will hold once its draft is committed.
    pub outcome: Option<String>,
    /// The first change in history that names this task.
    pub change: Option<ChangeId>,
}

/// One attempt at a task. Only the latest attempt may write the outcome of the task: a process that takes the task over
/// gets the next number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt<'t> {
    /// The id of the task.
    pub task: &'t str,
    /// Number of the attempt, from 1; 0 is before the first.
    pub number: u32,
}

impl TaskRow {
    /// Returns the latest attempt at this task.
    pub fn attempt(&self) -> Attempt<'_> {
        Attempt { task: &self.id, number: self.attempts }
    }
}

/// The end of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskOutcome<'t> {
    /// [`Completed`](Status::Completed) or [`Failed`](Status::Failed).
    pub status: Status,
    /// The outcome, as JSON.
    pub outcome: &'t str,
    /// The part of the request to keep, as JSON; the request's text is no longer needed.
    pub request: &'t str,
    /// The changes of memories, for a log of events; `None` if there were none.
    pub effect: Option<TaskEffect<'t>>,
}

/// The changes that a task made to memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskEffect<'t> {
    /// The mounts of the memories.
    pub scopes: &'t BTreeSet<Mount>,
    /// The number of changed entries.
    pub saved: usize,
}

/// The number of tasks of a workspace with one status.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskCount {
    /// The workspace.
    pub workspace: String,
    /// The counted status.
    pub status: Status,
    /// Number of tasks.
    pub tasks: u64,
}

/// The limits of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Unfinished tasks of a workspace; reviews do not count.
    pub unfinished_max: usize,
    /// Unfinished tasks that are not of the kind `Remember`.
    pub minor_max: usize,
    /// Tasks of a workspace, finished ones included.
    pub total_max: usize,
    /// Age at which a finished task is dropped, in any workspace.
    pub finished_max_age: Duration,
}

/// The preconditions of a dream that no caller requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DreamPreconditions {
    /// The last dream of the workspace, if any, was requested at this time or earlier.
    pub requested_before: Timestamp,
    /// At least this number of sessions of the workspace were registered since.
    pub sessions_min: u64,
}

/// The last dream of a workspace, whether or not its task is still stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastDream {
    /// Time of the request; `None` if there was no dream.
    pub requested_at: Option<Timestamp>,
    /// Number of sessions registered since, ended ones included.
    pub sessions: u64,
}

/// The result of queuing a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnqueueResult {
    /// The task was queued.
    Queued(TaskRow),
    /// The lane is at its limit. Nothing was queued.
    Full,
}

/// A filter of tasks by owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OwnerFilter {
    /// Tasks of all callers.
    #[default]
    Any,
    /// Tasks of callers without a client id.
    WithoutClient,
    /// Tasks of this client.
    Client(String),
}

/// A query for tasks.
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
    /// The maximum number of results.
    pub max: usize,
}

/// A session: a client registered with a workspace, and the stream of events that it may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// Its id.
    pub id: String,
    /// The workspace.
    pub workspace: String,
    /// The client id that was issued with it.
    pub client: String,
    /// When it was registered.
    pub created_at: Timestamp,
}

/// A conversation between a host's model and a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationRow {
    /// Its id.
    pub id: String,
    /// The workspace.
    pub workspace: String,
    /// Number of writes, this one included.
    pub version: u64,
    /// Time of the last request from this conversation.
    pub last_seen_at: Timestamp,
    /// Further data, as JSON.
    pub data: String,
}

/// The memories that a conversation was shown at the beginning of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentRow {
    /// The id of the conversation.
    pub conversation: String,
    /// Number of the segment, from 0.
    pub segment: u64,
    /// Number of writes of segments of this conversation, this one included.
    pub version: u64,
    /// When it was written last.
    pub updated_at: Timestamp,
    /// The texts that were shown and published, as JSON.
    pub data: String,
}

/// A run: one attempt at a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    /// The task.
    pub task: String,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// The runner that executed it.
    pub runner: String,
    /// When it began.
    pub started_at: Timestamp,
    /// Time of the end; `None` while it runs, and forever if its process died.
    pub ended_at: Option<Timestamp>,
    /// The reported outcome, as JSON.
    pub outcome: Option<String>,
}

/// A record of work that a model did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelWorkRow {
    /// Growing number; 0 for a row that is to be added.
    pub number: u64,
    /// The workspace that the work was done for.
    pub workspace: String,
    /// Time of the end, after success or failure.
    pub ended_at: Timestamp,
    /// Whether no caller requested it.
    pub background: bool,
    /// Tokens read and written.
    pub tokens: u64,
    /// Further data, as JSON.
    pub data: String,
}

/// A store of the task queue, sessions, runs, conversations and proposals.
///
/// A task goes [`enqueue`](Self::enqueue) → [`begin_next`](Self::begin_next) →
/// [`prepare_outcome`](Self::prepare_outcome) → the commit of its draft, as a change that names the task →
/// [`finish_task`](Self::finish_task).
///
/// A process that finds a running task without a living runner reads its progress from the row. With a
/// [`change`](TaskRow::change), the task is completed with the prepared outcome. Without one, it may be
/// [`requeued`](Self::requeue).
///
/// Any number of processes may call. One task of a workspace runs at a time, and only its latest [`Attempt`] has an
/// effect. The lanes ensure that only one process begins the next attempt.
#[async_trait]
pub trait TaskStore: Debug + Send + Sync {
    /// Durably queues a task, unless the lane of its workspace is full. Drops finished tasks that are too old, in all
    /// workspaces; then the oldest finished tasks beyond the limit of this workspace.
    async fn enqueue(
        &self,
        task: NewTask,
        limits: QueueLimits,
    ) -> Result<EnqueueResult, StateError>;

    /// Queues a dream as [`enqueue`](Self::enqueue) does, if the preconditions hold, too; otherwise the result is
    /// [`Full`](EnqueueResult::Full). Of several concurrent calls, in any process, only one succeeds.
    async fn enqueue_dream(
        &self,
        task: NewTask,
        limits: QueueLimits,
        gates: DreamPreconditions,
    ) -> Result<EnqueueResult, StateError>;

    /// Returns the last dream of a workspace.
    async fn last_dream(&self, workspace: &str) -> Result<LastDream, StateError>;

    /// Begins the oldest queued task of a workspace: it runs, with one attempt more. A review begins only when no other
    /// task waits. While a task runs, none begins.
    ///
    /// Survives a kill. After a power cut the task may be queued again with one attempt less; then nothing of this
    /// attempt is on the disk. A task that cannot be decoded, such as one of a later version's kind, is begun and
    /// returned as an error; [`fail_unreadable`](Self::fail_unreadable) ends it.
    async fn begin_next(
        &self,
        workspace: &str,
        at: Timestamp,
    ) -> Result<Option<TaskRow>, StateError>;

    /// Returns the running tasks of a workspace, oldest first. There is at most one, except for those that earlier
    /// versions left. If the holder of the lane's lock runs none itself, a process that died left them.
    async fn running(&self, workspace: &str) -> Result<Vec<TaskRow>, StateError>;

    /// Fails the running tasks of a workspace whose rows cannot be decoded, because they would block all others.
    /// Returns their number. Durable. Writes nothing if there are none.
    async fn fail_unreadable(
        &self,
        workspace: &str,
        end: TaskOutcome<'_>,
        at: Timestamp,
    ) -> Result<u64, StateError>;

    /// Stores the outcome that a running task will have once its draft is committed. Returns whether this attempt still
    /// runs. If not, another process finished or restarted the task, and the draft must not be committed.
    ///
    /// Survives a kill; durable at the latest when the next change is.
    async fn prepare_outcome(
        &self,
        attempt: Attempt<'_>,
        outcome: &str,
    ) -> Result<bool, StateError>;

    /// Requeues a running task at its old position and drops its prepared outcome. Returns whether this call did: the
    /// attempt must run, and history must have no change of the task.
    ///
    /// Survives a kill. After a power cut the task may be running again, to be requeued once more.
    async fn requeue(&self, attempt: Attempt<'_>, at: Timestamp) -> Result<bool, StateError>;

    /// Finishes a queued or running task whose latest attempt this is. Returns whether this call did. A task that is
    /// finished, or that another process restarted, stays as it is.
    ///
    /// Durable, unless a change of the task is: then recovery would finish it the same way.
    async fn finish_task(
        &self,
        attempt: Attempt<'_>,
        end: TaskOutcome<'_>,
        at: Timestamp,
    ) -> Result<bool, StateError>;

    /// Cancels a task of which nothing can have been written: one that is queued, or that runs without a prepared
    /// outcome. The task has ended then. Returns whether this call did.
    ///
    /// Durable. Excludes [`prepare_outcome`](Self::prepare_outcome): of the two, one returns `false`.
    async fn cancel_task(
        &self,
        id: &str,
        end: TaskOutcome<'_>,
        at: Timestamp,
    ) -> Result<bool, StateError>;

    /// Drops the tasks of all workspaces that ended before this time, with their runs. Returns their number. Writes
    /// nothing if there are none.
    async fn drop_ended(&self, before: Timestamp) -> Result<u64, StateError>;

    /// Counts tasks by workspace and status, in this order. Finished tasks count if they ended at or after this time.
    async fn count_tasks(&self, ended_since: Timestamp) -> Result<Vec<TaskCount>, StateError>;

    /// Returns one task.
    async fn task(&self, id: &str) -> Result<Option<TaskRow>, StateError>;

    /// Returns tasks, newest first.
    async fn tasks(&self, query: &TaskQuery) -> Result<Vec<TaskRow>, StateError>;

    /// Returns the workspaces with unfinished tasks, in order.
    async fn workspaces_with_work(&self) -> Result<Vec<String>, StateError>;

    /// Durably registers a session with its client.
    async fn add_session(&self, session: SessionRow) -> Result<(), StateError>;

    /// Ends a session and revokes its client. Returns whether the session existed.
    async fn end_session(&self, id: &str) -> Result<bool, StateError>;

    /// Returns one session.
    async fn session(&self, id: &str) -> Result<Option<SessionRow>, StateError>;

    /// Returns the sessions of a workspace, oldest first.
    async fn sessions(&self, workspace: &str) -> Result<Vec<SessionRow>, StateError>;

    /// Returns whether a client is registered with a workspace.
    async fn has_client(&self, workspace: &str, client: &str) -> Result<bool, StateError>;

    /// Returns one conversation.
    async fn conversation(&self, id: &str) -> Result<Option<ConversationRow>, StateError>;

    /// Writes a conversation if its version follows the stored one; the first is 1. Drops the least recently active
    /// ones beyond [`CONVERSATIONS_KEPT_MAX`]. Returns whether it was written: `false` means that another process wrote
    /// since. Survives a kill.
    ///
    /// [`CONVERSATIONS_KEPT_MAX`]: memory::limits::CONVERSATIONS_KEPT_MAX
    async fn save_conversation(&self, row: ConversationRow) -> Result<bool, StateError>;

    /// Drops the texts that conversations keep for a review: the field `watched` of their data. Returns the number of
    /// conversations changed. Writes nothing if there are none.
    async fn drop_watched(&self) -> Result<u64, StateError>;

    /// Writes a conversation as [`save_conversation`](Self::save_conversation) does and queues a review of it. Does
    /// neither if another process wrote the conversation since, or if `unfinished_max` reviews of the workspace are
    /// unfinished. Returns whether both were done. Durable.
    async fn save_conversation_and_queue(
        &self,
        row: ConversationRow,
        review: NewTask,
        unfinished_max: usize,
    ) -> Result<bool, StateError>;

    /// Returns the latest segment of a conversation.
    async fn segment(&self, conversation: &str) -> Result<Option<SegmentRow>, StateError>;

    /// Replaces the segment of a conversation if the new version follows the stored one; the first is 1. Drops the
    /// oldest ones beyond [`SEGMENTS_KEPT_MAX`]. Returns whether it was written. Survives a kill.
    ///
    /// [`SEGMENTS_KEPT_MAX`]: memory::limits::SEGMENTS_KEPT_MAX
    async fn save_segment(&self, row: SegmentRow) -> Result<bool, StateError>;

    /// Records that an attempt began. Runs are dropped with their task. Survives a kill.
    async fn add_run(&self, run: RunRow) -> Result<(), StateError>;

    /// Records that an attempt ended. Survives a kill.
    async fn end_run(
        &self,
        attempt: Attempt<'_>,
        outcome: &str,
        at: Timestamp,
    ) -> Result<(), StateError>;

    /// Returns the attempts at a task, oldest first.
    async fn runs(&self, task: &str) -> Result<Vec<RunRow>, StateError>;

    /// Records a model's work under the next number. Drops the oldest beyond [`MODEL_WORK_KEPT_MAX`]. Survives a kill.
    ///
    /// [`MODEL_WORK_KEPT_MAX`]: memory::limits::MODEL_WORK_KEPT_MAX
    async fn add_model_work(&self, row: ModelWorkRow) -> Result<(), StateError>;

    /// Returns the model work of a workspace or of all, newest first: at most `max` rows with numbers below `before`.
    async fn model_work(
        &self,
        workspace: Option<&str>,
        before: Option<u64>,
        max: usize,
    ) -> Result<Vec<ModelWorkRow>, StateError>;

    /// Returns the tokens that background work used since then.
    async fn background_tokens(&self, since: Timestamp) -> Result<u64, StateError>;

    /// Durably adds proposals in one transaction. A proposal is skipped if the same one waits about the same roots, was
    /// made by the same task or was rejected. It is also skipped if [`PROPOSALS_WAITING_MAX`] wait about the same
    /// roots.
    ///
    /// [`PROPOSALS_WAITING_MAX`]: memory::limits::PROPOSALS_WAITING_MAX
    async fn add_proposals(&self, new: &[NewProposal]) -> Result<AddedProposals, StateError>;

    /// Returns waiting proposals, in the order of their numbers.
    async fn proposals(&self, query: &ProposalQuery) -> Result<Vec<ProposalRow>, StateError>;

    /// Counts the waiting proposals that name memories of these roots alone.
    async fn count_proposals(&self, roots: &[RootKey]) -> Result<u64, StateError>;

    /// Returns one proposal, decided or not.
    async fn proposal(&self, id: ProposalId) -> Result<Option<ProposalRow>, StateError>;

    /// Durably rejects a waiting proposal. Returns whether this call did. A proposal is accepted by recording the
    /// [change](crate::NewChange::accepts) that it proposes; of the two decisions, only one succeeds.
    async fn reject_proposal(&self, id: ProposalId, at: Timestamp) -> Result<bool, StateError>;

    /// Removes waiting proposals as if they had never been made; the same ones may be added again.
    async fn withdraw_proposals(&self, ids: &[ProposalId]) -> Result<(), StateError>;
}
