//! A seeded simulator of daemons that share a database: they lose their locks in the middle of a write, die, and go on.
//!
//! It compares the memories with a plain model after each act. A daemon that is overtaken stands still before one step of
//! its act, as a machine that sleeps does. Meanwhile its locks run out, and another daemon writes the same memories. Then
//! the first goes on. What it had recorded is carried out once, and nothing that it does later may overwrite the others.
//! `LUKASA_SIM_SECONDS` sets the duration of the search; without it, a few seeds run. `LUKASA_SIM_SEED` runs one seed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lukasa_postgres::{Database, DatabaseSettings, OwnerState};
use memory::access::AgentClass;
use memory::change::{ChangeId, RootKey};
use memory::document::Revision;
use memory::path::{Mount, Scope};
use memory::screen::Screen;
use state::{ChangeQuery, EventLog as _, HistoryStore as _, LoggedEvent};
use store::backend::{Backend, Extent};
use store::{BaseFolders, Caller, Depth, Memories, Store, StoreSettings};
use tempfile::TempDir;
use testkit::postgres::PostgresVersion;
use testkit::simulation::{
    SimAct, SimActs, SimFiles, execute, log_event, run_seeds, run_undisturbed, write_in_each_scope,
};
use testkit::{Failure, FaultPlan, FaultyBackend, FaultyState, ManualClock};
use tokio::sync::{mpsc, oneshot};

use crate::support::Server;

/// Daemons that share the database.
const DAEMONS: usize = 3;
/// Longer than any run: locks end when the simulator lets them.
const LEASE: Duration = Duration::from_hours(1);
/// More steps than the shortest write has, and fewer than the longest.
const STEPS: usize = 9;
/// Acts of a run.
const ACTS: usize = 60;
const SCOPES: [Scope; 2] = [Scope::Global, Scope::Project];

/// A daemon: its store fails and stops as planned. Another store of the same daemon does not.
struct SimDaemon {
    database: Database,
    owner: OwnerState,
    plan: Arc<FaultPlan>,
    store: Arc<Store>,
    agent: Memories,
    /// The same memories, by a store that nothing is done to.
    observer: Memories,
    _home: TempDir,
}

impl SimDaemon {
    async fn start(address: &str, owner: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let settings =
            DatabaseSettings { lease: LEASE, connections_max: 4, ..DatabaseSettings::default() };
        let database = Database::open(address, settings).await.unwrap();
        let owner = database.owner(owner).await.unwrap();
        let plan = Arc::<FaultPlan>::default();
        let state = Arc::new(owner.clone());
        let faulty_state = FaultyState::sharing(Arc::clone(&state) as _, Arc::clone(&plan));
        let faulty = |backend| Arc::new(FaultyBackend::new(backend, Arc::clone(&plan))) as _;
        let (store, agent) = open(&home, Arc::new(faulty_state), &owner, faulty);
        let (_, observer) = open(&home, state, &owner, |backend| backend);
        Self { database, owner, plan, store, agent, observer, _home: home }
    }

    /// Returns the files that the database has.
    async fn files(&self) -> SimFiles {
        let mut files = SimFiles::new();
        for scope in SCOPES {
            let root = self.owner.root(place(scope));
            let walk = root.walk(None, Extent::ALL).await.unwrap();
            for file in walk.files {
                let read = root.read(&file.path, 1_000_000).await.unwrap();
                let text = String::from_utf8(read.bytes).unwrap();
                files.insert(format!("{scope}/{}", file.path), text);
            }
        }
        files
    }
}

fn place(scope: Scope) -> &'static str {
    scope.into()
}

/// Opens a store on the roots of an owner.
fn open(
    home: &TempDir,
    state: Arc<dyn state::HistoryStore>,
    owner: &OwnerState,
    wrap: impl Fn(Arc<dyn Backend>) -> Arc<dyn Backend>,
) -> (Arc<Store>, Memories) {
    let folders = BaseFolders { data: home.path().join("data"), state: home.path().join("state") };
    let settings = StoreSettings { memory_list: false, ..StoreSettings::default() };
    let clock = Arc::<ManualClock>::default();
    let store = Store::new(state, folders, Screen::default(), clock, settings);
    let roots = SCOPES.map(|scope| {
        let key = RootKey { identity: format!("{scope}"), place: place(scope).to_owned() };
        (Mount::Scope(scope), key, wrap(Arc::new(owner.root(place(scope)))))
    });
    let agent = store.memories_in(roots.into(), Caller::agent(AgentClass::Exec, "test"));
    (store, agent)
}

