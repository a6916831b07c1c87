//! Splits text into normalized tokens that can be compared: any script, any case, with or without accents.
//!
//! Letters and digits between spaces form a word. Chinese and Japanese are split along the words of the lexicon,
//! and into character pairs in between. Each token has a `key` (its stem, or a symbol for its meaning) and the word
//! classes that the lexicon of its language gives it. The language is detected from the common words of the text.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use memory::text::{fold, has_word, slice};
use regex::Regex;
use unicode_normalization::char::is_combining_mark;

use super::language::{DetectedLanguages, LanguageScores};
use super::lexicon::{
    Class, ClassSet, LANGUAGES_MAX, Language, LexiconEntry, LexiconValue, Script, languages,
    languages_with,
};

/// Pattern of raw tokens: numbers with separators, runs of one script, comparison signs, pictograms.
static RAW_TOKENS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?P<number>\d+(?:[.:,/\-]\d+)+\b)",
        r"|(?P<unspaced>[\p{Han}\p{Hiragana}\p{Katakana}ー々]+)",
        r"|(?P<stacked>[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]+)",
        r"|(?P<word>[\w--\p{Han}\p{Hiragana}\p{Katakana}ー々\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]+",
        r"(?:['’](?-u:[A-Za-z])+|[.:\-]\d+)*(?:\+\+|\#)?)",
        r"|(?P<sign>[<>≤≥]=?)",
        r"|(?P<picture>\p{Extended_Pictographic})",
    ))
    .ok()
});

/// Normalizes a text for comparison: folded, with straight apostrophes.
pub(crate) fn normalize(text: &str) -> String {
    fold(text).replace('’', "'")
}

/// Returns the words of a normalized text with spaces.
pub(crate) fn split_words(plain: &str) -> Vec<String> {
    let mut words = Vec::new();
    for piece in raw_tokens(plain) {
        split_word(plain, &piece, &mut words);
    }
    words.into_iter().map(|(_, word)| word).collect()
}

/// Returns the words of a text with their byte ranges, without those in scripts without spaces, and language
/// scores.
pub(crate) fn tokenize_spaced(text: &str) -> (Vec<(Range<usize>, String)>, LanguageScores) {
    let (pieces, words) = split_text(text);
    let scores = score_languages(text, &pieces, &words);
    (words, scores)
}

/// One word of a text.
#[derive(Clone, Debug)]
pub(crate) struct TextToken {
    /// Byte range in the text.
    pub(crate) range: Range<usize>,
    /// Normalized word.
    pub(crate) word: String,
    /// Key that words are compared by.
    pub(crate) key: String,
    /// Classes in its language.
    pub(crate) classes: ClassSet,
    /// Number, weekday or month that it stands for.
    pub(crate) value: Option<LexiconValue>,
    /// Index of its clause; commas, full stops and brackets end one.
    pub(crate) clause: usize,
    /// Index of its sentence.
    pub(crate) sentence: usize,
    /// Whether it is negated.
    pub(crate) negated: bool,
    /// Whether it begins with a capital inside a sentence.
    pub(crate) is_name: bool,
    /// Whether it is all capitals.
    pub(crate) is_acronym: bool,
    /// Index of its language.
    pub(crate) language: Option<usize>,
}

impl TextToken {
    pub(crate) const fn is(&self, class: Class) -> bool {
        self.classes.has(class)
    }

    /// Returns the code of its language; empty if unknown.
    pub(crate) fn language_code(&self) -> &'static str {
        self.language.and_then(|index| languages().get(index)).map_or("", |language| language.code)
    }

    /// Checks whether its language is English.
    pub(crate) fn is_english(&self) -> bool {
        self.language_code() == "en"
    }

    /// Checks whether its language puts the verb last.
    pub(crate) fn is_verb_last(&self) -> bool {
        self.language_code() == "ja"
    }

    /// Checks for a digit.
    pub(crate) fn has_digit(&self) -> bool {
        self.word.chars().any(char::is_numeric)
    }

    /// Checks whether it adds nothing: a verb that fits any noun, or a word for the person.
    pub(crate) fn is_light(&self) -> bool {
        let light = [Class::Light, Class::Polite, Class::User, Class::Oneself];
        !self.key.starts_with('§') && self.classes.has_any(&light)
    }

    /// Checks whether it is a content word.
    pub(crate) fn is_content(&self) -> bool {
        let small = [Class::Function, Class::Not, Class::Contrast, Class::Until, Class::Since];
        self.key.starts_with('§') || self.value.is_some() || !self.classes.has_any(&small)
    }
}

