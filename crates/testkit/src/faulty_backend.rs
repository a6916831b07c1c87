//! A backend that fails as a test specifies.

use parking_lot::{Mutex, MutexGuard};
use std::fmt::{self, Debug};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use memory::change::{ChangeId, DatabaseId};
use memory::path::RelativePath;
use store::backend::{
    Backend, BackendError, Expect, Extent, FileKind, FileRead, IsReferenced, LastWrite, RootLock,
    Staged, Stamp, SweepReport, Walk,
};
use tokio::task::{Id, try_id};

/// The kind of failure of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Failure {
    /// Only this step fails, without any effect.
    #[default]
    Once,
    /// This step and all later ones fail, as if the process had died. Staged files stay where they are, and a root that
    /// is being written stays marked so.
    Crash,
    /// The disk is full: new bytes are truncated. Only staging bytes counts as a step.
    Short,
    /// This step has its effect, but fails for the caller.
    Unanswered,
}

/// A counter of steps that all wrappers of a test share; decides which step fails.
///
/// Only steps of the task that set the plan are counted. Background work, such as a delayed checkpoint, is not counted,
/// so that the same plan always fails the same step.
#[derive(Debug, Default)]
pub struct FaultPlan {
    steps: AtomicU64,
    /// The task that set the plan.
    task: Mutex<Option<Id>>,
    /// Number of the failing step; 0 means none.
    fails_at: AtomicU64,
    failure: Mutex<Failure>,
    hook: Mutex<Option<StepHook>>,
    /// Number of walks of a whole root.
    walks: AtomicU64,
}

/// A callback that runs right before one step.
struct StepHook {
    step: u64,
    act: Box<dyn FnOnce() + Send>,
}

impl Debug for StepHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepHook").field("step", &self.step).finish_non_exhaustive()
    }
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepOutcome {
    /// The step succeeds.
    Done,
    /// The step fails without any effect.
    Refused,
    /// The step fails after it wrote a part of the bytes.
    Short,
    /// The step has its effect and fails.
    Unanswered,
}

impl FaultPlan {
    /// Makes the step with this number fail, counted from now; 0 means none.
    pub fn set(&self, fails_at: u64, failure: Failure) {
        *self.failure() = failure;
        *self.task.lock() = try_id();
        self.fails_at.store(fails_at, Ordering::SeqCst);
        self.steps.store(0, Ordering::SeqCst);
    }

    /// Runs `act` right before the step with this number, counted from now. No step fails.
    pub fn run_before(&self, step: u64, act: impl FnOnce() + Send + 'static) {
        self.set(0, Failure::Once);
        let hook = StepHook { step, act: Box::new(act) };
        *self.hook.lock() = Some(hook);
    }

