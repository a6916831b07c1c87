//! Watches for external edits.
//!
//! File events are only a hint that starts a scan. The scan compares the files with the records, so
//! a lost event delays the detection of an edit and loses nothing. Periodic scans replace events on
//! a system without them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use memory::limits::{WATCH_RESCAN, WATCH_SETTLE};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;

use crate::backend::{Backend, Freshness};
use crate::error::StoreError;
use crate::external_edits::scan_external_edits;
use crate::memories::Memories;
use crate::root::Root;
use crate::store::Store;

/// Maximum number of waits for the end of a burst of events. After that a scan starts even if the burst goes on.
const BURST_WAITS_MAX: usize = 20;

/// A watch on the roots of a binding. Dropping it ends the watch.
#[derive(Debug)]
pub struct Watch {
    /// The task of the local roots, and one for each root with notices.
    _tasks: Vec<AbortOnDropHandle<()>>,
}

impl Memories {
    /// Watches the roots for changes from outside of this process, also those by other Lukasa processes, and
    /// publishes them to subscribers. Existing differences are recorded first.
    pub async fn watch(&self) -> Result<Watch, StoreError> {
        let (mut roots, mut tasks) = (Vec::new(), Vec::new());
        let (begun, mut first_scans) = mpsc::channel::<()>(1);
        for root in self.open_roots() {
            match root.backend.changes() {
                None => roots.push(Arc::clone(root)),
                // On its own, since a machine that does not answer must hold up no other root.
                Some(changes) => {
                    let store = Arc::clone(&self.store);
                    let watching = watch_notices(store, Arc::clone(root), changes, begun.clone());
                    tasks.push(AbortOnDropHandle::new(tokio::spawn(watching.boxed())));
                }
            }
        }
        let (mut folders, woken) = FolderWatcher::start();
        folders.watch_roots(&roots).await;
        // The watcher is active, so each later change is found by this scan or causes an event.
        scan_external_edits(&self.store, &roots, Freshness::Observed).await?;
        let watching = watch_folders(Arc::clone(&self.store), roots, folders, woken);
        tasks.push(AbortOnDropHandle::new(tokio::spawn(watching.boxed())));
        drop(begun);
        // The first scan tells old changes from new ones: without it, a change that follows at once would not be
        // published. The channel closes when all of them have ended.
        drop(tokio::time::timeout(FIRST_SCAN_WAIT, first_scans.recv()).await);
        Ok(Watch { _tasks: tasks })
    }
}

/// Watches folders of this machine, and wakes a task after changes in them.
#[derive(Debug)]
pub(crate) struct FolderWatcher {
    /// None if the system supports none.
    watcher: Option<RecommendedWatcher>,
    watched: HashSet<PathBuf>,
    /// Keeps the channel open without a watcher, too.
    _wake: mpsc::Sender<()>,
}

impl FolderWatcher {
    /// Returns a watcher of no folder yet, and the channel that it wakes.
    pub(crate) fn start() -> (Self, mpsc::Receiver<()>) {
        let (wake, woken) = mpsc::channel(1);
        let on_event = {
            let wake = wake.clone();
            move |event: notify::Result<notify::Event>| {
                if event.is_ok_and(|event| !event.kind.is_access()) {
                    // If the channel is full, the task is to wake already.
                    wake.try_send(()).unwrap_or_default();
                }
            }
        };
        // Links are never followed, since in a checkout they may lead anywhere.
        let config = notify::Config::default().with_follow_symlinks(false);
        let watcher = RecommendedWatcher::new(on_event, config)
            .inspect_err(|error| {
                tracing::warn!(%error, "file watch failed; memories are scanned periodically");
            })
            .ok();
        (Self { watcher, watched: HashSet::new(), _wake: wake }, woken)
    }

    /// Watches a folder, unless it is watched already.
    pub(crate) fn watch(&mut self, folder: &Path, mode: RecursiveMode) {
        let Some(watcher) = &mut self.watcher else { return };
        if self.watched.contains(folder) {
            return;
        }
        match watcher.watch(folder, mode) {
            Err(error) if matches!(error.kind, notify::ErrorKind::PathNotFound) => return,
            Err(error) => {
                tracing::warn!(%error, "watch of a folder failed; it is scanned periodically");
            }
            Ok(()) => {}
        }
        self.watched.insert(folder.to_owned());
    }

