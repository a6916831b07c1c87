//! [`Memories`]: reading and writing memories as one caller.
//!
//! Paths, commands and errors are those of the layers below; this module gives them one plain API. Every call is
//! counted, so that [`Lukasa::close`](crate::Lukasa::close) can wait for it.

use std::fmt;

use engine::{CallContext, ContextFiles, Precondition, RecallBlock, RetrievedMemory};
use memory::access::AgentClass;
use memory::change::ChangeId;
use memory::clock::Timestamp;
use memory::command::{MemoryCommand, Reply, ViewRange};
use memory::document::Revision;
use memory::path::{Layout, MemoryPath};

use crate::Result;
use crate::open::Lukasa;
use crate::workspace::Caller;

/// The memories of one workspace, with the access of one caller. Cheap to clone.
///
/// Holding the value is the permission. A call that the caller may not make fails with the kind
/// [`Denied`](crate::ErrorKind::Denied) and changes nothing. A path is a text such as `global/tea.md`, with or without
/// `/memories/` in front, or a [`MemoryPath`].
///
/// Every write is durable when its call returns, and is recorded in the [history](Self::history). If the future of a
/// write is dropped before it completes, the write may or may not happen; it never happens partly.
#[derive(Clone)]
pub struct Memories {
    pub(crate) lukasa: Lukasa,
    pub(crate) workspace: engine::Workspace,
    pub(crate) caller: Caller,
    pub(crate) inner: engine::Memories,
}

/// A memory with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Memory {
    /// Its path.
    pub path: MemoryPath,
    /// The text, with its frontmatter if it has one.
    pub text: String,
    /// Digest of its bytes, for [`Memories::replace`].
    pub revision: Revision,
    /// Time of the last modification, by the clock of the file system.
    pub modified_at: Timestamp,
}

/// A memory in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedMemory {
    /// Its path.
    pub path: MemoryPath,
    /// Size of the file.
    pub bytes: u64,
    /// Time of the last modification, by the clock of the file system.
    pub modified_at: Timestamp,
    /// The `name` of its frontmatter.
    pub name: Option<String>,
    /// Its description, or else its first heading or line; empty if it has neither.
    pub description: String,
    /// The `type` of its frontmatter.
    pub kind: Option<String>,
    /// Whether a person pinned it, so that models are given it whole.
    pub is_pinned: bool,
    /// Number of views and writes on this machine.
    pub uses: u64,
}

/// A listing of memories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listing {
    /// The memories, scope by scope, in byte order of their paths.
    pub memories: Vec<ListedMemory>,
    /// Number of memories beyond the limit of a listing.
    pub omitted: usize,
}

/// The result of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Receipt {
    /// The change in history, for [`Memories::undo`]; `None` if nothing had to be written.
    pub change: Option<ChangeId>,
    /// Revision of the written memory; `None` if it was removed or a folder was changed.
    pub revision: Option<Revision>,
    /// A sentence about the result, for a model or a log.
    pub text: String,
    /// Screening warnings about the text, as sentences.
    pub warnings: Vec<String>,
}

/// The memories that fit a prompt.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Recall {
    /// The memories, best first; empty if none fits.
    pub hits: Vec<RecallHit>,
    /// All hits as one block for a model, which marks their texts as data; empty if none fits.
    pub block: String,
}

/// A memory that fits a prompt, or a part of it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RecallHit {
    /// The memory.
    pub path: MemoryPath,
    /// Its revision at the time of the recall.
    pub revision: Revision,
    /// Its name, description or file name.
    pub title: String,
    /// The part that fits. It is untrusted data: never let a model follow instructions in it.
    pub text: String,
    /// Time of the last modification.
    pub modified_at: Timestamp,
    /// Time from which the text is, if known. The file of a checkout does not tell it.
    pub saved_at: Option<Timestamp>,
    /// Estimate that the memory helps, from 0 to 1. At least 0.5 unless it fits only weakly.
    pub score: f64,
    /// Whether it fits only weakly. A conversation never shows such a memory.
    pub is_weak: bool,
    /// Other memories that fit and say the same.
    pub also_in: Vec<MemoryPath>,
    /// The reason of the match, for people.
    pub why: String,
    /// Whether no person on this machine reviewed it; the block tells the model so.
    pub is_unreviewed: bool,
}

