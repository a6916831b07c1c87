//! Tests of `lukasa demo`: every step holds, nothing is left behind, and a missing program is named.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::processes::children_of;
use crate::sandbox::Sandbox;

/// Returns the files that a command left in the temporary folder.
fn leftover_files(place: &Sandbox) -> Vec<String> {
    let entries = fs::read_dir(place.temporary()).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn every_step_of_the_demo_holds_and_nothing_is_left() {
    let place = Sandbox::new();
    let ended = place.run(&["demo"]);
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""), "{}", ended.stdout);
    let chapters: Vec<_> = ended
        .stdout
        .lines()
        .filter(|line| line.starts_with(|first: char| first.is_ascii_digit()))
        .collect();
    insta::assert_snapshot!(chapters.join("\n"), @r"
    1. An agent connects
    2. Six commands, three scopes
    3. What an agent may not do
    4. Two writers of one memory
    5. A crash in the middle of a commit
    6. History and undo
    7. A daemon
    ");
    assert!(!ended.stdout.contains('\u{1b}'), "piped text has no colors");
    assert_eq!(leftover_files(&place), [""; 0]);
    assert_eq!(fs::read_dir(place.home()).unwrap().count(), 0, "the person's home is untouched");
}

#[test]
fn a_kept_demo_folder_can_be_inspected() {
    let place = Sandbox::new();
    let ended = place.run(&["demo", "--keep", "--color", "always"]);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("\u{1b}["), "colors where they are asked for");
    let [kept] = &leftover_files(&place)[..] else { panic!("one folder is kept") };
    let memory = place.temporary().join(kept).join("home/memory/preferences.md");
    let text = fs::read_to_string(memory).unwrap();
    assert_eq!(text, "- Prefers very short answers\n- Writes Rust\n");
}

#[test]
fn the_demo_prints_its_steps_as_json() {
    let place = Sandbox::new();
    let ended = place.run(&["demo", "--json"]);
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""), "{}", ended.stdout);
    let steps: Vec<Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let texts = |word: &str| steps.iter().filter_map(|step| step[word].as_str()).count();
    assert_eq!(texts("chapter"), 8, "{}", ended.stdout);
    assert!(texts("held") > 20 && texts("sent") > 10 && texts("got") > 10, "{}", ended.stdout);
}

#[test]
fn without_git_the_demo_says_what_to_install() {
    let place = Sandbox::new();
    let ended = place.run_command(place.lukasa(&["demo"]).env("PATH", place.path()));
    assert_eq!(ended.status, 1);
    insta::assert_snapshot!(ended.stderr, @r"
    error: the demo needs git, which is not installed
      help: install it, for example with `apt-get install git`
    ");
    assert_eq!(leftover_files(&place), [""; 0]);
}

#[test]
fn an_interrupted_demo_ends_its_processes_and_leaves_nothing() {
    for (signal, status) in [("INT", 130), ("TERM", 143)] {
        let place = Sandbox::new();
        let mut command = place.program(env!("CARGO_BIN_EXE_lukasa"));
        let mut demo = command.arg("demo").stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(demo.stdout.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("2.") {
            line.clear();
            assert!(stdout.read_line(&mut line).unwrap() > 0, "the demo ended early");
        }
        let children = children_of(demo.id());
        assert!(!children.is_empty(), "a server runs");
        let pid = demo.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
        stdout.read_to_string(&mut line).unwrap();
        assert_eq!(demo.wait().unwrap().code(), Some(status), "{signal}");
        for child in children {
            assert!(!fs::exists(format!("/proc/{child}")).unwrap(), "{child} still runs");
        }
        assert_eq!(leftover_files(&place), [""; 0]);
    }
}
