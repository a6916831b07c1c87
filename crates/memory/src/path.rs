//! Memory paths: `/memories/<scope>/<segments>`, the only paths a model sees.
//!
//! Text from outside is parsed here once. A parsed path cannot hold a traversal, a hidden name, a
//! control or look-alike character, or a name that some file system treats specially, so nobody
//! asks again. Names found on disk go through the same grammar.

use std::fmt;

/// How far a memory reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// A person, in all projects.
    Global,
    /// A project; travels with the repository.
    Project,
    /// One workspace; dies with it.
    Workspace,
}

impl Scope {
    /// Every scope, in the order in which they are shown and locked.
    pub const ALL: [Self; 3] = [Self::Global, Self::Project, Self::Workspace];

    /// Returns the public word, which is also the first segment of its paths.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Project => "project",
            Self::Workspace => "workspace",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
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
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelativePath(String);

/// A place below `/memories` that the grammar allows.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemoryPath {
    /// `/memories` of a scoped layout.
    Top,
    /// A root itself: `/memories/global`, or `/memories` of a flat layout.
    Root(Mount),
    /// A file or folder below a root.
    Inside(Mount, RelativePath),
}

impl RelativePath {
    /// Returns the path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
