//! What a curator is asked and what it answers, as values.
//!
//! The same for every curator, so that the lane, the wire and the tests do not care which one did
//! the work. An answer holds the edits to be made and the facts that a result tells; it never
//! quotes what was remembered.

use std::collections::BTreeSet;

use memory::path::{MemoryPath, Mount, Scope};
use memory::proposal::Proposal;
use memory::screen::Family;

/// What a curator may know of earlier memories while it remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContextMode {
    /// All memories of the binding: what is known is not written twice.
    #[default]
    Workspace,
    /// None of them: everything is written afresh, as in a bulk import.
    Clean,
}

/// What is to be remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RememberRequest {
    /// The text, as somebody said it.
    pub content: String,
    /// What may be known while deciding.
    pub context_mode: ContextMode,
    /// Where it must go; `None` lets the curator decide.
    pub scope: Option<Scope>,
}

/// What is to be forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgetRequest {
    /// The request, in the person's words.
    pub query: String,
    /// Where to look; `None` looks everywhere.
    pub scope: Option<Scope>,
    /// The only memory to look in, if a person chose an entry of it.
    pub file: Option<MemoryPath>,
}

/// One step of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CuratorEdit {
    /// The memory is to have this text, whether it is there or not.
    Write {
        /// Which.
        path: MemoryPath,
        /// All of its text.
        text: String,
    },
    /// The memory is to go: no entry is left in it.
    Remove {
        /// Which.
        path: MemoryPath,
    },
}

impl CuratorEdit {
    /// Returns the memory that it changes.
    pub const fn path(&self) -> &MemoryPath {
        match self {
            Self::Write { path, .. } | Self::Remove { path } => path,
        }
    }
}

/// What kind of knowledge a memory holds; the word of its `type`, and the folder of a new one.
#[derive(strum::AsRefStr, strum::Display, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemoryTopic {
    /// Who the person is, what they like and have.
    User,
    /// How an agent is to work.
    Feedback,
    /// Facts, conventions, commands, dates and decisions of the work.
    Project,
    /// Where something is to be found.
    Reference,
}

impl MemoryTopic {
    /// Returns the topic that a memory's `type` or else its folder names.
    pub fn declared(kind: Option<&str>, path: &MemoryPath) -> Option<Self> {
        let folder = path.relative().and_then(|relative| relative.segments().next());
        [kind, folder].into_iter().flatten().find_map(|word| word.to_ascii_lowercase().parse().ok())
    }

    /// Returns the topic that is nearest to a memory's `type` and place.
    pub fn declared_or_default(kind: Option<&str>, path: &MemoryPath) -> Self {
        Self::declared(kind, path).unwrap_or(match path.mount() {
            Some(Mount::Scope(Scope::Global)) => Self::User,
            Some(Mount::Scope(Scope::Project | Scope::Workspace) | Mount::Flat) | None => {
                Self::Project
            }
        })
    }
}

/// Why nothing was remembered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RememberError {
    /// The text holds a secret or an order to a model.
    #[error("the text matches the {family} rule `{rule}`")]
    Screened {
        /// The family of the rule.
        family: Family,
        /// Its id.
        rule: &'static str,
    },
    /// The scope that was asked for cannot be written.
    #[error("the scope that was asked for cannot be written here")]
    ScopeMismatch,
    /// The text is about this repository, and none is open that may be written.
    #[error(
        "the text is about this repository, but no repository is open here that can be written"
    )]
    NoProject,
}

/// What remembering comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RememberReport {
    /// What is to be done; nothing if all of it was known.
    pub edits: Vec<CuratorEdit>,
    /// One sentence on what was done, without a word of the content.
    pub summary: String,
    /// The memories that change.
    pub changed_paths: Vec<MemoryPath>,
    /// Where they lie.
    pub scopes: BTreeSet<Mount>,
    /// The entries that change.
    pub changes: Vec<EntryOutcome>,
    /// What a person should decide.
    pub proposals: Vec<Proposal>,
}

/// What became of an entry.
#[derive(strum::AsRefStr, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryAction {
    /// It is new.
    Added,
    /// It takes the place of an older one.
    Updated,
    /// It is gone.
    Removed,
    /// It is gone, since another entry says the same.
    Merged,
    /// A day that it pointed at is named in it.
    Dated,
    /// Nothing: it was known already.
    Known,
}

/// One entry that an answer tells of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryOutcome {
    /// Its memory.
    pub path: MemoryPath,
    /// What became of it.
    pub action: EntryAction,
    /// Its first words, on one line.
    pub summary: String,
}

/// An entry that a request to forget may mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryCandidate {
    /// Its memory.
    pub path: MemoryPath,
    /// All of it, without the bullet: a request with this text means it alone.
    pub entry: String,
    /// Its first line.
    pub summary: String,
}

/// An entry that was forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgottenEntry {
    /// The topic of its memory.
    pub topic: MemoryTopic,
    /// Its first line.
    pub summary: String,
    /// Its memory.
    pub path: MemoryPath,
}

/// What forgetting comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForgetReport {
    /// What is to be done; nothing if nothing matches.
    pub edits: Vec<CuratorEdit>,
    /// One sentence on what was done.
    pub summary: String,
    /// The entries that go.
    pub removed: Vec<ForgottenEntry>,
    /// Pinned memories that hold a matching entry and keep it.
    pub skipped_pinned: Vec<MemoryPath>,
    /// The topics of the memories that change.
    pub topics: BTreeSet<MemoryTopic>,
    /// Where they lie.
    pub scopes: BTreeSet<Mount>,
    /// The entries that change.
    pub changes: Vec<EntryOutcome>,
    /// If nothing is removed: the entries that may be meant, the likeliest first.
    pub candidates: Vec<EntryCandidate>,
}

/// What a dream comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DreamReport {
    /// What is to be done; nothing if all is in order.
    pub edits: Vec<CuratorEdit>,
    /// One sentence on what was done.
    pub summary: String,
    /// The topics of the memories that change.
    pub topics: BTreeSet<MemoryTopic>,
    /// Where they lie.
    pub scopes: BTreeSet<Mount>,
    /// How many entries were merged into another that says the same.
    pub merged_entries: usize,
    /// The entries that change.
    pub changes: Vec<EntryOutcome>,
    /// What a person should decide.
    pub proposals: Vec<Proposal>,
    /// The number of memories that were left for another dream, since one may change and add only so much.
    pub deferred: usize,
}