/// Numbers of acts that were overtaken in the middle.
#[derive(Clone, Copy, Debug, Default)]
struct OvertakenActs {
    all: usize,
    /// The act was recorded, and the other daemon carried it out.
    completed_by_another: usize,
    /// The act was not recorded, and succeeded after the other daemon's acts.
    repeated: usize,
}

struct SimWorld<'s> {
    server: &'s Server,
    /// The name and the address of the database.
    database: &'s (String, String),
    owner: String,
    daemons: Vec<SimDaemon>,
    model: SimFiles,
    /// The state before the newest change, if that change is one by the simulator and has a known effect.
    last: Option<SimFiles>,
    acts: SimActs,
    /// The highest fence of each lock so far.
    fences: BTreeMap<String, i64>,
    overtaken: OvertakenActs,
}

impl<'s> SimWorld<'s> {
    async fn new(server: &'s Server, database: &'s (String, String), seed: u64) -> Self {
        let owner = format!("seed {seed}");
        let mut daemons = Vec::new();
        for _ in 0..DAEMONS {
            daemons.push(SimDaemon::start(&database.1, &owner).await);
        }
        Self {
            server,
            database,
            owner,
            daemons,
            model: SimFiles::new(),
            last: None,
            acts: SimActs::new(seed),
            fences: BTreeMap::new(),
            overtaken: OvertakenActs::default(),
        }
    }

    fn sql(&self, statement: &str) -> String {
        let statement = statement
            .replace("{owner}", &format!("(SELECT id FROM owners WHERE name = '{}')", self.owner));
        self.server.process.query(&self.database.0, &statement).unwrap()
    }

