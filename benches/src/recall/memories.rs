//! Measures recall on sets of memories and prompts; a prompt names the memories that help with it, or none.
//!
//! Each prompt is ranked in three situations: with the whole set, with few memories, and with several sets at once. In
//! the first two it is ranked again without the helpful memories, when recall should abstain.

use std::path::Path;

use memory::path::{Layout, MemoryPath};
use recall::{EntryHit, RankOptions, Ranking, Threshold};
use serde_json::{Value, json};

use crate::recall::indexed::{CachedEncoder, IndexedCorpus};
use crate::recall::{Outputs, read, share, text, texts};
use crate::report::{ReportLine, ReportTarget};

/// The folder of our own sets, each in a folder.
const SETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/sets");
/// Number of sets that are ranked together, to measure recall among many memories.
const TOGETHER: usize = 7;
/// Number of memories of a new user.
const FEW: usize = 6;

/// The options of a hook, of an explicit question, and without a threshold.
pub(super) const STRICT: RankOptions =
    RankOptions { limit: 5, threshold: Threshold::Strict, use_vectors: true };
pub(super) const LENIENT: RankOptions = RankOptions { threshold: Threshold::Lenient, ..STRICT };
pub(super) const FORCED: RankOptions = RankOptions { threshold: Threshold::None, ..STRICT };

/// Memories, with prompts for them.
pub(super) struct PromptSet {
    pub(super) name: String,
    pub(super) memories: Vec<(MemoryPath, String)>,
    pub(super) prompts: Vec<Prompt>,
}

pub(super) struct Prompt {
    pub(super) text: String,
    pub(super) kind: String,
    /// The memories that help with it.
    pub(super) relevant: Vec<String>,
    /// The memory that helps most.
    top: Option<String>,
    /// The part of a memory's text that answers it.
    pub(super) needle: Option<String>,
}

impl Prompt {
    /// Checks whether a text of a memory answers the prompt.
    pub(super) fn is_answered_by(&self, path: &str, text: &str) -> bool {
        let has_needle = self.needle.as_ref().is_some_and(|needle| text.contains(needle));
        has_needle && self.relevant.iter().any(|helpful| helpful == path)
    }
}

impl PromptSet {
    /// Reads a set from two files. External prompts have their text in `query` instead of `prompt`.
    pub(super) fn read(name: &str, memories: &Path, prompts: &Path) -> anyhow::Result<Self> {
        let memory = |memory: &Value| -> anyhow::Result<_> {
            let path = MemoryPath::parse(text(memory, "path")?, Layout::Scoped)?;
            Ok((path, text(memory, "text")?.to_owned()))
        };
        let prompt = |prompt: &Value| -> anyhow::Result<_> {
            Ok(Prompt {
                text: text(prompt, "prompt").or_else(|_| text(prompt, "query"))?.to_owned(),
                kind: text(prompt, "kind")?.to_owned(),
                relevant: texts(prompt, "relevant"),
                top: prompt["top"].as_str().map(str::to_owned),
                needle: prompt["needle"].as_str().map(str::to_owned),
            })
        };
        Ok(Self {
            name: name.to_owned(),
            memories: read(memories)?.iter().map(memory).collect::<anyhow::Result<_>>()?,
            prompts: read(prompts)?.iter().map(prompt).collect::<anyhow::Result<_>>()?,
        })
    }

    /// Returns the text of an entry.
    pub(super) fn text_of(&self, hit: &EntryHit) -> Option<&str> {
        let (_, text) = self.memories.iter().find(|(path, _)| *path == hit.path)?;
        text.get(hit.range.clone())
    }

    /// Returns whether a memory helps with a prompt.
    pub(super) fn helps((path, _): &(MemoryPath, String), prompt: &Prompt) -> bool {
        prompt.relevant.contains(&path.to_string())
    }
}

pub(super) fn corpus<'a, 'b>(
    memories: impl IntoIterator<Item = &'b (MemoryPath, String)>,
    encoder: Option<&'a CachedEncoder>,
) -> IndexedCorpus<'a> {
    let memories = memories.into_iter().map(|(path, text)| (path, text.as_str(), None));
    IndexedCorpus::new(memories, encoder)
}

/// Counts over the prompts of a set.
#[derive(Debug, Default)]
struct RecallCounts {
    answerable: f64,
    found: f64,
    found_always: f64,
    reworded: f64,
    reworded_found: f64,
    with_top: f64,
    top: f64,
    unanswerable: f64,
    nothing: f64,
    /// Memories in the results; `helping` counts those of them that help.
    shown: f64,
    helping: f64,
    /// Prompts ranked without their helpful memories; the next field counts those with no result.
    without_helpful: f64,
    without_helpful_nothing: f64,
}

