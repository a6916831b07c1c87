//! Dense scores: the similarity of entries to a prompt, by vectors of an embedding model.
//!
//! The vectors come from one of two sources. The encoder of this project has a known scale: its similarities are
//! features of the ranking (`rank`, `abstain`). The models of external endpoints differ in their scale: one gives 0.3 to texts
//! that fit, another 0.8 to texts that do not. Their similarity itself is therefore not used. A score is the distance
//! from the median of all entries, in units of their spread (a robust z-score).

use memory::path::MemoryPath;

use crate::corpus::Corpus;
use crate::terms::to_u32;
use crate::vector::{Vector, dot_product};

/// Maximum number of entries that become candidates by their dense score.
const TOP_ENTRIES_MAX: usize = 16;
/// Usual spread of similarities, and the number of entries that it counts as: the spread of few entries is
/// unreliable.
const SPREAD_USUAL: f32 = 0.08;
const SPREAD_ENTRIES: f32 = 8.0;
/// Lower bound of the spread.
const SPREAD_MIN: f32 = 0.015;
/// Factor from the median absolute deviation to a standard deviation.
const MAD_TO_DEVIATION: f32 = 1.4826;
/// Z-score from which an entry counts towards an answer, and at which it suffices by itself.
const LIFT_FROM: f32 = 5.5;
const LIFT_FULL: f32 = 7.0;
/// Weight in the score of an entry and of a memory, at the z-score that suffices by itself.
const ENTRY_WEIGHT: f32 = 2.0;
const MEMORY_WEIGHT: f32 = 3.0;
/// Upper bound of the share that a score counts with; beyond it there is no doubt left.
const SHARE_MAX: f32 = 1.5;

/// The scale of the similarities of vectors, which the model behind them decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SimilarityScale {
    /// The model is that of an external endpoint, which may be any.
    #[default]
    Unknown,
    /// The model is the encoder that weights of the ranking were learned with.
    Encoder,
}

/// The vectors of a corpus's entries in one buffer, by the number of the entry.
///
/// Comparing a prompt with all of them reads memory in order and looks nothing up. Valid for the corpus as it was when
/// they were collected.
#[derive(Clone, Debug, Default)]
pub struct EntryVectors {
    dimensions: usize,
    numbers: Vec<i8>,
    /// One divided by the length of each vector; 0 for an entry without one.
    scales: Vec<f32>,
    /// Whether the corpus has an entry with this number.
    is_entry: Vec<bool>,
}

/// Dense scores of a corpus's entries for one prompt. Valid for the corpus as it was when they were computed.
#[derive(Clone, Debug, Default)]
pub struct DenseScores {
    scale: SimilarityScale,
    /// Similarity of each entry, by its number in the corpus; not a number for an entry without a vector.
    similarities: Vec<f32>,
    /// Median and spread of the similarities.
    middle: f32,
    spread: f32,
    /// Entries with the highest similarity.
    top_entries: Vec<u32>,
}

impl Corpus {
    /// Collects the vectors of all entries. `vectors_of` returns the vectors of a memory, one per entry, in the order of
    /// [`passages`](crate::passages). A vector with other dimensions than the first one is left out.
    pub fn entry_vectors<'a>(
        &self,
        vectors_of: impl Fn(&MemoryPath) -> Vec<Option<&'a Vector>>,
    ) -> EntryVectors {
        let mut vectors = EntryVectors {
            scales: vec![0.0; self.entries.len()],
            is_entry: self.entries.iter().map(Option::is_some).collect(),
            ..EntryVectors::default()
        };
        for (path, id) in &self.by_path {
            let Some(record) = &self.memories[*id as usize] else { continue };
            for (entry, vector) in record.entries.iter().zip(vectors_of(path)) {
                vectors.set(*entry as usize, vector);
            }
        }
        vectors
    }

    /// Compares a prompt with all entries that have a vector.
    pub fn dense_scores(
        &self,
        prompt: &Vector,
        vectors: &EntryVectors,
        scale: SimilarityScale,
    ) -> DenseScores {
        let similarities = vectors.similarities(prompt);
        let numbered = similarities.iter().enumerate();
        let mut near: Vec<(u32, f32)> = numbered
            .filter(|(_, similarity)| !similarity.is_nan())
            .map(|(entry, similarity)| (to_u32(entry), *similarity))
            .collect();
        let (middle, spread) = median_and_spread(&near);
        let nearer = |a: &(u32, f32), b: &(u32, f32)| {
            let key = |entry: u32| self.entry_order.get(entry as usize);
            b.1.total_cmp(&a.1).then_with(|| key(a.0).cmp(&key(b.0)))
        };
        if near.len() > TOP_ENTRIES_MAX {
            near.select_nth_unstable_by(TOP_ENTRIES_MAX, nearer);
            near.truncate(TOP_ENTRIES_MAX);
        }
        near.sort_by(nearer);
        let top_entries = near.into_iter().map(|(entry, _)| entry).collect();
        DenseScores { scale, similarities, middle, spread, top_entries }
    }
}

