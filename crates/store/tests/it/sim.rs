//! A seeded simulator that compares the store with a plain model.
//!
//! It has several callers, processes that die between commands and in the middle of a commit,
//! failing steps, a clock that jumps, and an external editor. `LUKASA_SIM_SECONDS` sets the
//! duration of the search; without it, a few seeds run. `LUKASA_SIM_SEED` runs one seed again. The
//! message of a failure has the seed.

use std::fs;
use std::time::Duration;

use lukasa_store::Depth;
use memory::document::Revision;
use testkit::Failure;
use testkit::simulation::{
    SimAct, SimActs, SimFiles, execute, log_event, run_seeds, run_undisturbed, write_in_each_scope,
};

use crate::host::{TestHost, texts};
use crate::process::Process;

struct SimWorld {
    host: TestHost,
    processes: Vec<Process>,
    model: SimFiles,
    /// The state before the newest change, if that change is one by the simulator and has a known effect.
    last: Option<SimFiles>,
    acts: SimActs,
    /// A log of the run, for failures.
    log: Vec<String>,
}

/// More steps than the shortest write has, and fewer than the longest.
const CRASH_STEPS: usize = 30;

impl SimWorld {
    fn new(seed: u64) -> Self {
        let host = TestHost::in_fast_storage();
        let processes = vec![Process::start(&host), Process::start(&host)];
        Self {
            host,
            processes,
            model: SimFiles::new(),
            last: None,
            acts: SimActs::new(seed),
            log: Vec::new(),
        }
    }

    fn log_event(&mut self, what: String) {
        log_event(|| what.clone());
        self.log.push(what);
    }

    async fn act(&mut self) -> SimAct {
        match self.acts.act(&self.model) {
            SimAct::Undo if !self.can_undo().await => self.acts.act_for_draft(&self.model),
            act => act,
        }
    }

    /// Returns whether the effect of an undo of the newest change is known. An external edit becomes the newest
    /// change as soon as it is recorded.
    async fn can_undo(&mut self) -> bool {
        self.record_external_edits(0).await;
        self.last.is_some()
    }

    async fn record_external_edits(&mut self, one: usize) {
        if self.processes[one].agent.record_external_edits().await.unwrap() > 0 {
            self.last = None;
        }
    }

    async fn step(&mut self) {
        match self.acts.random.below(20) {
            0..=9 => self.run_act().await,
            10..=13 => self.run_failing_act().await,
            14..=15 => self.edit_by_hand(true),
            16 => self.kill(),
            17 => self.clock(),
            18 => self.processes[0].store.checkpoint().await,
            _ => self.check_listing().await,
        }
    }

    /// Executes an act of one caller, without failures.
    async fn run_act(&mut self) {
        let (act, one) = (self.act().await, self.acts.random.below(self.processes.len()));
        let agent = &self.processes[one].agent;
        let done = run_undisturbed(agent, &act, &mut self.model, &mut self.last).await;
        self.log_event(format!("{one}: {act:?}: {done}"));
    }

    /// Executes an act of one caller in which a step fails, or is the last one.
    async fn run_failing_act(&mut self) {
        let (act, one) = (self.act().await, self.acts.random.below(self.processes.len()));
        let failures =
            [Failure::Crash, Failure::Crash, Failure::Once, Failure::Short, Failure::Unanswered];
        let failure = *self.acts.random.pick(&failures);
        let failing = u64::try_from(1 + self.acts.random.below(CRASH_STEPS)).unwrap();
        let process = &self.processes[one];
        if failure != Failure::Crash {
            // Records earlier external edits first, so that what is recorded later comes from this act.
            process.agent.record_external_edits().await.unwrap();
        }
        process.plan.set(failing, failure);
        let done = execute(&process.agent, &act, &self.model).await.unwrap_or(false);
        let failed = process.plan.steps() >= failing;
        process.plan.set(0, Failure::Once);
        let mut before = self.model.clone();
        let mut after = act.effect(&before, self.last.as_ref()).unwrap_or_else(|| before.clone());
        if failure == Failure::Crash && failed {
            process.plan.set(1, Failure::Crash);
            if !act.is_about_a_folder() && self.acts.random.one_in(3) {
                (before, after) = self.write_by_hand(before, after);
            }
            self.start_successor(one).await;
        } else if failure != Failure::Crash {
            assert_eq!(
                process.agent.record_external_edits().await.unwrap(),
                0,
                "{act:?}, {failure:?}"
            );
        }
        let files = self.files_on_disk();
        let name = format!("{one}: {act:?}, {failure:?} at step {failing}");
        self.log_event(format!("{name}: {failed}, acknowledged {done}, done {}", files == after));
        assert!(files == before || files == after, "{name}: {files:#?}\nfrom {before:#?}");
        assert!(!done || files == after, "{name}: an acknowledged write is lost: {files:#?}");
        self.model = files;
        self.last = None;
    }

