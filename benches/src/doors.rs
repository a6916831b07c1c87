//! Measures Lukasa as its users call it: over MCP, over HTTP, by the command line and by hooks.
//!
//! Each door is measured with stores of several sizes that take turns, so rows say how its time grows with the store.
//! Other memory servers that are installed take turns too.

mod http;
mod mcp;
mod peers;
pub(crate) mod process;
mod store;

use std::path::Path;
use std::time::Duration;

use self::store::{SIZES, Store, StoreSize};
use crate::AddSection;
use crate::args::{Args, BenchConfig};
use crate::measure::{Times, turns};
use crate::report::{ReportLine, ReportTarget, Section};

/// The target for the peak memory of a server.
const PEAK_BYTES_MAX: u64 = 150 << 20;

/// A way to call a program, as a row names it, with the target for Lukasa.
///
/// A target for a ratio holds for the growth from any size to the next one. Other targets hold for one size.
#[derive(Clone, Copy, Debug)]
struct Door {
    name: &'static str,
    target: Option<ReportTarget>,
}

impl Door {
    const fn to(name: &'static str) -> Self {
        Self { name, target: None }
    }

    const fn p50_max(self, millis: u64) -> Self {
        Self { target: Some(ReportTarget::P50(Duration::from_millis(millis))), ..self }
    }

    const fn growth_max(self, ratio: f64) -> Self {
        Self { target: Some(ReportTarget::Ratio(ratio)), ..self }
    }
}

/// The times of one side, door by door, in the order of the first calls.
#[derive(Debug, Default)]
struct DoorTimes {
    doors: Vec<(Door, Times)>,
}

impl DoorTimes {
    /// Runs `work` and records its time.
    fn time<T>(&mut self, door: Door, work: impl FnOnce() -> T) -> T {
        let known = self.doors.iter().position(|(other, _)| other.name == door.name);
        let index = known.unwrap_or_else(|| {
            let mut times = Times::default();
            times.begin_pass();
            self.doors.push((door, times));
            self.doors.len() - 1
        });
        self.doors[index].1.time(work)
    }

    fn begin_pass(&mut self) {
        self.doors.iter_mut().for_each(|(_, times)| times.begin_pass());
    }

    fn of(&self, door: Door) -> Option<&Times> {
        self.doors.iter().find(|(other, _)| other.name == door.name).map(|(_, times)| times)
    }
}

/// A program with a store of one size.
trait Side {
    /// The size of the store; none for a program without a store.
    fn size(&self) -> Option<StoreSize>;

    /// Calls each door some times.
    fn pass(&mut self, times: &mut DoorTimes) -> anyhow::Result<()>;

    /// The process that serves the doors, with the row of its peak memory.
    fn server(&self) -> Option<(Door, u32)> {
        None
    }
}

/// Measures all doors, section by section.
pub(crate) fn measure(bench: &BenchConfig, args: &Args, add: AddSection<'_>) -> anyhow::Result<()> {
    let lukasa = args.lukasa()?;
    let stores: Vec<Store> = SIZES
        .into_iter()
        .map(|size| Store::create(&lukasa, &bench.dir.join("doors").join(size.label), size))
        .collect::<Result<_, _>>()?;
    add(preparation(&stores))?;
    add(mcp_section(bench, args, &stores)?)?;
    add(process_section(bench, &stores)?)?;
    add(http_section(bench, &lukasa, &stores)?)
}

fn preparation(stores: &[Store]) -> Section {
    let rows = |name: &str, took: fn(&Store) -> Duration| {
        let mut before: Option<&Store> = None;
        let mut lines = Vec::new();
        for store in stores {
            let line = ReportLine::seconds(format!("{name}, {}", store.size.label), took(store));
            let growth = before.map(|before| {
                (before.size.label, took(store).as_secs_f64() / took(before).as_secs_f64())
            });
            lines.push(match growth {
                Some((label, ratio)) => line.ratio(label, ratio),
                None => line,
            });
            before = Some(store);
        }
        lines
    };
    let mut lines = rows("`lukasa import` of the global half", |store| store.import);
    lines.extend(rows("first scan of the project half", |store| store.first_scan));
    let method = "Stores of memories of some 600 bytes, and one of 80 memories with 1,250 entries each. Half of the \
                  memories is imported as global ones. The other half lies in a checkout before Lukasa first sees it, \
                  and the first `lukasa log` records it. Each row is a single call."
        .to_owned();
    Section { title: "Doors: new memories", method, lines }
}

