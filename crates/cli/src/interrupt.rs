//! Ctrl-C and its kin: a command is dropped, a write is finished first, an editor is left alone.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};

use crate::exit::Status;

/// Listens for the signals with which people and systems end a command.
#[derive(Debug, Default)]
pub(crate) struct Interrupts {
    editor_has_terminal: AtomicBool,
    is_writing: AtomicBool,
}

/// While this lives, Ctrl-C belongs to another program, or waits for a write.
#[derive(Debug)]
pub(crate) struct InterruptGuard<'a>(&'a AtomicBool);

impl Interrupts {
    /// Waits until the command is to end; returns how that is called. Signals are listened to from this call on, not only
    /// once what it returns is awaited.
    ///
    /// Where signals cannot be listened to, they do what they do to any program.
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

    /// Lends Ctrl-C to a program that this one waits for.
    pub(crate) fn suspend(&self) -> InterruptGuard<'_> {
        self.editor_has_terminal.store(true, Ordering::Relaxed);
        InterruptGuard(&self.editor_has_terminal)
    }

    /// Says that something is being written that is to be seen whole.
    pub(crate) fn defer_for_write(&self) -> InterruptGuard<'_> {
        self.is_writing.store(true, Ordering::Relaxed);
        InterruptGuard(&self.is_writing)
    }

    /// Returns whether a write is on its way.
    pub(crate) fn is_write_pending(&self) -> bool {
        self.is_writing.load(Ordering::Relaxed)
    }
}

impl Drop for InterruptGuard<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
