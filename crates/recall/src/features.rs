//! What speaks for an entry and for a memory, as numbers.
//!
//! Each entry that was found worth a look is compared with the question word by word, alone, with its
//! neighbours and with its whole memory. Nothing here weighs one number against another: `weights` does.

use std::ops::Range;

use crate::corpus::{Corpus, Entry};
use crate::embedder::nearness;
use crate::lanes::{add, filled_up, keep_largest, sum_of};
use crate::question::{Question, WORDS_MAX};

/// How far the neighbours of an entry reach.
pub(crate) const REACH: usize = 4;
/// What the neighbours of an entry add to its words, by their distance.
const SPREAD: [f32; REACH + 1] = [1.0, 0.6, 0.4, 0.4, 0.4];
/// How much of what a neighbour means is left at its distance, when few and when many are asked.
const FADE_NEAR: [f32; REACH + 1] = [1.0, 0.7, 0.5, 0.0, 0.0];
const FADE_FAR: [f32; REACH + 1] = [1.0, 0.88, 0.76, 0.64, 0.52];
/// The distances up to which the words of neighbours are added up.
const REACHES: [usize; 3] = [1, 2, REACH];
/// BM25: how soon a word said again says no more, and how much a long text is held against it.
const SATURATION: f32 = 1.2;
const LENGTH: f32 = 0.75;

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
];
pub(crate) const MEMORY: usize = 20;
/// Which features of its entries a memory has the largest of, in its order.
const LARGEST: [usize; 12] = [4, 8, 19, 20, 0, 2, 3, 5, 6, 7, 10, 11];

/// A number for each word of the question.
type PerWord = [f32; WORDS_MAX];

/// An entry that is looked at.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) entry: u32,
    pub(crate) memory: u32,
    pub(crate) features: [f32; ENTRY],
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
}

/// Rows, and what each has of each word of the question.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// Memory by memory, in the order of the entries.
    pub(crate) list: Vec<Row>,
    pub(crate) groups: Vec<Group>,
    /// Row by row, question word by question word, filled up: how much of it, and how near to it.
    pub(crate) counts: Vec<f32>,
    pub(crate) nears: Vec<f32>,
    /// How much of all that is near to it.
    pub(crate) kindred: Vec<f32>,
    pub(crate) width: usize,
}

impl Row {
    /// Returns the row of an entry, with nothing known of it.
    pub(crate) const fn of(id: u32, entry: &Entry) -> Self {
        Self {
            entry: id,
            memory: entry.memory,
            features: [0.0; ENTRY],
            ordinal: entry.ordinal,
            length: entry.length,
        }
    }
}

/// How much each word of the question tells.
struct Weights {
    each: Vec<f32>,
    total: f32,
}

impl Weights {
    fn of(mut each: Vec<f32>) -> Self {
        let total = each.iter().sum::<f32>().max(f32::EPSILON);
        each.resize(filled_up(each.len()), 0.0);
        Self { each, total }
    }

    /// BM25 of what is counted in a text that is so many times as long as others.
    fn bm25(&self, counts: &[f32], relative_length: f32) -> f32 {
        let held = SATURATION * (1.0 - LENGTH + LENGTH * relative_length);
        sum_of(counts, &self.each, |count, weight| {
            weight * count * (SATURATION + 1.0) / (count + held)
        })
    }

    /// How much of the question is met, from 0 to 1.
    fn met(&self, nears: &[f32]) -> f32 {
        sum_of(nears, &self.each, |near, weight| near * weight) / self.total
    }
}

/// An entry with its neighbours.
struct Around {
    counts: [PerWord; REACHES.len()],
    kindred: [PerWord; REACHES.len()],
    lengths: [f32; REACHES.len()],
    near: PerWord,
    far: PerWord,
}

