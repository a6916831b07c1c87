//! `quipu save`: one fact more in a context file.

use std::fs;

use serde_json::json;

use crate::place::Place;

#[test]
fn a_fact_is_added_to_the_file_of_its_scope() {
    let place = Place::new();
    let ended = place.run(&["save", "--scope", "project", "- Builds with make"]);
    insta::assert_snapshot!(ended.shown(), @r"
    status 0
    --- stderr
    added to <place>/app/QWEN.md
    ");
    fs::create_dir(place.checkout().join("src")).unwrap();
    let from_below = place.run_with(&["save", "--scope", "project", "-"], "two\nlines\n");
    assert_eq!(from_below.status, 0, "{}", from_below.stderr);
    let text = fs::read_to_string(place.checkout().join("QWEN.md")).unwrap();
    assert_eq!(text, "## Quipu Added Memories\n- Builds with make\n- two lines\n");
    let saved = place.json(&["save", "--scope", "global", "Likes tea"]);
    let path = saved["path"].as_str().unwrap();
    assert_eq!(fs::read_to_string(place.home().join("QWEN.md")).unwrap().lines().count(), 2);
    assert_eq!(
        saved,
        json!({
            "path": path, "scope": "global", "changed": true, "bytesWritten": 36, "warnings": [],
        })
    );
    assert!(!place.done(&["log"]).contains("make"), "it is in no history");
}

#[test]
fn without_a_scope_both_files_are_named() {
    let place = Place::new();
    insta::assert_snapshot!(place.run(&["save", "x"]).shown(), @r"
    status 2
    --- stderr
    error: it is not said which file to save it to
      help: `--scope project` adds it to <place>/app/QWEN.md
      help: `--scope global` adds it to <place>/home/QWEN.md
    ");
    assert!(!place.checkout().join("QWEN.md").exists());
}

#[test]
fn what_cannot_be_saved_is_said_and_nothing_is_made() {
    let place = Place::new();
    let save = |fact: &str| place.run(&["save", "--scope", "global", fact]);
    assert_eq!(save(" - ").status, 2);
    assert_eq!(place.run_with(&["save", "--scope", "global"], "\n").status, 2);
    let secret = format!("use ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let refused = save(&secret);
    assert_eq!(refused.status, 4, "{}", refused.stderr);
    assert!(refused.stderr.contains("--allow secrets."), "{}", refused.stderr);
    assert!(!place.home().join("QWEN.md").exists());
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
fn the_names_of_context_files_can_be_set() {
    let place = Place::new();
    fs::write(place.home().join("config.toml"), "[context]\nfile_names = 'CLAUDE.md'\n").unwrap();
    fs::write(place.checkout().join("AGENTS.md"), "# Rules\n").unwrap();
    place.done(&["save", "--scope", "project", "x"]);
    let text = fs::read_to_string(place.checkout().join("CLAUDE.md")).unwrap();
    assert_eq!(text, "## Quipu Added Memories\n- x\n");
    assert_eq!(fs::read_to_string(place.checkout().join("AGENTS.md")).unwrap(), "# Rules\n");
}
