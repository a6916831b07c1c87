//! The backend for folders of another machine: the conformance suite, and faults that only a connection can have.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use lukasa_store::BaseFolders;
use lukasa_store::backend::Backend;
use lukasa_store::backend::remote::{Connect, ConnectError, Link, RemoteBackend, Streams, serve};
use testkit::conformance::backend::{Harness, run};

use crate::conformance::{Editor, elsewhere};

/// Starts a far side in this process.
#[derive(Debug)]
struct InProcess {
    folders: BaseFolders,
    connections: Arc<AtomicU64>,
    host: String,
}

#[async_trait]
impl Connect for InProcess {
    async fn connect(&self) -> Result<Streams, ConnectError> {
        self.connections.fetch_add(1, Ordering::SeqCst);
        let (input, far_output) = tokio::io::duplex(1 << 16);
        let (far_input, output) = tokio::io::duplex(1 << 16);
        let folders = self.folders.clone();
        tokio::spawn(async move {
            drop(serve(far_input, far_output, &folders, Path::new("/nowhere")).await);
        });
        Ok(Streams { input: Box::new(input), output: Box::new(output), keep_alive: Box::new(()) })
    }

    fn host(&self) -> &str {
        &self.host
    }
}

/// A machine with a checkout.
struct Machine {
    home: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join("checkout/.git")).unwrap();
        Self { home }
    }

    fn folders(&self) -> BaseFolders {
        let (data, state) = (self.home.path().join("data"), self.home.path().join("state"));
        BaseFolders { data, state }
    }

    fn checkout(&self) -> PathBuf {
        self.home.path().join("checkout")
    }

    fn link(&self) -> Arc<Link> {
        Link::new(Box::new(InProcess {
            folders: self.folders(),
            connections: Arc::default(),
            host: "far".to_owned(),
        }))
    }

    fn backend(&self) -> Arc<dyn Backend> {
        let folder = self.checkout().into_os_string().into_encoded_bytes();
        Arc::new(RemoteBackend::new(self.link(), folder, self.home.path().join("client/identity")))
    }
}

fn harness() -> Harness {
    let machine = Machine::new();
    let root = machine.checkout().join(".lukasa/memory");
    let elsewhere = elsewhere(machine.home.path());
    Harness {
        backend: machine.backend(),
        peer: machine.backend(),
        external_writer: Box::new(Editor { root, elsewhere }),
        keep_alive: Box::new(machine.home),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_of_another_machine_conforms_to_the_backend_port() {
    run(harness).await;
}
