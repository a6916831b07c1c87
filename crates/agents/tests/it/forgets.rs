//! Forget, case by case.

use agents::ForgetRequest;
use agents::embedded::forget;

use crate::case::{cases, list, scope, snapshot, text};

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
