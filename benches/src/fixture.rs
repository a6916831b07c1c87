//! The memories that are measured: an engine over a folder, and generated texts to fill it with.
//!
//! The text of a memory depends only on its number, so runs can be compared.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use engine::{BaseFolders, BindingRequest, CallContext, Caller, Config, Engine, Memories};
use memory::access::AgentClass;
use memory::command::{MemoryCommand, Reply, ViewRange};
use memory::limits::{SETTLE_DELAY, USAGE_FLUSH_DELAY};
use memory::path::{Layout, MemoryPath};
use tokio::runtime::Runtime;

/// The size of a typical memory that an agent writes.
pub(crate) const MEMORY_BYTES: usize = 600;
/// Folders that memories are spread over.
pub(crate) const FOLDERS: usize = 10;
/// A word that each text contains once.
pub(crate) const MARK: &str = "XYZZY";

/// The global memories of one home, in process.
#[derive(Debug)]
pub(crate) struct Fixture {
    home: PathBuf,
    runtime: Runtime,
    engine: Engine,
    memories: Memories,
}

impl Fixture {
    /// Opens the home at `home`; the first write creates it.
    pub(crate) fn open(home: &Path) -> anyhow::Result<Self> {
        // The kind of runtime that the program uses too.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let folders = BaseFolders { data: home.to_owned(), state: home.join("state") };
        // Measured writes go beyond the default cap, which is not measured.
        let config = Config { files_max: 10_000, ..Config::new(folders) };
        let engine = Engine::open(config)?;
        let caller = Caller::agent(AgentClass::Exec, "bench");
        let memories = engine.memories(&BindingRequest::default(), caller);
        Ok(Self { home: home.to_owned(), runtime, engine, memories })
    }

    pub(crate) const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Runs a future of the engine to its end.
    pub(crate) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Runs a command and returns the text of its result; an error if it is refused.
    pub(crate) fn apply(&self, command: MemoryCommand) -> anyhow::Result<String> {
        match self.run(self.memories.apply(command, &CallContext::default()))? {
            Reply::Done { text, .. } => Ok(text),
            Reply::Refused(refusal) => anyhow::bail!("the command was refused: {refusal}"),
        }
    }

    /// Creates `count` memories, as an agent would.
    pub(crate) fn fill(&self, count: usize) -> anyhow::Result<()> {
        (0..count).try_for_each(|number| self.apply(create(number)?).map(drop))
    }

    /// Waits until the background work that follows writes is done, as it is when an agent pauses.
    pub(crate) fn wait_for_quiet(&self) -> anyhow::Result<()> {
        const MARGIN: Duration = Duration::from_millis(300);
        self.run(async { tokio::time::sleep(SETTLE_DELAY + USAGE_FLUSH_DELAY + MARGIN).await });
        crate::baseline::flush(&self.home)
    }

    /// Closes the engine, as at the end of the program.
    pub(crate) fn close(&self) {
        self.run(self.engine.close());
    }
}

/// Creates a git checkout.
pub(crate) fn init_checkout(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    let init = Command::new("git").args(["init", "--quiet"]).arg(folder).status()?;
    anyhow::ensure!(init.success(), "`git init` failed in {}", folder.display());
    Ok(())
}

/// Returns the path of a memory by its number.
pub(crate) fn path(number: usize) -> anyhow::Result<MemoryPath> {
    let text = virtual_path(number);
    Ok(MemoryPath::parse(&text, Layout::Scoped)?)
}

/// Returns the text of that path.
pub(crate) fn virtual_path(number: usize) -> String {
    format!("/memories/global/dir{}/note{number}.md", number % FOLDERS)
}

/// Returns the command that creates a memory.
pub(crate) fn create(number: usize) -> anyhow::Result<MemoryCommand> {
    Ok(MemoryCommand::Create { path: path(number)?, file_text: text(number, MEMORY_BYTES) })
}

/// Returns the command that changes one word of a memory; `turn` says which word to which.
pub(crate) fn replace(number: usize, turn: usize) -> anyhow::Result<MemoryCommand> {
    let word = |turn: usize| if turn == 0 { MARK.to_owned() } else { format!("word{turn}") };
    Ok(MemoryCommand::StrReplace {
        path: path(number)?,
        old_str: format!("the word is {}.", word(turn)),
        new_str: format!("the word is {}.", word(turn + 1)),
    })
}

/// Returns the command that shows a whole memory.
pub(crate) fn view(number: usize) -> anyhow::Result<MemoryCommand> {
    Ok(MemoryCommand::View { path: path(number)?, lines: ViewRange::Whole })
}

/// Returns a text of at most `bytes` bytes, different for each number.
pub(crate) fn text(number: usize, bytes: usize) -> String {
    const LINES: [&str; 4] = [
        "- Builds run on the small machine; the large one is for releases.\n",
        "- Reviews are asked for in the morning, because nobody reads them at night.\n",
        "- The port of the test database is written in the compose file.\n",
        "- Names of branches begin with the number of the issue.\n",
    ];
    let mut text = format!(
        "---\nname: note {number}\ndescription: what was learned about topic {number}\n---\n\
         - In note {number} the word is {MARK}.\n"
    );
    let lines = LINES.iter().cycle().skip(number % LINES.len());
    for line in lines {
        if text.len() + line.len() > bytes {
            break;
        }
        text.push_str(line);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_differ_and_contain_the_mark_once() {
        for bytes in [MEMORY_BYTES, 4_096] {
            let (one, two) = (text(1, bytes), text(2, bytes));
            assert_ne!(one, two);
            assert!((bytes - 100..=bytes).contains(&one.len()), "{}", one.len());
            assert_eq!(one.matches(MARK).count(), 1);
        }
    }
}