    /// Ends the time of all locks, as if their holders were silent for long. The server has ended the transactions that stand
    /// still, too.
    fn expire_locks(&self) {
        self.sql("UPDATE leases SET until = to_timestamp(0) WHERE owner = {owner}");
        self.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND state = 'idle in transaction'",
        );
    }

    async fn step(&mut self) {
        match self.acts.random.below(20) {
            0..=4 => self.run_act().await,
            5..=7 => self.run_failing_act().await,
            8..=15 => self.run_overtaken_act().await,
            16 => {
                let one = self.acts.random.below(DAEMONS);
                self.restart(one).await;
            }
            17 => {
                let one = self.acts.random.below(DAEMONS);
                self.daemons[one].store.checkpoint().await;
            }
            _ => self.check_listing().await,
        }
    }

    /// Executes an act of one daemon, without failures.
    async fn run_act(&mut self) {
        let mut act = self.acts.act(&self.model);
        if matches!(act, SimAct::Undo) && self.last.is_none() {
            act = self.acts.act_for_draft(&self.model);
        }
        let one = self.acts.random.below(DAEMONS);
        self.run_act_of(one, &act).await;
    }

    /// Executes an act of this daemon, which no other daemon disturbs.
    async fn run_act_of(&mut self, one: usize, act: &SimAct) {
        let agent = &self.daemons[one].agent;
        let done = run_undisturbed(agent, act, &mut self.model, &mut self.last).await;
        log_event(|| format!("{one}: {act:?}: {done}"));
    }

    /// Executes an act of one daemon in which a step fails, or is the last one.
    async fn run_failing_act(&mut self) {
        let act = self.acts.act(&self.model);
        let one = self.acts.random.below(DAEMONS);
        let failure = *self.acts.random.pick(&[Failure::Crash, Failure::Once, Failure::Unanswered]);
        let failing = 1 + self.acts.random.below(STEPS);
        let after = act.effect(&self.model, self.last.as_ref());
        if matches!(act, SimAct::Undo) && after.is_none() {
            return;
        }
        let daemon = &self.daemons[one];
        daemon.plan.set(failing.try_into().unwrap(), failure);
        let done = execute(&daemon.agent, &act, &self.model).await.unwrap_or(false);
        if failure != Failure::Crash {
            daemon.plan.set(0, Failure::Once);
        }
        if failure == Failure::Crash {
            self.restart(one).await;
        }
        let reader = self.acts.random.below(DAEMONS);
        let files = self.recovered_files(reader).await;
        let name = format!("{one}: {act:?}, {failure:?} at step {failing}");
        log_event(|| {
            format!("{name}: acknowledged {done}, done {}", Some(&files) == after.as_ref())
        });
        let after = after.unwrap_or_else(|| self.model.clone());
        assert!(
            files == self.model || files == after,
            "{name}: {files:#?}\nfrom {:#?}",
            self.model
        );
        assert!(!done || files == after, "{name}: an acknowledged write is lost: {files:#?}");
        self.model = files;
        self.last = None;
    }

    /// Executes an act of one daemon that stands still before one of its steps until its locks have run out and another
    /// daemon has written.
    async fn run_overtaken_act(&mut self) {
        let act = self.acts.single_act(&self.model);
        let one = self.acts.random.below(DAEMONS);
        let other = (one + 1) % DAEMONS;
        let step = 1 + self.acts.random.below(STEPS);
        let (stopped, mut is_stopped) = mpsc::channel(1);
        let (go_on, may_go_on) = oneshot::channel::<()>();
        let daemon = &self.daemons[one];
        let (plan, agent) = (Arc::clone(&daemon.plan), daemon.agent.clone());
        let (overtaken, before) = (act.clone(), self.model.clone());
        let running = tokio::spawn(async move {
            plan.run_before(step.try_into().unwrap(), move || {
                stopped.try_send(()).unwrap();
                tokio::task::block_in_place(|| may_go_on.blocking_recv()).unwrap();
            });
            let done = execute(&agent, &overtaken, &before).await;
            // The sender of an act with fewer steps is dropped here.
            plan.set(0, Failure::Once);
            plan.run_before(u64::MAX, || {});
            done
        });
        let effect = act.effect(&self.model, None);
        let mut is_carried_out = false;
        let has_stopped = is_stopped.recv().await.is_some();
        if has_stopped {
            self.expire_locks();
            let files = self.recovered_files(other).await;
            is_carried_out = Some(&files) == effect.as_ref();
            assert!(is_carried_out || files == self.model, "{act:?} at {step}: {files:#?}");
            self.model = files;
            self.last = None;
            for _ in 0..self.acts.random.below(4) {
                let act = self.acts.single_act(&self.model);
                self.run_act_of(other, &act).await;
            }
            go_on.send(()).unwrap();
        }
        let done = running.await.unwrap();
        let again = act.effect(&self.model, None);
        let files = self.recovered_files(other).await;
        if has_stopped {
            self.overtaken.all += 1;
            self.overtaken.completed_by_another += usize::from(is_carried_out);
            self.overtaken.repeated += usize::from(!is_carried_out && matches!(done, Ok(true)));
        }
        let name =
            format!("{one}: {act:?}, overtaken at step {step}, carried out: {is_carried_out}");
        log_event(|| format!("{name}: {done:?}"));
        let is_unchanged = files == self.model;
        let is_done_now = !is_carried_out && Some(&files) == again.as_ref();
        assert!(
            is_unchanged || is_done_now,
            "{name}, {done:?}: {files:#?}\nfrom {:#?}",
            self.model
        );
        match done {
            Ok(true) => {
                let is_kept = is_carried_out || is_done_now || act.is_about_a_folder();
                assert!(is_kept, "{name}: an acknowledged write is lost: {files:#?}");
            }
            Ok(false) => assert!(is_unchanged, "{name}: a refused act changed {files:#?}"),
            Err(_) => {}
        }
        self.model = files;
        self.last = None;
    }

    /// Returns the files after a daemon has written in each scope, which completes what others left.
    async fn recovered_files(&self, one: usize) -> SimFiles {
        let daemon = &self.daemons[one];
        write_in_each_scope(&daemon.agent, &self.model).await;
        daemon.files().await
    }

    /// A daemon dies, and another one starts.
    async fn restart(&mut self, one: usize) {
        let next = SimDaemon::start(&self.database.1, &self.owner).await;
        let dead = std::mem::replace(&mut self.daemons[one], next);
        dead.database.close().await;
        self.expire_locks();
        log_event(|| format!("{one}: killed"));
    }

    async fn check_listing(&mut self) {
        let observer = &self.daemons[self.acts.random.below(DAEMONS)].observer;
        let listed = observer.list(None).await.unwrap().memories;
        let listed: Vec<_> = listed.iter().map(|one| one.path.to_string()).collect();
        let expected: Vec<_> = self.model.keys().map(|name| format!("/memories/{name}")).collect();
        assert_eq!(listed, expected);
    }

    /// Checks that no fence is lower than it was.
    fn check_fences(&mut self) {
        let leases = self.sql("SELECT name, fence FROM leases WHERE owner = {owner}");
        for line in leases.lines() {
            let (name, fence) = line.rsplit_once('|').unwrap();
            let fence = fence.parse().unwrap();
            let last = self.fences.insert(name.to_owned(), fence);
            assert!(last <= Some(fence), "the fence of {name} went from {last:?} to {fence}");
        }
    }

    /// Checks that history agrees with the files, that each change has one event for each of its places, and that a health
    /// check finds no problem.
    async fn check(&self) {
        let SimDaemon { agent, owner, .. } = &self.daemons[0];
        let person = agent.for_caller(Caller::person("test"));
        for (name, text) in &self.model {
            let recorded = person.content(&Revision::digest(text.as_bytes())).await.unwrap();
            assert_eq!(recorded.as_deref(), Some(text.as_bytes()), "{name} is not in history");
        }
        assert_eq!(self.recovered_files(0).await, self.model);
        let findings = person.health(Depth::Thorough).await.unwrap().findings;
        assert_eq!(findings, []);
        assert_eq!(owner.check().await.unwrap(), [""; 0]);
        let query = ChangeQuery { max: 1_000_000, ..ChangeQuery::default() };
        let mut expected: Vec<(ChangeId, String)> = Vec::new();
        for change in owner.changes(&query).await.unwrap() {
            let places: std::collections::BTreeSet<_> =
                change.files.iter().map(|file| file.root.place.clone()).collect();
            expected.extend(places.into_iter().map(|place| (change.id, place)));
        }
        expected.sort();
        assert_eq!(self.events().await, expected);
    }

    /// Returns the changes with an event, each with its place, in order.
    async fn events(&self) -> Vec<(ChangeId, String)> {
        let (mut events, mut after) = (Vec::new(), 0);
        loop {
            let entries = self.daemons[0].owner.after(after).await.unwrap();
            let Some(last) = entries.last() else { break };
            after = last.last;
            for entry in entries {
                let Some(LoggedEvent::Change { change, .. }) = entry.event else {
                    panic!("{entry:?}")
                };
                events.push((change.id, change.files[0].root.place.clone()));
            }
        }
        events.sort();
        events
    }
}

