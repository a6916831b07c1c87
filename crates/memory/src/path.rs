//! Memory paths: `/memories/<scope>/<segments>`, the only paths a model sees.
//!
//! Text from outside is parsed here once. A parsed path cannot hold a traversal, a hidden name, a
//! control or invisible character, or a name that some file system treats specially, so nobody
//! asks again. Names found on disk go through the same grammar ([`RelativePath::parse`]); what it
//! refuses cannot be addressed. Whether anything is at a path is the store's to know.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use strum::{AsRefStr, Display, EnumString, IntoStaticStr, VariantArray};
use unicode_normalization::UnicodeNormalization;

use crate::limits::{PATH_BYTES_MAX, PATH_SEGMENTS_MAX, PATH_SHOWN_CHARS_MAX, SEGMENT_BYTES_MAX};

mod segment;

/// How far a memory reaches, in the order in which scopes are shown and locked. The word of a scope is the first segment
/// of its paths.
#[derive(AsRefStr, Display, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// A person, in all projects.
    Global,
    /// A project; travels with the repository.
    Project,
    /// One workspace; dies with it.
    Workspace,
}

/// What is mounted below `/memories`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// The three scopes.
    Scoped,
    /// One folder, at `/memories` itself.
    Flat,
}

/// One root as paths name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mount {
    /// The root of a scope.
    Scope(Scope),
    /// The one folder of a flat layout.
    Flat,
}

/// A path below a root: one segment or more, each within the grammar, in Unicode NFC, joined by `/`.
///
/// Its order is the order of listings: that of its bytes (`a-b.md`, `a.md`, `a/x.md`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelativePath(String);

/// A place below `/memories` that the grammar allows.
///
/// [`MemoryPath::parse`] and [`MemoryPath::inside`] also bound the whole path; a value that was put
/// together from a mount and a relative path by hand may be a little longer than that.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemoryPath {
    /// `/memories` of a scoped layout.
    Top,
    /// A root itself: `/memories/global`, or `/memories` of a flat layout.
    Root(Mount),
    /// A file or folder below a root.
    Inside(Mount, RelativePath),
}

/// Why a text is not a memory path. Its text is safe to show: nothing in it is invisible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It is not below `/memories`.
    #[error("Path must start with /memories, got: {shown}")]
    Elsewhere {
        /// The text, made safe to show.
        shown: String,
    },
    /// It climbs, or it might climb once something decodes or expands it.
    #[error("Path {shown} would escape /memories directory")]
    Escape {
        /// The text, made safe to show.
        shown: String,
    },
    /// It breaks another rule of the grammar.
    #[error("Invalid memory path {shown}: {fault}")]
    Invalid {
        /// The text, made safe to show.
        shown: String,
        /// The rule.
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
    /// Two slashes meet, or the path has no segment.
    #[error("it has an empty segment")]
    EmptySegment,
    /// A segment starts with a dot.
    #[error("a segment must not start with a dot")]
    Hidden,
    /// A segment ends with a dot or white space, which some file systems drop.
    #[error("a segment must not end with a dot or a space")]
    BadEnd,
    /// A segment holds a character that some file system reserves.
    #[error("it must not contain {0:?}")]
    ReservedCharacter(char),
    /// A segment holds a control character or one that cannot be seen.
    #[error("it contains the invisible character U+{:04X}", u32::from(*.0))]
    InvisibleCharacter(char),
    /// A segment is a device on Windows, with or without extension.
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
    /// A name on disk is not in NFC, so that no parsed path can equal it.
    #[error("it is not in Unicode NFC")]
    NotNormalized,
    /// A file was wanted and the path ends like a folder's.
    #[error("the path of a memory must not end with a slash")]
    FolderPath,
}

/// Why one segment is refused, before the path around it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SegmentError {
    /// It belongs to [`PathError::Escape`].
    Escape,
    /// It belongs to [`PathError::Invalid`].
    Fault(PathErrorKind),
}

impl PathError {
    /// Returns the refusal of `text` for breaking one rule.
    pub fn invalid(text: &str, fault: PathErrorKind) -> Self {
        Self::Invalid { shown: escaped_excerpt(text), fault }
    }

    fn from_segment_error(text: &str, refused: SegmentError) -> Self {
        match refused {
            SegmentError::Escape => Self::Escape { shown: escaped_excerpt(text) },
            SegmentError::Fault(fault) => Self::invalid(text, fault),
        }
    }
}

