//! The state of one owner: each call of the ports is one transaction or one statement.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory::change::{ChangeId, DatabaseId, MemoryChange, RootKey, Trust};
use memory::clock::Timestamp;
use memory::document::Revision;
use memory::limits::PROPOSAL_WAITING_KEPT;
use memory::path::RelativePath;
use memory::proposal::ProposalId;
use sqlx::PgConnection;
use state::rows::{Columns, decode_rows, single, stored_count, stored_time};
use state::{
    AddedProposals, Announcement, Attempt, ChangeQuery, ConversationRow, DreamPreconditions,
    EnqueueResult, EventLog, Head, HeldLock, HistoryStore, LANE_LOCK, LastDream, LockError, Locks,
    LogBounds, LogEntry, ModelWorkRow, NewChange, NewProposal, NewTask, OpenChange, OutsideReaders,
    PathChange, ProposalQuery, ProposalRow, PruneReport, QueueLimits, Retention, RunRow,
    SegmentRow, SessionRow, StateError, Stats, TaskCount, TaskOutcome, TaskQuery, TaskRow,
    TaskStore, UsageRow, UseEvent,
};
use store::backend::{Backend, BackendError, HostedRoots};
use tokio::sync::watch;

use crate::call_error::CallError;
use crate::database::Durability::{Synced, Unsynced};
use crate::database::{Database, Durability, call, random_number};
use crate::events;
use crate::history::prune::CONTENTS_DROPPED_AT_ONCE;
use crate::history::{changes, check, prune, record, usage};
use crate::lease::Lease;
use crate::notices::EVENTS;
use crate::outside_readers;
use crate::root::{RowBackend, backend_error};
use crate::row::{rows, run, storable};
use crate::size::MemorySize;
use crate::tasks::{conversations, proposals, queue, sessions};

/// The longest time between two looks whether work that another daemon does is free.
const WORK_POLL_MAX: Duration = Duration::from_millis(500);
/// The time after which waiting for such work begins again.
const WORK_WAIT: Duration = Duration::from_hours(1);

/// A queue with unfinished tasks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnfinishedLane {
    /// The name of the owner.
    pub owner: String,
    /// The id of the workspace.
    pub workspace: String,
}

/// Begins the names of locks of work.
const WORK_LOCK: &str = "work";

impl Database {
    /// Returns the queues of all owners with waiting or running tasks that no daemon works on.
    pub async fn unfinished_lanes(&self) -> Result<Vec<UnfinishedLane>, StateError> {
        self.read("look for unfinished tasks", call!(unfinished_lanes)).await
    }

    /// Returns the state of an owner, and registers the owner if the name is new.
    pub async fn owner(&self, name: &str) -> Result<OwnerState, StateError> {
        let (name, new_id) = (&*storable(name), random_number());
        let id = self
            .write(Durability::Synced, "register an owner", call!(find_or_add_owner, name, new_id))
            .await?;
        Ok(OwnerState::new(self.clone(), id))
    }
}

async fn unfinished_lanes(connection: &mut PgConnection) -> Result<Vec<UnfinishedLane>, CallError> {
    let find = sqlx::query(
        "SELECT DISTINCT owners.name, tasks.workspace
        FROM tasks JOIN owners ON owners.id = tasks.owner
        WHERE status IN ('queued', 'running') AND NOT EXISTS (
            SELECT 1 FROM leases WHERE leases.owner = tasks.owner AND leases.name = $1 || tasks.workspace
                AND holder IS NOT NULL AND until >= clock_timestamp())",
    );
    let found = rows(connection, find.bind(format!("{WORK_LOCK} {LANE_LOCK}"))).await?;
    Ok(decode_rows("tasks", &found, |row| {
        Ok(UnfinishedLane { owner: row.get("name")?, workspace: row.get("workspace")? })
    }))
}

/// Returns the number of an owner, after adding it if the name is new.
async fn find_or_add_owner(
    connection: &mut PgConnection,
    name: &str,
    new_id: i64,
) -> Result<i64, CallError> {
    const FIND: &str = "SELECT id FROM owners WHERE name = $1";
    let found = rows(connection, sqlx::query(FIND).bind(name)).await?;
    if let Some(row) = found.first() {
        return Ok(Columns(row).get("id")?);
    }
    let add = sqlx::query(
        "WITH added AS (
            INSERT INTO owners (id, name) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING RETURNING id)
        INSERT INTO counters (owner) SELECT id FROM added",
    );
    run(connection, add.bind(new_id).bind(name)).await?;
    let found = rows(connection, sqlx::query(FIND).bind(name)).await?;
    Ok(single(&found, |row| row.get("id"))?)
}

