//! Features of candidate entries and memories: the numbers that a score is made of.
//!
//! Each candidate entry is compared with the question word by word: alone, together with its neighbors, and with
//! its whole memory. The comparison counts words (BM25), words of similar meaning, and the similarity of whole
//! texts. The words of a question are processed eight at a time, in SIMD lanes. This module only computes the
//! features; `weights` weighs them against each other.

use std::ops::Range;

use wide::f32x8 as Lane;

use crate::corpus::{Corpus, IndexedEntry, MemoryRecord};
use crate::dense::DenseScores;
use crate::embedder::cosine_similarity;
use crate::query::{PromptQuery, QueryTerm};

/// Number of words of a question that are counted side by side.
pub(crate) const LANES: usize = 8;
/// Distance, in entries, up to which neighbors of an entry count.
pub(crate) const NEIGHBOR_DISTANCE_MAX: usize = 4;
/// Weight of a neighbor's words, by distance.
const NEIGHBOR_WEIGHTS: [f32; NEIGHBOR_DISTANCE_MAX + 1] = [1.0, 0.6, 0.4, 0.4, 0.4];
/// Weight of a neighbor's word similarity, by distance: for a narrow and for a wide neighborhood.
const FADE_NEAR: [f32; NEIGHBOR_DISTANCE_MAX + 1] = [1.0, 0.7, 0.5, 0.0, 0.0];
const FADE_FAR: [f32; NEIGHBOR_DISTANCE_MAX + 1] = [1.0, 0.88, 0.76, 0.64, 0.52];
/// Nested neighborhoods that the words of neighbors are summed over: the distance each reaches, the first of them
/// that includes a given distance, and the sum of its neighbor weights.
const NEIGHBOR_DISTANCES: [usize; 3] = [1, 2, NEIGHBOR_DISTANCE_MAX];
const DISTANCE_RINGS: [usize; NEIGHBOR_DISTANCE_MAX + 1] = [0, 0, 1, 2, 2];
const TEXTS_PER_RING: [f32; NEIGHBOR_DISTANCES.len()] = [2.2, 3.0, 4.6];
/// BM25 parameters: saturation of repeated words (`k1`) and penalty of long texts (`b`).
const SATURATION: f32 = 1.2;
const LENGTH: f32 = 0.75;

/// Similarity from which a similar word counts towards an answer.
const SIMILARITY_MIN: f32 = 0.55;

/// Lower bounds for the divisors in `normalize`: for word scores as a share of the total weight, for word
/// similarity, and for text similarity. If even the best entry is below, the features of all entries stay low.
const WORDS_FLOOR: f32 = 0.4;
const WORD_SIMILARITY_FLOOR: f32 = 0.4;
const TEXT_SIMILARITY_FLOOR: f32 = 0.5;

/// Estimate of an encoder's similarity from that of the built-in vectors. It is the line through 506,000 pairs of a
/// prompt and a candidate, from our own sets, the mixed sets and conversations.
const BUILT_IN_SLOPE: f32 = 0.62;
const BUILT_IN_BASE: f32 = 0.10;

