//! Selects the candidate entries of a question: those that have one of its words or a similar one.
//!
//! Entries are scored by the postings of their words. The best become candidates, together with their neighbors.
//! The work is bounded, however large the corpus is: once enough postings were counted, a word that occurs nearly
//! everywhere is skipped.

use std::cell::RefCell;

use crate::corpus::{Corpus, MemoryRecord};
use crate::embedder::cosine_similarity;
use crate::features::{
    CandidateRow, CandidateRows, LANES, LaneHits, NEIGHBOR_DISTANCE_MAX, RowGroup,
};
use crate::query::PromptQuery;
use crate::terms::{Likeness, Posting, to_u32};

/// Maximum number of candidates, without their neighbors: with and without vectors.
const CANDIDATES: usize = 96;
const CANDIDATES_BY_WORDS: usize = 40;
/// Maximum number of terms that match a word by meaning; the most similar are used.
const SIMILAR_TERMS_MAX: usize = 48;
/// Maximum number of postings that are counted; rare words come first.
const POSTINGS_MAX: usize = 16_384;
/// Limits of the search for memories that are similar to the question as a whole. They bound the number of memories,
/// the corpus size above which the search is skipped, and the entries of each memory.
const SIMILAR_MEMORIES_MAX: usize = 8;
pub(crate) const SIMILARITY_CORPUS_MAX: usize = 4_096;
const SIMILAR_MEMORY_ENTRIES_MAX: usize = 16;
/// Steps that squared similarities are rounded to, so that they can be summed in any order.
const SIMILARITY_STEPS: f32 = 256.0;

/// Bits in one word of the bit set.
const BITS: usize = 64;

/// A term of the corpus that matches a word of the question.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TermMatch {
    pub(crate) term: u32,
    /// Index of the word in the question.
    pub(crate) query_term: usize,
    /// Weight as the word itself: 1 for the same word, less with typos, 0 for a similar word.
    pub(crate) exact: f32,
    /// Similarity in meaning.
    pub(crate) similarity: f32,
    /// Whether the word is probably this term, misspelled.
    pub(crate) is_typo: bool,
    /// Weight among all similar words. Rounded, so that sums do not depend on their order: the order of terms
    /// depends on which was added first.
    similarity_weight: f32,
}

impl TermMatch {
    fn new(term: u32, query_term: usize, exact: f32, similarity: f32) -> Self {
        let similarity_weight =
            (similarity * similarity * SIMILARITY_STEPS).round() / SIMILARITY_STEPS;
        Self { term, query_term, exact, similarity, is_typo: false, similarity_weight }
    }

    /// Returns the match of a term that is like the word.
    fn alike(term: u32, query_term: usize, likeness: Likeness) -> Self {
        let Likeness { factor, is_typo } = likeness;
        Self { is_typo, ..Self::new(term, query_term, factor, factor) }
    }
}

