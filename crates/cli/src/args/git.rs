//! The grammar of the command that git calls to merge memories.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// Merge two versions of a memory for git
///
/// Git calls this command after `lukasa install git`. It merges by entry and by field, and writes the result to the file
/// of our version. Entries that both sides added stay; an entry that both sides edited becomes a conflict, with git's
/// markers. What cannot be merged by entry is merged by `git merge-file`.
///
/// The exit status is 0 without conflicts, 1 with conflicts, and above 128 if the merge failed.
#[derive(Args, Debug)]
#[command(after_help = "\
Example, as git calls it:
  lukasa merge-driver .merge_file_O .merge_file_A .merge_file_B .lukasa/memory/build.md")]
pub(crate) struct MergeDriver {
    /// File with the version that both sides began with; `%O` of git
    pub(crate) base: PathBuf,

    /// File with our version, to which the result is written; `%A` of git
    pub(crate) ours: PathBuf,

    /// File with their version; `%B` of git
    pub(crate) theirs: PathBuf,

    /// Path of the memory in the checkout, for messages; `%P` of git
    #[arg(allow_hyphen_values = true)]
    pub(crate) path: PathBuf,

    /// Length of conflict markers; `%L` of git
    #[arg(long, value_name = "N", default_value_t = memory::limits::MARKER_LENGTH_MIN)]
    pub(crate) marker_length: usize,

    /// Name of the version that both sides began with; `%S` of git
    #[arg(long, value_name = "NAME", default_value = "base", allow_hyphen_values = true)]
    pub(crate) base_label: OsString,

    /// Name of our version; `%X` of git
    #[arg(long, value_name = "NAME", default_value = "ours", allow_hyphen_values = true)]
    pub(crate) our_label: OsString,

    /// Name of their version; `%Y` of git
    #[arg(long, value_name = "NAME", default_value = "theirs", allow_hyphen_values = true)]
    pub(crate) their_label: OsString,
}
