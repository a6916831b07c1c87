//! Which entries are worth a closer look: those that hold a word of the question, or one near it.
//!
//! Entries are counted up by the postings of their words, and the best of them are taken with their
//! neighbours. The work is bounded, however large the corpus: a word that stands nearly everywhere is passed
//! over once enough was counted.

use std::cmp::Ordering;

use crate::corpus::{Corpus, Held};
use crate::embedder::nearness;
use crate::features::{REACH, Row, Rows};
use crate::lanes::filled_up;
use crate::question::Question;
use crate::terms::{Posting, number};

/// How many entries are looked at word by word, besides their neighbours.
const CANDIDATES: usize = 96;
/// How many terms may answer to a word by their meaning, at most; the nearest.
const NEAR_MAX: usize = 48;
/// How many postings are counted up, at most; the rarest words' first.
const POSTINGS_MAX: usize = 16_384;
/// How many memories are looked at because as wholes they mean what the question means, among how many at
/// most, and how many entries of each.
const ALIKE: usize = 8;
pub(crate) const ALIKE_AMONG_MAX: usize = 4_096;
const ALIKE_ENTRIES: usize = 16;
/// How much a word that was meant to be another counts as it, by its slips.
const SLIP: f32 = 0.8;
/// In how many steps it is counted how near words are that are added up.
const KINSHIP_STEPS: f32 = 256.0;
/// How often a word may be said before saying it again hardly counts.
const SATURATION: f32 = 1.2;

/// A word of the corpus that answers to a word of the question.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Match {
    pub(crate) term: u32,
    /// Which word of the question.
    pub(crate) asked: usize,
    /// How much it counts as that word itself.
    pub(crate) same: f32,
    /// How near it is in meaning.
    pub(crate) near: f32,
}

impl Match {
    /// How much it counts among all that is near. In steps that can be added up in any order: the numbers
    /// of words depend on which came first.
    fn kinship(&self) -> f32 {
        (self.near * self.near * KINSHIP_STEPS).round() / KINSHIP_STEPS
    }
}

/// What ranking needs for a while; kept, so that it need not be made each time.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    scores: Vec<f32>,
    touched: Vec<u32>,
    bits: Vec<u32>,
    /// For each term, one past where its matches begin; 0 for none.
    slots: Vec<u32>,
    /// For each entry, one past its row; 0 for none.
    places: Vec<u32>,
}

/// Returns the words of the corpus that answer to those of a question, term by term.
pub(crate) fn matches(corpus: &Corpus, question: &Question, by_sense: bool) -> Vec<Match> {
    let mut matches = Vec::new();
    for (asked, of) in question.asked.iter().enumerate() {
        let exact = corpus.terms.stem(&of.word.text);
        let members = exact.map_or(&[][..], |stem| &stem.members);
        matches.extend(members.iter().map(|&term| Match { term, asked, same: 1.0, near: 1.0 }));
        if exact.is_none() {
            for (term, slips) in corpus.terms.misspelled(&of.word) {
                let stem = corpus.terms.list[term as usize].stem;
                let same = SLIP.powi(i32::try_from(slips).unwrap_or(i32::MAX));
                let forms = &corpus.terms.stems[stem as usize].members;
                matches.extend(forms.iter().map(|&term| Match { term, asked, same, near: same }));
            }
        }
        if by_sense {
            for &(term, near) in corpus.terms.near(&of.word).iter().take(NEAR_MAX) {
                if !members.contains(&term) {
                    matches.push(Match { term, asked, same: 0.0, near });
                }
            }
        }
    }
    matches.retain(|found| !corpus.terms.list[found.term as usize].postings.is_empty());
    matches.sort_unstable_by(|a, b| {
        (a.term, a.asked).cmp(&(b.term, b.asked)).then(b.near.total_cmp(&a.near))
    });
    matches.dedup_by_key(|found| (found.term, found.asked));
    matches
}

/// Returns the entries of the memories that as wholes mean what the question means; of none when there are
/// too many to compare.
fn alike(corpus: &Corpus, question: &Question) -> Vec<u32> {
    if question.gist.iter().all(|number| *number == 0) || corpus.memories() > ALIKE_AMONG_MAX {
        return Vec::new();
    }
    let held = corpus.memories.iter().flatten();
    let mut near: Vec<(f32, &Held)> = held
        .map(|memory| (nearness(&question.gist, corpus.gist_of_memory(memory)), memory))
        .collect();
    let nearer = |a: &(f32, &Held), b: &(f32, &Held)| {
        b.0.total_cmp(&a.0).then_with(|| a.1.path.cmp(&b.1.path))
    };
    if near.len() > ALIKE {
        near.select_nth_unstable_by(ALIKE, nearer);
        near.truncate(ALIKE);
    }
    let entries = near.iter().flat_map(|(_, memory)| memory.entries.iter().take(ALIKE_ENTRIES));
    entries.copied().collect()
}

