//! A root in memory, for tests without a disk or with simulated external edits.
//!
//! Clones act as other processes on the same root: they share files, lock and generation. External edits by an editor,
//! git or a hostile checkout go through the `outside_*` functions, which take no lock.

mod tree;

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory::change::{ChangeId, DatabaseId};
use memory::path::RelativePath;
use store::backend::{
    Backend, BackendError, Expect, Extent, FileKind, FileRead, IsReferenced, LastWrite, RootLock,
    Staged, Stamp, SweepReport, Walk,
};
use tokio::sync::OwnedMutexGuard;

use self::tree::FileTree;

/// A backend that keeps the files of one root in memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryBackend {
    disk: Arc<Disk>,
}

#[derive(Debug, Default)]
struct Disk {
    tree: Mutex<FileTree>,
    lock: Arc<tokio::sync::Mutex<()>>,
    record: Mutex<MemoryLockRecord>,
}

/// The content of a real root's lock file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct MemoryLockRecord {
    generation: u64,
    writing: bool,
    restarted: bool,
    /// The database of the last write.
    database: DatabaseId,
    /// The last completed change of each database.
    completed: BTreeMap<DatabaseId, ChangeId>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl MemoryBackend {
    /// Returns an empty root that does not exist yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn tree(&self) -> MutexGuard<'_, FileTree> {
        lock(&self.disk.tree)
    }

    /// Returns every memory with its bytes.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        self.tree().files()
    }

    /// Returns every folder, empty ones included.
    pub fn folders(&self) -> Vec<String> {
        self.tree().folders()
    }

    /// Returns the number of temporary files.
    pub fn temporaries(&self) -> usize {
        self.tree().temporaries()
    }

    /// Overwrites or creates a file, as an editor does.
    pub fn outside_write(&self, path: &RelativePath, bytes: &[u8]) {
        self.tree().outside_write(path, bytes);
    }

    /// Removes a file or folder as an editor does.
    pub fn outside_remove(&self, path: &RelativePath) {
        self.tree().outside_remove(path);
    }

    /// Creates a link at a path.
    pub fn outside_link(&self, path: &RelativePath) {
        self.tree().outside_link(path);
    }

    /// Creates a pipe at a path.
    pub fn outside_pipe(&self, path: &RelativePath) {
        self.tree().outside_pipe(path);
    }

    /// Leaves a temporary file in the folder of a path, as a process that died does.
    pub fn outside_temporary(&self, path: &RelativePath) {
        self.tree().outside_temporary(path);
    }

    /// Makes the root look as if the machine had restarted since the last write.
    pub fn restart_machine(&self) {
        lock(&self.disk.record).restarted = true;
    }
}

#[derive(Debug)]
struct StagedMemory {
    disk: Arc<Disk>,
    path: RelativePath,
    bytes: Arc<[u8]>,
    number: u64,
    created: Vec<RelativePath>,
}

#[async_trait]
impl Staged for StagedMemory {
    async fn publish(mut self: Box<Self>, expect: Expect) -> Result<(), BackendError> {
        lock(&self.disk.tree).publish(&self.path, &self.bytes, expect)?;
        self.created.clear();
        Ok(())
    }
}

impl Drop for StagedMemory {
    fn drop(&mut self) {
        let mut tree = lock(&self.disk.tree);
        tree.discard(self.number);
        tree.remove_created(&self.created);
    }
}

#[derive(Debug)]
struct MemoryRootLock {
    disk: Arc<Disk>,
    database: DatabaseId,
    record: MemoryLockRecord,
    interrupted: bool,
    restarted: bool,
    is_uncertain: bool,
    _guard: OwnedMutexGuard<()>,
}

impl MemoryRootLock {
    fn store(&mut self, writing: bool) {
        self.record = MemoryLockRecord {
            writing,
            restarted: false,
            database: self.database,
            ..self.record.clone()
        };
        *lock(&self.disk.record) = self.record.clone();
    }
}

