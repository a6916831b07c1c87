//! Whatever is remembered, asked for or lies in a memory: what is kept can be read back and is no larger than a
//! memory may be, a pinned memory loses nothing, and a dream has nothing left to do after itself.
//!
//! An input is three texts that zero bytes part: what is said, what is asked to be forgotten, and the bodies of
//! memories, each again parted by a line `%%`.

#![no_main]

use jiff::tz::TimeZone;
use libfuzzer_sys::fuzz_target;
use memory::change::Trust;
use memory::document;
use memory::limits::MEMORY_BYTES_MAX;
use memory::path::{Layout, MemoryPath, Mount, Scope};
use memory::screen::Screen;
use strum::VariantArray as _;

use crate::agents::request::{self, ContextMode, CuratorEdit, ForgetRequest, RememberRequest};
use crate::agents::review::{self, FINDINGS_MAX, MessageRole, ReviewMessage};
use crate::agents::rules::{
    EntryDates, ParsedText, Snapshot, StoredMemory, dream, forget, remember,
};

/// These modules of the curator, which stand on `memory` alone: the whole of it would bring SQLite and
/// take minutes to build.
#[path = "../../crates/agents/src"]
#[expect(dead_code, reason = "what only the port to a store uses")]
mod agents {
    pub mod request;
    pub mod review;
    pub mod rules;
}

/// Dreams after which nothing is held back any more: each does at least one of a few memories.
const DREAMS_MAX: usize = 64;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let mut texts = text.splitn(3, '\0');
    let mut next = || texts.next().unwrap_or_default().to_owned();
    let (content, query, bodies) = (next(), next(), next());
    let now = "2026-06-01T09:00:00Z".parse().expect("a time");
    let memories =
        bodies.replace('\0', " ").split("\n%%\n").take(8).enumerate().map(stored).collect();
    let snapshot = Snapshot {
        memories,
        occupied_paths: Vec::new(),
        failed_reads: Vec::new(),
        writable: Scope::VARIANTS.iter().copied().map(Mount::Scope).collect(),
        now,
        time_zone: TimeZone::UTC,
    };

    let asked = RememberRequest { content, context_mode: ContextMode::Workspace, scope: None };
    if let Ok(done) = remember(&snapshot, &asked, &Screen::default()) {
        for edit in &done.edits {
            let CuratorEdit::Write { text, .. } = edit else {
                panic!("remembering removes a memory")
            };
            assert!(text.len() <= MEMORY_BYTES_MAX);
            // Headings alone are no entries.
            assert!(!document::body(text).trim().is_empty());
        }
    }
    let said = |(at, text): (usize, &str)| ReviewMessage {
        id: at.to_string(),
        role: MessageRole::User,
        text: text.to_owned(),
    };
    let messages: Vec<ReviewMessage> =
        asked.content.split("\n%%\n").enumerate().map(said).collect();
    let found = agents::rules::review(&messages, now, &TimeZone::UTC);
    assert!(found.len() <= FINDINGS_MAX);
    let done = forget(&snapshot, &ForgetRequest { query, scope: None, file: None });
    check_pins(&snapshot, &done.edits);
    // One dream may add only so much, and holds the rest back for the next one. The last one is over.
    let mut dreaming = snapshot.clone();
    for _ in 0..DREAMS_MAX {
        let dreamt = dream(&dreaming);
        check_pins(&dreaming, &dreamt.edits);
        dreaming = edited(&dreaming, &dreamt.edits);
        if dreamt.deferred == 0 || dreamt.edits.is_empty() {
            break;
        }
    }
    assert_eq!(dream(&dreaming).edits, [], "a dream is over");
});

fn stored((index, body): (usize, &str)) -> StoredMemory {
    let scope = Scope::VARIANTS[index % Scope::VARIANTS.len()];
    let path = format!("/memories/{scope}/user/m{index}.md");
    StoredMemory {
        path: MemoryPath::parse(&path, Layout::Scoped).expect("a path"),
        text: ParsedText::from(body),
        pinned: index % 5 == 4,
        entry_dates: EntryDates::AllAt("2026-05-30T09:00:00Z".parse().expect("a time")),
        trust: if index % 2 == 0 { Trust::Outside } else { Trust::Agent },
        influenced: index % 3 == 0,
        written_by_review: false,
    }
}

fn check_pins(snapshot: &Snapshot, edits: &[CuratorEdit]) {
    let pinned =
        |path: &MemoryPath| snapshot.memories.iter().any(|one| one.path == *path && one.pinned);
    assert!(!edits.iter().any(|edit| pinned(edit.path())));
}

fn edited(snapshot: &Snapshot, edits: &[CuratorEdit]) -> Snapshot {
    let mut snapshot = snapshot.clone();
    for edit in edits {
        let place = snapshot.memories.iter().position(|one| one.path == *edit.path());
        match (edit, place) {
            (CuratorEdit::Write { text, .. }, Some(place)) => {
                snapshot.memories[place].text = text.as_str().into();
            }
            (CuratorEdit::Write { path, text }, None) => snapshot.memories.push(StoredMemory {
                path: path.clone(),
                text: text.as_str().into(),
                pinned: false,
                entry_dates: EntryDates::Unknown,
                trust: Trust::Background,
                influenced: false,
                written_by_review: false,
            }),
            (CuratorEdit::Remove { .. }, place) => {
                drop(snapshot.memories.remove(place.expect("only what is there is removed")));
            }
        }
    }
    snapshot
}
