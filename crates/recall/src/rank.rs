//! Which memories and entries fit a prompt, best first, and why.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::ops::Range;

use memory::path::MemoryPath;

use crate::answer::{self, ANSWER, Known};
use crate::corpus::Corpus;
use crate::features::{ENTRY, Fit, Group, MEMORY, MONTH, Rows, SUBJECT};
use crate::likeness::Likeness;
use crate::look::{self, Match};
use crate::question::Question;
use crate::weights::{BESIDE, OF_BESIDE, OF_ENTRY, OF_MEMORY, product};

/// How many entries of a memory a hit shows, at most.
const SHOWN: usize = 3;

/// How much of the question's words the best memory must have, or nothing is answered, where meaning does not
/// count; a word that only one entry has and that is rare in the language counts nearly 1. Without the table every
/// word is taken for rare.
const FIT_MIN: f32 = if cfg!(feature = "embedder") { 0.65 } else { 0.78 };
/// A memory that stands no farther behind the best fits about as well.
const ABOUT_EQUAL: f32 = 0.25;
/// How much of what the best memory has of them another must have beside it there, and at least; or by how little it
/// must stand behind the best. Others are left out.
const FIT_SHARE_MIN: f32 = 0.25;
const FIT_LEAST: f32 = 0.3;
const BEHIND_MAX: f32 = 2.0;

/// How to look.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many hits are wanted, at most.
    pub limit: usize,
    /// Whether to answer nothing when nothing seems to fit.
    pub abstain: bool,
    /// Whether words that mean about the same count, besides the words themselves.
    pub by_sense: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { limit: 5, abstain: true, by_sense: true }
    }
}

/// A memory that fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
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
    Word {
        /// As the prompt has it.
        asked: String,
        /// As the memory has it.
        found: String,
    },
    /// A word of the prompt is probably this one, misspelled.
    Misspelled {
        /// As the prompt has it.
        asked: String,
        /// As the memory has it.
        found: String,
    },
    /// A word means about the same as one of the prompt.
    Near {
        /// As the prompt has it.
        asked: String,
        /// As the memory has it.
        found: String,
        /// How near they are; 1 is the same.
        nearness: f32,
    },
    /// It is from the day or month that the prompt names.
    Date,
    /// An entry is about somebody or something that the prompt names.
    Subject,
    /// As a whole it is like the prompt, by vectors that were handed in or when nothing else tells why.
    Alike {
        /// How near their vectors are; 1 is the same.
        nearness: f32,
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
    pub beside: Vec<[f32; BESIDE]>,
    /// What the decision to answer nothing goes by.
    pub answer: [f32; ANSWER],
}

/// A prompt that was looked up.
struct Found<'a> {
    question: Question,
    matches: Vec<Match>,
    rows: Rows,
    /// How well each row fits.
    scores: Vec<f32>,
    /// Memories, the best first.
    memories: Vec<Scored>,
    /// What was weighed beside the words.
    likeness: Option<&'a Likeness>,
}

/// A memory that was looked at.
#[derive(Clone, Debug)]
struct Scored {
    group: Group,
    score: f32,
    features: [f32; MEMORY],
    fit: Fit,
}

impl Corpus {
    /// Returns the memories that fit a prompt, the best first; nothing if nothing fits.
    pub fn rank(&self, prompt: &str, options: &Options) -> Vec<Hit> {
        self.rank_with(prompt, options, None)
    }

    /// The same with what vectors tell beside the words. A memory that stands out by it is returned even if it
    /// shares no word with the prompt.
    pub fn rank_with(
        &self,
        prompt: &str,
        options: &Options,
        likeness: Option<&Likeness>,
    ) -> Vec<Hit> {
        let others = likeness.map_or(&[][..], Likeness::best);
        let mut found = self.find(prompt, options.by_sense, others);
        // What is told without likeness is decided without it.
        let told: HashSet<u32> = if options.abstain {
            found.told(self, options.limit).collect()
        } else {
            HashSet::new()
        };
        if options.abstain && told.is_empty() && likeness.is_none() {
            return Vec::new();
        }
        if let Some(likeness) = likeness {
            found.weigh(likeness);
            self.sort(&mut found.memories);
        }
        let is_lifted = |scored: &Scored| {
            let lift = found.lift(&scored.group);
            lift > 0.0 && scored.fit.all() + lift * FIT_MIN >= FIT_MIN
        };
        let fits = |scored: &&Scored| {
            !options.abstain || told.contains(&scored.group.memory) || is_lifted(scored)
        };
        let hits = found.memories.iter().filter(fits).take(options.limit);
        let hits = hits.filter_map(|scored| self.hit(&found, scored)).collect();
        look::reuse(found.rows);
        hits
    }

