//! The six commands: what may be asked, what is answered, and every refusal with its exact text.
//!
//! The texts are protocol: models and clients rely on them. What a command does to a text is pure
//! and in [`edit`] and [`view`]; where memories live, and who may touch them, is the store's.

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

/// One thing to do with memories, in the order of the documentation. Decoded from a tool call by [`crate::tool::decode`].
#[derive(strum::AsRefStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryCommand {
    /// Shows a file, or what a folder holds.
    View {
        /// The file or folder.
        path: MemoryPath,
        /// Which part of a file; a folder is always shown whole.
        lines: ViewRange,
    },
    /// Makes a memory that is not there yet.
    Create {
        /// Where.
        path: MemoryPath,
        /// All of its text.
        file_text: String,
    },
    /// Replaces a text that occurs exactly once.
    StrReplace {
        /// The memory.
        path: MemoryPath,
        /// What is there.
        old_str: String,
        /// What shall be there instead; nothing deletes the old text.
        new_str: String,
    },
    /// Adds lines.
    Insert {
        /// The memory.
        path: MemoryPath,
        /// After which line; 0 is the top. Whether it exists is known only beside the text.
        insert_line: i64,
        /// The lines.
        insert_text: String,
    },
    /// Removes a memory, or a folder with everything in it.
    Delete {
        /// The file or folder.
        path: MemoryPath,
    },
    /// Gives a memory or folder another path in the same scope.
    Rename {
        /// The path that it has.
        old_path: MemoryPath,
        /// The path that it gets.
        new_path: MemoryPath,
    },
}

impl MemoryCommand {
    /// Tells whether the command only looks. Every other one writes.
    pub const fn is_view(&self) -> bool {
        matches!(self, Self::View { .. })
    }

    /// Returns the paths it touches; access is needed to each of them.
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

/// Which lines of a file to show. The numbers are as they were asked for: [`view::view_file`] holds
/// them against the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ViewRange {
    /// All of them.
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
        /// How many lines; all the rest if not given.
        limit: Option<i64>,
    },
}

/// What a command comes to when the machine does not fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It was carried out.
    Done {
        /// What the caller is told.
        text: String,
        /// The change in history, if it made one.
        change: Option<ChangeId>,
        /// The revision of the one memory that it showed whole or wrote.
        revision: Option<Revision>,
        /// What was let through with a warning.
        warnings: Vec<Warning>,
    },
    /// It was refused, and changed nothing.
    Refused(CommandError),
}

impl Reply {
    /// Returns the reply of a command that was carried out and shows no memory.
    pub const fn done(text: String) -> Self {
        Self::Done { text, change: None, revision: None, warnings: Vec::new() }
    }
}

/// A screening rule that a text matched and that only warns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The rule's id.
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

/// Returns a memory's bytes as text. What is not UTF-8, or holds a NUL, is no text.
pub fn decode_text<'a>(path: &MemoryPath, bytes: &'a [u8]) -> Result<&'a str, CommandError> {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => Err(CommandError::NotText { path: path.clone() }),
    }
}