/// A run of words that the lexicon has an entry for.
#[derive(Clone, Debug)]
pub(crate) struct LexiconMatch {
    /// Indexes of the words.
    pub(crate) tokens: Range<usize>,
    pub(crate) classes: ClassSet,
    pub(crate) value: Option<LexiconValue>,
}

/// A text with its tokens.
#[derive(Clone, Debug, Default)]
pub(crate) struct TokenizedText {
    pub(crate) tokens: Vec<TextToken>,
    pub(crate) lexicon_matches: Vec<LexiconMatch>,
}

impl TokenizedText {
    /// Tokenizes a text in the detected languages.
    pub(crate) fn tokenize(text: &str) -> Self {
        let (pieces, words) = split_text(text);
        let languages = DetectedLanguages::detect(&score_languages(text, &pieces, &words));
        Self::from_raw_tokens(text, pieces, words, languages)
    }

    fn from_raw_tokens(
        text: &str,
        pieces: Vec<RawToken>,
        mut words: Vec<NormalizedWord>,
        detected: DetectedLanguages,
    ) -> Self {
        let mut tokenized = Self::default();
        let (mut clause, mut sentence, mut end) = (0, 0, 0);
        for piece in pieces {
            let between = slice(text, end..piece.range.start);
            let next = words.get(piece.words.start).map_or("", |(_, word)| word);
            match boundary(tokenized.tokens.last(), between, next) {
                Some(Boundary::Sentence) => (sentence, clause) = (sentence + 1, clause + 1),
                Some(Boundary::Clause) => clause += 1,
                None => {}
            }
            end = piece.range.end;
            let first_in_sentence =
                tokenized.tokens.last().is_none_or(|token: &TextToken| token.sentence != sentence);
            let mut unspaced = match piece.kind {
                RawTokenKind::Unspaced => segment_unspaced(text, &piece, detected),
                RawTokenKind::Spaced | RawTokenKind::Abugida => Vec::new(),
            };
            let split = words.get_mut(piece.words).into_iter().flatten().chain(&mut unspaced);
            for (range, word) in split.map(std::mem::take) {
                let source = slice(text, range.clone());
                let is_name = !first_in_sentence && source.starts_with(char::is_uppercase);
                let is_acronym = is_acronym(source);
                let language = detected.for_script(script_of(&word));
                tokenized.tokens.push(TextToken {
                    key: String::new(),
                    range,
                    word,
                    classes: ClassSet::default(),
                    value: None,
                    clause,
                    sentence,
                    negated: false,
                    is_name,
                    is_acronym,
                    language,
                });
            }
        }
        tokenized.match_lexicon();
        tokenized.mark_site_phrases();
        tokenized.mark_negation();
        tokenized
    }

