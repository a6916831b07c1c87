//! Any bytes have a head; the entries of any text are disjoint, and one can be taken out without
//! touching the rest; a field that is set can be read back.

#![no_main]

use libfuzzer_sys::fuzz_target;
use memory::document::{body, description_line, entries, parse_header, set_field, without_entry};

fuzz_target!(|bytes: &[u8]| {
    let described = parse_header(bytes).description;
    assert_eq!(description_line(&described), described, "it is one short line already");
    let Ok(text) = str::from_utf8(bytes) else { return };
    if text.contains('\0') {
        return; // no text, as the store sees it: it is never edited
    }
    let entries = entries(text);
    assert!(entries.is_sorted_by(|a, b| a.range.end <= b.range.start));
    for entry in &entries {
        let taken = text.get(entry.range.clone()).expect("whole characters");
        assert_eq!(without_entry(text, entry).len(), text.len() - taken.len());
    }
    let named = set_field(text, "name", "set: by \"fuzz\"");
    assert_eq!(parse_header(named.as_bytes()).name.as_deref(), Some("set: by \"fuzz\""));
    assert!(named.ends_with(body(text)));
});
