//! Files and folders that this person may not read or write, for people who are not root: every
//! command says what cannot be used, nothing is lost, and all other memories are served.
//!
//! As root the tests run the program as somebody else; permissions do not bind root.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::place::{Ended, Place};
use crate::served::Served;

/// Somebody whom no machine knows.
const SOMEBODY: u32 = 23_456;

/// A place of somebody who is not root.
struct Person {
    place: Place,
    program: PathBuf,
    /// Whether the tests run as root, so that the program must not.
    is_root: bool,
}

impl Person {
    fn new() -> Self {
        let place = Place::new();
        let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
        if is_root {
            give(place.path(), SOMEBODY);
        }
        // Where the tests were built, somebody else may not look.
        let program = place.path().join("quipu");
        fs::copy(env!("CARGO_BIN_EXE_quipu"), &program).unwrap();
        let person = Self { place, program, is_root };
        for (path, text) in
            [("global/a.md", "the a\n"), ("global/d/b.md", "the b\n"), ("project/p.md", "the p\n")]
        {
            assert_eq!(person.run(&["create", path, text]).status, 0);
        }
        person
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.place.program(self.program.to_str().unwrap());
        command.args(args);
        if self.is_root {
            command.uid(SOMEBODY).gid(SOMEBODY);
        }
        command
    }

    fn run(&self, args: &[&str]) -> Ended {
        self.place.end(&mut assert_cmd::Command::from_std(self.command(args)))
    }

    fn done(&self, args: &[&str]) -> String {
        let ended = self.run(args);
        assert_eq!(ended.status, 0, "{args:?}: {}", ended.shown());
        ended.stdout
    }

    /// Runs what the machine must fail at, and says so in a way that helps.
    fn fails(&self, args: &[&str]) {
        let ended = self.run(&[args, &["--json"]].concat());
        let last = ended.stderr.lines().last().unwrap_or_default();
        let error: Value =
            serde_json::from_str(last).unwrap_or_else(|_| panic!("{args:?}: {}", ended.shown()));
        assert_eq!((ended.status, &error["error"]["code"]), (6, &json!("storage_failed")));
        let what = error["error"]["message"].as_str().unwrap().to_lowercase();
        let tells_why = ["denied", "check its folder and permissions"];
        assert!(tells_why.iter().any(|why| what.contains(why)), "{args:?}: {what}");
    }

    fn served(&self) -> Served {
        Served::start_as(self.command(&["mcp", "--workspace-id", "w"]))
    }

    /// Tells what a model is told.
    fn tells_a_model(&self, call: &Value, code: &str) {
        let mut served = self.served();
        let answer = served.call(call);
        assert_eq!(answer.code, code, "{call}: {}", answer.text);
        let place = self.place.path().to_str().unwrap();
        assert!(!answer.text.contains(place), "it shows a physical path: {}", answer.text);
        served.leave();
    }

    /// Asserts that `doctor` finds this.
    fn needs_attention(&self, finding: &str) {
        let ended = self.run(&["doctor"]);
        assert_eq!(ended.status, 1, "{}", ended.shown());
        assert!(ended.stdout.contains(finding), "{}", ended.shown());
    }

    fn home(&self, below: &str) -> PathBuf {
        self.place.home().join(below)
    }

