//! [`TaskStore`] on the same SQLite file: each call is one read or one write.

use async_trait::async_trait;
use memory::change::RootKey;
use memory::clock::Timestamp;
use memory::proposal::ProposalId;

use crate::error::StateError;
use crate::proposal::{AddedProposals, NewProposal, ProposalQuery, ProposalRow};
use crate::sqlite::{
    Priority, SqliteState, call, conversations, model_work, proposals, queue, sessions,
};
use crate::task::{
    Attempt, ConversationRow, DreamPreconditions, EnqueueResult, LastDream, ModelWorkRow, NewTask,
    QueueLimits, RunRow, SegmentRow, SessionRow, TaskCount, TaskOutcome, TaskQuery, TaskRow,
    TaskStore,
};

#[async_trait]
impl TaskStore for SqliteState {
    async fn enqueue(
        &self,
        task: NewTask,
        limits: QueueLimits,
    ) -> Result<EnqueueResult, StateError> {
        let task = &task;
        self.write_in(Priority::High, "queue a task", call!(queue::enqueue, task, (limits, None)))
            .await
    }

    async fn enqueue_dream(
        &self,
        task: NewTask,
        limits: QueueLimits,
        gates: DreamPreconditions,
    ) -> Result<EnqueueResult, StateError> {
        let task = &task;
        self.write("queue a dream", call!(queue::enqueue, task, (limits, Some(gates)))).await
    }

    async fn last_dream(&self, workspace: &str) -> Result<LastDream, StateError> {
        self.read("read the last dream", call!(sessions::last_dream, workspace)).await
    }

    async fn begin_next(
        &self,
        workspace: &str,
        at: Timestamp,
    ) -> Result<Option<TaskRow>, StateError> {
        self.write_if_exists("begin a task", call!(queue::begin_next, workspace, at)).await
    }

    async fn running(&self, workspace: &str) -> Result<Vec<TaskRow>, StateError> {
        self.read("read the running tasks", call!(queue::running, workspace)).await
    }

    async fn fail_unreadable(
        &self,
        workspace: &str,
        end: TaskOutcome<'_>,
        at: Timestamp,
    ) -> Result<u64, StateError> {
        const OPERATION: &str = "fail an unreadable task";
        let seqs = self.read(OPERATION, call!(queue::unreadable_running, workspace)).await?;
        let seqs = seqs.as_slice();
        if seqs.is_empty() {
            return Ok(0);
        }
        self.write(OPERATION, call!(queue::fail_unreadable, (seqs, end), at)).await
    }

    async fn prepare_outcome(
        &self,
        attempt: Attempt<'_>,
        outcome: &str,
    ) -> Result<bool, StateError> {
        self.write_if_exists(
            "store the outcome of a task",
            call!(queue::prepare_outcome, attempt, outcome),
        )
        .await
    }

    async fn requeue(&self, attempt: Attempt<'_>, at: Timestamp) -> Result<bool, StateError> {
        self.write_if_exists("requeue a task", call!(queue::requeue, attempt, at)).await
    }

    async fn finish_task(
        &self,
        attempt: Attempt<'_>,
        end: TaskOutcome<'_>,
        at: Timestamp,
    ) -> Result<bool, StateError> {
        self.write_if_exists("finish a task", call!(queue::finish, (attempt, end), at)).await
    }

    async fn cancel_task(
        &self,
        id: &str,
        end: TaskOutcome<'_>,
        at: Timestamp,
    ) -> Result<bool, StateError> {
        self.write_if_exists("cancel a task", call!(queue::cancel, (id, end), at)).await
    }

    async fn drop_ended(&self, before: Timestamp) -> Result<u64, StateError> {
        const OPERATION: &str = "drop old tasks";
        // Checked with a read first, because a write waits for other writers.
        if !self.read(OPERATION, call!(queue::has_ended, before)).await? {
            return Ok(0);
        }
        self.write(OPERATION, call!(queue::drop_ended, before)).await
    }

    async fn count_tasks(&self, ended_since: Timestamp) -> Result<Vec<TaskCount>, StateError> {
        self.read("count tasks", call!(queue::count, ended_since)).await
    }

    async fn task(&self, id: &str) -> Result<Option<TaskRow>, StateError> {
        self.read("read a task", call!(queue::get, id)).await
    }

    async fn tasks(&self, query: &TaskQuery) -> Result<Vec<TaskRow>, StateError> {
        self.read("read tasks", call!(queue::find, query)).await
    }

    async fn workspaces_with_work(&self) -> Result<Vec<String>, StateError> {
        self.read("read the workspaces with tasks", call!(queue::workspaces_with_work)).await
    }

