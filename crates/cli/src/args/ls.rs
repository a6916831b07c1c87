//! The grammar of `lukasa ls`.

use clap::{Args, ValueEnum};
use memory::change::{Actor, Trust};
use strum::VariantArray as _;

/// List memories
///
/// On a terminal: the pin, size, age, uses, path and description of each memory; with `--long` also who wrote it
/// last, how far it is trusted and when it was last used. Piped: one line each of path, bytes, time, uses, pin and
/// description, with tabs between; `--long` adds author, trust and time of last use.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa ls                       all memories
  lukasa ls project/ --tree       those of the project, as a tree
  lukasa ls --by agent --since 1d what agents wrote since yesterday
  lukasa ls --unused --sort used  what could go
  lukasa ls | cut -f1             their paths
  lukasa ls --json | jq '.memories[] | select(.trust == \"outside\")'")]
pub(crate) struct Ls {
    /// A scope or folder, such as `global` or `/memories/project/notes`
    pub(crate) path: Option<String>,

    #[command(flatten)]
    pub(crate) show: ListingForm,

    #[command(flatten)]
    pub(crate) filter: Filter,

    /// In which order
    #[arg(long, value_name = "ORDER", default_value = "path")]
    pub(crate) sort: Order,
}

/// The form of a listing.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ListingForm {
    /// Show folders as a tree
    #[arg(long, short, conflicts_with = "sort")]
    pub(crate) tree: bool,

    /// Show author, trust and last use too
    #[arg(long, short, conflicts_with = "tree")]
    pub(crate) long: bool,
}

/// The memories that are listed; all of the conditions hold.
#[derive(Args, Clone, Debug)]
pub(crate) struct Filter {
    /// Only those that were last written by: `person`, `agent`, `task`, `review`, `dream`, `outside`
    #[arg(long, value_name = "AUTHOR", value_parser = author)]
    pub(crate) by: Option<Actor>,

    /// Only those of this trust: `person`, `agent`, `background`, `imported`, `outside`
    #[arg(long, value_name = "TRUST", value_parser = trust)]
    pub(crate) trust: Option<Trust>,

    /// Only those that were modified at or after this time: `2h`, `3 days ago`, `2026-11-01`
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,

    /// Only those that were not used since they were last written
    #[arg(long)]
    pub(crate) unused: bool,

    /// Only those that are pinned
    #[arg(long)]
    pub(crate) pinned: bool,
}

/// An order of memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    /// Scope by scope, by path
    Path,
    /// The last modified first
    Modified,
    /// The longest unused first
    Used,
    /// The most used first
    Uses,
    /// The largest first
    Size,
}

fn author(word: &str) -> Result<Actor, String> {
    word.parse().map_err(|_| listed(Actor::VARIANTS.iter().map(AsRef::as_ref)))
}

fn trust(word: &str) -> Result<Trust, String> {
    word.parse().map_err(|_| listed(Trust::VARIANTS.iter().map(AsRef::as_ref)))
}

fn listed(words: impl Iterator<Item = &'static str>) -> String {
    format!("it is one of {}", words.collect::<Vec<_>>().join(", "))
}