    /// Asserts that all is as it was laid out, and that everything works.
    fn is_whole(&self) {
        for (path, text) in
            [("global/a.md", "the a\n"), ("global/d/b.md", "the b\n"), ("project/p.md", "the p\n")]
        {
            assert_eq!(self.done(&["view", path]), text);
        }
        let log = self.done(&["log", "--json"]);
        assert!(log.lines().all(|line| line.contains(r#""kind":"create""#)), "{log}");
        assert_eq!(self.done(&["doctor"]), "nothing needs attention\n");
        self.done(&["replace", "global/a.md", "the a", "another a"]);
        self.done(&["rm", "-y", "global/d"]);
    }
}

/// Gives all of it to somebody.
fn give(path: &Path, to: u32) {
    chown(path, Some(to), Some(to)).unwrap();
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path(), to);
        }
    }
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn view(path: &str) -> Value {
    json!({ "command": "view", "path": path })
}

#[test]
fn a_memory_that_cannot_be_read_is_named_and_hides_no_other() {
    let person = Person::new();
    let file = person.home("memory/a.md");
    let mut ways: Vec<(u32, u32)> = vec![(0o000, SOMEBODY)];
    if person.is_root {
        // One that another account wrote for itself.
        ways.push((0o600, 0));
    }
    for (bits, owner) in ways {
        mode(&file, bits);
        if person.is_root {
            chown(&file, Some(owner), Some(owner)).unwrap();
        }
        person.fails(&["view", "global/a.md"]);
        person.fails(&["replace", "global/a.md", "the", "an"]);
        // What cannot be read cannot be kept in history, so it is not removed either.
        person.fails(&["rm", "global/a.md"]);
        person.fails(&["mv", "global/a.md", "global/c.md"]);
        let listed = person.done(&["ls"]);
        assert_eq!(listed.lines().count(), 3, "{listed}");
        let grep = person.run(&["grep", "the"]);
        assert_eq!(grep.stdout, "global/d/b.md:the b\nproject/p.md:the p\n");
        assert!(grep.stderr.contains("`global/a.md` was not searched"), "{}", grep.stderr);
        person.needs_attention("unreadable global/a.md");
        person.tells_a_model(&view("/memories/global/a.md"), "storage_failed");
        let delete = json!({ "command": "delete", "path": "/memories/global/a.md" });
        person.tells_a_model(&delete, "storage_failed");
        person.tells_a_model(&view("/memories/global/d/b.md"), "ok");
        person.tells_a_model(&view("/memories"), "ok");
    }
    if person.is_root {
        give(&file, SOMEBODY);
    }
    mode(&file, 0o600);
    person.is_whole();
}

#[test]
fn a_root_that_cannot_be_written_is_served_for_reading() {
    let person = Person::new();
    let root = person.home("memory");
    mode(&root, 0o500);
    mode(&root.join("d"), 0o500);
    for refused in [
        &["create", "global/new.md", "x"][..],
        &["create", "global/new/deep.md", "x"],
        &["replace", "global/a.md", "the", "an"],
        &["rm", "global/a.md"],
        &["rm", "-y", "global/d"],
        &["mv", "global/a.md", "global/c.md"],
        &["mv", "global/d", "global/e"],
    ] {
        person.fails(refused);
    }
    let create = json!({ "command": "create", "path": "/memories/global/n.md", "file_text": "x" });
    person.tells_a_model(&create, "storage_failed");
    assert_eq!(person.done(&["view", "global/a.md"]), "the a\n");
    assert_eq!(person.done(&["view", "global/d/b.md"]), "the b\n");
    person.done(&["create", "project/q.md", "the q\n"]);
    person.needs_attention("unwritable global");
    mode(&root.join("d"), 0o700);
    mode(&root, 0o700);
    person.is_whole();
}

#[test]
fn a_state_that_cannot_be_written_or_read_leaves_memories_to_be_viewed() {
    let person = Person::new();
    let (state, database) = (person.home("state"), person.home("state/quipu.db"));
    for (folder_bits, file_bits) in [(0o500, 0o400), (0o000, 0o600), (0o700, 0o000)] {
        mode(&database, file_bits);
        mode(&state, folder_bits);
        assert_eq!(person.done(&["view", "global/a.md"]), "the a\n");
        assert_eq!(person.done(&["ls"]).lines().count(), 3);
        assert_eq!(person.done(&["grep", "the"]).lines().count(), 3);
        person.fails(&["create", "global/new.md", "x"]);
        person.fails(&["replace", "project/p.md", "the", "a"]);
        person.fails(&["rm", "-y", "global/d"]);
        person.fails(&["pin", "global/a.md"]);
        person.fails(&["log"]);
        // It is not damaged, so nothing is set aside.
        person.needs_attention("state-unavailable");
        person.fails(&["doctor", "--fix"]);
        person.tells_a_model(&view("/memories/global/a.md"), "ok");
        let delete = json!({ "command": "delete", "path": "/memories/global/a.md" });
        person.tells_a_model(&delete, "storage_failed");
        mode(&state, 0o700);
        mode(&database, 0o600);
    }
    let names = fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().file_name());
    let aside = names.filter(|name| name.to_string_lossy().contains("damaged")).count();
    assert_eq!(aside, 0, "a state that could not be opened was set aside");
    person.is_whole();
}