/// Names of the features of an entry.
pub const ENTRY_FEATURES: [&str; ENTRY] = [
    "words",
    "words within 1 entry",
    "words within 2 entries",
    "words within 4 entries",
    "words of the memory",
    "similar words",
    "similar words within 2 entries",
    "similar words within 4 entries",
    "similar words of the memory",
    "similar words within 2 entries, cubed",
    "text similarity",
    "text similarity of the memory",
    "sum of similar words within 1 entry",
    "sum of similar words within 4 entries",
    "subject",
    "asks a question",
    "after a question",
    "length",
    "time",
    "month",
    "day",
    "words of the question before",
    "text similarity of the question before",
    "identifiers",
    "rarest word",
    "share of the prompt",
];
pub(crate) const ENTRY: usize = 26;
/// Number of features at the start of the list that are divided by the largest value in the question.
const SCALED: usize = 14;
/// Indexes of the similarity features, by words and by texts.
const WORD_SIMILARITY: usize = 5;
const TEXT_SIMILARITY: usize = 10;
/// Indexes of the features that are reasons by themselves.
pub(crate) const SUBJECT: usize = 14;
pub(crate) const MONTH: usize = 19;
/// Index of the feature that marks a question, the features that the entry after it gets from it, and the index
/// that they start at there.
const ASKS_QUESTION: usize = 15;
const QUESTION_FEATURES: [usize; 2] = [0, 10];
const AFTER_QUESTION: usize = 21;
/// Indexes of the features that do not depend on the other entries. They are the rarity of the identifiers of the prompt
/// that the entry has, that of its rarest word, and the share of the prompt that the entry has.
const IDENTIFIERS: usize = 23;
const RAREST_WORD: usize = 24;
const PROMPT_SHARE: usize = 25;
/// Own words beyond which an entry is not longer, as a logarithm: a few words say nothing, and many say no more than
/// some.
const LENGTH_LOG_MAX: f32 = 2.7;
/// Weight of neighbors in memories that are no conversations, beside their weight in those. The items of a list are
/// independent of each other.
const NOTE_NEIGHBORS: f32 = 0.25;

/// Names of the features of a memory.
pub const MEMORY_FEATURES: [&str; MEMORY] = [
    "best entry",
    "best three entries",
    "all entries",
    "words of the memory",
    "similar words of the memory",
    "month",
    "day",
    "words",
    "words within 2 entries",
    "words within 4 entries",
    "similar words",
    "similar words within 2 entries",
    "similar words within 4 entries",
    "text similarity",
    "text similarity of the memory",
    "entries",
    "rare words of the memory",
    "rare similar words of the memory",
    "rare similar words of the subject",
    "sum of similar words of the memory",
    "text similarity, low coverage",
    "text similarity of the memory, low coverage",
    "best entry, low coverage",
    "words, low coverage",
    "similar words, low coverage",
    "rare words of the memory, low coverage",
    "rare similar words of the memory, low coverage",
    "identifiers",
    "rarest word",
    "share of the prompt in one entry",
    "share of the prompt",
    "share of the prompt in the header",
];
pub(crate) const MEMORY: usize = 32;
/// Features that count when words cover little of the question; their weight falls with the number of entries. The
/// first index, and the features that they are copies of.
const FIRST_LOW_COVERAGE: usize = 20;
const LOW_COVERAGE_FEATURES: [usize; 7] = [13, 14, 0, 7, 10, 16, 17];
/// First index of the features that do not depend on how well the other memories match.
const FIRST_ABSOLUTE: usize = FIRST_LOW_COVERAGE + LOW_COVERAGE_FEATURES.len();
pub(crate) const MEMORY_IDENTIFIERS: usize = FIRST_ABSOLUTE;
pub(crate) const HEADER_SHARE: usize = MEMORY - 1;
/// Features of entries of which a memory has the maximum, in the memory's order from index 3.
const MAXIMUM_FEATURES: [usize; 12] = [4, 8, 19, 20, 0, 2, 3, 5, 6, 7, 10, 11];

/// Match of one text with a lane of words of the question.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LaneHits {
    /// Weighted count of the word itself.
    pub(crate) exact: Lane,
    /// Weighted count of all similar words.
    pub(crate) similar: Lane,
    /// Highest similarity of a word.
    pub(crate) nearest: Lane,
}

impl LaneHits {
    /// Returns how well the text has each word, from 0 to 1. A word that is only like it, however often, is no more than
    /// that.
    fn has(&self) -> Lane {
        self.exact.fast_min(self.nearest).fast_min(Lane::ONE)
    }
}

/// A candidate entry.
#[derive(Clone, Debug)]
pub(crate) struct CandidateRow {
    pub(crate) entry: u32,
    pub(crate) memory: u32,
    pub(crate) features: [f32; ENTRY],
    /// Whether the entry or its memory's header matches any word of the question.
    pub(crate) has_match: bool,
    ordinal: u32,
    length: f32,
}

