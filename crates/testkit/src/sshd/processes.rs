//! The processes of a server, found by their parents and by a variable of their environment.
//!
//! A session leaves the process group of the server. What a session started may leave the session and lose its parent.

use std::collections::BTreeSet;
use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// A process that runs.
struct Process {
    id: u32,
    parent: u32,
}

/// Returns the server, the processes that have this entry in their environment, and the descendants of all of them.
pub(super) fn of_server(server: Option<u32>, mark: &str) -> BTreeSet<u32> {
    let entries = fs::read_dir("/proc").expect("/proc is mounted");
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let running: Vec<_> = ids.filter_map(process).collect();
    let roots = running.iter().filter(|process| {
        Some(process.id) == server || has_in_environment(process.id, mark.as_bytes())
    });
    let mut found: BTreeSet<u32> = roots.map(|process| process.id).collect();
    loop {
        let children = running.iter().filter(|process| found.contains(&process.parent));
        let children: Vec<_> = children.map(|process| process.id).collect();
        let count = found.len();
        found.extend(children);
        if found.len() == count {
            return found;
        }
    }
}

/// Checks whether the process exists and has not ended.
pub(super) fn is_running(id: u32) -> bool {
    process(id).is_some()
}

/// Sends a signal to processes, which may have ended.
pub(super) fn signal(ids: &BTreeSet<u32>, signal: Signal) {
    for id in ids {
        let id = i32::try_from(*id).ok().and_then(Pid::from_raw);
        // Another error is not possible: they are processes of this user, or root sends the signal.
        let _ended = kill_process(id.expect("it is the id of a process"), signal);
    }
}

/// Reads the state of a process; `None` if there is no such process or it has ended.
fn process(id: u32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name before may have spaces and brackets.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(Process { id, parent })
}

/// Checks for an entry of the environment. That of a process of another user cannot be read and does not count.
fn has_in_environment(id: u32, entry: &[u8]) -> bool {
    let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|each| each == entry)
}
