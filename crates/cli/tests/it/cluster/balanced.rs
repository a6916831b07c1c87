//! The client talks to several daemons behind a load balancer that gives each connection to the next one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use protocol::client::{Client, EventStream, StartFrom, TasksQuery};
use protocol::event::{Event, MemoryChanged};
use protocol::task::{RememberRequest, TaskResult};
use testkit::delay_fault;
use testkit::postgres::PostgresVersion;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::{DAEMONS, Database};
use crate::daemon::{Daemon, PATIENCE, TOKEN};
use crate::sandbox::Sandbox;

/// Kills of a daemon.
const KILLS: usize = 4;
/// Time between two kills.
const BETWEEN_KILLS: Duration = Duration::from_millis(1_500);
/// Time between two looks whether a stream has ended.
const LOOK: Duration = Duration::from_millis(200);
/// The memory that is created last.
const LAST: &str = "/memories/workspace/last.md";

/// A load balancer for TCP connections.
struct Balancer {
    url: String,
    backends: Arc<Mutex<Vec<String>>>,
    _accepting: AbortOnDropHandle<()>,
}

impl Balancer {
    async fn start(backends: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let backends = Arc::new(Mutex::new(backends));
        let (shared, next) = (Arc::clone(&backends), AtomicUsize::new(0));
        let accepting = tokio::spawn(async move {
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let all = shared.lock().unwrap().clone();
                let first = next.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(async move {
                    for offset in 0..all.len() {
                        let address = &all[(first + offset) % all.len()];
                        if let Ok(mut daemon) = TcpStream::connect(address).await {
                            // A cut connection is the end of both sides.
                            drop(copy_bidirectional(&mut client, &mut daemon).await);
                            return;
                        }
                    }
                });
            }
        });
        Self { url, backends, _accepting: AbortOnDropHandle::new(accepting) }
    }

    fn client(&self) -> Client {
        Client::new(self.url.parse().unwrap(), TOKEN).unwrap().with_deadline(PATIENCE)
    }
}

/// The changed memories and ended tasks of a stream, with their numbers.
#[derive(Default)]
struct Followed {
    created: BTreeMap<String, Vec<u64>>,
    tasks: BTreeMap<String, Vec<u64>>,
    /// Times that the stream continued at another daemon.
    continued: usize,
}

/// Reads a stream until the last memory was created or `ends` holds, over all daemons.
async fn follow(mut stream: EventStream, ends: impl Fn(&Followed) -> bool) -> Followed {
    let (mut followed, mut last_id) = (Followed::default(), 0);
    while !ends(&followed) {
        let envelope = match timeout(LOOK, stream.next()).await {
            Ok(Ok(envelope)) => envelope.unwrap(),
            Ok(Err(error)) if error.is_temporary() => continue,
            Ok(Err(error)) => panic!("{error}"),
            Err(_) => continue,
        };
        let id = envelope.id;
        if let Some(id) = id {
            assert!(id > last_id, "{id} after {last_id}");
            last_id = id;
        }
        match envelope.event {
            Event::MemoryChanged(MemoryChanged::File { path, .. }) => {
                followed.created.entry(path).or_default().push(id.unwrap());
            }
            Event::MemoryChanged(MemoryChanged::Managed { task_id, .. }) => {
                followed.tasks.entry(task_id).or_default().push(id.unwrap());
            }
            Event::ReplayComplete(_) => followed.continued += 1,
            // Two facts are so alike that a person has to decide.
            Event::Proposal(_) => {}
            other => panic!("{other:?}"),
        }
    }
    followed
}

/// The requests of a writer that were answered.
#[derive(Default)]
struct Answered {
    created: Vec<String>,
    tasks: Vec<String>,
}

/// Creates memories and starts tasks until `stop`.
async fn write(client: Client, name: &'static str, stop: Arc<AtomicBool>) -> Answered {
    let mut answered = Answered::default();
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let path = format!("/memories/workspace/{name}-{number}.md");
        match client.create(&path, "text\n").await {
            Ok(_) => answered.created.push(path),
            Err(error) => assert!(error.is_temporary(), "{error}"),
        }
        if number % 5 == 0 {
            let fact = format!("The berth of boat zq{name}{number} is number {number}.");
            let request = RememberRequest { content: fact, context_mode: None, scope: None };
            match client.remember(&request).await {
                Ok(task) => answered.tasks.push(task.task_id),
                Err(error) => assert!(error.is_temporary(), "{error}"),
            }
        }
    }
    answered
}

