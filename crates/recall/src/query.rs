//! A prompt prepared for search: its words with weights, the dates it names, and the subjects it is about.
//!
//! Parsing depends on the corpus: a word weighs more the fewer entries have it, and a subject counts only if an
//! entry begins with it. Stop words and the names of speakers are dropped. Of a long prompt, the words that the corpus
//! has are kept, the rarest first.

use std::collections::HashSet;

use jiff::civil::Date;
use memory::text::slice;

use crate::corpus::{Corpus, IndexedEntry};
use crate::limits::PROMPT_CHARS_MAX;
use crate::prompt_classifier::{PROMPT_CLASS_LEN, classify_prompt};
use crate::terms::TextVector;
use crate::words::{MONTHS, Word, WordKind, is_foreign, words};

/// Maximum number of words that a prompt is searched by.
pub(crate) const WORDS_MAX: usize = 24;
/// Maximum number of unknown words of a long prompt that are compared with the terms of the corpus.
const UNKNOWN_WORDS_MAX: usize = 48;
/// Number of entries from which a subject counts as a speaker, not as a topic.
const SPEAKER_ENTRIES_MIN: usize = 8;

/// Weight of a character pair that is mostly grammar.
const SMALL_PAIR_FACTOR: f32 = 0.25;

/// Corpus size, in entries, that smaller corpora are treated as when deciding whether to answer.
const CORPUS_ENTRIES_MIN: usize = 64;

/// A word of the question.
#[derive(Debug)]
pub(crate) struct QueryTerm {
    pub(crate) word: Word,
    /// Stem in the corpus, if any entry's word shares it.
    pub(crate) stem: Option<u32>,
    /// Inverse document frequency: the fewer entries have the word, the larger.
    pub(crate) weight: f32,
    /// Weight as a share of the largest possible, from 0 to 1; computed as if a small corpus were larger.
    pub(crate) share: f32,
    /// Rarity in the language, from 0 to 1.
    pub(crate) rarity: f32,
    /// Whether the word is a number or a name that is not made of one word.
    pub(crate) is_identifier: bool,
}

/// A month that is named, with a day and a year if the prompt has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamedDate {
    month: i8,
    day: Option<i8>,
    year: Option<i16>,
}

/// A parsed prompt.
#[derive(Debug, Default)]
pub(crate) struct PromptQuery {
    /// Vector of the prompt as a whole; empty when vectors are not used.
    pub(crate) text_vector: Vec<i8>,
    pub(crate) terms: Vec<QueryTerm>,
    pub(crate) subjects: HashSet<Box<str>>,
    pub(crate) dates: Vec<NamedDate>,
    pub(crate) asks_when: bool,
    /// Whether the prompt is in another language than that of the table.
    pub(crate) is_foreign: bool,
    /// Share of the prompt's words, by weight, that the corpus has.
    pub(crate) known_share: f32,
    pub(crate) prompt_class: [f32; PROMPT_CLASS_LEN],
}

