//! The runner interface, which executes tasks, and its implementation by the curator of this
//! process.
//!
//! A runner reads memories, edits a draft and reports a result. It commits, stores and publishes
//! nothing; the lane does.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use agents::{
    CurateError, Curator, DreamReport, ForgetReport, Ledger, RememberReport, ReviewReport,
};
use async_trait::async_trait;
use memory::clock::Clock;
use memory::error_code::MemoryErrorCode;
use memory::limits::{
    MODEL_DECISIONS_MAX, REVIEW_WAIT_DEFAULT, TASK_DECISIONS_MAX, TASK_RUNNER_WAIT,
};
use store::{Draft, Memories, StoreError};
use tokio_util::sync::CancellationToken;

use crate::task::{
    CuratorRequest, TaskDetails, TaskError, TaskErrorCode, TaskId, TaskKind, TaskProposals,
    TaskResult,
};
use crate::workspace::Workspace;

/// One attempt at a task.
#[derive(Clone, Debug)]
pub struct Job {
    /// The task.
    pub task: TaskId,
    /// The request.
    pub request: CuratorRequest,
    /// The workspace.
    pub workspace: Workspace,
    /// The ledger that records the work of models.
    pub ledger: Arc<Ledger>,
}

/// The reason why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// A memory changed while it was being decided on. The task must be decided again on a new
    /// draft.
    #[error("a memory changed in the meantime")]
    Conflict,
    /// The task fails for good.
    #[error(transparent)]
    Failed(#[from] TaskError),
}

impl RunError {
    /// Converts an error of the store into the result of a task of this kind.
    pub(crate) fn from_store(kind: TaskKind, error: &StoreError) -> Self {
        let code = match error.code() {
            MemoryErrorCode::Conflict => return Self::Conflict,
            MemoryErrorCode::Screened => TaskErrorCode::Screened,
            MemoryErrorCode::EscapesRoot if kind == TaskKind::Remember => {
                TaskErrorCode::RememberPathEscape
            }
            _ => TaskErrorCode::failed(kind),
        };
        let failed = TaskError::new(code).caused_by(error.code());
        Self::Failed(match error {
            StoreError::Refused(refusal) => failed.with_details(&refusal.to_string()),
            // Other errors name files of this machine, which other clients must not see.
            _ => failed.with_details(error.code().meaning()),
        })
    }
}

/// Executes tasks: reads memories, edits a draft, and commits nothing.
#[async_trait]
pub trait Runner: fmt::Debug + Send + Sync {
    /// Returns the name that a run is recorded with.
    fn name(&self) -> &'static str;

    /// Checks whether tasks of this workspace can run.
    async fn available(&self, workspace: &Workspace) -> Result<bool, TaskError>;

    /// Runs a task on a draft. After `stop` is cancelled it ends soon; its result and the draft are
    /// then ignored.
    async fn run(
        &self,
        job: &Job,
        memories: &Memories,
        draft: &mut Draft,
        stop: &CancellationToken,
    ) -> Result<TaskResult, RunError>;

    /// Returns the maximum number of decisions on a task when memories keep changing.
    fn decisions_max(&self) -> u32 {
        TASK_DECISIONS_MAX
    }

    /// Drops caches after an idle period.
    fn trim_caches(&self) {}
}

/// The runner that uses a curator in this process.
pub struct LocalRunner {
    curator: Curator<Arc<dyn Clock>>,
    deadline: Duration,
    review_wait: Duration,
}

impl fmt::Debug for LocalRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcess").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl LocalRunner {
    /// Returns a runner that uses this curator.
    pub const fn new(curator: Curator<Arc<dyn Clock>>) -> Self {
        Self { curator, deadline: TASK_RUNNER_WAIT, review_wait: REVIEW_WAIT_DEFAULT }
    }

    /// Returns the runner with another time limit.
    #[must_use]
    pub const fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Returns the runner with another time limit for reviews.
    #[must_use]
    pub const fn with_review_wait(mut self, wait: Duration) -> Self {
        self.review_wait = wait;
        self
    }

    async fn curate(
        &self,
        Job { request, ledger, .. }: &Job,
        memories: &Memories,
        draft: &mut Draft,
    ) -> Result<TaskResult, CurateError> {
        let mut result: TaskResult = match request {
            CuratorRequest::Remember(request) => {
                self.curator.remember(memories, draft, request, ledger).await?.into()
            }
            CuratorRequest::Forget(request) => {
                self.curator.forget(memories, draft, request, ledger).await?.into()
            }
            CuratorRequest::Review(request) => {
                let request = (request, self.review_wait);
                self.curator.review(memories, draft, request, ledger).await?.into()
            }
            CuratorRequest::Dream => self.curator.dream(memories, draft, ledger).await?.into(),
        };
        if ledger.report().fallback.is_some() {
            result.summary.push_str(" The rules did it, since the model failed.");
        }
        Ok(result)
    }
}

