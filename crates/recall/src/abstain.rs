//! Decides whether any memory is shown for a prompt.
//!
//! A wrong memory costs more than none, and most prompts need none. The decision uses features of the prompt and of
//! its best memory: coverage of the question, similarity of the texts, lead over the other memories.
//! Learned rules (`weights::OF_ANSWER`, with the encoder `weights::ENCODER_OF_ANSWER`) add up to a score; below zero, nothing is shown. The vectors and the wording
//! are English, so prompts in other languages have rules of their own, over the words that they share with a memory.

use crate::corpus::Corpus;
use crate::features::Coverage;
use crate::prompt_classifier::{PROMPT_CLASS_LEN, PROMPT_CLASSES};
use crate::query::PromptQuery;
use crate::weights::AnswerRule;

/// The match of one candidate memory, for comparison with the others.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CandidateMatch {
    pub(crate) coverage: Coverage,
    pub(crate) score: f32,
    /// Text similarity of its best entry and of the whole memory.
    pub(crate) text_similarity: [f32; 2],
    /// Similarity of its best entry, word by word.
    pub(crate) word_similarity: f32,
    /// Similarity of its best entry by the encoder.
    pub(crate) encoder_similarity: f32,
}

/// The match of a memory beyond its comparison with the others.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OwnMatch {
    /// Share of the question that its best entry covers.
    pub(crate) entry_share: f32,
    /// Rarity of the identifiers of the prompt that it has.
    pub(crate) identifiers: f32,
    /// Share of the prompt that its header has.
    pub(crate) header_share: f32,
    /// Distance of its similarity by the encoder from the median of all entries, in spreads; `None` without an encoder.
    pub(crate) encoder_distance: Option<f32>,
}

/// Names of the features of the decision to answer, in the order of [`Ranking::answer`](crate::Ranking::answer).
pub const ANSWER_FEATURES: [&str; ANSWER_FEATURE_COUNT] = {
    let mut names = [""; ANSWER_FEATURE_COUNT];
    let mut index = 0;
    while index < ANSWER_FEATURE_COUNT {
        names[index] = if index < MATCH_FEATURES.len() {
            MATCH_FEATURES[index]
        } else if index < FIRST_ENCODER {
            PROMPT_CLASSES[index - MATCH_FEATURES.len()]
        } else {
            ENCODER_FEATURES[index - FIRST_ENCODER]
        };
        index += 1;
    }
    names
};
const MATCH_FEATURES: [&str; 20] = [
    "coverage",
    "share covered",
    "coverage with similar words",
    "share covered with similar words",
    "text similarity of the best entry",
    "text similarity of the memory",
    "word similarity of the best entry",
    "text similarity above the next",
    "text similarity above the others, in spreads",
    "score above the next",
    "share covered by the best entry",
    "identifiers covered",
    "score",
    "share covered by the header",
    "query words",
    "weight of the rarest word covered",
    "weight of the rarest word not covered",
    "share of the prompt that the corpus has",
    "weight of the rarest unknown identifier",
    "memories",
];
/// Features by the encoder. They are 0 without one, and for a prompt with an identifier: nearness says little about
/// whether a memory has that identifier.
const ENCODER_FEATURES: [&str; 3] = [
    "similarity by the encoder",
    "similarity by the encoder above the next",
    "similarity by the encoder above the median, in spreads",
];
/// Number of features at the start of the list of which more never speaks against an answer.
#[cfg(test)]
const RISING: usize = 14;
/// Index of the first feature by the encoder.
const FIRST_ENCODER: usize = MATCH_FEATURES.len() + PROMPT_CLASS_LEN;
pub(crate) const ANSWER_FEATURE_COUNT: usize = FIRST_ENCODER + ENCODER_FEATURES.len();

/// Index of the feature for the number of memories.
const MEMORIES: usize = MATCH_FEATURES.len() - 1;

/// Corpus sizes that the rules were learned for, as `ln(1 + memories)`: 6, 60 and 420 memories.
const CORPUS_SIZES: [f32; 3] = [1.945_910_1, 4.110_874, 6.042_633];

/// Coverage above which more does not count.
const COVERAGE_MAX: f32 = 1.5;
/// Score lead over the next memory above which more does not count.
const LEAD_MAX: f32 = 3.0;
/// Number of query words above which more do not count. One or two words say little; a long prompt says no more
/// than one of a few words.
const QUERY_TERMS_MAX: usize = 4;
/// Lower bound of the spread of text similarities.
const SIMILARITY_SPREAD_MIN: f32 = 0.03;

