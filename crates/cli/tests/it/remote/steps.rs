//! Tests that end one side, or both, at each step of a write.
//!
//! A relay in the test stands between the two sides, behind the real `ssh`. It passes call after call, and knows when the
//! far side has carried one out. So a process can be ended exactly before a step, or after it and before its answer.

use std::fs::{self, File};
use std::io::{Read, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use serde_json::json;
use testkit::eventually;

use super::setup::{ADDRESS, RemoteSetup, run_ok};
use crate::sandbox::Sandbox;
use crate::served::McpServerProcess;

/// The line before the first message of the far side.
const MARK: &[u8] = b"\nlukasa backend\n";

/// The first bytes of the messages, as `store` defines them.
const CALL: u8 = 0;
const REPLY: u8 = 2;
const LOCK: u8 = 10;
const WRITE: u8 = 11;
const BEGIN: u8 = 9;
const UNLOCK: u8 = 11;

/// The fewest steps of a write: the lock, the start, a file, the end and the release of the lock.
const STEPS_MIN: usize = 5;

/// The processes that end at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The process here.
    Near,
    /// The process there, before the step.
    Far,
    /// The process there, after the step and before its answer.
    FarUnanswered,
    /// Both, before the step.
    Both,
}

/// The way in which the memory is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteKind {
    /// By a server, which goes on if it lives.
    Edit,
    Rename,
    /// Of several memories, by a command.
    Import,
}

/// The relay of one connection.
struct Relay {
    from_near: File,
    to_far: Option<ChildStdin>,
    far: Child,
    /// The number of calls that were passed on, and that the far side answered.
    passed: u64,
    answered: Arc<AtomicU64>,
    /// The number of the call whose answer is kept back; no call has the number 0.
    withheld: Arc<AtomicU64>,
    back: JoinHandle<()>,
}

/// Reads a message with its length; `None` at the end.
fn read_frame(input: &mut impl Read) -> Option<Vec<u8>> {
    let mut frame = vec![0; 4];
    input.read_exact(&mut frame).ok()?;
    let length = u32::from_le_bytes([frame[0], frame[1], frame[2], frame[3]]);
    frame.resize(4 + length as usize, 0);
    input.read_exact(&mut frame[4..]).ok()?;
    Some(frame)
}

/// Returns the kinds of a call: its operation, and the step of a write.
fn operation(frame: &[u8]) -> (u8, Option<u8>) {
    // The numbers of the call and its root come first. The last byte of each has no high bit.
    let mut rest = frame[5..].iter().copied();
    for _ in 0..2 {
        rest.find(|byte| byte & 0x80 == 0);
    }
    (rest.next().unwrap(), rest.next())
}

/// The pipes of a relay that waits for a connection.
struct Pipes {
    to: PathBuf,
    from: PathBuf,
}

impl Pipes {
    /// Installs a script there that connects its streams to these pipes.
    fn install(setup: &RemoteSetup, name: usize) -> Self {
        let path = |way: &str| setup.server.home().join(format!("pipe-{way}-{name}"));
        let pipes = Self { to: path("to"), from: path("from") };
        let made = Command::new("mkfifo").args([&pipes.to, &pipes.from]).status().unwrap();
        assert!(made.success());
        setup.install_script(&format!(
            "exec 3<&0\ncat <&3 >{} &\ncat {}\nkill $!",
            pipes.to.display(),
            pipes.from.display()
        ));
        pipes
    }

    /// Waits for the connection, and starts the real program. Later connections lead to it directly.
    fn accept(self, setup: &RemoteSetup) -> Relay {
        let from_near = File::open(&self.to).unwrap();
        let mut to_near = File::options().write(true).open(&self.from).unwrap();
        setup.install_script(&format!("exec {} \"$@\"", env!("CARGO_BIN_EXE_lukasa")));
        let mut command = setup.command_there(&["backend", "--stdio"]);
        let mut far = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to_far, mut from_far) = (far.stdin.take(), far.stdout.take().unwrap());
        let (answered, withheld) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (count, kept_back) = (Arc::clone(&answered), Arc::clone(&withheld));
        let back = std::thread::spawn(move || {
            let mut mark = [0; MARK.len()];
            if from_far.read_exact(&mut mark).is_err() || to_near.write_all(&mark).is_err() {
                return;
            }
            while let Some(frame) = read_frame(&mut from_far) {
                let is_reply = frame[4] == REPLY;
                // Only the last call can be kept back, and all before it are answered.
                let is_kept_back = is_reply
                    && kept_back.load(Ordering::SeqCst) == count.load(Ordering::SeqCst) + 1;
                // The process here may be gone.
                if !is_kept_back && to_near.write_all(&frame).is_err() {
                    return;
                }
                count.fetch_add(u64::from(is_reply), Ordering::SeqCst);
            }
        });
        Relay { from_near, to_far, far, passed: 0, answered, withheld, back }
    }
}

