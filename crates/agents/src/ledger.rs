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
pub struct Report {
    /// The agent, as it is called in logs and runs.
    pub agent: Option<&'static str>,
    /// The model that was asked; none, if the rules did it.
    pub model: Option<String>,
    /// Replies of the model.
    pub turns: u32,
    /// Calls of tools that were carried out, or refused by them.
    pub calls: u32,
    /// Calls that were refused.
    pub refused: u32,
    /// What the replies cost.
    pub usage: TokenUsage,
    /// Why the rules did it although a model was to.
    pub fallback: Option<String>,
    /// Why the model's work was not taken.
    pub failed: Option<String>,
}

impl Report {
    /// Returns the agent of this name.
    pub fn agent(name: &str) -> Option<&'static str> {
        [REMEMBER_AGENT, FORGET_AGENT, DREAM_AGENT, REVIEW_AGENT]
            .into_iter()
            .find(|agent| *agent == name)
    }

    /// Returns what both came to, of which the other was noted later.
    #[must_use]
    pub fn and_then(&self, later: &Self) -> Self {
        let mut usage = self.usage;
        usage.add(&later.usage);
        Self {
            agent: later.agent.or(self.agent),
            model: later.model.clone().or_else(|| self.model.clone()),
            turns: self.turns.saturating_add(later.turns),
            calls: self.calls.saturating_add(later.calls),
            refused: self.refused.saturating_add(later.refused),
            usage,
            // Of the latest attempt alone.
            fallback: later.fallback.clone(),
            failed: later.failed.clone(),
        }
    }
}

/// Where a piece of work is noted.
#[derive(Debug, Default)]
pub struct Ledger {
    report: Mutex<Report>,
    noted: Notify,
}

impl Ledger {
    /// Returns what was noted so far.
    pub fn report(&self) -> Report {
        self.lock().clone()
    }

    /// Waits until something is noted that was not waited for before. One may wait at a time.
    pub async fn noted(&self) {
        self.noted.notified().await;
    }

    /// Takes over what somebody else noted, in the place of what is here.
    pub fn replace(&self, report: Report) {
        self.note(|noted| *noted = report);
    }

    pub(crate) fn begin(&self, agent: &'static str, model: &str) {
        self.note(|report| {
            report.agent = Some(agent);
            report.model = Some(model.to_owned());
            // Of an earlier attempt.
            report.fallback = None;
            report.failed = None;
        });
    }

    pub(crate) fn replied(&self, usage: &TokenUsage) {
        self.note(|report| {
            report.turns += 1;
            report.usage.add(usage);
        });
    }

    pub(crate) fn called(&self) {
        self.note(|report| report.calls += 1);
    }

    pub(crate) fn refused(&self) {
        self.note(|report| report.refused += 1);
    }

    pub(crate) fn failed(&self, why: String) {
        self.note(|report| report.failed = Some(why));
    }

    pub(crate) fn fell_back(&self, why: String) {
        self.note(|report| report.fallback = Some(why));
    }

    /// Changes what is noted, and then wakes whoever waits for that.
    fn note(&self, change: impl FnOnce(&mut Report)) {
        change(&mut self.lock());
        self.noted.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Report> {
        // What is noted is whole at every moment.
        self.report.lock()
    }
}
