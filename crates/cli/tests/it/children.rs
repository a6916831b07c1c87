//! Tests of tasks in child processes: the outcome is the same as in this process, and no process is left behind.

mod equivalence;
mod hostile;
mod load;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use engine::{
    BaseFolders, Config, CuratorRequest, Engine, LaneSettings, Lanes, NullFeed, Requester, Runner,
    Task, TaskState, Workspace, WorkspaceChoice,
};
use server::acp::{ChildRunner, ChildSettings};

use crate::processes::stat;
use crate::sandbox::Sandbox;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// An engine of this process on a sandbox, with a runner for its tasks.
struct ChildTestEngine {
    sandbox: Sandbox,
    engine: Engine,
    lanes: Lanes,
    workspace: Workspace,
}

impl ChildTestEngine {
    /// Opens an engine whose tasks run in children.
    fn open(place: Sandbox, child: ChildRunner) -> Self {
        let engine = Self::engine(&place);
        Self::with(place, engine, Arc::new(child))
    }

    fn engine(place: &Sandbox) -> Engine {
        let home = place.home();
        let folders = BaseFolders { state: home.join("state"), data: home };
        Engine::open(Config::new(folders)).unwrap()
    }

    fn with(place: Sandbox, engine: Engine, runner: Arc<dyn Runner>) -> Self {
        let settings =
            LaneSettings { retry_delay: Duration::from_millis(5), ..engine.lane_settings() };
        let lanes = engine.lanes_with(runner, settings, Arc::new(NullFeed));
        let binding = engine::BindingRequest {
            project: Some(place.checkout().into()),
            workspace: WorkspaceChoice::Checkout,
            ..engine::BindingRequest::default()
        };
        let workspace = Workspace::new(place.checkout(), binding);
        Self { sandbox: place, engine, lanes, workspace }
    }

    /// Runs a task to its end.
    async fn done(&self, request: CuratorRequest) -> Task {
        let by = Requester::client("test", None);
        let task = self.lanes.submit(&self.workspace, request, by).await.unwrap();
        self.lanes.wait(&self.workspace, &task.id).await.unwrap().unwrap()
    }

    /// Runs a task that must fail; returns its code and its details.
    async fn failed(&self, request: CuratorRequest) -> String {
        match self.done(request).await.state {
            TaskState::Failed(error) => {
                format!("{}: {}", error.code, error.details().unwrap_or_default())
            }
            other => panic!("{other:?}"),
        }
    }

    async fn close(self) -> Sandbox {
        self.lanes.drain(Duration::from_secs(5)).await;
        self.engine.close().await;
        self.sandbox
    }
}

fn remember(content: &str) -> CuratorRequest {
    CuratorRequest::Remember(engine::RememberRequest {
        content: content.to_owned(),
        context_mode: engine::ContextMode::Workspace,
        scope: None,
    })
}

fn forget(query: &str) -> CuratorRequest {
    CuratorRequest::Forget(engine::ForgetRequest {
        query: query.to_owned(),
        scope: None,
        file: None,
    })
}

/// Returns the settings that start the program itself as a child in a sandbox.
fn own_child_settings(place: &Sandbox) -> ChildSettings {
    let mut settings = ChildSettings::new(PathBuf::from(env!("CARGO_BIN_EXE_lukasa")), VERSION);
    let variables = [
        ("PATH", std::env::var_os("PATH").unwrap()),
        ("HOME", place.home().into_os_string()),
        ("LUKASA_HOME", place.home().into_os_string()),
        ("TZ", "UTC".into()),
    ];
    settings.environment = variables.map(|(name, value)| (name.into(), value)).to_vec();
    settings
}

/// Returns the settings that start a shell script as a child, which reads calls as lines and prints any answers.
fn script(place: &Sandbox, body: &str) -> ChildSettings {
    let mut settings = own_child_settings(place);
    settings.program = PathBuf::from("/bin/sh");
    settings.arguments = vec![place.script("child", body)];
    settings
}

fn runner(settings: ChildSettings) -> ChildRunner {
    ChildRunner::new(settings)
}

/// Returns whether a process group still has a process.
fn is_group_alive(group: u32) -> bool {
    let entries = std::fs::read_dir("/proc").unwrap();
    let ids = entries.filter_map(|entry| entry.unwrap().file_name().to_string_lossy().parse().ok());
    ids.into_iter().any(|id| stat(id).is_some_and(|(_, of)| of == group))
}
