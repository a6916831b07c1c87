//! Detects the languages of a text, one per script.
//!
//! Each language scores by its common words and its special letters. Words that several languages share are decided
//! by the text around them.

use super::lexicon::{LANGUAGES_MAX, Script, languages, languages_with};

/// Number of words of a text that belong to each language.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LanguageScores {
    words: [u16; LANGUAGES_MAX],
    /// Whether the text has kana, which only Japanese uses.
    is_japanese: bool,
}

impl LanguageScores {
    /// Counts a word, in its original and its normalized form.
    pub(crate) fn add_word(&mut self, source: &str, normalized: &str) {
        let with_word = languages_with(normalized);
        let has_letters = !source.is_ascii();
        let source = if has_letters { source.to_lowercase() } else { String::new() };
        for (index, language) in languages().iter().enumerate() {
            let has_letter = has_letters && source.contains(|c| language.letters.contains(c));
            let count = u16::from(with_word >> index & 1 == 1) + u16::from(has_letter);
            self.words[index] = self.words[index].saturating_add(count);
        }
    }

    /// Returns the languages with spaces between words that score best, with at least `least` words. Among
    /// languages with nearly the same score the text `around` decides; equal ones are all returned.
    pub(crate) fn best_spaced(&self, around: &Self, least: usize) -> Vec<usize> {
        let spaced = languages().iter().enumerate();
        let spaced = spaced
            .filter(|(_, language)| language.script != Script::Unspaced)
            .map(|(index, _)| index);
        let most = spaced.clone().map(|index| self.words[index]).max().unwrap_or_default();
        if usize::from(most) < least.max(1) {
            return Vec::new();
        }
        let score =
            |index: usize| u32::from(around.words[index]) + 2 * u32::from(self.words[index]);
        let near = spaced.filter(|index| self.words[*index] + 1 >= most && self.words[*index] > 0);
        let best = near.clone().map(score).max();
        near.filter(|index| Some(score(*index)) == best).collect()
    }

    /// Returns the language of a text without spaces.
    pub(crate) fn best_unspaced(&self, around: &Self) -> Option<usize> {
        let code = if self.is_japanese || around.is_japanese { "ja" } else { "zh" };
        languages().iter().position(|language| language.code == code)
    }

    /// Notes whether a text has kana; the other characters of Japanese are shared with Chinese.
    pub(crate) fn note_kana(&mut self, text: &str) {
        self.is_japanese |= text.chars().any(|c| matches!(c, '\u{3041}'..='\u{30FF}'));
    }
}

/// Language of a text for each script, by its index among all languages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DetectedLanguages([Option<u8>; Script::COUNT]);

impl DetectedLanguages {
    /// Returns the highest scoring language of each script; the first of equal ones.
    pub(crate) fn detect(text: &LanguageScores) -> Self {
        let mut detected = Self::default();
        let score = |index: usize| text.words[index];
        for (index, language) in languages().iter().enumerate() {
            let best = &mut detected.0[language.script as usize];
            let is_better = match language.script {
                Script::Unspaced => (language.code == "ja") == text.is_japanese,
                _ => best.is_none_or(|best| score(index) > score(usize::from(best))),
            };
            if is_better {
                *best = u8::try_from(index).ok();
            }
        }
        detected
    }

    /// Returns the language of a script. Numbers and signs have the language of the Latin words.
    pub(crate) fn for_script(self, script: Script) -> Option<usize> {
        let script = if script == Script::Other { Script::Latin } else { script };
        self.0[script as usize].map(usize::from)
    }
}
