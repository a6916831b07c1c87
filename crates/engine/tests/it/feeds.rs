//! Tests of feeds over real memories: which streams get an event, and the sessions after a restart.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lukasa_engine::feed::{
    ContextWrite, EventCursor, EventKind, FeedChange, FeedEvent, Feeds, SubscribeError,
    Subscription,
};
use lukasa_engine::{
    BaseFolders, BeginSessionError, BindingRequest, CallContext, Caller, ChangeEvent, ClientId,
    Config, ContextMode, ContextScope, CuratorRequest, Engine, LaneSettings, Lanes, Memories,
    RememberRequest, Requester, Session, SessionRegistry, TaskState, Workspace,
};
use memory::access::AgentClass;
use memory::change::{ChangeId, ChangeKind, FileChange, Provenance, RootKey, Trust};
use memory::command::{MemoryCommand, Reply};
use memory::path::{Layout, MemoryPath, RelativePath, Scope};
use memory::proposal::{ProposalId, ProposalStatus};
use state::{Announcement, ProposalStatusEvent, SqliteState, TaskStore};
use tempfile::TempDir;
use testkit::{Faults, FaultyTasks, ManualClock};
use tokio::task::JoinHandle;

/// A daemon's engine, feeds and sessions, over a home with two checkouts.
struct FeedDaemon {
    engine: Engine,
    feeds: Arc<Feeds>,
    callers: SessionRegistry,
    lanes: Lanes,
    following: JoinHandle<()>,
    workspaces: [Workspace; 2],
}

fn home() -> TempDir {
    let home = tempfile::tempdir().unwrap();
    for checkout in ["shop", "mill"] {
        fs::create_dir_all(home.path().join(checkout).join(".git")).unwrap();
    }
    home
}

fn workspace_of(folder: &Path) -> Workspace {
    let binding =
        BindingRequest { project: Some(folder.to_owned().into()), ..BindingRequest::default() };
    Workspace::new(folder.to_owned(), binding)
}

impl FeedDaemon {
    fn start(home: &Path) -> Self {
        let folders = BaseFolders { data: home.join("data"), state: home.join("state") };
        let engine = Engine::open(Config::new(folders)).unwrap();
        let feeds = engine.feeds();
        let callers = engine.sessions(Arc::clone(&feeds));
        let lanes = engine.lanes(LaneSettings::default(), Arc::clone(&feeds) as _);
        let following = tokio::spawn(engine.follow(Arc::clone(&feeds)));
        let workspaces = ["shop", "mill"].map(|checkout| workspace_of(&home.join(checkout)));
        for workspace in &workspaces {
            let memories = engine.memories(&workspace.binding, Caller::person("daemon"));
            feeds.open(&workspace.id, &memories);
        }
        Self { engine, feeds, callers, lanes, following, workspaces }
    }

    fn shop(&self) -> &Workspace {
        &self.workspaces[0]
    }

    fn mill(&self) -> &Workspace {
        &self.workspaces[1]
    }

    fn agent(&self, workspace: &Workspace) -> Memories {
        self.engine.memories(&workspace.binding, Caller::agent(AgentClass::Exec, "test"))
    }

    async fn subscribe_to_all(&self, workspace: &Workspace) -> Subscription {
        self.feeds.subscribe(&workspace.id, None).await.unwrap()
    }

    async fn session(&self, workspace: &Workspace) -> (Session, Subscription) {
        let session = self.callers.begin(&workspace.id).await.unwrap();
        let bus = self.callers.events(&session.id).await.unwrap().unwrap();
        (session, bus.subscribe(None).unwrap())
    }

    /// Has a text remembered; returns the id of the task.
    async fn remember(&self, content: &str, scope: Scope, client: Option<&ClientId>) -> String {
        let (content, context_mode) = (content.to_owned(), ContextMode::Workspace);
        let request = RememberRequest { content, context_mode, scope: Some(scope) };
        let requester = Requester::client("http", client.cloned());
        let task = self
            .lanes
            .submit(self.shop(), CuratorRequest::Remember(request), requester)
            .await
            .unwrap();
        let ended = self.lanes.wait(self.shop(), &task.id).await.unwrap().unwrap();
        assert!(matches!(ended.state, TaskState::Completed(_)), "{ended:?}");
        task.id.to_string()
    }