/// The state of one owner. It reads and writes no rows of other owners.
#[derive(Clone, Debug)]
pub struct OwnerState {
    pub(crate) database: Database,
    pub(crate) owner: i64,
    size: Arc<MemorySize>,
}

impl OwnerState {
    pub(crate) fn new(database: Database, owner: i64) -> Self {
        Self { database, owner, size: Arc::default() }
    }

    /// Returns the number of the owner in the rows.
    pub(crate) const fn number(&self) -> i64 {
        self.owner
    }

    /// Returns the root at a place of this owner. Its files are rows.
    pub fn root(&self, place: &str) -> RowBackend {
        RowBackend::new(self.database.clone(), self.owner, place.to_owned())
    }

    /// Drops unreferenced contents. Returns their stored bytes.
    async fn sweep(&self, operation: &'static str) -> Result<u64, StateError> {
        let owner = self.owner;
        let found = self.database.read(operation, call!(prune::unreferenced, owner)).await?;
        let mut bytes = 0;
        for loose in found.revisions.chunks(CONTENTS_DROPPED_AT_ONCE) {
            bytes += self
                .database
                .write(Unsynced, operation, call!(prune::drop_contents, owner, (loose, found.last)))
                .await?;
        }
        Ok(bytes)
    }

    /// Drops the oldest changes that may go, from before a time and until about `needed` bytes are unreferenced. Returns
    /// their number.
    async fn drop_changes(
        &self,
        operation: &'static str,
        older_than: i64,
        mut needed: u64,
    ) -> Result<u64, StateError> {
        let owner = self.owner;
        let (mut after, mut dropped) = (ChangeId(0), 0);
        while needed > 0 {
            let found = self
                .database
                .read(operation, call!(prune::candidates, owner, (after, older_than, needed)))
                .await?;
            let ids = found.ids.as_slice();
            let Some(&last) = ids.last() else { break };
            dropped += self
                .database
                .write(Unsynced, operation, call!(prune::drop_changes, owner, ids))
                .await?;
            needed = needed.saturating_sub(found.estimated);
            after = ChangeId(last);
        }
        Ok(dropped)
    }
}

#[async_trait]
impl HostedRoots for OwnerState {
    fn root(&self, place: &str) -> Arc<dyn Backend> {
        Arc::new(Self::root(self, place))
    }

    async fn places(&self) -> Result<Vec<String>, BackendError> {
        Self::places(self).await.map_err(|error| backend_error("list roots", error))
    }

    async fn check_growth(&self, bytes: u64) -> Result<(), BackendError> {
        match self.database.owner_limits().memory_bytes {
            Some(max) => self.size.check(&self.database, self.owner, (bytes, max)).await,
            None => Ok(()),
        }
    }
}

#[async_trait]
impl EventLog for OwnerState {
    fn epoch(&self) -> String {
        format!("{:016x}", self.owner)
    }

    async fn bounds(&self) -> Result<LogBounds, StateError> {
        self.database.read("read the bounds of the events", call!(events::bounds, self.owner)).await
    }

    async fn after(&self, number: u64) -> Result<Vec<LogEntry>, StateError> {
        self.database.read("read events", call!(events::after, self.owner, number)).await
    }

    async fn append(&self, event: &Announcement) -> Result<(), StateError> {
        let owner = self.owner;
        self.database.write(Synced, "add an event", call!(events::announce, owner, event)).await?;
        self.database.notify(owner, EVENTS);
        Ok(())
    }

    fn notices(&self) -> watch::Receiver<u64> {
        self.database.notices(self.owner, EVENTS)
    }
}

#[async_trait]
impl OutsideReaders for OwnerState {
    async fn add(&self, reader: &str, idle_max: Duration) -> Result<(), StateError> {
        let (owner, reader) = (self.owner, (reader, idle_max));
        let doing = "note a reader of unreviewed text";
        self.database.write_one(Synced, doing, call!(outside_readers::add, owner, reader)).await
    }

    async fn contains(&self, reader: &str, idle_max: Duration) -> Result<bool, StateError> {
        let (owner, reader) = (self.owner, (reader, idle_max));
        let doing = "look for a reader of unreviewed text";
        self.database
            .write_one(Unsynced, doing, call!(outside_readers::contains, owner, reader))
            .await
    }
}

