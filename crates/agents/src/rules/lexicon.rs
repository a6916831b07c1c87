//! The words that carry the rules, language by language.
//!
//! A language is a file in `lexicon/`: lines of `class: word word two_words`. The classes are those of
//! a grammar (articles, negation, first person, units of time) and a few general ones (words for
//! places where things are kept). Nothing in there is about a subject. A class that begins with
//! `~` is matched by word stem as well. A line that begins with `@` holds phrases for review (`signals.rs`). Words only classify; what may be removed does not depend on them. A language
//! without a file works by the words alone.

use std::collections::HashMap;
use std::sync::LazyLock;

use snowball_stemmers_rs::{Algorithm, Stemmer};

use super::tokenize::{normalize, split_words};

/// What a word does in a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
#[repr(u8)]
pub(crate) enum Class {
    /// Carries no meaning of its own.
    Function,
    /// Belongs to the request and not to what is asked about.
    Asking,
    /// Asks to forget.
    Forget,
    /// Asks not to forget, as one word.
    Keep,
    Not,
    /// The first person singular.
    #[strum(serialize = "self")]
    Oneself,
    /// The first person plural.
    Us,
    /// The second person.
    You,
    /// What only an agent does: answers and their form.
    Agent,
    /// A repository or project.
    Site,
    /// Points at the site that is meant.
    This,
    /// Says by itself that this project is meant.
    Here,
    /// Makes a sentence a rule.
    Rule,
    /// The person, as an agent calls them.
    User,
    Prefer,
    /// Adds nothing to the words around it.
    Light,
    /// Says that something is otherwise than it was.
    Change,
    /// Says that something is no longer so.
    Gone,
    /// Sets one thing against another.
    Contrast,
    Except,
    /// A kind of memory: a liking.
    Taste,
    /// A kind of memory: a rule.
    Rules,
    /// A kind of memory: a link.
    Links,
    /// Where knowledge is kept.
    Place,
    /// Says that something is in its place.
    Located,
    At,
    Until,
    Ends,
    Since,
    /// Names who does it, in the passive.
    By,
    /// Less than.
    #[strum(serialize = "lt")]
    Less,
    /// More than.
    #[strum(serialize = "gt")]
    More,
    And,
    /// What an announced list counts.
    Thing,
    Today,
    Tomorrow,
    Yesterday,
    Overmorrow,
    Ereyesterday,
    Next,
    Last,
    Current,
    /// Belongs to what follows: `of this project`.
    Within,
    /// Says that something holds in all projects.
    Everywhere,
    /// Says that knowledge is put somewhere.
    Recorded,
    /// Says no more than that somebody is kind.
    Polite,
    /// In so much time, in front of it.
    In,
    /// So long ago, behind it.
    Ago,
    /// So long ago, in front of it.
    #[strum(serialize = "agopre")]
    AgoBefore,
    /// In so much time, behind it.
    Later,
    Day,
    Week,
    Fortnight,
    Month,
    Year,
    /// May stand between the words of a date.
    Glue,
    /// Begins what is to be remembered.
    Lead,
    /// A sentence that begins so belongs to the one before.
    Opener,
    /// Points back at what was named before, wherever it stands.
    Back,
    /// Speaks of health, family, money or an address.
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

/// What a word counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LexiconValue {
    /// A day of the week, Monday is 1.
    Weekday(i8),
    /// A month, January is 1.
    Month(i8),
    Number(i8),
}

/// What a language knows of a word or of a run of words.
#[derive(Clone, Debug, Default)]
pub(crate) struct LexiconEntry {
    pub(crate) classes: ClassSet,
    pub(crate) value: Option<LexiconValue>,
    /// The word that it stands for.
    pub(crate) canonical: Option<String>,
}

/// The script of a language, as far as it matters for cutting text into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Script {
    Latin,
    Cyrillic,
    /// Chinese and Japanese: no spaces between words.
    Unspaced,
    /// A script of which no language is in the lexicon.
    Unsupported,
    /// Numbers and signs, which belong to the words around them.
    Other,
}

impl Script {
    /// How many there are.
    pub(crate) const COUNT: usize = Self::Other as usize + 1;
}

/// One language.
pub(crate) struct Language {
    pub(crate) script: Script,
    pub(crate) code: &'static str,
    /// Its file.
    pub(crate) text: &'static str,
    stemmer: Option<Stemmer>,
    /// By the words, joined by a space; one word mostly.
    entries: HashMap<String, LexiconEntry>,
    by_stem: HashMap<String, ClassSet>,
    /// The letters that it has beside those that all languages of its script have.
    pub(crate) letters: &'static str,
    /// The longest run of words, or of characters where there are no spaces.
    pub(crate) longest_phrase: usize,
    /// Whether it lists the words that point back.
    pub(crate) lists_back_references: bool,
}

/// A language's code, script, stemmer and file.
type LanguageSource = (&'static str, Script, Option<fn() -> Stemmer>, &'static str);

/// Makes a stemmer. One function for each, since what chooses at run time puts every language that the
/// library knows into the program, half a megabyte of tables.
macro_rules! stem {
    ($algorithm:ident) => {
        Some(|| Stemmer::create(Algorithm::$algorithm))
    };
}

/// How many languages there are at the most.
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

/// Returns every language, English first.
pub(crate) fn languages() -> &'static [Language] {
    &LANGUAGES
}

/// Which languages know a word, and above those, in which one a run of several words begins with it: a bit
/// each.
static LANGUAGES_BY_WORD: LazyLock<HashMap<&'static str, u64>> = LazyLock::new(|| {
    let mut who: HashMap<&str, u64> = HashMap::default();
    for (index, language) in languages().iter().enumerate() {
        for words in language.entries.keys() {
            let (word, shift) = match words.split_once(' ') {
                Some((first, _)) => (first, index + LANGUAGES_MAX),
                None => (words.as_str(), index),
            };
            *who.entry(word).or_default() |= 1 << shift;
        }
    }
    who
});

/// Returns which languages know a word: the bit of each by its place in [`languages`]; and, so many bits
/// further up as there may be languages, in which one a run of words begins with it.
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
        let class: Class = stemmed.unwrap_or(name).parse().expect("the lexicon names classes");
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

    /// Returns what is known of a word, or of words joined by a space.
    pub(crate) fn lookup(&self, words: &str) -> Option<&LexiconEntry> {
        self.entries.get(words)
    }

    /// Returns the classes of everything with this stem.
    pub(crate) fn classes_of_stem(&self, stem: &str) -> ClassSet {
        self.by_stem.get(stem).copied().unwrap_or_default()
    }

    /// Returns a plain word without its ending.
    pub(crate) fn stem(&self, word: &str) -> String {
        let Some(stemmer) = &self.stemmer else { return word.to_owned() };
        let stem = normalize(&stemmer.stem(word));
        // `wohnt` and `wohne` are one verb; the algorithm leaves the ending of the third person.
        match stem.strip_suffix("et").or_else(|| stem.strip_suffix('t')) {
            Some(verb) if self.code == "de" && verb.chars().count() >= 4 => verb.to_owned(),
            Some(_) | None => stem,
        }
    }
}