    /// Returns the entries that fit a prompt, the best first, of whatever memory; nothing is held back.
    pub fn rank_entries(&self, prompt: &str, options: &Options) -> Vec<EntryHit> {
        let found = self.find(prompt, options.by_sense, &[]);
        let order = self.in_order(&found, 0..found.rows.list.len());
        let best = order.into_iter().take(options.limit);
        best.filter_map(|row| self.entry_hit(&found, row)).collect()
    }

    /// Returns all that speaks for and against whatever was looked at.
    pub fn ranking(&self, prompt: &str, options: &Options) -> Ranking {
        let found = self.find(prompt, options.by_sense, &[]);
        let order = self.in_order(&found, 0..found.rows.list.len());
        let entries = order
            .into_iter()
            .filter_map(|row| Some((self.entry_hit(&found, row)?, found.rows.list[row].features)))
            .collect();
        let memories = found.memories.iter().filter_map(|scored| {
            Some((self.path_of(scored.group.memory)?.clone(), scored.score, scored.features))
        });
        let best = found.memories.first();
        let beside = found.memories.iter().zip(best.into_iter().cycle());
        let beside = beside.map(|(scored, best)| found.beside(best, scored)).collect();
        Ranking { entries, memories: memories.collect(), beside, answer: found.answer(self) }
    }

    fn find(&self, prompt: &str, by_sense: bool, others: &[u32]) -> Found<'_> {
        let question = Question::read(prompt, self, by_sense);
        let matches = look::matches(self, &question, by_sense);
        let rows = look::rows(self, &question, &matches, others);
        let scores: Vec<f32> =
            rows.list.iter().map(|row| product(&row.features, &OF_ENTRY)).collect();
        let fits: Vec<Fit> = rows.groups.iter().map(|group| rows.fit(&question, group)).collect();
        let told = fits.iter().map(Fit::share).fold(0.0, f32::max);
        let little = if question.gist.is_empty() { 0.0 } else { 1.0 - told };
        let groups = rows.groups.iter().zip(fits);
        let mut memories: Vec<Scored> = groups
            .map(|(group, fit)| {
                let features = rows.of_memory(group, &scores, little);
                let score = product(&features, &OF_MEMORY);
                Scored { group: group.clone(), score, features, fit }
            })
            .collect();
        self.sort(&mut memories);
        Found { question, matches, rows, scores, memories, likeness: None }
    }

    /// Puts memories in their order, the best first.
    fn sort(&self, memories: &mut [Scored]) {
        memories.sort_unstable_by(|a, b| {
            let path = |scored: &Scored| self.path_of(scored.group.memory);
            b.score.total_cmp(&a.score).then_with(|| path(a).cmp(&path(b)))
        });
    }

    fn path_of(&self, memory: u32) -> Option<&MemoryPath> {
        Some(&self.memories.get(memory as usize)?.as_ref()?.path)
    }

    /// Rows, the best first.
    fn in_order(&self, found: &Found<'_>, rows: Range<usize>) -> Vec<usize> {
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

    fn entry_hit(&self, found: &Found<'_>, row: usize) -> Option<EntryHit> {
        let entry = self.entries.get(found.rows.list[row].entry as usize)?.as_ref()?;
        Some(EntryHit {
            path: self.path_of(entry.memory)?.clone(),
            ordinal: entry.ordinal as usize,
            range: entry.range.clone(),
            score: found.scores[row],
        })
    }

    fn hit(&self, found: &Found<'_>, scored: &Scored) -> Option<Hit> {
        let order = self.in_order(found, scored.group.rows.clone());
        let shown = order.into_iter().take(SHOWN);
        Some(Hit {
            path: self.path_of(scored.group.memory)?.clone(),
            score: scored.score,
            entries: shown.filter_map(|row| self.entry_hit(found, row)).collect(),
            reasons: self.reasons(found, &scored.group),
        })
    }

    /// Why a memory fits: for each word of the prompt the best that answers to it, then the rest.
    fn reasons(&self, found: &Found<'_>, group: &Group) -> Vec<Reason> {
        let rows = &found.rows.list[group.rows.clone()];
        let has = |terms: &[(u32, f32)], term: u32| {
            terms.binary_search_by_key(&term, |(id, _)| *id).is_ok()
        };
        let held = self.memories[group.memory as usize].as_ref();
        let has_term = |term: u32| {
            held.is_some_and(|held| has(&held.head, term))
                || rows.iter().any(|row| {
                    let entry = self.entries[row.entry as usize].as_ref();
                    entry.is_some_and(|entry| has(&entry.terms, term))
                })
        };
        let mut reasons = Vec::new();
        for (asked, of) in found.question.asked.iter().enumerate() {
            let own = found.matches.iter().filter(|one| one.asked == asked && has_term(one.term));
            let best = own.max_by(|a, b| {
                let word = |one: &Match| Reverse(&self.terms.list[one.term as usize].word);
                a.near.total_cmp(&b.near).then_with(|| word(a).cmp(&word(b)))
            });
            let Some(best) = best else { continue };
            let asked = of.word.text.clone();
            let found = self.terms.list[best.term as usize].word.to_string();
            reasons.push(if best.same >= 1.0 {
                Reason::Word { asked, found }
            } else if best.same > 0.0 {
                Reason::Misspelled { asked, found }
            } else {
                Reason::Near { asked, found, nearness: best.near }
            });
        }
        let has = |feature: usize| rows.iter().any(|row| row.features[feature] > 0.0);
        reasons.extend(has(MONTH).then_some(Reason::Date));
        reasons.extend(has(SUBJECT).then_some(Reason::Subject));
        let told = found.likeness.and_then(|likeness| likeness.told(found.rows.entries(group)));
        reasons.extend(told.map(|nearness| Reason::Alike { nearness }));
        if reasons.is_empty() && !found.question.gist.is_empty() {
            let ([of_entry, of_memory], _) = found.rows.nearness(group);
            reasons.push(Reason::Alike { nearness: of_entry.max(of_memory) });
        }
        reasons
    }
}

