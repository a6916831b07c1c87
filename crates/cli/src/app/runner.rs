//! Where tasks are done: in this process, or in a child of it.
//!
//! A person's settings decide, and the flag of one daemon; without either, a daemon has models decide in a child, since
//! what they answer is not to be trusted with its memory and its time, and rules in its own process. A command that does
//! one task and ends does it itself: nobody else is there to be spared.

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

/// What settings say of where tasks are done.
#[derive(Clone, Debug, Default)]
#[cfg_attr(
    not(feature = "child"),
    expect(dead_code, reason = "only a child has an environment and an end")
)]
pub(crate) struct RunnerConfig {
    /// What is asked for.
    pub(crate) kind: Option<RunnerKind>,
    /// How long after its last task a child is stopped, in seconds.
    pub(crate) idle_seconds: Option<u32>,
    /// The variables of the environment that hold keys of models that are used.
    pub(crate) key_variables: Vec<String>,
    /// Whether a command tells the key of one.
    pub(crate) has_key_command: bool,
}

/// Who does tasks, and what is to be done about them at the end.
#[derive(Clone, Debug)]
pub(crate) struct SelectedRunner {
    /// The runner.
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
    /// Returns who does tasks for a daemon. What a flag says comes before what settings say.
    pub(crate) fn for_daemon(&self, engine: &Engine, flag: Option<RunnerKind>) -> SelectedRunner {
        let by_default =
            if engine.models().is_empty() { RunnerKind::InProcess } else { RunnerKind::Child };
        self.choose(engine, flag.or(self.kind).unwrap_or(by_default))
    }

    /// Returns who does the task of one command.
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
