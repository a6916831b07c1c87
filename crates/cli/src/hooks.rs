//! Hooks: what agents tell while they work, and what they are answered.
//!
//! A skin: each agent's format is a table in a file of its own, [`wire`] reads and writes by such a table, and
//! [`session`] does what is asked. [`run`] holds the promise that every hook makes to its agent: whatever goes
//! wrong, the answer is empty, the status is 0, and it takes no longer than [`WAIT`].

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::time::Duration;

use clap::ValueEnum;
use engine::Recaller;
use protocol::conversation::AgentHost;

use crate::args::{Globals, Hook};
use crate::compose;
use crate::exit::{Failure, Status};
use crate::hooks::session::Session;
use crate::hooks::wire::Told;
use crate::{files, render};

mod claude_code;

mod codex;

mod copilot;

mod cursor;

mod gemini;

mod opencode;

mod pending;

mod qwen;

mod session;

mod transcript;

mod wire;

/// How long an agent is kept waiting, in all that is likely to happen: reading takes a hundredth of it.
const WAIT: Duration = Duration::from_secs(1);

/// How long a note about what went wrong may take after that.
const NOTE_WAIT: Duration = Duration::from_millis(100);

/// The most that is read of what an agent tells, in bytes: tools answer with whole files.
const INPUT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// How large the log of hooks gets before it begins anew, in bytes.
const LOG_BYTES_MAX: u64 = 256 * 1024;

/// An agent whose hooks are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Host {
    /// Claude Code
    ClaudeCode,
    /// Codex CLI
    Codex,
    /// Gemini CLI
    Gemini,
    /// Qwen Code
    Qwen,
    /// Copilot CLI
    Copilot,
    /// Cursor
    Cursor,
    /// opencode
    Opencode,
}

/// Something that happens in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Event {
    /// A session begins, goes on or starts anew
    SessionStart,
    /// A person asked for something
    UserPrompt,
    /// A tool did something
    PostToolUse,
    /// The conversation is about to be shortened
    PreCompact,
    /// A turn ended
    Stop,
    /// A session ends
    SessionEnd,
}

/// What an agent's documentation says about its hooks.
#[derive(Debug)]
pub(crate) struct Format {
    /// What it calls our events; what is not here it does not tell.
    pub(crate) names: &'static [(Event, &'static str)],
    /// Which of them may be answered with a text for the model.
    pub(crate) answered: &'static [Event],
    /// How long such a text may be, in bytes, before the agent cuts it or puts it elsewhere.
    pub(crate) text_bytes_max: usize,
    /// Which context files it shows its model itself.
    pub(crate) context_files: &'static [&'static str],
    /// How many of its units a second has, in which it counts time limits.
    pub(crate) second: u64,
    /// Where it reads the text of an answer.
    pub(crate) answers: Answered,
    /// Whether hooks have names.
    pub(crate) has_names: bool,
    /// What the model is shown when a session is resumed.
    pub(crate) resumed: Resumed,
}

/// Where an agent reads the text of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// Beside the name of the event, in `hookSpecificOutput`.
    Named,
    /// In this field. Such an agent may name no event in what it tells.
    In(&'static str),
}

/// What a model is shown when its session is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resumed {
    /// What it was given at the beginning, and what changed since: the agent did not keep it.
    All,
    /// What changed since: the agent kept the rest.
    Changes,
    /// Nothing: the agent passes no answer on. Changes are told beside the next prompt.
    Nothing,
}

impl Event {
    /// Returns its word at the command line.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::SessionStart => "session-start",
            Self::UserPrompt => "user-prompt",
            Self::PostToolUse => "post-tool-use",
            Self::PreCompact => "pre-compact",
            Self::Stop => "stop",
            Self::SessionEnd => "session-end",
        }
    }
}

impl Host {
    /// Returns its word at the command line.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Qwen => "qwen",
            Self::Copilot => "copilot",
            Self::Cursor => "cursor",
            Self::Opencode => "opencode",
        }
    }

    /// Returns all of them as the daemon tells of them.
    pub(crate) fn all() -> Vec<AgentHost> {
        let told = |host: &Self| {
            let said = host.to_possible_value()?;
            let title = said.get_help().map(ToString::to_string);
            let format = host.format();
            Some(AgentHost {
                name: said.get_name().to_owned(),
                title: title.unwrap_or_else(|| said.get_name().to_owned()),
                context_bytes_max: format.text_bytes_max as u64,
                context_files_loaded: format
                    .context_files
                    .iter()
                    .map(|&name| name.to_owned())
                    .collect(),
            })
        };
        Self::value_variants().iter().filter_map(told).collect()
    }

    /// Returns what its documentation says.
    pub(crate) const fn format(self) -> &'static Format {
        match self {
            Self::ClaudeCode => &claude_code::FORMAT,
            Self::Codex => &codex::FORMAT,
            Self::Gemini => &gemini::FORMAT,
            Self::Qwen => &qwen::FORMAT,
            Self::Copilot => &copilot::FORMAT,
            Self::Cursor => &cursor::FORMAT,
            Self::Opencode => &opencode::FORMAT,
        }
    }
}

