//! Requests to a curator and its reports, as plain values.
//!
//! They are the same for every curator, so that the lane, the wire and the tests do not depend on which one did the
//! work. A report holds the edits to make and facts about them; its summary never quotes the remembered text.

use std::collections::BTreeSet;

use memory::path::{MemoryPath, Mount, Scope};
use memory::proposal::Proposal;
use memory::screen::Family;

/// Earlier memories that a curator may use while it remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContextMode {
    /// All memories of the binding: known facts are not written twice.
    #[default]
    Workspace,
    /// None: every fact is written as new, as in a bulk import.
    Clean,
}

/// A request to remember a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RememberRequest {
    /// Text as the user or agent gave it.
    pub content: String,
    /// Memories that may be used for the decision.
    pub context_mode: ContextMode,
    /// Scope to write to; `None` lets the curator decide.
    pub scope: Option<Scope>,
}

/// A request to forget entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgetRequest {
    /// Request in the person's words.
    pub query: String,
    /// Scope to search; `None` searches all.
    pub scope: Option<Scope>,
    /// Only memory to search, if a person chose an entry of it.
    pub file: Option<MemoryPath>,
}

/// One edit of a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CuratorEdit {
    /// Write the memory's whole text; it may be new.
    Write {
        /// Path of the memory.
        path: MemoryPath,
        /// Whole text.
        text: String,
    },
    /// Remove the memory, because no entry is left in it.
    Remove {
        /// Path of the memory.
        path: MemoryPath,
    },
}

impl CuratorEdit {
    /// Returns the path of the memory.
    pub const fn path(&self) -> &MemoryPath {
        match self {
            Self::Write { path, .. } | Self::Remove { path } => path,
        }
    }
}

/// Kind of knowledge in a memory: the value of its `type`, and the folder of a new one.
#[derive(strum::AsRefStr, strum::Display, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemoryTopic {
    /// Facts about the person: who they are, what they like and have.
    User,
    /// Rules for how an agent works.
    Feedback,
    /// Facts, conventions, commands, dates and decisions of the work.
    Project,
    /// Pointers to where something is found.
    Reference,
}

impl MemoryTopic {
    /// Returns the topic in a memory's `type`, or else in its folder.
    pub fn declared(kind: Option<&str>, path: &MemoryPath) -> Option<Self> {
        let folder = path.relative().and_then(|relative| relative.segments().next());
        [kind, folder].into_iter().flatten().find_map(|word| word.to_ascii_lowercase().parse().ok())
    }

    /// Returns the declared topic, or else the default of the memory's mount.
    pub fn declared_or_default(kind: Option<&str>, path: &MemoryPath) -> Self {
        Self::declared(kind, path).unwrap_or(match path.mount() {
            Some(Mount::Scope(Scope::Global)) => Self::User,
            Some(Mount::Scope(Scope::Project | Scope::Workspace) | Mount::Flat) | None => {
                Self::Project
            }
        })
    }
}

/// Reason why nothing was remembered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RememberError {
    /// The text holds a secret or an injected instruction.
    #[error("the text matches the {family} rule `{rule}`")]
    Screened {
        /// Family of the rule.
        family: Family,
        /// Id of the rule.
        rule: &'static str,
    },
    /// The requested scope cannot be written.
    #[error("the requested scope cannot be written here")]
    ScopeMismatch,
    /// The text is about a repository, and no writable project is bound.
    #[error(
        "the text is about this repository, but no repository is open here that can be written"
    )]
    NoProject,
}

/// Result of remembering.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RememberReport {
    /// Edits to make; empty if all facts were known.
    pub edits: Vec<CuratorEdit>,
    /// One sentence on the outcome, without a word of the content.
    pub summary: String,
    /// Paths of the changed memories.
    pub changed_paths: Vec<MemoryPath>,
    /// Mounts of the changed memories.
    pub scopes: BTreeSet<Mount>,
    /// Outcomes of the entries.
    pub changes: Vec<EntryOutcome>,
    /// Proposals for a person to decide.
    pub proposals: Vec<Proposal>,
}

/// Outcome of an entry.
#[derive(strum::AsRefStr, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryAction {
    /// Added as new.
    Added,
    /// Written in place of an older one.
    Updated,
    /// Removed.
    Removed,
    /// Removed, because another entry says the same.
    Merged,
    /// Changed: a relative date was replaced by the date.
    Dated,
    /// Unchanged: the fact was known already.
    Known,
}

/// One entry in a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryOutcome {
    /// Path of its memory.
    pub path: MemoryPath,
    /// Outcome.
    pub action: EntryAction,
    /// First words, on one line.
    pub summary: String,
}

/// An entry that a request to forget may mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryCandidate {
    /// Path of its memory.
    pub path: MemoryPath,
    /// Full text without the bullet; a request with this text means only this entry.
    pub entry: String,
    /// First line.
    pub summary: String,
}

/// An entry that was forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgottenEntry {
    /// Topic of its memory.
    pub topic: MemoryTopic,
    /// First line.
    pub summary: String,
    /// Path of its memory.
    pub path: MemoryPath,
}

/// Result of forgetting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForgetReport {
    /// Edits to make; empty if nothing matches.
    pub edits: Vec<CuratorEdit>,
    /// One sentence on the outcome.
    pub summary: String,
    /// Entries that are removed.
    pub removed: Vec<ForgottenEntry>,
    /// Pinned memories with a matching entry, which they keep.
    pub skipped_pinned: Vec<MemoryPath>,
    /// Topics of the changed memories.
    pub topics: BTreeSet<MemoryTopic>,
    /// Mounts of the changed memories.
    pub scopes: BTreeSet<Mount>,
    /// Outcomes of the entries.
    pub changes: Vec<EntryOutcome>,
    /// Entries that may be meant, most likely first; only if nothing is removed.
    pub candidates: Vec<EntryCandidate>,
}

/// Result of a dream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DreamReport {
    /// Edits to make; empty if all is in order.
    pub edits: Vec<CuratorEdit>,
    /// One sentence on the outcome.
    pub summary: String,
    /// Topics of the changed memories.
    pub topics: BTreeSet<MemoryTopic>,
    /// Mounts of the changed memories.
    pub scopes: BTreeSet<Mount>,
    /// Number of entries merged into another that says the same.
    pub merged_entries: usize,
    /// Outcomes of the entries.
    pub changes: Vec<EntryOutcome>,
    /// Proposals for a person to decide.
    pub proposals: Vec<Proposal>,
    /// Number of memories left for another dream, because one dream may change and add only a limited amount.
    pub deferred: usize,
}