#[async_trait]
impl Locks for OwnerState {
    async fn acquire(&self, name: &str) -> Result<Box<dyn HeldLock>, LockError> {
        let name = format!("{WORK_LOCK} {name}");
        let lease = Lease::new(self.database.clone(), self.owner, name);
        loop {
            if let Some(held) = lease.take(WORK_WAIT, WORK_POLL_MAX).await? {
                return Ok(Box::new(held));
            }
        }
    }
}

#[async_trait]
impl HistoryStore for OwnerState {
    async fn record(&self, change: NewChange) -> Result<ChangeId, StateError> {
        let (owner, change) = (self.owner, &change);
        self.database.write(Synced, "record a change", call!(record::record, owner, change)).await
    }

    async fn database_id(&self) -> Result<DatabaseId, StateError> {
        Ok(DatabaseId(self.owner.cast_unsigned()))
    }

    async fn raise_change_number(&self, given: ChangeId) -> Result<(), StateError> {
        self.database
            .write(
                Synced,
                "raise the number of changes",
                call!(record::raise_change_number, self.owner, given),
            )
            .await
    }

    async fn abort_change(&self, id: ChangeId) -> Result<(), StateError> {
        self.database
            .write(Synced, "withdraw a change", call!(record::abort_change, self.owner, id))
            .await
    }

    async fn mark_durable(&self, ids: &[ChangeId]) -> Result<(), StateError> {
        if ids.is_empty() {
            return Ok(());
        }
        self.database
            .write_one(
                Unsynced,
                "mark changes as durable",
                call!(record::mark_durable, self.owner, ids),
            )
            .await
    }

    async fn open_changes(&self, place: &str) -> Result<Vec<OpenChange>, StateError> {
        self.database
            .read("read the open changes", call!(changes::open_changes, self.owner, place))
            .await
    }

    async fn heads(&self, place: &str, after: ChangeId) -> Result<Vec<Head>, StateError> {
        self.database.read("read the heads", call!(record::heads, self.owner, (place, after))).await
    }

    async fn recorded_revisions(
        &self,
        identity: &str,
    ) -> Result<HashMap<Revision, Trust>, StateError> {
        self.database
            .read(
                "read the recorded revisions",
                call!(record::recorded_revisions, self.owner, identity),
            )
            .await
    }

    async fn influenced_revisions(
        &self,
        identity: &str,
    ) -> Result<HashMap<Revision, ChangeId>, StateError> {
        self.database
            .read(
                "read the influenced revisions",
                call!(record::influenced_revisions, self.owner, identity),
            )
            .await
    }

    async fn changes(&self, query: &ChangeQuery) -> Result<Vec<MemoryChange>, StateError> {
        self.database.read("read history", call!(changes::find, self.owner, query)).await
    }

    async fn last_changes(
        &self,
        place: &str,
        paths: &[RelativePath],
        max: usize,
    ) -> Result<Vec<PathChange>, StateError> {
        self.database
            .read("read history", call!(changes::last_changes, self.owner, (place, paths, max)))
            .await
    }

    async fn change(&self, id: ChangeId) -> Result<Option<MemoryChange>, StateError> {
        self.database.read("read a change", call!(changes::get, self.owner, id)).await
    }

    async fn content(&self, revision: &Revision) -> Result<Option<Vec<u8>>, StateError> {
        self.database
            .read("read the content of a revision", call!(changes::content, self.owner, revision))
            .await
    }

    async fn add_uses(&self, uses: &[UseEvent]) -> Result<(), StateError> {
        if uses.is_empty() {
            return Ok(());
        }
        self.database.write(Synced, "count uses", call!(usage::add_uses, self.owner, uses)).await
    }

    async fn usage_rows(&self, identity: &str) -> Result<Vec<UsageRow>, StateError> {
        self.database.read("read pins and usage", call!(usage::load, self.owner, identity)).await
    }

    async fn set_pin(
        &self,
        mark: (&str, &RelativePath),
        pinned: bool,
        at: Timestamp,
    ) -> Result<bool, StateError> {
        let owner = self.owner;
        if pinned {
            self.database.write(Synced, "pin a memory", call!(usage::pin, owner, (mark, at))).await
        } else {
            self.database.write(Synced, "unpin a memory", call!(usage::unpin, owner, mark)).await
        }
    }

