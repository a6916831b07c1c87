//! What happens a little after a write: files are synchronized and redo records closed, uses are stored, old
//! history is dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use memory::change::ChangeId;
use memory::limits::{
    OPEN_CHANGES_MAX, OPEN_CHANGES_SETTLE, PRUNE_INTERVAL, SETTLE_DELAY, USAGE_FLUSH_DELAY,
    USAGE_PENDING_MAX,
};
use state::{OpenChange, PruneReport, StateError, UseEvent};
use tokio::task::JoinHandle;

use crate::backend::BackendError;
use crate::error::StoreError;
use crate::memory_list;
use crate::root::Root;
use crate::store::Store;

impl Store {
    /// Counts a use, soon: a view must not wait for a database.
    pub(crate) async fn record_use(self: &Arc<Self>, used: UseEvent) {
        let full = {
            let mut waiting = self.uses.lock();
            waiting.push(used);
            waiting.len() >= USAGE_PENDING_MAX
        };
        if full {
            self.flush_uses().await;
        } else {
            self.spawn_background();
        }
    }

    /// Stores the uses that wait. What cannot be stored is lost, and only that.
    pub(crate) async fn flush_uses(&self) {
        let uses = std::mem::take(&mut *self.uses.lock());
        if uses.is_empty() {
            return;
        }
        // A use may be the first thing that this host keeps.
        self.folders.create_state_folder();
        match self.state.add_uses(&uses).await {
            // Reading goes on where nothing may be kept, and says nothing each time.
            Err(error @ StateError::Unavailable { .. }) => {
                tracing::debug!(%error, count = uses.len(), "uses of memories are not counted here");
            }
            Err(error) => {
                tracing::warn!(%error, count = uses.len(), "uses of memories could not be counted");
            }
            Ok(()) => {}
        }
    }

    /// Notes that a root has an open change.
    pub(crate) fn mark_dirty(&self, root: &Arc<Root>) {
        let mut unsettled = self.background.dirty.lock();
        if !unsettled.0.iter().any(|known| known.key == root.key) {
            unsettled.0.push(Arc::clone(root));
        }
        unsettled.1 += 1;
    }

    /// Sees to it that what was written is settled: soon, or before this returns when so much is
    /// open that a start after a power cut would be slow.
    pub(crate) async fn schedule_checkpoint(self: &Arc<Self>) {
        let open = self.background.dirty.lock().1;
        if open >= OPEN_CHANGES_MAX {
            self.checkpoint().await;
        } else {
            self.spawn_background();
        }
    }

    fn spawn_background(self: &Arc<Self>) {
        let mut task = self.background.task.lock();
        if task.as_ref().is_none_or(JoinHandle::is_finished) {
            *task = Some(tokio::spawn(run_background(Arc::downgrade(self))));
        }
    }

    /// Synchronizes what was written and closes its redo records; drops old history now and then.
    pub async fn checkpoint(&self) {
        let _alone = self.background.checkpoint_lock.lock().await;
        let (roots, writes) = self.background.dirty.lock().clone();
        if roots.is_empty() {
            return;
        }
        if let Err(error) = checkpoint_roots(self, &roots).await {
            tracing::warn!(%error, "memories could not be synchronized; tried again later");
            return;
        }
        {
            let mut unsettled = self.background.dirty.lock();
            unsettled.1 = unsettled.1.saturating_sub(writes);
            if unsettled.1 == 0 {
                unsettled.0.clear();
            }
        }
        self.prune_if_due().await;
    }

    async fn prune_if_due(&self) {
        let now = self.clock.now();
        {
            let mut last = self.background.pruned_at.lock();
            if last.is_some_and(|last| now.duration_since(last).unsigned_abs() < PRUNE_INTERVAL) {
                return;
            }
            *last = Some(now);
        }
        if let Err(error) = self.prune().await {
            tracing::warn!(%error, "old history could not be dropped; tried again later");
        }
    }

    /// Drops history beyond what is to be kept.
    pub async fn prune(&self) -> Result<PruneReport, StoreError> {
        Ok(self.state.prune(self.settings.retention, self.clock.now()).await?)
    }

    /// Synchronizes files, stores what waits, closes the state.
    pub async fn close(&self) {
        self.flush_uses().await;
        self.checkpoint().await;
        let task = self.background.task.lock().take();
        if let Some(task) = task {
            // It sleeps, or has just found nothing to do: there is nothing to interrupt.
            task.abort();
            drop(task.await);
        }
        self.state.close().await;
    }
}

