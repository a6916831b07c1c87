//! Splits text of any script into the words that it is indexed by.
//!
//! Words are compared in NFKC, in lower case, without accents. Scripts that are written without spaces are split
//! into pairs of characters. Identifiers (`rest_hours_min`, `toCents`, `src/tide.rs`, `HAL-22`) are indexed whole and
//! by their parts; of numbers with separators (`3.4`, `2026-03-13`) only long parts are indexed. Stop words are left
//! out, except where one language's stop word has a meaning in English (`son`) or stands in capitals (`US`).

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::iter;
use std::sync::LazyLock;

use memory::text::{fold, slice};
use snowball_stemmers_rs::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization;

/// Language in which a word is a stop word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopWordKind {
    English,
    /// Only in another language: in English the word has a meaning.
    ForeignOnly,
    /// In another language, and not an English word.
    Foreign,
}

/// Stop words. The first line of the file is English, the second has the words with a meaning in English.
static STOP_WORDS: LazyLock<HashMap<String, StopWordKind>> = LazyLock::new(|| {
    let lines = include_str!("../data/stop.txt").lines().filter(|line| !line.starts_with('#'));
    let first = [StopWordKind::English, StopWordKind::ForeignOnly];
    let mut stop_words = HashMap::new();
    for (line, of) in lines.zip(first.into_iter().chain(iter::repeat(StopWordKind::Foreign))) {
        for word in line.split_whitespace() {
            stop_words.entry(fold(word)).or_insert(of);
        }
    }
    stop_words
});

/// English stop words that are names when capitalized; other capitals are emphasis.
const CAPITAL_NAMES: [&str; 2] = ["it", "us"];
/// Maximum length, in letters, of a foreign stop word that counts as a name when capitalized.
const NAME_CHARS_MAX: usize = 3;

pub(crate) const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

static TIME_WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let others = "yesterday today tonight tomorrow ago last next week weeks weekend month months year \
                  years day days morning night summer winter spring autumn fall monday tuesday \
                  wednesday thursday friday saturday sunday recently since";
    others.split_whitespace().chain(MONTHS).collect()
});

/// Checks whether a word names a time.
pub(crate) fn is_time_word(word: &str) -> bool {
    TIME_WORDS.contains(word)
}

static ENGLISH: LazyLock<Stemmer> = LazyLock::new(|| Stemmer::create(Algorithm::English));
static RUSSIAN: LazyLock<Stemmer> = LazyLock::new(|| Stemmer::create(Algorithm::Russian));
static ARABIC: LazyLock<Stemmer> = LazyLock::new(|| Stemmer::create(Algorithm::Arabic));

/// Maximum length of an indexed word, in characters; longer ones are cut.
const WORD_CHARS_MAX: usize = 64;

/// Characters that join the parts of an identifier: outer ones, whose sides are identifiers themselves, and inner ones.
const OUTER_JOINTS: [char; 5] = ['/', ':', '@', '\\', '='];
const INNER_JOINTS: [char; 3] = ['.', ',', '-'];
/// Maximum length of a part that is only digits and stands in a number: `2031-04-05` is found by `2031`, not by `04`.
const NUMBER_PART_CHARS_MAX: usize = 3;

/// Kind of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WordKind {
    /// A word between spaces.
    Ordinary,
    /// A number of three digits or more, letters with digits, a name made of parts, or an abbreviation in capitals.
    Identifier,
    /// Two adjacent characters of a script without spaces.
    Pair,
    /// Two characters that are mostly grammar.
    SmallPair,
}

/// One word of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) text: String,
    pub(crate) kind: WordKind,
}

impl Word {
    /// Checks whether the word is a stop word in English, or one elsewhere without a meaning in English.
    pub(crate) fn is_stop_word(&self) -> bool {
        let one_letter = self.kind == WordKind::Ordinary
            && self.text.len() == 1
            && !self.text.bytes().all(|byte| byte.is_ascii_digit());
        one_letter
            || matches!(self.stop_word_kind(), Some(StopWordKind::English | StopWordKind::Foreign))
    }

    /// Checks whether the word is a stop word in a text that is not English.
    pub(crate) fn is_foreign_stop_word(&self) -> bool {
        self.is_stop_word() || self.stop_word_kind().is_some()
    }

    fn stop_word_kind(&self) -> Option<StopWordKind> {
        if self.kind == WordKind::Identifier { None } else { STOP_WORDS.get(&self.text).copied() }
    }
}

