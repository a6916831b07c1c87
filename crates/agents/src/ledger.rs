//! What a piece of work took, noted while it goes on: whoever stops it knows it too.

use model::TokenUsage;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// The agents, as they are called in logs and runs.
pub(crate) const REMEMBER_AGENT: &str = "managed-auto-memory-remember";
pub(crate) const FORGET_AGENT: &str = "managed-auto-memory-forget";
pub(crate) const DREAM_AGENT: &str = "managed-auto-memory-dream";
pub(crate) const REVIEW_AGENT: &str = "managed-auto-memory-review";

/// What a piece of work took so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunReport {
    /// The agent, as it is called in logs and runs.
    pub agent: Option<&'static str>,
    /// The model that was asked; none, if the rules did it.
    pub model: Option<String>,
    /// Replies of the model.
    pub turns: u32,
    /// Calls of tools that were carried out, or refused by them.
    pub calls: u32,
    /// Calls that were refused.
    pub refused_calls: u32,
    /// What the replies cost.
    pub usage: TokenUsage,
    /// Why the rules did it although a model was to.
    pub fallback: Option<String>,
    /// Why the model's work was not taken.
    pub failure: Option<String>,
}

impl RunReport {
    /// Returns the agent of this name.
    pub fn agent(name: &str) -> Option<&'static str> {
        [REMEMBER_AGENT, FORGET_AGENT, DREAM_AGENT, REVIEW_AGENT]
            .into_iter()
            .find(|agent| *agent == name)
    }

    /// Returns what both came to, of which the other was noted later.
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
            // Of the latest attempt alone.
            fallback: later.fallback.clone(),
            failure: later.failure.clone(),
        }
    }
}

/// Where a piece of work is noted.
#[derive(Debug, Default)]
pub struct Ledger {
    report: Mutex<RunReport>,
    changed: Notify,
}

impl Ledger {
    /// Returns what was noted so far.
    pub fn report(&self) -> RunReport {
        self.lock().clone()
    }

    /// Waits until something is noted that was not waited for before. One may wait at a time.
    pub async fn wait_for_change(&self) {
        self.changed.notified().await;
    }

    /// Takes over what somebody else noted, in the place of what is here.
    pub fn replace(&self, report: RunReport) {
        self.update(|noted| *noted = report);
    }

    pub(crate) fn begin(&self, agent: &'static str, model: &str) {
        self.update(|report| {
            report.agent = Some(agent);
            report.model = Some(model.to_owned());
            // Of an earlier attempt.
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

    /// Changes what is noted, and then wakes whoever waits for that.
    fn update(&self, change: impl FnOnce(&mut RunReport)) {
        change(&mut self.lock());
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, RunReport> {
        // What is noted is whole at every moment.
        self.report.lock()
    }
}
