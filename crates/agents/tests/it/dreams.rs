//! Dream, case by case.

use agents::embedded::{Stored, dream};
use memory::change::Trust;
use memory::path::{Layout, MemoryPath};

use crate::case::{after, cases, contains, entries, list, of, snapshot};

const NOW: &str = "2026-06-01T09:00:00Z";

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
    let long = "- The harbour master keeps the keys of the eastern gate in the blue cupboard by the door\n";
    let text = format!("{long}{long}- Pier gate repair is tomorrow\n");
    let known = of(vec![written(&text, "2026-05-30T10:00:00Z")], NOW.parse().unwrap());
    let done = dream(&known);
    let named = &after(&known, &done.edits)["/memories/global/a.md"];
    assert_eq!(*named, format!("{long}- Pier gate repair is on 2026-05-31\n"));
    let mut unknown = known.clone();
    unknown.memories[0].written_at = None;
    let text = &after(&unknown, &dream(&unknown).edits)["/memories/global/a.md"];
    assert_eq!(*text, format!("{long}- Pier gate repair is tomorrow\n"));
}

#[test]
fn a_day_too_long_to_be_named_is_named_once_there_is_room() {
    let alone = "- Pier gate repair is tomorrow\n";
    let small = of(vec![written(alone, "2026-05-30T10:00:00Z")], NOW.parse().unwrap());
    assert_eq!(dream(&small).edits, [], "it would grow by a sixth");
    // What goes makes room, and the same dream uses it: a second one has nothing left to do.
    let twice = format!("{alone}- The gate is green\n- The gate is green\n");
    let first = of(vec![written(&twice, "2026-05-30T10:00:00Z")], NOW.parse().unwrap());
    let named = &after(&first, &dream(&first).edits)["/memories/global/a.md"];
    assert_eq!(named, "- Pier gate repair is on 2026-05-31\n- The gate is green\n");
    let second = of(vec![written(named, "2026-05-30T10:00:00Z")], NOW.parse().unwrap());
    assert_eq!(dream(&second).edits, []);
}

fn written(text: &str, at: &str) -> Stored {
    Stored {
        path: MemoryPath::parse("/memories/global/a.md", Layout::Scoped).unwrap(),
        text: text.into(),
        pinned: false,
        written_at: at.parse().ok(),
        trust: Trust::Person,
    }
}
