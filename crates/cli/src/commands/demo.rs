//! `lukasa demo`: a guided tour with real processes in a temporary home.
//!
//! Creates a temporary home and git checkout, starts `lukasa mcp` there and talks to it like the client of an agent.
//! It causes a conflict with a person's edit, kills the server in the middle of a write, undoes changes, and repeats
//! the main steps with a daemon over HTTP. Every sentence with a tick is checked before it is printed; the first false
//! one ends the demo with a failure. The user's own files are not touched.

use std::sync::Arc;

use memory::error_code::MemoryErrorCode;

use crate::args::Demo;
use crate::exit::{Failure, Status};
use crate::interrupt::Interrupts;
use crate::render::Output;

mod client;
mod crash;
mod daemon;
mod narrator;
mod sandbox;
mod story;

use self::narrator::Narrator;
use self::sandbox::DemoSandbox;

/// Runs the demo to its end, or until a signal arrives.
pub(crate) async fn run(output: &Output, args: &Demo) -> Result<Status, Failure> {
    let stage = Arc::new(DemoSandbox::build()?);
    // Stops the processes and removes the folders on every exit.
    let _cleared = CleanupGuard(Arc::clone(&stage));
    let (set, teller, keep) =
        (Arc::clone(&stage), Narrator::new(output.style, output.json), args.keep);
    let playing = tokio::task::spawn_blocking(move || {
        story::run(&teller, &set)?;
        if keep {
            teller.narrate(&format!(
                "The home and the checkout are kept in {}",
                set.keep_folder().display()
            ))?;
        }
        Ok(Status::Done)
    });
    let interrupts = Interrupts::default();
    tokio::select! {
        signal = interrupts.wait_for_signal() => Err(Failure::Interrupted(signal)),
        played = playing => played.unwrap_or_else(|crash| {
            Err(Failure::new(MemoryErrorCode::StorageFailed, format!("the demo itself failed: {crash}")))
        }),
    }
}

/// Clears the sandbox when it is dropped.
struct CleanupGuard(Arc<DemoSandbox>);

impl Drop for CleanupGuard {
    fn drop(&mut self) {
        self.0.clear();
    }
}
