//! Measures what a conversation has in context, and what that costs.
//!
//! A set holds the facts that a person told their agent over months, and the prompts of three long sessions, each with
//! the facts that it cannot do without. The facts are stored in three layouts. Then one session of Claude Code is played
//! through its hooks: its start, twenty prompts, a compaction. Everything that the hooks answer is kept, and compared
//! with what each prompt needed at that moment.
//!
//! Costs are in input tokens: a token costs 1.25 when it is first sent, because providers ask that for writing to their
//! cache, and 0.1 in each later request. A turn takes eight requests.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use context::tokens;
use memory::document;
use serde_json::{Value, json};

use crate::args::BenchConfig;
use crate::doors::process::run_to_end;
use crate::fixture::init_checkout;
use crate::recall::bm25::Bm25;
use crate::report::{ReportLine, Section};
use crate::stdio::McpClient;

/// The cost of a token when it is written to the provider's cache, and when it is read from there.
const WRITE_COST: f64 = 1.25;
const READ_COST: f64 = 0.1;
/// Requests of a turn, with those that follow tool results.
const REQUESTS_PER_TURN: usize = 8;
const TURNS: usize = 20;
/// Facts of the baseline that shows the best matches beside each prompt.
const BM25_SHOWN: usize = 3;

/// The facts of a person and their project, and the prompts of their sessions.
struct FactSet {
    name: String,
    facts: Vec<Fact>,
    prompts: Vec<Prompt>,
}

#[derive(Clone)]
struct Fact {
    id: String,
    text: String,
    is_global: bool,
    is_rule: bool,
    topic: String,
    name: String,
}

struct Prompt {
    text: String,
    needs: Vec<String>,
    /// The number of facts that its session knows at least.
    size: usize,
}

/// The way in which facts lie in files.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FactLayout {
    /// Each fact in a file of its own, written by an editor.
    FilePerFact,
    /// A file for each topic, written by an editor.
    TopicFiles,
    /// A file for each topic, written by an agent with `create` and `insert`, with a name and a description.
    Created,
}

const LAYOUTS: [(FactLayout, &str); 3] = [
    (FactLayout::FilePerFact, "a file a fact"),
    (FactLayout::TopicFiles, "topic files"),
    (FactLayout::Created, "topic files made by an agent"),
];

/// Store sizes, each with the size of the sessions whose prompts are asked.
const SIZES: [(usize, usize); 4] = [(20, 20), (80, 80), (300, 300), (2_000, 300)];

/// Measures the sets of these names, or all sets.
pub(crate) fn measure(
    bench: &BenchConfig,
    lukasa: &Path,
    sets: &[String],
) -> anyhow::Result<Section> {
    let mut lines = Vec::new();
    let all = ["ada", "ben", "cleo"].map(str::to_owned);
    for name in if sets.is_empty() { &all } else { sets } {
        let set = FactSet::read(name)?;
        for (size, asked) in SIZES {
            let facts = set.facts_of_store(size)?;
            let prompts: Vec<&Prompt> =
                set.prompts.iter().filter(|prompt| prompt.size == asked).collect();
            anyhow::ensure!(
                prompts.len() == TURNS,
                "{name} has {} prompts of {asked}",
                prompts.len()
            );
            for (row, shown) in baselines(&facts, &prompts) {
                lines.extend(shown.rows(&format!("{name}, {size} facts, {row}"), &facts, &prompts));
            }
            for (layout, row) in LAYOUTS {
                let folder = bench.dir.join(format!("start-{name}-{size}-{}", layout as u8));
                let store = FactStore::create(lukasa, &folder, layout, &facts)?;
                let label = format!("{name}, {size} facts, {row}");
                let shown = store.session("first", &prompts)?;
                lines.extend(shown.rows(&label, &facts, &prompts));
                let index = store.index_alone()?;
                lines.extend(index.rows(&format!("{label}, index alone"), &facts, &prompts));
                std::fs::remove_dir_all(&folder)?;
            }
        }
    }
    let method = format!(
        "One session of Claude Code, played through its hooks, without a daemon: start, {TURNS} prompts, compaction. \
         Needed: the facts that a prompt cannot do without and that stand in context by then. Cost: a token counts \
         {WRITE_COST} when it is first sent and {READ_COST} in each later request, {REQUESTS_PER_TURN} requests a turn. \
         Rules: the five standing rules in the text of the start. Doubles: facts that were given more than once."
    );
    Ok(Section { title: "Start of a conversation", method, lines })
}