thread_local! {
    /// Buffers of the last ranking in this thread.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Collects the rows of the best entries, of the entries in `others`, and of the neighbors of both.
pub(crate) fn collect_candidates(
    corpus: &Corpus,
    query: &PromptQuery,
    matches: &[TermMatch],
    others: &[u32],
) -> CandidateRows {
    // The buffers are taken out while they are used: after a panic, buffers with leftover numbers are not used
    // again.
    let mut scratch = SCRATCH.take();
    let rows = scratch.collect_rows(corpus, query, matches, others);
    SCRATCH.set(scratch);
    rows
}

/// Returns the rows' allocations to this thread's buffers.
pub(crate) fn recycle(rows: CandidateRows) {
    SCRATCH.with_borrow_mut(|scratch| scratch.spare = rows);
}

/// Reusable buffers of a ranking. Between two rankings all numbers are zero, so one set serves every corpus.
#[derive(Debug, Default)]
struct Scratch {
    /// Score of each entry, by posting.
    scores: Vec<f32>,
    touched: Vec<u32>,
    /// Whether all postings were counted: then an entry outside `touched` has no word of the question.
    is_all_counted: bool,
    /// Scores and numbers of touched entries, for sorting.
    ordered: Vec<u64>,
    /// Index of each term's first match, plus one; 0 for none.
    slots: Vec<u32>,
    /// Bit set of the terms with matches. Most terms have none, and the bits fit in the CPU cache.
    has_slot: Vec<u64>,
    /// Match of a memory's header with the question.
    head: Vec<LaneHits>,
    /// Allocations of rows that are no longer used.
    spare: CandidateRows,
}

/// Returns the terms of the corpus that match the words of a question, sorted by term.
pub(crate) fn match_terms(
    corpus: &Corpus,
    query: &PromptQuery,
    use_vectors: bool,
) -> Vec<TermMatch> {
    let mut matches = Vec::new();
    for (query_term, of) in query.terms.iter().enumerate() {
        let exact = of.stem.and_then(|stem| corpus.terms.stem(stem));
        let members = exact.into_iter().flat_map(|stem| stem.term_ids.iter());
        matches.extend(members.map(|term| TermMatch::new(term, query_term, 1.0, 1.0)));
        let forms = |stem: u32| corpus.terms.stems[stem as usize].term_ids.iter();
        if exact.is_none() {
            for (term, likeness) in corpus.terms.near_terms(&of.word) {
                let forms = forms(corpus.terms.list[term as usize].stem);
                matches.extend(forms.map(|term| TermMatch::alike(term, query_term, likeness)));
            }
        }
        for stem in corpus.terms.related_stems(&of.word, of.stem) {
            let related =
                forms(stem).map(|term| TermMatch::alike(term, query_term, Likeness::RELATED));
            matches.extend(related);
        }
        if use_vectors {
            for &(term, near) in corpus.terms.similar_terms(&of.word).iter().take(SIMILAR_TERMS_MAX)
            {
                if !exact.is_some_and(|stem| stem.term_ids.contains(term)) {
                    matches.push(TermMatch::new(term, query_term, 0.0, near));
                }
            }
        }
    }
    matches.retain(|found| !corpus.terms.list[found.term as usize].postings.is_empty());
    // Of two matches of a term and a word, the one by the word itself is kept, with the higher similarity.
    matches.sort_unstable_by(|a, b| {
        let order = (a.term, a.query_term).cmp(&(b.term, b.query_term));
        let order = order.then(b.exact.total_cmp(&a.exact));
        order.then(b.similarity.total_cmp(&a.similarity))
    });
    matches.dedup_by(|other, kept| {
        let is_same = (other.term, other.query_term) == (kept.term, kept.query_term);
        if is_same {
            kept.similarity = kept.similarity.max(other.similarity);
            kept.similarity_weight = kept.similarity_weight.max(other.similarity_weight);
        }
        is_same
    });
    matches
}

/// Returns the entries of the memories that are similar to the question as wholes; none if the corpus is too large
/// to compare them.
fn similar_memories(corpus: &Corpus, query: &PromptQuery) -> Vec<u32> {
    if query.text_vector.iter().all(|number| *number == 0)
        || corpus.memories() > SIMILARITY_CORPUS_MAX
    {
        return Vec::new();
    }
    let records = corpus.memories.iter().flatten();
    let mut near: Vec<(f32, &MemoryRecord)> = records
        .map(|memory| (cosine_similarity(&query.text_vector, corpus.memory_vector(memory)), memory))
        .collect();
    let nearer = |a: &(f32, &MemoryRecord), b: &(f32, &MemoryRecord)| {
        b.0.total_cmp(&a.0).then_with(|| a.1.path.cmp(&b.1.path))
    };
    if near.len() > SIMILAR_MEMORIES_MAX {
        near.select_nth_unstable_by(SIMILAR_MEMORIES_MAX, nearer);
        near.truncate(SIMILAR_MEMORIES_MAX);
    }
    let entries =
        near.iter().flat_map(|(_, memory)| memory.entries.iter().take(SIMILAR_MEMORY_ENTRIES_MAX));
    entries.copied().collect()
}

impl Scratch {
    /// Returns the entries with the highest scores, in no particular order.
    fn candidates(
        &mut self,
        corpus: &Corpus,
        query: &PromptQuery,
        matches: &[TermMatch],
    ) -> Vec<u32> {
        self.scores.resize(corpus.entries.len(), 0.0);
        let worth = |found: &TermMatch| query.terms[found.query_term].weight * found.similarity;
        let mut order: Vec<&TermMatch> = matches.iter().collect();
        order.sort_by(|a, b| {
            let word = |found: &TermMatch| &corpus.terms.list[found.term as usize].word;
            worth(b)
                .total_cmp(&worth(a))
                .then_with(|| (word(a), a.query_term).cmp(&(word(b), b.query_term)))
        });
        let mut budget = POSTINGS_MAX;
        self.is_all_counted = true;
        for found in order {
            let postings = &corpus.terms.list[found.term as usize].postings;
            if postings.len() > budget && !self.touched.is_empty() {
                self.is_all_counted = false;
                continue;
            }
            budget = budget.saturating_sub(postings.len());
            let worth = worth(found);
            self.is_all_counted &= worth > 0.0;
            for Posting { entry, score: weight } in postings {
                let score = &mut self.scores[*entry as usize];
                if *score == 0.0 {
                    self.touched.push(*entry);
                }
                *score += worth * weight;
            }
        }
        let words_only = query.text_vector.is_empty();
        self.top_scored(corpus, if words_only { CANDIDATES_BY_WORDS } else { CANDIDATES })
    }

    /// Returns the `count` entries with the highest scores; ties are resolved by `entry_order`.
    fn top_scored(&mut self, corpus: &Corpus, count: usize) -> Vec<u32> {
        if self.touched.len() <= count {
            return self.touched.clone();
        }
        // Positive floats sort like their bits, so scores and entry numbers can be compared as one integer.
        let with_score =
            |id: &u32| u64::from(self.scores[*id as usize].to_bits()) << u32::BITS | u64::from(*id);
        self.ordered.clear();
        self.ordered.extend(self.touched.iter().map(with_score));
        let from = self.ordered.len() - count;
        let (below, least, above) = self.ordered.select_nth_unstable(from);
        #[expect(clippy::cast_possible_truncation, reason = "the number of an entry is one half")]
        let id = |both: &u64| *both as u32;
        let least = *least;
        let is_alike = |both: &&u64| *both >> u32::BITS == least >> u32::BITS;
        let mut best = Vec::with_capacity(count);
        best.extend(above.iter().filter(|both| !is_alike(both)).map(id));
        let alike = below.iter().filter(is_alike).chain([&least]);
        let mut alike: Vec<u32> = alike.chain(above.iter().filter(is_alike)).map(id).collect();
        alike.sort_unstable_by_key(|id| corpus.entry_order[*id as usize]);
        best.extend(alike.into_iter().take(count - best.len()));
        best
    }

    fn collect_rows(
        &mut self,
        corpus: &Corpus,
        query: &PromptQuery,
        matches: &[TermMatch],
        others: &[u32],
    ) -> CandidateRows {
        let mut likely = self.candidates(corpus, query, matches);
        likely.extend(similar_memories(corpus, query));
        likely.extend(others);
        let mut positions: Vec<(u32, usize)> = Vec::with_capacity(likely.len());
        positions.extend(likely.into_iter().filter_map(|id| {
            let entry = corpus.entries.get(id as usize)?.as_ref()?;
            Some((entry.memory, entry.ordinal as usize))
        }));
        positions.sort_unstable();
        let mut rows = std::mem::take(&mut self.spare).cleared();
        for positions in positions.chunk_by(|a, b| a.0 == b.0) {
            add_rows(corpus, positions, &mut rows);
        }
        self.set_slots(corpus, matches);
        rows.width = query.terms.len().div_ceil(LANES);
        rows.hits.reserve(rows.list.len() * rows.width);
        for group in 0..rows.groups.len() {
            self.count_group_hits(corpus, matches, group, &mut rows);
        }
        self.has_slot.clear();
        for found in matches {
            self.slots[found.term as usize] = 0;
        }
        for entry in self.touched.drain(..) {
            self.scores[entry as usize] = 0.0;
        }
        rows.compute_features(corpus, query);
        rows
    }

    /// Notes the first match of each term.
    fn set_slots(&mut self, corpus: &Corpus, matches: &[TermMatch]) {
        self.slots.resize(corpus.terms.list.len(), 0);
        self.has_slot.resize(corpus.terms.list.len().div_ceil(BITS), 0);
        for (index, found) in matches.iter().enumerate().rev() {
            let term = found.term as usize;
            self.slots[term] = to_u32(index + 1);
            self.has_slot[term / BITS] |= 1 << (term % BITS);
        }
    }

    /// Counts the matches of a memory's entries with each word of the question.
    fn count_group_hits(
        &mut self,
        corpus: &Corpus,
        matches: &[TermMatch],
        group: usize,
        rows: &mut CandidateRows,
    ) {
        let RowGroup { memory, rows: of_group, .. } = &rows.groups[group];
        let mut head = std::mem::take(&mut self.head);
        head.clear();
        head.resize(rows.width, LaneHits::default());
        let header_matches = corpus.memories[*memory as usize]
            .as_ref()
            .is_some_and(|record| self.count_terms(matches, &record.header_terms, &mut head));
        for row in &mut rows.list[of_group.clone()] {
            let start = rows.hits.len();
            rows.hits.extend_from_slice(&head);
            if let Some(entry) = corpus.entries[row.entry as usize].as_ref() {
                if self.is_all_counted && self.scores[row.entry as usize] == 0.0 {
                    debug_assert!(!entry.terms.iter().any(|(term, _)| self.has_slot(*term)));
                    continue;
                }
                let entry_matches =
                    self.count_terms(matches, &entry.terms, &mut rows.hits[start..]);
                row.has_match = header_matches || entry_matches;
            }
        }
        rows.header_hits.extend_from_slice(&head);
        self.head = head;
    }

    fn has_slot(&self, term: u32) -> bool {
        let (index, bit) = (term as usize / BITS, term as usize % BITS);
        self.has_slot[index] >> bit & 1 == 1
    }

    /// Adds the matches of some terms with each word of the question; returns whether there is any.
    fn count_terms(
        &self,
        matches: &[TermMatch],
        terms: &[(u32, f32)],
        hits: &mut [LaneHits],
    ) -> bool {
        let mut has_match = false;
        for (term, weight) in terms {
            if self.has_slot(*term) {
                let slot = self.slots[*term as usize] as usize;
                has_match = true;
                let own = matches[slot - 1..].iter().take_while(|found| found.term == *term);
                for found in own {
                    let (hits, lane) =
                        (&mut hits[found.query_term / LANES], found.query_term % LANES);
                    hits.exact.as_mut_array()[lane] += found.exact * weight;
                    hits.similar.as_mut_array()[lane] += found.similarity_weight * weight;
                    let near = &mut hits.nearest.as_mut_array()[lane];
                    *near = near.max(found.similarity);
                }
            }
        }
        has_match
    }
}

/// Adds the rows of a memory: the entries at these positions, which are sorted, and their neighbors.
fn add_rows(corpus: &Corpus, positions: &[(u32, usize)], rows: &mut CandidateRows) {
    let start = rows.list.len();
    let memory = positions[0].0;
    let Some(record) = corpus.memories[memory as usize].as_ref() else { return };
    let mut next = 0;
    for (_, ordinal) in positions {
        let end = (ordinal + NEIGHBOR_DISTANCE_MAX + 1).min(record.entries.len());
        for id in &record.entries[next.max(ordinal.saturating_sub(NEIGHBOR_DISTANCE_MAX))..end] {
            if let Some(entry) = corpus.entries[*id as usize].as_ref() {
                rows.list.push(CandidateRow::new(*id, entry));
            }
        }
        next = end;
    }
    rows.groups.push(RowGroup::new((memory, record), start..rows.list.len(), &rows.list));
}
