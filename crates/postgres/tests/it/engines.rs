//! Engines of several daemons on one database: memories, tasks and the takeover of a dead daemon's work.

use std::sync::Arc;
use std::time::Duration;

use engine::{
    BaseFolders, BindingRequest, CallContext, Caller, ChangesQuery, Config, ContextMode,
    CuratorRequest, Engine, LaneSettings, Memories, RememberRequest, Requester, RunningServices,
    Status, Storage, TaskId, Workspace, WorkspaceChoice,
};
use lukasa_postgres::{Database, DatabaseSettings};
use memory::clock::Clock;
use memory::command::{MemoryCommand, Reply, ViewRange};
use memory::error_code::MemoryErrorCode;
use memory::path::{Layout, MemoryPath};
use store::clock::SystemClock;
use tempfile::TempDir;
use testkit::postgres::PostgresVersion;

use crate::support::Server;

/// Far longer than a notice takes, and shorter than the time after which a daemon looks by itself.
const NOTICED_WITHIN: Duration = Duration::from_secs(2);

/// Time after which another daemon takes over.
const LEASE: Duration = Duration::from_secs(1);

/// A daemon without its HTTP server.
pub(crate) struct Daemon {
    pub(crate) engine: Engine,
    _home: TempDir,
}

impl Daemon {
    pub(crate) async fn start(address: &str) -> Self {
        Self::start_with_clock(address, Arc::new(SystemClock)).await
    }

    pub(crate) async fn start_with_clock(address: &str, clock: Arc<dyn Clock>) -> Self {
        let home = tempfile::tempdir().unwrap();
        let folders =
            BaseFolders { data: home.path().join("data"), state: home.path().join("state") };
        let settings = DatabaseSettings { lease: LEASE, ..DatabaseSettings::default() };
        let database = Database::open(address, settings).await.unwrap();
        let owner = Arc::new(database.owner("one").await.unwrap());
        let storage = Storage {
            state: Arc::clone(&owner) as _,
            locks: Arc::clone(&owner) as _,
            events: Some(Arc::clone(&owner) as _),
            outside_readers: Some(Arc::clone(&owner) as _),
            roots: Some(owner),
            process_slots: None,
        };
        let config = Config { clock, ..Config::new(folders) };
        let engine = Engine::open_shared(config, storage).unwrap();
        Self { engine, _home: home }
    }

    pub(crate) fn memories(&self) -> Memories {
        self.engine.memories(&workspace("team").binding, Caller::person("test"))
    }

    pub(crate) async fn apply(&self, command: MemoryCommand) -> Reply {
        self.memories().apply(command, &CallContext::default()).await.unwrap()
    }

    pub(crate) async fn serve(&self) -> RunningServices {
        let settings =
            LaneSettings { maintenance_interval: LEASE / 4, ..self.engine.lane_settings() };
        self.engine.serve(&[workspace("team"), workspace("other")], settings).await.unwrap()
    }
}

/// Returns a workspace that is named and has no folder.
pub(crate) fn workspace(name: &str) -> Workspace {
    let id = WorkspaceChoice::Id(name.parse().unwrap());
    Workspace::from_binding(BindingRequest { workspace: id, ..BindingRequest::default() })
}

pub(crate) fn path(text: &str) -> MemoryPath {
    MemoryPath::parse(text, Layout::Scoped).unwrap()
}

pub(crate) fn create(at: &str, text: &str) -> MemoryCommand {
    MemoryCommand::Create { path: path(at), file_text: text.to_owned() }
}