#[async_trait]
impl RootLock for MemoryRootLock {
    fn generation(&self) -> u64 {
        self.record.generation
    }

    fn was_interrupted(&self) -> bool {
        self.interrupted
    }

    fn machine_restarted(&self) -> bool {
        self.restarted
    }

    fn completed(&self) -> Option<ChangeId> {
        self.record.completed.get(&self.database).copied()
    }

    fn is_uncertain(&self) -> bool {
        self.is_uncertain
    }

    async fn begin(&mut self) -> Result<(), BackendError> {
        self.record.generation += 1;
        self.store(true);
        Ok(())
    }

    async fn end(&mut self, completed: Option<ChangeId>) -> Result<(), BackendError> {
        self.interrupted = false;
        self.is_uncertain = false;
        if let Some(completed) = completed {
            self.record.completed.insert(self.database, completed);
        }
        self.store(false);
        Ok(())
    }
}

#[async_trait]
impl Backend for MemoryBackend {
    async fn walk(
        &self,
        from: Option<&RelativePath>,
        extent: Extent,
    ) -> Result<Walk, BackendError> {
        self.tree().walk(from, extent)
    }

    async fn kind(&self, path: &RelativePath) -> Result<Option<FileKind>, BackendError> {
        self.tree().kind(path)
    }

    async fn read(&self, path: &RelativePath, max: usize) -> Result<FileRead, BackendError> {
        self.tree().read(path, max)
    }

    async fn stage(
        &self,
        path: &RelativePath,
        bytes: Arc<[u8]>,
    ) -> Result<Box<dyn Staged>, BackendError> {
        let (number, created) = self.tree().stage(path)?;
        let (disk, path) = (Arc::clone(&self.disk), path.clone());
        Ok(Box::new(StagedMemory { disk, path, bytes, number, created }))
    }

    async fn remove_file(&self, path: &RelativePath, expect: Stamp) -> Result<(), BackendError> {
        self.tree().remove_file(path, expect)
    }

    async fn remove_folder(
        &self,
        path: &RelativePath,
        expect: &[(RelativePath, Stamp)],
    ) -> Result<(), BackendError> {
        self.tree().remove_folder(path, expect)
    }

    async fn remove_empty(&self, path: &RelativePath) -> Result<(), BackendError> {
        self.tree().remove_empty(path);
        Ok(())
    }

    async fn rename(&self, from: &RelativePath, to: &RelativePath) -> Result<(), BackendError> {
        self.tree().rename(from, to)
    }

    async fn lock(
        &self,
        database: DatabaseId,
        wait: Duration,
    ) -> Result<Box<dyn RootLock>, BackendError> {
        let guard = Arc::clone(&self.disk.lock).lock_owned();
        let Ok(guard) = tokio::time::timeout(wait, guard).await else {
            return Err(BackendError::Locked(wait));
        };
        let record = lock(&self.disk.record).clone();
        Ok(Box::new(MemoryRootLock {
            disk: Arc::clone(&self.disk),
            database,
            interrupted: record.writing || record.restarted,
            restarted: record.restarted,
            is_uncertain: record.database != database,
            record,
            _guard: guard,
        }))
    }

    async fn last_write(&self) -> LastWrite {
        let record = lock(&self.disk.record).clone();
        if record.writing || record.restarted { LastWrite::Interrupted } else { LastWrite::Ended }
    }

    async fn sync(&self, _paths: &[RelativePath]) -> Result<(), BackendError> {
        Ok(())
    }

    async fn sweep(&self, _in_history: Arc<IsReferenced>) -> Result<SweepReport, BackendError> {
        // Comparing and replacing are one step here, so no external edit can be displaced.
        Ok(SweepReport { removed: self.tree().sweep(), ..SweepReport::default() })
    }

    async fn exists(&self) -> Result<bool, BackendError> {
        Ok(self.tree().exists())
    }

    async fn holder(&self) -> Option<String> {
        self.disk.lock.try_lock().is_err().then(|| "this process".to_owned())
    }

    fn folder(&self) -> Option<PathBuf> {
        None
    }
}