    async fn end(self) {
        self.lanes.drain(Duration::from_secs(20)).await;
        self.following.abort();
        self.engine.close().await;
    }
}

async fn create(memories: &Memories, path: &str) {
    let path = MemoryPath::parse(path, Layout::Scoped).unwrap();
    let command = MemoryCommand::Create { path, file_text: "- a fact\n".to_owned() };
    let reply = memories.apply(command, &CallContext::default()).await.unwrap();
    assert!(matches!(reply, Reply::Done { .. }), "{reply:?}");
}

/// Returns the next event of a stream, in short.
async fn next_events(subscription: &mut Subscription) -> String {
    let wait = Duration::from_secs(20);
    let event = tokio::time::timeout(wait, subscription.next()).await.unwrap();
    let Some(event) = event else { return "end".to_owned() };
    let id = event.id.map(|id| format!("{id} ")).unwrap_or_default();
    let what = match event.kind {
        EventKind::MemoryChanged(news) => match &news.change {
            FeedChange::Task { task, kind, scopes } => {
                let scopes: Vec<_> = scopes.iter().map(ToString::to_string).collect();
                let originator =
                    news.originator.as_ref().map_or("no client", |client| client.as_str());
                format!("{kind} {} {task} of {originator}", scopes.join(" "))
            }
            FeedChange::File { path, moved_to, kind, by, revision, .. } => {
                let moved_to = moved_to.as_ref().map(|to| format!(" to {to}")).unwrap_or_default();
                let gone = if revision.is_none() { " gone" } else { "" };
                format!("{} {kind} {path}{moved_to}{gone}", by.actor)
            }
            FeedChange::Review { task, saved, .. } => format!("reviewed {saved} {task}"),
            FeedChange::Pin { path, pinned, by } => format!("{} pinned {path}: {pinned}", by.actor),
            FeedChange::Proposals { ids, status, change, by, .. } => {
                let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
                format!("{} {status} {} {change:?}", by.actor, ids.join(" "))
            }
            FeedChange::ContextFile { scope, path, write, bytes } => {
                format!("{write:?} {} {} {bytes}", scope.as_str(), path.display())
            }
        },
        other => format!("{other:?}"),
    };
    id + &what
}

#[tokio::test]
async fn a_task_is_published_once_in_its_workspace_and_as_file_events_in_others() {
    let home = home();
    let daemon = FeedDaemon::start(home.path());
    let (session, mut of_session) = daemon.session(daemon.shop()).await;
    let (_, mut of_stranger) = daemon.session(daemon.mill()).await;
    let mut shop = daemon.subscribe_to_all(daemon.shop()).await;
    let mut mill = daemon.subscribe_to_all(daemon.mill()).await;

    let client = Some(&session.client);
    let global = daemon.remember("I keep bees.", Scope::Global, client).await;
    let of_project = daemon.remember("The shop opens at nine.", Scope::Project, None).await;
    // A known text changes nothing, so no event is published.
    daemon.remember("I keep bees.", Scope::Global, client).await;
    let last = daemon.remember("My sister lives in Turin.", Scope::Global, None).await;

    for stream in [&mut of_session, &mut shop] {
        assert_eq!(
            next_events(stream).await,
            format!("1 remember /memories/global {global} of {}", session.client)
        );
        assert_eq!(
            next_events(stream).await,
            format!("2 remember /memories/project {of_project} of no client")
        );
        assert_eq!(
            next_events(stream).await,
            format!("3 remember /memories/global {last} of no client")
        );
    }
    let first = next_events(&mut mill).await;
    assert!(first.starts_with("1 task draft /memories/global/"), "{first}");
    let second = next_events(&mut mill).await;
    assert!(second.starts_with("2 task draft /memories/global/"), "{second}");

    daemon.feeds.close_all();
    for stream in [&mut of_session, &mut of_stranger, &mut shop, &mut mill] {
        assert_eq!(next_events(stream).await, "end");
    }
    daemon.end().await;
}

