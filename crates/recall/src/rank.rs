//! Which memories and entries fit a prompt, best first, and why.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::ops::Range;

use memory::path::MemoryPath;

use crate::abstain::{self, ANSWER, MatchContext};
use crate::candidates::{self, TermMatch};
use crate::corpus::Corpus;
use crate::dense::DenseScores;
use crate::features::{CandidateRows, Coverage, ENTRY, MEMORY, MONTH, RowGroup, SUBJECT};
use crate::query::PromptQuery;
use crate::weights::{OF_BESIDE, OF_ENTRY, OF_MEMORY, RUNNER_UP_LEN, dot_product};

/// How many entries of a memory a hit shows, at most.
const HIT_ENTRIES_MAX: usize = 3;

/// How much of the question's words the best memory must have, or nothing is answered, where meaning does not
/// count; a word that only one entry has and that is rare in the language counts nearly 1. Without the table every
/// word is taken for rare.
const COVERAGE_MIN: f32 = if cfg!(feature = "embedder") { 0.65 } else { 0.78 };
/// A memory that stands no farther behind the best fits about as well.
const TIE_MARGIN: f32 = 0.25;
/// How much of what the best memory has of them another must have beside it there, and at least; or by how little it
/// must stand behind the best. Others are left out.
const COVERAGE_SHARE_MIN: f32 = 0.25;
const COVERAGE_FLOOR: f32 = 0.3;
const SCORE_GAP_MAX: f32 = 2.0;

/// How to look.
#[derive(Clone, Copy, Debug)]
pub struct RankOptions {
    /// How many hits are wanted, at most.
    pub limit: usize,
    /// Whether to answer nothing when nothing seems to fit.
    pub abstain: bool,
    /// Whether words that mean about the same count, besides the words themselves.
    pub use_vectors: bool,
}

impl Default for RankOptions {
    fn default() -> Self {
        Self { limit: 5, abstain: true, use_vectors: true }
    }
}

/// A memory that fits.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryHit {
    /// Its path.
    pub path: MemoryPath,
    /// How well it fits, beside others of the same prompt.
    pub score: f32,
    /// Its entries that fit best, the best first; at most three.
    pub entries: Vec<EntryHit>,
    /// Why it was chosen.
    pub reasons: Vec<Reason>,
}

/// An entry that fits.
#[derive(Clone, Debug, PartialEq)]
pub struct EntryHit {
    /// The path of its memory.
    pub path: MemoryPath,
    /// Which entry of the memory it is, from 0.
    pub ordinal: usize,
    /// Where it is in the file, in bytes.
    pub range: Range<usize>,
    /// How well it fits, beside others of the same prompt.
    pub score: f32,
}

/// One reason for a hit.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// A word of the prompt stands in it, in some form.
    ExactWord {
        /// As the prompt has it.
        query_word: String,
        /// As the memory has it.
        memory_word: String,
    },
    /// A word of the prompt is probably this one, misspelled.
    Misspelled {
        /// As the prompt has it.
        query_word: String,
        /// As the memory has it.
        memory_word: String,
    },
    /// A word means about the same as one of the prompt.
    SimilarWord {
        /// As the prompt has it.
        query_word: String,
        /// As the memory has it.
        memory_word: String,
        /// How near they are; 1 is the same.
        similarity: f32,
    },
    /// It is from the day or month that the prompt names.
    Date,
    /// An entry is about somebody or something that the prompt names.
    Subject,
    /// As a whole it is like the prompt, by vectors that were handed in or when nothing else tells why.
    SimilarText {
        /// How near their vectors are; 1 is the same.
        similarity: f32,
    },
}

/// Everything that was looked at for a prompt, for learning weights and for measuring.
#[derive(Clone, Debug, Default)]
pub struct Ranking {
    /// Entries with their features, the best first.
    pub entries: Vec<(EntryHit, [f32; ENTRY])>,
    /// Memories with their features, the best first.
    pub memories: Vec<(MemoryPath, f32, [f32; MEMORY])>,
    /// How each of them stands beside the best: what [`Corpus::rank`] weighs to show it too.
    pub runner_up: Vec<[f32; RUNNER_UP_LEN]>,
    /// What the decision to answer nothing goes by.
    pub answer: [f32; ANSWER],
}

