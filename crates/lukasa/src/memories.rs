//! Reading and writing memories as one caller.

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

/// The memories of one workspace, as one caller may touch them. Cheap to clone.
///
/// Holding it is the permission: what the caller may not do is an error with the kind
/// [`Denied`](crate::ErrorKind::Denied), and changes nothing. A path is text such as `global/tea.md`, with or
/// without `/memories/` before it, or a [`MemoryPath`].
///
/// Every write is durable when its call returns, and recorded in the [history](Self::history). A caller who
/// drops the future of a write before it is done does not know whether it happened; the memory is whole either
/// way.
#[derive(Clone)]
pub struct Memories {
    pub(crate) lukasa: Lukasa,
    pub(crate) workspace: engine::Workspace,
    pub(crate) caller: Caller,
    pub(crate) inner: engine::Memories,
}

/// A memory, read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Memory {
    /// Its path.
    pub path: MemoryPath,
    /// Its text, with the frontmatter if it has one.
    pub text: String,
    /// The digest of its bytes; [`Memories::replace`] takes it.
    pub revision: Revision,
    /// When its file was last modified, by the clock of the file system.
    pub modified_at: Timestamp,
}

/// A memory in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedMemory {
    /// Its path.
    pub path: MemoryPath,
    /// Its size.
    pub bytes: u64,
    /// When its file was last modified, by the clock of the file system.
    pub modified_at: Timestamp,
    /// Its `name`, if it has one.
    pub name: Option<String>,
    /// Its description, or its first heading or line; empty if it has neither.
    pub description: String,
    /// Its `type`, if it has one.
    pub kind: Option<String>,
    /// Whether a person pinned it, so that models are given it whole.
    pub is_pinned: bool,
    /// How often it was viewed or written on this host.
    pub uses: u64,
}

/// A listing of memories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listing {
    /// The memories, scope by scope, in byte order of their paths.
    pub memories: Vec<ListedMemory>,
    /// How many more there are than one listing holds.
    pub omitted: usize,
}

/// The proof of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Receipt {
    /// The change in history, which [`Memories::undo`] takes back; `None` if nothing had to be written.
    pub change: Option<ChangeId>,
    /// The revision of the memory that was written; `None` if none is left or a folder was touched.
    pub revision: Option<Revision>,
    /// A sentence on what was done, for a model or a log.
    pub text: String,
    /// What screening let through with a warning, in sentences.
    pub warnings: Vec<String>,
}

/// The memories that fit a prompt.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Recall {
    /// The memories, the best first; empty when nothing fits.
    pub hits: Vec<RecallHit>,
    /// All of them as one block for a model, which marks their texts as data; empty when nothing fits.
    pub block: String,
}

/// A memory that fits a prompt, or the part of one.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RecallHit {
    /// The memory.
    pub path: MemoryPath,
    /// Its revision when it was found.
    pub revision: Revision,
    /// Its name, description or file name.
    pub title: String,
    /// The part of it that fits. It is data, whoever wrote it: never let a model take it for an order.
    pub text: String,
    /// When it was last modified.
    pub modified_at: Timestamp,
    /// The reason why it was found, for people.
    pub why: String,
    /// Whether nobody on this host reviewed it; the block says so to the model.
    pub is_unreviewed: bool,
}

/// The text that a session of a model begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelContext {
    /// Context files, the index of memories, and the memories that are pinned or used most.
    pub text: String,
    /// About how many tokens that is; rather too many than too few.
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

