//! What the words of a statement come down to, for telling which statements cannot matter.
//!
//! A sketch has the words as numbers: a fiftieth of what the words themselves take, and compared in
//! no time. It only ever rules out: whatever [`likeness`](super::likeness) finds between two
//! statements, their sketches allow. What they allow is then judged on the words.

use std::hash::Hasher;

use super::book::Page;
use super::likeness::{is_light, is_value, meaning};
use super::words::{Text, Token};

/// A statement's words as numbers.
pub(crate) struct Sketch {
    /// The words of its fingerprint: each once, in order, without their negation.
    keys: Box<[usize]>,
    /// The words of its meaning as they stand, with their negation; the lowest bit marks a value.
    line: Box<[usize]>,
}

/// Sets the number of a negated word off from that of the word.
const NEGATED: usize = 0x9E37_79B9;

/// The hash FNV-1a: of short words it takes a third of the time of a keyed one, and nobody gains by words that
/// have the same.
pub(crate) struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Returns the number of a word's key.
pub(crate) fn number(key: &str) -> usize {
    let mut hasher = Fnv::default();
    hasher.write(key.as_bytes());
    usize::try_from(hasher.finish() & usize::MAX as u64).unwrap_or_default()
}

/// Returns numbers in order, each once.
pub(crate) fn ordered(mut numbers: Vec<usize>) -> Box<[usize]> {
    numbers.sort_unstable();
    numbers.dedup();
    numbers.into_boxed_slice()
}

impl Sketch {
    /// Sketches a text.
    pub(crate) fn of(text: &Text) -> Self {
        let keys = text.content().filter(|token| !is_light(token));
        let keys = keys.map(|token| number(&token.key)).collect();
        let line = meaning(text).into_iter().map(stroke).collect();
        Self { keys: ordered(keys), line }
    }

    /// Whether the two may say the same.
    pub(crate) fn may_repeat(&self, other: &Self) -> bool {
        let (ours, theirs) = (self.keys.len(), other.keys.len());
        ours.max(theirs) > 0 && ours.abs_diff(theirs) <= 1 && self.shared(other) == ours.min(theirs)
    }

    /// Whether it has no word.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The sum of its words' numbers: two with the same words have the same.
    pub(crate) fn sum(&self) -> usize {
        self.keys.iter().fold(0, |sum, key| sum.wrapping_add(*key))
    }

    /// The sums that it would have without one of its words.
    pub(crate) fn sums_without_one(&self) -> impl Iterator<Item = usize> {
        let sum = self.sum();
        self.keys.iter().map(move |key| sum.wrapping_sub(*key))
    }

    /// Whether this one, being new, may be known from the old one, add to it or replace it.
    /// `corrects`: it says that something is otherwise than it was.
    pub(crate) fn may_settle(&self, old: &Self, corrects: bool) -> bool {
        let (ours, theirs) = (self.keys.len(), old.keys.len());
        let shared = self.shared(old);
        let says_all =
            shared >= 3 && (shared == ours || (shared == theirs && ours <= 2 * theirs + 3));
        (corrects && shared > 0 && shared * 5 >= theirs * 2)
            || says_all
            || self.may_repeat(old)
            || self.may_give_anew(old)
    }

    /// Whether this one may give the value of the other anew.
    pub(crate) fn may_give_anew(&self, old: &Self) -> bool {
        let (ours, theirs) = (&self.line, &old.line);
        let is_same = |(a, b): &(&usize, &usize)| *a >> 1 == *b >> 1;
        let ahead = ours.iter().zip(theirs).take_while(is_same).count();
        let behind = ours.iter().skip(ahead).rev().zip(theirs.iter().skip(ahead).rev());
        let behind = behind.take_while(is_same).count();
        let (our_value, their_value) =
            (&ours[ahead..ours.len() - behind], &theirs[ahead..theirs.len() - behind]);
        if our_value.len().min(their_value.len()) == 0 {
            return our_value.len() + their_value.len() == 1;
        }
        let are_values = |line: &[usize]| line.iter().all(|stroke| stroke & 1 == 1);
        let short = our_value.len() <= 2 && their_value.len() <= 2;
        (are_values(our_value) && are_values(their_value))
            || (short && ((behind == 0 && ahead >= 1) || (ahead == 0 && behind >= 2)))
    }

    /// Its first and its last word: [`Self::may_give_anew`] takes one of them to be the same.
    pub(crate) fn ends(&self) -> impl Iterator<Item = usize> {
        [self.line.first(), self.line.last()].into_iter().flatten().map(|stroke| stroke >> 1)
    }

    /// How much of the words a memory has, its description counting as much as its entries.
    pub(crate) fn share(&self, page: &Page<'_>) -> f64 {
        self.share_of(page.with_title(|title| self.count_in(title)) + self.count_in(&page.said))
    }

    /// How much of the words a memory has, the name of its file counting as much as its entries.
    pub(crate) fn share_by_file(&self, page: &Page<'_>) -> f64 {
        let title = Self::of(&page.file_title());
        self.share_of(self.shared(&title) + self.count_in(&page.said))
    }