impl RecallCounts {
    fn add(&mut self, corpus: &IndexedCorpus<'_>, prompt: &Prompt) {
        let (found, always) = (paths(corpus, prompt, &STRICT), paths(corpus, prompt, &FORCED));
        let helps = |path: &&String| prompt.relevant.contains(path);
        let within = |list: &[String]| share(list.iter().filter(helps).count(), &prompt.relevant);
        if prompt.relevant.is_empty() {
            self.unanswerable += 1.0;
            self.nothing += as_rate(found.is_empty());
            return;
        }
        self.answerable += 1.0;
        self.found += within(&found);
        self.found_always += within(&always);
        self.shown += found.iter().map(|_| 1.0).sum::<f64>();
        self.helping += found.iter().filter(helps).map(|_| 1.0).sum::<f64>();
        if prompt.kind == "paraphrase" {
            self.reworded += 1.0;
            self.reworded_found += within(&found);
        }
        if let Some(top) = &prompt.top {
            self.with_top += 1.0;
            self.top += as_rate(found.first() == Some(top));
        }
    }

    /// Ranks a prompt in a corpus without the memories that help.
    fn add_without_helpful(&mut self, corpus: &IndexedCorpus<'_>, prompt: &Prompt) {
        self.without_helpful += 1.0;
        self.without_helpful_nothing += as_rate(paths(corpus, prompt, &STRICT).is_empty());
    }

    /// Returns the rows of the report.
    fn lines(&self, of: &str, targets: [Option<f64>; 3]) -> Vec<ReportLine> {
        let line = |name: &str, part: f64, of_all: f64, target: Option<f64>| {
            let line = || ReportLine::share(format!("{of}, {name}"), part / of_all);
            let line = (of_all > 0.0).then(line)?;
            Some(
                target
                    .into_iter()
                    .fold(line, |line, target| line.target(ReportTarget::Share(target))),
            )
        };
        let always = "recall@5 if an answer is forced";
        let reworded = "recall@5 of paraphrased prompts";
        let nothing = "prompts without an answer: no result";
        let removed = "answering memory removed: no result";
        let lines = [
            line("recall@5", self.found, self.answerable, targets[0]),
            line(always, self.found_always, self.answerable, None),
            line(reworded, self.reworded_found, self.reworded, None),
            line("the first result is the best", self.top, self.with_top, targets[1]),
            line("share of results that help", self.helping, self.shown, None),
            line(nothing, self.nothing, self.unanswerable, targets[2]),
            line(removed, self.without_helpful_nothing, self.without_helpful, None),
        ];
        lines.into_iter().flatten().collect()
    }
}

pub(super) fn as_rate(is: bool) -> f64 {
    f64::from(u8::from(is))
}

/// Returns the paths of the memories that a prompt gets.
pub(super) fn paths(
    corpus: &IndexedCorpus<'_>,
    prompt: &Prompt,
    options: &RankOptions,
) -> Vec<String> {
    corpus.rank(&prompt.text, options).iter().map(|hit| hit.path.to_string()).collect()
}

/// Ranks each prompt of a set that is not part of the project.
pub(super) fn measure(
    memories: &Path,
    prompts: &Path,
    encoder: Option<&CachedEncoder>,
    outputs: &mut Outputs,
) -> anyhow::Result<Vec<ReportLine>> {
    let set = PromptSet::read("given", memories, prompts)?;
    let sums = ask_each(std::slice::from_ref(&set), encoder, outputs)?;
    Ok(sums.lines("given notes", [Some(0.92), Some(0.85), Some(0.9)]))
}

/// Ranks each prompt of our own sets.
pub(super) fn measure_own_sets(
    encoder: Option<&CachedEncoder>,
    outputs: &mut Outputs,
) -> anyhow::Result<Vec<ReportLine>> {
    let mut sets = Vec::new();
    let mut folders = std::fs::read_dir(SETS)?.collect::<Result<Vec<_>, _>>()?;
    folders.sort_by_key(std::fs::DirEntry::file_name);
    for folder in folders {
        let (name, folder) = (folder.file_name().to_string_lossy().into_owned(), folder.path());
        sets.push(PromptSet::read(
            &name,
            &folder.join("memories.jsonl"),
            &folder.join("prompts.jsonl"),
        )?);
    }
    let mut lines = ask_each(&sets, encoder, outputs)?.lines("own notes", [None; 3]);
    lines.extend(ask_few(&sets, encoder, outputs)?.lines("of six memories", [None; 3]));
    lines.extend(ask_together(&sets, encoder, outputs)?.lines("seven sets at once", [None; 3]));
    Ok(lines)
}

/// Ranks each prompt in its whole set, and again without the memories that help.
fn ask_each(
    sets: &[PromptSet],
    encoder: Option<&CachedEncoder>,
    outputs: &mut Outputs,
) -> anyhow::Result<RecallCounts> {
    let mut sums = RecallCounts::default();
    for set in sets {
        let whole = corpus(&set.memories, encoder);
        for prompt in &set.prompts {
            sums.add(&whole, prompt);
            outputs.write(&features(set, prompt, &whole, "whole"))?;
            if !prompt.relevant.is_empty() {
                let others = set.memories.iter().filter(|memory| !PromptSet::helps(memory, prompt));
                let remaining = corpus(others, encoder);
                sums.add_without_helpful(&remaining, prompt);
                outputs.write(&features(set, prompt, &remaining, "removed"))?;
            }
        }
    }
    Ok(sums)
}

