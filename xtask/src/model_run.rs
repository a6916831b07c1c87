//! Runs the real program with a real model, on a server that the developer provides.
//!
//! The tests use scripted models. This run checks that a server of a real model can be used and that its answers are
//! decoded. It also checks that no answer loses a memory or delays a command beyond its deadline, and that Ctrl-C ends
//! a command. A model with random weights tests the second part well (`--nonsense`). The run uses its own home below
//! the build folder and touches no other.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::cargo;
use crate::workspace::CargoWorkspace;

/// The arguments of `cargo xtask model-run`.
#[derive(clap::Args)]
pub(crate) struct ModelRunArgs {
    /// The base URL of the server's API, such as `http://127.0.0.1:8080/v1`
    #[arg(long)]
    url: String,
    /// The model's name on the server
    #[arg(long, value_name = "NAME")]
    model: String,
    /// The API of the server: openai, openai-responses, anthropic or gemini
    #[arg(long, default_value = "openai")]
    api: String,
    /// The variable of the environment that holds the key
    #[arg(long, value_name = "NAME")]
    key_variable: Option<String>,
    /// The model has random weights: its answers are not judged, but everything else is
    #[arg(long)]
    nonsense: bool,
}

/// The memories that exist before the model does anything.
const SEED: [(&str, &str); 3] = [
    ("global/user/drinks.md", "- I drink green tea in the morning\n- I own a red bicycle\n"),
    ("global/user/home.md", "- I live in Tromsø\n- I own two cats\n- I own two cats\n"),
    ("global/user/work.md", "- I deploy on Tuesdays\n"),
];
/// The fact that the model should remember.
const BEES: &str = "I keep bees in the garden.";
/// A word of the entry that the model should forget.
const BICYCLE: &str = "bicycle";

/// The events of hooks, with Claude Code's names for them.
const EVENTS: [(&str, &str); 3] =
    [("user-prompt", "UserPromptSubmit"), ("post-tool-use", "PostToolUse"), ("stop", "Stop")];

/// The deadlines of 295 s, 30 s and 4 s, plus the time that the program needs itself.
const AGENT_MAX: Duration = Duration::from_secs(305);
const FORGET_MAX: Duration = Duration::from_secs(40);
const RECALL_MAX: Duration = Duration::from_secs(7);
/// The time within which an interrupted command must end.
const CANCEL_MAX: Duration = Duration::from_secs(5);
/// The time that an agent waits for a hook.
const HOOK_MAX: Duration = Duration::from_secs(1);
/// Longer than the backoff after the first failure of a model.
const BACKOFF: Duration = Duration::from_secs(6);
/// The interval of polls.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Builds the program, runs all steps with the model, and prints the results.
pub(crate) fn run(workspace: &CargoWorkspace, args: &ModelRunArgs) -> anyhow::Result<()> {
    cargo::run(cargo::command().current_dir(&workspace.root).args(["build", "--bin", "lukasa"]))?;
    let mut run = ModelRunSession::new(workspace, args)?;
    run.connect()?;
    run.remember()?;
    run.cancel()?;
    run.forget()?;
    run.dream()?;
    run.recall()?;
    let doctor = run.lukasa(&["doctor"])?;
    run.check(doctor.status.success(), || format!("doctor: {}", text(&doctor.stdout)));
    run.report(args)
}

struct ModelRunSession {
    program: PathBuf,
    home: PathBuf,
    checkout: PathBuf,
    rows: Vec<[String; 8]>,
    /// Violations of guarantees that hold for any model.
    failures: Vec<String>,
    /// Answers that a capable model would not give.
    weak_answers: Vec<String>,
    /// Whether any answer of the model was decoded into a tool call.
    decoded: bool,
    /// The number of the last run record that was read.
    last: u64,
}

