//! What a model may choose from when it chooses what is recalled.
//!
//! A shortlist has more than is shown: the best memories whether or not they fit well enough. Nothing is on it that a
//! model must not see unasked or that would have to leave this machine against the rules: what nobody here reviewed, and
//! memories in which screening sees anything.

use std::collections::HashSet;

use agents::RerankCandidate;
use memory::document;
use memory::document::Revision;
use memory::feature::Feature;
use memory::limits::RERANK_CANDIDATES_MAX;
use memory::path::MemoryPath;
use memory::screen::{Screen, TextAuthor};
use recall::{MemoryHit, RankOptions};
use store::StoreError;
use tokio_util::sync::CancellationToken;

use super::RecallService;
use super::corpus::{CachedMemory, CorpusState, LiveCorpus, retrieved_memory, run_blocking, title};
use super::embeddings::QueryVector;
use crate::retriever::{RecallQuery, RetrievedMemory, ShownSet};

/// Characters of a memory's type that a model is shown.
const KIND_CHARS_MAX: usize = 40;

/// What is recalled without a model, and what a model may choose from.
#[derive(Debug, Default)]
pub(crate) struct Shortlist {
    /// What the ranker decides.
    pub(crate) ranked: Vec<RetrievedMemory>,
    /// What may be sent, the ranker's own first.
    pub(crate) candidates: Vec<ShortlistEntry>,
}

/// A memory that a model may choose.
#[derive(Debug)]
pub(crate) struct ShortlistEntry {
    pub(crate) memory: RetrievedMemory,
    /// What the model is shown of it.
    pub(crate) candidate: RerankCandidate,
}

impl RecallService {
    /// Tells whether a model would have more than one memory to choose from, as far as that is known here and now.
    pub(crate) fn has_choice(&self, asked: &RecallQuery) -> bool {
        let followed = self.live_corpus(&asked.memories);
        let Some(held) = followed.state.try_read() else { return true };
        held.shortlist(&asked.prompt, None, &asked.except).len() > 1
    }

    /// Returns what fits a prompt, and what a model may choose from instead.
    pub(crate) async fn shortlist(
        &self,
        asked: &RecallQuery,
        stop: &CancellationToken,
    ) -> Result<Shortlist, StoreError> {
        if !asked.memories.features().has(Feature::Recall) {
            return Ok(Shortlist::default());
        }
        let followed = self.live_corpus(&asked.memories);
        self.update(&followed, &asked.memories).await?;
        if stop.is_cancelled() {
            return Ok(Shortlist::default());
        }
        let alike = self.query_vector(&followed, &asked.prompt).await;
        let found = followed.retrieve_unrequested(asked, alike.as_ref()).await;
        let hits = followed.shortlist_with_texts(asked, alike.as_ref()).await;
        let candidates = screen_candidates(hits, &found, self.screen.clone()).await;
        Ok(Shortlist { ranked: found, candidates })
    }

    /// Leaves out what was changed, removed or is no longer shown unasked since it was found.
    pub(crate) async fn retain_current(
        &self,
        asked: &RecallQuery,
        found: &mut Vec<RetrievedMemory>,
    ) -> Result<(), StoreError> {
        let followed = self.live_corpus(&asked.memories);
        self.update(&followed, &asked.memories).await?;
        let held = followed.read();
        found.retain(|found| {
            let read = held.memories.get(&found.path);
            read.is_some_and(|read| read.revision == found.revision)
                && !held.is_hidden_unrequested(&found.path)
        });
        Ok(())
    }
}

impl LiveCorpus {
    /// Returns what fits, of what may be shown to somebody who did not ask and was not shown it yet.
    pub(super) async fn retrieve_unrequested(
        &self,
        asked: &RecallQuery,
        alike: Option<&QueryVector<'_>>,
    ) -> Vec<RetrievedMemory> {
        let ranking = self.rank_unrequested(asked, |held| Some(alike?.dense_scores(held)));
        self.top(&asked.memories, &ranking).await
    }

