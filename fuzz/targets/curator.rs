//! The rule curator on any input: written memories are within the size limit, pinned memories are not changed by forget
//! and dream, and repeated dreams come to an end.
//!
//! An input is three texts separated by zero bytes: the text to remember, the query to forget, and the bodies of
//! memories. Messages and bodies are separated by a line `%%`.

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

/// The modules of the curator that depend on `memory` alone. The whole crate would bring in SQLite and
/// take minutes to build.
#[path = "../../crates/agents/src"]
#[expect(dead_code, reason = "used only by the port to a store")]
mod agents {
    pub mod request;
    pub mod review;
    pub mod rules;
}

/// The maximum number of dreams until none is deferred: each handles at least one of the few memories.
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

    let request = RememberRequest { content, context_mode: ContextMode::Workspace, scope: None };
    if let Ok(done) = remember(&snapshot, &request, &Screen::default()) {
        for edit in &done.edits {
            let CuratorEdit::Write { text, .. } = edit else {
                panic!("remembering removes a memory")
            };
            assert!(text.len() <= MEMORY_BYTES_MAX);
            // Headings alone are not entries.
            assert!(!document::body(text).trim().is_empty());
        }
    }
    let message = |(index, text): (usize, &str)| ReviewMessage {
        id: index.to_string(),
        role: MessageRole::User,
        text: text.to_owned(),
    };
    let messages: Vec<ReviewMessage> =
        request.content.split("\n%%\n").enumerate().map(message).collect();
    let found = agents::rules::review(&messages, now, &TimeZone::UTC);
    assert!(found.len() <= FINDINGS_MAX);
    let done = forget(&snapshot, &ForgetRequest { query, scope: None, file: None });
    check_pins(&snapshot, &done.edits);
    // One dream changes a limited number of memories and defers the rest to the next one.
    let mut dreaming = snapshot.clone();
    for _ in 0..DREAMS_MAX {
        let dreamt = dream(&dreaming);
        check_pins(&dreaming, &dreamt.edits);
        dreaming = edited(&dreaming, &dreamt.edits);
        if dreamt.deferred == 0 || dreamt.edits.is_empty() {
            break;
        }
    }
    assert_eq!(dream(&dreaming).edits, [], "a last dream changes nothing");
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
    let pinned = |path: &MemoryPath| {
        snapshot.memories.iter().any(|memory| memory.path == *path && memory.pinned)
    };
    assert!(!edits.iter().any(|edit| pinned(edit.path())));
}

fn edited(snapshot: &Snapshot, edits: &[CuratorEdit]) -> Snapshot {
    let mut snapshot = snapshot.clone();
    for edit in edits {
        let index = snapshot.memories.iter().position(|memory| memory.path == *edit.path());
        match (edit, index) {
            (CuratorEdit::Write { text, .. }, Some(index)) => {
                snapshot.memories[index].text = text.as_str().into();
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
            (CuratorEdit::Remove { .. }, index) => {
                drop(snapshot.memories.remove(index.expect("only an existing memory is removed")));
            }
        }
    }
    snapshot
}
