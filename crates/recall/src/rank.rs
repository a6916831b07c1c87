//! Ranks memories and entries for a prompt, best first, with reasons.
//!
//! A prompt becomes a [`PromptQuery`]; `candidates` picks the entries that are worth scoring; `features` turns them
//! into numbers; the weights of `weights` turn those into scores. `abstain` decides whether the best memory is good
//! enough to be shown at all. This module joins the steps and decides which runners-up are shown beside the best.
//!
//! There are two thresholds ([`Threshold`]). Memories that are shown unasked need the strict one. The answer to an
//! explicit question has all that reach the lenient one, and marks those below the strict one as weak.

use std::cmp::Reverse;
use std::ops::Range;

use memory::path::MemoryPath;

use crate::abstain::{self, ANSWER_FEATURE_COUNT, CandidateMatch, OwnMatch};
use crate::candidates::{self, TermMatch};
use crate::corpus::Corpus;
use crate::dense::{DenseScores, SimilarityScale};
use crate::features::{
    CandidateRows, Coverage, ENTRY, HEADER_SHARE, MEMORY, MEMORY_IDENTIFIERS, MONTH, RowGroup,
    SUBJECT,
};
use crate::query::PromptQuery;
use crate::weights::{
    ENCODER_LENIENT_ANSWER_MIN, ENCODER_OF_ANSWER, ENCODER_OF_BESIDE, ENCODER_OF_ENTRY,
    ENCODER_OF_MEMORY, ENCODER_RUNNER_UP_LEN, LENIENT_ANSWER_MIN, OF_ANSWER, OF_BESIDE, OF_ENTRY,
    OF_FOREIGN_ANSWER, OF_MEMORY, dot_product,
};

/// Maximum number of entries of a memory that a hit shows.
const HIT_ENTRIES_MAX: usize = 3;

/// Minimum coverage of the question that the best memory needs, where vectors are not used.
///
/// A word that only one entry has and that is rare in the language counts nearly 1. Without the embedding table
/// every word counts as rare, so the bound is higher.
const COVERAGE_MIN: f32 = if cfg!(feature = "embedder") { 0.65 } else { 0.78 };
/// Score gap to the best memory up to which another is shown without further conditions.
const TIE_MARGIN: f32 = 0.25;
/// Conditions for a runner-up where vectors are not used. It needs this share of the best memory's coverage, and at
/// least the floor. Otherwise its score gap to the best must not exceed the last.
const COVERAGE_SHARE_MIN: f32 = 0.25;
const COVERAGE_FLOOR: f32 = 0.3;
const SCORE_GAP_MAX: f32 = 2.0;

/// A memory that only has some relation to the question covers this share of it, or one of its entries has this
/// similarity. A learned bound alone would answer what has nothing to do with any memory.
const RELATED_SHARE_MIN: f32 = 0.15;
const RELATED_SIMILARITY_MIN: f32 = 0.25;

/// The same for the similarity by the encoder.
const ENCODER_RELATED_MIN: f32 = 0.2;

/// Minimum coverage of such a memory where vectors are not used.
const RELATED_COVERAGE_MIN: f32 = 0.3;

/// Factor from coverage to an answer score, where vectors are not used.
const COVERAGE_SLOPE: f32 = 6.0;

/// Highest confidence of a weak hit. A hit that is not weak has at least 0.5.
const WEAK_CONFIDENCE_MAX: f32 = 0.49;

/// The quality of a match that a memory needs to be returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Threshold {
    /// Every candidate is returned, whether it fits or not.
    None,
    /// The memory has some relation to the prompt. For explicit questions: the reader judges, and weak hits are
    /// marked.
    Lenient,
    /// The memory clearly helps. For memories that are shown unasked: a wrong one costs more than none.
    Strict,
}

