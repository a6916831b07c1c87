//! Scheduled dreams: the conditions for one, and queueing it.
//!
//! All conditions must hold: the user enabled the schedule, the last dream was long enough ago,
//! there were enough sessions since, and the lane is idle. Time and sessions are stored in the
//! state and checked again in the transaction that queues the dream, so that only one of several
//! daemons queues it.
//!
//! After a dream the full interval starts again, however the dream ended.

use std::collections::BTreeSet;

use memory::change::Trust;
use memory::clock::Timestamp;
use memory::feature::Feature;
use memory::limits::DREAM_CHANGES_MAX;
use state::{DreamPreconditions, LastDream, StateError};
use store::ChangesQuery;

use super::requests::SubmitError;
use super::shared::{DreamSchedule, Lanes, SCHEDULE_ORIGIN, time_before};
use crate::runner::error_chain;
use crate::task::{CuratorRequest, Requester};
use crate::workspace::Workspace;

/// The remaining conditions for the next scheduled dream, beside an idle lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextDream {
    /// Earliest time; `None` if there was no dream yet, so that no wait applies.
    pub not_before: Option<Timestamp>,
    /// Number of sessions still missing.
    pub sessions_missing: u64,
}

/// Returns the requester of scheduled dreams.
fn scheduler() -> Requester {
    Requester { client: None, trust: Trust::Background, origin: SCHEDULE_ORIGIN.to_owned() }
}

impl Lanes {
    fn may_dream(&self, workspace: &Workspace) -> bool {
        let needed = [Feature::ScheduledDreams, Feature::Tasks];
        let is_on = needed.iter().all(|feature| self.0.has_feature(workspace, *feature));
        is_on && workspace.trusted && workspace.memory_enabled && !workspace.binding.read_only
    }

    /// Returns the remaining conditions for the next scheduled dream; `None` if the schedule does
    /// not apply.
    pub async fn next_dream(&self, workspace: &Workspace) -> Result<Option<NextDream>, StateError> {
        let Some(schedule) = self.0.settings.dream.filter(|_| self.may_dream(workspace)) else {
            return Ok(None);
        };
        let last = self.0.deps.tasks.last_dream(&workspace.id).await?;
        let requester = scheduler();
        let mut sessions_missing = u64::from(schedule.after_sessions).saturating_sub(last.sessions);
        if sessions_missing > 0 {
            let wrote = self.writing_sessions(workspace, &requester, last.requested_at).await;
            sessions_missing = sessions_missing.saturating_sub(wrote);
        }
        let due = |at: Timestamp| at.checked_add(schedule.every).unwrap_or(Timestamp::MAX);
        Ok(Some(NextDream { not_before: last.requested_at.map(due), sessions_missing }))
    }

    /// Queues a dream if it is due. An error is logged and stops nothing else.
    pub(super) async fn dream_if_due(&self, workspace: &Workspace, schedule: DreamSchedule) {
        if !self.may_dream(workspace) {
            return;
        }
        match self.try_dream(workspace, schedule).await {
            Ok(())
            | Err(
                SubmitError::Full
                | SubmitError::Draining
                | SubmitError::Unavailable
                | SubmitError::FeatureDisabled,
            ) => {}
            Err(error) => {
                let error = error_chain(&error);
                tracing::warn!(workspace = %workspace.id, error, "error while queueing a scheduled dream; retried later");
            }
        }
    }

    async fn try_dream(
        &self,
        workspace: &Workspace,
        DreamSchedule { every, after_sessions }: DreamSchedule,
    ) -> Result<(), SubmitError> {
        let tasks = &self.0.deps.tasks;
        let requested_before = time_before(self.0.deps.clock.now(), every);
        // Read before writing, because a write waits for other writers.
        let LastDream { requested_at, sessions } = tasks.last_dream(&workspace.id).await?;
        if requested_at.is_some_and(|requested_at| requested_at > requested_before)
            || tasks.workspaces_with_work().await?.contains(&workspace.id)
        {
            return Ok(());
        }
        let requester = scheduler();
        let mut sessions_min = u64::from(after_sessions);
        if sessions < sessions_min {
            let wrote = self.writing_sessions(workspace, &requester, requested_at).await;
            sessions_min = sessions_min.saturating_sub(wrote);
        }
        if sessions < sessions_min {
            return Ok(());
        }
        if let Some(tokens) = self.0.tokens_over_budget().await? {
            tracing::info!(
                workspace = %workspace.id,
                tokens,
                allowed = self.0.settings.background_tokens_max,
                "a scheduled dream is postponed: models used the tokens that `models.background_tokens` allows"
            );
            return Ok(());
        }
        let preconditions = DreamPreconditions { requested_before, sessions_min };
        let task = self
            .submit_if(workspace, CuratorRequest::Dream, requester, Some(preconditions))
            .await?;
        tracing::info!(task = %task.id, "queued a scheduled dream");
        Ok(())
    }

    /// Counts the conversations that changed memories of a workspace since then, from history.
    /// Agents that use MCP are registered nowhere else.
    async fn writing_sessions(
        &self,
        workspace: &Workspace,
        requester: &Requester,
        since: Option<Timestamp>,
    ) -> u64 {
        let memories = self.0.memories(workspace, &CuratorRequest::Dream, requester);
        let query = ChangesQuery { since, max: DREAM_CHANGES_MAX, ..ChangesQuery::default() };
        let changes = match memories.recorded_changes(&query).await {
            Ok(changes) => changes,
            Err(error) => {
                tracing::warn!(error = %error_chain(&error), "error while counting the sessions that wrote memories");
                return 0;
            }
        };
        let sessions = changes.into_iter().filter_map(|change| {
            let provenance = change.provenance;
            Some((provenance.client, provenance.session?))
        });
        u64::try_from(sessions.collect::<BTreeSet<_>>().len()).expect("a count fits into 64 bits")
    }
}
