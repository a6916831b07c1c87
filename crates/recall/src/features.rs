//! What speaks for an entry and for a memory, as numbers.
//!
//! Each entry that was found worth a look is compared with the question word by word, alone, with its
//! neighbours and with its whole memory. Nothing here weighs one number against another: `weights` does.

use std::ops::Range;

use wide::f32x8 as Lane;

use crate::corpus::{Corpus, Entry};
use crate::embedder::nearness;
use crate::question::Question;

/// How many words of a question are counted side by side.
pub(crate) const LANES: usize = 8;
/// How far the neighbours of an entry reach.
pub(crate) const REACH: usize = 4;
/// What the neighbours of an entry add to its words, by their distance.
const SPREAD: [f32; REACH + 1] = [1.0, 0.6, 0.4, 0.4, 0.4];
/// How much of what a neighbour means is left at its distance, when few and when many are asked.
const FADE_NEAR: [f32; REACH + 1] = [1.0, 0.7, 0.5, 0.0, 0.0];
const FADE_FAR: [f32; REACH + 1] = [1.0, 0.88, 0.76, 0.64, 0.52];
/// The distances up to which the words of neighbours are added up; in which of these a distance comes first; and how
/// many texts each adds up.
const REACHES: [usize; 3] = [1, 2, REACH];
const RINGS: [usize; REACH + 1] = [0, 0, 1, 2, 2];
const TEXTS: [f32; REACHES.len()] = [2.2, 3.0, 4.6];
/// BM25: how soon a word said again says no more, and how much a long text is held against it.
const SATURATION: f32 = 1.2;
const LENGTH: f32 = 0.75;

/// From which nearness on another word counts towards an answer.
const NEAR_FROM: f32 = 0.55;

/// The least that counts as much: of what all words tell together, of how far the question is met, and of how
/// near a text as a whole is to it. Less than that in the best entry is little in all.
const WORDS_FLOOR: f32 = 0.4;
const SENSE_FLOOR: f32 = 0.4;
const GIST_FLOOR: f32 = 0.5;

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
const SENSE: usize = 5;
const GIST: usize = 10;
/// Where the features stand that are reasons by themselves.
pub(crate) const SUBJECT: usize = 14;
pub(crate) const MONTH: usize = 19;
/// Whether an entry asks something; what the entry after it has of it, and from where on.
const ASKS: usize = 15;
const OF_BEFORE: [usize; 2] = [0, 10];
const BEFORE: usize = 21;

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
const FIRST_WHEN_LITTLE: usize = 20;
const WHEN_LITTLE: [usize; MEMORY - FIRST_WHEN_LITTLE] = [13, 14, 0, 7, 10, 16, 17];
/// Which features of its entries a memory has the largest of, in its order.
const LARGEST: [usize; 12] = [4, 8, 19, 20, 0, 2, 3, 5, 6, 7, 10, 11];

/// What a text has of as many words of the question as a lane holds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hits {
    /// How much of each.
    pub(crate) same: Lane,
    /// How much of all that is near to it.
    pub(crate) kindred: Lane,
    /// How near the nearest is.
    pub(crate) near: Lane,
}

/// An entry that is looked at.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) entry: u32,
    pub(crate) memory: u32,
    pub(crate) features: [f32; ENTRY],
    /// Whether it has anything of the question.
    pub(crate) is_met: bool,
    ordinal: u32,
    length: f32,
}

/// The rows of one memory.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) memory: u32,
    pub(crate) rows: Range<usize>,
    /// What its words, its sense and what its subject says tell by how few memories have them.
    rare: [f32; 4],
    /// How many words its rows have.
    length: f32,
}

/// What the rows of a memory have together of a lane of words.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    all: Hits,
    /// How near those are that begin with a name that the question has.
    of_subject: Lane,
    /// Whether they have anything of it.
    is_met: bool,
}

/// How much of the question's words a memory has, or others for them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fit {
    /// How much the words tell that it has.
    pub(crate) same: f32,
    /// How much those tell that it has others for.
    pub(crate) near: f32,
    /// How much all words tell.
    pub(crate) total: f32,
}

