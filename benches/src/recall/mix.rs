//! Measures recall on mixed sets: notes, long notes, lists of independent bullets, identifiers, near misses, other
//! languages.
//!
//! Each author's parts are in `benches/mix`. Weights may be learned from `ada`; `ben` is held out and only measured.
//! A prompt names the memories that help and a `needle`, the text in them that answers it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use memory::document;
use recall::{EntryHit, RankOptions};

use crate::recall::bm25::Bm25;
use crate::recall::indexed::{CachedEncoder, IndexedCorpus};
use crate::recall::memories::{
    FORCED, LENIENT, Prompt, PromptSet, STRICT, as_rate, corpus, features, paths,
};
use crate::recall::{Outputs, share};
use crate::report::ReportLine;

/// The folder of the mixed sets: a folder for each author, and in it one for each part.
const MIX: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/mix");

/// A hook shows at most three memories.
const HOOK: RankOptions = RankOptions { limit: 3, ..STRICT };

/// Counts over the prompts of one part.
#[derive(Debug, Default)]
struct PartCounts {
    answerable: f64,
    /// The first memory helps; the first five hold the helpful ones. Both if an answer is forced.
    first: f64,
    five: f64,
    /// The same by BM25 over whole memories.
    words_first: f64,
    words_five: f64,
    /// Helpful memories among those shown by the strict and by the lenient threshold.
    found: f64,
    found_leniently: f64,
    shown: f64,
    helping: f64,
    unanswerable: f64,
    silent: f64,
    silent_leniently: f64,
    /// Prompts with a needle whose memory is first, and those of them whose best entry has the needle.
    with_needle: f64,
    best_entry: f64,
    /// Prompts with a needle; whether the first of all entries has it, and the same by BM25.
    needles: f64,
    first_entry: f64,
    words_first_entry: f64,
}

impl PartCounts {
    fn add(
        &mut self,
        set: &PromptSet,
        all: &IndexedCorpus<'_>,
        words: &WordIndexes,
        prompt: &Prompt,
    ) {
        let strict = paths(all, prompt, &HOOK);
        let lenient = paths(all, prompt, &LENIENT);
        if prompt.relevant.is_empty() {
            self.unanswerable += 1.0;
            self.silent += as_rate(strict.is_empty());
            self.silent_leniently += as_rate(lenient.is_empty());
            return;
        }
        let helps = |path: &&String| prompt.relevant.contains(path);
        let within = |list: &[String]| share(list.iter().filter(helps).count(), &prompt.relevant);
        let is_first = |list: &[String]| as_rate(list.first().is_some_and(|path| helps(&path)));
        let always = paths(all, prompt, &FORCED);
        self.answerable += 1.0;
        self.first += is_first(&always);
        self.five += within(&always);
        let by_words = words.rank(&prompt.text);
        self.words_first += is_first(&by_words);
        self.words_five += within(by_words.get(..5).unwrap_or(&by_words));
        self.found += within(&strict);
        self.found_leniently += within(&lenient);
        self.shown += strict.iter().map(|_| 1.0).sum::<f64>();
        self.helping += strict.iter().filter(helps).map(|_| 1.0).sum::<f64>();
        self.add_entries(set, all, words, prompt);
    }

    /// Checks the best entries of all memories and of the first one.
    fn add_entries(
        &mut self,
        set: &PromptSet,
        all: &IndexedCorpus<'_>,
        words: &WordIndexes,
        prompt: &Prompt,
    ) {
        if prompt.needle.is_none() {
            return;
        }
        let hit_answers = |hit: &EntryHit| {
            let text = set.text_of(hit);
            text.is_some_and(|text| prompt.is_answered_by(&hit.path.to_string(), text))
        };
        let entries = all.rank_entries(&prompt.text, &FORCED);
        self.needles += 1.0;
        self.first_entry += as_rate(entries.first().is_some_and(hit_answers));
        let by_words = words.first_entry(&prompt.text);
        self.words_first_entry +=
            as_rate(by_words.is_some_and(|(path, text)| prompt.is_answered_by(path, text)));
        let first = all.rank(&prompt.text, &FORCED).into_iter().next();
        if let Some(first) = first.filter(|hit| prompt.relevant.contains(&hit.path.to_string())) {
            self.with_needle += 1.0;
            self.best_entry += as_rate(first.entries.first().is_some_and(hit_answers));
        }
    }

