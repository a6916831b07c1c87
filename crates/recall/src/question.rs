//! A prompt as what it asks for: words with their weight, days, and who it is about.

use std::collections::HashSet;

use jiff::civil::Date;
use memory::text::slice;

use crate::corpus::{Corpus, Entry};
use crate::limits::PROMPT_CHARS_MAX;
use crate::terms::Gist;
use crate::wording::{WORDING, wording};
use crate::words::{Kind, MONTHS, Word, is_foreign, words};

/// Words that a prompt is searched by, at most; the rarest of it.
pub(crate) const WORDS_MAX: usize = 24;
/// As many entries begin with a name that tells who speaks, rather than what is spoken of.
const SPEAKER_ENTRIES_MIN: usize = 8;

/// How much a pair of characters counts that mostly is grammar.
const SMALL_PAIR: f32 = 0.25;

/// From how many entries on it counts how many there are, when it is asked whether anything fits.
const ENTRIES_ASSUMED: usize = 64;

/// A word that is asked for.
#[derive(Debug)]
pub(crate) struct Asked {
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
pub(crate) struct Named {
    month: i8,
    day: Option<i8>,
    year: Option<i16>,
}

/// A prompt, read.
#[derive(Debug, Default)]
pub(crate) struct Question {
    /// The direction of what it means as a whole; empty when meaning does not count.
    pub(crate) gist: Vec<i8>,
    pub(crate) asked: Vec<Asked>,
    pub(crate) subjects: HashSet<Box<str>>,
    pub(crate) days: Vec<Named>,
    pub(crate) asks_when: bool,
    pub(crate) wording: [f32; WORDING],
}

impl Question {
    /// Reads a prompt for a corpus.
    pub(crate) fn read(prompt: &str, corpus: &Corpus, by_sense: bool) -> Self {
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
        let mut asked: Vec<Asked> = Vec::new();
        let foreign = is_foreign(&all);
        let says_nothing =
            |word: &Word| if foreign { word.is_small_abroad() } else { word.is_small() };
        for word in all.iter().filter(|word| !says_nothing(word)) {
            let stem = corpus.terms.stem_of(&word.text);
            if !seen.contains(&stem) {
                asked.push(Asked::new(word, stem.as_ref().ok().copied(), corpus));
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
        let mut gist = Gist::default();
        for asked in asked.iter().filter(|_| by_sense) {
            gist.add_word(&asked.word);
        }
        let gist = if by_sense { gist.direction() } else { Vec::new() };
        let days = days(prompt, &texts);
        let wording = if by_sense { wording(prompt) } else { Default::default() };
        Self { gist, asked, subjects, days, asks_when, wording }
    }

    /// Whether an entry begins with a name that the question has.
    pub(crate) fn is_about(&self, entry: &Entry) -> bool {
        !self.subjects.is_empty()
            && entry.subject.as_ref().is_some_and(|name| self.subjects.contains(name))
    }

    /// Whether this day's month is named, and whether the day itself is.
    pub(crate) fn names(&self, date: Option<Date>) -> (bool, bool) {
        let Some(date) = date else { return (false, false) };
        let mut of_month = self.days.iter().filter(|named| {
            named.month == date.month() && named.year.is_none_or(|year| year == date.year())
        });
        let month = of_month.clone().next().is_some();
        (month, of_month.any(|named| named.day == Some(date.day())))
    }
}

impl Asked {
    /// How much it tells whether anything fits, from 0 to 1.
    pub(crate) fn worth(&self) -> f32 {
        self.share * self.rarity
    }

    fn new(word: &Word, stem: Option<u32>, corpus: &Corpus) -> Self {
        let known = stem.and_then(|stem| corpus.terms.stem(stem));
        let entries = known.map_or(0, |stem| stem.entries);
        let rare = telling(entries, corpus.entries());
        let all = corpus.entries().max(ENTRIES_ASSUMED);
        let share = telling(entries, all) / telling(0, all);
        let small = if word.kind == Kind::SmallPair { SMALL_PAIR } else { 1.0 };
        let rarity = match word.kind {
            Kind::Plain => corpus.terms.rarity(&word.text).unwrap_or(1.0),
            Kind::Sign | Kind::Pair | Kind::SmallPair => 1.0,
        };
        Self { word: word.clone(), stem, weight: rare * small, share: share * small, rarity }
    }
}

/// How much a word tells that so many entries of all have.
fn telling(entries: usize, all: usize) -> f32 {
    let (all, has) = (all as f32, entries as f32);
    (1.0 + (all - has + 0.5).max(0.0) / (has + 0.5)).ln()
}

/// The months that a prompt names in English or by numbers, each with the day and year beside it.
fn days(prompt: &str, words: &[&str]) -> Vec<Named> {
    let mut days = Vec::new();
    let mut rest = prompt;
    while let Some(date) = crate::unit::first_date(rest) {
        days.push(Named { month: date.month(), day: Some(date.day()), year: Some(date.year()) });
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
            days.push(Named { month: number, day, year });
        }
    }
    days
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(prompt: &str, date: Date, expected: (bool, bool)) {
        let question = Question::read(prompt, &Corpus::default(), true);
        assert_eq!(question.names(Some(date)), expected, "{prompt}");
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
