//! Phrases by which review recognizes what a person says: that something is to be remembered, holds from now on,
//! is a joke, is taken back.
//!
//! They are the lines of the lexicon that begin with `@`. A phrase is words joined by `_`, in this order and side by
//! side. A word may be `*` (any word), `^` (any word with a capital), `*ing` and `pre*` (any word with this end or this
//! beginning), `%en` (the same end, in a word without a capital), `..` (a few words of the same clause) and `$` (the
//! end of the clause). Chinese and Japanese are compared character by character.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

use memory::text::slice;

use super::language::LanguageScores;
use super::lexicon::{Class, Language, LexiconValue, Script, languages};
use super::tokenize::{is_unspaced, normalize, split_words, tokenize_spaced};

/// The most words that `..` stands for, and the most characters where words are not parted.
const GAP_WORDS_MAX: usize = 12;
const GAP_CHARS_MAX: usize = 24;

/// The least share of words that a language must know for a sentence to be read in it: one in so many.
const KNOWN_WORDS_DIVISOR: usize = 6;

/// What a phrase tells of its sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Signal {
    /// May be cut where a sentence begins.
    Fluff,
    /// May be cut where a sentence begins, if it is a clause of its own.
    Opener,
    /// Says that what was done or said is wrong.
    Correct,
    /// Asks to remember.
    Remember,
    NoRemember,
    /// Asks to remember, if a mark stands behind it: `Note: …`
    Label,
    /// Asks to remember what was said just before.
    Noted,
    /// Says that the person has said so before.
    Again,
    /// An article that picks one thing.
    #[strum(serialize = "one")]
    Article,
    /// Begins a clause about a thing: `a function that …`.
    Which,
    FromNow,
    /// Says what the person is going to do.
    Plan,
    /// Makes a sentence that begins so a standing rule.
    Rule,
    NoRule,
    /// An order.
    Order,
    /// Says that an order holds every time.
    Each,
    Not,
    /// Makes a sentence a rule wherever it stands.
    Must,
    /// Forbids; a rule only as a correction.
    Ban,
    /// Makes what is forbidden a rule: `without asking`.
    Unless,
    Stop,
    NoStop,
    Like,
    NoLike,
    /// A wish; a rule only where it holds every time.
    Wish,
    /// Says who the person is.
    #[strum(serialize = "iam")]
    Identity,
    #[strum(serialize = "noiam")]
    NoIdentity,
    /// Says what the team does.
    #[strum(serialize = "we")]
    Convention,
    /// May begin a convention, if more says so.
    #[strum(serialize = "our")]
    Ours,
    #[strum(serialize = "nowe")]
    NoConvention,
    /// Names the place of the work.
    Here,
    /// Names a part of the surroundings.
    #[strum(serialize = "env")]
    Surroundings,
    /// A verb of statements.
    #[strum(serialize = "be")]
    Verb,
    /// Sets one thing against another.
    Versus,
    /// Points at one thing only.
    #[strum(serialize = "the")]
    Definite,
    /// Stands for something that was named before.
    #[strum(serialize = "it")]
    Pronoun,
    /// Begins a condition.
    When,
    /// Says that it holds this once.
    Once,
    Day,
    /// Says that it is not certain or not real.
    Maybe,
    Joke,
    /// Takes back.
    Retract,
    /// Says that another person says so.
    Says,
    /// A text to work on is near.
    Material,
    /// What is meant stands elsewhere: `do it like that`.
    #[strum(serialize = "point")]
    Pointing,
    /// Says that the agent knows it.
    Known,
    /// A state that passes, such as a failure.
    Passing,
    #[strum(serialize = "ask")]
    Question,
    /// Puts an order politely, as a question.
    Request,
}

/// A part of a phrase.
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
    /// Those that begin with no certain word.
    without_first_word: Vec<usize>,
}

/// The phrases of each language, by its place among all.
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

/// A word of a sentence, or a character where words are not parted.
#[derive(Clone, Debug)]
pub(crate) struct SentenceWord {
    /// Where it stands in the sentence, in bytes.
    pub(crate) range: Range<usize>,
    normalized: String,
    /// The number of its clause.
    pub(crate) clause: usize,
    is_capital: bool,
}

