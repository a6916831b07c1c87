//! The phrases by which a review recognizes signals: a request to remember, a standing rule, a joke, a retraction.
//!
//! They are the lexicon lines that begin with `@`. A phrase is a run of adjacent words joined by `_`. A word may be
//! `*` (any word), `^` (any word with a capital), `*ing` and `pre*` (any word with this end or this beginning).
//! `%en` is the same end in a word without a capital. `..` is a few words of the same clause, and `$` is the end of
//! the clause. Chinese and Japanese are compared character by character.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

use memory::text::slice;

use super::language::LanguageScores;
use super::lexicon::{Class, Language, LexiconValue, Script, languages};
use super::tokenize::{is_unspaced, normalize, split_words, tokenize_spaced};

/// Maximum number of words that `..` matches, and of characters in scripts without spaces.
const GAP_WORDS_MAX: usize = 12;
const GAP_CHARS_MAX: usize = 24;

/// Divisor for the share of words that a language must know for a sentence to be parsed in it.
const KNOWN_WORDS_DIVISOR: usize = 6;

/// Signal of a phrase about its sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Signal {
    /// May be cut at the beginning of a sentence.
    Fluff,
    /// May be cut at the beginning of a sentence, if it is a clause of its own.
    Opener,
    /// Says that something done or said is wrong.
    Correct,
    /// Asks to remember.
    Remember,
    NoRemember,
    /// Asks to remember, if punctuation follows: `Note: …`
    Label,
    /// Asks to remember the previous statement.
    Noted,
    /// Says that the person said so before.
    Again,
    /// An article for a single thing.
    #[strum(serialize = "one")]
    Article,
    /// Begins a clause about a thing: `a function that …`.
    Which,
    FromNow,
    /// States the person's own plan.
    Plan,
    /// Makes a sentence that begins with it a standing rule.
    Rule,
    NoRule,
    /// An order.
    Order,
    /// Says that an order holds every time.
    Each,
    Not,
    /// Makes a sentence a rule in any position.
    Must,
    /// Forbids; only a rule as a correction.
    Ban,
    /// Makes a ban a rule: `without asking`.
    Unless,
    Stop,
    NoStop,
    Like,
    NoLike,
    /// A wish; only a rule if it holds every time.
    Wish,
    /// Describes the person.
    #[strum(serialize = "iam")]
    Identity,
    #[strum(serialize = "noiam")]
    NoIdentity,
    /// States a convention of the team.
    #[strum(serialize = "we")]
    Convention,
    /// May begin a convention, with another signal.
    #[strum(serialize = "our")]
    Ours,
    #[strum(serialize = "nowe")]
    NoConvention,
    /// Names the project or working place.
    Here,
    /// Names a part of the environment.
    #[strum(serialize = "env")]
    Surroundings,
    /// A verb of statements.
    #[strum(serialize = "be")]
    Verb,
    /// Contrasts two things.
    Versus,
    /// Refers to one particular thing.
    #[strum(serialize = "the")]
    Definite,
    /// Refers to something named before.
    #[strum(serialize = "it")]
    Pronoun,
    /// Begins a condition.
    When,
    /// Limits the statement to this one time.
    Once,
    Day,
    /// Says that something is uncertain or hypothetical.
    Maybe,
    Joke,
    /// Retracts.
    Retract,
    /// Attributes the statement to another person.
    Says,
    /// Mentions a text to work on.
    Material,
    /// Refers to something stated elsewhere: `do it like that`.
    #[strum(serialize = "point")]
    Pointing,
    /// Says that the agent knows it already.
    Known,
    /// A temporary state, such as a failure.
    Passing,
    #[strum(serialize = "ask")]
    Question,
    /// Puts an order politely as a question.
    Request,
}

/// One element of a phrase.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PhrasePart {
    Word(String),
    AnyWord,
    Capitalized,
    EndsWith(String),
    /// The end of a word without a capital.
    LowerEndsWith(String),
    StartsWith(String),
    Gap,
    ClauseEnd,
}

struct Phrase {
    signal: Signal,
    parts: Vec<PhrasePart>,
}

/// The phrases of a language.
#[derive(Default)]
struct PhraseIndex {
    phrases: Vec<Phrase>,
    by_first_word: HashMap<String, Vec<usize>>,
    /// Phrases that begin with no fixed word.
    without_first_word: Vec<usize>,
}

/// The phrases of each language, by its index.
static PHRASES: LazyLock<Vec<PhraseIndex>> =
    LazyLock::new(|| languages().iter().map(PhraseIndex::parse).collect());

impl PhraseIndex {
    fn parse(language: &Language) -> Self {
        let mut phrases = Self::default();
        for line in language.text.lines() {
            let Some((name, words)) = line.strip_prefix('@').and_then(|line| line.split_once(':'))
            else {
                continue;
            };
            let signal: Signal = name.parse().expect("the lexicon names signals");
            for phrase in words.split_whitespace() {
                let parts: Vec<PhrasePart> =
                    phrase.split('_').flat_map(|part| parse_parts(part, language)).collect();
                phrases.add(Phrase { signal, parts });
            }
        }
        phrases
    }

