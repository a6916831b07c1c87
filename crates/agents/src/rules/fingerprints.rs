//! Fingerprints of words: a compact form of the tokens of an entry, which is kept between tasks.
//!
//! A task compares each fact with all entries, but few of them have enough words in common with it. Tokenizing all
//! entries takes seconds, and their tokens need twenty times the memory of the text. Therefore each entry keeps only
//! hashes of its words and keys. They show which entries may match; the rules then decide by the tokens of those few.
//! A check by fingerprints is a necessary condition of the rule behind it, and never takes its place.
//!
//! Only word counts and the lists of candidates rely on fingerprints alone. Among a million different words the
//! probability that any two have the same fingerprint is 3 in 100 million. The hash has a random key, so that no text
//! can be written to have the fingerprints of another.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, BuildHasherDefault, Hasher, RandomState};
use std::sync::LazyLock;

use memory::text::slice;

use super::dates;
use super::lexicon::{Class, ClassSet};
use super::subject_words::is_subject_word;
use super::tokenize::{TextToken, TokenizedText, normalize};

#[cfg(test)]
mod tests;

/// Hash of a word, or of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Fingerprint(u64);

static HASH_KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl Fingerprint {
    /// Returns the fingerprint of a word.
    pub(crate) fn of(word: &str) -> Self {
        Self(HASH_KEY.hash_one(word))
    }
}

/// Hasher of fingerprints, which are hashes already.
#[derive(Default)]
pub(crate) struct FingerprintHasher(u64);

impl Hasher for FingerprintHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = self.0.rotate_left(32) ^ number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A map by fingerprints, or by several of them.
pub(crate) type FingerprintMap<K, V> = HashMap<K, V, BuildHasherDefault<FingerprintHasher>>;

/// A set of fingerprints.
pub(crate) type FingerprintSet = HashSet<Fingerprint, BuildHasherDefault<FingerprintHasher>>;

/// A token in compact form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenFingerprint {
    /// Fingerprint of the word.
    pub(crate) word: Fingerprint,
    /// Fingerprint of the key.
    pub(crate) key: Fingerprint,
    /// Offset in the text, in bytes.
    start: u32,
    /// Length in the text, in bytes; at most [`TOKEN_BYTES_MAX`].
    length: u16,
    /// Bit set of the `IS_*` constants.
    flags: u8,
}

// A million of them are in memory for ten thousand memories of six entries.
const _: () = assert!(size_of::<TokenFingerprint>() == 24);

/// Length from which a token's length is not recorded, in bytes.
const TOKEN_BYTES_MAX: u16 = u16::MAX;

/// A content word.
const IS_CONTENT: u8 = 1;
/// A content word that is not light.
const IS_SIGNIFICANT: u8 = 1 << 1;
/// A number, day or month.
const IS_VALUE: u8 = 1 << 2;
/// A part of an explicit date.
const IS_DATE: u8 = 1 << 3;
/// A word that may name a subject.
const IS_SUBJECT: u8 = 1 << 4;

impl TokenFingerprint {
    fn new(token: &TextToken, is_date: bool) -> Self {
        let (is_content, is_value) =
            (token.is_content(), token.has_digit() || token.value.is_some());
        let flag = |flag: u8, is_set: bool| if is_set { flag } else { 0 };
        Self {
            word: Fingerprint::of(&token.word),
            key: Fingerprint::of(&token.key),
            start: u32::try_from(token.range.start).expect("a memory is smaller than 4 GiB"),
            length: u16::try_from(token.range.len()).unwrap_or(TOKEN_BYTES_MAX),
            flags: flag(IS_CONTENT, is_content)
                | flag(IS_SIGNIFICANT, is_content && !token.is_light())
                | flag(IS_VALUE, is_value)
                | flag(IS_DATE, is_date)
                | flag(IS_SUBJECT, is_subject_word(token)),
        }
    }

    /// Checks whether it is a content word.
    pub(crate) const fn is_content(&self) -> bool {
        self.flags & IS_CONTENT != 0
    }

    /// Checks whether it is a content word that is not light.
    pub(crate) const fn is_significant(&self) -> bool {
        self.flags & IS_SIGNIFICANT != 0
    }

