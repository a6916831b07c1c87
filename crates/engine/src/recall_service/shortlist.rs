//! The shortlist of a recall: the candidates that a model may choose from.
//!
//! It is longer than what is shown: the best memories, whether or not they reach the threshold. It
//! excludes memories that a model must not see unasked or that must not leave this machine:
//! unreviewed ones, and those with any screening finding.

use std::collections::HashSet;

use agents::RerankCandidate;
use memory::document;
use memory::document::Revision;
use memory::feature::Feature;
use memory::limits::RERANK_CANDIDATES_MAX;
use memory::path::MemoryPath;
use memory::screen::{Screen, TextAuthor};
use recall::{MemoryHit, RankOptions, Threshold};
use store::StoreError;
use tokio_util::sync::CancellationToken;

use super::RecallService;
use super::corpus::{CachedMemory, CorpusState, LiveCorpus, run_blocking};
use super::embeddings::QueryVector;
use super::retrieved::title;
use crate::retriever::{RecallOrigin, RecallQuery, ResidentEntries, RetrievedMemory};

/// Maximum length in characters of a memory's type as shown to a model.
const KIND_CHARS_MAX: usize = 40;

/// The result of recall without a model, and the candidates that a model may choose from.
#[derive(Debug, Default)]
pub(crate) struct Shortlist {
    /// The memories chosen by the ranker.
    pub(crate) ranked: Vec<RetrievedMemory>,
    /// The candidates that may be sent, the ranker's choices first.
    pub(crate) candidates: Vec<ShortlistEntry>,
}

/// A memory that a model may choose.
#[derive(Debug)]
pub(crate) struct ShortlistEntry {
    pub(crate) memory: RetrievedMemory,
    /// The part of it that the model is shown.
    pub(crate) candidate: RerankCandidate,
}

impl RecallService {
    /// Checks whether a model would have more than one candidate, as far as the corpus in memory
    /// tells.
    pub(crate) fn has_choice(&self, query: &RecallQuery) -> bool {
        let corpus = self.live_corpus(&query.memories);
        let Some(state) = corpus.state.try_read() else { return true };
        state.shortlist(&query.prompt, None, &query.except).len() > 1
    }

    /// Returns the memories that fit a prompt, and the candidates that a model may choose from
    /// instead.
    pub(crate) async fn shortlist(
        &self,
        query: &RecallQuery,
        stop: &CancellationToken,
    ) -> Result<Shortlist, StoreError> {
        if !query.memories.features().has(Feature::Recall) {
            return Ok(Shortlist::default());
        }
        let corpus = self.live_corpus(&query.memories);
        self.update(&corpus, &query.memories).await?;
        if stop.is_cancelled() {
            return Ok(Shortlist::default());
        }
        let query_vector = self.query_vector(&corpus, &query.prompt).await;
        let ranked = corpus.retrieve_unrequested(query, query_vector.as_ref()).await;
        let hits = corpus.shortlist_with_texts(query, query_vector.as_ref()).await;
        let candidates = screen_candidates(hits, &ranked, self.screen.clone()).await;
        Ok(Shortlist { ranked, candidates })
    }

    /// Removes memories that were changed or removed since they were found, or may no longer be
    /// shown unasked.
    pub(crate) async fn retain_current(
        &self,
        query: &RecallQuery,
        memories: &mut Vec<RetrievedMemory>,
    ) -> Result<(), StoreError> {
        let corpus = self.live_corpus(&query.memories);
        self.update(&corpus, &query.memories).await?;
        let state = corpus.read();
        memories.retain(|memories| {
            let read = state.memories.get(&memories.path);
            read.is_some_and(|read| read.revision == memories.revision)
                && !state.is_hidden_unrequested(&memories.path)
        });
        Ok(())
    }
}

impl LiveCorpus {
    /// Returns the memories that clearly fit a prompt, except those that must not be shown unasked,
    /// and without the entries that the conversation has.
    pub(super) async fn retrieve_unrequested(
        &self,
        query: &RecallQuery,
        query_vector: Option<&QueryVector<'_>>,
    ) -> Vec<RetrievedMemory> {
        let ranking = self.rank(
            &query.prompt,
            |state| query_vector?.dense_scores(state),
            RecallOrigin::Unrequested,
            None,
        );
        self.top(&query.memories, &ranking, &query.except).await
    }

