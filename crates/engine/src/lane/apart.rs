//! Work that computes for longer at a stretch than those who wait for an answer should notice.
//!
//! A runtime of several threads is one that others are served on. There such work has a thread to itself, which
//! stands back where the machine has more to do than it can do at once: whoever asked for a task was
//! answered when it was queued, and whoever asks now is not yet.

use futures_util::FutureExt as _;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

/// How much less of a busy machine than others such a thread gets, as `nice` counts it.
#[cfg(target_os = "linux")]
const STEPS_BACK: i32 = 10;

/// Work that goes on by itself.
#[derive(Debug)]
pub(super) struct Apart<T> {
    /// What comes of it; `None` if it was given up, an error if it panicked.
    pub(super) ended: oneshot::Receiver<Option<T>>,
    /// Dropped by whoever gives it up: it is stopped where it waits next.
    pub(super) given_up: DropGuard,
}

impl<T: Send + 'static> Apart<T> {
    /// Begins some work.
    pub(super) fn new(work: impl Future<Output = T> + Send + 'static) -> Self {
        let given_up = CancellationToken::new();
        let told = given_up.clone();
        let (end, ended) = oneshot::channel();
        let work = async move {
            // Nobody is left to hear of what was given up.
            drop(end.send(told.run_until_cancelled(work).await));
        }
        .boxed();
        let runtime = Handle::current();
        match runtime.runtime_flavor() {
            RuntimeFlavor::CurrentThread => drop(runtime.spawn(work)),
            _ => on_a_thread(move || runtime.block_on(work)),
        }
        Self { ended, given_up: given_up.drop_guard() }
    }
}

/// Runs work on a thread that stands back. Where there can be none, the work is dropped, which tells.
fn on_a_thread(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().name("task".to_owned());
    let begun = thread.spawn(move || {
        // Of this thread alone, as Linux has it.
        #[cfg(target_os = "linux")]
        if let Err(error) = rustix::process::nice(STEPS_BACK) {
            tracing::debug!(%error, "a task does not stand back");
        }
        work();
    });
    if let Err(error) = begun {
        tracing::warn!(%error, "no thread for a task");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn what_computes_keeps_nobody_waiting() {
        let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
        let Apart { ended, given_up: _given_up } =
            Apart::new(async move { may_go_on.recv().is_ok() });
        // On the one thread that does it would never begin.
        tokio::spawn(async move { go_on.send(()) }).await.unwrap().unwrap();
        assert_eq!(ended.await, Ok(Some(true)));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn what_is_given_up_is_stopped_where_it_waits() {
        let Apart { ended, given_up } = Apart::new(std::future::pending::<()>());
        drop(given_up);
        assert_eq!(ended.await, Ok(None));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_panic_is_told_and_ends_nothing_else() {
        let Apart { ended, given_up: _given_up } = Apart::new(async { panic!("on purpose") });
        let ended: Result<Option<()>, _> = ended.await;
        assert!(ended.is_err());
    }
}
