//! The rows of tasks, sessions, runs, conversations, proposals and model work.

pub(crate) mod conversations;
pub(crate) mod proposals;
pub(crate) mod queue;
pub(crate) mod sessions;