impl Relay {
    fn pass(&mut self, frame: &[u8]) {
        self.passed += u64::from(frame[4] == CALL);
        self.to_far.as_mut().unwrap().write_all(frame).unwrap();
    }

    /// Waits until the far side has carried out all calls that were passed on.
    fn wait_until_done(&self) {
        eventually(|| {
            let answered = self.answered.load(Ordering::SeqCst);
            if answered == self.passed { Ok(()) } else { Err((answered, self.passed)) }
        });
    }

    /// Passes calls on, up to the one before this step or to the end of the write. Steps are the lock and what follows of
    /// the write, without reads. Returns the call of the step, unless the write ended before it.
    fn pass_until(&mut self, step: usize) -> Option<Vec<u8>> {
        let (mut steps, mut has_begun) = (0, false);
        loop {
            let frame = read_frame(&mut self.from_near).expect("the process here lives");
            if frame[4] == CALL {
                self.wait_until_done();
                let operation = operation(&frame);
                steps += usize::from(matches!(operation.0, LOCK | WRITE));
                if steps == step {
                    return Some(frame);
                }
                has_begun |= operation == (WRITE, Some(BEGIN));
                if has_begun && operation == (WRITE, Some(UNLOCK)) {
                    self.pass(&frame);
                    return None;
                }
            }
            self.pass(&frame);
        }
    }

    fn kill_far(&mut self) {
        self.far.kill().unwrap();
        self.far.wait().unwrap();
    }

    /// Closes the connection, and waits for the end of the far side.
    fn end(mut self) {
        drop(self.to_far.take());
        drop(self.from_near);
        self.far.wait().unwrap();
        self.back.join().unwrap();
    }
}

/// Files by their names, each with its text; `None` if it does not exist.
type Files = Vec<(String, Option<String>)>;

/// A write: the files before it and after it.
#[derive(Clone, Debug)]
struct Write {
    before: Files,
    after: Files,
}

fn are_there(setup: &RemoteSetup, files: &Files) -> bool {
    let is_there = |(name, text): &(String, Option<String>)| {
        fs::read_to_string(setup.memory(name)).ok() == *text
    };
    files.iter().all(is_there)
}

fn path(name: &str) -> String {
    format!("/memories/project/{name}")
}

/// The process here that writes.
enum Near {
    /// A server, and the number of its call.
    Server(McpServerProcess, u64),
    /// A command.
    Command(Child),
}

impl Near {
    /// Starts a write. `state` is the memory that a server edits or renames.
    fn start(setup: &RemoteSetup, kind: WriteKind, step: usize, state: &Files) -> (Self, Write) {
        let (name, text) = &state[0];
        let (head, body) = text.as_ref().unwrap().split_once('\n').unwrap();
        let call;
        let after;
        match kind {
            WriteKind::Import => return Self::import(setup, step),
            WriteKind::Rename => {
                let new = format!("{step}/moved.md");
                call = json!({
                    "command": "rename", "old_path": path(name), "new_path": path(&new),
                });
                after = vec![(new, text.clone()), (name.clone(), None)];
            }
            WriteKind::Edit => {
                let new = format!("- edited at {step}");
                call = json!({
                    "command": "str_replace", "path": path(name), "old_str": head, "new_str": new,
                });
                after = vec![(name.clone(), Some(format!("{new}\n{body}")))];
            }
        }
        let absent = after.iter().filter(|(other, _)| other != name);
        let absent = absent.map(|(other, _)| (other.clone(), None));
        let before = state[..1].iter().cloned().chain(absent).collect();
        let mut served = setup.serve();
        let asked = served.ask(&call);
        (Self::Server(served, asked), Write { before, after })
    }

    /// Starts a command that creates several memories as one change.
    fn import(setup: &RemoteSetup, step: usize) -> (Self, Write) {
        let source = setup.place.path().join(format!("source-{step}"));
        fs::create_dir(&source).unwrap();
        let name = |number: usize| format!("{number}.md");
        let text = |number: usize| format!("- fact {number} of {step}\n").repeat(60);
        for number in 0..3 {
            fs::write(source.join(name(number)), text(number)).unwrap();
        }
        let target = format!("project/{step}");
        let mut command = setup.place.command(&["--project", ADDRESS, "import", "--to", &target]);
        command.arg(source).stdout(Stdio::null()).stderr(Stdio::null());
        let file = |number| format!("{step}/{}", name(number));
        let before = (0..3).map(|number| (file(number), None)).collect();
        let after = (0..3).map(|number| (file(number), Some(text(number)))).collect();
        (Self::Command(command.spawn().unwrap()), Write { before, after })
    }