    /// Checks whether it is a number, day or month.
    pub(crate) const fn is_value(&self) -> bool {
        self.flags & IS_VALUE != 0
    }

    /// Checks whether it may name a subject.
    pub(crate) const fn is_subject(&self) -> bool {
        self.flags & IS_SUBJECT != 0
    }

    /// Checks whether it is part of an explicit date.
    pub(crate) const fn is_date(&self) -> bool {
        self.flags & IS_DATE != 0
    }

    /// Returns the word, from the text that the token is of; `None` if its length is not recorded.
    pub(crate) fn word_in(&self, text: &str) -> Option<String> {
        let start = usize::try_from(self.start).ok()?;
        let range = start..start + usize::from(self.length);
        (self.length < TOKEN_BYTES_MAX).then(|| normalize(slice(text, range)))
    }
}

/// Returns the fingerprints of a text's tokens.
pub(crate) fn token_fingerprints(text: &TokenizedText) -> Box<[TokenFingerprint]> {
    let dates = dates::explicit_dates(text);
    let is_date = |index| dates.iter().any(|mention| mention.tokens.contains(&index));
    let tokens = text.tokens.iter().enumerate();
    tokens.map(|(index, token)| TokenFingerprint::new(token, is_date(index))).collect()
}

/// The compact form of an entry.
#[derive(Debug)]
pub(crate) struct EntryFingerprints {
    /// Tokens of the statement.
    pub(crate) statement: Box<[TokenFingerprint]>,
    /// Tokens of the statement with its reasons, if it has any.
    with_reasons: Option<Box<[TokenFingerprint]>>,
    /// Classes of all words of the statement.
    pub(crate) classes: ClassSet,
    /// Whether the whole entry has a relative date.
    pub(crate) has_relative_date: bool,
}

impl EntryFingerprints {
    /// Computes the compact form of an entry; `whole` is the statement with its reasons.
    pub(crate) fn new(statement: &str, whole: &str) -> Self {
        let text = TokenizedText::tokenize(statement);
        let classes_of = |text: &TokenizedText| {
            text.tokens.iter().fold(ClassSet::default(), |all, token| all.with(token.classes))
        };
        let with_reasons = (statement.len() < whole.len()).then(|| TokenizedText::tokenize(whole));
        let (all, classes) = (with_reasons.as_ref().unwrap_or(&text), classes_of(&text));
        let may_have_relative_date = dates::may_have_relative_date(classes_of(all));
        Self {
            statement: token_fingerprints(&text),
            with_reasons: with_reasons.as_ref().map(token_fingerprints),
            classes,
            has_relative_date: may_have_relative_date && dates::has_relative_date_in(whole, all),
        }
    }

    /// Returns the tokens of the statement with its reasons.
    pub(crate) fn whole(&self) -> &[TokenFingerprint] {
        self.with_reasons.as_deref().unwrap_or(&self.statement)
    }

    /// Checks whether the statement has a word of a class.
    pub(crate) const fn has(&self, class: Class) -> bool {
        self.classes.has(class)
    }

    /// Returns the keys of the statement's content words that are not light; a word may be repeated.
    pub(crate) fn significant_keys(&self) -> impl Iterator<Item = Fingerprint> {
        significant_keys(&self.statement)
    }

    /// Returns the memory that it needs beside its own fields, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        let reasons = self.with_reasons.as_deref().map_or(0, size_of_val);
        size_of_val(&*self.statement) + reasons
    }
}

/// Returns the keys of the content words that are not light; a word may be repeated.
pub(crate) fn significant_keys(tokens: &[TokenFingerprint]) -> impl Iterator<Item = Fingerprint> {
    tokens.iter().filter(|token| token.is_significant()).map(|token| token.key)
}

/// Checks whether fingerprints select what the rules compare.
#[cfg(not(test))]
pub(crate) const fn is_selection_enabled() -> bool {
    true
}

#[cfg(test)]
thread_local! {
    /// Whether fingerprints select what the rules compare. Tests disable it to compare the results.
    static IS_SELECTION_ENABLED: std::cell::Cell<bool> = const { std::cell::Cell::new(true) };
}

/// Checks whether fingerprints select what the rules compare.
#[cfg(test)]
pub(crate) fn is_selection_enabled() -> bool {
    IS_SELECTION_ENABLED.get()
}
