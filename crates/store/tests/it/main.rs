//! Integration tests of the store, on real folders and a real state database.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "the helpers of these tests create real folders, and panic if that fails"
)]

mod host;

mod cases;
mod entry_dates;

mod context_files;
mod context_load;

mod conformance;

mod crash;

mod drafts;

mod faults;

mod history;

mod influence;

mod hostile;

mod limits;

mod external_edits;

mod model;
mod origins;

mod outside;

mod process;

mod processes;
mod remote;

mod roots;

mod sim;

mod usage;

mod worktrees;
