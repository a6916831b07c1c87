//! Recall with a model that chooses among what the ranker found.
//!
//! The model is asked beside the turn, with a deadline of its own, and can only choose: what it says is numbers of
//! candidates. Whatever goes wrong, what the ranker decided is recalled, and a model that failed is left alone for a while,
//! in which prompts are answered at once again.

use std::collections::BTreeMap;
use std::sync::Arc;

use agents::{AgentError, Ledger, RerankCandidate, RunReport, rerank};
use async_trait::async_trait;
use memory::clock::{Clock, Timestamp};
use memory::feature::Feature;
use memory::limits::RERANK_WAIT;
use memory::screen::{Family, Screen, TextAuthor};
use model::Chat;
use parking_lot::Mutex;
use state::TaskStore;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::lane::ModelSpending;
use crate::models::{ModelRunInfo, ModelWork};
use crate::recall_service::{RecallService, Shortlist, ShortlistEntry};
use crate::retriever::{RecallQuery, RetrieveError, RetrievedMemory, Retriever};
use crate::runner::error_chain;

/// Finds what fits a prompt as a [`RecallService`] does, and has a model choose among that.
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
    /// What it took in this process, by how it ended.
    spending: Mutex<BTreeMap<&'static str, ModelSpending>>,
}

impl Reranker {
    /// Returns one that has this model choose among what `recaller` finds, and notes in `tasks` what that takes.
    pub(crate) fn new(
        (recaller, screen): (Arc<RecallService>, Screen),
        chat: Chat,
        tasks: Arc<dyn TaskStore>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let (backoff, spent) = (Mutex::default(), Mutex::default());
        Self(Arc::new(RerankerInner {
            recaller,
            chat,
            screen,
            tasks,
            clock,
            backoff,
            spending: spent,
        }))
    }

    /// Returns what the model did in this process so far, by its name and how that ended.
    pub fn spending(&self) -> Vec<((String, &'static str), ModelSpending)> {
        let name = self.0.chat.name();
        self.0
            .spending
            .lock()
            .iter()
            .map(|(ended, spent)| ((name.to_owned(), *ended), *spent))
            .collect()
    }

    /// Asks the model which candidates fit; `None` if it does not say so. It is asked in a task of its own, which ends with
    /// `stop`: what was asked for is noted also when nobody wants the answer any more.
    async fn ask_model(
        &self,
        asked: &RecallQuery,
        candidates: &[ShortlistEntry],
        stop: CancellationToken,
    ) -> Option<Vec<usize>> {
        let shown: Vec<RerankCandidate> =
            candidates.iter().map(|candidate| candidate.candidate.clone()).collect();
        let (shared, workspace) = (Arc::clone(&self.0), Arc::clone(&asked.workspace));
        let prompt = Arc::clone(&asked.prompt);
        let (answer, answered) = oneshot::channel();
        tokio::spawn(async move {
            let (ledger, began) = (Ledger::default(), shared.clock.now());
            let asking = rerank(&shared.chat, &prompt, &shown, RERANK_WAIT, &ledger);
            let chosen = stop.run_until_cancelled(asking).await;
            let ended = match &chosen {
                None => "cancelled",
                Some(Ok(_)) => "completed",
                Some(Err(_)) => "fallback",
            };
            let chosen = chosen.and_then(|chosen| shared.record_outcome(chosen));
            // Whoever asked may have gone.
            drop(answer.send(chosen));
            shared.record_work(&workspace, ledger.report(), began, ended).await;
        });
        answered.await.ok()?
    }
}

impl RerankerInner {
    /// Tells whether the model may be asked about a prompt. One with a secret is not sent.
    fn may_ask(&self, asked: &RecallQuery) -> bool {
        let features = asked.memories.features();
        let has_secret = || {
            let findings = self.screen.check(&asked.prompt, TextAuthor::Agent);
            findings.iter().any(|finding| finding.family == Family::Secrets)
        };
        features.has(Feature::Models)
            && features.has(Feature::Recall)
            && !asked.prompt.trim().is_empty()
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
                let rests = self.backoff.lock().record_failure();
                let why = error.redacted_message();
                tracing::debug!(
                    model = self.chat.name(),
                    why,
                    ?rests,
                    "what the ranker decided is recalled, since the model failed"
                );
                None
            }
        }
    }

    /// Notes what the model did. That it cannot be noted keeps nothing from being recalled.
    async fn record_work(
        &self,
        workspace: &str,
        report: RunReport,
        began: Timestamp,
        ended: &'static str,
    ) {
        self.spending.lock().entry(ended).or_default().add(&report);
        let occasion = ModelRunInfo {
            workspace,
            task: None,
            began_at: began,
            ended_at: self.clock.now(),
            outcome: ended,
            // A person said something, and named the model for that.
            is_background: false,
        };
        let Some(work) = ModelWork::from_report(report, &occasion) else { return };
        if let Err(error) = self.tasks.add_model_work(work.to_row()).await {
            let error = error_chain(&error);
            tracing::warn!(error, "what a model did for recall is not noted");
        }
    }

    /// Puts what the model chose first, then what the ranker found and the model was not shown.
    fn apply_choice(&self, chosen: &[usize], shortlist: Shortlist) -> Vec<RetrievedMemory> {
        let Shortlist { ranked: found, candidates } = shortlist;
        let is_candidate = |found: &RetrievedMemory| {
            candidates.iter().any(|candidate| candidate.memory.path == found.path)
        };
        let unseen: Vec<RetrievedMemory> =
            found.into_iter().filter(|found| !is_candidate(found)).collect();
        let chosen = chosen.iter().filter_map(|at| candidates.get(*at)).map(|candidate| {
            let mut selected = candidate.memory.clone();
            let reasons = std::mem::take(&mut selected.why);
            selected.why = [format!("chosen by {}", self.chat.name()), reasons].join("; ");
            selected
        });
        chosen.chain(unseen).collect()
    }
}

#[async_trait]
impl Retriever for Reranker {
    fn try_retrieve(&self, asked: &RecallQuery) -> Option<Vec<RetrievedMemory>> {
        let found = self.0.recaller.try_retrieve(asked)?;
        let is_choice = self.0.recaller.has_choice(asked) && self.0.may_ask(asked);
        if is_choice { None } else { Some(found) }
    }

    async fn retrieve(
        &self,
        asked: RecallQuery,
        stop: CancellationToken,
    ) -> Result<Vec<RetrievedMemory>, RetrieveError> {
        let shared = &self.0;
        let shortlist = shared.recaller.shortlist(&asked, &stop).await?;
        if shortlist.candidates.len() < 2 || stop.is_cancelled() || !shared.may_ask(&asked) {
            return Ok(shortlist.ranked);
        }
        let chosen = self.ask_model(&asked, &shortlist.candidates, stop).await;
        let mut found = match chosen {
            Some(chosen) => shared.apply_choice(&chosen, shortlist),
            None => shortlist.ranked,
        };
        // Seconds may have passed.
        shared.recaller.retain_current(&asked, &mut found).await?;
        Ok(found)
    }
}
