//! Whether a prompt is answered at all.
//!
//! A wrong memory costs more than none, and most prompts need none. What is known of a prompt and of the memory
//! that fits it best is a row of numbers; each number moves the scales by steps that were learnt, and what they
//! come to decides.

use crate::corpus::Corpus;
use crate::features::Coverage;
use crate::prompt_classifier::{PROMPT_CLASS_LEN, PROMPT_CLASSES};
use crate::query::PromptQuery;
use crate::weights::{AnswerStep, OF_ANSWER};

/// What is known of a memory beside others.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MatchContext {
    pub(crate) coverage: Coverage,
    pub(crate) score: f32,
    /// How near its best entry and the whole of it are to the question.
    pub(crate) text_similarity: [f32; 2],
    /// How far the question is met word by word.
    pub(crate) word_similarity: f32,
}

/// What the decision to answer goes by, in the order that [`Ranking::answer`](crate::Ranking::answer) has it in.
pub const ANSWER_FEATURES: [&str; ANSWER] = {
    let mut names = [""; ANSWER];
    let mut at = 0;
    while at < ANSWER {
        names[at] = if at < MATCH_FEATURES.len() {
            MATCH_FEATURES[at]
        } else {
            PROMPT_CLASSES[at - MATCH_FEATURES.len()]
        };
        at += 1;
    }
    names
};
const MATCH_FEATURES: [&str; 13] = [
    "told",
    "share told",
    "told in other words",
    "share told in other words",
    "gist of its best entry",
    "gist of the memory",
    "sense",
    "gist above the next",
    "gist above the others",
    "score above the next",
    "words asked",
    "most telling word",
    "memories",
];
pub(crate) const ANSWER: usize = MATCH_FEATURES.len() + PROMPT_CLASS_LEN;

/// The place of that which says how many memories there are.
const MEMORIES: usize = MATCH_FEATURES.len() - 1;

/// How many those are, 6, 60 and 420, as the feature has them.
const CORPUS_SIZES: [f32; 3] = [1.945_910_1, 4.110_874, 6.042_633];

/// What counts as being told enough.
const COVERAGE_MAX: f32 = 1.5;
/// As far as a score can stand above the next.
const LEAD_MAX: f32 = 3.0;
/// As many words as count: one or two tell little, but a long prompt tells no more than one of a few words.
const QUERY_TERMS_MAX: usize = 4;
/// What nearnesses of texts differ by at least.
const GIST_SPREAD_MIN: f32 = 0.03;

/// Returns what speaks for answering with the first of these memories; the others are those that were looked at
/// beside it. `told` is how much of each word of the question the first has.
pub(crate) fn features(
    corpus: &Corpus,
    question: &PromptQuery,
    known: &[MatchContext],
    told: impl Fn(usize) -> f32,
) -> [f32; ANSWER] {
    let mut features = [0.0; ANSWER];
    features[MATCH_FEATURES.len()..].copy_from_slice(&question.prompt_class);
    let Some((first, others)) = known.split_first() else { return features };
    let of_others = || others.iter().map(|other| other.text_similarity[1]);
    let count = others.len().max(1) as f32;
    let mean = of_others().sum::<f32>() / count;
    let spread = (of_others().map(|gist| (gist - mean).powi(2)).sum::<f32>() / count).sqrt();
    let asked = question.terms.iter().enumerate();
    let telling = asked.map(|(at, asked)| asked.answer_weight() * told(at).min(1.0));
    let above = others.first().map_or(LEAD_MAX, |next| first.score - next.score);
    let of_match = [
        first.coverage.exact.min(COVERAGE_MAX),
        first.coverage.exact_share(),
        first.coverage.combined().min(COVERAGE_MAX),
        first.coverage.share_of(first.coverage.combined()),
        first.text_similarity[0],
        first.text_similarity[1],
        first.word_similarity,
        first.text_similarity[1] - of_others().fold(0.0, f32::max),
        (first.text_similarity[1] - mean) / (spread + GIST_SPREAD_MIN),
        above.min(LEAD_MAX),
        question.terms.len().min(QUERY_TERMS_MAX) as f32,
        telling.fold(0.0, f32::max),
        (corpus.memories() as f32).ln_1p(),
    ];
    features[..MATCH_FEATURES.len()].copy_from_slice(&of_match);
    features
}

/// Returns how much speaks for an answer: none is given below zero.
pub(crate) fn answer_score(features: &[f32; ANSWER]) -> f32 {
    let sizes = size_weights(features[MEMORIES]);
    let taken = OF_ANSWER.iter().filter(|(feature, from, _)| features[*feature] > *from);
    let of = |(.., steps): &AnswerStep| {
        steps.iter().zip(sizes).map(|(step, size)| step * size).sum::<f32>()
    };
    taken.map(of).sum()
}

/// How much goes by what was learnt of few memories, of some and of many: parts of one, by the logarithm of how many
/// there are.
fn size_weights(memories: f32) -> [f32; 3] {
    let [few, some, many] = CORPUS_SIZES;
    let past = |from: f32, to: f32| ((memories - from) / (to - from)).clamp(0.0, 1.0);
    let (some, many) = (past(few, some), past(some, many));
    [1.0 - some, some - many, many]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_of_what_speaks_for_an_answer_never_speaks_against_it() {
        for (feature, _, steps) in OF_ANSWER.iter().skip(1) {
            let name = ANSWER_FEATURES[*feature];
            let rises = MATCH_FEATURES[..10].contains(&name) || name == PROMPT_CLASSES[0];
            assert!(!rises || steps.iter().all(|step| *step >= 0.0), "{name}");
            assert_ne!(name, "memories");
        }
    }

    #[test]
    fn what_lies_between_two_sizes_goes_by_both() {
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
    fn what_nothing_is_known_of_is_not_answered() {
        assert!(answer_score(&[0.0; ANSWER]) < 0.0);
    }
}