/// Ranks each prompt among a few memories of its set, which include those that help, and among a few that do not help.
fn ask_few(
    sets: &[PromptSet],
    encoder: Option<&CachedEncoder>,
    outputs: &mut Outputs,
) -> anyhow::Result<RecallCounts> {
    let mut sums = RecallCounts::default();
    for set in sets {
        for (index, prompt) in set.prompts.iter().enumerate() {
            let (helping, others): (Vec<_>, Vec<_>) =
                set.memories.iter().partition(|memory| PromptSet::helps(memory, prompt));
            let mut others = others.into_iter().cycle().skip(index * FEW);
            let few = others.by_ref().take(FEW.saturating_sub(helping.len())).chain(helping);
            let few = corpus(few, encoder);
            sums.add(&few, prompt);
            outputs.write(&features(set, prompt, &few, "few"))?;
            if !prompt.relevant.is_empty() {
                let remaining = corpus(others.take(FEW), encoder);
                sums.add_without_helpful(&remaining, prompt);
                outputs.write(&features(set, prompt, &remaining, "few, removed"))?;
            }
        }
    }
    Ok(sums)
}

/// Ranks the prompts of several sets in one corpus of all their memories, each set in its own folder.
fn ask_together(
    sets: &[PromptSet],
    encoder: Option<&CachedEncoder>,
    outputs: &mut Outputs,
) -> anyhow::Result<RecallCounts> {
    let mut sums = RecallCounts::default();
    for sets in sets.chunks(TOGETHER) {
        let mut memories = Vec::new();
        let moved = |set: &PromptSet, path: &str| {
            let (scope, rest) =
                path.trim_start_matches("/memories/").split_once('/').unwrap_or_default();
            format!("/memories/{scope}/{}/{rest}", set.name)
        };
        for set in sets {
            for (path, text) in &set.memories {
                let path = moved(set, &path.to_string());
                memories.push((MemoryPath::parse(&path, Layout::Scoped)?, text.clone()));
            }
        }
        let corpus = corpus(&memories, encoder);
        for set in sets {
            for prompt in &set.prompts {
                let moved = |path: &String| moved(set, path);
                let prompt = Prompt {
                    text: prompt.text.clone(),
                    kind: prompt.kind.clone(),
                    relevant: prompt.relevant.iter().map(moved).collect(),
                    top: prompt.top.as_ref().map(moved),
                    needle: None,
                };
                sums.add(&corpus, &prompt);
                outputs.write(&features(set, &prompt, &corpus, "together"))?;
            }
        }
    }
    Ok(sums)
}

/// Returns the line of a prompt that `scripts/learn` reads. Only the situation `whole` has the features of entries;
/// the others have what the decision to abstain needs.
pub(super) fn features(
    set: &PromptSet,
    prompt: &Prompt,
    corpus: &IndexedCorpus<'_>,
    scene: &str,
) -> Value {
    let Ranking { entries, entry_similarities, memories, runner_up, answer, is_foreign } =
        corpus.ranking(&prompt.text, &RankOptions::default());
    let names: Vec<String> = memories.iter().map(|(path, ..)| path.to_string()).collect();
    let owner = |path: &MemoryPath| names.iter().position(|name| *name == path.to_string());
    let mut line = json!({
        "group": set.name, "scene": scene, "kind": prompt.kind, "prompt": prompt.text,
        "memory_gold": prompt.relevant, "top": prompt.top, "answer": answer.to_vec(), "foreign": is_foreign, "memories": names,
    });
    if ["whole", "few"].contains(&scene) {
        line["runner_up"] = runner_up.iter().map(|of| of.to_vec()).collect();
        line["memory_features"] = memories.iter().map(|(.., of)| of.to_vec()).collect();
    }
    if scene == "whole" {
        let name = |hit: &EntryHit| format!("{}#{}", hit.path, hit.ordinal);
        let answers = |hit: &EntryHit| {
            set.text_of(hit).is_some_and(|text| prompt.is_answered_by(&hit.path.to_string(), text))
        };
        line["entries"] = entries.iter().map(|(hit, _)| name(hit)).collect();
        if prompt.needle.is_some() {
            let answering = entries.iter().filter(|(hit, _)| answers(hit));
            line["gold"] = answering.map(|(hit, _)| name(hit)).collect();
        }
        line["entry_similarities"] = entry_similarities.into();
        line["owners"] = entries.iter().map(|(hit, _)| owner(&hit.path)).collect();
        line["entry_features"] = entries.iter().map(|(_, of)| of.to_vec()).collect();
    }
    line
}