    /// Recovers after a process died in the middle of a write. A new process reads first, or the other process
    /// writes first.
    async fn start_successor(&mut self, dead: usize) {
        let next = Process::start(&self.host);
        if self.acts.random.one_in(2) {
            next.agent.list(None).await.unwrap();
        } else {
            write_in_each_scope(&self.processes[1 - dead].agent, &self.model).await;
        }
        self.processes[dead] = next;
    }

    /// Edits a file by hand.
    fn edit_by_hand(&mut self, may_remove: bool) {
        let name = self.acts.name(&self.model);
        self.last = None;
        if may_remove && self.acts.random.one_in(4) {
            self.log_event(format!("by hand: {name} is removed"));
            if self.model.remove(&name).is_some() {
                fs::remove_file(self.file(&name)).unwrap();
            }
            return;
        }
        let text = self.acts.text();
        let file = self.file(&name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, &text).unwrap();
        self.log_event(format!("by hand: {name} is written"));
        self.model.insert(name, text);
    }

    /// Edits a file by hand after a process died and before recovery.
    fn write_by_hand(&mut self, mut before: SimFiles, mut after: SimFiles) -> (SimFiles, SimFiles) {
        let known = self.model.clone();
        self.edit_by_hand(false);
        self.log_event("by hand, before recovery".to_owned());
        let written = self.model.iter().filter(|(name, text)| known.get(*name) != Some(text));
        for (name, text) in written {
            before.insert(name.clone(), text.clone());
            after.insert(name.clone(), text.clone());
        }
        (before, after)
    }

    /// An idle process dies, and another one starts.
    fn kill(&mut self) {
        let one = self.acts.random.below(self.processes.len());
        self.processes[one] = Process::start(&self.host);
        self.log_event(format!("{one}: killed between commands"));
    }

    fn clock(&mut self) {
        let hours = u64::try_from(self.acts.random.below(48)).unwrap();
        if self.acts.random.one_in(2) {
            self.host.clock.advance(Duration::from_secs(hours * 3_600));
        } else {
            self.host.clock.set(memory::clock::Timestamp::from_second(1_760_000_000).unwrap());
        }
    }

    async fn check_listing(&mut self) {
        let one = self.acts.random.below(self.processes.len());
        let agent = &self.processes[one].agent;
        let listed = agent.list(None).await.unwrap().memories;
        let listed: Vec<_> = listed.iter().map(|one| one.path.to_string()).collect();
        let expected: Vec<_> = self.model.keys().map(|name| format!("/memories/{name}")).collect();
        assert_eq!(listed, expected);
        self.record_external_edits(one).await;
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        match name.split_once('/').unwrap() {
            ("global", below) => self.host.global(below),
            (_, below) => self.host.project(below),
        }
    }

    /// Returns all files, also temporary ones.
    fn files_on_disk(&self) -> SimFiles {
        let of = |scope: &str, folder: &std::path::Path| {
            let named = |(name, text)| (format!("{scope}/{name}"), text);
            texts(folder).into_iter().map(named).collect::<Vec<_>>()
        };
        let global = of("global", &self.host.global(""));
        global.into_iter().chain(of("project", &self.host.project(""))).collect()
    }

    /// Checks that history agrees with the files, and that a health check finds no problem.
    async fn check(&mut self) {
        let process = &self.processes[0];
        let person = process.person();
        person.record_external_edits().await.unwrap();
        for (name, text) in &self.model {
            let recorded = person.content(&Revision::digest(text.as_bytes())).await.unwrap();
            assert_eq!(recorded.as_deref(), Some(text.as_bytes()), "{name} is not in history");
        }
        // The next writer in a root recovers the write of a dead process.
        write_in_each_scope(&process.agent, &self.model).await;
        process.store.checkpoint().await;
        let findings = person.health(Depth::Thorough).await.unwrap().findings;
        assert_eq!(findings, []);
        assert_eq!(self.files_on_disk(), self.model);
    }
}

/// Runs a seed to its end. Returns the log.
async fn run(seed: u64) -> Vec<String> {
    let mut world = SimWorld::new(seed);
    for _ in 0..60 {
        world.step().await;
        assert_eq!(world.files_on_disk(), world.model);
    }
    world.check().await;
    world.log
}

#[tokio::test]
async fn a_seed_gives_the_same_run_every_time() {
    let first = tokio::spawn(run(7)).await.unwrap();
    assert!(first.iter().any(|line| line.contains("Crash at step")), "{first:#?}");
    assert_eq!(tokio::spawn(run(7)).await.unwrap(), first);
}

#[tokio::test]
async fn callers_crashes_and_editors_agree_with_a_plain_model() {
    run_seeds(10, run).await;
}