/// Why a command was refused. Whoever asked can mend it, and nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// A path breaks the grammar.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A field that the command needs is not there.
    #[error("{command} requires {fields}")]
    MissingFields {
        /// The command.
        command: &'static str,
        /// All the fields that it needs, as words.
        fields: &'static str,
    },
    /// No command has this name.
    #[error("Unknown command `{command}`. Use one of: {}.", MemoryCommand::VARIANTS.join(", "))]
    UnknownCommand {
        /// The name, made safe to show.
        command: String,
    },
    /// A field has the wrong type.
    #[error("Invalid `{field}` parameter: it must be {expected}.")]
    BadField {
        /// The field.
        field: &'static str,
        /// What it must be.
        expected: &'static str,
    },
    /// The scope has no root in this binding.
    #[error("{} memory is unavailable: {reason}", capitalized(*.scope))]
    ScopeUnavailable {
        /// The scope.
        scope: Scope,
        /// Why, as the end of a sentence.
        reason: String,
    },
    /// The caller may only look.
    #[error("{} is read-only for this agent; only 'view' is allowed.", place_label(*.mount))]
    ReadOnly {
        /// Where.
        mount: Mount,
    },
    /// The files of the scope cannot be written, whoever calls.
    #[error(
        "{} cannot be written on this machine: {reason}. Nothing was changed; 'view' still works.",
        place_label(*.mount)
    )]
    NotWritable {
        /// Where.
        mount: Mount,
        /// Why, in the words of the operating system.
        reason: String,
    },
    /// A person switched it off.
    #[error(
        "The feature `{feature}` is switched off; the person can turn it on in their settings."
    )]
    FeatureDisabled {
        /// What.
        feature: Feature,
    },
    /// The file is derived from the memories beside it.
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
    /// Something is where a memory shall be made.
    #[error("File {path} already exists")]
    AlreadyExists {
        /// The path.
        path: MemoryPath,
    },
    /// Something is where a rename leads.
    #[error("The destination {path} already exists")]
    DestinationExists {
        /// The destination.
        path: MemoryPath,
    },
    /// Some file systems would take the two for one.
    #[error(
        "The path {path} differs only in case from {existing}, which already exists. Use that, or \
         choose another name."
    )]
    DiffersOnlyInCase {
        /// The path.
        path: MemoryPath,
        /// What is there.
        existing: MemoryPath,
    },
    /// A file stands where a folder is needed.
    #[error("The path {path} cannot be made: {parent} is a file, not a folder.")]
    ParentNotFolder {
        /// The path.
        path: MemoryPath,
        /// The file in its way.
        parent: MemoryPath,
    },
    /// A folder, link or device stands where a memory is needed.
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
    /// The text to write holds a NUL, after which nobody could edit it.
    #[error("The text for {path} holds a NUL character. Write it without.")]
    NulInText {
        /// The memory.
        path: MemoryPath,
    },
    /// The memory would be larger than a memory may be.
    #[error(
        "The file {path} would have {bytes} bytes; a memory is limited to {MEMORY_BYTES_MAX} \
         bytes. Shorten it, or split it by topic."
    )]
    TooLarge {
        /// The memory.
        path: MemoryPath,
        /// The size that it would have.
        bytes: usize,
    },
    /// Somebody outside made the memory larger than a memory may be.
    #[error(
        "The file {path} has {bytes} bytes; a memory is limited to {MEMORY_BYTES_MAX} bytes, and \
         this one outgrew that outside of this tool. It can be viewed in part (with `offset` and \
         `limit`), renamed or deleted, but not edited."
    )]
    OutgrewCap {
        /// The memory.
        path: MemoryPath,
        /// Its size.
        bytes: usize,
    },
    /// The scope holds as many memories as it may.
    #[error(
        "{} is full: it is limited to {limit} files. Delete or merge some before adding more.",
        place_label(*.mount)
    )]
    ScopeFull {
        /// Where.
        mount: Mount,
        /// How many it may hold.
        limit: usize,
    },
    /// The text to replace is not there.
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
    /// The text to replace is there more than once.
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
    /// Nothing was given to look for.
    #[error("No replacement was performed: `old_str` must not be empty. Use insert to add text.")]
    EmptyOldStr,
    /// No line with this number can be inserted after.
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
        /// The first line asked for.
        first: i64,
        /// The last line asked for.
        last: i64,
        /// The last line of the file as it is shown.
        max: usize,
    },
    /// Lines are counted from 1.
    #[error("Invalid `{field}` parameter: {value}. It should be 1 or more.")]
    InvalidPage {
        /// `offset` or `limit`.
        field: &'static str,
        /// Its value.
        value: i64,
    },
    /// The file ends before that line.
    #[error("Invalid `offset` parameter: {offset}. {path} has {lines} lines that can be viewed.")]
    OffsetPastEnd {
        /// The file.
        path: MemoryPath,
        /// The line asked for.
        offset: i64,
        /// How many there are.
        lines: usize,
    },
    /// A root stays.
    #[error("Cannot delete the {path} directory itself")]
    CannotDeleteRoot {
        /// The root, or the top.
        path: MemoryPath,
    },
    /// A root keeps its name.
    #[error("Cannot rename the {path} directory itself")]
    CannotRenameRoot {
        /// The root, or the top.
        path: MemoryPath,
    },
    /// A rename stays in its scope.
    #[error(
        "Cannot rename {old_path} to {new_path}, across scopes. Create it in the target scope \
         instead, then delete the old one."
    )]
    AcrossScopes {
        /// The path that it has.
        old_path: MemoryPath,
        /// The path that was asked for.
        new_path: MemoryPath,
    },
    /// A folder cannot lie in itself.
    #[error("Cannot rename {old_path} to {new_path}: a folder cannot be moved into itself.")]
    IntoItself {
        /// The folder.
        old_path: MemoryPath,
        /// A path in it.
        new_path: MemoryPath,
    },
    /// The memory is not the revision that a save wanted to replace.
    #[error(
        "The file {path} has changed since it was read ({}). Read it again, then save.",
        current_state(.current.as_ref())
    )]
    Conflict {
        /// The memory.
        path: MemoryPath,
        /// Its revision, `None` if it is not there.
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
        /// What a person adds to the allowed values; no model is told.
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

/// Names a root at the start of a sentence.
fn place_label(mount: Mount) -> String {
    match mount {
        Mount::Scope(scope) => format!("The {scope} memory scope"),
        Mount::Flat => format!("The memory folder {mount}"),
    }
}

/// Returns a text as it was given, cut if it is long.
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