#[tokio::test]
async fn a_context_file_event_is_published_where_the_file_is_loaded() {
    let home = home();
    let daemon = FeedDaemon::start(home.path());
    let (_, mut of_session) = daemon.session(daemon.shop()).await;
    let (_, mut of_stranger) = daemon.session(daemon.mill()).await;
    let mut shop = daemon.subscribe_to_all(daemon.shop()).await;
    let mut mill = daemon.subscribe_to_all(daemon.mill()).await;
    for (workspace, scope, write) in [
        (daemon.shop(), ContextScope::Project, ContextWrite::Append),
        (daemon.mill(), ContextScope::Global, ContextWrite::Replace),
    ] {
        let path = PathBuf::from("AGENTS.md");
        let changed = FeedChange::ContextFile { scope, path, write, bytes: 7 };
        let news = FeedEvent { originator: None, change: changed };
        daemon.feeds.publish_context_file(&workspace.id, news);
    }
    for stream in [&mut of_session, &mut shop] {
        assert_eq!(next_events(stream).await, "1 Append project AGENTS.md 7");
        assert_eq!(next_events(stream).await, "2 Replace global AGENTS.md 7");
    }
    for stream in [&mut of_stranger, &mut mill] {
        assert_eq!(next_events(stream).await, "1 Replace global AGENTS.md 7");
    }
    daemon.end().await;
}

#[tokio::test]
async fn a_change_by_a_tool_is_published_in_all_workspaces_with_the_memory() {
    let home = home();
    let daemon = FeedDaemon::start(home.path());
    let of_shop = daemon.agent(daemon.shop());
    daemon.feeds.open("another", &of_shop);
    let mut shop = daemon.subscribe_to_all(daemon.shop()).await;
    let mut another = daemon.feeds.subscribe("another", None).await.unwrap();
    let mut mill = daemon.subscribe_to_all(daemon.mill()).await;
    let (_, mut of_session) = daemon.session(daemon.shop()).await;

    create(&of_shop, "/memories/project/a.md").await;
    create(&daemon.agent(daemon.mill()), "/memories/project/b.md").await;
    create(&of_shop, "/memories/global/c.md").await;
    let rename = MemoryCommand::Rename {
        old_path: MemoryPath::parse("/memories/global/c.md", Layout::Scoped).unwrap(),
        new_path: MemoryPath::parse("/memories/global/d.md", Layout::Scoped).unwrap(),
    };
    of_shop.apply(rename, &CallContext::default()).await.unwrap();

    let made = "agent create /memories";
    for stream in [&mut shop, &mut another] {
        assert_eq!(next_events(stream).await, format!("1 {made}/project/a.md"));
        assert_eq!(next_events(stream).await, format!("2 {made}/global/c.md"));
    }
    assert_eq!(next_events(&mut mill).await, format!("1 {made}/project/b.md"));
    assert_eq!(next_events(&mut mill).await, format!("2 {made}/global/c.md"));
    for stream in [&mut shop, &mut another, &mut mill] {
        let renamed = "3 agent rename /memories/global/c.md to /memories/global/d.md";
        assert_eq!(next_events(stream).await, renamed);
    }
    daemon.feeds.close_all();
    assert_eq!(next_events(&mut of_session).await, "end", "a session hears of tasks alone");
    daemon.end().await;
}

