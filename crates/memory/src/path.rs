//! Memory paths: `/memories/<scope>/<segments>`, the only paths that a model sees.
//!
//! Untrusted text is parsed here once. A parsed path contains no traversal, no hidden name, no control or invisible
//! character and no name that some file system treats specially, so later code need not check again. Names found on
//! disk must follow the same grammar ([`RelativePath::parse`]); others cannot be addressed. This module does not check
//! whether a path exists.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use strum::{AsRefStr, Display, EnumString, IntoStaticStr, VariantArray};
use unicode_normalization::UnicodeNormalization;

use crate::limits::{PATH_BYTES_MAX, PATH_SEGMENTS_MAX, PATH_SHOWN_CHARS_MAX, SEGMENT_BYTES_MAX};

mod segment;

/// The scope of a memory. The order is that in which scopes are shown and locked. The name of a scope is the first
/// segment of its paths.
#[derive(AsRefStr, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// The memories of a person, in all projects.
    Global,
    /// The memories of a project; they travel with the repository.
    Project,
    /// The memories of one workspace; they end with it.
    Workspace,
}

/// The mounts below `/memories`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// The three scopes.
    Scoped,
    /// One folder, at `/memories` itself.
    Flat,
}

/// A root, as it is named in paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mount {
    /// The root of a scope.
    Scope(Scope),
    /// The one folder of a flat layout.
    Flat,
}

/// The word of [`Mount::Flat`].
const FLAT: &str = "flat";

impl Mount {
    /// Returns the word that stands for the mount in answers and stored rows: its scope, or `flat`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Scope(scope) => scope.into(),
            Self::Flat => FLAT,
        }
    }

    /// Returns the mount that a word stands for.
    pub fn from_word(word: &str) -> Option<Self> {
        if word == FLAT { Some(Self::Flat) } else { word.parse().ok().map(Self::Scope) }
    }
}

/// A path below a root: one or more valid segments in Unicode NFC, joined by `/`.
///
/// Paths are ordered by bytes, as in listings: `a-b.md`, `a.md`, `a/x.md`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelativePath(String);

/// A valid path below `/memories`.
///
/// [`MemoryPath::parse`] and [`MemoryPath::inside`] also limit the length of the whole path. A value that is
/// constructed directly from a mount and a relative path may be slightly longer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemoryPath {
    /// `/memories` of a scoped layout.
    Top,
    /// A root: `/memories/global`, or `/memories` of a flat layout.
    Root(Mount),
    /// A file or folder below a root.
    Inside(Mount, RelativePath),
}

/// The reason why a text is not a memory path. Its message is safe to show: it has no invisible characters.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The path is not below `/memories`.
    #[error("Path must start with /memories, got: {shown}")]
    Elsewhere {
        /// The text, escaped for display.
        shown: String,
    },
    /// The path contains a traversal, or could contain one after decoding or expansion.
    #[error("Path {shown} would escape /memories directory")]
    Escape {
        /// The text, escaped for display.
        shown: String,
    },
    /// The path breaks another rule of the grammar.
    #[error("Invalid memory path {shown}: {fault}")]
    Invalid {
        /// The text, escaped for display.
        shown: String,
        /// The broken rule.
        fault: PathErrorKind,
    },
}

/// The rule of the path grammar that a text breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathErrorKind {
    /// The first segment is not a scope.
    #[error(
        "the first folder must be one of the scopes /memories/global, /memories/project, \
         /memories/workspace"
    )]
    UnknownScope,
    /// Two slashes follow each other, or the path has no segment.
    #[error("it has an empty segment")]
    EmptySegment,
    /// A segment starts with a dot.
    #[error("a segment must not start with a dot")]
    Hidden,
    /// A segment ends with a dot or white space, which some file systems drop.
    #[error("a segment must not end with a dot or a space")]
    BadEnd,
    /// A segment contains a character that some file system reserves.
    #[error("it must not contain {0:?}")]
    ReservedCharacter(char),
    /// A segment contains a control character or an invisible one.
    #[error("it contains the invisible character U+{:04X}", u32::from(*.0))]
    InvisibleCharacter(char),
    /// A segment is a device name on Windows, with or without extension.
    #[error("a segment must not be a device name of Windows")]
    ReservedName,
    /// A segment is too long for common file systems.
    #[error("a segment must not be longer than {SEGMENT_BYTES_MAX} bytes")]
    LongSegment,
    /// The path is too long.
    #[error("it must not be longer than {PATH_BYTES_MAX} bytes")]
    TooLong,
    /// The path has too many segments.
    #[error("it must not have more than {PATH_SEGMENTS_MAX} segments")]
    TooDeep,
    /// A name on disk is not in NFC, so no parsed path can be equal to it.
    #[error("it is not in Unicode NFC")]
    NotNormalized,
    /// The path of a file ends with a slash.
    #[error("the path of a memory must not end with a slash")]
    FolderPath,
}

/// The reason why a segment is refused, without the path around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SegmentError {
    /// Becomes [`PathError::Escape`].
    Escape,
    /// Becomes [`PathError::Invalid`].
    Fault(PathErrorKind),
}

