//! Recall: whether it finds what it should, and how long that takes.
//!
//! What is to be found comes from our own sets of memories and prompts, and from files that are no part of the
//! project: conversations with questions and the turns that answer them (`corpus.jsonl`, `questions.jsonl`), and more
//! memories with prompts (`recall-corpus.jsonl`, `recall.jsonl`). Speed is measured on texts that are made here.

mod conversations;
mod memories;
mod speed;

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

use crate::args::BenchConfig;
use crate::report::Section;

/// Where to write what others score or learn from.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    /// Ranked turns, a question a line.
    ranked: Option<BufWriter<File>>,
    /// Features of all that was looked at, a question a line.
    features: Option<BufWriter<File>>,
}

impl Outputs {
    /// Makes the files that are named.
    pub(crate) fn create(ranked: Option<&Path>, features: Option<&Path>) -> anyhow::Result<Self> {
        let open = |file: Option<&Path>| -> anyhow::Result<Option<BufWriter<File>>> {
            Ok(file.map(File::create).transpose()?.map(BufWriter::new))
        };
        Ok(Self { ranked: open(ranked)?, features: open(features)? })
    }

    /// Writes the features of a question.
    fn write(&mut self, features: &Value) -> anyhow::Result<()> {
        if let Some(file) = &mut self.features {
            writeln!(file, "{features}")?;
        }
        Ok(())
    }
}

/// Measures speed.
pub(crate) fn speed(bench: &BenchConfig) -> anyhow::Result<Section> {
    speed::measure(bench)
}

/// Measures what is found in our own sets and in the data of a folder; a set that is not there is told and left out.
pub(crate) fn quality(data: Option<&Path>, mut outputs: Outputs) -> anyhow::Result<Section> {
    let mut method = String::from(
        "Recall is the share of what should be found among the first so many, MRR one by the place of the first \
         of it; all without a model. Entries are ranked within their conversation, a file is a session. Weights were learnt on \
         the conversations and on our own notes, not on the given ones.",
    );
    let mut lines = Vec::new();
    for (first, second, measure) in [
        ("corpus.jsonl", "questions.jsonl", conversations::measure as Measure),
        ("recall-corpus.jsonl", "recall.jsonl", memories::measure as Measure),
    ] {
        let files = data.map(|data| (data.join(first), data.join(second)));
        match files.filter(|(first, second)| first.is_file() && second.is_file()) {
            Some((first, second)) => lines.extend(measure(&first, &second, &mut outputs)?),
            None => {
                method.extend([" Left out: no `", first, "` and `", second, "` below --data."]);
            }
        }
    }
    lines.extend(memories::measure_own_sets(&mut outputs)?);
    Ok(Section { title: "Recall, what is found", method, lines })
}

type Measure = fn(&Path, &Path, &mut Outputs) -> anyhow::Result<Vec<crate::report::ReportLine>>;

/// Reads a file of JSON, a value a line.
fn read(file: &Path) -> anyhow::Result<Vec<Value>> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// Returns a text of a value.
fn text<'a>(value: &'a Value, key: &str) -> anyhow::Result<&'a str> {
    value[key].as_str().with_context(|| format!("a line has no text `{key}`"))
}

/// Returns the texts of a list.
fn texts(value: &Value, key: &str) -> Vec<String> {
    let list = value[key].as_array().into_iter().flatten();
    list.filter_map(|one| Some(one.as_str()?.to_owned())).collect()
}

/// How well a list did that should have begun with others.
#[derive(Debug, Default)]
struct Scores {
    count: f64,
    within: [f64; 3],
    reciprocal: f64,
}

impl Scores {
    /// The places up to which it is counted what was found.
    const RANKS: [usize; 3] = [5, 10, 20];

    fn add(&mut self, wanted: &[String], ranked: &[String]) {
        self.count += 1.0;
        for (sum, place) in self.within.iter_mut().zip(Self::RANKS) {
            *sum +=
                share(ranked.iter().take(place).filter(|one| wanted.contains(one)).count(), wanted);
        }
        if let Some(first) = ranked.iter().position(|one| wanted.contains(one)) {
            self.reciprocal += share(1, &vec![(); first + 1]);
        }
    }

    fn mean(&self, sum: f64) -> f64 {
        sum / self.count.max(1.0)
    }
}

/// Returns which share of a list so many are.
fn share<T>(count: usize, of: &[T]) -> f64 {
    let number = |count: usize| u32::try_from(count).map_or(f64::MAX, f64::from);
    number(count) / number(of.len().max(1))
}