/// Checks whether a text has more foreign stop words than English ones.
pub(crate) fn is_foreign(words: &[Word]) -> bool {
    let count =
        |of: StopWordKind| words.iter().filter(|word| word.stop_word_kind() == Some(of)).count();
    count(StopWordKind::Foreign) > count(StopWordKind::English)
}

/// Checks whether a stop word is a name because it is in capitals: `US`, `ER`.
fn is_name(word: &str) -> bool {
    let is_short = (2..=NAME_CHARS_MAX).contains(&word.len());
    is_short && word.bytes().all(|byte| byte.is_ascii_uppercase()) && {
        let lower = word.to_ascii_lowercase();
        STOP_WORDS.get(&lower).is_some_and(|of| *of != StopWordKind::English)
            || CAPITAL_NAMES.contains(&lower.as_str())
    }
}

/// Checks whether a word is a verb with a contracted `not`: `don't`, `won't`.
fn is_negation(word: &str) -> bool {
    let verb = word.strip_suffix(['t', 'T']).and_then(|rest| rest.strip_suffix(['\'', '’']));
    verb.is_some_and(|verb| verb.ends_with(['n', 'N']))
}

/// Returns the stem of a word; the word itself in languages without a stemmer.
pub(crate) fn stem(word: &str) -> Cow<'_, str> {
    match word.chars().next() {
        Some('a'..='z') if word.bytes().all(|byte| byte.is_ascii_lowercase()) => ENGLISH.stem(word),
        Some('\u{400}'..='\u{4FF}') => RUSSIAN.stem(word),
        Some('\u{600}'..='\u{6FF}') => ARABIC.stem(word),
        _ => Cow::Borrowed(word),
    }
}

/// Returns the words of a text, in order.
pub(crate) fn words(text: &str) -> Vec<Word> {
    let text: Cow<'_, str> =
        if text.is_ascii() { Cow::Borrowed(text) } else { text.nfkc().collect::<String>().into() };
    let mut splitter = WordSplitter::default();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if is_unspaced(c) {
            splitter.end_word();
            splitter.unspaced.push(c);
        } else if c == 'T' && splitter.is_date() {
            splitter.end_word();
        } else if c.is_alphanumeric() || c == '_' || is_mark(c) {
            splitter.end_unspaced_run();
            splitter.word.push(c);
        } else {
            splitter.end_unspaced_run();
            let joins = chars.peek().is_some_and(|next| splitter.can_join(c, *next));
            if joins {
                splitter.word.push(c);
            } else {
                splitter.end_word();
            }
        }
    }
    splitter.end_word();
    splitter.end_unspaced_run();
    splitter.words
}

/// State of splitting a text.
#[derive(Debug, Default)]
struct WordSplitter {
    words: Vec<Word>,
    word: String,
    unspaced: Vec<char>,
}

impl WordSplitter {
    /// Checks whether the word is a date so far: a time may follow it.
    fn is_date(&self) -> bool {
        self.word.parse::<jiff::civil::Date>().is_ok()
    }

    /// Checks whether a word continues after a mark.
    fn can_join(&self, mark: char, next: char) -> bool {
        let Some(last) = self.word.chars().next_back() else { return false };
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        match mark {
            '\'' | '’' => {
                last.is_alphabetic() && (next.is_ascii_alphabetic() || !next.is_ascii())
            }
            ',' => last.is_ascii_digit() && next.is_ascii_digit(),
            // `std::fs`: the first colon joins because of the second.
            ':' if next == ':' => is_part(last),
            ':' if last == ':' => is_part(next),
            '.' | '-' | '/' | ':' | '@' | '\\' | '=' => is_part(last) && is_part(next),
            _ => false,
        }
    }

    fn push(&mut self, text: &str, kind: WordKind) {
        let is_identifier = kind == WordKind::Ordinary && (is_name(text) || has_digits(text));
        let kind = if is_identifier { WordKind::Identifier } else { kind };
        let text = fold(text).chars().take(WORD_CHARS_MAX).collect::<String>();
        if !text.is_empty() {
            self.words.push(Word { text, kind });
        }
    }

