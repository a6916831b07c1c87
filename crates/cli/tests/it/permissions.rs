//! Tests of files and folders that the user may not read or write.
//!
//! Every command must name the unusable file, lose nothing, and serve all other memories. Permissions do not bind root,
//! so as root the tests run the program as another user.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::daemon::{Daemon, HttpResponse, TOKEN};
use crate::sandbox::{CommandOutput, Sandbox};
use crate::served::McpServerProcess;

/// A user id that no machine uses.
const UNPRIVILEGED_UID: u32 = 23_456;

/// A sandbox of a user who is not root.
struct UnprivilegedUser {
    sandbox: Sandbox,
    program: PathBuf,
    /// Whether the tests run as root, so that the program must not.
    is_root: bool,
}

impl UnprivilegedUser {
    fn new() -> Self {
        let place = Sandbox::new();
        let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
        if is_root {
            give(place.path(), UNPRIVILEGED_UID);
        }
        // Another user may not read the build folder, so the program is copied.
        let program = place.path().join("lukasa");
        fs::copy(env!("CARGO_BIN_EXE_lukasa"), &program).unwrap();
        let person = Self { sandbox: place, program, is_root };
        for (path, text) in
            [("global/a.md", "the a\n"), ("global/d/b.md", "the b\n"), ("project/p.md", "the p\n")]
        {
            assert_eq!(person.run(&["create", path, text]).status, 0);
        }
        person
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.sandbox.program(self.program.to_str().unwrap());
        command.args(args);
        if self.is_root {
            command.uid(UNPRIVILEGED_UID).gid(UNPRIVILEGED_UID);
        }
        command
    }

    fn run(&self, args: &[&str]) -> CommandOutput {
        self.sandbox.run_command(&mut assert_cmd::Command::from_std(self.command(args)))
    }

    fn done(&self, args: &[&str]) -> String {
        let ended = self.run(args);
        assert_eq!(ended.status, 0, "{args:?}: {}", ended.shown());
        ended.stdout
    }

    /// Runs a command that must fail with a fault and a helpful message.
    fn fails(&self, args: &[&str]) {
        self.check_exit(args, (6, "storage_failed"));
    }

    /// Runs a command that must fail to write, with a helpful message.
    fn cannot_write(&self, args: &[&str]) {
        self.check_exit(args, (4, "read_only"));
    }

    fn check_exit(&self, args: &[&str], expected: (i32, &str)) {
        let ended = self.run(&[args, &["--json"]].concat());
        let last = ended.stderr.lines().last().unwrap_or_default();
        let error: Value =
            serde_json::from_str(last).unwrap_or_else(|_| panic!("{args:?}: {}", ended.shown()));
        let found = (ended.status, error["error"]["code"].as_str().unwrap());
        assert_eq!(found, expected, "{args:?}: {}", ended.shown());
        let what = error["error"]["message"].as_str().unwrap().to_lowercase();
        let tells_why = ["denied", "check its folder and permissions"];
        assert!(tells_why.iter().any(|why| what.contains(why)), "{args:?}: {what}");
    }

    fn served(&self) -> McpServerProcess {
        McpServerProcess::start_as(self.command(&["mcp", "--workspace-id", "w"]))
    }

    /// Checks the refusal that a model receives.
    fn check_tool_refusal(&self, call: &Value, code: &str) {
        let mut served = self.served();
        let answer = served.call(call);
        assert_eq!(answer.code, code, "{call}: {}", answer.text);
        let place = self.sandbox.path().to_str().unwrap();
        assert!(!answer.text.contains(place), "it shows a physical path: {}", answer.text);
        served.close_input();
    }

    /// Asserts that `doctor` reports this finding.
    fn check_finding(&self, finding: &str) {
        let ended = self.run(&["doctor"]);
        assert_eq!(ended.status, 1, "{}", ended.shown());
        assert!(ended.stdout.contains(finding), "{}", ended.shown());
    }

    fn home(&self, below: &str) -> PathBuf {
        self.sandbox.home().join(below)
    }