/// Options of a ranking.
#[derive(Clone, Copy, Debug)]
pub struct RankOptions {
    /// Maximum number of hits.
    pub limit: usize,
    /// The quality of a match that a hit needs.
    pub threshold: Threshold,
    /// Whether words of similar meaning count, besides the words themselves.
    pub use_vectors: bool,
}

impl Default for RankOptions {
    fn default() -> Self {
        Self { limit: 5, threshold: Threshold::Strict, use_vectors: true }
    }
}

/// A memory that fits.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryHit {
    /// Its path.
    pub path: MemoryPath,
    /// Score, comparable only with other hits of the same prompt.
    pub score: f32,
    /// Estimate that the memory helps with the prompt, from 0 to 1. At least 0.5 unless the hit is weak.
    pub confidence: f32,
    /// Whether the memory stays below [`Threshold::Strict`].
    pub is_weak: bool,
    /// Best entries, highest score first; at most three.
    pub entries: Vec<EntryHit>,
    /// Why it was chosen.
    pub reasons: Vec<Reason>,
}

/// An entry that fits.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryHit {
    /// The path of its memory.
    pub path: MemoryPath,
    /// Index of the entry within the memory, from 0.
    pub ordinal: usize,
    /// Byte range in the file.
    pub range: Range<usize>,
    /// Score, comparable only with other entries of the same prompt.
    pub score: f32,
}

/// One reason for a hit.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// A word of the prompt occurs in the memory, in some form.
    ExactWord {
        /// Word as it occurs in the prompt.
        query_word: String,
        /// Word as it occurs in the memory.
        memory_word: String,
    },
    /// A word of the memory is probably a word of the prompt, which is misspelled.
    Misspelled {
        /// Word as it occurs in the prompt.
        query_word: String,
        /// Word as it occurs in the memory.
        memory_word: String,
    },
    /// A word means about the same as one of the prompt.
    SimilarWord {
        /// Word as it occurs in the prompt.
        query_word: String,
        /// Word as it occurs in the memory.
        memory_word: String,
        /// Similarity of the two; 1 is the same.
        similarity: f32,
    },
    /// The memory is from the day or month that the prompt names.
    Date,
    /// An entry is about a person or thing that the prompt names.
    Subject,
    /// The text as a whole is similar to the prompt: by dense scores of the caller, or because no other reason
    /// applies.
    SimilarText {
        /// Similarity of the vectors; 1 is the same.
        similarity: f32,
    },
}

/// All candidates of a prompt with their features, for learning weights and for measuring.
#[derive(Clone, Debug, Default)]
pub struct Ranking {
    /// Entries with their features, the best first.
    pub entries: Vec<(EntryHit, [f32; ENTRY])>,
    /// Similarity of each entry by the encoder; empty without one.
    pub entry_similarities: Vec<f32>,
    /// Memories with their features, the best first.
    pub memories: Vec<(MemoryPath, f32, [f32; MEMORY])>,
    /// Comparison of each memory with the best: the numbers that [`Corpus::rank`] weighs to show it too.
    pub runner_up: Vec<[f32; ENCODER_RUNNER_UP_LEN]>,
    /// Features of the decision whether to answer.
    pub answer: [f32; ANSWER_FEATURE_COUNT],
    /// Whether the prompt is in another language than English, and so decided by other rules.
    pub is_foreign: bool,
}

/// A prompt with its scored candidates.
struct RankedCandidates<'a> {
    query: PromptQuery,
    matches: Vec<TermMatch>,
    rows: CandidateRows,
    /// Score of each row.
    scores: Vec<f32>,
    /// Memories, the best first.
    memories: Vec<ScoredMemory>,
    /// Scores of the caller's embedding model, once they were added.
    dense_scores: Option<&'a DenseScores>,
    /// Match with the encoder's vectors, if its scores are given.
    encoder: Option<EncoderMatch<'a>>,
}

/// The match of a prompt with the vectors of the encoder.
#[derive(Clone, Debug)]
struct EncoderMatch<'a> {
    scores: &'a DenseScores,
    /// Similarity of each row.
    similarities: Vec<f32>,
}

