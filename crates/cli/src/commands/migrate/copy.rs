//! Copying and comparing all content of two ends.

use std::collections::BTreeMap;

use memory::error_code::MemoryErrorCode;
use parking_lot::Mutex;
use state::transfer::{ContentDigest, RowSource, RowTarget, StateDigest, copy_rows, digest_rows};
use store::{HostedRoot, copy_files, digest_files};

use crate::app::App;
use crate::exit::Failure;
use crate::render::progress::StepProgress;

/// The digests of all content of one end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Content {
    /// Rows.
    pub(super) state: StateDigest,
    /// Memories by the identity of their root. Roots without memories are left out.
    pub(super) files: BTreeMap<String, ContentDigest>,
}

/// A progress bar over rows and files.
pub(super) struct Progress(Mutex<StepProgress>);

impl Progress {
    pub(super) fn new(app: &App, doing: &str, steps: usize) -> Self {
        Self(Mutex::new(StepProgress::new(doing, steps, app.shows_progress())))
    }

    fn advance(&self, steps: usize) {
        self.0.lock().advance(steps);
    }
}

/// Copies all rows, and the files of pairs of roots. Returns the digests of what was read.
pub(super) async fn copy(
    from: &mut dyn RowSource,
    to: &mut dyn RowTarget,
    roots: &[(HostedRoot, HostedRoot)],
    progress: &Progress,
) -> Result<Content, Failure> {
    let advance = |steps| progress.advance(steps);
    let state = copy_rows(from, to, &advance).await?;
    let mut files = BTreeMap::new();
    for (from, to) in roots {
        files.insert(from.identity().to_owned(), copy_files(from, to, &advance).await?);
    }
    Ok(content(state, files))
}

/// Reads all rows and files. Returns their digests.
pub(super) async fn read(
    from: &mut dyn RowSource,
    roots: &[HostedRoot],
    progress: &Progress,
) -> Result<Content, Failure> {
    let advance = |steps| progress.advance(steps);
    let state = digest_rows(from, &advance).await?;
    let mut files = BTreeMap::new();
    for root in roots {
        files.insert(root.identity().to_owned(), digest_files(root, &advance).await?);
    }
    Ok(content(state, files))
}

fn content(state: StateDigest, mut files: BTreeMap<String, ContentDigest>) -> Content {
    files.retain(|_, digest| digest.items > 0);
    Content { state, files }
}

/// Compares what was copied with the copy, and with the origin after it.
pub(super) fn compare(
    copied: &Content,
    copy: &Content,
    origin_after: &Content,
) -> Result<(), Failure> {
    if origin_after != copied {
        let what =
            format!("the origin changed while it was copied: {}", named(copied, origin_after));
        return Err(Failure::new(MemoryErrorCode::Conflict, what).help(
            "nothing was put in place; stop the agents and daemons that use it, and try again",
        ));
    }
    if copy != copied {
        let what = format!("the copy differs from the origin: {}", named(copied, copy));
        return Err(Failure::new(MemoryErrorCode::StorageFailed, what)
            .help("nothing was put in place; `lukasa doctor` checks the origin"));
    }
    Ok(())
}

/// Returns the names of the tables and roots that differ.
fn named(one: &Content, other: &Content) -> String {
    let mut names: Vec<_> =
        one.state.differences(&other.state).into_iter().map(str::to_owned).collect();
    let identities = one.files.keys().chain(other.files.keys());
    let differs = |identity: &&String| one.files.get(*identity) != other.files.get(*identity);
    let mut roots: Vec<_> =
        identities.filter(differs).map(|of| format!("memories of {of}")).collect();
    roots.sort();
    roots.dedup();
    names.append(&mut roots);
    names.join(", ")
}
