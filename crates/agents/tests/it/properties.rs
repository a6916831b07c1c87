//! What holds whatever the memories and the requests are.

use agents::embedded::{Snapshot, Stored, Written, dream, forget, remember};
use agents::{ContextMode, ForgetRequest, RememberRequest};
use memory::change::Trust;
use memory::document;
use memory::path::{Layout, MemoryPath};
use memory::screen::Screen;
use proptest::prelude::*;

use crate::case::{after, entries, of};

/// Words from which statements are made that repeat, contradict, negate and date one another.
const WORDS: &[&str] = &[
    "the",
    "pier",
    "gate",
    "opens",
    "at",
    "six",
    "6",
    "never",
    "not",
    "on",
    "Friday",
    "runs",
    "until",
    "2026-01-02",
    "since",
    "tomorrow",
    "Odile",
    "maintains",
    "tariffs",
    "by",
    "no",
    "longer",
    "für",
    "die",
    "Kantine",
    "備份",
    "会議を",
    "入れない",
    "Сервер",
    "не",
    "`just x`",
    "C++",
    "-5",
    "🙂",
    ":",
    ".",
    "my",
    "I",
    "keep",
    "your",
    "answers",
    "short",
    "in",
    "this",
    "repository",
    "https://gate.example/a",
];

fn statement() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(WORDS), 1..9).prop_map(|words| words.join(" "))
}

fn memory_text() -> impl Strategy<Value = String> {
    let types = prop::sample::select(vec!["user", "feedback", "project", "reference", "other"]);
    let bullets = prop::sample::select(vec!["- ", "* ", "", "1. ", "# "]);
    let lines = prop::collection::vec((prop::bool::weighted(0.1), statement()), 0..6);
    let parts = (types, bullets, lines, statement(), any::<prop::sample::Index>());
    let entries = parts.prop_map(|(kind, other, lines, said, at)| {
        let lines: Vec<String> = lines
            .iter()
            .map(|(is_other, one)| format!("{}{one}\n", if *is_other { other } else { "- " }))
            .collect();
        // What a memory says of itself is what an entry says, or another thing, or nothing.
        let of_entry = lines.get(at.index(lines.len() + 2));
        let said = of_entry.map_or(said, |line| line.trim_start_matches("- ").trim().to_owned());
        let text = format!("---\ntype: {kind}\n---\n\n{}", lines.concat());
        if at.index(3) == 0 { text } else { document::set_field(&text, "description", &said) }
    });
    prop_oneof![4 => entries, 1 => any::<String>()]
}

fn snapshots() -> impl Strategy<Value = Snapshot> {
    let stored = (memory_text(), any::<bool>());
    prop::collection::vec(stored, 0..5).prop_map(|texts| {
        let now = "2026-06-01T09:00:00Z".parse().unwrap();
        let scopes = ["global", "project", "workspace"];
        let memories = texts.into_iter().enumerate().map(|(index, (text, pinned))| {
            let path = format!("/memories/{}/user/m{index}.md", scopes[index % 3]);
            let path = MemoryPath::parse(&path, Layout::Scoped).unwrap();
            Stored {
                path,
                text: text.into(),
                pinned,
                written: Written::At(now),
                trust: Trust::Person,
            }
        });
        of(memories.collect(), now)
    })
}

/// Returns the snapshot as edits leave it.
fn edited(snapshot: &Snapshot, edits: &[agents::Edit]) -> Snapshot {
    let files = after(snapshot, edits);
    let memories = files.into_iter().map(|(path, text)| {
        let path = MemoryPath::parse(&path, Layout::Scoped).unwrap();
        let pinned = snapshot.memories.iter().any(|stored| stored.path == path && stored.pinned);
        Stored {
            path,
            text: text.into(),
            pinned,
            written: Written::At(snapshot.now),
            trust: Trust::Person,
        }
    });
    of(memories.collect(), snapshot.now)
}

