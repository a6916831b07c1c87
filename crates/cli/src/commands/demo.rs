//! `lukasa demo`: the whole of Lukasa on a small stage, with nothing faked.
//!
//! Makes a home and a git checkout that are thrown away, starts `lukasa mcp` there and talks to it as
//! an agent's client does, lets a person get in its way, kills it in the middle of a write, takes
//! changes back, and does the same with a daemon over HTTP. Every sentence with a tick was checked the moment before it was printed; the
//! first that is not true ends the demo with a failure. Touches nothing of the person's own.

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

/// Plays the demo to its end, or until a signal comes.
pub(crate) async fn run(output: &Output, args: &Demo) -> Result<Status, Failure> {
    let stage = Arc::new(DemoSandbox::build()?);
    // However this ends, no process is left, and no folder.
    let _cleared = CleanupGuard(Arc::clone(&stage));
    let (set, teller, keep) =
        (Arc::clone(&stage), Narrator::new(output.style, output.json), args.keep);
    let playing = tokio::task::spawn_blocking(move || {
        story::run(&teller, &set)?;
        if keep {
            teller.narrate(&format!(
                "The home and the checkout stay in {}",
                set.keep_folder().display()
            ))?;
        }
        Ok(Status::Done)
    });
    let interrupts = Interrupts::default();
    tokio::select! {
        signal = interrupts.wait_for_signal() => Err(Failure::Interrupted(signal)),
        played = playing => played.unwrap_or_else(|crash| {
            Err(Failure::new(MemoryErrorCode::StorageFailed, format!("the demo itself stopped: {crash}")))
        }),
    }
}

/// Clears the stage when it is dropped.
struct CleanupGuard(Arc<DemoSandbox>);

impl Drop for CleanupGuard {
    fn drop(&mut self) {
        self.0.clear();
    }
}