impl Fit {
    /// What little counts as much, when a share of all that is told is taken.
    const LITTLE: f32 = 0.3;

    /// How much is told by its own words or by others for them.
    pub(crate) fn all(&self) -> f32 {
        self.same + self.near
    }

    /// Which share of what could be told is told by its own words.
    pub(crate) fn share(&self) -> f32 {
        self.share_of(self.same)
    }

    /// Which share of what could be told this much is.
    pub(crate) fn share_of(&self, told: f32) -> f32 {
        told / (self.total + Self::LITTLE)
    }
}

/// Rows, and what each has of each word of the question.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// Memory by memory, in the order of the entries.
    pub(crate) list: Vec<Row>,
    pub(crate) groups: Vec<Group>,
    /// Row by row, lane by lane.
    pub(crate) hits: Vec<Hits>,
    /// How many lanes the words of the question take.
    pub(crate) width: usize,
    /// The largest of each that was divided by it.
    largest: [f32; SCALED],
}

impl Row {
    /// Returns the row of an entry, with nothing known of it.
    pub(crate) const fn of(id: u32, entry: &Entry) -> Self {
        Self {
            entry: id,
            memory: entry.memory,
            features: [0.0; ENTRY],
            is_met: false,
            ordinal: entry.ordinal,
            length: entry.length,
        }
    }
}

impl Group {
    /// Returns the group of rows that are of one memory.
    pub(crate) fn of(memory: u32, rows: Range<usize>, list: &[Row]) -> Self {
        let length = list[rows.clone()].iter().map(|row| row.length).sum();
        Self { memory, rows, rare: [0.0; 4], length }
    }
}

/// How much each word of the question tells, and which share of all that is.
struct Weights {
    each: Vec<Lane>,
    shares: Vec<Lane>,
    total: f32,
}

impl Weights {
    fn of(weights: impl Iterator<Item = f32>) -> Self {
        let weights: Vec<f32> = weights.collect();
        let total = weights.iter().sum::<f32>().max(f32::EPSILON);
        let each = weights.chunks(LANES).map(Lane::from).collect::<Vec<_>>();
        let shares = each.iter().map(|each| *each / Lane::splat(total)).collect();
        Self { each, shares, total }
    }

    /// BM25 of what is counted of a lane of words in a text that is so many times as long as others.
    fn bm25(&self, lane: usize, counts: Lane, relative_length: f32) -> f32 {
        let held = SATURATION * (1.0 - LENGTH + LENGTH * relative_length);
        let of_each = self.each[lane] * counts / (counts + Lane::splat(held));
        (SATURATION + 1.0) * of_each.reduce_add()
    }

    /// How much of the question is met in a lane of words; 1 is all of it.
    fn met(&self, lane: usize, near: Lane) -> f32 {
        (near * self.shares[lane]).reduce_add()
    }
}

/// Keeps the larger of each number of two lists.
fn keep_largest(largest: &mut [f32], more: &[f32]) {
    largest.iter_mut().zip(more).for_each(|(largest, more)| *largest = largest.max(*more));
}

/// Divides each number by one of another list.
fn divide(numbers: &mut [f32], by: &[f32]) {
    numbers.iter_mut().zip(by).for_each(|(number, by)| *number /= by);
}

/// What an entry and its neighbours have of a lane of words.
#[derive(Default)]
struct Around {
    /// By the distances of [`REACHES`].
    counts: [Lane; REACHES.len()],
    lengths: [f32; REACHES.len()],
    /// Of the next and of all.
    kindred: [Lane; 2],
    near: Lane,
    far: Lane,
}

impl Around {
    /// Adds what is nearer to what is further, and divides lengths by how many texts they are of.
    fn close(&mut self) {
        for ring in 1..REACHES.len() {
            self.counts[ring] += self.counts[ring - 1];
            self.lengths[ring] += self.lengths[ring - 1];
        }
        self.kindred[1] += self.kindred[0];
        for (length, texts) in self.lengths.iter_mut().zip(TEXTS) {
            *length /= texts;
        }
    }
}

impl Rows {
    /// Returns none in the room of these.
    pub(crate) fn emptied(mut self) -> Self {
        self.list.clear();
        self.groups.clear();
        self.hits.clear();
        self
    }

