//! The grammar of `lukasa ls`.

use clap::{Args, ValueEnum};
use memory::change::{Actor, Trust};
use strum::VariantArray as _;

/// List memories
///
/// On a terminal: the pin, size, age, uses, path and description of each memory; with `--long` also its last author,
/// its trust and the time of its last use. Piped: one line per memory with path, bytes, time, uses, pin and
/// description, separated by tabs; `--long` adds author, trust and time of last use.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa ls                       all memories
  lukasa ls project/ --tree       memories of the project, as a tree
  lukasa ls --by agent --since 1d memories that agents wrote since yesterday
  lukasa ls --unused --sort used  candidates for deletion
  lukasa ls | cut -f1             paths only
  lukasa ls --json | jq '.memories[] | select(.trust == \"outside\")'")]
pub(crate) struct Ls {
    /// Scope or folder to list, such as `global` or `/memories/project/notes`
    pub(crate) path: Option<String>,

    #[command(flatten)]
    pub(crate) show: ListingForm,

    #[command(flatten)]
    pub(crate) filter: Filter,

    /// Sort order
    #[arg(long, value_name = "ORDER", default_value = "path")]
    pub(crate) sort: Order,
}

/// The form of a listing.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ListingForm {
    /// Show folders as a tree
    #[arg(long, short, conflicts_with = "sort")]
    pub(crate) tree: bool,

    /// Also show author, trust and last use
    #[arg(long, short, conflicts_with = "tree")]
    pub(crate) long: bool,
}

/// The conditions on listed memories; all of them must hold.
#[derive(Args, Clone, Debug)]
pub(crate) struct Filter {
    /// List only memories last written by: `person`, `agent`, `task`, `review`, `dream`, `outside`
    #[arg(long, value_name = "AUTHOR", value_parser = author)]
    pub(crate) by: Option<Actor>,

    /// List only memories of this trust: `person`, `agent`, `background`, `imported`, `outside`
    #[arg(long, value_name = "TRUST", value_parser = trust)]
    pub(crate) trust: Option<Trust>,

    /// List only memories modified at or after this time: `2h`, `3 days ago`, `2026-11-01`
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,

    /// List only memories that were not used since they were last written
    #[arg(long)]
    pub(crate) unused: bool,

    /// List only pinned memories
    #[arg(long)]
    pub(crate) pinned: bool,
}

/// An order of memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    /// By scope, then by path
    Path,
    /// Last modified first
    Modified,
    /// Longest unused first
    Used,
    /// Most used first
    Uses,
    /// Largest first
    Size,
}

fn author(word: &str) -> Result<Actor, String> {
    word.parse().map_err(|_| listed(Actor::VARIANTS.iter().map(AsRef::as_ref)))
}

fn trust(word: &str) -> Result<Trust, String> {
    word.parse().map_err(|_| listed(Trust::VARIANTS.iter().map(AsRef::as_ref)))
}

fn listed(words: impl Iterator<Item = &'static str>) -> String {
    format!("expected one of {}", words.collect::<Vec<_>>().join(", "))
}