fn leaves_pinned_alone(snapshot: &Snapshot, edits: &[agents::Edit]) -> bool {
    let pinned = |path: &MemoryPath| {
        snapshot.memories.iter().any(|stored| stored.path == *path && stored.pinned)
    };
    !edits.iter().any(|edit| pinned(edit.path()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_dream_is_the_same_twice_and_has_nothing_left_to_do(snapshot in snapshots()) {
        let first = dream(&snapshot);
        prop_assert_eq!(&first, &dream(&snapshot));
        prop_assert!(leaves_pinned_alone(&snapshot, &first.edits));
        let second = dream(&edited(&snapshot, &first.edits));
        prop_assert_eq!(second.edits, Vec::new());
    }

    #[test]
    fn a_dream_with_room_to_grow_says_what_it_left(snapshot in snapshots()) {
        let mut snapshot = snapshot;
        let lines: Vec<String> = (0..16).map(|at| format!("- {}\n", format!("quay{at} ").repeat(150))).collect();
        let path = MemoryPath::parse("/memories/project/project/quays.md", Layout::Scoped).unwrap();
        let (written, trust) = (Written::Unknown, Trust::Person);
        let text = lines.concat().into();
        snapshot.memories.push(Stored { path, text, pinned: false, written, trust });
        let first = dream(&snapshot);
        let (before, after) = (after(&snapshot, &[]), after(&snapshot, &first.edits));
        let bytes = |files: &crate::case::Files| files.values().map(String::len).sum::<usize>();
        prop_assert!(bytes(&after) * 100 <= bytes(&before) * 102);
        prop_assert!(entries(&after).len() + first.deduped <= entries(&before).len());
        prop_assert!(leaves_pinned_alone(&snapshot, &first.edits));
        let second = dream(&edited(&snapshot, &first.edits));
        prop_assert!(first.held_back > 0 || second.edits.is_empty(), "{:?}", second.edits);
    }

    #[test]
    fn a_dream_grows_by_two_percent_at_the_most_and_adds_no_entry(snapshot in snapshots()) {
        let done = dream(&snapshot);
        let (before, after) = (after(&snapshot, &[]), after(&snapshot, &done.edits));
        let bytes = |files: &crate::case::Files| files.values().map(String::len).sum::<usize>();
        prop_assert!(bytes(&after) * 100 <= bytes(&before) * 102);
        prop_assert!(entries(&after).len() + done.deduped <= entries(&before).len());
    }

    #[test]
    fn forgetting_only_takes_entries_out(snapshot in snapshots(), query in statement()) {
        let done = forget(&snapshot, &ForgetRequest { query, scope: None });
        prop_assert!(leaves_pinned_alone(&snapshot, &done.edits));
        let (before, after) = (after(&snapshot, &[]), after(&snapshot, &done.edits));
        for (path, text) in &after {
            let left: Vec<&str> = document::body(text).lines().collect();
            let mut old = document::body(&before[path]).lines();
            prop_assert!(left.iter().all(|line| old.any(|one| one == *line)));
        }
        prop_assert!(done.removed.is_empty() == done.edits.is_empty());
    }

    #[test]
    fn remembering_loses_at_most_what_it_replaces(snapshot in snapshots(), content in statement()) {
        let request = RememberRequest { content, context_mode: ContextMode::Workspace, scope: None };
        let Ok(done) = remember(&snapshot, &request, &Screen::default()) else { return Ok(()) };
        let (before, after) = (after(&snapshot, &[]), after(&snapshot, &done.edits));
        prop_assert!(entries(&after).len() >= entries(&before).len());
        for text in after.values() {
            prop_assert!(text.len() <= memory::limits::MEMORY_BYTES_MAX);
        }
    }

    #[test]
    fn any_text_is_taken_or_refused(content in any::<String>(), query in any::<String>()) {
        let snapshot = of(Vec::new(), "2026-06-01T09:00:00Z".parse().unwrap());
        let request = RememberRequest { content, context_mode: ContextMode::Clean, scope: None };
        if let Ok(done) = remember(&snapshot, &request, &Screen::default()) {
            for edit in &done.edits {
                let agents::Edit::Write { text, .. } = edit else { panic!("{edit:?}") };
                prop_assert!(document::head(text.as_bytes()).malformed.is_none());
                prop_assert!(!document::entries(text).is_empty());
            }
            let again = edited(&snapshot, &done.edits);
            forget(&again, &ForgetRequest { query, scope: None });
            dream(&again);
        }
    }
}