#[test]
fn pins_in_a_folder_that_cannot_be_looked_into_are_kept() {
    let person = Person::new();
    person.done(&["pin", "global/d/b.md"]);
    let folder = person.home("memory/d");
    mode(&folder, 0o000);
    person.fails(&["view", "global/d/b.md"]);
    person.fails(&["create", "global/d/n.md", "x"]);
    person.fails(&["rm", "-y", "global/d"]);
    assert_eq!(person.done(&["ls"]).lines().count(), 2);
    person.needs_attention("unreadable global: d");
    let fixed = person.run(&["doctor", "--fix"]);
    assert!(!fixed.stdout.contains("forgot"), "{}", fixed.shown());
    mode(&folder, 0o700);
    let listed = person.done(&["ls", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let pinned = listed["memories"].as_array().unwrap().iter().filter(|one| one["pinned"] == true);
    assert_eq!(pinned.map(|one| &one["path"]).collect::<Vec<_>>(), ["/memories/global/d/b.md"]);
    person.is_whole();
}

#[test]
fn a_root_that_cannot_be_read_hides_no_other() {
    let person = Person::new();
    let root = person.home("memory");
    mode(&root, 0o000);
    person.fails(&["view", "global/a.md"]);
    person.fails(&["create", "global/n.md", "x"]);
    let listed = person.done(&["ls"]);
    assert!(listed.starts_with("project/p.md\t") && listed.lines().count() == 1, "{listed}");
    person.needs_attention("root-refused global");
    person.done(&["create", "project/q.md", "the q\n"]);
    person.tells_a_model(&view("/memories"), "ok");
    person.tells_a_model(&view("/memories/project/p.md"), "ok");
    mode(&root, 0o700);
    person.is_whole();
}

#[test]
fn a_home_of_somebody_else_is_not_touched() {
    let person = Person::new();
    let (home, mine) = (person.place.home(), person.place.path().join("mine"));
    fs::rename(&home, &mine).unwrap();
    fs::create_dir(&home).unwrap();
    // As root it is root's; else a folder of our own stands for it, closed to ourselves.
    let (readable, closed) = if person.is_root { (0o755, 0o700) } else { (0o555, 0o000) };
    mode(&home, readable);
    assert_eq!(person.done(&["view", "project/p.md"]), "the p\n");
    assert_eq!(person.done(&["ls"]).lines().count(), 1);
    person.fails(&["create", "global/n.md", "x"]);
    person.fails(&["replace", "project/p.md", "the", "a"]);
    person.needs_attention("unwritable");
    assert_eq!(fs::read_dir(&home).unwrap().count(), 0);
    // Settings that cannot be read may say anything: screening, limits. So nothing is done.
    mode(&home, closed);
    for command in [&["ls"][..], &["view", "project/p.md"], &["create", "project/n.md", "x"]] {
        let ended = person.run(command);
        let said =
            "error: cannot read the settings `<place>/home/config.toml`: permission denied\n";
        assert_eq!((ended.status, ended.stderr.as_str()), (6, said));
    }
    mode(&home, 0o700);
    fs::remove_dir(&home).unwrap();
    fs::rename(&mine, &home).unwrap();
    person.is_whole();
}