impl Rows {
    /// Works the features of all rows out.
    pub(crate) fn fill(&mut self, corpus: &Corpus, question: &Question) {
        self.group();
        self.fill_rare(corpus, question);
        let weights = Weights::of(question.asked.iter().map(|asked| asked.weight).collect());
        let average = corpus.average_length();
        for group in 0..self.groups.len() {
            let Group { memory, rows, rare } = self.groups[group].clone();
            let held = corpus.memories[memory as usize].as_ref();
            let (month, day) = question.names(held.and_then(|held| held.date));
            let mut best = [0.0_f32; WORDS_MAX];
            for row in rows.clone() {
                keep_largest(&mut best, self.nears_of(row), 1.0);
            }
            let met = weights.met(&best);
            let of_memory = held.map_or(&[][..], |held| corpus.gist_of_memory(held));
            let gist = nearness(&question.gist, of_memory).max(0.0);
            for row in rows.clone() {
                let around = self.around(&rows, row);
                let features = &mut [0.0; ENTRY];
                features[0] = weights.bm25(self.counts_of(row), self.list[row].length / average);
                for (at, (counts, length)) in around.counts.iter().zip(around.lengths).enumerate() {
                    features[1 + at] = weights.bm25(counts, length / average);
                }
                features[4] = rare[0];
                features[5] = weights.met(self.nears_of(row));
                features[6] = weights.met(&around.near);
                features[7] = weights.met(&around.far);
                features[8] = met;
                features[9] = weights.met(&around.near.map(|near| near.powi(3)));
                features[10] = gist_of(corpus, question, self.list[row].entry);
                features[11] = gist;
                features[12] = weights.bm25(&around.kindred[0], around.lengths[0] / average);
                features[13] = weights.bm25(&around.kindred[2], around.lengths[2] / average);
                self.flags(corpus, question, row, features);
                features[MONTH] = flag(month);
                features[MONTH + 1] = flag(day);
                self.list[row].features = *features;
            }
        }
        self.scale(weights.total);
        self.answers();
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

    /// Finds which rows are of one memory.
    fn group(&mut self) {
        let mut start = 0;
        for of_memory in self.list.chunk_by(|a, b| a.memory == b.memory) {
            let rows = start..start + of_memory.len();
            start = rows.end;
            let memory = of_memory[0].memory;
            self.groups.push(Group { memory, rows, rare: [0.0; 4] });
        }
    }

    /// Works out what memories as wholes have of the question, by how few of them have it.
    fn fill_rare(&mut self, corpus: &Corpus, question: &Question) {
        let all = corpus.memories() as f32;
        let mut with = vec![0.0_f32; question.asked.len()];
        for group in &self.groups {
            for (at, with) in with.iter_mut().enumerate() {
                let mut rows = group.rows.clone();
                *with += flag(rows.any(|row| self.counts[row * self.width + at] > 0.0));
            }
        }
        let rare = |with: &f32| (1.0 + (all - with + 0.5).max(0.0) / (with + 0.5)).ln();
        let weights = Weights::of(with.iter().map(rare).collect());
        let lengths: f32 = self.list.iter().map(|row| row.length).sum();
        let average = (lengths / self.groups.len().max(1) as f32).max(1.0);
        let mut most = [f32::EPSILON; 4];
        for at in 0..self.groups.len() {
            let rows = self.groups[at].rows.clone();
            let (mut counts, mut nears, mut of_subject, mut kindred) =
                ([0.0; WORDS_MAX], [0.0; WORDS_MAX], [0.0; WORDS_MAX], [0.0; WORDS_MAX]);
            for row in rows.clone() {
                add(&mut counts, self.counts_of(row), 1.0);
                add(&mut kindred, self.kindred_of(row), 1.0);
                keep_largest(&mut nears, self.nears_of(row), 1.0);
                if self.is_about(corpus, question, row) {
                    keep_largest(&mut of_subject, self.nears_of(row), 1.0);
                }
            }
            let length: f32 = self.list[rows].iter().map(|row| row.length).sum();
            let made = [
                weights.bm25(&counts, length / average),
                weights.met(&nears),
                weights.met(&of_subject),
                weights.bm25(&kindred, length / average),
            ];
            for (most, made) in most.iter_mut().zip(made) {
                *most = most.max(made);
            }
            self.groups[at].rare = made;
        }
        for group in &mut self.groups {
            group.rare.iter_mut().zip(most).for_each(|(rare, most)| *rare /= most);
        }
    }

    /// Whether an entry begins with a name that the question has.
    fn is_about(&self, corpus: &Corpus, question: &Question, row: usize) -> bool {
        let entry = corpus.entries[self.list[row].entry as usize].as_ref();
        let subject = entry.and_then(|entry| entry.subject.as_ref());
        subject.is_some_and(|name| question.subjects.contains(name))
    }

    /// What is told by other things than words.
    fn flags(&self, corpus: &Corpus, question: &Question, row: usize, features: &mut [f32; ENTRY]) {
        let Some(entry) = corpus.entries[self.list[row].entry as usize].as_ref() else { return };
        let memory = corpus.memories[entry.memory as usize].as_ref();
        let before = (entry.ordinal as usize).checked_sub(1);
        let before = before.and_then(|at| memory?.entries.get(at));
        let before = before.and_then(|id| corpus.entries[*id as usize].as_ref());
        features[SUBJECT] = flag(self.is_about(corpus, question, row));
        features[ASKS] = flag(entry.asks);
        features[16] = flag(before.is_some_and(|before| before.asks));
        features[17] = entry.own_words_log / 4.0;
        features[18] = flag(question.asks_when && entry.tells_time);
    }

    /// Adds up an entry and its neighbours, those in `rows`.
    fn around(&self, rows: &Range<usize>, row: usize) -> Around {
        let mut around = Around {
            counts: [[0.0; WORDS_MAX]; REACHES.len()],
            kindred: [[0.0; WORDS_MAX]; REACHES.len()],
            lengths: [0.0; REACHES.len()],
            near: [0.0; WORDS_MAX],
            far: [0.0; WORDS_MAX],
        };
        let at = self.list[row].ordinal as usize;
        for other in row.saturating_sub(REACH).max(rows.start)..(row + REACH + 1).min(rows.end) {
            let distance = at.abs_diff(self.list[other].ordinal as usize);
            let Some(spread) = SPREAD.get(distance) else { continue };
            for (to, reach) in REACHES.into_iter().enumerate() {
                if distance <= reach {
                    add(&mut around.counts[to], self.counts_of(other), *spread);
                    add(&mut around.kindred[to], self.kindred_of(other), *spread);
                    around.lengths[to] += spread * self.list[other].length;
                }
            }
            keep_largest(&mut around.near, self.nears_of(other), FADE_NEAR[distance]);
            keep_largest(&mut around.far, self.nears_of(other), FADE_FAR[distance]);
        }
        for (to, reach) in REACHES.into_iter().enumerate() {
            around.lengths[to] /= SPREAD[0] + 2.0 * SPREAD[1..=reach].iter().sum::<f32>();
        }
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
            most.iter_mut().zip(row.features).for_each(|(most, of)| *most = most.max(of));
        }
        for row in &mut self.list {
            row.features.iter_mut().zip(most).for_each(|(of, most)| *of /= most);
        }
    }

