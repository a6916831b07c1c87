//! Properties for any memories and any requests.
//!
//! Memories are generated from words that repeat, contradict and date each other, and from Markdown blocks of all kinds.

use lukasa_agents::rules::{EntryDates, Snapshot, StoredMemory, dream, forget, remember};
use lukasa_agents::{ContextMode, ForgetRequest, RememberRequest};
use memory::change::Trust;
use memory::document;
use memory::path::{Layout, MemoryPath};
use memory::screen::Screen;
use proptest::prelude::*;

use crate::case::{entries, snapshot_of, snapshot_of_texts, texts_after};

/// Words for statements that repeat, contradict, negate and date each other.
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
    let entries = parts.prop_map(|(kind, other, lines, description, index)| {
        let lines: Vec<String> = lines
            .iter()
            .map(|(is_other, one)| format!("{}{one}\n", if *is_other { other } else { "- " }))
            .collect();
        // The description repeats an entry, says something else, or is missing.
        let of_entry = lines.get(index.index(lines.len() + 2));
        let description =
            of_entry.map_or(description, |line| line.trim_start_matches("- ").trim().to_owned());
        let text = format!("---\ntype: {kind}\n---\n\n{}", lines.concat());
        if index.index(3) == 0 {
            text
        } else {
            document::set_field(&text, "description", &description)
        }
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
            StoredMemory {
                path,
                text: text.into(),
                pinned,
                entry_dates: EntryDates::AllAt(now),
                trust: Trust::Person,
                influenced: false,
                written_by_review: false,
            }
        });
        snapshot_of(memories.collect(), now)
    })
}

/// Returns the snapshot after edits.
fn snapshot_after(snapshot: &Snapshot, edits: &[lukasa_agents::CuratorEdit]) -> Snapshot {
    let files = texts_after(snapshot, edits);
    let memories = files.into_iter().map(|(path, text)| {
        let path = MemoryPath::parse(&path, Layout::Scoped).unwrap();
        let pinned = snapshot.memories.iter().any(|stored| stored.path == path && stored.pinned);
        StoredMemory {
            path,
            text: text.into(),
            pinned,
            entry_dates: EntryDates::AllAt(snapshot.now),
            trust: Trust::Person,
            influenced: false,
            written_by_review: false,
        }
    });
    snapshot_of(memories.collect(), snapshot.now)
}

fn leaves_pinned_alone(snapshot: &Snapshot, edits: &[lukasa_agents::CuratorEdit]) -> bool {
    let pinned = |path: &MemoryPath| {
        snapshot.memories.iter().any(|stored| stored.path == *path && stored.pinned)
    };
    !edits.iter().any(|edit| pinned(edit.path()))
}

/// Markdown blocks of all kinds, some repeated.
fn shaped_text() -> impl Strategy<Value = String> {
    let blocks = prop::sample::select(vec![
        "- one berth is free\n- another is not\n",
        "- outer\n  - inner\n    - innermost\n  - inner\n",
        "1. open the gate\n2. wait\n3. open the gate\n",
        "## Ada\n\n- works on Fridays only\n",
        "## Tobe\n\n- works on Fridays only\n",
        "Title\n=====\n\n- one berth is free\n",
        "| a | b |\n|---|---|\n| 1 | 1 |\n",
        "```sh\nmake gate\n```\n",
        "~~~\n- no item\n~~~\n",
        "- [ ] call Ada\n- [x] call Ada\n",
        "> one berth is free\n",
        "A paragraph of\ntwo lines.\n",
        "Introduction:\n\n- one berth is free\n",
        "- a fact\n  Why: a reason\n  How to apply: so\n",
        "<div>\nhtml\n</div>\n",
        "- 猫を飼っている\n- 猫を飼っている。\n",
        "- One berth is free.\n",
        "* * *\n",
        "- Owner: Priya\n",
        "[link]: https://gate.example\n",
    ]);
    let text = prop::collection::vec(blocks, 0..7).prop_map(|blocks| blocks.join("\n"));
    (text, any::<bool>())
        .prop_map(|(text, crlf)| if crlf { text.replace('\n', "\r\n") } else { text })
}

