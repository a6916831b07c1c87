//! Watches for external edits.
//!
//! File events are only a hint that starts a scan. The scan compares the files with the records, so
//! a lost event delays the detection of an edit and loses nothing. Periodic scans replace events on
//! a system without them.

use std::collections::HashSet;
use std::path::PathBuf;

use futures_util::FutureExt as _;
use memory::limits::{WATCH_RESCAN, WATCH_SETTLE};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::backend::Freshness;
use crate::error::StoreError;
use crate::memories::Memories;

/// Maximum number of waits for the end of a burst of events. After that a scan starts even if the burst goes on.
const BURST_WAITS_MAX: usize = 20;

/// A watch on the roots of a binding. Dropping it ends the watch.
#[derive(Debug)]
pub struct Watch {
    task: JoinHandle<()>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Memories {
    /// Watches the roots for changes from outside of this process, also those by other Lukasa processes, and
    /// publishes them to subscribers. Existing differences are recorded first.
    pub async fn watch(&self) -> Result<Watch, StoreError> {
        let (wake, wake_receiver) = mpsc::channel(1);
        let mut watcher =
            RootWatcher { watcher: start_watcher(wake.clone()), watched: HashSet::new() };
        watcher.watch_roots(self).await;
        // The watcher is active, so each later change is found by this scan or causes an event.
        self.record_external_edits().await?;
        let task = tokio::spawn(run(self.clone(), watcher, wake, wake_receiver).boxed());
        Ok(Watch { task })
    }
}

/// Starts a watcher; `None` if the system supports none.
fn start_watcher(wake: mpsc::Sender<()>) -> Option<RecommendedWatcher> {
    let on_event = move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| !event.kind.is_access()) {
            // If the channel is full, a scan is already due.
            wake.try_send(()).unwrap_or_default();
        }
    };
    // Links are never followed, since in a checkout they may lead anywhere.
    let config = notify::Config::default().with_follow_symlinks(false);
    match RecommendedWatcher::new(on_event, config) {
        Ok(watcher) => Some(watcher),
        Err(error) => {
            tracing::warn!(%error, "file watch failed; memories are scanned periodically");
            None
        }
    }
}

/// The watcher, with the folders that it watches.
#[derive(Debug)]
struct RootWatcher {
    watcher: Option<RecommendedWatcher>,
    watched: HashSet<PathBuf>,
}

impl RootWatcher {
    /// Watches the roots that exist and can be used. A root that is created later is found by a periodic scan and
    /// watched from then on.
    async fn watch_roots(&mut self, memories: &Memories) {
        for root in memories.open_roots() {
            let (Some(watcher), Some(folder)) = (&mut self.watcher, root.backend.folder()) else {
                continue;
            };
            if !matches!(root.backend.exists().await, Ok(true)) {
                self.watched.remove(&folder);
            } else if self.watched.insert(folder.clone())
                && let Err(error) = watcher.watch(&folder, RecursiveMode::Recursive)
            {
                tracing::warn!(%error, "watch of a root failed; it is scanned periodically");
            }
        }
    }
}

async fn run(
    memories: Memories,
    mut watcher: RootWatcher,
    // Keeps the channel open: without a watcher, `recv` has to wait and not to return `None`.
    _wake: mpsc::Sender<()>,
    mut wake_receiver: mpsc::Receiver<()>,
) {
    loop {
        // The timeout finds new roots and lost events.
        let woken = tokio::time::timeout(WATCH_RESCAN, wake_receiver.recv()).await;
        let freshness = if woken.is_ok() { Freshness::Observed } else { Freshness::Walked };
        // One scan for each burst of events, after its end; a burst that does not end is scanned in between.
        for _ in 0..BURST_WAITS_MAX {
            if !matches!(
                tokio::time::timeout(WATCH_SETTLE, wake_receiver.recv()).await,
                Ok(Some(()))
            ) {
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
