//! One run of the real program with a real model, on whatever server the developer has.
//!
//! The tests use scripted models. This is for the rest: that a server is understood, that its model's answers are decoded, and
//! that whatever a model says, no memory is lost, no deadline is missed and Ctrl-C ends it. A model of random weights is a
//! good one for that (`--nonsense`). It works in a home of its own below the build folder and touches no other.

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

/// Which model.
#[derive(clap::Args)]
pub(crate) struct ModelRunArgs {
    /// Where the server's API begins, such as `http://127.0.0.1:8080/v1`
    #[arg(long)]
    url: String,
    /// The model, as the server calls it
    #[arg(long, value_name = "NAME")]
    model: String,
    /// How it is spoken to: openai, openai-responses, anthropic or gemini
    #[arg(long, default_value = "openai")]
    api: String,
    /// The variable of the environment that holds the key
    #[arg(long, value_name = "NAME")]
    key_variable: Option<String>,
    /// The model has random weights: what it says is not judged, but all else is
    #[arg(long)]
    nonsense: bool,
}

/// The memories that there are before the model does anything.
const SEED: [(&str, &str); 3] = [
    ("global/user/drinks.md", "- I drink green tea in the morning\n- I own a red bicycle\n"),
    ("global/user/home.md", "- I live in Tromsø\n- I own two cats\n- I own two cats\n"),
    ("global/user/work.md", "- I deploy on Tuesdays\n"),
];
/// What is to be remembered.
const BEES: &str = "I keep bees in the garden.";
/// The word of what is to be forgotten.
const BICYCLE: &str = "bicycle";

/// Events of hooks, and what Claude Code calls them.
const EVENTS: [(&str, &str); 3] =
    [("user-prompt", "UserPromptSubmit"), ("post-tool-use", "PostToolUse"), ("stop", "Stop")];

/// Longer than any of these takes that keeps its deadline: 295 s, 30 s and 4 s, and what the program needs itself.
const AGENT_MAX: Duration = Duration::from_secs(305);
const FORGET_MAX: Duration = Duration::from_secs(40);
const RECALL_MAX: Duration = Duration::from_secs(7);
/// How soon a command ends that is interrupted.
const CANCEL_MAX: Duration = Duration::from_secs(5);
/// How long an agent waits for a hook.
const HOOK_MAX: Duration = Duration::from_secs(1);
/// Longer than a model that failed for the first time is not asked.
const BACKOFF: Duration = Duration::from_secs(6);
/// How often it is looked whether something has happened.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Builds the program, lets the model work, and prints what came of it.
pub(crate) fn run(workspace: &CargoWorkspace, args: &ModelRunArgs) -> anyhow::Result<()> {
    cargo::run(cargo::command().current_dir(&workspace.root).args(["build", "--bin", "lukasa"]))?;
    let mut run = ModelRunSession::new(workspace, args)?;
    run.connect()?;
    run.remember()?;
    run.cancel()?;
    run.forget()?;
    run.dream()?;
    run.recall()?;
    let told = run.lukasa(&["doctor"])?;
    run.check(told.status.success(), || format!("doctor: {}", text(&told.stdout)));
    run.report(args)
}

struct ModelRunSession {
    program: PathBuf,
    home: PathBuf,
    checkout: PathBuf,
    rows: Vec<[String; 8]>,
    /// What must never happen.
    failures: Vec<String>,
    /// What a model that can do the work would have done otherwise.
    weak_answers: Vec<String>,
    /// Whether anything that the model said was decoded into a call.
    decoded: bool,
    /// The last piece of work on record that was looked at.
    last: u64,
}