/// Waits for all tasks of a client, and returns those that changed memories. Each has an event, also if the answer to its
/// request was lost.
async fn tasks_with_events(client: &Client) -> Vec<String> {
    let query = TasksQuery { max: Some(1_000), ..TasksQuery::default() };
    let mut changing = Vec::new();
    for task in client.tasks(&query).await.unwrap().tasks {
        let done = client.wait_for(&task.task.task_id, PATIENCE).await.unwrap();
        let Some(TaskResult::Remember(result)) = done.result else { panic!("{done:?}") };
        if !result.touched_scopes.is_empty() {
            changing.push(done.task_id);
        }
    }
    changing
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_behind_a_balancer_misses_no_event_while_daemons_die() {
    let database = Database::start(PostgresVersion::Newest);
    let places: Vec<_> = (0..DAEMONS).map(|_| Sandbox::new()).collect();
    let mut daemons: Vec<_> = places.iter().map(|place| database.daemon(place)).collect();
    let address = |daemon: &Daemon| daemon.address().to_owned();
    let balancer = Balancer::start(daemons.iter().map(address).collect()).await;
    let session = balancer.client().begin_session(None).await.unwrap();
    let client = balancer.client().with_client_id(&session.client_id).unwrap();

    let all = client.events(StartFrom::Now).await.unwrap();
    let all = tokio::spawn(follow(all, |seen| seen.created.contains_key(LAST)));
    let of_tasks = client.session_events(&session.session_id, StartFrom::Now).await.unwrap();
    let expected_tasks = Arc::new(Mutex::new(None::<Vec<String>>));
    let shared = Arc::clone(&expected_tasks);
    let of_tasks = tokio::spawn(follow(of_tasks, move |seen| {
        let expected = shared.lock().unwrap();
        expected.as_ref().is_some_and(|ids| ids.iter().all(|id| seen.tasks.contains_key(id)))
    }));

    let stop = Arc::new(AtomicBool::new(false));
    let writers =
        ["a", "b"].map(|name| tokio::spawn(write(client.clone(), name, Arc::clone(&stop))));
    for kill in 0..KILLS {
        delay_fault(BETWEEN_KILLS);
        let index = kill % DAEMONS;
        daemons.remove(index).kill();
        daemons.insert(index, database.daemon(&places[index]));
        balancer.backends.lock().unwrap()[index] = address(&daemons[index]);
    }
    delay_fault(BETWEEN_KILLS);
    stop.store(true, Ordering::Relaxed);
    let mut answered = Answered::default();
    for writer in writers {
        let one = writer.await.unwrap();
        answered.created.extend(one.created);
        answered.tasks.extend(one.tasks);
    }
    let expected = tasks_with_events(&client).await;
    assert!(answered.tasks.len() > 2, "too few tasks were accepted");
    *expected_tasks.lock().unwrap() = Some(expected.clone());
    client.create(LAST, "text\n").await.unwrap();

    let all = timeout(PATIENCE, all).await.unwrap().unwrap();
    let of_tasks = timeout(PATIENCE, of_tasks).await.unwrap().unwrap();
    assert!(answered.created.len() > 10, "too little was written");
    assert!(all.continued > 0 && of_tasks.continued > 0, "no stream was cut");
    for numbers in all.created.values().chain(all.tasks.values()).chain(of_tasks.tasks.values()) {
        assert_eq!(numbers.len(), 1, "an event came twice: {numbers:?}");
    }
    for path in &answered.created {
        assert!(all.created.contains_key(path), "the event of {path} is missing");
    }
    for task in &expected {
        assert!(all.tasks.contains_key(task), "the event of {task} is missing");
        assert_eq!(all.tasks[task], of_tasks.tasks[task], "two streams have other numbers");
    }
}
