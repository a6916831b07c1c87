//! The choice of the process that runs tasks: this process, or a child of it.
//!
//! The flag of a daemon decides, else the settings. Without either, a daemon runs models in a child, since their answers
//! must not cost the daemon memory and time, and rules in its own process. A command runs its one task itself, since it
//! has no other clients to protect.

use std::sync::Arc;

use engine::{Engine, Runner};

#[cfg(feature = "child")]
use self::child::Children;
#[cfg(not(feature = "child"))]
use self::no_child::Children;
use crate::args::RunnerKind;

#[cfg(feature = "child")]
mod child;

#[cfg(not(feature = "child"))]
mod no_child;

/// The settings of task runners.
#[derive(Clone, Debug, Default)]
#[cfg_attr(
    not(feature = "child"),
    expect(dead_code, reason = "only a child has an environment and an end")
)]
pub(crate) struct RunnerConfig {
    /// The configured kind of runner.
    pub(crate) kind: Option<RunnerKind>,
    /// The seconds without a task after which a child is stopped.
    pub(crate) idle_seconds: Option<u32>,
    /// The environment variables with the keys of configured models.
    pub(crate) key_variables: Vec<String>,
    /// Whether a command prints the key of a configured model.
    pub(crate) has_key_command: bool,
}

/// The selected runner, with its child processes.
#[derive(Clone, Debug)]
pub(crate) struct SelectedRunner {
    /// The runner, in this process or in children.
    pub(crate) runner: Arc<dyn Runner>,
    children: Option<Children>,
}

impl SelectedRunner {
    /// Stops the children, if there are any.
    pub(crate) async fn close(&self) {
        if let Some(children) = &self.children {
            children.close().await;
        }
    }
}

impl RunnerConfig {
    /// Returns the runner of a daemon. A flag takes precedence over the settings.
    pub(crate) fn for_daemon(&self, engine: &Engine, flag: Option<RunnerKind>) -> SelectedRunner {
        let by_default =
            if engine.models().is_empty() { RunnerKind::InProcess } else { RunnerKind::Child };
        self.choose(engine, flag.or(self.kind).unwrap_or(by_default))
    }

    /// Returns the runner of a command.
    pub(crate) fn for_command(&self, engine: &Engine) -> SelectedRunner {
        self.choose(engine, self.kind.unwrap_or(RunnerKind::InProcess))
    }

    fn choose(&self, engine: &Engine, kind: RunnerKind) -> SelectedRunner {
        let children = match kind {
            RunnerKind::InProcess => None,
            RunnerKind::Child => Children::new(self, engine),
        };
        let runner = children.as_ref().map_or_else(|| engine.runner(), Children::runner);
        SelectedRunner { runner, children }
    }
}