/// The rows of one memory.
#[derive(Clone, Debug)]
pub(crate) struct RowGroup {
    pub(crate) memory: u32,
    pub(crate) rows: Range<usize>,
    /// Scores weighted by rarity among memories: words, similar words, similar words of the subject, and kindred
    /// words.
    rarity_scores: [f32; 4],
    /// Total length of the rows, in weighted words.
    length: f32,
    /// Whether the memory is a conversation, where an entry and its neighbors belong together.
    is_conversation: bool,
    /// Share of the prompt that the memory's header has.
    header_share: f32,
}

/// Sum of the matches of a memory's rows with a lane of words.
#[derive(Clone, Copy, Debug, Default)]
struct GroupHits {
    total: LaneHits,
    /// Highest similarity within entries whose subject the question names.
    of_subject: Lane,
    /// Whether any row matches.
    has_match: bool,
}

/// Share of the question that a memory covers, weighted by how much each word says.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Coverage {
    /// Weight of the words that the memory has.
    pub(crate) exact: f32,
    /// Weight of the words that the memory has only a similar word for.
    pub(crate) similar_words: f32,
    /// Weight of all words.
    pub(crate) total: f32,
}

impl Coverage {
    /// Smoothing term in the coverage ratio.
    const SHARE_SMOOTHING: f32 = 0.3;

    /// Returns the weight covered by the words themselves or by similar ones.
    pub(crate) fn combined(&self) -> f32 {
        self.exact + self.similar_words
    }

    /// Returns the share of the question covered by the words themselves.
    pub(crate) fn exact_share(&self) -> f32 {
        self.share_of(self.exact)
    }

    /// Returns the share of the question that a weight is.
    pub(crate) fn share_of(&self, weight: f32) -> f32 {
        weight / (self.total + Self::SHARE_SMOOTHING)
    }
}

/// Candidate rows with their matches for each word of the question.
#[derive(Debug, Default)]
pub(crate) struct CandidateRows {
    /// Memory by memory, in the order of the entries.
    pub(crate) list: Vec<CandidateRow>,
    pub(crate) groups: Vec<RowGroup>,
    /// Row by row, lane by lane.
    pub(crate) hits: Vec<LaneHits>,
    /// Matches of the headers of the memories, group by group, lane by lane.
    pub(crate) header_hits: Vec<LaneHits>,
    /// Number of lanes that the words of the question take.
    pub(crate) width: usize,
    /// Divisors of the normalized features.
    largest: [f32; SCALED],
}

impl CandidateRow {
    /// Returns the row of an entry, without features yet.
    pub(crate) const fn new(id: u32, entry: &IndexedEntry) -> Self {
        Self {
            entry: id,
            memory: entry.memory,
            features: [0.0; ENTRY],
            has_match: false,
            ordinal: entry.ordinal,
            length: entry.length,
        }
    }
}

impl RowGroup {
    /// Returns the group of the rows of one memory.
    pub(crate) fn new(
        (memory, record): (u32, &MemoryRecord),
        rows: Range<usize>,
        list: &[CandidateRow],
    ) -> Self {
        let length = list[rows.clone()].iter().map(|row| row.length).sum();
        let is_conversation = record.is_conversation;
        let (rarity_scores, header_share) = ([0.0; 4], 0.0);
        Self { memory, rows, rarity_scores, length, is_conversation, header_share }
    }
}

/// Weight of each word of the question, by lane, and as a share of the total.
struct TermWeights {
    by_lane: Vec<Lane>,
    shares: Vec<Lane>,
    total: f32,
}

/// Rarity of each word of the question, squared: of all words, and of those that are identifiers.
struct TermRarity {
    words: Vec<Lane>,
    identifiers: Vec<Lane>,
}

