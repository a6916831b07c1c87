//! What speaks for an entry and for a memory, as numbers.
//!
//! Each entry that was found worth a look is compared with the question word by word, alone, with its
//! neighbours and with its whole memory. Nothing here weighs one number against another: `weights` does.

use std::ops::Range;

use wide::f32x8 as Lane;

use crate::corpus::{Corpus, IndexedEntry};
use crate::embedder::cosine_similarity;
use crate::query::PromptQuery;

/// How many words of a question are counted side by side.
pub(crate) const LANES: usize = 8;
/// How far the neighbours of an entry reach.
pub(crate) const NEIGHBOR_DISTANCE_MAX: usize = 4;
/// What the neighbours of an entry add to its words, by their distance.
const NEIGHBOR_WEIGHTS: [f32; NEIGHBOR_DISTANCE_MAX + 1] = [1.0, 0.6, 0.4, 0.4, 0.4];
/// How much of what a neighbour means is left at its distance, when few and when many are asked.
const FADE_NEAR: [f32; NEIGHBOR_DISTANCE_MAX + 1] = [1.0, 0.7, 0.5, 0.0, 0.0];
const FADE_FAR: [f32; NEIGHBOR_DISTANCE_MAX + 1] = [1.0, 0.88, 0.76, 0.64, 0.52];
/// The distances up to which the words of neighbours are added up; in which of these a distance comes first; and how
/// many texts each adds up.
const NEIGHBOR_DISTANCES: [usize; 3] = [1, 2, NEIGHBOR_DISTANCE_MAX];
const DISTANCE_RINGS: [usize; NEIGHBOR_DISTANCE_MAX + 1] = [0, 0, 1, 2, 2];
const TEXTS_PER_RING: [f32; NEIGHBOR_DISTANCES.len()] = [2.2, 3.0, 4.6];
/// BM25: how soon a word said again says no more, and how much a long text is held against it.
const SATURATION: f32 = 1.2;
const LENGTH: f32 = 0.75;

/// From which nearness on another word counts towards an answer.
const SIMILARITY_MIN: f32 = 0.55;

/// The least that counts as much: of what all words tell together, of how far the question is met, and of how
/// near a text as a whole is to it. Less than that in the best entry is little in all.
const WORDS_FLOOR: f32 = 0.4;
const WORD_SIMILARITY_FLOOR: f32 = 0.4;
const TEXT_SIMILARITY_FLOOR: f32 = 0.5;

/// What speaks for an entry.
pub const ENTRY_FEATURES: [&str; ENTRY] = [
    "words",
    "words near",
    "words around",
    "words far",
    "words of the memory",
    "sense",
    "sense around",
    "sense far",
    "sense of the memory",
    "sense around, sharp",
    "gist",
    "gist of the memory",
    "kindred words near",
    "kindred words far",
    "subject",
    "asks",
    "after a question",
    "length",
    "time",
    "month",
    "day",
    "words of the question before",
    "gist of the question before",
];
pub(crate) const ENTRY: usize = 23;
/// Those of an entry that are divided by the largest of the question: the first so many.
const SCALED: usize = 14;
/// Where those of an entry stand that tell how near it is in what it means.
const WORD_SIMILARITY: usize = 5;
const TEXT_SIMILARITY: usize = 10;
/// Where the features stand that are reasons by themselves.
pub(crate) const SUBJECT: usize = 14;
pub(crate) const MONTH: usize = 19;
/// Whether an entry asks something; what the entry after it has of it, and from where on.
const ASKS_QUESTION: usize = 15;
const QUESTION_FEATURES: [usize; 2] = [0, 10];
const AFTER_QUESTION: usize = 21;