/// A prompt that was looked up.
struct RankedCandidates<'a> {
    query: PromptQuery,
    matches: Vec<TermMatch>,
    rows: CandidateRows,
    /// How well each row fits.
    scores: Vec<f32>,
    /// Memories, the best first.
    memories: Vec<ScoredMemory>,
    /// What was weighed beside the words.
    dense_scores: Option<&'a DenseScores>,
}

/// A memory that was looked at.
#[derive(Clone, Debug)]
struct ScoredMemory {
    group: RowGroup,
    score: f32,
    features: [f32; MEMORY],
    coverage: Coverage,
}

impl Corpus {
    /// Returns the memories that fit a prompt, the best first; nothing if nothing fits.
    pub fn rank(&self, prompt: &str, options: &RankOptions) -> Vec<MemoryHit> {
        self.rank_with(prompt, options, None)
    }

    /// The same with what vectors tell beside the words. A memory that stands out by it is returned even if it
    /// shares no word with the prompt.
    pub fn rank_with(
        &self,
        prompt: &str,
        options: &RankOptions,
        likeness: Option<&DenseScores>,
    ) -> Vec<MemoryHit> {
        let others = likeness.map_or(&[][..], DenseScores::top_entries);
        let mut found = self.rank_candidates(prompt, options.use_vectors, others);
        // What is told without likeness is decided without it.
        let told: HashSet<u32> = if options.abstain {
            found.answering_memories(self, options.limit).collect()
        } else {
            HashSet::new()
        };
        if options.abstain && told.is_empty() && likeness.is_none() {
            return Vec::new();
        }
        if let Some(likeness) = likeness {
            found.add_dense_scores(likeness);
            self.sort_memories(&mut found.memories);
        }
        let is_lifted = |scored: &ScoredMemory| {
            let lift = found.answer_lift(&scored.group);
            lift > 0.0 && scored.coverage.combined() + lift * COVERAGE_MIN >= COVERAGE_MIN
        };
        let fits = |scored: &&ScoredMemory| {
            !options.abstain || told.contains(&scored.group.memory) || is_lifted(scored)
        };
        let hits = found.memories.iter().filter(fits).take(options.limit);
        let hits = hits.filter_map(|scored| self.hit(&found, scored)).collect();
        candidates::recycle(found.rows);
        hits
    }

    /// Returns the entries that fit a prompt, the best first, of whatever memory; nothing is held back.
    pub fn rank_entries(&self, prompt: &str, options: &RankOptions) -> Vec<EntryHit> {
        let found = self.rank_candidates(prompt, options.use_vectors, &[]);
        let order = self.rows_by_score(&found, 0..found.rows.list.len());
        let best = order.into_iter().take(options.limit);
        best.filter_map(|row| self.entry_hit(&found, row)).collect()
    }

    /// Returns all that speaks for and against whatever was looked at.
    pub fn ranking(&self, prompt: &str, options: &RankOptions) -> Ranking {
        let found = self.rank_candidates(prompt, options.use_vectors, &[]);
        let order = self.rows_by_score(&found, 0..found.rows.list.len());
        let entries = order
            .into_iter()
            .filter_map(|row| Some((self.entry_hit(&found, row)?, found.rows.list[row].features)))
            .collect();
        let memories = found.memories.iter().filter_map(|scored| {
            Some((self.path_of(scored.group.memory)?.clone(), scored.score, scored.features))
        });
        let best = found.memories.first();
        let beside = found.memories.iter().zip(best.into_iter().cycle());
        let beside = beside.map(|(scored, best)| found.runner_up_features(best, scored)).collect();
        Ranking {
            entries,
            memories: memories.collect(),
            runner_up: beside,
            answer: found.answer_features(self),
        }
    }

