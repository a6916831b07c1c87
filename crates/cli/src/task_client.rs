//! Tasks that are submitted on the command line.
//!
//! They run in the lane of this process and not in the daemon, under the lock that all Lukasa processes share.
//! Only this file decides that. Errors of tasks are converted to failures with hints.

use engine::{
    CancelOutcome, CuratorRequest, Engine, Lanes, NextDream, NullFeed, Requester, SubmitError,
    Task, TaskError, TaskErrorCode, TaskFilter, TaskId, TaskKind, TaskPreview, TaskPreviewError,
    TaskState, Viewer, Workspace,
};
use memory::error_code::MemoryErrorCode;
use memory::limits::{DRAIN_WAIT, TASKS_MINOR_MAX, TASKS_UNFINISHED_MAX};

use std::sync::Arc;

use crate::app::{App, SelectedRunner};
use crate::exit::{Failure, help_for};

/// The lane of the workspace that the flags and the current folder select.
pub(crate) struct TaskClient {
    lanes: Lanes,
    selected_runner: Option<SelectedRunner>,
    workspace: Workspace,
    requester: Requester,
}

impl TaskClient {
    /// Opens the lane with the configured runner; no task is started.
    pub(crate) fn open(app: &App) -> Self {
        let chosen = app.runners.for_command(&app.engine);
        let (engine, runner) = (&app.engine, Arc::clone(&chosen.runner));
        let lanes = engine.lanes_with(runner, engine.lane_settings(), Arc::new(NullFeed));
        Self {
            lanes,
            selected_runner: Some(chosen),
            workspace: app.workspace(),
            requester: Requester::person("cli"),
        }
    }

    /// Opens the lane of a workspace with the runner of the engine.
    pub(crate) fn new(engine: &Engine, workspace: Workspace) -> Self {
        let lanes = engine.lanes(engine.lane_settings(), Arc::new(NullFeed));
        Self { lanes, selected_runner: None, workspace, requester: Requester::person("cli") }
    }

    /// Submits a task and waits for its end. A signal cancels the task.
    pub(crate) async fn run_task(
        &self,
        app: &App,
        request: CuratorRequest,
        doing: &str,
    ) -> Result<Task, Failure> {
        // Signals are handled in `submit_and_wait`.
        let _finishing = app.interrupts.defer_for_write();
        let ended = app.wait_with_progress(doing, self.submit_and_wait(app, request)).await;
        self.lanes.drain(DRAIN_WAIT).await;
        self.close().await;
        ended
    }

    /// Closes the runner.
    async fn close(&self) {
        if let Some(chosen) = &self.selected_runner {
            chosen.close().await;
        }
    }

    async fn submit_and_wait(&self, app: &App, request: CuratorRequest) -> Result<Task, Failure> {
        let kind = request.kind();
        let submitted = self.lanes.submit(&self.workspace, request, self.requester.clone()).await;
        let task = submitted.map_err(|error| submit_failure(kind, error))?;
        let ended = tokio::select! {
            ended = self.lanes.wait(&self.workspace, &task.id) => ended?,
            signal = app.interrupts.wait_for_signal() => {
                self.lanes.cancel(&self.workspace, &task.id, Viewer::Person).await?;
                return Err(Failure::Interrupted(signal));
            }
        };
        match ended {
            Some(Task { state: TaskState::Failed(error), .. }) => Err(task_failure(&error)),
            Some(task) => Ok(task),
            None => Err(Failure::new(MemoryErrorCode::NotFound, "the task no longer exists")),
        }
    }

    /// Returns the conditions of the next scheduled dream, if there is one.
    pub(crate) async fn next_dream(&self) -> Option<NextDream> {
        // Errors of the state are reported by the health check.
        self.lanes.next_dream(&self.workspace).await.unwrap_or_default()
    }

    /// Computes the effect of a task without running it.
    pub(crate) async fn preview(
        &self,
        app: &App,
        request: &CuratorRequest,
        doing: &str,
    ) -> Result<TaskPreview, Failure> {
        let future = self.lanes.preview(&self.workspace, request, &self.requester);
        let preview = app.wait_with_progress(doing, future).await;
        self.close().await;
        preview.map_err(|error| match error {
            TaskPreviewError::Submit(error) => submit_failure(request.kind(), error),
            TaskPreviewError::Task(error) => task_failure(&error),
        })
    }

    /// Returns tasks of this workspace, latest first.
    pub(crate) async fn list(&self, filter: TaskFilter) -> Result<Vec<Task>, Failure> {
        Ok(self.lanes.list(&self.workspace, filter, Viewer::Person).await?)
    }

    /// Cancels a task; `None` if there is no such task in this workspace.
    pub(crate) async fn cancel(&self, id: &TaskId) -> Result<Option<CancelOutcome>, Failure> {
        Ok(self.lanes.cancel(&self.workspace, id, Viewer::Person).await?)
    }
}

fn submit_failure(kind: TaskKind, error: SubmitError) -> Failure {
    match error {
        SubmitError::State(error) => error.into(),
        SubmitError::Full => {
            let text = format!("{error}");
            let help = format!(
                "`lukasa tasks` lists them; at most {TASKS_UNFINISHED_MAX} may wait, at most \
                 {TASKS_MINOR_MAX} of them to forget or dream"
            );
            Failure::new(MemoryErrorCode::Locked, text).help(help)
        }
        SubmitError::Draining => Failure::new(MemoryErrorCode::Locked, error.to_string()),
        SubmitError::FeatureDisabled => {
            Failure::new(MemoryErrorCode::FeatureDisabled, error.to_string())
        }
        SubmitError::Unavailable | SubmitError::Untrusted => {
            Failure::new(MemoryErrorCode::ReadOnly, error.to_string())
        }
        SubmitError::ProbeFailed => {
            Failure::new(MemoryErrorCode::StorageFailed, format!("cannot {kind}: {error}"))
        }
    }
}

/// Converts the error of a task, with a hint.
fn task_failure(error: &TaskError) -> Failure {
    let code = error.cause.unwrap_or(match error.code {
        TaskErrorCode::Screened => MemoryErrorCode::Screened,
        TaskErrorCode::RememberScopeMismatch => MemoryErrorCode::ScopeUnavailable,
        TaskErrorCode::RememberPathEscape => MemoryErrorCode::EscapesRoot,
        TaskErrorCode::ManagedMemoryUnavailable => MemoryErrorCode::ReadOnly,
        TaskErrorCode::Cancelled | TaskErrorCode::WorkspaceRemoved => MemoryErrorCode::Conflict,
        TaskErrorCode::RememberFailed
        | TaskErrorCode::ForgetFailed
        | TaskErrorCode::DreamFailed
        | TaskErrorCode::ReviewFailed
        | TaskErrorCode::Timeout
        | TaskErrorCode::ModelUnavailable => MemoryErrorCode::StorageFailed,
    });
    let sentence = error.code.message().trim_end_matches('.');
    let what = match error.details() {
        Some(details) => format!("{sentence}: {details}"),
        None => sentence.to_owned(),
    };
    let failure = Failure::new(code, what);
    match error.code {
        TaskErrorCode::Screened => failure.help(
            "if the text is harmless, write it with `lukasa create` or `lukasa edit` and `--allow RULE`",
        ),
        TaskErrorCode::RememberScopeMismatch => {
            failure.help("select a project with `--project DIR`, a workspace with `--workspace-id ID`")
        }
        _ => match error.cause.and_then(help_for) {
            Some(help) => failure.help(help),
            None => failure,
        },
    }
}