#[tokio::test]
async fn external_edits_and_changes_of_other_processes_are_published() {
    let home = home();
    let daemon = FeedDaemon::start(home.path());
    create(&daemon.agent(daemon.shop()), "/memories/project/here.md").await;
    let cursor = EventCursor::default();
    let mut shop = daemon.feeds.subscribe(&daemon.shop().id, Some(&cursor)).await.unwrap();
    assert_eq!(next_change(&mut shop).await, "1 agent create /memories/project/here.md");
    let path = home.path().join("shop/.lukasa/memory/written.md");
    fs::write(path, "- by an editor\n").unwrap();
    let event = next_change(&mut shop).await;
    assert_eq!(event, "2 outside outside /memories/project/written.md");

    let other = FeedDaemon::start(home.path());
    create(&other.agent(other.shop()), "/memories/project/there.md").await;
    other.end().await;
    assert_eq!(next_change(&mut shop).await, "3 agent create /memories/project/there.md");
    daemon.end().await;
}

#[tokio::test]
async fn a_session_gets_events_of_other_processes_without_other_readers() {
    let home = home();
    let daemon = FeedDaemon::start(home.path());
    let (lanes, notices) = (daemon.lanes.clone(), daemon.engine.subscribe());
    let following = tokio::spawn(async move { lanes.follow(notices).await });
    let (_, mut stream) = daemon.session(daemon.shop()).await;
    let other = FeedDaemon::start(home.path());
    let task = other.remember("The shop opens at nine.", Scope::Project, None).await;
    other.end().await;
    let event = next_events(&mut stream).await;
    assert_eq!(event, format!("1 remember /memories/project {task} of no client"));
    following.abort();
    daemon.end().await;
}

#[tokio::test]
async fn a_change_of_many_memories_is_published_completely() {
    const FILES: usize = 600;
    let home = home();
    let daemon = FeedDaemon::start(home.path());
    let mut shop = daemon.subscribe_to_all(daemon.shop()).await;
    create(&daemon.agent(daemon.shop()), "/memories/project/kept.md").await;
    let mut events = read_events(&mut shop, 1).await;
    let folder = home.path().join("shop/.lukasa/memory/many");
    let names: Vec<_> = (0..FILES).map(|number| format!("many/{number:04}.md")).collect();
    let mut expect = |who: &str, gone: &str| {
        let first = events.len() + 1;
        events.extend(
            names
                .iter()
                .zip(first..)
                .map(|(name, id)| format!("{id} {who} /memories/project/{name}{gone}")),
        );
        events.get(first - 1..).unwrap_or_default().to_vec()
    };
    let write = || {
        let aside = home.path().join("aside");
        fs::create_dir(&aside).unwrap();
        for name in &names {
            fs::write(aside.join(name.strip_prefix("many/").unwrap()), "- a fact\n").unwrap();
        }
        fs::rename(aside, &folder).unwrap();
    };

    write();
    assert_eq!(read_events(&mut shop, FILES).await, expect("outside outside", ""));
    let remove = MemoryCommand::Delete {
        path: MemoryPath::parse("/memories/project/many", Layout::Scoped).unwrap(),
    };
    daemon.agent(daemon.shop()).apply(remove.clone(), &CallContext::default()).await.unwrap();
    assert_eq!(read_events(&mut shop, FILES).await, expect("agent delete", " gone"));

    write();
    assert_eq!(read_events(&mut shop, FILES).await, expect("outside outside", ""));
    let other = FeedDaemon::start(home.path());
    other.agent(other.shop()).apply(remove, &CallContext::default()).await.unwrap();
    other.end().await;
    assert_eq!(read_events(&mut shop, FILES).await, expect("agent delete", " gone"));
    daemon.end().await;
}

/// Reads `count` changes of a stream; warnings about the backlog are skipped.
async fn read_events(subscription: &mut Subscription, count: usize) -> Vec<String> {
    let mut changes = Vec::new();
    while changes.len() < count {
        let event = next_events(subscription).await;
        if !event.starts_with("SlowReader") {
            changes.push(event);
        }
    }
    changes
}

/// Returns the next change of a stream, after its replay.
async fn next_change(subscription: &mut Subscription) -> String {
    loop {
        let event = next_events(subscription).await;
        if !event.starts_with("ReplayComplete") {
            return event;
        }
    }
}