    async fn add_session(&self, session: SessionRow) -> Result<(), StateError> {
        let session = &session;
        self.write("register a session", call!(sessions::add, session)).await
    }

    async fn end_session(&self, id: &str) -> Result<bool, StateError> {
        self.write_if_exists("end a session", call!(sessions::end, id)).await
    }

    async fn session(&self, id: &str) -> Result<Option<SessionRow>, StateError> {
        self.read("read a session", call!(sessions::get, id)).await
    }

    async fn sessions(&self, workspace: &str) -> Result<Vec<SessionRow>, StateError> {
        self.read("read sessions", call!(sessions::list, workspace)).await
    }

    async fn has_client(&self, workspace: &str, client: &str) -> Result<bool, StateError> {
        self.read("check a client", call!(sessions::has_client, workspace, client)).await
    }

    async fn conversation(&self, id: &str) -> Result<Option<ConversationRow>, StateError> {
        self.read("read a conversation", call!(conversations::get, id)).await
    }

    async fn save_conversation(&self, row: ConversationRow) -> Result<bool, StateError> {
        let row = &row;
        self.write("save a conversation", call!(conversations::save, row)).await
    }

    async fn drop_watched(&self) -> Result<u64, StateError> {
        if !self.read("read texts of turns", call!(conversations::has_watched)).await? {
            return Ok(0);
        }
        self.write("drop texts of turns", call!(conversations::drop_watched)).await
    }

    async fn save_conversation_and_queue(
        &self,
        row: ConversationRow,
        review: NewTask,
        unfinished_max: usize,
    ) -> Result<bool, StateError> {
        let arguments = (&row, &review, unfinished_max);
        self.write(
            "save a conversation and queue its review",
            call!(conversations::save_and_queue, arguments),
        )
        .await
    }

    async fn segment(&self, conversation: &str) -> Result<Option<SegmentRow>, StateError> {
        self.read("read a segment", call!(conversations::segment, conversation)).await
    }

    async fn save_segment(&self, row: SegmentRow) -> Result<bool, StateError> {
        let row = &row;
        self.write("save a segment", call!(conversations::save_segment, row)).await
    }

    async fn add_run(&self, run: RunRow) -> Result<(), StateError> {
        let run = &run;
        self.write("record a run", call!(sessions::add_run, run)).await
    }

    async fn end_run(
        &self,
        attempt: Attempt<'_>,
        outcome: &str,
        at: Timestamp,
    ) -> Result<(), StateError> {
        self.write_if_exists(
            "record the end of a run",
            call!(sessions::end_run, attempt, outcome, at),
        )
        .await
    }

    async fn runs(&self, task: &str) -> Result<Vec<RunRow>, StateError> {
        self.read("read runs", call!(sessions::runs, task)).await
    }

    async fn add_model_work(&self, row: ModelWorkRow) -> Result<(), StateError> {
        let row = &row;
        self.write("record the work of a model", call!(model_work::add, row)).await
    }

    async fn model_work(
        &self,
        workspace: Option<&str>,
        before: Option<u64>,
        max: usize,
    ) -> Result<Vec<ModelWorkRow>, StateError> {
        self.read("read the work of models", call!(model_work::list, workspace, before, max)).await
    }

    async fn background_tokens(&self, since: Timestamp) -> Result<u64, StateError> {
        self.read("sum the tokens of models", call!(model_work::background_tokens, since)).await
    }

    async fn add_proposals(&self, new: &[NewProposal]) -> Result<AddedProposals, StateError> {
        if new.is_empty() {
            return Ok(AddedProposals::default());
        }
        self.write("add proposals", call!(proposals::add, new)).await
    }

    async fn proposals(&self, query: &ProposalQuery) -> Result<Vec<ProposalRow>, StateError> {
        self.read("read proposals", call!(proposals::find, query)).await
    }

    async fn count_proposals(&self, roots: &[RootKey]) -> Result<u64, StateError> {
        self.read("count proposals", call!(proposals::count, roots)).await
    }

    async fn proposal(&self, id: ProposalId) -> Result<Option<ProposalRow>, StateError> {
        self.read("read a proposal", call!(proposals::get, id)).await
    }

    async fn withdraw_proposals(&self, ids: &[ProposalId]) -> Result<(), StateError> {
        if ids.is_empty() {
            return Ok(());
        }
        self.write_if_exists("withdraw proposals", call!(proposals::withdraw, ids)).await
    }

    async fn reject_proposal(&self, id: ProposalId, at: Timestamp) -> Result<bool, StateError> {
        self.write_if_exists("reject a proposal", call!(proposals::reject, id, at)).await
    }
}
