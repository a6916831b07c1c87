//! What every backend does: walks, reads, replaces, removes and renames within its root, holds it,
//! and is never led out of it.
//!
//! [`run`] asks for a fresh root that does not exist yet before each claim. A claim that fails panics.
#![expect(clippy::unwrap_used, reason = "a suite is a test: it fails by panicking")]

mod harness;
mod locking;
mod removing;
mod walking;
mod writing;

pub use self::harness::{ExternalWriter, Harness};

/// Checks every claim on roots that `make` makes, each fresh and missing.
pub async fn run(make: impl Fn() -> Harness) {
    walking::check_all(&make).await;
    writing::check_all(&make).await;
    removing::check_all(&make).await;
    locking::check_all(&make).await;
}

#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn memory_is_a_backend() {
        super::run(super::Harness::in_memory).await;
    }
}