    /// Works the features of all rows out.
    pub(crate) fn fill(&mut self, corpus: &Corpus, question: &Question) {
        let mut sums: Vec<Sums> = Vec::with_capacity(self.groups.len() * self.width);
        for group in &self.groups {
            sums.extend(self.sums(corpus, question, group));
        }
        self.fill_rare(corpus, question.asked.len(), &sums);
        let weights = Weights::of(question.asked.iter().map(|asked| asked.weight));
        let average = corpus.average_length();
        for (at, group) in self.groups.iter().enumerate() {
            let held = corpus.memories[group.memory as usize].as_ref();
            let (month, day) = question.names(held.and_then(|held| held.date));
            let mut features = [0.0; ENTRY];
            features[4] = group.rare[0];
            features[8] = (0..self.width)
                .map(|lane| weights.met(lane, sums[at * self.width + lane].all.near))
                .sum();
            features[11] = gist_of(question, || held.map(|held| corpus.gist_of_memory(held)));
            features[MONTH] = flag(month);
            features[MONTH + 1] = flag(day);
            for row in group.rows.clone() {
                let mut features = features;
                let of_group = &sums[at * self.width..][..self.width];
                for lane in (0..self.width).filter(|lane| of_group[*lane].is_met) {
                    let around = self.around(&group.rows, row, lane);
                    self.words_of(row, lane, (&around, &weights, average), &mut features);
                }
                if let Some(entry) = corpus.entries[self.list[row].entry as usize].as_ref() {
                    flags(corpus, question, entry, &mut features);
                    features[10] = gist_of(question, || Some(corpus.gist(entry)));
                }
                self.list[row].features = features;
            }
        }
        self.scale(weights.total);
        self.answers();
    }

    /// Adds what a lane of words tells, in an entry and in its neighbours.
    fn words_of(
        &self,
        row: usize,
        lane: usize,
        (around, weights, average): (&Around, &Weights, f32),
        features: &mut [f32; ENTRY],
    ) {
        let lengths = around.lengths.map(|length| length / average);
        if self.list[row].is_met {
            let own = &self.hits[row * self.width + lane];
            features[0] += weights.bm25(lane, own.same, self.list[row].length / average);
            features[5] += weights.met(lane, own.near);
        }
        for (at, (counts, length)) in around.counts.iter().zip(lengths).enumerate() {
            features[1 + at] += weights.bm25(lane, *counts, length);
        }
        features[6] += weights.met(lane, around.near);
        features[7] += weights.met(lane, around.far);
        features[9] += weights.met(lane, around.near * around.near * around.near);
        features[12] += weights.bm25(lane, around.kindred[0], lengths[0]);
        features[13] += weights.bm25(lane, around.kindred[1], lengths[REACHES.len() - 1]);
    }

    /// Tells entries that come after a question how well that question fits: they may be its answer.
    fn answers(&mut self) {
        for row in 1..self.list.len() {
            let (before, after) = (&self.list[row - 1], &self.list[row]);
            let follows = before.memory == after.memory && before.ordinal + 1 == after.ordinal;
            if follows && before.features[ASKS] > 0.0 {
                let asked = OF_BEFORE.map(|at| before.features[at]);
                self.list[row].features[BEFORE..].copy_from_slice(&asked);
            }
        }
    }

    /// Adds up what a memory has of the question, lane by lane.
    fn sums(
        &self,
        corpus: &Corpus,
        question: &Question,
        group: &Group,
    ) -> impl Iterator<Item = Sums> {
        let is_about = |row: &usize| {
            let entry = corpus.entries[self.list[*row].entry as usize].as_ref();
            entry.is_some_and(|entry| question.is_about(entry))
        };
        let rows = group.rows.clone();
        (0..self.width).map(move |lane| {
            let of = |row: usize| &self.hits[row * self.width + lane];
            let mut sums = Sums::default();
            for of in rows.clone().map(of) {
                sums.all.same += of.same;
                sums.all.kindred += of.kindred;
                sums.all.near = sums.all.near.fast_max(of.near);
            }
            sums.is_met = sums.all.near != Lane::ZERO;
            for of in rows.clone().filter(is_about).map(of) {
                sums.of_subject = sums.of_subject.fast_max(of.near);
            }
            sums
        })
    }

