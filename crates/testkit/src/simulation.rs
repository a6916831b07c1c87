//! Acts of simulated callers, and the plain model that a store is compared with.

#![expect(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a mistake of the simulator fails its test, whose duration and seed are in the environment"
)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use memory::change::ChangeKind;
use memory::command::{MemoryCommand, Reply};
use memory::document::Revision;
use memory::path::{Layout, MemoryPath};
use store::{
    CallContext, Caller, ChangesQuery, DryRun, Memories, Precondition, StoreError, UndoTarget,
};

use crate::random::Random;

/// The text of each memory by its scope and path.
pub type SimFiles = BTreeMap<String, String>;

/// Text in every memory that an agent creates, until it is replaced.
pub const REPLACED: &str = "more of it\n";

/// An act of one caller. Names are those of [`SimFiles`].
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are named like those of the commands")]
pub enum SimAct {
    /// Creates a memory.
    Create { name: String, text: String },
    /// Replaces [`REPLACED`].
    Replace { name: String, new: String },
    /// Inserts lines at the start.
    Insert { name: String, text: String },
    /// Deletes a memory or a folder.
    Delete { name: String },
    /// Renames a memory or a folder.
    Rename { from: String, to: String },
    /// A person's save, with or without an existing memory.
    Save { name: String, text: String },
    /// All possible acts of this list, as one change.
    Draft(Vec<Self>),
    /// Undoes the newest change.
    Undo,
}

impl SimAct {
    /// Returns the expected state after the act; `None` if it has to be refused.
    ///
    /// `last` is the state before the newest change.
    pub fn effect(&self, model: &SimFiles, last: Option<&SimFiles>) -> Option<SimFiles> {
        let mut after = model.clone();
        match self {
            Self::Create { name, text } => {
                if after.insert(name.clone(), text.clone()).is_some() {
                    return None;
                }
            }
            Self::Replace { name, new } => {
                let text = after.get_mut(name)?;
                if text.matches(REPLACED).count() != 1 {
                    return None;
                }
                *text = text.replace(REPLACED, new);
            }
            Self::Insert { name, text } => after.get_mut(name)?.insert_str(0, text),
            Self::Delete { name } => after.retain(|known, _| below(known, name).is_none()),
            Self::Rename { from, to } => {
                let moved: Vec<_> =
                    model.keys().filter_map(|name| Some((name, below(name, from)?))).collect();
                for (name, rest) in &moved {
                    let text = after.remove(*name)?;
                    if after.insert(format!("{to}{rest}"), text).is_some() {
                        return None;
                    }
                }
                if scope(from) != scope(to) {
                    return None;
                }
            }
            Self::Save { name, text } => {
                after.insert(name.clone(), text.clone());
            }
            Self::Draft(acts) => {
                for act in acts {
                    after = act.effect(&after, None).unwrap_or(after);
                }
            }
            Self::Undo => after.clone_from(last?),
        }
        (after != *model).then_some(after)
    }

    /// Returns whether the act is about a folder. Real folders may be empty; those of the model may not.
    pub fn is_about_a_folder(&self) -> bool {
        match self {
            Self::Delete { name } | Self::Rename { from: name, .. } => !name.contains('.'),
            Self::Draft(acts) => acts.iter().any(Self::is_about_a_folder),
            Self::Undo => true,
            Self::Create { .. }
            | Self::Replace { .. }
            | Self::Insert { .. }
            | Self::Save { .. } => false,
        }
    }
}

/// Returns the rest of a name that is `folder` or is inside of it.
fn below<'a>(name: &'a str, folder: &str) -> Option<&'a str> {
    name.strip_prefix(folder).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn scope(name: &str) -> Option<&str> {
    Some(name.split_once('/')?.0)
}

const NAMES: [&str; 8] = [
    "global/a.md",
    "global/b.md",
    "global/d/a.md",
    "global/d/e/b.md",
    "global/f/c.md",
    "project/a.md",
    "project/d/a.md",
    "project/d/b.md",
];
const FOLDERS: [&str; 4] = ["global/d", "global/d/e", "global/f", "project/d"];