    async fn merge_marks(&self, identity: &str, marks: &[UsageRow]) -> Result<(), StateError> {
        if marks.is_empty() {
            return Ok(());
        }
        self.database
            .write(Synced, "add pins and usage", call!(usage::merge, self.owner, (identity, marks)))
            .await
    }

    async fn drop_usage(
        &self,
        identity: &str,
        paths: Option<&[RelativePath]>,
    ) -> Result<(), StateError> {
        if paths.is_some_and(<[_]>::is_empty) {
            return Ok(());
        }
        self.database
            .write(
                Synced,
                "drop pins and usage",
                call!(usage::drop_marks, self.owner, (identity, paths)),
            )
            .await
    }

    async fn prune(&self, retention: Retention, now: Timestamp) -> Result<PruneReport, StateError> {
        const OPERATION: &str = "drop old history";
        let owner = self.owner;
        let before = |age: Duration| stored_time(now).saturating_sub(stored_count(age.as_nanos()));
        let times = (before(retention.age), before(PROPOSAL_WAITING_KEPT));
        self.database.write(Unsynced, OPERATION, call!(proposals::prune, owner, times)).await?;
        self.database.write(Unsynced, OPERATION, call!(events::prune, owner)).await?;
        let mut report = PruneReport {
            changes: self.drop_changes(OPERATION, times.0, u64::MAX).await?,
            bytes: 0,
        };
        if report.changes > 0 {
            report.bytes += self.sweep(OPERATION).await?;
        }
        // The bytes that a change frees are estimated, so this is repeated as long as it helps.
        loop {
            let excess = self
                .database
                .read(OPERATION, call!(prune::excess_bytes, owner, retention.bytes))
                .await?;
            if excess == 0 {
                return Ok(report);
            }
            report.changes += self.drop_changes(OPERATION, i64::MAX, excess).await?;
            let freed = self.sweep(OPERATION).await?;
            report.bytes += freed;
            if freed == 0 {
                return Ok(report);
            }
        }
    }

    async fn stats(&self) -> Result<Stats, StateError> {
        self.database.read("read the statistics", call!(changes::stats, self.owner)).await
    }

    async fn check(&self) -> Result<Vec<String>, StateError> {
        const OPERATION: &str = "check the database";
        let owner = self.owner;
        let mut sentences = self.database.read(OPERATION, call!(check::check_rows, owner)).await?;
        let (mut last, mut corrupt) = (Vec::new(), 0);
        loop {
            let after = last.as_slice();
            let checked =
                self.database.read(OPERATION, call!(check::check_contents, owner, after)).await?;
            corrupt += checked.corrupt;
            let Some(next) = checked.last else { break };
            last = next;
        }
        if corrupt > 0 {
            sentences.push(format!("{corrupt} stored contents do not match their digest"));
        }
        Ok(sentences)
    }

    /// Does nothing: the connections are those of all owners. [`Database::close`] closes them.
    async fn close(&self) {}
}

#[async_trait]
impl TaskStore for OwnerState {
    async fn enqueue(
        &self,
        task: NewTask,
        limits: QueueLimits,
    ) -> Result<EnqueueResult, StateError> {
        let (owner, task) = (self.owner, &task);
        let owner_max = self.database.owner_limits().unfinished_tasks;
        self.database
            .write(
                Synced,
                "queue a task",
                call!(queue::enqueue, owner, (task, limits, None), owner_max),
            )
            .await
    }

    async fn enqueue_dream(
        &self,
        task: NewTask,
        limits: QueueLimits,
        gates: DreamPreconditions,
    ) -> Result<EnqueueResult, StateError> {
        let (owner, task) = (self.owner, &task);
        let owner_max = self.database.owner_limits().unfinished_tasks;
        self.database
            .write(
                Synced,
                "queue a dream",
                call!(queue::enqueue, owner, (task, limits, Some(gates)), owner_max),
            )
            .await
    }

    async fn last_dream(&self, workspace: &str) -> Result<LastDream, StateError> {
        self.database
            .read("read the last dream", call!(sessions::last_dream, self.owner, workspace))
            .await
    }

    async fn begin_next(
        &self,
        workspace: &str,
        at: Timestamp,
    ) -> Result<Option<TaskRow>, StateError> {
        self.database
            .write_one(
                Synced,
                "begin a task",
                call!(queue::begin_next, self.owner, (workspace, at)),
            )
            .await
    }

