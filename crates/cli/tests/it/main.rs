//! The binary as people and scripts run it: real processes in throw-away homes and real checkouts.

#![expect(
    clippy::disallowed_methods,
    reason = "the tests set up files and read what commands left"
)]

mod place;

mod care;

mod edit;

mod history;

mod list;

mod search;

mod settings;

mod shell;

mod terminal;

mod transfer;

mod write;

mod demo;
