//! Dreams that nobody asked for: when they are due, and asking for them.
//!
//! All gates must be open: a person turned the schedule on, the last dream was long enough ago, there were
//! enough sessions since, and the lane has nothing to do. Time and sessions are kept in the state, and it
//! looks at all of it again in the transaction that queues the dream, so of several daemons one dreams.
//! However a dream ends, the next one waits as long again.

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

/// What the next dream by schedule waits for, beside a lane that has nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextDream {
    /// It comes no sooner; `None` if there never was one, and it need not wait.
    pub not_before: Option<Timestamp>,
    /// How many more sessions there have to be first.
    pub sessions_missing: u64,
}

/// Who asks for a dream that nobody asked for.
fn scheduler() -> Requester {
    Requester { client: None, trust: Trust::Background, origin: SCHEDULE_ORIGIN.to_owned() }
}

impl Lanes {
    fn may_dream(&self, workspace: &Workspace) -> bool {
        let needed = [Feature::ScheduledDreams, Feature::Tasks];
        let is_on = needed.iter().all(|feature| self.0.has_feature(workspace, *feature));
        is_on && workspace.trusted && workspace.memory_enabled && !workspace.binding.read_only
    }

    /// Tells what the next dream by schedule waits for; `None` where nobody dreams by schedule.
    pub async fn next_dream(&self, workspace: &Workspace) -> Result<Option<NextDream>, StateError> {
        let Some(schedule) = self.0.settings.dream.filter(|_| self.may_dream(workspace)) else {
            return Ok(None);
        };
        let last = self.0.deps.tasks.last_dream(&workspace.id).await?;
        let asker = scheduler();
        let mut sessions_missing = u64::from(schedule.after_sessions).saturating_sub(last.sessions);
        if sessions_missing > 0 {
            let wrote = self.writing_sessions(workspace, &asker, last.requested_at).await;
            sessions_missing = sessions_missing.saturating_sub(wrote);
        }
        let due = |at: Timestamp| at.checked_add(schedule.every).unwrap_or(Timestamp::MAX);
        Ok(Some(NextDream { not_before: last.requested_at.map(due), sessions_missing }))
    }

    /// Asks for a dream if it is due. That it cannot be asked for keeps nothing else from being done.
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
                tracing::warn!(workspace = %workspace.id, error, "a dream by schedule has to wait");
            }
        }
    }

    async fn try_dream(
        &self,
        workspace: &Workspace,
        DreamSchedule { every, after_sessions }: DreamSchedule,
    ) -> Result<(), SubmitError> {
        let tasks = &self.0.deps.tasks;
        let asked_before = time_before(self.0.deps.clock.now(), every);
        // Looked at first: to write is to wait for others who write.
        let LastDream { requested_at: asked_at, sessions } =
            tasks.last_dream(&workspace.id).await?;
        if asked_at.is_some_and(|asked_at| asked_at > asked_before)
            || tasks.workspaces_with_work().await?.contains(&workspace.id)
        {
            return Ok(());
        }
        let asker = scheduler();
        let mut sessions_min = u64::from(after_sessions);
        if sessions < sessions_min {
            let wrote = self.writing_sessions(workspace, &asker, asked_at).await;
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
                "a dream by schedule waits: models took as much as `models.background_tokens` allows"
            );
            return Ok(());
        }
        let gates = DreamPreconditions { requested_before: asked_before, sessions_min };
        let task = self.submit_if(workspace, CuratorRequest::Dream, asker, Some(gates)).await?;
        tracing::info!(task = %task.id, "dreams by schedule");
        Ok(())
    }

    /// Counts the conversations that history names of those that changed memories of a workspace since:
    /// agents that speak MCP are registered nowhere else.
    async fn writing_sessions(
        &self,
        workspace: &Workspace,
        asker: &Requester,
        since: Option<Timestamp>,
    ) -> u64 {
        let memories = self.0.memories(workspace, &CuratorRequest::Dream, asker);
        let query = ChangesQuery { since, max: DREAM_CHANGES_MAX, ..ChangesQuery::default() };
        let changes = match memories.recorded_changes(&query).await {
            Ok(changes) => changes,
            Err(error) => {
                tracing::warn!(error = %error_chain(&error), "nobody can say who wrote memories");
                return 0;
            }
        };
        let sessions = changes.into_iter().filter_map(|change| {
            let said = change.provenance;
            Some((said.client, said.session?))
        });
        u64::try_from(sessions.collect::<BTreeSet<_>>().len()).expect("a count fits into 64 bits")
    }
}
