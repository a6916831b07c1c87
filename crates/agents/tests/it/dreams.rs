//! Dream, case by case.

use std::fmt::Write as _;

use agents::embedded::{Stored, Written, dream};
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
    unknown.memories[0].written = Written::Unknown;
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
        written: Written::At(at.parse().unwrap()),
        trust: Trust::Person,
    }
}

fn at(path: &str, text: &str) -> Stored {
    let path = MemoryPath::parse(&format!("/memories/{path}"), Layout::Scoped).unwrap();
    Stored { path, ..written(text, NOW) }
}

/// Memories large enough that a dream may add one more, and nothing else to do in them.
fn berths() -> Stored {
    let mut text = "---\ntype: project\ndescription: Who has which berth\n---\n\n".to_owned();
    for berth in 0..250 {
        writeln!(text, "- Berth {berth} is {} for the season", "let ".repeat(berth % 7 + 7))
            .unwrap();
    }
    at("project/project/berths.md", &text)
}

const ABOUT: &str = "---\ntype: user\ndescription: About me\n---\n\n- I live in Porto\n- Keep your answers under ten \
                     lines\n  even in reviews\n- My keyboard is Dvorak\n";

#[test]
fn an_entry_of_another_type_goes_to_a_memory_of_that_type_that_speaks_of_the_same() {
    let answers = "---\ntype: feedback\ndescription: How to answer\n---\n\n* No emoji in answers\n";
    let snapshot = of(
        vec![at("global/user/about.md", ABOUT), at("global/feedback/answers.md", answers)],
        NOW.parse().unwrap(),
    );
    let done = dream(&snapshot);
    let after = after(&snapshot, &done.edits);
    assert_eq!(
        after["/memories/global/user/about.md"],
        "---\ntype: user\ndescription: About me\n---\n\n- I live in Porto\n- My keyboard is Dvorak\n"
    );
    assert_eq!(
        after["/memories/global/feedback/answers.md"],
        format!("{answers}- Keep your answers under ten lines\n  even in reviews\n")
    );
    assert!(done.summary.contains("moved to where they belong: 1."), "{}", done.summary);
    assert_eq!((done.deduped, done.held_back), (0, 0));
}

#[test]
fn an_entry_that_no_memory_has_a_place_for_gets_one_when_there_is_room() {
    let small = of(vec![at("global/user/about.md", ABOUT)], NOW.parse().unwrap());
    let held_back = dream(&small);
    assert_eq!((held_back.edits.len(), held_back.held_back), (0, 1));
    assert!(held_back.summary.ends_with("a dream may add 2 %: 1."), "{}", held_back.summary);
    let large = of(vec![at("global/user/about.md", ABOUT), berths()], NOW.parse().unwrap());
    let done = dream(&large);
    let after = after(&large, &done.edits);
    assert_eq!(
        after["/memories/global/feedback/keep-answers-under-ten.md"],
        "---\ntype: feedback\ndescription: Keep your answers under ten lines\nname: keep answers under ten\n\
         ---\n\n- Keep your answers under ten lines\n  even in reviews\n"
    );
    assert_eq!((after.len(), done.held_back), (3, 0));
}

#[test]
fn an_entry_stays_where_taking_it_out_would_tear_something_apart() {
    let asked = "Keep your answers under ten lines";
    let stranger = format!("- {asked}");
    let head = "---\ntype: user\ndescription: About me\n---\n\n";
    let body = |text: &str| at("global/user/about.md", &format!("{head}{text}"));
    let own = "- I live in Porto\n- My keyboard is Dvorak\n";
    let moves = body(&format!("{own}{stranger}\n"));
    let pinned = Stored { pinned: true, ..moves.clone() };
    let outside = Stored { trust: Trust::Imported, ..moves.clone() };
    let no_day = body(&format!("{own}- From next week on keep your answers short\n"));
    let no_day = Stored { written: Written::Unknown, ..no_day };
    let no_type = at("global/notes.md", &format!("{own}{stranger}\n"));
    for (expected, stored) in [
        (1, moves),
        (0, pinned),
        (0, outside),
        (0, no_type),
        (0, body(&format!("{own}\n## Reviews\n\n{stranger}\n"))),
        (0, body(&format!("1. I live in Porto\n2. My keyboard is Dvorak\n3. {asked}\n"))),
        (0, body(&format!("{own}\nWhat I ask of you:\n\n{stranger}\n"))),
        (0, body(&format!("{own}- I read answers on my phone\n{stranger}\n"))),
        (0, body(&format!("- I live in Porto\n{stranger}\n- Answer me in French\n"))),
        (0, no_day),
    ] {
        let snapshot = of(vec![stored, berths()], NOW.parse().unwrap());
        let done = dream(&snapshot);
        let made = after(&snapshot, &done.edits).len() - 2;
        assert_eq!(made, expected, "{} {:?}", &*snapshot.memories[0].text, done.edits);
    }
}

