//! Parsing of any bytes: a header is always found, and the entries of a text are disjoint. An entry can be removed
//! without changing the rest, and a field that is set can be read back.

#![no_main]

use libfuzzer_sys::fuzz_target;
use memory::document::{body, description_line, entries, parse_header, set_field, without_entry};

fuzz_target!(|bytes: &[u8]| {
    let described = parse_header(bytes).description;
    assert_eq!(description_line(&described), described, "a description is one short line");
    let Ok(text) = str::from_utf8(bytes) else { return };
    if text.contains('\0') {
        return; // not a text for the store, so it is never edited
    }
    let entries = entries(text);
    assert!(entries.is_sorted_by(|a, b| a.range.end <= b.range.start));
    for entry in &entries {
        let removed = text.get(entry.range.clone()).expect("whole characters");
        assert_eq!(without_entry(text, entry).len(), text.len() - removed.len());
    }
    let named = set_field(text, "name", "set: by \"fuzz\"");
    assert_eq!(parse_header(named.as_bytes()).name.as_deref(), Some("set: by \"fuzz\""));
    assert!(named.ends_with(body(text)));
});
