//! Measures the speed of recall: ranking, loading a stored corpus and rebuilding a corpus.
//!
//! The memories are generated from a fixed seed, so all runs rank the same texts.

use std::time::Duration;

use anyhow::Context as _;
use memory::path::{Layout, MemoryPath};
use memory::screen::Screen;
use recall::{Corpus, RankOptions, Threshold};

use crate::args::BenchConfig;
use crate::measure::{Times, run_alternating};
use crate::report::{ReportLine, ReportTarget, Section};

/// Memories of the small corpus, and entries of each.
const SMALL: (usize, usize) = (1_000, 4);
/// The same of the corpus that is rebuilt.
const MIDDLE: (usize, usize) = (10_000, 4);
/// Loads of a stored corpus in a pass.
const LOADS: usize = 10;
/// The same of the large corpus.
const LARGE: (usize, usize) = (20_000, 5);
const ENTRY_WORDS: usize = 12;
const PROMPTS: usize = 200;
/// Number of different words in the texts.
const WORDS: usize = 6_000;

const BY_WORDS: RankOptions =
    RankOptions { limit: 5, threshold: Threshold::Strict, use_vectors: false };
const BY_VECTORS: RankOptions =
    RankOptions { limit: 5, threshold: Threshold::Strict, use_vectors: true };

/// Measures ranking, loading and rebuilding.
pub(super) fn measure(bench: &BenchConfig) -> anyhow::Result<Section> {
    let mut texts = TextGenerator::new();
    let (small, small_text) = corpus(&texts.memories(SMALL)?);
    let middle = texts.memories(MIDDLE)?;
    let (large, large_text) = corpus(&texts.memories(LARGE)?);
    let pack = |corpus: &Corpus| corpus.pack(b"").context("the corpus is too large to be stored");
    let (stored_small, stored_large) = (pack(&small)?, pack(&large)?);
    let prompts: Vec<String> = (0..PROMPTS).map(|number| texts.prompt(number)).collect();
    let ask = |corpus: &Corpus, options: &RankOptions, times: &mut Times| {
        for prompt in &prompts {
            drop(times.time(|| corpus.rank(prompt, options)));
        }
        Ok(())
    };
    let load = |bytes: &[u8], times: &mut Times| {
        for _ in 0..LOADS {
            let read = times.time(|| Corpus::unpack(Screen::default(), bytes));
            read.context("the stored corpus cannot be read")?;
        }
        Ok(())
    };
    let [words, vectors, large_words, large_vectors, loaded, built] = run_alternating(
        bench.passes,
        [
            &mut |times: &mut Times| ask(&small, &BY_WORDS, times),
            &mut |times: &mut Times| ask(&small, &BY_VECTORS, times),
            &mut |times: &mut Times| ask(&large, &BY_WORDS, times),
            &mut |times: &mut Times| ask(&large, &BY_VECTORS, times),
            &mut |times: &mut Times| load(&stored_small, times),
            &mut |times: &mut Times| {
                drop(times.time(|| corpus(&middle)));
                Ok(())
            },
        ],
    )?;
    let p50 = |micros| ReportTarget::P50(Duration::from_micros(micros));
    let tail = ReportLine::calls("1,000 memories, by words, the slowest", &words);
    let lines = vec![
        ReportLine::calls("1,000 memories, by words", &words).target(p50(50)),
        tail.target(ReportTarget::P99(Duration::from_millis(1))),
        ReportLine::calls("1,000 memories, by words and vectors", &vectors).target(p50(300)),
        ReportLine::calls("100,000 entries, by words", &large_words).target(p50(1_000)),
        ReportLine::calls("100,000 entries, by words and vectors", &large_vectors)
            .target(p50(1_000)),
        ReportLine::calls("1,000 memories, corpus loaded from disk", &loaded).target(p50(5_000)),
        ReportLine::calls("10,000 memories, corpus rebuilt", &built).target(p50(1_000_000)),
        size_line("1,000 memories, size of the stored corpus", &stored_small, small_text),
        size_line("100,000 entries, size of the stored corpus", &stored_large, large_text),
    ];
    let method = format!(
        "{} memories of {} entries, and {} of {}, of {ENTRY_WORDS} words each, from {WORDS} English words with a few frequent ones; \
         {PROMPTS} prompts of 3 to 9 words a pass, {} passes. Words similar to a word are cached, \
         so the first pass takes longer and does not count.",
        SMALL.0, SMALL.1, LARGE.0, LARGE.1, bench.passes
    );
    Ok(Section { title: "Recall, speed", method, lines })
}

