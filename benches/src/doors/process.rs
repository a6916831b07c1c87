//! `lukasa` as a process from its start to its end: commands, and hooks of an agent.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::json;

use super::store::{self, Store, StoreSize};
use super::{Door, DoorTimes, Side};
use crate::report::ReportTarget;
use crate::stdio;

/// Calls of each command and hook in a pass.
const CALLS: usize = 5;
const COMMAND_MAX: ReportTarget = ReportTarget::P50(Duration::from_millis(50));
/// The time after which a hook ends without an answer.
const HOOK_WAIT: Duration = Duration::from_secs(1);
const HOOK_MAX: ReportTarget = ReportTarget::P50(Duration::from_millis(30));
const HOOK_WITH_DAEMON_MAX: ReportTarget = ReportTarget::P50(Duration::from_millis(10));

const EMPTY: Door = Door { name: "empty process", target: None };
const LS: Door = Door { name: "`lukasa ls`", target: Some(COMMAND_MAX) };
const RECALL: Door = Door { name: "`lukasa recall`", target: Some(COMMAND_MAX) };
const CONTEXT: Door = Door { name: "`lukasa context`", target: Some(COMMAND_MAX) };
const GREP: Door = Door { name: "`lukasa grep`", target: Some(COMMAND_MAX) };

/// The hooks of an agent, as rows name them.
#[derive(Clone, Copy, Debug)]
pub(super) struct HookDoors {
    session_start: Door,
    user_prompt: Door,
    tool_use: Door,
}

const HOOKS_ALONE: HookDoors = HookDoors {
    session_start: Door { name: "hook `session-start`, no daemon", target: Some(HOOK_MAX) },
    user_prompt: Door { name: "hook `user-prompt`, no daemon", target: Some(HOOK_MAX) },
    tool_use: Door { name: "hook `post-tool-use`, no daemon", target: Some(HOOK_MAX) },
};

/// The hooks beside a daemon.
pub(super) const HOOKS_WITH_DAEMON: HookDoors = HookDoors {
    session_start: Door {
        name: "hook `session-start`, with a daemon",
        target: Some(HOOK_WITH_DAEMON_MAX),
    },
    user_prompt: Door {
        name: "hook `user-prompt`, with a daemon",
        target: Some(HOOK_WITH_DAEMON_MAX),
    },
    tool_use: Door {
        name: "hook `post-tool-use`, with a daemon",
        target: Some(HOOK_WITH_DAEMON_MAX),
    },
};

/// Commands and hooks for one store, without a daemon.
pub(super) struct CommandSide<'a> {
    store: &'a Store,
    hooks: HookSessions<'a>,
}

impl<'a> CommandSide<'a> {
    pub(super) const fn new(store: &'a Store) -> Self {
        Self { store, hooks: HookSessions::new(store, "alone") }
    }
}

impl Side for CommandSide<'_> {
    fn size(&self) -> Option<StoreSize> {
        Some(self.store.size)
    }

    fn pass(&mut self, times: &mut DoorTimes) -> anyhow::Result<()> {
        let asked = self.store.asked.iter().zip(&self.store.prompts);
        for (&number, prompt) in asked.take(CALLS) {
            let code = store::code(number);
            for (door, arguments) in [
                (LS, ["ls"].as_slice()),
                (RECALL, &["recall", prompt]),
                (CONTEXT, &["context"]),
                (GREP, &["grep", &code]),
            ] {
                let mut command = self.store.command(arguments);
                let printed = times.time(door, || run_to_end(&mut command, ""))?;
                anyhow::ensure!(!printed.is_empty(), "{command:?} printed nothing");
            }
        }
        let HookAnswers { in_time, recalled } = self.hooks.pass(HOOKS_ALONE, times)?;
        anyhow::ensure!(recalled > 0 || in_time == 0, "no prompt got a memory");
        Ok(())
    }
}

/// A program that reads its input and ends, the least that a process costs.
pub(super) struct EmptyProcess;

impl Side for EmptyProcess {
    fn size(&self) -> Option<StoreSize> {
        None
    }

    fn pass(&mut self, times: &mut DoorTimes) -> anyhow::Result<()> {
        for _ in 0..CALLS {
            let mut command = stdio::echo_server(1)?;
            times.time(EMPTY, || run_to_end(&mut command, ""))?;
        }
        Ok(())
    }
}

/// The numbers of sessions in a pass whose hooks answered in time, and of those whose prompt got a memory.
pub(super) struct HookAnswers {
    in_time: usize,
    recalled: usize,
}

/// An agent that calls hooks, each time in another session and about another memory. A session is shown a memory once,
/// and memories that are used often are part of its beginning.
pub(super) struct HookSessions<'a> {
    store: &'a Store,
    /// The beginning of the ids of the sessions.
    name: &'static str,
    sessions: usize,
}

impl<'a> HookSessions<'a> {
    pub(super) const fn new(store: &'a Store, name: &'static str) -> Self {
        Self { store, name, sessions: 0 }
    }

    pub(super) fn pass(
        &mut self,
        doors: HookDoors,
        times: &mut DoorTimes,
    ) -> anyhow::Result<HookAnswers> {
        let (mut answered, mut recalled) = (0, 0);
        for _ in 0..CALLS {
            self.sessions += 1;
            let prompts = &self.store.rare_prompts;
            let prompt = &prompts[self.sessions % prompts.len()];
            let mut time_hook = |door, word: &str, event: &str| {
                let input = json!({
                    "session_id": format!("{}-{}", self.name, self.sessions), "cwd": self.store.checkout,
                    "hook_event_name": event, "source": "startup", "prompt": prompt,
                    "tool_name": "Bash", "tool_response": "x".repeat(2_000),
                })
                .to_string();
                let mut command = self.store.command(&["hook", word, "--agent", "claude-code"]);
                times.time(door, || run_to_end(&mut command, &input))
            };
            let started = Instant::now();
            let begun = time_hook(doors.session_start, "session-start", "SessionStart")?;
            let shown = time_hook(doors.user_prompt, "user-prompt", "UserPromptSubmit")?;
            if started.elapsed() < HOOK_WAIT {
                anyhow::ensure!(begun.contains("memories"), "a session began with {begun:?}");
                answered += 1;
            }
            // A recall that is not ready for the prompt arrives with the next result of a tool.
            let late = time_hook(doors.tool_use, "post-tool-use", "PostToolUse")?;
            recalled += usize::from((shown + &late).contains("/memories/"));
        }
        Ok(HookAnswers { in_time: answered, recalled })
    }
}

/// Runs a process to its end with `stdin` as its input; returns its output.
pub(crate) fn run_to_end(command: &mut Command, stdin: &str) -> anyhow::Result<String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    child.stdin.take().context("the child has no input")?.write_all(stdin.as_bytes())?;
    let output = child.wait_with_output()?;
    anyhow::ensure!(output.status.success(), "{command:?} failed: {}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}