fn notice(name: &str) -> ChangeEvent {
    ChangeEvent {
        change: ChangeId(1),
        kind: ChangeKind::Create,
        provenance: Provenance::agent("test"),
        files: Arc::new([FileChange {
            root: RootKey { identity: "global".to_owned(), place: "elsewhere".to_owned() },
            path: RelativePath::parse(name).unwrap(),
            moved_to: None,
            before: None,
            after: None,
            trust: Trust::Agent,
        }]),
    }
}

#[tokio::test]
async fn dropped_events_cause_a_resync() {
    let home = home();
    let daemon = FeedDaemon::start(home.path());
    let mut shop = daemon.subscribe_to_all(daemon.shop()).await;
    let (sender, receiver) = tokio::sync::broadcast::channel(2);
    for name in ["a.md", "b.md", "c.md", "d.md"] {
        sender.send(notice(name)).unwrap();
    }
    drop(sender);
    let state = SqliteState::new(home.path().join("another.db"));
    daemon.feeds.follow(receiver, &state).await;
    let event = next_events(&mut shop).await;
    assert!(event.contains("reason: Forgotten, last_seen: 0, earliest: 2"), "{event}");
    create(&daemon.agent(daemon.shop()), "/memories/global/a.md").await;
    assert_eq!(next_events(&mut shop).await, "2 agent create /memories/global/a.md");
    daemon.end().await;
}

#[tokio::test]
async fn a_session_registers_a_client_until_it_ends() {
    let home = home();
    let daemon = FeedDaemon::start(home.path());
    let (shop, mill) = (daemon.shop().id.clone(), daemon.mill().id.clone());
    let (session, mut stream) = daemon.session(daemon.shop()).await;
    assert_eq!(daemon.callers.session(&session.id).await.unwrap(), Some(session.clone()));
    assert!(daemon.callers.has_client(&shop, &session.client).await.unwrap());
    assert!(!daemon.callers.has_client(&mill, &session.client).await.unwrap());
    assert!(daemon.callers.end(&session).await.unwrap());
    assert_eq!(next_events(&mut stream).await, "end");
    assert!(!daemon.callers.end(&session).await.unwrap());
    assert!(!daemon.callers.has_client(&shop, &session.client).await.unwrap());
    assert!(daemon.callers.events(&session.id).await.unwrap().is_none());
    assert_eq!(daemon.callers.session(&session.id).await.unwrap(), None);
    daemon.end().await;
}

#[tokio::test]
async fn a_session_survives_a_restart_and_its_stream_counts_from_one() {
    let home = home();
    let daemon = FeedDaemon::start(home.path());
    daemon.remember("I keep bees.", Scope::Global, None).await;
    let (session, mut stream) = daemon.session(daemon.shop()).await;
    daemon.remember("I keep goats.", Scope::Global, None).await;
    assert!(
        next_events(&mut stream).await.starts_with("1 remember /memories/global"),
        "counted from its begin"
    );
    let epoch = daemon.feeds.epoch().to_string();
    daemon.end().await;

    let daemon = FeedDaemon::start(home.path());
    assert!(daemon.callers.has_client(&session.workspace, &session.client).await.unwrap());
    daemon.remember("I keep ducks.", Scope::Global, None).await;
    let bus = daemon.callers.events(&session.id).await.unwrap().unwrap();
    let cursor = EventCursor { last_seen: 1, epoch: Some(epoch) };
    let mut stream = bus.subscribe(Some(&cursor)).unwrap();
    let resync = next_events(&mut stream).await;
    assert!(resync.contains("reason: OtherEpoch, last_seen: 1, earliest: 1"), "{resync}");
    assert!(next_events(&mut stream).await.starts_with("1 remember /memories/global"));
    assert!(next_events(&mut stream).await.contains("replayed: 1"));
    daemon.end().await;
}