/// Returns a row of the size of a stored corpus, relative to the size of its texts.
fn size_line(what: &str, stored: &[u8], text: usize) -> ReportLine {
    let number = |bytes: usize| u32::try_from(bytes).map_or(f64::MAX, f64::from);
    let line = ReportLine::bytes(what, stored.len() as u64);
    let line = line.ratio("the text", number(stored.len()) / number(text.max(1)));
    line.target(ReportTarget::Ratio(1.0))
}

/// Builds a corpus; returns it and the number of bytes of its texts.
fn corpus(memories: &[(MemoryPath, String)]) -> (Corpus, usize) {
    let mut corpus = Corpus::new(Screen::default());
    for (path, text) in memories {
        corpus.put(path, text, None);
    }
    (corpus, memories.iter().map(|(_, text)| text.len()).sum())
}

/// A generator of pseudorandom texts, the same in each run.
struct TextGenerator {
    words: Vec<String>,
    state: u64,
}

impl TextGenerator {
    fn new() -> Self {
        // The table begins with numbers; its words follow, one a line.
        let table =
            String::from_utf8_lossy(include_bytes!("../../../crates/recall/data/tokens.qtv"));
        let is_word =
            |line: &&str| line.len() > 3 && line.bytes().all(|byte| byte.is_ascii_lowercase());
        let words: Vec<String> = table.lines().filter(is_word).map(str::to_owned).collect();
        // A stride that shares no divisor with the count takes the words out of alphabetical order.
        let shuffled = (0..WORDS).map(|number| words[number * 7_919 % words.len()].clone());
        Self { words: shuffled.collect(), state: 7 }
    }

    /// Returns a number below `end`; small ones are much more frequent.
    fn below(&mut self, end: usize) -> usize {
        // Knuth's constants for a linear congruential generator.
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let chance = usize::try_from(self.state >> 44).unwrap_or(0);
        let most = 1 << 20;
        // The cube of a uniform number: the first eighth of the words makes half of the text.
        chance * chance / most * chance / most * end / most
    }

    fn words(&mut self, count: usize) -> String {
        let mut words = Vec::with_capacity(count);
        for _ in 0..count {
            words.push(self.below(WORDS));
        }
        words.into_iter().map(|index| self.words[index].as_str()).collect::<Vec<_>>().join(" ")
    }

    /// Returns memories with `entries` entries each.
    fn memories(
        &mut self,
        (memories, entries): (usize, usize),
    ) -> anyhow::Result<Vec<(MemoryPath, String)>> {
        let mut built = Vec::new();
        for number in 0..memories {
            let path = format!("/memories/project/topic-{}/note-{number}.md", number % 20);
            let head =
                format!("---\nname: {}\ndescription: {}\n---\n\n", self.words(2), self.words(5));
            let lines = (0..entries).map(|_| format!("- {}\n", self.words(ENTRY_WORDS)));
            let body: Vec<String> = lines.collect();
            built.push((MemoryPath::parse(&path, Layout::Scoped)?, head + &body.concat()));
        }
        Ok(built)
    }

    fn prompt(&mut self, number: usize) -> String {
        format!("what do we know about {}?", self.words(3 + number % 7))
    }
}