    fn rank_candidates(
        &self,
        prompt: &str,
        by_sense: bool,
        others: &[u32],
    ) -> RankedCandidates<'_> {
        let question = PromptQuery::parse(prompt, self, by_sense);
        let matches = candidates::match_terms(self, &question, by_sense);
        let rows = candidates::collect_candidates(self, &question, &matches, others);
        let scores: Vec<f32> =
            rows.list.iter().map(|row| dot_product(&row.features, &OF_ENTRY)).collect();
        let fits: Vec<Coverage> =
            rows.groups.iter().map(|group| rows.coverage(&question, group)).collect();
        let told = fits.iter().map(Coverage::exact_share).fold(0.0, f32::max);
        let little = if question.text_vector.is_empty() { 0.0 } else { 1.0 - told };
        let groups = rows.groups.iter().zip(fits);
        let mut memories: Vec<ScoredMemory> = groups
            .map(|(group, fit)| {
                let features = rows.memory_features(group, &scores, little);
                let score = dot_product(&features, &OF_MEMORY);
                ScoredMemory { group: group.clone(), score, features, coverage: fit }
            })
            .collect();
        self.sort_memories(&mut memories);
        RankedCandidates { query: question, matches, rows, scores, memories, dense_scores: None }
    }

    /// Puts memories in their order, the best first.
    fn sort_memories(&self, memories: &mut [ScoredMemory]) {
        memories.sort_unstable_by(|a, b| {
            let path = |scored: &ScoredMemory| self.path_of(scored.group.memory);
            b.score.total_cmp(&a.score).then_with(|| path(a).cmp(&path(b)))
        });
    }

    fn path_of(&self, memory: u32) -> Option<&MemoryPath> {
        Some(&self.memories.get(memory as usize)?.as_ref()?.path)
    }

    /// Rows, the best first.
    fn rows_by_score(&self, found: &RankedCandidates<'_>, rows: Range<usize>) -> Vec<usize> {
        let place = |row: usize| {
            let of = self.entries[found.rows.list[row].entry as usize].as_ref()?;
            Some((self.path_of(of.memory)?, of.ordinal))
        };
        let mut order: Vec<usize> = rows.collect();
        order.sort_by(|a, b| {
            found.scores[*b].total_cmp(&found.scores[*a]).then_with(|| place(*a).cmp(&place(*b)))
        });
        order
    }

    fn entry_hit(&self, found: &RankedCandidates<'_>, row: usize) -> Option<EntryHit> {
        let entry = self.entries.get(found.rows.list[row].entry as usize)?.as_ref()?;
        Some(EntryHit {
            path: self.path_of(entry.memory)?.clone(),
            ordinal: entry.ordinal as usize,
            range: entry.range.clone(),
            score: found.scores[row],
        })
    }

    fn hit(&self, found: &RankedCandidates<'_>, scored: &ScoredMemory) -> Option<MemoryHit> {
        let order = self.rows_by_score(found, scored.group.rows.clone());
        let shown = order.into_iter().take(HIT_ENTRIES_MAX);
        Some(MemoryHit {
            path: self.path_of(scored.group.memory)?.clone(),
            score: scored.score,
            entries: shown.filter_map(|row| self.entry_hit(found, row)).collect(),
            reasons: self.reasons(found, &scored.group),
        })
    }

    /// Why a memory fits: for each word of the prompt the best that answers to it, then the rest.
    fn reasons(&self, found: &RankedCandidates<'_>, group: &RowGroup) -> Vec<Reason> {
        let rows = &found.rows.list[group.rows.clone()];
        let has = |terms: &[(u32, f32)], term: u32| {
            terms.binary_search_by_key(&term, |(id, _)| *id).is_ok()
        };
        let held = self.memories[group.memory as usize].as_ref();
        let has_term = |term: u32| {
            held.is_some_and(|held| has(&held.header_terms, term))
                || rows.iter().any(|row| {
                    let entry = self.entries[row.entry as usize].as_ref();
                    entry.is_some_and(|entry| has(&entry.terms, term))
                })
        };
        let mut reasons = Vec::new();
        for (asked, of) in found.query.terms.iter().enumerate() {
            let own =
                found.matches.iter().filter(|one| one.query_term == asked && has_term(one.term));
            let best = own.max_by(|a, b| {
                let word = |one: &TermMatch| Reverse(&self.terms.list[one.term as usize].word);
                a.similarity.total_cmp(&b.similarity).then_with(|| word(a).cmp(&word(b)))
            });
            let Some(best) = best else { continue };
            let asked = of.word.text.clone();
            let found = self.terms.list[best.term as usize].word.to_string();
            reasons.push(if best.exact >= 1.0 {
                Reason::ExactWord { query_word: asked, memory_word: found }
            } else if best.exact > 0.0 {
                Reason::Misspelled { query_word: asked, memory_word: found }
            } else {
                Reason::SimilarWord {
                    query_word: asked,
                    memory_word: found,
                    similarity: best.similarity,
                }
            });
        }
        let has = |feature: usize| rows.iter().any(|row| row.features[feature] > 0.0);
        reasons.extend(has(MONTH).then_some(Reason::Date));
        reasons.extend(has(SUBJECT).then_some(Reason::Subject));
        let told = found
            .dense_scores
            .and_then(|likeness| likeness.outlier_similarity(found.rows.entries(group)));
        reasons.extend(told.map(|nearness| Reason::SimilarText { similarity: nearness }));
        if reasons.is_empty() && !found.query.text_vector.is_empty() {
            let ([of_entry, of_memory], _) = found.rows.similarity(group);
            reasons.push(Reason::SimilarText { similarity: of_entry.max(of_memory) });
        }
        reasons
    }
}

