//! Measures the quality of recall on sets of prompts with known answers.
//!
//! Our own sets of memories and prompts are in `benches/sets` and `benches/mix`. External data is not part of the project; `--data` names
//! its folder. It holds conversations with questions and the turns that answer them (`corpus.jsonl`,
//! `questions.jsonl`), and memories with prompts (`recall-corpus.jsonl`, `recall.jsonl`).

pub(crate) mod bm25;
mod conversations;
mod indexed;
mod memories;
mod mix;

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

use crate::recall::indexed::CachedEncoder;
use crate::report::{ReportLine, Section};

/// Optional output files, for programs that score rankings or learn weights.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    /// Ranked turns, one line per question.
    ranked: Option<BufWriter<File>>,
    /// Features of all candidates, one line per question.
    features: Option<BufWriter<File>>,
}

impl Outputs {
    /// Creates the files that are named.
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

/// Measures the quality of recall on our own sets and on the data of a folder. The section names the sets that are
/// missing.
///
/// With an encoder everything is measured twice. The rows and the outputs are those with it, and each row has the value
/// without it beside.
pub(crate) fn quality(
    data: Option<&Path>,
    encoder: Option<&Path>,
    mut outputs: Outputs,
) -> anyhow::Result<Section> {
    let Some(encoder) = encoder else { return measure(data, None, &mut outputs) };
    let encoder = CachedEncoder::open(encoder)?;
    let without = measure(data, None, &mut Outputs::default())?;
    let mut with = measure(data, Some(&encoder), &mut outputs)?;
    // A row is left out where there is nothing to count, so the two lists may differ.
    let other = |line: &ReportLine| without.lines.iter().find(|other| other.name() == line.name());
    let beside = |line: ReportLine| match other(&line) {
        Some(other) => line.beside("without the encoder", other),
        None => line,
    };
    with.lines = with.lines.into_iter().map(beside).collect();
    Ok(with)
}

fn measure(
    data: Option<&Path>,
    encoder: Option<&CachedEncoder>,
    outputs: &mut Outputs,
) -> anyhow::Result<Section> {
    let mut method = String::from(
        "recall@N is the share of the answers among the first N results, and MRR the mean reciprocal rank of the first \
         answer; all without a model. Entries are ranked within their conversation, a file is a session. Weights were \
         learned on the conversations and on our own notes, not on the given ones.",
    );
    let mut lines = Vec::new();
    for (first, second, measure) in [
        ("corpus.jsonl", "questions.jsonl", conversations::measure as Measure),
        ("recall-corpus.jsonl", "recall.jsonl", memories::measure as Measure),
    ] {
        let files = data.map(|data| (data.join(first), data.join(second)));
        match files.filter(|(first, second)| first.is_file() && second.is_file()) {
            Some((first, second)) => lines.extend(measure(&first, &second, encoder, outputs)?),
            None => {
                method.extend([" Left out: no `", first, "` and `", second, "` below --data."]);
            }
        }
    }
    lines.extend(mix::measure(encoder, outputs)?);
    lines.extend(memories::measure_own_sets(encoder, outputs)?);
    Ok(Section { title: "Recall, quality", method, lines })
}

type Measure =
    fn(&Path, &Path, Option<&CachedEncoder>, &mut Outputs) -> anyhow::Result<Vec<ReportLine>>;

/// Reads a file with a JSON value on each line.
pub(crate) fn read(file: &Path) -> anyhow::Result<Vec<Value>> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

/// Returns the text of a field.
fn text<'a>(value: &'a Value, key: &str) -> anyhow::Result<&'a str> {
    value[key].as_str().with_context(|| format!("a line has no text field `{key}`"))
}

/// Returns the texts of a list in a field.
fn texts(value: &Value, key: &str) -> Vec<String> {
    let list = value[key].as_array().into_iter().flatten();
    list.filter_map(|item| Some(item.as_str()?.to_owned())).collect()
}

/// Sums of the scores of rankings.
#[derive(Debug, Default)]
struct Scores {
    count: f64,
    within: [f64; 3],
    reciprocal: f64,
}

impl Scores {
    /// The numbers of first results that recall is computed for.
    const RANKS: [usize; 3] = [5, 10, 20];

    fn add(&mut self, answers: &[String], ranked: &[String]) {
        self.count += 1.0;
        for (sum, rank) in self.within.iter_mut().zip(Self::RANKS) {
            *sum += share(
                ranked.iter().take(rank).filter(|name| answers.contains(name)).count(),
                answers,
            );
        }
        if let Some(first) = ranked.iter().position(|name| answers.contains(name)) {
            self.reciprocal += share(1, &vec![(); first + 1]);
        }
    }

    fn mean(&self, sum: f64) -> f64 {
        sum / self.count.max(1.0)
    }
}

/// Returns `count` as a share of the length of a list.
fn share<T>(count: usize, of: &[T]) -> f64 {
    let number = |count: usize| u32::try_from(count).map_or(f64::MAX, f64::from);
    number(count) / number(of.len().max(1))
}
