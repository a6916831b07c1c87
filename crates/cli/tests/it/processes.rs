//! Tests of several processes on one root at the same time, and of signals that end a process while it writes.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use memory::change::DatabaseId;

use serde_json::json;
use store::backend::local::{LocalBackend, Privacy, RootDir};
use store::backend::{Backend, RootLock};
use testkit::{delay_fault, eventually};
use tokio::runtime::Runtime;

use crate::sandbox::Sandbox;
use crate::served::McpServerProcess;

const SHARED: &str = "/memories/project/shared.md";

fn insert(line: &str) -> serde_json::Value {
    json!({ "command": "insert", "path": SHARED, "insert_line": 0, "insert_text": line })
}

/// Returns the lines of the shared memory, and checks that each occurs once.
fn lines(place: &Sandbox) -> BTreeSet<String> {
    let text = place.view("project/shared.md");
    let lines: BTreeSet<_> = text.lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), text.lines().count(), "a line is there twice");
    lines
}

/// Returns the child processes of a process, including ended ones that it has not reaped.
pub(crate) fn children_of(parent: u32) -> Vec<u32> {
    let mut children = Vec::new();
    for entry in fs::read_dir("/proc").unwrap() {
        let name = entry.unwrap().file_name();
        let Ok(id) = name.to_string_lossy().parse::<u32>() else { continue };
        if stat(id).is_some_and(|(of, _)| of == parent) {
            children.push(id);
        }
    }
    children
}

/// Returns the parent and the process group of a process; `None` if there is none.
pub(crate) fn stat(id: u32) -> Option<(u32, u32)> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name in parentheses may contain any character.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(1);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// The file lock of the global root, held like by a writing process until it is dropped.
pub(crate) fn hold_root(place: &Sandbox) -> (Box<dyn RootLock>, Runtime) {
    let root = RootDir::new(place.home(), &["memory"], Privacy::Private);
    let backend = LocalBackend::new(root, lock_file(place));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let held = runtime.block_on(backend.lock(DatabaseId::NONE, Duration::from_secs(10))).unwrap();
    (held, runtime)
}

/// The locks of a state folder, by purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locks {
    Roots,
    Lanes,
}

/// Acquires locks as a writing process does; they are released when dropped.
pub(crate) fn hold_locks(place: &Sandbox, which: Locks) -> Vec<File> {
    let locks = fs::read_dir(place.home().join("state/locks")).unwrap();
    let paths = locks.map(|lock| lock.unwrap().path());
    let is_of_lane = |path: &PathBuf| path.to_string_lossy().contains("/lane-");
    let held = paths.filter(|path| is_of_lane(path) == (which == Locks::Lanes)).map(|path| {
        let file = File::options().write(true).open(path).unwrap();
        file.lock().unwrap();
        file
    });
    held.collect()
}

/// Returns the lock file of the only root that was written to.
pub(crate) fn lock_file(place: &Sandbox) -> PathBuf {
    let locks = fs::read_dir(place.home().join("state/locks")).unwrap();
    let locks: Vec<_> = locks.map(|lock| lock.unwrap().path()).collect();
    let [lock] = &locks[..] else { panic!("one root was written to: {locks:?}") };
    lock.clone()
}

#[test]
fn the_command_line_and_two_servers_share_a_root() {
    let place = Sandbox::with(&[("project/shared.md", "")]);
    std::thread::scope(|scope| {
        for server in 0..2 {
            let place = &place;
            scope.spawn(move || {
                let mut served = McpServerProcess::start(place);
                for number in 0..100 {
                    served.done(&insert(&format!("server {server}, {number}")));
                }
                served.close_input();
            });
        }
        let place = &place;
        scope.spawn(move || {
            for number in 0..20 {
                let line = format!("person, {number}");
                place.run_ok(&["insert", "project/shared.md", "0", &line]);
            }
        });
    });
    let servers = (0..2).flat_map(|s| (0..100).map(move |number| format!("server {s}, {number}")));
    let expected: BTreeSet<_> =
        servers.chain((0..20).map(|number| format!("person, {number}"))).collect();
    assert_eq!(lines(&place), expected);
    assert_eq!(place.run_ok(&["log", "--json", "-n", "1000"]).lines().count(), 221);
    place.check_healthy();
}

#[test]
fn a_server_sees_at_once_what_another_process_wrote() {
    let place = Sandbox::new();
    let (mut one, mut two) = (McpServerProcess::start(&place), McpServerProcess::start(&place));
    for number in 0..20 {
        let path = format!("/memories/global/{number}.md");
        one.create(&path, "by one\n");
        let again = json!({ "command": "create", "path": path, "file_text": "by two\n" });
        assert_eq!(two.call(&again).code, "already_exists");
        two.done(&json!({
            "command": "str_replace", "path": path, "old_str": "by one", "new_str": "by two",
        }));
        let rename = json!({
            "command": "rename", "old_path": path,
            "new_path": format!("/memories/global/done/{number}.md"),
        });
        one.done(&rename);
        assert_eq!(two.call(&rename).code, "not_found");
        assert_eq!(place.view(&format!("global/done/{number}.md")), "by two\n");
    }
    one.close_input();
    two.close_input();
    place.check_healthy();
}

