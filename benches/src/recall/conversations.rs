//! Measures recall on conversations with questions: each session is a memory, and each turn an entry.
//!
//! Other layouts of the same conversations are measured too, and plain BM25 over turns for comparison. Rankings never
//! abstain, because every question has an answer.

use std::collections::{BTreeMap, HashSet};
use std::io::Write as _;
use std::ops::Range;
use std::path::Path;

use anyhow::Context as _;
use memory::path::{MemoryPath, RelativePath};
use recall::{EntryHit, RankOptions, Ranking, Threshold};
use serde_json::{Value, json};

use crate::recall::bm25::Bm25;
use crate::recall::indexed::{CachedEncoder, IndexedCorpus};
use crate::recall::{Outputs, Scores, read, text, texts};
use crate::report::{ReportLine, ReportTarget};

/// Ranks all entries, so that the list contains every answer.
const ALL: RankOptions =
    RankOptions { limit: usize::MAX, threshold: Threshold::None, use_vectors: true };

/// A layout of conversations in memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// A memory for each session, a bullet for each turn.
    Bullets,
    /// A memory for each conversation, a heading for each session, a bullet for each turn.
    OneFile,
    /// A memory for each session, a paragraph for each turn, with the name in bold.
    Paragraphs,
    /// A memory for each session, a line for each turn, with the time before the name.
    Lines,
}

impl Layout {
    const OTHERS: [Self; 3] = [Self::OneFile, Self::Paragraphs, Self::Lines];

    fn name(self) -> &'static str {
        match self {
            Self::Bullets => "a bullet for each turn",
            Self::OneFile => "one file for each conversation",
            Self::Paragraphs => "a paragraph for each turn",
            Self::Lines => "a line for each turn",
        }
    }

    /// Returns the text of a turn.
    fn turn(self, speaker: &str, said: &str, time: &str) -> String {
        match self {
            Self::Bullets | Self::OneFile => format!("- {speaker}: {said}\n"),
            Self::Paragraphs => format!("**{speaker}:** {said}\n\n"),
            Self::Lines => format!("[{time}] {speaker}: {said}\n"),
        }
    }
}

/// Ranks turns and sessions for each question.
pub(super) fn measure(
    corpus: &Path,
    questions: &Path,
    encoder: Option<&CachedEncoder>,
    outputs: &mut Outputs,
) -> anyhow::Result<Vec<ReportLine>> {
    let turns_of_all = read(corpus)?;
    let talks = talks(&turns_of_all, Layout::Bullets)?;
    let corpora = corpora(&talks, encoder);
    let (mut turns, mut sessions, mut by_words) =
        (Scores::default(), Scores::default(), Scores::default());
    for question in read(questions)? {
        let talk = text(&question, "conv")?;
        let corpus = corpora.get(talk).with_context(|| format!("no conversation `{talk}`"))?;
        let of = &talks[talk];
        let prompt = text(&question, "question")?;
        let gold = texts(&question, "gold");
        let mut gold_sessions: Vec<String> =
            gold.iter().filter_map(|turn| Some(turn.split_once(':')?.0.to_owned())).collect();
        gold_sessions.sort();
        gold_sessions.dedup();
        let ranking = corpus.ranking(prompt, &ALL);
        let (ranked, ranked_sessions) = names(of, &ranking);
        turns.add(&gold, &ranked);
        sessions.add(&gold_sessions, &ranked_sessions);
        let words = RankOptions { use_vectors: false, ..ALL };
        by_words.add(&gold, &names(of, &corpus.ranking(prompt, &words)).0);
        if let Some(file) = &mut outputs.ranked {
            writeln!(file, "{}", json!({ "qid": question["qid"], "ranked": ranked }))?;
        }
        outputs.write(&features((talk, of), &gold, &gold_sessions, &ranking))?;
    }
    let mut lines = lines(&turns, &sessions, &by_words);
    lines.extend(measure_layouts(&turns_of_all, &read(questions)?, encoder)?);
    Ok(lines)
}