/// A phrase that was found in a sentence.
#[derive(Clone, Debug)]
struct PhraseMatch {
    signal: Signal,
    words: Range<usize>,
}

/// A sentence, read for signals.
pub(crate) struct Sentence<'a> {
    pub(crate) source: &'a str,
    pub(crate) words: Vec<SentenceWord>,
    phrase_matches: Vec<PhraseMatch>,
    language: usize,
    /// Whether words are characters.
    pub(crate) is_unspaced: bool,
}

impl<'a> Sentence<'a> {
    /// Reads a sentence in the language that knows the most of its words; of several that do, in the one that knows
    /// the most of the message around it. `None` if no language knows enough of them.
    ///
    /// What stands in `quoted` (in bytes of the sentence) is one word each, which no phrase knows.
    pub(crate) fn parse(
        source: &'a str,
        quoted: &[Range<usize>],
        around: &LanguageScores,
    ) -> Option<Self> {
        let (mut words, tongues) = tokenize_spaced(source);
        let chars = source.chars().filter(|c| is_unspaced(*c)).count();
        let is_unspaced = chars > words.len();
        let candidates = if is_unspaced {
            words = split_characters(source);
            tongues.best_unspaced(around).into_iter().collect()
        } else {
            tongues.best_spaced(around, words.len().div_ceil(KNOWN_WORDS_DIVISOR))
        };
        let words = number_clauses(source, words, quoted);
        let read = |language: usize| {
            let words = words.clone();
            let mut sentence =
                Self { source, words, phrase_matches: Vec::new(), language, is_unspaced };
            sentence.find_phrases();
            sentence
        };
        // A short sentence may be of several languages: it is of the one that recognizes more in it, else of the first.
        candidates.into_iter().rev().map(read).max_by_key(|sentence| sentence.phrase_matches.len())
    }

    fn find_phrases(&mut self) {
        let Some(phrases) = PHRASES.get(self.language) else { return };
        for (at, word) in self.words.iter().enumerate() {
            let known = phrases.by_first_word.get(&word.normalized).into_iter().flatten();
            for index in known.chain(&phrases.without_first_word) {
                let Some(phrase) = phrases.phrases.get(*index) else { continue };
                if let Some(end) = self.match_end(&phrase.parts, at, at) {
                    self.phrase_matches.push(PhraseMatch { signal: phrase.signal, words: at..end });
                }
            }
        }
    }

    /// Returns the end of the words that these parts match from `at` on, the shortest run of them.
    fn match_end(&self, parts: &[PhrasePart], start: usize, at: usize) -> Option<usize> {
        let Some((part, rest)) = parts.split_first() else { return Some(at) };
        if *part == PhrasePart::ClauseEnd {
            return self.is_clause_boundary(at).then(|| self.match_end(rest, start, at)).flatten();
        }
        let word = self.words.get(at)?;
        let is_same_clause =
            at == start || self.words.get(at - 1).is_some_and(|last| last.clause == word.clause);
        let is_met = match part {
            PhrasePart::Word(wanted) => word.normalized == *wanted,
            PhrasePart::AnyWord => is_same_clause,
            PhrasePart::Capitalized => is_same_clause && word.is_capital,
            PhrasePart::EndsWith(end) => is_same_clause && word.normalized.ends_with(end),
            PhrasePart::LowerEndsWith(end) => {
                is_same_clause && !word.is_capital && word.normalized.ends_with(end)
            }
            PhrasePart::StartsWith(start) => is_same_clause && word.normalized.starts_with(start),
            PhrasePart::Gap => {
                let most = if self.is_unspaced { GAP_CHARS_MAX } else { GAP_WORDS_MAX };
                let clause = at.checked_sub(1).and_then(|last| self.words.get(last))?.clause;
                let is_inside =
                    |at: &usize| self.words.get(*at).is_some_and(|word| word.clause == clause);
                return (at..at + most)
                    .take_while(is_inside)
                    .find_map(|next| self.match_end(rest, start, next));
            }
            PhrasePart::ClauseEnd => false,
        };
        is_met.then(|| self.match_end(rest, start, at + 1)).flatten()
    }