impl TermRarity {
    fn new(terms: &[QueryTerm]) -> Self {
        let lanes = |of: &dyn Fn(&QueryTerm) -> f32| {
            let rarity: Vec<f32> = terms.iter().map(of).collect();
            rarity.chunks(LANES).map(Lane::from).collect()
        };
        let squared = |term: &QueryTerm| term.share * term.share;
        Self {
            words: lanes(&squared),
            identifiers: lanes(&|term| as_number(term.is_identifier) * squared(term)),
        }
    }

    /// Adds the features of the words of a lane that an entry has itself.
    fn add_features(&self, lane: usize, has: Lane, share: f32, features: &mut [f32; ENTRY]) {
        features[IDENTIFIERS] += (has * self.identifiers[lane]).reduce_add();
        let rarest = (has * self.words[lane]).as_array().iter().copied().fold(0.0, f32::max);
        features[RAREST_WORD] = features[RAREST_WORD].max(rarest);
        features[PROMPT_SHARE] += share;
    }
}

impl TermWeights {
    fn from_weights(weights: impl Iterator<Item = f32>) -> Self {
        let weights: Vec<f32> = weights.collect();
        let total = weights.iter().sum::<f32>().max(f32::EPSILON);
        let each = weights.chunks(LANES).map(Lane::from).collect::<Vec<_>>();
        let shares = each.iter().map(|each| *each / Lane::splat(total)).collect();
        Self { by_lane: each, shares, total }
    }

    /// Returns the BM25 score of the counts of a lane in a text; the length is relative to the average.
    fn bm25(&self, lane: usize, counts: Lane, relative_length: f32) -> f32 {
        let penalty = SATURATION * (1.0 - LENGTH + LENGTH * relative_length);
        let of_each = self.by_lane[lane] * counts / (counts + Lane::splat(penalty));
        (SATURATION + 1.0) * of_each.reduce_add()
    }

    /// Returns the share of the question that a lane's similarities cover; 1 is all of it.
    fn query_share(&self, lane: usize, near: Lane) -> f32 {
        (near * self.shares[lane]).reduce_add()
    }
}

/// Raises each number to the larger one of the two lists.
fn keep_maximum(largest: &mut [f32], more: &[f32]) {
    largest.iter_mut().zip(more).for_each(|(largest, more)| *largest = largest.max(*more));
}

/// Divides each number by the number of the other list at the same index.
fn divide(numbers: &mut [f32], by: &[f32]) {
    numbers.iter_mut().zip(by).for_each(|(number, by)| *number /= by);
}

/// Match of an entry and its neighbors with a lane of words.
#[derive(Default)]
struct Neighborhood {
    /// Counts by the neighborhoods of [`NEIGHBOR_DISTANCES`].
    counts: [Lane; NEIGHBOR_DISTANCES.len()],
    lengths: [f32; NEIGHBOR_DISTANCES.len()],
    /// Counts of similar words, for the nearest neighbors and for all.
    similar: [Lane; 2],
    near: Lane,
    far: Lane,
}

impl Neighborhood {
    /// Makes the sums cumulative, from near to far, and turns lengths into averages.
    fn accumulate(&mut self) {
        for ring in 1..NEIGHBOR_DISTANCES.len() {
            self.counts[ring] += self.counts[ring - 1];
            self.lengths[ring] += self.lengths[ring - 1];
        }
        self.similar[1] += self.similar[0];
        for (length, texts) in self.lengths.iter_mut().zip(TEXTS_PER_RING) {
            *length /= texts;
        }
    }
}

impl CandidateRows {
    /// Clears the rows and returns them with their allocations, for reuse.
    pub(crate) fn cleared(mut self) -> Self {
        self.list.clear();
        self.groups.clear();
        self.hits.clear();
        self.header_hits.clear();
        self
    }

