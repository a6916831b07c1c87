//! Who does a task that a person asks for at the command line.
//!
//! The lane of this process does, under the lock that every process of Lukasa shares. This file is the
//! one place that decides it.

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

/// The lane of the workspace that the flags and the current folder mean.
pub(crate) struct TaskClient {
    lanes: Lanes,
    selected_runner: Option<SelectedRunner>,
    workspace: Workspace,
    requester: Requester,
}

impl TaskClient {
    /// Opens the lane; nothing is done yet.
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

    /// Opens the lane of a workspace.
    pub(crate) fn new(engine: &Engine, workspace: Workspace) -> Self {
        let lanes = engine.lanes(engine.lane_settings(), Arc::new(NullFeed));
        Self { lanes, selected_runner: None, workspace, requester: Requester::person("cli") }
    }

    /// Has a task done and waits for its end. A signal takes it back.
    pub(crate) async fn run_task(
        &self,
        app: &App,
        request: CuratorRequest,
        doing: &str,
    ) -> Result<Task, Failure> {
        // Ends by signals in its own way.
        let _finishing = app.interrupts.defer_for_write();
        let ended = app.wait_with_progress(doing, self.submit_and_wait(app, request)).await;
        self.lanes.drain(DRAIN_WAIT).await;
        self.close().await;
        ended
    }

    /// Ends what was started for tasks.
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
            None => Err(Failure::new(MemoryErrorCode::NotFound, "the task is not known any more")),
        }
    }

    /// Tells what the next dream by schedule waits for, if one comes.
    pub(crate) async fn next_dream(&self) -> Option<NextDream> {
        // What is wrong with the state is told by whoever looks after it.
        self.lanes.next_dream(&self.workspace).await.unwrap_or_default()
    }

    /// Works out what a task would do.
    pub(crate) async fn rehearse(
        &self,
        app: &App,
        request: &CuratorRequest,
        doing: &str,
    ) -> Result<TaskPreview, Failure> {
        let rehearsal = self.lanes.preview(&self.workspace, request, &self.requester);
        let rehearsed = app.wait_with_progress(doing, rehearsal).await;
        self.close().await;
        rehearsed.map_err(|error| match error {
            TaskPreviewError::Submit(error) => submit_failure(request.kind(), error),
            TaskPreviewError::Task(error) => task_failure(&error),
        })
    }

    /// Returns tasks of this workspace, latest first.
    pub(crate) async fn list(&self, filter: TaskFilter) -> Result<Vec<Task>, Failure> {
        Ok(self.lanes.list(&self.workspace, filter, Viewer::Person).await?)
    }

    /// Takes a task back; `None` if there is no such task in this workspace.
    pub(crate) async fn cancel(&self, id: &TaskId) -> Result<Option<CancelOutcome>, Failure> {
        Ok(self.lanes.cancel(&self.workspace, id, Viewer::Person).await?)
    }
}

fn submit_failure(kind: TaskKind, error: SubmitError) -> Failure {
    match error {
        SubmitError::State(error) => error.into(),
        SubmitError::Full => {
            let what = format!("{error}");
            let help = format!(
                "`lukasa tasks` lists them; {TASKS_UNFINISHED_MAX} fit in, {TASKS_MINOR_MAX} of them \
                 to forget or dream"
            );
            Failure::new(MemoryErrorCode::Locked, what).help(help)
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

/// Says why a task came to nothing.
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
            "if it is harmless, `lukasa create` or `lukasa edit` with `--allow RULE` writes it",
        ),
        TaskErrorCode::RememberScopeMismatch => {
            failure.help("give `--project DIR` for a project, `--workspace-id ID` for a workspace")
        }
        _ => match error.cause.and_then(help_for) {
            Some(help) => failure.help(help),
            None => failure,
        },
    }
}