    /// Works out what memories as wholes have of the question, by how few of them have it.
    fn fill_rare(&mut self, corpus: &Corpus, words: usize, sums: &[Sums]) {
        let all = corpus.memories() as f32;
        let mut with = vec![[0.0_f32; LANES]; self.width];
        for of in sums.chunks_exact(self.width.max(1)) {
            let counts = of.iter().flat_map(|of| of.all.same.as_array());
            let with = with.as_flattened_mut().iter_mut().zip(counts);
            with.for_each(|(with, count)| *with += flag(*count > 0.0));
        }
        let rare = |with: &f32| (1.0 + (all - with + 0.5).max(0.0) / (with + 0.5)).ln();
        let weights = Weights::of(with.as_flattened().iter().take(words).map(rare));
        let lengths: f32 = self.groups.iter().map(|group| group.length).sum();
        let average = (lengths / self.groups.len().max(1) as f32).max(1.0);
        let mut most = [f32::EPSILON; 4];
        for (group, of) in self.groups.iter_mut().zip(sums.chunks_exact(self.width.max(1))) {
            let length = group.length / average;
            for (lane, of) in of.iter().enumerate() {
                group.rare[0] += weights.bm25(lane, of.all.same, length);
                group.rare[1] += weights.met(lane, of.all.near);
                group.rare[2] += weights.met(lane, of.of_subject);
                group.rare[3] += weights.bm25(lane, of.all.kindred, length);
            }
            keep_largest(&mut most, &group.rare);
        }
        for group in &mut self.groups {
            divide(&mut group.rare, &most);
        }
    }

    /// Adds up what an entry and its neighbours have of a lane of words; all are in `rows`.
    fn around(&self, rows: &Range<usize>, row: usize, lane: usize) -> Around {
        let mut around = Around::default();
        let at = self.list[row].ordinal as usize;
        for other in row.saturating_sub(REACH).max(rows.start)..(row + REACH + 1).min(rows.end) {
            let distance = at.abs_diff(self.list[other].ordinal as usize);
            let Some(spread) = SPREAD.get(distance) else { continue };
            let ring = RINGS[distance];
            around.lengths[ring] += spread * self.list[other].length;
            if !self.list[other].is_met {
                continue;
            }
            let hits = &self.hits[other * self.width + lane];
            let times = Lane::splat(*spread);
            around.counts[ring] += times * hits.same;
            around.kindred[ring.min(1)] += times * hits.kindred;
            around.near = around.near.fast_max(Lane::splat(FADE_NEAR[distance]) * hits.near);
            around.far = around.far.fast_max(Lane::splat(FADE_FAR[distance]) * hits.near);
        }
        around.close();
        around
    }

    /// Divides what is told by words and sense by the largest of the question, unless that is little.
    fn scale(&mut self, total: f32) {
        let mut most: [f32; SCALED] = std::array::from_fn(|at| match at {
            0..5 | 12..14 => WORDS_FLOOR * total,
            5..10 => SENSE_FLOOR,
            _ => GIST_FLOOR,
        });
        for row in &self.list {
            keep_largest(&mut most, &row.features[..SCALED]);
        }
        for row in &mut self.list {
            divide(&mut row.features[..SCALED], &most);
        }
        self.largest = most;
    }

    /// Returns the entries of a memory that were looked at.
    pub(crate) fn entries(&self, group: &Group) -> impl Iterator<Item = u32> {
        self.list[group.rows.clone()].iter().map(|row| row.entry)
    }

    /// Returns how much the rows of a memory have of a word of the question at most, and how near they are to it.
    pub(crate) fn most_of(&self, group: &Group, word: usize) -> (f32, f32) {
        let rows = group.rows.clone().map(|row| &self.hits[row * self.width + word / LANES]);
        rows.fold((0.0, 0.0), |(same, near), hits| {
            let of = |lane: &Lane| lane.as_array()[word % LANES];
            (of(&hits.same).max(same), of(&hits.near).max(near))
        })
    }

