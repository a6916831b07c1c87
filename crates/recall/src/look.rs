//! Which entries are worth a closer look: those that hold a word of the question, or one near it.
//!
//! Entries are counted up by the postings of their words, and the best of them are taken with their
//! neighbours. The work is bounded, however large the corpus: a word that stands nearly everywhere is passed
//! over once enough was counted.

use std::cell::RefCell;

use crate::corpus::{Corpus, Held};
use crate::embedder::nearness;
use crate::features::{Group, Hits, LANES, REACH, Row, Rows};
use crate::question::Question;
use crate::terms::{Posting, number};

/// How many entries are looked at word by word, besides their neighbours; when meaning does not count, fewer do.
const CANDIDATES: usize = 96;
const CANDIDATES_BY_WORDS: usize = 40;
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

/// How many bits are kept together.
const BITS: usize = 64;

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
    /// How much it counts among all that is near. In steps that can be added up in any order: the numbers
    /// of words depend on which came first.
    kinship: f32,
}

impl Match {
    fn of(term: u32, asked: usize, same: f32, near: f32) -> Self {
        let kinship = (near * near * KINSHIP_STEPS).round() / KINSHIP_STEPS;
        Self { term, asked, same, near, kinship }
    }
}

thread_local! {
    /// The scratch of the last ranking of this thread.
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Looks at the likeliest entries, those that somebody else knows of, and the neighbours of both.
pub(crate) fn rows(
    corpus: &Corpus,
    question: &Question,
    matches: &[Match],
    others: &[u32],
) -> Rows {
    // Out of its place meanwhile: one that a panic left with numbers in it is not used again.
    let mut scratch = SCRATCH.take();
    let rows = scratch.rows(corpus, question, matches, others);
    SCRATCH.set(scratch);
    rows
}

/// Keeps the room of rows for the next ranking of this thread.
pub(crate) fn reuse(rows: Rows) {
    SCRATCH.with_borrow_mut(|scratch| scratch.spare = rows);
}

/// What ranking needs for a while; kept, so that it need not be made each time. Between two rankings its numbers are
/// zero, so it serves every corpus.
#[derive(Debug, Default)]
struct Scratch {
    /// What each entry counted up to.
    scores: Vec<f32>,
    touched: Vec<u32>,
    /// Whether all that counts was counted up: then an entry that was not touched has nothing of the question.
    is_all_counted: bool,
    /// What entries that were touched counted up to, and which they are.
    ordered: Vec<u64>,
    /// For each term, one past where its matches begin; 0 for none.
    slots: Vec<u32>,
    /// Which terms have matches, a bit each: most have none, and this stays near at hand.
    has_slot: Vec<u64>,
    /// What the head of a memory has of the question.
    head: Vec<Hits>,
    /// Room of rows that nobody needs any more.
    spare: Rows,
}

/// Returns the words of the corpus that answer to those of a question, term by term.
pub(crate) fn matches(corpus: &Corpus, question: &Question, by_sense: bool) -> Vec<Match> {
    let mut matches = Vec::new();
    for (asked, of) in question.asked.iter().enumerate() {
        let exact = of.stem.and_then(|stem| corpus.terms.stem(stem));
        let members = exact.into_iter().flat_map(|stem| stem.members.iter());
        matches.extend(members.map(|term| Match::of(term, asked, 1.0, 1.0)));
        if exact.is_none() {
            for (term, slips) in corpus.terms.misspelled(&of.word) {
                let stem = corpus.terms.list[term as usize].stem;
                let same = SLIP.powi(i32::try_from(slips).expect("a word has two slips at most"));
                let forms = &corpus.terms.stems[stem as usize].members;
                matches.extend(forms.iter().map(|term| Match::of(term, asked, same, same)));
            }
        }
        if by_sense {
            for &(term, near) in corpus.terms.near(&of.word).iter().take(NEAR_MAX) {
                if !exact.is_some_and(|stem| stem.members.contains(term)) {
                    matches.push(Match::of(term, asked, 0.0, near));
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
        self.is_all_counted = true;
        for found in order {
            let postings = &corpus.terms.list[found.term as usize].postings;
            if postings.len() > left && !self.touched.is_empty() {
                self.is_all_counted = false;
                continue;
            }
            left = left.saturating_sub(postings.len());
            let worth = worth(found);
            self.is_all_counted &= worth > 0.0;
            for Posting { entry, worth: there } in postings {
                let score = &mut self.scores[*entry as usize];
                if *score == 0.0 {
                    self.touched.push(*entry);
                }
                *score += worth * there;
            }
        }
        let by_words = question.gist.is_empty();
        self.best(corpus, if by_words { CANDIDATES_BY_WORDS } else { CANDIDATES })
    }

    /// Returns so many entries that counted up to most.
    fn best(&mut self, corpus: &Corpus, count: usize) -> Vec<u32> {
        if self.touched.len() <= count {
            return self.touched.clone();
        }
        // Numbers above zero are in the order of their bits.
        let with_score =
            |id: &u32| u64::from(self.scores[*id as usize].to_bits()) << u32::BITS | u64::from(*id);
        self.ordered.clear();
        self.ordered.extend(self.touched.iter().map(with_score));
        let from = self.ordered.len() - count;
        let (below, least, above) = self.ordered.select_nth_unstable(from);
        #[expect(clippy::cast_possible_truncation, reason = "the number of an entry is one half")]
        let id = |both: &u64| *both as u32;
        let least = *least;
        let is_alike = |both: &&u64| *both >> u32::BITS == least >> u32::BITS;
        let mut best = Vec::with_capacity(count);
        best.extend(above.iter().filter(|both| !is_alike(both)).map(id));
        let alike = below.iter().filter(is_alike).chain([&least]);
        let mut alike: Vec<u32> = alike.chain(above.iter().filter(is_alike)).map(id).collect();
        alike.sort_unstable_by_key(|id| corpus.keys[*id as usize]);
        best.extend(alike.into_iter().take(count - best.len()));
        best
    }

    fn rows(
        &mut self,
        corpus: &Corpus,
        question: &Question,
        matches: &[Match],
        others: &[u32],
    ) -> Rows {
        let mut likely = self.candidates(corpus, question, matches);
        likely.extend(alike(corpus, question));
        likely.extend(others);
        let mut places: Vec<(u32, usize)> = Vec::with_capacity(likely.len());
        places.extend(likely.into_iter().filter_map(|id| {
            let entry = corpus.entries.get(id as usize)?.as_ref()?;
            Some((entry.memory, entry.ordinal as usize))
        }));
        places.sort_unstable();
        let mut rows = std::mem::take(&mut self.spare).emptied();
        for places in places.chunk_by(|a, b| a.0 == b.0) {
            add_rows(corpus, places, &mut rows);
        }
        self.set_slots(corpus, matches);
        rows.width = question.asked.len().div_ceil(LANES);
        rows.hits.reserve(rows.list.len() * rows.width);
        for group in 0..rows.groups.len() {
            self.count(corpus, matches, group, &mut rows);
        }
        self.has_slot.clear();
        for found in matches {
            self.slots[found.term as usize] = 0;
        }
        for entry in self.touched.drain(..) {
            self.scores[entry as usize] = 0.0;
        }
        rows.fill(corpus, question);
        rows
    }

    /// Notes where the matches of each term begin.
    fn set_slots(&mut self, corpus: &Corpus, matches: &[Match]) {
        self.slots.resize(corpus.terms.list.len(), 0);
        self.has_slot.resize(corpus.terms.list.len().div_ceil(BITS), 0);
        for (at, found) in matches.iter().enumerate().rev() {
            let term = found.term as usize;
            self.slots[term] = number(at + 1);
            self.has_slot[term / BITS] |= 1 << (term % BITS);
        }
    }

    /// Counts what the entries of a memory have of each word of the question.
    fn count(&mut self, corpus: &Corpus, matches: &[Match], group: usize, rows: &mut Rows) {
        let Group { memory, rows: of_group, .. } = &rows.groups[group];
        let mut head = std::mem::take(&mut self.head);
        head.clear();
        head.resize(rows.width, Hits::default());
        let head_is_met = corpus.memories[*memory as usize]
            .as_ref()
            .is_some_and(|held| self.count_terms(matches, &held.head, &mut head));
        for row in &mut rows.list[of_group.clone()] {
            let start = rows.hits.len();
            rows.hits.extend_from_slice(&head);
            if let Some(entry) = corpus.entries[row.entry as usize].as_ref() {
                if self.is_all_counted && self.scores[row.entry as usize] == 0.0 {
                    debug_assert!(!entry.terms.iter().any(|(term, _)| self.has_slot(*term)));
                    continue;
                }
                let is_met = self.count_terms(matches, &entry.terms, &mut rows.hits[start..]);
                row.is_met = head_is_met || is_met;
            }
        }
        self.head = head;
    }

    fn has_slot(&self, term: u32) -> bool {
        let (at, bit) = (term as usize / BITS, term as usize % BITS);
        self.has_slot[at] >> bit & 1 == 1
    }

    /// Counts what some terms have of each word of the question; returns whether that is anything.
    fn count_terms(&self, matches: &[Match], terms: &[(u32, f32)], hits: &mut [Hits]) -> bool {
        let mut is_met = false;
        for (term, weight) in terms {
            if self.has_slot(*term) {
                let slot = self.slots[*term as usize] as usize;
                is_met = true;
                let own = matches[slot - 1..].iter().take_while(|found| found.term == *term);
                for found in own {
                    let (hits, at) = (&mut hits[found.asked / LANES], found.asked % LANES);
                    hits.same.as_mut_array()[at] += found.same * weight;
                    hits.kindred.as_mut_array()[at] += found.kinship * weight;
                    let near = &mut hits.near.as_mut_array()[at];
                    *near = near.max(found.near);
                }
            }
        }
        is_met
    }
}

/// Adds the rows of a memory: entries at these places, which are in their order, and their neighbours.
fn add_rows(corpus: &Corpus, places: &[(u32, usize)], rows: &mut Rows) {
    let start = rows.list.len();
    let memory = places[0].0;
    let Some(held) = corpus.memories[memory as usize].as_ref() else { return };
    let mut next = 0;
    for (_, at) in places {
        let end = (at + REACH + 1).min(held.entries.len());
        for id in &held.entries[next.max(at.saturating_sub(REACH))..end] {
            if let Some(entry) = corpus.entries[*id as usize].as_ref() {
                rows.list.push(Row::of(*id, entry));
            }
        }
        next = end;
    }
    rows.groups.push(Group::of(memory, start..rows.list.len(), &rows.list));
}