impl FactSet {
    fn read(name: &str) -> anyhow::Result<Self> {
        let folder = sets_folder().join("start").join(name);
        let text = |value: &Value, key: &str| -> anyhow::Result<String> {
            Ok(value[key].as_str().with_context(|| format!("a line has no `{key}`"))?.to_owned())
        };
        let fact = |value: &Value| -> anyhow::Result<Fact> {
            Ok(Fact {
                id: text(value, "id")?,
                text: text(value, "text")?,
                is_global: text(value, "scope")? == "global",
                is_rule: value["rule"] == true,
                topic: text(value, "topic")?,
                name: text(value, "name")?,
            })
        };
        let prompt = |value: &Value| -> anyhow::Result<Prompt> {
            let needs = value["needs"].as_array().into_iter().flatten();
            Ok(Prompt {
                text: text(value, "text")?,
                needs: needs.filter_map(|id| Some(id.as_str()?.to_owned())).collect(),
                size: usize::try_from(value["size"].as_u64().context("a prompt has no size")?)?,
            })
        };
        let facts = crate::recall::read(&folder.join("facts.jsonl"))?;
        let prompts = crate::recall::read(&folder.join("prompts.jsonl"))?;
        Ok(Self {
            name: name.to_owned(),
            facts: facts.iter().map(fact).collect::<anyhow::Result<_>>()?,
            prompts: prompts.iter().map(prompt).collect::<anyhow::Result<_>>()?,
        })
    }

    /// Returns the first `size` facts. Beyond its own, the set is filled with facts about other projects.
    fn facts_of_store(&self, size: usize) -> anyhow::Result<Vec<Fact>> {
        let mut facts: Vec<Fact> = self.facts.iter().take(size).cloned().collect();
        if facts.len() < size {
            let mut seen: std::collections::HashSet<String> =
                facts.iter().map(|fact| fact.text.clone()).collect();
            for (topic, text) in filler()? {
                if facts.len() == size {
                    break;
                }
                if seen.insert(text.clone()) {
                    let number = facts.len();
                    facts.push(Fact {
                        id: format!("x{number}"),
                        text,
                        is_global: false,
                        is_rule: false,
                        topic,
                        name: format!("other-{number}"),
                    });
                }
            }
        }
        anyhow::ensure!(facts.len() == size, "{} has {} facts", self.name, facts.len());
        Ok(facts)
    }
}

/// Returns the folders in these folders of the benches, by name.
fn folders_in(parents: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for parent in parents {
        for entry in std::fs::read_dir(sets_folder().join(parent))? {
            folders.push(entry?.path());
        }
    }
    folders.sort();
    Ok(folders)
}

fn sets_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// Returns the first lines of the entries in the sets of recall, each with the name of its file.
fn filler() -> anyhow::Result<Vec<(String, String)>> {
    let mut filler = Vec::new();
    for folder in folders_in(&["sets", "mix/ada", "mix/ben"])? {
        for memory in crate::recall::read(&folder.join("memories.jsonl"))? {
            let (path, text) = (memory["path"].as_str(), memory["text"].as_str());
            let (Some(path), Some(text)) = (path, text) else { continue };
            let stem = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".md");
            let entries = document::entries(text).into_iter().map(|entry| entry.first_line);
            let entries = entries.filter(|line| !line.starts_with(['#', '|', '`', '<', '>']));
            filler.extend(entries.map(|line| (stem.to_owned(), line)));
        }
    }
    Ok(filler)
}

/// A home and a checkout that hold facts.
struct FactStore {
    lukasa: PathBuf,
    home: PathBuf,
    checkout: PathBuf,
}

impl FactStore {
    fn create(
        lukasa: &Path,
        folder: &Path,
        layout: FactLayout,
        facts: &[Fact],
    ) -> anyhow::Result<Self> {
        let (home, checkout) = (folder.join("home"), folder.join("checkout"));
        init_checkout(&checkout)?;
        std::fs::create_dir_all(&home)?;
        std::fs::write(home.join("config.toml"), "files_max = 5000\n")?;
        let store = Self { lukasa: lukasa.to_owned(), home, checkout };
        match layout {
            FactLayout::FilePerFact => {
                for fact in facts {
                    store.append(fact, &fact.name)?;
                }
            }
            FactLayout::TopicFiles => {
                for fact in facts {
                    store.append(fact, &fact.topic)?;
                }
            }
            FactLayout::Created => store.call_agent(facts)?,
        }
        // What lies in a checkout is a stranger's until a person has accepted it.
        run_to_end(&mut store.command(&["accept", "/memories/project", "--yes"]), "").ok();
        run_to_end(&mut store.command(&["log", "--max", "1"]), "")?;
        Ok(store)
    }