impl<'a> RankedCandidates<'a> {
    /// Weighs what vectors tell beside the words.
    fn add_dense_scores(&mut self, likeness: &'a DenseScores) {
        for (score, row) in self.scores.iter_mut().zip(&self.rows.list) {
            *score += likeness.entry_score(row.entry);
        }
        for scored in &mut self.memories {
            scored.score += likeness.memory_score(self.rows.entries(&scored.group));
        }
        self.dense_scores = Some(likeness);
    }

    /// Returns those of the first memories that the question is answered with; none if the best does not fit well
    /// enough.
    fn answering_memories(&self, corpus: &Corpus, limit: usize) -> impl Iterator<Item = u32> {
        let best = self.memories.first().filter(|best| self.is_good_enough(corpus, best));
        best.into_iter().flat_map(move |best| {
            let others = self.memories.iter().take(limit).skip(1);
            let others = others.filter(|other| self.qualifies_beside(best, other));
            std::iter::once(best).chain(others).map(|scored| scored.group.memory)
        })
    }

    /// Whether a memory is worth being shown beside the best.
    fn qualifies_beside(&self, best: &ScoredMemory, other: &ScoredMemory) -> bool {
        if self.query.text_vector.is_empty() {
            let fit_min = (best.coverage.combined() * COVERAGE_SHARE_MIN).max(COVERAGE_FLOOR);
            return best.score - other.score <= SCORE_GAP_MAX
                || other.coverage.combined() >= fit_min;
        }
        let (of_memory, of_both) = &OF_BESIDE;
        let weighed = || {
            dot_product(&other.features, of_memory)
                + dot_product(&self.runner_up_features(best, other), of_both)
        };
        best.score - other.score <= TIE_MARGIN || weighed() >= 0.0
    }

    /// How a memory stands beside the best: how far behind, how much of the question it has beyond that, and 1.
    fn runner_up_features(
        &self,
        best: &ScoredMemory,
        other: &ScoredMemory,
    ) -> [f32; RUNNER_UP_LEN] {
        let beyond = self.rows.extra_coverage(&self.query, &other.group, &best.group);
        [best.score - other.score, other.coverage.share_of(beyond), 1.0]
    }

    /// Whether what fits best fits well enough.
    fn is_good_enough(&self, corpus: &Corpus, best: &ScoredMemory) -> bool {
        if self.query.text_vector.is_empty() {
            return best.coverage.combined() >= COVERAGE_MIN;
        }
        abstain::answer_score(&self.answer_features(corpus)) >= 0.0
    }

    /// What speaks for answering.
    fn answer_features(&self, corpus: &Corpus) -> [f32; ANSWER] {
        let known = |scored: &ScoredMemory| {
            let (gist, sense) = self.rows.similarity(&scored.group);
            MatchContext {
                coverage: scored.coverage,
                score: scored.score,
                text_similarity: gist,
                word_similarity: sense,
            }
        };
        let known: Vec<MatchContext> = self.memories.iter().map(known).collect();
        let best = self.memories.first();
        let told = |at| best.map_or(0.0, |best| self.rows.best_match(&best.group, at).0);
        abstain::features(corpus, &self.query, &known, told)
    }

    /// How much of what an answer needs a memory has by its likeness.
    fn answer_lift(&self, group: &RowGroup) -> f32 {
        self.dense_scores.map_or(0.0, |likeness| likeness.answer_lift(self.rows.entries(group)))
    }
}