#[test]
fn a_memory_says_of_itself_what_is_in_it_when_there_is_room() {
    let bare = "---\ntype: project\nname: gates\n---\n\n- The pier gate opens at six\n- Gates are green.\n";
    let described = "description: The pier gate opens at six; Gates are green\n";
    let own =
        "---\ntype: project\ndescription: When which gate opens\n---\n\n- The gate opens at six\n";
    let names = "---\nname: gate\ndescription: Gate\n---\n\n- The lock gate opens at seven\n";
    let plain = "- The weir gate opens at eight\n";
    let snapshot = of(
        vec![
            at("project/project/bare.md", bare),
            at("project/project/own.md", own),
            at("project/project/gate.md", names),
            at("project/plain.md", plain),
            berths(),
        ],
        NOW.parse().unwrap(),
    );
    let done = dream(&snapshot);
    let after = after(&snapshot, &done.edits);
    assert!(after["/memories/project/project/bare.md"].contains(described));
    assert_eq!(after["/memories/project/project/own.md"], own);
    assert_eq!(
        after["/memories/project/project/gate.md"],
        "---\nname: gate\ndescription: The lock gate opens at seven\n---\n\n- The lock gate opens at seven\n"
    );
    assert_eq!(after["/memories/project/plain.md"], plain, "it has no frontmatter, and gets none");
}

#[test]
fn a_description_does_not_outlive_what_it_says() {
    let text = "---\nname: code freeze\ndescription: Code freeze until 2026-02-28\n---\n\n- Code freeze until \
                2026-02-28\n- Releases go out on Wednesdays\n";
    let snapshot = of(vec![at("project/project/code-freeze.md", text)], NOW.parse().unwrap());
    let after = after(&snapshot, &dream(&snapshot).edits);
    assert_eq!(
        after["/memories/project/project/code-freeze.md"],
        "---\nname: releases go wednesdays\ndescription: Releases go out on Wednesdays\n---\n\n- Releases go out \
         on Wednesdays\n"
    );
}

fn stays_two(a: &str, b: &str) -> bool {
    let stored = at("global/user/a.md", &format!("- {a}\n- {b}\n"));
    dream(&of(vec![stored], NOW.parse().unwrap())).edits.is_empty()
}

#[test]
fn small_words_letters_and_days_of_what_was_done_tell_facts_apart() {
    for (a, b) in [
        ("The lamp is on", "The lamp is off"),
        ("Deploy before the backup", "Deploy after the backup"),
        ("We pay them monthly", "They pay us monthly"),
        ("Some hosts allow root", "Every host allows root"),
        ("Reviews can be skipped", "Reviews must be skipped"),
        ("Tom eats meat", "Tom eats no meat"),
        ("Option -c is safe", "Option -C is safe"),
        ("Limit is 10 MB", "Limit is 10 Mb"),
        ("Copy .env to the server", "Copy env to the server"),
        ("Mira was the lead", "Mira is the lead"),
        ("My desk is upstairs", "Your desk is upstairs"),
        ("Her desk is upstairs", "His desk is upstairs"),
        ("Turn the lamp on at six", "Turn the lamp off at six"),
        ("Send mail to Ben", "Send mail from Ben"),
        ("Backup läuft vor dem Deploy", "Backup läuft nach dem Deploy"),
        ("Das Licht ist an", "Das Licht ist aus"),
        ("Das Tor ist auf", "Das Tor ist zu"),
        ("Il server è acceso", "Il server è spento"),
        ("Le pont est ouvert avant midi", "Le pont est ouvert après midi"),
        ("Caffè con zucchero", "Caffè senza zucchero"),
        ("Use tabs with Go", "Use tabs without Go"),
        ("All tests pass", "Only tests pass"),
        ("The proxy is called nginx", "The proxy calls nginx"),
        ("The crawler is blocked at noon", "The crawler blocks at noon"),
        ("The export is led by Kaveh", "The export leads Kaveh"),
        (
            "The catalogue backup runs at 03:00",
            "The reading-room backup runs at 03:00 since 2026-01-01",
        ),
        ("Paid invoice 17 (2026-01-05)", "Paid invoice 18 (2026-02-05)"),
        ("Released version 1.2 (2025-01-05)", "Released version 1.3 (2026-02-05)"),
        ("Uses Firefox at home", "Uses Chrome at work since 2026-01-01"),
        ("Ran the marathon in 3:59 (2025-05-01)", "Ran the marathon in 3:45 (2026-05-01)"),
        (
            "Mira's birthday party was at the lake (2025-05-01)",
            "Mira's birthday party was at the zoo (2026-05-01)",
        ),
    ] {
        assert!(stays_two(a, b), "{a} | {b}");
    }
}

