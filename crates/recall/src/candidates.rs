//! Which entries are worth a closer look: those that hold a word of the question, or one near it.
//!
//! Entries are counted up by the postings of their words, and the best of them are taken with their
//! neighbours. The work is bounded, however large the corpus: a word that stands nearly everywhere is passed
//! over once enough was counted.

use std::cell::RefCell;

use crate::corpus::{Corpus, MemoryRecord};
use crate::embedder::cosine_similarity;
use crate::features::{
    CandidateRow, CandidateRows, LANES, LaneHits, NEIGHBOR_DISTANCE_MAX, RowGroup,
};
use crate::query::PromptQuery;
use crate::terms::{Posting, to_u32};

/// How many entries are looked at word by word, besides their neighbours; when meaning does not count, fewer do.
const CANDIDATES: usize = 96;
const CANDIDATES_BY_WORDS: usize = 40;
/// How many terms may answer to a word by their meaning, at most; the nearest.
const SIMILAR_TERMS_MAX: usize = 48;
/// How many postings are counted up, at most; the rarest words' first.
const POSTINGS_MAX: usize = 16_384;
/// How many memories are looked at because as wholes they mean what the question means, among how many at
/// most, and how many entries of each.
const SIMILAR_MEMORIES_MAX: usize = 8;
pub(crate) const SIMILARITY_CORPUS_MAX: usize = 4_096;
const SIMILAR_MEMORY_ENTRIES_MAX: usize = 16;
/// How much a word that was meant to be another counts as it, by its slips.
const TYPO_FACTOR: f32 = 0.8;
/// In how many steps it is counted how near words are that are added up.
const SIMILARITY_STEPS: f32 = 256.0;

/// How many bits are kept together.
const BITS: usize = 64;

/// A word of the corpus that answers to a word of the question.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TermMatch {
    pub(crate) term: u32,
    /// Which word of the question.
    pub(crate) query_term: usize,
    /// How much it counts as that word itself.
    pub(crate) exact: f32,
    /// How near it is in meaning.
    pub(crate) similarity: f32,
    /// How much it counts among all that is near. In steps that can be added up in any order: the numbers
    /// of words depend on which came first.
    similarity_weight: f32,
}

impl TermMatch {
    fn new(term: u32, asked: usize, same: f32, near: f32) -> Self {
        let kinship = (near * near * SIMILARITY_STEPS).round() / SIMILARITY_STEPS;
        Self { term, query_term: asked, exact: same, similarity: near, similarity_weight: kinship }
    }
}

