//! Hearing of outside edits soon after they happen.
//!
//! A hint and nothing more: what happened is found out by looking, so an event that is lost costs
//! time and never truth. Where the system has no events, looking now and then stands in for them.

use std::collections::HashSet;
use std::path::PathBuf;

use futures_util::FutureExt as _;
use memory::limits::{WATCH_RESCAN, WATCH_SETTLE};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::error::StoreError;
use crate::memories::Memories;

/// How often the end of a burst of events is waited for before it is looked at all the same.
const BURST_WAITS_MAX: usize = 20;

/// A watch over the roots of a binding. Dropping it ends it.
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
    /// Watches the roots for changes made outside of this process, by other processes of Lukasa
    /// too; subscribers of the store hear of each. What is there already is taken as known.
    pub async fn watch(&self) -> Result<Watch, StoreError> {
        let (wake, woken) = mpsc::channel(1);
        let mut watching =
            RootWatcher { watcher: start_watcher(wake.clone()), watched: HashSet::new() };
        watching.watch_roots(self).await;
        // From here on every change is either seen by this look or announced by an event.
        self.record_external_edits().await?;
        let task = tokio::spawn(run(self.clone(), watching, wake, woken).boxed());
        Ok(Watch { task })
    }
}

/// Starts a watcher; `None` where the system cannot.
fn start_watcher(wake: mpsc::Sender<()>) -> Option<RecommendedWatcher> {
    let woken = move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| !event.kind.is_access()) {
            // A full channel means that somebody will look anyway.
            wake.try_send(()).unwrap_or_default();
        }
    };
    // Links in a checkout may lead anywhere, so they are not followed here either.
    let config = notify::Config::default().with_follow_symlinks(false);
    match RecommendedWatcher::new(woken, config) {
        Ok(watcher) => Some(watcher),
        Err(error) => {
            tracing::warn!(%error, "no file events on this system; memories are looked at now and then");
            None
        }
    }
}

/// The watcher and what it watches.
#[derive(Debug)]
struct RootWatcher {
    watcher: Option<RecommendedWatcher>,
    watched: HashSet<PathBuf>,
}

impl RootWatcher {
    /// Watches those roots that exist and can be used. One that comes into being is found by
    /// looking, and watched from then on.
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
                tracing::warn!(%error, "a root cannot be watched; it is looked at now and then");
            }
        }
    }
}

async fn run(
    memories: Memories,
    mut watching: RootWatcher,
    // The sender is kept so that waiting without a watcher is waiting.
    _wake: mpsc::Sender<()>,
    mut woken: mpsc::Receiver<()>,
) {
    loop {
        // Waking now and then finds roots that came into being and events that were lost.
        let _timeout = tokio::time::timeout(WATCH_RESCAN, woken.recv()).await;
        // A burst is looked at once, when it is over; one that does not end is looked at in between.
        for _ in 0..BURST_WAITS_MAX {
            if !matches!(tokio::time::timeout(WATCH_SETTLE, woken.recv()).await, Ok(Some(()))) {
                break;
            }
        }
        watching.watch_roots(&memories).await;
        if let Err(error) = memories.scan_external_edits().await {
            tracing::warn!(%error, "memories could not be looked at after an outside edit");
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

    use crate::binding::{BaseFolders, Binding, BindingRequest};
    use crate::caller::Caller;
    use crate::clock::SystemClock;
    use crate::store::{Store, StoreSettings};

    #[tokio::test]
    async fn many_who_watch_a_root_look_at_it_together() {
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
        let turn = root.scan_lock.lock().await;
        let mut watchers: Vec<_> =
            (0..50).map(|_| Box::pin(memories.scan_external_edits())).collect();
        poll_fn(|context| {
            let waiting = watchers.iter_mut().all(|it| it.as_mut().poll(context).is_pending());
            assert!(waiting, "somebody else has the turn");
            Poll::Ready(())
        })
        .await;
        drop(turn);
        for watcher in watchers {
            watcher.await.unwrap();
        }
        assert_eq!(root.scan_count(), 1, "all of them had heard before the first looked");
        let before = root.scan_count();
        memories.scan_external_edits().await.unwrap();
        assert_eq!(root.scan_count(), before + 1, "nobody else did");
    }
}
