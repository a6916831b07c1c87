//! Folders of this machine pass the suite that every backend passes, and so do they behind a double
//! that lets nothing fail.

use std::path::Path;
use std::sync::{Arc, Mutex};

use store::backend::Backend;
use store::backend::local::{Anchor, LocalBackend, Privacy};
use testkit::{FaultyBackend, Plan};

fn local(home: &Path, privacy: Privacy) -> Arc<dyn Backend> {
    let anchor = Anchor::new(home.to_owned(), &["a", "memory"], privacy);
    Arc::new(LocalBackend::new(anchor, home.join("state/root.lock")))
}

async fn check(make: impl Fn(&Path) -> Arc<dyn Backend>) {
    let folders = Mutex::new(Vec::new());
    testkit::conformance::backend::run(async || {
        let folder = tempfile::tempdir().unwrap();
        let backend = make(folder.path());
        folders.lock().unwrap().push(folder);
        backend
    })
    .await;
}

#[tokio::test]
async fn a_folder_is_a_backend() {
    check(|home| local(home, Privacy::Private)).await;
    check(|home| local(home, Privacy::Shared)).await;
}

#[tokio::test]
async fn the_faulty_double_is_a_backend_while_nothing_fails() {
    check(|home| {
        let inner = local(home, Privacy::Private);
        Arc::new(FaultyBackend::new(inner, Arc::new(Plan::default())))
    })
    .await;
}
