//! How a prompt is worded: as something that only those who work here can know, or as something that anybody may
//! look up or write.
//!
//! A linear classifier tells it from the words of a prompt and from each two that follow one another. What each
//! of them weighs was learnt by `scripts/learn` from prompts that were written for it, in pairs of one topic. It
//! is told of English wording alone; words that are written in other scripts weigh nothing.

use std::iter;
use std::sync::LazyLock;

/// Names of what is told of a prompt's wording.
pub(crate) const PROMPT_CLASSES: [&str; PROMPT_CLASS_LEN] = ["worded as of here", "words"];
pub(crate) const PROMPT_CLASS_LEN: usize = 2;

/// As many words and marks of a prompt are read; what follows says no more of how it is meant.
const WORDING_WORDS_MAX: usize = 60;
/// What stands before the first word and after the last.
const BEGIN: &str = "^";
const END: &str = "$";
/// Marks that count as words.
const MARKS: &str = "?`{}()<>=:;\n";
/// What any number counts as.
const NUMBER: &str = "0";

#[cfg(feature = "embedder")]
static BYTES: &[u8] = include_bytes!("../data/wordings.qwt");
#[cfg(not(feature = "embedder"))]
static BYTES: &[u8] = &[];

static WEIGHTS: LazyLock<Option<ClassifierWeights<'static>>> =
    LazyLock::new(|| ClassifierWeights::parse(BYTES));

/// What words and pairs of words weigh.
#[derive(Debug)]
struct ClassifierWeights<'a> {
    /// What one step of a weight is worth.
    step: f32,
    /// The hashes of what has a weight, ascending.
    hashes: &'a [[u8; 4]],
    /// In steps, from -127 to 127, in the same order.
    steps: &'a [u8],
}

impl<'a> ClassifierWeights<'a> {
    /// Reads weights; `None` if these bytes are none.
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
        let found = self.hashes.binary_search_by_key(&hash, |other| u32::from_le_bytes(*other));
        found.map_or(0.0, |at| f32::from(self.steps[at].cast_signed()) * self.step)
    }
}

/// Returns how a prompt is worded, in the order of [`PROMPT_CLASSES`]: how much speaks for its asking something of here, and
/// the logarithm of how many words it has. A prompt without a word that is known says neither.
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

/// Returns the words and marks that a prompt is worded in, in small letters.
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

/// A mark as it is on every keyboard.
fn ascii_mark(mark: char) -> char {
    match mark {
        '’' => '\'',
        '？' => '?',
        other => other,
    }
}

/// The hash of words with a space between them: FNV-1a of 32 bits.
fn hash(words: &[&str]) -> u32 {
    let bytes = words.iter().enumerate().flat_map(|(at, word)| {
        let space = if at > 0 { " " } else { "" };
        space.bytes().chain(word.bytes())
    });
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_numbers_and_some_marks_are_read() {
        let check =
            |prompt: &str, expected: &[&str]| assert_eq!(words(prompt), expected, "{prompt}");
        check("Don’t ship v2.10, please!\n", &["don't", "ship", "v", "0", "0", "please"]);
        check("run 'make' in `dist/`？", &["run", "make", "in", "`", "dist", "`", "?"]);
        check("岸壁はどこ", &[]);
        check(&"tide ".repeat(500), &["tide"; WORDING_WORDS_MAX]);
    }

    #[test]
    fn weights_are_read_or_refused() {
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
    fn what_has_no_word_says_nothing() {
        assert!(classify_prompt("海 …").iter().all(|told| *told == 0.0));
    }

    #[cfg(feature = "embedder")]
    #[test]
    fn what_is_of_here_is_told_from_what_anybody_may_ask() {
        let hashes = WEIGHTS.as_ref().unwrap().hashes;
        assert!(hashes.is_sorted_by(|a, b| u32::from_le_bytes(*a) < u32::from_le_bytes(*b)));
        let of = |prompt: &str| classify_prompt(prompt)[0];
        for (here, general) in [
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
            assert!(of(here) > of(general), "{here}: {}, {general}: {}", of(here), of(general));
        }
    }
}
