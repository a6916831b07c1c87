//! Imports of an instruction file: each is found at its place in the text, in order, and no two overlap.
//!
//! An input is the text of a file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use memory::context_file::find_imports;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let (imports, _) = find_imports(text);
    let mut end = 0;
    for import in &imports {
        assert!(!import.candidates.is_empty(), "an import without candidates");
        let mut furthest = end;
        for candidate in &import.candidates {
            let written = text.get(candidate.range.clone()).expect("a range of the text");
            assert!(candidate.range.start >= end, "imports overlap");
            assert!(written.contains(candidate.path.as_str()), "a path that is not in its range");
            assert!(
                !candidate.path.is_empty() && !candidate.path.contains('\n'),
                "an invalid path"
            );
            furthest = furthest.max(candidate.range.end);
        }
        end = furthest;
    }
    // The result depends on the text alone.
    assert_eq!(find_imports(text), (imports, find_imports(text).1), "two results differ");
});
