//! Parsing of any text as a memory path: an accepted path has no segment that leads out of its folder, and
//! its text parses to the same path.

#![no_main]

use libfuzzer_sys::fuzz_target;
use memory::path::{Layout, MemoryPath, RelativePath};

fuzz_target!(|text: &str| {
    for layout in [Layout::Scoped, Layout::Flat] {
        let Ok(path) = MemoryPath::parse(text, layout) else { continue };
        let shown = path.to_string();
        assert_eq!(MemoryPath::parse(&shown, layout).as_ref(), Ok(&path));
        assert!(shown.split('/').skip(1).all(is_plain), "{shown}");
    }
    if let Ok(path) = RelativePath::parse(text) {
        assert_eq!(path.as_str(), text);
        assert!(path.segments().all(is_plain), "{path}");
    }
});

/// Checks whether a segment names a visible file in its folder.
fn is_plain(segment: &str) -> bool {
    let is_hidden = segment.is_empty() || segment.starts_with('.') || segment.contains("..");
    !is_hidden && !segment.contains(['\\', '~', '\0', '\n'])
}