impl PromptQuery {
    /// Parses a prompt for a corpus.
    pub(crate) fn parse(prompt: &str, corpus: &Corpus, use_vectors: bool) -> Self {
        let end = prompt.char_indices().nth(PROMPT_CHARS_MAX).map_or(prompt.len(), |(at, _)| at);
        let prompt = slice(prompt, ..end);
        let all = words(prompt);
        let mut subjects = HashSet::new();
        let mut speakers = HashSet::new();
        let mut name = String::new();
        for span in [1, 2] {
            for run in all.windows(span) {
                name.clear();
                for word in run {
                    name.push_str(if name.is_empty() { "" } else { " " });
                    name.push_str(&word.text);
                }
                if let Some(entries) = corpus.subjects.get(name.as_str()) {
                    subjects.insert(name.as_str().into());
                    if *entries >= SPEAKER_ENTRIES_MIN {
                        speakers.extend(run.iter().map(|word| word.text.clone()));
                    }
                }
            }
        }
        let mut stems = HashSet::new();
        let mut terms: Vec<QueryTerm> = Vec::new();
        let foreign = is_foreign(&all);
        let is_stop_word =
            |word: &Word| if foreign { word.is_foreign_stop_word() } else { word.is_stop_word() };
        for word in all.iter().filter(|word| !is_stop_word(word)) {
            let stem = corpus.terms.stem_of(&word.text);
            if !stems.contains(&stem) {
                terms.push(QueryTerm::new(word, stem.as_ref().ok().copied(), corpus));
                stems.insert(stem);
            }
        }
        if terms.iter().any(|term| !speakers.contains(&term.word.text)) {
            terms.retain(|term| !speakers.contains(&term.word.text));
        }
        let known_share = known_share(&terms);
        keep_known_words(&mut terms, corpus);
        let texts: Vec<&str> = all.iter().map(|word| word.text.as_str()).collect();
        let asks_when = texts.first() == Some(&"when")
            || texts.contains(&"date")
            || texts.windows(2).any(|pair| pair == ["how", "long"]);
        let mut sum = TextVector::default();
        for term in terms.iter().filter(|_| use_vectors) {
            sum.add_word(&term.word);
        }
        let text_vector = if use_vectors { sum.unit_vector() } else { Vec::new() };
        let dates = named_dates(prompt, &texts);
        let prompt_class = if use_vectors { classify_prompt(prompt) } else { Default::default() };
        let is_foreign = foreign || is_mostly_foreign(&terms);
        Self {
            text_vector,
            terms,
            subjects,
            dates,
            asks_when,
            is_foreign,
            known_share,
            prompt_class,
        }
    }

    /// Checks whether the question names the subject of an entry.
    pub(crate) fn is_about(&self, entry: &IndexedEntry) -> bool {
        !self.subjects.is_empty()
            && entry.subject.as_ref().is_some_and(|name| self.subjects.contains(name))
    }

    /// Checks whether the question names this day's month, and whether it names the day.
    pub(crate) fn matches_date(&self, date: Option<Date>) -> (bool, bool) {
        let Some(date) = date else { return (false, false) };
        let mut of_month = self.dates.iter().filter(|named| {
            named.month == date.month() && named.year.is_none_or(|year| year == date.year())
        });
        let month = of_month.clone().next().is_some();
        (month, of_month.any(|named| named.day == Some(date.day())))
    }
}

impl QueryTerm {
    /// Returns the weight of the word in the decision to answer, from 0 to 1.
    pub(crate) fn answer_weight(&self) -> f32 {
        self.share * self.rarity
    }

    fn new(word: &Word, stem: Option<u32>, corpus: &Corpus) -> Self {
        let forms = stem.and_then(|stem| corpus.terms.stem(stem));
        let entries = forms.map_or(0, |stem| stem.entries);
        let rare = idf(entries, corpus.entries());
        let all = corpus.entries().max(CORPUS_ENTRIES_MIN);
        let share = idf(entries, all) / idf(0, all);
        let small = if word.kind == WordKind::SmallPair { SMALL_PAIR_FACTOR } else { 1.0 };
        let rarity = match word.kind {
            WordKind::Ordinary => corpus.terms.rarity_in_language(&word.text).unwrap_or(1.0),
            WordKind::Identifier | WordKind::Pair | WordKind::SmallPair => 1.0,
        };
        Self {
            word: word.clone(),
            stem: forms.and(stem),
            weight: rare * small,
            share: share * small,
            rarity,
            is_identifier: word.kind == WordKind::Identifier,
        }
    }
}

/// Returns the share of words, by weight, that the corpus has.
fn known_share(terms: &[QueryTerm]) -> f32 {
    let of =
        |terms: &mut dyn Iterator<Item = &QueryTerm>| terms.map(|term| term.share).sum::<f32>();
    of(&mut terms.iter().filter(|term| term.stem.is_some())) / of(&mut terms.iter()).max(1.0)
}

/// Cuts the words of a long prompt: those that the corpus has come first, then those that it nearly has, and the
/// rarest of each. A pasted log has many words that occur nowhere, and they say nothing.
fn keep_known_words(terms: &mut Vec<QueryTerm>, corpus: &Corpus) {
    if terms.len() <= WORDS_MAX {
        return;
    }
    terms.sort_by(|a, b| {
        let key = |term: &QueryTerm| term.stem.is_some();
        key(b).cmp(&key(a)).then(b.weight.total_cmp(&a.weight))
    });
    let known = terms.iter().filter(|term| term.stem.is_some()).count();
    if known < WORDS_MAX {
        let mut unknown = terms.split_off(known);
        // An identifier is hardly ever another one, nearly.
        unknown.sort_by_key(|term| term.is_identifier);
        let mut compared = 0;
        unknown.sort_by_cached_key(|term| {
            compared += 1;
            let has_near =
                compared <= UNKNOWN_WORDS_MAX && !corpus.terms.near_terms(&term.word).is_empty();
            !has_near
        });
        terms.append(&mut unknown);
    }
    terms.truncate(WORDS_MAX);
}