    /// Looks up all runs of words in the lexicon and sets classes, values and keys.
    fn match_lexicon(&mut self) {
        for index in 0..self.tokens.len() {
            let token = &mut self.tokens[index];
            let Some(language) = token.language.and_then(|index| languages().get(index)) else {
                token.key = token.word.clone();
                continue;
            };
            let begins_run = token.language.is_some_and(|index| {
                languages_with(&token.word) >> (index + LANGUAGES_MAX) & 1 == 1
            });
            let longest = if begins_run { language.longest_phrase } else { 1 };
            let mut words = Cow::Borrowed("");
            for (offset, token) in self.tokens[index..].iter().take(longest).enumerate() {
                if offset > 0 {
                    words.to_mut().push(' ');
                    words.to_mut().push_str(&token.word);
                } else {
                    words = Cow::Borrowed(&token.word);
                }
                if let Some(LexiconEntry { classes, value, .. }) = language.lookup(&words) {
                    let tokens = index..index + offset + 1;
                    self.lexicon_matches.push(LexiconMatch {
                        tokens,
                        classes: *classes,
                        value: *value,
                    });
                }
            }
            drop(words);
            self.assign_key(index, language);
        }
        for hit in &self.lexicon_matches {
            for token in &mut self.tokens[hit.tokens.clone()] {
                token.classes = token.classes.with(hit.classes);
                if hit.tokens.len() == 1 {
                    token.value = hit.value;
                }
            }
            if hit.tokens.len() > 1
                && (hit.classes.has(Class::Less) || hit.classes.has(Class::More))
            {
                let sign = if hit.classes.has(Class::Less) { "§less" } else { "§more" };
                for token in &mut self.tokens[hit.tokens.clone()] {
                    sign.clone_into(&mut token.key);
                }
            }
        }
        for token in &mut self.tokens {
            token.canonicalize_key();
        }
    }

    fn assign_key(&mut self, index: usize, language: &Language) {
        let token = &mut self.tokens[index];
        let entry = language.lookup(&token.word).and_then(|entry| entry.canonical.as_ref());
        let word = entry.unwrap_or(&token.word);
        token.key = if token.has_digit() { word.clone() } else { language.stem(word) };
        let by_stem = language.classes_of_stem(&token.key);
        if !by_stem.is_empty() {
            token.classes = token.classes.with(by_stem);
            self.lexicon_matches.push(LexiconMatch {
                tokens: index..index + 1,
                classes: by_stem,
                value: None,
            });
        }
    }

    /// Marks the place in `of this project` and the like as light: the memory's scope says the same.
    fn mark_site_phrases(&mut self) {
        for index in 2..self.tokens.len() {
            let [before, this, place] = &self.tokens[index - 2..=index] else { continue };
            let is_phrase = before.clause == place.clause && before.is(Class::Function);
            if is_phrase
                && before.is(Class::Within)
                && this.is(Class::This)
                && place.is(Class::Site)
            {
                let token = &mut self.tokens[index];
                token.classes = token.classes.with(ClassSet::single(Class::Light));
            }
        }
    }

    /// Marks negated words: those after a negation in its clause, up to the next function word. In languages with
    /// the verb last, also those before it.
    fn mark_negation(&mut self) {
        let (mut negated_clause, mut has_content) = (None, false);
        for index in 0..self.tokens.len() {
            let token = &self.tokens[index];
            let clause = token.clause;
            if token.is(Class::Not) || token.is(Class::Contrast) {
                (negated_clause, has_content) = (Some(clause), false);
                if self.negates_preceding_words(index) {
                    let before = self.tokens[..index].iter_mut().rev();
                    for token in before.take_while(|token| token.clause == clause) {
                        token.negated = true;
                    }
                }
            } else if negated_clause == Some(clause) {
                let is_content = token.is_content();
                if is_content {
                    self.tokens[index].negated = true;
                    has_content = true;
                } else if has_content {
                    negated_clause = None;
                }
            }
        }
    }

    fn negates_preceding_words(&self, index: usize) -> bool {
        let token = &self.tokens[index];
        (token.is_verb_last() || matches!(token.language_code(), "de" | "nl"))
            && token.is(Class::Not)
    }

    /// Returns the content words.
    pub(crate) fn content_tokens(&self) -> impl Iterator<Item = &TextToken> {
        self.tokens.iter().filter(|token| token.is_content())
    }

    /// Checks whether the text is in a language without a lexicon. Its script is unsupported, or it is Latin with
    /// non-ASCII letters and hardly any known word.
    pub(crate) fn is_unsupported_language(&self, source: &str) -> bool {
        let is_word =
            |token: &&TextToken| !token.has_digit() && !token.is_name && !token.is_acronym;
        let words = || self.tokens.iter().filter(is_word);
        let known = words().filter(|token| !token.classes.is_empty()).count();
        let foreign = words().filter(|token| script_of(&token.word) == Script::Unsupported).count();
        let is_own = |token: &TextToken| {
            let is_ascii = source.get(token.range.clone()).is_none_or(str::is_ascii);
            !is_ascii && script_of(&token.word) == Script::Latin
        };
        foreign * 2 > words().count()
            || (words().skip(1).any(is_own) && known * 4 <= words().count())
    }

