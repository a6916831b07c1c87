//! Fingerprints only select what is compared: without them the rules decide alike.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use jiff::tz::TimeZone;
use memory::change::Trust;
use memory::document;
use memory::path::{Layout, MemoryPath, Mount, Scope};
use memory::screen::Screen;
use proptest::prelude::*;

use super::*;
use crate::request::{ContextMode, ForgetRequest, RememberRequest};
use crate::rules::similarity::{DocumentFrequencies, content_keys};
use crate::rules::snapshot::{EntryDates, ParsedEntry, ParsedText, Snapshot, StoredMemory};
use crate::rules::{candidates, dream, forget, remember};

const SENTENCES: &[&str] = &[
    "The port of the test database is 5433",
    "Alice reports to Bob and reviews the billing service",
    "Deploys run on Friday, after the backup (2026-02-03)",
    "We do not use Jenkins for the nightly import",
    "The freezer rental ends until 2026-03-01",
    "I am allergic to peanuts and live in Porto",
    "Der Server für die Rechnungen steht in Hamburg",
    "Die Kantine öffnet morgen nicht vor zwölf Uhr",
    "Le serveur de test est remplacé chaque lundi",
    "El puerto de la base de datos es 8080",
    "O limite do arquivo agora é de 9 MB",
    "Il gatto dorme sempre nella cantina vecchia",
    "De poort van de nieuwe dienst is open",
    "Сервер резервных копий стоит в Казани",
    "备份服务器每天晚上运行两次",
    "会議は金曜日の午後に入れない",
    "백업 서버는 매일 밤 실행된다",
    "ตลาดเปิดทุกวันศุกร์",
    "Call `just x --fast` from src/main.rs, US only",
];

const WORDS: &[&str] = &[
    "now",
    "not",
    "never",
    "no longer",
    "moved to",
    "since",
    "until",
    "only",
    "by",
    "the",
    "my",
    "2026-05-04",
    "4 May 2026",
    "Friday",
    "tomorrow",
    "9090",
    "60 s",
    "Hamburg",
    "databases",
    "Alyce",
    "nicht mehr",
    "jetzt",
    "ne",
    "ya no",
    "не",
    "不",
    "サーバー",
    "备份",
    "US",
    "C++",
    "🙂",
    ",",
    ":",
];

/// A change of one word.
#[derive(Clone, Copy, Debug)]
enum WordChange {
    Insert,
    Replace,
    Remove,
    Swap,
}

fn statement() -> impl Strategy<Value = String> {
    let kinds = [WordChange::Insert, WordChange::Replace, WordChange::Remove, WordChange::Swap];
    let change = (
        prop::sample::select(kinds.to_vec()),
        any::<prop::sample::Index>(),
        prop::sample::select(WORDS),
    );
    (prop::sample::select(SENTENCES), prop::collection::vec(change, 0..4)).prop_map(
        |(sentence, changes)| {
            let mut words: Vec<&str> = sentence.split(' ').collect();
            for (change, index, word) in changes {
                let at = index.index(words.len());
                match change {
                    WordChange::Insert => words.insert(at, word),
                    WordChange::Replace => words[at] = word,
                    WordChange::Remove if words.len() > 1 => drop(words.remove(at)),
                    WordChange::Remove => {}
                    WordChange::Swap => words.swap(0, at),
                }
            }
            words.join(" ")
        },
    )
}

fn memory_text() -> impl Strategy<Value = String> {
    let kinds = prop::sample::select(vec!["user", "feedback", "project", "reference"]);
    let bullets = prop::sample::select(vec!["- ", "- ", "- ", "- ", "", "1. ", "## "]);
    let reasons = prop::option::weighted(0.2, statement());
    let entries = prop::collection::vec((bullets, statement(), reasons), 0..7);
    (kinds, prop::option::of(statement()), entries).prop_map(|(kind, description, entries)| {
        let mut text = format!("---\ntype: {kind}\n---\n\n");
        for (bullet, statement, reasons) in entries {
            writeln!(text, "{bullet}{statement}").unwrap();
            if let Some(reasons) = reasons {
                writeln!(text, "  Why: {reasons}").unwrap();
            }
        }
        match description {
            Some(description) => document::set_field(&text, "description", &description),
            None => text,
        }
    })
}

fn snapshot() -> impl Strategy<Value = Snapshot> {
    let marks = (0..12_u8, any::<bool>());
    prop::collection::vec((memory_text(), marks), 1..12).prop_map(|texts| {
        let now = "2026-06-01T09:00:00Z".parse().unwrap();
        let memories = texts.into_iter().enumerate().map(|(number, (text, (mark, is_global)))| {
            let scope = if is_global { "global" } else { "project" };
            let path = format!("/memories/{scope}/user/kettle-{number}.md");
            StoredMemory {
                path: MemoryPath::parse(&path, Layout::Scoped).unwrap(),
                text: text.into(),
                pinned: mark == 0,
                entry_dates: EntryDates::AllAt(now),
                trust: if mark == 1 { Trust::Outside } else { Trust::Person },
                influenced: mark == 2,
                written_by_review: mark == 3,
            }
        });
        Snapshot {
            memories: memories.collect(),
            occupied_paths: Vec::new(),
            failed_reads: Vec::new(),
            writable: vec![Mount::Scope(Scope::Global), Mount::Scope(Scope::Project)],
            now,
            time_zone: TimeZone::UTC,
        }
    })
}

