//! One more arm of the ranking: how like a prompt entries are as wholes, by vectors that come from elsewhere.
//!
//! How near vectors are means another thing for each model: one says 0.3 of what fits, another 0.8 of what does
//! not. So nothing goes by that number, but by how far it stands out among those of all entries, counted in
//! what they usually differ by.

use memory::path::MemoryPath;

use crate::corpus::Corpus;
use crate::vector::Vector;

/// How many entries are looked at because of it.
const TOP_ENTRIES_MAX: usize = 16;
/// What nearnesses usually differ by, and for how many entries that counts: few entries do not tell by themselves.
const SPREAD_USUAL: f32 = 0.08;
const SPREAD_ENTRIES: f32 = 8.0;
/// The least that they count as differing by.
const SPREAD_MIN: f32 = 0.015;
/// The median of distances from the median, as a standard deviation.
const MAD_TO_DEVIATION: f32 = 1.4826;
/// From where on standing out counts towards an answer, and from where on it is enough by itself.
const LIFT_FROM: f32 = 5.5;
const LIFT_FULL: f32 = 7.0;
/// How much it counts beside all else, where it is enough by itself.
const ENTRY_WEIGHT: f32 = 2.0;
const MEMORY_WEIGHT: f32 = 3.0;
/// What counts as standing out, at most: beyond that there is no doubt left.
const SHARE_MAX: f32 = 1.5;

/// How like one prompt the entries of a corpus are, as they were when it was asked for.
#[derive(Clone, Debug, Default)]
pub struct DenseScores {
    /// Entry by entry, as the corpus numbers them: how near it is, and how far that stands out.
    entries: Vec<(f32, f32)>,
    /// Those that stand out most.
    top_entries: Vec<u32>,
}

impl Corpus {
    /// Compares a prompt with all entries that have a vector. `vectors_of` returns those of a memory, entry by
    /// entry in the order of [`passages`](crate::passages).
    pub fn dense_scores<'a>(
        &self,
        prompt: &Vector,
        vectors_of: impl Fn(&MemoryPath) -> Vec<Option<&'a Vector>>,
    ) -> DenseScores {
        let mut near: Vec<(u32, f32)> = Vec::new();
        for (path, id) in &self.by_path {
            let Some(held) = &self.memories[*id as usize] else { continue };
            let of_entries = held.entries.iter().zip(vectors_of(path));
            let known = of_entries
                .filter_map(|(entry, vector)| Some((*entry, vector?.similarity(prompt)?)));
            near.extend(known);
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

/// The median of nearnesses, the lower one of two, and what they differ by.
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
    /// Returns the entries that stand out most, the first first.
    pub(crate) fn top_entries(&self) -> &[u32] {
        &self.top_entries
    }

    /// What speaks for an entry.
    pub(crate) fn entry_score(&self, entry: u32) -> f32 {
        ENTRY_WEIGHT * self.score_share(entry)
    }

    /// What speaks for a memory of these entries.
    pub(crate) fn memory_score(&self, entries: impl Iterator<Item = u32>) -> f32 {
        MEMORY_WEIGHT * entries.map(|entry| self.score_share(entry)).fold(0.0, f32::max)
    }

    /// How much of what an answer needs entries have by it: 1 where it is enough by itself.
    pub(crate) fn answer_lift(&self, entries: impl Iterator<Item = u32>) -> f32 {
        let most = entries.map(|entry| self.z_score(entry)).fold(0.0, f32::max);
        ((most - LIFT_FROM) / (LIFT_FULL - LIFT_FROM)).clamp(0.0, SHARE_MAX)
    }

    /// How near the nearest of these entries is, if it stands out.
    pub(crate) fn outlier_similarity(&self, entries: impl Iterator<Item = u32>) -> Option<f32> {
        let out = entries.filter(|entry| self.z_score(*entry) > LIFT_FROM);
        let near = out.filter_map(|entry| self.entries.get(entry as usize));
        near.map(|(near, _)| *near).max_by(f32::total_cmp)
    }

    fn score_share(&self, entry: u32) -> f32 {
        (self.z_score(entry) / LIFT_FULL).clamp(0.0, SHARE_MAX)
    }

    fn z_score(&self, entry: u32) -> f32 {
        self.entries.get(entry as usize).map_or(0.0, |(_, standing)| *standing)
    }
}
