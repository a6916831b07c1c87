//! Hooks: handling of the events that agents report, and the answers for their models.
//!
//! [`host`] holds the format of each agent, [`wire`] parses input and renders answers in that format, and [`session`]
//! handles events. [`run`] keeps the promise that every hook makes to its agent. On an error the answer is empty and
//! the exit status is 0, and a hook takes no longer than [`HOOK_TIMEOUT`]. Errors go to `hooks.log` in the state
//! folder, without any text that the agent sent.

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
use crate::hooks::host::{CompactionReport, HookEvent, HookFormat, HookHost, ResumeContent};
use crate::hooks::session::HookSession;
use crate::hooks::wire::HookInput;
use crate::{files, render};

pub(crate) mod host;
mod pending;
mod session;
mod transcript;
mod wire;

/// The maximum time that an agent waits for a hook. A read of the memories takes a hundredth of it.
const HOOK_TIMEOUT: Duration = Duration::from_secs(1);

/// The additional time for a line in the log.
const LOG_TIMEOUT: Duration = Duration::from_millis(100);

/// The maximum size of the input in bytes. It is large since results of tools contain whole files.
const INPUT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The size in bytes at which the log of hooks is truncated.
const LOG_BYTES_MAX: u64 = 256 * 1024;

/// The answer to an agent, if there is one.
type HookOutput = Result<Option<String>, Failure>;

/// Handles a hook event. Errors are logged; the agent gets an answer or nothing.
pub(crate) fn run(globals: Globals, args: Hook) -> Status {
    let call = format!("{} {}", args.event, args.agent);
    let (sender, receiver) = mpsc::sync_channel(1);
    // The thread is not joined: it may wait for a file or a lock, or still be freeing memory.
    let _detached = std::thread::spawn(move || send_output(globals, &args, &sender));
    match receiver.recv_timeout(HOOK_TIMEOUT) {
        Ok(Ok(Some(answer))) => {
            // An agent that closed the pipe needs no answer.
            render::print(format!("{answer}\n").as_bytes()).unwrap_or_default();
        }
        Ok(Ok(None)) => {}
        Ok(Err(failure)) => append_log(format!("{call}: {}", reason(&failure))),
        Err(_) => append_log(format!("{call}: timeout after {} ms", HOOK_TIMEOUT.as_millis())),
    }
    Status::Done
}

/// Logs that a hook was called with invalid arguments.
pub(crate) fn report_invalid_args(error: &clap::Error) -> Status {
    append_log(format!("invalid arguments: {}", error.kind()));
    Status::Done
}

fn send_output(globals: Globals, args: &Hook, sender: &SyncSender<HookOutput>) {
    let mut recaller = None;
    // After a timeout the receiver is gone, and the result is dropped.
    sender.send(run_hook(globals, args, &mut recaller)).unwrap_or_default();
    drop(recaller);
}

/// Computes the answer. The recaller is passed out so that the caller frees it, which takes milliseconds, after the
/// answer is sent.
fn run_hook(
    globals: Globals,
    args: &Hook,
    recaller: &mut Option<Arc<RecallService>>,
) -> HookOutput {
    let host = HookHost::from_str(&args.agent, false)
        .map_err(|_| Failure::usage("unknown agent; `lukasa help hook` lists the names"))?;
    // The input is read to its end even if it is not used: an agent may fail on a closed pipe.
    let bytes = read_stdin();
    let event = HookEvent::from_str(&args.event, false)
        .map_err(|_| Failure::usage("unknown event; `lukasa help hook` lists the names"))?;
    let input = HookInput::read(host.format(), event, &bytes?)?;
    if input.resumes && host.format().resume_content == ResumeContent::Nothing {
        return Ok(None);
    }
    pending::forget(host.format(), &input)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let reopens = is_reopened(host.format(), &input)?;
    let session = HookSession::new(globals, host.format(), &input, reopens);
    let context = runtime.block_on(session.handle_event(&input, recaller));
    runtime.shutdown_background();
    note_compaction(host.format(), &input, reopens)?;
    let text = pending::deliver(host.format(), &input, context?)?;
    Ok(text.and_then(|text| wire::answer(host.format(), event, &text)))
}

/// Checks whether the opening text is given again with this event: the agent compacted the conversation, and reports no
/// start after that.
fn is_reopened(format: &HookFormat, input: &HookInput) -> Result<bool, Failure> {
    let is_within = matches!(input.event, HookEvent::UserPrompt | HookEvent::PostToolUse);
    Ok(format.compaction == CompactionReport::PreCompact
        && is_within
        && format.answerable.contains(&input.event)
        && pending::was_compacted(&input.session)?)
}

/// Keeps in mind that the model has lost the opening text, until it is given again.
fn note_compaction(format: &HookFormat, input: &HookInput, reopens: bool) -> Result<(), Failure> {
    if format.compaction != CompactionReport::PreCompact {
        return Ok(());
    }
    match input.event {
        HookEvent::PreCompact => pending::note_compaction(&input.session),
        HookEvent::SessionStart | HookEvent::SessionEnd => {
            pending::clear_compaction(&input.session)
        }
        HookEvent::UserPrompt | HookEvent::PostToolUse if reopens => {
            pending::clear_compaction(&input.session)
        }
        HookEvent::UserPrompt | HookEvent::PostToolUse | HookEvent::Stop => Ok(()),
    }
}

/// Reads the input of an agent. Input over the limit is read and dropped.
fn read_stdin() -> Result<Vec<u8>, Failure> {
    let mut stdin = std::io::stdin().lock();
    let mut bytes = Vec::new();
    stdin.by_ref().take(INPUT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|count| count > INPUT_BYTES_MAX) {
        std::io::copy(&mut stdin, &mut std::io::sink())?;
        return Err(Failure::usage(format!("hook input exceeds {INPUT_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

/// Returns the reason of a failure for the log. It must not contain any input of the agent.
fn reason(failure: &Failure) -> String {
    match failure {
        Failure::Message(error) => format!("{}: {}", error.code.as_ref(), error.message),
        Failure::PipeClosed => "the pipe was closed".to_owned(),
        Failure::Interrupted(_) => "interrupted".to_owned(),
    }
}

/// Adds a line to the log of hooks. Errors are ignored, since a hook has no other place to report them.
fn append_log(line: String) {
    let (sender, receiver) = mpsc::sync_channel(1);
    let _detached = std::thread::spawn(move || {
        let written = log_file().map(|file| {
            let line = format!("{} {}\n", app::now(), render::sanitize::line(&line));
            files::append_private(&file, line.as_bytes(), LOG_BYTES_MAX)
        });
        sender.send(written)
    });
    drop(receiver.recv_timeout(LOG_TIMEOUT));
}

/// Returns the path of the log of hooks.
fn log_file() -> Result<PathBuf, Failure> {
    Ok(app::state_folder()?.join("hooks.log"))
}