    fn end_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        let mut word = std::mem::take(&mut self.word);
        self.push_joined(word.trim_end_matches(':'));
        word.clear();
        self.word = word;
    }

    /// Pushes a word that may be an identifier: its parts, and the whole.
    fn push_joined(&mut self, word: &str) {
        let joints: &[char] =
            if word.contains(OUTER_JOINTS) { &OUTER_JOINTS } else { &INNER_JOINTS };
        if !word.contains(joints) {
            self.push_simple(word);
            return;
        }
        let starts_with_digit = word.starts_with(|c: char| c.is_ascii_digit());
        let has_letters = word.contains(char::is_alphabetic);
        let is_whole = is_identifier(word);
        if starts_with_digit && is_whole {
            self.push(word, WordKind::Identifier);
        }
        for part in word.split(joints).filter(|part| !part.is_empty()) {
            let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
            if has_letters || !is_number || part.len() > NUMBER_PART_CHARS_MAX {
                self.push_joined(part);
            }
        }
        if !starts_with_digit && is_whole {
            if let Some(version) = version_number(word) {
                self.push(version, WordKind::Identifier);
            }
            self.push(word, WordKind::Identifier);
        }
    }

    /// Pushes a word without joints, and its parts if it has any.
    fn push_simple(&mut self, word: &str) {
        if is_negation(word) {
            self.push("not", WordKind::Ordinary);
            return;
        }
        if let Some((head, _)) = word.split_once(['\'', '’']) {
            // `Marta's`, `l'heure`: the longest part is the word.
            let longest = word.split(['\'', '’']).max_by_key(|part| part.chars().count());
            let longest = longest.filter(|part| part.len() > head.len() + 1);
            self.push(longest.unwrap_or(head), WordKind::Ordinary);
            return;
        }
        let parts = identifier_parts(word);
        if parts.len() > 1 {
            for part in &parts {
                self.push(part, WordKind::Ordinary);
            }
            self.push(word, WordKind::Identifier);
        } else {
            self.push(word.trim_matches('_'), WordKind::Ordinary);
        }
    }

    fn end_unspaced_run(&mut self) {
        let run = std::mem::take(&mut self.unspaced);
        if let [one] = run.as_slice() {
            self.push(&one.to_string(), WordKind::Pair);
        }
        for pair in run.windows(2) {
            let is_grammar = pair.iter().all(|c| matches!(c, '\u{3041}'..='\u{309F}'));
            let text: String = pair.iter().collect();
            self.push(&text, if is_grammar { WordKind::SmallPair } else { WordKind::Pair });
        }
    }
}

/// Checks whether a word has a digit and is more than a small number: `8447`, `E0716`, `v2`.
fn has_digits(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    digits > NUMBER_PART_CHARS_MAX - 1 || (digits > 0 && digits < word.len())
}

/// Checks whether a joined word is an identifier, and not words with a hyphen (`well-known`) or an abbreviation
/// (`e.g`).
fn is_identifier(word: &str) -> bool {
    let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
    let mut parts = word.split(|c: char| OUTER_JOINTS.contains(&c) || INNER_JOINTS.contains(&c));
    let has_long_part = parts.any(|part| part.chars().count() > 1);
    let hyphens = word.matches('-').count();
    let is_hyphenated = hyphens == 1 && !word.contains(|c: char| !c.is_alphabetic() && c != '-');
    has_digit || (has_long_part && !is_hyphenated && !word.contains(['\'', '’']))
}

/// Returns the number of a version that is written with a `v`: `2.10` for `v2.10`.
fn version_number(word: &str) -> Option<&str> {
    let number = word.strip_prefix(['v', 'V'])?;
    number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.').then_some(number)
}

/// Returns the parts of an identifier such as `rest_hours_min`, `toCents` or `HTTPServer`.
fn identifier_parts(word: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut before = ' ';
    for (index, c) in word.char_indices() {
        // The last of several capitals begins a word of three letters or more: `HTTPServer`, but not `IDs`.
        let ends_capitals = before.is_ascii_uppercase() && c.is_ascii_uppercase() && {
            let rest = slice(word, index..).as_bytes();
            rest.get(1..3).is_some_and(|next| next.iter().all(u8::is_ascii_lowercase))
        };
        if c == '_' || (before.is_lowercase() && c.is_uppercase()) || ends_capitals {
            parts.push(slice(word, start..index));
            start = index;
        }
        before = c;
    }
    parts.push(slice(word, start..));
    parts.retain_mut(|part| {
        *part = part.trim_matches('_');
        !part.is_empty()
    });
    parts
}

const fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36F}' | '\u{591}'..='\u{5C7}' | '\u{610}'..='\u{61A}'
        | '\u{64B}'..='\u{65F}' | '\u{900}'..='\u{903}' | '\u{93A}'..='\u{94F}'
        | '\u{E31}' | '\u{E34}'..='\u{E3A}' | '\u{E47}'..='\u{E4E}')
}