/// A memory with its score.
#[derive(Clone, Debug)]
struct ScoredMemory {
    group: RowGroup,
    score: f32,
    features: [f32; MEMORY],
    coverage: Coverage,
    /// Similarity of its best entry by the encoder; 0 without one.
    encoder_similarity: f32,
    /// The highest threshold that it reaches, as far as it was assessed.
    reached: Threshold,
    /// Log-odds that it helps; minus infinity if it reaches no threshold.
    answer_score: f32,
}

impl Corpus {
    /// Returns the memories that fit a prompt, best first; empty if none fits.
    pub fn rank(&self, prompt: &str, options: &RankOptions) -> Vec<MemoryHit> {
        self.rank_with(prompt, options, None, |_| true)
    }

    /// Like [`rank`](Self::rank), among the memories for which `is_candidate` holds, with dense scores. Other memories are
    /// left out before the decision.
    ///
    /// Scores of the encoder are weighed like the other features. An entry without a vector gets the similarity that is
    /// usual for its words. Scores of unknown scale are added after the decision: a memory whose score stands out is
    /// returned even if it shares no word with the prompt.
    pub fn rank_with(
        &self,
        prompt: &str,
        options: &RankOptions,
        dense_scores: Option<&DenseScores>,
        is_candidate: impl Fn(&MemoryPath) -> bool,
    ) -> Vec<MemoryHit> {
        let mut ranked = self.rank_candidates(prompt, options.use_vectors, dense_scores);
        ranked
            .memories
            .retain(|scored| self.path_of(scored.group.memory).is_some_and(&is_candidate));
        // Dense scores must not take away an answer that the words give: the memories are assessed before the scores
        // are added.
        ranked.assess(self, options);
        if let Some(dense_scores) = dense_scores.filter(|_| ranked.encoder.is_none()) {
            ranked.add_dense_scores(dense_scores);
            self.sort_memories(&mut ranked.memories);
        }
        let mut fitting: Vec<&ScoredMemory> =
            ranked.memories.iter().filter(|scored| scored.reached >= options.threshold).collect();
        if options.threshold == Threshold::Lenient {
            // Stable: within both groups the order remains.
            fitting.sort_by_key(|scored| scored.is_weak());
        }
        let hits = fitting.into_iter().take(options.limit);
        let hits = hits.filter_map(|scored| self.hit(&ranked, scored)).collect();
        candidates::recycle(ranked.rows);
        hits
    }

    /// Returns the entries that fit a prompt, best first, from all memories. It never abstains.
    pub fn rank_entries(
        &self,
        prompt: &str,
        options: &RankOptions,
        dense_scores: Option<&DenseScores>,
    ) -> Vec<EntryHit> {
        let ranked = self.rank_candidates(prompt, options.use_vectors, dense_scores);
        let order = self.rows_by_score(&ranked, 0..ranked.rows.list.len());
        let best = order.into_iter().take(options.limit);
        best.filter_map(|row| self.entry_hit(&ranked, row)).collect()
    }

    /// Returns all candidates with their features, whether or not they would be shown.
    pub fn ranking(
        &self,
        prompt: &str,
        options: &RankOptions,
        dense_scores: Option<&DenseScores>,
    ) -> Ranking {
        let ranked = self.rank_candidates(prompt, options.use_vectors, dense_scores);
        let order = self.rows_by_score(&ranked, 0..ranked.rows.list.len());
        let similarities = ranked.encoder.iter().flat_map(|encoder| {
            order.iter().filter_map(|row| encoder.similarities.get(*row).copied())
        });
        let entry_similarities = similarities.collect();
        let entries = order
            .into_iter()
            .filter_map(|row| Some((self.entry_hit(&ranked, row)?, ranked.rows.list[row].features)))
            .collect();
        let memories = ranked.memories.iter().filter_map(|scored| {
            Some((self.path_of(scored.group.memory)?.clone(), scored.score, scored.features))
        });
        let best = ranked.memories.first();
        let runner_up = ranked.memories.iter().zip(best.into_iter().cycle());
        let runner_up =
            runner_up.map(|(scored, best)| ranked.runner_up_features(best, scored)).collect();
        Ranking {
            entries,
            entry_similarities,
            memories: memories.collect(),
            runner_up,
            answer: ranked.answer_features(self, &ranked.contexts(), 0),
            is_foreign: ranked.query.is_foreign,
        }
    }

