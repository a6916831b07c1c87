//! A prompt as what it asks for: words with their weight, days, and who it is about.

use std::collections::HashSet;

use jiff::civil::Date;
use memory::text::slice;

use crate::corpus::{Corpus, IndexedEntry};
use crate::limits::PROMPT_CHARS_MAX;
use crate::prompt_classifier::{PROMPT_CLASS_LEN, classify_prompt};
use crate::terms::TextVector;
use crate::words::{MONTHS, Word, WordKind, is_foreign, words};

/// Words that a prompt is searched by, at most; the rarest of it.
pub(crate) const WORDS_MAX: usize = 24;
/// As many entries begin with a name that tells who speaks, rather than what is spoken of.
const SPEAKER_ENTRIES_MIN: usize = 8;

/// How much a pair of characters counts that mostly is grammar.
const SMALL_PAIR_FACTOR: f32 = 0.25;

/// From how many entries on it counts how many there are, when it is asked whether anything fits.
const CORPUS_ENTRIES_MIN: usize = 64;

/// A word that is asked for.
#[derive(Debug)]
pub(crate) struct QueryTerm {
    pub(crate) word: Word,
    /// What it shares with its other forms, if any is known.
    pub(crate) stem: Option<u32>,
    /// How much it tells: the rarer it is in the corpus, the more.
    pub(crate) weight: f32,
    /// How much of what a word can tell at most, from 0 to 1; in a small corpus as if it were larger.
    pub(crate) share: f32,
    /// How rare it is in the language, from 0 to 1.
    pub(crate) rarity: f32,
}

/// A month that is named, with a day and a year if they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamedDate {
    month: i8,
    day: Option<i8>,
    year: Option<i16>,
}

/// A prompt, read.
#[derive(Debug, Default)]
pub(crate) struct PromptQuery {
    /// The direction of what it means as a whole; empty when meaning does not count.
    pub(crate) text_vector: Vec<i8>,
    pub(crate) terms: Vec<QueryTerm>,
    pub(crate) subjects: HashSet<Box<str>>,
    pub(crate) dates: Vec<NamedDate>,
    pub(crate) asks_when: bool,
    pub(crate) prompt_class: [f32; PROMPT_CLASS_LEN],
}

impl PromptQuery {
    /// Reads a prompt for a corpus.
    pub(crate) fn parse(prompt: &str, corpus: &Corpus, by_sense: bool) -> Self {
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
        let mut seen = HashSet::new();
        let mut asked: Vec<QueryTerm> = Vec::new();
        let foreign = is_foreign(&all);
        let says_nothing =
            |word: &Word| if foreign { word.is_foreign_stop_word() } else { word.is_stop_word() };
        for word in all.iter().filter(|word| !says_nothing(word)) {
            let stem = corpus.terms.stem_of(&word.text);
            if !seen.contains(&stem) {
                asked.push(QueryTerm::new(word, stem.as_ref().ok().copied(), corpus));
                seen.insert(stem);
            }
        }
        if asked.iter().any(|asked| !speakers.contains(&asked.word.text)) {
            asked.retain(|asked| !speakers.contains(&asked.word.text));
        }
        if asked.len() > WORDS_MAX {
            asked.sort_by(|a, b| b.weight.total_cmp(&a.weight));
            asked.truncate(WORDS_MAX);
        }
        let texts: Vec<&str> = all.iter().map(|word| word.text.as_str()).collect();
        let asks_when = texts.first() == Some(&"when")
            || texts.contains(&"date")
            || texts.windows(2).any(|pair| pair == ["how", "long"]);
        let mut gist = TextVector::default();
        for asked in asked.iter().filter(|_| by_sense) {
            gist.add_word(&asked.word);
        }
        let gist = if by_sense { gist.unit_vector() } else { Vec::new() };
        let days = named_dates(prompt, &texts);
        let wording = if by_sense { classify_prompt(prompt) } else { Default::default() };
        Self {
            text_vector: gist,
            terms: asked,
            subjects,
            dates: days,
            asks_when,
            prompt_class: wording,
        }
    }

    /// Whether an entry begins with a name that the question has.
    pub(crate) fn is_about(&self, entry: &IndexedEntry) -> bool {
        !self.subjects.is_empty()
            && entry.subject.as_ref().is_some_and(|name| self.subjects.contains(name))
    }

    /// Whether this day's month is named, and whether the day itself is.
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
    /// How much it tells whether anything fits, from 0 to 1.
    pub(crate) fn answer_weight(&self) -> f32 {
        self.share * self.rarity
    }

    fn new(word: &Word, stem: Option<u32>, corpus: &Corpus) -> Self {
        let known = stem.and_then(|stem| corpus.terms.stem(stem));
        let entries = known.map_or(0, |stem| stem.entries);
        let rare = idf(entries, corpus.entries());
        let all = corpus.entries().max(CORPUS_ENTRIES_MIN);
        let share = idf(entries, all) / idf(0, all);
        let small = if word.kind == WordKind::SmallPair { SMALL_PAIR_FACTOR } else { 1.0 };
        let rarity = match word.kind {
            WordKind::Ordinary => corpus.terms.rarity_in_language(&word.text).unwrap_or(1.0),
            WordKind::Identifier | WordKind::Pair | WordKind::SmallPair => 1.0,
        };
        Self { word: word.clone(), stem, weight: rare * small, share: share * small, rarity }
    }
}

/// How much a word tells that so many entries of all have.
fn idf(entries: usize, all: usize) -> f32 {
    let (all, has) = (all as f32, entries as f32);
    (1.0 + (all - has + 0.5).max(0.0) / (has + 0.5)).ln()
}

/// The months that a prompt names in English or by numbers, each with the day and year beside it.
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
