//! The six commands on memories: their arguments, their replies, and every refusal with its exact text.
//!
//! The texts are part of the protocol: models and clients rely on them, so they do not change. The pure effect of a
//! command on a text is in [`edit`] and [`view`]; the store finds the files and checks access.

use std::fmt;

use strum::VariantNames as _;

use crate::change::ChangeId;
use crate::document::Revision;
use crate::error_code::MemoryErrorCode;
use crate::feature::Feature;
use crate::limits::{MEMORY_BYTES_MAX, OCCURRENCES_SHOWN_MAX, OLD_STR_SHOWN_CHARS_MAX};
use crate::path::{MemoryPath, Mount, PathError, Scope};
use crate::screen::ValueDigest;

pub mod edit;

pub mod view;

/// A command on memories. The order is that of the documentation. [`crate::tool::decode`] reads it from a tool call.
#[derive(strum::AsRefStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryCommand {
    /// Shows a file, or lists a folder.
    View {
        /// The file or folder.
        path: MemoryPath,
        /// The part of a file to show; a folder is always listed whole.
        lines: ViewRange,
    },
    /// Creates a memory that does not exist yet.
    Create {
        /// The path of the new memory.
        path: MemoryPath,
        /// The whole text.
        file_text: String,
    },
    /// Replaces a text that occurs exactly once.
    StrReplace {
        /// The memory.
        path: MemoryPath,
        /// The text to replace.
        old_str: String,
        /// The replacement; an empty one deletes the old text.
        new_str: String,
    },
    /// Adds lines.
    Insert {
        /// The memory.
        path: MemoryPath,
        /// The line to insert after; 0 is the top. Whether it exists can only be checked against the text.
        insert_line: i64,
        /// The lines.
        insert_text: String,
    },
    /// Removes a memory, or a folder with everything in it.
    Delete {
        /// The file or folder.
        path: MemoryPath,
    },
    /// Moves a memory or folder to another path in the same scope.
    Rename {
        /// The current path.
        old_path: MemoryPath,
        /// The new path.
        new_path: MemoryPath,
    },
}

impl MemoryCommand {
    /// Returns the paths that the command changes, each with all below it, and the text that it writes. A view changes
    /// none.
    pub fn changes(&self) -> (Vec<MemoryPath>, &str) {
        match self {
            Self::View { .. } => (Vec::new(), ""),
            Self::Create { path, file_text } => (vec![path.clone()], file_text),
            Self::StrReplace { path, new_str, .. } => (vec![path.clone()], new_str),
            Self::Insert { path, insert_text, .. } => (vec![path.clone()], insert_text),
            Self::Delete { path } => (vec![path.clone()], ""),
            Self::Rename { old_path, new_path } => (vec![old_path.clone(), new_path.clone()], ""),
        }
    }

    /// Checks whether the command is a view. All others write.
    pub const fn is_view(&self) -> bool {
        matches!(self, Self::View { .. })
    }

    /// Returns the paths that the command touches; the caller needs access to each of them.
    pub fn paths(&self) -> impl Iterator<Item = &MemoryPath> {
        let (first, second) = match self {
            Self::View { path, .. }
            | Self::Create { path, .. }
            | Self::StrReplace { path, .. }
            | Self::Insert { path, .. }
            | Self::Delete { path } => (path, None),
            Self::Rename { old_path, new_path } => (old_path, Some(new_path)),
        };
        std::iter::once(first).chain(second)
    }
}

/// The lines of a file to show. The numbers are not checked yet: [`view::view_file`] checks them against the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ViewRange {
    /// All lines.
    #[default]
    Whole,
    /// From `first` to `last`, both included, counted from 1.
    Range {
        /// The first line.
        first: i64,
        /// The last line; -1 is the end of the file.
        last: i64,
    },
    /// As many as `limit` from line `offset` on.
    Page {
        /// The first line.
        offset: i64,
        /// The number of lines; all remaining ones by default.
        limit: Option<i64>,
    },
}

/// The outcome of a command, apart from faults of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The command was carried out.
    Done {
        /// The text for the caller.
        text: String,
        /// The recorded change, if the command made one.
        change: Option<ChangeId>,
        /// The revision of the single memory that was shown whole or written.
        revision: Option<Revision>,
        /// The warnings of screening rules that did not block the text.
        warnings: Vec<Warning>,
    },
    /// The command was refused, and changed nothing.
    Refused(CommandError),
}

impl Reply {
    /// Returns the reply of a completed command that shows no memory.
    pub const fn done(text: String) -> Self {
        Self::Done { text, change: None, revision: None, warnings: Vec::new() }
    }
}

