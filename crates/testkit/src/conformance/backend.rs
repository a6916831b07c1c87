//! The conformance suite of [`Backend`](store::backend::Backend): walking, reading, writing, removing, renaming and
//! locking within a root, without ever leaving it.
//!
//! [`run`] requests a fresh root that does not exist yet for each test. A failed test panics.
#![expect(clippy::unwrap_used, reason = "a suite is a test: it fails by panicking")]

mod harness;
mod locking;
mod removing;
mod walking;
mod writing;

pub use self::harness::{ExternalWriter, Harness};

/// Runs all tests on roots that `make` returns, each fresh and missing.
pub async fn run(make: impl Fn() -> Harness) {
    walking::check_all(&make).await;
    writing::check_all(&make).await;
    removing::check_all(&make).await;
    locking::check_all(&make).await;
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn the_memory_backend_conforms() {
        super::run(super::Harness::in_memory).await;
    }
}