impl<'a> Found<'a> {
    /// Weighs what vectors tell beside the words.
    fn weigh(&mut self, likeness: &'a Likeness) {
        for (score, row) in self.scores.iter_mut().zip(&self.rows.list) {
            *score += likeness.of_entry(row.entry);
        }
        for scored in &mut self.memories {
            scored.score += likeness.of_memory(self.rows.entries(&scored.group));
        }
        self.likeness = Some(likeness);
    }

    /// Returns those of the first memories that the question is answered with; none if the best does not fit well
    /// enough.
    fn told(&self, corpus: &Corpus, limit: usize) -> impl Iterator<Item = u32> {
        let best = self.memories.first().filter(|best| self.is_answered_by(corpus, best));
        best.into_iter().flat_map(move |best| {
            let others = self.memories.iter().take(limit).skip(1);
            let others = others.filter(|other| self.is_beside(best, other));
            std::iter::once(best).chain(others).map(|scored| scored.group.memory)
        })
    }

    /// Whether a memory is worth being shown beside the best.
    fn is_beside(&self, best: &Scored, other: &Scored) -> bool {
        if self.question.gist.is_empty() {
            let fit_min = (best.fit.all() * FIT_SHARE_MIN).max(FIT_LEAST);
            return best.score - other.score <= BEHIND_MAX || other.fit.all() >= fit_min;
        }
        let (of_memory, of_both) = &OF_BESIDE;
        let weighed =
            || product(&other.features, of_memory) + product(&self.beside(best, other), of_both);
        best.score - other.score <= ABOUT_EQUAL || weighed() >= 0.0
    }

    /// How a memory stands beside the best: how far behind, how much of the question it has beyond that, and 1.
    fn beside(&self, best: &Scored, other: &Scored) -> [f32; BESIDE] {
        let beyond = self.rows.beyond(&self.question, &other.group, &best.group);
        [best.score - other.score, other.fit.share_of(beyond), 1.0]
    }

    /// Whether what fits best fits well enough.
    fn is_answered_by(&self, corpus: &Corpus, best: &Scored) -> bool {
        if self.question.gist.is_empty() {
            return best.fit.all() >= FIT_MIN;
        }
        answer::weigh(&self.answer(corpus)) >= 0.0
    }

    /// What speaks for answering.
    fn answer(&self, corpus: &Corpus) -> [f32; ANSWER] {
        let known = |scored: &Scored| {
            let (gist, sense) = self.rows.nearness(&scored.group);
            Known { fit: scored.fit, score: scored.score, gist, sense }
        };
        let known: Vec<Known> = self.memories.iter().map(known).collect();
        let best = self.memories.first();
        let told = |at| best.map_or(0.0, |best| self.rows.most_of(&best.group, at).0);
        answer::features(corpus, &self.question, &known, told)
    }

    /// How much of what an answer needs a memory has by its likeness.
    fn lift(&self, group: &Group) -> f32 {
        self.likeness.map_or(0.0, |likeness| likeness.lift(self.rows.entries(group)))
    }
}
