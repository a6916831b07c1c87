//! Dense scores: the similarity of entries to a prompt, by vectors of an external embedding model.
//!
//! Models differ in their scale: one gives 0.3 to texts that fit, another 0.8 to texts that do not. The similarity
//! itself is therefore not used. A score is the distance from the median of all entries, in units of their spread
//! (a robust z-score).

use memory::path::MemoryPath;

use crate::corpus::Corpus;
use crate::vector::Vector;

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

/// Dense scores of a corpus's entries for one prompt. Valid for the corpus as it was when they were computed.
#[derive(Clone, Debug, Default)]
pub struct DenseScores {
    /// Similarity and z-score of each entry, by its number in the corpus.
    entries: Vec<(f32, f32)>,
    /// Entries with the highest similarity.
    top_entries: Vec<u32>,
}

impl Corpus {
    /// Compares a prompt with all entries that have a vector. `vectors_of` returns the vectors of a memory, one per
    /// entry, in the order of [`passages`](crate::passages).
    pub fn dense_scores<'a>(
        &self,
        prompt: &Vector,
        vectors_of: impl Fn(&MemoryPath) -> Vec<Option<&'a Vector>>,
    ) -> DenseScores {
        let mut near: Vec<(u32, f32)> = Vec::new();
        for (path, id) in &self.by_path {
            let Some(record) = &self.memories[*id as usize] else { continue };
            let of_entries = record.entries.iter().zip(vectors_of(path));
            let with_vector = of_entries
                .filter_map(|(entry, vector)| Some((*entry, vector?.similarity(prompt)?)));
            near.extend(with_vector);
        }
        let (middle, spread) = median_and_spread(&near);
        let mut entries = vec![(0.0, 0.0); self.entries.len()];
        for (entry, nearness) in &near {
            entries[*entry as usize] = (*nearness, (nearness - middle) / spread);
        }
        near.sort_by(|a, b| {
            let key = |entry: &u32| self.entry_order[*entry as usize];
            b.1.total_cmp(&a.1).then_with(|| key(&a.0).cmp(&key(&b.0)))
        });
        DenseScores {
            entries,
            top_entries: near.into_iter().take(TOP_ENTRIES_MAX).map(|(entry, _)| entry).collect(),
        }
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
    /// Returns the best entries, highest similarity first.
    pub(crate) fn top_entries(&self) -> &[u32] {
        &self.top_entries
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
        let out = entries.filter(|entry| self.z_score(*entry) > LIFT_FROM);
        let similarities = out.filter_map(|entry| self.entries.get(entry as usize));
        similarities.map(|(near, _)| *near).max_by(f32::total_cmp)
    }

    fn score_share(&self, entry: u32) -> f32 {
        (self.z_score(entry) / LIFT_FULL).clamp(0.0, SHARE_MAX)
    }

    fn z_score(&self, entry: u32) -> f32 {
        self.entries.get(entry as usize).map_or(0.0, |(_, z_score)| *z_score)
    }
}