fn mcp_section(bench: &BenchConfig, args: &Args, stores: &[Store]) -> anyhow::Result<Section> {
    let bare = mcp::BareWrites::create(&bench.dir.join("bare"))?;
    let mut sides: Vec<Box<dyn Side + '_>> = vec![Box::new(bare)];
    for store in stores {
        sides.push(Box::new(mcp::McpSide::start(store)?));
    }
    let missing = peers::start(bench, args, &mut sides)?;
    let mut lines = measure_in_turns(bench, &mut sides)?;
    lines.extend(missing);
    let method = format!(
        "A client over standard streams, a server for each store, no daemon; {} passes. *Bare* is a temporary \
         file, fsync, rename, fsync of the folder. Created memories are deleted after each pass. Other servers hold the same texts. {}",
        bench.passes,
        peers::METHOD,
    );
    Ok(Section { title: "Doors: MCP", method, lines })
}

fn process_section(bench: &BenchConfig, stores: &[Store]) -> anyhow::Result<Section> {
    let mut sides: Vec<Box<dyn Side + '_>> = vec![Box::new(process::EmptyProcess)];
    for store in stores {
        sides.push(Box::new(process::CommandSide::new(store)));
    }
    let lines = measure_in_turns(bench, &mut sides)?;
    let method = format!(
        "A process for each call, from its start to its end, no daemon; {} passes. Hooks get Claude Code's input; one that takes a second ends without an answer. Each \
         prompt repeats the description of a memory. *Empty* is a Rust program that reads its input and ends.",
        bench.passes
    );
    Ok(Section { title: "Doors: command line and hooks", method, lines })
}

fn http_section(bench: &BenchConfig, lukasa: &Path, stores: &[Store]) -> anyhow::Result<Section> {
    let mut sides: Vec<Box<dyn Side + '_>> = Vec::new();
    for store in stores {
        sides.push(Box::new(http::HttpSide::start(lukasa, store)?));
    }
    let lines = measure_in_turns(bench, &mut sides)?;
    let method = format!(
        "A daemon for each store, and a client that keeps its connection; {} passes. Tasks are measured from the \
         request to the poll that finds them completed. Polls follow each other after a fiftieth of the time that the \
         task took so far, at least a millisecond. A dream follows remembers and forgets. Peak memory is that of the \
         daemon after all passes.",
        bench.passes
    );
    Ok(Section { title: "Doors: HTTP and hooks with a daemon", method, lines })
}

