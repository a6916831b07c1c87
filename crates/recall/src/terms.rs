//! The words of a corpus: where each stands, and which others are near it.
//!
//! A term is a word as it is written, made plain; a stem joins the terms that are forms of one word. A
//! term whose last entry goes away stays known and is found nowhere.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use memory::cache::Cache;
use parking_lot::Mutex;

use crate::embedder::{
    EmbeddingTable, VectorUse, cosine_similarity, embedding_table, write_unit_vector,
};
use crate::words::{Word, WordKind, stem};

/// How often a word may be said before saying it again hardly counts.
const SATURATION: f32 = 1.2;
/// Below this, two words have nothing in common.
const SIMILARITY_MIN: f32 = 0.35;
/// How many words' neighbours are kept.
const NEIGHBORS_CACHED_MAX: usize = 1_024;
/// Shortest words that may hold one and two slips of the hand, in characters.
const ONE_TYPO_CHARS_MIN: usize = 4;
const TWO_TYPOS_CHARS_MIN: usize = 8;

/// One occurrence: in which entry, and how much it tells there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Posting {
    pub(crate) entry: u32,
    pub(crate) score: f32,
}

impl Posting {
    /// Returns an occurrence of this weight.
    pub(crate) fn new(entry: u32, weight: f32) -> Self {
        Self { entry, score: weight / (weight + SATURATION) }
    }
}

/// A word as it is written.
#[derive(Debug)]
pub(crate) struct Term {
    pub(crate) word: Arc<str>,
    pub(crate) stem: u32,
    pub(crate) postings: Vec<Posting>,
    /// Its characters, for telling slips of the hand quickly.
    letter_mask: u32,
    chars: usize,
    /// Which of the table's tokens it is made of; none if it has no vector.
    tokens: Range<u32>,
    /// How rare it is in the language, in sixteenths.
    rarity: u8,
}

/// All forms of one word.
#[derive(Debug, Default)]
pub(crate) struct Stem {
    pub(crate) term_ids: TermIds,
    /// How many entries have one of them.
    pub(crate) entries: usize,
    /// One past the entry that was counted last; 0 for none.
    pub(crate) last_counted: u32,
}

/// Numbers of terms, in their order. Most often there is but one.
#[derive(Clone, Debug, Default)]
pub(crate) struct TermIds {
    first: Option<u32>,
    others: Vec<u32>,
}

impl TermIds {
    fn push(&mut self, term: u32) {
        match self.first {
            None => self.first = Some(term),
            Some(_) => self.others.push(term),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.first.into_iter().chain(self.others.iter().copied())
    }

    pub(crate) fn contains(&self, term: u32) -> bool {
        self.iter().any(|member| member == term)
    }
}

/// Terms that are near a word, the nearest first, and how many terms had been looked at.
#[derive(Clone, Debug, Default)]
struct CachedNeighbors {
    terms_compared: usize,
    terms: Arc<[(u32, f32)]>,
}

/// Every word of a corpus.
#[derive(Debug, Default)]
pub(crate) struct Terms {
    pub(crate) list: Vec<Term>,
    pub(crate) stems: Vec<Stem>,
    ids: HashMap<Arc<str>, u32>,
    stem_ids: HashMap<Arc<str>, u32>,
    /// The tokens of all terms.
    tokens: Vec<u32>,
    /// The vectors, sense by sense and term by term; made when they are needed first.
    vectors: [OnceLock<Vec<i8>>; 2],
    neighbors: Mutex<Cache<Box<str>, CachedNeighbors, NEIGHBORS_CACHED_MAX>>,
}

impl Terms {
    /// Returns the number of a word, which is made known.
    pub(crate) fn add(&mut self, word: &Word) -> u32 {
        if let Some(id) = self.ids.get(word.text.as_str()) {
            return *id;
        }
        let text = Arc::from(word.text.as_str());
        let root = stem(&word.text);
        let stem = self.stem_ids.get(root.as_ref()).copied();
        let stem = stem.unwrap_or_else(|| self.add_stem(&text, &root));
        let tokens = if word.kind == WordKind::Ordinary {
            embedding_table().and_then(|t| t.tokenize(&word.text))
        } else {
            None
        };
        self.push(text, stem, &tokens.unwrap_or_default(), rarity_sixteenths(word))
    }

    /// Makes room for so many terms.
    pub(crate) fn reserve(&mut self, count: usize) {
        self.list.reserve(count);
        self.stems.reserve(count);
        self.tokens.reserve(count);
        self.ids.reserve(count);
        self.stem_ids.reserve(count);
    }

