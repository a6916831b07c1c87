//! Compares the subjects of statements: a fact is added to a memory only if one of its statements has the same subject.
//!
//! The subject is named by content words. Pronouns, numbers, and words for liking, using and how often name none. Most of
//! the subject words of the shorter statement must be in the other one, and the first word of either: `Redis listens on
//! port 1` has another subject than `Postgres listens on port 2`. Statements that begin with the same noun after an
//! article, or with the same two words, have one subject, too.
//!
//! If in doubt, the subjects differ. A memory of its own has a line in the index, and a fact in a wrong memory has none.

use super::fingerprints::{Fingerprint, TokenFingerprint, is_selection_enabled};
use super::lexicon::Class;
use super::similarity::DocumentFrequencies;
use super::snapshot::ParsedEntry;
use super::subject_words::is_subject_word;
use super::tokenize::{TextToken, TokenizedText};
use super::update::ARTICLES;

/// Minimum number of words at the beginning of two statements that name the same subject: `the staging database …`.
const SHARED_START_MIN: usize = 2;

/// The subject words of a statement, in order.
struct SubjectWords<T> {
    /// Key and word of each. The language of a short text is a guess, and so are its keys.
    words: Vec<[T; 2]>,
    /// Whether an article stands before the first one. Without one it may be a verb.
    has_article: bool,
    /// Whether it also stands alone: a function word follows, as in `The parser is slow`.
    is_noun: bool,
    /// Whether the language has no lexicon, so that any word may be a pronoun or a verb of liking.
    is_unsupported: bool,
}

impl<T: PartialEq> SubjectWords<T> {
    fn has(&self, word: &[T; 2]) -> bool {
        self.words.iter().any(|own| own[0] == word[0] || own[1] == word[1])
    }

    /// Returns the number of words that both have at their beginning.
    fn shared_start(&self, other: &Self) -> usize {
        let pairs = self.words.iter().zip(&other.words);
        pairs.take_while(|(a, b)| a[0] == b[0] || a[1] == b[1]).count()
    }

    fn push(&mut self, word: [T; 2]) {
        if !self.has(&word) {
            self.words.push(word);
        }
    }

    fn has_same_subject(&self, other: &Self) -> bool {
        let is_shorter = self.words.len() <= other.words.len();
        let (few, many) = if is_shorter { (self, other) } else { (other, self) };
        let (Some(first), Some(other_first)) = (few.words.first(), many.words.first()) else {
            return false;
        };
        let shared = few.words.iter().filter(|word| many.has(word)).count();
        if few.is_unsupported || many.is_unsupported {
            return shared == few.words.len();
        }
        let share_most = shared * 2 > few.words.len() && (many.has(first) || few.has(other_first));
        let start = few.shared_start(many);
        let share_noun = start > 0
            && few.has_article
            && many.has_article
            && (shared * 2 == few.words.len() || few.is_noun || many.is_noun);
        share_most || share_noun || start >= SHARED_START_MIN
    }
}

impl<'a> SubjectWords<&'a str> {
    fn of_text(text: &'a TokenizedText, source: &str) -> Self {
        let is_unsupported = text.is_unsupported_language(source);
        let mut words =
            Self { words: Vec::new(), has_article: false, is_noun: false, is_unsupported };
        for (index, token) in
            text.tokens.iter().enumerate().filter(|(_, token)| is_subject_word(token))
        {
            if words.words.is_empty() {
                let before = index.checked_sub(1).and_then(|before| text.tokens.get(before));
                let is_article = |token: &TextToken| {
                    token.is(Class::This) || ARTICLES.contains(&token.word.as_str())
                };
                words.has_article = before.is_some_and(is_article);
                words.is_noun = words.has_article
                    && text.tokens.get(index + 1).is_some_and(|next| !next.is_content());
            }
            words.push([&token.key, &token.word]);
        }
        words
    }
}

impl SubjectWords<Fingerprint> {
    /// Returns the words, with all that may be true of their text.
    fn of_words(words: impl Iterator<Item = [Fingerprint; 2]>) -> Self {
        let mut subject =
            Self { words: Vec::new(), has_article: true, is_noun: true, is_unsupported: false };
        words.for_each(|word| subject.push(word));
        subject
    }
}

/// The subject of a fact, to find the memories about it.
pub(crate) struct Subject<'a> {
    words: SubjectWords<&'a str>,
    fingerprints: SubjectWords<Fingerprint>,
    /// Weights of the words, in order.
    weights: Vec<f64>,
}

impl<'a> Subject<'a> {
    /// Creates the subject of a fact whose words are counted.
    pub(crate) fn new(
        fact: &'a TokenizedText,
        source: &str,
        frequencies: &DocumentFrequencies,
    ) -> Self {
        let words = SubjectWords::of_text(fact, source);
        let weights = words.words.iter().map(|[key, _]| frequencies.idf_of(key)).collect();
        let of = |[key, word]: &[&str; 2]| [Fingerprint::of(key), Fingerprint::of(word)];
        let fingerprints = SubjectWords::of_words(words.words.iter().map(of));
        Self { words, fingerprints, weights }
    }

    /// Checks a necessary condition of [`Self::share_with`].
    pub(crate) fn may_match(&self, entries: &[ParsedEntry], title: &[TokenFingerprint]) -> bool {
        let is_same = |entry: &ParsedEntry| {
            let words = entry.fingerprints().statement.iter().filter(|token| token.is_subject());
            let words = SubjectWords::of_words(words.map(|token| [token.key, token.word]));
            self.fingerprints.has_same_subject(&words)
        };
        let is_in_title =
            |token: &TokenFingerprint| self.fingerprints.has(&[token.key, token.word]);
        !is_selection_enabled() || title.iter().any(is_in_title) || entries.iter().any(is_same)
    }

    /// Returns the share of the fact's subject words that a statement has, by weight; `None` if its subject differs.
    pub(crate) fn share_with(&self, statement: &str) -> Option<f64> {
        let text = TokenizedText::tokenize(statement);
        let other = SubjectWords::of_text(&text, statement);
        let all: f64 = self.weights.iter().sum();
        let words = self.words.words.iter().zip(&self.weights);
        let shared: f64 = words.filter(|(word, _)| other.has(word)).map(|(_, weight)| weight).sum();
        self.words.has_same_subject(&other).then_some(shared / all)
    }
}
