//! Measures whether writes become slower as memories and history grow.
//!
//! Three stores take turns: a small one, one with many memories, and one with a long history.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use memory::change::{ChangeId, ChangeKind, FileChange, Provenance, RootKey, Trust};
use memory::clock::Timestamp;
use memory::command::MemoryCommand;
use memory::document::Revision;
use memory::path::RelativePath;
use state::{HistoryStore as _, NewChange, NewFileChange, SqliteState};

use crate::args::BenchConfig;
use crate::fixture::{self, Fixture, MEMORY_BYTES};
use crate::measure::{Times, run_alternating};
use crate::report::{ReportLine, ReportTarget, Section};

const FEW: usize = 100;
const MANY: usize = 1_000;
const CHANGES: usize = 100_000;
/// Writes in one turn: few, so that a busy moment of the machine affects all stores alike.
const CALLS: usize = 5;
/// Turns in a pass.
const TURNS: usize = 5;
/// Changes per checkpoint while a history is generated.
const CHECKPOINT_BATCH: usize = 500;
/// The most that a write may take, as a multiple of a write in the small store.
const RATIO_MAX: f64 = 1.2;

/// Measures creates and replacements in a small store, a full one, and one with a long history.
pub(crate) fn measure(bench: &BenchConfig) -> anyhow::Result<Section> {
    let small = Store::create(&bench.dir.join("small"), FEW)?;
    let full = Store::create(&bench.dir.join("full"), MANY)?;
    let old = Store::create(&bench.dir.join("old"), FEW)?;
    old.fixture.close();
    old.fixture.run(lengthen_history(bench, &old.fixture, CHANGES))?;

    let turns = bench.passes * TURNS;
    let [create_small, create_full, create_old] =
        run_alternating(turns, [&mut small.creates(), &mut full.creates(), &mut old.creates()])?;
    let [small, full, old] = run_alternating(
        turns,
        [&mut small.replacements(), &mut full.replacements(), &mut old.replacements()],
    )?;
    let compared = |what: &str, times: &Times, first: &Times| {
        ReportLine::calls(what, times)
            .ratio("the small store", times.ratio_to(first))
            .target(ReportTarget::Ratio(RATIO_MAX))
    };
    let lines = vec![
        ReportLine::calls(format!("`create`, {FEW} memories"), &create_small),
        compared(&format!("`create`, {MANY} memories"), &create_full, &create_small),
        compared(&format!("`create`, {CHANGES} changes"), &create_old, &create_small),
        ReportLine::calls(format!("`str_replace`, {FEW} memories"), &small),
        compared(&format!("`str_replace`, {MANY} memories"), &full, &small),
        compared(&format!("`str_replace`, {CHANGES} changes"), &old, &small),
    ];
    let method = format!(
        "In process, three stores: one has {FEW} memories and only the history of their creation, and one has \
         {MANY}. The third has {FEW} memories and {CHANGES} recorded changes of {MEMORY_BYTES} bytes each. \
         {CALLS} calls a turn, {turns} turns; created memories are deleted between turns."
    );
    Ok(Section { title: "Growth", method, lines })
}

/// A home with a number of memories.
struct Store {
    fixture: Fixture,
    memories: usize,
}

impl Store {
    fn create(home: &Path, memories: usize) -> anyhow::Result<Self> {
        let fixture = Fixture::open(home)?;
        fixture.fill(memories)?;
        fixture.wait_for_quiet()?;
        Ok(Self { fixture, memories })
    }

    fn creates(&self) -> impl FnMut(&mut Times) -> anyhow::Result<()> {
        move |times| {
            let numbers = self.memories..self.memories + CALLS;
            for number in numbers.clone() {
                let command = fixture::create(number)?;
                times.time(|| self.fixture.apply(command))?;
            }
            for number in numbers {
                self.fixture.apply(MemoryCommand::Delete { path: fixture::path(number)? })?;
            }
            Ok(())
        }
    }

    fn replacements(&self) -> impl FnMut(&mut Times) -> anyhow::Result<()> {
        let mut turn = 0;
        move |times| {
            for number in 0..CALLS {
                let command = fixture::replace(number, turn)?;
                times.time(|| self.fixture.apply(command))?;
            }
            turn += 1;
            Ok(())
        }
    }
}

/// Records many changes of the memories of a closed store; the last ones leave the files as they are. The changes
/// go through the port like all changes, but into a copy of the database in memory, which needs no wait for a disk.
pub(crate) async fn lengthen_history(
    bench: &BenchConfig,
    fixture: &Fixture,
    changes: usize,
) -> anyhow::Result<()> {
    let mounts = fixture.memories().mounts();
    let root = mounts.iter().find_map(|mount| mount.key.clone()).context("no root is mounted")?;
    let fast_dir = Path::new("/dev/shm");
    let fast_dir = tempfile::tempdir_in(if fast_dir.is_dir() { fast_dir } else { &bench.dir })?;
    let (database, copy) =
        (fixture.home().join("state/lukasa.db"), fast_dir.path().join("lukasa.db"));
    std::fs::copy(&database, &copy)?;
    let state = SqliteState::new(copy.clone());
    let mut open = Vec::with_capacity(CHECKPOINT_BATCH);
    for index in 0..changes {
        open.push(record_version(&state, &root, index).await?);
        if open.len() == CHECKPOINT_BATCH || index + 1 == changes {
            state.mark_durable(&open).await?;
            open.clear();
        }
    }
    let recorded = state.stats().await?.changes;
    anyhow::ensure!(recorded >= changes.try_into()?, "only {recorded} changes were recorded");
    state.close().await;
    std::fs::copy(&copy, &database)?;
    Ok(())
}

async fn record_version(
    state: &SqliteState,
    root: &RootKey,
    index: usize,
) -> anyhow::Result<ChangeId> {
    let (number, version) = (index % FEW, index / FEW);
    let before = version_text(number, version);
    let after = version_text(number, version + 1);
    let path = fixture::path(number)?;
    let path: RelativePath = path.relative().context("the path of a memory is empty")?.clone();
    let change = FileChange {
        root: root.clone(),
        path,
        moved_to: None,
        before: Some(Revision::digest(&before)),
        after: Some(Revision::digest(&after)),
        trust: Trust::Agent,
    };
    let change = NewChange {
        at: Timestamp::now(),
        kind: ChangeKind::Edit,
        provenance: Provenance::agent("bench"),
        attempt: None,
        undoes: None,
        folder: None,
        files: vec![NewFileChange {
            change,
            before: Some(before),
            after: Some(after),
            influenced: false,
        }],
        uses: Vec::new(),
        accepts: None,
    };
    Ok(state.record(change).await?)
}

/// Returns the bytes of one version of a memory; the first and the last version are the file on the disk.
fn version_text(number: usize, version: usize) -> Arc<[u8]> {
    let text = fixture::text(number, MEMORY_BYTES);
    if version.is_multiple_of(CHANGES / FEW) {
        return Arc::from(text.into_bytes());
    }
    let word = format!("version{version}");
    Arc::from(text.replace(fixture::MARK, &word).into_bytes())
}

const _: () = assert!(CHANGES.is_multiple_of(FEW));