    /// Appends a fact to a file, as an editor does.
    fn append(&self, fact: &Fact, name: &str) -> anyhow::Result<()> {
        let root = if fact.is_global {
            self.home.join("memory")
        } else {
            self.checkout.join(".lukasa/memory")
        };
        std::fs::create_dir_all(&root)?;
        let file = root.join(format!("{name}.md"));
        let mut text = if file.exists() { std::fs::read_to_string(&file)? } else { String::new() };
        writeln!(text, "- {}", fact.text)?;
        std::fs::write(file, text)?;
        Ok(())
    }

    /// Lets an agent write the facts with the memory tool.
    fn call_agent(&self, facts: &[Fact]) -> anyhow::Result<()> {
        let mut client = McpClient::start(&mut self.command(&["mcp"]))?;
        client.initialize()?;
        let mut lines: BTreeMap<String, usize> = BTreeMap::new();
        for fact in facts {
            let scope = if fact.is_global { "global" } else { "project" };
            let path = format!("/memories/{scope}/{}.md", fact.topic);
            let arguments = match lines.get_mut(&path) {
                None => {
                    let head = format!(
                        "---\nname: {}\ndescription: {}\n---\n\n",
                        fact.topic,
                        json!(format!("What is known about {}", fact.topic))
                    );
                    lines.insert(path.clone(), head.lines().count() + 1);
                    let text = format!("{head}- {}\n", fact.text);
                    json!({ "command": "create", "path": path, "file_text": text })
                }
                Some(count) => {
                    let insert = json!({ "command": "insert", "path": path, "insert_line": *count,
                        "insert_text": format!("- {}\n", fact.text) });
                    *count += 1;
                    insert
                }
            };
            client.call_now("memory", &arguments)?;
        }
        Ok(())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.lukasa);
        command.args(arguments).env("LUKASA_HOME", &self.home).current_dir(&self.checkout);
        command
    }

    /// Plays a session, and returns what the hooks answered.
    fn session(&self, id: &str, prompts: &[&Prompt]) -> anyhow::Result<Shown> {
        let hook = |word: &str, event: &str, more: Value| -> anyhow::Result<String> {
            let mut input = json!({
                "session_id": id, "cwd": self.checkout, "hook_event_name": event,
            });
            for (key, value) in more.as_object().into_iter().flatten() {
                input[key] = value.clone();
            }
            let mut command = self.command(&["hook", word, "--agent", "claude-code"]);
            let answer = run_to_end(&mut command, &input.to_string())?;
            if answer.trim().is_empty() {
                return Ok(String::new());
            }
            let answer: Value = serde_json::from_str(&answer)?;
            let text = answer["hookSpecificOutput"]["additionalContext"].as_str();
            Ok(text.unwrap_or_default().to_owned())
        };
        let start = hook("session-start", "SessionStart", json!({ "source": "startup" }))?;
        let mut beside = Vec::new();
        for prompt in prompts {
            beside.push(hook("user-prompt", "UserPromptSubmit", json!({ "prompt": prompt.text }))?);
            hook("stop", "Stop", json!({ "last_assistant_message": "Done." }))?;
        }
        hook("pre-compact", "PreCompact", json!({ "trigger": "manual" }))?;
        let again = hook("session-start", "SessionStart", json!({ "source": "compact" }))?;
        Ok(Shown { start, beside, again: Some(again) })
    }

    /// Returns the session that an index of the memories would give.
    fn index_alone(&self) -> anyhow::Result<Shown> {
        let mut command = self.command(&["context", "--agent", "claude-code", "--json"]);
        command.env("LUKASA_FEATURES", "-hot_set");
        let shown: Value = serde_json::from_str(&run_to_end(&mut command, "")?)?;
        let parts = shown["parts"].as_array().into_iter().flatten();
        let index = parts.filter(|part| part["part"] == "index");
        let start = index.filter_map(|part| part["text"].as_str()).collect();
        Ok(Shown { start, beside: vec![String::new(); TURNS], again: None })
    }
}

/// The texts that a model was given in a session.
struct Shown {
    start: String,
    /// The text beside each prompt.
    beside: Vec<String>,
    /// The text after a compaction, if there was one.
    again: Option<String>,
}

