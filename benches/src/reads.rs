//! Views and listings in process, with all caches warm.

use std::time::Duration;

use memory::command::{Command, Lines};
use memory::path::{Layout, MemoryPath};

use crate::Bench;
use crate::ground::{self, FOLDERS, Ground};
use crate::measure::{Times, take_turns};
use crate::report::{Line, Section, Target};

/// Memories in the scope: its default cap.
const MEMORIES: usize = 1_000;
/// The size of a memory that is viewed.
const VIEWED_BYTES: usize = 4_096;
const VIEWS: usize = 400;
const LISTINGS: usize = 20;
const VIEW_MAX: Duration = Duration::from_micros(60);
const LISTING_MAX: Duration = Duration::from_millis(3);

/// Measures reads.
pub(crate) fn measure(bench: &Bench) -> anyhow::Result<Section> {
    let ground = Ground::open(&bench.dir.join("reads"))?;
    ground.fill(MEMORIES)?;
    let large = MemoryPath::parse("/memories/global/large.md", Layout::Scoped)?;
    ground.apply(Command::Create {
        path: large.clone(),
        file_text: ground::text(MEMORIES, VIEWED_BYTES),
    })?;
    ground.rest()?;
    let file = bench.dir.join("reads/memory/large.md");
    let top = MemoryPath::parse("/memories/global", Layout::Scoped)?;
    let show =
        |path: &MemoryPath| ground.apply(Command::View { path: path.clone(), lines: Lines::Whole });
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
            let listing = times.time(|| ground.run(ground.memories().list(None)))?;
            anyhow::ensure!(listing.memories.len() > MEMORIES, "memories are missing in a listing");
        }
        Ok(())
    };
    let [bare, view, view_folder, list] =
        take_turns(bench.passes, [&mut bare, &mut view, &mut view_folder, &mut list])?;
    let lines = vec![
        Line::calls("bare read of 4 KB", &bare),
        Line::calls("`view` of a memory of 4 KB", &view)
            .more("bare read", view.more_than(&bare))
            .target(Target::P50(VIEW_MAX)),
        Line::calls("`view` of the folder", &view_folder).target(Target::P50(LISTING_MAX)),
        Line::calls("list with descriptions, pins and usage", &list)
            .target(Target::P50(LISTING_MAX)),
    ];
    let method = format!(
        "{MEMORIES} memories in {FOLDERS} folders of one scope; {VIEWS} views and {LISTINGS} \
         listings a pass, {} passes, everything warm.",
        bench.passes
    );
    Ok(Section { title: "Reads, in process", method, lines })
}
