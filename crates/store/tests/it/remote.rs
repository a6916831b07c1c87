//! The backend for folders of another machine: the conformance suite, and faults that only a connection can have.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lukasa_store::backend::remote::{Connect, ConnectError, Link, RemoteBackend, Streams, serve};
use lukasa_store::backend::{Backend, Freshness};
use lukasa_store::{BaseFolders, Caller, Memories};
use memory::change::RootKey;
use memory::path::{Mount, Scope};
use serde_json::{Value, json};
use testkit::conformance::backend::{Harness, run};
use testkit::round_trips::RoundTrips;

use crate::conformance::{Editor, elsewhere};
use crate::host::{TestHost, answer, create};

/// Starts a far side in this process.
#[derive(Debug)]
struct InProcess {
    folders: BaseFolders,
    trips: Option<Arc<RoundTrips>>,
}

#[async_trait]
impl Connect for InProcess {
    async fn connect(&self) -> Result<Streams, ConnectError> {
        let (input, far_output) = tokio::io::duplex(1 << 16);
        let (far_input, output) = tokio::io::duplex(1 << 16);
        let (input, output) = match &self.trips {
            None => (input, output),
            Some(trips) => trips.count_on(input, output),
        };
        let folders = self.folders.clone();
        tokio::spawn(async move {
            drop(serve(far_input, far_output, &folders, Path::new("/nowhere")).await);
        });
        Ok(Streams { input: Box::new(input), output: Box::new(output), keep_alive: Box::new(()) })
    }

    fn host(&self) -> &'static str {
        "far"
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

    fn backend(&self) -> Arc<dyn Backend> {
        self.backend_with(None)
    }

    /// Returns a backend that counts its round trips.
    fn backend_with(&self, trips: Option<Arc<RoundTrips>>) -> Arc<dyn Backend> {
        let link = Link::new(Box::new(InProcess { folders: self.folders(), trips }), None);
        let folder = self.checkout().into_os_string().into_encoded_bytes();
        Arc::new(RemoteBackend::new(link, folder, self.home.path().join("client/identity")))
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
        holds_only_files: false,
        keep_alive: Box::new(machine.home),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_of_another_machine_conforms_to_the_backend_port() {
    run(harness).await;
}

/// A project on another machine, whose round trips are counted.
struct CountedProject {
    machine: Machine,
    _host: TestHost,
    trips: Arc<RoundTrips>,
    backend: Arc<dyn Backend>,
    memories: Memories,
}

impl CountedProject {
    /// Creates a project with this number of memories.
    fn new(count: usize) -> Self {
        let (machine, host) = (Machine::new(), TestHost::new());
        let trips = Arc::<RoundTrips>::default();
        let root = machine.checkout().join(".lukasa/memory");
        fs::create_dir_all(&root).unwrap();
        for number in 0..count {
            fs::write(root.join(format!("{number}.md")), format!("- fact {number}\n")).unwrap();
        }
        let key = RootKey { identity: "project:far".to_owned(), place: "far".to_owned() };
        let backend = machine.backend_with(Some(Arc::clone(&trips)));
        let roots = vec![(Mount::Scope(Scope::Project), key, Arc::clone(&backend))];
        let memories = host.store().memories_in(roots, Caller::person("test"));
        Self { machine, _host: host, trips, backend, memories }
    }

    /// Returns the number of round trips of a command that succeeds.
    async fn trips_of(&self, arguments: Value) -> usize {
        let (trips, (text, error)) = self.trips.of(answer(&self.memories, arguments)).await;
        assert_eq!(error, None, "{text}");
        trips
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.machine.checkout().join(".lukasa/memory").join(name), text).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_view_is_one_round_trip_a_create_three_and_a_long_list_two() {
    let project = CountedProject::new(990);
    let path = |name: &str| format!("/memories/project/{name}");
    let view = |name: &str| json!({"command": "view", "path": path(name)});
    let create =
        |name: &str| json!({"command": "create", "path": path(name), "file_text": "one\n"});
    // Connects, and checks for an interrupted write.
    project.trips_of(view("1.md")).await;
    assert_eq!(project.trips_of(view("2.md")).await, 1);
    // Removes left-overs of an earlier process.
    project.trips_of(create("first.md")).await;
    assert_eq!(project.trips_of(create("second.md")).await, 3);
    let edit =
        json!({"command": "insert", "path": path("1.md"), "insert_line": 0, "insert_text": "x"});
    assert_eq!(project.trips_of(edit).await, 3);
    let (trips, listing) = project.trips.of(project.memories.list(None)).await;
    assert_eq!((trips, listing.unwrap().memories.len()), (2, 992));
    let (trips, _) = project.trips.of(project.memories.list(None)).await;
    assert_eq!(trips, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_there_are_reported_and_nothing_is_asked_until_then() {
    let project = CountedProject::new(3);
    // The first notices may come after the first questions, and the files are new.
    let mut asked = 1;
    let mut version = None;
    for _ in 0..10 {
        (asked, version) = project.trips.of(project.memories.version()).await;
        if asked == 0 {
            break;
        }
    }
    assert_eq!(asked, 0);
    let known = async || project.backend.list(Freshness::Noticed).await.unwrap();
    // By an editor there.
    let mut changes = project.backend.changes().unwrap();
    let before = known().await;
    project.write("0.md", "- another fact\n");
    tokio::time::timeout(Duration::from_secs(4), changes.changed()).await.unwrap().unwrap();
    let path = "0.md".parse().unwrap();
    assert_ne!(known().await.file(&path), before.file(&path));
    assert_ne!(project.memories.version().await, version);
    // By this process: at once, whether the notice came or not.
    create(&project.memories, "/memories/project/new.md", "- new\n").await;
    assert_eq!(known().await.files.len(), before.files.len() + 1);
}