/// Stores uses and settles writes, each a little after they came, until there is nothing to do.
async fn run_background(store: Weak<Store>) {
    loop {
        tokio::time::sleep(USAGE_FLUSH_DELAY).await;
        let Some(this) = store.upgrade() else { return };
        this.flush_uses().await;
        let open = this.background.dirty.lock().1;
        if open == 0 {
            let mut task = this.background.task.lock();
            // Decided under the same lock as starting: nobody waits for a task that is ending.
            if this.uses.lock().is_empty() && this.background.dirty.lock().1 == 0 {
                *task = None;
                return;
            }
            continue;
        }
        if open < OPEN_CHANGES_SETTLE {
            drop(this);
            tokio::time::sleep(SETTLE_DELAY.saturating_sub(USAGE_FLUSH_DELAY)).await;
            let Some(this) = store.upgrade() else { return };
            this.flush_uses().await;
            this.checkpoint().await;
        } else {
            this.checkpoint().await;
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if let Some(task) = self.background.task.lock().take() {
            task.abort();
        }
    }
}

pub(crate) async fn open_changes(
    store: &Store,
    root: &Root,
) -> Result<BTreeMap<ChangeId, OpenChange>, StoreError> {
    let open = store.state.open_changes(&root.key.place).await?;
    Ok(open.into_iter().map(|open| (open.change.id, open)).collect())
}

/// Synchronizes what open changes wrote in these roots and closes the records of those that reach
/// into no other root.
pub(crate) async fn close_changes(
    store: &Store,
    roots: &[Arc<Root>],
    open: &BTreeMap<ChangeId, OpenChange>,
) -> Result<(), StoreError> {
    for root in roots {
        sync_open_files(root, open.values())
            .await
            .map_err(StoreError::backend_error(root.mount))?;
    }
    let reached = |place: &str| roots.iter().any(|root| root.key.place == place);
    let done = |open: &&OpenChange| {
        open.change.files.iter().all(|file| reached(&file.root.place))
            && open.change.folder.iter().all(|folder| reached(&folder.root.place))
    };
    let ids: Vec<ChangeId> = open.values().filter(done).map(|open| open.change.id).collect();
    if ids.is_empty() {
        return Ok(());
    }
    Ok(store.state.mark_durable(&ids).await?)
}

async fn sync_open_files(
    root: &Root,
    open: impl Iterator<Item = &OpenChange>,
) -> Result<(), BackendError> {
    let mut paths = BTreeSet::new();
    for change in open.map(|open| &open.change) {
        for file in change.files.iter().filter(|file| file.root.place == root.key.place) {
            paths.insert(file.path.clone());
            paths.extend(file.moved_to.clone());
        }
        if let Some(folder) = &change.folder
            && folder.root.place == root.key.place
        {
            paths.insert(folder.path.clone());
            paths.extend(folder.moved_to.clone());
        }
    }
    let paths: Vec<_> = paths.into_iter().collect();
    root.backend.sync(&paths).await
}

/// Synchronizes everything that is open in these roots and closes it; renews their listings.
async fn checkpoint_roots(store: &Store, roots: &[Arc<Root>]) -> Result<(), StoreError> {
    let mut open = BTreeMap::new();
    for root in roots {
        // While the root is held no write is under way, so all that is recorded is in place.
        let _held = root.lock(store).await?;
        open.extend(open_changes(store, root).await?);
    }
    // A change over several roots is closed when all of them are synchronized.
    let others: Vec<Arc<Root>> = store
        .known_roots()
        .into_iter()
        .filter(|root| !roots.iter().any(|own| own.key.place == root.key.place))
        .filter(|root| open.values().any(|open| touches(open, root)))
        .collect();
    for root in &others {
        let _held = root.lock(store).await?;
    }
    let all: Vec<_> = roots.iter().cloned().chain(others).collect();
    close_changes(store, &all, &open).await?;
    for root in roots.iter().filter(|root| root.generates_list) {
        if let Err(error) = memory_list::refresh_list(store, root).await {
            tracing::warn!(%error, "a generated listing could not be renewed");
        }
    }
    Ok(())
}

fn touches(open: &OpenChange, root: &Root) -> bool {
    open.change.files.iter().any(|file| file.root.place == root.key.place)
}