    fn add(&mut self, phrase: Phrase) {
        let index = self.phrases.len();
        match phrase.parts.first() {
            Some(PhrasePart::Word(word)) => {
                self.by_first_word.entry(word.clone()).or_default().push(index);
            }
            Some(_) => self.without_first_word.push(index),
            None => return,
        }
        self.phrases.push(phrase);
    }
}

fn parse_parts(part: &str, language: &Language) -> Vec<PhrasePart> {
    match part {
        "*" => vec![PhrasePart::AnyWord],
        "^" => vec![PhrasePart::Capitalized],
        ".." => vec![PhrasePart::Gap],
        "$" => vec![PhrasePart::ClauseEnd],
        _ => {
            if let Some(end) = part.strip_prefix('*') {
                vec![PhrasePart::EndsWith(normalize(end))]
            } else if let Some(end) = part.strip_prefix('%') {
                vec![PhrasePart::LowerEndsWith(normalize(end))]
            } else if let Some(start) = part.strip_suffix('*') {
                vec![PhrasePart::StartsWith(normalize(start))]
            } else if language.script == Script::Unspaced {
                normalize(part).chars().map(|c| PhrasePart::Word(c.to_string())).collect()
            } else {
                split_words(&normalize(part)).into_iter().map(PhrasePart::Word).collect()
            }
        }
    }
}

/// A word of a sentence, or a character in scripts without spaces.
#[derive(Clone, Debug)]
pub(crate) struct SentenceWord {
    /// Byte range in the sentence.
    pub(crate) range: Range<usize>,
    normalized: String,
    /// Index of its clause.
    pub(crate) clause: usize,
    is_capital: bool,
}

/// A phrase found in a sentence.
#[derive(Clone, Debug)]
struct PhraseMatch {
    signal: Signal,
    words: Range<usize>,
}

/// A parsed sentence with its signals.
pub(crate) struct Sentence<'a> {
    pub(crate) source: &'a str,
    pub(crate) words: Vec<SentenceWord>,
    phrase_matches: Vec<PhraseMatch>,
    language: usize,
    /// Whether each word is a single character.
    pub(crate) is_unspaced: bool,
}

impl<'a> Sentence<'a> {
    /// Parses a sentence in the language that knows most of its words; among several, the one that knows most of
    /// the message around it. `None` if no language knows enough words.
    ///
    /// Each range in `quoted` (bytes of the sentence) becomes a single word that matches no fixed word.
    pub(crate) fn parse(
        source: &'a str,
        quoted: &[Range<usize>],
        around: &LanguageScores,
    ) -> Option<Self> {
        let (mut words, scores) = tokenize_spaced(source);
        let chars = source.chars().filter(|c| is_unspaced(*c)).count();
        let is_unspaced = chars > words.len();
        let candidates = if is_unspaced {
            words = split_characters(source);
            scores.best_unspaced(around).into_iter().collect()
        } else {
            scores.best_spaced(around, words.len().div_ceil(KNOWN_WORDS_DIVISOR))
        };
        let words = number_clauses(source, words, quoted);
        let parse = |language: usize| {
            let words = words.clone();
            let mut sentence =
                Self { source, words, phrase_matches: Vec::new(), language, is_unspaced };
            sentence.find_phrases();
            sentence
        };
        // A short sentence may fit several languages: take the one with the most phrases, or else the first.
        candidates.into_iter().rev().map(parse).max_by_key(|sentence| sentence.phrase_matches.len())
    }

    fn find_phrases(&mut self) {
        let Some(phrases) = PHRASES.get(self.language) else { return };
        for (start, word) in self.words.iter().enumerate() {
            let indexed = phrases.by_first_word.get(&word.normalized).into_iter().flatten();
            for index in indexed.chain(&phrases.without_first_word) {
                let Some(phrase) = phrases.phrases.get(*index) else { continue };
                if let Some(end) = self.match_end(&phrase.parts, start, start) {
                    self.phrase_matches
                        .push(PhraseMatch { signal: phrase.signal, words: start..end });
                }
            }
        }
    }

