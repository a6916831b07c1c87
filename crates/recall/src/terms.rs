//! The vocabulary of a corpus: its terms, their postings, and similar terms.
//!
//! A term is a word after folding; a stem joins the terms that are forms of one word. Terms are never removed: one
//! without postings matches nothing. Word vectors are computed when they are first needed, and the similar terms of
//! recent query words are cached. Words of one root (`page`, `pagination`) are related, and unknown words match terms
//! that begin alike or differ by a typo.

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
/// Endings of stems that derive a word from another, without which the roots are compared. Snowball leaves them.
const DERIVING_ENDINGS: [&str; 26] = [
    "istr", "ment", "ship", "abil", "ibil", "less", "abl", "ibl", "anc", "enc", "ant", "ent",
    "ess", "ful", "ifi", "ist", "ism", "ion", "at", "al", "er", "ic", "in", "iv", "iz", "ur",
];
/// Minimum length of a root, in letters.
const ROOT_CHARS_MIN: usize = 3;
/// Minimum length of a word that another may begin with (`config`, `configuration`), in characters; and of a hash.
const PREFIX_CHARS_MIN: usize = 4;
const HASH_PREFIX_CHARS_MIN: usize = 7;
/// Minimum length of the beginning that two forms of a word share, in languages without a stemmer: in letters, and in
/// tenths of the longer word.
const SHARED_CHARS_MIN: usize = 5;
const SHARED_TENTHS_MIN: usize = 7;
/// Weight of a term by how it matches a word that it is not: for each typo, a shared beginning, a shared root, and the
/// beginning of a hash.
const TYPO_FACTOR: f32 = 0.8;
const PREFIX_FACTOR: f32 = 0.5;
const ROOT_FACTOR: f32 = 0.6;
const HASH_FACTOR: f32 = 0.9;
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
    /// Group of the stems with its root, if it has one.
    root_group: Option<u32>,
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
    /// Group of each root, and the stems of each group.
    roots: HashMap<Box<str>, u32>,
    root_groups: Vec<TermIds>,
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
        let root_group = root_of(root).map(|root| self.root_group(root));
        if let Some(group) = root_group {
            self.root_groups[group as usize].push(id);
        }
        self.stems.push(Stem { root_group, ..Stem::default() });
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

    /// Returns the group of a root, and adds it if it is new.
    fn root_group(&mut self, root: &str) -> u32 {
        if let Some(group) = self.roots.get(root) {
            return *group;
        }
        let group = to_u32(self.root_groups.len());
        self.root_groups.push(TermIds::default());
        self.roots.insert(root.into(), group);
        group
    }

    /// Returns the stems that have the root of a word and are other words, unless the table knows both: then it says
    /// how similar they are. `own` is the stem of the word, if the corpus has it.
    pub(crate) fn related_stems(&self, word: &Word, own: Option<u32>) -> impl Iterator<Item = u32> {
        let group = match own {
            Some(own) => self.stems[own as usize].root_group,
            None if word.kind == WordKind::Ordinary => {
                root_of(&stem(&word.text)).and_then(|root| self.roots.get(root)).copied()
            }
            None => None,
        };
        let related = group.into_iter().flat_map(|group| self.root_groups[group as usize].iter());
        related.filter(move |other| {
            let first = || self.stems[*other as usize].term_ids.first;
            let is_known = || first().is_some_and(|term| self.is_in_table(term));
            Some(*other) != own && !(is_known() && is_in_table(&word.text))
        })
    }

    /// Returns the terms that an unknown word may mean, each with its weight: those that it is probably a typo of, or
    /// else those that begin alike.
    pub(crate) fn near_terms(&self, word: &Word) -> Vec<(u32, Likeness)> {
        let chars: Vec<char> = word.text.chars().collect();
        if chars.len() < PREFIX_CHARS_MIN
            || matches!(word.kind, WordKind::Pair | WordKind::SmallPair)
        {
            return Vec::new();
        }
        if word.kind == WordKind::Identifier || !chars.iter().all(|c| c.is_alphabetic()) {
            return self.hash_prefixes(&word.text);
        }
        let is_known = is_in_table(&word.text);
        let typos_max = match chars.len() {
            _ if is_known => 0,
            TWO_TYPOS_CHARS_MIN.. => 2,
            ONE_TYPO_CHARS_MIN.. => 1,
            _ => 0,
        };
        let own = letter_mask(&word.text);
        let likely = self
            .list
            .iter()
            .enumerate()
            .filter(|(_, term)| term.word.starts_with(chars[0]) && !term.postings.is_empty());
        let mut typos: Vec<(u32, usize)> = Vec::new();
        let mut alike: Vec<(u32, Likeness)> = Vec::new();
        for (id, term) in likely {
            let may_be_typo = typos_max > 0
                && term.chars.abs_diff(chars.len()) <= typos_max
                && (term.letter_mask ^ own).count_ones() as usize <= 2 * typos_max;
            if may_be_typo {
                let count = strsim::osa_distance(&word.text, &term.word);
                if count <= typos_max {
                    typos.push((to_u32(id), count));
                }
            }
            let is_known = || is_known && self.is_in_table(to_u32(id));
            if begins_alike(&word.text, chars.len(), term, is_known) {
                alike.push((to_u32(id), Likeness { factor: PREFIX_FACTOR, is_typo: false }));
            }
        }
        let least = typos.iter().map(|(_, count)| *count).min();
        typos.retain(|(_, count)| Some(*count) == least);
        alike.retain(|(id, _)| typos.iter().all(|(typo, _)| typo != id));
        let factor =
            |count| TYPO_FACTOR.powi(i32::try_from(count).expect("a match has at most two typos"));
        let typos = typos.into_iter();
        let typos =
            typos.map(|(id, count)| (id, Likeness { factor: factor(count), is_typo: true }));
        typos.chain(alike).collect()
    }

    /// Returns the terms that are the same hash as a word, one of them shortened.
    fn hash_prefixes(&self, word: &str) -> Vec<(u32, Likeness)> {
        let is_hash = |word: &str| {
            word.len() >= HASH_PREFIX_CHARS_MIN && word.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        if !is_hash(word) {
            return Vec::new();
        }
        let terms = self.list.iter().enumerate().filter(|(_, term)| {
            let is_same = term.word.starts_with(word) || word.starts_with(&*term.word);
            is_same && is_hash(&term.word) && !term.postings.is_empty()
        });
        let likeness = Likeness { factor: HASH_FACTOR, is_typo: false };
        terms.map(|(id, _)| (to_u32(id), likeness)).collect()
    }

    /// Checks whether a term is a single token of the table.
    fn is_in_table(&self, term: u32) -> bool {
        self.list[term as usize].tokens.len() == 1
    }
}