/// Measures all sides in turns, after one turn that does not count, and returns the rows.
fn measure_in_turns(
    bench: &BenchConfig,
    sides: &mut [Box<dyn Side + '_>],
) -> anyhow::Result<Vec<ReportLine>> {
    for side in &mut *sides {
        side.pass(&mut DoorTimes::default())?;
    }
    let mut all: Vec<DoorTimes> = sides.iter().map(|_| DoorTimes::default()).collect();
    for index in turns(bench.passes, sides.len()) {
        all[index].begin_pass();
        sides[index].pass(&mut all[index])?;
    }
    let mut lines = rows(sides, &all);
    lines.extend(peak_rows(sides)?);
    Ok(lines)
}

/// Returns a row for each door and size, with the growth since the size before.
fn rows(sides: &[Box<dyn Side + '_>], all: &[DoorTimes]) -> Vec<ReportLine> {
    let mut lines = Vec::new();
    let mut named: Vec<&str> = Vec::new();
    for (door, _) in all.iter().flat_map(|times| &times.doors) {
        if named.contains(&door.name) {
            continue;
        }
        named.push(door.name);
        let mut before: Option<(StoreSize, &Times)> = None;
        for (side, times) in sides.iter().zip(all) {
            let Some(times) = times.of(*door) else { continue };
            let size = side.size();
            let mut line = ReportLine::calls(name_of_row(*door, size), times);
            if let Some((smaller, before)) = before {
                line = line.ratio(smaller.label, times.ratio_to(before));
            }
            lines.push(with_target(line, *door, size));
            before = size.map(|size| (size, times));
        }
    }
    lines
}

fn peak_rows(sides: &[Box<dyn Side + '_>]) -> anyhow::Result<Vec<ReportLine>> {
    let mut lines = Vec::new();
    for side in sides {
        let Some((door, process)) = side.server() else { continue };
        let peak = crate::stdio::peak_bytes_of(process)?;
        let line = ReportLine::bytes(name_of_row(door, side.size()), peak);
        lines.push(with_target(line, door, side.size()));
    }
    Ok(lines)
}

fn name_of_row(door: Door, size: Option<StoreSize>) -> String {
    match size {
        None => door.name.to_owned(),
        Some(size) => format!("{}, {}", door.name, size.label),
    }
}

/// Adds the target to a row if it holds for this size.
fn with_target(line: ReportLine, door: Door, size: Option<StoreSize>) -> ReportLine {
    let (Some(target), Some(size)) = (door.target, size) else { return line };
    let holds = match target {
        ReportTarget::Ratio(_) => line.has_ratio() && size.counts_memories(),
        _ => size.has_targets(),
    };
    if holds { line.target(target) } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A side without a program.
    struct FakeSide(Option<StoreSize>);

    impl Side for FakeSide {
        fn size(&self) -> Option<StoreSize> {
            self.0
        }

        fn pass(&mut self, _times: &mut DoorTimes) -> anyhow::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_row_shows_the_growth_since_the_size_before() {
        let measured = [None, Some(SIZES[1]), Some(SIZES[2]), Some(SIZES[3])];
        let sides = measured.map(|size| Box::new(FakeSide(size)) as Box<dyn Side>);
        let times = |calls: &[(Door, u64)]| {
            let mut all = DoorTimes::default();
            for &(door, millis) in calls {
                let mut times = Times::default();
                times.add(Duration::from_millis(millis));
                all.doors.push((door, times));
            }
            all
        };
        let (bare, recall) = (Door::to("bare"), Door::to("recall").p50_max(3));
        let create = Door::to("create").growth_max(1.5);
        let all = [
            times(&[(bare, 1)]),
            times(&[(recall, 2), (create, 2)]),
            times(&[(create, 4), (recall, 2)]),
            times(&[(create, 8)]),
        ];
        let section = Section { title: "Doors", method: String::new(), lines: rows(&sides, &all) };
        insta::assert_snapshot!(section.markdown(), @"
        ## Doors



        | metric                  | p10     | p50     | p95     | per second | relative, same run     | target    | met    |
        | ----------------------- | ------- | ------- | ------- | ---------- | ---------------------- | --------- | ------ |
        | bare                    | 1.00 ms | 1.00 ms | 1.00 ms | 1000       |                        |           |        |
        | recall, 1,000 memories  | 2.00 ms | 2.00 ms | 2.00 ms | 500        |                        |           |        |
        | recall, 10,000 memories | 2.00 ms | 2.00 ms | 2.00 ms | 500        | 1.00 × 1,000 memories  | ≤ 3.00 ms | yes    |
        | create, 1,000 memories  | 2.00 ms | 2.00 ms | 2.00 ms | 500        |                        |           |        |
        | create, 10,000 memories | 4.00 ms | 4.00 ms | 4.00 ms | 250        | 2.00 × 1,000 memories  | ≤ 1.5 ×   | **no** |
        | create, 100,000 entries | 8.00 ms | 8.00 ms | 8.00 ms | 125        | 2.00 × 10,000 memories |           |        |
        ");
    }
}
