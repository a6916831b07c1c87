//! Tests of machines whose program is another one, or none, or whose login shell talks.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::json;

use super::setup::{RemoteSetup, program_folder};

/// The line before the first message of a far side.
const MARK: &str = "\\nlukasa backend\\n";

/// The time in which a wrong program is recognized without waiting for more.
const PROMPT: Duration = Duration::from_secs(10);

/// The time after which a silent program is given up, with some reserve.
const PATIENCE: Duration = Duration::from_secs(28);

/// The most memory of a process that meets a machine which sends without end.
const MEMORY_MAX: usize = 500 << 20;

/// Returns bytes as `printf` writes them.
fn escaped(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "\\{byte:03o}").unwrap();
        text
    })
}

/// Returns a message as `printf` writes it.
fn frame(body: &[u8]) -> String {
    let length = u32::try_from(body.len()).unwrap().to_le_bytes();
    escaped(&[&length, body].concat())
}

/// Returns the greeting of a program with this protocol and version.
fn hello(protocol: u8, version: &str) -> String {
    let length = u8::try_from(version.len()).unwrap();
    let body = [&[0, protocol, length], version.as_bytes()].concat();
    format!("{MARK}{}", frame(&body))
}

/// Fails if a command does not refuse the program with this reason, or a server does not.
fn check_refused_twice(setup: &RemoteSetup, script: &str, reason: &str) {
    check_refused(setup, script, reason, PROMPT);
    let errors = setup.fails(&["view", "project/deploy.md"]);
    check_told(script, &errors, reason);
}

/// Fails unless a text has the reason, and nothing that a terminal would obey.
fn check_told(script: &str, told: &str, reason: &str) {
    assert!(told.contains(reason), "{script:.200}: {told}");
    assert!(told.chars().all(|c| c == '\n' || !c.is_control()), "{script:.200}: {told:?}");
}

/// Fails if a server does not refuse the program with this reason and in this time, or if the program affects the other
/// scopes or makes the server large.
fn check_refused(setup: &RemoteSetup, script: &str, reason: &str, wait: Duration) {
    setup.install_script(script);
    let begun = Instant::now();
    let mut served = setup.serve();
    let view = |path: &str| json!({ "command": "view", "path": path });
    let asked = served.ask(&view("/memories/project/deploy.md"));
    let asked_here = served.ask(&view("/memories/global/tea.md"));
    let mut answers = [served.answer(), served.answer()];
    assert!(begun.elapsed() < wait, "{script:.200}: {:?}", begun.elapsed());
    answers.sort_by_key(|answer| answer.id);
    let told = answers.each_ref().map(|answer| (answer.id, answer.code.as_str()));
    assert_eq!(told, [(asked, "scope_unavailable"), (asked_here, "ok")], "{script:.200}");
    check_told(script, &answers[0].text, reason);
    let home = setup.server.home().display().to_string();
    assert!(!answers[0].text.contains(&home), "{script:.200}: {}", answers[0].text);
    assert!(served.memory_peak() < MEMORY_MAX, "{script:.200}: {}", served.memory_peak());
    served.close_input();
}

#[test]
fn a_wrong_program_there_is_refused_with_advice() {
    let setup = RemoteSetup::start(Vec::new());
    let install = "run `lukasa remote install far`";
    let other = "`far` has Lukasa 0.0.1, and here is";
    let long = format!("x/\u{1b}[2J\"$(id)\n{}", "9".repeat(80));
    for (script, reason) in [
        (format!("printf '{}'", hello(2, "0.0.1")), other),
        (format!("printf '{}'; exec sleep 300", hello(2, "0.0.1")), install),
        (format!("printf '{}'; exec sleep 300", hello(0, &long)), "has Lukasa x2Jid99"),
        ("echo 'error: unrecognized subcommand' >&2; exit 2".to_owned(), install),
        ("exec /no/such/program".to_owned(), install),
        ("echo '/home/ada is full' >&2; exit 1".to_owned(), "the Lukasa on `far` failed"),
        ("exit 0".to_owned(), "`far`"),
    ] {
        check_refused_twice(&setup, &script, reason);
    }
}

#[test]
fn a_program_there_that_answers_nonsense_is_refused_with_advice() {
    let setup = RemoteSetup::start(Vec::new());
    let reason = "`far` cannot be used: the program there does not answer as Lukasa does";
    let large = escaped(&[0xff, 0xff, 0xff, 0x03]);
    for script in [
        // Neither a mark nor an end.
        "exec cat /dev/zero".to_owned(),
        format!("yes noise | head -c 70000; printf '{}'; exec sleep 300", hello(1, "1")),
        // No message behind the mark.
        format!("printf '{MARK}'; exec yes nonsense"),
        format!("printf '{MARK}{large}'; exec cat /dev/zero"),
        format!("printf '{MARK}{}'; exec sleep 300", frame(&[1])),
    ] {
        check_refused(&setup, &script, reason, PROMPT);
    }
}

#[test]
fn a_program_there_that_greets_and_then_talks_nonsense_loses_its_connection() {
    let setup = RemoteSetup::start(Vec::new());
    let large = escaped(&[0xff, 0xff, 0xff, 0x03]);
    for rest in [
        "exit 0".to_owned(),
        "exec yes nonsense".to_owned(),
        format!("printf '{large}'; exec cat /dev/zero"),
        format!("printf '{}'; exec sleep 300", frame(&[0, 1, 0])),
    ] {
        let script = format!("printf '{}'; {rest}", hello(1, "1"));
        check_refused(&setup, &script, "the connection to the remote machine was lost", PROMPT);
    }
}

#[test]
fn a_program_there_that_says_nothing_is_given_up() {
    let silent = ["exec sleep 300", "exec yes nonsense >&2"];
    std::thread::scope(|scope| {
        for script in silent {
            scope.spawn(move || {
                let setup = RemoteSetup::start(Vec::new());
                check_refused(&setup, script, "`far` did not answer in time", PATIENCE);
            });
        }
    });
}

#[test]
fn what_a_login_shell_prints_before_the_program_is_skipped() {
    let setup = RemoteSetup::installed();
    let program = program_folder().join("lukasa");
    let start = format!("exec {} \"$@\"", program.display());
    for noise in [
        "echo Welcome",
        "printf 'no line end'",
        "printf '\\nlukasa backend of yours\\n\\nlukasa back'",
        "yes 'a long message of the day' | head -c 60000",
        "head -c 1000 /dev/urandom; echo errors, too >&2",
    ] {
        setup.install_script(&format!("{noise}; {start}"));
        assert!(setup.run_ok(&["ls"]).contains("project/deploy.md"), "{noise}");
    }
    setup.run_ok(&["create", "project/new.md", "- new\n"]);
    setup.check_coherent(&setup.place);
}