/// Returns the baselines to compare with: a program that shows every fact, and one that searches for a few.
fn baselines(facts: &[Fact], prompts: &[&Prompt]) -> [(&'static str, Shown); 2] {
    let bullet = |fact: &Fact| format!("- {}\n", fact.text);
    let all = Shown {
        start: facts.iter().map(bullet).collect(),
        beside: vec![String::new(); prompts.len()],
        again: None,
    };
    let index = Bm25::new(facts.iter().map(|fact| fact.text.as_str()));
    let mut given = std::collections::HashSet::new();
    let beside = prompts.iter().map(|prompt| {
        let best = index.rank(&prompt.text).into_iter().take(BM25_SHOWN);
        best.filter(|fact| given.insert(*fact)).map(|fact| bullet(&facts[fact])).collect()
    });
    let found = Shown { start: String::new(), beside: beside.collect(), again: None };
    [("all as bullets", all), ("BM25, first three beside each prompt", found)]
}

impl Shown {
    fn rows(&self, label: &str, facts: &[Fact], prompts: &[&Prompt]) -> Vec<ReportLine> {
        let start = plain(&self.start);
        let beside: Vec<String> = self.beside.iter().map(|text| plain(text)).collect();
        let by_id: BTreeMap<&str, &Fact> =
            facts.iter().map(|fact| (fact.id.as_str(), fact)).collect();
        let (mut needed, mut there) = (0_u32, 0_u32);
        for (turn, prompt) in prompts.iter().enumerate() {
            for fact in prompt.needs.iter().filter_map(|id| by_id.get(id.as_str())) {
                let text = plain(&fact.text);
                needed += 1;
                let is_there = start.contains(&text)
                    || beside.iter().take(turn + 1).any(|beside| beside.contains(&text));
                there += u32::from(is_there);
            }
        }
        let rules = facts.iter().filter(|fact| fact.is_rule);
        let rules = rules.filter(|rule| start.contains(&plain(&rule.text))).count();
        let doubles = facts.iter().filter(|fact| {
            let text = plain(&fact.text);
            let times = |given: &String| given.matches(&text).count();
            times(&start) + beside.iter().map(times).sum::<usize>() > 1
        });
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let mut rows = vec![
            ReportLine::share(
                format!("{label}: needed"),
                f64::from(there) / f64::from(needed.max(1)),
            ),
            ReportLine::count(
                format!("{label}: tokens of the start"),
                count(tokens::count(&self.start)),
            ),
            ReportLine::count(format!("{label}: cost"), self.cost()),
            ReportLine::count(format!("{label}: rules"), count(rules)),
            ReportLine::count(format!("{label}: doubles"), count(doubles.count())),
        ];
        if let Some(again) = &self.again {
            let again = plain(again);
            let lost = facts.iter().map(|fact| plain(&fact.text));
            let lost = lost.filter(|fact| start.contains(fact) && !again.contains(fact)).count();
            rows.push(ReportLine::count(format!("{label}: lost by a compaction"), count(lost)));
        }
        rows
    }

    /// Returns the cost of everything that was given until the last turn.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "token counts of a session are far below 2^52"
    )]
    fn cost(&self) -> u64 {
        let requests = TURNS * REQUESTS_PER_TURN;
        let cost = |text: &str, first: usize| {
            let later = (requests - first - 1) as f64;
            tokens::count(text) as f64 * (WRITE_COST + later * READ_COST)
        };
        let beside = self.beside.iter().enumerate();
        let beside = beside.map(|(turn, text)| cost(text, turn * REQUESTS_PER_TURN));
        (cost(&self.start, 0) + beside.sum::<f64>()).round() as u64
    }
}

/// Returns a text for comparison: without the marks of escaping, and with single spaces.
fn plain(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">");
    let text = text.replace("&quot;", "\"").replace("&amp;", "&");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_at_the_start_is_read_in_each_later_request() {
        let shown = |start: &str, last: &str| {
            let mut beside = vec![String::new(); TURNS];
            beside[TURNS - 1] = last.to_owned();
            Shown { start: start.to_owned(), beside, again: None }.cost()
        };
        assert_eq!(tokens::count("tea"), 1);
        // 1.25 + 159 * 0.1, rounded.
        assert_eq!(shown("tea", ""), 17);
        assert_eq!(shown("tea tea tea tea", ""), 69);
        // 1.25 + 7 * 0.1, rounded.
        assert_eq!(shown("", "tea"), 2);
    }

    #[test]
    fn escaped_texts_are_found() {
        assert_eq!(plain("- a  &lt;b>\n c"), "- a <b> c");
    }
}