    /// Asserts that nothing has changed and that everything works.
    fn check_healthy(&self) {
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

/// Changes the owner of a folder and all its contents.
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
    let person = UnprivilegedUser::new();
    let file = person.home("memory/a.md");
    let mut ways: Vec<(u32, u32)> = vec![(0o000, UNPRIVILEGED_UID)];
    if person.is_root {
        // A file that another user wrote with private permissions.
        ways.push((0o600, 0));
    }
    for (bits, owner) in ways {
        mode(&file, bits);
        if person.is_root {
            chown(&file, Some(owner), Some(owner)).unwrap();
        }
        person.fails(&["view", "global/a.md"]);
        person.fails(&["replace", "global/a.md", "the", "an"]);
        // History cannot store an unreadable file, so it is not deleted either.
        person.fails(&["rm", "-y", "global/a.md"]);
        person.fails(&["mv", "global/a.md", "global/c.md"]);
        let listed = person.done(&["ls"]);
        assert_eq!(listed.lines().count(), 3, "{listed}");
        let grep = person.run(&["grep", "the"]);
        assert_eq!(grep.stdout, "global/d/b.md:the b\nproject/p.md:the p\n");
        assert!(grep.stderr.contains("`global/a.md` was not searched"), "{}", grep.stderr);
        person.check_finding("unreadable global/a.md");
        person.check_tool_refusal(&view("/memories/global/a.md"), "storage_failed");
        let delete = json!({ "command": "delete", "path": "/memories/global/a.md" });
        person.check_tool_refusal(&delete, "storage_failed");
        person.check_tool_refusal(&view("/memories/global/d/b.md"), "ok");
        person.check_tool_refusal(&view("/memories"), "ok");
    }
    if person.is_root {
        give(&file, UNPRIVILEGED_UID);
    }
    mode(&file, 0o600);
    person.check_healthy();
}

#[test]
fn facts_are_found_remembered_and_forgotten_beside_a_memory_that_cannot_be_read() {
    let person = UnprivilegedUser::new();
    let file = person.home("memory/a.md");
    mode(&file, 0o000);
    person.done(&["remember", "--scope", "global", "The sourdough rests for eleven hours."]);
    let recalled = person.done(&["recall", "how long does the sourdough rest?"]);
    assert!(recalled.contains("eleven hours"), "{recalled}");
    let event = json!({
        "hook_event_name": "UserPromptSubmit",
        "session_id": "s",
        "cwd": person.sandbox.checkout(),
        "prompt": "how long does the sourdough rest?",
    });
    let mut hook = assert_cmd::Command::from_std(person.command(&["hook", "user-prompt"]));
    let shown = person.sandbox.run_command(hook.write_stdin(event.to_string()));
    assert!(shown.stdout.contains("eleven hours"), "{}", shown.shown());
    person.done(&["dream", "-y"]);
    let forgotten = person.run(&["forget", "-y", "\"The sourdough rests for eleven hours.\""]);
    let unsearched = "Not searched, because they cannot be read: /memories/global/a.md.";
    assert!(forgotten.stderr.contains("Forgot 1 memory entry"), "{}", forgotten.shown());
    assert!(forgotten.stderr.contains(unsearched), "{}", forgotten.shown());
    mode(&file, 0o600);
    assert_eq!(person.done(&["view", "global/a.md"]), "the a\n");
}

#[test]
fn a_root_that_cannot_be_written_is_served_for_reading() {
    let person = UnprivilegedUser::new();
    let root = person.home("memory");
    mode(&root, 0o500);
    mode(&root.join("d"), 0o500);
    for refused in [
        &["create", "global/new.md", "x"][..],
        &["create", "global/new/deep.md", "x"],
        &["replace", "global/a.md", "the", "an"],
        &["rm", "-y", "global/a.md"],
        &["rm", "-y", "global/d"],
        &["mv", "global/a.md", "global/c.md"],
        &["mv", "global/d", "global/e"],
    ] {
        person.cannot_write(refused);
    }
    let create = json!({ "command": "create", "path": "/memories/global/n.md", "file_text": "x" });
    person.check_tool_refusal(&create, "read_only");
    assert_eq!(person.done(&["view", "global/a.md"]), "the a\n");
    assert_eq!(person.done(&["view", "global/d/b.md"]), "the b\n");
    person.done(&["create", "project/q.md", "the q\n"]);
    person.check_finding("unwritable global");
    mode(&root.join("d"), 0o700);
    mode(&root, 0o700);
    person.check_healthy();
}

#[test]
fn a_read_only_checkout_has_its_own_error_over_http() {
    let person = UnprivilegedUser::new();
    let root = person.sandbox.checkout().join(".lukasa/memory");
    let kept = person.sandbox.checkout().join("AGENTS.md");
    fs::write(&kept, "kept\n").unwrap();
    if person.is_root {
        chown(&kept, Some(UNPRIVILEGED_UID), Some(UNPRIVILEGED_UID)).unwrap();
    }
    for folder in [&root, &person.sandbox.checkout()] {
        mode(folder, 0o500);
    }
    let mut command = person.command(&["serve", "--port", "0", "--json"]);
    command.env("LUKASA_TOKEN", TOKEN);
    let daemon = Daemon::start_by(command);
    let why = "The project memory scope cannot be written on this machine: permission denied";
    let refused = |answer: &HttpResponse, why: &str| {
        let told = answer.json();
        let said = (answer.status, told["code"].as_str().unwrap_or_default());
        assert_eq!(said, (403, "read_only"), "{told}");
        assert!(told["error"].as_str().unwrap().contains(why), "{told}");
    };
    let new = "/v1/memories/project/new.md";
    refused(&daemon.ask("PUT", new).json(&json!({ "text": "x" })).send(), why);
    let old = || daemon.ask("DELETE", "/v1/memories/project/p.md").header("If-Match", "*");
    refused(&old().send(), why);
    let to = json!({ "from": "/memories/project/p.md", "to": "/memories/project/q.md" });
    refused(&daemon.post("/v1/memories/move", &to), why);
    let saved = json!({ "scope": "workspace", "mode": "append", "content": "a fact" });
    refused(&daemon.post("/workspace/memory", &saved), "permission denied");

    // A model receives the same refusal.
    let create = json!({
        "command": "create", "path": "/memories/project/n.md", "file_text": "x",
    });
    let told = daemon.post("/v1/tool", &create).json();
    assert_eq!((&told["ok"], &told["code"]), (&json!(false), &json!("read_only")), "{told}");
    assert!(told["text"].as_str().unwrap().starts_with(why), "{told}");
    person.check_tool_refusal(&create, "read_only");
    let remember = json!({ "content": "The tests run with nextest.", "scope": "project" });
    let task = daemon.task("remember", &remember);
    assert_eq!(task["error"]["cause"], "read_only", "{task}");
    assert!(task["error"]["details"].as_str().unwrap().starts_with(why), "{task}");

    // The other scopes still work.
    let made = daemon.ask("PUT", "/v1/memories/global/new.md").json(&json!({ "text": "x" }));
    assert_eq!(made.send().status, 201);
    person.done(&["rm", "-y", "global/new.md"]);
    assert_eq!(fs::read_to_string(&kept).unwrap(), "kept\n");
    for folder in [&root, &person.sandbox.checkout()] {
        mode(folder, 0o700);
    }
    assert_eq!(old().send().status, 200);
}

#[test]
fn a_daemon_in_json_mode_logs_errors_as_json() {
    let person = UnprivilegedUser::new();
    let file = person.home("memory/a.md");
    mode(&file, 0o000);
    let mut command = person.command(&["serve", "--port", "0", "--json"]);
    command.env("LUKASA_TOKEN", TOKEN);
    let daemon = Daemon::start_by(command);
    let ask = daemon.ask("GET", "/v1/memories/global/a.md");
    assert_eq!(ask.code(), (500, "storage_failed".to_owned()));
    let log = daemon.log();
    let lines = log.lines().map(serde_json::from_str::<Value>);
    let lines: Vec<Value> = lines.collect::<Result<_, _>>().unwrap_or_else(|_| panic!("{log}"));
    let failed = lines.iter().find(|line| line["message"] == "operation failed");
    let failed = failed.unwrap_or_else(|| panic!("{log}"));
    assert_eq!((&failed["level"], &failed["code"]), (&json!("ERROR"), &json!("storage_failed")));
    assert!(failed["error"].as_str().unwrap().contains("ermission denied"), "{failed}");
    assert!(failed["timestamp"].as_str().unwrap().ends_with('Z'), "{failed}");
    mode(&file, 0o600);
    person.check_healthy();
}

#[test]
fn a_state_that_cannot_be_written_or_read_leaves_memories_to_be_viewed() {
    let person = UnprivilegedUser::new();
    let (state, database) = (person.home("state"), person.home("state/lukasa.db"));
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
        if folder_bits == 0o500 {
            // Readable files are still read.
            assert_eq!(person.done(&["log"]).lines().count(), 3);
        } else {
            person.fails(&["log"]);
        }
        // The state is not damaged, so it is not moved away.
        person.check_finding("state-unavailable");
        person.fails(&["doctor", "--fix"]);
        person.check_tool_refusal(&view("/memories/global/a.md"), "ok");
        let delete = json!({ "command": "delete", "path": "/memories/global/a.md" });
        person.check_tool_refusal(&delete, "storage_failed");
        mode(&state, 0o700);
        mode(&database, 0o600);
    }
    let names = fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().file_name());
    let aside = names.filter(|name| name.to_string_lossy().contains("damaged")).count();
    assert_eq!(aside, 0, "a state that could not be opened was set aside");
    person.check_healthy();
}

