//! Tests of `lukasa recall`.

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

fn filled() -> Sandbox {
    let place = Sandbox::new();
    for (name, text) in [
        ("project/harbour.md", "- The harbour master of Brenn is called Olga Tveit.\n"),
        ("global/bread.md", "---\nname: Bread\n---\n- The sourdough rests for eleven hours.\n"),
        ("project/tests.md", "- Integration tests need the variable TARN_URL.\n"),
    ] {
        place.create(name, text);
    }
    place
}

#[test]
fn fitting_memories_are_shown_with_reasons() {
    let place = filled();
    let shown = place.run_ok(&["recall", "who", "is", "the", "harbour", "master?"]);
    let (first, text) = shown.split_once('\n').unwrap();
    let score = first.strip_prefix("project/harbour.md  ").unwrap();
    let score = score.strip_suffix(", saved today").unwrap();
    assert!((0.5..=1.0).contains(&score.parse::<f64>().unwrap()), "{shown}");
    assert_eq!(text, "  - The harbour master of Brenn is called Olga Tveit.\n");
    let explained = place.run_ok(&["recall", "--explain", "how long does the sourdough rest?"]);
    assert!(explained.starts_with("global/bread.md  "), "{explained}");
    assert!(explained.contains("\n  has `sourdough`"), "{explained}");
    let json = place.run_ok(&["recall", "--json", "TARN_URL variable"]);
    let value: Value = serde_json::from_str(json.trim_end()).unwrap();
    assert_eq!(value["path"], "/memories/project/tests.md");
    assert_eq!(value["text"], "- Integration tests need the variable TARN_URL.");
    assert!(value["score"].as_f64().unwrap() >= 0.5, "{value}");
    assert_eq!((&value["weak"], &value["alsoIn"]), (&json!(false), &json!([])));
    assert!(value["savedAt"].is_string(), "{value}");
}

#[test]
fn a_weak_memory_is_shown_as_such() {
    let place = Sandbox::new();
    place.create("global/style.md", "- I prefer tabs over spaces\n");
    let ended = place.run(&["recall", "how should I indent?"]);
    assert_eq!(ended.status, 0);
    assert!(ended.stdout.starts_with("global/style.md  0."), "{}", ended.stdout);
    assert!(ended.stdout.contains(", weak, saved today\n  - I prefer tabs"), "{}", ended.stdout);
    assert!(ended.stderr.contains("no memory clearly fits"), "{}", ended.stderr);
    let json = place.run_ok(&["recall", "--json", "how should I indent?"]);
    let value: Value = serde_json::from_str(json.trim_end()).unwrap();
    assert_eq!(value["weak"], true);
    let beside = place.run_ok(&["context", "--at", "prompt", "--prompt", "how should I indent?"]);
    assert!(!beside.contains("recalled_memories"), "{beside}");
}

#[test]
fn recall_works_with_a_single_memory() {
    let place = Sandbox::new();
    place.create("project/ferry.md", "- The ferry to Brenn leaves from quay four.\n");
    let found = place.run_ok(&["recall", "where does the ferry leave?"]);
    assert!(found.starts_with("project/ferry.md  "), "{found}");
    assert_eq!(place.run(&["recall", "what is the capital of France?"]).status, 1);
}

#[test]
fn without_a_result_a_message_and_a_status_report_it() {
    let place = filled();
    let nothing = place.run(&["recall", "what do penguins eat in winter?"]);
    assert_eq!((nothing.status, nothing.stdout.as_str()), (1, ""));
    assert!(nothing.stderr.contains("no memory fits"), "{}", nothing.stderr);
}

#[test]
fn a_memory_is_escaped_for_the_terminal() {
    let place = filled();
    let planted = "- The lighthouse lamp code is a\u{9b}31m bell \u{7}and more.\n";
    std::fs::write(place.checkout().join(".lukasa/memory/lamp.md"), planted).unwrap();
    let ended = place.run(&["recall", "lighthouse lamp code"]);
    assert!(!ended.stdout.contains(['\u{9b}', '\u{7}']), "{:?}", ended.stdout);
}
