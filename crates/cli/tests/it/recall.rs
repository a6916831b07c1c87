//! Tests of `lukasa recall`.

use serde_json::Value;

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
    assert_eq!(
        shown,
        "project/harbour.md\n  - The harbour master of Brenn is called Olga Tveit.\n"
    );
    let explained = place.run_ok(&["recall", "--explain", "how long does the sourdough rest?"]);
    assert!(explained.starts_with("global/bread.md\n  has `sourdough`"), "{explained}");
    let json = place.run_ok(&["recall", "--json", "TARN_URL variable"]);
    let value: Value = serde_json::from_str(json.trim_end()).unwrap();
    assert_eq!(value["path"], "/memories/project/tests.md");
    assert_eq!(value["text"], "- Integration tests need the variable TARN_URL.");
}

#[test]
fn recall_works_with_a_single_memory() {
    let place = Sandbox::new();
    place.create("project/ferry.md", "- The ferry to Brenn leaves from quay four.\n");
    let found = place.run_ok(&["recall", "where does the ferry leave?"]);
    assert!(found.starts_with("project/ferry.md\n"), "{found}");
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
