//! Work that is begun ahead and never waited for.
//!
//! A prefetch is a value with one owner. What it found is taken out of it, and with that it is gone: nobody
//! can be given the same twice. Dropping it ends the work, wherever that waits.

use std::future::Future;

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Work under way, or what came of it.
#[derive(Debug)]
pub(crate) struct Prefetch<T>(PrefetchState<T>);

#[derive(Debug)]
enum PrefetchState<T> {
    Ready(T),
    Pending { found: oneshot::Receiver<T>, stop: DropGuard },
}

/// What there was to take.
#[derive(Debug)]
pub(crate) enum TakeOutcome<T> {
    /// It is settled, and this came of it.
    Ready(T),
    /// It goes on.
    Pending(Prefetch<T>),
    /// It ended without anything: it was cancelled, or died.
    Ended,
}

impl<T: Send + 'static> Prefetch<T> {
    /// Returns one that is settled.
    pub(crate) fn ready(found: T) -> Self {
        Self(PrefetchState::Ready(found))
    }

    /// Begins work, which ends early when the caller's token is cancelled or the prefetch is dropped. Then it
    /// is dropped where it waits; what it does without waiting sees its own token cancelled.
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
        let told = stop.clone();
        tokio::spawn(async move {
            if let Some(found) = told.run_until_cancelled(work).await {
                // Whoever does not want it any more has dropped the other end.
                drop(sender.send(found));
            }
        });
        Self(PrefetchState::Pending { found, stop: stop.drop_guard() })
    }

    /// Takes what came of it, without waiting.
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