    /// Computes the features of all rows.
    pub(crate) fn compute_features(&mut self, corpus: &Corpus, query: &PromptQuery) {
        let mut sums: Vec<GroupHits> = Vec::with_capacity(self.groups.len() * self.width);
        for group in &self.groups {
            sums.extend(self.group_hits(corpus, query, group));
        }
        self.compute_rarity_scores(corpus, query.terms.len(), &sums);
        let weights = TermWeights::from_weights(query.terms.iter().map(|term| term.weight));
        let average = corpus.average_length();
        let rarity = TermRarity::new(&query.terms);
        self.compute_header_shares(&weights);
        for (index, group) in self.groups.iter().enumerate() {
            let record = corpus.memories[group.memory as usize].as_ref();
            let (month, day) = query.matches_date(record.and_then(|record| record.date));
            let mut features = [0.0; ENTRY];
            features[4] = group.rarity_scores[0];
            features[8] = (0..self.width)
                .map(|lane| {
                    weights.query_share(lane, sums[index * self.width + lane].total.nearest)
                })
                .sum();
            features[11] =
                text_similarity(query, || record.map(|record| corpus.memory_vector(record)));
            features[MONTH] = as_number(month);
            features[MONTH + 1] = as_number(day);
            for row in group.rows.clone() {
                let mut features = features;
                let of_group = &sums[index * self.width..][..self.width];
                for lane in (0..self.width).filter(|lane| of_group[*lane].has_match) {
                    let around = self.neighborhood(group, row, lane);
                    self.add_word_features(row, lane, (&around, &weights, average), &mut features);
                    let has = self.hits[row * self.width + lane].has();
                    if has != Lane::ZERO {
                        let share = weights.query_share(lane, has);
                        rarity.add_features(lane, has, share, &mut features);
                    }
                }
                if let Some(entry) = corpus.entries[self.list[row].entry as usize].as_ref() {
                    set_flags(corpus, query, entry, &mut features);
                    features[10] = text_similarity(query, || Some(corpus.entry_vector(entry)));
                }
                self.list[row].features = features;
            }
        }
        self.normalize(weights.total);
        self.add_question_features();
    }

    fn compute_header_shares(&mut self, weights: &TermWeights) {
        let hits = self.header_hits.chunks_exact(self.width.max(1));
        for (group, hits) in self.groups.iter_mut().zip(hits) {
            let shares =
                hits.iter().enumerate().map(|(lane, hits)| weights.query_share(lane, hits.has()));
            group.header_share = shares.sum();
        }
    }

    /// Adds the word features of one lane, for an entry and its neighbors.
    fn add_word_features(
        &self,
        row: usize,
        lane: usize,
        (around, weights, average): (&Neighborhood, &TermWeights, f32),
        features: &mut [f32; ENTRY],
    ) {
        let lengths = around.lengths.map(|length| length / average);
        if self.list[row].has_match {
            let own = &self.hits[row * self.width + lane];
            features[0] += weights.bm25(lane, own.exact, self.list[row].length / average);
            features[5] += weights.query_share(lane, own.nearest);
        }
        for (ring, (counts, length)) in around.counts.iter().zip(lengths).enumerate() {
            features[1 + ring] += weights.bm25(lane, *counts, length);
        }
        features[6] += weights.query_share(lane, around.near);
        features[7] += weights.query_share(lane, around.far);
        features[9] += weights.query_share(lane, around.near * around.near * around.near);
        features[12] += weights.bm25(lane, around.similar[0], lengths[0]);
        features[13] +=
            weights.bm25(lane, around.similar[1], lengths[NEIGHBOR_DISTANCES.len() - 1]);
    }

    /// Copies the match of a question to the entry that follows it, which may be its answer.
    fn add_question_features(&mut self) {
        for row in 1..self.list.len() {
            let (before, after) = (&self.list[row - 1], &self.list[row]);
            let follows = before.memory == after.memory && before.ordinal + 1 == after.ordinal;
            if follows && before.features[ASKS_QUESTION] > 0.0 {
                let inherited = QUESTION_FEATURES.map(|feature| before.features[feature]);
                let own = &mut self.list[row].features[AFTER_QUESTION..][..inherited.len()];
                own.copy_from_slice(&inherited);
            }
        }
    }

