//! Measures the time that `lukasa hook` adds to an agent's turn, with a daemon and without one.
//!
//! An agent starts a process for every hook, so the time of an empty process is subtracted.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;

use crate::args::BenchConfig;
use crate::fixture::MEMORY_BYTES;
use crate::http::{HttpServerProcess, TOKEN};
use crate::mcp_process::fill;
use crate::measure::{Times, run_alternating};
use crate::report::{ReportLine, ReportTarget, Section};
use crate::stdio;

const MEMORIES: usize = 1_000;
const HOOKS: usize = 10;
const ALONE_MAX: Duration = Duration::from_millis(30);
const BESIDE_DAEMON_MAX: Duration = Duration::from_millis(10);

/// Measures the hooks of `lukasa`.
pub(crate) fn measure(bench: &BenchConfig, lukasa: &Path) -> anyhow::Result<Section> {
    let home = bench.dir.join("hook");
    fill(&home, MEMORIES)?;
    let agent = HookAgent { lukasa, home: &home };
    let mut lines = hooks(bench, &agent, ("no daemon", ALONE_MAX))?;
    let daemon = HttpServerProcess::daemon(lukasa, &home, std::slice::from_ref(&home))?;
    lines.extend(hooks(bench, &agent, ("with a daemon", BESIDE_DAEMON_MAX))?);
    drop(daemon);
    let method = format!(
        "A process for each hook, from its start to its end, with Claude Code's input on stdin; {MEMORIES} \
         memories of {MEMORY_BYTES} bytes in the scope, {HOOKS} of each a pass, {} passes. *Empty* is a Rust program \
         that reads its input and ends.",
        bench.passes
    );
    Ok(Section { title: "Hooks", method, lines })
}

/// An agent that calls hooks.
struct HookAgent<'a> {
    lukasa: &'a Path,
    home: &'a Path,
}

impl HookAgent<'_> {
    fn hook(&self, word: &str) -> Command {
        let mut command = Command::new(self.lukasa);
        command.args(["hook", word, "--agent", "claude-code"]);
        command.env("LUKASA_HOME", self.home).current_dir(self.home);
        // A daemon that receives its token from the environment stores it in no file.
        command.env("LUKASA_TOKEN", TOKEN);
        command
    }

    fn hook_input(&self, name: &str) -> String {
        let input = json!({
            "session_id": "bench", "cwd": self.home, "hook_event_name": name, "source": "startup",
            "prompt": "How is this built?", "tool_name": "Bash", "tool_response": "x".repeat(2_000),
        });
        input.to_string()
    }
}

/// Measures hooks and an empty process in turns.
fn hooks(
    bench: &BenchConfig,
    agent: &HookAgent<'_>,
    (situation, most): (&str, Duration),
) -> anyhow::Result<Vec<ReportLine>> {
    let mut empty = |times: &mut Times| {
        for _ in 0..HOOKS {
            let mut command = stdio::echo_server(1)?;
            times.time(|| run_to_end(&mut command, ""))?;
        }
        Ok(())
    };
    let of = |word: &'static str, name: &'static str, answers: bool| {
        move |times: &mut Times| {
            for _ in 0..HOOKS {
                let (mut command, input) = (agent.hook(word), agent.hook_input(name));
                let answer = times.time(|| run_to_end(&mut command, &input))?;
                anyhow::ensure!(answer.is_empty() != answers, "hook {word} printed {answer:?}");
            }
            Ok(())
        }
    };
    let mut start = of("session-start", "SessionStart", true);
    let mut prompt = of("user-prompt", "UserPromptSubmit", false);
    let mut tool = of("post-tool-use", "PostToolUse", false);
    let [empty, start, prompt, tool] =
        run_alternating(bench.passes, [&mut empty, &mut start, &mut prompt, &mut tool])?;
    let line = |word: &str, times: &Times| {
        ReportLine::calls(format!("`{word}`, {situation}"), times)
            .more("empty", times.more_than(&empty))
            .target(ReportTarget::More(most))
    };
    Ok(vec![
        ReportLine::calls(format!("empty process, {situation}"), &empty),
        line("session-start", &start),
        line("user-prompt", &prompt),
        line("post-tool-use", &tool),
    ])
}

/// Runs a process to its end with `stdin` as its input; returns its output.
fn run_to_end(command: &mut Command, stdin: &str) -> anyhow::Result<String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    child.stdin.take().context("the child has no input")?.write_all(stdin.as_bytes())?;
    let output = child.wait_with_output()?;
    anyhow::ensure!(output.status.success(), "{command:?} failed: {}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}