    /// Checks whether any word has a class.
    pub(crate) fn has(&self, class: Class) -> bool {
        self.tokens.iter().any(|token| token.is(class))
    }
}

impl TextToken {
    fn canonicalize_key(&mut self) {
        let fixed = match self.value {
            Some(LexiconValue::Number(number)) => Some(number.to_string()),
            Some(LexiconValue::Weekday(day)) => Some(format!("§weekday{day}")),
            Some(LexiconValue::Month(month)) => Some(format!("§month{month}")),
            None if self.classes.has(Class::Prefer) => Some("§prefer".to_owned()),
            None if self.classes.has(Class::Less) || self.word.starts_with(['<', '≤']) => {
                Some("§less".to_owned())
            }
            None if self.classes.has(Class::More) || self.word.starts_with(['>', '≥']) => {
                Some("§more".to_owned())
            }
            None => None,
        };
        if let Some(fixed) = fixed {
            self.key = fixed;
        }
    }
}

/// Checks whether a word is the name of a month in some language: `4. Mai`.
pub(crate) fn is_month_name(word: &str) -> bool {
    let is_month = |language: &Language| {
        language
            .lookup(word)
            .is_some_and(|entry| matches!(entry.value, Some(LexiconValue::Month(_))))
    };
    languages().iter().any(is_month)
}

/// Checks whether a word is all capitals.
fn is_acronym(source: &str) -> bool {
    source.chars().filter(|c| c.is_uppercase()).count() >= 2
        && !source.chars().any(char::is_lowercase)
}

/// End of a clause or sentence.
enum Boundary {
    Clause,
    Sentence,
}

/// Returns the boundary between two words.
fn boundary(last: Option<&TextToken>, gap: &str, next: &str) -> Option<Boundary> {
    let is_day = |token: &TextToken| token.word.len() <= 2 && token.has_digit();
    if gap.trim_end() == "." && last.is_some_and(is_day) && is_month_name(next) {
        // `4. Mai`.
        return None;
    }
    if gap.contains(['.', '!', '?', '。', '！', '？', '…', '؟', '\n']) {
        return Some(Boundary::Sentence);
    }
    let ends_clause =
        gap.contains([',', ';', ':', '(', ')', '，', '、', '；', '：', '–', '—', '،']);
    ends_clause.then_some(Boundary::Clause)
}

/// Kind of a raw token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RawTokenKind {
    Spaced,
    Unspaced,
    Abugida,
}

/// A normalized word with its byte range.
type NormalizedWord = (Range<usize>, String);

#[derive(Clone, Debug)]
struct RawToken {
    range: Range<usize>,
    kind: RawTokenKind,
    /// Indexes of its words in the list of the whole text.
    words: Range<usize>,
}

fn raw_tokens(text: &str) -> Vec<RawToken> {
    let Some(pattern) = RAW_TOKENS.as_ref() else { return Vec::new() };
    pattern
        .find_iter(text)
        .map(|found| {
            let kind = found.as_str().chars().next().map_or(RawTokenKind::Spaced, raw_token_kind);
            RawToken { range: found.range(), kind, words: 0..0 }
        })
        .collect()
}

