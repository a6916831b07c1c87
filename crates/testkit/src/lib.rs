//! Test doubles, fault injection and conformance suites. For tests only; nothing here is part of the product.
//!
//! The suites in [`conformance`] test every implementation of a port. An implementation's own tests call its suite, and
//! add what is specific to it.

pub mod conformance;

mod clock;
mod embeddings;
mod faults;
mod faulty_backend;
mod faulty_state;
mod faulty_tasks;
mod http;
mod identity_server;
mod memory_backend;
mod models;
pub mod postgres;
mod random;
mod reserved_port;
pub mod round_trips;
pub mod simulation;
pub mod sshd;
pub mod tcp_proxy;
mod tls;
mod wait;

pub use clock::ManualClock;
pub use embeddings::{EmbeddingReply, EmbeddingRequest, EmbeddingServer};
pub use faults::Faults;
pub use faulty_backend::{Failure, FaultPlan, FaultyBackend};
pub use faulty_state::FaultyState;
pub use faulty_tasks::FaultyTasks;
pub use identity_server::{
    DocumentReply, IdentityServer, ProviderKeyPair, SigningAlgorithm, token_with_secret,
    unsigned_token,
};
pub use memory_backend::MemoryBackend;
pub use models::{ModelReply, ModelRequest, ModelServer};
pub use random::Random;
pub use tls::TlsProxy;
pub use wait::{delay_fault, eventually};

/// Returns a SQLite state in this folder, for tests of crates that may not depend on its implementation.
pub fn sqlite_state(folder: &std::path::Path) -> std::sync::Arc<dyn state::HistoryStore> {
    std::sync::Arc::new(state::SqliteState::new(folder.join("lukasa.db")))
}