/// Returns the features of showing the memory at `index` of `contexts`; the others are its competitors. `exact(i)`
/// returns how well it has word `i` of the query, from 0 to 1.
pub(crate) fn features(
    corpus: &Corpus,
    query: &PromptQuery,
    (contexts, index, own): (&[CandidateMatch], usize, OwnMatch),
    exact: impl Fn(usize) -> f32,
) -> [f32; ANSWER_FEATURE_COUNT] {
    let mut features = [0.0; ANSWER_FEATURE_COUNT];
    features[MATCH_FEATURES.len()..FIRST_ENCODER].copy_from_slice(&query.prompt_class);
    let Some(first) = contexts.get(index) else { return features };
    let others = || contexts.iter().enumerate().filter(|(other, _)| *other != index);
    let of_others = || others().map(|(_, other)| other.text_similarity[1]);
    let count = (contexts.len() - 1).max(1) as f32;
    let mean = of_others().sum::<f32>() / count;
    let spread =
        (of_others().map(|similarity| (similarity - mean).powi(2)).sum::<f32>() / count).sqrt();
    let terms = || query.terms.iter().enumerate();
    let covered = terms().map(|(index, term)| term.answer_weight() * exact(index).min(1.0));
    let uncovered =
        terms().map(|(index, term)| term.answer_weight() * (1.0 - exact(index).min(1.0)));
    let unknown = query.terms.iter().filter(|term| term.is_identifier && term.stem.is_none());
    let lead = others().next().map_or(LEAD_MAX, |(_, next)| first.score - next.score);
    // In the order of `MATCH_FEATURES`.
    let match_features = [
        first.coverage.exact.min(COVERAGE_MAX),
        first.coverage.exact_share(),
        first.coverage.combined().min(COVERAGE_MAX),
        first.coverage.share_of(first.coverage.combined()),
        first.text_similarity[0],
        first.text_similarity[1],
        first.word_similarity,
        first.text_similarity[1] - of_others().fold(0.0, f32::max),
        (first.text_similarity[1] - mean) / (spread + SIMILARITY_SPREAD_MIN),
        lead.min(LEAD_MAX),
        own.entry_share,
        own.identifiers,
        first.score,
        own.header_share,
        query.terms.len().min(QUERY_TERMS_MAX) as f32,
        covered.fold(0.0, f32::max),
        uncovered.fold(0.0, f32::max),
        query.known_share,
        unknown.map(|term| term.share).fold(0.0, f32::max),
        (corpus.memories() as f32).ln_1p(),
    ];
    features[..MATCH_FEATURES.len()].copy_from_slice(&match_features);
    let has_identifier = || query.terms.iter().any(|term| term.is_identifier);
    if let Some(distance) = own.encoder_distance.filter(|_| !has_identifier()) {
        let next = others().map(|(_, other)| other.encoder_similarity).fold(0.0, f32::max);
        // In the order of `ENCODER_FEATURES`.
        let encoder_features =
            [first.encoder_similarity, first.encoder_similarity - next, distance];
        features[FIRST_ENCODER..].copy_from_slice(&encoder_features);
    }
    features
}

/// Returns the score of answering; below zero, nothing is shown.
pub(crate) fn answer_score(features: &[f32; ANSWER_FEATURE_COUNT], rules: &[AnswerRule]) -> f32 {
    let sizes = size_weights(features[MEMORIES]);
    let applied = rules.iter().filter(|(feature, from, _)| features[*feature] > *from);
    let weighted = |(.., weights): &AnswerRule| {
        weights.iter().zip(sizes).map(|(weight, size)| weight * size).sum::<f32>()
    };
    applied.map(weighted).sum()
}

/// Returns the weights of the small, medium and large corpus sizes. They sum to 1 and are interpolated by the
/// logarithm of the number of memories.
fn size_weights(memories: f32) -> [f32; 3] {
    let [few, some, many] = CORPUS_SIZES;
    let past = |from: f32, to: f32| ((memories - from) / (to - from)).clamp(0.0, 1.0);
    let (some, many) = (past(few, some), past(some, many));
    [1.0 - some, some - many, many]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::{ENCODER_OF_ANSWER, OF_ANSWER, OF_FOREIGN_ANSWER};

    const TABLES: [&[AnswerRule]; 3] = [OF_ANSWER, OF_FOREIGN_ANSWER, ENCODER_OF_ANSWER];

    #[test]
    fn features_of_a_good_match_never_lower_the_answer_score() {
        for (feature, _, steps) in TABLES.iter().flat_map(|table| &table[1..]) {
            let name = ANSWER_FEATURES[*feature];
            let rises = MATCH_FEATURES[..RISING].contains(&name)
                || ENCODER_FEATURES.contains(&name)
                || name == PROMPT_CLASSES[0];
            assert!(!rises || steps.iter().all(|step| *step >= 0.0), "{name}");
            assert_ne!(name, "memories");
        }
    }

    #[test]
    fn a_corpus_between_two_sizes_uses_the_weights_of_both() {
        let check = |memories: f32, expected: [f32; 3]| {
            for (part, expected) in size_weights(memories.ln_1p()).into_iter().zip(expected) {
                assert!((part - expected).abs() < 0.01, "{memories}: {part}, not {expected}");
            }
        };
        check(1.0, [1.0, 0.0, 0.0]);
        check(60.0, [0.0, 1.0, 0.0]);
        check(9_000.0, [0.0, 0.0, 1.0]);
        check(20.0, [0.49, 0.51, 0.0]);
        check(160.0, [0.0, 0.5, 0.5]);
    }

    #[test]
    fn a_prompt_without_features_is_not_answered() {
        for rules in TABLES {
            assert!(answer_score(&[0.0; ANSWER_FEATURE_COUNT], rules) < 0.0);
        }
    }
}