async fn text(daemon: &Daemon, at: &str) -> String {
    match daemon.apply(MemoryCommand::View { path: path(at), lines: ViewRange::Whole }).await {
        Reply::Done { text, .. } => text,
        refused @ Reply::Refused(_) => panic!("{refused:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn daemons_edit_the_same_memories_and_lose_nothing() {
    let server = Server::start(PostgresVersion::Debian, &[]);
    let (_, address) = server.new_database();
    let first = Arc::new(Daemon::start(&address).await);
    first.apply(create("/memories/global/shared.md", "# Shared\n")).await;
    let mut daemons = vec![Arc::clone(&first)];
    for _ in 0..2 {
        daemons.push(Arc::new(Daemon::start(&address).await));
    }
    let mut writers = Vec::new();
    for (number, daemon) in daemons.iter().enumerate() {
        let daemon = Arc::clone(daemon);
        writers.push(tokio::spawn(async move {
            for round in 0..8 {
                let own = format!("/memories/workspace/{number}/{round}.md");
                let made = daemon.apply(create(&own, "own\n")).await;
                assert!(matches!(made, Reply::Done { .. }), "{made:?}");
                let line = MemoryCommand::Insert {
                    path: path("/memories/global/shared.md"),
                    insert_line: 1,
                    insert_text: format!("- line {number}-{round}\n"),
                };
                let inserted = daemon.apply(line).await;
                assert!(matches!(inserted, Reply::Done { .. }), "{inserted:?}");
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let shared = text(&first, "/memories/global/shared.md").await;
    for number in 0..3 {
        for round in 0..8 {
            assert!(shared.contains(&format!("line {number}-{round}")), "{shared}");
        }
    }
    for daemon in &daemons {
        assert_eq!(text(daemon, "/memories/global/shared.md").await, shared);
        let listing = daemon.memories().list(None).await.unwrap();
        assert_eq!(listing.memories.len(), 25);
        let query = ChangesQuery { max: 1_000, ..ChangesQuery::default() };
        assert_eq!(daemon.memories().changes(&query).await.unwrap().len(), 49);
    }
}

/// Submits as many tasks as this to one workspace, and returns their ids.
pub(crate) async fn submit(
    services: &RunningServices,
    workspace: &Workspace,
    (label, count): (&str, usize),
) -> Vec<TaskId> {
    let mut ids = Vec::new();
    for number in 0..count {
        let request = CuratorRequest::Remember(RememberRequest {
            content: format!("The {label} number of project {number} is {number}{number}{number}."),
            context_mode: ContextMode::Workspace,
            scope: None,
        });
        let submitted =
            services.lanes.submit(workspace, request, Requester::person("test")).await.unwrap();
        ids.push(submitted.id);
    }
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_one_workspace_are_done_once_whichever_daemon_got_them() {
    let server = Server::start(PostgresVersion::Newest, &[]);
    let (_, address) = server.new_database();
    let (first, second) = (Daemon::start(&address).await, Daemon::start(&address).await);
    let (services, others) = (first.serve().await, second.serve().await);
    let (team, other) = (workspace("team"), workspace("other"));
    let in_team = submit(&services, &team, ("blue", 6)).await;
    let in_other = submit(&services, &other, ("green", 6)).await;
    let by_others = submit(&others, &team, ("red", 6)).await;
    let tasks = in_team.iter().chain(&by_others).map(|id| (&team, id));
    for (workspace, id) in tasks.chain(in_other.iter().map(|id| (&other, id))) {
        // Each is read from the daemon that did not get it, too.
        for services in [&services, &others] {
            let task = services.lanes.wait(workspace, id).await.unwrap().unwrap();
            assert_eq!(task.status(), Status::Completed, "{task:?}");
        }
    }
    let mut shown = String::new();
    for memory in second.memories().list(None).await.unwrap().memories {
        shown += &text(&second, &memory.path.to_string()).await;
    }
    for (label, number) in ["blue", "red"].iter().flat_map(|l| (0..6).map(move |n| (l, n))) {
        let line = format!("- The {label} number of project {number} is");
        assert_eq!(shown.matches(&line).count(), 1, "{line}: {shown}");
    }
    assert!(!shown.contains("green"), "another workspace is not shown");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_is_told_at_once_what_another_one_changed() {
    let server = Server::start(PostgresVersion::Debian, &[]);
    let (_, address) = server.new_database();
    let (first, second) = (Daemon::start(&address).await, Daemon::start(&address).await);
    first.apply(create("/memories/global/before.md", "text\n")).await;
    // What a daemon finds with its first lock is no news.
    second.apply(create("/memories/global/own.md", "text\n")).await;
    let mut events = second.engine.subscribe();
    let _watch = second.memories().watch().await.unwrap();
    for number in 0..3 {
        let name = format!("/memories/global/{number}.md");
        first.apply(create(&name, "text\n")).await;
        let event = tokio::time::timeout(NOTICED_WITHIN, events.recv()).await.unwrap().unwrap();
        let paths: Vec<_> = event.files.iter().map(|file| file.path.to_string()).collect();
        assert_eq!(paths, [format!("{number}.md")]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_is_there_after_a_crash() {
    // Commits that do not wait for the disk are written late, so a crash loses them.
    let mut server = Server::start(PostgresVersion::Debian, &["wal_writer_delay=10000"]);
    let (name, address) = server.new_database();
    let (writer, reader) = (Daemon::start(&address).await, Daemon::start(&address).await);
    let mut acknowledged = Vec::new();
    for round in 0..5 {
        // A call may find a dead connection. What it requested may have been done, so each has another name.
        for attempt in 0.. {
            let name = format!("{round}-{attempt}.md");
            let create = create(&format!("/memories/global/{name}"), "text\n");
            match writer.memories().apply(create, &CallContext::default()).await {
                Ok(made) => {
                    assert!(matches!(made, Reply::Done { .. }), "{made:?}");
                    acknowledged.push(name);
                    break;
                }
                Err(error) => assert_eq!(error.code(), MemoryErrorCode::StorageUnavailable),
            }
        }
        server.process.kill().unwrap();
        server.process.restart().unwrap();
        let files = server.process.query(&name, "SELECT path FROM files").unwrap();
        let listing = loop {
            match reader.memories().list(None).await {
                Ok(listing) => break listing.memories,
                Err(error) => assert_eq!(error.code(), MemoryErrorCode::StorageUnavailable),
            }
        };
        for name in &acknowledged {
            assert!(files.lines().any(|line| line == name), "{name}: {files}");
            let path = path(&format!("/memories/global/{name}"));
            assert!(listing.iter().any(|memory| memory.path == path), "{name}: {listing:?}");
        }
    }
}
