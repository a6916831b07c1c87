//! The arguments of `lukasa reference`.

use clap::{Args, ValueEnum};

/// Print a reference in Markdown
#[derive(Args, Debug)]
pub(crate) struct Reference {
    /// Reference to print
    pub(crate) topic: ReferenceTopic,
}

/// The references that are generated from the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReferenceTopic {
    /// Commands and flags
    Cli,
    /// Error codes and exit statuses
    Codes,
    /// Screening rules
    Rules,
    /// Limits and their values
    Limits,
    /// Routes of the daemon
    Http,
    /// Routes of the daemon, as OpenAPI
    Openapi,
    /// Settings, as a JSON Schema for editors
    Settings,
}
