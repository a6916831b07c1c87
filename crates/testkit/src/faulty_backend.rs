//! A backend that fails when a test wants it to.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use memory::path::RelativePath;
use store::backend::{
    Backend, BackendError, Expect, Extent, Held, Kind, Read, Staged, Stamp, Walk,
};

/// How a step fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// This one step, without any effect.
    Once,
    /// This step and all after it, as if the process had died.
    Crash,
}

/// Counts the steps of all that share it, and says which of them fail.
#[derive(Debug, Default)]
pub struct Plan {
    steps: AtomicU64,
    /// 0 is never.
    fails_at: AtomicU64,
    crash: std::sync::atomic::AtomicBool,
}

impl Plan {
    /// Lets the step with this number fail, counted from here; 0 lets none fail.
    pub fn set(&self, fails_at: u64, failure: Failure) {
        self.crash.store(failure == Failure::Crash, Ordering::SeqCst);
        self.fails_at.store(fails_at, Ordering::SeqCst);
        self.steps.store(0, Ordering::SeqCst);
    }

    /// Returns how many steps there were since the plan was set.
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::SeqCst)
    }

    fn step(&self) -> Result<(), BackendError> {
        let step = self.steps.fetch_add(1, Ordering::SeqCst) + 1;
        let fails_at = self.fails_at.load(Ordering::SeqCst);
        let fails = fails_at != 0
            && (step == fails_at || step > fails_at && self.crash.load(Ordering::SeqCst));
        if !fails {
            return Ok(());
        }
        let source = std::io::Error::other("the test wants it");
        Err(BackendError::Io { doing: "do what the test lets fail", source })
    }
}

/// A backend around another that fails according to a [`Plan`].
#[derive(Clone, Debug)]
pub struct FaultyBackend {
    inner: Arc<dyn Backend>,
    plan: Arc<Plan>,
}

impl FaultyBackend {
    /// Wraps a backend.
    pub fn new(inner: Arc<dyn Backend>, plan: Arc<Plan>) -> Self {
        Self { inner, plan }
    }
}

#[derive(Debug)]
struct FaultyStaged {
    inner: Box<dyn Staged>,
    plan: Arc<Plan>,
}

#[async_trait]
impl Staged for FaultyStaged {
    async fn publish(self: Box<Self>, expect: Expect) -> Result<(), BackendError> {
        self.plan.step()?;
        self.inner.publish(expect).await
    }
}

#[derive(Debug)]
struct FaultyHeld {
    inner: Box<dyn Held>,
    plan: Arc<Plan>,
}

impl Held for FaultyHeld {
    fn generation(&self) -> u64 {
        self.inner.generation()
    }

    fn was_interrupted(&self) -> bool {
        self.inner.was_interrupted()
    }

    fn machine_restarted(&self) -> bool {
        self.inner.machine_restarted()
    }

    fn begin(&mut self) -> Result<(), BackendError> {
        self.plan.step()?;
        self.inner.begin()
    }

    fn end(&mut self) -> Result<(), BackendError> {
        self.plan.step()?;
        self.inner.end()
    }
}

#[async_trait]
impl Backend for FaultyBackend {
    async fn walk(
        &self,
        from: Option<&RelativePath>,
        extent: Extent,
    ) -> Result<Walk, BackendError> {
        self.plan.step()?;
        self.inner.walk(from, extent).await
    }

    async fn kind(&self, path: &RelativePath) -> Result<Option<Kind>, BackendError> {
        self.plan.step()?;
        self.inner.kind(path).await
    }

    async fn read(&self, path: &RelativePath, max: usize) -> Result<Read, BackendError> {
        self.plan.step()?;
        self.inner.read(path, max).await
    }

    async fn stage(
        &self,
        path: &RelativePath,
        bytes: Arc<[u8]>,
    ) -> Result<Box<dyn Staged>, BackendError> {
        self.plan.step()?;
        let inner = self.inner.stage(path, bytes).await?;
        Ok(Box::new(FaultyStaged { inner, plan: Arc::clone(&self.plan) }))
    }

    async fn remove_file(&self, path: &RelativePath, expect: Stamp) -> Result<(), BackendError> {
        self.plan.step()?;
        self.inner.remove_file(path, expect).await
    }

    async fn remove_folder(
        &self,
        path: &RelativePath,
        expect: &[(RelativePath, Stamp)],
    ) -> Result<(), BackendError> {
        self.plan.step()?;
        self.inner.remove_folder(path, expect).await
    }

    async fn remove_empty(&self, path: &RelativePath) -> Result<(), BackendError> {
        self.plan.step()?;
        self.inner.remove_empty(path).await
    }

    async fn rename(&self, from: &RelativePath, to: &RelativePath) -> Result<(), BackendError> {
        self.plan.step()?;
        self.inner.rename(from, to).await
    }

    async fn lock(&self, wait: Duration) -> Result<Box<dyn Held>, BackendError> {
        self.plan.step()?;
        let inner = self.inner.lock(wait).await?;
        Ok(Box::new(FaultyHeld { inner, plan: Arc::clone(&self.plan) }))
    }

    async fn is_interrupted(&self) -> bool {
        self.inner.is_interrupted().await
    }

    async fn sync(&self, paths: &[RelativePath]) -> Result<(), BackendError> {
        self.plan.step()?;
        self.inner.sync(paths).await
    }

    async fn sweep(&self) -> Result<usize, BackendError> {
        self.plan.step()?;
        self.inner.sweep().await
    }

    async fn exists(&self) -> Result<bool, BackendError> {
        self.plan.step()?;
        self.inner.exists().await
    }

    async fn holder(&self) -> Option<String> {
        self.inner.holder().await
    }

    fn folder(&self) -> Option<PathBuf> {
        self.inner.folder()
    }
}
