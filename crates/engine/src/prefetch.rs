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
pub(crate) struct Prefetch<T>(Stage<T>);

#[derive(Debug)]
enum Stage<T> {
    Here(T),
    Coming { found: oneshot::Receiver<T>, stop: DropGuard },
}

/// What there was to take.
#[derive(Debug)]
pub(crate) enum Taken<T> {
    /// It is settled, and this came of it.
    Settled(T),
    /// It goes on.
    NotYet(Prefetch<T>),
    /// It ended without anything: it was cancelled, or died.
    Nothing,
}

impl<T: Send + 'static> Prefetch<T> {
    /// Returns one that is settled.
    pub(crate) fn settled(found: T) -> Self {
        Self(Stage::Here(found))
    }

    /// Begins work, which ends early when the caller's token is cancelled or the prefetch is dropped. Then it
    /// is dropped where it waits; what it does without waiting sees its own token cancelled.
    pub(crate) fn begin<W>(
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
        Self(Stage::Coming { found, stop: stop.drop_guard() })
    }

    /// Takes what came of it, without waiting.
    pub(crate) fn take(self) -> Taken<T> {
        match self.0 {
            Stage::Here(found) => Taken::Settled(found),
            Stage::Coming { mut found, stop } => match found.try_recv() {
                Ok(found) => Taken::Settled(found),
                Err(TryRecvError::Empty) => Taken::NotYet(Self(Stage::Coming { found, stop })),
                Err(TryRecvError::Closed) => Taken::Nothing,
            },
        }
    }
}
