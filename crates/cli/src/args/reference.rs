//! The arguments of `lukasa reference`.

use clap::{Args, ValueEnum};

/// Print a reference in Markdown
#[derive(Args, Debug)]
pub(crate) struct Reference {
    /// Which one
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
    /// Numbers
    Limits,
    /// The routes of the daemon
    Http,
    /// The same, as OpenAPI
    Openapi,
    /// The settings, as a JSON Schema for editors
    Settings,
}
