//! What has to be done in lanes now and then, whether or not somebody asks.
//!
//! A process that dies tells nobody. What it queued or began is found by looking; and what ended long
//! ago goes although nobody queues anything. Dreams by schedule are asked for here. Between two looks
//! nothing is awake.

use std::time::Duration;

use memory::clock::Timestamp;
use state::StateError;

use super::{Lanes, Shared, lock};
use crate::runner::chain;
use crate::workspace::Workspace;

impl Lanes {
    /// Maintains the lanes of all registered workspaces until they are drained, at once and then at an interval:
    /// recovers tasks of processes that died, drops tasks that ended long ago, and dreams where that is due.
    pub async fn maintain(&self) {
        let shared = &self.0;
        while !shared.draining.is_cancelled() {
            let registered: Vec<_> =
                lock(&shared.lanes).values().map(|lane| lane.workspace()).collect();
            if let Err(error) = self.maintain_once(&registered).await {
                let retry = shared.settings.look_interval;
                tracing::warn!(error = %chain(&error), ?retry, "lane maintenance failed; retrying");
            }
            shared.rest(shared.settings.look_interval).await;
        }
    }

    /// Maintains the lanes of these workspaces once.
    pub async fn maintain_once(&self, workspaces: &[Workspace]) -> Result<(), StateError> {
        self.resume(workspaces).await?;
        self.0.parts.tasks.drop_ended(self.0.ended_since()).await?;
        if let Some(schedule) = self.0.settings.dream {
            for workspace in workspaces {
                self.dream_if_due(workspace, schedule).await;
            }
        }
        Ok(())
    }
}

impl Shared {
    /// Returns when a task that is still known has ended at the earliest.
    pub(super) fn ended_since(&self) -> Timestamp {
        since(self.parts.clock.now(), self.settings.limits.kept_for)
    }
}

/// Returns the time so long before another one.
pub(super) fn since(now: Timestamp, age: Duration) -> Timestamp {
    now.checked_sub(age).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_age_reaches_before_the_beginning_of_time() {
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(since(now, Duration::from_mins(1)).as_second(), -60);
        assert_eq!(since(now, Duration::MAX), Timestamp::MIN);
    }
}
