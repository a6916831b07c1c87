//! Work that starts ahead of time and is never awaited.
//!
//! A prefetch is a value with one owner. Taking its result consumes it, so a result is never handed
//! out twice. Dropping it aborts the work at its next await.

use std::future::Future;

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Running work, or its result.
#[derive(Debug)]
pub(crate) struct Prefetch<T>(PrefetchState<T>);

#[derive(Debug)]
enum PrefetchState<T> {
    Ready(T),
    Pending { found: oneshot::Receiver<T>, stop: DropGuard },
}

/// The result of taking from a prefetch.
#[derive(Debug)]
pub(crate) enum TakeOutcome<T> {
    /// The work has finished with this result.
    Ready(T),
    /// The work is still running.
    Pending(Prefetch<T>),
    /// The work ended without a result: it was cancelled, or panicked.
    Ended,
}

impl<T: Send + 'static> Prefetch<T> {
    /// Returns a prefetch that has finished.
    pub(crate) fn ready(found: T) -> Self {
        Self(PrefetchState::Ready(found))
    }

    /// Starts work. It is aborted at its next await when `cancelled` fires or the prefetch is
    /// dropped. Its own token is cancelled then, too, for parts that do not await.
    pub(crate) fn spawn<W>(
        cancelled: &CancellationToken,
        work: impl FnOnce(CancellationToken) -> W,
    ) -> Self
    where
        W: Future<Output = T> + Send + 'static,
    {
        let (sender, found) = oneshot::channel();
        let stop = cancelled.child_token();
        let work = work(stop.clone());
        let stopped = stop.clone();
        tokio::spawn(async move {
            if let Some(found) = stopped.run_until_cancelled(work).await {
                // The receiver may have been dropped in the meantime.
                drop(sender.send(found));
            }
        });
        Self(PrefetchState::Pending { found, stop: stop.drop_guard() })
    }

    /// Takes the result, without waiting.
    pub(crate) fn take(self) -> TakeOutcome<T> {
        match self.0 {
            PrefetchState::Ready(found) => TakeOutcome::Ready(found),
            PrefetchState::Pending { mut found, stop } => match found.try_recv() {
                Ok(found) => TakeOutcome::Ready(found),
                Err(TryRecvError::Empty) => {
                    TakeOutcome::Pending(Self(PrefetchState::Pending { found, stop }))
                }
                Err(TryRecvError::Closed) => TakeOutcome::Ended,
            },
        }
    }
}
