//! The options of a daemon that concern tasks.

use std::num::NonZeroUsize;

use engine::{Engine, LaneSettings};

use crate::args::RunnerKind;

/// The settings of the tasks of each owner.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TaskOptions {
    /// The flag that chooses the process that runs tasks.
    pub(super) runner: Option<RunnerKind>,
    /// The most tasks of an owner that run at a time.
    pub(super) concurrent_max: Option<NonZeroUsize>,
}

impl TaskOptions {
    /// Returns the settings of the lanes of an engine.
    pub(super) fn lanes(&self, engine: &Engine) -> LaneSettings {
        let mut settings = engine.lane_settings();
        if let Some(concurrent_max) = self.concurrent_max {
            settings.concurrent_max = concurrent_max.get();
        }
        settings
    }
}
