//! Tasks over the Agent Client Protocol, from both ends.
//!
//! [`serve`] is an agent that any client of the protocol may start: it offers what remembers, forgets and tidies up,
//! as ext-methods, and no session. [`ChildRunner`] is the daemon's own client of it: a runner whose tasks are decided
//! in a child process, which commits nothing.

mod agent;

mod bridge;

mod peer;

mod staged;

pub use agent::{AcpConfig, FindWorkspace, ServeError, serve, serve_stdio};
pub use bridge::{ChildRunner, ChildSettings};
