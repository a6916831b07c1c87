//! Tasks that were looked at before, so that whoever looks again and again costs little.
//!
//! They are kept for one version of the state alone: whatever anybody writes to it, in whatever process,
//! makes another one.

use std::collections::HashMap;
use std::sync::Arc;

use memory::limits::TASKS_SEEN_MAX;
use state::Version;

use crate::task::{Task, TaskId};

/// The tasks that were read of the current version of the state.
#[derive(Debug, Default)]
pub(super) struct Seen {
    version: Option<Version>,
    tasks: HashMap<TaskId, Arc<Task>>,
}

impl Seen {
    /// Returns a task as it is in this version, if it was looked at.
    pub(super) fn get(&self, version: Version, id: &TaskId) -> Option<Arc<Task>> {
        self.tasks.get(id).filter(|_| self.version == Some(version)).cloned()
    }

    /// Notes a task that was read after this version was found to be current.
    pub(super) fn note(&mut self, version: Version, task: &Arc<Task>) {
        if self.version != Some(version) || self.tasks.len() >= TASKS_SEEN_MAX {
            self.tasks.clear();
            self.version = Some(version);
        }
        self.tasks.insert(task.id.clone(), Arc::clone(task));
    }
}
