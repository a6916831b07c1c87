//! Tests of `lukasa save`, which adds a fact to a context file.

use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::{Random, delay_fault};

use crate::sandbox::Sandbox;

#[test]
fn a_fact_is_added_to_the_file_of_its_scope() {
    let place = Sandbox::new();
    let ended = place.run(&["save", "--scope", "project", "- Builds with make"]);
    insta::assert_snapshot!(ended.shown(), @r"
    status 0
    --- stderr
    added to <place>/app/AGENTS.md
    ");
    fs::create_dir(place.checkout().join("src")).unwrap();
    let from_below = place.run_with(&["save", "--scope", "project", "-"], "two\nlines\n");
    assert_eq!(from_below.status, 0, "{}", from_below.stderr);
    let text = fs::read_to_string(place.checkout().join("AGENTS.md")).unwrap();
    assert_eq!(text, "## Lukasa Added Memories\n- Builds with make\n- two lines\n");
    let saved = place.json(&["save", "--scope", "global", "Likes tea"]);
    let path = saved["path"].as_str().unwrap();
    assert_eq!(fs::read_to_string(place.home().join("AGENTS.md")).unwrap().lines().count(), 2);
    assert_eq!(
        saved,
        json!({
            "path": path, "scope": "global", "changed": true, "bytesWritten": 37, "warnings": [],
        })
    );
    assert!(!place.run_ok(&["log"]).contains("make"), "it is in no history");
}

#[test]
fn a_fact_can_be_edited_before_it_is_saved() {
    let place = Sandbox::new();
    let save = |args: &[&str], editor: &str| {
        let editor = place.script("editor", editor);
        let mut command = place.lukasa(&[&["save", "--edit", "--scope", "project"], args].concat());
        place.run_command(command.env("EDITOR", editor))
    };
    assert_eq!(save(&["Builds with make"], r#"sed -i s/make/just/ "$1""#).status, 0);
    assert_eq!(save(&[], r#"printf '%s\n' '- one' '- two' > "$1""#).status, 0);
    let file = place.checkout().join("AGENTS.md");
    let expected = "## Lukasa Added Memories\n- Builds with just\n- one\n- two\n";
    assert_eq!(fs::read_to_string(&file).unwrap(), expected);
    for editor in [r#": > "$1""#, "exit 1", r#"printf '\377' > "$1""#] {
        let ended = save(&["three"], editor);
        assert_ne!(ended.status, 0, "{editor}: {}", ended.stderr);
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), expected);
}

#[test]
fn a_fact_is_appended_to_an_existing_file_once() {
    let place = Sandbox::new();
    for file in ["QWEN.md", "GEMINI.md", "CLAUDE.md", "AGENTS.md"] {
        fs::write(place.checkout().join(file), "# Rules\n").unwrap();
        for _ in 0..3 {
            place.run_ok(&["save", "--scope", "project", "Builds with make"]);
        }
        let text = fs::read_to_string(place.checkout().join(file)).unwrap();
        assert_eq!(text, "# Rules\n\n## Lukasa Added Memories\n- Builds with make\n", "{file}");
    }
    let again = place.run(&["save", "--scope", "project", "Builds with make"]);
    insta::assert_snapshot!(again.shown(), @r"
    status 0
    --- stderr
    <place>/app/AGENTS.md already has this fact; nothing was added
    ");
    let saved = place.json(&["save", "--scope", "project", "Builds with make"]);
    assert_eq!((&saved["changed"], &saved["bytesWritten"]), (&json!(false), &json!(0)));
}

#[test]
fn without_a_scope_the_error_names_both_files() {
    let place = Sandbox::new();
    insta::assert_snapshot!(place.run(&["save", "x"]).shown(), @r"
    status 2
    --- stderr
    error: no context file is selected
      help: `--scope project` adds it to <place>/app/AGENTS.md
      help: `--scope global` adds it to <place>/home/AGENTS.md
    ");
    assert!(!place.checkout().join("AGENTS.md").exists());
}

#[test]
fn an_unusable_fact_is_refused_and_nothing_is_created() {
    let place = Sandbox::new();
    let save = |fact: &str| place.run(&["save", "--scope", "global", fact]);
    assert_eq!(save(" - ").status, 2);
    assert_eq!(place.run_with(&["save", "--scope", "global"], "\n").status, 2);
    let secret = format!("use ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let refused = save(&secret);
    assert_eq!(refused.status, 4, "{}", refused.stderr);
    assert!(refused.stderr.contains("--allow secrets."), "{}", refused.stderr);
    assert!(!place.home().join("AGENTS.md").exists());
    let allowed = place.run(&["save", "--scope", "global", &secret, "--allow", "secrets"]);
    assert_eq!(allowed.status, 0, "{}", allowed.stderr);
    assert!(allowed.stderr.contains("matches the screening rule"), "{}", allowed.stderr);
    assert_eq!(place.run(&["save", "--scope", "global", "x", "--allow", "rule"]).status, 2);
    fs::write(place.checkout().join("AGENTS.md"), b"\xff").unwrap();
    let refused = place.run(&["save", "--scope", "project", "x"]);
    assert_eq!(refused.status, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("app/AGENTS.md` is not UTF-8 text"), "{}", refused.stderr);
}

#[test]
fn the_names_of_context_files_are_a_setting() {
    let place = Sandbox::new();
    fs::write(place.home().join("config.toml"), "[context]\nfile_names = 'CLAUDE.md'\n").unwrap();
    fs::write(place.checkout().join("AGENTS.md"), "# Rules\n").unwrap();
    place.run_ok(&["save", "--scope", "project", "x"]);
    let text = fs::read_to_string(place.checkout().join("CLAUDE.md")).unwrap();
    assert_eq!(text, "## Lukasa Added Memories\n- x\n");
    assert_eq!(fs::read_to_string(place.checkout().join("AGENTS.md")).unwrap(), "# Rules\n");
}

/// The number of kills of a saving process.
const KILLS: usize = 60;

#[test]
fn a_kill_leaves_whole_lines_and_every_acknowledged_fact() {
    let place = Sandbox::new();
    let seed = RandomState::new().hash_one("save");
    println!("the same moments again: {seed}");
    let mut dice = Random::new(seed);
    let file = place.checkout().join("AGENTS.md");
    let head = "# Rules\n\n## Lukasa Added Memories\n";
    fs::write(&file, head).unwrap();
    place.run_ok(&["save", "--scope", "project", "first"]);
    let begun = Instant::now();
    place.run_ok(&["save", "--scope", "project", "second"]);
    fs::write(&file, head).unwrap();
    // Files are written in the last part of the command's run time.
    let taken = usize::try_from(begun.elapsed().as_micros()).unwrap();
    let (mut expected, mut killed) = (head.to_owned(), 0);
    for number in 0..KILLS {
        let line = format!("- fact {number}\n");
        let mut lukasa = place.command(&["save", "--quiet", "--scope", "project", &line]);
        let mut child = lukasa.spawn().unwrap();
        let moment = taken / 3 + dice.below(taken);
        delay_fault(Duration::from_micros(moment.try_into().unwrap()));
        child.kill().unwrap_or_default();
        let is_done = child.wait().unwrap().success();
        killed += usize::from(!is_done);
        let text = fs::read_to_string(&file).unwrap();
        let with_line = format!("{expected}{line}");
        assert!(text == with_line || !is_done && text == expected, "{number}: {text}");
        expected = text;
    }
    println!("killed {killed} of {KILLS}");
    place.run_ok(&["save", "--scope", "project", "last"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), format!("{expected}- last\n"));
    let names = fs::read_dir(place.checkout()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, [".git", "AGENTS.md"], "nothing is left over");
    let kept = fs::read_dir(place.home().join("state/context-files")).unwrap();
    assert_eq!(kept.count(), 1, "nor beside what is kept");
}
