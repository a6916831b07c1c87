//! For tests only: clocks, doubles and the suites that every adapter of a port passes.
//!
//! An adapter's own tests call its suite here and add what is special about it. Nothing in this crate
//! is part of the product.

pub mod conformance;

mod clock;
mod embeddings;
mod faults;
mod faulty_backend;
mod faulty_state;
mod faulty_tasks;
mod http;
mod memory_backend;
mod models;
mod random;
mod tls;
mod wait;

pub use clock::ManualClock;
pub use embeddings::{EmbeddingReply, EmbeddingRequest, EmbeddingServer};
pub use faults::Faults;
pub use faulty_backend::{Failure, FaultPlan, FaultyBackend};
pub use faulty_state::FaultyState;
pub use faulty_tasks::FaultyTasks;
pub use memory_backend::MemoryBackend;
pub use models::{ModelReply, ModelRequest, ModelServer};
pub use random::Random;
pub use tls::TlsProxy;
pub use wait::{delay_fault, eventually};

/// Returns a real state in this folder, for tests of crates that may not name its adapter.
pub fn sqlite_state(folder: &std::path::Path) -> std::sync::Arc<dyn state::HistoryStore> {
    std::sync::Arc::new(state::SqliteState::new(folder.join("lukasa.db")))
}