    /// Returns how much of the question's words the rows of a memory have, or others for them.
    pub(crate) fn fit(&self, question: &Question, group: &Group) -> Fit {
        let mut fit = Fit::default();
        for (at, asked) in question.asked.iter().enumerate() {
            let (own, nearest) = self.most_of(group, at);
            let own = own.min(1.0);
            let weight = asked.worth();
            let near = ((nearest - NEAR_FROM) / (1.0 - NEAR_FROM)).max(0.0) - own;
            fit.total += weight;
            fit.same += weight * own;
            fit.near += weight * near.max(0.0);
        }
        fit
    }

    /// Returns how much is told by those of the question's words that one memory has and another has not.
    pub(crate) fn beyond(&self, question: &Question, one: &Group, other: &Group) -> f32 {
        let has = |group: &Group, at: usize| self.most_of(group, at).0.min(1.0);
        let asked = question.asked.iter().enumerate();
        asked.map(|(at, asked)| asked.worth() * (has(one, at) - has(other, at)).max(0.0)).sum()
    }

    /// Returns how near the rows of a memory are to the question: the nearest entry and the whole memory by what
    /// they mean, and the nearest entry word by word.
    pub(crate) fn nearness(&self, group: &Group) -> ([f32; 2], f32) {
        let rows = &self.list[group.rows.clone()];
        let most = |at: usize| {
            let of_rows = rows.iter().map(|row| row.features[at]);
            of_rows.fold(0.0, f32::max) * self.largest[at]
        };
        ([most(GIST), most(GIST + 1)], most(SENSE))
    }

    /// Returns the features of a memory, given how well each row fits and how little the words tell of any memory,
    /// from 0 to 1.
    pub(crate) fn of_memory(&self, group: &Group, scores: &[f32], little: f32) -> [f32; MEMORY] {
        let mut own: Vec<f32> = scores[group.rows.clone()].to_vec();
        own.sort_unstable_by(|a, b| b.total_cmp(a));
        let best = own.first().copied().unwrap_or(0.0);
        let three = own.iter().take(3).sum::<f32>() / own.len().clamp(1, 3) as f32;
        let all = own.iter().take(8).map(|score| (score - best).exp()).sum::<f32>().ln() + best;
        let mut features = [0.0; MEMORY];
        features[..3].copy_from_slice(&[best, three, all]);
        let mut largest = [0.0; ENTRY];
        for row in &self.list[group.rows.clone()] {
            keep_largest(&mut largest, &row.features);
        }
        for (feature, of_entry) in features[3..].iter_mut().zip(LARGEST) {
            *feature = largest[of_entry];
        }
        features[15] = (own.len() as f32).ln();
        features[16..FIRST_WHEN_LITTLE].copy_from_slice(&group.rare);
        let little = little / own.len().max(1) as f32;
        for (at, of) in (FIRST_WHEN_LITTLE..).zip(WHEN_LITTLE) {
            features[at] = little * features[of];
        }
        features
    }
}

/// What is told by other things than words.
fn flags(corpus: &Corpus, question: &Question, entry: &Entry, features: &mut [f32; ENTRY]) {
    let memory = corpus.memories[entry.memory as usize].as_ref();
    let before = (entry.ordinal as usize).checked_sub(1);
    let before = before.and_then(|at| memory?.entries.get(at));
    let before = before.and_then(|id| corpus.entries[*id as usize].as_ref());
    features[SUBJECT] = flag(question.is_about(entry));
    features[ASKS] = flag(entry.asks);
    features[16] = flag(before.is_some_and(|before| before.asks));
    features[17] = entry.own_words_log / 4.0;
    features[18] = flag(question.asks_when && entry.tells_time);
}

/// How near a text as a whole is to the question, if meaning counts.
fn gist_of<'a>(question: &Question, own: impl FnOnce() -> Option<&'a [i8]>) -> f32 {
    let own = if question.gist.is_empty() { None } else { own() };
    own.map_or(0.0, |own| nearness(&question.gist, own).max(0.0))
}

/// A number for what is so, 1, or is not, 0.
pub(crate) fn flag(is: bool) -> f32 {
    if is { 1.0 } else { 0.0 }
}