#[test]
fn a_home_that_is_only_for_reading_still_has_its_pins_and_serves_hooks() {
    let person = UnprivilegedUser::new();
    person.done(&["create", "global/tea.md", "- Bea drinks green tea at four.\n"]);
    person.done(&["pin", "global/d/b.md"]);
    let folders = ["memory/d", "memory", "state", ""].map(|below| person.home(below));
    let files = ["state/lukasa.db", "state/lukasa.db-wal", "state/lukasa.db-shm"];
    for file in files.map(|file| person.home(file)).iter().filter(|file| file.exists()) {
        mode(file, 0o400);
    }
    for folder in &folders {
        mode(folder, 0o500);
    }
    let listed: Value = serde_json::from_str(&person.done(&["ls", "--json"])).unwrap();
    let listed = listed["memories"].as_array().unwrap();
    let pinned: Vec<_> = listed.iter().filter(|one| one["pinned"] == true).collect();
    assert_eq!(pinned.len(), 1, "{listed:?}");
    let hook = |hook: &str, name: &str| {
        let event = json!({
            "hook_event_name": name,
            "session_id": "s",
            "cwd": person.sandbox.checkout(),
            "source": "startup",
            "prompt": "when does Bea drink green tea?",
        });
        let mut command = assert_cmd::Command::from_std(person.command(&["hook", hook]));
        person.sandbox.run_command(command.write_stdin(event.to_string()))
    };
    let begun = hook("session-start", "SessionStart");
    assert!(begun.stdout.contains("the b"), "{}", begun.shown());
    let recalled = hook("user-prompt", "UserPromptSubmit");
    assert!(recalled.stdout.contains("Bea drinks"), "{}", recalled.shown());
    for folder in &folders {
        mode(folder, 0o700);
    }
}