    /// Sums the matches of a memory's rows, lane by lane.
    fn group_hits(
        &self,
        corpus: &Corpus,
        query: &PromptQuery,
        group: &RowGroup,
    ) -> impl Iterator<Item = GroupHits> {
        let is_about = |row: &usize| {
            let entry = corpus.entries[self.list[*row].entry as usize].as_ref();
            entry.is_some_and(|entry| query.is_about(entry))
        };
        let rows = group.rows.clone();
        (0..self.width).map(move |lane| {
            let of = |row: usize| &self.hits[row * self.width + lane];
            let mut sums = GroupHits::default();
            for of in rows.clone().map(of) {
                sums.total.exact += of.exact;
                sums.total.similar += of.similar;
                sums.total.nearest = sums.total.nearest.fast_max(of.nearest);
            }
            sums.has_match = sums.total.nearest != Lane::ZERO;
            for of in rows.clone().filter(is_about).map(of) {
                sums.of_subject = sums.of_subject.fast_max(of.nearest);
            }
            sums
        })
    }

    /// Computes the rarity scores of memories: words count more the fewer memories have them.
    fn compute_rarity_scores(&mut self, corpus: &Corpus, words: usize, sums: &[GroupHits]) {
        let all = corpus.memories() as f32;
        let mut with = vec![[0.0_f32; LANES]; self.width];
        for of in sums.chunks_exact(self.width.max(1)) {
            let counts = of.iter().flat_map(|of| of.total.exact.as_array());
            let with = with.as_flattened_mut().iter_mut().zip(counts);
            with.for_each(|(with, count)| *with += as_number(*count > 0.0));
        }
        let rare = |with: &f32| (1.0 + (all - with + 0.5).max(0.0) / (with + 0.5)).ln();
        let weights = TermWeights::from_weights(with.as_flattened().iter().take(words).map(rare));
        let lengths: f32 = self.groups.iter().map(|group| group.length).sum();
        let average = (lengths / self.groups.len().max(1) as f32).max(1.0);
        let mut most = [f32::EPSILON; 4];
        for (group, of) in self.groups.iter_mut().zip(sums.chunks_exact(self.width.max(1))) {
            let length = group.length / average;
            for (lane, of) in of.iter().enumerate() {
                group.rarity_scores[0] += weights.bm25(lane, of.total.exact, length);
                group.rarity_scores[1] += weights.query_share(lane, of.total.nearest);
                group.rarity_scores[2] += weights.query_share(lane, of.of_subject);
                group.rarity_scores[3] += weights.bm25(lane, of.total.similar, length);
            }
            keep_maximum(&mut most, &group.rarity_scores);
        }
        for group in &mut self.groups {
            divide(&mut group.rarity_scores, &most);
        }
    }

    /// Sums the matches of an entry and of those neighbors that are in `rows`.
    fn neighborhood(&self, group: &RowGroup, row: usize, lane: usize) -> Neighborhood {
        let mut around = Neighborhood::default();
        let rows = &group.rows;
        let neighbors = if group.is_conversation { 1.0 } else { NOTE_NEIGHBORS };
        let ordinal = self.list[row].ordinal as usize;
        for other in row.saturating_sub(NEIGHBOR_DISTANCE_MAX).max(rows.start)
            ..(row + NEIGHBOR_DISTANCE_MAX + 1).min(rows.end)
        {
            let distance = ordinal.abs_diff(self.list[other].ordinal as usize);
            let Some(spread) = NEIGHBOR_WEIGHTS.get(distance) else { continue };
            let ring = DISTANCE_RINGS[distance];
            let factor = if distance == 0 { 1.0 } else { neighbors };
            let spread = factor * spread;
            around.lengths[ring] += spread * self.list[other].length;
            if !self.list[other].has_match {
                continue;
            }
            let hits = &self.hits[other * self.width + lane];
            let times = Lane::splat(spread);
            around.counts[ring] += times * hits.exact;
            around.similar[ring.min(1)] += times * hits.similar;
            around.near =
                around.near.fast_max(Lane::splat(factor * FADE_NEAR[distance]) * hits.nearest);
            around.far =
                around.far.fast_max(Lane::splat(factor * FADE_FAR[distance]) * hits.nearest);
        }
        around.accumulate();
        around
    }