    async fn running(&self, workspace: &str) -> Result<Vec<TaskRow>, StateError> {
        self.database
            .read("read the running tasks", call!(queue::running, self.owner, workspace))
            .await
    }

    async fn fail_unreadable(
        &self,
        workspace: &str,
        end: TaskOutcome<'_>,
        at: Timestamp,
    ) -> Result<u64, StateError> {
        const OPERATION: &str = "fail an unreadable task";
        let owner = self.owner;
        let seqs = self
            .database
            .read(OPERATION, call!(queue::unreadable_running, owner, workspace))
            .await?;
        let seqs = seqs.as_slice();
        if seqs.is_empty() {
            return Ok(0);
        }
        self.database
            .write(Synced, OPERATION, call!(queue::fail_unreadable, owner, (seqs, end, at)))
            .await
    }

    async fn prepare_outcome(
        &self,
        attempt: Attempt<'_>,
        outcome: &str,
    ) -> Result<bool, StateError> {
        self.database
            .write_one(
                Synced,
                "store the outcome of a task",
                call!(queue::prepare_outcome, self.owner, (attempt, outcome)),
            )
            .await
    }

    async fn requeue(&self, attempt: Attempt<'_>, at: Timestamp) -> Result<bool, StateError> {
        self.database
            .write(Unsynced, "requeue a task", call!(queue::requeue, self.owner, (attempt, at)))
            .await
    }

    async fn finish_task(
        &self,
        attempt: Attempt<'_>,
        end: TaskOutcome<'_>,
        at: Timestamp,
    ) -> Result<bool, StateError> {
        let owner = self.owner;
        let has_finished = self
            .database
            .write(Synced, "finish a task", call!(queue::finish, owner, (attempt, end, at)))
            .await?;
        if has_finished && end.effect.is_some() {
            self.database.notify(owner, EVENTS);
        }
        Ok(has_finished)
    }

    async fn cancel_task(
        &self,
        id: &str,
        end: TaskOutcome<'_>,
        at: Timestamp,
    ) -> Result<bool, StateError> {
        self.database
            .write(Synced, "cancel a task", call!(queue::cancel, self.owner, (id, end, at)))
            .await
    }

    async fn drop_ended(&self, before: Timestamp) -> Result<u64, StateError> {
        self.database
            .write(Synced, "drop old tasks", call!(queue::drop_ended, self.owner, before))
            .await
    }

    async fn count_tasks(&self, ended_since: Timestamp) -> Result<Vec<TaskCount>, StateError> {
        self.database.read("count tasks", call!(queue::count, self.owner, ended_since)).await
    }

    async fn task(&self, id: &str) -> Result<Option<TaskRow>, StateError> {
        self.database.read("read a task", call!(queue::get, self.owner, id)).await
    }

    async fn tasks(&self, query: &TaskQuery) -> Result<Vec<TaskRow>, StateError> {
        self.database.read("read tasks", call!(queue::find, self.owner, query)).await
    }

    async fn workspaces_with_work(&self) -> Result<Vec<String>, StateError> {
        self.database
            .read("read the workspaces with tasks", call!(queue::workspaces_with_work, self.owner))
            .await
    }

    async fn add_session(&self, session: SessionRow) -> Result<(), StateError> {
        let (owner, session) = (self.owner, &session);
        self.database
            .write(Synced, "register a session", call!(sessions::add, owner, session))
            .await
    }

    async fn end_session(&self, id: &str) -> Result<bool, StateError> {
        self.database.write(Synced, "end a session", call!(sessions::end, self.owner, id)).await
    }

    async fn session(&self, id: &str) -> Result<Option<SessionRow>, StateError> {
        self.database.read("read a session", call!(sessions::get, self.owner, id)).await
    }

    async fn sessions(&self, workspace: &str) -> Result<Vec<SessionRow>, StateError> {
        self.database.read("read sessions", call!(sessions::list, self.owner, workspace)).await
    }

    async fn has_client(&self, workspace: &str, client: &str) -> Result<bool, StateError> {
        self.database
            .read("look for a client", call!(sessions::has_client, self.owner, (workspace, client)))
            .await
    }

    async fn conversation(&self, id: &str) -> Result<Option<ConversationRow>, StateError> {
        self.database.read("read a conversation", call!(conversations::get, self.owner, id)).await
    }