    /// Returns the end of the shortest run of words from `index` on that matches the parts.
    fn match_end(&self, parts: &[PhrasePart], start: usize, index: usize) -> Option<usize> {
        let Some((part, rest)) = parts.split_first() else { return Some(index) };
        if *part == PhrasePart::ClauseEnd {
            return self
                .is_clause_boundary(index)
                .then(|| self.match_end(rest, start, index))
                .flatten();
        }
        let word = self.words.get(index)?;
        let is_same_clause = index == start
            || self.words.get(index - 1).is_some_and(|last| last.clause == word.clause);
        let matches = match part {
            PhrasePart::Word(expected) => word.normalized == *expected,
            PhrasePart::AnyWord => is_same_clause,
            PhrasePart::Capitalized => is_same_clause && word.is_capital,
            PhrasePart::EndsWith(end) => is_same_clause && word.normalized.ends_with(end),
            PhrasePart::LowerEndsWith(end) => {
                is_same_clause && !word.is_capital && word.normalized.ends_with(end)
            }
            PhrasePart::StartsWith(start) => is_same_clause && word.normalized.starts_with(start),
            PhrasePart::Gap => {
                let max = if self.is_unspaced { GAP_CHARS_MAX } else { GAP_WORDS_MAX };
                let clause = index.checked_sub(1).and_then(|last| self.words.get(last))?.clause;
                let is_inside = |index: &usize| {
                    self.words.get(*index).is_some_and(|word| word.clause == clause)
                };
                return (index..index + max)
                    .take_while(is_inside)
                    .find_map(|next| self.match_end(rest, start, next));
            }
            PhrasePart::ClauseEnd => false,
        };
        matches.then(|| self.match_end(rest, start, index + 1)).flatten()
    }

    /// Checks whether a clause ends before the word at an index.
    pub(crate) fn is_clause_boundary(&self, index: usize) -> bool {
        let clause = |index: usize| self.words.get(index).map(|word| word.clause);
        index > 0 && clause(index) != clause(index - 1)
    }

    /// Returns the end of the longest phrase of a signal that begins at a word.
    pub(crate) fn phrase_end_at(&self, signal: Signal, start: usize) -> Option<usize> {
        self.phrases_in(signal, start..start.saturating_add(1)).map(|words| words.end).max()
    }

    /// Returns the phrases of a signal that begin in a range of words, in order.
    pub(crate) fn phrases_in(
        &self,
        signal: Signal,
        words: Range<usize>,
    ) -> impl Iterator<Item = Range<usize>> {
        // Matches are sorted by their start.
        let from = self.phrase_matches.partition_point(|found| found.words.start < words.start);
        let rest = self.phrase_matches[from..].iter();
        rest.take_while(move |found| found.words.start < words.end)
            .filter(move |found| found.signal == signal)
            .map(|found| found.words.clone())
    }

    /// Checks whether a phrase of a signal begins at or after a word.
    pub(crate) fn has(&self, signal: Signal, from: usize) -> bool {
        self.phrases_in(signal, from..usize::MAX).next().is_some()
    }

    /// Checks whether a word names a day of the week or a month.
    pub(crate) fn is_day_or_month(&self, index: usize) -> bool {
        let lookup =
            |word: &SentenceWord| languages().get(self.language)?.lookup(&word.normalized)?.value;
        let value = self.words.get(index).and_then(lookup);
        matches!(value, Some(LexiconValue::Weekday(_) | LexiconValue::Month(_)))
    }

    /// Checks whether the lexicon gives a word a class.
    pub(crate) fn has_class(&self, index: usize, class: Class) -> bool {
        let lookup = |word: &SentenceWord| languages().get(self.language)?.lookup(&word.normalized);
        self.words.get(index).and_then(lookup).is_some_and(|entry| entry.classes.has(class))
    }
}

/// Returns the letters, digits and pictograms of a text.
fn split_characters(text: &str) -> Vec<(Range<usize>, String)> {
    let is_word = |c: char| c.is_alphanumeric() || ('\u{1F300}'..'\u{1FB00}').contains(&c);
    text.char_indices()
        .filter(|(_, c)| is_word(*c) || *c == '。' || *c == 'ー')
        .filter(|(_, c)| *c != '。')
        .map(|(start, c)| {
            let mut buffer = [0; 4];
            (start..start + c.len_utf8(), normalize(c.encode_utf8(&mut buffer)))
        })
        .collect()
}

/// Numbers the clauses, and joins each quotation into one word. The words of the result do not overlap.
fn number_clauses(
    text: &str,
    words: Vec<(Range<usize>, String)>,
    quoted: &[Range<usize>],
) -> Vec<SentenceWord> {
    let mut numbered: Vec<SentenceWord> = Vec::with_capacity(words.len());
    let (mut clause, mut end) = (0, 0);
    for (range, normalized) in words {
        let quotation =
            quoted.iter().find(|quote| quote.start <= range.start && range.start < quote.end);
        let (range, normalized) = match quotation {
            Some(quote) if numbered.last().is_some_and(|last| last.range == *quote) => continue,
            Some(quote) => (quote.clone(), "§".to_owned()),
            None => (range, normalized),
        };
        if range.start < end {
            // Words that are pairs of characters overlap; those that do not are enough.
            continue;
        }
        let gap = slice(text, end..range.start);
        let is_dash = |c: char| matches!(c, '–' | '—');
        let marks =
            [',', ';', ':', '(', ')', '，', '、', '；', '：', '（', '）', '.', '!', '?', '\n'];
        if gap.contains(marks) || gap.contains(is_dash) || gap.contains(" - ") {
            clause += 1;
        }
        end = range.end;
        let is_capital =
            text.get(range.clone()).is_some_and(|source| source.starts_with(char::is_uppercase));
        numbered.push(SentenceWord { range, normalized, clause, is_capital });
    }
    numbered
}