impl From<RememberReport> for TaskResult {
    fn from(report: RememberReport) -> Self {
        let RememberReport {
            summary,
            changed_paths: touched,
            scopes,
            changes,
            proposals,
            edits: _,
        } = report;
        let details = TaskDetails::Remember { files_touched: touched };
        Self { summary, scopes, changes, proposals: TaskProposals::Unstored(proposals), details }
    }
}

impl From<ForgetReport> for TaskResult {
    fn from(report: ForgetReport) -> Self {
        let ForgetReport { summary, removed, topics, scopes, changes, candidates, .. } = report;
        let details = TaskDetails::Forget { removed, topics, candidates };
        Self { summary, scopes, changes, proposals: TaskProposals::Unstored(Vec::new()), details }
    }
}

impl From<DreamReport> for TaskResult {
    fn from(report: DreamReport) -> Self {
        let DreamReport {
            summary,
            topics,
            scopes,
            merged_entries: deduped,
            changes,
            proposals,
            ..
        } = report;
        let details = TaskDetails::Dream { topics, deduped };
        Self { summary, scopes, changes, proposals: TaskProposals::Unstored(proposals), details }
    }
}

impl From<ReviewReport> for TaskResult {
    fn from(report: ReviewReport) -> Self {
        let ReviewReport {
            summary,
            changed_paths: touched,
            scopes,
            changes,
            proposals,
            skipped,
            ..
        } = report;
        let details = TaskDetails::Review { files_touched: touched, skipped };
        Self { summary, scopes, changes, proposals: TaskProposals::Unstored(proposals), details }
    }
}

#[async_trait]
impl Runner for LocalRunner {
    fn name(&self) -> &'static str {
        if self.curator.has_model() { "models" } else { "embedded" }
    }

    async fn available(&self, workspace: &Workspace) -> Result<bool, TaskError> {
        Ok(workspace.memory_enabled && !workspace.binding.read_only)
    }

    fn decisions_max(&self) -> u32 {
        if self.curator.has_model() { MODEL_DECISIONS_MAX } else { TASK_DECISIONS_MAX }
    }

    fn trim_caches(&self) {
        self.curator.clear_cache();
    }

    async fn run(
        &self,
        job: &Job,
        memories: &Memories,
        draft: &mut Draft,
        stop: &CancellationToken,
    ) -> Result<TaskResult, RunError> {
        let kind = job.request.kind();
        let deadline = if kind == TaskKind::Review { self.review_wait } else { self.deadline };
        let curated = tokio::select! {
            () = stop.cancelled() => {
                return Err(TaskError::new(TaskErrorCode::Cancelled).into());
            }
            () = tokio::time::sleep(deadline) => {
                return Err(TaskError::new(TaskErrorCode::Timeout).into());
            }
            curated = self.curate(job, memories, draft) => curated,
        };
        curated.map_err(|error| match error {
            CurateError::Refused(refusal) => TaskError::from(&refusal).into(),
            CurateError::Agent(error) => TaskError::from_agent(kind, &error).into(),
            CurateError::Store(error) => {
                if !matches!(error, StoreError::Refused(_)) {
                    tracing::warn!(task = %job.task, error = %error_chain(&error), "a task failed with an error of the store");
                }
                RunError::from_store(kind, &error)
            }
        })
    }
}

/// Maximum number of causes of an error that are listed, because a chain may be cyclic.
const CAUSES_MAX: usize = 8;

/// Returns an error with its causes, for the log: without credentials, line breaks and invisible
/// characters, and cut to a limit.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    for _ in 0..CAUSES_MAX {
        let Some(deeper) = cause else { break };
        text.push_str(": ");
        text.push_str(&deeper.to_string());
        cause = deeper.source();
    }
    crate::task::redact_for_display(&text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{what}")]
    struct ChainedError {
        what: &'static str,
        #[source]
        because: Option<Box<ChainedError>>,
    }

    #[test]
    fn a_chain_names_all_causes_and_no_credentials() {
        let deepest = ChainedError {
            what: "key ghp_Zz0123456789abcdefghijABCDEFGHIJ0123\nrefused",
            because: None,
        };
        let error = ChainedError { what: "cannot ask", because: Some(Box::new(deepest)) };
        assert_eq!(error_chain(&error), "cannot ask: key [redacted] refused");
    }
}
