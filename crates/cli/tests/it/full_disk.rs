//! Tests of full and read-only disks, of an unreadable state, and of clocks that go back.
//!
//! Nothing may be lost, each error must have its code, and everything must work again without the cause. A test mounts
//! small file systems in its own mount namespace, so that they disappear with its process.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use engine::{BaseFolders, BindingRequest, CallContext, Caller};
use memory::clock::{Clock, Timestamp};
use memory::path::{Layout, MemoryPath};
use memory::screen::Screen;
use serde_json::{Value, json};
use state::SqliteState;
use store::{Binding, Store, StoreSettings};
use testkit::{delay_fault, eventually};

use crate::daemon::Daemon;
use crate::sandbox::{CommandOutput, Sandbox};
use crate::served::McpServerProcess;

/// The environment variable of a process that has its own mount namespace.
const OWN_MOUNTS: &str = "LUKASA_TEST_OWN_MOUNTS";

/// Runs a test in a process that may mount: as root, or as root of a user namespace.
pub(crate) fn with_own_mounts(test: &str, body: impl FnOnce()) {
    if std::env::var_os(OWN_MOUNTS).is_some() {
        return body();
    }
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let mut unshare = Command::new("unshare");
    unshare.args(if is_root { &["-m"][..] } else { &["-r", "-m"][..] });
    unshare.arg(std::env::current_exe().unwrap());
    unshare.args([test, "--exact", "--nocapture"]).env(OWN_MOUNTS, "1");
    let ended = unshare.output().expect("`unshare` of util-linux is needed");
    assert!(
        ended.status.success(),
        "either the test failed, or this host lets nobody mount (neither root nor a user \
         namespace)\n{}{}",
        String::from_utf8_lossy(&ended.stdout),
        String::from_utf8_lossy(&ended.stderr)
    );
    let ran = String::from_utf8_lossy(&ended.stdout).contains("1 passed");
    assert!(ran, "`{test}` is the name of no test");
}

pub(crate) fn mount(args: &[&str], at: &Path) {
    let ended = Command::new("mount").args(args).arg(at).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

/// Mounts a small file system.
fn small_disk(at: &Path, kilobytes: usize) {
    fs::create_dir_all(at).unwrap();
    mount(&["-t", "tmpfs", "-o", &format!("size={kilobytes}k,mode=700"), "tmpfs"], at);
}

/// Fills a disk to its last byte.
fn fill(disk: &Path) {
    let mut filler = fs::File::create(disk.join(".filler")).unwrap();
    let full = (0..100_000).any(|_| filler.write_all(&[b'x'; 4096]).is_err());
    assert!(full, "the disk never gets full");
}

fn free(disk: &Path) {
    fs::remove_file(disk.join(".filler")).unwrap();
}

/// Returns the status and the code of a command that failed with `--json`.
fn code(ended: &CommandOutput) -> (i32, String) {
    let error: Value = serde_json::from_str(&ended.stderr)
        .unwrap_or_else(|error| panic!("{error}: {:?}", ended.stderr));
    (ended.status, error["error"]["code"].as_str().unwrap().to_owned())
}

fn large() -> String {
    // A text that does not compress well, so that history needs room too.
    let numbers = (1_u64..6_000).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 100_000_000);
    numbers.map(|number| ["- ", &number.to_string(), "\n"].concat()).collect()
}

/// Fills the disk at a folder of the home and checks the effects. Existing memories stay readable, writes are refused
/// completely, and with free space everything works again.
fn check_full(disk: &str, kilobytes: usize) {
    let place = Sandbox::new();
    let disk = place.home().join(disk);
    small_disk(&disk, kilobytes);
    place.create("global/kept.md", "kept\n");
    place.create("global/edited.md", "before\n");
    fill(&disk);
    let full = (6, "storage_full".to_owned());
    let ended = place.run_command(
        place.lukasa(&["create", "global/new.md", "-", "--json"]).write_stdin(large()),
    );
    assert_eq!(code(&ended), full, "create: {}", ended.stderr);
    let mut served = McpServerProcess::start(&place);
    let answer = served.call(&json!({
        "command": "insert", "path": "/memories/global/edited.md", "insert_line": 0,
        "insert_text": large(),
    }));
    assert_eq!(answer.code, "storage_full", "insert: {}", answer.text);
    assert_eq!(place.view("global/kept.md"), "kept\n");
    assert_eq!(place.view("global/edited.md"), "before\n");
    free(&disk);
    // The server that had the errors continues, and other processes work too.
    served.create("/memories/global/new.md", "new\n");
    served.done(&json!({
        "command": "str_replace", "path": "/memories/global/edited.md", "old_str": "before",
        "new_str": "after",
    }));
    served.close_input();
    let texts = ["kept", "edited", "new"].map(|name| place.view(&format!("global/{name}.md")));
    assert_eq!(texts, ["kept\n", "after\n", "new\n"]);
    assert_eq!(place.run_ok(&["log", "--json"]).lines().count(), 4, "history has what was done");
    place.check_healthy();
}

