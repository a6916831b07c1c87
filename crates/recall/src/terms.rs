//! The vocabulary of a corpus: its terms, their postings, and similar terms.
//!
//! A term is a word after folding; a stem joins the terms that are forms of one word. Terms are never removed: one
//! without postings matches nothing. Word vectors are computed when they are first needed, and the similar terms of
//! recent query words are cached. Misspelled words are matched by edit distance.

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

/// Saturation constant: repetitions of a word beyond about this many add little.
const SATURATION: f32 = 1.2;
/// Similarity below which two words count as unrelated.
const NEIGHBOR_SIMILARITY_MIN: f32 = 0.35;
/// Number of words whose similar terms are cached.
const NEIGHBORS_CACHED_MAX: usize = 1_024;
/// Minimum word lengths for one and for two typos, in characters.
const ONE_TYPO_CHARS_MIN: usize = 4;
const TWO_TYPOS_CHARS_MIN: usize = 8;

/// One occurrence: an entry and the term's score in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Posting {
    pub(crate) entry: u32,
    pub(crate) score: f32,
}

impl Posting {
    /// Creates a posting whose score saturates with the weight.
    pub(crate) fn new(entry: u32, weight: f32) -> Self {
        Self { entry, score: weight / (weight + SATURATION) }
    }
}

/// A word in one spelling, folded.
#[derive(Debug)]
pub(crate) struct Term {
    pub(crate) word: Arc<str>,
    pub(crate) stem: u32,
    pub(crate) postings: Vec<Posting>,
    /// Bit mask of its characters, a quick filter for typos.
    letter_mask: u32,
    chars: usize,
    /// Range in `Terms::tokens`; empty if the word has no vector.
    tokens: Range<u32>,
    /// Rarity in the language, in sixteenths.
    rarity: u8,
}

/// All forms of one word.
#[derive(Debug, Default)]
pub(crate) struct Stem {
    pub(crate) term_ids: TermIds,
    /// Number of entries that have one of the forms.
    pub(crate) entries: usize,
    /// Number of the entry that was counted last, plus one; 0 for none.
    pub(crate) last_counted: u32,
}

/// Sorted term numbers. Most stems have only one.
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

/// Cached terms similar to a word, most similar first, and the number of terms that were compared.
#[derive(Clone, Debug, Default)]
struct CachedNeighbors {
    terms_compared: usize,
    terms: Arc<[(u32, f32)]>,
}

/// The vocabulary of a corpus.
#[derive(Debug, Default)]
pub(crate) struct Terms {
    pub(crate) list: Vec<Term>,
    pub(crate) stems: Vec<Stem>,
    ids: HashMap<Arc<str>, u32>,
    stem_ids: HashMap<Arc<str>, u32>,
    /// Embedding tokens of all terms.
    tokens: Vec<u32>,
    /// Vectors of all terms, for words and for texts; computed when they are first needed.
    vectors: [OnceLock<Vec<i8>>; 2],
    neighbors: Mutex<Cache<Box<str>, CachedNeighbors, NEIGHBORS_CACHED_MAX>>,
}

impl Terms {
    /// Returns the number of a word, and adds it if it is new.
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

    /// Reserves space for terms.
    pub(crate) fn reserve(&mut self, count: usize) {
        self.list.reserve(count);
        self.stems.reserve(count);
        self.tokens.reserve(count);
        self.ids.reserve(count);
        self.stem_ids.reserve(count);
    }

    /// Adds a new stem.
    pub(crate) fn add_stem(&mut self, word: &Arc<str>, root: &str) -> u32 {
        let id = to_u32(self.stems.len());
        self.stems.push(Stem::default());
        let root = if root == &**word { Arc::clone(word) } else { root.into() };
        self.stem_ids.insert(root, id);
        id
    }

