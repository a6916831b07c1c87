//! What models do for tasks: noted in the state, counted for this process, and bounded for work that nobody asked for.

use std::collections::BTreeMap;

use agents::{Ledger, Report};
use memory::clock::Timestamp;
use memory::limits::BACKGROUND_WINDOW;
use state::StateError;

use super::schedule::is_scheduled;
use super::work::Ran;
use super::{Lanes, Shared, lock};
use crate::models::{ModelWork, Occasion};
use crate::review::is_review;
use crate::runner::chain;
use crate::task::{Asker, TaskErrorCode, TaskId, TaskKind};

/// How often models did something in this process, and what that took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Pieces of work.
    pub works: u64,
    /// Tokens read, those from a cache among them.
    pub tokens_in: u64,
    /// Tokens that the provider had in a cache.
    pub tokens_cached: u64,
    /// Tokens written.
    pub tokens_out: u64,
    /// Calls that were refused.
    pub refused: u64,
}

impl Spent {
    /// Counts a piece of work.
    pub(crate) fn add(&mut self, report: &Report) {
        self.works += 1;
        self.tokens_in += report.usage.tokens_in;
        self.tokens_cached += report.usage.tokens_cached;
        self.tokens_out += report.usage.tokens_out;
        self.refused += u64::from(report.refused);
    }
}

/// What is counted as one: the kind of task, the model and how it ended.
pub(super) type SpentBy = BTreeMap<(TaskKind, String, &'static str), Spent>;

impl Lanes {
    /// Returns what models did in this process so far, by the kind of task, the model and how it ended.
    pub fn spent(&self) -> Vec<((TaskKind, String, &'static str), Spent)> {
        lock(&self.0.spent).iter().map(|(by, spent)| (by.clone(), *spent)).collect()
    }
}

impl Shared {
    /// Notes what a model did, if one was asked. That it cannot be noted fails no task.
    pub(super) async fn book(
        &self,
        ledger: &Ledger,
        (workspace, task, asker): (&str, &TaskId, &Asker),
        began: Timestamp,
        ran: &Ran,
    ) {
        let report = ledger.report();
        let Some(model) = report.model.clone() else { return };
        let ended = match ran {
            Ran::Done(..) if report.fallback.is_some() => "fallback",
            Ran::Done(..) => "completed",
            Ran::Failed(error) if error.code == TaskErrorCode::Timeout => "timeout",
            Ran::Failed(_) => "failed",
            Ran::Stopped => "cancelled",
        };
        self.count(task.kind(), &model, ended, &report);
        let occasion = Occasion {
            workspace,
            task: Some(task.to_string()),
            began_at: began,
            ended_at: self.parts.clock.now(),
            ended,
            is_background: is_scheduled(asker) || is_review(asker),
        };
        let Some(work) = ModelWork::of(report, &occasion) else { return };
        if let Err(error) = self.parts.tasks.add_model_work(work.row()).await {
            tracing::warn!(%task, error = %chain(&error), "what a model did is not noted");
        }
    }

    fn count(&self, kind: TaskKind, model: &str, ended: &'static str, report: &Report) {
        let mut all = lock(&self.spent);
        all.entry((kind, model.to_owned(), ended)).or_default().add(report);
    }

    /// Returns the tokens that work took lately which nobody asked for, if they are as many as a person allows.
    pub(super) async fn over_budget(&self) -> Result<Option<u64>, StateError> {
        let max = self.settings.background_tokens_max;
        let since = self.parts.clock.now().checked_sub(BACKGROUND_WINDOW).unwrap_or(Timestamp::MIN);
        let tokens = self.parts.tasks.background_tokens(since).await?;
        Ok((tokens >= max).then_some(tokens))
    }
}