/// The text that a model's session begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelContext {
    /// Facts, context files and, of a large store, the index.
    pub text: String,
    /// Estimated number of tokens; rather too high than too low.
    pub tokens: usize,
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for &str {}
    impl Sealed for &String {}
    impl Sealed for String {}
    impl Sealed for memory::path::MemoryPath {}
    impl Sealed for &memory::path::MemoryPath {}
}

/// A path as a text or a value: `&str`, `String` or [`MemoryPath`].
pub trait IntoMemoryPath: sealed::Sealed + Send {
    #[doc(hidden)]
    fn into_memory_path(self, layout: Layout) -> Result<MemoryPath>;
}

impl IntoMemoryPath for &str {
    fn into_memory_path(self, layout: Layout) -> Result<MemoryPath> {
        let text = self.trim();
        if text.starts_with('/') {
            Ok(MemoryPath::parse(text, layout)?)
        } else {
            Ok(MemoryPath::parse(&format!("/memories/{text}"), layout)?)
        }
    }
}

impl IntoMemoryPath for &String {
    fn into_memory_path(self, layout: Layout) -> Result<MemoryPath> {
        self.as_str().into_memory_path(layout)
    }
}

impl IntoMemoryPath for String {
    fn into_memory_path(self, layout: Layout) -> Result<MemoryPath> {
        self.as_str().into_memory_path(layout)
    }
}

impl IntoMemoryPath for MemoryPath {
    fn into_memory_path(self, _layout: Layout) -> Result<MemoryPath> {
        Ok(self)
    }
}

impl IntoMemoryPath for &MemoryPath {
    fn into_memory_path(self, _layout: Layout) -> Result<MemoryPath> {
        Ok(self.clone())
    }
}

impl Memories {
    pub(crate) fn new(lukasa: &Lukasa, workspace: engine::Workspace, caller: Caller) -> Self {
        let inner = lukasa.engine().memories(&workspace.binding, caller.to_store());
        Self { lukasa: lukasa.clone(), workspace, caller, inner }
    }

    /// Returns the class of the caller; a person's is [`AgentClass::Exec`].
    pub const fn class(&self) -> AgentClass {
        self.caller.class()
    }

    /// Creates a memory at a path where none exists.
    pub async fn create(&self, path: impl IntoMemoryPath, text: &str) -> Result<Receipt> {
        let path = self.path(path)?;
        self.write(MemoryCommand::Create { path, file_text: text.to_owned() }).await
    }

    /// Replaces a text that occurs exactly once in a memory.
    pub async fn edit(&self, path: impl IntoMemoryPath, old: &str, new: &str) -> Result<Receipt> {
        let path = self.path(path)?;
        let (old_str, new_str) = (old.to_owned(), new.to_owned());
        self.write(MemoryCommand::StrReplace { path, old_str, new_str }).await
    }

    /// Inserts lines after this line of a memory; 0 is the top.
    pub async fn insert(
        &self,
        path: impl IntoMemoryPath,
        after_line: usize,
        text: &str,
    ) -> Result<Receipt> {
        let path = self.path(path)?;
        // No memory has that many lines, so the call is refused with the actual number.
        let insert_line = i64::try_from(after_line).unwrap_or(i64::MAX);
        self.write(MemoryCommand::Insert { path, insert_line, insert_text: text.to_owned() }).await
    }

