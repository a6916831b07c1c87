//! Tests of the output in a terminal, which the program `script` provides.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use regex::Regex;

use crate::pending::propose;
use crate::processes::hold_root;
use crate::sandbox::Sandbox;

/// A command line that runs in a terminal.
pub(crate) struct TerminalSession {
    child: Child,
    bytes: Vec<u8>,
    screen: String,
}

pub(crate) fn in_terminal(place: &Sandbox, line: &str) -> Command {
    let mut command = place.program("script");
    let line = line.replace("lukasa ", &format!("{} ", env!("CARGO_BIN_EXE_lukasa")));
    command
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env("TERM", "xterm")
        .env("LUKASA_PAGER", "cat")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

impl TerminalSession {
    pub(crate) fn begin(mut command: Command) -> Self {
        Self { child: command.spawn().unwrap(), bytes: Vec::new(), screen: String::new() }
    }

    /// Reads until a text is on the screen.
    pub(crate) fn wait_for(&mut self, text: &str) {
        let stdout = self.child.stdout.as_mut().unwrap();
        let mut byte = [0];
        while !self.screen.contains(text) {
            assert_eq!(stdout.read(&mut byte).unwrap(), 1, "the screen had: {}", self.screen);
            self.bytes.extend(byte);
            self.screen = String::from_utf8_lossy(&self.bytes).into_owned();
        }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.child.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// Returns the exit status and the whole screen output.
    pub(crate) fn end(mut self) -> (i32, String) {
        let stdout = self.child.stdout.as_mut().unwrap();
        stdout.read_to_end(&mut self.bytes).unwrap();
        self.screen = String::from_utf8_lossy(&self.bytes).into_owned();
        let status = self.child.wait().unwrap().code().unwrap_or(-1);
        (status, self.screen.replace("\r\n", "\n"))
    }
}

/// Replaces the values that differ from run to run: times and the ids of tasks.
fn stable(place: &Sandbox, screen: &str) -> String {
    let time = Regex::new(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d.*\((now|\d+s)\)").unwrap();
    let id = Regex::new(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}").unwrap();
    let screen = time.replace_all(screen, "<when>").into_owned();
    id.replace_all(&place.stable(&screen), "<id>").into_owned()
}

fn run(place: &Sandbox, line: &str) -> (i32, String) {
    TerminalSession::begin(in_terminal(place, line)).end()
}

#[test]
fn a_listing_has_columns_and_color() {
    let place = Sandbox::with(&[("global/a.md", "---\ndescription: About me\n---\n")]);
    place.run_ok(&["pin", "global/a.md"]);
    let (status, screen) = run(&place, "lukasa ls");
    assert_eq!(status, 0);
    insta::assert_snapshot!(screen.replace('\u{1b}', "^"), @r"
    ^[2mPIN  SIZE  AGE  USES  PATH         DESCRIPTION^[0m
    ^[33m*^[0m     30B  ^[2mnow^[0m     ^[2m2^[0m  ^[1mglobal/a.md^[0m  About me
    ");
    let mut command = in_terminal(&place, "lukasa ls");
    command.env("NO_COLOR", "1");
    let (_, plain) = TerminalSession::begin(command).end();
    insta::assert_snapshot!(plain, @r"
    PIN  SIZE  AGE  USES  PATH         DESCRIPTION
    *     30B  now     2  global/a.md  About me
    ");
    let (_, plain) = run(&place, "lukasa ls --color never");
    assert!(!plain.contains('\u{1b}'), "{plain}");
}

#[test]
fn escape_sequences_of_a_memory_do_not_reach_a_terminal() {
    let place = Sandbox::new();
    fs::create_dir_all(place.home().join("memory")).unwrap();
    let text = "clear \u{1b}[2J bell \u{7} hidden\u{200b}word \u{202e}reversed\n";
    fs::write(place.home().join("memory/a.md"), text).unwrap();
    let (_, screen) = run(&place, "lukasa view global/a.md");
    assert_eq!(screen, "clear ^[[2J bell ^G hidden<U+200B>word <U+202E>reversed\n");
    assert_eq!(place.view("global/a.md"), text);
}

#[test]
fn a_long_text_goes_through_the_pager_unless_disabled() {
    let place = Sandbox::with(&[("global/a.md", "one\n")]);
    let paged = |line: &str, pager: &str| {
        let mut command = in_terminal(&place, line);
        command.env("LUKASA_PAGER", pager);
        TerminalSession::begin(command).end()
    };
    assert_eq!(paged("lukasa view global/a.md", "sed s/^/paged:/"), (0, "paged:one\n".to_owned()));
    assert_eq!(paged("lukasa --no-pager view global/a.md", "sed s/^/x/"), (0, "one\n".to_owned()));
    assert_eq!(paged("lukasa view global/a.md --json | cat", "sed s/^/x/").0, 0);
    let (status, screen) = paged("lukasa view global/a.md", "no-such-pager");
    assert!(status == 0 && screen.ends_with("one\n"), "{screen}");
    assert_eq!(paged("lukasa view global/a.md", "true"), (0, String::new()));
}

#[test]
fn a_folder_is_deleted_after_a_yes() {
    let place = Sandbox::new();
    let answer = |keys: &str| {
        let mut session = TerminalSession::begin(in_terminal(&place, "lukasa rm global/notes"));
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
    assert_eq!(place.run_ok(&["ls"]), "");
}

#[test]
fn the_last_change_is_shown_before_its_undo() {
    let place = Sandbox::with(&[("global/a.md", "one\n")]);
    place.run_ok(&["replace", "global/a.md", "one", "two"]);
    let answer = |keys: &str| {
        let mut session = TerminalSession::begin(in_terminal(&place, "lukasa undo --color never"));
        session.wait_for("[y/N] ");
        session.press(keys);
        session.end()
    };
    let (status, screen) = answer("n\n");
    assert_eq!(status, 1);
    insta::assert_snapshot!(stable(&place, &screen), @r"
    change 2
    action      edit
    when        <when>
    by          person
    trust       person
    via         cli
      global/a.md  2c8b08da5ce6 → 27dd8ed44a83

    --- /memories/global/a.md
    +++ /memories/global/a.md
    @@ -1 +1 @@
    -one
    +two

    Undo change 2? [y/N] n
    nothing was undone
    ");
    assert_eq!(place.view("global/a.md"), "two\n");
    assert_eq!(answer("y\n").0, 0);
    assert_eq!(place.view("global/a.md"), "one\n");
    let (status, screen) = answer("y\n");
    assert!(screen.contains("Undo change 3, which redoes change 2? [y/N]"), "{screen}");
    assert_eq!((status, place.view("global/a.md")), (0, "two\n".to_owned()));
}

#[test]
fn the_removals_of_a_task_are_shown_before_it_runs() {
    let place = Sandbox::new();
    place.create("global/a.md", "- I keep bees\n- I drink tea\n");
    place.create("global/a-2.md", "- I keep  bees.\n");
    let answer = |line: &str, keys: &str| {
        let mut session = TerminalSession::begin(in_terminal(&place, line));
        session.wait_for("[y/N] ");
        session.press(keys);
        session.end()
    };
    let (status, screen) = answer("lukasa dream --color never", "n\n");
    assert_eq!(status, 1);
    insta::assert_snapshot!(screen, @r"
    --- /memories/global/a-2.md
    +++ /memories/global/a-2.md
    @@ -1 +0,0 @@
    -- I keep  bees.
    Change 1 memory? [y/N] n
    nothing was changed
    ");
    let (status, screen) = answer("lukasa forget tea --color never", "y\n");
    assert_eq!(status, 0, "{screen}");
    insta::assert_snapshot!(stable(&place, &screen), @r"
    --- /memories/global/a.md
    +++ /memories/global/a.md
    @@ -1,2 +1 @@
     - I keep bees
    -- I drink tea
    Forget 1 entry? [y/N] y
    Forgot 1 memory entry.
      global/a.md: I drink tea
    `lukasa undo --task forget-<id>` undoes it
    ");
    assert_eq!(place.view("global/a.md"), "- I keep bees\n");
    // If several entries fit, the person chooses.
    place.create("global/pier.md", "- The gate opens at six\n- The gate is green\n");
    let choose = |keys: &str| {
        let mut session =
            TerminalSession::begin(in_terminal(&place, "lukasa forget the gate --color never"));
        session.wait_for("or nothing] ");
        session.press(keys);
        session.end()
    };
    assert_eq!(choose("\n").0, 1);
    let (status, screen) = choose("2\n");
    assert_eq!(status, 0, "{screen}");
    insta::assert_snapshot!(stable(&place, &screen), @r"
    Nothing was removed: 2 entries may be meant.
      1  global/pier.md: The gate opens at six
      2  global/pier.md: The gate is green
    Forget which one? [1-2, or nothing] 2
    Forgot 1 memory entry.
      global/pier.md: The gate is green
    `lukasa undo --task forget-<id>` undoes it
    ");
    assert_eq!(place.view("global/pier.md"), "- The gate opens at six\n");
    // Without removals there is no question.
    assert_eq!(run(&place, "lukasa forget tea").0, 1);
}

#[test]
fn a_text_with_a_secret_is_saved_or_edited_again_by_choice() {
    let place = Sandbox::new();
    let secret =
        r#"test -e again && echo fine > "$1" || printf '%s%s\n' AKIA QYLPMN5HHHFPZAM2 > "$1""#;
    let editor = place.script("editor", secret);
    let draft = place.home().join("state/drafts/global-a-1-secret.md");
    let answer = |key: &str, before: &dyn Fn()| {
        let mut command = in_terminal(&place, "lukasa edit global/a.md");
        command.env("EDITOR", &editor);
        let mut session = TerminalSession::begin(command);
        session.wait_for("[e/k/d] ");
        before();
        session.press(key);
        session.end()
    };
    let (status, screen) = answer("d\n", &|| ());
    assert_eq!((status, draft.exists()), (4, false), "{screen}");
    assert!(!screen.contains("QYLPMN5HHHFPZAM2"), "{screen}");
    let (status, screen) = answer("k\n", &|| ());
    assert_eq!((status, draft.exists()), (4, true), "{screen}");
    let (status, screen) =
        answer("e\n", &|| fs::write(place.checkout().join("again"), "").unwrap());
    assert_eq!(status, 0, "{screen}");
    assert_eq!(place.view("global/a.md"), "fine\n");
}

#[tokio::test]
async fn all_proposals_are_listed_before_a_person_agrees() {
    let place = Sandbox::with(&[("global/tea.md", "- Likes tea\n- Drinks tea\n")]);
    propose(&place, "both say it", &[("global", "tea.md", Some("Drinks tea"), None)]).await;
    let choose = |key: &str| {
        let mut session =
            TerminalSession::begin(in_terminal(&place, "lukasa pending accept --all"));
        session.wait_for("[y/N] ");
        session.press(key);
        session.end()
    };
    let (status, screen) = choose("n\n");
    assert_eq!(status, 1, "{screen}");
    assert_eq!(place.view("global/tea.md"), "- Likes tea\n- Drinks tea\n");
    let (status, screen) = choose("y\n");
    assert_eq!(status, 0, "{screen}");
    let age = Regex::new(r" +(now|\d+s) ").unwrap();
    let screen = anstream::adapter::strip_str(&stable(&place, &screen)).to_string();
    insta::assert_snapshot!(age.replace(&screen, " <age> "), @r"
    ID  AGE  KIND        WHERE          WHY
     1 <age>  repetition  global/tea.md  both say it
    Accept 1 proposal? [y/N] y
    accepted proposal 1 (change 2)
    ");
    assert_eq!(place.view("global/tea.md"), "- Likes tea\n");
}

#[test]
fn ctrl_c_at_a_question_changes_nothing() {
    let place = Sandbox::with(&[("global/notes/a.md", "a")]);
    let mut session = TerminalSession::begin(in_terminal(&place, "lukasa rm global/notes"));
    session.wait_for("[y/N] ");
    session.press("\u{3}");
    assert_eq!(session.end().0, 130);
    assert_eq!(place.view("global/notes/a.md"), "a");
}

#[test]
fn a_long_command_shows_its_progress() {
    let place = Sandbox::with(&[("global/a.md", "a")]);
    // The lock of the root is held, so that the command must wait.
    let held = hold_root(&place);
    let mut session = TerminalSession::begin(in_terminal(&place, "lukasa create global/b.md b"));
    session.wait_for("writing");
    drop(held);
    let (status, screen) = session.end();
    assert_eq!(status, 0, "{screen}");
    assert!(screen.ends_with("created global/b.md (change 2)\n"), "{screen}");
}

#[test]
fn without_a_scope_the_terminal_asks_for_it() {
    let place = Sandbox::new();
    let save = |key: &str| {
        let mut session = TerminalSession::begin(in_terminal(&place, "lukasa save tea"));
        session.wait_for("[p/g] ");
        assert!(
            session.screen.contains("app/AGENTS.md (p)")
                && session.screen.contains("home/AGENTS.md (g)")
        );
        session.press(key);
        session.end().0
    };
    assert_eq!(save("\n"), 2);
    assert_eq!((save("p\n"), save("G\n")), (0, 0));
    for file in [place.checkout().join("AGENTS.md"), place.home().join("AGENTS.md")] {
        assert_eq!(fs::read_to_string(file).unwrap(), "## Lukasa Added Memories\n- tea\n");
    }
}

#[test]
fn an_archive_is_not_printed_on_a_terminal() {
    let place = Sandbox::new();
    let (status, screen) = run(&place, "lukasa export");
    assert_eq!(status, 2);
    assert!(screen.contains("cannot write a tar archive to a terminal"), "{screen}");
}

#[test]
fn an_interrupted_edit_leaves_no_file_behind() {
    let place = Sandbox::with(&[("global/a.md", "one\n")]);
    let (begun, go) = (place.path().join("begun"), place.path().join("go"));
    for pipe in [&begun, &go] {
        assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
    }
    let wait = format!("echo 1 > '{}'; read x < '{}'", begun.display(), go.display());
    let editor = place.script("editor", &wait);
    let mut lukasa = place.program(env!("CARGO_BIN_EXE_lukasa"));
    let mut child = lukasa.args(["edit", "global/a.md"]).env("EDITOR", editor).spawn().unwrap();
    assert_eq!(fs::read_to_string(&begun).unwrap(), "1\n");
    let kill = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    assert_eq!(child.wait().unwrap().code(), Some(143));
    fs::write(&go, "\n").unwrap();
    assert_eq!(fs::read_dir(place.temporary()).unwrap().count(), 0);
    assert_eq!(place.view("global/a.md"), "one\n");
}

#[test]
fn settings_of_an_agent_are_written_only_after_a_yes() {
    let place = Sandbox::new();
    let file = place.home().join(".config/Code/User/mcp.json");
    for (answer, status, written) in [("n\n", 1, false), ("y\n", 0, true)] {
        let mut session =
            TerminalSession::begin(in_terminal(&place, "lukasa install vscode --diff"));
        session.wait_for("[y/N]");
        assert!(session.screen.contains("change 1 file, 1 server"), "{}", session.screen);
        assert!(session.screen.contains("\"servers\": {"), "{}", session.screen);
        assert!(!file.exists());
        session.press(answer);
        let (ended, screen) = session.end();
        assert_eq!((ended, file.exists()), (status, written), "{screen}");
    }
    fs::remove_file(&file).unwrap();
    assert_eq!(run(&place, "lukasa install vscode --yes").0, 0);
    assert!(file.exists());
}

#[test]
fn permissions_and_an_agents_own_memory_are_asked_one_by_one() {
    let place = Sandbox::new();
    let mut session = TerminalSession::begin(in_terminal(&place, "lukasa install claude-code"));
    session.wait_for("in `permissions.allow`)?");
    session.press("y\n");
    session.wait_for("(`autoMemoryEnabled: false`)?");
    session.press("n\n");
    session.wait_for("2 files, 6 hooks, 1 server, 1 setting");
    session.press("y\n");
    let (ended, screen) = session.end();
    assert_eq!(ended, 0, "{screen}");
    let text = fs::read_to_string(place.home().join(".claude/settings.json")).unwrap();
    assert!(text.contains("mcp__lukasa") && !text.contains("autoMemoryEnabled"), "{text}");
}