    /// Returns the rows of a part.
    fn lines(&self, of: &str) -> Vec<ReportLine> {
        let rows = [
            ("the first memory helps", self.first, self.answerable),
            ("the first memory helps, by BM25", self.words_first, self.answerable),
            ("recall@5 if an answer is forced", self.five, self.answerable),
            ("recall@5, by BM25", self.words_five, self.answerable),
            ("recall of at most three shown", self.found, self.answerable),
            ("share of the shown that help", self.helping, self.shown),
            ("recall for an explicit question", self.found_leniently, self.answerable),
            ("no answer: nothing shown", self.silent, self.unanswerable),
            (
                "no answer: nothing for an explicit question",
                self.silent_leniently,
                self.unanswerable,
            ),
            ("best entry of the first memory answers", self.best_entry, self.with_needle),
            ("first of all entries answers", self.first_entry, self.needles),
            ("first of all entries answers, by BM25", self.words_first_entry, self.needles),
        ];
        share_lines(of, &rows)
    }

    /// Returns the rows of one kind of prompts.
    fn short_lines(&self, of: &str) -> Vec<ReportLine> {
        let rows = [
            ("the first memory helps", self.first, self.answerable),
            ("recall of at most three shown", self.found, self.answerable),
            ("recall for an explicit question", self.found_leniently, self.answerable),
            ("no answer: nothing shown", self.silent, self.unanswerable),
            ("first of all entries answers", self.first_entry, self.needles),
        ];
        share_lines(of, &rows)
    }
}

/// Returns a row for each share; none for a share of nothing.
fn share_lines(of: &str, rows: &[(&str, f64, f64)]) -> Vec<ReportLine> {
    let rows = rows.iter().filter(|(.., of_all)| *of_all > 0.0);
    rows.map(|(name, part, all)| ReportLine::share(format!("{of}, {name}"), part / all)).collect()
}

/// The baseline over the memories of a set and over their entries.
struct WordIndexes {
    memories: (Vec<String>, Bm25),
    /// Each entry has the path of its memory and its text.
    entries: (Vec<(String, String)>, Bm25),
}

impl WordIndexes {
    fn new(set: &PromptSet) -> Self {
        let paths = set.memories.iter().map(|(path, _)| path.to_string()).collect();
        let memories = Bm25::new(set.memories.iter().map(|(_, text)| text.as_str()));
        let mut entries = Vec::new();
        for (path, text) in &set.memories {
            let own = document::entries(text).into_iter();
            entries.extend(own.map(|entry| (path.to_string(), entry.full_text(text).to_owned())));
        }
        let of_entries = Bm25::new(entries.iter().map(|(_, text)| text.as_str()));
        Self { memories: (paths, memories), entries: (entries, of_entries) }
    }

    /// Returns the paths of memories, the best first.
    fn rank(&self, prompt: &str) -> Vec<String> {
        let (paths, index) = &self.memories;
        index.rank(prompt).into_iter().map(|memory| paths[memory].clone()).collect()
    }

    /// Returns the path and the text of the best entry.
    fn first_entry(&self, prompt: &str) -> Option<&(String, String)> {
        let (entries, index) = &self.entries;
        entries.get(*index.rank(prompt).first()?)
    }
}

/// Ranks the prompts of all parts; each part is a corpus of its own.
pub(super) fn measure(
    encoder: Option<&CachedEncoder>,
    outputs: &mut Outputs,
) -> anyhow::Result<Vec<ReportLine>> {
    let mut lines = Vec::new();
    for author in folders(Path::new(MIX))? {
        for part in folders(&author)? {
            let name = |folder: &Path| {
                folder
                    .file_name()
                    .map(|name| name.to_string_lossy().into_owned())
                    .unwrap_or_default()
            };
            let name = format!("{}/{}", name(&author), name(&part));
            let set =
                PromptSet::read(&name, &part.join("memories.jsonl"), &part.join("prompts.jsonl"))?;
            lines.extend(measure_part(&set, encoder, outputs)?);
        }
    }
    Ok(lines)
}

fn measure_part(
    set: &PromptSet,
    encoder: Option<&CachedEncoder>,
    outputs: &mut Outputs,
) -> anyhow::Result<Vec<ReportLine>> {
    let all = corpus(&set.memories, encoder);
    let words = WordIndexes::new(set);
    let mut counts = PartCounts::default();
    let mut by_kind: BTreeMap<&str, PartCounts> = BTreeMap::new();
    for prompt in &set.prompts {
        counts.add(set, &all, &words, prompt);
        by_kind.entry(&prompt.kind).or_default().add(set, &all, &words, prompt);
        outputs.write(&features(set, prompt, &all, "whole"))?;
        if !prompt.relevant.is_empty() {
            let others = set.memories.iter().filter(|memory| !PromptSet::helps(memory, prompt));
            outputs.write(&features(set, prompt, &corpus(others, encoder), "removed"))?;
        }
    }
    let mut lines = counts.lines(&set.name);
    if by_kind.len() > 1 {
        for (kind, counts) in by_kind {
            lines.extend(counts.short_lines(&format!("{}, {kind}", set.name)));
        }
    }
    Ok(lines)
}

/// Returns the folders in a folder, sorted; none if it does not exist.
fn folders(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let mut folders: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    folders.retain(|path| path.is_dir());
    folders.sort();
    Ok(folders)
}