    async fn save_conversation(&self, row: ConversationRow) -> Result<bool, StateError> {
        let (owner, row) = (self.owner, &row);
        self.database
            .write(Unsynced, "write a conversation", call!(conversations::save, owner, row))
            .await
    }

    async fn drop_watched(&self) -> Result<u64, StateError> {
        let owner = self.owner;
        let (mut last, mut changed) = (String::new(), 0);
        loop {
            let after = last.as_str();
            let dropped = self
                .database
                .write(
                    Synced,
                    "drop the texts of conversations",
                    call!(conversations::drop_watched, owner, after),
                )
                .await?;
            changed += dropped.changed;
            let Some(next) = dropped.last else { return Ok(changed) };
            last = next;
        }
    }

    async fn save_conversation_and_queue(
        &self,
        row: ConversationRow,
        review: NewTask,
        unfinished_max: usize,
    ) -> Result<bool, StateError> {
        let (owner, row, review) = (self.owner, &row, &review);
        self.database
            .write(
                Synced,
                "queue a review",
                call!(conversations::save_and_queue, owner, (row, review, unfinished_max)),
            )
            .await
    }

    async fn segment(&self, conversation: &str) -> Result<Option<SegmentRow>, StateError> {
        self.database
            .read("read a segment", call!(conversations::get_segment, self.owner, conversation))
            .await
    }

    async fn save_segment(&self, row: SegmentRow) -> Result<bool, StateError> {
        let (owner, row) = (self.owner, &row);
        self.database
            .write(Unsynced, "write a segment", call!(conversations::save_segment, owner, row))
            .await
    }

    async fn add_run(&self, run: RunRow) -> Result<(), StateError> {
        let (owner, run) = (self.owner, &run);
        self.database
            .write_one(Unsynced, "record a run", call!(sessions::add_run, owner, run))
            .await
    }

    async fn end_run(
        &self,
        attempt: Attempt<'_>,
        outcome: &str,
        at: Timestamp,
    ) -> Result<(), StateError> {
        self.database
            .write_one(
                Unsynced,
                "record the end of a run",
                call!(sessions::end_run, self.owner, (attempt, outcome, at)),
            )
            .await
    }

    async fn runs(&self, task: &str) -> Result<Vec<RunRow>, StateError> {
        self.database.read("read runs", call!(sessions::runs, self.owner, task)).await
    }

    async fn add_model_work(&self, row: ModelWorkRow) -> Result<(), StateError> {
        let (owner, row) = (self.owner, &row);
        self.database
            .write(
                Unsynced,
                "record the work of a model",
                call!(sessions::add_model_work, owner, row),
            )
            .await
    }

    async fn model_work(
        &self,
        workspace: Option<&str>,
        before: Option<u64>,
        max: usize,
    ) -> Result<Vec<ModelWorkRow>, StateError> {
        self.database
            .read(
                "read the work of models",
                call!(sessions::list_model_work, self.owner, (workspace, before, max)),
            )
            .await
    }

    async fn background_tokens(&self, since: Timestamp) -> Result<u64, StateError> {
        self.database
            .read(
                "count the tokens of background work",
                call!(sessions::background_tokens, self.owner, since),
            )
            .await
    }

    async fn add_proposals(&self, new: &[NewProposal]) -> Result<AddedProposals, StateError> {
        self.database.write(Synced, "add proposals", call!(proposals::add, self.owner, new)).await
    }

    async fn proposals(&self, query: &ProposalQuery) -> Result<Vec<ProposalRow>, StateError> {
        self.database.read("read proposals", call!(proposals::find, self.owner, query)).await
    }

    async fn count_proposals(&self, roots: &[RootKey]) -> Result<u64, StateError> {
        self.database.read("count proposals", call!(proposals::count, self.owner, roots)).await
    }

    async fn proposal(&self, id: ProposalId) -> Result<Option<ProposalRow>, StateError> {
        self.database.read("read a proposal", call!(proposals::get, self.owner, id)).await
    }

    async fn reject_proposal(&self, id: ProposalId, at: Timestamp) -> Result<bool, StateError> {
        self.database
            .write(Synced, "reject a proposal", call!(proposals::reject, self.owner, (id, at)))
            .await
    }

    async fn withdraw_proposals(&self, ids: &[ProposalId]) -> Result<(), StateError> {
        self.database
            .write(Synced, "withdraw proposals", call!(proposals::withdraw, self.owner, ids))
            .await
    }
}