    /// How many of the words are among these, which are in order.
    fn count_in(&self, numbers: &[usize]) -> usize {
        self.keys.iter().filter(|key| numbers.binary_search(key).is_ok()).count()
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of words of one fact")]
    fn share_of(&self, found: usize) -> f64 {
        if self.keys.is_empty() { 0.0 } else { found as f64 / self.keys.len() as f64 }
    }

    /// Whether the two have a word in common.
    pub(crate) fn touches(&self, other: &Self) -> bool {
        self.shared(other) > 0
    }

    /// How many words of the fingerprints are the same.
    fn shared(&self, other: &Self) -> usize {
        let (mut ours, mut theirs) = (&*self.keys, &*other.keys);
        let mut shared = 0;
        while let (Some((a, our_rest)), Some((b, their_rest))) =
            (ours.split_first(), theirs.split_first())
        {
            shared += usize::from(a == b);
            if a <= b {
                ours = our_rest;
            }
            if b <= a {
                theirs = their_rest;
            }
        }
        shared
    }
}

fn stroke(token: &Token) -> usize {
    let negated = if token.negated { NEGATED } else { 0 };
    ((number(&token.key) ^ negated) & !1) | usize::from(is_value(token))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use memory::change::Trust;
    use memory::path::{Layout, MemoryPath};
    use proptest::prelude::*;

    use super::*;
    use crate::embedded::book::{Note, Source, Stored, Written};
    use crate::embedded::likeness::{
        Relation, fingerprint, may_correct, other_value, relation, same, says_too,
    };

    /// Words that repeat, contradict, negate, count, date and correct one another.
    const WORDS: &str = "the pier pier's gate opens opened at six 6 9 never not on Friday Monday runs \
        listens port 8001 8002 until 2026-01-02 since tomorrow Odile owns by no longer moved to now \
        instead für die Kantine öffnet nicht 備份 会議を 入れない Сервер не слушает порт branch chap-2 is \
        `just_x` C++ -5 🙂 : . ; , my I we prefer prefers less than < birthday the_user's deadline";

    fn statement() -> impl Strategy<Value = String> {
        let words: Vec<&str> = WORDS.split_whitespace().collect();
        prop::collection::vec(prop::sample::select(words), 1..9).prop_map(|words| words.join(" "))
    }

    /// A statement and others that mostly differ from it by a word, a place or an ending.
    fn family() -> impl Strategy<Value = (String, Vec<String>)> {
        let change = (any::<prop::sample::Index>(), statement(), 0..5_u8);
        (statement(), prop::collection::vec(change, 1..8)).prop_map(|(first, changes)| {
            let others = changes.into_iter().map(|(at, other, how)| {
                let mut words: Vec<&str> = first.split(' ').collect();
                let at = at.index(words.len());
                let word = other.split(' ').next().unwrap_or_default();
                match how {
                    0 => drop(words.remove(at)),
                    1 => words[at] = word,
                    2 => words.insert(at, word),
                    3 => words.rotate_left(at),
                    _ => return other,
                }
                words.join(" ")
            });
            let others = others.filter(|other| !other.trim().is_empty()).collect();
            (first, others)
        })
    }

    fn stored(statements: &[String]) -> Stored {
        let lines: Vec<String> = statements.iter().map(|one| format!("- {one}\n")).collect();
        let path = MemoryPath::parse("/memories/global/user/pier-gate.md", Layout::Scoped).unwrap();
        let text = format!("---\ndescription: the gate opens\n---\n\n{}", lines.concat());
        let trust = Trust::Outside;
        Stored { path, text: Source::from(text), pinned: false, written: Written::Unknown, trust }
    }

    /// What a memory shares with a text, counted on the words themselves.
    #[expect(clippy::cast_precision_loss, reason = "counts of words of one fact")]
    fn share(text: &Text, page: &Page<'_>) -> f64 {
        let keys = |text: &Text| -> BTreeSet<String> {
            text.content().map(|token| token.key.clone()).collect()
        };
        let ours: BTreeSet<String> = fingerprint(text).into_iter().map(|(key, _)| key).collect();
        let (title, body) = (page.title(), page.notes.iter().flat_map(|note| keys(note.full())));
        let found = ours.intersection(&keys(&title)).count()
            + ours.intersection(&body.collect::<BTreeSet<_>>()).count();
        if ours.is_empty() { 0.0 } else { found as f64 / ours.len() as f64 }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]

        #[test]
        fn whatever_a_scan_of_all_entries_finds_is_not_ruled_out((first, others) in family()) {
            let stored = stored(&others);
            let new = Text::read(&first);
            let (sketch, corrects) = (Sketch::of(&new), may_correct(&new));
            for note in &stored.text.read().notes {
                let (found, _) = relation((&new, &first), note);
                let allowed = sketch.may_settle(&note.sketch, corrects);
                prop_assert!(found == Relation::Other || allowed, "{} {}", first, note.statement());
            }
        }

        #[test]
        fn a_repetition_and_a_new_value_are_not_ruled_out((first, others) in family()) {
            let stored = stored(&[vec![first], others].concat());
            let notes: Vec<&Note> = stored.text.read().notes.iter().collect();
            for (a, b) in notes.iter().flat_map(|a| notes.iter().map(move |b| (*a, *b))) {
                let sources = (a.statement(), b.statement());
                let repeats = same(a.text(), b.text(), sources);
                prop_assert!(!repeats || (a.sketch.may_repeat(&b.sketch) && says_too(a, b)));
                let anew = other_value(a.text(), b.text());
                prop_assert!(!anew || a.sketch.may_give_anew(&b.sketch), "{:?}", sources);
            }
        }

        #[test]
        fn the_share_of_a_memory_is_that_of_its_words((first, others) in family()) {
            let stored = stored(&others);
            let (page, new) = (Page::read(&stored), Text::read(&first));
            let difference = Sketch::of(&new).share(&page) - share(&new, &page);
            prop_assert!(difference.abs() < f64::EPSILON);
        }
    }
}