/// A source of acts: the same seed and the same answers give the same acts.
#[derive(Debug)]
pub struct SimActs {
    /// The source of all choices of a run.
    pub random: Random,
    /// Number of texts and folders that were named.
    name_count: usize,
}

impl SimActs {
    /// Returns the source of this seed.
    pub const fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), name_count: 0 }
    }

    /// Returns a memory name, which may be taken.
    pub fn name(&mut self, model: &SimFiles) -> String {
        let known: Vec<_> = model.keys().cloned().collect();
        if known.is_empty() || self.random.one_in(2) {
            return (*self.random.pick(&NAMES)).to_owned();
        }
        self.random.pick(&known).clone()
    }

    /// Returns a new, unique text.
    pub fn text(&mut self) -> String {
        self.name_count += 1;
        format!("fact {}\n{REPLACED}", self.name_count)
    }

    fn new_folder(&mut self, beside: &str) -> String {
        self.name_count += 1;
        let scope = beside.split_once('/').unwrap().0;
        format!("{scope}/moved {}", self.name_count)
    }

    /// Returns any act. An undo is only possible while the effect of the newest change is known.
    pub fn act(&mut self, model: &SimFiles) -> SimAct {
        match self.random.below(16) {
            13 => SimAct::Draft(
                (0..=self.random.below(5)).map(|_| self.act_for_draft(model)).collect(),
            ),
            15 => SimAct::Undo,
            14 => self.rename_of_folder(),
            _ => self.act_for_draft(model),
        }
    }

    /// Returns an act of one command.
    pub fn single_act(&mut self, model: &SimFiles) -> SimAct {
        if self.random.one_in(10) { self.rename_of_folder() } else { self.act_for_draft(model) }
    }

    fn rename_of_folder(&mut self) -> SimAct {
        let from = (*self.random.pick(&FOLDERS)).to_owned();
        SimAct::Rename { to: self.new_folder(&from), from }
    }

    /// Returns an act that may be part of a draft.
    pub fn act_for_draft(&mut self, model: &SimFiles) -> SimAct {
        let name = self.name(model);
        match self.random.below(13) {
            0..=3 => SimAct::Create { name, text: self.text() },
            4..=5 => SimAct::Replace { name, new: self.text() },
            6 => SimAct::Insert { name, text: self.text() },
            7 => SimAct::Save { name, text: self.text() },
            8..=9 => SimAct::Delete { name },
            10 => SimAct::Delete { name: (*self.random.pick(&FOLDERS)).to_owned() },
            _ => SimAct::Rename { from: name, to: self.name(model) },
        }
    }
}

/// The variable with the one seed to run.
const SEED: &str = "LUKASA_SIM_SEED";
/// The variable with the seconds to try seeds for.
const SECONDS: &str = "LUKASA_SIM_SECONDS";

/// Runs seeds from 0 on: at least `least`, and until the seconds of `LUKASA_SIM_SECONDS` are over. `LUKASA_SIM_SEED` chooses one
/// seed instead. A run that panics fails the test with its seed. Returns what the runs returned.
pub async fn run_seeds<T, Running>(least: u64, run: impl Fn(u64) -> Running) -> Vec<T>
where
    T: Send + 'static,
    Running: Future<Output = T> + Send + 'static,
{
    let chosen: Option<u64> = std::env::var(SEED).ok().map(|seed| seed.parse().unwrap());
    let seconds = std::env::var(SECONDS).map_or(0, |text| text.parse().unwrap());
    let start = Instant::now();
    let mut results = Vec::new();
    for seed in chosen.unwrap_or(0).. {
        // Runs in a task of its own: its panic is caught here, where the seed is known.
        match tokio::spawn(run(seed)).await {
            Ok(result) => results.push(result),
            Err(error) => panic!("run it again with {SEED}={seed}: {error}"),
        }
        let is_over = seed + 1 >= least && start.elapsed() >= Duration::from_secs(seconds);
        if is_over || chosen.is_some() {
            break;
        }
    }
    results
}