/// The likeness of a term and a word that it is not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Likeness {
    /// Weight as the word itself, below 1.
    pub(crate) factor: f32,
    pub(crate) is_typo: bool,
}

impl Likeness {
    /// A word of the same root.
    pub(crate) const RELATED: Self = Self { factor: ROOT_FACTOR, is_typo: false };
}

fn is_in_table(word: &str) -> bool {
    embedding_table().is_some_and(|table| table.rarity(word).is_some())
}

/// Checks whether a term and a word are probably forms of one word, by their beginnings. `are_known` tells whether the
/// table knows both.
fn begins_alike(word: &str, chars: usize, term: &Term, are_known: impl Fn() -> bool) -> bool {
    let (short, long) = (chars.min(term.chars), chars.max(term.chars));
    if short < PREFIX_CHARS_MIN || short == long && word == &*term.word {
        return false;
    }
    let pairs = word.chars().zip(term.word.chars());
    let shared = pairs.take_while(|(one, other)| one == other).count();
    let is_form = shared >= SHARED_CHARS_MIN && shared * 10 >= long * SHARED_TENTHS_MIN;
    (shared == short || is_form) && term.word.chars().all(char::is_alphabetic) && !are_known()
}

/// Returns the root of a stem: without an ending that derives a word; `None` if it is too short or not English.
fn root_of(stem: &str) -> Option<&str> {
    let is_word = stem.bytes().all(|byte| byte.is_ascii_lowercase());
    (is_word && stem.len() >= ROOT_CHARS_MIN).then_some(())?;
    let bare = stem.strip_suffix('e').filter(|bare| bare.len() >= ROOT_CHARS_MIN).unwrap_or(stem);
    let long_enough = |root: &&str| root.len() >= ROOT_CHARS_MIN;
    let root = DERIVING_ENDINGS.iter().filter_map(|ending| bare.strip_suffix(ending));
    Some(root.filter(|root| long_enough(root)).min_by_key(|root| root.len()).unwrap_or(bare))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::words;

    fn check(prompt: &str, term: &str, expected: bool) {
        let mut terms = Terms::default();
        let id = terms.add(&words(term).pop().unwrap());
        terms.list[id as usize].postings.push(Posting::new(0, 1.0));
        let word = words(prompt).pop().unwrap();
        let is_related = terms.related_stems(&word, None).next().is_some();
        let is_near = terms.near_terms(&word).iter().any(|(near, _)| *near == id);
        assert_eq!(is_related || is_near, expected, "{prompt}, {term}");
    }

    #[test]
    fn words_of_one_root_are_related() {
        check("page", "pagination", true);
        check("pagination", "page", true);
        check("configuration", "config", true);
        check("auth", "authentication", true);
        check("repo", "repository", true);
        check("pier", "pierced", cfg!(not(feature = "embedder")));
    }

    #[test]
    fn forms_of_a_word_in_other_languages_are_alike() {
        check("kaavioissa", "kaavioista", true);
        check("schiffen", "schiffes", true);
        check("пристанями", "пристанях", true);
    }

    #[test]
    fn identifiers_are_alike_only_as_shortened_hashes() {
        check("4f2a91c", "4f2a91c0d94a7f33", true);
        check("4f2a91c", "4f2a19c", false);
        check("8447", "8448", false);
        check("HAL-2241", "HAL-2242", false);
    }
}
