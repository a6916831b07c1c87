//! Hooks: what agents tell while they work, and what they are answered.
//!
//! A skin: [`host`] has what each agent's documentation says, [`wire`] reads and writes by that, and [`session`] does
//! what is asked. [`run`] holds the promise that every hook makes to its agent: whatever goes
//! wrong, the answer is empty, the status is 0, and it takes no longer than [`WAIT`].

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::time::Duration;

use clap::ValueEnum;
use engine::RecallService;

use crate::app;
use crate::args::{Globals, Hook};
use crate::exit::{Failure, Status};
use crate::hooks::host::{HookEvent, HookHost, ResumeContent};
use crate::hooks::session::HookSession;
use crate::hooks::wire::HookInput;
use crate::{files, render};

pub(crate) mod host;
mod pending;
mod session;
mod transcript;
mod wire;

/// How long an agent is kept waiting, in all that is likely to happen: reading takes a hundredth of it.
const HOOK_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a note about what went wrong may take after that.
const LOG_TIMEOUT: Duration = Duration::from_millis(100);

/// The most that is read of what an agent tells, in bytes: tools answer with whole files.
const INPUT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// How large the log of hooks gets before it begins anew, in bytes.
const LOG_BYTES_MAX: u64 = 256 * 1024;

/// What an agent is told, if anything.
type HookOutput = Result<Option<String>, Failure>;

/// Answers an agent. Nothing that happens here reaches it but an answer.
pub(crate) fn run(globals: Globals, args: Hook) -> Status {
    let what = format!("{} {}", args.event, args.agent);
    let (sender, receiver) = mpsc::sync_channel(1);
    // Whoever waits for a file or a lock is left behind when the process ends, and so is whoever gives back
    // the room that answering took.
    let _left = std::thread::spawn(move || send_output(globals, &args, &sender));
    match receiver.recv_timeout(HOOK_TIMEOUT) {
        Ok(Ok(Some(answer))) => {
            // An agent that does not listen any more needs no answer.
            render::print(format!("{answer}\n").as_bytes()).unwrap_or_default();
        }
        Ok(Ok(None)) => {}
        Ok(Err(failure)) => append_log(format!("{what}: {}", reason(&failure))),
        Err(_) => append_log(format!("{what}: gave up after {} ms", HOOK_TIMEOUT.as_millis())),
    }
    Status::Done
}

/// Notes that a hook was called in a way that is not understood.
pub(crate) fn report_invalid_args(error: &clap::Error) -> Status {
    append_log(format!("called in a way that is not understood: {}", error.kind()));
    Status::Done
}

fn send_output(globals: Globals, args: &Hook, sender: &SyncSender<HookOutput>) {
    let mut held = None;
    // Whoever gave up waiting is not told.
    sender.send(run_hook(globals, args, &mut held)).unwrap_or_default();
    drop(held);
}

/// Finds the answer; what is `held` beside it is of no use afterwards, and takes milliseconds to be given back.
fn run_hook(globals: Globals, args: &Hook, held: &mut Option<Arc<RecallService>>) -> HookOutput {
    let host = HookHost::from_str(&args.agent, false)
        .map_err(|_| Failure::usage("no agent of this name is known"))?;
    // What is told is read to its end in any case: an agent may mind a closed pipe.
    let input = read_stdin();
    let event = HookEvent::from_str(&args.event, false)
        .map_err(|_| Failure::usage("no event of this name is known"))?;
    let told = HookInput::read(host.format(), event, &input?)?;
    if told.resumes && host.format().resume_content == ResumeContent::Nothing {
        return Ok(None);
    }
    pending::forget(host.format(), &told)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let session = HookSession::new(globals, host.format(), &told);
    let answered = runtime.block_on(session.handle_event(&told, held));
    runtime.shutdown_background();
    let text = pending::deliver(host.format(), &told, answered?)?;
    Ok(text.and_then(|text| wire::answer(host.format(), event, &text)))
}

/// Reads what an agent tells. What is too much is read and dropped.
fn read_stdin() -> Result<Vec<u8>, Failure> {
    let mut stdin = std::io::stdin().lock();
    let mut bytes = Vec::new();
    stdin.by_ref().take(INPUT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|count| count > INPUT_BYTES_MAX) {
        std::io::copy(&mut stdin, &mut std::io::sink())?;
        return Err(Failure::usage(format!("more than {INPUT_BYTES_MAX} bytes were told")));
    }
    Ok(bytes)
}

/// Returns why, without anything that an agent told.
fn reason(failure: &Failure) -> String {
    match failure {
        Failure::Message(told) => format!("{}: {}", told.code.as_ref(), told.message),
        Failure::PipeClosed => "the pipe was closed".to_owned(),
        Failure::Interrupted(_) => "interrupted".to_owned(),
    }
}

/// Adds a line to the log of hooks. Where that cannot be written, nobody is told.
fn append_log(line: String) {
    let (sender, receiver) = mpsc::sync_channel(1);
    let _left = std::thread::spawn(move || {
        let written = log_file().map(|file| {
            let line = format!("{} {}\n", app::now(), render::sanitize::line(&line));
            files::append_private(&file, line.as_bytes(), LOG_BYTES_MAX)
        });
        sender.send(written)
    });
    drop(receiver.recv_timeout(LOG_TIMEOUT));
}

/// Returns the log of hooks.
fn log_file() -> Result<PathBuf, Failure> {
    Ok(app::state_folder()?.join("hooks.log"))
}