fn shaped_snapshots() -> impl Strategy<Value = Snapshot> {
    let names = ["pier.md", "pier-2.md", "gate.md", "lamp/pier.md"];
    let texts = prop::collection::vec(prop_oneof![shaped_text(), memory_text()], names.len());
    texts.prop_map(move |texts| {
        let memories: Vec<(String, String)> = names
            .iter()
            .zip(texts)
            .map(|(name, text)| (format!("/memories/project/{name}"), text))
            .collect();
        let memories: Vec<(&str, &str)> =
            memories.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        snapshot_of_texts(&memories)
    })
}

/// Returns the full text of all entries, with stronger normalization than the curator's.
fn normalized_entries(files: &crate::case::MemoryTexts) -> Vec<(String, String)> {
    let fold = |text: &str| {
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        words.trim_end_matches(['.', '。', '!', ';', ',', ' ']).to_owned()
    };
    let of = |(path, text): (&String, &String)| {
        let entries = document::entries(text).into_iter();
        entries.map(|entry| (path.clone(), fold(entry.full_text(text)))).collect::<Vec<_>>()
    };
    files.iter().flat_map(of).collect()
}

/// Returns a file path without extension and number.
fn subject(path: &str) -> &str {
    let stem = path.trim_end_matches(".md");
    stem.strip_suffix("-2").unwrap_or(stem)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn a_dream_removes_only_entries_that_have_an_equal(snapshot in shaped_snapshots()) {
        let done = dream(&snapshot);
        let (before, after) = (normalized_entries(&texts_after(&snapshot, &[])), normalized_entries(&texts_after(&snapshot, &done.edits)));
        // Resolved dates are the only changes of wording.
        let dated = done.changes.iter().any(|change| change.action == lukasa_agents::EntryAction::Dated);
        for (path, entry) in before.iter().filter(|_| !dated) {
            let survives = after.iter().any(|(at, one)| one == entry && subject(at) == subject(path));
            prop_assert!(survives, "{path}: {entry}");
        }
        prop_assert_eq!(before.len() - after.len(), done.merged_entries);
    }

    #[test]
    fn remembering_loses_no_entry(snapshot in shaped_snapshots(), content in prop_oneof![shaped_text(), statement()]) {
        let scope = Some(memory::path::Scope::Project);
        let request = RememberRequest { content, context_mode: ContextMode::Workspace, scope };
        let Ok(done) = remember(&snapshot, &request, &Screen::default()) else { return Ok(()) };
        let (before, after) = (texts_after(&snapshot, &[]), texts_after(&snapshot, &done.edits));
        let updated = done.changes.iter().filter(|one| one.action == lukasa_agents::EntryAction::Updated).count();
        let after = normalized_entries(&after);
        let lost = normalized_entries(&before).into_iter().filter(|one| !after.contains(one)).count();
        prop_assert!(lost <= updated, "{lost}");
    }

    #[test]
    fn forgetting_removes_exactly_the_reported_entries(snapshot in shaped_snapshots(), query in prop_oneof![shaped_text(), statement()]) {
        let done = forget(&snapshot, &ForgetRequest { query, scope: None, file: None });
        let (before, after) = (texts_after(&snapshot, &[]), texts_after(&snapshot, &done.edits));
        prop_assert_eq!(entries(&before).len() - entries(&after).len(), done.removed.len());
        prop_assert!(done.removed.is_empty() || done.candidates.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_dream_is_deterministic_and_leaves_nothing_for_a_second_one(snapshot in snapshots()) {
        let first = dream(&snapshot);
        prop_assert_eq!(&first, &dream(&snapshot));
        prop_assert!(leaves_pinned_alone(&snapshot, &first.edits));
        let second = dream(&snapshot_after(&snapshot, &first.edits));
        prop_assert!(first.deferred > 0 || second.edits.is_empty(), "{:?}", second.edits);
    }

    #[test]
    fn a_dream_reports_what_it_defers(snapshot in snapshots()) {
        let mut snapshot = snapshot;
        let lines: Vec<String> = (0..16).map(|at| format!("- quay {at}{}\n", "x".repeat(900))).collect();
        let path = MemoryPath::parse("/memories/project/project/quays.md", Layout::Scoped).unwrap();
        let (entry_dates, trust) = (EntryDates::Unknown, Trust::Person);
        let text = lines.concat().into();
        snapshot.memories.push(StoredMemory { path, text, pinned: false, entry_dates, trust, influenced: false, written_by_review: false });
        let first = dream(&snapshot);
        let (before, after) = (texts_after(&snapshot, &[]), texts_after(&snapshot, &first.edits));
        let bytes = |files: &crate::case::MemoryTexts| files.values().map(String::len).sum::<usize>();
        prop_assert!(bytes(&after) * 100 <= bytes(&before) * 102);
        prop_assert!(entries(&after).len() + first.merged_entries <= entries(&before).len());
        prop_assert!(leaves_pinned_alone(&snapshot, &first.edits));
        let second = dream(&snapshot_after(&snapshot, &first.edits));
        prop_assert!(first.deferred > 0 || second.edits.is_empty(), "{:?}", second.edits);
    }

    #[test]
    fn a_dream_grows_memories_by_at_most_two_percent_and_adds_no_entry(snapshot in snapshots()) {
        let done = dream(&snapshot);
        let (before, after) = (texts_after(&snapshot, &[]), texts_after(&snapshot, &done.edits));
        let bytes = |files: &crate::case::MemoryTexts| files.values().map(String::len).sum::<usize>();
        prop_assert!(bytes(&after) * 100 <= bytes(&before) * 102);
        prop_assert!(entries(&after).len() + done.merged_entries <= entries(&before).len());
    }

    #[test]
    fn forgetting_only_removes_entries(snapshot in snapshots(), query in statement()) {
        let done = forget(&snapshot, &ForgetRequest { query, scope: None, file: None });
        prop_assert!(leaves_pinned_alone(&snapshot, &done.edits));
        let (before, after) = (texts_after(&snapshot, &[]), texts_after(&snapshot, &done.edits));
        for (path, text) in &after {
            let left: Vec<&str> = document::body(text).lines().collect();
            let mut old = document::body(&before[path]).lines();
            prop_assert!(left.iter().all(|line| old.any(|one| one == *line)));
        }
        prop_assert!(done.removed.is_empty() == done.edits.is_empty());
    }

    #[test]
    fn remembering_loses_no_more_entries_than_it_replaces(snapshot in snapshots(), content in statement()) {
        let request = RememberRequest { content, context_mode: ContextMode::Workspace, scope: None };
        let Ok(done) = remember(&snapshot, &request, &Screen::default()) else { return Ok(()) };
        let (before, after) = (texts_after(&snapshot, &[]), texts_after(&snapshot, &done.edits));
        prop_assert!(entries(&after).len() >= entries(&before).len());
        for text in after.values() {
            prop_assert!(text.len() <= memory::limits::MEMORY_BYTES_MAX);
        }
    }

    #[test]
    fn any_text_is_accepted_or_refused(content in any::<String>(), query in any::<String>()) {
        let snapshot = snapshot_of(Vec::new(), "2026-06-01T09:00:00Z".parse().unwrap());
        let request = RememberRequest { content, context_mode: ContextMode::Clean, scope: None };
        if let Ok(done) = remember(&snapshot, &request, &Screen::default()) {
            for edit in &done.edits {
                let lukasa_agents::CuratorEdit::Write { text, .. } = edit else { panic!("{edit:?}") };
                prop_assert!(document::parse_header(text.as_bytes()).malformed.is_none());
                prop_assert!(!document::entries(text).is_empty());
            }
            let again = snapshot_after(&snapshot, &done.edits);
            forget(&again, &ForgetRequest { query, scope: None, file: None });
            dream(&again);
        }
    }
}
