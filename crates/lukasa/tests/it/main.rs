//! The promises of the library, tested through its public API alone.

#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "the tests look at real folders, as an embedding program may, and fail where that fails"
)]

mod callers;
mod conversations;
mod events;
mod lifecycle;
mod refusals;
mod remote;
mod tasks;

use std::path::Path;

use lukasa::{Lukasa, Memories};
use tempfile::TempDir;

/// A home in a temporary folder.
struct TestHome {
    folder: TempDir,
}

impl TestHome {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Creates a git checkout in the folder.
    fn checkout(&self, name: &str) -> std::path::PathBuf {
        let checkout = self.path().join(name);
        std::fs::create_dir_all(checkout.join(".git")).unwrap();
        checkout
    }

    async fn open(&self) -> Lukasa {
        Lukasa::open(self.path().join("home")).await.unwrap()
    }
}

fn person(lukasa: &Lukasa) -> Memories {
    lukasa.global().as_person("test")
}

/// Returns the paths of all visible memories.
async fn paths(memories: &Memories) -> Vec<String> {
    let listing = memories.list().await.unwrap();
    listing.into_iter().map(|memory| memory.path.to_string()).collect()
}

#[test]
fn the_crate_has_at_most_40_names_at_its_top() {
    let source = include_str!("../../src/lib.rs");
    let exports = source.split("pub use ").skip(1).filter_map(|rest| rest.split(';').next());
    // Names in `layers` are not counted.
    let exports = exports.filter(|export| !export.starts_with("::"));
    let names: usize = exports.map(|export| export.matches(',').count().max(1)).sum();
    assert!((20..=40).contains(&names), "{names}");
}