    /// Makes the stem of a word known.
    pub(crate) fn add_stem(&mut self, word: &Arc<str>, root: &str) -> u32 {
        let id = to_u32(self.stems.len());
        self.stems.push(Stem::default());
        let root = if root == &**word { Arc::clone(word) } else { root.into() };
        self.stem_ids.insert(root, id);
        id
    }

    /// Makes a word known that is not, by its stem, its tokens and how rare it is.
    pub(crate) fn push(&mut self, text: Arc<str>, stem: u32, tokens: &[u32], rarity: u8) -> u32 {
        let id = to_u32(self.list.len());
        self.stems[stem as usize].term_ids.push(id);
        let start = to_u32(self.tokens.len());
        self.tokens.extend_from_slice(tokens);
        for sense in [VectorUse::Words, VectorUse::Texts] {
            if let Some(vectors) = self.vectors[sense as usize].get_mut() {
                let start = vectors.len();
                vectors.resize(start + dims(), 0);
                if let Some(table) = embedding_table() {
                    table.write_vector(sense, tokens, &mut vectors[start..]);
                }
            }
        }
        self.list.push(Term {
            letter_mask: letter_mask(&text),
            chars: text.chars().count(),
            word: Arc::clone(&text),
            stem,
            postings: Vec::new(),
            tokens: start..to_u32(self.tokens.len()),
            rarity,
        });
        self.ids.insert(text, id);
        id
    }

    /// Returns which tokens a term is made of, and how rare it is.
    pub(crate) fn tokens_and_rarity(&self, term: &Term) -> (&[u32], u8) {
        let tokens = term.tokens.start as usize..term.tokens.end as usize;
        (&self.tokens[tokens], term.rarity)
    }

    /// Returns the vectors, term by term; those of words that have none are zero.
    fn vectors(&self, sense: VectorUse) -> &[i8] {
        self.vectors[sense as usize].get_or_init(|| {
            let mut vectors = vec![0; self.list.len() * dims()];
            let Some(table) = embedding_table() else { return vectors };
            for (term, vector) in self.list.iter().zip(vectors.chunks_exact_mut(table.dims())) {
                table.write_vector(sense, self.tokens_and_rarity(term).0, vector);
            }
            vectors
        })
    }

    /// Adds what a term means to a gist.
    pub(crate) fn add_vector(&self, id: u32, gist: &mut TextVector) {
        let term = &self.list[id as usize];
        if !term.tokens.is_empty() {
            let at = id as usize * dims();
            gist.add(&self.vectors(VectorUse::Texts)[at..at + dims()], term.rarity);
        }
    }

