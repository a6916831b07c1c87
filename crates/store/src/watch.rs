//! Hearing of outside edits soon after they happen.
//!
//! A hint and nothing more: what happened is found out by looking, so an event that is lost costs
//! time and never truth. Where the system has no events, looking now and then stands in for them.

use std::path::PathBuf;
use std::sync::Arc;

use memory::limits::{WATCH_RESCAN, WATCH_SETTLE};
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::error::StoreError;
use crate::memories::Memories;

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
    /// Watches the roots for changes made outside of this process, by other processes of Quipu
    /// too; subscribers of the store hear of each. What is there already is taken as known.
    pub async fn watch(&self) -> Result<Watch, StoreError> {
        let (wake, woken) = mpsc::channel(1);
        let folders: Vec<PathBuf> = self
            .mounts
            .iter()
            .filter_map(|bound| bound.root.as_ref().ok())
            .filter_map(|root| root.backend.folder())
            .collect();
        let watcher = start(&folders, wake);
        // From here on every change is either seen by this look or announced by an event.
        self.notice().await?;
        let task = tokio::spawn(run(self.clone(), folders, watcher, woken));
        Ok(Watch { task })
    }
}

/// Starts to watch what exists; `None` where the system cannot.
fn start(folders: &[PathBuf], wake: mpsc::Sender<()>) -> Option<RecommendedWatcher> {
    let started = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| !event.kind.is_access()) {
            // A full channel means that somebody will look anyway.
            wake.try_send(()).unwrap_or_default();
        }
    });
    let mut watcher = match started {
        Ok(watcher) => watcher,
        Err(error) => {
            tracing::warn!(%error, "no file events on this system; memories are looked at now and then");
            return None;
        }
    };
    follow(&mut watcher, folders);
    Some(watcher)
}

/// Watches those folders that exist. One that does not is found by looking, and watched from then.
fn follow(watcher: &mut RecommendedWatcher, folders: &[PathBuf]) {
    for folder in folders {
        if crate::host::facts(folder).is_some_and(|facts| facts.is_dir())
            && let Err(error) = watcher.watch(folder, RecursiveMode::Recursive)
        {
            tracing::warn!(%error, "a root cannot be watched; it is looked at now and then");
        }
    }
}

async fn run(
    memories: Memories,
    folders: Vec<PathBuf>,
    mut watcher: Option<RecommendedWatcher>,
    mut woken: mpsc::Receiver<()>,
) {
    let folders = Arc::new(folders);
    let mut missing = folders.iter().filter(|folder| crate::host::facts(folder).is_none()).count();
    loop {
        // Waking now and then finds roots that came into being and events that were lost.
        let _timeout = tokio::time::timeout(WATCH_RESCAN, woken.recv()).await;
        // A burst is looked at once, when it is over.
        while let Ok(Some(())) = tokio::time::timeout(WATCH_SETTLE, woken.recv()).await {}
        let missing_now =
            folders.iter().filter(|folder| crate::host::facts(folder).is_none()).count();
        if missing_now != missing {
            missing = missing_now;
            if let Some(watcher) = &mut watcher {
                follow(watcher, &folders);
            }
        }
        if let Err(error) = memories.notice().await {
            tracing::warn!(%error, "memories could not be looked at after an outside edit");
        }
    }
}