fn query() -> impl Strategy<Value = String> {
    let orders =
        ["forget ", "forget that ", "forget everything about ", "vergiss ", "忘れて: ", ""];
    let words =
        (statement(), 1..5_usize, any::<bool>()).prop_map(|(statement, count, is_short)| {
            let words: Vec<&str> = statement.split(' ').collect();
            let count = if is_short { count.min(words.len()) } else { words.len() };
            words[words.len() - count..].join(" ")
        });
    (prop::sample::select(orders.to_vec()), words)
        .prop_map(|(order, words)| format!("{order}{words}"))
}

/// Returns the result of a decision with and without fingerprints.
fn with_and_without<T>(decide: impl Fn() -> T) -> (T, T) {
    let selected = decide();
    IS_SELECTION_ENABLED.set(false);
    let all = decide();
    IS_SELECTION_ENABLED.set(true);
    (selected, all)
}

fn entries(snapshot: &Snapshot) -> impl Iterator<Item = &ParsedEntry> {
    snapshot.memories.iter().flat_map(|stored| &stored.text.parsed().entries)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn remembering_decides_alike_without_fingerprints(snapshot in snapshot(), content in statement()) {
        let request = RememberRequest { content, context_mode: ContextMode::Workspace, scope: None };
        let decide = || format!("{:?}", remember(&snapshot, &request, &Screen::default()));
        let (selected, all) = with_and_without(decide);
        prop_assert_eq!(selected, all);
    }

    #[test]
    fn forgetting_decides_alike_without_fingerprints(snapshot in snapshot(), query in query()) {
        let request = ForgetRequest { query, scope: None, file: None };
        let (selected, all) = with_and_without(|| format!("{:?}", forget(&snapshot, &request)));
        prop_assert_eq!(selected, all);
    }

    #[test]
    fn a_dream_decides_alike_without_fingerprints(snapshot in snapshot()) {
        let (selected, all) = with_and_without(|| dream(&snapshot));
        prop_assert_eq!(selected, all);
    }

    #[test]
    fn words_are_counted_as_by_their_keys(snapshot in snapshot(), query in statement()) {
        let mut counts: HashMap<String, usize> = HashMap::new();
        for entry in entries(&snapshot) {
            let text = entry.tokenize();
            let keys: BTreeSet<String> =
                content_keys(&text).into_iter().map(|(key, _)| key.to_owned()).collect();
            for key in keys {
                *counts.entry(key).or_default() += 1;
            }
        }
        let all = DocumentFrequencies::from_entries(entries(&snapshot));
        let text = TokenizedText::tokenize(&query);
        let mut some = DocumentFrequencies::in_entries(entries(&snapshot).count());
        some.count_words(significant_keys(&token_fingerprints(&text)), entries(&snapshot));
        for (key, _) in content_keys(&text) {
            let count = counts.get(key).copied().unwrap_or_default();
            prop_assert_eq!((all.entries_with(key), some.entries_with(key)), (count, count), "{}", key);
        }
        for (key, count) in counts {
            prop_assert_eq!(all.entries_with(&key), count, "{}", key);
        }
    }

    #[test]
    fn candidates_are_ranked_by_shared_keys(snapshot in snapshot(), query in query()) {
        let request = ForgetRequest { query: query.clone(), scope: None, file: None };
        let query = TokenizedText::tokenize(&query);
        let shared = |entry: &ParsedEntry| {
            let text = entry.tokenize();
            let keys = content_keys(&text);
            content_keys(&query).iter().any(|(key, _)| keys.iter().any(|(other, _)| other == key))
        };
        let ranked = candidates(&snapshot, &request, usize::MAX);
        prop_assert!(ranked.is_sorted_by_key(|(_, entry)| !shared(entry)));
    }

    #[test]
    fn tokens_are_restored_from_their_text(text in prop_oneof![any::<String>(), statement()]) {
        let tokenized = TokenizedText::tokenize(&text);
        let fingerprints = token_fingerprints(&tokenized);
        let words: Vec<Option<String>> = fingerprints.iter().map(|token| token.word_in(&text)).collect();
        let expected: Vec<Option<String>> = tokenized.tokens.into_iter().map(|token| Some(token.word)).collect();
        prop_assert_eq!(words, expected);
    }

    #[test]
    fn an_entry_keeps_its_texts(text in prop_oneof![any::<String>(), memory_text()]) {
        let parsed = ParsedText::from(text.as_str());
        let expected = document::entries(&text);
        let entries: Vec<_> = parsed.parsed().entries.iter().map(ParsedEntry::entry).collect();
        prop_assert_eq!(&entries, &expected);
        for (entry, expected) in parsed.parsed().entries.iter().zip(&expected) {
            prop_assert_eq!(entry.full_text(), expected.full_text(&text));
        }
    }
}

#[test]
fn a_token_of_any_length_is_found() {
    let long = "x".repeat(usize::from(TOKEN_BYTES_MAX) + 1);
    let text = TokenizedText::tokenize(&long);
    assert_eq!(token_fingerprints(&text)[0].word_in(&long), None);
    let path = MemoryPath::parse("/memories/global/a.md", Layout::Scoped).unwrap();
    let memory = StoredMemory {
        path,
        text: format!("- The {long} is green\n").into(),
        pinned: false,
        entry_dates: EntryDates::Unknown,
        trust: Trust::Person,
        influenced: false,
        written_by_review: false,
    };
    let snapshot = Snapshot {
        memories: vec![memory],
        occupied_paths: Vec::new(),
        failed_reads: Vec::new(),
        writable: vec![Mount::Scope(Scope::Global)],
        now: "2026-06-01T09:00:00Z".parse().unwrap(),
        time_zone: TimeZone::UTC,
    };
    let request = ForgetRequest { query: format!("forget the {long}"), scope: None, file: None };
    assert_eq!(forget(&snapshot, &request).removed.len(), 1);
}