impl Scratch {
    /// Returns the entries that may fit, the likeliest first.
    fn candidates(&mut self, corpus: &Corpus, question: &Question, matches: &[Match]) -> Vec<u32> {
        self.scores.resize(corpus.entries.len(), 0.0);
        let worth = |found: &Match| question.asked[found.asked].weight * found.near;
        let mut order: Vec<&Match> = matches.iter().collect();
        order.sort_by(|a, b| {
            let word = |found: &Match| &corpus.terms.list[found.term as usize].word;
            worth(b).total_cmp(&worth(a)).then_with(|| (word(a), a.asked).cmp(&(word(b), b.asked)))
        });
        let mut left = POSTINGS_MAX;
        for found in order {
            let postings = &corpus.terms.list[found.term as usize].postings;
            if postings.len() > left && !self.touched.is_empty() {
                continue;
            }
            left = left.saturating_sub(postings.len());
            let worth = worth(found);
            for Posting { entry, weight } in postings {
                let score = &mut self.scores[*entry as usize];
                if *score == 0.0 {
                    self.touched.push(*entry);
                }
                *score += worth * weight / (weight + SATURATION);
            }
        }
        let best = self.best(corpus);
        for entry in self.touched.drain(..) {
            self.scores[entry as usize] = 0.0;
        }
        best
    }

    /// Returns the entries that counted up to most.
    fn best(&mut self, corpus: &Corpus) -> Vec<u32> {
        if self.touched.len() <= CANDIDATES {
            return self.touched.clone();
        }
        // Numbers above zero are in the order of their bits.
        self.bits.clear();
        self.bits.extend(self.touched.iter().map(|id| self.scores[*id as usize].to_bits()));
        let from = self.bits.len() - CANDIDATES;
        let (_, least, _) = self.bits.select_nth_unstable(from);
        let least = *least;
        let (mut best, mut alike) = (Vec::with_capacity(CANDIDATES), Vec::new());
        for &id in &self.touched {
            match self.scores[id as usize].to_bits().cmp(&least) {
                Ordering::Greater => best.push(id),
                Ordering::Equal => alike.push(id),
                Ordering::Less => {}
            }
        }
        alike.sort_unstable_by_key(|id| corpus.keys[*id as usize]);
        best.extend(alike.into_iter().take(CANDIDATES - best.len()));
        best
    }

    /// Looks at the likeliest entries, those that somebody else knows of, and the neighbours of both.
    pub(crate) fn rows(
        &mut self,
        corpus: &Corpus,
        question: &Question,
        (matches, others): (&[Match], &[u32]),
    ) -> Rows {
        let width = filled_up(question.asked.len());
        let mut rows = Rows { width, ..Rows::default() };
        self.places.resize(corpus.entries.len(), 0);
        let mut around: Vec<u32> = Vec::new();
        let mut likely = self.candidates(corpus, question, matches);
        likely.extend(alike(corpus, question));
        likely.extend(others);
        for entry in likely {
            let Some(Some(of)) = corpus.entries.get(entry as usize) else { continue };
            let Some(memory) = corpus.memories[of.memory as usize].as_ref() else { continue };
            let at = of.ordinal as usize;
            let end = (at + REACH + 1).min(memory.entries.len());
            for neighbour in &memory.entries[at.saturating_sub(REACH)..end] {
                if self.places[*neighbour as usize] == 0 {
                    self.places[*neighbour as usize] = 1;
                    around.push(*neighbour);
                }
            }
        }
        let place = |entry: &u32| {
            let of = corpus.entries[*entry as usize].as_ref();
            of.map_or((0, 0), |of| (of.memory, of.ordinal))
        };
        around.sort_unstable_by_key(place);
        self.slots.resize(corpus.terms.list.len(), 0);
        for (at, found) in matches.iter().enumerate().rev() {
            self.slots[found.term as usize] = number(at + 1);
        }
        for entry in around {
            self.places[entry as usize] = 0;
            self.row(corpus, matches, entry, &mut rows);
        }
        for found in matches {
            self.slots[found.term as usize] = 0;
        }
        rows.fill(corpus, question);
        rows
    }

    /// Counts what an entry has of each word of the question.
    fn row(&self, corpus: &Corpus, matches: &[Match], id: u32, rows: &mut Rows) {
        let Some(entry) = corpus.entries[id as usize].as_ref() else { return };
        let start = rows.counts.len();
        rows.counts.resize(start + rows.width, 0.0);
        rows.nears.resize(start + rows.width, 0.0);
        rows.kindred.resize(start + rows.width, 0.0);
        for (term, weight) in &entry.terms {
            let slot = self.slots[*term as usize] as usize;
            if slot > 0 {
                let own = matches[slot - 1..].iter().take_while(|found| found.term == *term);
                for found in own {
                    rows.counts[start + found.asked] += found.same * weight;
                    rows.kindred[start + found.asked] += found.kinship() * weight;
                    let near = &mut rows.nears[start + found.asked];
                    *near = near.max(found.near);
                }
            }
        }
        rows.list.push(Row::of(id, entry));
    }
}