    /// Returns the number of steps since the plan was set.
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::SeqCst)
    }

    /// Returns the number of walks of a whole root since the last call, by any task.
    pub fn take_walks(&self) -> u64 {
        self.walks.swap(0, Ordering::SeqCst)
    }

    fn failure(&self) -> MutexGuard<'_, Failure> {
        self.failure.lock()
    }

    /// Returns whether the simulated process is dead, so that it no longer cleans up.
    fn is_dead(&self) -> bool {
        let fails_at = self.fails_at.load(Ordering::SeqCst);
        *self.failure() == Failure::Crash && fails_at != 0 && self.steps() >= fails_at
    }

    /// Counts a step and returns its outcome.
    pub(crate) fn next_outcome(&self) -> StepOutcome {
        if *self.failure() == Failure::Short {
            StepOutcome::Done
        } else {
            self.next_write_outcome()
        }
    }

    /// Counts a step that writes bytes and returns its outcome.
    fn next_write_outcome(&self) -> StepOutcome {
        if *self.task.lock() != try_id() {
            return if self.is_dead() { StepOutcome::Refused } else { StepOutcome::Done };
        }
        let step = self.steps.fetch_add(1, Ordering::SeqCst) + 1;
        let hook = {
            let mut slot = self.hook.lock();
            slot.take_if(|hook| hook.step == step)
        };
        if let Some(hook) = hook {
            (hook.act)();
        }
        let fails_at = self.fails_at.load(Ordering::SeqCst);
        match *self.failure() {
            Failure::Crash if fails_at != 0 && step >= fails_at => StepOutcome::Refused,
            Failure::Once if step == fails_at => StepOutcome::Refused,
            Failure::Short if step == fails_at => StepOutcome::Short,
            Failure::Unanswered if step == fails_at => StepOutcome::Unanswered,
            Failure::Crash | Failure::Once | Failure::Short | Failure::Unanswered => {
                StepOutcome::Done
            }
        }
    }

    /// Runs an asynchronous step that writes no bytes.
    async fn run<T>(
        &self,
        step: impl Future<Output = Result<T, BackendError>> + Send,
    ) -> Result<T, BackendError> {
        match self.next_outcome() {
            StepOutcome::Done => step.await,
            StepOutcome::Refused | StepOutcome::Short => Err(fault()),
            StepOutcome::Unanswered => {
                drop(step.await?);
                Err(fault())
            }
        }
    }
}

fn fault() -> BackendError {
    let source = std::io::Error::other("injected by the test");
    BackendError::Io { doing: "run a failing step", source }
}

/// A backend around another that fails according to a [`FaultPlan`].
#[derive(Clone, Debug)]
pub struct FaultyBackend {
    inner: Arc<dyn Backend>,
    plan: Arc<FaultPlan>,
}

impl FaultyBackend {
    /// Wraps a backend.
    pub fn new(inner: Arc<dyn Backend>, plan: Arc<FaultPlan>) -> Self {
        Self { inner, plan }
    }
}

#[derive(Debug)]
struct FaultyStaged {
    inner: Option<Box<dyn Staged>>,
    plan: Arc<FaultPlan>,
}

#[async_trait]
impl Staged for FaultyStaged {
    async fn publish(mut self: Box<Self>, expect: Expect) -> Result<(), BackendError> {
        let inner = self.inner.take();
        let publish = |inner: Option<Box<dyn Staged>>| async {
            match inner {
                Some(inner) => inner.publish(expect).await,
                None => Err(BackendError::NotFound),
            }
        };
        match self.plan.next_outcome() {
            StepOutcome::Done => publish(inner).await,
            StepOutcome::Refused | StepOutcome::Short => {
                // Our own drop discards it, or leaks it after a crash.
                self.inner = inner;
                Err(fault())
            }
            StepOutcome::Unanswered => {
                publish(inner).await?;
                Err(fault())
            }
        }
    }
}

impl Drop for FaultyStaged {
    fn drop(&mut self) {
        if self.plan.is_dead() {
            // A dead process cleans nothing up.
            std::mem::forget(self.inner.take());
        }
    }
}

#[derive(Debug)]
struct FaultyRootLock {
    inner: Box<dyn RootLock>,
    plan: Arc<FaultPlan>,
}

#[async_trait]
impl RootLock for FaultyRootLock {
    fn generation(&self) -> u64 {
        self.inner.generation()
    }

    fn was_interrupted(&self) -> bool {
        self.inner.was_interrupted()
    }

    fn machine_restarted(&self) -> bool {
        self.inner.machine_restarted()
    }

    fn completed(&self) -> Option<ChangeId> {
        self.inner.completed()
    }

    fn is_uncertain(&self) -> bool {
        self.inner.is_uncertain()
    }

    fn fence(&self) -> Option<i64> {
        self.inner.fence()
    }

    async fn begin(&mut self) -> Result<(), BackendError> {
        self.plan.run(self.inner.begin()).await
    }

    async fn end(&mut self, completed: Option<ChangeId>) -> Result<(), BackendError> {
        self.plan.run(self.inner.end(completed)).await
    }
}