    /// Tells whether a clause ends in front of the word at this place.
    pub(crate) fn is_clause_boundary(&self, at: usize) -> bool {
        let clause = |at: usize| self.words.get(at).map(|word| word.clause);
        at > 0 && clause(at) != clause(at - 1)
    }

    /// Returns the end of the longest phrase of this signal that begins here.
    pub(crate) fn phrase_end_at(&self, signal: Signal, start: usize) -> Option<usize> {
        self.phrases_in(signal, start..start.saturating_add(1)).map(|words| words.end).max()
    }

    /// Returns where the phrases of this signal are that begin in these words, in order.
    pub(crate) fn phrases_in(
        &self,
        signal: Signal,
        words: Range<usize>,
    ) -> impl Iterator<Item = Range<usize>> {
        // They were found in order.
        let from = self.phrase_matches.partition_point(|one| one.words.start < words.start);
        let behind = self.phrase_matches[from..].iter();
        behind
            .take_while(move |one| one.words.start < words.end)
            .filter(move |one| one.signal == signal)
            .map(|one| one.words.clone())
    }

    /// Tells whether a phrase of this signal begins at this word or behind it.
    pub(crate) fn has(&self, signal: Signal, from: usize) -> bool {
        self.phrases_in(signal, from..usize::MAX).next().is_some()
    }

    /// Tells whether a word names a day of the week or a month.
    pub(crate) fn is_day_or_month(&self, at: usize) -> bool {
        let known =
            |word: &SentenceWord| languages().get(self.language)?.lookup(&word.normalized)?.value;
        let value = self.words.get(at).and_then(known);
        matches!(value, Some(LexiconValue::Weekday(_) | LexiconValue::Month(_)))
    }

    /// Tells whether the lexicon gives a word this class.
    pub(crate) fn has_class(&self, at: usize, class: Class) -> bool {
        let known = |word: &SentenceWord| languages().get(self.language)?.lookup(&word.normalized);
        self.words.get(at).and_then(known).is_some_and(|known| known.classes.has(class))
    }
}

/// Returns the characters of a text that are letters or digits, and pictures.
fn split_characters(text: &str) -> Vec<(Range<usize>, String)> {
    let is_word = |c: char| c.is_alphanumeric() || ('\u{1F300}'..'\u{1FB00}').contains(&c);
    text.char_indices()
        .filter(|(_, c)| is_word(*c) || *c == '。' || *c == 'ー')
        .filter(|(_, c)| *c != '。')
        .map(|(at, c)| {
            let mut buffer = [0; 4];
            (at..at + c.len_utf8(), normalize(c.encode_utf8(&mut buffer)))
        })
        .collect()
}

/// Numbers the clauses, and makes one word of each quotation.
fn number_clauses(
    text: &str,
    cut: Vec<(Range<usize>, String)>,
    quoted: &[Range<usize>],
) -> Vec<SentenceWord> {
    let mut words: Vec<SentenceWord> = Vec::with_capacity(cut.len());
    let (mut clause, mut end) = (0, 0);
    for (at, plain) in cut {
        let quotation = quoted.iter().find(|range| range.start <= at.start && at.start < range.end);
        let (at, plain) = match quotation {
            Some(range) if words.last().is_some_and(|last| last.range == *range) => continue,
            Some(range) => (range.clone(), "§".to_owned()),
            None => (at, plain),
        };
        let between = slice(text, end..at.start);
        let is_dash = |c: char| matches!(c, '–' | '—');
        let marks =
            [',', ';', ':', '(', ')', '，', '、', '；', '：', '（', '）', '.', '!', '?', '\n'];
        if between.contains(marks) || between.contains(is_dash) || between.contains(" - ") {
            clause += 1;
        }
        end = at.end;
        let is_capital =
            text.get(at.clone()).is_some_and(|source| source.starts_with(char::is_uppercase));
        words.push(SentenceWord { range: at, normalized: plain, clause, is_capital });
    }
    words
}