#[tokio::test]
async fn the_oldest_session_without_subscribers_makes_room() {
    let home = home();
    let mut daemon = FeedDaemon::start(home.path());
    daemon.callers = daemon.callers.with_sessions_max(2);
    let (subscribed, stream) = daemon.session(daemon.shop()).await;
    let (silent, quiet) = daemon.session(daemon.shop()).await;
    let shop = daemon.shop().id.clone();
    assert!(matches!(daemon.callers.begin(&shop).await, Err(BeginSessionError::Full)));
    daemon.session(daemon.mill()).await;
    drop(quiet);
    let third = daemon.callers.begin(&shop).await.unwrap();
    assert!(daemon.callers.has_client(&shop, &subscribed.client).await.unwrap());
    assert!(!daemon.callers.has_client(&shop, &silent.client).await.unwrap());
    assert!(daemon.callers.has_client(&shop, &third.client).await.unwrap());
    assert!(daemon.callers.end(&subscribed).await.unwrap());
    daemon.callers.begin(&shop).await.unwrap();
    assert!(daemon.callers.has_client(&shop, &third.client).await.unwrap(), "there was room");
    drop(stream);
    daemon.end().await;
}

#[tokio::test]
async fn a_silent_session_ends_before_one_that_is_used() {
    let home = home();
    let mut daemon = FeedDaemon::start(home.path());
    daemon.callers = daemon.callers.with_sessions_max(3);
    let shop = daemon.shop().id.clone();
    let mut sessions = Vec::new();
    for _ in 0..3 {
        sessions.push(daemon.callers.begin(&shop).await.unwrap());
    }
    let knows = async |daemon: &FeedDaemon, session: &Session| {
        let known = SqliteState::new(daemon.engine.state_file().unwrap().to_owned());
        known.has_client(&shop, session.client.as_str()).await.unwrap()
    };
    // The first client polls, the third uses its session, and the second is silent.
    assert!(daemon.callers.has_client(&shop, &sessions[0].client).await.unwrap());
    daemon.callers.session(&sessions[2].id).await.unwrap().unwrap();
    let fourth = daemon.callers.begin(&shop).await.unwrap();
    let mut left = Vec::new();
    for session in sessions.iter().chain([&fourth]) {
        left.push(knows(&daemon, session).await);
    }
    assert_eq!(left, [true, false, true, true]);
    daemon.end().await;

    // After a restart no use is known, so the oldest session ends unless its client was active
    // since.
    let mut daemon = FeedDaemon::start(home.path());
    daemon.callers = daemon.callers.with_sessions_max(3);
    assert!(daemon.callers.has_client(&shop, &sessions[0].client).await.unwrap());
    daemon.callers.begin(&shop).await.unwrap();
    assert!(knows(&daemon, &sessions[0]).await);
    assert!(!knows(&daemon, &sessions[2]).await);
    assert!(knows(&daemon, &fourth).await);
    daemon.end().await;
}

#[tokio::test]
async fn a_session_that_cannot_be_stored_leaves_no_stream() {
    let home = home();
    let folders = BaseFolders { data: home.path().join("data"), state: home.path().join("state") };
    let sqlite = Arc::new(SqliteState::new(home.path().join("state/lukasa.db")));
    let faulty = Arc::new(FaultyTasks::new(Arc::clone(&sqlite) as _));
    let clock = Arc::new(ManualClock::default());
    let feeds = Arc::new(Feeds::new(Arc::clone(&clock) as _));
    let callers = SessionRegistry::new(Arc::clone(&faulty) as _, feeds, clock, folders);
    let stored = async || sqlite.sessions("shop").await.unwrap().len();
    for call in 1..=2 {
        faulty.set(Faults::Call(call));
        assert!(
            matches!(callers.begin("shop").await, Err(BeginSessionError::State(_))),
            "call {call}"
        );
        assert_eq!(stored().await, 0);
    }
    faulty.set(Faults::Never);
    let session = callers.begin("shop").await.unwrap();
    assert_eq!((faulty.calls(), stored().await), (2, 1), "counted once, stored once");
    callers.begin("shop").await.unwrap();
    assert_eq!((faulty.calls(), stored().await), (3, 2));
    faulty.set(Faults::Call(1));
    callers.end(&session).await.unwrap_err();
    assert_eq!(callers.session(&session.id).await.unwrap(), Some(session));
}