    fn rank_candidates<'a>(
        &self,
        prompt: &str,
        use_vectors: bool,
        dense_scores: Option<&'a DenseScores>,
    ) -> RankedCandidates<'a> {
        let extra_entries = dense_scores.map_or(&[][..], DenseScores::top_entries);
        let query = PromptQuery::parse(prompt, self, use_vectors);
        let matches = candidates::match_terms(self, &query, use_vectors);
        let rows = candidates::collect_candidates(self, &query, &matches, extra_entries);
        let mut scores: Vec<f32> =
            rows.list.iter().map(|row| dot_product(&row.features, &OF_ENTRY)).collect();
        // The weights were learned with the built-in vectors. Without those, the encoder counts like an endpoint.
        let encoder = dense_scores
            .filter(|dense| dense.scale() == SimilarityScale::Encoder && !dense.is_empty())
            .filter(|_| !query.text_vector.is_empty())
            .map(|scores| EncoderMatch { scores, similarities: rows.encoder_similarities(scores) });
        if let Some(encoder) = &encoder {
            for (score, similarity) in scores.iter_mut().zip(&encoder.similarities) {
                *score += ENCODER_OF_ENTRY * similarity;
            }
        }
        let coverages: Vec<Coverage> =
            rows.groups.iter().map(|group| rows.coverage(&query, group)).collect();
        let best_share = coverages.iter().map(Coverage::exact_share).fold(0.0, f32::max);
        let uncovered_share = if query.text_vector.is_empty() { 0.0 } else { 1.0 - best_share };
        let groups = rows.groups.iter().zip(coverages);
        let mut memories: Vec<ScoredMemory> = groups
            .map(|(group, coverage)| {
                let features = rows.memory_features(group, &scores, &coverage, uncovered_share);
                let mut score = dot_product(&features, &OF_MEMORY);
                let mut encoder_similarity = 0.0;
                if let Some(encoder) = &encoder {
                    let own = encoder.similarities[group.rows.clone()].iter().copied();
                    encoder_similarity = own.fold(0.0, f32::max);
                    score += ENCODER_OF_MEMORY * encoder_similarity;
                }
                ScoredMemory {
                    group: group.clone(),
                    score,
                    features,
                    coverage,
                    encoder_similarity,
                    reached: Threshold::None,
                    answer_score: f32::NEG_INFINITY,
                }
            })
            .collect();
        self.sort_memories(&mut memories);
        RankedCandidates { query, matches, rows, scores, memories, dense_scores: None, encoder }
    }

    /// Sorts memories, best first; equal scores by path.
    fn sort_memories(&self, memories: &mut [ScoredMemory]) {
        memories.sort_unstable_by(|a, b| {
            let path = |scored: &ScoredMemory| self.path_of(scored.group.memory);
            b.score.total_cmp(&a.score).then_with(|| path(a).cmp(&path(b)))
        });
    }

    fn path_of(&self, memory: u32) -> Option<&MemoryPath> {
        Some(&self.memories.get(memory as usize)?.as_ref()?.path)
    }

    /// Returns rows sorted by score, best first; equal scores by path and ordinal.
    fn rows_by_score(&self, ranked: &RankedCandidates<'_>, rows: Range<usize>) -> Vec<usize> {
        let tie_key = |row: usize| {
            let of = self.entries[ranked.rows.list[row].entry as usize].as_ref()?;
            Some((self.path_of(of.memory)?, of.ordinal))
        };
        let mut order: Vec<usize> = rows.collect();
        order.sort_by(|a, b| {
            ranked.scores[*b]
                .total_cmp(&ranked.scores[*a])
                .then_with(|| tie_key(*a).cmp(&tie_key(*b)))
        });
        order
    }

    fn entry_hit(&self, ranked: &RankedCandidates<'_>, row: usize) -> Option<EntryHit> {
        let entry = self.entries.get(ranked.rows.list[row].entry as usize)?.as_ref()?;
        Some(EntryHit {
            path: self.path_of(entry.memory)?.clone(),
            ordinal: entry.ordinal as usize,
            range: entry.range.clone(),
            score: ranked.scores[row],
        })
    }

    fn hit(&self, ranked: &RankedCandidates<'_>, scored: &ScoredMemory) -> Option<MemoryHit> {
        let order = self.rows_by_score(ranked, scored.group.rows.clone());
        let shown = order.into_iter().take(HIT_ENTRIES_MAX);
        Some(MemoryHit {
            path: self.path_of(scored.group.memory)?.clone(),
            score: scored.score,
            confidence: scored.confidence(),
            is_weak: scored.is_weak(),
            entries: shown.filter_map(|row| self.entry_hit(ranked, row)).collect(),
            reasons: self.reasons(ranked, &scored.group),
        })
    }

    /// Returns the reasons for a memory: the best match of each word of the prompt, then the other reasons.
    fn reasons(&self, ranked: &RankedCandidates<'_>, group: &RowGroup) -> Vec<Reason> {
        let rows = &ranked.rows.list[group.rows.clone()];
        let has = |terms: &[(u32, f32)], term: u32| {
            terms.binary_search_by_key(&term, |(id, _)| *id).is_ok()
        };
        let record = self.memories[group.memory as usize].as_ref();
        let has_term = |term: u32| {
            record.is_some_and(|record| has(&record.header_terms, term))
                || rows.iter().any(|row| {
                    let entry = self.entries[row.entry as usize].as_ref();
                    entry.is_some_and(|entry| has(&entry.terms, term))
                })
        };
        let mut reasons = Vec::new();
        for (query_term, of) in ranked.query.terms.iter().enumerate() {
            let own = ranked
                .matches
                .iter()
                .filter(|found| found.query_term == query_term && has_term(found.term));
            let best = own.max_by(|a, b| {
                let word = |found: &TermMatch| Reverse(&self.terms.list[found.term as usize].word);
                a.similarity.total_cmp(&b.similarity).then_with(|| word(a).cmp(&word(b)))
            });
            let Some(best) = best else { continue };
            let query_word = of.word.text.clone();
            let memory_word = self.terms.list[best.term as usize].word.to_string();
            reasons.push(if best.exact >= 1.0 {
                Reason::ExactWord { query_word, memory_word }
            } else if best.is_typo {
                Reason::Misspelled { query_word, memory_word }
            } else {
                Reason::SimilarWord { query_word, memory_word, similarity: best.similarity }
            });
        }
        let has = |feature: usize| rows.iter().any(|row| row.features[feature] > 0.0);
        reasons.extend(has(MONTH).then_some(Reason::Date));
        reasons.extend(has(SUBJECT).then_some(Reason::Subject));
        let of_endpoint = ranked
            .dense_scores
            .and_then(|dense| dense.outlier_similarity(ranked.rows.entries(group)));
        let of_encoder = ranked
            .encoder
            .as_ref()
            .and_then(|encoder| encoder.scores.best_similarity(ranked.rows.entries(group)))
            .filter(|similarity| *similarity >= ENCODER_RELATED_MIN);
        let similarity = of_endpoint.or(of_encoder);
        reasons.extend(similarity.map(|similarity| Reason::SimilarText { similarity }));
        if reasons.is_empty() && !ranked.query.text_vector.is_empty() {
            let ([of_entry, of_memory], _) = ranked.rows.similarity(group);
            reasons.push(Reason::SimilarText { similarity: of_entry.max(of_memory) });
        }
        reasons
    }
}