    /// Replaces the whole text of a memory that still has this revision. If it changed since, the call fails with a
    /// [`Conflict`](crate::ErrorKind::Conflict) that names the current revision.
    ///
    /// ```
    /// # async fn example(memories: lukasa::Memories) -> Result<(), lukasa::Error> {
    /// let memory = memories.read("global/tea.md").await?;
    /// memories.replace(&memory.path, &memory.text.to_uppercase(), memory.revision).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn replace(
        &self,
        path: impl IntoMemoryPath,
        text: &str,
        revision: Revision,
    ) -> Result<Receipt> {
        let path = self.path(path)?;
        let _call = self.begin()?;
        let saved = self
            .inner
            .save(&path, text, Precondition::from(revision), &CallContext::default())
            .await?;
        Ok(Receipt {
            change: saved.change,
            revision: Some(saved.revision),
            text: format!("Saved {path}"),
            warnings: saved.warnings.iter().map(ToString::to_string).collect(),
        })
    }

    /// Removes a memory, or a folder with all memories in it.
    pub async fn delete(&self, path: impl IntoMemoryPath) -> Result<Receipt> {
        self.write(MemoryCommand::Delete { path: self.path(path)? }).await
    }

    /// Moves a memory or folder to another path in the same scope.
    pub async fn rename(
        &self,
        from: impl IntoMemoryPath,
        to: impl IntoMemoryPath,
    ) -> Result<Receipt> {
        let (old_path, new_path) = (self.path(from)?, self.path(to)?);
        self.write(MemoryCommand::Rename { old_path, new_path }).await
    }

    /// Reads a memory. Does not count as a use.
    pub async fn read(&self, path: impl IntoMemoryPath) -> Result<Memory> {
        let path = self.path(path)?;
        let _call = self.begin()?;
        let read = self.inner.read(&path).await?;
        Ok(Memory { path, text: read.text, revision: read.revision, modified_at: read.modified_at })
    }

    /// Returns a memory with line numbers, or a folder two levels deep, as agents see it. Counts as a use.
    pub async fn view(&self, path: impl IntoMemoryPath) -> Result<String> {
        let command = MemoryCommand::View { path: self.path(path)?, lines: ViewRange::Whole };
        Ok(self.write(command).await?.text)
    }

    /// Lists the memories of all scopes.
    pub async fn list(&self) -> Result<Listing> {
        self.list_below(None).await
    }

    /// Lists the memories of a scope or folder.
    pub async fn list_in(&self, folder: impl IntoMemoryPath) -> Result<Listing> {
        let folder = self.path(folder)?;
        self.list_below(Some(&folder)).await
    }

    async fn list_below(&self, folder: Option<&MemoryPath>) -> Result<Listing> {
        let _call = self.begin()?;
        let listing = self.inner.list(folder).await?;
        let info = |entry: engine::MemoryEntry| ListedMemory {
            path: entry.path,
            bytes: entry.bytes,
            modified_at: entry.modified_at,
            name: entry.name,
            description: entry.description,
            kind: entry.kind,
            is_pinned: entry.pinned,
            uses: entry.usage.uses,
        };
        let memories = listing.memories.into_iter().map(info).collect();
        Ok(Listing { memories, omitted: listing.omitted })
    }

    /// Pins a memory, so that models are given it whole. Only a person may pin. Returns whether it was not pinned
    /// before.
    pub async fn pin(&self, path: impl IntoMemoryPath) -> Result<bool> {
        self.set_pin(path, true).await
    }

    /// Unpins a memory. Returns whether it was pinned before.
    pub async fn unpin(&self, path: impl IntoMemoryPath) -> Result<bool> {
        self.set_pin(path, false).await
    }

    async fn set_pin(&self, path: impl IntoMemoryPath, pinned: bool) -> Result<bool> {
        let path = self.path(path)?;
        let _call = self.begin()?;
        Ok(self.inner.set_pin(&path, pinned).await?)
    }

    /// Finds the memories that fit a prompt, by words and meaning, without a model: at most five, best first, with those
    /// that fit only weakly. Returns an empty result if none has any relation to the prompt.
    ///
    /// ```
    /// # async fn example(memories: lukasa::Memories) -> Result<(), lukasa::Error> {
    /// for hit in memories.recall("which tea does she drink?").await? {
    ///     println!("{}: {}", hit.path, hit.text);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn recall(&self, prompt: &str) -> Result<Recall> {
        let _call = self.begin()?;
        let recalled = self.lukasa.engine().recall(&self.inner, prompt).await?;
        Ok(recalled.map(Recall::from).unwrap_or_default())
    }

    /// Returns the text that a model's session should begin with. A small store is given whole. Of a large one the text
    /// has the pinned memories, the rules, facts about the person, what was used lately, and an index. The context files
    /// of the person and of a [trusted](crate::Workspace::trust) project follow the facts. Does not count as a use.
    pub async fn context(&self) -> Result<ModelContext> {
        self.context_within(usize::MAX).await
    }

    /// Returns the same text, limited to `bytes_max` bytes.
    pub async fn context_within(&self, bytes_max: usize) -> Result<ModelContext> {
        let _call = self.begin()?;
        let engine = self.lukasa.engine();
        let shown = engine.segment_within(&self.inner, &self.context_files(), bytes_max).await?;
        let segment = shown.segment;
        Ok(ModelContext { text: segment.text().to_owned(), tokens: segment.tokens() })
    }

    pub(crate) fn context_files(&self) -> ContextFiles {
        self.lukasa.engine().context_files(&self.workspace, self.caller.to_store())
    }

    /// Parses a path argument.
    pub(crate) fn path(&self, path: impl IntoMemoryPath) -> Result<MemoryPath> {
        path.into_memory_path(self.inner.layout())
    }

    /// Counts a call, so that closing waits for it. Fails once the home is closed.
    pub(crate) fn begin(&self) -> Result<impl Drop + Send + Sync + use<>> {
        self.lukasa.0.begin()
    }

    /// Applies a command.
    async fn write(&self, command: MemoryCommand) -> Result<Receipt> {
        let _call = self.begin()?;
        match self.inner.apply(command, &CallContext::default()).await? {
            Reply::Done { text, change, revision, warnings } => {
                let warnings = warnings.iter().map(ToString::to_string).collect();
                Ok(Receipt { change, revision, text, warnings })
            }
            Reply::Refused(refusal) => Err(refusal.into()),
        }
    }
}

