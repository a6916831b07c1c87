//! Recall with a model that chooses among the candidates of the ranker.
//!
//! The model is called in the background with its own deadline. It can only choose: its answer is a
//! list of candidate numbers. After any error, the ranker's choice is shown. A model that failed is
//! not called for a while, so that prompts are answered at once again.

use std::collections::BTreeMap;
use std::sync::Arc;

use agents::{AgentError, Ledger, RerankCandidate, RunReport, rerank};
use async_trait::async_trait;
use memory::clock::{Clock, Timestamp};
use memory::feature::Feature;
use memory::limits::{RECALLED_UNREQUESTED_MAX, RERANK_WAIT};
use memory::screen::{Family, Screen, TextAuthor};
use model::Chat;
use parking_lot::Mutex;
use state::TaskStore;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::lane::ModelSpending;
use crate::models::{ModelRunContext, ModelWork};
use crate::recall_service::{RecallService, Shortlist, ShortlistEntry, merge_duplicates};
use crate::retriever::{RecallQuery, RetrieveError, RetrievedMemory, Retriever};
use crate::runner::error_chain;

/// A retriever that recalls like [`RecallService`] and has a model choose among the candidates.
#[derive(Clone, Debug)]
pub struct Reranker(Arc<RerankerInner>);

#[derive(Debug)]
struct RerankerInner {
    recaller: Arc<RecallService>,
    chat: Chat,
    screen: Screen,
    tasks: Arc<dyn TaskStore>,
    clock: Arc<dyn Clock>,
    backoff: Mutex<Backoff>,
    /// Totals in this process, by outcome.
    spending: Mutex<BTreeMap<&'static str, ModelSpending>>,
}

impl Reranker {
    /// Returns a reranker of the results of `recaller`. The model's work is recorded in `tasks`.
    pub(crate) fn new(
        (recaller, screen): (Arc<RecallService>, Screen),
        chat: Chat,
        tasks: Arc<dyn TaskStore>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let (backoff, spending) = (Mutex::default(), Mutex::default());
        Self(Arc::new(RerankerInner { recaller, chat, screen, tasks, clock, backoff, spending }))
    }

    /// Returns the totals of the model in this process, by its name and the outcome.
    pub fn spending(&self) -> Vec<((String, &'static str), ModelSpending)> {
        let name = self.0.chat.name();
        self.0
            .spending
            .lock()
            .iter()
            .map(|(ended, spent)| ((name.to_owned(), *ended), *spent))
            .collect()
    }

    /// Asks the model which candidates fit; `None` after an error. Runs in a task of its own that
    /// ends with `stop`, so that the model's work is recorded even if the caller no longer waits.
    async fn ask_model(
        &self,
        query: &RecallQuery,
        candidates: &[ShortlistEntry],
        stop: CancellationToken,
    ) -> Option<Vec<usize>> {
        let shown: Vec<RerankCandidate> =
            candidates.iter().map(|candidate| candidate.candidate.clone()).collect();
        let (shared, workspace) = (Arc::clone(&self.0), Arc::clone(&query.workspace));
        let prompt = Arc::clone(&query.prompt);
        let (sender, receiver) = oneshot::channel();
        tokio::spawn(async move {
            let (ledger, began_at) = (Ledger::default(), shared.clock.now());
            let request = rerank(&shared.chat, &prompt, &shown, RERANK_WAIT, &ledger);
            let chosen = stop.run_until_cancelled(request).await;
            let outcome = match &chosen {
                None => "cancelled",
                Some(Ok(_)) => "completed",
                Some(Err(_)) => "fallback",
            };
            let chosen = chosen.and_then(|chosen| shared.record_outcome(chosen));
            // The caller may have gone.
            drop(sender.send(chosen));
            shared.record_work(&workspace, ledger.report(), began_at, outcome).await;
        });
        receiver.await.ok()?
    }
}

impl RerankerInner {
    /// Checks whether the model may be called for a prompt. A prompt with a secret is not sent.
    fn may_ask(&self, query: &RecallQuery) -> bool {
        let features = query.memories.features();
        let has_secret = || {
            let findings = self.screen.check(&query.prompt, TextAuthor::Agent);
            findings.iter().any(|finding| finding.family == Family::Secrets)
        };
        features.has(Feature::Models)
            && features.has(Feature::Recall)
            && !query.prompt.trim().is_empty()
            && self.backoff.lock().blocked_until().is_none()
            && !has_secret()
    }

