//! Forget, case by case.

use agents::ForgetRequest;
use agents::embedded::{Stored, Written, forget};
use memory::change::Trust;
use memory::path::{Layout, MemoryPath};

use crate::case::{after, cases, list, of, scope, snapshot, text};

#[test]
fn exactly_what_is_meant_is_removed() {
    for case in cases(include_str!("cases/forget.jsonl")) {
        let snapshot = snapshot(&case, "memories");
        let query = text(&case, "query").to_owned();
        let done = forget(&snapshot, &ForgetRequest { query, scope: scope(&case) });
        let mut removed: Vec<(String, String)> = done
            .removed
            .iter()
            .map(|entry| (entry.path.to_string(), entry.summary.trim().to_owned()))
            .collect();
        let mut wanted: Vec<(String, String)> = list(&case["expect"], "removed")
            .iter()
            .map(|entry| (text(entry, "path").to_owned(), text(entry, "entry").to_owned()))
            .collect();
        removed.sort();
        wanted.sort();
        assert_eq!(removed, wanted, "{} {}", case["id"], case["query"]);
        assert_eq!(done.edits.is_empty(), wanted.is_empty());
    }
}

#[test]
fn no_match_says_so() {
    let case = cases(include_str!("cases/forget.jsonl")).remove(0);
    let snapshot = snapshot(&case, "memories");
    let done = forget(&snapshot, &ForgetRequest { query: "submarine".to_owned(), scope: None });
    assert_eq!(done.summary, "No managed auto-memory entries matched.");
}

#[test]
fn a_pinned_memory_is_named_and_kept() {
    let mut case = cases(include_str!("cases/forget.jsonl")).remove(0);
    case["pinned"] = serde_json::json!(["/memories/global/user/me.md"]);
    let snapshot = snapshot(&case, "memories");
    let done = forget(&snapshot, &ForgetRequest { query: "cello".to_owned(), scope: None });
    assert_eq!(done.edits, []);
    assert_eq!(
        done.summary,
        "No managed auto-memory entries matched that may be removed. Pinned memories were left alone: \
         /memories/global/user/me.md."
    );
}

#[test]
fn a_name_and_a_description_go_with_what_they_repeat() {
    let memory = |head: &str, body: &str| format!("---\nname: {head}\n---\n\n{body}");
    let body = "- I live in Porto\n- I keep bees.\n";
    for (head, expected) in [
        ("live porto\ndescription: I live in Porto", "keep bees\ndescription: I keep bees"),
        ("home\ndescription: \"Me: i live in  Porto, and bees\"", "home\ndescription: I keep bees"),
        (
            "I live in Porto!\ndescription: \"I *live* in Porto\"",
            "keep bees\ndescription: I keep bees",
        ),
        ("home\ndescription: Where I live", "home\ndescription: Where I live"),
        ("porto\ndescription: Olive trees", "porto\ndescription: Olive trees"),
    ] {
        let path =
            MemoryPath::parse("/memories/global/user/live-porto.md", Layout::Scoped).unwrap();
        let (written, trust) = (Written::Unknown, Trust::Person);
        let stored =
            Stored { path, text: memory(head, body).into(), pinned: false, written, trust };
        let snapshot = of(vec![stored], "2026-06-01T09:00:00Z".parse().unwrap());
        let query = "forget that I live in Porto".to_owned();
        let done = forget(&snapshot, &ForgetRequest { query, scope: None });
        let left = &after(&snapshot, &done.edits)["/memories/global/user/live-porto.md"];
        assert_eq!(*left, memory(expected, "- I keep bees.\n"), "{head}");
    }
}

#[test]
fn what_a_small_word_tells_apart_is_not_taken_along() {
    let path = MemoryPath::parse("/memories/global/user/lamp.md", Layout::Scoped).unwrap();
    let text = "- The lamp is on at night\n- The lamp is off by day\n";
    let (written, trust) = (Written::Unknown, Trust::Person);
    let stored = Stored { path, text: text.into(), pinned: false, written, trust };
    let snapshot = of(vec![stored], "2026-06-01T09:00:00Z".parse().unwrap());
    for (query, removed) in [("forget that the lamp is off", 1), ("forget the lamp", 2)] {
        let done = forget(&snapshot, &ForgetRequest { query: query.to_owned(), scope: None });
        assert_eq!(done.removed.len(), removed, "{query} {:?}", done.removed);
    }
}