/// Runs a seed to its end.
async fn run(server: Arc<Server>, database: Arc<(String, String)>, seed: u64) -> OvertakenActs {
    let mut world = SimWorld::new(&server, &database, seed).await;
    for _ in 0..ACTS {
        world.step().await;
        assert_eq!(world.daemons[0].files().await, world.model);
        world.check_fences();
    }
    world.check().await;
    for daemon in &world.daemons {
        daemon.database.close().await;
    }
    world.overtaken
}

#[tokio::test(flavor = "multi_thread")]
async fn daemons_that_lose_their_locks_agree_with_a_plain_model() {
    let server = Arc::new(Server::start(PostgresVersion::Debian, &["fsync=off"]));
    let database = Arc::new(server.new_database());
    let run = move |seed| run(Arc::clone(&server), Arc::clone(&database), seed);
    let overtaken = run_seeds(3, run).await;
    let sum = |of: fn(&OvertakenActs) -> usize| overtaken.iter().map(of).sum::<usize>();
    let counts =
        (sum(|acts| acts.all), sum(|acts| acts.completed_by_another), sum(|acts| acts.repeated));
    // A single seed that a person chose may have none of a kind.
    assert!(overtaken.len() == 1 || counts.1 > 0 && counts.2 > 0 && counts.0 > 20, "{counts:?}");
}