    /// Watches the folder of a root if it exists. One that is created later is to be watched then.
    pub(crate) async fn watch_root(&mut self, backend: &dyn Backend) {
        let Some(folder) = backend.folder() else { return };
        if matches!(backend.exists().await, Ok(true)) {
            self.watch(&folder, RecursiveMode::Recursive);
        } else {
            self.watched.remove(&folder);
        }
    }

    /// Watches the roots that exist and can be used. A root that is created later is found by a periodic scan and
    /// watched from then on.
    async fn watch_roots(&mut self, roots: &[Arc<Root>]) {
        for root in roots {
            self.watch_root(&*root.backend).await;
        }
    }
}

/// The longest wait for the first scan of a root on another machine, which may not answer.
const FIRST_SCAN_WAIT: Duration = Duration::from_secs(1);

async fn watch_folders(
    store: Arc<Store>,
    roots: Vec<Arc<Root>>,
    mut folders: FolderWatcher,
    mut woken: mpsc::Receiver<()>,
) {
    loop {
        // The timeout finds new roots and lost events.
        let is_event = tokio::time::timeout(WATCH_RESCAN, woken.recv()).await.is_ok();
        let freshness = if is_event { Freshness::Observed } else { Freshness::Walked };
        // One scan for each burst of events, after its end; a burst that does not end is scanned in between.
        for _ in 0..BURST_WAITS_MAX {
            if !matches!(tokio::time::timeout(WATCH_SETTLE, woken.recv()).await, Ok(Some(()))) {
                break;
            }
        }
        folders.watch_roots(&roots).await;
        scan_or_warn(&store, &roots, freshness).await;
    }
}

/// Watches a root whose machine sends notices. The far side waits for the end of a burst. Drops `begun` after the first scan.
async fn watch_notices(
    store: Arc<Store>,
    root: Arc<Root>,
    mut changes: watch::Receiver<u64>,
    begun: mpsc::Sender<()>,
) {
    let mut begun = Some(begun);
    loop {
        // A machine that sends notices walks its folders from time to time by itself.
        scan_or_warn(&store, std::slice::from_ref(&root), Freshness::Observed).await;
        begun.take();
        // The timeout finds a machine that is back.
        let noticed = tokio::time::timeout(WATCH_RESCAN, changes.changed()).await;
        if noticed.is_ok_and(|noticed| noticed.is_err()) {
            return;
        }
    }
}

async fn scan_or_warn(store: &Store, roots: &[Arc<Root>], freshness: Freshness) {
    if let Err(error) = scan_external_edits(store, roots, freshness).await {
        tracing::warn!(%error, "scan for external edits failed; retry at the next event");
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::task::Poll;

    use memory::screen::Screen;
    use state::SqliteState;

    use crate::backend::Freshness;
    use crate::binding::{BaseFolders, Binding, BindingRequest};
    use crate::caller::Caller;
    use crate::clock::SystemClock;
    use crate::external_edits::scan_external_edits;
    use crate::store::{Store, StoreSettings};

    #[tokio::test]
    async fn concurrent_watchers_share_one_scan() {
        let home = tempfile::tempdir().unwrap();
        let folders =
            BaseFolders { data: home.path().to_owned(), state: home.path().join("state") };
        let state = Arc::new(SqliteState::new(home.path().join("lukasa.db")));
        let clock = Arc::new(SystemClock);
        let store =
            Store::new(state, folders.clone(), Screen::default(), clock, StoreSettings::default());
        let binding = Binding::resolve(&BindingRequest::default(), &folders);
        let memories = store.memories(binding, Caller::person("test"));
        let roots: Vec<_> = memories.open_roots().cloned().collect();
        let root = &roots[0];
        let guard = root.scan_lock.lock().await;
        let mut watchers: Vec<_> = (0..50)
            .map(|_| Box::pin(scan_external_edits(&store, &roots, Freshness::Observed)))
            .collect();
        poll_fn(|context| {
            let waiting = watchers.iter_mut().all(|it| it.as_mut().poll(context).is_pending());
            assert!(waiting, "another scan holds the lock");
            Poll::Ready(())
        })
        .await;
        drop(guard);
        for watcher in watchers {
            watcher.await.unwrap();
        }
        assert_eq!(root.scan_count(), 1, "all of them had begun before the first scan");
        let before = root.scan_count();
        scan_external_edits(&store, &roots, Freshness::Observed).await.unwrap();
        assert_eq!(root.scan_count(), before + 1, "no other scan did it");
    }
}