/// What speaks for a memory.
pub const MEMORY_FEATURES: [&str; MEMORY] = [
    "best entry",
    "best three entries",
    "all entries",
    "words of the memory",
    "sense of the memory",
    "month",
    "day",
    "words",
    "words around",
    "words far",
    "sense",
    "sense around",
    "sense far",
    "gist",
    "gist of the memory",
    "entries",
    "rare words of the memory",
    "rare sense of the memory",
    "rare sense of the subject",
    "kindred words of the memory",
    "gist, little told",
    "gist of the memory, little told",
    "best entry, little told",
    "words, little told",
    "sense, little told",
    "rare words of the memory, little told",
    "rare sense of the memory, little told",
];
pub(crate) const MEMORY: usize = 27;
/// Where those stand that count when words tell little, the more the fewer entries a memory has; and of which they are.
const FIRST_LOW_COVERAGE: usize = 20;
const LOW_COVERAGE_FEATURES: [usize; MEMORY - FIRST_LOW_COVERAGE] = [13, 14, 0, 7, 10, 16, 17];
/// Which features of its entries a memory has the largest of, in its order.
const MAXIMUM_FEATURES: [usize; 12] = [4, 8, 19, 20, 0, 2, 3, 5, 6, 7, 10, 11];

/// What a text has of as many words of the question as a lane holds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LaneHits {
    /// How much of each.
    pub(crate) exact: Lane,
    /// How much of all that is near to it.
    pub(crate) similar: Lane,
    /// How near the nearest is.
    pub(crate) nearest: Lane,
}

/// An entry that is looked at.
#[derive(Clone, Debug)]
pub(crate) struct CandidateRow {
    pub(crate) entry: u32,
    pub(crate) memory: u32,
    pub(crate) features: [f32; ENTRY],
    /// Whether it has anything of the question.
    pub(crate) has_match: bool,
    ordinal: u32,
    length: f32,
}

/// The rows of one memory.
#[derive(Clone, Debug)]
pub(crate) struct RowGroup {
    pub(crate) memory: u32,
    pub(crate) rows: Range<usize>,
    /// What its words, its sense and what its subject says tell by how few memories have them.
    rarity_scores: [f32; 4],
    /// How many words its rows have.
    length: f32,
}

/// What the rows of a memory have together of a lane of words.
#[derive(Clone, Copy, Debug, Default)]
struct GroupHits {
    total: LaneHits,
    /// How near those are that begin with a name that the question has.
    of_subject: Lane,
    /// Whether they have anything of it.
    has_match: bool,
}

/// How much of the question's words a memory has, or others for them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Coverage {
    /// How much the words tell that it has.
    pub(crate) exact: f32,
    /// How much those tell that it has others for.
    pub(crate) similar_words: f32,
    /// How much all words tell.
    pub(crate) total: f32,
}

impl Coverage {
    /// What little counts as much, when a share of all that is told is taken.
    const SHARE_SMOOTHING: f32 = 0.3;

    /// How much is told by its own words or by others for them.
    pub(crate) fn combined(&self) -> f32 {
        self.exact + self.similar_words
    }

    /// Which share of what could be told is told by its own words.
    pub(crate) fn exact_share(&self) -> f32 {
        self.share_of(self.exact)
    }

    /// Which share of what could be told this much is.
    pub(crate) fn share_of(&self, told: f32) -> f32 {
        told / (self.total + Self::SHARE_SMOOTHING)
    }
}

/// Rows, and what each has of each word of the question.
#[derive(Debug, Default)]
pub(crate) struct CandidateRows {
    /// Memory by memory, in the order of the entries.
    pub(crate) list: Vec<CandidateRow>,
    pub(crate) groups: Vec<RowGroup>,
    /// Row by row, lane by lane.
    pub(crate) hits: Vec<LaneHits>,
    /// How many lanes the words of the question take.
    pub(crate) width: usize,
    /// The largest of each that was divided by it.
    largest: [f32; SCALED],
}

impl CandidateRow {
    /// Returns the row of an entry, with nothing known of it.
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
    /// Returns the group of rows that are of one memory.
    pub(crate) fn new(memory: u32, rows: Range<usize>, list: &[CandidateRow]) -> Self {
        let length = list[rows.clone()].iter().map(|row| row.length).sum();
        Self { memory, rows, rarity_scores: [0.0; 4], length }
    }
}