    /// Returns the shortlist with the texts of its memories. Texts that changed meanwhile are left out.
    async fn shortlist_with_texts(
        &self,
        asked: &RecallQuery,
        alike: Option<&QueryVector<'_>>,
    ) -> Vec<(MemoryHit, CachedMemory)> {
        let list = || {
            let held = self.read();
            let likeness = alike.map(|alike| alike.dense_scores(&held));
            let listed = held.shortlist(&asked.prompt, likeness.as_ref(), &asked.except);
            listed.into_iter().map(|(hit, read)| (hit, read.clone())).collect::<Vec<_>>()
        };
        let listed = list();
        let without = listed.iter().filter(|(_, read)| read.text.get().is_none());
        let without: Vec<MemoryPath> = without.map(|(hit, _)| hit.path.clone()).collect();
        if without.is_empty() {
            return listed;
        }
        self.read_texts(&asked.memories, &without).await;
        list()
    }
}

impl CorpusState {
    /// Returns the memories that come nearest to a prompt, whether or not one fits, and that a model may see.
    fn shortlist(
        &self,
        prompt: &str,
        likeness: Option<&recall::DenseScores>,
        except: &ShownSet,
    ) -> Vec<(MemoryHit, &CachedMemory)> {
        // Twice as many, since those that were shown make room.
        let limit = 2 * RERANK_CANDIDATES_MAX;
        let options = RankOptions { limit, abstain: false, ..RankOptions::default() };
        let mut found = self.find(prompt, likeness, &options);
        found.retain(|(hit, read)| {
            !self.unreviewed.contains_key(&hit.path) && !except.contains(&hit.path, &read.revision)
        });
        found
    }
}

/// Returns what of it may be sent, those that were found first.
async fn screen_candidates(
    hits: Vec<(MemoryHit, CachedMemory)>,
    found: &[RetrievedMemory],
    screen: Screen,
) -> Vec<ShortlistEntry> {
    let first: HashSet<(MemoryPath, Revision)> =
        found.iter().map(|found| (found.path.clone(), found.revision)).collect();
    // Long memories take a processor for a while.
    let candidates = run_blocking(move || {
        let (mut of_ranker, mut others) = (Vec::new(), Vec::new());
        for (hit, read) in hits {
            if of_ranker.len() + others.len() == RERANK_CANDIDATES_MAX {
                break;
            }
            let Some(text) = read.text.get() else { continue };
            if !screen.check(text, TextAuthor::Agent).is_empty() {
                continue;
            }
            let is_first = first.contains(&(hit.path.clone(), read.revision));
            let shown = rerank_candidate(&hit, text);
            let candidate = ShortlistEntry {
                memory: retrieved_memory(hit, &read, text, None),
                candidate: shown,
            };
            if is_first { of_ranker.push(candidate) } else { others.push(candidate) }
        }
        of_ranker.extend(others);
        of_ranker
    });
    candidates.await.unwrap_or_default()
}

/// Returns what a model is shown of a memory.
fn rerank_candidate(hit: &MemoryHit, text: &str) -> RerankCandidate {
    let head = document::parse_header(text.as_bytes());
    let scope = hit.path.mount().map(|mount| mount.to_string());
    let scope = scope.map(|scope| scope.trim_start_matches("/memories/").to_owned());
    let kind = head.kind.map(|kind| kind.chars().take(KIND_CHARS_MAX).collect());
    let kind = scope.into_iter().chain(kind).collect::<Vec<String>>().join(", ");
    let mut title = title(&hit.path, text);
    if !head.description.is_empty() && head.description != title {
        title = format!("{title}: {}", head.description);
    }
    let entries = hit.entries.iter().filter_map(|entry| text.get(entry.range.clone()));
    let entries: Vec<&str> = entries.map(str::trim).collect();
    RerankCandidate { kind, title, text: entries.join("\n") }
}