#[test]
fn a_full_disk_under_the_memories_loses_nothing() {
    with_own_mounts("full_disk::a_full_disk_under_the_memories_loses_nothing", || {
        check_full("memory", 256);
    });
}

#[test]
fn a_full_disk_under_the_state_loses_nothing() {
    with_own_mounts("full_disk::a_full_disk_under_the_state_loses_nothing", || {
        check_full("state", 4_096);
    });
}

#[test]
fn a_full_disk_under_both_loses_nothing() {
    with_own_mounts("full_disk::a_full_disk_under_both_loses_nothing", || check_full("", 4_096));
}

/// Fills a disk except for `pages` pages.
fn fill_but(disk: &Path, pages: u64) {
    fill(disk);
    let filler = fs::File::options().write(true).open(disk.join(".filler")).unwrap();
    filler.set_len(filler.metadata().unwrap().len() - pages * 4096).unwrap();
}

/// Waits until the daemon no longer reports a task as running.
fn wait_until_not_running(daemon: &Daemon, task: &Value) {
    let path = format!("/workspace/memory/remember/{}", task["taskId"].as_str().unwrap());
    eventually(|| {
        let task = daemon.get(&path).json();
        if task["status"] == "running" { Err(task) } else { Ok(()) }
    });
}

#[test]
fn a_full_disk_under_the_state_leaves_no_task_running() {
    with_own_mounts("full_disk::a_full_disk_under_the_state_leaves_no_task_running", || {
        let place = Sandbox::new();
        let disk = place.home().join("state");
        small_disk(&disk, 4_096);
        let daemon = Daemon::start(&place);
        assert_eq!(daemon.get("/health?deep=1").status, 200);
        daemon.task("remember", &json!({ "content": "I like tea in the morning." }));
        let mut taken = Vec::new();
        for pages in [0, 4, 8, 12, 16, 24] {
            fill_but(&disk, pages);
            let content = format!("I like the number {pages} best.");
            let asked = daemon.post("/workspace/memory/remember", &json!({ "content": content }));
            match asked.status {
                202 => taken.push(asked.json()),
                status => {
                    let code = asked.json()["code"].clone();
                    assert_eq!((status, code), (507, json!("storage_full")), "{}", asked.text());
                }
            }
            // The queued task gets time to start before the disk has more room.
            delay_fault(Duration::from_millis(100));
            for task in &taken {
                wait_until_not_running(&daemon, task);
            }
        }
        assert!(!taken.is_empty(), "no task was taken: there was no room for one at all");
        fill(&disk);
        let health = daemon.get("/health?deep=1");
        assert_eq!((health.status, &health.json()["code"]), (503, &json!("degraded")));
        let findings = health.json()["findings"].clone();
        let kinds: Vec<_> = findings.as_array().unwrap().iter().map(|one| &one["kind"]).collect();
        assert!(kinds.contains(&&json!("disk-full")), "{findings}");

        // With free space the waiting tasks are done without a new request.
        free(&disk);
        for task in taken {
            let done = daemon.finished("remember", task["taskId"].as_str().unwrap(), None);
            let outcome = (&done["status"], &done["error"]["cause"]);
            let is_told = outcome == (&json!("completed"), &Value::Null)
                || outcome == (&json!("failed"), &json!("storage_full"));
            assert!(is_told, "{done}");
        }
        let health = daemon.get("/health?deep=1");
        assert_eq!(health.status, 200, "{}", health.text());
    });
}