    /// Returns which stem a word has, or what it would be called if it were known.
    pub(crate) fn stem_of<'a>(&self, word: &'a str) -> Result<u32, Cow<'a, str>> {
        if let Some(id) = self.ids.get(word) {
            return Ok(self.list[*id as usize].stem);
        }
        let root = stem(word);
        self.stem_ids.get(root.as_ref()).copied().ok_or(root)
    }

    /// Returns how rare a word is in the language, from 0 to 1; `None` if it is no form of a token. Of a word that is
    /// known it is known whether it is.
    pub(crate) fn rarity_in_language(&self, word: &str) -> Option<f32> {
        let known = self.ids.get(word).map(|id| self.tokens_and_rarity(&self.list[*id as usize]).0);
        match known {
            Some([token]) => embedding_table()?.rarity_of(*token as usize),
            None | Some([]) => embedding_table()?.rarity(word),
            Some(_) => None,
        }
    }

    /// Returns the forms that an entry may have a word of this stem in.
    pub(crate) fn stem(&self, id: u32) -> Option<&Stem> {
        self.stems.get(id as usize).filter(|stem| stem.entries > 0)
    }

    /// Returns the terms that mean about the same as a word, the nearest first.
    pub(crate) fn similar_terms(&self, word: &Word) -> Arc<[(u32, f32)]> {
        let kept = self.neighbors.lock().get(word.text.as_str()).cloned().unwrap_or_default();
        if kept.terms_compared == self.list.len() && kept.terms_compared > 0 {
            return kept.terms;
        }
        let terms = self.compare_new_terms(word, &kept);
        let kept = CachedNeighbors { terms_compared: self.list.len(), terms: Arc::clone(&terms) };
        self.neighbors.lock().insert(word.text.as_str().into(), kept);
        terms
    }

    /// Looks at the terms that came since the last time.
    fn compare_new_terms(&self, word: &Word, kept: &CachedNeighbors) -> Arc<[(u32, f32)]> {
        let Some(vector) = vector_of(VectorUse::Words, word) else { return Arc::default() };
        let mut near = kept.terms.to_vec();
        for (id, own) in self
            .vectors(VectorUse::Words)
            .chunks_exact(dims())
            .enumerate()
            .skip(kept.terms_compared)
        {
            let nearness = cosine_similarity(&vector, own);
            if nearness >= SIMILARITY_MIN {
                near.push((to_u32(id), nearness.min(1.0)));
            }
        }
        near.sort_unstable_by(|(a, near_a), (b, near_b)| {
            let word = |id: &u32| &self.list[*id as usize].word;
            near_b.total_cmp(near_a).then_with(|| word(a).cmp(word(b)))
        });
        near.into()
    }

    /// Returns the terms that a word may have been meant to be, and how many slips each would take.
    pub(crate) fn spelling_candidates(&self, word: &Word) -> Vec<(u32, usize)> {
        let chars: Vec<char> = word.text.chars().collect();
        let slips_max = match chars.len() {
            TWO_TYPOS_CHARS_MIN.. => 2,
            ONE_TYPO_CHARS_MIN.. => 1,
            _ => 0,
        };
        let is_word = word.kind == WordKind::Ordinary && chars.iter().all(|c| c.is_alphabetic());
        if slips_max == 0
            || !is_word
            || embedding_table().is_some_and(|t| t.rarity(&word.text).is_some())
        {
            return Vec::new();
        }
        let own = letter_mask(&word.text);
        let likely = self.list.iter().enumerate().filter(|(_, term)| {
            term.chars.abs_diff(chars.len()) <= slips_max
                && (term.letter_mask ^ own).count_ones() as usize <= 2 * slips_max
                && term.word.starts_with(chars[0])
                && !term.postings.is_empty()
        });
        let mut found: Vec<(u32, usize)> = likely
            .filter_map(|(id, term)| {
                let slips = strsim::osa_distance(&word.text, &term.word);
                (slips <= slips_max).then(|| (to_u32(id), slips))
            })
            .collect();
        let least = found.iter().map(|(_, slips)| *slips).min();
        found.retain(|(_, slips)| Some(*slips) == least);
        found
    }
}

/// What a text means, taken together: the rarer a word, the more it counts. Whole numbers, so that the order
/// of the words makes no difference.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextVector(Vec<i32>);

impl TextVector {
    fn add(&mut self, vector: &[i8], weight: u8) {
        self.0.resize(dims(), 0);
        // A product of two such numbers is none that a short number cannot hold.
        let product = |number: &i8| i32::from(i16::from(*number) * i16::from(weight));
        let sums = self.0.iter_mut().zip(vector);
        sums.for_each(|(sum, number)| *sum = sum.wrapping_add(product(number)));
    }

    /// Adds a word that may stand nowhere in the corpus.
    pub(crate) fn add_word(&mut self, word: &Word) {
        if let Some(vector) = vector_of(VectorUse::Texts, word) {
            self.add(&vector, rarity_sixteenths(word));
        }
    }

    /// Returns its direction; all zero if it means nothing.
    pub(crate) fn unit_vector(&self) -> Vec<i8> {
        let mut direction = vec![0; dims()];
        let numbers: Vec<f32> = self.0.iter().map(|number| *number as f32).collect();
        write_unit_vector(&numbers, &mut direction);
        direction
    }
}

/// How rare a word is in the language, in sixteenths.
fn rarity_sixteenths(word: &Word) -> u8 {
    let rarity = embedding_table().and_then(|table| table.rarity(&word.text)).unwrap_or(1.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 16")]
    let sixteenths = (rarity * 16.0).round() as u8;
    sixteenths
}

/// Returns how many numbers a vector has.
pub(crate) fn dims() -> usize {
    embedding_table().map_or(0, EmbeddingTable::dims)
}

fn vector_of(sense: VectorUse, word: &Word) -> Option<Vec<i8>> {
    (word.kind == WordKind::Ordinary)
        .then(|| embedding_table()?.vector(sense, &word.text))
        .flatten()
}

/// A number of something that there are fewer of than the type can count.
pub(crate) fn to_u32(count: usize) -> u32 {
    u32::try_from(count).expect("a corpus has fewer things than a `u32` counts")
}

/// Which characters a word has, roughly.
fn letter_mask(word: &str) -> u32 {
    word.chars().fold(0, |letters, c| letters | 1 << (u32::from(c) % 32))
}