#[test]
fn pins_in_a_folder_that_cannot_be_looked_into_are_kept() {
    let person = UnprivilegedUser::new();
    person.done(&["pin", "global/d/b.md"]);
    let folder = person.home("memory/d");
    mode(&folder, 0o000);
    person.fails(&["view", "global/d/b.md"]);
    person.fails(&["create", "global/d/n.md", "x"]);
    person.fails(&["rm", "-y", "global/d"]);
    assert_eq!(person.done(&["ls"]).lines().count(), 2);
    person.check_finding("unreadable global: d");
    let fixed = person.run(&["doctor", "--fix"]);
    assert!(!fixed.stdout.contains("forgot"), "{}", fixed.shown());
    mode(&folder, 0o700);
    let listed = person.done(&["ls", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let pinned = listed["memories"].as_array().unwrap().iter().filter(|one| one["pinned"] == true);
    assert_eq!(pinned.map(|one| &one["path"]).collect::<Vec<_>>(), ["/memories/global/d/b.md"]);
    person.check_healthy();
}

#[test]
fn a_root_that_cannot_be_read_hides_no_other() {
    let person = UnprivilegedUser::new();
    let root = person.home("memory");
    mode(&root, 0o000);
    person.fails(&["view", "global/a.md"]);
    person.fails(&["create", "global/n.md", "x"]);
    let listed = person.done(&["ls"]);
    assert!(listed.starts_with("project/p.md\t") && listed.lines().count() == 1, "{listed}");
    person.check_finding("root-refused global");
    person.done(&["create", "project/q.md", "the q\n"]);
    person.check_tool_refusal(&view("/memories"), "ok");
    person.check_tool_refusal(&view("/memories/project/p.md"), "ok");
    mode(&root, 0o700);
    person.check_healthy();
}

#[test]
fn a_home_of_another_user_is_not_touched() {
    let person = UnprivilegedUser::new();
    let (home, mine) = (person.sandbox.home(), person.sandbox.path().join("mine"));
    fs::rename(&home, &mine).unwrap();
    fs::create_dir(&home).unwrap();
    // As root it belongs to root; otherwise it is an own folder without permissions.
    let (readable, closed) = if person.is_root { (0o755, 0o700) } else { (0o555, 0o000) };
    mode(&home, readable);
    assert_eq!(person.done(&["view", "project/p.md"]), "the p\n");
    assert_eq!(person.done(&["ls"]).lines().count(), 1);
    person.fails(&["create", "global/n.md", "x"]);
    person.fails(&["replace", "project/p.md", "the", "a"]);
    person.check_finding("unwritable");
    assert_eq!(fs::read_dir(&home).unwrap().count(), 0);
    // Unreadable settings may contain screening rules or limits, so the command does nothing.
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
    person.check_healthy();
}
