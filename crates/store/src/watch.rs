//! Watches for external edits.
//!
//! File events are only a hint that starts a scan. The scan compares the files with the records, so
//! a lost event delays the detection of an edit and loses nothing. Periodic scans replace events on
//! a system without them.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use futures_util::FutureExt as _;
use memory::limits::{WATCH_RESCAN, WATCH_SETTLE};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::backend::{Backend, Freshness};
use crate::error::StoreError;
use crate::memories::Memories;

/// Maximum number of waits for the end of a burst of events. After that a scan starts even if the burst goes on.
const BURST_WAITS_MAX: usize = 20;

/// A watch on the roots of a binding. Dropping it ends the watch.
#[derive(Debug)]
pub struct Watch {
    _task: AbortOnDropHandle<()>,
}

impl Memories {
    /// Watches the roots for changes from outside of this process, also those by other Lukasa processes, and
    /// publishes them to subscribers. Existing differences are recorded first.
    pub async fn watch(&self) -> Result<Watch, StoreError> {
        let (folders, woken) = FolderWatcher::start();
        let mut watcher = RootWatcher { folders, notified: HashMap::new() };
        watcher.watch_roots(self).await;
        // The watcher is active, so each later change is found by this scan or causes an event.
        self.record_external_edits().await?;
        let task = tokio::spawn(run(self.clone(), watcher, woken).boxed());
        Ok(Watch { _task: AbortOnDropHandle::new(task) })
    }
}

/// Watches folders of this machine, and wakes a task after changes in them.
#[derive(Debug)]
pub(crate) struct FolderWatcher {
    /// None if the system supports none.
    watcher: Option<RecommendedWatcher>,
    watched: HashSet<PathBuf>,
    /// Keeps the channel open without a watcher, too.
    wake: mpsc::Sender<()>,
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
        (Self { watcher, watched: HashSet::new(), wake }, woken)
    }

    /// Watches a folder, unless it is watched already.
    pub(crate) fn watch(&mut self, folder: &Path, mode: RecursiveMode) {
        let Some(watcher) = &mut self.watcher else { return };
        if self.watched.insert(folder.to_owned())
            && let Err(error) = watcher.watch(folder, mode)
        {
            tracing::warn!(%error, "watch of a folder failed; it is scanned periodically");
        }
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
}

/// The watcher of the roots of a binding.
#[derive(Debug)]
struct RootWatcher {
    folders: FolderWatcher,
    /// The tasks that wait for notices of backends, by the place of the root.
    notified: HashMap<String, AbortOnDropHandle<()>>,
}

impl RootWatcher {
    /// Watches the roots that exist and can be used. A root that is created later is found by a periodic scan and
    /// watched from then on.
    async fn watch_roots(&mut self, memories: &Memories) {
        for root in memories.open_roots() {
            self.folders.watch_root(&*root.backend).await;
            if let Entry::Vacant(entry) = self.notified.entry(root.key.place.clone())
                && let Some(mut changes) = root.backend.changes()
            {
                let wake = self.folders.wake.clone();
                entry.insert(AbortOnDropHandle::new(tokio::spawn(async move {
                    while changes.changed().await.is_ok() {
                        wake.try_send(()).unwrap_or_default();
                    }
                })));
            }
        }
    }
}

async fn run(memories: Memories, mut watcher: RootWatcher, mut woken: mpsc::Receiver<()>) {
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
        watcher.watch_roots(&memories).await;
        if let Err(error) = memories.scan_external_edits(freshness).await {
            tracing::warn!(%error, "scan for external edits failed; retry at the next event");
        }
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
        let root = memories.open_roots().next().unwrap();
        let guard = root.scan_lock.lock().await;
        let mut watchers: Vec<_> =
            (0..50).map(|_| Box::pin(memories.scan_external_edits(Freshness::Observed))).collect();
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
        memories.scan_external_edits(Freshness::Observed).await.unwrap();
        assert_eq!(root.scan_count(), before + 1, "no other scan did it");
    }
}
