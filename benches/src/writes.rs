//! Measures durable writes in process, including history, compared with the same writes without Lukasa.

use std::time::Instant;

use crate::args::BenchConfig;
use crate::baseline::{self, BareFiles};
use crate::fixture::{self, FOLDERS, Fixture, MEMORY_BYTES};
use crate::measure::{Times, run_alternating};
use crate::report::{ReportLine, ReportTarget, Section};

/// Writes in one pass: too few to start the background synchronization, which a pause starts.
const CALLS: usize = 40;
/// Consecutive writes, measured up to the end of their synchronization.
const CALLS_IN_A_ROW: usize = 200;
/// The most that a write may take, as a multiple of the bare write.
const RATIO_MAX: f64 = 1.3;

/// Measures creates and replacements.
pub(crate) fn measure(bench: &BenchConfig) -> anyhow::Result<Section> {
    let mut lines = single(bench)?;
    lines.extend(in_a_row(bench)?);
    let method = format!(
        "Memories of {MEMORY_BYTES} bytes in {FOLDERS} folders, {CALLS} calls a pass, {} passes; \
         between passes the disk is flushed and background work is awaited. *Bare* is a \
         temporary file, fsync, rename, fsync of the folder. A call of Lukasa ends when the change \
         and its history survive a power cut. *Consecutive* calls are {CALLS_IN_A_ROW} writes. \
         They include all work until the files are synchronized and the state is closed.",
        bench.passes
    );
    Ok(Section { title: "Durable writes, in process", method, lines })
}

fn single(bench: &BenchConfig) -> anyhow::Result<Vec<ReportLine>> {
    let bare = BareFiles::create(&bench.dir.join("writes-bare"), FOLDERS)?;
    let fixture = Fixture::open(&bench.dir.join("writes"))?;
    fixture.fill(CALLS)?;
    let (mut written, mut created, mut turn) = (CALLS, CALLS, 0);
    for number in 0..CALLS {
        bare.write(number, &fixture::text(number, MEMORY_BYTES))?;
    }
    let mut bare_new = |times: &mut Times| {
        for _ in 0..CALLS {
            let text = fixture::text(written, MEMORY_BYTES);
            times.time(|| bare.write(written, &text))?;
            written += 1;
        }
        baseline::flush(&bench.dir)
    };
    let mut bare_again = |times: &mut Times| {
        for number in 0..CALLS {
            let text = fixture::text(number, MEMORY_BYTES);
            times.time(|| bare.write(number, &text))?;
        }
        baseline::flush(&bench.dir)
    };
    let mut create = |times: &mut Times| {
        for _ in 0..CALLS {
            let command = fixture::create(created)?;
            times.time(|| fixture.apply(command))?;
            created += 1;
        }
        fixture.wait_for_quiet()
    };
    let mut replace = |times: &mut Times| {
        for number in 0..CALLS {
            let command = fixture::replace(number, turn)?;
            times.time(|| fixture.apply(command))?;
        }
        turn += 1;
        fixture.wait_for_quiet()
    };
    let [bare_new, create, bare_again, replace] =
        run_alternating(bench.passes, [&mut bare_new, &mut create, &mut bare_again, &mut replace])?;
    Ok(vec![
        ReportLine::calls("bare write of a new file", &bare_new),
        ReportLine::calls("`create`", &create)
            .ratio("bare, new", create.ratio_to(&bare_new))
            .target(ReportTarget::Ratio(RATIO_MAX)),
        ReportLine::calls("bare write over a file", &bare_again),
        ReportLine::calls("`str_replace`", &replace)
            .ratio("bare, over", replace.ratio_to(&bare_again))
            .target(ReportTarget::Ratio(RATIO_MAX)),
    ])
}

/// Measures consecutive writes, including the work that is otherwise done in the background.
fn in_a_row(bench: &BenchConfig) -> anyhow::Result<Vec<ReportLine>> {
    let bare = BareFiles::create(&bench.dir.join("row-bare"), FOLDERS)?;
    let fixture = Fixture::open(&bench.dir.join("row"))?;
    let (mut written, mut created) = (0, 0);
    let each = CALLS_IN_A_ROW.try_into()?;
    let mut bare_row = |times: &mut Times| {
        let started = Instant::now();
        for _ in 0..CALLS_IN_A_ROW {
            bare.write(written, &fixture::text(written, MEMORY_BYTES))?;
            written += 1;
        }
        times.add(started.elapsed() / each);
        baseline::flush(&bench.dir)
    };
    let mut row = |times: &mut Times| {
        let started = Instant::now();
        for _ in 0..CALLS_IN_A_ROW {
            fixture.apply(fixture::create(created)?)?;
            created += 1;
        }
        fixture.close();
        times.add(started.elapsed() / each);
        baseline::flush(&bench.dir)
    };
    let [bare_row, row] = run_alternating(bench.passes, [&mut bare_row, &mut row])?;
    Ok(vec![
        ReportLine::calls("consecutive bare writes, each", &bare_row),
        ReportLine::calls("consecutive `create`, each, all synchronized", &row)
            .ratio("bare, in a row", row.ratio_to(&bare_row)),
    ])
}