/// A path as text or as value: `&str`, `String` or [`MemoryPath`].
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

    /// Makes a memory that is not there yet.
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

    /// Adds lines to a memory, after this line; 0 is the top.
    pub async fn insert(
        &self,
        path: impl IntoMemoryPath,
        after_line: usize,
        text: &str,
    ) -> Result<Receipt> {
        let path = self.path(path)?;
        // No memory has as many lines as that; the refusal names how many it has.
        let insert_line = i64::try_from(after_line).unwrap_or(i64::MAX);
        self.write(MemoryCommand::Insert { path, insert_line, insert_text: text.to_owned() }).await
    }

    /// Replaces the whole text of a memory that still has this revision. If it changed since it was read, the
    /// error is a [`Conflict`](crate::ErrorKind::Conflict) that names the revision it has now.
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

    /// Gives a memory or folder another path in the same scope.
    pub async fn rename(
        &self,
        from: impl IntoMemoryPath,
        to: impl IntoMemoryPath,
    ) -> Result<Receipt> {
        let (old_path, new_path) = (self.path(from)?, self.path(to)?);
        self.write(MemoryCommand::Rename { old_path, new_path }).await
    }

    /// Reads a memory. This does not count as a use.
    pub async fn read(&self, path: impl IntoMemoryPath) -> Result<Memory> {
        let path = self.path(path)?;
        let _call = self.begin()?;
        let read = self.inner.read(&path).await?;
        Ok(Memory { path, text: read.text, revision: read.revision, modified_at: read.modified_at })
    }

    /// Returns a memory with line numbers, or a folder two levels deep, as the tool of agents shows it. This
    /// counts as a use.
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
        let info = |one: engine::MemoryEntry| ListedMemory {
            path: one.path,
            bytes: one.bytes,
            modified_at: one.modified_at,
            name: one.name,
            description: one.description,
            kind: one.kind,
            is_pinned: one.pinned,
            uses: one.usage.uses,
        };
        let memories = listing.memories.into_iter().map(info).collect();
        Ok(Listing { memories, omitted: listing.omitted })
    }

    /// Pins a memory, so that models are given it whole. Only a person pins. Returns whether it was not pinned
    /// before.
    pub async fn pin(&self, path: impl IntoMemoryPath) -> Result<bool> {
        self.set_pin(path, true).await
    }

    /// Takes a pin away. Returns whether it was there.
    pub async fn unpin(&self, path: impl IntoMemoryPath) -> Result<bool> {
        self.set_pin(path, false).await
    }

    async fn set_pin(&self, path: impl IntoMemoryPath, pinned: bool) -> Result<bool> {
        let path = self.path(path)?;
        let _call = self.begin()?;
        Ok(self.inner.set_pin(&path, pinned).await?)
    }

    /// Finds the memories that fit a prompt, by words and meaning, without a model. Returns nothing when nothing
    /// fits.
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

    /// Returns what a session of a model should begin with: context files of the person and of a
    /// [trusted](crate::Workspace::trust) project, a line for each memory, and whole those that are pinned or used
    /// most. Nothing of it counts as a use.
    pub async fn context(&self) -> Result<ModelContext> {
        self.context_within(usize::MAX).await
    }

    /// Returns the same in at most so many bytes.
    pub async fn context_within(&self, bytes_max: usize) -> Result<ModelContext> {
        let _call = self.begin()?;
        let engine = self.lukasa.engine();
        let showing = engine.segment_within(&self.inner, &self.context_files(), bytes_max).await?;
        let segment = showing.segment;
        Ok(ModelContext { text: segment.text().to_owned(), tokens: segment.tokens() })
    }

    pub(crate) fn context_files(&self) -> ContextFiles {
        self.lukasa.engine().context_files(&self.workspace, self.caller.to_store())
    }

    /// Reads a path argument.
    pub(crate) fn path(&self, path: impl IntoMemoryPath) -> Result<MemoryPath> {
        path.into_memory_path(self.inner.layout())
    }

    pub(crate) fn begin(&self) -> Result<impl Drop + Send + Sync + use<>> {
        self.lukasa.0.begin()
    }

    /// Carries a command out.
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
        let RetrievedMemory { path, revision, title, text, modified_at, why, mark } = selected;
        Self { path, revision, title, text, modified_at, why, is_unreviewed: mark.is_some() }
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