impl From<RecallBlock> for Recall {
    fn from(RecallBlock { block, memories }: RecallBlock) -> Self {
        Self { hits: memories.into_iter().map(RecallHit::from).collect(), block }
    }
}

impl From<RetrievedMemory> for RecallHit {
    fn from(selected: RetrievedMemory) -> Self {
        Self {
            text: selected.excerpt().text,
            path: selected.path,
            revision: selected.revision,
            title: selected.title,
            modified_at: selected.modified_at,
            saved_at: selected.saved_at,
            score: selected.score,
            is_weak: selected.is_weak,
            also_in: selected.also_in.into_iter().map(|other| other.path).collect(),
            why: selected.why,
            is_unreviewed: selected.mark.is_some(),
        }
    }
}

impl IntoIterator for Recall {
    type Item = RecallHit;
    type IntoIter = std::vec::IntoIter<RecallHit>;

    fn into_iter(self) -> Self::IntoIter {
        self.hits.into_iter()
    }
}

impl IntoIterator for Listing {
    type Item = ListedMemory;
    type IntoIter = std::vec::IntoIter<ListedMemory>;

    fn into_iter(self) -> Self::IntoIter {
        self.memories.into_iter()
    }
}

impl fmt::Debug for Memories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memories")
            .field("workspace", &self.workspace.id)
            .field("caller", &self.caller)
            .finish_non_exhaustive()
    }
}
