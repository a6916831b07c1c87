//! A seeded simulator: several callers, crashes, a clock that jumps, somebody with an editor, all
//! against a plain model of what must be there.
//!
//! `QUIPU_SIM_SECONDS` says how long to look for trouble (a few seeds when it is not set), and
//! `QUIPU_SIM_SEED` runs one seed again. A failing seed is in the message.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use memory::command::{Command, Reply};
use store::{Call, Dry, Memories, Store, UndoTarget};

use crate::host::{Host, at, texts};

/// Xorshift: good enough to vary a test, and the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(bound).unwrap()).unwrap()
    }
}

/// What must be there: the text of each memory by its path below the root.
type Model = BTreeMap<String, String>;

struct World {
    host: Host,
    stores: Vec<Arc<Store>>,
    model: Model,
    random: Random,
    text: usize,
}

const NAMES: [&str; 6] = ["a.md", "b.md", "d/a.md", "d/e/b.md", "f/c.md", "f/d.md"];

impl World {
    fn new(seed: u64) -> Self {
        let host = Host::new();
        let stores = vec![host.store(), host.store()];
        let random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        Self { host, stores, model: Model::new(), random, text: 0 }
    }

    fn name(&mut self) -> String {
        NAMES[self.random.below(NAMES.len())].to_owned()
    }

    fn text(&mut self) -> String {
        self.text += 1;
        format!("fact {}\nmore of it\n", self.text)
    }

    fn agent(&mut self) -> Memories {
        let one = self.random.below(self.stores.len());
        self.host.agent(&self.stores[one])
    }

    async fn step(&mut self) {
        match self.random.below(20) {
            0..=4 => self.create().await,
            5..=8 => self.edit().await,
            9..=10 => self.delete().await,
            11..=12 => self.rename().await,
            13 => self.undo().await,
            14..=15 => self.by_hand(),
            16 => self.kill(),
            17 => self.clock(),
            18 => self.stores[0].settle().await,
            _ => self.look().await,
        }
    }

    async fn create(&mut self) {
        let (name, text) = (self.name(), self.text());
        let command = Command::Create { path: path(&name), file_text: text.clone() };
        if self.apply(command).await {
            assert!(self.model.insert(name.clone(), text).is_none(), "{name} was there already");
        } else {
            assert!(self.model.contains_key(&name), "{name} could have been made");
        }
    }

    async fn edit(&mut self) {
        let (name, new) = (self.name(), self.text());
        let old_str = "more of it\n".to_owned();
        let command = Command::StrReplace {
            path: path(&name),
            old_str: old_str.clone(),
            new_str: new.clone(),
        };
        let known = self.model.get(&name).cloned();
        let expected = known.filter(|text| text.matches(&old_str).count() == 1);
        let done = self.apply(command).await;
        assert_eq!(done, expected.is_some(), "an edit of {name}");
        if let Some(text) = expected {
            self.model.insert(name, text.replace(&old_str, &new));
        }
    }

    async fn delete(&mut self) {
        let name = self.name();
        let folder = name.split_once('/').map(|(folder, _)| folder.to_owned());
        let target = folder.filter(|_| self.random.below(3) == 0).unwrap_or(name);
        let done = self.apply(Command::Delete { path: path(&target) }).await;
        let below = format!("{target}/");
        let gone: Vec<_> = self
            .model
            .keys()
            .filter(|name| **name == target || name.starts_with(&below))
            .cloned()
            .collect();
        assert!(done || gone.is_empty(), "{target} could have been deleted");
        for name in gone {
            self.model.remove(&name);
        }
    }

    async fn rename(&mut self) {
        let (from, to) = (self.name(), self.name());
        let command = Command::Rename { old_path: path(&from), new_path: path(&to) };
        let possible = self.model.contains_key(&from) && !self.model.contains_key(&to);
        assert_eq!(self.apply(command).await, possible, "{from} to {to}");
        if possible {
            let text = self.model.remove(&from).unwrap();
            self.model.insert(to, text);
        }
    }

