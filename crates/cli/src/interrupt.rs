//! Handling of SIGINT, SIGTERM and SIGHUP.
//!
//! A signal drops the running command. A write is finished first, and while an editor has the terminal, Ctrl-C is
//! left to it.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};

use crate::exit::Status;

/// A listener for the signals that end a command.
#[derive(Debug, Default)]
pub(crate) struct Interrupts {
    editor_has_terminal: AtomicBool,
    is_writing: AtomicBool,
}

/// A guard: until it is dropped, Ctrl-C is left to another program, or waits for a write.
#[derive(Debug)]
pub(crate) struct InterruptGuard<'a>(&'a AtomicBool);

impl Interrupts {
    /// Waits for a signal that ends the command; returns the exit status for it. Signals are caught from this call on,
    /// not only once the returned future is awaited.
    ///
    /// If signal handlers cannot be installed, signals have their default effect.
    pub(crate) fn wait_for_signal(&self) -> impl Future<Output = Status> + '_ {
        let listen = || -> std::io::Result<_> {
            let interrupt = signal(SignalKind::interrupt())?;
            let terminate = signal(SignalKind::terminate())?;
            Ok((interrupt, terminate, signal(SignalKind::hangup())?))
        };
        let listening = listen();
        async move {
            let Ok((mut interrupt, mut terminate, mut hangup)) = listening else {
                return std::future::pending().await;
            };
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {
                        if !self.editor_has_terminal.load(Ordering::Relaxed) {
                            return Status::Interrupted;
                        }
                    }
                    _ = terminate.recv() => return Status::Terminated,
                    _ = hangup.recv() => return Status::Terminated,
                }
            }
        }
    }

    /// Leaves Ctrl-C to a program that this one waits for.
    pub(crate) fn suspend(&self) -> InterruptGuard<'_> {
        self.editor_has_terminal.store(true, Ordering::Relaxed);
        InterruptGuard(&self.editor_has_terminal)
    }

    /// Marks a write that must be finished before a signal ends the command.
    pub(crate) fn defer_for_write(&self) -> InterruptGuard<'_> {
        self.is_writing.store(true, Ordering::Relaxed);
        InterruptGuard(&self.is_writing)
    }

    /// Checks whether a write is in progress.
    pub(crate) fn is_write_pending(&self) -> bool {
        self.is_writing.load(Ordering::Relaxed)
    }
}

impl Drop for InterruptGuard<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