impl<'a> RankedCandidates<'a> {
    /// Adds dense scores to the scores of rows and memories. A memory whose dense score stands out reaches the
    /// strict threshold.
    fn add_dense_scores(&mut self, dense: &'a DenseScores) {
        for (score, row) in self.scores.iter_mut().zip(&self.rows.list) {
            *score += dense.entry_score(row.entry);
        }
        for scored in &mut self.memories {
            scored.score += dense.memory_score(self.rows.entries(&scored.group));
            let lift = dense.answer_lift(self.rows.entries(&scored.group));
            if lift > 0.0 {
                let coverage = scored.coverage.combined() + lift * COVERAGE_MIN;
                let lifted = COVERAGE_SLOPE * (coverage - COVERAGE_MIN);
                scored.answer_score = scored.answer_score.max(lifted);
                let reached = if lifted >= 0.0 { Threshold::Strict } else { Threshold::Lenient };
                scored.reached = scored.reached.max(reached);
            }
        }
        self.dense_scores = Some(dense);
    }

    /// Decides which threshold each of the first memories reaches, as far as the options need it. A memory is never
    /// more likely to help than one before it.
    fn assess(&mut self, corpus: &Corpus, options: &RankOptions) {
        let Some(best) = self.memories.first().cloned() else { return };
        let contexts = self.contexts();
        let best_answer_score = self.answer_score(corpus, &contexts, 0);
        let mut answer_score = best_answer_score;
        for index in 0..options.limit.min(self.memories.len()) {
            let scored = &self.memories[index];
            let qualifies =
                best_answer_score >= 0.0 && (index == 0 || self.qualifies_beside(&best, scored));
            if !qualifies && options.threshold == Threshold::Strict {
                continue;
            }
            let own_score = match index {
                0 => best_answer_score,
                _ => self.answer_score(corpus, &contexts, index),
            };
            let reached = if qualifies {
                Threshold::Strict
            } else if self.is_related(scored, own_score) {
                Threshold::Lenient
            } else {
                continue;
            };
            answer_score = answer_score.min(own_score);
            let scored = &mut self.memories[index];
            (scored.reached, scored.answer_score) = (reached, answer_score);
        }
    }