/// Prints an event of a run if one seed was chosen.
pub fn log_event(event: impl FnOnce() -> String) {
    if std::env::var_os(SEED).is_some() {
        eprintln!("{}", event());
    }
}

/// Executes an act of an agent, or of a person with the same memories. Returns whether it succeeded, and was not refused.
///
/// # Errors
///
/// Those of the store.
pub async fn execute(agent: &Memories, act: &SimAct, model: &SimFiles) -> Result<bool, StoreError> {
    let person = || agent.for_caller(Caller::person("test"));
    let command = match act {
        SimAct::Save { name, text } => {
            let current = model.get(name).map(|text| Revision::digest(text.as_bytes()));
            let expected = current.map_or(Precondition::Absent, Precondition::from);
            let saved = person().save(&path(name), text, expected, &CallContext::default()).await;
            return saved.map(|_| true);
        }
        SimAct::Draft(acts) => {
            let mut draft = agent.draft(ChangeKind::Draft, CallContext::default());
            for act in acts {
                match act {
                    SimAct::Save { name, text } => draft.set_text(&path(name), text).await?,
                    act => drop(draft.apply(command(act)).await?),
                }
            }
            return Ok(draft.commit().await?.is_some());
        }
        SimAct::Undo => {
            let person = person();
            let query = ChangesQuery { max: 1, ..ChangesQuery::default() };
            let change = person.changes(&query).await?.remove(0);
            let target = UndoTarget::Change(change.id);
            return person.undo(&target, DryRun::No, &CallContext::default()).await.map(|_| true);
        }
        act => command(act),
    };
    Ok(matches!(agent.apply(command, &CallContext::default()).await?, Reply::Done { .. }))
}

/// Executes an act that nothing disturbs. Fails unless its result is that of the model, and updates the model and the state
/// before the newest change (`None` if it is not known). Returns whether the act succeeded.
pub async fn run_undisturbed(
    agent: &Memories,
    act: &SimAct,
    model: &mut SimFiles,
    last: &mut Option<SimFiles>,
) -> bool {
    let effect = act.effect(model, last.as_ref());
    let done = execute(agent, act, model).await.unwrap();
    // The model has no empty folders, which can be deleted and renamed like any other.
    let agrees = done == effect.is_some() || act.is_about_a_folder() && effect.is_none();
    assert!(agrees, "{act:?} done: {done}, expected {effect:?}");
    match effect {
        Some(after) => *last = Some(std::mem::replace(model, after)),
        None if done => *last = None,
        None => {}
    }
    done
}

/// Writes in each scope, and takes that back. So the writes that a dead process left are recovered.
pub async fn write_in_each_scope(agent: &Memories, model: &SimFiles) {
    for scope in ["global", "project"] {
        let name = format!("{scope}/meanwhile.md");
        let made = SimAct::Create { name: name.clone(), text: "meanwhile\n".to_owned() };
        for act in [made, SimAct::Delete { name }] {
            assert!(execute(agent, &act, model).await.unwrap(), "{act:?}");
        }
    }
}

/// Returns the command of an agent for an act of its own.
fn command(act: &SimAct) -> MemoryCommand {
    match act.clone() {
        SimAct::Create { name, text } => {
            MemoryCommand::Create { path: path(&name), file_text: text }
        }
        SimAct::Replace { name, new } => MemoryCommand::StrReplace {
            path: path(&name),
            old_str: REPLACED.to_owned(),
            new_str: new,
        },
        SimAct::Insert { name, text } => {
            MemoryCommand::Insert { path: path(&name), insert_line: 0, insert_text: text }
        }
        SimAct::Delete { name } => MemoryCommand::Delete { path: path(&name) },
        SimAct::Rename { from, to } => {
            MemoryCommand::Rename { old_path: path(&from), new_path: path(&to) }
        }
        SimAct::Save { .. } | SimAct::Draft(_) | SimAct::Undo => {
            unreachable!("no command of an agent")
        }
    }
}

fn path(name: &str) -> MemoryPath {
    MemoryPath::parse(&format!("/memories/{name}"), Layout::Scoped).unwrap()
}
