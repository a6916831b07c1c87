//! The stable public code of every refusal and fault.
//!
//! HTTP, the `_meta` of MCP results, the command line's `--json` and the documentation use these words;
//! they never change meaning. One table here, and one each for HTTP status and exit status where
//! those are spoken.

use strum::{AsRefStr, Display, EnumString, IntoStaticStr, VariantArray};

/// What went wrong, in one word that programs may rely on.
#[derive(AsRefStr, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemoryErrorCode {
    /// The path breaks the grammar.
    InvalidPath,
    /// A required field is missing or a field has the wrong shape.
    InvalidArguments,
    /// The scope has no root in this binding.
    ScopeUnavailable,
    /// The caller may only look.
    ReadOnly,
    /// Nothing is there.
    NotFound,
    /// Something is there already.
    AlreadyExists,
    /// A folder, link or device stands where a memory is needed.
    NotAFile,
    /// The bytes are not UTF-8 text, or hold a NUL.
    NotText,
    /// The memory would be, or is, larger than a memory may be.
    TooLarge,
    /// The scope holds as many memories as it may.
    ScopeFull,
    /// The text to replace is not in the memory.
    TextNotFound,
    /// The text to replace occurs more than once.
    TextNotUnique,
    /// A line number is outside the memory.
    InvalidRange,
    /// The memory is not the revision that the caller wanted to replace.
    Conflict,
    /// The text looks like a secret or like an attack on the model.
    Screened,
    /// The path leads out of its root through a link.
    EscapesRoot,
    /// The disk or the quota is full.
    StorageFull,
    /// The machine failed: a file or the state database cannot be read or written.
    StorageFailed,
    /// Another process holds the root.
    Locked,
    /// A person switched this off.
    FeatureDisabled,
}

impl MemoryErrorCode {
    /// Returns what the code means and what to do about it, for the reference.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::InvalidPath => "The path breaks the grammar. Correct it as the message says.",
            Self::InvalidArguments => {
                "A field is missing or has the wrong shape. The message names it."
            }
            Self::ScopeUnavailable => {
                "This scope has no root here: no project was found, or no workspace was named."
            }
            Self::ReadOnly => {
                "The caller may only look at this scope or file, or its folder cannot be written on this machine."
            }
            Self::NotFound => "Nothing is at that path. List the folder to see what is.",
            Self::AlreadyExists => "Something is at that path already. Edit it or choose another.",
            Self::NotAFile => "A folder, link or device stands where a memory is needed.",
            Self::NotText => "The file is not UTF-8 text. Lukasa leaves its bytes alone.",
            Self::TooLarge => "The memory is, or would become, larger than a memory may be.",
            Self::ScopeFull => "The scope holds as many memories as it may. Delete or merge some.",
            Self::TextNotFound => "The text to replace is not there, letter for letter.",
            Self::TextNotUnique => "The text to replace is there more than once. Give more of it.",
            Self::InvalidRange => "A line number is outside the memory. The message has the range.",
            Self::Conflict => "Somebody changed the memory meanwhile. Read it again, then save.",
            Self::Screened => {
                "The text looks like a secret or an attack on the model. The message names the rule."
            }
            Self::EscapesRoot => {
                "The path leads out of its root through a link. It is not followed."
            }
            Self::StorageFull => "The disk or the quota is full. Nothing was changed.",
            Self::StorageFailed => "A file or the state database cannot be read or written.",
            Self::Locked => "Another process holds the root for too long. Try again.",
            Self::FeatureDisabled => {
                "The person switched this off. `lukasa features` says where; nothing else is wrong."
            }
        }
    }
}