    /// Returns the shortlist with the texts of its memories. Memories that changed in the meantime
    /// are left out.
    async fn shortlist_with_texts(
        &self,
        query: &RecallQuery,
        query_vector: Option<&QueryVector<'_>>,
    ) -> Vec<(MemoryHit, RetrievedMemory)> {
        let list = || {
            let state = self.read();
            let dense_scores =
                query_vector.and_then(|query_vector| query_vector.dense_scores(&state));
            let listed = state.shortlist(&query.prompt, dense_scores.as_ref(), &query.except);
            listed.into_iter().map(|(hit, read)| (hit, read.clone())).collect::<Vec<_>>()
        };
        let mut listed = list();
        let missing = listed.iter().filter(|(_, read)| read.text.get().is_none());
        let missing: Vec<MemoryPath> = missing.map(|(hit, _)| hit.path.clone()).collect();
        if !missing.is_empty() {
            self.read_texts(&query.memories, &missing).await;
            listed = list();
        }
        let paths: Vec<MemoryPath> = listed.iter().map(|(hit, _)| hit.path.clone()).collect();
        self.look_up_last_writes(&query.memories, Some(&paths)).await;
        let state = self.read();
        let retrieved = listed.into_iter().filter_map(|(hit, read)| {
            let text = read.text.get()?;
            Some((hit.clone(), state.retrieved(hit, &read, text)))
        });
        retrieved.collect()
    }
}

impl CorpusState {
    /// Returns the best memories for a prompt that a model may see, whether or not they reach the
    /// threshold. Those of which the conversation has all entries that fit are left out.
    fn shortlist(
        &self,
        prompt: &str,
        dense_scores: Option<&recall::DenseScores>,
        except: &ResidentEntries,
    ) -> Vec<(MemoryHit, &CachedMemory)> {
        // Twice the maximum, because memories shown before are removed.
        let limit = 2 * RERANK_CANDIDATES_MAX;
        let options = RankOptions { limit, threshold: Threshold::None, ..RankOptions::default() };
        let is_candidate = |path: &MemoryPath| !self.unreviewed.contains_key(path);
        let mut ranked = self.find(prompt, dense_scores, &options, is_candidate);
        ranked.retain(|(hit, read)| {
            let ranges: Vec<_> = hit.entries.iter().map(|entry| entry.range.clone()).collect();
            !read.text.get().is_some_and(|text| except.has_all(&hit.path, text, &ranges))
        });
        ranked
    }
}

/// Returns the candidates that may be sent, those chosen by the ranker first.
async fn screen_candidates(
    hits: Vec<(MemoryHit, RetrievedMemory)>,
    ranked: &[RetrievedMemory],
    screen: Screen,
) -> Vec<ShortlistEntry> {
    let ranked_keys: HashSet<(MemoryPath, Revision)> =
        ranked.iter().map(|ranked| (ranked.path.clone(), ranked.revision)).collect();
    // Screening long memories takes CPU time.
    let candidates = run_blocking(move || {
        let (mut chosen, mut others) = (Vec::new(), Vec::new());
        for (hit, memory) in hits {
            if chosen.len() + others.len() == RERANK_CANDIDATES_MAX {
                break;
            }
            let text = memory.text.full_text();
            if !screen.check(text, TextAuthor::Agent).is_empty() {
                continue;
            }
            let candidate = rerank_candidate(&hit, text);
            let is_chosen = ranked_keys.contains(&(memory.path.clone(), memory.revision));
            let entry = ShortlistEntry { memory, candidate };
            if is_chosen { chosen.push(entry) } else { others.push(entry) }
        }
        chosen.extend(others);
        chosen
    });
    candidates.await.unwrap_or_default()
}

/// Returns the part of a memory that a model is shown.
fn rerank_candidate(hit: &MemoryHit, text: &str) -> RerankCandidate {
    let head = document::parse_header(text.as_bytes());
    let scope = hit.path.mount().map(|mount| mount.to_string());
    let scope = scope.map(|scope| scope.trim_start_matches("/memories/").to_owned());
    let kind = head.kind.map(|kind| kind.chars().take(KIND_CHARS_MAX).collect());
    let kind = scope.into_iter().chain(kind).collect::<Vec<String>>().join(", ");
    let mut title = head.name.unwrap_or_else(|| title(&hit.path, text));
    if !head.description.is_empty() && head.description != title {
        title = format!("{title}: {}", head.description);
    }
    let entries = hit.entries.iter().filter_map(|entry| text.get(entry.range.clone()));
    let entries: Vec<&str> = entries.map(str::trim).collect();
    RerankCandidate { kind, title, text: entries.join("\n") }
}