/// How much each word of the question tells, and which share of all that is.
struct TermWeights {
    by_lane: Vec<Lane>,
    shares: Vec<Lane>,
    total: f32,
}

impl TermWeights {
    fn from_weights(weights: impl Iterator<Item = f32>) -> Self {
        let weights: Vec<f32> = weights.collect();
        let total = weights.iter().sum::<f32>().max(f32::EPSILON);
        let each = weights.chunks(LANES).map(Lane::from).collect::<Vec<_>>();
        let shares = each.iter().map(|each| *each / Lane::splat(total)).collect();
        Self { by_lane: each, shares, total }
    }

    /// BM25 of what is counted of a lane of words in a text that is so many times as long as others.
    fn bm25(&self, lane: usize, counts: Lane, relative_length: f32) -> f32 {
        let held = SATURATION * (1.0 - LENGTH + LENGTH * relative_length);
        let of_each = self.by_lane[lane] * counts / (counts + Lane::splat(held));
        (SATURATION + 1.0) * of_each.reduce_add()
    }

    /// How much of the question is met in a lane of words; 1 is all of it.
    fn query_share(&self, lane: usize, near: Lane) -> f32 {
        (near * self.shares[lane]).reduce_add()
    }
}

/// Keeps the larger of each number of two lists.
fn keep_maximum(largest: &mut [f32], more: &[f32]) {
    largest.iter_mut().zip(more).for_each(|(largest, more)| *largest = largest.max(*more));
}

/// Divides each number by one of another list.
fn divide(numbers: &mut [f32], by: &[f32]) {
    numbers.iter_mut().zip(by).for_each(|(number, by)| *number /= by);
}

/// What an entry and its neighbours have of a lane of words.
#[derive(Default)]
struct Neighborhood {
    /// By the distances of [`NEIGHBOR_DISTANCES`].
    counts: [Lane; NEIGHBOR_DISTANCES.len()],
    lengths: [f32; NEIGHBOR_DISTANCES.len()],
    /// Of the next and of all.
    similar: [Lane; 2],
    near: Lane,
    far: Lane,
}

impl Neighborhood {
    /// Adds what is nearer to what is further, and divides lengths by how many texts they are of.
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
    /// Returns none in the room of these.
    pub(crate) fn cleared(mut self) -> Self {
        self.list.clear();
        self.groups.clear();
        self.hits.clear();
        self
    }

    /// Works the features of all rows out.
    pub(crate) fn compute_features(&mut self, corpus: &Corpus, question: &PromptQuery) {
        let mut sums: Vec<GroupHits> = Vec::with_capacity(self.groups.len() * self.width);
        for group in &self.groups {
            sums.extend(self.group_hits(corpus, question, group));
        }
        self.compute_rarity_scores(corpus, question.terms.len(), &sums);
        let weights = TermWeights::from_weights(question.terms.iter().map(|asked| asked.weight));
        let average = corpus.average_length();
        for (at, group) in self.groups.iter().enumerate() {
            let held = corpus.memories[group.memory as usize].as_ref();
            let (month, day) = question.matches_date(held.and_then(|held| held.date));
            let mut features = [0.0; ENTRY];
            features[4] = group.rarity_scores[0];
            features[8] = (0..self.width)
                .map(|lane| weights.query_share(lane, sums[at * self.width + lane].total.nearest))
                .sum();
            features[11] =
                text_similarity(question, || held.map(|held| corpus.memory_vector(held)));
            features[MONTH] = as_number(month);
            features[MONTH + 1] = as_number(day);
            for row in group.rows.clone() {
                let mut features = features;
                let of_group = &sums[at * self.width..][..self.width];
                for lane in (0..self.width).filter(|lane| of_group[*lane].has_match) {
                    let around = self.neighborhood(&group.rows, row, lane);
                    self.add_word_features(row, lane, (&around, &weights, average), &mut features);
                }
                if let Some(entry) = corpus.entries[self.list[row].entry as usize].as_ref() {
                    set_flags(corpus, question, entry, &mut features);
                    features[10] = text_similarity(question, || Some(corpus.entry_vector(entry)));
                }
                self.list[row].features = features;
            }
        }
        self.normalize(weights.total);
        self.add_question_features();
    }