    /// Returns the entries of a memory that were looked at.
    pub(crate) fn entries(&self, group: &Group) -> impl Iterator<Item = u32> {
        self.list[group.rows.clone()].iter().map(|row| row.entry)
    }

    pub(crate) fn nears_of(&self, row: usize) -> &[f32] {
        &self.nears[row * self.width..(row + 1) * self.width]
    }

    fn kindred_of(&self, row: usize) -> &[f32] {
        &self.kindred[row * self.width..(row + 1) * self.width]
    }

    pub(crate) fn counts_of(&self, row: usize) -> &[f32] {
        &self.counts[row * self.width..(row + 1) * self.width]
    }

    /// Returns the features of a memory, given how well each row fits.
    pub(crate) fn of_memory(&self, group: &Group, scores: &[f32]) -> [f32; MEMORY] {
        let mut own: Vec<f32> = scores[group.rows.clone()].to_vec();
        own.sort_by(|a, b| b.total_cmp(a));
        let best = own.first().copied().unwrap_or(0.0);
        let three = own.iter().take(3).sum::<f32>() / own.len().clamp(1, 3) as f32;
        let all = own.iter().take(8).map(|score| (score - best).exp()).sum::<f32>().ln() + best;
        let mut features = [0.0; MEMORY];
        features[..3].copy_from_slice(&[best, three, all]);
        for (at, of_entry) in LARGEST.into_iter().enumerate() {
            let rows = self.list[group.rows.clone()].iter();
            features[3 + at] = rows.map(|row| row.features[of_entry]).fold(0.0, f32::max);
        }
        features[15] = (own.len() as f32).ln();
        features[16..].copy_from_slice(&group.rare);
        features
    }
}

/// How near an entry as a whole is to the question.
fn gist_of(corpus: &Corpus, question: &Question, entry: u32) -> f32 {
    let entry = corpus.entries[entry as usize].as_ref();
    let own = entry.map_or(&[][..], |entry| corpus.gist(entry));
    nearness(&question.gist, own).max(0.0)
}

fn flag(is: bool) -> f32 {
    if is { 1.0 } else { 0.0 }
}
