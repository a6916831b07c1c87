//! What somebody who died left in a lane.

use std::collections::BTreeSet;

use memory::limits::{TASK_ATTEMPTS_MAX, TASK_BROKEN_MAX};
use state::{End, TaskRow};

use super::work::LaneError;
use super::{Lane, Shared, lock};
use crate::runner::chain;
use crate::task::record;
use crate::task::{Status, Task, TaskError, TaskErrorCode, TaskKind, TaskState};

impl Shared {
    /// Looks after the tasks that run and that nobody does: called by whoever has the turn and does
    /// none. A task with a change in history is completed, for that change happens; one without is
    /// done once more, or given up. An attempt that its process put back by itself does not count.
    pub(super) async fn recover(&self, lane: &Lane) -> Result<(), LaneError> {
        self.fail_unreadable(lane).await?;
        for row in self.parts.tasks.running(&lane.id).await? {
            let left = (row.attempts, row.change.is_some());
            tracing::warn!(task = %row.id, attempts = left.0, changed = left.1, "a task was left");
            if row.change.is_some() {
                self.complete(lane, &row).await?;
            } else if !self.put_back(lane, &row).await?
                && let Some(row) = self.parts.tasks.task(&row.id).await?
                && row.change.is_some()
                && !record::has_ended(&row)
            {
                // Whoever had it was not dead.
                self.complete(lane, &row).await?;
            }
        }
        Ok(())
    }

    /// Fails what runs and cannot be read: nobody can do it, and everything else would wait for it.
    async fn fail_unreadable(&self, lane: &Lane) -> Result<(), LaneError> {
        let failed = TaskError::new(TaskErrorCode::failed(TaskKind::Remember));
        let outcome = record::outcome_text(&Err(failed.with_details("its record cannot be read")));
        let end = End { status: Status::Failed.as_str(), outcome: &outcome, request: "{}" };
        let now = self.parts.clock.now();
        let failed = self.parts.tasks.fail_unreadable(&lane.id, end, now).await?;
        if failed > 0 {
            tracing::error!(workspace = %lane.id, failed, "tasks that cannot be read were failed");
            lane.move_on();
        }
        Ok(())
    }

    /// Lets a task of which nothing happened be done once more, or gives it up. Returns whether nothing has.
    async fn put_back(&self, lane: &Lane, row: &TaskRow) -> Result<bool, LaneError> {
        // First, so that whoever had it cannot change anything any more.
        if !self.parts.tasks.requeue(row.attempt(), self.parts.clock.now()).await? {
            return Ok(false);
        }
        if self.attempts_lost(lane, row).await? >= TASK_ATTEMPTS_MAX {
            let kind = row.kind.parse().unwrap_or(TaskKind::Remember);
            let failed = TaskError::new(TaskErrorCode::failed(kind));
            let why = lock(&lane.now).waits_for;
            let failed = match why {
                Some(code) => failed.caused_by(code).with_details(code.meaning()),
                None => failed.with_details("it was begun again and again and never ended"),
            };
            self.finish(lane, row, &Err(failed)).await?;
        }
        Ok(true)
    }

    /// Counts the attempts at a task that nobody saw the end of.
    async fn attempts_lost(&self, lane: &Lane, row: &TaskRow) -> Result<u32, LaneError> {
        let runs = self.parts.tasks.runs(&row.id).await?;
        let seen = runs.iter().filter(|run| run.ended_at.is_some() && run.attempt <= row.attempts);
        let mut seen: BTreeSet<u32> = seen.map(|run| run.attempt).collect();
        // Those that this process broke off itself, as long as there are few: not even a row that nobody can
        // write to holds the lane up for ever.
        let broken = lock(&lane.now).broken.get(&row.id).cloned().unwrap_or_default();
        if broken.len() < TASK_BROKEN_MAX {
            seen.extend(broken);
        }
        Ok(row.attempts.saturating_sub(u32::try_from(seen.len()).unwrap_or(u32::MAX)))
    }

    /// Completes a task whose change is recorded, with the outcome that was prepared.
    async fn complete(&self, lane: &Lane, row: &TaskRow) -> Result<(), LaneError> {
        let done = TaskRow { status: "completed".to_owned(), ..row.clone() };
        let task = match Task::read(&done) {
            Ok(task) => task,
            Err(unreadable) => {
                // It was prepared before its change was, but perhaps by another version.
                tracing::warn!(error = %unreadable, "what came of a task is not known");
                let kind = row.kind.parse().unwrap_or(TaskKind::Remember);
                let failed = TaskError::new(TaskErrorCode::failed(kind));
                let failed = failed.with_details("memories were changed; history knows how");
                self.finish(lane, row, &Err(failed)).await?;
                return Ok(());
            }
        };
        let mut outcome = match &task.state {
            TaskState::Completed(result) => Ok(result.clone()),
            TaskState::Failed(error) => Err(error.clone()),
            TaskState::Queued | TaskState::Running => return Ok(()),
        };
        self.make_whole(lane, &task).await;
        let is_changed =
            self.parts.tasks.task(&row.id).await?.is_some_and(|now| now.change.is_some());
        if !is_changed {
            // Whoever had it was still at it, and took the change back: it is as if it had not begun.
            return self.put_back(lane, row).await.map(drop);
        }
        if let Ok(result) = &mut outcome {
            self.store_proposals(&task, result, &record::unstored_proposals(row, &task)).await?;
        }
        if self.finish(lane, row, &outcome).await?
            && let Ok(result) = &outcome
        {
            self.publish(&task, result).await;
        }
        Ok(())
    }

    /// Puts in place what a change that stopped half-way has recorded, as the next writer would.
    pub(super) async fn make_whole(&self, lane: &Lane, task: &Task) {
        let memories = self.memories(&lane.workspace(), (&task.request, &task.asker));
        if let Err(error) = memories.notice().await {
            tracing::warn!(task = %task.id, error = %chain(&error), "a change is completed later");
        }
    }
}