impl ModelRunSession {
    /// Creates a home with settings that name the model, and with memories.
    fn new(workspace: &CargoWorkspace, args: &ModelRunArgs) -> anyhow::Result<Self> {
        let folder = workspace.target.join("model-run");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        let (home, checkout) = (folder.join("home"), folder.join("app"));
        fs::create_dir_all(&home)?;
        fs::create_dir_all(checkout.join(".git"))?;
        let quoted = |text: &str| Value::from(text).to_string();
        let name = quoted(&format!("run/{}", args.model));
        let mut settings = format!(
            "[models]\ndefault = {name}\nrecall = {name}\n\n[models.providers.run]\nurl = {}\napi = {}\n",
            quoted(&args.url),
            quoted(&args.api)
        );
        if let Some(variable) = &args.key_variable {
            // Writing to a string cannot fail.
            let _ = writeln!(settings, "key_variable = {}", quoted(variable));
        }
        fs::write(home.join("config.toml"), settings)?;
        let run = Self {
            program: workspace.target.join("debug/lukasa"),
            home,
            checkout,
            rows: Vec::new(),
            failures: Vec::new(),
            weak_answers: Vec::new(),
            decoded: false,
            last: 0,
        };
        for (path, text) in SEED {
            let output = run.run_with_stdin(&["create", path, "-"], text)?;
            ensure!(output.status.success(), "cannot create {path}: {}", error_output(&output));
        }
        Ok(run)
    }