    /// Checks whether a memory has some relation to the prompt: the lenient threshold.
    fn is_related(&self, scored: &ScoredMemory, answer_score: f32) -> bool {
        if self.query.text_vector.is_empty() {
            return scored.coverage.combined() >= RELATED_COVERAGE_MIN;
        }
        let covered = scored.coverage.share_of(scored.coverage.combined());
        let ([of_entry, _], _) = self.rows.similarity(&scored.group);
        let answer_min = if self.uses_encoder_rules() {
            ENCODER_LENIENT_ANSWER_MIN
        } else {
            LENIENT_ANSWER_MIN[usize::from(self.query.is_foreign)]
        };
        answer_score >= answer_min
            && (covered >= RELATED_SHARE_MIN
                || of_entry >= RELATED_SIMILARITY_MIN
                || scored.encoder_similarity >= ENCODER_RELATED_MIN)
    }

    /// Checks whether a memory is shown beside the best.
    fn qualifies_beside(&self, best: &ScoredMemory, other: &ScoredMemory) -> bool {
        if self.query.text_vector.is_empty() {
            let coverage_min = (best.coverage.combined() * COVERAGE_SHARE_MIN).max(COVERAGE_FLOOR);
            return best.score - other.score <= SCORE_GAP_MAX
                || other.coverage.combined() >= coverage_min;
        }
        let features = || self.runner_up_features(best, other);
        let weighted = || {
            if self.encoder.is_some() {
                let (of_memory, of_both) = &ENCODER_OF_BESIDE;
                dot_product(&other.features, of_memory) + dot_product(&features(), of_both)
            } else {
                let (of_memory, of_both) = &OF_BESIDE;
                dot_product(&other.features, of_memory)
                    + dot_product(&features()[..of_both.len()], of_both)
            }
        };
        best.score - other.score <= TIE_MARGIN || weighted() >= 0.0
    }

