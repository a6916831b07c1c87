//! The stable public codes of refusals and faults.
//!
//! HTTP, the `_meta` of MCP results, the command line's `--json` and the documentation use these words, which never
//! change their meaning. The HTTP and exit statuses of the codes are defined in the server and the command line.

use strum::{AsRefStr, Display, EnumString, IntoStaticStr, VariantArray};

/// An error code that programs may rely on.
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
    /// The caller has only read access.
    ReadOnly,
    /// There is nothing at the path.
    NotFound,
    /// The path already exists.
    AlreadyExists,
    /// A folder, link or device is at the path of a memory.
    NotAFile,
    /// The bytes are not UTF-8 text, or hold a NUL.
    NotText,
    /// The memory is, or would become, too large.
    TooLarge,
    /// The scope has reached its limit of memories.
    ScopeFull,
    /// The text to replace is not in the memory.
    TextNotFound,
    /// The text to replace occurs more than once.
    TextNotUnique,
    /// A line number is outside the memory.
    InvalidRange,
    /// The memory is not at the revision that the caller expected.
    Conflict,
    /// The text looks like a secret or like an attack on the model.
    Screened,
    /// The path leads out of its root through a link.
    EscapesRoot,
    /// The disk or the quota is full.
    StorageFull,
    /// A file or the state database cannot be read or written.
    StorageFailed,
    /// The database that several daemons share cannot be reached.
    StorageUnavailable,
    /// Another process holds the lock of the root.
    Locked,
    /// The person has switched the feature off.
    FeatureDisabled,
}

impl MemoryErrorCode {
    /// Returns the meaning of the code and a remedy, for the reference.
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
                "The caller has only read access to this scope or file, or its folder cannot be written on this machine."
            }
            Self::NotFound => "Nothing is at that path. List the folder to see its memories.",
            Self::AlreadyExists => "Something is at that path already. Edit it or choose another.",
            Self::NotAFile => "A folder, link or device is at the path of a memory.",
            Self::NotText => "The file is not UTF-8 text. Lukasa leaves its bytes alone.",
            Self::TooLarge => "The memory is, or would become, too large.",
            Self::ScopeFull => "The scope has reached its limit of memories. Delete or merge some.",
            Self::TextNotFound => "The text to replace is not there, letter for letter.",
            Self::TextNotUnique => "The text to replace is there more than once. Give more of it.",
            Self::InvalidRange => "A line number is outside the memory. The message has the range.",
            Self::Conflict => "The memory has changed since it was read. Read it again, then save.",
            Self::Screened => {
                "The text looks like a secret or an attack on the model. The message names the rule."
            }
            Self::EscapesRoot => {
                "The path leads out of its root through a link. It is not followed."
            }
            Self::StorageFull => "The disk or the quota is full. Nothing was changed.",
            Self::StorageFailed => "A file or the state database cannot be read or written.",
            Self::StorageUnavailable => "The database cannot be reached. Try again soon.",
            Self::Locked => "Another process holds the lock of the root for too long. Try again.",
            Self::FeatureDisabled => {
                "The person switched this off. `lukasa features` says where; nothing else is wrong."
            }
        }
    }
}
