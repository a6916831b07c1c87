//! Classifies how a prompt is worded: as a question about this project, or as one of general knowledge or a writing
//! task.
//!
//! A linear classifier over the words of a prompt and its pairs of adjacent words. `scripts/learn` learned the
//! weights from prompts that were written for this purpose, in pairs of one topic. It knows only English wording;
//! words in other scripts have no weight.

use std::iter;
use std::sync::LazyLock;

/// Names of the classifier's features.
pub(crate) const PROMPT_CLASSES: [&str; PROMPT_CLASS_LEN] = ["worded as of here", "words"];
pub(crate) const PROMPT_CLASS_LEN: usize = 2;

/// Maximum number of words and marks that are read; later ones say little about the intent.
const WORDING_WORDS_MAX: usize = 60;
/// Markers before the first word and after the last.
const BEGIN: &str = "^";
const END: &str = "$";
/// Marks that count as words.
const MARKS: &str = "?`{}()<>=:;\n";
/// Token for any number.
const NUMBER: &str = "0";

#[cfg(feature = "embedder")]
static BYTES: &[u8] = include_bytes!("../data/wordings.qwt");
#[cfg(not(feature = "embedder"))]
static BYTES: &[u8] = &[];

static WEIGHTS: LazyLock<Option<ClassifierWeights<'static>>> =
    LazyLock::new(|| ClassifierWeights::parse(BYTES));

/// Weights of words and pairs of words.
#[derive(Debug)]
struct ClassifierWeights<'a> {
    /// Value of one step of a weight.
    step: f32,
    /// Hashes of words and pairs with a weight, ascending.
    hashes: &'a [[u8; 4]],
    /// Weights in steps, from -127 to 127, in the same order.
    steps: &'a [u8],
}

impl<'a> ClassifierWeights<'a> {
    /// Parses the weights; `None` if the bytes are not valid.
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(b"QWT1")?;
        let (count, rest) = rest.split_first_chunk::<4>()?;
        let (step, rest) = rest.split_first_chunk::<4>()?;
        let count = usize::try_from(u32::from_le_bytes(*count)).ok()?;
        let (hashes, steps) = rest.split_at_checked(count.checked_mul(4)?)?;
        let hashes = hashes.as_chunks::<4>().0;
        (steps.len() == count).then_some(Self { step: f32::from_le_bytes(*step), hashes, steps })
    }

    fn weight(&self, hash: u32) -> f32 {
        let index = self.hashes.binary_search_by_key(&hash, |other| u32::from_le_bytes(*other));
        index.map_or(0.0, |index| f32::from(self.steps[index].cast_signed()) * self.step)
    }
}

/// Returns the features in the order of [`PROMPT_CLASSES`]: how strongly the prompt is worded as one about this
/// project, and the logarithm of its word count. Both are 0 for a prompt without a word.
pub(crate) fn classify_prompt(prompt: &str) -> [f32; PROMPT_CLASS_LEN] {
    let words = words(prompt);
    let Some(weights) = WEIGHTS.as_ref().filter(|_| !words.is_empty()) else {
        return [0.0; PROMPT_CLASS_LEN];
    };
    let bounded: Vec<&str> =
        iter::once(BEGIN).chain(words.iter().map(String::as_str)).chain([END]).collect();
    let pairs = bounded.windows(2).map(hash);
    let mut all: Vec<u32> = words.iter().map(|word| hash(&[word])).chain(pairs).collect();
    all.sort_unstable();
    all.dedup();
    let sum: f32 = all.iter().map(|hash| weights.weight(*hash)).sum();
    [sum / (all.len() as f32).sqrt(), (words.len() as f32).ln_1p()]
}

/// Returns the words and marks of a prompt, in lower case.
fn words(prompt: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = prompt.trim().chars().map(ascii_mark).peekable();
    while words.len() < WORDING_WORDS_MAX {
        let Some(first) = rest.next() else { break };
        let mut word = String::from(first.to_ascii_lowercase());
        if first.is_ascii_alphabetic() {
            while let Some(next) = rest.next_if(|next| next.is_ascii_alphabetic() || *next == '\'')
            {
                word.push(next.to_ascii_lowercase());
            }
            word.truncate(word.trim_end_matches('\'').len());
        } else if first.is_ascii_digit() {
            while rest.next_if(char::is_ascii_digit).is_some() {}
            word.replace_range(.., NUMBER);
        } else if !MARKS.contains(first) {
            continue;
        }
        words.push(word);
    }
    words
}

/// Replaces a typographic mark with the ASCII one.
fn ascii_mark(mark: char) -> char {
    match mark {
        '’' => '\'',
        '？' => '?',
        other => other,
    }
}

/// Returns the FNV-1a hash, 32 bits, of words joined by spaces.
fn hash(words: &[&str]) -> u32 {
    let bytes = words.iter().enumerate().flat_map(|(index, word)| {
        let space = if index > 0 { " " } else { "" };
        space.bytes().chain(word.bytes())
    });
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_numbers_and_some_marks_are_tokens() {
        let check =
            |prompt: &str, expected: &[&str]| assert_eq!(words(prompt), expected, "{prompt}");
        check("Don’t ship v2.10, please!\n", &["don't", "ship", "v", "0", "0", "please"]);
        check("run 'make' in `dist/`？", &["run", "make", "in", "`", "dist", "`", "?"]);
        check("岸壁はどこ", &[]);
        check(&"tide ".repeat(500), &["tide"; WORDING_WORDS_MAX]);
    }

    #[test]
    fn invalid_weights_are_refused() {
        let known = hash(&["pier", "closes"]);
        let mut bytes = b"QWT1\x01\0\0\0".to_vec();
        bytes.extend(0.5_f32.to_le_bytes());
        bytes.extend(known.to_le_bytes());
        assert!(ClassifierWeights::parse(&bytes).is_none());
        bytes.push(253);
        let weights = ClassifierWeights::parse(&bytes).unwrap();
        assert!((weights.weight(known) + 1.5).abs() < 1e-6);
        assert!(weights.weight(known + 1) == 0.0);
        bytes.push(1);
        assert!(ClassifierWeights::parse(&bytes).is_none());
        assert!(ClassifierWeights::parse(b"QWT1\xff\xff\xff\xff\0\0\0\0").is_none());
        assert!(ClassifierWeights::parse(b"").is_none());
    }

    #[test]
    fn a_prompt_without_words_has_no_features() {
        assert!(classify_prompt("海 …").iter().all(|feature| *feature == 0.0));
    }

    #[cfg(feature = "embedder")]
    #[test]
    fn a_prompt_about_the_project_scores_higher_than_a_general_one() {
        let hashes = WEIGHTS.as_ref().unwrap().hashes;
        assert!(hashes.is_sorted_by(|a, b| u32::from_le_bytes(*a) < u32::from_le_bytes(*b)));
        let score = |prompt: &str| classify_prompt(prompt)[0];
        for (local, general) in [
            ("who looks after the lighthouse importer", "who invented the lighthouse"),
            (
                "which port does the pier gateway listen on",
                "which port does SSH listen on by default?",
            ),
            (
                "Move the ferry job to the usual night slot.",
                "Write a function that sorts ferries by name.",
            ),
            ("why was the tide table dropped", "explain how tides work in general"),
        ] {
            assert!(
                score(local) > score(general),
                "{local}: {}, {general}: {}",
                score(local),
                score(general)
            );
        }
    }
}