/// A match of a screening rule that only warns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The id of the rule.
    pub rule: &'static str,
    /// The line of the text that matched, counted from 1.
    pub line: usize,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, line } = self;
        write!(f, "Warning: line {line} matches the screening rule `{rule}`; please check it.")
    }
}

/// Returns the answer to a create.
pub fn created(path: &MemoryPath) -> String {
    format!("File created successfully at: {path}")
}

/// Returns the answer to a delete.
pub fn deleted(path: &MemoryPath) -> String {
    format!("Successfully deleted {path}")
}

/// Returns the answer to a rename.
pub fn renamed(old_path: &MemoryPath, new_path: &MemoryPath) -> String {
    format!("Successfully renamed {old_path} to {new_path}")
}

/// Decodes a memory's bytes. Invalid UTF-8, or a NUL, is refused as [`CommandError::NotText`].
pub fn decode_text<'a>(path: &MemoryPath, bytes: &'a [u8]) -> Result<&'a str, CommandError> {
    text_of(bytes).ok_or_else(|| CommandError::NotText { path: path.clone() })
}

/// Returns the text of a memory's bytes; `None` if they are no text.
pub fn text_of(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

/// The refusal of a command. The caller can correct its cause; nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// A path breaks the grammar.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A field that the command needs is missing.
    #[error("{command} requires {fields}")]
    MissingFields {
        /// The command.
        command: &'static str,
        /// All fields that the command needs, as text.
        fields: &'static str,
    },
    /// No command has this name.
    #[error("Unknown command `{command}`. Use one of: {}.", MemoryCommand::VARIANTS.join(", "))]
    UnknownCommand {
        /// The name, escaped for display.
        command: String,
    },
    /// A field has the wrong type.
    #[error("Invalid `{field}` parameter: it must be {expected}.")]
    BadField {
        /// The field.
        field: &'static str,
        /// A description of the expected value.
        expected: &'static str,
    },
    /// The scope has no root in this binding.
    #[error("{} memory is unavailable: {reason}", capitalized(*.scope))]
    ScopeUnavailable {
        /// The scope.
        scope: Scope,
        /// The reason, as the end of a sentence.
        reason: String,
    },
    /// The caller has only read access.
    #[error("{} is read-only for this agent; only 'view' is allowed.", place_label(*.mount))]
    ReadOnly {
        /// The mount.
        mount: Mount,
    },
    /// The files of the scope cannot be written by any caller.
    #[error(
        "{} cannot be written on this machine: {reason}. Nothing was changed; 'view' still works.",
        place_label(*.mount)
    )]
    NotWritable {
        /// The mount.
        mount: Mount,
        /// The reason, as the operating system reports it.
        reason: String,
    },
    /// The person has switched the feature off.
    #[error(
        "The feature `{feature}` is switched off; the person can turn it on in their settings."
    )]
    FeatureDisabled {
        /// The feature.
        feature: Feature,
    },
    /// The file is generated from the memories beside it.
    #[error("The file {path} is a generated listing: edit the memories that it lists instead.")]
    Generated {
        /// The listing.
        path: MemoryPath,
    },
    /// There is nothing to view or to edit.
    #[error("The path {path} does not exist. Please provide a valid path.")]
    NotFound {
        /// The path.
        path: MemoryPath,
    },
    /// There is nothing to delete or to rename.
    #[error("The path {path} does not exist")]
    NothingThere {
        /// The path.
        path: MemoryPath,
    },
    /// The path of a new memory already exists.
    #[error("File {path} already exists")]
    AlreadyExists {
        /// The path.
        path: MemoryPath,
    },
    /// The destination of a rename already exists.
    #[error("The destination {path} already exists")]
    DestinationExists {
        /// The destination.
        path: MemoryPath,
    },
    /// The path differs only in case from an existing one; some file systems cannot distinguish them.
    #[error(
        "The path {path} differs only in case from {existing}, which already exists. Use that, or \
         choose another name."
    )]
    DiffersOnlyInCase {
        /// The path.
        path: MemoryPath,
        /// The existing path.
        existing: MemoryPath,
    },
    /// A file is at the path of a folder.
    #[error("The path {path} cannot be made: {parent} is a file, not a folder.")]
    ParentNotFolder {
        /// The path.
        path: MemoryPath,
        /// The file at the path of the folder.
        parent: MemoryPath,
    },
    /// A folder, link or device is at the path of a memory.
    #[error("The path {path} is not a file.")]
    NotAFile {
        /// The path.
        path: MemoryPath,
    },
    /// The path leads out of its root.
    #[error("The path {path} leads out of its root through a link, and links are not followed.")]
    EscapesRoot {
        /// The path.
        path: MemoryPath,
    },
    /// The file's bytes are not text.
    #[error(
        "The file {path} is not UTF-8 text, so it can be neither viewed nor edited. Its bytes are \
         left as they are."
    )]
    NotText {
        /// The file.
        path: MemoryPath,
    },
    /// The text to write contains a NUL: the memory could not be edited any more.
    #[error("The text for {path} holds a NUL character. Write it without.")]
    NulInText {
        /// The memory.
        path: MemoryPath,
    },
    /// The memory would be too large.
    #[error(
        "The file {path} would have {bytes} bytes; a memory is limited to {MEMORY_BYTES_MAX} \
         bytes. Shorten it, or split it by topic."
    )]
    TooLarge {
        /// The memory.
        path: MemoryPath,
        /// The size that the memory would have.
        bytes: usize,
    },
    /// An external edit made the memory too large.
    #[error(
        "The file {path} has {bytes} bytes; a memory is limited to {MEMORY_BYTES_MAX} bytes, and \
         this one outgrew that outside of this tool. It can be viewed in part (with `offset` and \
         `limit`), renamed or deleted, but not edited."
    )]
    OutgrewCap {
        /// The memory.
        path: MemoryPath,
        /// The size of the memory.
        bytes: usize,
    },
    /// The scope has reached its limit of memories.
    #[error(
        "{} is full: it is limited to {limit} files. Delete or merge some before adding more.",
        place_label(*.mount)
    )]
    ScopeFull {
        /// The mount.
        mount: Mount,
        /// The limit.
        limit: usize,
    },
    /// The text to replace does not occur.
    #[error(
        "No replacement was performed, old_str `{}` did not appear verbatim in {path}.",
        excerpt(.old_str)
    )]
    TextNotFound {
        /// The memory.
        path: MemoryPath,
        /// The text.
        old_str: String,
    },
    /// The text to replace occurs more than once.
    #[error(
        "No replacement was performed. Multiple occurrences of old_str `{}` in lines: {}. Please \
         ensure it is unique",
        excerpt(.old_str),
        line_list(.lines)
    )]
    TextNotUnique {
        /// The text.
        old_str: String,
        /// The line on which each occurrence begins, counted from 1; they may overlap.
        lines: Vec<usize>,
    },
    /// The text to replace is empty.
    #[error("No replacement was performed: `old_str` must not be empty. Use insert to add text.")]
    EmptyOldStr,
    /// The line to insert after does not exist.
    #[error("Invalid `insert_line` parameter: {line}. It should be within the range [0, {max}].")]
    InvalidInsertLine {
        /// The number.
        line: i64,
        /// The last line of the memory.
        max: usize,
    },
    /// The file has no such range of lines.
    #[error(
        "Invalid `view_range` parameter: [{first}, {last}]. It should be within the range \
         [1, {max}], with the first line not after the last; -1 as the last means the end."
    )]
    InvalidRange {
        /// The requested first line.
        first: i64,
        /// The requested last line.
        last: i64,
        /// The last line of the file as it is shown.
        max: usize,
    },
    /// A page starts before line 1, or has no line.
    #[error("Invalid `{field}` parameter: {value}. It should be 1 or more.")]
    InvalidPage {
        /// `offset` or `limit`.
        field: &'static str,
        /// The value of the field.
        value: i64,
    },
    /// A page starts after the end of the file.
    #[error("Invalid `offset` parameter: {offset}. {path} has {lines} lines that can be viewed.")]
    OffsetPastEnd {
        /// The file.
        path: MemoryPath,
        /// The requested first line.
        offset: i64,
        /// The number of lines of the file.
        lines: usize,
    },
    /// A root cannot be deleted.
    #[error("Cannot delete the {path} directory itself")]
    CannotDeleteRoot {
        /// The root, or the top.
        path: MemoryPath,
    },
    /// A root cannot be renamed.
    #[error("Cannot rename the {path} directory itself")]
    CannotRenameRoot {
        /// The root, or the top.
        path: MemoryPath,
    },
    /// A rename must stay in its scope.
    #[error(
        "Cannot rename {old_path} to {new_path}, across scopes. Create it in the target scope \
         instead, then delete the old one."
    )]
    AcrossScopes {
        /// The current path.
        old_path: MemoryPath,
        /// The requested path.
        new_path: MemoryPath,
    },
    /// A folder cannot be moved into itself.
    #[error("Cannot rename {old_path} to {new_path}: a folder cannot be moved into itself.")]
    IntoItself {
        /// The folder.
        old_path: MemoryPath,
        /// A path in it.
        new_path: MemoryPath,
    },
    /// The memory is not at the revision that a save expects.
    #[error(
        "The file {path} has changed since it was read ({}). Read it again, then save.",
        current_state(.current.as_ref())
    )]
    Conflict {
        /// The memory.
        path: MemoryPath,
        /// The current revision; `None` if the memory does not exist.
        current: Option<Revision>,
    },
    /// The text matches a screening rule. The text itself is never repeated.
    #[error(
        "Nothing was written: line {line} matches the {family} rule `{rule}`. Leave that out; a \
         person can allow it by setting the rule `{rule}` to warn or off."
    )]
    Screened {
        /// `secrets` or `injection`.
        family: &'static str,
        /// The rule's id.
        rule: &'static str,
        /// The line that matched, counted from 1.
        line: usize,
        /// The digest that a person adds to the allowed values; it is never shown to a model.
        digest: ValueDigest,
    },
}

