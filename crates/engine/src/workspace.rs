//! A workspace as the daemon knows it: a folder that somebody works in, and what it gives access to.

use std::path::PathBuf;

use store::BindingRequest;

/// A folder that somebody works in. Tasks of one workspace are done one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    /// Its name, the same in every process: a readable word and a digest of what is bound.
    pub id: String,
    /// The folder.
    pub cwd: PathBuf,
    /// The memories that it gives access to.
    pub binding: BindingRequest,
    /// Whether it is the one that a daemon was started for.
    pub primary: bool,
    /// Whether a person said that what lies there may be read and run.
    pub trusted: bool,
    /// Whether tasks may be asked for here: a person may switch memory off.
    pub memory_enabled: bool,
}