    /// Checks that the model answers.
    fn connect(&mut self) -> anyhow::Result<()> {
        let output = self.lukasa(&["models", "--json"])?;
        let printed: Value = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("lukasa models: {}", error_output(&output)))?;
        let checked = &printed["checked"][0];
        ensure!(checked["answers"] == true, "no model answers: {}", checked["error"]);
        self.decoded |= checked["callsTools"] == true;
        let calls = if checked["callsTools"] == true { "calls tools" } else { "calls no tools" };
        self.judge(checked["callsTools"] == true, || {
            "it was asked to call a tool and did not".into()
        });
        let took = Duration::from_millis(checked["tookMs"].as_u64().unwrap_or_default());
        self.rows.push(row("models", calls, took, &Value::Null));
        Ok(())
    }

    fn remember(&mut self) -> anyhow::Result<()> {
        let (before, started) = (self.texts()?, Instant::now());
        let ended = self.lukasa(&["remember", BEES])?;
        self.record_step("remember", &ended.status.to_string(), (started.elapsed(), AGENT_MAX))?;
        let after = self.texts()?;
        if ended.status.success() {
            let has_bees = after.iter().any(|(_, text)| text.contains("bees"));
            self.judge(has_bees, || "the fact to remember is in no memory".into());
        } else {
            self.check(before == after, || "remember failed, and changed memories".into());
            self.judge(false, || format!("remember failed: {}", error_output(&ended)));
        }
        self.check_kept(&lines(&before), &after, "remember");
        Ok(())
    }

    /// Interrupts a command as soon as its task runs.
    fn cancel(&mut self) -> anyhow::Result<()> {
        let before = self.texts()?;
        let text = "My neighbour is called Ingrid, and her boat is called Tern. ".repeat(40);
        let mut child = self.command(&["remember", &text]);
        let child = child.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let mut is_running = false;
        let started = Instant::now();
        while !is_running && started.elapsed() < CANCEL_MAX {
            let tasks = self.json(&["tasks", "--json"])?;
            let all = tasks["tasks"].as_array();
            is_running = all.into_iter().flatten().any(|task| task["status"] == "running");
            sleep(POLL_INTERVAL);
        }
        // Long enough for the request to the model to be sent.
        sleep(4 * POLL_INTERVAL);
        signal(&child, "INT")?;
        let interrupted = Instant::now();
        let ended = child.wait_with_output()?;
        let took = interrupted.elapsed();
        self.check(took <= CANCEL_MAX, || format!("Ctrl-C ended remember only after {took:?}"));
        if ended.status.code() == Some(130) {
            self.check(self.texts()? == before, || "a cancelled remember changed memories".into());
        }
        self.record_step("remember, Ctrl-C", &ended.status.to_string(), (took, CANCEL_MAX))?;
        self.check_kept(&lines(&before), &self.texts()?, "a cancelled remember");
        Ok(())
    }

    fn forget(&mut self) -> anyhow::Result<()> {
        let (before, started) = (self.texts()?, Instant::now());
        let ended = self.lukasa(&["forget", "-y", "my red bicycle"])?;
        self.record_step("forget", &ended.status.to_string(), (started.elapsed(), FORGET_MAX))?;
        let after = self.texts()?;
        let (had, has) = (lines(&before), lines(&after));
        self.check(has.is_subset(&had), || "forget wrote something".into());
        let gone: Vec<&String> = had.difference(&has).collect();
        let is_right = gone.len() == 1 && gone[0].contains(BICYCLE);
        self.judge(is_right, || format!("of all entries, forget removed {gone:?}"));
        if before != after {
            let undone = self.lukasa(&["undo", "-y"])?;
            self.check(undone.status.success(), || format!("undo: {}", error_output(&undone)));
            let restored = self.texts()? == before;
            self.check(restored, || "undo did not restore the forgotten entries".into());
        }
        Ok(())
    }

    fn dream(&mut self) -> anyhow::Result<()> {
        let (before, started) = (self.texts()?, Instant::now());
        let ended = self.lukasa(&["dream", "-y"])?;
        self.record_step("dream", &ended.status.to_string(), (started.elapsed(), AGENT_MAX))?;
        let after = self.texts()?;
        if !ended.status.success() {
            self.check(before == after, || "a dream failed, and changed memories".into());
            self.judge(false, || format!("dream failed: {}", error_output(&ended)));
        }
        self.check_kept(&lines(&before), &after, "dream");
        Ok(())
    }

    /// Sends a daemon the hook events of an agent.
    fn recall(&mut self) -> anyhow::Result<()> {
        let mut daemon = self.command(&["serve", "--port", "0", "--json"]);
        let mut daemon = Daemon(daemon.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?);
        let stdout = daemon.0.stdout.take().context("the daemon has no output")?;
        let mut ready = String::new();
        BufReader::new(stdout).read_line(&mut ready)?;
        ensure!(ready.contains("url"), "the daemon did not start: {ready}");

        // No session is started, because memories that its start shows completely are not recalled again.
        let started = Instant::now();
        let mut shown =
            self.send_hook_event("user-prompt", "Which hot drink should I make for myself?")?;
        self.check(started.elapsed() <= HOOK_MAX, || "a prompt waited for the model".into());
        while shown.is_empty()
            && started.elapsed() < RECALL_MAX
            && self.newest_unseen_work()?.is_none()
        {
            sleep(POLL_INTERVAL);
            shown = self.send_hook_event("post-tool-use", "")?;
        }
        self.await_record()?;
        self.record_step("recall", "-", (started.elapsed(), RECALL_MAX))?;
        sleep(4 * POLL_INTERVAL);
        shown += &self.send_hook_event("post-tool-use", "")?;
        self.judge(shown.contains("green tea"), || format!("the recall showed: {shown:?}"));
        self.send_hook_event("stop", "")?;

        // After a failure or a timeout the model is not asked during the backoff.
        if self.json(&["runs", "-n", "1", "--json"])?["ended"] == "fallback" {
            sleep(BACKOFF);
        }
        // The turn ends at once, so the recall must be cancelled.
        let started = Instant::now();
        self.send_hook_event("user-prompt", "And what should I do on Tuesdays?")?;
        sleep(POLL_INTERVAL);
        self.send_hook_event("stop", "")?;
        self.await_record()?;
        self.record_step("recall, turn ended", "-", (started.elapsed(), CANCEL_MAX))?;
        signal(&daemon.0, "TERM")?;
        self.check(daemon.0.wait()?.success(), || "the daemon did not exit with success".into());
        // A hook never fails its agent; it writes errors to its log.
        let log = fs::read_to_string(self.home.join("state/hooks.log")).unwrap_or_default();
        self.check(log.is_empty(), || format!("the log of the hooks has errors: {log}"));
        Ok(())
    }

    /// Sends an event to the daemon through a hook. Returns the text for the agent's model.
    fn send_hook_event(&self, event: &str, prompt: &str) -> anyhow::Result<String> {
        let name = EVENTS.iter().find(|(word, _)| *word == event).map(|(_, name)| name);
        let input = json!({
            "session_id": "model-run", "cwd": self.checkout, "hook_event_name": name, "prompt": prompt,
        });
        let args = ["hook", event, "--agent", "claude-code"];
        let output = self.run_with_stdin(&args, &input.to_string())?;
        Ok(text(&output.stdout))
    }

    /// Returns the newest run record, if it was not read yet.
    fn newest_unseen_work(&self) -> anyhow::Result<Option<Value>> {
        let work = self.json(&["runs", "-n", "1", "--json"])?;
        Ok(Some(work).filter(|work| work["number"].as_u64().unwrap_or_default() > self.last))
    }

    fn await_record(&self) -> anyhow::Result<()> {
        let started = Instant::now();
        while started.elapsed() < RECALL_MAX && self.newest_unseen_work()?.is_none() {
            sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Adds a row for a step, with the facts of its run record.
    fn record_step(
        &mut self,
        step: &str,
        ended: &str,
        (took, most): (Duration, Duration),
    ) -> anyhow::Result<()> {
        let work = self.newest_unseen_work()?.unwrap_or_default();
        self.last = work["number"].as_u64().unwrap_or(self.last);
        let count = |key: &str| work[key].as_u64().unwrap_or_default();
        self.decoded |= count("calls") > count("refused");
        self.check(took <= most, || format!("{step} took {took:?}, and may take {most:?}"));
        self.check(!work.is_null(), || format!("{step}: there is no record of a run of the model"));
        let how = work["ended"].as_str().unwrap_or(ended);
        let how =
            work["why"].as_str().map_or_else(|| how.to_owned(), |why| format!("{how}: {why}"));
        self.rows.push(row(step, &how, took, &work));
        Ok(())
    }

    /// Records a failure if an invariant does not hold.
    fn check(&mut self, holds: bool, what: impl FnOnce() -> String) {
        self.failures.extend((!holds).then(what));
    }

    /// Records a weak answer if the model did not do what a capable one would do.
    fn judge(&mut self, is_right: bool, what: impl FnOnce() -> String) {
        self.weak_answers.extend((!is_right).then(what));
    }

    /// Checks that no entry is missing.
    fn check_kept(&mut self, had: &BTreeSet<String>, texts: &[(PathBuf, String)], step: &str) {
        let has = lines(texts);
        let lost: Vec<&String> = had.difference(&has).collect();
        self.check(lost.is_empty(), || format!("{step} lost {lost:?}"));
    }

    /// Returns all memories, in the order of their files.
    fn texts(&self) -> anyhow::Result<Vec<(PathBuf, String)>> {
        let mut texts = Vec::new();
        for folder in [self.home.join("memory"), self.checkout.join(".lukasa")] {
            read(&folder, &mut texts)?;
        }
        texts.sort();
        Ok(texts)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).current_dir(&self.checkout).stdin(Stdio::null());
        command
            .env("HOME", &self.home)
            .env("LUKASA_HOME", &self.home)
            .env_remove("LUKASA_FEATURES");
        command
    }

    fn lukasa(&self, args: &[&str]) -> anyhow::Result<Output> {
        self.command(args)
            .output()
            .with_context(|| format!("cannot start {}", self.program.display()))
    }

    fn run_with_stdin(&self, args: &[&str], stdin: &str) -> anyhow::Result<Output> {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        // Dropping the pipe ends the program's input.
        child.stdin.take().context("the child has no input")?.write_all(stdin.as_bytes())?;
        Ok(child.wait_with_output()?)
    }

    /// Returns the JSON output of a command; null if it prints nothing.
    fn json(&self, args: &[&str]) -> anyhow::Result<Value> {
        let printed = self.lukasa(args)?;
        if printed.stdout.is_empty() && printed.status.success() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&printed.stdout)
            .with_context(|| format!("lukasa {}: {}", args.join(" "), error_output(&printed)))
    }

    /// Prints the table, and fails if there are failures.
    fn report(mut self, args: &ModelRunArgs) -> anyhow::Result<()> {
        let decoded = self.decoded;
        self.judge(decoded, || {
            "no structured answer: none of its answers was a call of an offered tool".into()
        });
        let head = ["step", "ended", "took", "turns", "calls", "refused", "tokens in", "out"];
        println!("\n{} at {}\n", args.model, args.url);
        print!("{}", table(&head.map(str::to_owned), &self.rows));
        println!("\nThe files of the run are in {}", self.home.display());
        for answer in &self.weak_answers {
            println!("weak answer: {answer}");
        }
        for failure in &self.failures {
            println!("failure: {failure}");
        }
        ensure!(self.failures.is_empty(), "{} failures, see above", self.failures.len());
        let is_judged = !args.nonsense;
        ensure!(
            !is_judged || self.weak_answers.is_empty(),
            "there are no failures, but the model gave weak answers, see above; `--nonsense` does not judge them"
        );
        println!(
            "no failures: nothing was lost, deadlines were kept, and Ctrl-C ended the command"
        );
        Ok(())
    }
}