#[tokio::test]
async fn a_reopened_workspace_continues_its_numbering() {
    let home = home();
    let daemon = FeedDaemon::start(home.path());
    let shop = daemon.shop().id.clone();
    let memories = daemon.agent(daemon.shop());
    let (session, mut of_session) = daemon.session(daemon.shop()).await;
    daemon.remember("I keep bees.", Scope::Global, None).await;
    // An event that arrives late must not reach readers of the reopened workspace.
    let event = next_events(&mut of_session).await;
    assert!(event.starts_with("1 remember /memories/global"), "{event}");
    daemon.feeds.close(&shop);
    daemon.feeds.open(&shop, &memories);
    daemon.remember("I keep goats.", Scope::Global, None).await;
    let cursor = EventCursor { last_seen: 1, epoch: Some(daemon.feeds.epoch().to_string()) };
    let none = EventCursor { last_seen: 0, ..cursor.clone() };
    let bus = daemon.callers.events(&session.id).await.unwrap().unwrap();
    for mut stream in [
        bus.subscribe(Some(&cursor)).unwrap(),
        daemon.feeds.subscribe(&shop, Some(&cursor)).await.unwrap(),
    ] {
        let event = next_events(&mut stream).await;
        assert!(event.starts_with("2 remember /memories/global"), "{event}");
    }
    let resync = next_events(&mut bus.subscribe(Some(&none)).unwrap()).await;
    assert!(resync.contains("reason: Forgotten, last_seen: 0, earliest: 2"), "{resync}");
    daemon.end().await;
}

#[tokio::test]
async fn a_closed_workspace_has_no_streams() {
    let home = home();
    let daemon = FeedDaemon::start(home.path());
    let shop = daemon.shop().id.clone();
    let (session, mut of_session) = daemon.session(daemon.shop()).await;
    let mut all = daemon.subscribe_to_all(daemon.shop()).await;
    daemon.feeds.close(&shop);
    assert_eq!(next_events(&mut of_session).await, "end");
    assert_eq!(next_events(&mut all).await, "end");
    let refused = daemon.feeds.subscribe(&shop, None).await;
    assert!(matches!(refused, Err(SubscribeError::Closed)));
    assert!(daemon.callers.events(&session.id).await.unwrap().is_none());
    // A task that ends now has no subscribers, which must not fail it.
    daemon.remember("I keep bees.", Scope::Global, None).await;
    daemon.end().await;
}

#[tokio::test]
async fn proposals_are_published_where_all_their_memories_are() {
    let home = home();
    let daemon = FeedDaemon::start(home.path());
    let mut shop = daemon.subscribe_to_all(daemon.shop()).await;
    let mut mill = daemon.subscribe_to_all(daemon.mill()).await;
    let roots = daemon.agent(daemon.shop()).roots();
    let shared: Vec<_> = roots.iter().filter(|root| root.identity == "global").cloned().collect();
    let (sender, receiver) = tokio::sync::broadcast::channel(8);
    for (id, roots) in [(1, shared), (2, roots)] {
        let notice = ProposalStatusEvent {
            ids: vec![ProposalId(id)],
            status: ProposalStatus::Waiting,
            roots,
            task: None,
            change: None,
            provenance: Provenance::person("test"),
        };
        sender.send(Announcement::Proposals(notice)).unwrap();
    }
    drop(sender);
    daemon.feeds.follow_announcements(receiver).await;
    assert_eq!(next_events(&mut shop).await, "1 person waiting 1 None");
    assert_eq!(next_events(&mut shop).await, "2 person waiting 2 None");
    assert_eq!(next_events(&mut mill).await, "1 person waiting 1 None");
    create(&daemon.agent(daemon.mill()), "/memories/global/a.md").await;
    assert_eq!(next_events(&mut mill).await, "2 agent create /memories/global/a.md");
    daemon.end().await;
}