    /// Kills it. Returns whether it had acknowledged the write.
    fn kill(self) -> bool {
        match self {
            Self::Server(served, asked) => {
                served.kill().iter().any(|answer| answer.id == asked && answer.code == "ok")
            }
            Self::Command(mut child) => {
                child.kill().unwrap();
                child.wait().unwrap().success()
            }
        }
    }

    /// Waits for its answer. Returns whether it acknowledged the write, and the server to go on with.
    fn finish(self) -> (bool, Option<McpServerProcess>) {
        match self {
            Self::Server(served, asked) => {
                let answer = served.answer();
                assert_eq!(answer.id, asked);
                (answer.code == "ok", Some(served))
            }
            Self::Command(mut child) => (child.wait().unwrap().success(), None),
        }
    }
}

/// Returns another home here, whose changes have higher numbers than those of the writes of a test.
fn home_ahead(setup: &RemoteSetup) -> Sandbox {
    let home = setup.another_home();
    let mut served = McpServerProcess::start(&home);
    for number in 0..100 {
        served.create(&format!("/memories/global/{number}.md"), "- one of many\n");
    }
    served.close_input();
    home
}

/// Ends a process at each step of a write. Each next write must find complete files and a free lock.
fn check_each_step(ending: Ending, kind: WriteKind) {
    let setup = RemoteSetup::empty();
    let body = "- a line of the body\n".repeat(60);
    let mut state = vec![("first.md".to_owned(), Some(format!("- the first head\n{body}")))];
    setup.run_ok(&["create", "project/first.md", state[0].1.as_ref().unwrap()]);
    // Numbers of another database say nothing about what was interrupted here, even if they are higher.
    let ahead = (ending == Ending::Both).then(|| home_ahead(&setup));
    let (mut step, mut unfinished) = (0, 0);
    loop {
        step += 1;
        let pipes = Pipes::install(&setup, step);
        let (near, write) = Near::start(&setup, kind, step, &state);
        let mut relay = pipes.accept(&setup);
        let reached = relay.pass_until(step);
        let is_over = reached.is_none();
        if let (Some(frame), Ending::FarUnanswered) = (&reached, ending) {
            relay.withheld.store(relay.passed + 1, Ordering::SeqCst);
            relay.pass(frame);
            relay.wait_until_done();
        }
        if !is_over && ending != Ending::Near {
            relay.kill_far();
        }
        let (is_acknowledged, served);
        if !is_over && matches!(ending, Ending::Near | Ending::Both) {
            is_acknowledged = near.kill();
            served = None;
            relay.end();
        } else {
            relay.end();
            (is_acknowledged, served) = near.finish();
        }
        assert!(is_acknowledged || !is_over, "step {step}: a write without a fault failed");
        // The lock is free for others at once, and the next write here completes what was recorded.
        let there = ["create", &format!("project/there-{step}.md"), "- there\n"];
        if let Some(other) = &ahead {
            run_ok(other, &there);
        } else {
            let ended = setup.command_there(&there).output().unwrap();
            assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        }
        let is_whole = |files| are_there(&setup, files);
        unfinished += usize::from(!is_whole(&write.before) && !is_whole(&write.after));
        match served {
            Some(mut served) => {
                served.create(&path(&format!("next-{step}.md")), "- next\n");
                served.close_input();
            }
            None => drop(setup.run_ok(&["create", &format!("project/next-{step}.md"), "- next\n"])),
        }
        let (is_before, is_after) = (is_whole(&write.before), is_whole(&write.after));
        assert_ne!(is_before, is_after, "step {step}: torn, mixed or lost: {write:?}");
        assert!(is_after || !is_acknowledged, "step {step}: lost: {write:?}");
        if is_after && kind != WriteKind::Import {
            state = write.after;
        }
        if is_over {
            break;
        }
    }
    assert!(step > STEPS_MIN, "a write had only {step} steps");
    // Otherwise there was nothing to complete.
    assert!(unfinished > 0 || kind != WriteKind::Import, "no step left a part of the files");
    let mut changes = setup.check_coherent(&setup.place);
    changes.retain(|change| change["kind"] == "outside");
    // Only what was written there is from outside.
    for change in changes {
        for file in change["files"].as_array().unwrap() {
            assert!(file["path"].as_str().unwrap().contains("/there-"), "{change}");
        }
    }
}

#[test]
fn a_process_here_that_ends_at_any_step_leaves_each_write_complete_or_absent() {
    check_each_step(Ending::Near, WriteKind::Import);
}

#[test]
fn a_process_there_that_ends_before_any_step_leaves_each_write_complete_or_absent() {
    check_each_step(Ending::Far, WriteKind::Rename);
}

#[test]
fn a_process_there_that_ends_after_any_step_leaves_each_write_complete_or_absent() {
    check_each_step(Ending::FarUnanswered, WriteKind::Edit);
}

#[test]
fn both_sides_may_end_at_any_step_and_each_write_is_complete_or_absent() {
    check_each_step(Ending::Both, WriteKind::Import);
}