/// Ranks turns in the other layouts, and by BM25.
fn measure_layouts(
    turns: &[Value],
    questions: &[Value],
    encoder: Option<&CachedEncoder>,
) -> anyhow::Result<Vec<ReportLine>> {
    let mut lines = Vec::new();
    for layout in Layout::OTHERS {
        let talks = talks(turns, layout)?;
        let corpora = corpora(&talks, encoder);
        let (mut recall, mut baseline) = (Scores::default(), Scores::default());
        let indexes: BTreeMap<&String, Bm25> = talks
            .iter()
            .map(|(talk, of)| (talk, Bm25::new(of.turns.iter().map(|turn| turn.text.as_str()))))
            .collect();
        for question in questions {
            let talk = text(question, "conv")?.to_owned();
            let (prompt, gold) = (text(question, "question")?, texts(question, "gold"));
            let (of, index) = (&talks[&talk], &indexes[&talk]);
            let ranked = corpora[&talk].ranking(prompt, &ALL);
            recall.add(&gold, &names(of, &ranked).0);
            let ranked = index.rank(prompt).into_iter().map(|turn| of.turns[turn].name.clone());
            baseline.add(&gold, &ranked.collect::<Vec<_>>());
        }
        let name = layout.name();
        for (of, scores) in [("", &recall), (" by BM25", &baseline)] {
            let at_ten = scores.mean(scores.within[1]);
            lines.push(ReportLine::share(format!("{name}, turns{of}, recall@10"), at_ten));
            let mrr = scores.mean(scores.reciprocal);
            lines.push(ReportLine::share(format!("{name}, turns{of}, MRR"), mrr));
        }
    }
    Ok(lines)
}

fn lines(turns: &Scores, sessions: &Scores, by_words: &Scores) -> Vec<ReportLine> {
    let of = |scores: &Scores, index: usize| scores.mean(scores.within[index]);
    vec![
        ReportLine::share("turns, recall@5", of(turns, 0)),
        ReportLine::share("turns, recall@10", of(turns, 1)).target(ReportTarget::Share(0.82)),
        ReportLine::share("turns, recall@20", of(turns, 2)).target(ReportTarget::Share(0.875)),
        ReportLine::share("turns, MRR", turns.mean(turns.reciprocal))
            .target(ReportTarget::Share(0.65)),
        ReportLine::share("turns by words alone, recall@10", of(by_words, 1)),
        ReportLine::share("turns by words alone, MRR", by_words.mean(by_words.reciprocal)),
        ReportLine::share("sessions, recall@5", of(sessions, 0)).target(ReportTarget::Share(0.91)),
        ReportLine::share("sessions, recall@10", of(sessions, 1))
            .target(ReportTarget::Share(0.955)),
        ReportLine::share("sessions, MRR", sessions.mean(sessions.reciprocal))
            .target(ReportTarget::Share(0.86)),
    ]
}

/// A conversation in one layout.
#[derive(Debug, Default)]
struct Talk {
    /// The text and the date of each memory.
    memories: BTreeMap<MemoryPath, (String, String)>,
    turns: Vec<Turn>,
}

/// A turn of a conversation, and where it is.
#[derive(Debug)]
struct Turn {
    /// Name that the questions use.
    name: String,
    text: String,
    path: MemoryPath,
    range: Range<usize>,
}

impl Talk {
    /// Returns the names of the turns that an entry holds.
    fn names_in(&self, hit: &EntryHit) -> impl Iterator<Item = String> {
        let turns = self.turns.iter().filter(move |turn| {
            let overlaps = turn.range.start < hit.range.end && hit.range.start < turn.range.end;
            overlaps && turn.path == hit.path
        });
        turns.map(|turn| turn.name.clone())
    }
}

