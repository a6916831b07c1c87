//! Measures views and listings in process, with warm caches.
//!
//! They are compared with bare reads of the same files.

use std::time::Duration;

use memory::command::{MemoryCommand, ViewRange};
use memory::path::{Layout, MemoryPath};

use crate::args::BenchConfig;
use crate::baseline;
use crate::fixture::{self, FOLDERS, Fixture};
use crate::measure::{Times, run_alternating};
use crate::report::{ReportLine, ReportTarget, Section};

/// Memories in the scope: its default cap.
const MEMORIES: usize = 1_000;
/// The size of a memory that is viewed.
const VIEWED_BYTES: usize = 4_096;
const VIEWS: usize = 400;
const LISTINGS: usize = 20;
const VIEW_MAX: Duration = Duration::from_micros(60);
const LISTING_MAX: Duration = Duration::from_millis(3);

/// Measures reads.
pub(crate) fn measure(bench: &BenchConfig) -> anyhow::Result<Section> {
    let fixture = Fixture::open(&bench.dir.join("reads"))?;
    fixture.fill(MEMORIES)?;
    let large = MemoryPath::parse("/memories/global/large.md", Layout::Scoped)?;
    fixture.apply(MemoryCommand::Create {
        path: large.clone(),
        file_text: fixture::text(MEMORIES, VIEWED_BYTES),
    })?;
    fixture.wait_for_quiet()?;
    let file = bench.dir.join("reads/memory/large.md");
    let top = MemoryPath::parse("/memories/global", Layout::Scoped)?;
    let show = |path: &MemoryPath| {
        fixture.apply(MemoryCommand::View { path: path.clone(), lines: ViewRange::Whole })
    };
    let mut bare = |times: &mut Times| {
        (0..VIEWS).try_for_each(|_| times.time(|| std::fs::read(&file)).map(drop))?;
        Ok(())
    };
    let mut view =
        |times: &mut Times| (0..VIEWS).try_for_each(|_| times.time(|| show(&large)).map(drop));
    let mut view_folder =
        |times: &mut Times| (0..LISTINGS).try_for_each(|_| times.time(|| show(&top)).map(drop));
    let mut list = |times: &mut Times| {
        for _ in 0..LISTINGS {
            let listing = times.time(|| fixture.run(fixture.memories().list(None)))?;
            anyhow::ensure!(listing.memories.len() > MEMORIES, "memories are missing in a listing");
        }
        Ok(())
    };
    let folder = bench.dir.join("reads/memory");
    let mut bare_list = |times: &mut Times| {
        for _ in 0..LISTINGS {
            let listed = times.time(|| baseline::list(&folder))?;
            anyhow::ensure!(listed > MEMORIES, "memories are missing in a bare listing");
        }
        Ok(())
    };
    let [bare, view, bare_list, view_folder, list] = run_alternating(
        bench.passes,
        [&mut bare, &mut view, &mut bare_list, &mut view_folder, &mut list],
    )?;
    let lines = vec![
        ReportLine::calls("bare read of 4 KB", &bare),
        ReportLine::calls("`view` of a memory of 4 KB", &view)
            .more("bare read", view.more_than(&bare))
            .target(ReportTarget::P50(VIEW_MAX)),
        ReportLine::calls("bare names and sizes", &bare_list),
        ReportLine::calls("`view` of the folder", &view_folder)
            .ratio("bare names and sizes", view_folder.ratio_to(&bare_list))
            .target(ReportTarget::P50(LISTING_MAX)),
        ReportLine::calls("list with descriptions, pins and usage", &list)
            .ratio("bare names and sizes", list.ratio_to(&bare_list))
            .target(ReportTarget::P50(LISTING_MAX)),
    ];
    let method = format!(
        "{MEMORIES} memories in {FOLDERS} folders of one scope; {VIEWS} views and {LISTINGS} \
         listings a pass, {} passes, warm caches. *Bare names and sizes* is one thread that reads \
         each folder and asks the kernel for the metadata of each file.",
        bench.passes
    );
    Ok(Section { title: "Reads, in process", method, lines })
}