/// A daemon that ends with the run.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        // Errors are ignored, because it may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn signal(child: &Child, name: &str) -> anyhow::Result<()> {
    // A child that has ended needs no signal.
    Command::new("kill").args(["-s", name, &child.id().to_string()]).status()?;
    Ok(())
}

fn read(folder: &Path, texts: &mut Vec<(PathBuf, String)>) -> anyhow::Result<()> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            read(&path, texts)?;
        } else if path.extension().is_some_and(|extension| extension == "md")
            && path.file_name().is_none_or(|name| name != "MEMORY.md")
        {
            texts.push((path.clone(), fs::read_to_string(&path)?));
        }
    }
    Ok(())
}

/// Returns the entries of memories, each once.
fn lines(texts: &[(PathBuf, String)]) -> BTreeSet<String> {
    let lines = texts.iter().flat_map(|(_, text)| text.lines());
    lines.filter(|line| line.starts_with("- ")).map(str::to_owned).collect()
}

fn row(step: &str, ended: &str, took: Duration, work: &Value) -> [String; 8] {
    let count = |key: &str| work[key].as_u64().map_or_else(|| "-".to_owned(), |it| it.to_string());
    let took = format!("{:.1} s", took.as_secs_f64());
    let counts = ["turns", "calls", "refused", "tokensIn", "tokensOut"].map(count);
    let [turns, calls, refused, tokens_in, out] = counts;
    [step.to_owned(), ended.to_owned(), took, turns, calls, refused, tokens_in, out]
}