impl EntryVectors {
    /// Returns the share of the entries that have a vector, from 0 to 1; 0 if there is no entry.
    pub fn coverage(&self) -> f32 {
        let (mut entries, mut with_vector) = (0_u32, 0_u32);
        for (scale, is_entry) in self.scales.iter().zip(&self.is_entry) {
            entries += u32::from(*is_entry);
            with_vector += u32::from(*is_entry && *scale > 0.0);
        }
        with_vector as f32 / entries.max(1) as f32
    }

    fn set(&mut self, entry: usize, vector: Option<&Vector>) {
        let Some(vector) = vector else { return };
        if self.dimensions == 0 {
            self.dimensions = vector.dimensions();
            self.numbers.resize(self.scales.len() * self.dimensions, 0);
        }
        if vector.dimensions() == self.dimensions {
            let start = entry * self.dimensions;
            self.numbers[start..start + self.dimensions].copy_from_slice(vector.numbers());
            self.scales[entry] = vector.scale();
        }
    }

    /// Returns the cosine similarity of each entry; not a number for an entry without a vector.
    fn similarities(&self, prompt: &Vector) -> Vec<f32> {
        if self.dimensions == 0 || prompt.dimensions() != self.dimensions {
            return vec![f32::NAN; self.scales.len()];
        }
        let rows = self.numbers.chunks_exact(self.dimensions).zip(&self.scales);
        rows.map(|(numbers, scale)| {
            if *scale == 0.0 {
                f32::NAN
            } else {
                dot_product(numbers, prompt.numbers()) * scale * prompt.scale()
            }
        })
        .collect()
    }
}

/// Returns the median of similarities (the lower one of two) and their spread.
fn median_and_spread(near: &[(u32, f32)]) -> (f32, f32) {
    let median = |mut of: Vec<f32>| {
        let middle = of.len().saturating_sub(1) / 2;
        if of.is_empty() { 0.0 } else { *of.select_nth_unstable_by(middle, f32::total_cmp).1 }
    };
    let middle = median(near.iter().map(|(_, near)| *near).collect());
    let own =
        MAD_TO_DEVIATION * median(near.iter().map(|(_, near)| (near - middle).abs()).collect());
    let count = near.len() as f32;
    let spread = (own * count + SPREAD_USUAL * SPREAD_ENTRIES) / (count + SPREAD_ENTRIES);
    (middle, spread.max(SPREAD_MIN))
}

impl DenseScores {
    /// Returns the scale of the similarities.
    pub(crate) const fn scale(&self) -> SimilarityScale {
        self.scale
    }

    /// Checks whether no entry has a vector.
    pub(crate) const fn is_empty(&self) -> bool {
        self.top_entries.is_empty()
    }

    /// Returns the best entries, highest similarity first.
    pub(crate) fn top_entries(&self) -> &[u32] {
        &self.top_entries
    }

    /// Returns the similarity of an entry; `None` if it has no vector.
    pub(crate) fn similarity(&self, entry: u32) -> Option<f32> {
        self.similarities.get(entry as usize).copied().filter(|similarity| !similarity.is_nan())
    }

    /// Returns the highest similarity among these entries; `None` if none has a vector.
    pub(crate) fn best_similarity(&self, entries: impl Iterator<Item = u32>) -> Option<f32> {
        entries.filter_map(|entry| self.similarity(entry)).max_by(f32::total_cmp)
    }

    /// Returns the distance of a similarity from the median of all entries, in units of their spread.
    pub(crate) fn distance(&self, similarity: f32) -> f32 {
        (similarity - self.middle) / self.spread
    }

    /// Returns the addition to an entry's score.
    pub(crate) fn entry_score(&self, entry: u32) -> f32 {
        ENTRY_WEIGHT * self.score_share(entry)
    }

    /// Returns the addition to the score of a memory with these entries.
    pub(crate) fn memory_score(&self, entries: impl Iterator<Item = u32>) -> f32 {
        MEMORY_WEIGHT * entries.map(|entry| self.score_share(entry)).fold(0.0, f32::max)
    }

    /// Returns the share of the answer threshold that the best of these entries reaches; 1 suffices by itself.
    pub(crate) fn answer_lift(&self, entries: impl Iterator<Item = u32>) -> f32 {
        let most = entries.map(|entry| self.z_score(entry)).fold(0.0, f32::max);
        ((most - LIFT_FROM) / (LIFT_FULL - LIFT_FROM)).clamp(0.0, SHARE_MAX)
    }

    /// Returns the highest similarity among those of these entries that stand out.
    pub(crate) fn outlier_similarity(&self, entries: impl Iterator<Item = u32>) -> Option<f32> {
        self.best_similarity(entries.filter(|entry| self.z_score(*entry) > LIFT_FROM))
    }

    fn score_share(&self, entry: u32) -> f32 {
        (self.z_score(entry) / LIFT_FULL).clamp(0.0, SHARE_MAX)
    }

    fn z_score(&self, entry: u32) -> f32 {
        self.similarity(entry).map_or(0.0, |similarity| self.distance(similarity))
    }
}
