//! Which language a text is read in.
//!
//! Told by the small words that a language knows and by its letters, script by script. A few words may
//! be of several languages: then what stands around them decides.

use super::lexicon::{LANGUAGES_MAX, Script, languages, languages_with};

/// How many words of a text each language takes for its own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LanguageScores {
    words: [u16; LANGUAGES_MAX],
    /// Whether it has letters that only Japanese has.
    is_japanese: bool,
}

impl LanguageScores {
    /// Counts a word: as it stands in the text, and made plain.
    pub(crate) fn add_word(&mut self, source: &str, plain: &str) {
        let who = languages_with(plain);
        let told_by_letters = !source.is_ascii();
        let source = if told_by_letters { source.to_lowercase() } else { String::new() };
        for (index, language) in languages().iter().enumerate() {
            let has_letter = told_by_letters && source.contains(|c| language.letters.contains(c));
            let count = u16::from(who >> index & 1 == 1) + u16::from(has_letter);
            self.words[index] = self.words[index].saturating_add(count);
        }
    }

    /// Returns the languages whose words are parted by spaces that know the most words, and at least so many. Of those that
    /// know nearly as many, they are the ones that know the most of the text around; several, if they are equal.
    pub(crate) fn best_spaced(&self, around: &Self, least: usize) -> Vec<usize> {
        let spaced = languages().iter().enumerate();
        let spaced = spaced.filter(|(_, one)| one.script != Script::Unspaced).map(|(at, _)| at);
        let most = spaced.clone().map(|at| self.words[at]).max().unwrap_or_default();
        if usize::from(most) < least.max(1) {
            return Vec::new();
        }
        let score = |at: usize| u32::from(around.words[at]) + 2 * u32::from(self.words[at]);
        let near = spaced.filter(|at| self.words[*at] + 1 >= most && self.words[*at] > 0);
        let best = near.clone().map(score).max();
        near.filter(|at| Some(score(*at)) == best).collect()
    }

    /// Returns the language of a text without spaces.
    pub(crate) fn best_unspaced(&self, around: &Self) -> Option<usize> {
        let code = if self.is_japanese || around.is_japanese { "ja" } else { "zh" };
        languages().iter().position(|one| one.code == code)
    }

    /// Looks for letters that only Japanese has; Chinese shares the others with it.
    pub(crate) fn note_kana(&mut self, text: &str) {
        self.is_japanese |= text.chars().any(|c| matches!(c, '\u{3041}'..='\u{30FF}'));
    }
}

/// The language of a text for each script, by its place among all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DetectedLanguages([Option<u8>; Script::COUNT]);

impl DetectedLanguages {
    /// The languages that take the most words for their own; of several that do, the first.
    pub(crate) fn detect(text: &LanguageScores) -> Self {
        let mut chosen = Self::default();
        let score = |index: usize| text.words[index];
        for (index, language) in languages().iter().enumerate() {
            let best = &mut chosen.0[language.script as usize];
            let is_better = match language.script {
                Script::Unspaced => (language.code == "ja") == text.is_japanese,
                _ => best.is_none_or(|best| score(index) > score(usize::from(best))),
            };
            if is_better {
                *best = u8::try_from(index).ok();
            }
        }
        chosen
    }

    /// The language of a word; numbers and signs are read in the language of the Latin words around them.
    pub(crate) fn for_script(self, script: Script) -> Option<usize> {
        let script = if script == Script::Other { Script::Latin } else { script };
        self.0[script as usize].map(usize::from)
    }
}