/// Checks whether most words of a prompt are in a script that the table does not have.
fn is_mostly_foreign(terms: &[QueryTerm]) -> bool {
    let of_words = || terms.iter().filter(|term| !term.is_identifier);
    let foreign = of_words().filter(|term| !term.word.text.is_ascii()).count();
    foreign * 2 > of_words().count()
}

/// Returns the inverse document frequency of a word, as in BM25.
fn idf(entries: usize, all: usize) -> f32 {
    let (all, has) = (all as f32, entries as f32);
    (1.0 + (all - has + 0.5).max(0.0) / (has + 0.5)).ln()
}

/// Returns the months that a prompt names in English or by numbers, each with its day and year.
fn named_dates(prompt: &str, words: &[&str]) -> Vec<NamedDate> {
    let mut days = Vec::new();
    let mut rest = prompt;
    while let Some(date) = crate::passage::first_date(rest) {
        days.push(NamedDate {
            month: date.month(),
            day: Some(date.day()),
            year: Some(date.year()),
        });
        let written = date.to_string();
        rest = rest.split_once(written.as_str()).map_or("", |(_, after)| after);
    }
    let numbers = || {
        words.iter().filter_map(|word| {
            word.trim_end_matches(['s', 't', 'h', 'n', 'd', 'r']).parse::<i16>().ok()
        })
    };
    for (number, name) in (1_i8..).zip(MONTHS) {
        if words.contains(&name) {
            let day = numbers().find_map(|n| i8::try_from(n).ok().filter(|n| (1..=31).contains(n)));
            let year = numbers().find(|n| (1900..2200).contains(n));
            days.push(NamedDate { month: number, day, year });
        }
    }
    days
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(prompt: &str, date: Date, expected: (bool, bool)) {
        let question = PromptQuery::parse(prompt, &Corpus::default(), true);
        assert_eq!(question.matches_date(Some(date)), expected, "{prompt}");
    }

    #[test]
    fn a_long_prompt_is_searched_by_the_words_that_the_corpus_has() {
        let mut corpus = Corpus::new(memory::screen::Screen::default());
        let path =
            memory::path::MemoryPath::parse("/memories/project/a.md", memory::path::Layout::Scoped);
        corpus.put(&path.unwrap(), "- the ballast pump is slow\n", None);
        let noise: Vec<String> = (0..60).map(|number| format!("zq{number}x")).collect();
        let prompt = format!("{} balast {} pump", noise.join(" "), noise.join(";"));
        let query = PromptQuery::parse(&prompt, &corpus, true);
        let words: Vec<&str> = query.terms.iter().map(|term| term.word.text.as_str()).collect();
        assert_eq!((words.len(), &words[..2]), (WORDS_MAX, &["pump", "balast"][..]));
    }

    #[test]
    fn other_languages_are_detected_by_their_script_or_their_stop_words() {
        let check = |prompt: &str, expected: bool| {
            let query = PromptQuery::parse(prompt, &Corpus::default(), true);
            assert_eq!(query.is_foreign, expected, "{prompt}");
        };
        check("where is the pier", false);
        check("wo ist die Brücke und der Kai", true);
        check("岸壁はどこですか", true);
        check("где пристань", true);
        check("HAL-22", false);
        check("", false);
    }

    #[test]
    fn a_prompt_may_name_a_month_or_a_day() {
        let day = jiff::civil::date(2031, 4, 5);
        check("what did we decide in April?", day, (true, false));
        check("what did we decide on April 5th, 2031?", day, (true, true));
        check("what did we decide in April 2030?", day, (false, false));
        check("since 2031-04-05", day, (true, true));
        check("2031-04-06 and 2031-04-05", day, (true, true));
        check("in the fifth week", day, (false, false));
    }
}