/// Returns the kind of a raw token: its first character matches only one alternative of the pattern.
const fn raw_token_kind(first: char) -> RawTokenKind {
    match first {
        '\u{E00}'..='\u{EFF}'
        | '\u{1000}'..='\u{109F}'
        | '\u{1780}'..='\u{17FF}'
        | '\u{19E0}'..='\u{19FF}'
        | '\u{A9E0}'..='\u{A9FF}'
        | '\u{AA60}'..='\u{AA7F}'
        | '\u{116D0}'..='\u{116FF}' => RawTokenKind::Abugida,
        '\u{3006}' | '\u{3099}' | '\u{309A}' | '\u{FF70}' => RawTokenKind::Spaced,
        '\u{2E80}'..='\u{2FDF}'
        | '\u{3005}'..='\u{3007}'
        | '\u{3021}'..='\u{3029}'
        | '\u{3038}'..='\u{303B}'
        | '\u{3041}'..='\u{30FF}'
        | '\u{31F0}'..='\u{31FF}'
        | '\u{32D0}'..='\u{32FE}'
        | '\u{3300}'..='\u{3357}'
        | '\u{3400}'..='\u{9FFF}'
        | '\u{F900}'..='\u{FAFF}'
        | '\u{FF66}'..='\u{FF9D}'
        | '\u{16FE2}'..='\u{16FE3}'
        | '\u{16FF0}'..='\u{16FFF}'
        | '\u{1AFF0}'..='\u{1B16F}'
        | '\u{1F200}'
        | '\u{20000}'..='\u{3FFFF}' => RawTokenKind::Unspaced,
        _ => RawTokenKind::Spaced,
    }
}

/// Splits a text into raw tokens and words, as far as that is independent of the language.
fn split_text(text: &str) -> (Vec<RawToken>, Vec<NormalizedWord>) {
    let mut words = Vec::new();
    let mut pieces = raw_tokens(text);
    for piece in &mut pieces {
        let start = words.len();
        piece.split_into(text, &mut words);
        piece.words = start..words.len();
    }
    (pieces, words)
}

/// Returns the language scores of a text.
fn score_languages(text: &str, pieces: &[RawToken], words: &[NormalizedWord]) -> LanguageScores {
    let mut scores = LanguageScores::default();
    scores.note_kana(text);
    for piece in pieces.iter().filter(|piece| piece.kind == RawTokenKind::Spaced) {
        // An acronym such as `CI` is no Polish word.
        if text.get(piece.range.clone()).is_some_and(is_acronym) {
            continue;
        }
        for (range, word) in words.get(piece.words.clone()).into_iter().flatten() {
            scores.add_word(slice(text, range.clone()), word);
        }
    }
    scores
}

impl RawToken {
    /// Splits the token into words, as far as that is independent of the language.
    fn split_into(&self, text: &str, words: &mut Vec<NormalizedWord>) {
        match self.kind {
            RawTokenKind::Spaced => split_word(text, self, words),
            RawTokenKind::Abugida => words.extend(character_bigrams(text, &self.range)),
            RawTokenKind::Unspaced => {}
        }
    }
}

/// Splits a word at its apostrophes, unless some language knows it whole.
fn split_word(text: &str, piece: &RawToken, words: &mut Vec<NormalizedWord>) {
    let source = slice(text, piece.range.clone());
    let whole = normalize(source);
    if !source.contains(['\'', '’']) || is_apostrophe_word(&whole) {
        words.push((piece.range.clone(), whole));
        return;
    }
    let mut start = piece.range.start;
    for part in source.split(['\'', '’']) {
        let range = start..start + part.len();
        let mark = slice(text, range.end..).chars().next().map_or(0, char::len_utf8);
        start = range.end + mark;
        if !part.is_empty() {
            words.push((range, normalize(part)));
        }
    }
}

fn is_apostrophe_word(word: &str) -> bool {
    // A fixed list: the lexicon cannot be asked, because it is parsed with this function.
    word.contains('\'') && has_word(APOSTROPHES, word)
}

/// Words with an apostrophe that are not split.
const APOSTROPHES: &str = "
    don't doesn't didn't isn't aren't wasn't won't can't shouldn't mustn't couldn't wouldn't
    haven't hasn't weren't i'm i've i'd i'll we're we've we'd we'll you're you've you'll they're
    it's that's there's here's what's let's aujourd'hui s'il
";