thread_local! {
    /// The scratch of the last ranking of this thread.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Looks at the likeliest entries, those that somebody else knows of, and the neighbours of both.
pub(crate) fn collect_candidates(
    corpus: &Corpus,
    question: &PromptQuery,
    matches: &[TermMatch],
    others: &[u32],
) -> CandidateRows {
    // Out of its place meanwhile: one that a panic left with numbers in it is not used again.
    let mut scratch = SCRATCH.take();
    let rows = scratch.collect_rows(corpus, question, matches, others);
    SCRATCH.set(scratch);
    rows
}

/// Keeps the room of rows for the next ranking of this thread.
pub(crate) fn recycle(rows: CandidateRows) {
    SCRATCH.with_borrow_mut(|scratch| scratch.spare = rows);
}

/// What ranking needs for a while; kept, so that it need not be made each time. Between two rankings its numbers are
/// zero, so it serves every corpus.
#[derive(Debug, Default)]
struct Scratch {
    /// What each entry counted up to.
    scores: Vec<f32>,
    touched: Vec<u32>,
    /// Whether all that counts was counted up: then an entry that was not touched has nothing of the question.
    is_all_counted: bool,
    /// What entries that were touched counted up to, and which they are.
    ordered: Vec<u64>,
    /// For each term, one past where its matches begin; 0 for none.
    slots: Vec<u32>,
    /// Which terms have matches, a bit each: most have none, and this stays near at hand.
    has_slot: Vec<u64>,
    /// What the head of a memory has of the question.
    head: Vec<LaneHits>,
    /// Room of rows that nobody needs any more.
    spare: CandidateRows,
}

/// Returns the words of the corpus that answer to those of a question, term by term.
pub(crate) fn match_terms(
    corpus: &Corpus,
    question: &PromptQuery,
    by_sense: bool,
) -> Vec<TermMatch> {
    let mut matches = Vec::new();
    for (asked, of) in question.terms.iter().enumerate() {
        let exact = of.stem.and_then(|stem| corpus.terms.stem(stem));
        let members = exact.into_iter().flat_map(|stem| stem.term_ids.iter());
        matches.extend(members.map(|term| TermMatch::new(term, asked, 1.0, 1.0)));
        if exact.is_none() {
            for (term, slips) in corpus.terms.spelling_candidates(&of.word) {
                let stem = corpus.terms.list[term as usize].stem;
                let same =
                    TYPO_FACTOR.powi(i32::try_from(slips).expect("a word has two slips at most"));
                let forms = &corpus.terms.stems[stem as usize].term_ids;
                matches.extend(forms.iter().map(|term| TermMatch::new(term, asked, same, same)));
            }
        }
        if by_sense {
            for &(term, near) in corpus.terms.similar_terms(&of.word).iter().take(SIMILAR_TERMS_MAX)
            {
                if !exact.is_some_and(|stem| stem.term_ids.contains(term)) {
                    matches.push(TermMatch::new(term, asked, 0.0, near));
                }
            }
        }
    }
    matches.retain(|found| !corpus.terms.list[found.term as usize].postings.is_empty());
    matches.sort_unstable_by(|a, b| {
        (a.term, a.query_term)
            .cmp(&(b.term, b.query_term))
            .then(b.similarity.total_cmp(&a.similarity))
    });
    matches.dedup_by_key(|found| (found.term, found.query_term));
    matches
}

/// Returns the entries of the memories that as wholes mean what the question means; of none when there are
/// too many to compare.
fn similar_memories(corpus: &Corpus, question: &PromptQuery) -> Vec<u32> {
    if question.text_vector.iter().all(|number| *number == 0)
        || corpus.memories() > SIMILARITY_CORPUS_MAX
    {
        return Vec::new();
    }
    let held = corpus.memories.iter().flatten();
    let mut near: Vec<(f32, &MemoryRecord)> = held
        .map(|memory| {
            (cosine_similarity(&question.text_vector, corpus.memory_vector(memory)), memory)
        })
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
    /// Returns the entries that may fit, the likeliest first.
    fn candidates(
        &mut self,
        corpus: &Corpus,
        question: &PromptQuery,
        matches: &[TermMatch],
    ) -> Vec<u32> {
        self.scores.resize(corpus.entries.len(), 0.0);
        let worth = |found: &TermMatch| question.terms[found.query_term].weight * found.similarity;
        let mut order: Vec<&TermMatch> = matches.iter().collect();
        order.sort_by(|a, b| {
            let word = |found: &TermMatch| &corpus.terms.list[found.term as usize].word;
            worth(b)
                .total_cmp(&worth(a))
                .then_with(|| (word(a), a.query_term).cmp(&(word(b), b.query_term)))
        });
        let mut left = POSTINGS_MAX;
        self.is_all_counted = true;
        for found in order {
            let postings = &corpus.terms.list[found.term as usize].postings;
            if postings.len() > left && !self.touched.is_empty() {
                self.is_all_counted = false;
                continue;
            }
            left = left.saturating_sub(postings.len());
            let worth = worth(found);
            self.is_all_counted &= worth > 0.0;
            for Posting { entry, score: there } in postings {
                let score = &mut self.scores[*entry as usize];
                if *score == 0.0 {
                    self.touched.push(*entry);
                }
                *score += worth * there;
            }
        }
        let by_words = question.text_vector.is_empty();
        self.top_scored(corpus, if by_words { CANDIDATES_BY_WORDS } else { CANDIDATES })
    }

    /// Returns so many entries that counted up to most.
    fn top_scored(&mut self, corpus: &Corpus, count: usize) -> Vec<u32> {
        if self.touched.len() <= count {
            return self.touched.clone();
        }
        // Numbers above zero are in the order of their bits.
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
        question: &PromptQuery,
        matches: &[TermMatch],
        others: &[u32],
    ) -> CandidateRows {
        let mut likely = self.candidates(corpus, question, matches);
        likely.extend(similar_memories(corpus, question));
        likely.extend(others);
        let mut places: Vec<(u32, usize)> = Vec::with_capacity(likely.len());
        places.extend(likely.into_iter().filter_map(|id| {
            let entry = corpus.entries.get(id as usize)?.as_ref()?;
            Some((entry.memory, entry.ordinal as usize))
        }));
        places.sort_unstable();
        let mut rows = std::mem::take(&mut self.spare).cleared();
        for places in places.chunk_by(|a, b| a.0 == b.0) {
            add_rows(corpus, places, &mut rows);
        }
        self.set_slots(corpus, matches);
        rows.width = question.terms.len().div_ceil(LANES);
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
        rows.compute_features(corpus, question);
        rows
    }

    /// Notes where the matches of each term begin.
    fn set_slots(&mut self, corpus: &Corpus, matches: &[TermMatch]) {
        self.slots.resize(corpus.terms.list.len(), 0);
        self.has_slot.resize(corpus.terms.list.len().div_ceil(BITS), 0);
        for (at, found) in matches.iter().enumerate().rev() {
            let term = found.term as usize;
            self.slots[term] = to_u32(at + 1);
            self.has_slot[term / BITS] |= 1 << (term % BITS);
        }
    }

    /// Counts what the entries of a memory have of each word of the question.
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
        let head_is_met = corpus.memories[*memory as usize]
            .as_ref()
            .is_some_and(|held| self.count_terms(matches, &held.header_terms, &mut head));
        for row in &mut rows.list[of_group.clone()] {
            let start = rows.hits.len();
            rows.hits.extend_from_slice(&head);
            if let Some(entry) = corpus.entries[row.entry as usize].as_ref() {
                if self.is_all_counted && self.scores[row.entry as usize] == 0.0 {
                    debug_assert!(!entry.terms.iter().any(|(term, _)| self.has_slot(*term)));
                    continue;
                }
                let is_met = self.count_terms(matches, &entry.terms, &mut rows.hits[start..]);
                row.has_match = head_is_met || is_met;
            }
        }
        self.head = head;
    }

    fn has_slot(&self, term: u32) -> bool {
        let (at, bit) = (term as usize / BITS, term as usize % BITS);
        self.has_slot[at] >> bit & 1 == 1
    }

    /// Counts what some terms have of each word of the question; returns whether that is anything.
    fn count_terms(
        &self,
        matches: &[TermMatch],
        terms: &[(u32, f32)],
        hits: &mut [LaneHits],
    ) -> bool {
        let mut is_met = false;
        for (term, weight) in terms {
            if self.has_slot(*term) {
                let slot = self.slots[*term as usize] as usize;
                is_met = true;
                let own = matches[slot - 1..].iter().take_while(|found| found.term == *term);
                for found in own {
                    let (hits, at) =
                        (&mut hits[found.query_term / LANES], found.query_term % LANES);
                    hits.exact.as_mut_array()[at] += found.exact * weight;
                    hits.similar.as_mut_array()[at] += found.similarity_weight * weight;
                    let near = &mut hits.nearest.as_mut_array()[at];
                    *near = near.max(found.similarity);
                }
            }
        }
        is_met
    }
}

/// Adds the rows of a memory: entries at these places, which are in their order, and their neighbours.
fn add_rows(corpus: &Corpus, places: &[(u32, usize)], rows: &mut CandidateRows) {
    let start = rows.list.len();
    let memory = places[0].0;
    let Some(held) = corpus.memories[memory as usize].as_ref() else { return };
    let mut next = 0;
    for (_, at) in places {
        let end = (at + NEIGHBOR_DISTANCE_MAX + 1).min(held.entries.len());
        for id in &held.entries[next.max(at.saturating_sub(NEIGHBOR_DISTANCE_MAX))..end] {
            if let Some(entry) = corpus.entries[*id as usize].as_ref() {
                rows.list.push(CandidateRow::new(*id, entry));
            }
        }
        next = end;
    }
    rows.groups.push(RowGroup::new(memory, start..rows.list.len(), &rows.list));
}
