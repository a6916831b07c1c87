//! Background work after writes: checkpoints, buffered uses, and pruning of history.
//!
//! A checkpoint makes the files of open changes durable and closes their redo records. One
//! background task does this soon after the last write, and closing the store does it too. The task
//! ends when there is nothing to do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
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
    /// Buffers a use; it is stored soon. A view must not wait for the database.
    pub(crate) async fn record_use(self: &Arc<Self>, used: UseEvent) {
        self.uses_noted.fetch_add(1, Ordering::Relaxed);
        let is_full = {
            let mut buffer = self.uses.lock();
            buffer.push(used);
            buffer.len() >= USAGE_PENDING_MAX
        };
        if is_full {
            self.flush_uses().await;
        } else {
            self.spawn_background();
        }
    }

    /// Stores the buffered uses. If that fails, only these uses are lost.
    pub(crate) async fn flush_uses(&self) {
        let uses = std::mem::take(&mut *self.uses.lock());
        if uses.is_empty() {
            return;
        }
        // A use may be the first state on this host, so the folder may be missing.
        self.folders.create_state_folder();
        match self.state.add_uses(&uses).await {
            // Reading works without a writable state, so this is not worth a warning each time.
            Err(error @ StateError::Unavailable { .. }) => {
                tracing::debug!(%error, count = uses.len(), "the state is unavailable; uses are not counted");
            }
            Err(error) => {
                tracing::warn!(%error, count = uses.len(), "storing uses of memories failed");
            }
            Ok(()) => {}
        }
    }

    /// Notes that a root has an open change.
    pub(crate) fn mark_dirty(&self, root: &Arc<Root>) {
        let mut dirty = self.background.dirty.lock();
        if !dirty.0.iter().any(|known| known.key == root.key) {
            dirty.0.push(Arc::clone(root));
        }
        dirty.1 += 1;
    }

    /// Schedules a checkpoint soon. With too many open changes recovery after a power cut would be slow: then the
    /// checkpoint runs before this returns.
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

    /// Makes written files durable and closes their redo records. Prunes history if that is due.
    pub async fn checkpoint(&self) {
        let _guard = self.background.checkpoint_lock.lock().await;
        let (roots, writes) = self.background.dirty.lock().clone();
        if roots.is_empty() {
            return;
        }
        if let Err(error) = checkpoint_roots(self, &roots).await {
            tracing::warn!(%error, "checkpoint failed; retry at the next one");
            return;
        }
        {
            let mut dirty = self.background.dirty.lock();
            dirty.1 = dirty.1.saturating_sub(writes);
            if dirty.1 == 0 {
                dirty.0.clear();
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
            tracing::warn!(%error, "pruning history failed; retry at a later checkpoint");
        }
    }

    /// Drops history beyond the configured retention.
    pub async fn prune(&self) -> Result<PruneReport, StoreError> {
        Ok(self.state.prune(self.settings.retention, self.clock.now()).await?)
    }

    /// Stores buffered uses, runs a last checkpoint and closes the state.
    pub async fn close(&self) {
        self.flush_uses().await;
        self.checkpoint().await;
        let task = self.background.task.lock().take();
        if let Some(task) = task {
            // It sleeps, or has just found nothing to do, so an abort interrupts no work.
            task.abort();
            drop(task.await);
        }
        self.state.close().await;
    }
}

/// Stores uses and runs checkpoints, each after a delay, until there is nothing to do.
async fn run_background(store: Weak<Store>) {
    loop {
        tokio::time::sleep(USAGE_FLUSH_DELAY).await;
        let Some(this) = store.upgrade() else { return };
        this.flush_uses().await;
        let open = this.background.dirty.lock().1;
        if open == 0 {
            let mut task = this.background.task.lock();
            // Decided under the lock that starting takes, so no caller relies on a task that is ending.
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

/// Makes files of open changes in these roots durable. Closes the records of the changes that touch no other root.
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
    let is_included = |place: &str| roots.iter().any(|root| root.key.place == place);
    let is_closable = |open: &&OpenChange| {
        open.change.files.iter().all(|file| is_included(&file.root.place))
            && open.change.folder.iter().all(|folder| is_included(&folder.root.place))
    };
    let ids: Vec<ChangeId> = open.values().filter(is_closable).map(|open| open.change.id).collect();
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

/// Makes open changes of these roots durable, closes them, and refreshes the generated indexes.
async fn checkpoint_roots(store: &Store, roots: &[Arc<Root>]) -> Result<(), StoreError> {
    let (local, remote): (Vec<_>, Vec<_>) =
        roots.iter().cloned().partition(|root| root.remote.is_none());
    // A machine that is out of reach must not keep the other roots from being closed.
    for root in remote {
        if let Err(error) = checkpoint_together(store, std::slice::from_ref(&root)).await {
            tracing::debug!(%error, "a checkpoint of a remote root failed; the next one tries again");
            store.mark_dirty(&root);
        }
    }
    checkpoint_together(store, &local).await
}

/// The same for roots whose changes are closed together.
async fn checkpoint_together(store: &Store, roots: &[Arc<Root>]) -> Result<(), StoreError> {
    let mut open = BTreeMap::new();
    for root in roots {
        open.extend(open_changes(store, root).await?);
    }
    // A change over several roots is closed when all of them are synchronized.
    let others = store
        .known_roots()
        .into_iter()
        .filter(|root| !roots.iter().any(|dirty_root| dirty_root.key.place == root.key.place))
        .filter(|root| open.values().any(|open| touches(open, root)));
    let all: Vec<Arc<Root>> = roots.iter().cloned().chain(others).collect();
    // A change is recorded while its roots are locked. Once each lock was acquired, all these changes are in place.
    let (local, remote): (Vec<_>, Vec<_>) = all.iter().partition(|root| root.remote.is_none());
    for root in local {
        let _lock = root.lock(store).await?;
    }
    // Held until the files are durable, because another machine may restart meanwhile.
    let mut locks = Vec::with_capacity(remote.len());
    for root in remote {
        locks.push(root.lock(store).await?);
    }
    close_changes(store, &all, &open).await?;
    drop(locks);
    for root in roots.iter().filter(|root| root.generates_list) {
        if let Err(error) = memory_list::refresh_list(store, root).await {
            tracing::warn!(%error, "refreshing a generated index failed");
        }
    }
    Ok(())
}

fn touches(open: &OpenChange, root: &Root) -> bool {
    open.change.files.iter().any(|file| file.root.place == root.key.place)
}
