//! The lexicon: the words that the rules depend on, by language.
//!
//! A language is a file in `lexicon/` with lines of `class: word word two_words`. The classes are those of a
//! grammar (articles, negation, first person, units of time) and a few general ones, such as places where things
//! are kept. None is about a particular subject. Words of a class that begins with `~` also match by stem. Lines
//! that begin with `@` hold phrases for reviews (`phrases`). Words only classify; permission to remove text does
//! not depend on them. In a language without a file, texts are compared by their words alone.

use std::collections::HashMap;
use std::sync::LazyLock;

use snowball_stemmers_rs::{Algorithm, Stemmer};

use super::tokenize::{normalize, split_words};

/// Role of a word in a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
#[repr(u8)]
pub(crate) enum Class {
    /// A function word without meaning of its own.
    Function,
    /// Belongs to the request, not to its subject.
    Asking,
    /// Asks to forget.
    Forget,
    /// Asks not to forget, in a single word.
    Keep,
    Not,
    /// The first person singular.
    #[strum(serialize = "self")]
    Oneself,
    /// The first person plural.
    Us,
    /// The second person.
    You,
    /// Concerns an agent only: answers and their form.
    Agent,
    /// A repository or project.
    Site,
    /// Refers to this project, with a word for one.
    This,
    /// Refers to this project by itself.
    Here,
    /// Makes a sentence a rule.
    Rule,
    /// The person, as an agent calls them.
    User,
    Prefer,
    /// Adds nothing to the words around it.
    Light,
    /// Says that something changed.
    Change,
    /// Says that something no longer holds.
    Gone,
    /// Contrasts two things.
    Contrast,
    Except,
    /// Kind of memory: a preference.
    Taste,
    /// Kind of memory: a rule.
    Rules,
    /// Kind of memory: a link.
    Links,
    /// A place where knowledge is kept.
    Place,
    /// Says that something is in a place.
    Located,
    At,
    Until,
    Ends,
    Since,
    /// Names the agent of a passive sentence.
    By,
    /// Less than.
    #[strum(serialize = "lt")]
    Less,
    /// More than.
    #[strum(serialize = "gt")]
    More,
    And,
    /// A word for the items of an announced list.
    Thing,
    Today,
    Tomorrow,
    Yesterday,
    Overmorrow,
    Ereyesterday,
    Next,
    Last,
    Current,
    /// Belongs to the words after it: `of this project`.
    Within,
    /// Says that something holds in all projects.
    Everywhere,
    /// Says that knowledge is put somewhere.
    Recorded,
    /// Only polite.
    Polite,
    /// A duration ahead; before the duration.
    In,
    /// A duration ago; after the duration.
    Ago,
    /// A duration ago; before the duration.
    #[strum(serialize = "agopre")]
    AgoBefore,
    /// A duration ahead; after the duration.
    Later,
    Day,
    Week,
    Fortnight,
    Month,
    Year,
    /// May stand between the words of a date.
    Glue,
    /// Begins a text to remember.
    Lead,
    /// Begins a sentence that depends on the previous one.
    Opener,
    /// Refers to something named before, in any position.
    Back,
    /// About health, family, money or an address.
    Private,
}

/// A set of classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClassSet(u128);

impl ClassSet {
    pub(crate) const fn has(self, class: Class) -> bool {
        self.0 & (1 << class as u8) != 0
    }

    pub(crate) fn has_any(self, classes: &[Class]) -> bool {
        classes.iter().any(|class| self.has(*class))
    }

    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn single(class: Class) -> Self {
        Self(1 << class as u8)
    }
}

/// Value of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LexiconValue {
    /// A day of the week; Monday is 1.
    Weekday(i8),
    /// A month; January is 1.
    Month(i8),
    Number(i8),
}

/// Lexicon entry of a word or phrase.
#[derive(Clone, Debug, Default)]
pub(crate) struct LexiconEntry {
    pub(crate) classes: ClassSet,
    pub(crate) value: Option<LexiconValue>,
    /// Word that it is a form of.
    pub(crate) canonical: Option<String>,
}

/// Script of a language, as far as it matters for tokenizing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Script {
    Latin,
    Cyrillic,
    /// Chinese and Japanese: no spaces between words.
    Unspaced,
    /// A script of no language in the lexicon.
    Unsupported,
    /// Numbers and signs, which have the language of the words around them.
    Other,
}

impl Script {
    /// Number of scripts.
    pub(crate) const COUNT: usize = Self::Other as usize + 1;
}

/// One language.
pub(crate) struct Language {
    pub(crate) script: Script,
    pub(crate) code: &'static str,
    /// Text of its file.
    pub(crate) text: &'static str,
    stemmer: Option<Stemmer>,
    /// Entries by word, or by words joined with spaces.
    entries: HashMap<String, LexiconEntry>,
    by_stem: HashMap<String, ClassSet>,
    /// Letters that not all languages of its script have.
    pub(crate) letters: &'static str,
    /// Length of the longest phrase, in words, or in characters in scripts without spaces.
    pub(crate) longest_phrase: usize,
    /// Whether it lists words that refer back.
    pub(crate) lists_back_references: bool,
}

/// A language's code, script, stemmer and file.
type LanguageSource = (&'static str, Script, Option<fn() -> Stemmer>, &'static str);

/// Creates a stemmer. There is one function per language: choosing at run time would link the stemmers of all
/// languages in the library, half a megabyte of tables.
macro_rules! stem {
    ($algorithm:ident) => {
        Some(|| Stemmer::create(Algorithm::$algorithm))
    };
}

/// Maximum number of languages.
pub(crate) const LANGUAGES_MAX: usize = 32;

const _: () = assert!(LANGUAGE_SOURCES.len() <= LANGUAGES_MAX);

