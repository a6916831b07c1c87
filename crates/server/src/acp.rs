//! Tasks over the Agent Client Protocol (ACP), as server and as client.
//!
//! [`serve`] is an agent that any ACP client may start. It offers `remember`, `forget` and `dream` as ext-methods; it
//! has no sessions. [`ChildRunner`] is the daemon's client of such an agent: a task runner whose tasks are decided in
//! a child process. The child commits nothing: it returns edits, which the daemon checks and commits.

mod agent;

mod bridge;

mod peer;

mod staged;

pub use agent::{AcpConfig, FindWorkspace, ServeError, serve, serve_stdio};
pub use bridge::{ChildRunner, ChildSettings};