impl PathError {
    /// Creates the error for a text that breaks a rule.
    pub fn invalid(text: &str, fault: PathErrorKind) -> Self {
        Self::Invalid { shown: escaped_excerpt(text), fault }
    }

    fn from_segment_error(text: &str, error: SegmentError) -> Self {
        match error {
            SegmentError::Escape => Self::Escape { shown: escaped_excerpt(text) },
            SegmentError::Fault(fault) => Self::invalid(text, fault),
        }
    }
}

impl Mount {
    /// Returns the common prefix of all paths below this mount.
    const fn prefix(self) -> &'static str {
        match self {
            Self::Scope(Scope::Global) => "/memories/global/",
            Self::Scope(Scope::Project) => "/memories/project/",
            Self::Scope(Scope::Workspace) => "/memories/workspace/",
            Self::Flat => "/memories/",
        }
    }

    /// Returns the number of segments in that prefix, without `/memories`.
    const fn segments(self) -> usize {
        match self {
            Self::Scope(_) => 1,
            Self::Flat => 0,
        }
    }
}

impl fmt::Display for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.prefix().trim_end_matches('/'))
    }
}

impl MemoryPath {
    /// Parses an untrusted path. Drops surrounding white space and one trailing slash, and normalizes to Unicode NFC.
    pub fn parse(text: &str, layout: Layout) -> Result<Self, PathError> {
        let text = text.trim();
        // Normalizing shortens a text at most threefold: a longer one stays too long.
        if text.len() > 3 * PATH_BYTES_MAX {
            return Err(PathError::invalid(text, PathErrorKind::TooLong));
        }
        let normal: Cow<'_, str> =
            if text.is_ascii() { text.into() } else { text.nfc().collect::<String>().into() };
        let Some(below) = normal
            .strip_prefix("/memories")
            .filter(|below| below.is_empty() || below.starts_with('/'))
        else {
            return Err(PathError::Elsewhere { shown: escaped_excerpt(text) });
        };
        let below = below.strip_suffix('/').unwrap_or(below);
        let Some(below) = below.strip_prefix('/') else {
            return Ok(match layout {
                Layout::Scoped => Self::Top,
                Layout::Flat => Self::Root(Mount::Flat),
            });
        };
        for segment in below.split('/') {
            segment::check(segment).map_err(|error| PathError::from_segment_error(text, error))?;
        }
        let invalid = |fault| PathError::invalid(text, fault);
        let (mount, rest) = match layout {
            Layout::Scoped => {
                split_scope(below).ok_or_else(|| invalid(PathErrorKind::UnknownScope))?
            }
            Layout::Flat => (Mount::Flat, Some(below)),
        };
        let Some(rest) = rest else { return Ok(Self::Root(mount)) };
        let relative = RelativePath(rest.to_owned());
        check_length(mount, &relative).map_err(invalid)?;
        Ok(Self::Inside(mount, relative))
    }

    /// Returns the path of `relative` below `mount`, or an error if the whole path is too long.
    pub fn inside(mount: Mount, relative: RelativePath) -> Result<Self, PathError> {
        match check_length(mount, &relative) {
            Ok(()) => Ok(Self::Inside(mount, relative)),
            Err(fault) => {
                Err(PathError::invalid(&Self::Inside(mount, relative).to_string(), fault))
            }
        }
    }

    /// Checks whether the path is in the project scope, which travels with a repository: others may have written it.
    pub fn is_shared(&self) -> bool {
        self.mount() == Some(Mount::Scope(Scope::Project))
    }

    /// Returns the mount of the path; `None` for the top of a scoped layout.
    pub const fn mount(&self) -> Option<Mount> {
        match self {
            Self::Top => None,
            Self::Root(mount) | Self::Inside(mount, _) => Some(*mount),
        }
    }

    /// Returns the part below the root; `None` for a root and the top.
    pub const fn relative(&self) -> Option<&RelativePath> {
        match self {
            Self::Top | Self::Root(_) => None,
            Self::Inside(_, relative) => Some(relative),
        }
    }

    /// Checks whether the path is `folder` or below it.
    pub fn is_within(&self, folder: &Self) -> bool {
        match (self, folder) {
            (_, Self::Top) => true,
            (Self::Root(own) | Self::Inside(own, _), Self::Root(mount)) => own == mount,
            (Self::Inside(own, path), Self::Inside(mount, folder)) => {
                own == mount && path.is_within(folder)
            }
            (Self::Top, Self::Root(_) | Self::Inside(..)) | (Self::Root(_), Self::Inside(..)) => {
                false
            }
        }
    }

    /// Returns the path of `segment` in this folder. The only children of the top are the scopes.
    pub fn join(&self, segment: &str) -> Result<Self, PathError> {
        let with_path = |error| PathError::from_segment_error(&format!("{self}/{segment}"), error);
        segment::check_on_disk(segment).map_err(with_path)?;
        match self {
            Self::Top => match segment.parse() {
                Ok(scope) => Ok(Self::Root(Mount::Scope(scope))),
                Err(_) => Err(with_path(SegmentError::Fault(PathErrorKind::UnknownScope))),
            },
            Self::Root(mount) => Self::inside(*mount, RelativePath(segment.to_owned())),
            Self::Inside(mount, folder) => Self::inside(*mount, folder.child(segment)?),
        }
    }
}