    /// Adds a new term.
    pub(crate) fn push(&mut self, text: Arc<str>, stem: u32, tokens: &[u32], rarity: u8) -> u32 {
        let id = to_u32(self.list.len());
        self.stems[stem as usize].term_ids.push(id);
        let start = to_u32(self.tokens.len());
        self.tokens.extend_from_slice(tokens);
        for purpose in [VectorUse::Words, VectorUse::Texts] {
            if let Some(vectors) = self.vectors[purpose as usize].get_mut() {
                let start = vectors.len();
                vectors.resize(start + dims(), 0);
                if let Some(table) = embedding_table() {
                    table.write_vector(purpose, tokens, &mut vectors[start..]);
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

    /// Returns the embedding tokens of a term, and its rarity in sixteenths.
    pub(crate) fn tokens_and_rarity(&self, term: &Term) -> (&[u32], u8) {
        let tokens = term.tokens.start as usize..term.tokens.end as usize;
        (&self.tokens[tokens], term.rarity)
    }

    /// Returns the vectors of all terms, one after another; zeros for words without one.
    fn vectors(&self, purpose: VectorUse) -> &[i8] {
        self.vectors[purpose as usize].get_or_init(|| {
            let mut vectors = vec![0; self.list.len() * dims()];
            let Some(table) = embedding_table() else { return vectors };
            for (term, vector) in self.list.iter().zip(vectors.chunks_exact_mut(table.dims())) {
                table.write_vector(purpose, self.tokens_and_rarity(term).0, vector);
            }
            vectors
        })
    }

    /// Adds the vector of a term to the vector of a text.
    pub(crate) fn add_vector(&self, id: u32, sum: &mut TextVector) {
        let term = &self.list[id as usize];
        if !term.tokens.is_empty() {
            let offset = id as usize * dims();
            sum.add(&self.vectors(VectorUse::Texts)[offset..offset + dims()], term.rarity);
        }
    }

    /// Returns the stem of a word, or the text of the stem if the corpus lacks it.
    pub(crate) fn stem_of<'a>(&self, word: &'a str) -> Result<u32, Cow<'a, str>> {
        if let Some(id) = self.ids.get(word) {
            return Ok(self.list[*id as usize].stem);
        }
        let root = stem(word);
        self.stem_ids.get(root.as_ref()).copied().ok_or(root)
    }

    /// Returns the rarity of a word in the language, from 0 to 1; `None` if it is not a form of a single token. For
    /// a term of the corpus the stored tokens answer this without a search.
    pub(crate) fn rarity_in_language(&self, word: &str) -> Option<f32> {
        let tokens =
            self.ids.get(word).map(|id| self.tokens_and_rarity(&self.list[*id as usize]).0);
        match tokens {
            Some([token]) => embedding_table()?.rarity_of(*token as usize),
            None | Some([]) => embedding_table()?.rarity(word),
            Some(_) => None,
        }
    }

    /// Returns the forms of a stem; `None` if no entry has one.
    pub(crate) fn stem(&self, id: u32) -> Option<&Stem> {
        self.stems.get(id as usize).filter(|stem| stem.entries > 0)
    }

    /// Returns the terms that mean about the same as a word, most similar first.
    pub(crate) fn similar_terms(&self, word: &Word) -> Arc<[(u32, f32)]> {
        let cached = self.neighbors.lock().get(word.text.as_str()).cloned().unwrap_or_default();
        if cached.terms_compared == self.list.len() && cached.terms_compared > 0 {
            return cached.terms;
        }
        let terms = self.compare_new_terms(word, &cached);
        let cached = CachedNeighbors { terms_compared: self.list.len(), terms: Arc::clone(&terms) };
        self.neighbors.lock().insert(word.text.as_str().into(), cached);
        terms
    }

    /// Compares a word with the terms that were added since it was cached.
    fn compare_new_terms(&self, word: &Word, cached: &CachedNeighbors) -> Arc<[(u32, f32)]> {
        let Some(vector) = vector_of(VectorUse::Words, word) else { return Arc::default() };
        let mut near = cached.terms.to_vec();
        for (id, own) in self
            .vectors(VectorUse::Words)
            .chunks_exact(dims())
            .enumerate()
            .skip(cached.terms_compared)
        {
            let nearness = cosine_similarity(&vector, own);
            if nearness >= NEIGHBOR_SIMILARITY_MIN {
                near.push((to_u32(id), nearness.min(1.0)));
            }
        }
        near.sort_unstable_by(|(a, near_a), (b, near_b)| {
            let word = |id: &u32| &self.list[*id as usize].word;
            near_b.total_cmp(near_a).then_with(|| word(a).cmp(word(b)))
        });
        near.into()
    }

    /// Returns the terms that a misspelled word may mean, each with its number of typos.
    pub(crate) fn spelling_candidates(&self, word: &Word) -> Vec<(u32, usize)> {
        let chars: Vec<char> = word.text.chars().collect();
        let typos_max = match chars.len() {
            TWO_TYPOS_CHARS_MIN.. => 2,
            ONE_TYPO_CHARS_MIN.. => 1,
            _ => 0,
        };
        let is_word = word.kind == WordKind::Ordinary && chars.iter().all(|c| c.is_alphabetic());
        if typos_max == 0
            || !is_word
            || embedding_table().is_some_and(|t| t.rarity(&word.text).is_some())
        {
            return Vec::new();
        }
        let own = letter_mask(&word.text);
        let likely = self.list.iter().enumerate().filter(|(_, term)| {
            term.chars.abs_diff(chars.len()) <= typos_max
                && (term.letter_mask ^ own).count_ones() as usize <= 2 * typos_max
                && term.word.starts_with(chars[0])
                && !term.postings.is_empty()
        });
        let mut matches: Vec<(u32, usize)> = likely
            .filter_map(|(id, term)| {
                let typos = strsim::osa_distance(&word.text, &term.word);
                (typos <= typos_max).then(|| (to_u32(id), typos))
            })
            .collect();
        let least = matches.iter().map(|(_, typos)| *typos).min();
        matches.retain(|(_, typos)| Some(*typos) == least);
        matches
    }
}

/// Sum of the vectors of a text's words, weighted by rarity. Integers, so that the order of the words makes no
/// difference.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextVector(Vec<i32>);

impl TextVector {
    fn add(&mut self, vector: &[i8], weight: u8) {
        self.0.resize(dims(), 0);
        // The product of two 8-bit numbers fits in 16 bits.
        let product = |number: &i8| i32::from(i16::from(*number) * i16::from(weight));
        let sums = self.0.iter_mut().zip(vector);
        sums.for_each(|(sum, number)| *sum = sum.wrapping_add(product(number)));
    }

    /// Adds a word that need not occur in the corpus.
    pub(crate) fn add_word(&mut self, word: &Word) {
        if let Some(vector) = vector_of(VectorUse::Texts, word) {
            self.add(&vector, rarity_sixteenths(word));
        }
    }

    /// Returns the vector at unit length; all zero if no word has a vector.
    pub(crate) fn unit_vector(&self) -> Vec<i8> {
        let mut direction = vec![0; dims()];
        let numbers: Vec<f32> = self.0.iter().map(|number| *number as f32).collect();
        write_unit_vector(&numbers, &mut direction);
        direction
    }
}

/// Returns the rarity of a word in the language, in sixteenths.
fn rarity_sixteenths(word: &Word) -> u8 {
    let rarity = embedding_table().and_then(|table| table.rarity(&word.text)).unwrap_or(1.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 16")]
    let sixteenths = (rarity * 16.0).round() as u8;
    sixteenths
}

/// Returns the number of dimensions of a vector; 0 without a table.
pub(crate) fn dims() -> usize {
    embedding_table().map_or(0, EmbeddingTable::dims)
}

fn vector_of(purpose: VectorUse, word: &Word) -> Option<Vec<i8>> {
    (word.kind == WordKind::Ordinary)
        .then(|| embedding_table()?.vector(purpose, &word.text))
        .flatten()
}

/// Converts a count or index of the corpus. Panics above `u32::MAX`.
pub(crate) fn to_u32(count: usize) -> u32 {
    u32::try_from(count).expect("a corpus has fewer than 2^32 terms, entries and memories")
}

/// Returns a mask with one bit for each of a word's characters, modulo 32.
fn letter_mask(word: &str) -> u32 {
    word.chars().fold(0, |letters, c| letters | 1 << (u32::from(c) % 32))
}
