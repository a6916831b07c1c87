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

use super::Recaller;
use super::corpus::{Followed, Held, Read, blocking, selected, title};
use super::meaning::Alike;
use crate::select::{Selected, Selecting, Shown};

/// Characters of a memory's type that a model is shown.
const KIND_CHARS_MAX: usize = 40;

/// What is recalled without a model, and what a model may choose from.
#[derive(Debug, Default)]
pub(crate) struct Shortlist {
    /// What the ranker decides.
    pub(crate) found: Vec<Selected>,
    /// What may be sent, the ranker's own first.
    pub(crate) candidates: Vec<Candidate>,
}

/// A memory that a model may choose.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) selected: Selected,
    /// What the model is shown of it.
    pub(crate) shown: RerankCandidate,
}

impl Recaller {
    /// Tells whether a model would have more than one memory to choose from, as far as that is known here and now.
    pub(crate) fn has_choice(&self, asked: &Selecting) -> bool {
        let followed = self.corpus(&asked.memories);
        let Some(held) = followed.held.try_read() else { return true };
        held.shortlist(&asked.prompt, None, &asked.except).len() > 1
    }

    /// Returns what fits a prompt, and what a model may choose from instead.
    pub(crate) async fn shortlist(
        &self,
        asked: &Selecting,
        stop: &CancellationToken,
    ) -> Result<Shortlist, StoreError> {
        if !asked.memories.features().has(Feature::Recall) {
            return Ok(Shortlist::default());
        }
        let followed = self.corpus(&asked.memories);
        self.update(&followed, &asked.memories).await?;
        if stop.is_cancelled() {
            return Ok(Shortlist::default());
        }
        let alike = self.alike(&followed, &asked.prompt).await;
        let found = followed.found_unasked(asked, alike.as_ref()).await;
        let hits = followed.listed(asked, alike.as_ref()).await;
        let candidates = screened(hits, &found, self.screen.clone()).await;
        Ok(Shortlist { found, candidates })
    }

    /// Leaves out what was changed, removed or is no longer shown unasked since it was found.
    pub(crate) async fn retain_current(
        &self,
        asked: &Selecting,
        found: &mut Vec<Selected>,
    ) -> Result<(), StoreError> {
        let followed = self.corpus(&asked.memories);
        self.update(&followed, &asked.memories).await?;
        let held = followed.read();
        found.retain(|found| {
            let read = held.memories.get(&found.path);
            read.is_some_and(|read| read.revision == found.revision)
                && !held.is_unasked_silent(&found.path)
        });
        Ok(())
    }
}

impl Followed {
    /// Returns what fits, of what may be shown to somebody who did not ask and was not shown it yet.
    pub(super) async fn found_unasked(
        &self,
        asked: &Selecting,
        alike: Option<&Alike<'_>>,
    ) -> Vec<Selected> {
        let ranking = self.rank_unasked(asked, |held| Some(alike?.among(held)));
        self.first(&asked.memories, &ranking).await
    }

    /// Returns the shortlist with the texts of its memories. Texts that changed meanwhile are left out.
    async fn listed(&self, asked: &Selecting, alike: Option<&Alike<'_>>) -> Vec<(MemoryHit, Read)> {
        let list = || {
            let held = self.read();
            let likeness = alike.map(|alike| alike.among(&held));
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

impl Held {
    /// Returns the memories that come nearest to a prompt, whether or not one fits, and that a model may see.
    fn shortlist(
        &self,
        prompt: &str,
        likeness: Option<&recall::DenseScores>,
        except: &Shown,
    ) -> Vec<(MemoryHit, &Read)> {
        // Twice as many, since those that were shown make room.
        let limit = 2 * RERANK_CANDIDATES_MAX;
        let options = RankOptions { limit, abstain: false, ..RankOptions::default() };
        let mut found = self.find_with(prompt, likeness, &options);
        found.retain(|(hit, read)| {
            !self.unreviewed.contains_key(&hit.path) && !except.has(&hit.path, &read.revision)
        });
        found
    }
}

/// Returns what of it may be sent, those that were found first.
async fn screened(
    hits: Vec<(MemoryHit, Read)>,
    found: &[Selected],
    screen: Screen,
) -> Vec<Candidate> {
    let first: HashSet<(MemoryPath, Revision)> =
        found.iter().map(|found| (found.path.clone(), found.revision)).collect();
    // Long memories take a processor for a while.
    let candidates = blocking(move || {
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
            let shown = shown(&hit, text);
            let candidate = Candidate { selected: selected(hit, &read, text, None), shown };
            if is_first { of_ranker.push(candidate) } else { others.push(candidate) }
        }
        of_ranker.extend(others);
        of_ranker
    });
    candidates.await.unwrap_or_default()
}

/// Returns what a model is shown of a memory.
fn shown(hit: &MemoryHit, text: &str) -> RerankCandidate {
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