    fn record_outcome(&self, chosen: Result<Vec<usize>, AgentError>) -> Option<Vec<usize>> {
        match chosen {
            Ok(chosen) => {
                self.backoff.lock().record_success();
                Some(chosen)
            }
            Err(error) => {
                let backoff = self.backoff.lock().record_failure();
                let why = error.redacted_message();
                tracing::debug!(
                    model = self.chat.name(),
                    why,
                    ?backoff,
                    "the model failed; recall uses the ranker's choice"
                );
                None
            }
        }
    }

    /// Records the model's work. An error while recording does not affect recall.
    async fn record_work(
        &self,
        workspace: &str,
        report: RunReport,
        began_at: Timestamp,
        outcome: &'static str,
    ) {
        self.spending.lock().entry(outcome).or_default().add(&report);
        let run = ModelRunContext {
            workspace,
            task: None,
            began_at,
            ended_at: self.clock.now(),
            outcome,
            // The user wrote the prompt and configured this model, so the work counts as requested.
            is_background: false,
        };
        let Some(work) = ModelWork::from_report(report, &run) else { return };
        if let Err(error) = self.tasks.add_model_work(work.to_row()).await {
            let error = error_chain(&error);
            tracing::warn!(error, "error while recording the work of a model for recall");
        }
    }

    /// Returns the model's choice, then memories of the ranker that the model was not shown.
    fn apply_choice(&self, chosen: &[usize], shortlist: Shortlist) -> Vec<RetrievedMemory> {
        let Shortlist { ranked, candidates } = shortlist;
        let was_listed = |memory: &RetrievedMemory| {
            candidates.iter().any(|candidate| candidate.memory.path == memory.path)
        };
        let unlisted: Vec<RetrievedMemory> =
            ranked.into_iter().filter(|memory| !was_listed(memory)).collect();
        let chosen = chosen.iter().filter_map(|index| candidates.get(*index)).map(|candidate| {
            let mut selected = candidate.memory.clone();
            let reasons = std::mem::take(&mut selected.why);
            selected.why = [format!("chosen by {}", self.chat.name()), reasons].join("; ");
            selected
        });
        chosen.chain(unlisted).collect()
    }
}

#[async_trait]
impl Retriever for Reranker {
    fn try_retrieve(&self, query: &RecallQuery) -> Option<Vec<RetrievedMemory>> {
        let found = self.0.recaller.try_retrieve(query)?;
        let needs_model = self.0.recaller.has_choice(query) && self.0.may_ask(query);
        if needs_model { None } else { Some(found) }
    }

    async fn retrieve(
        &self,
        query: RecallQuery,
        stop: CancellationToken,
    ) -> Result<Vec<RetrievedMemory>, RetrieveError> {
        let shared = &self.0;
        let shortlist = shared.recaller.shortlist(&query, &stop).await?;
        if shortlist.candidates.len() < 2 || stop.is_cancelled() || !shared.may_ask(&query) {
            return Ok(shortlist.ranked);
        }
        let chosen = self.ask_model(&query, &shortlist.candidates, stop).await;
        let mut memories = match chosen {
            Some(chosen) => shared.apply_choice(&chosen, shortlist),
            None => shortlist.ranked,
        };
        memories.truncate(RECALLED_UNREQUESTED_MAX);
        // Seconds may have passed since recall, and memories may have changed.
        shared.recaller.retain_current(&query, &mut memories).await?;
        Ok(merge_duplicates(memories))
    }
}
