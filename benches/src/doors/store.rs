//! The stores that the doors are measured on, in several sizes.
//!
//! Half of the memories are global and were imported. The other half lies in a checkout, as after a clone, and is
//! recorded by the first scan.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use memory::limits::{MEMORY_BYTES_MAX, SCOPE_FILES_MAX};

use super::process::run_to_end;
use crate::baseline;
use crate::fixture::{self, MEMORY_BYTES, init_checkout};
use crate::http::TOKEN;
use crate::texts::TextGenerator;

/// Folders of a scope that memories are spread over.
const FOLDERS: usize = 20;
/// Entries of a memory of some 600 bytes.
const ENTRIES: usize = 7;
/// Entries of a memory that is nearly as large as memories may be.
const ENTRIES_OF_LARGE: usize = 1_250;
/// The number of memories that the targets hold for.
const TARGET_MEMORIES: usize = 10_000;
/// Words of the description of a memory, which prompts repeat.
const TOPIC_WORDS: usize = 5;
/// Prompts about memories all over the store.
const PROMPTS: usize = 20;

/// The size of a store.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreSize {
    /// The size, as rows name it.
    pub(super) label: &'static str,
    pub(super) memories: usize,
    /// Entries of each memory.
    pub(super) entries: usize,
}

impl StoreSize {
    /// Returns whether targets for times and peak memory hold for this size.
    pub(super) const fn has_targets(&self) -> bool {
        self.memories == TARGET_MEMORIES
    }

    /// Returns whether the size is a number of small memories.
    pub(super) const fn counts_memories(&self) -> bool {
        self.entries < ENTRIES_OF_LARGE
    }

    const fn of_memories(label: &'static str, memories: usize) -> Self {
        Self { label, memories, entries: ENTRIES }
    }
}

/// The measured sizes. The last one has as much text as the one before, in few files.
pub(super) const SIZES: [StoreSize; 4] = [
    StoreSize::of_memories("100 memories", 100),
    StoreSize::of_memories("1,000 memories", 1_000),
    StoreSize::of_memories("10,000 memories", TARGET_MEMORIES),
    StoreSize { label: "100,000 entries", memories: 80, entries: ENTRIES_OF_LARGE },
];

/// The text of a memory.
#[derive(Debug)]
pub(super) struct MemoryText {
    /// The description of the memory.
    pub(super) topic: String,
    pub(super) text: String,
}

/// Returns the texts of all memories of a store, the same in each run.
pub(super) fn texts(size: StoreSize) -> Vec<MemoryText> {
    let mut generator = TextGenerator::new();
    let generate = |number| {
        let topic = generator.words(TOPIC_WORDS);
        let text =
            generator.memory(&topic, &format!("- {}\n", code_entry(number, 0)), size.entries);
        MemoryText { topic, text }
    };
    (0..size.memories).map(generate).collect()
}

/// Returns the word that only memory `number` contains.
pub(super) fn code(number: usize) -> String {
    format!("K{number:05}")
}

/// Returns the entry with that word, as it is after `turn` replacements.
pub(super) fn code_entry(number: usize, turn: usize) -> String {
    format!("The code of note {number} is {}, version {turn}.", code(number))
}

/// Returns a fact to remember, different for each number.
pub(super) fn fact(number: usize) -> String {
    format!("The port of service S{number:05} is {}.", 10_000 + number)
}

/// Returns the text of a memory to create.
pub(super) fn new_text(number: usize) -> String {
    fixture::text(number, MEMORY_BYTES)
}

/// A home and a checkout with memories.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) size: StoreSize,
    pub(super) home: PathBuf,
    pub(super) checkout: PathBuf,
    /// The numbers of some memories of both scopes, which most doors use.
    pub(super) asked: Vec<usize>,
    /// A prompt about each of them.
    pub(super) prompts: Vec<String>,
    /// Prompts about the other memories.
    pub(super) rare_prompts: Vec<String>,
    /// The time of the import of the global memories.
    pub(super) import: Duration,
    /// The time of the first command that records the memories of the checkout.
    pub(super) first_scan: Duration,
    lukasa: PathBuf,
}