/// Checks for a script without spaces, or one with many affixes per word, where pairs match better.
const fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{E00}'..='\u{EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}'
        | '\u{3005}'..='\u{3007}' | '\u{3041}'..='\u{30FF}' | '\u{31F0}'..='\u{31FF}'
        | '\u{3400}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7A3}' | '\u{F900}'..='\u{FAFF}'
        | '\u{20000}'..='\u{3FFFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let found: Vec<String> = words(text).into_iter().map(|word| word.text).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn words_of_any_script_are_split_and_folded() {
        check("The Café's door, naïve", &["the", "cafe", "door", "naive"]);
        check("l'heure d’été", &["heure", "ete"]);
        check("ｆｕｌｌ width", &["full", "width"]);
        check("Релиз приложения й", &["релиз", "приложения", "й"]);
        check("本番ログ", &["本番", "番ロ", "ログ"]);
        check("木 ok", &["木", "ok"]);
    }

    #[test]
    fn identifiers_are_indexed_whole_and_by_their_parts() {
        check("max_retry_count", &["max", "retry", "count", "max_retry_count"]);
        check("parseDate()", &["parse", "date", "parsedate"]);
        check("_private", &["private"]);
        check("on 2031-04-05 at 3.7", &["on", "2031-04-05", "2031", "at", "3.7"]);
        check("HTTPServer, IDs", &["http", "server", "httpserver", "ids"]);
        check("(HAL-2241),", &["hal", "2241", "hal-2241"]);
        check(
            "src/tide.rs:88:14.",
            &["src", "tide", "rs", "tide.rs", "88", "14", "src/tide.rs:88:14"],
        );
        check("`std::fs::read`", &["std", "fs", "read", "std::fs::read"]);
        check("v2.10 or 2.10", &["v2", "10", "2.10", "v2.10", "or", "2.10"]);
        check("10.0.3.17:5432", &["10.0.3.17:5432", "10.0.3.17", "5432"]);
        check("0x1F :8080 #77", &["0x1f", "8080", "77"]);
        check("2031-04-05T14:30", &["2031-04-05", "2031", "14:30"]);
    }

    #[test]
    fn joined_words_of_a_sentence_are_no_identifiers() {
        check("a well-known pier", &["a", "well", "known", "pier"]);
        check("e.g. the end.", &["e", "g", "the", "end"]);
        check("don't/won't; см.ниже", &["not", "not", "см", "ниже"]);
        check("3-day trip: one", &["3-day", "3", "day", "trip", "one"]);
    }

    #[test]
    fn a_token_with_digits_is_an_identifier_and_a_small_number_is_not() {
        let kinds = |text: &str| words(text).into_iter().map(|word| word.kind).collect::<Vec<_>>();
        assert_eq!(kinds("8447 E0716 4f2a91c"), [WordKind::Identifier; 3]);
        assert_eq!(kinds("12 days"), [WordKind::Ordinary; 2]);
    }

    #[test]
    fn stop_words_are_recognized() {
        let small: Vec<bool> =
            words("where is the harbour").iter().map(Word::is_stop_word).collect();
        assert_eq!(small, [true, true, true, false]);
    }

    fn content_words(text: &str) -> Vec<String> {
        let all = words(text);
        all.into_iter().filter(|word| !word.is_stop_word()).map(|word| word.text).collect()
    }

    #[test]
    fn a_foreign_stop_word_with_an_english_meaning_is_kept_in_english() {
        assert_eq!(content_words("She met the man and his son"), ["met", "man", "son"]);
        let all = words("war die Brücke auf der Karte");
        assert!(
            is_foreign(&all) && all[0].is_foreign_stop_word() && !all[2].is_foreign_stop_word()
        );
        assert!(!is_foreign(&words("when did she paint the war?")));
    }

    #[test]
    fn abbreviations_in_capitals_are_no_stop_words() {
        assert_eq!(content_words("the ER, the US and IT"), ["er", "us", "it"]);
        assert_eq!(content_words("it is NOT for us: DO AS er says"), ["says"]);
    }

    #[test]
    fn a_contracted_not_does_not_change_the_verb() {
        assert_eq!(
            content_words("They won’t say what Don won, and don't ask"),
            ["say", "don", "won", "ask"]
        );
    }
}