/// Returns a table for a terminal.
fn table(head: &[String; 8], rows: &[[String; 8]]) -> String {
    let all = || std::iter::once(head).chain(rows);
    let widths: [usize; 8] =
        std::array::from_fn(|index| all().map(|row| row[index].chars().count()).max().unwrap_or(0));
    let line = |row: &[String; 8]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    all().map(line).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

fn error_output(output: &Output) -> String {
    let printed = text(&output.stderr);
    if printed.is_empty() { output.status.to_string() } else { printed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_in_several_memories_counts_once() {
        let of = |texts: &[&str]| {
            let texts: Vec<_> =
                texts.iter().map(|text| (PathBuf::from("a.md"), (*text).to_owned())).collect();
            lines(&texts).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(
            of(&["---\nname: a\n---\n- one\n- two\n", "- two\n# Three\n"]),
            ["- one", "- two"]
        );
    }

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        let head = ["step", "ended", "took", "t", "c", "r", "in", "out"].map(str::to_owned);
        let work = json!({ "turns": 1, "calls": 2, "refused": 0, "tokensIn": 300, "tokensOut": 4 });
        let row = row("remember", "completed", Duration::from_millis(1_240), &work);
        assert_eq!(
            table(&head, &[row]),
            "step      ended      took   t  c  r  in   out\n\
             remember  completed  1.2 s  1  2  0  300  4\n"
        );
    }
}
