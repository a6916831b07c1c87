//! One attempt at a task that another process has the turn of: decided here, committed there.

use std::sync::Arc;

use agents::Ledger;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::work::{Conflict, Ran};
use super::{Lanes, SubmitError, draft};
use crate::runner::{Job, RunError};
use crate::stage::Staged;
use crate::task::{Asker, Request, TaskError, TaskErrorCode, TaskId};
use crate::workspace::Workspace;

impl Lanes {
    /// Tells whether tasks of a workspace are taken, and why not.
    pub async fn available(&self, workspace: &Workspace) -> Result<(), SubmitError> {
        self.0.open_lane(workspace).await.map(drop)
    }

    /// Makes one attempt at a task and commits nothing. What models do for it is noted in the ledger and nowhere
    /// else: whoever has the turn puts that on record.
    pub async fn stage(
        &self,
        workspace: &Workspace,
        (id, request, asker): (&TaskId, &Request, &Asker),
        ledger: &Arc<Ledger>,
        stop: &CancellationToken,
    ) -> Result<Result<Staged, RunError>, SubmitError> {
        self.0.open_lane(workspace).await?;
        let deadline = Instant::now() + self.0.settings.task_wait;
        let memories = self.0.memories(workspace, (request, asker));
        let draft = draft(&memories, id, None);
        let (request, workspace) = (request.clone(), workspace.clone());
        let job = Job { task: id.clone(), request, workspace, ledger: Arc::clone(ledger) };
        Ok(match self.0.run((job, memories, draft), stop, deadline).await {
            Ok(Ran::Done(result, draft)) => {
                let model = draft.model().map(str::to_owned);
                let because = draft.note().map(str::to_owned);
                Ok(Staged { result, edits: draft.edits(), model, because })
            }
            Ok(Ran::Failed(error)) => Err(error.into()),
            Ok(Ran::Stopped) => Err(TaskError::new(TaskErrorCode::Cancelled).into()),
            Err(Conflict) => Err(RunError::Conflict),
        })
    }
}
