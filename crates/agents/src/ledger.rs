//! The ledger of one task: models, turns, tool calls and tokens, recorded while it runs.
//!
//! The task writes to it; the worker reads it at any time, also after cancelling the task.

use model::TokenUsage;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// Names of the agents in logs and runs.
pub(crate) const REMEMBER_AGENT: &str = "managed-auto-memory-remember";
pub(crate) const FORGET_AGENT: &str = "managed-auto-memory-forget";
pub(crate) const DREAM_AGENT: &str = "managed-auto-memory-dream";
pub(crate) const REVIEW_AGENT: &str = "managed-auto-memory-review";

/// The effort of a task so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunReport {
    /// Name of the agent in logs and runs.
    pub agent: Option<&'static str>,
    /// Name of the model; none if the rules did the task.
    pub model: Option<String>,
    /// Number of replies of the model.
    pub turns: u32,
    /// Number of tool calls that reached a tool.
    pub calls: u32,
    /// Number of calls that were refused.
    pub refused_calls: u32,
    /// Tokens of the replies.
    pub usage: TokenUsage,
    /// Reason why the rules did the task in place of a model.
    pub fallback: Option<String>,
    /// Reason why the model's work was rejected.
    pub failure: Option<String>,
}

impl RunReport {
    /// Returns the static name of an agent.
    pub fn agent(name: &str) -> Option<&'static str> {
        [REMEMBER_AGENT, FORGET_AGENT, DREAM_AGENT, REVIEW_AGENT]
            .into_iter()
            .find(|agent| *agent == name)
    }

    /// Adds the report of a later attempt.
    #[must_use]
    pub fn merged_with(&self, later: &Self) -> Self {
        let mut usage = self.usage;
        usage.add(&later.usage);
        Self {
            agent: later.agent.or(self.agent),
            model: later.model.clone().or_else(|| self.model.clone()),
            turns: self.turns.saturating_add(later.turns),
            calls: self.calls.saturating_add(later.calls),
            refused_calls: self.refused_calls.saturating_add(later.refused_calls),
            usage,
            // Only the latest attempt counts.
            fallback: later.fallback.clone(),
            failure: later.failure.clone(),
        }
    }
}

/// Shared record of a task's effort.
#[derive(Debug, Default)]
pub struct Ledger {
    report: Mutex<RunReport>,
    changed: Notify,
}

impl Ledger {
    /// Returns the report so far.
    pub fn report(&self) -> RunReport {
        self.lock().clone()
    }

    /// Waits until something is recorded after the last wait. Only one task may wait at a time.
    pub async fn wait_for_change(&self) {
        self.changed.notified().await;
    }

    /// Replaces the report, for example with the one of a child process.
    pub fn replace(&self, report: RunReport) {
        self.update(|current| *current = report);
    }

    pub(crate) fn begin(&self, agent: &'static str, model: &str) {
        self.update(|report| {
            report.agent = Some(agent);
            report.model = Some(model.to_owned());
            // Reset what an earlier attempt left.
            report.fallback = None;
            report.failure = None;
        });
    }

    pub(crate) fn record_reply(&self, usage: &TokenUsage) {
        self.update(|report| {
            report.turns += 1;
            report.usage.add(usage);
        });
    }

    pub(crate) fn record_call(&self) {
        self.update(|report| report.calls += 1);
    }

    pub(crate) fn record_refusal(&self) {
        self.update(|report| report.refused_calls += 1);
    }

    pub(crate) fn record_failure(&self, why: String) {
        self.update(|report| report.failure = Some(why));
    }

    pub(crate) fn record_fallback(&self, why: String) {
        self.update(|report| report.fallback = Some(why));
    }

    /// Changes the report and wakes the waiter.
    fn update(&self, change: impl FnOnce(&mut RunReport)) {
        change(&mut self.lock());
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, RunReport> {
        self.report.lock()
    }
}