    /// Compares a memory with the best: score gap, share of the question that only this memory covers, a constant 1, gap
    /// of the similarity by the encoder, and that similarity.
    fn runner_up_features(
        &self,
        best: &ScoredMemory,
        other: &ScoredMemory,
    ) -> [f32; ENCODER_RUNNER_UP_LEN] {
        let beyond = self.rows.extra_coverage(&self.query, &other.group, &best.group);
        [
            best.score - other.score,
            other.coverage.share_of(beyond),
            1.0,
            best.encoder_similarity - other.encoder_similarity,
            other.encoder_similarity,
        ]
    }

    /// Returns the log-odds that the memory at `index` helps. If it is the best, zero is the strict threshold.
    fn answer_score(&self, corpus: &Corpus, contexts: &[CandidateMatch], index: usize) -> f32 {
        if self.query.text_vector.is_empty() {
            let coverage = self.memories.get(index).map_or(0.0, |of| of.coverage.combined());
            return COVERAGE_SLOPE * (coverage - COVERAGE_MIN);
        }
        let rules = if self.uses_encoder_rules() {
            ENCODER_OF_ANSWER
        } else if self.query.is_foreign {
            OF_FOREIGN_ANSWER
        } else {
            OF_ANSWER
        };
        abstain::answer_score(&self.answer_features(corpus, contexts, index), rules)
    }

    /// Checks whether the decision to answer uses the encoder. It was trained on English.
    const fn uses_encoder_rules(&self) -> bool {
        self.encoder.is_some() && !self.query.is_foreign
    }

    /// Returns how each memory matches, for comparison with each other; nothing where vectors are not used.
    fn contexts(&self) -> Vec<CandidateMatch> {
        if self.query.text_vector.is_empty() {
            return Vec::new();
        }
        let context = |scored: &ScoredMemory| {
            let (text_similarity, word_similarity) = self.rows.similarity(&scored.group);
            CandidateMatch {
                coverage: scored.coverage,
                score: scored.score,
                text_similarity,
                word_similarity,
                encoder_similarity: scored.encoder_similarity,
            }
        };
        self.memories.iter().map(context).collect()
    }

    /// Returns the features of the decision whether to answer with the memory at `index`. `contexts` are those of all
    /// memories.
    fn answer_features(
        &self,
        corpus: &Corpus,
        contexts: &[CandidateMatch],
        index: usize,
    ) -> [f32; ANSWER_FEATURE_COUNT] {
        let own = self.memories.get(index);
        let exact = |term| own.map_or(0.0, |own| self.rows.best_match(&own.group, term).0);
        let own_match = own.map_or_else(OwnMatch::default, |own| OwnMatch {
            entry_share: self.rows.best_entry_share(&self.query, &own.group),
            identifiers: own.features[MEMORY_IDENTIFIERS],
            header_share: own.features[HEADER_SHARE],
            encoder_distance: self
                .encoder
                .as_ref()
                .map(|encoder| encoder.scores.distance(own.encoder_similarity)),
        });
        abstain::features(corpus, &self.query, (contexts, index, own_match), exact)
    }
}

impl ScoredMemory {
    fn is_weak(&self) -> bool {
        self.reached < Threshold::Strict
    }

    /// Returns the probability that it helps.
    fn confidence(&self) -> f32 {
        let probability = 1.0 / (1.0 + (-self.answer_score).exp());
        if self.is_weak() { probability.min(WEAK_CONFIDENCE_MAX) } else { probability.max(0.5) }
    }
}