/// Splits a run without spaces along known words; the text in between is split into pairs.
fn segment_unspaced(
    text: &str,
    piece: &RawToken,
    detected: DetectedLanguages,
) -> Vec<NormalizedWord> {
    let Some(language) =
        detected.for_script(Script::Unspaced).and_then(|index| languages().get(index))
    else {
        return character_bigrams(text, &piece.range);
    };
    let source = slice(text, piece.range.clone());
    let chars: Vec<(usize, char)> = source.char_indices().collect();
    let end_of = |index: usize| chars.get(index).map_or(source.len(), |(offset, _)| *offset);
    let mut words = Vec::new();
    let (mut unknown, mut index) = (0, 0);
    while index < chars.len() {
        let longest = language.longest_phrase.min(chars.len() - index);
        let found = (1..=longest).rev().find_map(|length| {
            let range = chars[index].0..end_of(index + length);
            let word = normalize(source.get(range.clone())?);
            language.lookup(&word).map(|_| (length, range, word))
        });
        let Some((length, range, word)) = found else {
            index += 1;
            continue;
        };
        words.extend(segment_unknown(text, piece, end_of(unknown)..range.start, language));
        words.push((piece.range.start + range.start..piece.range.start + range.end, word));
        index += length;
        unknown = index;
    }
    words.extend(segment_unknown(text, piece, end_of(unknown)..source.len(), language));
    words
}

/// Splits unknown text: katakana stays whole, hiragana is grammar and dropped, the rest is split into pairs.
fn segment_unknown(
    text: &str,
    piece: &RawToken,
    range: Range<usize>,
    language: &Language,
) -> Vec<NormalizedWord> {
    let start = piece.range.start + range.start;
    let source = slice(text, start..piece.range.start + range.end);
    let mut runs: Vec<(Range<usize>, u8)> = Vec::new();
    for (offset, c) in source.char_indices() {
        let kind = match c {
            '\u{3041}'..='\u{309F}' => 0,
            '\u{30A0}'..='\u{30FF}' => 1,
            _ => 2,
        };
        let range = start + offset..start + offset + c.len_utf8();
        match runs.last_mut() {
            Some((run, last)) if *last == kind => run.end = range.end,
            _ => runs.push((range, kind)),
        }
    }
    let mut words = Vec::new();
    for (range, kind) in runs {
        match kind {
            0 if language.code == "ja" => {}
            1 => words.push((range.clone(), normalize(slice(text, range)))),
            _ => words.extend(character_bigrams(text, &range)),
        }
    }
    words
}

/// Returns all pairs of adjacent characters; a single character by itself.
fn character_bigrams(text: &str, range: &Range<usize>) -> Vec<NormalizedWord> {
    let source = slice(text, range.clone());
    let starts: Vec<usize> = source
        .char_indices()
        .filter(|(index, c)| *index == 0 || !is_combining_mark(*c))
        .map(|(index, _)| index)
        .chain([source.len()])
        .collect();
    let pair = |start: usize, end: usize| {
        let range = range.start + start..range.start + end;
        let word = normalize(slice(text, range.clone()));
        (range, word)
    };
    match starts.as_slice() {
        [] | [_] => Vec::new(),
        [start, end] => vec![pair(*start, *end)],
        starts => starts.windows(3).map(|window| pair(window[0], window[2])).collect(),
    }
}

/// Checks whether a character belongs to a script without spaces.
pub(crate) fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '々')
}

fn script_of(word: &str) -> Script {
    match word.chars().find(|c| c.is_alphabetic()) {
        Some('\u{0400}'..='\u{052F}') => Script::Cyrillic,
        Some(c) if is_unspaced(c) => Script::Unspaced,
        Some(c) if c < '\u{0370}' || ('\u{1E00}'..='\u{1EFF}').contains(&c) => Script::Latin,
        Some(_) => Script::Unsupported,
        None => Script::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_character_determines_the_kind_of_a_raw_token() {
        let pattern = RAW_TOKENS.as_ref().unwrap();
        let mut wrong = Vec::new();
        for first in '\0'..=char::MAX {
            let piece = first.to_string();
            let Some(found) = pattern.captures(&piece) else { continue };
            let expected = if found.name("unspaced").is_some() {
                RawTokenKind::Unspaced
            } else if found.name("stacked").is_some() {
                RawTokenKind::Abugida
            } else {
                RawTokenKind::Spaced
            };
            if raw_token_kind(first) != expected {
                wrong.push(format!("{first} {:x}", u32::from(first)));
            }
        }
        assert_eq!(wrong, Vec::<String>::new());
    }
}