impl ModelRunSession {
    /// Makes a home with settings that name the model, and memories.
    fn new(workspace: &CargoWorkspace, args: &ModelRunArgs) -> anyhow::Result<Self> {
        let place = workspace.target.join("model-run");
        if place.exists() {
            fs::remove_dir_all(&place)?;
        }
        let (home, checkout) = (place.join("home"), place.join("app"));
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
            let made = run.run_with_stdin(&["create", path, "-"], text)?;
            ensure!(made.status.success(), "cannot make {path}: {}", error_output(&made));
        }
        Ok(run)
    }

    /// Asks whether the model is there at all.
    fn connect(&mut self) -> anyhow::Result<()> {
        let asked = self.lukasa(&["models", "--json"])?;
        let told: Value = serde_json::from_slice(&asked.stdout)
            .with_context(|| format!("lukasa models: {}", error_output(&asked)))?;
        let checked = &told["checked"][0];
        ensure!(checked["answers"] == true, "no model answers: {}", checked["error"]);
        self.decoded |= checked["callsTools"] == true;
        let calls = if checked["callsTools"] == true { "calls tools" } else { "calls no tools" };
        self.judge(checked["callsTools"] == true, || {
            "it does not call a tool that it is asked to call".into()
        });
        let took = Duration::from_millis(checked["tookMs"].as_u64().unwrap_or_default());
        self.rows.push(row("models", calls, took, &Value::Null));
        Ok(())
    }

    fn remember(&mut self) -> anyhow::Result<()> {
        let (before, begun) = (self.texts()?, Instant::now());
        let ended = self.lukasa(&["remember", BEES])?;
        self.record_step("remember", &ended.status.to_string(), (begun.elapsed(), AGENT_MAX))?;
        let after = self.texts()?;
        if ended.status.success() {
            let has_bees = after.iter().any(|(_, text)| text.contains("bees"));
            self.judge(has_bees, || "what was to be remembered is in no memory".into());
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
        let begun = Instant::now();
        while !is_running && begun.elapsed() < CANCEL_MAX {
            let tasks = self.json(&["tasks", "--json"])?;
            let all = tasks["tasks"].as_array();
            is_running = all.into_iter().flatten().any(|task| task["status"] == "running");
            sleep(POLL_INTERVAL);
        }
        // Long enough that the question has been sent.
        sleep(4 * POLL_INTERVAL);
        signal(&child, "INT")?;
        let interrupted = Instant::now();
        let ended = child.wait_with_output()?;
        let took = interrupted.elapsed();
        self.check(took <= CANCEL_MAX, || format!("Ctrl-C ended remember after {took:?} only"));
        if ended.status.code() == Some(130) {
            self.check(self.texts()? == before, || "a cancelled remember changed memories".into());
        }
        self.record_step("remember, Ctrl-C", &ended.status.to_string(), (took, CANCEL_MAX))?;
        self.check_kept(&lines(&before), &self.texts()?, "a cancelled remember");
        Ok(())
    }

    fn forget(&mut self) -> anyhow::Result<()> {
        let (before, begun) = (self.texts()?, Instant::now());
        let ended = self.lukasa(&["forget", "-y", "my red bicycle"])?;
        self.record_step("forget", &ended.status.to_string(), (begun.elapsed(), FORGET_MAX))?;
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
            self.check(restored, || "undo did not bring back what was forgotten".into());
        }
        Ok(())
    }

    fn dream(&mut self) -> anyhow::Result<()> {
        let (before, begun) = (self.texts()?, Instant::now());
        let ended = self.lukasa(&["dream", "-y"])?;
        self.record_step("dream", &ended.status.to_string(), (begun.elapsed(), AGENT_MAX))?;
        let after = self.texts()?;
        if !ended.status.success() {
            self.check(before == after, || "a dream failed, and changed memories".into());
            self.judge(false, || format!("dream failed: {}", error_output(&ended)));
        }
        self.check_kept(&lines(&before), &after, "dream");
        Ok(())
    }

    /// Talks to a daemon as an agent with hooks does.
    fn recall(&mut self) -> anyhow::Result<()> {
        let mut daemon = self.command(&["serve", "--port", "0", "--json"]);
        let mut daemon = Daemon(daemon.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?);
        let stdout = daemon.0.stdout.take().context("the daemon has no output")?;
        let mut ready = String::new();
        BufReader::new(stdout).read_line(&mut ready)?;
        ensure!(ready.contains("url"), "the daemon did not start: {ready}");

        // No session is begun: what that shows whole is not recalled again.
        let begun = Instant::now();
        let mut shown =
            self.send_hook_event("user-prompt", "Which hot drink should I make for myself?")?;
        self.check(begun.elapsed() <= HOOK_MAX, || "a prompt waited for the model".into());
        while shown.is_empty()
            && begun.elapsed() < RECALL_MAX
            && self.newest_unseen_work()?.is_none()
        {
            sleep(POLL_INTERVAL);
            shown = self.send_hook_event("post-tool-use", "")?;
        }
        self.await_record()?;
        self.record_step("recall", "-", (begun.elapsed(), RECALL_MAX))?;
        sleep(4 * POLL_INTERVAL);
        shown += &self.send_hook_event("post-tool-use", "")?;
        self.judge(shown.contains("green tea"), || format!("recalled was: {shown:?}"));
        self.send_hook_event("stop", "")?;

        // A model that failed or was late is left alone for a while.
        if self.json(&["runs", "-n", "1", "--json"])?["ended"] == "fallback" {
            sleep(BACKOFF);
        }
        // A turn that ends at once: nobody wants the answer any more.
        let begun = Instant::now();
        self.send_hook_event("user-prompt", "And what should I do on Tuesdays?")?;
        sleep(POLL_INTERVAL);
        self.send_hook_event("stop", "")?;
        self.await_record()?;
        self.record_step("recall, turn ended", "-", (begun.elapsed(), CANCEL_MAX))?;
        signal(&daemon.0, "TERM")?;
        self.check(daemon.0.wait()?.success(), || "the daemon did not end well".into());
        // A hook never fails its agent; what is wrong is in its log.
        let log = fs::read_to_string(self.home.join("state/hooks.log")).unwrap_or_default();
        self.check(log.is_empty(), || format!("hooks complained: {log}"));
        Ok(())
    }

    /// Tells the daemon of an event by a hook. Returns what the agent's model is shown.
    fn send_hook_event(&self, event: &str, prompt: &str) -> anyhow::Result<String> {
        let name = EVENTS.iter().find(|(ours, _)| *ours == event).map(|(_, theirs)| theirs);
        let told = json!({
            "session_id": "model-run", "cwd": self.checkout, "hook_event_name": name, "prompt": prompt,
        });
        let args = ["hook", event, "--agent", "claude-code"];
        let answered = self.run_with_stdin(&args, &told.to_string())?;
        Ok(text(&answered.stdout))
    }

    /// Returns the newest piece of work on record, if it was not looked at.
    fn newest_unseen_work(&self) -> anyhow::Result<Option<Value>> {
        let work = self.json(&["runs", "-n", "1", "--json"])?;
        Ok(Some(work).filter(|work| work["number"].as_u64().unwrap_or_default() > self.last))
    }

    fn await_record(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < RECALL_MAX && self.newest_unseen_work()?.is_none() {
            sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Notes a step with what is on record of it.
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
        self.check(!work.is_null(), || format!("{step}: nothing is on record of the model"));
        let how = work["ended"].as_str().unwrap_or(ended);
        let how =
            work["why"].as_str().map_or_else(|| how.to_owned(), |why| format!("{how}: {why}"));
        self.rows.push(row(step, &how, took, &work));
        Ok(())
    }

    /// Notes whether an invariant holds.
    fn check(&mut self, holds: bool, what: impl FnOnce() -> String) {
        self.failures.extend((!holds).then(what));
    }

    /// Notes whether the model did what one that can do the work would do.
    fn judge(&mut self, is_right: bool, what: impl FnOnce() -> String) {
        self.weak_answers.extend((!is_right).then(what));
    }

    /// Checks that entries are all there.
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
        // Dropped, so that the program sees the end.
        child.stdin.take().context("no pipe")?.write_all(stdin.as_bytes())?;
        Ok(child.wait_with_output()?)
    }

    /// Returns what a command prints as JSON; null if it prints nothing.
    fn json(&self, args: &[&str]) -> anyhow::Result<Value> {
        let printed = self.lukasa(args)?;
        if printed.stdout.is_empty() && printed.status.success() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&printed.stdout)
            .with_context(|| format!("lukasa {}: {}", args.join(" "), error_output(&printed)))
    }

    /// Prints the table, and fails if something is wrong.
    fn report(mut self, args: &ModelRunArgs) -> anyhow::Result<()> {
        let decoded = self.decoded;
        self.judge(decoded, || {
            "no structured answer: nothing that it said was a call of a tool that it has".into()
        });
        let head = ["step", "ended", "took", "turns", "calls", "refused", "tokens in", "out"];
        println!("\n{} at {}\n", args.model, args.url);
        print!("{}", table(&head.map(str::to_owned), &self.rows));
        println!("\nWhat was made is in {}", self.home.display());
        for poor in &self.weak_answers {
            println!("the model: {poor}");
        }
        for broken in &self.failures {
            println!("broken: {broken}");
        }
        ensure!(self.failures.is_empty(), "{} things are broken, see above", self.failures.len());
        let is_judged = !args.nonsense;
        ensure!(
            !is_judged || self.weak_answers.is_empty(),
            "nothing is broken, but the model did not do the work, see above; `--nonsense` does not judge that"
        );
        println!("nothing was lost, deadlines were kept, and Ctrl-C ended what it was to end");
        Ok(())
    }
}

/// A daemon that ends with the run.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn signal(child: &Child, name: &str) -> anyhow::Result<()> {
    // What ended before needs none.
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
        std::array::from_fn(|at| all().map(|row| row[at].chars().count()).max().unwrap_or(0));
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
    let told = text(&output.stderr);
    if told.is_empty() { output.status.to_string() } else { told }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_counted_once_wherever_they_stand() {
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
    fn a_table_is_as_wide_as_what_is_in_it() {
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