#[test]
fn a_read_only_root_can_be_viewed() {
    with_own_mounts("full_disk::a_read_only_root_can_be_viewed", || {
        let place = Sandbox::new();
        let root = place.home().join("memory");
        small_disk(&root, 256);
        place.create("global/kept.md", "kept\n");
        mount(&["-o", "remount,ro"], &root);
        let ended = place.run(&["create", "global/new.md", "x", "--json"]);
        assert_eq!(code(&ended), (4, "read_only".to_owned()), "{}", ended.stderr);
        let ended = place.run(&["rm", "-y", "global/kept.md", "--json"]);
        assert_eq!(code(&ended), (4, "read_only".to_owned()), "{}", ended.stderr);
        assert_eq!(place.view("global/kept.md"), "kept\n");
        mount(&["-o", "remount,rw"], &root);
        place.create("global/new.md", "new\n");
        assert_eq!(place.view("global/kept.md"), "kept\n");
        assert_eq!(place.run_ok(&["log", "--json"]).lines().count(), 2);
        place.check_healthy();
    });
}

#[test]
fn a_limit_on_the_size_of_files_fails_a_write_and_loses_nothing() {
    let place = Sandbox::with(&[("global/kept.md", "kept\n")]);
    // If the signal is ignored, the write fails; otherwise the signal kills the process during the write.
    for ignore in ["trap '' XFSZ;", ""] {
        let limited = format!("{ignore} ulimit -f 40; exec \"$0\" create global/new.md - --json");
        let mut command = place.program("sh");
        command.args(["-c", &limited, env!("CARGO_BIN_EXE_lukasa")]);
        let mut command = assert_cmd::Command::from_std(command);
        let ended = place.run_command(command.write_stdin(large()));
        if ignore.is_empty() {
            assert_eq!(ended.status, -1, "killed: {}", ended.stderr);
        } else {
            let (status, code) = code(&ended);
            assert_eq!(status, 6, "{}", ended.stderr);
            assert_eq!(code, "storage_full", "{}", ended.stderr);
        }
        assert_eq!(place.view("global/kept.md"), "kept\n");
    }
    place.create("global/after.md", "after\n");
    assert_eq!(place.view("global/kept.md"), "kept\n");
    place.check_healthy();
}

#[test]
fn a_state_that_cannot_be_opened_leaves_memories_to_be_viewed() {
    let place = Sandbox::with(&[("global/kept.md", "kept\n")]);
    let state = place.home().join("state/lukasa.db");
    let aside = place.home().join("state/aside.db");
    fs::rename(&state, &aside).unwrap();
    fs::create_dir(&state).unwrap();
    let ended = place.run(&["create", "global/new.md", "x", "--json"]);
    assert_eq!(code(&ended), (6, "storage_failed".to_owned()), "{}", ended.stderr);
    assert!(ended.stderr.contains("lukasa doctor"), "it says what to do: {}", ended.stderr);
    assert_eq!(place.view("global/kept.md"), "kept\n");
    let doctor = place.run(&["doctor"]);
    assert_eq!(doctor.status, 1, "{}", doctor.stdout);
    assert!(doctor.stdout.contains("state-unavailable"), "{}", doctor.stdout);
    fs::remove_dir(&state).unwrap();
    fs::rename(&aside, &state).unwrap();
    place.create("global/new.md", "new\n");
    assert_eq!(place.run_ok(&["log", "--json"]).lines().count(), 2);
    place.check_healthy();
}

/// A clock that shows the first of January 2100.
#[derive(Debug)]
struct FarFutureClock;

impl Clock for FarFutureClock {
    fn now(&self) -> Timestamp {
        Timestamp::constant(4_102_444_800, 0)
    }
}

#[test]
fn a_clock_that_went_back_loses_nothing() {
    let place = Sandbox::new();
    let folders = BaseFolders { data: place.home(), state: place.home().join("state") };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::new(
            Arc::new(SqliteState::new(folders.state.join("lukasa.db"))),
            folders.clone(),
            Screen::default(),
            Arc::new(FarFutureClock),
            StoreSettings::default(),
        );
        let binding = Binding::resolve(&BindingRequest::default(), &folders);
        let memories = store.memories(binding, Caller::person("cli"));
        let path = MemoryPath::parse("/memories/global/a.md", Layout::Scoped).unwrap();
        let create = memory::command::MemoryCommand::Create {
            path,
            file_text: "written in 2100\n".to_owned(),
        };
        memories.apply(create, &CallContext::default()).await.unwrap();
        store.close().await;
    });
    place.run_ok(&["replace", "global/a.md", "2100", "this year"]);
    let log = place.run_ok(&["log", "--json"]);
    let kinds: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["kind"].clone())
        .collect();
    assert_eq!(kinds, ["edit", "create"], "newest first is by the order of changes");
    place.run_ok(&["undo", "2", "--yes"]);
    assert_eq!(place.view("global/a.md"), "written in 2100\n");
    place.check_healthy();
}