    /// Divides the first features by their largest value among the rows, but at least by the lower bounds.
    fn normalize(&mut self, total: f32) {
        let mut most: [f32; SCALED] = std::array::from_fn(|feature| match feature {
            0..5 | 12..14 => WORDS_FLOOR * total,
            5..10 => WORD_SIMILARITY_FLOOR,
            _ => TEXT_SIMILARITY_FLOOR,
        });
        for row in &self.list {
            keep_maximum(&mut most, &row.features[..SCALED]);
        }
        for row in &mut self.list {
            divide(&mut row.features[..SCALED], &most);
        }
        self.largest = most;
    }

    /// Returns the candidate entries of a memory.
    pub(crate) fn entries(&self, group: &RowGroup) -> impl Iterator<Item = u32> {
        self.list[group.rows.clone()].iter().map(|row| row.entry)
    }

    /// Returns how well the best row of a memory has a word, from 0 to 1, and the highest similarity to it.
    pub(crate) fn best_match(&self, group: &RowGroup, word: usize) -> (f32, f32) {
        let rows = group.rows.clone().map(|row| &self.hits[row * self.width + word / LANES]);
        rows.fold((0.0, 0.0), |(same, near), hits| {
            let of = |lane: &Lane| lane.as_array()[word % LANES];
            (of(&hits.has()).max(same), of(&hits.nearest).max(near))
        })
    }

    /// Returns how much of the question the rows of a memory cover.
    pub(crate) fn coverage(&self, query: &PromptQuery, group: &RowGroup) -> Coverage {
        let mut coverage = Coverage::default();
        for (index, term) in query.terms.iter().enumerate() {
            let (exact, nearest) = self.best_match(group, index);
            let exact = exact.min(1.0);
            let weight = term.answer_weight();
            let similar = ((nearest - SIMILARITY_MIN) / (1.0 - SIMILARITY_MIN)).max(0.0) - exact;
            coverage.total += weight;
            coverage.exact += weight * exact;
            coverage.similar_words += weight * similar.max(0.0);
        }
        coverage
    }

    /// Returns the share of the question that the best entry of a memory covers.
    pub(crate) fn best_entry_share(&self, query: &PromptQuery, group: &RowGroup) -> f32 {
        let total: f32 = query.terms.iter().map(QueryTerm::answer_weight).sum();
        let of_row = |row: usize| {
            let terms = query.terms.iter().enumerate();
            let weights = terms.map(|(index, term)| {
                let hits = &self.hits[row * self.width + index / LANES];
                term.answer_weight() * hits.has().as_array()[index % LANES]
            });
            weights.sum::<f32>()
        };
        Coverage { total, ..Coverage::default() }
            .share_of(group.rows.clone().map(of_row).fold(0.0, f32::max))
    }

    /// Returns the weight of the words that one memory has and another has not.
    pub(crate) fn extra_coverage(
        &self,
        query: &PromptQuery,
        one: &RowGroup,
        other: &RowGroup,
    ) -> f32 {
        let has = |group: &RowGroup, index: usize| self.best_match(group, index).0.min(1.0);
        let terms = query.terms.iter().enumerate();
        terms
            .map(|(index, term)| {
                term.answer_weight() * (has(one, index) - has(other, index)).max(0.0)
            })
            .sum()
    }

    /// Returns the similarity of a memory's rows to the question: of the best entry and the whole memory by text
    /// vectors, and of the best entry by words.
    pub(crate) fn similarity(&self, group: &RowGroup) -> ([f32; 2], f32) {
        let rows = &self.list[group.rows.clone()];
        let largest = |feature: usize| {
            let of_rows = rows.iter().map(|row| row.features[feature]);
            of_rows.fold(0.0, f32::max) * self.largest[feature]
        };
        ([largest(TEXT_SIMILARITY), largest(TEXT_SIMILARITY + 1)], largest(WORD_SIMILARITY))
    }