#[async_trait]
impl Backend for FaultyBackend {
    async fn walk(
        &self,
        from: Option<&RelativePath>,
        extent: Extent,
    ) -> Result<Walk, BackendError> {
        if from.is_none() {
            self.plan.walks.fetch_add(1, Ordering::SeqCst);
        }
        self.plan.run(self.inner.walk(from, extent)).await
    }

    async fn kind(&self, path: &RelativePath) -> Result<Option<FileKind>, BackendError> {
        self.plan.run(self.inner.kind(path)).await
    }

    async fn read(&self, path: &RelativePath, max: usize) -> Result<FileRead, BackendError> {
        self.plan.run(self.inner.read(path, max)).await
    }

    async fn stage(
        &self,
        path: &RelativePath,
        bytes: Arc<[u8]>,
    ) -> Result<Box<dyn Staged>, BackendError> {
        let outcome = self.plan.next_write_outcome();
        let bytes = match outcome {
            StepOutcome::Done | StepOutcome::Unanswered => bytes,
            StepOutcome::Short => Arc::from(&bytes[..bytes.len() / 2]),
            StepOutcome::Refused => return Err(fault()),
        };
        let inner = Some(self.inner.stage(path, bytes).await?);
        let staged = Box::new(FaultyStaged { inner, plan: Arc::clone(&self.plan) });
        match outcome {
            StepOutcome::Short => Err(BackendError::Full(std::io::ErrorKind::StorageFull.into())),
            StepOutcome::Unanswered | StepOutcome::Refused => Err(fault()),
            StepOutcome::Done => Ok(staged),
        }
    }

    async fn remove_file(&self, path: &RelativePath, expect: Stamp) -> Result<(), BackendError> {
        self.plan.run(self.inner.remove_file(path, expect)).await
    }

    async fn remove_folder(
        &self,
        path: &RelativePath,
        expect: &[(RelativePath, Stamp)],
    ) -> Result<(), BackendError> {
        self.plan.run(self.inner.remove_folder(path, expect)).await
    }

    async fn remove_empty(&self, path: &RelativePath) -> Result<(), BackendError> {
        self.plan.run(self.inner.remove_empty(path)).await
    }

    async fn rename(&self, from: &RelativePath, to: &RelativePath) -> Result<(), BackendError> {
        self.plan.run(self.inner.rename(from, to)).await
    }

    async fn lock(
        &self,
        database: DatabaseId,
        wait: Duration,
    ) -> Result<Box<dyn RootLock>, BackendError> {
        let inner = self.plan.run(self.inner.lock(database, wait)).await?;
        Ok(Box::new(FaultyRootLock { inner, plan: Arc::clone(&self.plan) }))
    }

    async fn try_lock(
        &self,
        database: DatabaseId,
    ) -> Result<Option<Box<dyn RootLock>>, BackendError> {
        let inner = self.plan.run(self.inner.try_lock(database)).await?;
        let plan = || Arc::clone(&self.plan);
        Ok(inner.map(|inner| Box::new(FaultyRootLock { inner, plan: plan() }) as Box<dyn RootLock>))
    }

    async fn last_write(&self) -> LastWrite {
        self.inner.last_write().await
    }

    async fn sync(&self, paths: &[RelativePath]) -> Result<(), BackendError> {
        self.plan.run(self.inner.sync(paths)).await
    }

    async fn sweep(&self, in_history: Arc<IsReferenced>) -> Result<SweepReport, BackendError> {
        self.plan.run(self.inner.sweep(in_history)).await
    }

    async fn exists(&self) -> Result<bool, BackendError> {
        self.plan.run(self.inner.exists()).await
    }

    async fn holder(&self) -> Option<String> {
        self.inner.holder().await
    }

    fn folder(&self) -> Option<PathBuf> {
        self.inner.folder()
    }
}