    /// Adds what a lane of words tells, in an entry and in its neighbours.
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
        for (at, (counts, length)) in around.counts.iter().zip(lengths).enumerate() {
            features[1 + at] += weights.bm25(lane, *counts, length);
        }
        features[6] += weights.query_share(lane, around.near);
        features[7] += weights.query_share(lane, around.far);
        features[9] += weights.query_share(lane, around.near * around.near * around.near);
        features[12] += weights.bm25(lane, around.similar[0], lengths[0]);
        features[13] +=
            weights.bm25(lane, around.similar[1], lengths[NEIGHBOR_DISTANCES.len() - 1]);
    }

    /// Tells entries that come after a question how well that question fits: they may be its answer.
    fn add_question_features(&mut self) {
        for row in 1..self.list.len() {
            let (before, after) = (&self.list[row - 1], &self.list[row]);
            let follows = before.memory == after.memory && before.ordinal + 1 == after.ordinal;
            if follows && before.features[ASKS_QUESTION] > 0.0 {
                let asked = QUESTION_FEATURES.map(|at| before.features[at]);
                self.list[row].features[AFTER_QUESTION..].copy_from_slice(&asked);
            }
        }
    }

    /// Adds up what a memory has of the question, lane by lane.
    fn group_hits(
        &self,
        corpus: &Corpus,
        question: &PromptQuery,
        group: &RowGroup,
    ) -> impl Iterator<Item = GroupHits> {
        let is_about = |row: &usize| {
            let entry = corpus.entries[self.list[*row].entry as usize].as_ref();
            entry.is_some_and(|entry| question.is_about(entry))
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

    /// Works out what memories as wholes have of the question, by how few of them have it.
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

    /// Adds up what an entry and its neighbours have of a lane of words; all are in `rows`.
    fn neighborhood(&self, rows: &Range<usize>, row: usize, lane: usize) -> Neighborhood {
        let mut around = Neighborhood::default();
        let at = self.list[row].ordinal as usize;
        for other in row.saturating_sub(NEIGHBOR_DISTANCE_MAX).max(rows.start)
            ..(row + NEIGHBOR_DISTANCE_MAX + 1).min(rows.end)
        {
            let distance = at.abs_diff(self.list[other].ordinal as usize);
            let Some(spread) = NEIGHBOR_WEIGHTS.get(distance) else { continue };
            let ring = DISTANCE_RINGS[distance];
            around.lengths[ring] += spread * self.list[other].length;
            if !self.list[other].has_match {
                continue;
            }
            let hits = &self.hits[other * self.width + lane];
            let times = Lane::splat(*spread);
            around.counts[ring] += times * hits.exact;
            around.similar[ring.min(1)] += times * hits.similar;
            around.near = around.near.fast_max(Lane::splat(FADE_NEAR[distance]) * hits.nearest);
            around.far = around.far.fast_max(Lane::splat(FADE_FAR[distance]) * hits.nearest);
        }
        around.accumulate();
        around
    }

    /// Divides what is told by words and sense by the largest of the question, unless that is little.
    fn normalize(&mut self, total: f32) {
        let mut most: [f32; SCALED] = std::array::from_fn(|at| match at {
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

    /// Returns the entries of a memory that were looked at.
    pub(crate) fn entries(&self, group: &RowGroup) -> impl Iterator<Item = u32> {
        self.list[group.rows.clone()].iter().map(|row| row.entry)
    }

    /// Returns how much the rows of a memory have of a word of the question at most, and how near they are to it.
    pub(crate) fn best_match(&self, group: &RowGroup, word: usize) -> (f32, f32) {
        let rows = group.rows.clone().map(|row| &self.hits[row * self.width + word / LANES]);
        rows.fold((0.0, 0.0), |(same, near), hits| {
            let of = |lane: &Lane| lane.as_array()[word % LANES];
            (of(&hits.exact).max(same), of(&hits.nearest).max(near))
        })
    }

    /// Returns how much of the question's words the rows of a memory have, or others for them.
    pub(crate) fn coverage(&self, question: &PromptQuery, group: &RowGroup) -> Coverage {
        let mut fit = Coverage::default();
        for (at, asked) in question.terms.iter().enumerate() {
            let (own, nearest) = self.best_match(group, at);
            let own = own.min(1.0);
            let weight = asked.answer_weight();
            let near = ((nearest - SIMILARITY_MIN) / (1.0 - SIMILARITY_MIN)).max(0.0) - own;
            fit.total += weight;
            fit.exact += weight * own;
            fit.similar_words += weight * near.max(0.0);
        }
        fit
    }

    /// Returns how much is told by those of the question's words that one memory has and another has not.
    pub(crate) fn extra_coverage(
        &self,
        question: &PromptQuery,
        one: &RowGroup,
        other: &RowGroup,
    ) -> f32 {
        let has = |group: &RowGroup, at: usize| self.best_match(group, at).0.min(1.0);
        let asked = question.terms.iter().enumerate();
        asked
            .map(|(at, asked)| asked.answer_weight() * (has(one, at) - has(other, at)).max(0.0))
            .sum()
    }

    /// Returns how near the rows of a memory are to the question: the nearest entry and the whole memory by what
    /// they mean, and the nearest entry word by word.
    pub(crate) fn similarity(&self, group: &RowGroup) -> ([f32; 2], f32) {
        let rows = &self.list[group.rows.clone()];
        let most = |at: usize| {
            let of_rows = rows.iter().map(|row| row.features[at]);
            of_rows.fold(0.0, f32::max) * self.largest[at]
        };
        ([most(TEXT_SIMILARITY), most(TEXT_SIMILARITY + 1)], most(WORD_SIMILARITY))
    }

    /// Returns the features of a memory, given how well each row fits and how little the words tell of any memory,
    /// from 0 to 1.
    pub(crate) fn memory_features(
        &self,
        group: &RowGroup,
        scores: &[f32],
        little: f32,
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
        let little = little / own.len().max(1) as f32;
        for (at, of) in (FIRST_LOW_COVERAGE..).zip(LOW_COVERAGE_FEATURES) {
            features[at] = little * features[of];
        }
        features
    }
}

/// What is told by other things than words.
fn set_flags(
    corpus: &Corpus,
    question: &PromptQuery,
    entry: &IndexedEntry,
    features: &mut [f32; ENTRY],
) {
    let memory = corpus.memories[entry.memory as usize].as_ref();
    let before = (entry.ordinal as usize).checked_sub(1);
    let before = before.and_then(|at| memory?.entries.get(at));
    let before = before.and_then(|id| corpus.entries[*id as usize].as_ref());
    features[SUBJECT] = as_number(question.is_about(entry));
    features[ASKS_QUESTION] = as_number(entry.asks_question);
    features[16] = as_number(before.is_some_and(|before| before.asks_question));
    features[17] = entry.own_words_log / 4.0;
    features[18] = as_number(question.asks_when && entry.has_time_word);
}

/// How near a text as a whole is to the question, if meaning counts.
fn text_similarity<'a>(question: &PromptQuery, own: impl FnOnce() -> Option<&'a [i8]>) -> f32 {
    let own = if question.text_vector.is_empty() { None } else { own() };
    own.map_or(0.0, |own| cosine_similarity(&question.text_vector, own).max(0.0))
}

/// A number for what is so, 1, or is not, 0.
pub(crate) fn as_number(is: bool) -> f32 {
    if is { 1.0 } else { 0.0 }
}
