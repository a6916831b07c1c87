//! What a person at a terminal sees; `script` lends one.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use store::backend::Backend as _;
use store::backend::local::{Anchor, LocalBackend, Privacy};

use crate::place::Place;
use crate::processes::lock_file;

/// A command line that runs in a terminal.
struct Session {
    child: Child,
    seen: String,
}

fn in_terminal(place: &Place, line: &str) -> Command {
    let mut command = place.program("script");
    let line = line.replace("quipu ", &format!("{} ", env!("CARGO_BIN_EXE_quipu")));
    command
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env("TERM", "xterm")
        .env("QUIPU_PAGER", "cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

impl Session {
    fn begin(mut command: Command) -> Self {
        Self { child: command.spawn().unwrap(), seen: String::new() }
    }

    /// Reads until a text is on the screen.
    fn wait_for(&mut self, text: &str) {
        let stdout = self.child.stdout.as_mut().unwrap();
        let mut byte = [0];
        while !self.seen.contains(text) {
            assert_eq!(stdout.read(&mut byte).unwrap(), 1, "the screen had: {}", self.seen);
            self.seen.push(char::from(byte[0]));
        }
    }

    fn press(&mut self, keys: &str) {
        self.child.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// Returns the exit status and all that was on the screen.
    fn end(mut self) -> (i32, String) {
        let stdout = self.child.stdout.as_mut().unwrap();
        let mut rest = Vec::new();
        stdout.read_to_end(&mut rest).unwrap();
        self.seen.push_str(&String::from_utf8_lossy(&rest));
        let status = self.child.wait().unwrap().code().unwrap_or(-1);
        (status, self.seen.replace("\r\n", "\n"))
    }
}

fn run(place: &Place, line: &str) -> (i32, String) {
    Session::begin(in_terminal(place, line)).end()
}

#[test]
fn a_listing_has_columns_and_color() {
    let place = Place::new();
    place.create("global/a.md", "---\ndescription: About me\n---\n");
    place.done(&["pin", "global/a.md"]);
    let (status, screen) = run(&place, "quipu ls");
    assert_eq!(status, 0);
    insta::assert_snapshot!(screen.replace('\u{1b}', "^"), @r"
    ^[2mPIN  SIZE  AGE  USES  PATH         DESCRIPTION^[0m
    ^[33m*^[0m     30B  ^[2mnow^[0m     ^[2m2^[0m  ^[1mglobal/a.md^[0m  About me
    ");
    let mut command = in_terminal(&place, "quipu ls");
    command.env("NO_COLOR", "1");
    let (_, plain) = Session::begin(command).end();
    insta::assert_snapshot!(plain, @r"
    PIN  SIZE  AGE  USES  PATH         DESCRIPTION
    *     30B  now     2  global/a.md  About me
    ");
    let (_, plain) = run(&place, "quipu ls --color never");
    assert!(!plain.contains('\u{1b}'), "{plain}");
}

#[test]
fn a_terminal_does_not_obey_a_memory() {
    let place = Place::new();
    fs::create_dir_all(place.home().join("memory")).unwrap();
    let text = "clear \u{1b}[2J bell \u{7} hidden\u{200b}word \u{202e}reversed\n";
    fs::write(place.home().join("memory/a.md"), text).unwrap();
    let (_, screen) = run(&place, "quipu view global/a.md");
    assert_eq!(screen, "clear ^[[2J bell ^G hidden<U+200B>word <U+202E>reversed\n");
    assert_eq!(place.view("global/a.md"), text);
}

#[test]
fn a_long_text_goes_through_the_pager_unless_it_shall_not() {
    let place = Place::new();
    place.create("global/a.md", "one\n");
    let paged = |line: &str, pager: &str| {
        let mut command = in_terminal(&place, line);
        command.env("QUIPU_PAGER", pager);
        Session::begin(command).end()
    };
    assert_eq!(paged("quipu view global/a.md", "sed s/^/paged:/"), (0, "paged:one\n".to_owned()));
    assert_eq!(paged("quipu --no-pager view global/a.md", "sed s/^/x/"), (0, "one\n".to_owned()));
    assert_eq!(paged("quipu view global/a.md --json | cat", "sed s/^/x/").0, 0);
    let (status, screen) = paged("quipu view global/a.md", "no-such-pager");
    assert!(status == 0 && screen.ends_with("one\n"), "{screen}");
    assert_eq!(paged("quipu view global/a.md", "true"), (0, String::new()));
}

#[test]
fn a_folder_is_deleted_after_a_yes() {
    let place = Place::new();
    let answer = |keys: &str| {
        let mut session = Session::begin(in_terminal(&place, "quipu rm global/notes"));
        session.wait_for("Delete the folder global/notes with 1 memory?");
        session.wait_for("[y/N] ");
        session.press(keys);
        session.end().0
    };
    place.create("global/notes/a.md", "a");
    assert_eq!(answer("n\n"), 1);
    assert_eq!(place.view("global/notes/a.md"), "a");
    assert_eq!(answer("\n"), 1);
    assert_eq!(answer("y\n"), 0);
    assert_eq!(place.done(&["ls"]), "");
}

#[test]
fn ctrl_c_at_a_question_changes_nothing() {
    let place = Place::new();
    place.create("global/notes/a.md", "a");
    let mut session = Session::begin(in_terminal(&place, "quipu rm global/notes"));
    session.wait_for("[y/N] ");
    session.press("\u{3}");
    assert_eq!(session.end().0, 130);
    assert_eq!(place.view("global/notes/a.md"), "a");
}

#[test]
fn what_takes_long_shows_what_it_does_until_it_is_done() {
    let place = Place::new();
    place.create("global/a.md", "a");
    let root = Anchor::new(place.home(), &["memory"], Privacy::Private);
    let backend = LocalBackend::new(root, lock_file(&place));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // Somebody holds the root, so that the command has to wait.
    let held = runtime.block_on(backend.lock(Duration::from_secs(1))).unwrap();
    let mut session = Session::begin(in_terminal(&place, "quipu create global/b.md b"));
    session.wait_for("writing");
    drop(held);
    let (status, screen) = session.end();
    assert_eq!(status, 0, "{screen}");
    assert!(screen.ends_with("created global/b.md (change 2)\n"), "{screen}");
}

#[test]
fn who_does_not_say_where_a_fact_goes_is_asked() {
    let place = Place::new();
    let save = |key: &str| {
        let mut session = Session::begin(in_terminal(&place, "quipu save tea"));
        session.wait_for("[p/g] ");
        assert!(
            session.seen.contains("app/QWEN.md (p)") && session.seen.contains("home/QWEN.md (g)")
        );
        session.press(key);
        session.end().0
    };
    assert_eq!(save("\n"), 2);
    assert_eq!((save("p\n"), save("G\n")), (0, 0));
    for file in [place.checkout().join("QWEN.md"), place.home().join("QWEN.md")] {
        assert_eq!(fs::read_to_string(file).unwrap(), "## Quipu Added Memories\n- tea\n");
    }
}

#[test]
fn an_archive_is_not_printed_on_a_terminal() {
    let place = Place::new();
    let (status, screen) = run(&place, "quipu export");
    assert_eq!(status, 2);
    assert!(screen.contains("a tar archive does not belong on a terminal"), "{screen}");
}

#[test]
fn an_edit_that_is_ended_leaves_no_file_behind() {
    let place = Place::new();
    place.create("global/a.md", "one\n");
    let (begun, go) = (place.path().join("begun"), place.path().join("go"));
    for pipe in [&begun, &go] {
        assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
    }
    let wait = format!("echo 1 > '{}'; read x < '{}'", begun.display(), go.display());
    let editor = place.script("editor", &wait);
    let mut quipu = place.program(env!("CARGO_BIN_EXE_quipu"));
    let mut child = quipu.args(["edit", "global/a.md"]).env("EDITOR", editor).spawn().unwrap();
    assert_eq!(fs::read_to_string(&begun).unwrap(), "1\n");
    let kill = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    assert_eq!(child.wait().unwrap().code(), Some(143));
    fs::write(&go, "\n").unwrap();
    assert_eq!(fs::read_dir(place.temporary()).unwrap().count(), 0);
    assert_eq!(place.view("global/a.md"), "one\n");
}

#[test]
fn an_agent_is_told_only_after_a_yes() {
    let place = Place::new();
    let file = place.home().join(".cursor/mcp.json");
    for (answer, status, written) in [("n\n", 1, false), ("y\n", 0, true)] {
        let mut session = Session::begin(in_terminal(&place, "quipu install cursor"));
        session.wait_for("[y/N]");
        assert!(session.seen.contains("\"mcpServers\": {"), "{}", session.seen);
        assert!(!file.exists());
        session.press(answer);
        let (ended, screen) = session.end();
        assert_eq!((ended, file.exists()), (status, written), "{screen}");
    }
    fs::remove_file(&file).unwrap();
    assert_eq!(run(&place, "quipu install cursor --yes").0, 0);
    assert!(file.exists());
}
