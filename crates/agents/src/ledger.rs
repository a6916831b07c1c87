//! What a piece of work took, noted while it goes on: whoever stops it knows it too.

use std::sync::{Mutex, MutexGuard, PoisonError};

use model::Usage;

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
    pub usage: Usage,
    /// Why the rules did it although a model was to.
    pub fallback: Option<String>,
    /// Why the model's work was not taken.
    pub failed: Option<String>,
}

/// Where a piece of work is noted.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<Report>);

impl Ledger {
    /// Returns what was noted so far.
    pub fn report(&self) -> Report {
        self.lock().clone()
    }

    pub(crate) fn begin(&self, agent: &'static str, model: &str) {
        let mut report = self.lock();
        report.agent = Some(agent);
        report.model = Some(model.to_owned());
        // Of an earlier attempt.
        report.fallback = None;
        report.failed = None;
    }

    pub(crate) fn replied(&self, usage: &Usage) {
        let mut report = self.lock();
        report.turns += 1;
        report.usage.add(usage);
    }

    pub(crate) fn called(&self) {
        self.lock().calls += 1;
    }

    pub(crate) fn refused(&self) {
        self.lock().refused += 1;
    }

    pub(crate) fn failed(&self, why: String) {
        self.lock().failed = Some(why);
    }

    pub(crate) fn fell_back(&self, why: String) {
        self.lock().fallback = Some(why);
    }

    fn lock(&self) -> MutexGuard<'_, Report> {
        // What is noted is whole at every moment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