    /// Takes the last change of an agent back, and that again: nothing is different afterwards.
    async fn undo(&mut self) {
        let person = self.host.person(&self.stores[0]);
        let query = store::ChangesQuery { max: 1, ..Default::default() };
        let Some(change) = person.changes(&query).await.unwrap().into_iter().next() else { return };
        let target = UndoTarget::Change(change.id);
        let undone = person.undo(&target, Dry::No, &Call::default()).await;
        if let Ok(undone) = undone {
            let again = UndoTarget::Change(undone.change.unwrap());
            person.undo(&again, Dry::No, &Call::default()).await.unwrap();
        }
    }

    /// Somebody uses an editor.
    fn by_hand(&mut self) {
        let (name, text) = (self.name(), self.text());
        let file = self.host.global(&name);
        if self.random.below(4) == 0 {
            if self.model.remove(&name).is_some() {
                fs::remove_file(file).unwrap();
            }
        } else {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, &text).unwrap();
            self.model.insert(name, text);
        }
    }

    /// One process dies and another starts.
    fn kill(&mut self) {
        let one = self.random.below(self.stores.len());
        self.stores[one] = self.host.store();
    }

    fn clock(&mut self) {
        let hours = u64::try_from(self.random.below(48)).unwrap();
        if self.random.below(2) == 0 {
            self.host.clock.advance(Duration::from_secs(hours * 3_600));
        } else {
            self.host.clock.set(memory::clock::Timestamp::from_second(1_760_000_000).unwrap());
        }
    }

    async fn look(&mut self) {
        let agent = self.agent();
        let listed = agent.list(None).await.unwrap().memories;
        let listed: Vec<_> = listed.iter().map(|one| one.path.to_string()).collect();
        let expected: Vec<_> =
            self.model.keys().map(|name| format!("/memories/global/{name}")).collect();
        assert_eq!(listed, expected);
        agent.notice().await.unwrap();
    }

    async fn apply(&mut self, command: Command) -> bool {
        let agent = self.agent();
        matches!(agent.apply(command, &Call::default()).await.unwrap(), Reply::Done { .. })
    }

    /// What is on disk is what the model says, and history agrees with it.
    async fn check(&mut self) {
        let expected: Vec<_> = self.model.clone().into_iter().collect();
        assert_eq!(texts(&self.host.global("")), expected);
        let person = self.host.person(&self.stores[0]);
        person.notice().await.unwrap();
        for (name, text) in &expected {
            let revision = memory::document::Revision::of(text.as_bytes());
            let kept = person.content(&revision).await.unwrap();
            assert_eq!(kept.as_deref(), Some(text.as_bytes()), "{name} is not in history");
        }
        let faults = person.health(store::Depth::Thorough).await.unwrap().findings;
        let broken: Vec<_> =
            faults.iter().filter(|found| found.kind.as_str() == "state-damaged").collect();
        assert!(broken.is_empty(), "{broken:?}");
    }
}

fn path(name: &str) -> memory::path::MemoryPath {
    at(&format!("/memories/global/{name}"))
}

async fn run(seed: u64) {
    let mut world = World::new(seed);
    for _ in 0..60 {
        world.step().await;
        let expected: Vec<_> = world.model.clone().into_iter().collect();
        assert_eq!(texts(&world.host.global("")), expected);
    }
    world.check().await;
}

#[tokio::test]
async fn callers_crashes_and_editors_agree_with_a_plain_model() {
    if let Ok(seed) = std::env::var("QUIPU_SIM_SEED") {
        return run(seed.parse().unwrap()).await;
    }
    let seconds = std::env::var("QUIPU_SIM_SECONDS").map_or(0, |text| text.parse().unwrap());
    let (start, least) = (Instant::now(), 10);
    let mut seed = 0;
    while seed < least || start.elapsed() < Duration::from_secs(seconds) {
        // A run of its own task: its panic is met here, where the seed is known.
        let ended = tokio::spawn(run(seed)).await;
        assert!(ended.is_ok(), "run it again with QUIPU_SIM_SEED={seed}");
        seed += 1;
    }
}