    /// Returns the similarity of each row by the encoder, from 0 to 1. An entry without a vector has the similarity that
    /// entries like it have on average, by the built-in vectors, which were trained to imitate the encoder.
    pub(crate) fn encoder_similarities(&self, dense: &DenseScores) -> Vec<f32> {
        let built_in = |row: &CandidateRow| {
            let similarity = row.features[TEXT_SIMILARITY] * self.largest[TEXT_SIMILARITY];
            BUILT_IN_SLOPE * similarity + BUILT_IN_BASE
        };
        let of = |row: &CandidateRow| {
            dense.similarity(row.entry).unwrap_or_else(|| built_in(row)).max(0.0)
        };
        self.list.iter().map(of).collect()
    }

    /// Returns the features of a memory. `uncovered_share` is the part of the question, from 0 to 1, that no memory
    /// covers with its own words.
    pub(crate) fn memory_features(
        &self,
        group: &RowGroup,
        scores: &[f32],
        coverage: &Coverage,
        uncovered_share: f32,
    ) -> [f32; MEMORY] {
        let mut own: Vec<f32> = scores[group.rows.clone()].to_vec();
        own.sort_unstable_by(|a, b| b.total_cmp(a));
        let best = own.first().copied().unwrap_or(0.0);
        let three = own.iter().take(3).sum::<f32>() / own.len().clamp(1, 3) as f32;
        let all = own.iter().take(8).map(|score| (score - best).exp()).sum::<f32>().ln() + best;
        let mut features = [0.0; MEMORY];
        features[..3].copy_from_slice(&[best, three, all]);
        let mut largest = [0.0; ENTRY];
        for row in &self.list[group.rows.clone()] {
            keep_maximum(&mut largest, &row.features);
        }
        for (feature, of_entry) in features[3..].iter_mut().zip(MAXIMUM_FEATURES) {
            *feature = largest[of_entry];
        }
        features[15] = (own.len() as f32).ln();
        features[16..FIRST_LOW_COVERAGE].copy_from_slice(&group.rarity_scores);
        let uncovered = uncovered_share / own.len().max(1) as f32;
        for (feature, of) in (FIRST_LOW_COVERAGE..).zip(LOW_COVERAGE_FEATURES) {
            features[feature] = uncovered * features[of];
        }
        let absolute = [
            largest[IDENTIFIERS],
            largest[RAREST_WORD],
            largest[PROMPT_SHARE],
            coverage.exact_share(),
            group.header_share,
        ];
        features[FIRST_ABSOLUTE..].copy_from_slice(&absolute);
        features
    }
}

/// Sets the features that do not depend on matching words.
fn set_flags(
    corpus: &Corpus,
    query: &PromptQuery,
    entry: &IndexedEntry,
    features: &mut [f32; ENTRY],
) {
    let memory = corpus.memories[entry.memory as usize].as_ref();
    let before = (entry.ordinal as usize).checked_sub(1);
    let before = before.and_then(|ordinal| memory?.entries.get(ordinal));
    let before = before.and_then(|id| corpus.entries[*id as usize].as_ref());
    features[SUBJECT] = as_number(query.is_about(entry));
    features[ASKS_QUESTION] = as_number(entry.asks_question);
    features[16] = as_number(before.is_some_and(|before| before.asks_question));
    features[17] = entry.own_words_log.min(LENGTH_LOG_MAX) / LENGTH_LOG_MAX;
    features[18] = as_number(query.asks_when && entry.has_time_word);
}

/// Returns the similarity of a text to the question; 0 if vectors are not used.
fn text_similarity<'a>(query: &PromptQuery, own: impl FnOnce() -> Option<&'a [i8]>) -> f32 {
    let own = if query.text_vector.is_empty() { None } else { own() };
    own.map_or(0.0, |own| cosine_similarity(&query.text_vector, own).max(0.0))
}

/// Returns 1 for true and 0 for false.
pub(crate) fn as_number(is: bool) -> f32 {
    if is { 1.0 } else { 0.0 }
}
