//! What a write costs as memories and history grow: it should not matter.

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
/// Writes in one turn: few, so that a busy moment of the machine meets all stores alike.
const CALLS: usize = 5;
/// Turns in a pass.
const TURNS: usize = 5;
/// Records closed at once while a history is made.
const CHECKPOINT_BATCH: usize = 500;
/// How much dearer a write may become.
const RATIO_MAX: f64 = 1.2;

/// Measures creates and replacements in a small store, a full one, and one with a long history.
pub(crate) fn measure(bench: &BenchConfig) -> anyhow::Result<Section> {
    let small = Store::make(&bench.dir.join("small"), FEW)?;
    let full = Store::make(&bench.dir.join("full"), MANY)?;
    let old = Store::make(&bench.dir.join("old"), FEW)?;
    old.fixture.close();
    old.fixture.run(lengthen_history(bench, &old.fixture, CHANGES))?;

    let turns = bench.passes * TURNS;
    let [create_small, create_full, create_old] =
        run_alternating(turns, [&mut small.creates(), &mut full.creates(), &mut old.creates()])?;
    let [small, full, old] = run_alternating(
        turns,
        [&mut small.replacements(), &mut full.replacements(), &mut old.replacements()],
    )?;
    let beside = |what: &str, times: &Times, first: &Times| {
        ReportLine::calls(what, times)
            .ratio("the small store", times.ratio_to(first))
            .target(ReportTarget::Ratio(RATIO_MAX))
    };
    let lines = vec![
        ReportLine::calls(format!("`create`, {FEW} memories"), &create_small),
        beside(&format!("`create`, {MANY} memories"), &create_full, &create_small),
        beside(&format!("`create`, {CHANGES} changes"), &create_old, &create_small),
        ReportLine::calls(format!("`str_replace`, {FEW} memories"), &small),
        beside(&format!("`str_replace`, {MANY} memories"), &full, &small),
        beside(&format!("`str_replace`, {CHANGES} changes"), &old, &small),
    ];
    let method = format!(
        "In process: a store of {FEW} memories with no more history than making them left, one of \
         {MANY}, and one of {FEW} with {CHANGES} recorded changes of {MEMORY_BYTES} bytes each. \
         {CALLS} calls a turn, {turns} turns; what was created is deleted again between turns."
    );
    Ok(Section { title: "Growth", method, lines })
}

/// A store of so many memories.
struct Store {
    fixture: Fixture,
    memories: usize,
}

impl Store {
    fn make(home: &Path, memories: usize) -> anyhow::Result<Self> {
        let ground = Fixture::open(home)?;
        ground.fill(memories)?;
        ground.wait_for_quiet()?;
        Ok(Self { fixture: ground, memories })
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

/// Records many changes of the memories of a store that is closed, the last of which leave them as
/// they are. Through the port, as any change is recorded, but in a copy of the database that no disk
/// has to be waited for.
pub(crate) async fn lengthen_history(
    bench: &BenchConfig,
    ground: &Fixture,
    changes: usize,
) -> anyhow::Result<()> {
    let mounts = ground.memories().mounts();
    let root = mounts.iter().find_map(|mount| mount.key.clone()).context("no root is mounted")?;
    let swift = Path::new("/dev/shm");
    let swift = tempfile::tempdir_in(if swift.is_dir() { swift } else { &bench.dir })?;
    let (kept, made) = (ground.home().join("state/lukasa.db"), swift.path().join("lukasa.db"));
    std::fs::copy(&kept, &made)?;
    let state = SqliteState::new(made.clone());
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
    std::fs::copy(&made, &kept)?;
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
    let path: RelativePath = path.relative().context("a memory has a path")?.clone();
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

/// Returns the bytes of one version of a memory; the first and the last are those on the disk.
fn version_text(number: usize, version: usize) -> Arc<[u8]> {
    let text = fixture::text(number, MEMORY_BYTES);
    if version.is_multiple_of(CHANGES / FEW) {
        return Arc::from(text.into_bytes());
    }
    let word = format!("version{version}");
    Arc::from(text.replace(fixture::MARK, &word).into_bytes())
}

const _: () = assert!(CHANGES.is_multiple_of(FEW));