impl Store {
    /// Creates a store below `folder`.
    pub(super) fn create(lukasa: &Path, folder: &Path, size: StoreSize) -> anyhow::Result<Self> {
        let (home, checkout) = (folder.join("home"), folder.join("checkout"));
        let source = folder.join("source");
        std::fs::create_dir_all(&home)?;
        std::fs::write(home.join("config.toml"), format!("files_max = {SCOPE_FILES_MAX}\n"))?;
        init_checkout(&checkout)?;
        let texts = texts(size);
        for (number, memory) in texts.iter().enumerate() {
            anyhow::ensure!(memory.text.len() <= MEMORY_BYTES_MAX, "a text is too large");
            let root = if is_global(number) { &source } else { &checkout.join(".lukasa/memory") };
            let file = root.join(relative_path(number));
            std::fs::create_dir_all(file.parent().unwrap_or(root))?;
            std::fs::write(file, &memory.text)?;
        }
        let step = size.memories / PROMPTS;
        let asked: Vec<usize> = (0..PROMPTS).map(|index| index * step + index % 2).collect();
        let prompt = |memory: &MemoryText| format!("What about {}?", memory.topic);
        let others = (0..texts.len()).filter(|number| !asked.contains(number));
        let mut store = Self {
            size,
            home,
            checkout,
            prompts: asked.iter().map(|&number| prompt(&texts[number])).collect(),
            rare_prompts: others.map(|number| prompt(&texts[number])).collect(),
            asked,
            import: Duration::ZERO,
            first_scan: Duration::ZERO,
            lukasa: lukasa.to_owned(),
        };
        let source = source.to_string_lossy().into_owned();
        store.import = store.time(&["import", "--format", "folder", "--to", "global", &source])?;
        store.time(&["trust", "--yes"])?;
        // `log` records what was written outside of Lukasa before it lists changes.
        store.first_scan = store.time(&["log", "--max", "1"])?;
        baseline::flush(folder)?;
        Ok(store)
    }

    /// Returns the command `lukasa` for this store, in its checkout.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.lukasa);
        command.args(arguments).env("LUKASA_HOME", &self.home).current_dir(&self.checkout);
        // A daemon that receives its token from the environment stores it in no file.
        command.env("LUKASA_TOKEN", TOKEN);
        command
    }

    fn time(&self, arguments: &[&str]) -> anyhow::Result<Duration> {
        let started = Instant::now();
        run_to_end(&mut self.command(arguments), "")?;
        Ok(started.elapsed())
    }
}

/// Returns the path of a memory, as the tools of MCP name it.
pub(super) fn virtual_path(number: usize) -> String {
    let scope = if is_global(number) { "global" } else { "project" };
    format!("/memories/{scope}/{}", relative_path(number))
}

const fn is_global(number: usize) -> bool {
    number.is_multiple_of(2)
}

fn relative_path(number: usize) -> String {
    format!("area{}/note{number}.md", number / 2 % FOLDERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_have_the_size_that_the_rows_name() {
        let average = |size: StoreSize| {
            let texts = texts(StoreSize { memories: 50, ..size });
            let bytes: usize = texts.iter().map(|memory| memory.text.len()).sum();
            (bytes / texts.len(), texts.iter().all(|memory| memory.text.len() < MEMORY_BYTES_MAX))
        };
        let (small, _) = average(SIZES[0]);
        assert!((550..650).contains(&small), "{small}");
        let (large, fits) = average(SIZES[3]);
        assert!(fits, "{large}");
        assert_eq!(SIZES[3].memories * SIZES[3].entries, 100_000);
    }

    #[test]
    fn only_one_memory_contains_its_code() {
        let texts = texts(SIZES[0]);
        for (number, _) in texts.iter().enumerate() {
            let holds = |memory: &&MemoryText| memory.text.contains(&code_entry(number, 0));
            assert_eq!(texts.iter().filter(holds).count(), 1);
        }
    }
}
