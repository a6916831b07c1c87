//! Measures recall on conversations with questions: each session is a memory, and each turn an entry.
//!
//! Rankings never abstain, because every question has an answer.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use memory::path::{Layout, MemoryPath, RelativePath};
use memory::screen::Screen;
use recall::{Corpus, RankOptions, Ranking, Threshold};
use serde_json::{Value, json};

use crate::recall::{Outputs, Scores, read, text, texts};
use crate::report::{ReportLine, ReportTarget};

/// Ranks all entries, so that the list contains every answer.
const ALL: RankOptions =
    RankOptions { limit: usize::MAX, threshold: Threshold::None, use_vectors: true };

/// Ranks turns and sessions for each question.
pub(super) fn measure(
    corpus: &Path,
    questions: &Path,
    outputs: &mut Outputs,
) -> anyhow::Result<Vec<ReportLine>> {
    let corpora = corpora(&read(corpus)?)?;
    let (mut turns, mut sessions, mut by_words) =
        (Scores::default(), Scores::default(), Scores::default());
    for question in read(questions)? {
        let talk = text(&question, "conv")?;
        let corpus = corpora.get(talk).with_context(|| format!("no conversation `{talk}`"))?;
        let prompt = text(&question, "question")?;
        let gold = texts(&question, "gold");
        let mut gold_sessions: Vec<String> =
            gold.iter().filter_map(|turn| Some(turn.split_once(':')?.0.to_owned())).collect();
        gold_sessions.sort();
        gold_sessions.dedup();
        let ranking = corpus.ranking(prompt, &ALL);
        let (ranked, ranked_sessions) = names(&ranking);
        turns.add(&gold, &ranked);
        sessions.add(&gold_sessions, &ranked_sessions);
        let words = RankOptions { use_vectors: false, ..ALL };
        by_words.add(&gold, &names(&corpus.ranking(prompt, &words)).0);
        if let Some(file) = &mut outputs.ranked {
            writeln!(file, "{}", json!({ "qid": question["qid"], "ranked": ranked }))?;
        }
        outputs.write(&features(talk, &gold, &gold_sessions, &ranking))?;
    }
    Ok(lines(&turns, &sessions, &by_words))
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

/// Builds a corpus of each conversation.
fn corpora(turns: &[Value]) -> anyhow::Result<BTreeMap<String, Corpus>> {
    let mut sessions: BTreeMap<(String, u64), (String, String)> = BTreeMap::new();
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for turn in turns {
        let number = turn["session"].as_u64().context("a turn has no session")?;
        let key = (text(turn, "conv")?.to_owned(), number);
        let session = sessions.entry(key).or_default();
        let said = one_line(text(turn, "text")?);
        session.0.extend(["- ", text(turn, "speaker")?, ": ", &said]);
        match turn["caption"].as_str().map(one_line) {
            Some(caption) if !caption.is_empty() => {
                session.0.extend([" [shared a picture: ", &caption, "]"]);
            }
            _ => {}
        }
        session.0.push('\n');
        text(turn, "date")?.clone_into(&mut session.1);
    }
    let mut corpora: BTreeMap<String, Corpus> = BTreeMap::new();
    for ((talk, number), (turns, date)) in sessions {
        let path = format!("/memories/project/session-{number}.md");
        let path = MemoryPath::parse(&path, Layout::Scoped)?;
        let date = date.get(..10).and_then(|date| date.parse().ok());
        let corpus = corpora.entry(talk).or_insert_with(|| Corpus::new(Screen::default()));
        corpus.put(&path, &turns, date);
    }
    Ok(corpora)
}

/// Returns the name of a session, as the questions use it.
fn session(path: &MemoryPath) -> String {
    let name = path.relative().map(RelativePath::file_name).unwrap_or_default();
    format!("D{}", name.trim_start_matches("session-").trim_end_matches(".md"))
}

/// Returns the names of turns and of sessions, the best first.
fn names(ranking: &Ranking) -> (Vec<String>, Vec<String>) {
    let turns = ranking.entries.iter();
    let turns = turns.map(|(hit, _)| format!("{}:{}", session(&hit.path), hit.ordinal + 1));
    (turns.collect(), ranking.memories.iter().map(|(path, ..)| session(path)).collect())
}

/// Returns the line of a question that `scripts/learn` reads.
fn features(talk: &str, gold: &[String], gold_sessions: &[String], ranking: &Ranking) -> Value {
    let (entries, memories) = names(ranking);
    let owner = |path: &MemoryPath| ranking.memories.iter().position(|(memory, ..)| memory == path);
    let owners: Vec<_> = ranking.entries.iter().map(|(hit, _)| owner(&hit.path)).collect();
    let entry_features: Vec<_> = ranking.entries.iter().map(|(_, of)| of.to_vec()).collect();
    let memory_features: Vec<_> = ranking.memories.iter().map(|(.., of)| of.to_vec()).collect();
    json!({
        "group": talk, "scene": "talk", "gold": gold, "memory_gold": gold_sessions, "entries": entries, "owners": owners,
        "memories": memories, "entry_features": entry_features, "memory_features": memory_features,
    })
}