impl CommandError {
    /// Returns the stable public code.
    pub const fn code(&self) -> MemoryErrorCode {
        match self {
            Self::Path(_)
            | Self::CannotDeleteRoot { .. }
            | Self::CannotRenameRoot { .. }
            | Self::AcrossScopes { .. }
            | Self::IntoItself { .. } => MemoryErrorCode::InvalidPath,
            Self::MissingFields { .. }
            | Self::UnknownCommand { .. }
            | Self::BadField { .. }
            | Self::EmptyOldStr => MemoryErrorCode::InvalidArguments,
            Self::ScopeUnavailable { .. } => MemoryErrorCode::ScopeUnavailable,
            Self::FeatureDisabled { .. } => MemoryErrorCode::FeatureDisabled,
            Self::ReadOnly { .. } | Self::NotWritable { .. } | Self::Generated { .. } => {
                MemoryErrorCode::ReadOnly
            }
            Self::NotFound { .. } | Self::NothingThere { .. } => MemoryErrorCode::NotFound,
            Self::AlreadyExists { .. }
            | Self::DestinationExists { .. }
            | Self::DiffersOnlyInCase { .. }
            | Self::ParentNotFolder { .. } => MemoryErrorCode::AlreadyExists,
            Self::NotAFile { .. } => MemoryErrorCode::NotAFile,
            Self::EscapesRoot { .. } => MemoryErrorCode::EscapesRoot,
            Self::NotText { .. } | Self::NulInText { .. } => MemoryErrorCode::NotText,
            Self::TooLarge { .. } | Self::OutgrewCap { .. } => MemoryErrorCode::TooLarge,
            Self::ScopeFull { .. } => MemoryErrorCode::ScopeFull,
            Self::TextNotFound { .. } => MemoryErrorCode::TextNotFound,
            Self::TextNotUnique { .. } => MemoryErrorCode::TextNotUnique,
            Self::InvalidInsertLine { .. }
            | Self::InvalidRange { .. }
            | Self::InvalidPage { .. }
            | Self::OffsetPastEnd { .. } => MemoryErrorCode::InvalidRange,
            Self::Conflict { .. } => MemoryErrorCode::Conflict,
            Self::Screened { .. } => MemoryErrorCode::Screened,
        }
    }
}

const fn capitalized(scope: Scope) -> &'static str {
    match scope {
        Scope::Global => "Global",
        Scope::Project => "Project",
        Scope::Workspace => "Workspace",
    }
}

/// Returns the name of a root for the start of a sentence.
fn place_label(mount: Mount) -> String {
    match mount {
        Mount::Scope(scope) => format!("The {scope} memory scope"),
        Mount::Flat => format!("The memory folder {mount}"),
    }
}

/// Returns a text, cut if it is long.
fn excerpt(text: &str) -> String {
    match text.char_indices().nth(OLD_STR_SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.split_at(end).0),
        None => text.to_owned(),
    }
}

fn line_list(lines: &[usize]) -> String {
    let shown: Vec<_> = lines.iter().take(OCCURRENCES_SHOWN_MAX).map(usize::to_string).collect();
    let rest = if lines.len() > shown.len() { ", …" } else { "" };
    format!("{}{rest}", shown.join(", "))
}

fn current_state(current: Option<&Revision>) -> String {
    current.map_or_else(
        || "it does not exist".to_owned(),
        |revision| format!("its revision is {revision}"),
    )
}

#[cfg(test)]
mod tests;
