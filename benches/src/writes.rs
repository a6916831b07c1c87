//! Durable writes in process, history included, against the same writes without Lukasa.

use std::time::Instant;

use crate::args::BenchConfig;
use crate::baseline::{self, BareFiles};
use crate::fixture::{self, FOLDERS, Fixture, MEMORY_BYTES};
use crate::measure::{Times, run_alternating};
use crate::report::{ReportLine, ReportTarget, Section};

/// Writes in one pass: fewer than start the synchronizing that is left for a pause.
const CALLS: usize = 40;
/// Writes in a row, whose synchronizing is waited for.
const CALLS_IN_A_ROW: usize = 200;
/// How much longer than the bare write one through Lukasa may take.
const RATIO_MAX: f64 = 1.3;

/// Measures creates and replacements.
pub(crate) fn measure(bench: &BenchConfig) -> anyhow::Result<Section> {
    let mut lines = single(bench)?;
    lines.extend(in_a_row(bench)?);
    let method = format!(
        "Memories of {MEMORY_BYTES} bytes in {FOLDERS} folders, {CALLS} calls a pass, {} passes; \
         the disk is flushed and the background work waited for between passes. *Bare* is a \
         temporary file, fsync, rename, fsync of the folder. A call of Lukasa ends when the change \
         and its history survive a power cut. *In a row* counts everything until the files \
         themselves are synchronized and the state is closed, by {CALLS_IN_A_ROW} writes.",
        bench.passes
    );
    Ok(Section { title: "Durable writes, in process", method, lines })
}

fn single(bench: &BenchConfig) -> anyhow::Result<Vec<ReportLine>> {
    let bare = BareFiles::make(&bench.dir.join("writes-bare"), FOLDERS)?;
    let ground = Fixture::open(&bench.dir.join("writes"))?;
    ground.fill(CALLS)?;
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
            times.time(|| ground.apply(command))?;
            created += 1;
        }
        ground.wait_for_quiet()
    };
    let mut replace = |times: &mut Times| {
        for number in 0..CALLS {
            let command = fixture::replace(number, turn)?;
            times.time(|| ground.apply(command))?;
        }
        turn += 1;
        ground.wait_for_quiet()
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

/// Measures with what is otherwise done in the background.
fn in_a_row(bench: &BenchConfig) -> anyhow::Result<Vec<ReportLine>> {
    let bare = BareFiles::make(&bench.dir.join("row-bare"), FOLDERS)?;
    let ground = Fixture::open(&bench.dir.join("row"))?;
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
            ground.apply(fixture::create(created)?)?;
            created += 1;
        }
        ground.close();
        times.add(started.elapsed() / each);
        baseline::flush(&bench.dir)
    };
    let [bare_row, row] = run_alternating(bench.passes, [&mut bare_row, &mut row])?;
    Ok(vec![
        ReportLine::calls("bare writes in a row, each", &bare_row),
        ReportLine::calls("`create` in a row, each, all synchronized", &row)
            .ratio("bare, in a row", row.ratio_to(&bare_row)),
    ])
}