#[test]
fn a_root_that_is_locked_too_long_is_reported() {
    let place = Sandbox::with(&[("global/a.md", "a\n")]);
    let mut served = McpServerProcess::start(&place);
    let (mut held, runtime) = hold_root(&place);
    // It has written, so the lock file names its process.
    runtime.block_on(held.begin()).unwrap();
    runtime.block_on(held.end(None)).unwrap();
    let pid = std::process::id();
    let status = place.run_ok(&["status"]);
    assert!(status.contains(&format!("locked by another process (pid {pid})")), "{status}");
    assert_eq!(place.view("global/a.md"), "a\n", "reading needs no lock");
    // Both wait at the same time.
    let edit = json!({
        "command": "insert", "path": "/memories/global/a.md", "insert_line": 0, "insert_text": "x",
    });
    served.ask(&edit);
    let ended = place.run(&["create", "global/b.md", "b"]);
    assert_eq!(ended.status, 75, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("`lukasa status` shows the process that holds"),
        "{}",
        ended.stderr
    );
    assert_eq!(served.answer().code, "locked");
    drop(held);
    served.done(&edit);
    served.close_input();
    assert_eq!(place.view("global/a.md"), "x\na\n");
    place.check_healthy();
}

#[test]
fn a_signal_during_writes_ends_a_server_cleanly() {
    for signal in ["INT", "TERM"] {
        let place = Sandbox::with(&[("project/shared.md", "")]);
        let mut served = McpServerProcess::start(&place);
        let asked: Vec<_> = (0..100)
            .map(|number| {
                let line = format!("line {number}");
                (served.ask(&insert(&line)), line)
            })
            .collect();
        let mut answers: Vec<_> = (0..10).map(|_| served.answer()).collect();
        served.signal(signal);
        let (status, rest) = served.end();
        assert!(status.success(), "{signal}: {status}");
        answers.extend(rest);
        assert!(answers.iter().all(|answer| answer.code == "ok"), "{answers:?}");
        let done: BTreeSet<u64> = answers.iter().map(|answer| answer.id).collect();
        let acknowledged: BTreeSet<_> =
            asked.into_iter().filter(|(id, _)| done.contains(id)).map(|(_, line)| line).collect();
        // It answers every write that it did, so the files equal the acknowledged writes.
        assert_eq!(lines(&place), acknowledged, "{signal}");
        let lock = fs::read_to_string(lock_file(&place)).unwrap();
        assert!(lock.contains(" resting "), "{lock}");
        place.check_healthy();
    }
}

#[test]
fn a_signal_leaves_the_write_of_a_command_complete_or_absent() {
    let place = Sandbox::with(&[("project/shared.md", "")]);
    let text = "- a line of some length\n".repeat(2_000);
    for (round, signal) in (0..40).zip(["INT", "TERM"].into_iter().cycle()) {
        let path = format!("project/{round}.md");
        let mut command = place.command(&["create", &path, &text]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        // The signal comes at moments from before the start to after the end.
        delay_fault(Duration::from_millis(round));
        let pid = child.id().to_string();
        let sent = place.program("kill").args(["-s", signal, &pid]).status().unwrap();
        assert!(sent.success());
        let ended = child.wait().unwrap();
        let file = place.checkout().join(".lukasa/memory").join(format!("{round}.md"));
        let found = fs::read_to_string(file).ok();
        assert!(found.is_none() || found.as_ref() == Some(&text), "{path} is torn");
        if ended.success() {
            assert_eq!(found, Some(text.clone()), "{path} was acknowledged");
        }
    }
    let left_over: Vec<_> = fs::read_dir(place.checkout().join(".lukasa/memory"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with('.'))
        .collect();
    assert_eq!(left_over, [""; 0]);
    place.run_ok(&["insert", "project/shared.md", "0", "after"]);
    place.check_healthy();
}

#[test]
fn a_signal_leaves_an_import_complete_or_absent() {
    let place = Sandbox::new();
    let count = 600;
    fs::write(place.home().join("config.toml"), "files_max = 100000\n").unwrap();
    let source = place.path().join("source");
    fs::create_dir(&source).unwrap();
    for number in 0..count {
        fs::write(source.join(format!("{number}.md")), format!("- fact {number}\n")).unwrap();
    }
    let mut finished_late = 0;
    for round in 0..6 {
        let target = format!("global/{round}");
        let folder = place.home().join("memory").join(round.to_string());
        let mut command = place.command(&["import"]);
        command.arg(&source).args(["--to", &target]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        if round % 2 == 0 {
            // In the middle of the commit, when its first files exist.
            eventually(|| {
                let is_over = child.try_wait().unwrap().is_some() || fs::read_dir(&folder).is_ok();
                is_over.then_some(()).ok_or("no file of the import is there")
            });
        } else {
            delay_fault(Duration::from_millis(round * 40));
        }
        let pid = child.id().to_string();
        // It may have ended already.
        place.program("kill").args(["-s", "INT", &pid]).stderr(Stdio::null()).status().unwrap();
        let status = child.wait().unwrap().code();
        let found = fs::read_dir(&folder).map_or(0, Iterator::count);
        // A signal before the handler is installed ends it by default.
        assert!(matches!(status, Some(130 | 0)) || (status.is_none() && found == 0), "{status:?}");
        assert!(found == 0 || found == count, "round {round}: {found} of {count} files");
        finished_late += usize::from(status == Some(130) && found == count);
    }
    assert!(finished_late > 0, "no signal came while files were being written");
    place.check_healthy();
}