impl fmt::Display for MemoryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Top => f.write_str("/memories"),
            Self::Root(mount) => write!(f, "{mount}"),
            Self::Inside(mount, relative) => write!(f, "{}{relative}", mount.prefix()),
        }
    }
}

impl RelativePath {
    /// Parses a path that was found below a root. It must be in NFC: another name cannot be addressed, because
    /// [`MemoryPath::parse`] normalizes every path.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        if text.len() > PATH_BYTES_MAX {
            return Err(PathError::invalid(text, PathErrorKind::TooLong));
        }
        for segment in text.split('/') {
            segment::check_on_disk(segment)
                .map_err(|error| PathError::from_segment_error(text, error))?;
        }
        let relative = Self(text.to_owned());
        check_length(Mount::Flat, &relative).map_err(|fault| PathError::invalid(text, fault))?;
        Ok(relative)
    }

    /// Returns the path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the segments, from the root on.
    pub fn segments(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/')
    }

    /// Returns the number of segments, at least one.
    pub fn depth(&self) -> usize {
        1 + self.0.bytes().filter(|&byte| byte == b'/').count()
    }

    /// Returns the last segment.
    pub fn file_name(&self) -> &str {
        self.0.rsplit_once('/').map_or(self.as_str(), |(_, name)| name)
    }

    /// Returns the parent folder; `None` if that is the root.
    pub fn parent(&self) -> Option<Self> {
        self.0.rsplit_once('/').map(|(parent, _)| Self(parent.to_owned()))
    }

    /// Returns the folders that contain the path, from the nearest on. The root is none of them.
    pub fn folders(&self) -> impl Iterator<Item = Self> + use<> {
        std::iter::successors(self.parent(), Self::parent)
    }

    /// Checks whether the path is `folder` or below it.
    pub fn is_within(&self, folder: &Self) -> bool {
        self.below(folder).is_some()
    }

    /// Returns the path after a move of `from` to `to`; `None` if the path is not within `from`, or if the new path
    /// would be too long or too deep.
    pub fn rebase(&self, from: &Self, to: &Self) -> Option<Self> {
        let rebased = Self(format!("{to}{}", self.below(from)?));
        check_length(Mount::Flat, &rebased).ok().map(|()| rebased)
    }

    /// Returns the path of `segment` in this folder.
    pub fn child(&self, segment: &str) -> Result<Self, PathError> {
        let text = format!("{self}/{segment}");
        segment::check_on_disk(segment)
            .map_err(|error| PathError::from_segment_error(&text, error))?;
        let child = Self(text);
        match check_length(Mount::Flat, &child) {
            Ok(()) => Ok(child),
            Err(fault) => Err(PathError::invalid(child.as_str(), fault)),
        }
    }

    /// Returns a form that is equal for paths that differ only in case, as on file systems that ignore case.
    pub fn case_folded(&self) -> String {
        if self.0.is_ascii() {
            return self.0.to_ascii_lowercase();
        }
        // Letter by letter: lower-casing a whole word turns its last sigma into another letter.
        let lower = self.0.chars().flat_map(char::to_lowercase);
        lower.map(|letter| if letter == 'ς' { 'σ' } else { letter }).nfc().collect()
    }

    /// Returns the part after `folder`: empty, or beginning with a slash.
    fn below(&self, folder: &Self) -> Option<&str> {
        self.0
            .strip_prefix(folder.as_str())
            .filter(|below| below.is_empty() || below.starts_with('/'))
    }
}

impl fmt::Display for RelativePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for RelativePath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        Self::parse(text)
    }
}

/// Splits `global/a/b` into its mount and the rest, if any.
fn split_scope(below: &str) -> Option<(Mount, Option<&str>)> {
    let (first, rest) = match below.split_once('/') {
        Some((first, rest)) => (first, Some(rest)),
        None => (below, None),
    };
    Some((Mount::Scope(first.parse().ok()?), rest))
}

fn check_length(mount: Mount, relative: &RelativePath) -> Result<(), PathErrorKind> {
    if mount.prefix().len() + relative.as_str().len() > PATH_BYTES_MAX {
        return Err(PathErrorKind::TooLong);
    }
    if mount.segments() + relative.depth() > PATH_SEGMENTS_MAX {
        return Err(PathErrorKind::TooDeep);
    }
    Ok(())
}

/// Escapes an untrusted text for display: invisible characters are spelled out, and a long text is cut.
pub(crate) fn escaped_excerpt(text: &str) -> String {
    let mut shown = String::new();
    for (count, character) in text.chars().enumerate() {
        if count == PATH_SHOWN_CHARS_MAX {
            shown.push('…');
            break;
        }
        if segment::is_invisible(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
}

#[cfg(test)]
mod tests;
