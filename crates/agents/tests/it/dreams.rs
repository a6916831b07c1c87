//! Dream, case by case.

use agents::embedded::{Stored, dream};

use crate::case::{after, cases, contains, entries, list, of, snapshot};

#[test]
fn what_repeats_or_is_over_goes_and_every_fact_stays() {
    for case in cases(include_str!("cases/dream.jsonl")) {
        let id = &case["id"];
        let expect = &case["expect"];
        let snapshot = snapshot(&case, "memories");
        let done = dream(&snapshot);
        let (before, after) = (after(&snapshot, &[]), after(&snapshot, &done.edits));
        let all: Vec<&str> = after.values().map(String::as_str).collect();
        let all = all.join("\n");
        for fact in list(expect, "distinctFacts") {
            assert!(contains(&all, fact), "{id} lost {fact}");
        }
        for gone in list(expect, "mustBeGone") {
            assert!(!contains(&all, gone), "{id} still has {gone}");
        }
        let left = entries(&after).len();
        assert_eq!(Some(left as u64), expect["maxEntries"].as_u64(), "{id} {:?}", entries(&after));
        let went = entries(&before).len() - left - list(expect, "mustBeGone").len();
        assert_eq!(
            (done.deduped, went as u64),
            (went, expect["mergedAtLeast"].as_u64().unwrap()),
            "{id}"
        );
    }
}

#[test]
fn a_day_that_is_pointed_at_is_named_only_where_the_time_of_writing_is_known() {
    let now = "2026-06-01T09:00:00Z".parse().unwrap();
    let long = "- The harbour master keeps the keys of the eastern gate in the blue cupboard by the door\n";
    let text = format!("{long}- Pier gate repair is tomorrow\n");
    let stored = |written_at| Stored {
        path: memory::path::MemoryPath::parse(
            "/memories/global/a.md",
            memory::path::Layout::Scoped,
        )
        .unwrap(),
        text: text.as_str().into(),
        pinned: false,
        written_at,
        trust: memory::change::Trust::Person,
    };
    let known = of(vec![stored(Some("2026-05-30T10:00:00Z".parse().unwrap()))], now);
    let named = after(&known, &dream(&known).edits);
    let growth = named["/memories/global/a.md"].len() * 100 / text.len();
    assert!(
        growth <= 102 && named["/memories/global/a.md"].contains("2026-05-31") || growth == 100
    );
    let unknown = of(vec![stored(None)], now);
    assert_eq!(dream(&unknown).edits, []);
}