impl Format {
    /// Returns the agent's name of an event; `None` when it tells of no such thing.
    pub(crate) fn name(&self, event: Event) -> Option<&'static str> {
        self.names.iter().find(|(one, _)| *one == event).map(|(_, name)| *name)
    }
}

/// What an agent is told, if anything.
type Answer = Result<Option<String>, Failure>;

/// Answers an agent. Nothing that happens here reaches it but an answer.
pub(crate) fn run(globals: Globals, args: Hook) -> Status {
    let what = format!("{} {}", args.event, args.agent);
    let (sender, receiver) = mpsc::sync_channel(1);
    // Whoever waits for a file or a lock is left behind when the process ends, and so is whoever gives back
    // the room that answering took.
    let _left = std::thread::spawn(move || answer(globals, &args, &sender));
    match receiver.recv_timeout(WAIT) {
        Ok(Ok(Some(answer))) => {
            // An agent that does not listen any more needs no answer.
            render::print(format!("{answer}\n").as_bytes()).unwrap_or_default();
        }
        Ok(Ok(None)) => {}
        Ok(Err(failure)) => note(format!("{what}: {}", reason(&failure))),
        Err(_) => note(format!("{what}: gave up after {} ms", WAIT.as_millis())),
    }
    Status::Done
}

/// Notes that a hook was called in a way that is not understood.
pub(crate) fn misunderstood(error: &clap::Error) -> Status {
    note(format!("called in a way that is not understood: {}", error.kind()));
    Status::Done
}

fn answer(globals: Globals, args: &Hook, sender: &SyncSender<Answer>) {
    let mut held = None;
    // Whoever gave up waiting is not told.
    sender.send(answered(globals, args, &mut held)).unwrap_or_default();
    drop(held);
}

/// Finds the answer; what is `held` beside it is of no use afterwards, and takes milliseconds to be given back.
fn answered(globals: Globals, args: &Hook, held: &mut Option<Arc<Recaller>>) -> Answer {
    let host = Host::from_str(&args.agent, false)
        .map_err(|_| Failure::usage("no agent of this name is known"))?;
    // What is told is read to its end in any case: an agent may mind a closed pipe.
    let input = input();
    let event = Event::from_str(&args.event, false)
        .map_err(|_| Failure::usage("no event of this name is known"))?;
    let told = Told::read(host.format(), event, &input?)?;
    if told.resumes && host.format().resumed == Resumed::Nothing {
        return Ok(None);
    }
    pending::forget(host.format(), &told)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let session = Session::new(globals, host.format(), &told);
    let answered = runtime.block_on(session.happened(&told, held));
    runtime.shutdown_background();
    let text = pending::deliver(host.format(), &told, answered?)?;
    Ok(text.and_then(|text| wire::answer(host.format(), event, &text)))
}

/// Reads what an agent tells. What is too much is read and dropped.
fn input() -> Result<Vec<u8>, Failure> {
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
        Failure::Told(told) => format!("{}: {}", told.code.as_ref(), told.what),
        Failure::PipeClosed => "the pipe was closed".to_owned(),
        Failure::Interrupted(_) => "interrupted".to_owned(),
    }
}

/// Adds a line to the log of hooks. Where that cannot be written, nobody is told.
fn note(line: String) {
    let (sender, receiver) = mpsc::sync_channel(1);
    let _left = std::thread::spawn(move || {
        let written = log_file().map(|file| {
            let line = format!("{} {}\n", compose::now(), render::visible::line(&line));
            files::append_private(&file, line.as_bytes(), LOG_BYTES_MAX)
        });
        sender.send(written)
    });
    drop(receiver.recv_timeout(NOTE_WAIT));
}

/// Returns the log of hooks.
fn log_file() -> Result<PathBuf, Failure> {
    Ok(compose::state_folder()?.join("hooks.log"))
}