#[test]
fn what_is_said_with_other_small_words_is_one_fact() {
    for (a, b) in [
        ("Keep answers under ten lines", "Answers should be kept shorter than ten lines"),
        ("Ngozi owns the solver", "The solver is owned by Ngozi"),
        ("Vorlagen werden freitags gesichert", "Freitags werden Vorlagen gesichert"),
        ("El coro ensaya los martes en casa", "Los martes el coro ensaya en casa"),
        ("The feed restarts at 19:00 UTC", "Since 2026-04-02 the feed restarts at 20:15 UTC"),
        ("Bundles are flushed every hour", "Since 2026-05-01 bundles are flushed every six hours"),
        ("Kaveh leads the export", "The export is led by Kaveh"),
        ("Kaveh wrote the parser", "The parser was written by Kaveh"),
        ("Branch icc-4 holds the profiles", "The profiles are held in branch icc-4"),
        (
            "Lines have at most 80 signs (2025-01-05)",
            "Since 2026-01-05 lines have at most 99 signs",
        ),
        ("The office opens at nine", "Office opens at nine."),
        ("I live in Porto", "Lives in Porto"),
        ("Tests run in CI", "The tests are run on CI"),
        ("Never amend pushed commits", "Do not amend pushed commits"),
        ("Use `just unit` for the unit tests", "The unit tests use `just unit`"),
        ("CI runs on Jenkins (2024-02-11)", "CI runs on GitHub Actions (2026-01-20)"),
    ] {
        assert!(!stays_two(a, b), "{a} | {b}");
    }
}

#[test]
fn a_stay_that_is_over_was_one_and_an_absence_that_is_over_is_none() {
    for (entry, stays) in [
        ("Worked at the harbour office until 2019-03-01", true),
        ("Arbeitete bis 2019-03-01 im Hafenamt", true),
        ("Taught chemistry until 2020-07-01", true),
        ("Wore a wrist splint until 2026-05-01", false),
        ("Is away until 2026-05-01", false),
        ("The pier is closed until 2026-05-01", false),
        ("No deploys until 1 May 2026", false),
        ("The archive was not public until 2026-05-01", true),
        ("Sperrung bis 1. Mai 2026", false),
        ("2026年5月1日まで無料", false),
        ("试用期到2026年5月1日为止", false),
        ("Доступ действует до 1 мая 2026", false),
        ("Oferta trwa do 1.05.2026, też w środę", false),
    ] {
        let stored = at("global/user/a.md", &format!("- {entry}\n- Plays the cello\n"));
        let dreamt = dream(&of(vec![stored], NOW.parse().unwrap()));
        assert_eq!(dreamt.edits.is_empty(), stays, "{entry}");
    }
}

#[test]
fn a_memory_with_fields_of_somebody_else_is_not_taken_away() {
    for (field, stays) in [("owner: Mira", true), ("type: user", false)] {
        let kept = at("global/user/a.md", "- Plays the cello\n- Rides a bike\n");
        let other = at("global/user/b.md", &format!("---\n{field}\n---\n\n- Plays the cello\n"));
        let snapshot = of(vec![kept, other], NOW.parse().unwrap());
        let after = after(&snapshot, &dream(&snapshot).edits);
        assert_eq!(after.contains_key("/memories/global/user/b.md"), stays, "{after:?}");
    }
}

#[test]
fn days_are_named_as_far_as_there_is_room() {
    let lines = |count: usize, says: &str| -> String {
        (0..count).fold(String::new(), |lines, n| format!("{lines}- Berth b{n}x {says}\n"))
    };
    // All fit; 768 of 800 bytes are for a part of them, 8 each; none, where two percent are less than a step.
    for (days, others, named, held_back) in
        [(1, 1_900, 1, 0), (200, 1_900, 96, 104), (200, 0, 0, 200)]
    {
        let text = format!("{}{}", lines(days, "is today"), lines(others, "has light"));
        let written = Written::At(NOW.parse().unwrap());
        let stored = Stored { written, pinned: false, ..at("project/project/a.md", &text) };
        let snapshot = of(vec![stored], NOW.parse().unwrap());
        let dreamt = dream(&snapshot);
        let after = after(&snapshot, &dreamt.edits);
        let text = after.values().cloned().collect::<String>();
        assert_eq!((text.matches("is on 2026").count(), dreamt.held_back), (named, held_back));
    }
}