impl Mount {
    /// Returns the first bytes of every path below this mount.
    const fn prefix(self) -> &'static str {
        match self {
            Self::Scope(Scope::Global) => "/memories/global/",
            Self::Scope(Scope::Project) => "/memories/project/",
            Self::Scope(Scope::Workspace) => "/memories/workspace/",
            Self::Flat => "/memories/",
        }
    }

    /// Returns how many segments stand before a path below this mount.
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
    /// Reads a path from outside. White space around it and one trailing slash are dropped, and it
    /// is brought into Unicode NFC.
    pub fn parse(text: &str, layout: Layout) -> Result<Self, PathError> {
        let text = text.trim();
        // Normalizing shortens at most threefold: what is longer than that stays too long.
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
            segment::check(segment)
                .map_err(|refused| PathError::from_segment_error(text, refused))?;
        }
        let fault = |fault| PathError::invalid(text, fault);
        let (mount, rest) = match layout {
            Layout::Scoped => {
                split_scope(below).ok_or_else(|| fault(PathErrorKind::UnknownScope))?
            }
            Layout::Flat => (Mount::Flat, Some(below)),
        };
        let Some(rest) = rest else { return Ok(Self::Root(mount)) };
        let relative = RelativePath(rest.to_owned());
        check_length(mount, &relative).map_err(fault)?;
        Ok(Self::Inside(mount, relative))
    }

    /// Returns the path of `relative` below `mount`, if the whole of it is not too long.
    pub fn inside(mount: Mount, relative: RelativePath) -> Result<Self, PathError> {
        match check_length(mount, &relative) {
            Ok(()) => Ok(Self::Inside(mount, relative)),
            Err(fault) => {
                Err(PathError::invalid(&Self::Inside(mount, relative).to_string(), fault))
            }
        }
    }

    /// Returns whether it travels with a repository, so that others may have written it.
    pub fn is_shared(&self) -> bool {
        self.mount() == Some(Mount::Scope(Scope::Project))
    }

    /// Returns the root it belongs to, `None` for the top of a scoped layout.
    pub const fn mount(&self) -> Option<Mount> {
        match self {
            Self::Top => None,
            Self::Root(mount) | Self::Inside(mount, _) => Some(*mount),
        }
    }

    /// Returns the part below the root, `None` for a root and the top.
    pub const fn relative(&self) -> Option<&RelativePath> {
        match self {
            Self::Top | Self::Root(_) => None,
            Self::Inside(_, relative) => Some(relative),
        }
    }

    /// Returns the path of `segment` in this folder. The top has no children but the scopes.
    pub fn join(&self, segment: &str) -> Result<Self, PathError> {
        let refused =
            |refused| PathError::from_segment_error(&format!("{self}/{segment}"), refused);
        segment::check_on_disk(segment).map_err(refused)?;
        match self {
            Self::Top => match segment.parse() {
                Ok(scope) => Ok(Self::Root(Mount::Scope(scope))),
                Err(_) => Err(refused(SegmentError::Fault(PathErrorKind::UnknownScope))),
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
    /// Reads a path as it was found below a root. It must be in NFC already: a name that is not
    /// cannot be addressed, because every path from outside is.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        if text.len() > PATH_BYTES_MAX {
            return Err(PathError::invalid(text, PathErrorKind::TooLong));
        }
        for segment in text.split('/') {
            segment::check_on_disk(segment)
                .map_err(|refused| PathError::from_segment_error(text, refused))?;
        }
        let relative = Self(text.to_owned());
        check_length(Mount::Flat, &relative).map_err(|fault| PathError::invalid(text, fault))?;
        Ok(relative)
    }

    /// Returns the path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns its segments, from the root on.
    pub fn segments(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/')
    }

    /// Returns how many segments it has, at least one.
    pub fn depth(&self) -> usize {
        1 + self.0.bytes().filter(|&byte| byte == b'/').count()
    }

    /// Returns its last segment.
    pub fn file_name(&self) -> &str {
        self.0.rsplit_once('/').map_or(self.as_str(), |(_, name)| name)
    }

    /// Returns the folder it lies in, `None` if that is the root.
    pub fn parent(&self) -> Option<Self> {
        self.0.rsplit_once('/').map(|(parent, _)| Self(parent.to_owned()))
    }

    /// Tells whether it is `folder` or lies below it.
    pub fn is_within(&self, folder: &Self) -> bool {
        self.below(folder).is_some()
    }

    /// Returns where it lies once `from` has become `to`; `None` if it is not within `from`, or if
    /// the new path would be longer or deeper than any path may be.
    pub fn rebase(&self, from: &Self, to: &Self) -> Option<Self> {
        let rebased = Self(format!("{to}{}", self.below(from)?));
        check_length(Mount::Flat, &rebased).ok().map(|()| rebased)
    }

    /// Returns the path of `segment` in this folder.
    pub fn child(&self, segment: &str) -> Result<Self, PathError> {
        let text = format!("{self}/{segment}");
        segment::check_on_disk(segment)
            .map_err(|refused| PathError::from_segment_error(&text, refused))?;
        let child = Self(text);
        match check_length(Mount::Flat, &child) {
            Ok(()) => Ok(child),
            Err(fault) => Err(PathError::invalid(child.as_str(), fault)),
        }
    }

    /// Returns the form in which paths that differ only in case are equal, as they are on file
    /// systems that ignore case.
    pub fn case_folded(&self) -> String {
        if self.0.is_ascii() {
            return self.0.to_ascii_lowercase();
        }
        // Letter by letter, for lower-casing a whole word makes its last sigma another letter.
        let lower = self.0.chars().flat_map(char::to_lowercase);
        lower.map(|letter| if letter == 'ς' { 'σ' } else { letter }).nfc().collect()
    }

    /// Returns what follows `folder`: nothing, or a slash and more.
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

/// Parts `global/a/b` into its mount and the rest, if there is one.
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

/// Returns a text from outside so that a person or a model sees all of it: what is invisible is
/// spelled out, what is too long is cut.
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