const LANGUAGE_SOURCES: [LanguageSource; 10] = [
    ("en", Script::Latin, stem!(English), include_str!("../../lexicon/en.txt")),
    ("de", Script::Latin, stem!(German), include_str!("../../lexicon/de.txt")),
    ("fr", Script::Latin, stem!(French), include_str!("../../lexicon/fr.txt")),
    ("es", Script::Latin, stem!(Spanish), include_str!("../../lexicon/es.txt")),
    ("pt", Script::Latin, stem!(Portuguese), include_str!("../../lexicon/pt.txt")),
    ("it", Script::Latin, stem!(Italian), include_str!("../../lexicon/it.txt")),
    ("nl", Script::Latin, stem!(Dutch), include_str!("../../lexicon/nl.txt")),
    ("ru", Script::Cyrillic, stem!(Russian), include_str!("../../lexicon/ru.txt")),
    ("zh", Script::Unspaced, None, include_str!("../../lexicon/zh.txt")),
    ("ja", Script::Unspaced, None, include_str!("../../lexicon/ja.txt")),
];

static LANGUAGES: LazyLock<Vec<Language>> =
    LazyLock::new(|| LANGUAGE_SOURCES.into_iter().map(Language::parse).collect());

/// Returns all languages, English first.
pub(crate) fn languages() -> &'static [Language] {
    &LANGUAGES
}

/// Bit sets of the languages that know a word, and above those, of the languages with a phrase that begins with it.
static LANGUAGES_BY_WORD: LazyLock<HashMap<&'static str, u64>> = LazyLock::new(|| {
    let mut languages_of: HashMap<&str, u64> = HashMap::default();
    for (index, language) in languages().iter().enumerate() {
        for words in language.entries.keys() {
            let (word, shift) = match words.split_once(' ') {
                Some((first, _)) => (first, index + LANGUAGES_MAX),
                None => (words.as_str(), index),
            };
            *languages_of.entry(word).or_default() |= 1 << shift;
        }
    }
    languages_of
});

/// Returns the languages that know a word: a bit for each by its index in [`languages`]. Shifted by
/// [`LANGUAGES_MAX`], a second set of bits marks the languages with a phrase that begins with it.
pub(crate) fn languages_with(word: &str) -> u64 {
    LANGUAGES_BY_WORD.get(word).copied().unwrap_or_default()
}

impl Language {
    fn parse((code, script, stemmer, text): LanguageSource) -> Self {
        let stemmer = stemmer.map(|make| make());
        let mut language = Self {
            script,
            code,
            text,
            stemmer,
            entries: HashMap::default(),
            by_stem: HashMap::default(),
            letters: "",
            longest_phrase: 1,
            lists_back_references: false,
        };
        for line in text.lines().filter(|line| !line.starts_with(['#', '@'])) {
            let Some((name, words)) = line.split_once(':') else { continue };
            match name {
                "letters" => language.letters = words.trim(),
                "weekdays" => language.add_values(words, LexiconValue::Weekday),
                "months" => language.add_values(words, LexiconValue::Month),
                "numbers" => language.add_values(words, LexiconValue::Number),
                "same" => {
                    for word in words.split_whitespace() {
                        let Some((form, of)) = word.split_once('=') else { continue };
                        language.entry_mut(form).canonical = Some(normalize(of));
                    }
                }
                _ => language.add_class(name, words),
            }
        }
        language
    }

    fn add_class(&mut self, name: &str, words: &str) {
        let stemmed = name.strip_prefix('~');
        let class: Class =
            stemmed.unwrap_or(name).parse().expect("every class in the lexicon is a known one");
        self.lists_back_references |= class == Class::Back;
        for word in words.split_whitespace() {
            let entry = self.entry_mut(word);
            entry.classes = entry.classes.with(ClassSet::single(class));
            if stemmed.is_some() && !word.contains('_') {
                let stem = self.stem(&normalize(word));
                let classes = self.by_stem.entry(stem).or_default();
                *classes = classes.with(ClassSet::single(class));
            }
        }
    }

    fn add_values(&mut self, words: &str, value: impl Fn(i8) -> LexiconValue) {
        for (number, spellings) in (1..).zip(words.split_whitespace()) {
            for spelling in spellings.split('/').filter(|word| *word != "-") {
                self.entry_mut(spelling).value = Some(value(number));
            }
        }
    }

    fn entry_mut(&mut self, word: &str) -> &mut LexiconEntry {
        let (key, length) = if self.script == Script::Unspaced {
            let key = normalize(&word.replace('_', ""));
            let length = key.chars().count();
            (key, length)
        } else {
            let words = split_words(&normalize(&word.replace('_', " ")));
            (words.join(" "), words.len())
        };
        self.longest_phrase = self.longest_phrase.max(length);
        self.entries.entry(key).or_default()
    }

    /// Returns the entry of a word, or of words joined with spaces.
    pub(crate) fn lookup(&self, words: &str) -> Option<&LexiconEntry> {
        self.entries.get(words)
    }

    /// Returns the classes of all words with a stem.
    pub(crate) fn classes_of_stem(&self, stem: &str) -> ClassSet {
        self.by_stem.get(stem).copied().unwrap_or_default()
    }

    /// Returns the stem of a normalized word.
    pub(crate) fn stem(&self, word: &str) -> String {
        let Some(stemmer) = &self.stemmer else { return word.to_owned() };
        let stem = normalize(&stemmer.stem(word));
        // `wohnt` and `wohne` are the same verb, but the stemmer keeps the ending of the third person.
        match stem.strip_suffix("et").or_else(|| stem.strip_suffix('t')) {
            Some(verb) if self.code == "de" && verb.chars().count() >= 4 => verb.to_owned(),
            Some(_) | None => stem,
        }
    }
}
