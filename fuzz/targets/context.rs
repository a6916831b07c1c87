//! Whatever an instruction file says: what it asks to be imported stands where that is said, in order, and nothing
//! overlaps.
//!
//! An input is the text of a file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use memory::context_file::find_imports;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let (asked, _) = find_imports(text);
    let mut end = 0;
    for one in &asked {
        assert!(!one.candidates.is_empty(), "an import that cannot be read in any way");
        let mut furthest = end;
        for reading in &one.candidates {
            let written = text.get(reading.range.clone()).expect("a range of the text");
            assert!(reading.range.start >= end, "imports overlap");
            assert!(written.contains(reading.path.as_str()), "a path that is not written there");
            assert!(!reading.path.is_empty() && !reading.path.contains('\n'), "no path");
            furthest = furthest.max(reading.range.end);
        }
        end = furthest;
    }
    // What is found does not hang on what follows a line that ends the text.
    assert_eq!(find_imports(text), (asked, find_imports(text).1), "two looks differ");
});