/// Writes the conversations in a layout.
fn talks(turns: &[Value], layout: Layout) -> anyhow::Result<BTreeMap<String, Talk>> {
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut talks: BTreeMap<String, Talk> = BTreeMap::new();
    let mut last = (String::new(), 0);
    for turn in turns {
        let session = turn["session"].as_u64().context("a turn has no session")?;
        let name = text(turn, "conv")?.to_owned();
        let talk = talks.entry(name.clone()).or_default();
        let file = match layout {
            Layout::OneFile => "talk".to_owned(),
            Layout::Bullets | Layout::Paragraphs | Layout::Lines => format!("session-{session}"),
        };
        let path = format!("/memories/project/{file}.md");
        let path = MemoryPath::parse(&path, memory::path::Layout::Scoped)?;
        let date = text(turn, "date")?;
        let (written, own_date) = talk.memories.entry(path.clone()).or_default();
        date.clone_into(own_date);
        if layout == Layout::OneFile && last != (name.clone(), session) {
            written.extend(["\n## ", &date.replace('T', " "), "\n\n"]);
        }
        last = (name, session);
        let mut said = one_line(text(turn, "text")?);
        match turn["caption"].as_str().map(one_line) {
            Some(caption) if !caption.is_empty() => {
                said.extend([" [shared a picture: ", &caption, "]"]);
            }
            _ => {}
        }
        let own = layout.turn(text(turn, "speaker")?, &said, &date.replace('T', " "));
        let start = written.len();
        written.push_str(&own);
        let number = turn["turn"].as_u64().context("a turn has no number")?;
        let range = start..written.len();
        talk.turns.push(Turn { name: format!("D{session}:{number}"), text: own, path, range });
    }
    Ok(talks)
}

/// Builds a corpus of each conversation.
fn corpora<'a>(
    talks: &BTreeMap<String, Talk>,
    encoder: Option<&'a CachedEncoder>,
) -> BTreeMap<String, IndexedCorpus<'a>> {
    let corpora = talks.iter().map(|(name, talk)| {
        let memories = talk.memories.iter();
        let memories = memories.map(|(path, (text, date))| (path, text.as_str(), date.get(..10)));
        (name.clone(), IndexedCorpus::new(memories, encoder))
    });
    corpora.collect()
}

/// Returns the name of a session, as the questions use it.
fn session(path: &MemoryPath) -> String {
    let name = path.relative().map(RelativePath::file_name).unwrap_or_default();
    format!("D{}", name.trim_start_matches("session-").trim_end_matches(".md"))
}

/// Returns the names of turns and of sessions, the best first. An entry that holds several turns counts as all of
/// them.
fn names(talk: &Talk, ranking: &Ranking) -> (Vec<String>, Vec<String>) {
    let mut turns: Vec<String> = Vec::new();
    let mut seen = HashSet::new();
    for (hit, _) in &ranking.entries {
        turns.extend(talk.names_in(hit).filter(|name| seen.insert(name.clone())));
    }
    (turns, ranking.memories.iter().map(|(path, ..)| session(path)).collect())
}

/// Returns the line of a question that `scripts/learn` reads.
fn features(
    (name, talk): (&str, &Talk),
    gold: &[String],
    gold_sessions: &[String],
    ranking: &Ranking,
) -> Value {
    let turn = |hit: &EntryHit| talk.names_in(hit).next().unwrap_or_default();
    let entries: Vec<_> = ranking.entries.iter().map(|(hit, _)| turn(hit)).collect();
    let (_, memories) = names(talk, ranking);
    let owner = |path: &MemoryPath| ranking.memories.iter().position(|(memory, ..)| memory == path);
    let owners: Vec<_> = ranking.entries.iter().map(|(hit, _)| owner(&hit.path)).collect();
    let entry_features: Vec<_> = ranking.entries.iter().map(|(_, of)| of.to_vec()).collect();
    let memory_features: Vec<_> = ranking.memories.iter().map(|(.., of)| of.to_vec()).collect();
    json!({
        "group": name, "scene": "talk", "gold": gold, "memory_gold": gold_sessions, "entries": entries, "owners": owners,
        "memories": memories, "entry_features": entry_features, "memory_features": memory_features,
        "entry_similarities": ranking.entry_similarities,
    })
}
